//! Where threads write in the lane of work.
//!
//! The segment in which a thread is does not say how many records of it are complete: the thread's entry does, by its cursor. The head of a segment counts the records once the thread has left it. So a length is the larger one of both.
//!
//! Must not: be read after the records that it counts. What was complete when a cursor was read is there when the records are.

use super::header::Header;
use super::source::{high, low, word, words, Source, BEFORE_RECORDS, RECORD_BYTES};
use crate::trace::layout::{segment, thread};
use crate::trace::Lane;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Writing {
    pub segment: u64,
    pub length: u64,
}

/// What a thread's entry says of its segment in the lane of work; `None` if it has none, or a cursor that leads nowhere.
pub(super) fn of_entry(header: &Header, entry: &[u64; thread::WORDS]) -> Option<Writing> {
    let cursor = entry[thread::CURSOR];
    let shape = header.segments;
    // A place is as long as a record.
    let in_bytes = |place: u32| u64::from(place) * RECORD_BYTES;
    let begin = in_bytes(high(cursor)).checked_sub(shape.records * RECORD_BYTES + BEFORE_RECORDS)?;
    let from_first = begin.checked_sub(shape.area.offset)?;
    let segment = from_first.checked_div(shape.area.stride)?;
    let length = in_bytes(low(cursor)).checked_sub(begin + BEFORE_RECORDS)? / RECORD_BYTES;
    let is_one = from_first % shape.area.stride == 0 && segment < shape.area.count && length <= shape.records;
    is_one.then_some(Writing { segment, length })
}

/// Whether a thread may be writing to the segment with this head, and its records are counted elsewhere.
pub(super) fn is_written_to(head: &[u8]) -> bool {
    u64::from(low(word(head, segment::STATE))) == segment::CURRENT
        && u64::from(low(word(head, segment::LANE))) == Lane::Work as u64
        && word(head, segment::ENTRY) != 0
}

/// Whether a segment in this state still has the owner that took it when it had been taken so often. The owner may have left it: nothing else has changed
/// then.
pub(super) fn is_same_use(taken: u32, state: u64) -> bool {
    high(state) == taken && u64::from(low(state)) != segment::BEING_TAKEN
}

/// Complete records in the segment with this index, whose head was just read.
pub(super) fn length<S: Source>(source: &S, header: &Header, index: u64, head: &[u8]) -> u64 {
    let told = word(head, segment::LENGTH);
    if !is_written_to(head) {
        return told;
    }
    let entry = Some(word(head, segment::ENTRY) - 1).filter(|&entry| entry < header.threads.count);
    let entry = entry.map(|entry| words::<_, { thread::WORDS }>(source, header.threads.place(entry)));
    let writing = entry.and_then(|entry| of_entry(header, &entry)).filter(|writing| writing.segment == index);
    // A thread that has left the segment since has counted its records in the head before.
    let now = words::<_, { segment::RECORDS }>(source, header.segments.area.place(index));
    let is_its_own = is_same_use(high(word(head, segment::STATE)), now[segment::STATE]);
    let told = if is_its_own { now[segment::LENGTH] } else { told };
    writing.map_or(told, |writing| writing.length.max(told))
}
