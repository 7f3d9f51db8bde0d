//! The verdicts of a run on a timeline: from when until when, with which facts, and tied to which calls and operations. A reported hang that is
//! over, and one that stands in the recording, are both shown.
//!
//! Must not: decide anything that the diagnosis has decided.

use lazyguard_core::diagnose::{diagnose, ends_of, BlockedCall, Snapshot, Status, Verdict};
use lazyguard_core::report::{demangle, HangReport};
use lazyguard_core::trace::read::{Recording, Source};
use lazyguard_core::Nanos;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub name: String,
    /// When the oldest culprit was submitted: nothing is known to have moved since.
    pub from: Nanos,
    pub until: Option<Nanos>,
    pub facts: Vec<(String, String)>,
    pub culprits: Vec<(u32, Nanos)>,
    pub blocked: Vec<(u32, Nanos)>,
}

pub(crate) fn of_report(hang: &HangReport) -> Vec<Shown> {
    hang.verdicts.iter().map(|verdict| shown(verdict, &hang.snapshot, Some(hang.status), "hang.json")).collect()
}

/// When a reported hang was over, if none of its calls is in progress: at its report, or later.
pub(crate) fn over<S: Source>(
    hang: &HangReport,
    recording: &Recording<S>,
    in_progress: &[(u32, Nanos)],
) -> Option<Nanos> {
    let blocked = &hang.snapshot.blocked;
    let lasts = blocked.iter().any(|call| in_progress.contains(&(call.thread, call.entered)));
    let ended = || ends_of(recording, blocked.iter()).unwrap_or_default().into_iter().filter_map(|end| end.at).max();
    (!lasts).then(|| ended().unwrap_or(0).max(hang.snapshot.at))
}

pub(crate) fn of_recording(snapshot: &Snapshot) -> Vec<Shown> {
    diagnose(snapshot).verdicts.iter().map(|verdict| shown(verdict, snapshot, None, "the recording")).collect()
}

fn shown(verdict: &Verdict, snapshot: &Snapshot, status: Option<Status>, told_by: &str) -> Shown {
    let blocked: Vec<_> = snapshot.blocked.iter().filter(|call| verdict.threads.contains(&call.thread)).collect();
    // For a stream that is still fed, the culprit is its newest operation. The hang then begins with the blocked call.
    let culprits = || verdict.culprits.iter().filter(|_| verdict.fed.is_empty()).map(|culprit| culprit.operation.at);
    let from = culprits().min().or_else(|| blocked.iter().map(|call| call.entered).min()).unwrap_or(snapshot.at);
    let slow = if status == Some(Status::Slow) { "SLOW: " } else { "" };
    let mut facts = Vec::new();
    let mut add = |name: &str, value: String| facts.push((name.to_owned(), value));
    add("fix", verdict.fix.clone());
    add("confidence", verdict.confidence.name().to_owned());
    if let Some(status) = status {
        add("status", format!("{status:?}").to_lowercase());
    }
    (1..).zip(&verdict.chain).for_each(|(number, step)| add(&format!("chain {number}"), step.clone()));
    for (number, culprit) in (1..).zip(&verdict.culprits) {
        let (stream, operation) = (&culprit.stream, &culprit.operation);
        let of = operation.function.as_deref().map(|f| format!(" of {}", demangle(f))).unwrap_or_default();
        let there = format!("{}{of} on stream {} ({:#x})", operation.call, stream.number, stream.handle);
        add(&format!("culprit {number}"), format!("{there}, submitted at +{:.3} s", operation.at as f64 / 1e9));
    }
    for (number, BlockedCall { thread, thread_name, call, entered, .. }) in (1..).zip(&blocked) {
        let since = *entered as f64 / 1e9;
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
