//! The call that a thread is in. In a living process it counts only if the mark is the same when it is read again: a thread whose mark keeps
//! changing is not stuck.

use super::cursors;
use super::defects::Defects;
use super::header::Header;
use super::source::{high, low, words, Source, BEFORE_RECORDS, RECORD_BYTES};
use super::tables::{ThreadEntry, ThreadState};
use crate::trace::layout::{record, segment, thread};
use crate::trace::WORDS;

const TRIES: usize = 3;

/// The words of the call that the thread is in, or of one that has returned and is not counted yet.
pub(super) fn in_progress<S: Source>(
    source: &S,
    header: &Header,
    entry: &ThreadEntry,
    defects: &mut Defects,
) -> Option<[u64; WORDS]> {
    if entry.seen.state != ThreadState::Alive {
        return None;
    }
    for _ in 0..TRIES {
        let words = words::<_, { thread::WORDS }>(source, entry.offset);
        let found = look(source, header, &words);
        if self::words::<_, { thread::WORDS }>(source, entry.offset)[thread::MARK] != words[thread::MARK] {
            continue;
        }
        return found.unwrap_or_else(|what| {
            defects.note(entry.offset, || format!("thread {}: the mark of its call names {what}", entry.seen.number));
            None
        });
    }
    None
}

/// The words of the call that the mark names; the error is a thing that no mark names. The call is over if it has a time of return: the thread
/// stores that before the length.
fn look<S: Source>(
    source: &S,
    header: &Header,
    entry: &[u64; thread::WORDS],
) -> Result<Option<[u64; WORDS]>, &'static str> {
    let mark = entry[thread::MARK];
    let lane = (mark >> 16) & 0xff;
    let found = match lane {
        _ if mark == 0 => return Ok(None),
        thread::MARK_SPARE => std::array::from_fn(|number| entry[thread::SPARE + number]),
        1..=3 => {
            let shape = header.segments;
            let (index, counted) = segment_of(header, entry, lane).ok_or("no segment")?;
            let place = shape.area.place(index);
            let before = words::<_, { segment::RECORDS }>(source, place);
            let length = counted.unwrap_or(before[segment::LENGTH]);
            // The thread's own while the mark is set.
            if before[segment::WHO] != entry[thread::WHO] || u64::from(low(before[segment::LANE])) != lane - 1 {
                return Err("a segment that is not its own");
            }
            let by_length = before[segment::FIRST].wrapping_add(length) as u32;
            let next = if counted.is_some() { low(entry[thread::CURSOR]) } else { by_length };
            if next != high(mark) {
                return Ok(None);
            }
            if length >= shape.records {
                return Err("a record behind its segment");
            }
            words::<_, WORDS>(source, place + BEFORE_RECORDS + length * RECORD_BYTES)
        }
        _ => return Err("an unknown lane"),
    };
    if found[record::HEAD] as u16 == mark as u16 {
        Ok(Some(found))
    } else if found[record::RETURNED] != 0 {
        Ok(None)
    } else {
        Err("another call than the record")
    }
}

/// The thread's segment in a lane, and its complete records where its head does not count them.
fn segment_of(header: &Header, entry: &[u64; thread::WORDS], lane: u64) -> Option<(u64, Option<u64>)> {
    let others = entry[thread::SEGMENTS_1_2];
    let current = match lane {
        1 => return cursors::of_entry(header, entry).map(|writing| (writing.segment, Some(writing.length))),
        2 => low(others),
        _ => high(others),
    };
    Some((current.checked_sub(1).map(u64::from).filter(|&index| index < header.segments.area.count)?, None))
}
