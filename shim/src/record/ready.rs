//! Whether the program has said that it is ready: what it loads from then on comes too late (LG110). It says so by `lazyguard_ready`, which
//! it finds by `dlsym`, by a request of `lazyguard ready`, or by `LAZYGUARD_READY_AFTER`.

use crate::runtime::process::Process;
use std::sync::atomic::{AtomicBool, Ordering};

static READY: AtomicBool = AtomicBool::new(false);

/// The program's own function: from now on it loads nothing that it could have loaded before.
#[no_mangle]
pub extern "C" fn lazyguard_ready() {
    READY.store(true, Ordering::Relaxed);
}

/// A process that is armed has not been ready, whatever its parent was.
pub fn begin() {
    READY.store(false, Ordering::Relaxed);
}

pub fn is_ready(process: &Process) -> bool {
    let after = process.settings.ready_after_nanos;
    READY.load(Ordering::Relaxed) || after != 0 && process.now() >= after
}
