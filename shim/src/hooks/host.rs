//! Host functions: a stream calls the program back, and continues when the function has returned.
//!
//! A hang may be about a host function that was called and has not returned, and only the host knows which. So the hook gives the
//! driver a function of the guard's, which notes the call, makes it, and notes its return. The call itself shows that everything
//! before it on its stream is complete.
//!
//! Protocol: what the program asked for travels in a block of memory of its own, which the called function frees. The hook leaves
//! unchanged what goes into a graph, which may be called any number of times, and everything where there is no memory.
//!
//! Must not: call the driver from a host function, which the driver forbids.

use super::call::{observe, Call, Entry};
use crate::lookup::driver::{self, Handle, SUCCESS};
use crate::record::guard;
use crate::runtime::{door, pass_through, thread};
use lazyguard_core::report::PassThrough;
use lazyguard_core::state::Caller;
use lazyguard_core::trace::layout::flag;
use lazyguard_core::trace::{Kind, Lane, RawPayload, Record};
use lazyguard_core::Nanos;
use std::cell::Cell;
use std::ptr::null_mut;

type HostFunction = unsafe extern "C-unwind" fn(Handle);
type Callback = unsafe extern "C-unwind" fn(Handle, i32, Handle);

/// What the program asked for.
#[derive(Clone, Copy)]
struct Wanted {
    entry: Entry,
    function: Handle,
    user_data: Handle,
    /// The stream's number and handle.
    stream: u32,
    handle: u64,
    context: u32,
    submitted: Nanos,
}

/// A host function is submitted to a stream.
pub(super) fn launch(
    entry: Entry,
    stream: Handle,
    function: Handle,
    user_data: Handle,
    real: impl FnOnce() -> i32,
) -> i32 {
    submit(entry, stream, function, user_data, real, |wanted| {
        let real = driver::known(entry.entry_point)?;
        // SAFETY: the driver's function of this entry point has this calling sequence.
        let real: unsafe extern "C-unwind" fn(Handle, HostFunction, Handle) -> i32 =
            unsafe { std::mem::transmute(real) };
        // SAFETY: the program's own arguments, but for the function, which takes what it is given here.
        Some(unsafe { real(stream, called, wanted) })
    })
}

/// The older entry point, which reports errors to the function.
pub(super) fn add_callback(
    entry: Entry,
    stream: Handle,
    function: Handle,
    user_data: Handle,
    flags: u32,
    real: impl FnOnce() -> i32,
) -> i32 {
    submit(entry, stream, function, user_data, real, |wanted| {
        let real = driver::known(entry.entry_point)?;
        // SAFETY: as above.
        let real: unsafe extern "C-unwind" fn(Handle, Callback, Handle, u32) -> i32 =
            unsafe { std::mem::transmute(real) };
        // SAFETY: as above.
        Some(unsafe { real(stream, called_back, wanted, flags) })
    })
}

/// Makes the call, with the guard's function in the place of the program's where that can be.
fn submit(
    entry: Entry,
    stream: Handle,
    function: Handle,
    user_data: Handle,
    real: impl FnOnce() -> i32,
    wrapped: impl FnOnce(Handle) -> Option<i32>,
) -> i32 {
    let wanted = Cell::new(null_mut());
    observe(
        entry,
        |call| {
            call.submits_to(stream);
            call.about.raw = RawPayload::about(function as u64);
            if function.is_null() {
                // The driver refuses it.
            } else if call.is_carried_out_once() {
                wanted.set(keep(call, function, user_data));
            } else {
                pass_through::note(PassThrough::CapturedHostFunction);
            }
        },
        || {
            let kept = wanted.get();
            if kept.is_null() {
                return real();
            }
            match wrapped(kept.cast()) {
                Some(SUCCESS) => SUCCESS,
                answer => {
                    // SAFETY: the driver has refused the call, so this is the only pointer to the block.
                    unsafe { libc::free(kept.cast()) };
                    answer.unwrap_or_else(real)
                }
            }
        },
        |_, _| {},
    )
}

/// A block with the program's function and argument, or null.
fn keep(call: &Call, function: Handle, user_data: Handle) -> *mut Wanted {
    // SAFETY: plain memory; no allocation of Rust's, which would end the process where there is none.
    let place = unsafe { libc::malloc(size_of::<Wanted>()) }.cast::<Wanted>();
    if place.is_null() {
        pass_through::note(PassThrough::NoMemory);
    } else {
        let handle = call.about.stream_entry.map_or(0, lazyguard_core::state::Stream::handle);
        let (stream, context) = (call.about.stream, call.about.context);
        let entry = Entry { entry_point: call.entry_point, caller: call.caller };
        // SAFETY: big enough, and aligned for everything.
        unsafe { place.write(Wanted { entry, function, user_data, stream, handle, context, submitted: call.entered }) };
    }
    place
}

/// What the driver calls in the place of a host function.
unsafe extern "C-unwind" fn called(kept: Handle) {
    let wanted = take(kept);
    note(&wanted, Kind::HostBegins);
    // SAFETY: the program's function, as the driver would have called it.
    unsafe { std::mem::transmute::<Handle, HostFunction>(wanted.function)(wanted.user_data) };
    note(&wanted, Kind::HostEnds);
}

/// What the driver calls in the place of a callback.
unsafe extern "C-unwind" fn called_back(stream: Handle, status: i32, kept: Handle) {
    let wanted = take(kept);
    note(&wanted, Kind::HostBegins);
    // SAFETY: as above.
    unsafe { std::mem::transmute::<Handle, Callback>(wanted.function)(stream, status, wanted.user_data) };
    note(&wanted, Kind::HostEnds);
}

fn take(kept: Handle) -> Wanted {
    // SAFETY: written by `keep`, and handed to one call.
    let wanted = unsafe { kept.cast::<Wanted>().read() };
    // SAFETY: allocated by `keep`, and used no more.
    unsafe { libc::free(kept) };
    wanted
}

/// Leaves a record, and stores the progress of the stream that the call proves.
#[inline(never)]
fn note(wanted: &Wanted, kind: Kind) {
    door::inside(|| {
        let Some(guard) = guard() else { return };
        let Some(slot) = thread::slot(guard) else { return };
        let here = Caller { stack: std::ptr::from_ref(wanted) as usize, ..Caller::default() };
        if !slot.enter(here) {
            return;
        }
        let now = guard.now();
        let stream = guard.tracker.stream_entry(wanted.stream);
        if let Some(stream) = stream.filter(|s| s.alive() && s.handle() == wanted.handle) {
            // The function itself is outstanding until it has returned.
            let itself = u64::from(kind == Kind::HostBegins);
            stream.complete_until(wanted.submitted.saturating_sub(itself));
        }
        let record = Record {
            kind,
            flags: flag::SUBMITTED,
            entered: now,
            returned: now,
            stream: wanted.stream,
            context: wanted.context.min(0xffff) as u16,
            raw: RawPayload::host_call(wanted.function as u64, wanted.submitted),
            caller: wanted.entry.caller.address as u64,
            ..Record::of(wanted.entry.entry_point)
        };
        slot.push(&record, Lane::Waits);
        slot.leave();
    });
}
