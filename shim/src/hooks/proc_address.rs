//! `cuGetProcAddress`, both calling sequences: runtimes look up everything that way. And their question for the loading mode: a program gets the driver's
//! answer, a CUDA runtime the guard's ([`nudge`]).
//!
//! Must not: change the driver's result or status, or make the real call more than once.

use super::call::{Entry, Real};
use super::context::observed;
use crate::lookup::driver::{self, Handle, NOT_FOUND, SUCCESS};
use crate::lookup::proc_address::substitute;
use crate::preload::nudge;
use crate::record::guard;
use crate::runtime::door;
use lazyguard_core::api::EntryPoint;
use std::arch::naked_asm;
use std::ffi::c_void;

pub(super) fn get_proc_address(
    entry: Entry,
    symbol: Handle,
    pointer: Handle,
    version: i32,
    flags: u64,
    real: impl Real,
) -> i32 {
    let result = observed(entry, real);
    if result == SUCCESS {
        door::inside(|| substitute(symbol, pointer, version, flags));
    }
    result
}

/// A runtime asks, through a pointer it looked up. Naked: the answer depends on the caller, which only the return address shows.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
pub(super) unsafe extern "C" fn mode_for_runtime(mode: *mut i32) -> i32 {
    naked_asm!("mov rsi, [rsp]", "jmp {answer}", answer = sym answer_runtime)
}

/// See the other architecture's.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
pub(super) unsafe extern "C" fn mode_for_runtime(mode: *mut i32) -> i32 {
    naked_asm!("mov x1, x30", "b {answer}", answer = sym answer_runtime)
}

extern "C-unwind" fn answer_runtime(mode: *mut i32, caller: *const c_void) -> i32 {
    // The pointer to this function was handed out in the place of the driver's.
    let Some(real) = EntryPoint::by_symbol(b"cuModuleGetLoadingMode").and_then(driver::real) else { return NOT_FOUND };
    // SAFETY: the driver's function of this name has this calling sequence (see the table).
    let real: unsafe extern "C-unwind" fn(Handle) -> i32 = unsafe { std::mem::transmute(real) };
    // SAFETY: the program's own argument, passed on to the function it called.
    let result = unsafe { real(mode.cast()) };
    if result == SUCCESS && !mode.is_null() {
        // SAFETY: the driver has just filled it in.
        let mode = unsafe { &mut *mode };
        door::inside(|| {
            if let Some(guard) = guard() {
                // A runtime asks when it starts, and then takes the primary context in a way of its own, which no hook sees.
                guard.before_a_context();
                guard.paths.runtime_asks(caller.addr());
                nudge::answer(guard, &guard.loader, mode, caller);
            }
        });
    }
    result
}
