//! Answers to the runtimes of sanitizers, which look these functions up by name before any constructor has run. AddressSanitizer's ends a program in which
//! it is not the first library; this one defines none of its functions, and switches the rule off. ThreadSanitizer's does not see the guard's atomic
//! operations; the answer leaves the guard's calls out. A program's own function comes first: `lazyguard run` then sets `ASAN_OPTIONS` itself.
//! Valgrind's helgrind does not see them either: by its client request the guard leaves its own memory out ([`leave_unchecked`]).

use std::ffi::c_char;

/// The environment overrides it.
#[no_mangle]
extern "C" fn __asan_default_options() -> *const c_char {
    c"verify_asan_link_order=0".as_ptr()
}

/// Beside the user's own suppressions.
#[no_mangle]
extern "C" fn __tsan_default_suppressions() -> *const c_char {
    c"called_from_lib:liblazyguard.so$\n".as_ptr()
}

/// Has helgrind not look for races in this memory, whose every access is atomic or ordered by an atomic one. Without Valgrind it does nothing.
#[inline(always)]
pub fn leave_unchecked(start: *const u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        /// `_VG_USERREQ__HG_ARANGE_MAKE_UNTRACKED`.
        const MAKE_UNTRACKED: usize = 0x4847_0127;
        let request = [MAKE_UNTRACKED, start as usize, bytes, 0, 0, 0];
        // SAFETY: rotates a register by 128 bits in all, and exchanges one with itself, which leaves both as they are. Valgrind reads the request.
        unsafe {
            std::arch::asm!(
                "rol rdi, 3",
                "rol rdi, 13",
                "rol rdi, 61",
                "rol rdi, 51",
                "xchg rbx, rbx",
                inout("rax") &raw const request => _,
                inout("rdx") 0usize => _,
            );
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (start, bytes);
}

extern "C" {
    /// The first byte of the library in memory, and the first behind it: of the linker.
    static __ehdr_start: u8;
    static _end: u8;
}

/// The same of the library's own variables.
#[inline(always)]
pub fn leave_library_unchecked() {
    let (start, end) = (&raw const __ehdr_start, &raw const _end);
    leave_unchecked(start, end as usize - start as usize);
}
