//! Finds how far threads have written in the lane of work. A thread's cursor, in its entry, counts the complete records of its segment; the segment's head
//! counts them once the thread has left it. The larger count is the segment's length.
//!
//! Must not: be read after the records that it counts.

use super::header::Header;
use super::source::{high, low, word, words, Source, BEFORE_RECORDS, RECORD_BYTES};
use crate::trace::layout::{segment, thread};
use crate::trace::Lane;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Writing {
    pub segment: u64,
    pub length: u64,
}

/// `None` if the thread has no segment, or a cursor that leads nowhere.
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

/// Whether a cursor counts the records of the segment with this head.
pub(super) fn is_written_to(head: &[u8]) -> bool {
    u64::from(low(word(head, segment::STATE))) == segment::CURRENT
        && u64::from(low(word(head, segment::LANE))) == Lane::Work as u64
        && word(head, segment::ENTRY) != 0
}

/// Whether a segment in this state still has the owner of that use, who may have left it.
pub(super) fn is_same_use(taken: u32, state: u64) -> bool {
    high(state) == taken && u64::from(low(state)) != segment::BEING_TAKEN
}

/// The length of the segment whose head was just read.
pub(super) fn length<S: Source>(source: &S, header: &Header, index: u64, head: &[u8]) -> u64 {
    let told = word(head, segment::LENGTH);
    if !is_written_to(head) {
        return told;
    }
    let entry = Some(word(head, segment::ENTRY) - 1).filter(|&entry| entry < header.threads.count);
    let entry = entry.map(|entry| words::<_, { thread::WORDS }>(source, header.threads.place(entry)));
    let writing = entry.and_then(|entry| of_entry(header, &entry)).filter(|writing| writing.segment == index);
    // A thread that has left the segment counted its records in the head before.
    let now = words::<_, { segment::RECORDS }>(source, header.segments.area.place(index));
    let is_its_own = is_same_use(high(word(head, segment::STATE)), now[segment::STATE]);
    let told = if is_its_own { now[segment::LENGTH] } else { told };
    writing.map_or(told, |writing| writing.length.max(told))
}
