//! Looks at segments in the process that writes them, while it does.

use super::layout::{self, record, segment};
use super::recorder::Recorder;
use super::writer::{low, Cursor, Owner, Place};
use crate::sync::{fence, AtomicU64, Ordering};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    pub index: usize,
    /// How often it had been taken.
    pub taken: u32,
    pub is_current: bool,
    pub owner: Owner,
    pub first: u64,
    pub length: u32,
}

impl Recorder<'_> {
    /// Looks at segment `index`; `None` unless one thread has it throughout.
    pub fn look(&self, index: usize) -> Option<Look> {
        let base = self.segment_at(index);
        if self.closed().iter().any(|words| words.contains(&base)) {
            return None;
        }
        let words = self.words.get(base..base + segment::RECORDS)?;
        let state = words[segment::STATE].load(Ordering::Acquire);
        if low(state) == segment::FREE || low(state) == segment::BEING_TAKEN {
            return None;
        }
        let length = self.length_of(base / record::WORDS, state, words);
        let who = words[segment::WHO].load(Ordering::Relaxed);
        let look = Look {
            index,
            taken: (state >> 32) as u32,
            is_current: low(state) == segment::CURRENT,
            owner: Owner { number: who as u32, thread: (who >> 32) as u32 },
            first: words[segment::FIRST].load(Ordering::Relaxed),
            length: length.min(self.shape.records as u64) as u32,
        };
        self.unchanged(&look).then_some(look)
    }

    /// Complete records: by the thread's cursor, where that is in the segment, else by the head.
    fn length_of(&self, head: usize, state: u64, words: &[AtomicU64]) -> u64 {
        let entry =
            words[segment::ENTRY].load(Ordering::Relaxed).checked_sub(1).filter(|_| low(state) == segment::CURRENT);
        let entry = entry.and_then(|index| self.thread_entry(index as usize));
        // Acquire: partner of the Release with which a record is complete, and a segment is left.
        let cursor = entry.map(|entry| Cursor(entry[layout::thread::CURSOR].load(Ordering::Acquire)));
        match cursor.filter(|cursor| cursor.head(self.shape.records) == head) {
            Some(cursor) => cursor.length(self.shape.records) as u64,
            None => words[segment::LENGTH].load(Ordering::Acquire),
        }
    }

    /// Whether the segment still has the same owner.
    fn unchanged(&self, look: &Look) -> bool {
        fence(Ordering::Acquire);
        let now = self.words[self.segment_at(look.index) + segment::STATE].load(Ordering::Relaxed);
        // From current to released nothing else changes.
        now >> 32 == u64::from(look.taken) && low(now) != segment::BEING_TAKEN
    }

    /// The words of record `number`, unless the segment was taken again. One past the length is that of a call in progress.
    pub fn read(&self, look: &Look, number: u32) -> Option<[u64; record::WORDS]> {
        let at = self.segment_at(look.index) + segment::RECORDS + number as usize * record::WORDS;
        let place: Place<'_> = (number < self.shape.records as u32).then(|| self.words.get(at..)?.first_chunk())??;
        let words = place.each_ref().map(|word| word.load(Ordering::Relaxed));
        self.unchanged(look).then_some(words)
    }
}
