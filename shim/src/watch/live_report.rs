//! The report of this moment, taken from the process's own recording.
//!
//! Must not: wait for a thread of the program's, or call the driver.

use super::{stacks, thread_activity};
use crate::record::reports::Waiting;
use crate::record::Guard;
use crate::runtime::thread;
use lazyguard_core::api::{Class, EntryPoint};
use lazyguard_core::diagnose::{ends_of, snapshot_at, CallEnd, ThreadActivity};
use lazyguard_core::report::HangReport;
use lazyguard_core::state::{PublishedCall, ThreadSlot};
use lazyguard_core::trace::read::{Recording, Words};
use lazyguard_core::trace::{Kind, Lane, RawPayload, Record};
use lazyguard_core::Nanos;
use std::collections::BTreeMap;

/// What is known now, diagnosed as if calls that have been in progress for longer than the threshold, and since the process was
/// stopped as a whole for the last time, were stuck. `None` where the calling thread has no room in the recording.
pub fn what_is_known(guard: &'static Guard, threshold: Nanos, awake_since: Nanos) -> Option<HangReport> {
    note_activity(guard, thread::slot(guard)?);
    let recording = Recording::open(Words(guard.tracker.recorder().words())).ok()?;
    let now = guard.now();
    let mut snapshot = snapshot_at(&recording, now, threshold, guard.settings.patience_nanos()).ok()?;
    snapshot.awake_since = awake_since;
    let left = left(guard);
    snapshot.blocked.retain(|call| !left.contains(&(call.thread, call.entered)));
    for call in &mut snapshot.blocked {
        call.past_threshold = now.saturating_sub(call.entered.max(awake_since)) >= threshold;
    }
    let folder = guard.folder.as_ref().map(|f| f.path().display().to_string());
    let report = HangReport::new(guard.id, &guard.program, folder.as_deref(), snapshot, guard.preload_summary());
    let facts = recording.facts();
    Some(report.of_process(&facts.host, &facts.rank, facts.armed_unix_nanos))
}

/// The report that a request asks for: every call in progress is past the threshold.
pub fn on_request(guard: &'static Guard) -> Option<HangReport> {
    const AT_ONCE: Nanos = 1;
    let mut report = what_is_known(guard, AT_ONCE, 0)?;
    let (calls, running) = threads_of(guard, &report);
    report.stacks = stacks::look(guard, &calls, &running);
    report.places = stacks::places(report.addresses());
    Some(report)
}

/// The threads whose stacks are reported: those in a call, and those that run a host function.
pub(super) fn threads_of(guard: &Guard, report: &HangReport) -> (Vec<PublishedCall>, Vec<u32>) {
    let calls = guard.tracker.threads().filter_map(|(_, slot)| slot.published()).collect();
    (calls, report.snapshot.host_functions.iter().map(|host| host.thread).collect())
}

/// How the calls of a report ended; empty where the recording cannot be read.
pub(super) fn ends(guard: &Guard, report: &HangReport) -> Vec<CallEnd> {
    let recording = Recording::open(Words(guard.tracker.recorder().words()));
    recording.ok().and_then(|recording| ends_of(&recording, report.waited_in()).ok()).unwrap_or_default()
}

/// Calls that a thread has left by a jump.
fn left(guard: &Guard) -> Vec<Waiting> {
    let calls = guard.tracker.threads().filter_map(|(_, slot)| slot.published());
    calls.filter(|call| !still_inside(call)).map(|call| (call.thread, call.entered)).collect()
}

/// Everything is recorded again after this time, in case it has been overwritten.
const KNOWN_FOR: Nanos = 600_000_000_000;

/// Records the activity of threads that are in no driver call. Only changes are recorded: a hang may last for hours, and the loads that
/// explain it are in the same lane.
fn note_activity(guard: &Guard, slot: &ThreadSlot) {
    let at = guard.now();
    // Another thread of the guard is recording the activity now.
    let Ok(mut known) = guard.reports.activity.try_lock() else { return };
    let (since, known) = &mut *known;
    if at.saturating_sub(*since) > KNOWN_FOR {
        *since = at;
        known.clear();
    }
    let note = |thread: u32, doing: Option<ThreadActivity>| {
        let record = Record {
            kind: Kind::Activity,
            entered: at,
            returned: at,
            raw: RawPayload::activity(thread, doing),
            ..Record::of(EntryPoint::of_class(Class::Init))
        };
        slot.push(&record, Lane::RareEvents);
    };
    // A thread of the driver's that has a slot has called the program back.
    let calls_back = |thread: u32| guard.tracker.threads().any(|(_, slot)| slot.in_use() && slot.thread() == thread);
    let seen: BTreeMap<_, _> = thread_activity::threads(calls_back).into_iter().collect();
    known.retain(|thread, _| {
        let there = seen.contains_key(thread);
        if !there {
            note(*thread, None);
        }
        there
    });
    for (thread, doing) in seen {
        // Threads alternate between computing and sleeping. For most, only whether they wait for another thread matters.
        let same =
            |before: &ThreadActivity| *before == doing || before.goes_on() && doing.goes_on() && !calls_back(thread);
        if !known.get(&thread).is_some_and(same) {
            known.insert(thread, doing);
            note(thread, Some(doing));
        }
    }
}

/// Whether a thread can still be inside a call, by where its stack ends: a jump may have led it out. Where the kernel does
/// not say, or the thread is running, it is taken to be inside.
pub(super) fn still_inside(call: &PublishedCall) -> bool {
    let told = std::fs::read_to_string(format!("/proc/self/task/{}/syscall", call.thread)).unwrap_or_default();
    let mut fields = told.split_whitespace().rev();
    // The last two fields are the stack pointer and the program counter.
    let stack = fields.nth(1).and_then(|f| usize::from_str_radix(f.trim_start_matches("0x"), 16).ok());
    stack.is_none_or(|stack| stack <= call.frame)
}
