//! The dynamic linker's own functions: the real `dlsym`, and objects that are loaded already.
//!
//! Two `dlsym` come behind this library's: the C library's ([`REAL`]), which the guard's own look-ups call, and the one that the program
//! would call without this library ([`NEXT`]). They differ where another interposer exports one, such as HAMi-core's. That one has to see
//! every look-up of the program: it may start itself at the first, and answer with functions of its own.
//!
//! Must not: allocate, lock, or use thread-local storage with a destructor.

use super::objects;
use lazyguard_core::api::EntryPoint;
use std::ffi::{c_char, c_int, c_void, CStr};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

/// The C library's `dlsym`; written once by [`find_real`].
#[link_section = ".data.lazyguard_start"]
static REAL: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// The next `dlsym` in the search order. Read by the assembly of the exported `dlsym`; written once by [`find_next`].
#[link_section = ".data.lazyguard_start"]
pub static NEXT: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

type Dlvsym = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char) -> *mut c_void;
type LibcDlopen = unsafe extern "C" fn(*const c_char, c_int) -> *mut c_void;

/// The address of a function that a process may lack: a weak reference, for which the library that has the function need not be loaded.
/// Null where it was not when the process started.
macro_rules! weak {
    ($function:literal) => {{
        let address: *mut c_void;
        // SAFETY: reads the entry that the dynamic linker has filled in before any code of this library runs.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            std::arch::asm!(
                concat!(".weak ", $function),
                concat!("mov {address}, qword ptr [rip + ", $function, "@GOTPCREL]"),
                address = out(reg) address,
                options(pure, readonly, nostack, preserves_flags),
            );
        }
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        unsafe {
            std::arch::asm!(
                concat!(".weak ", $function),
                concat!("adrp {address}, :got:", $function),
                concat!("ldr {address}, [{address}, :got_lo12:", $function, "]"),
                address = out(reg) address,
                options(pure, readonly, nostack, preserves_flags),
            );
        }
        address
    }};
}

/// The versions `dlsym` has had, newest first.
#[cfg(target_arch = "x86_64")]
const VERSIONS: [&CStr; 2] = [c"GLIBC_2.34", c"GLIBC_2.2.5"];
#[cfg(target_arch = "aarch64")]
const VERSIONS: [&CStr; 2] = [c"GLIBC_2.34", c"GLIBC_2.17"];

/// Whether the process had the dynamic linker's functions when it started: always with glibc 2.34 and later, whose libc.so.6 has them. With
/// an earlier one, the first library that needs libdl.so.2 brings them.
fn is_there_at_start() -> bool {
    !weak!("dlvsym").is_null()
}

/// Finds the real `dlsym`, asking by version because asking by name would find this library's.
#[link_section = ".text.lazyguard_start"]
fn find_real() -> *mut c_void {
    let found = if is_there_at_start() { by_version() } else { in_its_library() };
    if found.is_null() {
        return unavailable as *mut c_void;
    }
    // Every thread finds the same address, so it does not matter whose store is last.
    REAL.store(found, Ordering::Release);
    found
}

#[inline(always)]
fn by_version() -> *mut c_void {
    let dlvsym = weak!("dlvsym");
    // SAFETY: the C library's function of this name, which is there.
    let dlvsym: Dlvsym = unsafe { std::mem::transmute(dlvsym) };
    // SAFETY: terminated strings; RTLD_NEXT searches behind this library, whose code calls here.
    let find = |version: &CStr| unsafe { dlvsym(libc::RTLD_NEXT, c"dlsym".as_ptr(), version.as_ptr()) };
    VERSIONS.into_iter().map(find).find(|found| !found.is_null()).unwrap_or(null_mut())
}

/// As glibc's own parts find it before 2.34. What looks a function up then has brought that library.
#[cold]
fn in_its_library() -> *mut c_void {
    /// The mark of a `dlopen` beside its flags.
    const LIKE_DLOPEN: c_int = libc::RTLD_NOW | c_int::MIN;
    let (open, find) = (weak!("__libc_dlopen_mode"), weak!("__libc_dlsym"));
    if open.is_null() || find.is_null() {
        return null_mut();
    }
    // SAFETY: the C library's function of this name.
    let open: LibcDlopen = unsafe { std::mem::transmute(open) };
    // SAFETY: as above.
    let find: Dlsym = unsafe { std::mem::transmute(find) };
    // SAFETY: terminated strings, and the handle that the first function gives.
    unsafe {
        let library = open(c"libdl.so.2".as_ptr(), LIKE_DLOPEN);
        if library.is_null() {
            return null_mut();
        }
        find(library, c"dlsym".as_ptr())
    }
}

/// Stands in for a `dlsym` that could not be found: the GNU C library has had it under these versions since 1999.
extern "C" fn unavailable(_: *mut c_void, _: *const c_char) -> *mut c_void {
    null_mut()
}

/// Finds the next `dlsym` in the search order: the C library's, where no other interposer exports one.
#[link_section = ".text.lazyguard_start"]
pub extern "C-unwind" fn find_next() -> *mut c_void {
    // An interposer would have brought it.
    let mut found = if is_there_at_start() { real(libc::RTLD_NEXT, c"dlsym") } else { null_mut() };
    if found.is_null() {
        found = find_real();
    }
    // Every thread finds the same address, so it does not matter whose store is last.
    NEXT.store(found, Ordering::Release);
    found
}

/// Whether another interposer's `dlsym` comes between this library and the C library.
pub fn another_is_next() -> bool {
    next_dlsym() != real_dlsym()
}

/// Whether a function lies in the object of that other `dlsym`.
pub fn is_of_the_next(function: *const c_void) -> bool {
    let object = |address| objects::object_of(address).map(std::ptr::from_ref);
    another_is_next() && object(function).is_some_and(|it| object(next_dlsym()) == Some(it))
}

fn real_dlsym() -> *mut c_void {
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

/// The C library's `dlsym`, called from this library.
pub fn real(handle: *mut c_void, name: &CStr) -> *mut c_void {
    call(real_dlsym(), handle, name)
}

/// What the program's look-up would find without this library.
pub fn next(handle: *mut c_void, name: &CStr) -> *mut c_void {
    call(next_dlsym(), handle, name)
}

fn call(function: *mut c_void, handle: *mut c_void, name: &CStr) -> *mut c_void {
    // SAFETY: `find_real` and `find_next` give functions of this type.
    let function: Dlsym = unsafe { std::mem::transmute(function) };
    // SAFETY: a terminated name, and a handle the caller vouches for. The black box keeps this from becoming a jump, which
    // would make the real function see our caller's return address, and with it our caller's place in the search order.
    std::hint::black_box(unsafe { function(handle, name.as_ptr()) })
}

/// Room for a symbol's name, with a zero at its end.
const LONGEST: usize = 96;

/// A symbol as the loader wants it, without allocating.
pub struct Symbol([u8; LONGEST]);

impl Symbol {
    /// The symbol of an entry point; `None` if it is too long.
    pub fn of(entry_point: EntryPoint) -> Option<Self> {
        let symbol = entry_point.symbol().as_bytes();
        let mut room = [0; LONGEST];
        room[..LONGEST - 1].get_mut(..symbol.len())?.copy_from_slice(symbol);
        Some(Self(room))
    }

    /// Its name.
    pub fn name(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.0).unwrap_or_default()
    }
}

/// Looks both `dlsym` up ahead of the first use, where the process has one.
#[inline(always)]
pub fn prepare() {
    if is_there_at_start() {
        find_real();
        find_next();
    }
}

/// Opens an object that is loaded already, without loading any; null if it is not.
pub fn open_loaded(name: &CStr) -> *mut c_void {
    const FLAGS: c_int = libc::RTLD_NOW | libc::RTLD_NOLOAD;
    // SAFETY: a terminated name; with RTLD_NOLOAD no constructor runs.
    unsafe { libc::dlopen(name.as_ptr(), FLAGS) }
}
