//! Whether the program is ready: what it loads from then on is LG110. By `lazyguard_ready`, `lazyguard ready`, or `LAZYGUARD_READY_AFTER`.

use crate::runtime::process::Process;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

/// The process that is ready: a forked child is not by its parent.
static READY: AtomicU32 = AtomicU32::new(0);

/// The program finds it by `dlsym`.
#[no_mangle]
pub extern "C" fn lazyguard_ready() {
    READY.store(process::id(), Ordering::Relaxed);
}

/// The program may have said it before the driver was initialised.
pub fn begin() {
    if READY.load(Ordering::Relaxed) != process::id() {
        READY.store(0, Ordering::Relaxed);
    }
}

pub fn is_ready(process: &Process) -> bool {
    let after = process.settings.ready_after_nanos;
    READY.load(Ordering::Relaxed) != 0 || after != 0 && process.now() >= after
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_ready_that_said_so_before_the_driver_was_initialised_and_not_by_its_parent() {
        lazyguard_ready();
        begin();
        assert_eq!(READY.load(Ordering::Relaxed), process::id());
        READY.store(process::id() - 1, Ordering::Relaxed);
        begin();
        assert_eq!(READY.load(Ordering::Relaxed), 0);
    }
}
