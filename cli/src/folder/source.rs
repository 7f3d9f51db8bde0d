//! Finds a recording: in a run folder, or mapped into a process.
//!
//! The command finds the recording of a live process through `/proc/PID/maps`, without its run folder. In another mount namespace the
//! process's path may name another file here; the right file names the process's start.
//!
//! An ended process may have left a private folder with its id in the name; the command takes the newest. A folder may hold other runs
//! beneath its own, where several were given the same `LAZYGUARD_OUT`. The command says on standard error which one it took.
//!
//! Must not: trust a process id alone. The kernel reuses ids; the time at which the process started identifies it.

use crate::folder::process::{ask_as, denied, maps_of, recording_of, Status};
pub(crate) use crate::folder::recording_header::RECORDING;
use crate::folder::{ends, old_runs};
use crate::machine::files;
use crate::machine::system::host_name;
use crate::stacks::symbolize::Symbolizer;
use crate::words::output::Progress;
use crate::words::Failure;
use lazyguard_core::api::counted;
use lazyguard_core::diagnose::{Snapshot, SnapshotBuilder};
use lazyguard_core::report::{HangReport, Newest};
use lazyguard_core::run_folder::file::HANG;
use lazyguard_core::settings::{self, Settings};
use lazyguard_core::trace::read::{Entry, LiveRecording, ProcessState, Recording, Source, Unreadable};
use lazyguard_core::trace::{Kind, Lane, Record};
use lazyguard_core::Nanos;
use rustix::fs::SeekFrom;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(crate) const HAZARDS: &str = "hazards.json";

/// A folder that holds one of these is a process's.
const OF_A_PROCESS: [&str; 4] = ["run.json", "hang.json", HAZARDS, RECORDING];

/// A call that had been in progress for this long may have been stuck, in a process that was killed: that may have been why.
const SUSPICIOUS_AT_THE_END_NANOS: Nanos = 50_000_000;

#[derive(Clone, Debug)]
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

    /// The same without a line.
    pub fn find_quietly(what: &Path) -> Result<Self, Failure> {
        match fs::metadata(what) {
            Ok(found) if found.is_dir() => {
                let recording = what.join(RECORDING);
                let is_there = match fs::symlink_metadata(&recording) {
                    Ok(_) => true,
                    Err(error) => match denied(&recording, &error) {
                        Some(why) => return Err(Failure::Input(format!("{}: {why}", what.display()))),
                        None => false,
                    },
                };
                return Ok(Self {
                    folder: Some(what.to_owned()),
                    recording: is_there.then_some(recording),
                    process: None,
                });
            }
            Ok(_) => return Ok(Self { folder: None, recording: Some(what.to_owned()), process: None }),
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Failure::Input(format!("{}: {error}", what.display())));
            }
            Err(_) => {}
        }
        match what.to_str().and_then(|text| text.parse().ok()) {
            Some(process) => Self::of_process(process),
            None => Err(Failure::Input(format!(
                "{}: there is no such folder, and it is no number of a process",
                what.display()
            ))),
        }
    }

    /// The process that this number is of, where it runs and keeps no recording in a file.
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
        let earlier = old_runs::folders_of(process).own.into_iter().next();
        let earlier = earlier.map(|found| {
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
        let alive = status.started() == Some(recording.facts().process_start_ticks);
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
        let failure = |error: &dyn std::fmt::Display| Failure::Input(format!("{}: {error}", path.display()));
        let file = self.open_file(path).map_err(|error| match denied(path, &error) {
            Some(why) => failure(&why),
            None => failure(&error),
        })?;
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

    /// Opens the recording of a command that is about nothing else.
    pub fn must_open(&self) -> Result<Opened, Failure> {
        self.open()?.ok_or_else(|| {
            let folder = self.folder.as_deref().unwrap_or(Path::new("."));
            Failure::Input(format!("{}: holds no recording ({RECORDING})", folder.display()))
        })
    }
}

pub(crate) struct RecordingFile {
    file: File,
    /// Whether the file is sparse. The guard's own files are not.
    has_holes: bool,
}

impl RecordingFile {
    fn of(file: File) -> Self {
        /// Bytes in one of the blocks that `stat` counts.
        const BLOCK: u64 = 512;
        let has_holes = file.metadata().is_ok_and(|about| about.blocks().saturating_mul(BLOCK) < about.len());
        Self { file, has_holes }
    }
}

impl Source for RecordingFile {
    fn len(&self) -> io::Result<u64> {
        Source::len(&self.file)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        Source::read_at(&self.file, offset, buffer)
    }

    fn next_data(&self, offset: u64) -> u64 {
        // No other code uses the file's position.
        match self.has_holes.then(|| rustix::fs::seek(&self.file, SeekFrom::Data(offset))) {
            Some(Ok(data)) => data,
            Some(Err(Errno::NXIO)) => u64::MAX,
            // A file system that does not report it.
            Some(Err(_)) | None => offset,
        }
    }
}

pub(crate) struct Opened {
    pub path: PathBuf,
    pub recording: Recording<RecordingFile>,
    /// Whether its process is alive, as far as this user may know.
    pub alive: bool,
    /// Whether that is unknown: a process with its id exists, and is hidden from this user.
    pub hidden: bool,
    process: Option<u32>,
}

impl Opened {
    /// Why some records are missing, where the file has been truncated.
    pub fn cut_short(&self) -> Option<Failure> {
        let missing = self.recording.missing_bytes();
        let why = || {
            format!(
                "{}: the file ends {} early, and what was there is lost",
                self.path.display(),
                counted(missing, "byte")
            )
        };
        (missing > 0).then(|| Failure::Input(why()))
    }

    /// The process by the id that it has here, as long as it is alive.
    pub fn live_process(&self) -> Option<u32> {
        self.alive.then(|| self.process.unwrap_or(self.recording.facts().process))
    }

    /// Whether the process has ended without an orderly end.
    pub fn was_cut_off(&self) -> bool {
        !self.alive && self.recording.facts().state != ProcessState::Ended
    }

    /// The state of the process, in a word for programs.
    pub fn state(&self) -> &'static str {
        match self.recording.facts().state {
            ProcessState::Ended => "ended",
            ProcessState::SteppedAside => "stepped aside",
            ProcessState::Guarded => "guarded",
            ProcessState::Unknown(_) => "unknown",
        }
    }

    /// The same for a person.
    pub fn state_in_words(&self) -> String {
        let facts = self.recording.facts();
        match facts.state {
            ProcessState::Ended => "ended".to_owned(),
            ProcessState::SteppedAside if self.alive => "is running; the guard has stepped aside".to_owned(),
            ProcessState::SteppedAside => "has ended; the guard had stepped aside before".to_owned(),
            ProcessState::Guarded if self.alive => "is running".to_owned(),
            ProcessState::Guarded if self.hidden && self.is_of_this_machine() => format!(
                "was killed or ended without an exit, or still runs: there is a process with its number, and {}",
                ask_as(None)
            ),
            ProcessState::Guarded if self.is_of_this_machine() => "was killed or ended without an exit".to_owned(),
            ProcessState::Guarded => format!(
                "was killed or ended without an exit, or still runs on {}, which is not this machine",
                facts.host
            ),
            ProcessState::Unknown(state) => format!("is in a state that this build does not know ({state})"),
        }
    }

    /// The same as the `lazyguard run` around it saw it, if there was one.
    pub fn end_in_words(&self) -> String {
        let facts = self.recording.facts();
        let folder = self.path.parent();
        let seen = folder.and_then(|folder| ends::of(folder, facts.process, Some(facts.process_start_ticks)));
        ends::words(seen, self.state() == "ended", || self.state_in_words())
    }

    /// Whether the process ran on this machine, as far as is known.
    pub fn is_of_this_machine(&self) -> bool {
        let host = &self.recording.facts().host;
        // If this machine's name is unknown, the recording may be of this machine.
        host.is_empty() || host_name().is_none_or(|name| name == *host)
    }

    /// The calls that had not returned when the recording was read, the oldest first.
    pub fn calls_in_progress(&self) -> VecDeque<Entry> {
        let threads = self.recording.threads().iter();
        let mut calls: Vec<_> = threads
            .filter_map(|thread| {
                let record = thread.call_in_progress?;
                let lane = match record.kind {
                    Kind::Call | Kind::Queries => Lane::of(record.entry_point.class()),
                    _ => Lane::RareEvents,
                };
                Some(Entry { thread_number: thread.number, thread: thread.thread, lane, number: 0, record })
            })
            .collect();
        calls.sort_by_key(|call| call.record.entered);
        calls.into()
    }

    pub fn settings(&self) -> Settings {
        settings_of(&self.recording)
    }

    /// A snapshot of the time at which the process was last seen; `builder` has seen all records.
    pub fn standstill(&self, builder: &mut SnapshotBuilder) -> Snapshot {
        if self.alive {
            builder.alive_at(self.last_seen());
        }
        // A killed process need not have waited as long as the live report requires.
        let threshold = match self.settings().hang_after_nanos {
            after if !self.was_cut_off() => after,
            0 => SUSPICIOUS_AT_THE_END_NANOS,
            after => after.min(SUSPICIOUS_AT_THE_END_NANOS),
        };
        builder.snapshot(&self.recording, threshold, self.settings().patience_nanos())
    }

    /// Now for a process that is alive, else the last moment at which it was seen.
    pub fn last_seen(&self) -> Nanos {
        let facts = self.recording.facts();
        if !self.alive {
            return facts.last_seen;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH + Duration::from_nanos(facts.armed_unix_nanos));
        u64::try_from(now.unwrap_or_default().as_nanos()).unwrap_or(0).max(facts.last_seen)
    }

    /// The newest state of a hang that was reported live, by the tables alone, if one of its calls has not returned.
    pub fn newest(&self, hang: &HangReport) -> Option<Newest> {
        let threads = self.recording.threads();
        let lasts = hang.snapshot.blocked.iter().any(|call| {
            let same = |record: &Record| record.entered == call.entered;
            threads.iter().any(|seen| seen.thread == call.thread && seen.call_in_progress.as_ref().is_some_and(same))
        });
        (lasts && hang.resolved.is_none()).then(|| Newest { at: self.last_seen(), is_now: self.alive })
    }

    pub fn callers(&self) -> Symbolizer {
        let callers = Symbolizer::new(self.recording.strings().files(), self.recording.facts().armed_unix_nanos);
        match self.live_process() {
            Some(process) => callers.and_process(process),
            None => callers,
        }
    }

    /// Goes through all records, and the calls in progress among them, in the order in which they were entered.
    pub fn each_in_order(&self, mut each: impl FnMut(&Entry) -> Result<(), Failure>) -> Result<(), Failure> {
        let mut in_progress = self.calls_in_progress();
        self.each_record(|entry| {
            while in_progress.front().is_some_and(|call| call.record.entered < entry.record.entered) {
                in_progress.pop_front().iter().try_for_each(&mut each)?;
            }
            each(entry)
        })?;
        in_progress.iter().try_for_each(each)
    }

    /// Goes through all records, with progress on standard error if that is a terminal.
    pub fn each_record(&self, mut each: impl FnMut(&Entry) -> Result<(), Failure>) -> Result<(), Failure> {
        let mut progress = Progress::new();
        let mut records = self.recording.records();
        let mut since = 0_u32;
        while let Some(entry) = records.next() {
            each(&entry)?;
            since += 1;
            if since == 1 << 16 {
                since = 0;
                let (done, all) = records.progress();
                progress.show(done as u64, all as u64);
            }
        }
        drop(progress);
        match records.error() {
            Some(error) => Err(Failure::Input(format!("{}: {error}", self.path.display()))),
            None => Ok(()),
        }
    }
}

pub(super) fn settings_of<S: Source>(recording: &Recording<S>) -> Settings {
    let settings = recording.strings().settings().iter();
    Settings::read(settings.filter_map(|setting| setting.text.split_once('='))).0
}

/// A duration or a moment, in nanoseconds, as settings have it.
pub(crate) fn duration(text: &str) -> Result<u64, String> {
    settings::duration(text).ok_or_else(|| "not a duration: 250us, 1.5s, 2m".to_owned())
}

pub(crate) fn is_process_folder(folder: &Path) -> bool {
    OF_A_PROCESS.iter().any(|name| folder.join(name).exists())
}

/// The hang that the watchdog has reported, if it has one, with the verdicts that this build comes to.
pub(crate) fn hang_in(folder: &Path) -> Result<Option<HangReport>, Failure> {
    Ok(read(folder, HANG)?.map(HangReport::diagnosed_anew))
}

/// A file of a run folder; `None` where it is not there.
pub(crate) fn read<T: serde::de::DeserializeOwned>(folder: &Path, name: &str) -> Result<Option<T>, Failure> {
    let path = folder.join(name);
    let text = match files::read_text_in(folder, name) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            let why = denied(&path, &error).unwrap_or_else(|| error.to_string());
            return Err(Failure::Input(format!("{}: {why}", path.display())));
        }
    };
    serde_json::from_str(&text).map(Some).map_err(|error| Failure::Input(format!("{}: {error}", path.display())))
}
