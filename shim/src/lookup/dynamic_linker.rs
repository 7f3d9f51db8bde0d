//! The dynamic linker's own functions. Two `dlsym` come behind this library's: the C library's ([`REAL`]), which the guard calls, and the one that the
//! program would call without this library ([`NEXT`]): another interposer's, such as HAMi-core's, has to see every look-up.
//!
//! Must not: allocate, lock, or use thread-local storage with a destructor.

use super::objects::{self, Loaded};
use lazyguard_core::api::EntryPoint;
use std::ffi::{c_char, c_int, c_void, CStr};
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

/// Written once by [`find_real`].
#[link_section = ".data.lazyguard_start"]
static REAL: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// Read by the assembly of the exported `dlsym`; written once by [`find_next`].
#[link_section = ".data.lazyguard_start"]
pub static NEXT: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

#[link_section = ".text.lazyguard_start"]
fn find_real() -> *mut c_void {
    let found = [c"libc.so.6", c"libdl.so.2"].into_iter().find_map(|name| objects::loaded_as(name)?.function(c"dlsym"));
    let Some(found) = found else { return unavailable as *mut c_void };
    // Every thread finds the same address.
    REAL.store(found, Ordering::Release);
    found
}

extern "C" fn unavailable(_: *mut c_void, _: *const c_char) -> *mut c_void {
    null_mut()
}

/// The C library's, unless another interposer exports one.
#[link_section = ".text.lazyguard_start"]
pub extern "C-unwind" fn find_next() -> *mut c_void {
    let mut found = real(libc::RTLD_NEXT, c"dlsym");
    if found.is_null() {
        found = real_dlsym();
    }
    if REAL.load(Ordering::Relaxed).is_null() {
        // An interposer would have brought it.
        return found;
    }
    NEXT.store(found, Ordering::Release);
    found
}

pub fn another_is_next() -> bool {
    next_dlsym() != real_dlsym()
}

pub fn addresses_of_another() -> Range<u64> {
    let has_it = |object: &Loaded<'_>| object.offset_of(next_dlsym() as u64).map(|_| object.addresses());
    another_is_next().then(|| objects::find(has_it)).flatten().unwrap_or(0..0)
}

pub fn real_dlsym() -> *mut c_void {
    let function = REAL.load(Ordering::Acquire);
    if function.is_null() {
        return find_real();
    }
    function
}

fn next_dlsym() -> *mut c_void {
    let function = NEXT.load(Ordering::Acquire);
    if function.is_null() {
        return find_next();
    }
    function
}

pub fn real(handle: *mut c_void, name: &CStr) -> *mut c_void {
    call(real_dlsym(), handle, name)
}

/// The symbol that the program's look-up finds without this library.
pub fn next(handle: *mut c_void, name: &CStr) -> *mut c_void {
    call(next_dlsym(), handle, name)
}

fn call(function: *mut c_void, handle: *mut c_void, name: &CStr) -> *mut c_void {
    // SAFETY: `find_real` and `find_next` give functions of this type.
    let function: Dlsym = unsafe { std::mem::transmute(function) };
    // SAFETY: a terminated name, and the caller's handle. The black box keeps this from becoming a jump: the real function would see our caller's
    // place in the search order.
    std::hint::black_box(unsafe { function(handle, name.as_ptr()) })
}

const LONGEST: usize = 96;

pub struct Symbol([u8; LONGEST]);

impl Symbol {
    pub fn of(entry_point: EntryPoint) -> Option<Self> {
        let symbol = entry_point.symbol().as_bytes();
        let mut room = [0; LONGEST];
        room[..LONGEST - 1].get_mut(..symbol.len())?.copy_from_slice(symbol);
        Some(Self(room))
    }

    pub fn name(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.0).unwrap_or_default()
    }
}

#[inline(always)]
pub fn prepare() {
    find_next();
}

pub fn open_loaded(name: &CStr) -> *mut c_void {
    const FLAGS: c_int = libc::RTLD_NOW | libc::RTLD_NOLOAD;
    // SAFETY: a terminated name; with RTLD_NOLOAD no constructor runs.
    unsafe { libc::dlopen(name.as_ptr(), FLAGS) }
}
