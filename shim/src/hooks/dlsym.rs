//! The export that precedes the C library's `dlsym`.
//!
//! The real function's answer for `RTLD_NEXT` and `RTLD_DEFAULT` depends on its caller, which it reads off the return address. So
//! the export is a naked function: it jumps to the next `dlsym` (the C library's, or another interposer's), with the stack as the caller
//! left it, for everything that does not concern the driver or NCCL. [`crate::lookup::dlsym`] answers only names that begin with `cu` or
//! `nc` and are in a table of functions.
//!
//! Must not: allocate, lock, or use thread-local storage with a destructor.

use super::exports::HOOKS;
use crate::lookup::dlsym::answer;
use crate::lookup::dynamic_linker::{find_next, next, NEXT};
use crate::lookup::table;
use crate::runtime::{door, environment};
use lazyguard_core::api::EntryPoint;
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
        "cmp rdi, -1", // RTLD_NEXT
        "je 2f",
        "cmp byte ptr [rsi], 99", // 'c'
        "jne 4f",
        "cmp byte ptr [rsi + 1], 117", // 'u'
        "jne 2f",
        "jmp 5f",
        "4:",
        "cmp byte ptr [rsi], 110", // 'n'
        "jne 2f",
        "cmp byte ptr [rsi + 1], 99", // 'c'
        "jne 2f",
        "5:",
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
        concerns_driver = sym concerns_driver,
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
        "cmn x0, #1", // RTLD_NEXT
        "b.eq 2f",
        "ldrb w9, [x1]",
        "cmp w9, #99", // 'c'
        "b.ne 4f",
        "ldrb w9, [x1, #1]",
        "cmp w9, #117", // 'u'
        "b.ne 2f",
        "b 5f",
        "4:",
        "cmp w9, #110", // 'n'
        "b.ne 2f",
        "ldrb w9, [x1, #1]",
        "cmp w9, #99", // 'c'
        "b.ne 2f",
        "5:",
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
        concerns_driver = sym concerns_driver,
        substitute = sym substitute,
        find_next = sym find_next,
        next = sym NEXT,
    )
}

/// Whether a name is one of the functions in the tables, and the guard is not switched off.
extern "C-unwind" fn concerns_driver(name: *const c_char) -> bool {
    // SAFETY: `dlsym`'s contract: a terminated string; null was sorted out before.
    let name = unsafe { CStr::from_ptr(name) };
    environment::switched_on() && EntryPoint::by_symbol(name.to_bytes()).is_some()
}

/// Answers a look-up of such a function; as without the guard, should it fail at that.
extern "C-unwind" fn substitute(handle: *mut c_void, name: *const c_char, caller: *const c_void) -> *mut c_void {
    // SAFETY: as in `concerns_driver`.
    let name = unsafe { CStr::from_ptr(name) };
    table::register(&HOOKS);
    door::inside(|| answer(handle, name, caller)).unwrap_or_else(|| next(handle, name))
}
