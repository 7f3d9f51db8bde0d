//! A fault of the guard itself: [`super::door`] contains the panic, the guard disarms the process for good, counts, and prints one line.

use super::standard_error;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

static FAULTS: AtomicU64 = AtomicU64::new(0);
static SAID: AtomicBool = AtomicBool::new(false);

pub fn count() -> u64 {
    FAULTS.load(Ordering::Relaxed)
}

/// The library has its own copy of the Rust runtime.
pub fn silence() {
    std::panic::set_hook(Box::new(|info| {
        FAULTS.fetch_add(1, Ordering::Relaxed);
        if !SAID.swap(true, Ordering::Relaxed) {
            let place = info.location().map(|l| format!(" at {}:{}", l.file(), l.line())).unwrap_or_default();
            standard_error::line(&format!("internal fault{place}; the program goes on unguarded"));
        }
    }));
}
