//! The records of all threads and lanes, merged into the order in which their calls were entered.
//!
//! A segment is read when the merge comes to its first record: about one of each thread and lane is in memory.
//!
//! In a living process the head is read again after the records: a segment that another thread took in between is skipped.

use super::header::Header;
use super::segments::{Index, Indexed};
use super::source::{fill, high, low, word, Source, BEFORE_RECORDS, RECORD_BYTES};
use crate::trace::layout::{record, segment, WORD};
use crate::trace::{Lane, Record, WORDS};
use crate::Nanos;
use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::BinaryHeap;
use std::io;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub thread_number: u32,
    pub thread: u32,
    pub lane: Lane,
    /// Among the thread's records in this lane.
    pub number: u64,
    pub record: Record,
}

pub struct Records<'a, S> {
    source: &'a S,
    header: &'a Header,
    index: &'a Index,
    opened: usize,
    /// Segments that were taken meanwhile, or could not be read.
    pub passed_over: u64,
    error: Option<io::Error>,
    open: BinaryHeap<Reverse<Next>>,
    slots: Vec<Open>,
    free: Vec<usize>,
}

/// The order, and the record's slot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Next {
    entered: Nanos,
    thread_number: u32,
    lane: Lane,
    number: u64,
    slot: usize,
}

struct Open {
    indexed: Indexed,
    bytes: Vec<u8>,
    /// Empty where the records lie in order.
    order: Vec<u32>,
    position: u32,
}

impl Open {
    fn bytes_of(&self, position: u32) -> (u64, &[u8]) {
        let place = self.order.get(position as usize).copied().unwrap_or(position);
        let begin = BEFORE_RECORDS as usize + place as usize * RECORD_BYTES as usize;
        (self.indexed.first.wrapping_add(u64::from(place)), self.bytes.get(begin..).unwrap_or_default())
    }

    fn next(&self, slot: usize) -> Next {
        let (number, bytes) = self.bytes_of(self.position);
        let Indexed { thread_number, lane, .. } = self.indexed;
        Next { entered: word(bytes, record::ENTERED), thread_number, lane, number, slot }
    }

    /// A record in the course of a call may lie before the call's.
    fn sort(&mut self) {
        self.order.clear();
        self.position = 0;
        let key = |place: u32| {
            let (number, bytes) = self.bytes_of(place);
            (word(bytes, record::ENTERED), number)
        };
        if !(0..self.indexed.length).map(key).is_sorted() {
            let mut order: Vec<_> = (0..self.indexed.length).collect();
            order.sort_by_key(|&place| key(place));
            self.order = order;
        }
    }
}

impl<'a, S: Source> Records<'a, S> {
    pub(super) fn new(source: &'a S, header: &'a Header, index: &'a Index) -> Self {
        Self {
            source,
            header,
            index,
            opened: 0,
            passed_over: 0,
            error: None,
            open: BinaryHeap::new(),
            slots: Vec::new(),
            free: Vec::new(),
        }
    }

    /// The first error; its segment was passed over.
    pub fn finish(self) -> io::Result<()> {
        self.error.map_or(Ok(()), Err)
    }

    fn open_due(&mut self) {
        while let Some(indexed) = self.index.segments.get(self.opened) {
            if self.open.peek().is_some_and(|Reverse(next)| next.entered < indexed.begins) {
                return;
            }
            self.opened += 1;
            let slot = self.free.pop().unwrap_or(self.slots.len());
            if slot == self.slots.len() {
                self.slots.push(Open { indexed: *indexed, bytes: Vec::new(), order: Vec::new(), position: 0 });
            }
            match self.load(slot, indexed) {
                Ok(true) => {
                    self.slots[slot].sort();
                    self.open.push(Reverse(self.slots[slot].next(slot)));
                }
                unread => {
                    self.error = self.error.take().or(unread.err());
                    self.passed_over += 1;
                    self.free.push(slot);
                }
            }
        }
    }

    /// Whether the segment is still as it was looked through.
    fn load(&mut self, slot: usize, indexed: &Indexed) -> io::Result<bool> {
        let offset = self.header.segments.area.place(u64::from(indexed.index));
        let size = BEFORE_RECORDS + u64::from(indexed.length) * RECORD_BYTES;
        let open = &mut self.slots[slot];
        open.indexed = *indexed;
        open.bytes.resize(usize::try_from(size).unwrap_or(0), 0);
        if fill(self.source, offset, &mut open.bytes)? < open.bytes.len() {
            return Ok(false);
        }
        let mut after = [0; 2 * WORD];
        fill(self.source, offset, &mut after)?;
        let at = |number| word(&open.bytes, number);
        let state = word(&after, segment::STATE);
        Ok(at(segment::WHO) == u64::from(indexed.thread_number) | u64::from(indexed.thread) << 32
            && at(segment::FIRST) == indexed.first
            && low(at(segment::LANE)) == indexed.lane as u32
            && high(state) == indexed.count
            && (u64::from(low(state)) == segment::BEING_TAKEN) == indexed.being_taken
            // A cursor may count its records: see `cursors`.
            && (u64::from(low(state)) == segment::CURRENT || word(&after, segment::LENGTH) >= u64::from(indexed.length)))
    }
}

impl<S: Source> Iterator for Records<'_, S> {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        loop {
            self.open_due();
            let mut top = self.open.peek_mut()?;
            let slot = top.0.slot;
            let open = &mut self.slots[slot];
            let (number, bytes) = open.bytes_of(open.position);
            let words: [u64; WORDS] = std::array::from_fn(|number| word(bytes, number));
            let Indexed { thread_number, thread, lane, length, .. } = open.indexed;
            open.position += 1;
            if open.position < length {
                top.0 = open.next(slot);
            } else {
                PeekMut::pop(top);
                self.free.push(slot);
            }
            if let Some(record) = Record::from_words(&words) {
                return Some(Entry { thread_number, thread, lane, number, record });
            }
        }
    }
}
