//! The answer to a look-up of a driver function, or of one of NCCL, by `dlsym`.
//!
//! | handle | what happens |
//! |---|---|
//! | `RTLD_NEXT` | does not come here: the caller is another interposer and wants what comes after itself |
//! | `RTLD_DEFAULT`, or one whose search meets this library first | the hook if a driver is loaded; else what there would be without this library |
//! | any other | the real answer, replaced by the hook if it lies in the driver |
//!
//! The real answer is what the next `dlsym` in the search order gives: the C library's, or that of another interposer. Where it is the
//! interposer's own function, and that is what the hook calls, the hook takes its place as well.
//!
//! A look-up by the driver itself is never replaced. After a replaced look-up `dlerror` is as the real one left it.
//!
//! Must not: allocate, lock, or use thread-local storage with a destructor.

use super::dynamic_linker::{another_is_next, next, real};
use super::table::hook;
use super::{driver, nccl, objects};
use crate::runtime::pass_through;
use lazyguard_core::api::EntryPoint;
use lazyguard_core::report::PassThrough;
use std::ffi::{c_void, CStr};

/// The answer to a look-up that `caller` makes.
pub fn answer(handle: *mut c_void, name: &CStr, caller: *const c_void) -> *mut c_void {
    let found = next(handle, name);
    let Some(entry_point) = EntryPoint::by_symbol(name.to_bytes()) else { return found };
    if found.is_null() {
        return found;
    }
    if !entry_point.is_of_driver() {
        return of_nccl(handle, name, caller, entry_point, found);
    }
    let hook = hook(entry_point);
    let replace = if found == hook {
        // The search met this library first. Without it, the name would be found only where a driver is loaded.
        driver::adopt_loaded();
        match driver::known(entry_point) {
            Some(_) => true,
            // Ask for what comes after this library, so that the answer and `dlerror` are as they would be without it.
            None => return real(libc::RTLD_NEXT, name),
        }
    } else {
        driver::adopt_at(found) || driver::calls(entry_point, found)
    };
    let by_driver = objects::object_of(caller).is_some_and(objects::is_driver);
    let found = again(handle, name, found);
    if by_driver {
        pass_through::note(PassThrough::AskedByDriver);
    }
    if replace && !by_driver {
        hook
    } else if found == hook {
        driver::known(entry_point).unwrap_or(found)
    } else {
        found
    }
}

/// The answer again, after look-ups that may have failed at something else and left that as `dlerror`: this one succeeds and clears it.
fn again(handle: *mut c_void, name: &CStr, found: *mut c_void) -> *mut c_void {
    if another_is_next() {
        // Another interposer may count what it is asked, or answer once.
        real(libc::RTLD_NEXT, c"dlsym");
        return found;
    }
    real(handle, name)
}

/// The same for a function of NCCL: the hook if the answer lies in the NCCL that the guard follows.
fn of_nccl(
    handle: *mut c_void,
    name: &CStr,
    caller: *const c_void,
    entry_point: EntryPoint,
    found: *mut c_void,
) -> *mut c_void {
    let hook = hook(entry_point);
    let follow = match found == hook {
        // The search met this library first. Without it, the name would be found only where the caller can find an NCCL.
        true => match nccl::find(entry_point, caller) {
            Some(function) if nccl::adopt_at(function) => true,
            Some(function) => return function,
            None => return real(libc::RTLD_NEXT, name),
        },
        false => nccl::adopt_at(found),
    };
    let found = again(handle, name, found);
    if follow {
        hook
    } else {
        found
    }
}
