//! Whether revokes are under way, for the watchdog that makes them and for the calls that wait for them.

use crate::runtime::{clock, door};
use lazyguard_core::Nanos;
use std::sync::atomic::{AtomicU64, AtomicU8, Ordering};
use std::time::Duration;

pub(super) const UNDER_WAY: u8 = 1;
pub(super) const OVER: u8 = 2;

pub(super) static PHASE: AtomicU8 = AtomicU8::new(0);
/// Calls entered before were blocked when the revokes began, on the guard's clock.
pub(super) static BLOCKED_BEFORE: AtomicU64 = AtomicU64::new(0);
/// Blocked calls return by then, on the system's monotonic clock.
pub(super) static UNTIL: AtomicU64 = AtomicU64::new(0);

/// For a call that returns once every revoke has.
pub fn wait_until_over() {
    while PHASE.load(Ordering::Acquire) == UNDER_WAY && clock::system_nanos() < UNTIL.load(Ordering::Relaxed) {
        door::pause(Duration::from_millis(2));
    }
}

/// Whether a call that was entered then was blocked when the newest revokes began.
pub(super) fn was_blocked(entered: Nanos) -> bool {
    entered < BLOCKED_BEFORE.load(Ordering::Relaxed)
}
