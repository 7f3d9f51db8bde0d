//! Libraries and kernels: loading, resolving, unloading, and the calls that load a function in passing.
//!
//! Must not: let the driver unload a library before its kernels are taken out of the state.

use super::call::{published, succeeds, written, Call, Entry, Real};
use super::image::{self, Options};
use super::release::unless_put_off;
use crate::lookup::driver::{Handle, SUCCESS};
use crate::preload::idle;
use crate::preload::queue::Item;
use crate::record::profile::Origin;
use lazyguard_core::image::Prints;
use lazyguard_core::profile::ImageId;
use lazyguard_core::state::{ColdKind, FunctionKind};
use lazyguard_core::trace::{Image, RawPayload};
use std::cell::Cell;
use std::ffi::{c_char, CStr};

pub(super) fn load(
    entry: Entry,
    library: Handle,
    code: Handle,
    jit: Options,
    options: Options,
    real: impl Real,
) -> i32 {
    let told = Cell::new(Told::default());
    let before = |call: &mut Call| {
        call.about.context = call.current_context();
        call.about.raw = RawPayload::image(Image::of(image::kind(code)));
        call.loads_code();
        if !library.is_null() {
            told.set(tells(call, code, jit, options));
        }
    };
    succeeds(
        entry,
        before,
        || given_ahead(library, told.get().ahead, real),
        |call| {
            if let Some(library) = written(library) {
                loaded(call, library as u64, told.get());
            }
        },
    )
}

#[derive(Clone, Copy, Default)]
struct Told {
    /// The library that was loaded ahead; 0 for none.
    ahead: u64,
    origin: Option<Origin>,
    /// The number of what is expected at its place.
    expected: Option<u32>,
    samples: Option<ImageId>,
}

/// A library is about to be loaded: tells the profile, and takes what was loaded ahead.
fn tells(call: &Call, code: Handle, jit: Options, options: Options) -> Told {
    let Some(profile) = &call.guard.profile else { return Told::default() };
    let (loader, context) = (&call.guard.loader, call.about.context);
    if let Some(place) = (jit.count == 0).then(|| image::place(code, options)).flatten() {
        let expected = loader.libraries.number_of(&place);
        let ahead = expected.and_then(|number| loader.libraries.take(number, code as u64)).unwrap_or(0);
        let origin = Some(Origin::Place(profile.loads_library(place)));
        return Told { ahead, origin, expected, samples: None };
    }
    let mut told = Told { samples: image::samples(code), ..Told::default() };
    if let Some((content, options)) = image::given_for_library(code, jit, options) {
        told.origin = Some(Origin::LibraryImage(profile.loads(context, &content, &options)));
        told.ahead = loader.ahead.take(context, &content, &options).unwrap_or(0);
    }
    told
}

fn loaded(call: &Call, library: u64, told: Told) {
    call.gave_out(library);
    call.comes_late();
    let loader = &call.guard.loader;
    if call.about.raw.loaded_image().needs_compiler() {
        call.guard.hazards.is_to_be_compiled(library);
        call.compiled();
    }
    let mut is_known = told.expected.is_some();
    if let Some(profile) = &call.guard.profile {
        told.origin.into_iter().for_each(|origin| profile.is_of(library, origin));
        if let Some(number) = told.expected.filter(|_| told.ahead == 0) {
            loader.is_the_runtimes(call.guard, number, library);
        }
        is_known |= told.samples.is_some_and(|id| profile.sees(library, id));
    }
    // The guard itself has recorded whether a library that it loaded ahead prints.
    if told.ahead == 0 && call.about.raw.loaded_image().prints() {
        loader.prints(library, Prints::Yes);
    }
    loader.library_loaded(call.guard, library, is_known);
    call.load_pending(call.about.context);
}

/// Puts what the guard has loaded ahead where the driver would put its own, which is not null; 0 is nothing, and the driver is called.
pub(super) fn given_ahead(to: Handle, ahead: u64, real: impl Real) -> i32 {
    if ahead == 0 {
        return real();
    }
    // SAFETY: the driver would write there, and the caller has seen that it is not null.
    unsafe { to.cast::<Handle>().write(ahead as Handle) };
    SUCCESS
}

/// A module is unloaded, or a library, from every context; and its functions or kernels with it.
pub(super) fn unload(entry: Entry, owner: Handle, real: impl Real) -> i32 {
    let before = |call: &mut Call| {
        let owner = owner as u64;
        of_owner(call, owner);
        let put_off = call.puts_off(owner);
        match put_off {
            None => call.waits_for_others(),
            Some(SUCCESS) => {}
            Some(_) => return put_off,
        }
        call.guard.hazards.owner_gone(owner);
        call.guard.loader.owner_goes(owner);
        call.guard.profile.iter().for_each(|profile| profile.gone(owner));
        // Before the call: once it has returned, the driver may reuse the handles for another thread's functions.
        call.guard.tracker.owner_gone(owner);
        // No thread may query the driver about them while they are destroyed.
        idle::settle();
        put_off
    };
    unless_put_off(entry, real, before, |_| {})
}

/// The call is about a module or library, and the current context.
pub(super) fn of_owner(call: &mut Call, owner: u64) {
    call.about.context = call.current_context();
    call.about.owner = owner;
}

pub(super) fn get_kernel(entry: Entry, kernel: Handle, library: Handle, name: Handle, real: impl Real) -> i32 {
    succeeds(
        entry,
        |call: &mut Call| of_owner(call, library as u64),
        real,
        |call| {
            let Some((kernel, number)) = resolved(call, kernel, name, FunctionKind::Kernel) else { return };
            if !call.guard.tracker.function_entry(number).is_some_and(|f| f.loaded_in(call.about.context)) {
                call.guard.loader.resolved(call.guard, call.about.context, Item::Kernel(kernel as u64, library as u64));
                call.load_pending(call.about.context);
            }
        },
    )
}

/// The function that a successful call has resolved by name: its handle, and the number that the guard gives it.
pub(super) fn resolved(call: &Call, out: Handle, name: Handle, kind: FunctionKind) -> Option<(Handle, u32)> {
    let handle = written(out).filter(|_| !name.is_null())?;
    // SAFETY: the driver has just read it, a terminated name.
    let name = unsafe { CStr::from_ptr(name.cast::<c_char>()) };
    let number = call.guard.tracker.function(handle as u64, kind, call.about.owner);
    call.guard.tracker.name_function(number, &name.to_string_lossy());
    Some((handle, number))
}

/// The kernels of a library are listed. That loads nothing.
pub(super) fn enumerate(entry: Entry, library: Handle, real: impl Real) -> i32 {
    published(entry, real, |call| call.about.owner = library as u64)
}

/// Something of a library is wanted in the current context, which brings the library there.
pub(super) fn uses_library(entry: Entry, library: Handle, real: impl Real) -> i32 {
    published(entry, real, |call| brings(call, library as u64))
}

/// Something is asked of a kernel for which its library has to be in the current context; the kernel's function is not loaded.
pub(super) fn uses_library_of(entry: Entry, kernel: Handle, real: impl Real) -> i32 {
    published(entry, real, |call| {
        let tracker = &call.guard.tracker;
        let number = tracker.known_function(kernel as u64);
        let owner = number.and_then(|number| tracker.function_entry(number)).map_or(0, |f| f.owner());
        if owner != 0 {
            brings(call, owner);
        }
    })
}

fn brings(call: &mut Call, library: u64) {
    of_owner(call, library);
    call.guard.profile.iter().for_each(|profile| profile.uses(library, None));
    if !call.guard.tracker.present(library, call.about.context) {
        call.load_pending(call.about.context);
    }
    if !call.guard.tracker.present(library, call.about.context) {
        call.loads(ColdKind::Module);
    }
}

/// A kernel's function in the current context is wanted, which loads it.
pub(super) fn get_function(entry: Entry, function: Handle, kernel: Handle, real: impl Real) -> i32 {
    succeeds(
        entry,
        |call: &mut Call| uses(call, kernel),
        real,
        |call| {
            let Some(function) = written(function) else { return };
            call.loaded();
            let tracker = &call.guard.tracker;
            let Some(owner) = tracker.function_entry(call.about.function).map(|f| f.owner()) else { return };
            let number = tracker.function(function as u64, FunctionKind::Function, owner);
            if let Some(name) = tracker.function_name(call.about.function) {
                tracker.name_function(number, name);
            }
            if let Some(entry) = tracker.function_entry(number) {
                entry.set_loaded_in(call.about.context);
            }
        },
    )
}

/// A call about a function or kernel that loads it in the current context.
pub(super) fn loads_function(entry: Entry, function: Handle, real: impl Real) -> i32 {
    published(entry, real, |call| uses(call, function))
}

fn uses(call: &mut Call, function: Handle) {
    call.about.context = call.current_context();
    call.uses(function);
}
