//! Stream memory operations: a stream writes a value, or waits for one. The driver sees no order in them; the guard does.
//!
//! Must not: read more of the program's list than the driver does, or what is not there: it refuses flags that it does not know, too many operations, and
//! the older form of the call, before it looks at the list.

use super::call::{observe, succeeds, About, Again, Call, Entry, Real};
use super::fast::{begin_out_of_line, repeats, Subject};
use crate::lookup::driver::{Handle, SUCCESS};
use crate::record::Guard;
use crate::runtime::readable;
use crate::runtime::results::{self, REVOKED};
use cudarc::driver::sys::{
    CUstreamBatchMemOpParams_union as Params,
    CUstreamBatchMemOpParams_union_CUstreamMemOpWaitValueParams_st as WaitParams,
    CUstreamBatchMemOpParams_union_CUstreamMemOpWriteValueParams_st as WriteParams,
};
use lazyguard_core::api::{ValueWait, ValueWrite};
use lazyguard_core::hazard::Outstanding;
use lazyguard_core::state::FastSubmission;
use lazyguard_core::trace::layout::flag;
use lazyguard_core::trace::RawPayload;
use std::cell::{Cell, RefCell};
use std::mem::{offset_of, ManuallyDrop};
use std::sync::atomic::{AtomicUsize, Ordering};

/// One of so many writes to one address and stream takes the slow path: its record is a rare event, which stays when the others are overwritten.
const WRITES_A_RARE_EVENT: usize = 64;

/// An operation of four bytes, whose function says whether it waits.
pub(super) const fn narrow(address: u64, value: u32, flags: u32) -> MemoryOperation {
    MemoryOperation { waits: false, wide: false, address, value: value as u64, flags }
}

/// One of eight bytes.
pub(super) const fn wide(address: u64, value: u64, flags: u32) -> MemoryOperation {
    MemoryOperation { waits: false, wide: true, address, value, flags }
}

pub(super) fn write(entry: Entry, stream: Handle, operation: MemoryOperation, real: impl Again) -> i32 {
    let (met, place) = (&kept_across_the_call(), &Cell::new(0));
    let MemoryOperation { wide, address, value, .. } = operation;
    let subject = Subject::of(entry, address, stream, operation.raw());
    let subject = Subject { facts: subject.facts.with(operation.bits()), ..subject };
    let may = move |guard: &Guard, count: &AtomicUsize| {
        let number = count.load(Ordering::Relaxed) + 1;
        count.store(number, Ordering::Relaxed);
        let may = !guard.hazards.has_waits() && number < WRITES_A_RARE_EVENT && !results::is_set(REVOKED);
        if may {
            // Before the call: behind it, an exchange waits until the card has what the driver has sent it.
            place.set(guard.hazards.writes.reserve());
        }
        may
    };
    let then = move |guard: &Guard, fast: FastSubmission| {
        let (stream, _) = fast.stream_and_context();
        guard.hazards.written(guard, place.get(), &ValueWrite { at: fast.entered(), address, value, stream, wide });
    };
    let write = move |call: &Call| ValueWrite { at: call.entered, address, value, stream: call.about.stream, wide };
    let before = move |call: &mut Call| {
        describe(call, &operation);
        met.replace(call.waits_met(&write(call)));
    };
    let after = move |call: &Call, result| {
        let met = met.take();
        if result == SUCCESS {
            call.written(&write(call), &met);
        }
    };
    let begin = move || begin_out_of_line(entry, &subject.facts, may);
    repeats(entry, subject, real, (begin, then), (before, after))
}

pub(super) fn wait(entry: Entry, stream: Handle, operation: MemoryOperation, real: impl Real) -> i32 {
    let MemoryOperation { wide, address, value, flags, .. } = operation;
    let before = |call: &mut Call| {
        call.submits_to(stream);
        describe(call, &MemoryOperation { waits: true, ..operation });
    };
    succeeds(entry, before, real, |call| {
        call.waited(ValueWait { at: call.entered, address, value, flags, wide });
    })
}

/// Several operations at once. The call's own record holds the first; each of the others has its own.
pub(super) fn batch(entry: Entry, stream: Handle, count: u32, list: Handle, real: impl Real) -> i32 {
    let submitted = kept_across_the_call();
    let before = |call: &mut Call| {
        call.submits_to(stream);
        let mut submitted = submitted.borrow_mut();
        for operation in operations(count, list) {
            let MemoryOperation { waits, wide, address, value, flags } = operation;
            match submitted.is_empty() {
                true => describe(call, &operation),
                false => call.push_about(About { flags: operation.bits(), raw: operation.raw(), ..call.about }),
            }
            submitted.push(if waits {
                Submitted::Wait(ValueWait { at: call.entered, address, value, flags, wide })
            } else {
                let write = ValueWrite { at: call.entered, address, value, stream: call.about.stream, wide };
                Submitted::Write(write, call.waits_met(&write))
            });
        }
    };
    observe(entry, before, real, |call, result| {
        for one in submitted.take().into_iter().filter(|_| result == SUCCESS) {
            match one {
                Submitted::Wait(wait) => call.waited(wait),
                Submitted::Write(write, met) => call.written(&write, &met),
            }
        }
    })
}

/// One of the operations of a call that submits several; of a write also the waits that stood before it.
enum Submitted {
    Wait(ValueWait),
    Write(ValueWrite, Vec<Outstanding>),
}

fn describe(call: &mut Call, operation: &MemoryOperation) {
    call.about.flags |= operation.bits();
    call.about.raw = operation.raw();
}

/// A list of a call. It is leaked where an exception leaves the call: a drop would take a landing pad in the frame that calls the driver.
fn kept_across_the_call<T>() -> ManuallyDrop<RefCell<Vec<T>>> {
    ManuallyDrop::new(RefCell::new(Vec::new()))
}

/// The most operations that the driver takes in one call; it does not read more.
const MOST_OPERATIONS: u32 = 256;

/// A wait for a value or a write of one, from a list of operations.
#[derive(Clone, Copy)]
pub(super) struct MemoryOperation {
    pub waits: bool,
    pub wide: bool,
    pub address: u64,
    pub value: u64,
    pub flags: u32,
}

impl MemoryOperation {
    fn bits(&self) -> u8 {
        (if self.wide { flag::WIDE } else { 0 }) | if self.waits { flag::WAIT } else { 0 }
    }

    fn raw(&self) -> RawPayload {
        RawPayload::memory_operation(self.address, self.value, self.flags)
    }
}

/// Both kinds have address and value at the same places.
const _: () = assert!(
    offset_of!(WaitParams, address) == offset_of!(WriteParams, address)
        && offset_of!(WaitParams, __bindgen_anon_1) == offset_of!(WriteParams, __bindgen_anon_1)
);

/// The waits and writes in a list. The kinds are read as integers: a newer driver has more of them than this build knows.
pub(super) fn operations(count: u32, operations: Handle) -> impl Iterator<Item = MemoryOperation> {
    const WAIT_32: u32 = 1;
    const WRITE_32: u32 = 2;
    const WAIT_64: u32 = 4;
    const WRITE_64: u32 = 5;
    let bytes = count.min(MOST_OPERATIONS) as usize * size_of::<Params>();
    let count = readable::bytes(operations.cast(), bytes).map_or(0, |_| count.min(MOST_OPERATIONS));
    (0..count).filter_map(move |n| {
        // SAFETY: there are `count` operations, which are read as bytes of the layout that the header gives them.
        let read = |offset: usize| unsafe { operations.cast::<Params>().add(n as usize).cast::<u8>().add(offset) };
        // SAFETY: as above; every kind begins with its number.
        let kind = unsafe { read(0).cast::<u32>().read_unaligned() };
        let (waits, wide) = match kind {
            WAIT_32 | WAIT_64 => (true, kind == WAIT_64),
            WRITE_32 | WRITE_64 => (false, kind == WRITE_64),
            _ => return None,
        };
        // SAFETY: as above; the value is a union of a 32-bit and a 64-bit one at its offset.
        unsafe {
            let address = read(offset_of!(WaitParams, address)).cast::<u64>().read_unaligned();
            let value = read(offset_of!(WaitParams, __bindgen_anon_1));
            let value = match wide {
                true => value.cast::<u64>().read_unaligned(),
                false => value.cast::<u32>().read_unaligned().into(),
            };
            let flags = if waits { read(offset_of!(WaitParams, flags)).cast::<u32>().read_unaligned() } else { 0 };
            Some(MemoryOperation { waits, wide, address, value, flags })
        }
    })
}
