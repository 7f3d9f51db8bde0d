//! Streams: life, waiting, capture, and everything that only submits an operation.
//!
//! Must not: let the driver destroy a stream before it is taken out of the state.

use super::call::{lightly, observe, published, succeeds, written, Call, Entry, Real};
use super::objects::PER_THREAD;
use crate::lookup::driver::{Handle, SUCCESS};
use crate::preload::idle;
use lazyguard_core::replay::shows_the_end;
use lazyguard_core::state::{StreamKey, StreamKind};
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
        call.made_stream(call.guard.tracker.stream(key(stream), call.about.context, kind, call.entered));
    })
}

/// A stream is destroyed. The driver completes the operations in flight on it.
pub(super) fn destroy(entry: Entry, stream: Handle, real: impl Real) -> i32 {
    published(entry, real, |call| {
        call.on_stream(stream);
        // Before the call: once it has returned, the driver may reuse the handle for another thread's stream. If the driver
        // refuses the call, the next use adds the stream again.
        call.guard.tracker.stream_gone(key(stream));
        idle::settle();
    })
}

/// A thread waits for a stream, or polls it: success proves that the stream was idle when the call was entered.
#[inline(always)]
pub(super) fn completes(entry: Entry, stream: Handle, real: impl Real + Copy) -> i32 {
    let at_hand = move |call: &mut Call| {
        // A default stream is another one in another context, and may wait for others.
        let handle = Some(stream as u64).filter(|handle| *handle > PER_THREAD)?;
        call.about_stream(call.slot.cached_stream(handle, call.epoch)?);
        call.about.stream_entry.map(|_| ())
    };
    let after = move |call: &Call, result| {
        if let (true, Some(entry)) = (shows_the_end(result), call.about.stream_entry) {
            entry.complete_until(call.entered);
            call.load_pending_inside(call.about.context);
        }
    };
    let before = move |call: &mut Call| {
        call.on_stream(stream);
        call.waits_for_others();
    };
    lightly(entry, at_hand, before, real, after)
}

#[inline]
pub(super) fn submit(entry: Entry, stream: Handle, real: impl Real) -> i32 {
    observe(entry, |call| call.submits_to(stream), real, |_, _| {})
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
