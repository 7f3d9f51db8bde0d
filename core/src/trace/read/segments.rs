//! The segments, read once: thread, number of records, and earliest time, in a few dozen bytes each.

use super::cursors;
use super::defects::Defects;
use super::header::{each_entry, Header};
use super::source::{fill, high, low, word, Source, BEFORE_RECORDS, RECORD_BYTES};
use crate::api::EntryPoint;
use crate::trace::layout::{record, segment};
use crate::trace::{Kind, Lane, LaneUse};
use crate::Nanos;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Indexed {
    pub index: u32,
    pub count: u32,
    pub being_taken: bool,
    pub lane: Lane,
    pub thread_number: u32,
    pub thread: u32,
    pub first: u64,
    pub length: u32,
    pub begins: Nanos,
}

/// The segments by the time of their first record.
#[derive(Debug, Default)]
pub(super) struct Index {
    pub segments: Vec<Indexed>,
    pub unknown: u64,
}

impl Index {
    pub(super) fn read<S: Source>(source: &S, header: &mut Header, defects: &mut Defects) -> Self {
        let mut index = Self::default();
        let (area, length) = (header.segments.area, header.length);
        each_entry(source, &area, length, defects, |number, bytes, defects| {
            if !cursors::is_written_to(bytes) {
                let told = word(bytes, segment::LENGTH);
                return index.take(number, bytes, told, header, defects);
            }
            // Read again: what the cursor counts was complete before the cursor was read.
            let told = cursors::length(source, header, number, bytes);
            let mut again = vec![0; bytes.len()];
            let there = fill(source, area.place(number), &mut again).unwrap_or(0);
            let is_its_own = cursors::is_same_use(high(word(bytes, segment::STATE)), word(&again, segment::STATE));
            let is_same = there == again.len() && is_its_own;
            index.take(number, if is_same { &again } else { bytes }, told, header, defects);
        });
        index.doubles(header, defects);
        index.segments.sort_unstable_by_key(|s| (s.begins, s.thread_number, s.lane, s.first, s.index));
        index
    }

    /// `told`: how many records the cursor or the head says are complete.
    fn take(&mut self, number: u64, bytes: &[u8], told: u64, header: &mut Header, defects: &mut Defects) {
        let shape = header.segments;
        let offset = shape.area.place(number);
        let state = u64::from(low(word(bytes, segment::STATE)));
        match state {
            segment::FREE => return,
            segment::BEING_TAKEN | segment::CURRENT | segment::RELEASED => {}
            _ => return defects.note(offset, || format!("segment {number}: state {state}")),
        }
        if told == 0 {
            return;
        }
        let length = told.min(shape.records).min((bytes.len() as u64).saturating_sub(BEFORE_RECORDS) / RECORD_BYTES);
        if told != length {
            defects.note(offset, || format!("segment {number}: {length} of {told} records are there"));
        }
        let lane = word(bytes, segment::LANE);
        let Some(&lane) = usize::try_from(u64::from(low(lane))).ok().and_then(|lane| Lane::ALL.get(lane)) else {
            return defects.note(offset, || format!("segment {number}: lane {}", low(lane)));
        };
        let LaneUse { first, segments, .. } = header.lanes[lane as usize];
        if !(u64::from(first)..u64::from(first) + u64::from(segments)).contains(&number) {
            defects.note(offset, || format!("segment {number}: not among those of its lane {}", lane as u8));
        }
        let who = word(bytes, segment::WHO);
        if low(who) == 0 {
            defects.note(offset, || format!("segment {number}: records of no thread"));
        }
        let mut begins = Nanos::MAX;
        let records = bytes.get(BEFORE_RECORDS as usize..).unwrap_or_default();
        for bytes in records.chunks_exact(RECORD_BYTES as usize).take(length as usize) {
            begins = begins.min(word(bytes, record::ENTERED));
            self.unknown += u64::from(!known(word(bytes, record::HEAD)));
        }
        header.lanes[lane as usize].present += length;
        if length != 0 {
            self.segments.push(Indexed {
                index: number as u32,
                count: high(word(bytes, segment::STATE)),
                being_taken: state == segment::BEING_TAKEN,
                lane,
                thread_number: low(who),
                thread: high(who),
                first: word(bytes, segment::FIRST),
                length: length as u32,
                begins,
            });
        }
    }

    /// Segments with the same numbers are both read.
    fn doubles(&mut self, header: &Header, defects: &mut Defects) {
        self.segments.sort_unstable_by_key(|s| (s.thread_number, s.lane, s.first, s.index));
        for pair in self.segments.windows(2) {
            let [one, other] = pair else { continue };
            let same = (one.thread_number, one.lane) == (other.thread_number, other.lane);
            if same && other.first - one.first < u64::from(one.length) {
                let (one, offset) = (one.index, header.segments.area.place(u64::from(other.index)));
                defects.note(offset, || format!("segment {}: numbers that segment {one} has", other.index));
            }
        }
    }
}

fn known(head: u64) -> bool {
    EntryPoint::by_id(head as u16).is_some() && Kind::from_number((head >> 16) as u8).is_some()
}
