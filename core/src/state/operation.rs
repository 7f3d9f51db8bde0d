//! An operation on a stream, and the words that remember one.

use crate::sync::{AtomicU64, Ordering};
use crate::Nanos;

/// An operation submitted to a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// When the submitting call was entered.
    pub at: Nanos,
    /// The id of the submitting call's entry_point.
    pub entry_point: u16,
    /// The function's number, or 0.
    pub function: u32,
}

/// Stores an operation in the two words from `at` on, which any thread may look at at any time.
#[inline(always)]
pub(super) fn put<const WORDS: usize>(words: &[AtomicU64; WORDS], at: usize, op: Operation) {
    // A reader that finds the old time with the new call, or the reverse, sees one wrong name in a report.
    words[at + 1].store(u64::from(op.entry_point) | u64::from(op.function) << 32, Ordering::Relaxed);
    words[at].store(op.at, Ordering::Relaxed);
}

/// The operation in the two words from `at` on.
pub(super) fn get<const WORDS: usize>(words: &[AtomicU64; WORDS], at: usize) -> Operation {
    let what = words[at + 1].load(Ordering::Relaxed);
    Operation { at: words[at].load(Ordering::Relaxed), entry_point: what as u16, function: (what >> 32) as u32 }
}

/// Of what was submitted to a stream, the oldest operation that came after `until`; everything before that is complete.
///
/// `first` is the first one since the stream was last known to be idle, `recent` the newest ones in any order. Where part of
/// what was outstanding has completed, it is the oldest of the newest operations that is past that part; where a
/// synchronize overlapped the last submission, nothing is past it, and then the last one is what is outstanding.
pub fn oldest_outstanding(
    first: Operation,
    recent: impl Iterator<Item = Operation> + Clone,
    until: Nanos,
) -> Option<Operation> {
    if first.at > until {
        return Some(first);
    }
    recent.clone().filter(|op| op.at > until).min_by_key(|op| op.at).or_else(|| recent.max_by_key(|op| op.at))
}
