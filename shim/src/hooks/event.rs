//! Events: from them it is learnt how far a stream has come.

use super::call::observe;
use crate::lookup::driver::{Handle, SUCCESS};
use lazyguard_core::api::Form;

/// An event is recorded behind everything on a stream.
pub(super) fn record(form: Form, event: Handle, stream: Handle, real: impl FnOnce() -> i32) -> i32 {
    observe(
        form,
        |call| call.submits_to(stream),
        real,
        |call, result| {
            // What is recorded in a capture is part of the graph, not of the stream.
            if result == SUCCESS && call.about.submits {
                call.guard.world.event_recorded(event as u64, call.about.stream, call.about.context, call.entered);
            }
        },
    )
}

/// An event is recorded behind everything in a context.
pub(super) fn record_context(form: Form, context: Handle, event: Handle, real: impl FnOnce() -> i32) -> i32 {
    observe(
        form,
        |call| call.about.context = call.context_number(context),
        real,
        |call, result| {
            if result == SUCCESS {
                call.guard.world.event_recorded(event as u64, 0, call.about.context, call.entered);
            }
        },
    )
}

/// A stream waits for an event.
pub(super) fn stream_wait(form: Form, stream: Handle, _event: Handle, real: impl FnOnce() -> i32) -> i32 {
    super::stream::submit(form, stream, real)
}

/// A thread waits for an event.
pub(super) fn synchronize(form: Form, event: Handle, real: impl FnOnce() -> i32) -> i32 {
    completes(form, event, real)
}

/// An event is polled.
pub(super) fn query(form: Form, event: Handle, real: impl FnOnce() -> i32) -> i32 {
    completes(form, event, real)
}

fn completes(form: Form, event: Handle, real: impl FnOnce() -> i32) -> i32 {
    observe(
        form,
        |call| {
            if let Some((stream, context)) = call.guard.world.event_place(event as u64) {
                call.about_stream(stream);
                call.about.context = context;
            }
        },
        real,
        |call, result| {
            if result == SUCCESS {
                call.guard.world.event_complete(event as u64, call.entered);
                call.load_pending(call.about.context);
            }
        },
    )
}

/// An event is destroyed.
pub(super) fn destroy(form: Form, event: Handle, real: impl FnOnce() -> i32) -> i32 {
    observe(form, |call| call.guard.world.event_gone(event as u64), real, |_, _| {})
}
