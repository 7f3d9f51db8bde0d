//! Answers to the runtimes of sanitizers, which look these functions up by name before any constructor has run. AddressSanitizer's ends a program in which
//! it is not the first library; this one defines none of its functions, and switches the rule off. ThreadSanitizer's does not see the guard's atomic
//! operations; the answer leaves the guard's calls out. A program's own function comes first: `lazyguard run` then sets `ASAN_OPTIONS` itself.

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
