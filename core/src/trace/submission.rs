//! Launches whose records the table of streams does not have yet; see `state::fold`, and `read` for those of a file.

use super::layout::{flag, record};
use crate::api::Operation;
use crate::sync::{AtomicU64, Ordering};
use crate::Nanos;

/// A launch whose stream's entry does not have it yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Submission {
    /// The stream's number.
    pub stream: u32,
    /// The context's number.
    pub context: u32,
    /// The launch.
    pub operation: Operation,
    /// When it returned; 0 while it is in progress.
    pub returned: Nanos,
}

impl Submission {
    /// The number of the stream of a record in a segment, if it is one that is folded later.
    #[inline(always)]
    pub fn stream_of(record: &[AtomicU64; record::WORDS]) -> Option<u32> {
        is_folded_later(record[record::HEAD].load(Ordering::Relaxed))
            .then(|| record[record::SUBJECT].load(Ordering::Relaxed) as u32)
    }

    /// The submission of a record's words, if it is one that is folded later.
    #[inline]
    pub fn of(words: &[u64; record::WORDS]) -> Option<Self> {
        let head = words[record::HEAD];
        is_folded_later(head).then(|| Self {
            stream: words[record::SUBJECT] as u32,
            context: u32::from(words[record::PLACE] as u16),
            operation: Operation {
                at: words[record::ENTERED],
                entry_point: head as u16,
                function: (words[record::SUBJECT] >> 32) as u32,
            },
            returned: words[record::RETURNED],
        })
    }
}

#[inline(always)]
fn is_folded_later(head: u64) -> bool {
    head >> 24 & u64::from(flag::FOLDED_LATER) != 0
}
