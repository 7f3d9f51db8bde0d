//! Streams: life, waiting, capture, and everything that only submits an operation.
//!
//! Must not: let the driver destroy a stream before it is taken out of the state.

use super::call::{observe, published, succeeds, written, Again, Call, Entry, Real};
use super::fast::{in_order, lightly};
use super::objects::PER_THREAD;
use crate::lookup::driver::{Handle, SUCCESS};
use crate::preload::idle;
use crate::record::Guard;
use crate::watch::revoked;
use lazyguard_core::state::{StreamKey, StreamKind, ThreadSlot};
use lazyguard_core::trace::layout::record;
use lazyguard_core::trace::{RawPayload, Record};
use std::cell::Cell;

/// `CU_STREAM_NON_BLOCKING`.
const NON_BLOCKING: u32 = 1;
/// Errors after which a capture continues: `CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD`, `CUDA_ERROR_INVALID_HANDLE`, `CUDA_ERROR_INVALID_VALUE`.
const STILL_CAPTURES: [i32; 3] = [908, 400, 1];

fn key(stream: Handle) -> StreamKey {
    StreamKey { handle: stream as u64, context: 0, thread: 0 }
}

pub(super) fn create(entry: Entry, stream: Handle, flags: u32, real: impl Real) -> i32 {
    let before = |call: &mut Call| call.about.context = call.current_context();
    succeeds(entry, before, real, |call| {
        let Some(stream) = written(stream) else { return };
        let kind = if flags & NON_BLOCKING != 0 { StreamKind::NonBlocking } else { StreamKind::Blocking };
        // A known handle: the guard did not see the end of an earlier stream.
        call.guard.tracker.stream_gone(key(stream));
        let number = call.guard.tracker.stream(key(stream), call.about.context, kind, call.entered);
        call.amend(record::SUBJECT, number.into());
    })
}

/// A stream is destroyed. The driver completes the operations in flight on it.
pub(super) fn destroy(entry: Entry, stream: Handle, real: impl Real) -> i32 {
    published(entry, real, |call| {
        call.on_stream(stream);
        // Before the call: once it has returned, the driver may reuse the handle for another thread's stream. If the driver
        // refuses the call, the next use adds the stream again.
        call.guard.tracker.stream_gone(key(stream));
        revoked::stream_ends(call.about.stream, call.entered);
        idle::settle();
    })
}

/// A thread waits for a stream, or polls it: success proves that the stream was idle when the call was entered.
#[inline(always)]
pub(super) fn completes(entry: Entry, stream: Handle, real: impl Again) -> i32 {
    let found = &Cell::new(None);
    let at_hand = move |guard: &'static Guard, slot: &'static ThreadSlot, record: Record| {
        // A default stream is another one in another context, and may wait for others.
        let handle = Some(stream as u64).filter(|handle| *handle > PER_THREAD)?;
        let number = slot.cached_stream(handle, guard.tracker.epoch())?;
        let known = guard.tracker.stream_entry(number)?;
        found.set(Some(known));
        Some(Record { stream: number, context: known.context() as u16, ..record })
    };
    let then = move |_: &Guard, entered| found.get().into_iter().for_each(|stream| stream.complete_until(entered));
    let before = move |call: &mut Call| {
        call.on_stream(stream);
        found.set(call.about.stream_entry);
        call.waits_for_others();
    };
    lightly(entry, at_hand, before, real, then)
}

#[inline(always)]
pub(super) fn submit(entry: Entry, stream: Handle, real: impl Again) -> i32 {
    in_order(entry, stream, RawPayload::default(), real)
}

/// A capture begins. Noted before the call, so that no thread makes a query that would invalidate it.
pub(super) fn begin_capture(entry: Entry, stream: Handle, real: impl Real) -> i32 {
    let began = Cell::new(false);
    let before = |call: &mut Call| {
        call.on_stream(stream);
        began.set(call.guard.tracker.set_capturing(call.about.stream, true));
    };
    observe(entry, before, real, |call, result| {
        if result != SUCCESS && began.get() {
            call.guard.tracker.set_capturing(call.about.stream, false);
        }
    })
}

/// A capture ends, well or not; unless the call was not about a capture of this thread's.
pub(super) fn end_capture(entry: Entry, stream: Handle, real: impl Real) -> i32 {
    let before = |call: &mut Call| call.on_stream(stream);
    observe(entry, before, real, |call, result| {
        if !STILL_CAPTURES.contains(&result) {
            call.guard.tracker.set_capturing(call.about.stream, false);
            call.load_pending(call.about.context);
        }
    })
}
