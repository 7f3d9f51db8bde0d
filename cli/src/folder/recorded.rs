//! The facts in a recording about its process: its state when last seen, the reason, and how much was recorded.
//!
//! Must not: print. `forms/recorded.rs` puts it into words.

use crate::folder::source::Opened;
use crate::words::Failure;
use lazyguard_core::diagnose::{diagnose, Diagnosis, Snapshot, SnapshotBuilder, Status, Verdict};
use lazyguard_core::report::{HangReport, Newest, PreloadSummary};
use lazyguard_core::settings::Settings;
use lazyguard_core::trace::read::{Entry, ThreadSeen};
use lazyguard_core::trace::{layout, LaneUse, Payload};
use lazyguard_core::Nanos;
use serde::Serialize;
use std::collections::HashMap;
use std::path::Path;

pub(crate) struct Recorded {
    pub opened: Opened,
    pub builder: SnapshotBuilder,
    pub snapshot: Snapshot,
    pub diagnosis: Diagnosis,
    pub settings: Settings,
    pub preload: PreloadSummary,
    pub newest: HashMap<u32, Entry>,
}

/// The content of a recording.
#[derive(Serialize)]
pub(crate) struct RecordingSeen<'a> {
    /// The file format's version.
    format_version: u32,
    /// The file.
    file: &'a Path,
    /// Its size.
    bytes: u64,
    /// The process id.
    process: u32,
    /// The program's file name.
    program: &'a str,
    /// The machine.
    host: &'a str,
    /// The rank in the job, or empty.
    rank: String,
    /// As `cuDriverGetVersion` counts.
    driver_version: i32,
    /// LazyGuard's version.
    lazyguard: &'a str,
    /// `guarded`, `ended` or `stepped aside`.
    state: &'static str,
    /// Whether the process is there.
    alive: bool,
    /// When the recording's times begin.
    armed_unix_ns: u64,
    /// When the process was last seen.
    last_seen_ns: Nanos,
    /// Driver calls.
    calls: u64,
    /// Launches among them.
    launches: u64,
    /// Records by their fate, for each lane.
    lanes: Vec<LaneUse>,
    /// Threads with driver calls.
    threads: &'a [ThreadSeen],
    /// Damage in the file, a line each.
    defects: Vec<String>,
    /// The state when the process was last seen; its `threshold_nanos` is at most 50 ms after a kill.
    snapshot: &'a Snapshot,
    /// The snapshot's status.
    status: Status,
    /// The root cause first.
    verdicts: &'a [Verdict],
    /// The waits of a slow report, a sentence each.
    slow: &'a [String],
}

impl Recorded {
    pub(crate) fn read(opened: Opened) -> Result<Self, Failure> {
        let texts = opened.recording.strings();
        let settings = opened.settings();
        let mut preload = PreloadSummary {
            policy: PreloadSummary::policy_name(settings.preload),
            notes: texts.notes.iter().map(|note| note.text.clone()).collect(),
            ..PreloadSummary::default()
        };
        let mut builder = SnapshotBuilder::new(&opened.recording);
        let mut newest = HashMap::new();
        opened.visit(|entry| {
            builder.push(entry);
            if let Payload::Preload(ahead) = entry.record.payload() {
                preload.kernels += ahead.loaded;
                preload.nanos = preload.nanos.saturating_add(entry.record.took());
            } else {
                newest.insert(entry.thread_number, *entry);
            }
        })?;
        let snapshot = opened.standstill(&mut builder);
        let diagnosis = diagnose(&snapshot);
        Ok(Self { opened, builder, snapshot, diagnosis, settings, preload, newest })
    }

    pub(crate) fn json(&self) -> RecordingSeen<'_> {
        let facts = self.opened.recording.facts();
        let (calls, launches) = self.opened.recording.calls_and_launches();
        RecordingSeen {
            format_version: layout::VERSION,
            file: &self.opened.path,
            bytes: facts.file_bytes,
            process: facts.process,
            program: &facts.program,
            host: &facts.host,
            rank: self.opened.recording.rank(),
            driver_version: facts.driver_version,
            lazyguard: &facts.lazyguard,
            state: self.opened.state(),
            alive: self.opened.alive,
            armed_unix_ns: facts.armed_unix_nanos,
            last_seen_ns: facts.last_seen,
            calls,
            launches,
            lanes: self.opened.recording.lanes().to_vec(),
            threads: self.opened.recording.threads(),
            defects: self.opened.recording.defects().iter().map(ToString::to_string).collect(),
            snapshot: &self.snapshot,
            status: self.diagnosis.status,
            verdicts: &self.diagnosis.verdicts,
            slow: &self.diagnosis.slow,
        }
    }

    /// A hang or a slow wait, and whether it had lasted for as long as a live report waits; else it is only suspected.
    pub(crate) fn stood_still(&self) -> Option<(HangReport, bool)> {
        if self.diagnosis.status == Status::Well {
            return None;
        }
        let after = self.settings.hang_after_nanos;
        let longest = self.snapshot.blocked.first().map_or(0, |call| call.blocked_nanos);
        let long_enough = after != 0 && (longest >= after || self.stands_at_rest(&self.snapshot));
        Some((self.hang(self.snapshot.clone()), long_enough))
    }

    /// Whether no call explains a standstill, and streams do: the driver was asked about those after the threshold.
    pub(crate) fn stands_at_rest(&self, snapshot: &Snapshot) -> bool {
        !snapshot.blocked.iter().any(|call| call.past_threshold) && snapshot.any_stands_at_rest()
    }

    pub(crate) fn unwatched(&self) -> Vec<String> {
        match self.diagnosis.status {
            Status::Well => self.snapshot.unwatched(),
            _ => Vec::new(),
        }
    }

    /// The work outstanding for the threshold when the process was last seen, in a line; `None` where its streams are known to be idle or to move.
    pub(crate) fn outstanding(&self) -> Option<String> {
        let after = self.settings.hang_after_nanos;
        let runs = || self.unwatched().into_iter().next();
        self.opened.alive.then(runs).flatten().or_else(|| self.snapshot.longest_at_rest(after).filter(|_| after != 0))
    }

    pub fn hang(&self, snapshot: Snapshot) -> HangReport {
        let facts = self.opened.recording.facts();
        let report = HangReport::new(facts.process, &facts.program, None, snapshot, self.preload.clone());
        let (host, rank) = (facts.host.clone(), self.opened.recording.rank());
        HangReport { host, rank, armed_unix_nanos: facts.armed_unix_nanos, ..report }
    }

    /// The newest state of a hang that was reported live, if its calls were in progress when the process was last seen.
    pub(crate) fn newest(&self, hang: &HangReport) -> Option<Newest> {
        let now = &self.snapshot.blocked;
        let blocked = &hang.snapshot.blocked;
        let lasts = blocked.iter().any(|call| now.iter().any(|c| (c.thread, c.entered) == (call.thread, call.entered)));
        let stands = hang.resolved.is_none() && (lasts || blocked.is_empty());
        stands.then_some(Newest { at: self.snapshot.at, is_now: self.opened.alive })
    }
}
