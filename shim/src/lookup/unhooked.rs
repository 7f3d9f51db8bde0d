//! Names asked of the driver that look like launches, loads or waits and that this build does not hook.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;

const MOST: usize = 64;

static NAMES: Mutex<Vec<String>> = Mutex::new(Vec::new());

static UNSEEN_CAPTURE: AtomicBool = AtomicBool::new(false);

pub fn note(name: &[u8]) {
    if name.windows(7).any(|at| at == b"Capture") {
        UNSEEN_CAPTURE.store(true, Ordering::Relaxed);
    }
    if let Ok(mut names) = NAMES.try_lock() {
        let name = String::from_utf8_lossy(name);
        if names.len() < MOST && !names.iter().any(|n| *n == name) {
            names.push(name.into_owned());
        }
    }
}

pub fn names() -> Vec<String> {
    NAMES.try_lock().map(|names| names.clone()).unwrap_or_default()
}

/// Whether an unhooked function begins captures: then no context is asked as a whole, which would invalidate one.
pub fn captures_may_go_unseen() -> bool {
    UNSEEN_CAPTURE.load(Ordering::Relaxed)
}
