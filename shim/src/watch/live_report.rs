//! The report of this moment, taken from the process's own recording.
//!
//! Must not: wait for a thread of the program's, or call the driver.

use super::thread_activity::{self, asleep};
use super::{driver_environment, stacks};
use crate::record::reports::Waiting;
use crate::record::Guard;
use crate::runtime::own_memory::OwnMemory;
use crate::runtime::{memory, thread};
use lazyguard_core::api::{Class, EntryPoint};
use lazyguard_core::diagnose::{ends_of, snapshot_at, CallEnd, ThreadActivity};
use lazyguard_core::report::HangReport;
use lazyguard_core::stack::{mappings, own_maps, Memory as _};
use lazyguard_core::state::{PublishedCall, ThreadSlot};
use lazyguard_core::trace::read::Recording;
use lazyguard_core::trace::{Kind, Lane, ProcessFacts, RawPayload, Record};
use lazyguard_core::Nanos;
use std::collections::BTreeMap;

/// More than a report and its reader take.
const BYTES_OF_A_REPORT: usize = 16 << 20;

/// A report of this moment, as if calls past the threshold since the process was last stopped were stuck. `None` where the thread has no room in the
/// recording, or memory is short: Rust ends a process whose allocation fails.
pub fn what_is_known(guard: &'static Guard, threshold: Nanos, awake_since: Nanos) -> Option<HangReport> {
    if !memory::is_left(BYTES_OF_A_REPORT) {
        return None;
    }
    note_activity(guard, thread::slot(guard)?);
    let recording = Recording::open(guard.tracker.recorder()).ok()?;
    let now = guard.now();
    let mut snapshot = snapshot_at(&recording, now, threshold, guard.settings.patience_nanos()).ok()?;
    snapshot.awake_since = awake_since;
    // On a busy machine most calls return while the recording is read.
    let mut inside: Vec<Waiting> = Vec::new();
    for (_, slot) in guard.tracker.threads() {
        let call = slot.published();
        if call.as_ref().is_none_or(still_inside) {
            inside.extend(call.map(|call| (call.thread, call.record.entered)));
            inside.extend(slot.in_nccl().map(|(.., entered)| (slot.thread(), entered)));
        }
    }
    snapshot.blocked.retain(|call| call.queries.is_some() || inside.contains(&(call.thread, call.entered)));
    if guard.gpu_dump.was_taken() {
        // The error is the guard's own.
        snapshot.blocked.retain(|call| call.error.is_none());
    }
    for call in &mut snapshot.blocked {
        call.past_threshold = now.saturating_sub(call.entered.max(awake_since)) >= threshold;
    }
    let folder = guard.folder.as_ref().map(|f| f.path().display().to_string());
    let ProcessFacts { host, armed_unix_nanos, .. } = recording.facts().clone();
    let report = HangReport::new(guard.id, &guard.program, folder.as_deref(), snapshot, guard.preload_summary());
    Some(HangReport { host, rank: recording.rank(), armed_unix_nanos, ..report })
}

/// A report on request: every call in progress counts as past the threshold.
pub fn on_request(guard: &'static Guard) -> Option<HangReport> {
    const AT_ONCE: Nanos = 1;
    guard.mappings.shared(guard);
    let mut report = what_is_known(guard, AT_ONCE, 0)?;
    let (calls, running) = threads_of(guard, &report);
    report.stacks = stacks::read(guard, &calls, &running, false);
    report.places = stacks::places(report.addresses());
    Some(report)
}

/// Threads in a call, those that run a host function, and where no call is blocked the main thread.
pub(super) fn threads_of(guard: &Guard, report: &HangReport) -> (Vec<PublishedCall>, Vec<u32>) {
    let calls: Vec<_> = guard.tracker.threads().filter_map(|(_, slot)| slot.published()).collect();
    // A call of one of several graphs is there once for each.
    let host_functions = report.snapshot.host_functions.iter().filter(|host| !host.or_another);
    let is_in_a_call = calls.iter().any(|call| call.thread == guard.id);
    let main = (!is_in_a_call && report.waited_in().next().is_none()).then_some(guard.id);
    (calls, host_functions.map(|host| host.thread).chain(main).collect())
}

/// Empty where the recording cannot be read.
pub(super) fn ends(guard: &Guard, report: &HangReport) -> Vec<CallEnd> {
    let recording = Recording::open(guard.tracker.recorder());
    recording.ok().and_then(|recording| ends_of(&recording, report.waited_in()).ok()).unwrap_or_default()
}

/// Every thread's activity is recorded again after this time, in case it was overwritten.
const KNOWN_FOR: Nanos = 600_000_000_000;

/// Records the threads in no driver call, and only changes: a hang may last for hours, and the loads that explain it are in the same lane.
fn note_activity(guard: &Guard, slot: &ThreadSlot) {
    let at = guard.now();
    // Another thread of the guard does so now.
    let Ok(mut known) = guard.reports.activity.try_lock() else { return };
    let (since, known) = &mut *known;
    if *since == 0 || at.saturating_sub(*since) > KNOWN_FOR {
        *since = at;
        known.clear();
        driver_environment::note(slot, at);
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
    // A driver's thread with a slot has called the program back.
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
        // Most threads alternate between computing and sleeping.
        let same =
            |before: &ThreadActivity| *before == doing || before.goes_on() && doing.goes_on() && !calls_back(thread);
        if !known.get(&thread).is_some_and(same) {
            known.insert(thread, doing);
            note(thread, Some(doing));
        }
    }
}

/// Whether the end of the thread's stack and the call's return address say so: a jump may have led it out. A thread of which the kernel says nothing is inside.
pub(super) fn still_inside(call: &PublishedCall) -> bool {
    !is_overwritten(call)
        && asleep(call.thread).is_none_or(|(pointer, _)| !has_left(pointer, call.frame as u64, own_maps))
}

/// Whether the return address is gone from the stack: the thread has made other calls from the same frame. Other processors than this one have the
/// address in a register, and save it somewhere.
fn is_overwritten(call: &PublishedCall) -> bool {
    let mut address = [0; size_of::<usize>()];
    let place = (call.frame as u64).wrapping_sub(address.len() as u64);
    let is_known = cfg!(target_arch = "x86_64") && call.record.caller != 0 && call.record.path == 0;
    let is_read = is_known && OwnMemory::new().read(place, &mut address) == address.len();
    is_read && usize::from_ne_bytes(address) as u64 != call.record.caller
}

/// Whether a stack has no room for the frame. An end on another stack, as in a signal's handler, says nothing.
fn has_left(pointer: u64, frame: u64, maps: impl FnOnce() -> String) -> bool {
    pointer > frame
        && mappings(&maps()).any(|mapping| (mapping.begin..mapping.end).contains(&frame) && pointer < mapping.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STACK: &str = "1000-3000 rw-p 00000000 00:00 0\n5000-6000 rw-p 00000000 00:00 0\n";

    #[test]
    fn a_call_is_left_where_its_own_stack_ends_above_it() {
        let left = |pointer| has_left(pointer, 0x2000, || STACK.to_owned());
        assert!(left(0x2001) && left(0x2fff));
        assert!(!left(0x2000) && !left(0x1800), "below it: deeper calls");
        assert!(!left(0x3000) && !left(0x5800) && !left(0x800), "another stack");
    }

    #[test]
    fn where_nothing_is_mapped_around_the_frame_the_thread_is_taken_to_be_inside() {
        assert!(!has_left(0x4800, 0x4000, || STACK.to_owned()));
        assert!(!has_left(0x2800, 0x2000, String::new));
    }
}
