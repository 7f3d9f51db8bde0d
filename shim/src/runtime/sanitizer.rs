//! What the runtimes of sanitizers ask for when they start, so that programs that are built with one run under the guard as without.
//!
//! * AddressSanitizer's insists on being the first library of a program and ends it otherwise; what is preloaded comes before it. The
//!   rule is there so that its functions come before the C library's, `malloc` for one. This library defines none of them (its exports
//!   are the driver's functions and `dlsym`), so they do, and the answer here switches the rule off.
//! * ThreadSanitizer's sees the guard's calls into the C library, and not the atomic operations that keep its threads
//!   apart: it would report races in the guard. The answer here leaves the guard's calls out.
//!
//! The others have no such rule. Each function is looked for by name, before any constructor has run. A program may have one of its own,
//! which comes first: then `ASAN_OPTIONS=verify_asan_link_order=0` in the environment does the same for the first, which
//! `lazyguard run` sets, and a file of suppressions for the second.
//!
//! Must not: do anything. Nothing has started when these are called.

use std::ffi::{c_char, CStr};

/// As `ASAN_OPTIONS` has them.
const ADDRESS_OPTIONS: &CStr = c"verify_asan_link_order=0";

/// As a file of suppressions has them.
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
