//! The answer to `dlsym` for a function of the driver or of NCCL.
//!
//! For `RTLD_NEXT` and `RTLD_DEFAULT` it is the hook where the caller's search order leads to the function that the hook calls; else the caller asks
//! itself. For any other handle it is the real answer, replaced by the hook if that calls the same function. The real answer is that of the next
//! `dlsym` in the search order. If another interposer answers with its own function, the hook calls that one. A look-up by the driver is never
//! replaced. `dlerror` is as after a success.
//!
//! Must not: allocate, lock, or use thread-local storage with a destructor.

use super::dynamic_linker::{another_is_next, next, real};
use super::slots::{hook_for, in_needs};
use super::{driver, link_map, nccl, objects};
use crate::runtime::pass_through;
use lazyguard_core::report::PassThrough;
use std::ffi::{c_void, CStr};
use std::ops::Range;
use std::ptr::without_provenance_mut;

/// The caller's own look-up is the answer: it depends on the caller.
pub const ASK_ITSELF: *mut c_void = without_provenance_mut(usize::MAX);

pub fn answer(handle: *mut c_void, name: &CStr, caller: *const c_void) -> *mut c_void {
    if driver::ADOPTED.addresses().contains(&(caller as u64)) {
        pass_through::note(PassThrough::AskedByDriver);
        return ASK_ITSELF;
    }
    if handle == libc::RTLD_NEXT {
        return behind(name, caller).and_then(|function| replaced(name, function)).unwrap_or(ASK_ITSELF);
    }
    let found = next(handle, name);
    if handle == libc::RTLD_DEFAULT && !another_is_next() {
        let own = link_map::object_of(caller).and_then(|map| in_needs(map.dynamic(), name));
        // The answer for this library is the caller's too, unless the caller's object finds another one first.
        let function =
            if found.is_null() { own } else { Some(found).filter(|found| own.is_none_or(|own| own == *found)) };
        return function.and_then(|function| replaced(name, function)).unwrap_or(ASK_ITSELF);
    }
    if let Some(hook) = replaced(name, found) {
        return hook;
    }
    if link_map::object_of(found).is_some_and(|map| driver::is_driver(map.dynamic(), map.path().to_bytes())) {
        pass_through::note(PassThrough::SecondDriver);
    }
    found
}

/// Looking another name up clears `dlerror`.
fn replaced(name: &CStr, function: *mut c_void) -> Option<*mut c_void> {
    let hook = hook_for(name, function)?;
    real(libc::RTLD_NEXT, c"dlsym");
    Some(hook)
}

/// The first definition behind the caller's object, if every object finds its driver or NCCL.
fn behind(name: &CStr, caller: *const c_void) -> Option<*mut c_void> {
    let mut is_behind = false;
    let found = objects::find(|object| {
        let was_behind = is_behind;
        is_behind |= object.addresses().contains(&(caller as u64));
        was_behind.then(|| object.dynamic().defines(name))?
    });
    let at = found? as u64;
    // An interposer defines some of the names, and hardly one of these.
    let is_global = |names: [&CStr; 2], addresses: Range<u64>| {
        addresses.contains(&at) && names.iter().any(|name| addresses.contains(&(real(libc::RTLD_DEFAULT, name) as u64)))
    };
    let is_seen = is_global([c"cuGetErrorName", c"cuDriverGetVersion"], driver::ADOPTED.addresses())
        || is_global([c"ncclGetErrorString", c"ncclGetVersion"], nccl::ADOPTED.addresses());
    found.filter(|_| is_seen)
}
