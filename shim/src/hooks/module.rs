//! Modules: loading, resolving, unloading; and the question for the loading mode.

use super::call::{observe, published, Entry};
use super::image;
use super::library::resolved;
use crate::lookup::driver::{self, Handle, SUCCESS};
use crate::runtime::loader::Item;
use crate::runtime::{door, nudge};
use lazyguard_core::state::{ColdKind, FunctionKind};
use lazyguard_core::trace::{Image, RawPayload};
use std::arch::naked_asm;
use std::ffi::c_void;

/// A module is loaded into the current context: the driver waits until everything in flight there has ended.
pub(super) fn load(entry: Entry, module: Handle, image: Handle, real: impl FnOnce() -> i32) -> i32 {
    observe(
        entry,
        |call| {
            call.about.context = call.current_context();
            call.about.raw = RawPayload::image(Image::of(image::kind(image)));
            call.loads(ColdKind::Module);
        },
        real,
        |call, result| {
            if result != SUCCESS || module.is_null() {
                return;
            }
            // SAFETY: the driver has just filled it in.
            let module = unsafe { *module.cast::<Handle>() } as u64;
            call.gave_out(module);
            call.guard.tracker.set_present(module, call.about.context);
            call.guard.loader.module_loaded(call.guard, call.about.context, module);
            call.load_pending(call.about.context);
        },
    )
}

/// A function is resolved by name; drivers since 12.x load it with that.
pub(super) fn get_function(
    entry: Entry,
    function: Handle,
    module: Handle,
    name: Handle,
    real: impl FnOnce() -> i32,
) -> i32 {
    observe(
        entry,
        |call| {
            call.about.context = call.current_context();
            call.about.owner = module as u64;
        },
        real,
        |call, result| {
            if result != SUCCESS {
                return;
            }
            let Some((function, number)) = resolved(call, function, name, FunctionKind::Function) else { return };
            let mut state = 0;
            if driver::function_is_loaded(&mut state, function) == Some(SUCCESS) && state == 1 {
                call.got_loaded(number);
                return;
            }
            let item = Item::Function(function as u64, module as u64);
            call.guard.loader.resolved(call.guard, call.about.context, item);
            call.load_pending(call.about.context);
        },
    )
}

/// A global of a module.
pub(super) fn get_global(entry: Entry, module: Handle, real: impl FnOnce() -> i32) -> i32 {
    published(
        entry,
        |call| {
            call.about.context = call.current_context();
            call.about.owner = module as u64;
        },
        real,
    )
}

/// A program asks for the loading mode, and gets the driver's answer.
pub(super) fn loading_mode(_entry: Entry, _mode: Handle, real: impl FnOnce() -> i32) -> i32 {
    real()
}

/// A runtime asks for the loading mode, through a pointer it looked up. Naked, because what is answered depends on who
/// asks, which only the return address tells.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
pub(super) unsafe extern "C" fn loading_mode_for_runtime(mode: *mut i32) -> i32 {
    naked_asm!("mov rsi, [rsp]", "jmp {answer}", answer = sym answer_runtime)
}

/// See the other architecture's.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
pub(super) unsafe extern "C" fn loading_mode_for_runtime(mode: *mut i32) -> i32 {
    naked_asm!("mov x1, x30", "b {answer}", answer = sym answer_runtime)
}

extern "C-unwind" fn answer_runtime(mode: *mut i32, caller: *const c_void) -> i32 {
    // SAFETY: the program's own argument, passed on to the function it called.
    let result = unsafe { super::cuModuleGetLoadingMode(mode.cast()) };
    if result == SUCCESS && !mode.is_null() {
        // SAFETY: the driver has just filled it in.
        door::inside(|| nudge::answer(unsafe { &mut *mode }, caller));
    }
    result
}
