//! Knows which threads may have unfolded launches, on any stream and on one, so that a fold looks at no others.
//!
//! Protocol. A thread adds itself before its first fast launch on a stream, and stays: the slot's next thread finds the caches filled. All accesses
//! are relaxed. A question that is ordered behind a launch sees what the launch's thread has stored before; for the gate, the two sequentially
//! consistent fences give that order. A question may miss a concurrent launch, as it may miss a mark that is about to be set.
//!
//! Must not: be written to on the path of a launch.

use crate::sync::{AtomicU64, Ordering};

/// Words of the bitmap: few, because each question reads them all.
const WORDS: usize = if cfg!(loom) { 1 } else { 4 };
/// Each bit is of all slots whose indices differ by a multiple of this.
pub(super) const SLOTS: usize = WORDS * u64::BITS as usize;

/// In the place of a slot's number: more than one slot.
const MANY: u64 = u64::MAX;

pub(super) struct Launchers {
    slots: [AtomicU64; WORDS],
    /// For each stream that has an entry in the recording, and so may be launched on by the fast path: the number of the only slot that may, 0
    /// for none, or `MANY`.
    streams: Box<[AtomicU64]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    None,
    One(u32),
    All,
}

impl Launchers {
    pub fn new(streams: usize) -> Self {
        Self {
            slots: std::array::from_fn(|_| AtomicU64::new(0)),
            streams: (0..streams).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    pub fn add(&self, slot: u32, stream: u32) {
        let index = slot.wrapping_sub(1) as usize % SLOTS;
        let (word, bit) = (&self.slots[index / 64], 1 << (index % 64));
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Relaxed);
        }
        let Some(of_stream) = self.stream(stream) else { return };
        let own = u64::from(slot);
        match of_stream.compare_exchange(0, own, Ordering::Relaxed, Ordering::Relaxed) {
            Err(other) if other != own => of_stream.store(MANY, Ordering::Relaxed),
            _ => {}
        }
    }

    /// This is the number of a new stream, on which no thread has launched.
    pub fn begin_stream(&self, stream: u32) {
        self.stream(stream).into_iter().for_each(|of| of.store(0, Ordering::Relaxed));
    }

    fn stream(&self, stream: u32) -> Option<&AtomicU64> {
        self.streams.get((stream as usize).checked_sub(1)?)
    }

    /// The slots whose threads may have launched on this stream.
    pub fn of(&self, stream: u32) -> Of {
        match self.stream(stream).map_or(0, |of| of.load(Ordering::Relaxed)) {
            0 => Of::None,
            MANY => Of::All,
            slot => Of::One(slot as u32),
        }
    }

    /// Calls this with the index, from 0 to [`SLOTS`], of each slot whose thread may have launched.
    #[inline]
    pub fn each(&self, mut look: impl FnMut(usize)) {
        for (n, word) in self.slots.iter().enumerate() {
            let mut left = word.load(Ordering::Relaxed);
            while left != 0 {
                look(n * 64 + left.trailing_zeros() as usize);
                left &= left - 1;
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
#[path = "launchers_tests.rs"]
mod tests;
