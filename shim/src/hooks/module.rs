//! Modules: loading, resolving, unloading.
//!
//! A load of code that the guard has loaded ahead, by the profile, gets that module, and the driver is not called ([`crate::preload::ahead`]).
//!
//! Must not: let the driver unload a module before its functions are taken out of the state.

use super::call::{published, succeeds, written, Call, Entry, Real};
use super::image::{self, Content, Options};
use super::library::{given_ahead, of_owner, resolved};
use crate::lookup::driver::{self, Handle};
use crate::preload::queue::Item;
use crate::record::profile::Origin;
use crate::runtime::readable;
use lazyguard_core::state::{ColdKind, FunctionKind};
use lazyguard_core::trace::{Image, RawPayload};
use std::cell::Cell;
use std::ptr::null_mut;

pub(super) fn load_file(entry: Entry, module: Handle, path: Handle, real: impl Real) -> i32 {
    load(entry, module, null_mut(), || image::in_file(path), real)
}

pub(super) fn load_data(entry: Entry, module: Handle, image: Handle, options: Options, real: impl Real) -> i32 {
    load(entry, module, image, || image::given(image, options), real)
}

pub(super) fn load_fat_binary(entry: Entry, module: Handle, image: Handle, real: impl Real) -> i32 {
    load(entry, module, image, || image::given_as_fat_binary(image), real)
}

/// The driver waits until everything in flight in the context has ended. `given` is asked where there is a profile.
fn load<'a>(
    entry: Entry,
    module: Handle,
    image: Handle,
    given: impl FnOnce() -> Option<Content<'a>>,
    real: impl Real,
) -> i32 {
    let (handed_over, of_image) = (Cell::new(0), Cell::new(None));
    let before = |call: &mut Call| {
        call.about.context = call.current_context();
        call.about.raw = RawPayload::image(Image::of(image::kind(image)));
        // A load that the driver refuses for want of a place for the module, or of a context, is none.
        let can_be = !module.is_null() && call.about.context != 0;
        if let Some(profile) = call.guard.profile.as_ref().filter(|_| can_be) {
            if let Some((content, options)) = given() {
                of_image.set(Some(profile.loads(call.about.context, &content, &options)));
                if let Some(ahead) = call.guard.loader.ahead.take(call.about.context, &content, &options) {
                    handed_over.set(ahead);
                    return call.meets_ahead(ahead);
                }
            }
        }
        call.loads(ColdKind::Module);
    };
    succeeds(
        entry,
        before,
        || given_ahead(module, handed_over.get(), real),
        |call| {
            let Some(module) = written(module).map(|module| module as u64) else { return };
            call.gave_out(module);
            if let (Some(profile), Some(id)) = (&call.guard.profile, of_image.get()) {
                profile.is_of(module, Origin::Image(id));
            }
            call.guard.tracker.set_present(module, call.about.context, false);
            call.guard.loader.module_loaded(call.guard, call.about.context, module);
            call.load_pending(call.about.context);
        },
    )
}

const MOST_NAME_BYTES: usize = 1 << 20;

pub(super) fn get_function(entry: Entry, function: Handle, module: Handle, name: Handle, real: impl Real) -> i32 {
    let before = |call: &mut Call| {
        of_owner(call, module as u64);
        // The driver refuses a module that is none before it looks at the name.
        let name = || readable::text(name.cast(), MOST_NAME_BYTES);
        if let Some((profile, name)) = call.guard.profile.as_ref().and_then(|profile| Some((profile, name()?))) {
            profile.looks_up(module as u64, &name.to_string_lossy());
        }
    };
    succeeds(entry, before, real, |call| {
        let Some((function, number)) = resolved(call, function, name, FunctionKind::Function) else { return };
        if driver::is_loaded(function) {
            return call.got_loaded(number);
        }
        call.guard.loader.resolved(call.guard, call.about.context, Item::Function(function as u64, module as u64));
        call.load_pending(call.about.context);
    })
}

pub(super) fn get_global(entry: Entry, module: Handle, real: impl Real) -> i32 {
    published(entry, real, |call| of_owner(call, module as u64))
}
