//! The C library's functions that the library calls. A program may define `syscall`, `open` or `environ`, and the first definition binds every object's
//! references. So the constructor binds those of the library's own slots to the C library. Under a sanitizer, the functions by which it follows memory and
//! threads stay bound to it.
//!
//! Must not: allocate, or call a function of another object before its own slot is bound.

use super::dynamic::Dynamic;
use super::link_map::at_start;
use super::slots::Pages;
use std::ffi::{c_void, CStr};
use std::sync::atomic::{AtomicPtr, Ordering};

const C_LIBRARY: [&[u8]; 6] =
    [b"libc.so.6", b"ld-linux-x86-64.so.2", b"ld-linux-aarch64.so.1", b"libpthread.so.0", b"libdl.so.2", b"librt.so.1"];

const OF_SANITIZERS: [&CStr; 8] = [
    c"mmap",
    c"mmap64",
    c"munmap",
    c"sigaction",
    c"pthread_create",
    c"pthread_detach",
    c"__tls_get_addr",
    c"__cxa_thread_atexit_impl",
];

/// Every sanitizer's runtime has this function.
const MARK: &CStr = c"__sanitizer_print_stack_trace";

#[link_section = ".text.lazyguard_start"]
pub fn bind() {
    let own = bind as *const () as u64;
    let (mut this, mut library) = (None, None);
    // In most programs the C library has two parts.
    let mut parts = [const { 0..0 }; C_LIBRARY.len()];
    for map in at_start() {
        if let Some(which) = C_LIBRARY.iter().position(|name| *name == map.file_name()) {
            parts[which] = map.addresses();
            library = library.or((which == 0).then_some(map.dynamic()));
        } else if this.is_none() && map.addresses().contains(&own) {
            this = Some(map);
        }
    }
    let Some((this, library)) = this.zip(library) else { return };
    let addresses = this.addresses();
    let is_known = |at: u64| at == 0 || addresses.contains(&at) || parts.iter().any(|part| part.contains(&at));
    let mut pages = Pages::of(this.relocated_read_only());
    for slot in this.dynamic().slots() {
        // SAFETY: a slot of this library, which is relocated.
        let place = unsafe { AtomicPtr::from_ptr(slot.address as *mut *mut c_void) };
        if !is_known(place.load(Ordering::Relaxed) as u64) {
            let function = this.dynamic().symbol_of(&slot).and_then(|(name, _)| function(library, name));
            if let Some(function) = function.filter(|_| pages.open_for(slot.address)) {
                place.store(function, Ordering::Relaxed);
            }
        }
    }
    pages.close();
}

#[cold]
fn function(library: Dynamic, name: &CStr) -> Option<*mut c_void> {
    let is_sanitized = || at_start().any(|map| map.dynamic().defines(MARK).is_some());
    library.function(name).filter(|_| !OF_SANITIZERS.contains(&name) || !is_sanitized())
}
