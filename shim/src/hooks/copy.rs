//! Copies and fills, and memory that is allocated and released in the order of a stream.

use super::call::{observe, published, Entry};
use super::context::gave_out;
use crate::lookup::driver::Handle;
use cudarc::driver::sys::{CUDA_MEMCPY2D, CUDA_MEMCPY3D};
use std::mem::offset_of;

/// A synchronous copy or fill, on the default stream. It leaves nothing in flight that the thread does not wait for, so
/// nothing is folded; it is published, because it may block. Address and bytes are 0 where a structure describes them.
pub(super) fn synchronous(entry: Entry, destination: u64, bytes: usize, real: impl FnOnce() -> i32) -> i32 {
    published(
        entry,
        |call| {
            call.on_stream(std::ptr::null_mut());
            call.about.extent = bytes as u64;
            call.about.detail = destination;
            call.waits_for_others();
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

/// An asynchronous copy from or to these addresses, each of which may be the host's, or 0.
pub(super) fn copies(
    entry: Entry,
    destination: u64,
    bytes: usize,
    host: [u64; 2],
    stream: Handle,
    real: impl FnOnce() -> i32,
) -> i32 {
    copies_so_much(entry, destination, [bytes as u64; 2], host, stream, real)
}

/// The record has the first number of bytes, which is 0 where a structure describes the copy; the second is what is copied.
fn copies_so_much(
    entry: Entry,
    destination: u64,
    [recorded, bytes]: [u64; 2],
    host: [u64; 2],
    stream: Handle,
    real: impl FnOnce() -> i32,
) -> i32 {
    observe(
        entry,
        |call| {
            call.submits_to(stream);
            call.about.extent = recorded;
            call.about.detail = destination;
            call.copies(bytes, host);
        },
        real,
        |call, result| call.copied(result, host),
    )
}

/// An address, if it may be one of the host's.
fn of_host(kind: u32, host: u64, unified: u64) -> u64 {
    /// Of `CUmemorytype`.
    const HOST: u32 = 1;
    const UNIFIED: u32 = 4;
    match kind {
        HOST => host,
        UNIFIED => unified,
        _ => 0,
    }
}

/// A copy of rows, described by a structure.
pub(super) fn copies_2d(entry: Entry, copy: Handle, stream: Handle, real: impl FnOnce() -> i32) -> i32 {
    if copy.is_null() {
        return asynchronous(entry, 0, 0, stream, real);
    }
    // SAFETY: the program passes a structure, which the driver reads as well; what kind of memory it is is read as an integer.
    let (from, to) = unsafe {
        let at = |offset: usize| copy.cast::<u8>().add(offset);
        (
            at(offset_of!(CUDA_MEMCPY2D, srcMemoryType)).cast::<u32>().read(),
            at(offset_of!(CUDA_MEMCPY2D, dstMemoryType)).cast::<u32>().read(),
        )
    };
    // SAFETY: as above; the rest are integers and addresses.
    let read = |offset: usize| unsafe { copy.cast::<u8>().add(offset).cast::<u64>().read() };
    let source = of_host(from, read(offset_of!(CUDA_MEMCPY2D, srcHost)), read(offset_of!(CUDA_MEMCPY2D, srcDevice)));
    let target = of_host(to, read(offset_of!(CUDA_MEMCPY2D, dstHost)), read(offset_of!(CUDA_MEMCPY2D, dstDevice)));
    let sizes = [offset_of!(CUDA_MEMCPY2D, WidthInBytes), offset_of!(CUDA_MEMCPY2D, Height)];
    let bytes = sizes.map(read).into_iter().fold(1, u64::saturating_mul);
    copies_so_much(entry, 0, [0, bytes], [source, target], stream, real)
}

/// A copy of a block, described by a structure. Between devices it is the same one, with contexts where this has reserved words.
pub(super) fn copies_3d(entry: Entry, copy: Handle, stream: Handle, real: impl FnOnce() -> i32) -> i32 {
    if copy.is_null() {
        return asynchronous(entry, 0, 0, stream, real);
    }
    // SAFETY: as for rows.
    let (from, to) = unsafe {
        let at = |offset: usize| copy.cast::<u8>().add(offset);
        (
            at(offset_of!(CUDA_MEMCPY3D, srcMemoryType)).cast::<u32>().read(),
            at(offset_of!(CUDA_MEMCPY3D, dstMemoryType)).cast::<u32>().read(),
        )
    };
    // SAFETY: as for rows.
    let read = |offset: usize| unsafe { copy.cast::<u8>().add(offset).cast::<u64>().read() };
    let source = of_host(from, read(offset_of!(CUDA_MEMCPY3D, srcHost)), read(offset_of!(CUDA_MEMCPY3D, srcDevice)));
    let target = of_host(to, read(offset_of!(CUDA_MEMCPY3D, dstHost)), read(offset_of!(CUDA_MEMCPY3D, dstDevice)));
    let sizes =
        [offset_of!(CUDA_MEMCPY3D, WidthInBytes), offset_of!(CUDA_MEMCPY3D, Height), offset_of!(CUDA_MEMCPY3D, Depth)];
    let bytes = sizes.map(read).into_iter().fold(1, u64::saturating_mul);
    copies_so_much(entry, 0, [0, bytes], [source, target], stream, real)
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
