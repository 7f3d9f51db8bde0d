//! Finds a recording: in a run folder, mapped into a process (`/proc/PID/maps`), or in the newest private folder that an ended process has left.
//!
//! Must not: trust a process id alone. The kernel reuses ids; the time at which the process started identifies it.

use crate::folder::old_runs;
pub(crate) use crate::folder::opened::{settings_of, Opened, RecordingFile};
pub(crate) use crate::folder::process::RECORDING;
use crate::folder::process::{denied, recording_of, Status};
use crate::folder::refused::maps_of;
use crate::machine::files;
use crate::words::Failure;
use lazyguard_core::report::{other_schema, HangReport, SCHEMA};
pub(crate) use lazyguard_core::run_folder::file::HAZARDS;
use lazyguard_core::run_folder::file::{HANG, RUN};
use lazyguard_core::settings;
use lazyguard_core::trace::read::{LiveRecording, Recording, Unreadable};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

const OF_A_PROCESS: [&str; 4] = [RUN, HANG, HAZARDS, RECORDING];

#[derive(Clone, Debug, Default)]
pub(crate) struct Run {
    /// The run folder; `None` for a recording that the user named by its own path.
    pub folder: Option<PathBuf>,
    pub recording: Option<PathBuf>,
    pub process: Option<u32>,
}

impl Run {
    /// Finds the run of a process id, a run folder, or the path of a recording, and says what else is in that folder.
    pub fn find(what: &Path) -> Result<Self, Failure> {
        let run = Self::find_quietly(what)?;
        if run.process.is_none() && run.folder.is_some() && what.is_dir() {
            old_runs::say_what_else_is_in(what);
        }
        Ok(run)
    }

    pub fn find_quietly(what: &Path) -> Result<Self, Failure> {
        match fs::metadata(what) {
            Ok(found) if found.is_dir() => {
                let recording = what.join(RECORDING);
                let missing = fs::symlink_metadata(&recording).err();
                if let Some(why) = missing.as_ref().and_then(|error| denied(&recording, error)) {
                    return Err(Failure::at(what, why));
                }
                let recording = missing.is_none().then_some(recording);
                Ok(Self { folder: Some(what.to_owned()), recording, process: None })
            }
            Ok(_) => Ok(Self { folder: None, recording: Some(what.to_owned()), process: None }),
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Failure::at(what, error)),
            Err(_) => match what.to_str().and_then(|text| text.parse().ok()) {
                Some(process) => Self::of_process(process),
                None => Err(Failure::at(what, "there is no such folder, and it is no number of a process")),
            },
        }
    }

    pub fn without_a_recording(what: &Path) -> Option<u32> {
        let process = what.to_str().filter(|_| !what.exists()).and_then(|text| text.parse().ok())?;
        let unrecorded = |maps: String| recording_of(process, &maps).is_ok_and(|recording| recording.is_none());
        (Status::of(process) != Status::Gone && maps_of(process).is_ok_and(unrecorded)).then_some(process)
    }

    fn of_process(process: u32) -> Result<Self, Failure> {
        let failure = |why: &str| Failure::Input(format!("process {process}: {why}"));
        if Status::of(process) == Status::Gone {
            let left = old_runs::by(process).map_err(|hidden| failure(&hidden))?;
            let folder = left.ok_or_else(|| {
                failure(
                    "there is no process with this id, and no folder of this name, nor a private folder that such a process has left; if \
                     it had LAZYGUARD_OUT, name that folder",
                )
            })?;
            let recording = Some(folder.join(RECORDING)).filter(|path| fs::symlink_metadata(path).is_ok());
            return Ok(Self { folder: Some(folder), recording, process: None });
        }
        if let Some(recording) = recording_of(process, &maps_of(process)?)? {
            let folder = recording.file_name().filter(|name| *name == RECORDING).and(recording.parent());
            return Ok(Self { folder: folder.map(Path::to_owned), recording: Some(recording), process: Some(process) });
        }
        let earlier = old_runs::folders_of(process).own.into_iter().next().map(|found| {
            format!("; an earlier process of this number left {0}: lazyguard report {0}", found.path.display())
        });
        Err(failure(&format!(
            "keeps no recording in a file: it is not guarded, has not initialised CUDA, was told LAZYGUARD_RECORD=off, or has said at its \
             start that the recording is kept in memory; one that is not guarded: lazyguard report {process}{}",
            earlier.unwrap_or_default()
        )))
    }

    pub fn open(&self) -> Result<Option<Opened>, Failure> {
        let Some((path, recording)) = self.open_as(Recording::open)? else { return Ok(None) };
        let status = Status::of(self.process.unwrap_or(recording.facts().process));
        let alive = status.started() == Some(recording.facts().start_ticks);
        let (path, process) = (path.clone(), self.process);
        Ok(Some(Opened { path, recording, alive, hidden: status == Status::Hidden, process }))
    }

    pub fn open_live(&self) -> Result<Option<LiveRecording<RecordingFile>>, Failure> {
        Ok(self.open_as(LiveRecording::open)?.map(|(_, live)| live))
    }

    fn open_as<T>(
        &self,
        read: impl FnOnce(RecordingFile) -> Result<T, Unreadable>,
    ) -> Result<Option<(&PathBuf, T)>, Failure> {
        let Some(path) = &self.recording else { return Ok(None) };
        let failure = |error: &dyn std::fmt::Display| Failure::at(path, error);
        let file = self.open_file(path).map_err(|error| failure(&denied(path, &error).unwrap_or(error.to_string())))?;
        let read = read(RecordingFile::of(file)).map_err(|error| match error {
            // For a file of another name, zeros mean nothing.
            Unreadable::NeverBegun if path.file_name().is_none_or(|name| name != RECORDING) => {
                failure(&Unreadable::NotARecording)
            }
            error => failure(&error),
        })?;
        Ok(Some((path, read)))
    }

    /// A file of a run folder is no link; what the user names, and what a process has mapped, may be reached by one.
    fn open_file(&self, path: &Path) -> io::Result<File> {
        match (&self.folder, self.process) {
            (Some(_), None) => files::open_unlinked(path),
            _ => files::open(path),
        }
    }

    pub fn must_open(&self) -> Result<Opened, Failure> {
        self.open()?.ok_or_else(|| {
            Failure::at(self.folder.as_deref().unwrap_or(Path::new(".")), format!("holds no recording ({RECORDING})"))
        })
    }
}

pub(crate) fn duration(text: &str) -> Result<u64, String> {
    settings::duration(text).ok_or_else(|| "not a duration: 250us, 1.5s, 2m".to_owned())
}

pub(crate) fn is_process_folder(folder: &Path) -> bool {
    OF_A_PROCESS.iter().any(|name| folder.join(name).exists())
}

pub(crate) fn hang_in(folder: &Path) -> Result<Option<HangReport>, Failure> {
    Ok(read(folder, HANG)?.map(HangReport::diagnosed_anew))
}

pub(crate) fn read<T: serde::de::DeserializeOwned>(folder: &Path, name: &str) -> Result<Option<T>, Failure> {
    let path = folder.join(name);
    let text = match files::read_text_in(folder, name) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            let why = denied(&path, &error).unwrap_or_else(|| error.to_string());
            return Err(Failure::at(path, why));
        }
    };
    if let Some(schema) = other_schema(&text) {
        let why = format!("it is of format {schema}{}; this build reads format {SCHEMA}", written_by(folder));
        return Err(Failure::at(path, why));
    }
    serde_json::from_str(&text).map(Some).map_err(|error| Failure::at(path, error))
}

/// The LazyGuard that has written the files of a folder, as its summary or its recording says.
fn written_by(folder: &Path) -> String {
    #[derive(serde::Deserialize)]
    struct Written {
        version: String,
    }
    let summary = || files::json_in::<Written>(folder, RUN).map(|written| written.version);
    let recording = || {
        let opened = Run::find_quietly(folder).ok()?.open().ok()??;
        Some(opened.recording.facts().lazyguard.clone()).filter(|version| !version.is_empty())
    };
    let version = summary().or_else(recording);
    version.map(|version| format!(", written by LazyGuard {version}")).unwrap_or_default()
}
