//! Whether results of the driver change on their way to the program: for a core dump at an exception, whose error comes late, and for a revoked
//! communicator. One word holds both, so that an ordinary call asks once.

use std::sync::atomic::{AtomicU8, Ordering};

/// The guard has made the driver ready for dumps at exceptions.
pub const LATE_ERROR: u8 = 1;
/// Communicators are being revoked, or have been.
pub const REVOKED: u8 = 2;

static MAY_CHANGE: AtomicU8 = AtomicU8::new(0);

pub fn set(what: u8) {
    MAY_CHANGE.fetch_or(what, Ordering::Release);
}

pub fn clear(what: u8) {
    MAY_CHANGE.fetch_and(!what, Ordering::Relaxed);
}

pub fn is_set(what: u8) -> bool {
    MAY_CHANGE.load(Ordering::Relaxed) & what != 0
}

/// Whether any result may change.
#[inline(always)]
pub fn may_change() -> bool {
    MAY_CHANGE.load(Ordering::Relaxed) != 0
}
