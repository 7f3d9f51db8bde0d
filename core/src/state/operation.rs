//! The two words that remember an operation.

use crate::api::Operation;
use crate::sync::{AtomicU64, Ordering};

/// Stores an operation in the two words from `at` on, which any thread may look at at any time.
#[inline(always)]
pub(super) fn put<const WORDS: usize>(words: &[AtomicU64; WORDS], at: usize, op: Operation) {
    // A reader that finds the old time with the new call, or the reverse, sees one wrong name in a report.
    words[at + 1].store(u64::from(op.entry_point) | u64::from(op.function) << 32, Ordering::Relaxed);
    words[at].store(op.at, Ordering::Relaxed);
}

pub(super) fn get<const WORDS: usize>(words: &[AtomicU64; WORDS], at: usize) -> Operation {
    let what = words[at + 1].load(Ordering::Relaxed);
    Operation { at: words[at].load(Ordering::Relaxed), entry_point: what as u16, function: (what >> 32) as u32 }
}
