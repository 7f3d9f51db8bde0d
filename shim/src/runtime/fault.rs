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

pub fn count() -> u64 {
    FAULTS.load(Ordering::Relaxed)
}

/// Keeps the message of a panic out of the program's output. The library has its own copy of the Rust runtime.
pub fn silence() {
    std::panic::set_hook(Box::new(|info| {
        FAULTS.fetch_add(1, Ordering::Relaxed);
        if !SAID.swap(true, Ordering::Relaxed) {
            let place = info.location().map(|l| format!(" at {}:{}", l.file(), l.line())).unwrap_or_default();
            standard_error::line(&format!("internal fault{place}; the program goes on unguarded"));
        }
    }));
}
