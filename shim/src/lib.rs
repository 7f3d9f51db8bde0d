//! `liblazyguard.so`: the library that is preloaded into a program's process.
//!
//! A call takes this path: an export of [`hooks`], whose address [`lookup`] handed out, then the guard (`hooks::call`), the real driver
//! function exactly once, and the fold of what happened into the state.
//!
//! A folder uses only those below it in this list: [`hooks`], [`lifecycle`], [`watch`], [`record`], [`preload`], [`lookup`], [`runtime`].
//!
//! The rules of this crate:
//!
//! * The first law: a program that works without the library works the same with it. In doubt the shim passes the call on unchanged, and
//!   counts it under its reason ([`runtime::pass_through`]).
//! * The shim calls the real function exactly once, whatever fails around it, and returns its value unchanged. The exceptions: the loading
//!   mode that a small CUDA runtime instance asks for ([`preload::nudge`]), a module or library that a profile had loaded ahead
//!   ([`preload::ahead`]), and a release that the user has put off ([`preload::releases`]), behind which an allocation that finds no memory
//!   is made once more.
//! * No lock is held across a driver call, and the watchdog makes none.
//! * A process that does not use CUDA gets no thread, no file, no output and no allocation. The guard takes no memory from the program's
//!   allocator ([`runtime::memory`]).
//!
//! Unsafe code is at the edge: the exports, the look-up, the few structures that the shim reads through the program's pointers, and the
//! guard's own driver calls ([`lookup::driver`]).

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

/// What `lazyguard --version` says of this library. It lies in the file, for readers that do not load it.
#[used]
#[link_section = ".note.lazyguard"]
static BUILD_NOTE: lazyguard_core::build_note::BuildNote = lazyguard_core::build_note::BuildNote::new();

/// Runs before the code of any other object, since the library is linked to be the first. There is no second thread yet.
#[ctor::ctor(unsafe, body(link_section = ".text.lazyguard_start"))]
#[link_section = ".text.lazyguard_start"]
fn loaded() {
    // First: what comes after it calls the C library.
    lookup::own_names::bind();
    lifecycle::arm::loaded();
    hooks::bind_at_start();
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
compile_error!("LazyGuard gets between programs and the driver by the rules of the GNU C library's dynamic linker");
