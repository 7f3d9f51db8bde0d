//! Answers to the runtimes of sanitizers, which look these functions up by name when they start, before any constructor has run.
//! AddressSanitizer's ends a program in which it is not the first library, so that its functions come before the C library's; this library
//! defines none of them, and switches the rule off. ThreadSanitizer's does not see the atomic operations that keep the guard's threads
//! apart; the answer leaves the guard's calls out. A program's own function comes first: `lazyguard run` then sets `ASAN_OPTIONS` itself.
//!
//! Must not: do anything. Nothing has started when these are called.

use std::ffi::{c_char, CStr};

const ADDRESS_OPTIONS: &CStr = c"verify_asan_link_order=0";
const THREAD_SUPPRESSIONS: &CStr = c"called_from_lib:liblazyguard.so$\n";

/// Called by AddressSanitizer's runtime, if the process has one; the environment overrides it.
#[no_mangle]
extern "C" fn __asan_default_options() -> *const c_char {
    ADDRESS_OPTIONS.as_ptr()
}

/// Called by ThreadSanitizer's runtime, if there is one in the process; the user's own suppressions come beside it.
#[no_mangle]
extern "C" fn __tsan_default_suppressions() -> *const c_char {
    THREAD_SUPPRESSIONS.as_ptr()
}
