//! An open recording, and what it says of its process at this moment: whether that lives, how it ended, and which calls it was in.

use crate::folder::ends;
use crate::folder::process::{ask_as, RECORDING};
use crate::machine::host_name;
use crate::stacks::{self, Symbolizer};
use crate::words::Failure;
use lazyguard_core::api::counted;
use lazyguard_core::diagnose::{Snapshot, SnapshotBuilder};
use lazyguard_core::report::{HangReport, Newest};
use lazyguard_core::settings::Settings;
use lazyguard_core::trace::read::{Entry, Recording, Source, ThreadSeen};
use lazyguard_core::trace::ProcessState;
use lazyguard_core::trace::{Kind, Lane, Record};
use lazyguard_core::Nanos;
use rustix::fs::SeekFrom;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A call that had been in progress for this long may have been stuck, in a process that was killed: that may have been why.
const SUSPICIOUS_AT_THE_END_NANOS: Nanos = 50_000_000;

pub(crate) struct RecordingFile {
    file: File,
    /// Whether the file is sparse. The guard's own files are not.
    has_holes: bool,
}

impl RecordingFile {
    pub(super) fn of(file: File) -> Self {
        const BLOCK: u64 = 512;
        let has_holes = file.metadata().is_ok_and(|about| about.blocks().saturating_mul(BLOCK) < about.len());
        Self { file, has_holes }
    }
}

impl Source for RecordingFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn next_data(&self, offset: u64) -> u64 {
        // No other code uses the file's position.
        match self.has_holes.then(|| rustix::fs::seek(&self.file, SeekFrom::Data(offset))) {
            Some(Ok(data)) => data,
            Some(Err(Errno::NXIO)) => u64::MAX,
            Some(Err(_)) | None => offset,
        }
    }
}

pub(crate) struct Opened {
    pub path: PathBuf,
    pub recording: Recording<RecordingFile>,
    /// Whether its process is alive, as far as this user may know.
    pub alive: bool,
    pub hidden: bool,
    pub(super) process: Option<u32>,
}

impl Opened {
    /// Why some records are missing, where the file has been truncated.
    pub fn cut_short(&self) -> Option<Failure> {
        let missing = self.recording.missing_bytes();
        let why = || format!("the file ends {} early, and what was there is lost", counted(missing, "byte"));
        (missing > 0).then(|| Failure::at(&self.path, why()))
    }

    pub fn live_process(&self) -> Option<u32> {
        self.alive.then(|| self.process.unwrap_or(self.recording.facts().process))
    }

    pub fn was_cut_off(&self) -> bool {
        !self.alive && self.recording.facts().state != ProcessState::Ended
    }

    pub fn state(&self) -> &'static str {
        match self.recording.facts().state {
            ProcessState::Ended => "ended",
            ProcessState::SteppedAside => "stepped aside",
            ProcessState::Guarded => "guarded",
            ProcessState::Unknown(_) => "unknown",
        }
    }

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
        let seen = folder.and_then(|folder| ends::of(folder, facts.process, Some(facts.start_ticks)));
        ends::words(seen, self.state() == "ended", || self.state_in_words())
    }

    pub fn is_of_this_machine(&self) -> bool {
        let host = &self.recording.facts().host;
        // If this machine's name is unknown, the recording may be of this machine.
        host.is_empty() || host_name().is_none_or(|name| name == *host)
    }

    pub fn calls_in_progress(&self) -> VecDeque<Entry> {
        let call = |thread: &ThreadSeen| {
            let record = thread.call_in_progress?;
            let lane = match record.kind {
                Kind::Call | Kind::Queries => Lane::of(record.entry_point.class()),
                _ => Lane::RareEvents,
            };
            Some(Entry { thread_number: thread.number, thread: thread.thread, lane, number: 0, record })
        };
        let mut calls: Vec<_> = self.recording.threads().iter().filter_map(call).collect();
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
        let callers = Symbolizer::new(&self.recording.strings().files, self.recording.facts().armed_unix_nanos);
        let folder = self.path.parent().filter(|_| self.path.file_name().is_some_and(|name| name == RECORDING));
        let callers = callers.and_files(folder.map(stacks::files_in).unwrap_or_default(), !self.is_of_this_machine());
        self.live_process().into_iter().fold(callers, Symbolizer::and_process)
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

    /// Shows every record to something that cannot fail.
    pub fn visit(&self, mut each: impl FnMut(&Entry)) -> Result<(), Failure> {
        self.each_record(|entry| {
            each(entry);
            Ok(())
        })
    }

    /// Goes through all records.
    pub fn each_record(&self, mut each: impl FnMut(&Entry) -> Result<(), Failure>) -> Result<(), Failure> {
        let mut records = self.recording.records();
        records.by_ref().try_for_each(|entry| each(&entry))?;
        records.finish().map_err(|error| Failure::at(&self.path, error))
    }
}

pub(crate) fn settings_of<S: Source>(recording: &Recording<S>) -> Settings {
    Settings::read(recording.strings().settings.iter().filter_map(|setting| setting.text.split_once('='))).0
}
