//! Whether the program is ready: what it loads from then on is LG110. By `lazyguard_ready`, `lazyguard ready`, or `LAZYGUARD_READY_AFTER`.

use crate::runtime::process::Process;
use std::sync::atomic::{AtomicBool, Ordering};

static READY: AtomicBool = AtomicBool::new(false);

/// The program finds it by `dlsym`.
#[no_mangle]
pub extern "C" fn lazyguard_ready() {
    READY.store(true, Ordering::Relaxed);
}

/// Whatever the parent was.
pub fn begin() {
    READY.store(false, Ordering::Relaxed);
}

pub fn is_ready(process: &Process) -> bool {
    let after = process.settings.ready_after_nanos;
    READY.load(Ordering::Relaxed) || after != 0 && process.now() >= after
}
