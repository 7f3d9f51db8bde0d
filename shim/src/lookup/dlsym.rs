//! `dlsym`, in front of the real one.
//!
//! The real function's answer for `RTLD_NEXT` and `RTLD_DEFAULT` depends on who calls it, which it reads off the return
//! address. So the export is a naked function: everything that does not concern the driver is a jump to the real `dlsym`
//! with the stack as the caller left it. Only names that begin with `cu` and stand in the table of driver functions go
//! through [`substitute`].
//!
//! For such a name:
//!
//! | handle | what happens |
//! |---|---|
//! | `RTLD_NEXT` | a jump: the caller is another interposer and wants what comes after itself |
//! | `RTLD_DEFAULT`, or one whose search meets this library first | the hook if a driver is loaded; else what there would be without this library |
//! | any other | the real answer, replaced by the hook if it lies in the driver |
//!
//! A look-up by the driver itself is never replaced. After a replaced look-up `dlerror` is as the real one left it.
//!
//! Must not: allocate, lock, or use thread-local storage with a destructor.

use super::{driver, objects};
use crate::runtime::door;
use lazyguard_core::api::EntryPoint;
use std::arch::naked_asm;
use std::ffi::{c_char, c_int, c_void, CStr};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

/// Read by the assembly below; written once by [`find_real`].
static REAL: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

extern "C" {
    fn dlvsym(handle: *mut c_void, symbol: *const c_char, version: *const c_char) -> *mut c_void;
}

/// The versions `dlsym` has had, newest first.
#[cfg(target_arch = "x86_64")]
const VERSIONS: [&CStr; 2] = [c"GLIBC_2.34", c"GLIBC_2.2.5"];
#[cfg(target_arch = "aarch64")]
const VERSIONS: [&CStr; 2] = [c"GLIBC_2.34", c"GLIBC_2.17"];

/// Finds the real `dlsym`, asking by version because asking by name would find this library's.
extern "C-unwind" fn find_real() -> *mut c_void {
    for version in VERSIONS {
        // SAFETY: terminated strings; RTLD_NEXT searches behind this library, whose code calls here.
        let found = unsafe { dlvsym(libc::RTLD_NEXT, c"dlsym".as_ptr(), version.as_ptr()) };
        if !found.is_null() {
            // Every thread finds the same address, so it does not matter whose store is last.
            REAL.store(found, Ordering::Release);
            return found;
        }
    }
    unavailable as *mut c_void
}

/// Stands in for a `dlsym` that could not be found: the GNU C library has had it under these versions since 1999.
extern "C" fn unavailable(_: *mut c_void, _: *const c_char) -> *mut c_void {
    null_mut()
}

/// The real `dlsym`, called from this library.
pub fn real(handle: *mut c_void, name: &CStr) -> *mut c_void {
    let mut function = REAL.load(Ordering::Acquire);
    if function.is_null() {
        function = find_real();
    }
    // SAFETY: `find_real` gives a function of this type.
    let function: Dlsym = unsafe { std::mem::transmute(function) };
    // SAFETY: a terminated name, and a handle the caller vouches for. The black box keeps this from becoming a jump, which
    // would make the real function see our caller's return address, and with it our caller's place in the search order.
    std::hint::black_box(unsafe { function(handle, name.as_ptr()) })
}

/// Looks the real `dlsym` up ahead of the first use.
pub fn prepare() {
    find_real();
}

/// Exported in front of the C library's `dlsym`; see the module.
///
/// # Safety
/// As the C library's: `name` is a terminated string and `handle` one of `dlopen`'s or a pseudo-handle.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[no_mangle]
pub unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    // Handle in rdi, name in rsi, the caller's return address on top of the stack.
    naked_asm!(
        "test rsi, rsi",
        "jz 2f",
        "cmp rdi, -1", // RTLD_NEXT
        "je 2f",
        "cmp byte ptr [rsi], 99", // 'c'
        "jne 2f",
        "cmp byte ptr [rsi + 1], 117", // 'u'
        "jne 2f",
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "mov rdi, rsi",
        "call {concerns_driver}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "test al, al",
        "jz 2f",
        "mov rdx, [rsp]",
        "jmp {substitute}",
        "2:",
        "mov rax, [rip + {real}]",
        "test rax, rax",
        "jnz 3f",
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "call {find_real}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "3:",
        "jmp rax",
        concerns_driver = sym concerns_driver,
        substitute = sym substitute,
        find_real = sym find_real,
        real = sym REAL,
    )
}

/// Exported in front of the C library's `dlsym`; see the module.
///
/// # Safety
/// As the C library's.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
#[no_mangle]
pub unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    // Handle in x0, name in x1, the caller's return address in x30.
    naked_asm!(
        "cbz x1, 2f",
        "cmn x0, #1", // RTLD_NEXT
        "b.eq 2f",
        "ldrb w9, [x1]",
        "cmp w9, #99", // 'c'
        "b.ne 2f",
        "ldrb w9, [x1, #1]",
        "cmp w9, #117", // 'u'
        "b.ne 2f",
        "stp x29, x30, [sp, #-32]!",
        "stp x0, x1, [sp, #16]",
        "mov x0, x1",
        "bl {concerns_driver}",
        "mov w9, w0",
        "ldp x0, x1, [sp, #16]",
        "ldp x29, x30, [sp], #32",
        "tst w9, #255",
        "b.eq 2f",
        "mov x2, x30",
        "b {substitute}",
        "2:",
        "adrp x9, {real}",
        "ldr x9, [x9, :lo12:{real}]",
        "cbnz x9, 3f",
        "stp x29, x30, [sp, #-32]!",
        "stp x0, x1, [sp, #16]",
        "bl {find_real}",
        "mov x9, x0",
        "ldp x0, x1, [sp, #16]",
        "ldp x29, x30, [sp], #32",
        "3:",
        "br x9",
        concerns_driver = sym concerns_driver,
        substitute = sym substitute,
        find_real = sym find_real,
        real = sym REAL,
    )
}

/// Whether a name is one of the driver functions in the table, and the guard is not switched off.
extern "C-unwind" fn concerns_driver(name: *const c_char) -> bool {
    // SAFETY: `dlsym`'s contract: a terminated string; null was sorted out before.
    let name = unsafe { CStr::from_ptr(name) };
    crate::runtime::switched_on() && EntryPoint::by_symbol(name.to_bytes()).is_some()
}

/// Answers a look-up of a driver function; with the real answer, should the guard fail at it.
extern "C-unwind" fn substitute(handle: *mut c_void, name: *const c_char, caller: *const c_void) -> *mut c_void {
    // SAFETY: as in `concerns_driver`.
    let name = unsafe { CStr::from_ptr(name) };
    door::inside(|| answer(handle, name, caller)).unwrap_or_else(|| real(handle, name))
}

fn answer(handle: *mut c_void, name: &CStr, caller: *const c_void) -> *mut c_void {
    let found = real(handle, name);
    let Some(entry_point) = EntryPoint::by_symbol(name.to_bytes()) else { return found };
    if found.is_null() {
        return found;
    }
    let hook = crate::hooks::hook(entry_point);
    let replace = if found == hook {
        // The search met this library first. Without it, the name would be found only where a driver is loaded.
        driver::adopt_loaded();
        match driver::real(entry_point) {
            Some(_) => true,
            // Ask for what comes behind this library, so that the answer and `dlerror` are as they would be without it.
            None => return real(libc::RTLD_NEXT, name),
        }
    } else {
        driver::adopt_at(found)
    };
    let by_driver = objects::object_of(caller).is_some_and(objects::is_driver);
    // The look-ups above may have failed at something else and left that as `dlerror`; this one succeeds and clears it.
    let found = real(handle, name);
    if replace && !by_driver {
        hook
    } else if found == hook {
        driver::real(entry_point).unwrap_or(found)
    } else {
        found
    }
}

/// Opens an object that is loaded already, without loading any; null if it is not.
pub fn open_loaded(name: &CStr) -> *mut c_void {
    const FLAGS: c_int = libc::RTLD_NOW | libc::RTLD_NOLOAD;
    // SAFETY: a terminated name; with RTLD_NOLOAD no constructor runs.
    unsafe { libc::dlopen(name.as_ptr(), FLAGS) }
}
