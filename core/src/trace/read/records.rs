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
    open: BinaryHeap<Reverse<Open>>,
}

/// A segment of which records are left, in the order of the next one: by its time, thread, lane and number.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Open {
    next: (Nanos, u32, Lane, u64),
    indexed: Indexed,
    position: u32,
    /// Empty where the records lie in order.
    order: Vec<u32>,
    bytes: Vec<u8>,
}

impl Open {
    fn bytes_of(&self, position: u32) -> (u64, &[u8]) {
        let place = self.order.get(position as usize).copied().unwrap_or(position);
        let begin = BEFORE_RECORDS as usize + place as usize * RECORD_BYTES as usize;
        (self.indexed.first.wrapping_add(u64::from(place)), self.bytes.get(begin..).unwrap_or_default())
    }

    fn stand_at(&mut self, position: u32) {
        self.position = position;
        let (number, bytes) = self.bytes_of(position);
        self.next = (word(bytes, record::ENTERED), self.indexed.thread_number, self.indexed.lane, number);
    }

    /// A record in the course of a call may lie before the call's.
    fn sort(&mut self) {
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
        Self { source, header, index, opened: 0, passed_over: 0, error: None, open: BinaryHeap::new() }
    }

    /// The first error; its segment was passed over.
    pub fn finish(self) -> io::Result<()> {
        self.error.map_or(Ok(()), Err)
    }

    fn open_due(&mut self) {
        while let Some(indexed) = self.index.segments.get(self.opened) {
            if self.open.peek().is_some_and(|Reverse(open)| open.next.0 < indexed.begins) {
                return;
            }
            self.opened += 1;
            match self.load(indexed) {
                Ok(Some(open)) => self.open.push(Reverse(open)),
                unread => {
                    self.error = self.error.take().or(unread.err());
                    self.passed_over += 1;
                }
            }
        }
    }

    /// `None` where the segment is no longer as it was looked through.
    fn load(&self, indexed: &Indexed) -> io::Result<Option<Open>> {
        let offset = self.header.segments.area.place(u64::from(indexed.index));
        let size = BEFORE_RECORDS + u64::from(indexed.length) * RECORD_BYTES;
        let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
        if fill(self.source, offset, &mut bytes)? < bytes.len() {
            return Ok(None);
        }
        let mut after = [0; 2 * WORD];
        fill(self.source, offset, &mut after)?;
        let at = |number| word(&bytes, number);
        let state = word(&after, segment::STATE);
        let is_same = at(segment::WHO) == u64::from(indexed.thread_number) | u64::from(indexed.thread) << 32
            && at(segment::FIRST) == indexed.first
            && low(at(segment::LANE)) == indexed.lane as u32
            && high(state) == indexed.count
            && (u64::from(low(state)) == segment::BEING_TAKEN) == indexed.being_taken
            // A cursor may count its records: see `cursors`.
            && (u64::from(low(state)) == segment::CURRENT || word(&after, segment::LENGTH) >= u64::from(indexed.length));
        let next = (0, 0, indexed.lane, 0);
        let mut open = Open { next, indexed: *indexed, position: 0, order: Vec::new(), bytes };
        open.sort();
        open.stand_at(0);
        Ok(is_same.then_some(open))
    }
}

impl<S: Source> Iterator for Records<'_, S> {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        loop {
            self.open_due();
            let mut top = self.open.peek_mut()?;
            let open = &mut top.0;
            let (number, bytes) = open.bytes_of(open.position);
            let words: [u64; WORDS] = std::array::from_fn(|number| word(bytes, number));
            let Indexed { thread_number, thread, lane, length, .. } = open.indexed;
            if open.position + 1 < length {
                open.stand_at(open.position + 1);
            } else {
                PeekMut::pop(top);
            }
            if let Some(record) = Record::from_words(&words) {
                return Some(Entry { thread_number, thread, lane, number, record });
            }
        }
    }
}
