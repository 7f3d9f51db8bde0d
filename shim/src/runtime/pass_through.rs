//! How often a call passed through untouched, by reason ([`PassThrough`]).

use lazyguard_core::report::{PassThrough, PassedThrough};
use std::sync::atomic::{AtomicU64, Ordering};

static COUNTS: [AtomicU64; PassThrough::ALL.len()] = [const { AtomicU64::new(0) }; PassThrough::ALL.len()];

#[cold]
#[inline(never)]
pub fn note(reason: PassThrough) {
    COUNTS[reason as usize].fetch_add(1, Ordering::Relaxed);
}

pub fn counts() -> Vec<PassedThrough> {
    let counts = PassThrough::ALL.into_iter().zip(&COUNTS);
    let counts = counts.map(|((reason, _), count)| PassedThrough { reason, count: count.load(Ordering::Relaxed) });
    counts.filter(|passed| passed.count > 0).collect()
}

/// In a forked child, inside the handler of the fork: only stores.
pub fn reset() {
    COUNTS.iter().for_each(|count| count.store(0, Ordering::Relaxed));
}
