//! A recording that is read again and again while its process writes it: the tables as they are now, and the new records.

use super::header::Header;
use super::records::Entry;
use super::source::{fill, high, low, word, Source, BEFORE_RECORDS, RECORD_BYTES};
use super::{cursors, Recording, Unreadable};
use crate::trace::follow::LaneFollower;
use crate::trace::layout::{segment, LANES, WORD};
use crate::trace::{Lane, Look, Owner, Record, WORDS};

pub struct LiveRecording<S> {
    /// As they were at the last [`Self::refresh`].
    pub tables: Recording<S>,
    lanes: [LaneFollower; LANES],
}

impl<S: Source> LiveRecording<S> {
    /// Reads the tables, and no record.
    pub fn open(source: S) -> Result<Self, Unreadable> {
        Ok(Self { tables: Recording::tables_of(source)?, lanes: Default::default() })
    }

    pub fn refresh(&mut self) -> Result<(), Unreadable> {
        self.tables.refresh_tables()
    }

    /// Hands out each new complete record of a lane, of the newest `most` segments. One thread's are in order.
    pub fn news(&mut self, lane: Lane, most: u64, each: &mut dyn FnMut(&Recording<S>, &Entry)) {
        let Recording { source, header, .. } = &self.tables;
        let (first, count) = header.segments_of(lane);
        let read = |look: &Look, from: u32| {
            let records = records_from(source, header, look, from).unwrap_or_default();
            for (words, at) in records.iter().zip(u64::from(from)..) {
                if let Some(record) = Record::from_words(words) {
                    let Owner { number: thread_number, thread } = look.owner;
                    let number = look.first.wrapping_add(at);
                    each(&self.tables, &Entry { thread_number, thread, lane, number, record });
                }
            }
            records.len() as u32
        };
        let segments = first as usize..(first + count) as usize;
        let (hand, look) = (header.lanes[lane as usize].hand, |index| look(source, header, index));
        self.lanes[lane as usize].follow(segments, hand, most.max(1), look, read);
    }

    /// Complete records that were never handed out; in a running process a few may come with the next look.
    pub fn lost(&self, lane: Lane) -> u64 {
        self.lanes[lane as usize].lost(self.tables.header.lanes[lane as usize].released)
    }
}

/// `None` in between two owners, and of what was never used.
fn look<S: Source>(source: &S, header: &Header, index: usize) -> Option<Look> {
    let mut head = [0; segment::RECORDS * WORD];
    let there = fill(source, header.segments.area.place(index as u64), &mut head).ok()?;
    let head = &head[..there];
    let (state, who) = (word(head, segment::STATE), word(head, segment::WHO));
    let length = cursors::length(source, header, index as u64, head).min(header.segments.records);
    matches!(u64::from(low(state)), segment::CURRENT | segment::RELEASED).then(|| Look {
        index,
        taken: high(state),
        is_current: u64::from(low(state)) == segment::CURRENT,
        owner: Owner { number: low(who), thread: high(who) },
        first: word(head, segment::FIRST),
        length: length as u32,
    })
}

/// The records from this one on; `None` where another thread has taken the segment.
fn records_from<S: Source>(source: &S, header: &Header, look: &Look, from: u32) -> Option<Vec<[u64; WORDS]>> {
    let offset = header.segments.area.place(look.index as u64);
    let mut bytes = vec![0; usize::try_from(u64::from(look.length - from) * RECORD_BYTES).ok()?];
    if fill(source, offset + BEFORE_RECORDS + u64::from(from) * RECORD_BYTES, &mut bytes).ok()? < bytes.len() {
        return None;
    }
    let mut after = [0; WORD];
    fill(source, offset, &mut after).ok()?;
    if !cursors::is_same_use(look.taken, word(&after, segment::STATE)) {
        return None;
    }
    let records = bytes.chunks_exact(RECORD_BYTES as usize);
    Some(records.map(|record| std::array::from_fn(|number| word(record, number))).collect())
}
