//! Copies and memsets, and memory that is allocated and released in the order of a stream.
//!
//! Must not: read the memory that is copied.

use super::call::{observe, succeeds, written, Again, Call, Entry};
use super::context::gave_out;
use super::fast::{begin_out_of_line, in_order, repeats, Subject};
use super::release::before_copy;
use crate::lookup::driver::{Handle, SUCCESS};
use cudarc::driver::sys::{CUDA_MEMCPY2D, CUDA_MEMCPY3D};
use lazyguard_core::state::FastSubmission;
use lazyguard_core::trace::RawPayload;
use std::mem::offset_of;

/// A copy or memset on the default stream, which may block. Address and bytes are 0 where a structure describes them.
pub(super) fn synchronous(entry: Entry, destination: u64, bytes: usize, real: impl Again) -> i32 {
    let before = |call: &mut Call| {
        call.on_stream(std::ptr::null_mut());
        call.about.raw = RawPayload::memory(destination, bytes as u64);
        call.waits_for_others();
    };
    succeeds(entry, before, behind_releases(entry, None, real), Call::proven)
}

/// The real call, behind the releases that have to come before a copy from or to these addresses.
fn behind_releases<'f, R: Again>(entry: Entry<'f>, host: Option<[u64; 2]>, real: R) -> impl Again + use<'f, R> {
    move || {
        before_copy(entry, host);
        real()
    }
}

pub(super) fn asynchronous(entry: Entry, to: u64, bytes: usize, stream: Handle, real: impl Again) -> i32 {
    in_order(entry, stream, RawPayload::memory(to, bytes as u64), behind_releases(entry, None, real))
}

/// A memset of all these bytes with one word.
pub(super) fn sets(entry: Entry, to: u64, bytes: usize, word: u32, stream: Handle, real: impl Again) -> i32 {
    in_order(entry, stream, RawPayload::fill(to, bytes as u64, word), behind_releases(entry, None, real))
}

/// An asynchronous copy from or to these addresses, each of which may be the host's, or 0. The record has the first number of bytes, which is 0 where a
/// structure describes the copy; the second is what is copied.
pub(super) fn copies(
    entry: Entry,
    destination: u64,
    [recorded, bytes]: [usize; 2],
    host: [u64; 2],
    stream: Handle,
    real: impl Again,
) -> i32 {
    let before = |call: &mut Call| {
        call.submits_to(stream);
        call.about.raw = RawPayload::memory(destination, recorded as u64);
        call.copies(bytes as u64, host);
    };
    observe(entry, before, behind_releases(entry, Some(host), real), |call, result| call.copied(result, host))
}

/// An address, if it may be one of the host's.
fn of_host(kind: u32, host: u64, unified: u64) -> u64 {
    /// Values of `CUmemorytype`.
    const HOST: u32 = 1;
    const UNIFIED: u32 = 4;
    match kind {
        HOST => host,
        UNIFIED => unified,
        _ => 0,
    }
}

/// The addresses of the host's at both ends of a copy that a structure describes, and its bytes: the product of its sizes.
macro_rules! described {
    ($structure:ident at $copy:expr, $($size:ident)+) => {{
        let at = |offset: usize| $copy.cast::<u8>().wrapping_add(offset);
        // SAFETY: the program passes a structure, which the driver reads as well: on a card, whatever is wrong with the call. The kind of memory is read as an integer.
        let kind = |offset| unsafe { at(offset).cast::<u32>().read_unaligned() };
        // SAFETY: as above; sizes and addresses are integers.
        let word = |offset| unsafe { at(offset).cast::<u64>().read_unaligned() };
        let source = of_host(
            kind(offset_of!($structure, srcMemoryType)),
            word(offset_of!($structure, srcHost)),
            word(offset_of!($structure, srcDevice)),
        );
        let target = of_host(
            kind(offset_of!($structure, dstMemoryType)),
            word(offset_of!($structure, dstHost)),
            word(offset_of!($structure, dstDevice)),
        );
        let sizes = [$(word(offset_of!($structure, $size))),+];
        ([source, target], sizes.into_iter().fold(1, u64::saturating_mul))
    }};
}

pub(super) fn copies_2d(entry: Entry, copy: Handle, stream: Handle, real: impl Again) -> i32 {
    if copy.is_null() {
        return asynchronous(entry, 0, 0, stream, real);
    }
    let (host, bytes) = described!(CUDA_MEMCPY2D at copy, WidthInBytes Height);
    copies(entry, 0, [0, bytes as usize], host, stream, real)
}

/// A copy of a block, described by a structure. Between devices it is the same one, with contexts where this has reserved words.
pub(super) fn copies_3d(entry: Entry, copy: Handle, stream: Handle, real: impl Again) -> i32 {
    if copy.is_null() {
        return asynchronous(entry, 0, 0, stream, real);
    }
    let (host, bytes) = described!(CUDA_MEMCPY3D at copy, WidthInBytes Height Depth);
    copies(entry, 0, [0, bytes as usize], host, stream, real)
}

pub(super) fn allocates(entry: Entry, bytes: usize, memory: Handle, stream: Handle, real: impl Again) -> i32 {
    let subject = Subject::of(entry, 0, stream, RawPayload::memory(0, bytes as u64));
    let then = move |_, fast: FastSubmission| written(memory).into_iter().for_each(|at| fast.gave_out(at as u64));
    let after = move |call: &Call, result| {
        if result == SUCCESS {
            gave_out(call, memory);
        }
    };
    let begin = move || begin_out_of_line(entry, &subject.facts, |_, _| true);
    repeats(entry, subject, real, (begin, then), (|_| {}, after))
}

pub(super) fn frees(entry: Entry, address: u64, stream: Handle, real: impl Again) -> i32 {
    in_order(entry, stream, RawPayload::memory(address, 0), real)
}
