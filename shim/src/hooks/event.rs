//! Events: they show how far a stream has come.
//!
//! Must not: let the driver destroy an event before it is taken out of the state.

use super::call::{published, succeeds, About, Call, Entry, Real};
use crate::lookup::driver::Handle;
use crate::preload::idle;
use lazyguard_core::trace::layout::flag;
use lazyguard_core::trace::RawPayload;
use std::cell::Cell;

pub(super) fn record(entry: Entry, event: Handle, stream: Handle, real: impl Real) -> i32 {
    let number = Cell::new(0);
    let before = |call: &mut Call| {
        call.submits_to(stream);
        // What the stream has is asked, and no more. If that is unknown, the event stands for fewer operations than it could.
        let _ = call.guard.tracker.fold_of(call.about.stream);
        // Read before the submission: operations of other threads meanwhile may come after the event.
        number.set(call.about.stream_entry.map_or(0, |entry| entry.submitted_count() + 1));
        call.about.raw = RawPayload::about(event as u64);
        if call.about.flags & flag::CAPTURED != 0 {
            // A record in a capture belongs to the graph, not to the stream, and a query of the event would end the capture.
            call.guard.tracker.event_gone(event as u64);
            idle::settle();
        }
    };
    succeeds(entry, before, real, |call| {
        if let About { submits: true, stream, context, .. } = call.about {
            call.guard.tracker.event_recorded(event as u64, stream, number.get(), context, call.entered);
        }
    })
}

/// The call is about an event and a context: what is in it, or what is submitted to it from now on.
fn of_context(call: &mut Call, context: Handle, event: Handle) {
    call.about.context = call.context_number(context);
    call.about.raw = RawPayload::about(event as u64);
}

pub(super) fn record_context(entry: Entry, context: Handle, event: Handle, real: impl Real) -> i32 {
    let before = |call: &mut Call| of_context(call, context, event);
    succeeds(entry, before, real, |call| {
        call.guard.tracker.event_recorded(event as u64, 0, 0, call.about.context, call.entered);
    })
}

pub(super) fn context_waits(entry: Entry, context: Handle, event: Handle, real: impl Real) -> i32 {
    published(entry, real, |call| of_context(call, context, event))
}

pub(super) fn stream_wait(entry: Entry, stream: Handle, event: Handle, real: impl Real) -> i32 {
    let before = |call: &mut Call| {
        call.submits_to(stream);
        call.about.raw = RawPayload::about(event as u64);
    };
    succeeds(entry, before, real, |call| {
        if call.guard.tracker.slow_path() {
            call.waits_for_event(event);
        }
    })
}

/// A thread waits for an event, or polls it.
pub(super) fn completes(entry: Entry, event: Handle, real: impl Real) -> i32 {
    let before = |call: &mut Call| {
        if let Some((stream, context)) = call.guard.tracker.event_place(event as u64) {
            call.about_stream(stream);
            call.about.context = context;
        }
        call.about.raw = RawPayload::about(event as u64);
    };
    succeeds(entry, before, real, |call| {
        call.guard.tracker.event_complete(event as u64, call.entered);
        call.load_pending(call.about.context);
    })
}

pub(super) fn destroy(entry: Entry, event: Handle, real: impl Real) -> i32 {
    published(entry, real, |call| {
        call.about.raw = RawPayload::about(event as u64);
        // Before the call, as for streams: no thread may be asking the driver about it when it goes.
        call.guard.tracker.event_gone(event as u64);
        idle::settle();
    })
}
