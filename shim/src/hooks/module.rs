//! Modules: loading, resolving, unloading.
//!
//! Must not: let the driver unload a module before its functions are taken out of the state.

use super::call::{observe, published, Entry};
use super::image;
use super::library::resolved;
use crate::lookup::driver::{self, Handle, SUCCESS};
use crate::preload::queue::Item;
use lazyguard_core::state::{ColdKind, FunctionKind};
use lazyguard_core::trace::{Image, RawPayload};

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
