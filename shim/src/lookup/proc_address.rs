//! The hooks of `cuGetProcAddress`, both calling sequences.
//!
//! The driver is asked first. Only if it answers with a pointer is that pointer looked at: if it is the real function of
//! a entry_point that goes by the name asked for, the hook of that very entry_point takes its place, so that the calling sequence is
//! the one the driver chose for the version and the flags. A pointer that the driver exports under no name may be a newer
//! entry_point with another calling sequence: it is taken for the newest known entry_point only if the driver answers with the same
//! pointer when asked for exactly that entry_point's version. A name the table does not hold passes untouched; if it looks like a launch,
//! a load, a wait or a capture, it is noted for the summary.
//!
//! Must not: change the driver's result or status, or what the program finds when the driver has not answered.

use super::driver::{self, Handle, SUCCESS};
use crate::hooks;
use crate::hooks::call::Entry;
use crate::runtime;
use crate::runtime::door;
use lazyguard_core::api::EntryPoint;
use std::ffi::{c_char, CStr};
use std::sync::atomic::{AtomicU64, Ordering};

/// `CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM`.
const PER_THREAD_DEFAULT_STREAM: u64 = 2;

/// Beginnings of names that, unhooked, could launch, load, wait or capture behind the guard's back.
const OF_CONCERN: &[&[u8]] = &[
    b"cuLaunch",
    b"cuGraphLaunch",
    b"cuStreamBegin",
    b"cuStreamWait",
    b"cuStreamBatch",
    b"cuModuleLoad",
    b"cuLibraryLoad",
];

static LOOKED_UP: AtomicU64 = AtomicU64::new(0);

/// How many names were looked up successfully.
pub fn looked_up() -> u64 {
    LOOKED_UP.load(Ordering::Relaxed)
}

/// `cuGetProcAddress`, as of 11.3.
pub fn get_proc_address(
    _entry: Entry,
    symbol: Handle,
    pointer: Handle,
    version: i32,
    flags: u64,
    real: impl FnOnce() -> i32,
) -> i32 {
    let result = real();
    if result == SUCCESS {
        LOOKED_UP.fetch_add(1, Ordering::Relaxed);
        door::inside(|| substitute(symbol, pointer, version, flags));
    }
    result
}

/// `cuGetProcAddress_v2`, as of 12.0. The status, which may be null, is the driver's own.
pub fn get_proc_address_v2(
    entry: Entry,
    symbol: Handle,
    pointer: Handle,
    version: i32,
    flags: u64,
    _status: Handle,
    real: impl FnOnce() -> i32,
) -> i32 {
    get_proc_address(entry, symbol, pointer, version, flags, real)
}

fn substitute(symbol: Handle, pointer: Handle, version: i32, flags: u64) {
    if symbol.is_null() || pointer.is_null() || !runtime::switched_on() {
        return;
    }
    // SAFETY: the driver has just accepted both: a terminated name, and room for a pointer, which it has filled in.
    let (name, slot) = unsafe { (CStr::from_ptr(symbol.cast::<c_char>()), &mut *pointer.cast::<Handle>()) };
    let name = name.to_bytes();
    if slot.is_null() {
        return;
    }
    // A driver that is not linked symbolically gives out what the dynamic linker made of its own symbols: the hooks.
    let exact = driver::form_of(*slot, EntryPoint::by_base(name))
        .or_else(|| EntryPoint::by_base(name).find(|&f| hooks::hook(f) == *slot));
    let entry_point = match exact {
        Some(entry_point) => entry_point,
        None => {
            let per_thread = flags & PER_THREAD_DEFAULT_STREAM != 0;
            let known = EntryPoint::by_request(name, version, per_thread)
                .filter(|entry_point| driver::answers_alike(symbol.cast(), entry_point.info().since, flags, *slot));
            let Some(entry_point) = known else {
                if OF_CONCERN.iter().any(|start| name.starts_with(start)) {
                    runtime::note_unhooked(name);
                }
                return;
            };
            // A pointer into an object that is not the adopted driver is another layer's, or a second driver's. One into no
            // object at all is code that the driver has made.
            if super::objects::object_of(*slot).is_some() && !driver::adopt_at(*slot) {
                return;
            }
            driver::remember(entry_point, *slot);
            entry_point
        }
    };
    *slot = hooks::hook_for_runtime(entry_point);
}
