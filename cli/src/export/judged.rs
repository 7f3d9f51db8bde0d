//! The verdicts of a run, as a timeline shows them: from when until when, with which facts, and tied to which calls and
//! operations.
//!
//! Where the watchdog has reported a hang, the verdicts are those of its snapshot; otherwise they are of the recording. Where a reported
//! hang is over and something still hangs, both are shown.
//!
//! Must not: decide anything that the diagnosis has decided.

use lazyguard_core::diagnose::{diagnose, BlockedCall, Snapshot, Verdict};
use lazyguard_core::report::{demangle, HangReport};
use lazyguard_core::trace::Record;
use lazyguard_core::Nanos;
use serde_json::Value;
use std::collections::BTreeMap;

/// A verdict on a timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shown {
    pub name: String,
    /// When the oldest culprit was submitted: nothing is known to have moved since.
    pub from: Nanos,
    /// When it was over; `None` where it lasted to the end.
    pub until: Option<Nanos>,
    pub facts: Vec<(String, String)>,
    /// Operations by stream and submission.
    pub culprits: Vec<(u32, Nanos)>,
    /// Calls by thread and entry.
    pub blocked: Vec<(u32, Nanos)>,
}

/// A reported hang, and its further course according to the records.
pub(super) struct Reported {
    hang: HangReport,
    /// When each blocked call has returned, by thread and entry; `None` as long as no record says so.
    returned: BTreeMap<(u32, Nanos), Option<Nanos>>,
}

impl Reported {
    pub fn new(hang: HangReport) -> Self {
        let blocked = hang.snapshot.blocked.iter().map(|call| ((call.thread, call.entered), None));
        Self { returned: blocked.collect(), hang }
    }

    /// Takes in a record of a thread.
    pub fn see(&mut self, thread: u32, record: &Record) {
        if let Some(returned) = self.returned.get_mut(&(thread, record.entered)).filter(|_| record.returned != 0) {
            *returned = Some(record.returned);
        }
    }

    /// The hang's verdicts, known before any record is read.
    pub fn verdicts(&self) -> Vec<Shown> {
        let status = serde_json::to_value(self.hang.status).ok().and_then(|s| s.as_str().map(str::to_owned));
        let verdicts = self.hang.verdicts.iter();
        verdicts.map(|verdict| shown(verdict, &self.hang.snapshot, status.as_deref(), "hang.json")).collect()
    }

    /// When it was over, if none of its calls is among those in progress.
    pub fn over(&self, in_progress: &[(u32, Nanos)]) -> Option<Nanos> {
        if self.returned.keys().any(|call| in_progress.contains(call)) {
            return None;
        }
        // The record of a return may be overwritten. The hang lasted at least until its report.
        Some(self.returned.values().flatten().copied().max().unwrap_or(0).max(self.hang.snapshot.at))
    }
}

/// The verdicts of a snapshot that was made of the recording.
pub(super) fn of_recording(snapshot: &Snapshot) -> Vec<Shown> {
    diagnose(snapshot).verdicts.iter().map(|verdict| shown(verdict, snapshot, None, "the recording")).collect()
}

fn shown(verdict: &Verdict, snapshot: &Snapshot, status: Option<&str>, told_by: &str) -> Shown {
    let blocked: Vec<_> = snapshot.blocked.iter().filter(|call| verdict.threads.contains(&call.thread)).collect();
    // For a stream that is still fed, the culprit is its newest operation. The hang then begins with the blocked call.
    let culprits = || verdict.culprits.iter().filter(|_| verdict.fed.is_empty()).map(|culprit| culprit.operation.at);
    let from = culprits().min().or_else(|| blocked.iter().map(|call| call.entered).min()).unwrap_or(snapshot.at);
    let slow = if status == Some("slow") { "SLOW: " } else { "" };
    let mut facts = Vec::new();
    let mut add = |name: &str, value: String| facts.push((name.to_owned(), value));
    add("fix", verdict.fix.clone());
    if let Some(confidence) = serde_json::to_value(verdict).ok().and_then(|told| text(&told, "confidence")) {
        add("confidence", confidence);
    }
    if let Some(status) = status {
        add("status", status.to_owned());
    }
    for (number, step) in (1..).zip(&verdict.chain) {
        add(&format!("chain {number}"), step.clone());
    }
    for (number, culprit) in (1..).zip(&verdict.culprits) {
        let (stream, operation) = (&culprit.stream, &culprit.operation);
        let of = operation.function.as_deref().map(|f| format!(" of {}", demangle(f))).unwrap_or_default();
        let (number_of, handle) = (stream.number, stream.handle);
        let at = seconds(operation.at);
        add(
            &format!("culprit {number}"),
            format!("{}{of} on stream {number_of} ({handle:#x}), submitted at +{at:.3} s", operation.call),
        );
    }
    for (number, BlockedCall { thread, thread_name, call, entered, .. }) in (1..).zip(&blocked) {
        let since = seconds(*entered);
        add(&format!("blocked {number}"), format!("thread {thread} \"{thread_name}\" in {call} since +{since:.3} s"));
    }
    add("told by", told_by.to_owned());
    Shown {
        name: format!("{slow}{}: {}", verdict.code, verdict.title),
        from,
        until: None,
        facts,
        culprits: verdict.culprits.iter().map(|culprit| (culprit.stream.number, culprit.operation.at)).collect(),
        blocked: blocked.iter().map(|call| (call.thread, call.entered)).collect(),
    }
}

fn text(value: &Value, key: &str) -> Option<String> {
    value[key].as_str().map(str::to_owned)
}

fn seconds(nanos: Nanos) -> f64 {
    nanos as f64 / 1e9
}
