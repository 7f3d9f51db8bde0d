//! Launches whose records the table of streams does not have yet; see `state::fold`, and `read` for those of a file.

use super::layout::{flag, record};
use crate::api::Operation;
use crate::sync::{AtomicU64, Ordering};
use crate::Nanos;

/// A launch that its stream's entry lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Submission {
    pub stream: u32,
    pub context: u32,
    pub operation: Operation,
    /// 0 while it is in progress.
    pub returned: Nanos,
}

impl Submission {
    /// The stream of a record that is folded later.
    #[inline(always)]
    pub fn stream_of(record: &[AtomicU64; record::WORDS]) -> Option<u32> {
        is_folded_later(record[record::HEAD].load(Ordering::Relaxed))
            .then(|| record[record::SUBJECT].load(Ordering::Relaxed) as u32)
    }

    #[inline(always)]
    pub fn of_record(record: &[AtomicU64; record::WORDS]) -> Option<Self> {
        Self::of_words(|word| record[word].load(Ordering::Relaxed))
    }

    /// The submission in a record; `None` unless the record is folded later. Asks for each word once: the record may be written meanwhile.
    #[inline(always)]
    pub fn of_words(word: impl Fn(usize) -> u64) -> Option<Self> {
        let head = word(record::HEAD);
        is_folded_later(head).then(|| {
            let subject = word(record::SUBJECT);
            Self {
                stream: subject as u32,
                context: u32::from(word(record::PLACE) as u16),
                operation: Operation {
                    at: word(record::ENTERED),
                    entry_point: head as u16,
                    function: (subject >> 32) as u32,
                },
                returned: word(record::RETURNED),
            }
        })
    }
}

#[inline(always)]
fn is_folded_later(head: u64) -> bool {
    head >> 24 & u64::from(flag::FOLDED_LATER) != 0
}
