//! Copies and fills, and memory that is allocated and released in the order of a stream.

use super::call::{observe, published, Entry};
use super::context::gave_out;
use crate::lookup::driver::Handle;

/// A synchronous copy or fill, on the default stream. It leaves nothing in flight that the thread does not wait for, so
/// nothing is folded; it is published, because it may block. Address and bytes are 0 where a structure describes them.
pub(super) fn synchronous(entry: Entry, destination: u64, bytes: usize, real: impl FnOnce() -> i32) -> i32 {
    published(
        entry,
        |call| {
            call.on_stream(std::ptr::null_mut());
            call.about.extent = bytes as u64;
            call.about.detail = destination;
        },
        real,
    )
}

/// An asynchronous one: it only submits an operation.
pub(super) fn asynchronous(
    entry: Entry,
    destination: u64,
    bytes: usize,
    stream: Handle,
    real: impl FnOnce() -> i32,
) -> i32 {
    observe(
        entry,
        |call| {
            call.submits_to(stream);
            call.about.extent = bytes as u64;
            call.about.detail = destination;
        },
        real,
        |_, _| {},
    )
}

/// An allocation in the order of a stream.
pub(super) fn allocates(entry: Entry, bytes: usize, memory: Handle, stream: Handle, real: impl FnOnce() -> i32) -> i32 {
    observe(
        entry,
        |call| {
            call.submits_to(stream);
            call.about.extent = bytes as u64;
        },
        real,
        |call, result| gave_out(call, memory, result),
    )
}

/// A release of memory in the order of a stream.
pub(super) fn frees(entry: Entry, address: u64, stream: Handle, real: impl FnOnce() -> i32) -> i32 {
    observe(
        entry,
        |call| {
            call.submits_to(stream);
            call.about.detail = address;
        },
        real,
        |_, _| {},
    )
}
