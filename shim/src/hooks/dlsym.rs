//! The export that precedes the C library's `dlsym`. The real function's answer for `RTLD_NEXT` and `RTLD_DEFAULT` depends on its caller,
//! which it reads off the return address. So the export is a naked function: it jumps to the next `dlsym` (the C library's, or another
//! interposer's), with the stack as the caller left it, unless the answer is a hook. Each look-up also binds the objects that have been
//! loaded since the last one ([`crate::lookup::slots`]).
//!
//! Must not: allocate, lock, or use thread-local storage with a destructor.

use super::exports::HOOKS;
use crate::lookup::dlsym::{answer, ASK_ITSELF};
use crate::lookup::dynamic_linker::{find_next, NEXT};
use crate::lookup::{slots, table};
use crate::runtime::{door, environment};
use std::arch::naked_asm;
use std::ffi::{c_char, c_void, CStr};

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
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "call {is_of_concern}",
        "test al, al",
        "jz 4f",
        "mov rdi, [rsp + 16]",
        "mov rsi, [rsp + 8]",
        "mov rdx, [rsp + 24]",
        "call {substitute}",
        "cmp rax, -1", // ASK_ITSELF
        "je 4f",
        "add rsp, 24",
        "ret",
        "4:",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "2:",
        "mov rax, [rip + {next}]",
        "test rax, rax",
        "jnz 3f",
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "call {find_next}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "3:",
        "jmp rax",
        is_of_concern = sym is_of_concern,
        substitute = sym substitute,
        find_next = sym find_next,
        next = sym NEXT,
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
        "stp x29, x30, [sp, #-32]!",
        "stp x0, x1, [sp, #16]",
        "bl {is_of_concern}",
        "tst w0, #255",
        "b.eq 4f",
        "ldp x0, x1, [sp, #16]",
        "ldr x2, [sp, #8]",
        "bl {substitute}",
        "cmn x0, #1", // ASK_ITSELF
        "b.eq 4f",
        "ldp x29, x30, [sp], #32",
        "ret",
        "4:",
        "ldp x0, x1, [sp, #16]",
        "ldp x29, x30, [sp], #32",
        "2:",
        "adrp x9, {next}",
        "ldr x9, [x9, :lo12:{next}]",
        "cbnz x9, 3f",
        "stp x29, x30, [sp, #-32]!",
        "stp x0, x1, [sp, #16]",
        "bl {find_next}",
        "mov x9, x0",
        "ldp x0, x1, [sp, #16]",
        "ldp x29, x30, [sp], #32",
        "3:",
        "br x9",
        is_of_concern = sym is_of_concern,
        substitute = sym substitute,
        find_next = sym find_next,
        next = sym NEXT,
    )
}

#[link_section = ".text.lazyguard_start"]
pub fn bind_at_start() {
    table::register(&HOOKS, dlsym as *const c_void);
    if environment::switched_on() {
        slots::bind_at_start();
    }
}

/// Whether a look-up may be answered by a hook. Binds new objects before it, so that a function of a library that was just loaded finds the hooks.
extern "C-unwind" fn is_of_concern(handle: *mut c_void, name: *const c_char) -> bool {
    if !environment::switched_on() {
        return false;
    }
    table::register(&HOOKS, dlsym as *const c_void);
    // A look-up of the next function may come from an allocator, in the middle of a load.
    if handle != libc::RTLD_NEXT {
        slots::bind_new();
    }
    // SAFETY: `dlsym`'s contract: a terminated string; null was sorted out before.
    slots::concerns(unsafe { CStr::from_ptr(name) })
}

extern "C-unwind" fn substitute(handle: *mut c_void, name: *const c_char, caller: *const c_void) -> *mut c_void {
    // SAFETY: as in `is_of_concern`.
    let name = unsafe { CStr::from_ptr(name) };
    door::inside(|| answer(handle, name, caller)).unwrap_or(ASK_ITSELF)
}
