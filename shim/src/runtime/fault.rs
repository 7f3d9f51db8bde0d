//! What happens when the guard itself fails: it steps aside, counts, and says one line.
//!
//! No panic leaves the library. [`contained`] runs the parts of a hook before and after the real call; a panic in either
//! disarms the process for good, and every later call passes straight through.

use super::standard_error;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

static FAULTS: AtomicU64 = AtomicU64::new(0);
static SAID: AtomicBool = AtomicBool::new(false);

/// How often the guard failed.
pub fn count() -> u64 {
    FAULTS.load(Ordering::Relaxed)
}

/// Keeps the message of a panic in this library out of the program's output. This library has its own copy of the Rust
/// runtime, so the hook concerns nobody else.
pub fn silence() {
    std::panic::set_hook(Box::new(|info| {
        FAULTS.fetch_add(1, Ordering::Relaxed);
        if !SAID.swap(true, Ordering::Relaxed) {
            let place = info.location().map(|l| format!(" at {}:{}", l.file(), l.line())).unwrap_or_default();
            standard_error::line(&format!("internal fault{place}; the program goes on unguarded"));
        }
    }));
}

/// Runs a part of a hook; if it fails, steps aside.
#[inline]
pub fn contained<T>(part: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(part)) {
        Ok(value) => Some(value),
        Err(_) => {
            super::lifecycle::disarm();
            None
        }
    }
}
