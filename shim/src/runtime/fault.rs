//! A fault of the guard itself: it steps aside, counts, and prints one line.
//!
//! No panic leaves the library. [`super::door`] contains those of the guard's parts; one of them disarms the process for good,
//! and every later call passes straight through.
//!
//! Must not: let a panic out of the library, or print more than one line.

use super::standard_error;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

static FAULTS: AtomicU64 = AtomicU64::new(0);
static SAID: AtomicBool = AtomicBool::new(false);

/// How often the guard failed.
pub fn count() -> u64 {
    FAULTS.load(Ordering::Relaxed)
}

/// Keeps the message of a panic in this library out of the program's output. This library has its own copy of the Rust
/// runtime, so the hook concerns no other code.
pub fn silence() {
    std::panic::set_hook(Box::new(|info| {
        FAULTS.fetch_add(1, Ordering::Relaxed);
        if !SAID.swap(true, Ordering::Relaxed) {
            let place = info.location().map(|l| format!(" at {}:{}", l.file(), l.line())).unwrap_or_default();
            standard_error::line(&format!("internal fault{place}; the program goes on unguarded"));
        }
    }));
}

/// While it lives, a file of the guard's that meets the limit for the size of files is an error and no signal, which would
/// end the process.
pub struct Unlimited {
    before: libc::sigset_t,
    was_pending: bool,
}

impl Unlimited {
    /// From here on, in the calling thread.
    pub fn new() -> Self {
        // SAFETY: all-zero bytes are a valid signal set.
        let mut before: libc::sigset_t = unsafe { std::mem::zeroed() };
        let was_pending = Self::pending();
        // SAFETY: both sets are valid; the mask is restored when this is dropped.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &Self::signal(), &mut before) };
        Self { before, was_pending }
    }

    fn signal() -> libc::sigset_t {
        // SAFETY: all-zero bytes are a valid signal set, which is then emptied and filled.
        unsafe {
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            libc::sigaddset(&mut set, libc::SIGXFSZ);
            set
        }
    }

    fn pending() -> bool {
        // SAFETY: all-zero bytes are a valid signal set.
        let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: the set is valid for both calls.
        unsafe { libc::sigpending(&mut set) == 0 && libc::sigismember(&set, libc::SIGXFSZ) == 1 }
    }
}

impl Drop for Unlimited {
    fn drop(&mut self) {
        if !self.was_pending && Self::pending() {
            let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            // SAFETY: the set and the time are valid; what the signal carries is not asked for.
            unsafe { libc::sigtimedwait(&Self::signal(), std::ptr::null_mut(), &at_once) };
        }
        // SAFETY: the mask as it was.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) };
    }
}
