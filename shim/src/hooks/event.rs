//! Events: they show how far a stream has come.
//!
//! Must not: let the driver destroy an event before it is taken out of the state.

use super::call::{published, succeeds, About, Again, Call, Entry, Real};
use super::fast::{self, from_caller, lightly, Subject};
use crate::lookup::driver::{Handle, SUCCESS};
use crate::preload::idle;
use crate::record::Guard;
use crate::runtime::door;
use crate::runtime::results::{self, REVOKED};
use crate::watch::revoked;
use lazyguard_core::state::{FastSubmission, ThreadSlot};
use lazyguard_core::trace::layout::flag;
use lazyguard_core::trace::{RawPayload, Record};
use std::cell::Cell;

#[inline(always)]
pub(super) fn record(entry: Entry, event: Handle, stream: Handle, real: impl Again) -> i32 {
    let (operations, known) = (&Cell::new(0), &Cell::new(None));
    let handle = event as u64;
    let is_known = move |guard: &'static Guard, fast: &FastSubmission| {
        // Fewer than there are, where some are not folded: the event stands for fewer operations than it could.
        operations.set(
            guard.tracker.stream_entry(fast.stream_and_context().0).map_or(0, |entry| entry.submitted_count() + 1),
        );
        known.set(guard.tracker.event_at(fast.number, handle));
        known.get().is_some()
    };
    let Subject { facts, .. } = Subject::of(entry, handle, stream, RawPayload::about(handle));
    let begin = move || fast::begin(entry, facts, |_, _| Some(from_caller(entry)), is_known);
    let then = move |_: &Guard, fast: FastSubmission, _| {
        let ((stream, context), number) = (fast.stream_and_context(), operations.get());
        // Another thread may have destroyed it meanwhile.
        let still = known.get().filter(|event| event.is_of(handle));
        still.into_iter().for_each(|event| event.record(stream, number, context, fast.entered()));
    };
    let before = move |call: &mut Call| {
        call.submits_to(stream);
        // This folds the launches of the stream alone. If that fails, the event stands for fewer operations than it could.
        let _ = call.guard.tracker.fold_of(call.about.stream);
        // Read before the submission: operations of other threads meanwhile may come after the event.
        operations.set(call.about.stream_entry.map_or(0, |entry| entry.submitted_count() + 1));
        call.about.raw = facts.raw;
        if call.about.flags & flag::CAPTURED != 0 {
            // A record in a capture belongs to the graph, not to the stream, and a query of the event would end the capture.
            call.guard.tracker.event_gone(handle);
            idle::settle();
        }
    };
    let after = move |call: &Call, result| {
        if let (SUCCESS, About { submits: true, stream: on, context, .. }) = (result, call.about) {
            let number = call.guard.tracker.event_recorded(handle, on, operations.get(), context, call.entered);
            call.repeats(entry, (facts.object, number), stream, result);
        }
    };
    fast::submission(entry, begin, real, then, (before, after))
}

/// The call is about an event and a context: what is in it, or what is submitted to it from now on.
fn of_context(call: &mut Call, context: Handle, event: Handle) {
    call.about.context = call.context_number(context);
    call.about.raw = RawPayload::about(event as u64);
}

pub(super) fn record_context(entry: Entry, context: Handle, event: Handle, real: impl Real) -> i32 {
    let before = |call: &mut Call| of_context(call, context, event);
    succeeds(entry, before, real, |call| {
        _ = call.guard.tracker.event_recorded(event as u64, 0, 0, call.about.context, call.entered);
    })
}

pub(super) fn context_waits(entry: Entry, context: Handle, event: Handle, real: impl Real) -> i32 {
    let before = |call: &mut Call| of_context(call, context, event);
    succeeds(entry, before, real, |call| revoked::joins(call.guard, 0, event as u64, call.entered))
}

#[inline(always)]
pub(super) fn stream_wait(entry: Entry, stream: Handle, event: Handle, real: impl Again) -> i32 {
    let subject = Subject::of(entry, event as u64, stream, RawPayload::about(event as u64));
    let after = move |call: &Call, result| {
        if result == SUCCESS && call.guard.tracker.slow_path() {
            call.waits_for_event(event);
        }
        if result == SUCCESS && call.about.submits {
            revoked::joins(call.guard, call.about.stream, event as u64, call.entered);
        }
    };
    // A wait for work behind a revoked collective takes the slow path.
    let is_plain = |_: &Guard, _: &FastSubmission| !results::is_set(REVOKED);
    let begin = move || fast::begin(entry, subject.facts, |_, _| Some(from_caller(entry)), is_plain);
    fast::repeats(entry, subject, real, (begin, |_, _| {}), (|_| {}, after))
}

/// A thread waits for an event, or polls it.
#[inline(always)]
pub(super) fn completes(entry: Entry, event: Handle, real: impl Again) -> i32 {
    // The record that the driver's answer is about: another thread may record the event again meanwhile.
    let found = &Cell::new(None);
    let at_hand = move |guard: &'static Guard, slot: &'static ThreadSlot, record: Record| {
        let number = slot.cached_stream(event_key(event), guard.tracker.epoch())?;
        let known = guard.tracker.event_at(number, event as u64)?;
        let recorded = known.recorded()?;
        found.set(Some((known, recorded)));
        let raw = RawPayload::about(event as u64);
        Some(Record { stream: recorded.stream, context: recorded.context as u16, raw, ..record })
    };
    let then = move |guard: &'static Guard, _| {
        let on_context = |context, at| _ = door::inside(|| guard.tracker.context_complete(context, at));
        if let Some((known, recorded)) = found.get() {
            guard.tracker.event_complete(known, event as u64, recorded, on_context);
        }
    };
    let before = move |call: &mut Call| {
        call.slot.cache_stream(event_key(event), call.epoch, call.guard.tracker.known_event(event as u64));
        found.set(call.guard.tracker.event_as_recorded(event as u64));
        if let Some((_, recorded)) = found.get() {
            call.about_stream(recorded.stream);
            call.about.context = recorded.context;
        }
        call.about.raw = RawPayload::about(event as u64);
    };
    lightly(entry, at_hand, before, real, then)
}

/// An event's key in the cache of streams: no handle has these bits, and a context's key only one of them.
fn event_key(event: Handle) -> u64 {
    event as u64 | 3
}

pub(super) fn destroy(entry: Entry, event: Handle, real: impl Real) -> i32 {
    published(entry, real, |call| {
        call.about.raw = RawPayload::about(event as u64);
        // Before the call, as for streams: no thread may be asking the driver about it when it goes.
        call.guard.tracker.event_gone(event as u64);
        idle::settle();
    })
}
