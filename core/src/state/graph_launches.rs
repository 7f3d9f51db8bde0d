//! When graphs were launched last.
//!
//! Must not: exchange anything in a launch that repeats.

use crate::Nanos;
use std::sync::atomic::{AtomicU64, Ordering};

/// When each thread has launched a graph last. A thread stores to a word of its own, since an exchange behind a launch waits until the card has what
/// the driver has sent it; threads beyond these words share the last one.
pub struct GraphLaunches {
    who: AtomicU64,
    at: [AtomicU64; GraphLaunches::WORDS],
}

impl Default for GraphLaunches {
    fn default() -> Self {
        Self { who: AtomicU64::new(0), at: [const { AtomicU64::new(0) }; Self::WORDS] }
    }
}

impl GraphLaunches {
    const WORDS: usize = u64::BITS as usize;

    /// The word of the thread with this slot, which is looked at from now on.
    pub fn word_of(&self, slot: u32) -> u32 {
        let word = slot.saturating_sub(1).min(Self::WORDS as u32 - 1);
        if self.who.load(Ordering::Relaxed) >> word & 1 == 0 {
            self.who.fetch_or(1 << word, Ordering::Relaxed);
        }
        word
    }

    /// A graph was launched. It may hold nodes that record events, so an earlier record of an event proves nothing.
    #[inline(always)]
    pub fn note(&self, word: u32, at: Nanos) {
        // No index, which could panic where nothing may.
        match self.at.get(word as usize) {
            Some(own) if word < Self::WORDS as u32 - 1 => own.store(at, Ordering::Relaxed),
            shared => shared.into_iter().for_each(|shared| _ = shared.fetch_max(at, Ordering::Relaxed)),
        }
    }

    #[inline]
    pub fn newest(&self) -> Nanos {
        let (mut who, mut newest) = (self.who.load(Ordering::Relaxed), 0);
        while let Some(at) = self.at.get(who.trailing_zeros() as usize) {
            newest = newest.max(at.load(Ordering::Relaxed));
            who &= who - 1;
        }
        newest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_graph_launch_of_all_threads_is_known() {
        let launches = GraphLaunches::default();
        assert_eq!(launches.newest(), 0);
        for (slot, at, newest) in [(3, 10, 10), (1, 7, 10), (3, 12, 12), (64, 20, 20), (200, 19, 20), (1, 30, 30)] {
            launches.note(launches.word_of(slot), at);
            assert_eq!(launches.newest(), newest, "{slot} at {at}");
        }
    }
}
