//! `liblazyguard.so`: the library that is preloaded into a program's process.
//!
//! A call takes this path: an export of [`hooks`], whose address [`lookup`] handed out, then the guard (`hooks::call`), the real driver
//! function exactly once, and the fold of what happened into the state.
//!
//! A folder uses only those below it in this list: [`hooks`], [`lifecycle`], [`watch`], [`record`], [`preload`], [`lookup`], [`runtime`].
//!
//! The rules of this crate:
//!
//! * The first law: a program that works without the library works the same with it. In doubt the shim passes the call on unchanged, and counts it
//!   ([`runtime::pass_through`]).
//! * The shim calls the real function exactly once, and returns its value unchanged. Exceptions: the loading mode for a small CUDA runtime instance
//!   ([`preload::nudge`]), a module or library that was loaded ahead ([`preload::ahead`]), and a deferred release ([`preload::releases`]), behind
//!   which an allocation that finds no memory is made once more.
//! * No lock is held across a driver call, and the watchdog makes none.
//! * A process without CUDA gets no thread, file, output or allocation. The guard's memory is its own ([`runtime::memory`]).
//!
//! Unsafe code is at the edge: exports, look-up, structures behind the program's pointers, and the guard's driver calls ([`lookup::driver`]).

// The walk through the crate names its parts, which nothing outside can link to.
#![allow(rustdoc::private_intra_doc_links)]
// Hooks bear the names of the functions they stand for.
#![allow(non_snake_case)]

mod hooks;
mod lifecycle;
mod lookup;
mod preload;
mod record;
mod runtime;
mod watch;

/// Names the build for readers that do not load the library.
#[used]
#[link_section = ".note.lazyguard"]
static BUILD_NOTE: lazyguard_core::build_note::BuildNote = lazyguard_core::build_note::NOTE;

/// Runs before the code of any other object (`-z initfirst`), in the only thread.
#[ctor::ctor(unsafe, body(link_section = ".text.lazyguard_start"))]
#[link_section = ".text.lazyguard_start"]
fn loaded() {
    // First: what comes after it calls the C library.
    lookup::own_names::bind();
    runtime::sanitizer::leave_library_unchecked();
    lifecycle::arm::loaded();
    hooks::bind_at_start();
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
compile_error!("LazyGuard gets between programs and the driver by the rules of the GNU C library's dynamic linker");
