//! The record of an event, which any thread may read while another one records it.

use crate::Nanos;
use std::sync::atomic::{AtomicU64, Ordering};

/// An event that was recorded.
///
/// Two threads may record it at a time. Each word has the tag of the time in its upper bits: a reader that finds the words of two records finds
/// none.
#[derive(Default)]
#[repr(align(32))]
pub struct Event {
    pub(super) handle: AtomicU64,
    recorded: AtomicU64,
    /// The number of the stream, or 0 of a whole context; and from bit 32 that of the context.
    place: AtomicU64,
    operations: AtomicU64,
}

/// The place and time of an event's last record.
#[derive(Clone, Copy)]
pub struct Recorded {
    pub at: Nanos,
    /// 0 of a whole context.
    pub stream: u32,
    pub context: u32,
    /// How many operations the stream had by then, as far as they were known.
    pub(super) operations: u64,
}

const TAG_AT: u32 = 48;

fn tag(at: Nanos) -> u64 {
    (at ^ at >> 16) << TAG_AT
}

impl Event {
    /// It was recorded: on a stream, as the operation of this number, or (stream 0) on a whole context.
    #[inline]
    pub fn record(&self, stream: u32, operations: u64, context: u32, at: Nanos) {
        let untagged = |word: u64| word & ((1 << TAG_AT) - 1);
        self.recorded.store(at, Ordering::Relaxed);
        self.place.store(u64::from(stream) | u64::from(context as u16) << 32 | tag(at), Ordering::Relaxed);
        self.operations.store(untagged(operations) | tag(at), Ordering::Relaxed);
    }

    #[inline(always)]
    pub fn is_of(&self, handle: u64) -> bool {
        self.handle.load(Ordering::Relaxed) == handle
    }

    /// Whether it is of this handle, and was not recorded since that time.
    #[inline(always)]
    pub(super) fn is_still(&self, handle: u64, at: Nanos) -> bool {
        self.is_of(handle) && self.recorded.load(Ordering::Relaxed) == at
    }

    #[inline(always)]
    pub fn recorded(&self) -> Option<Recorded> {
        let [at, place, operations] =
            [&self.recorded, &self.place, &self.operations].map(|word| word.load(Ordering::Relaxed));
        let (place, operations) = (place ^ tag(at), operations ^ tag(at));
        let is_one = at != 0 && (place | operations) >> TAG_AT == 0;
        is_one.then_some(Recorded { at, stream: place as u32, context: (place >> 32) as u32, operations })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_two_records_are_none() {
        let [event, other]: [&'static Event; 2] = [(); 2].map(|()| &*Box::leak(Box::default()));
        assert!(event.recorded().is_none());
        event.record(3, 7, 1, 1_000);
        let recorded = event.recorded().unwrap();
        assert_eq!((recorded.at, recorded.stream, recorded.context, recorded.operations), (1_000, 3, 1, 7));
        other.record(4, 8, 1, 1_001);
        let words = |event: &'static Event| [&event.recorded, &event.place, &event.operations];
        for (word, of_other) in words(event).into_iter().zip(words(other)) {
            let before = word.swap(of_other.load(Ordering::Relaxed), Ordering::Relaxed);
            assert!(event.recorded().is_none());
            word.store(before, Ordering::Relaxed);
        }
        assert!(event.recorded().is_some());
    }
}
