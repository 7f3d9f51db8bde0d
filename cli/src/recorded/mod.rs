//! What a recording tells of its process: how it stood when it was last seen, why, and how much was recorded.
//!
//! Must not: print. In words it is told by [`text`].

mod text;

pub(crate) use text::write_hang;

use crate::source::Opened;
use crate::Failure;
use lazyguard_core::diagnose::{diagnose, Diagnosis, Snapshot, SnapshotBuilder, Status};
use lazyguard_core::report::{HangReport, Newest, PreloadSummary};
use lazyguard_core::settings::Settings;
use lazyguard_core::trace::read::{Entry, ThreadSeen, ThreadState};
use lazyguard_core::trace::Kind;
use serde_json::{json, Value};
use std::collections::HashMap;

/// What the recording tells.
pub(crate) struct Recorded {
    opened: Opened,
    builder: SnapshotBuilder,
    snapshot: Snapshot,
    diagnosis: Diagnosis,
    settings: Settings,
    preload: PreloadSummary,
    /// The newest record of each thread, by the thread's number.
    newest: HashMap<u32, Entry>,
}

/// What stands or stood still, as the recording alone tells it.
pub(crate) struct StoodStill {
    /// The report that the process would have made.
    pub report: HangReport,
    /// Whether it had lasted for as long as a live report waits; else it is only suspected.
    pub long_enough: bool,
}

impl Recorded {
    pub(crate) fn read(opened: Opened) -> Result<Self, Failure> {
        let texts = opened.recording.strings();
        let settings = opened.settings();
        let mut preload = PreloadSummary {
            policy: PreloadSummary::policy_name(settings.preload),
            notes: texts.notes().iter().map(|note| note.text.clone()).collect(),
            ..PreloadSummary::default()
        };
        let mut builder = SnapshotBuilder::new(&opened.recording);
        let mut newest = HashMap::new();
        opened.each_record(|entry| {
            builder.push(entry);
            if entry.record.kind == Kind::Preload {
                preload.kernels += entry.record.extent & 0xffff_ffff;
                preload.nanos = preload.nanos.saturating_add(entry.record.took());
            } else {
                newest.insert(entry.thread_number, *entry);
            }
            Ok(())
        })?;
        let snapshot = opened.standstill(&mut builder);
        let diagnosis = diagnose(&snapshot);
        Ok(Self { opened, builder, snapshot, diagnosis, settings, preload, newest })
    }

    pub(crate) fn json(&self) -> Value {
        let facts = self.opened.recording.facts();
        let summaries = self.opened.recording.lanes();
        let sum = |of: fn(&lazyguard_core::trace::read::LaneUse) -> u64| -> u64 {
            summaries.iter().map(of).fold(0, u64::saturating_add)
        };
        let lanes: Vec<_> = summaries
            .iter()
            .map(|summary| {
                json!({
                    "lane": crate::names::lane_name(summary.lane),
                    "present": summary.present,
                    "overwritten": summary.overwritten,
                    "dropped": summary.dropped,
                })
            })
            .collect();
        let threads: Vec<_> = self
            .threads()
            .map(|thread| {
                json!({
                    "number": thread.number,
                    "thread": thread.thread,
                    "name": thread.name,
                    "state": thread_state(thread),
                    "calls": thread.calls,
                    "launches": thread.launches,
                })
            })
            .collect();
        let defects = self.opened.recording.defects().iter();
        json!({
            "format_version": facts.version,
            "file": self.opened.path,
            "bytes": facts.file_bytes,
            "process": facts.process,
            "program": facts.program,
            "host": facts.host,
            "rank": facts.rank,
            "driver_version": facts.driver_version,
            "lazyguard": facts.lazyguard,
            "state": self.opened.state(),
            "alive": self.opened.alive,
            "armed_unix_ns": facts.armed_unix_nanos,
            "last_seen_ns": facts.last_seen,
            "calls": self.calls(),
            "launches": self.launches(),
            "records": {
                "written": sum(|summary| summary.written()),
                "present": sum(|summary| summary.present),
                "overwritten": sum(|summary| summary.overwritten),
                "dropped": sum(|summary| summary.dropped),
            },
            "lanes": lanes,
            "threads": threads,
            "defects": defects.map(ToString::to_string).collect::<Vec<_>>(),
            "snapshot": self.snapshot,
            "status": self.diagnosis.status,
            "verdicts": self.diagnosis.verdicts,
            "slow": self.diagnosis.slow,
        })
    }

    fn threads(&self) -> impl Iterator<Item = &ThreadSeen> {
        self.opened.recording.threads().iter()
    }

    fn calls(&self) -> u64 {
        self.threads().map(|thread| thread.calls).fold(self.opened.recording.facts().former_calls, u64::saturating_add)
    }

    fn launches(&self) -> u64 {
        self.threads()
            .map(|thread| thread.launches)
            .fold(self.opened.recording.facts().former_launches, u64::saturating_add)
    }

    /// What it was read from.
    pub(crate) fn opened(&self) -> &Opened {
        &self.opened
    }

    /// What stood still when the process was last seen; `None` where nothing did.
    pub(crate) fn stood_still(&self) -> Option<StoodStill> {
        if self.diagnosis.status == Status::Well {
            return None;
        }
        let after = self.settings.hang_after_nanos;
        let longest = self.snapshot.blocked.first().map_or(0, |call| call.blocked_nanos);
        Some(StoodStill { report: self.hang(self.snapshot.clone()), long_enough: after != 0 && longest >= after })
    }

    /// The hang, as the live report would have told it.
    fn hang(&self, snapshot: Snapshot) -> HangReport {
        let facts = self.opened.recording.facts();
        HangReport::new(facts.process, &facts.program, None, snapshot, self.preload.clone()).of_process(
            &facts.host,
            &facts.rank,
            facts.armed_unix_nanos,
        )
    }

    /// What is known of a hang that was reported live, if its calls were in progress when the process was last seen.
    pub(crate) fn newest(&self, hang: &HangReport) -> Option<Newest> {
        let now = &self.snapshot.blocked;
        let blocked = &hang.snapshot.blocked;
        let lasts = blocked.iter().any(|call| now.iter().any(|c| (c.thread, c.entered) == (call.thread, call.entered)));
        let stands = hang.resolved.is_none() && (lasts || blocked.is_empty());
        stands.then_some(Newest { at: self.snapshot.at, is_now: self.opened.alive })
    }
}

fn thread_state(thread: &ThreadSeen) -> &'static str {
    match thread.state {
        ThreadState::Alive => "alive",
        ThreadState::Ended => "ended",
        ThreadState::Free => "free",
        ThreadState::Unknown(_) => "unknown",
    }
}
