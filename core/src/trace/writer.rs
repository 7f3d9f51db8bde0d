//! The writer of a recording's records, and the segments that it takes.
//!
//! Protocol. Only one thread at a time writes to a segment, through its [`SegmentWriter`]. It stores the facts of a record; before a call, the
//! thread's mark (see `state::ThreadSlot`); after the call, the rest of the record; and last, with Release, its cursor or the segment's length,
//! which completes the record. A reader's Acquire is the partner.
//!
//! In the lane of work the cursor is in the thread's entry, a line of memory that each of its calls stores to anyway. The segment's head gets the
//! length when the thread leaves the segment, before the cursor moves on. Other writers count each record in the head.
//!
//! A thread whose segment is full takes the one that was taken longest ago and has no owner, and then releases the one before the full one. Taking is
//! one compare-and-swap on the segment's state, which also counts: a reader that finds the same state and count before and after has read one
//! owner's records.
//!
//! Must not: allocate, lock, wait or call the system where a record is written. Strings are written on cold paths, under a lock.

use super::layout::{self, lane, record, segment, LANES};
use super::raw::RawPayload;
use super::record::Record;
use super::recorder::Recorder;
use crate::api::Lane;
use crate::sync::{fence, AtomicU64, Ordering};
use crate::Nanos;
// Used by one thread alone: it needs no model checking, and is built at compile time.
use std::sync::atomic::{AtomicU64 as OwnU64, AtomicUsize};

pub type Place<'a> = &'a [AtomicU64; record::WORDS];

/// A recording's words in pieces of a record: records and segments begin at multiples, and a head is as long.
pub type Places<'a> = &'a [[AtomicU64; record::WORDS]];

const _: () = assert!(segment::RECORDS == record::WORDS && segment::WORDS.is_multiple_of(record::WORDS));

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    pub number: u32,
    pub thread: u32,
}

/// The next record's place in the low half, one past the segment's last place in the high half, as indices of [`Places`]; 0 without a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cursor(pub(crate) u64);

impl Cursor {
    fn at_first(head: usize, records: usize) -> Self {
        Self((head + 1) as u64 | ((head + 1 + records) as u64) << 32)
    }

    /// The next record's place, outside where the segment is full.
    #[inline(always)]
    pub(crate) fn at(self) -> usize {
        self.0 as u32 as usize
    }

    #[inline(always)]
    fn end(self) -> usize {
        (self.0 >> 32) as usize
    }

    #[inline(always)]
    fn has_room(self) -> bool {
        self.at() < self.end()
    }

    /// The place of the segment's head; 0 without a segment. `records`: how many records a segment holds.
    pub(super) fn head(self, records: usize) -> usize {
        self.end().saturating_sub(records + 1)
    }

    pub(super) fn length(self, records: usize) -> usize {
        self.at().saturating_sub(self.head(records) + 1)
    }
}

enum CursorWord<'a> {
    /// The segment's head counts each record.
    Own(AtomicU64),
    /// In the thread's entry with this index. Only a segment that is left counts in its head, which launches need not touch.
    OfThread(&'a AtomicU64, u32),
}

/// A thread's position in one lane; for that thread alone.
pub struct SegmentWriter<'a> {
    cursor: CursorWord<'a>,
    /// Added to an index, it makes the record's number among the thread's in this lane.
    numbers: OwnU64,
    /// The head of the former segment, which is full and still this writer's; or 0.
    previous: AtomicUsize,
}

impl Default for SegmentWriter<'_> {
    fn default() -> Self {
        Self::with(CursorWord::Own(AtomicU64::new(0)))
    }
}

impl<'a> SegmentWriter<'a> {
    fn with(cursor: CursorWord<'a>) -> Self {
        Self { cursor, numbers: OwnU64::new(0), previous: AtomicUsize::new(0) }
    }

    /// The writer of a thread in the lane of work.
    pub fn of_thread(entry: &'a [AtomicU64; layout::thread::WORDS], index: u32) -> Self {
        Self::with(CursorWord::OfThread(&entry[layout::thread::CURSOR], index))
    }

    /// Begins for another thread, whose records are numbered from 0.
    pub fn restart(&self) {
        self.numbers.store(0, Ordering::Relaxed);
        self.word().store(0, Ordering::Relaxed);
        self.previous.store(0, Ordering::Relaxed);
    }

    #[inline(always)]
    fn word(&self) -> &AtomicU64 {
        match &self.cursor {
            CursorWord::Own(word) => word,
            CursorWord::OfThread(word, _) => word,
        }
    }

    /// Acquire: partner of the Release with which a record is complete, and a segment taken or released.
    pub(crate) fn cursor(&self) -> Cursor {
        Cursor(self.word().load(Ordering::Acquire))
    }

    pub fn next(&self) -> u64 {
        self.number_at(self.cursor())
    }

    /// The number of the record at the writer's cursor.
    pub(crate) fn number_at(&self, cursor: Cursor) -> u64 {
        self.numbers.load(Ordering::Relaxed).wrapping_add(cursor.at() as u64)
    }
}

/// As [`Recorder::place`], in the lane of work.
#[inline(always)]
pub(crate) fn place_at<'a>(cursor: Cursor, places: Places<'a>) -> Option<Place<'a>> {
    if !cursor.has_room() {
        return None;
    }
    places.get(cursor.at())
}

#[inline(always)]
pub(crate) fn complete_at(cursor: &AtomicU64) {
    // Release: partner of the Acquire with which readers take the cursor.
    cursor.store(cursor.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
}

pub(super) fn low(word: u64) -> u64 {
    word & 0xffff_ffff
}

impl<'a> Recorder<'a> {
    /// The place of the thread's next record, which counts after [`Recorder::complete`].
    #[inline(always)]
    pub fn place(&self, writer: &SegmentWriter<'_>) -> Option<Place<'a>> {
        place_at(writer.cursor(), self.places())
    }

    pub fn places(&self) -> Places<'a> {
        self.words.as_chunks().0
    }

    /// The same in a new segment. `None` if each one is some thread's current one.
    #[cold]
    pub fn place_in_next(
        &self,
        writer: &SegmentWriter<'_>,
        owner: Owner,
        which: Lane,
        now: Nanos,
    ) -> Option<Place<'a>> {
        // The full segment stays the thread's own until the next one is full: a thread that hangs keeps its newest records. Only if there is no other
        // segment, its own have to serve.
        let next = writer.next();
        let entry = match writer.cursor {
            CursorWord::Own(_) => 0,
            CursorWord::OfThread(_, index) => u64::from(index) + 1,
        };
        let full = self.counted(writer);
        let base = match self.take(next, owner, which, entry, now) {
            Some(base) => {
                let former = writer.previous.swap(full, Ordering::Relaxed);
                // The same one where a signal handler's jump left this before the cursor moved.
                if former != full {
                    self.release_segment(former);
                }
                base
            }
            None => {
                self.release(writer);
                self.take(next, owner, which, entry, now)?
            }
        };
        let head = base / record::WORDS;
        writer.numbers.store(next.wrapping_sub(head as u64 + 1), Ordering::Relaxed);
        // Release: with this segment, the folds and the length of the former one are seen.
        writer.word().store(Cursor::at_first(head, self.shape.records).0, Ordering::Release);
        self.place(writer)
    }

    /// The head of the writer's segment, which counts its records from now on; or 0.
    fn counted(&self, writer: &SegmentWriter<'_>) -> usize {
        let cursor = writer.cursor();
        let head = cursor.head(self.shape.records);
        if let (CursorWord::OfThread(..), Some(words)) = (&writer.cursor, self.places().get(head).filter(|_| head != 0))
        {
            words[segment::LENGTH].store(cursor.length(self.shape.records) as u64, Ordering::Release);
        }
        head
    }

    pub fn complete(&self, writer: &SegmentWriter<'_>) {
        if let CursorWord::Own(_) = writer.cursor {
            let cursor = writer.cursor();
            if let Some(words) = self.places().get(cursor.head(self.shape.records)) {
                // Release: partner of the Acquire with which readers take the length.
                words[segment::LENGTH].store(cursor.length(self.shape.records) as u64 + 1, Ordering::Release);
            }
        }
        complete_at(writer.word());
    }

    /// Complete records of the current segment, newest first.
    #[inline]
    pub fn newest<'s>(&'s self, writer: &SegmentWriter<'_>, count: u32) -> impl Iterator<Item = Place<'a>> + 's {
        let cursor = writer.cursor();
        let count = cursor.length(self.shape.records).min(count as usize);
        self.places().get(cursor.at() - count..cursor.at()).unwrap_or_default().iter().rev()
    }

    pub fn segment(&self, writer: &SegmentWriter<'_>) -> Option<Current<'a>> {
        let cursor = writer.cursor();
        let base = Some(cursor.head(self.shape.records)).filter(|&head| head != 0)? * record::WORDS;
        let words = self.words.get(base..base + self.shape.segment_words())?;
        Some(Current { words, length: cursor.length(self.shape.records) as u64, at: cursor.at() as u32 })
    }

    /// Its index plus 1, or 0.
    pub fn current_segment(&self, writer: &SegmentWriter<'_>) -> u32 {
        match writer.cursor().head(self.shape.records) {
            0 => 0,
            head => ((head * record::WORDS - self.shape.segments_at()) / self.shape.segment_words()) as u32 + 1,
        }
    }

    /// Ends the writer: others may take its segments.
    pub fn release(&self, writer: &SegmentWriter<'_>) {
        writer.numbers.store(writer.next(), Ordering::Relaxed);
        let head = self.counted(writer);
        // Release: without a segment here, the count of the one that was left is seen.
        writer.word().store(0, Ordering::Release);
        self.release_segment(writer.previous.swap(0, Ordering::Relaxed));
        self.release_segment(head);
    }

    /// Others may take the segment, if there is one.
    fn release_segment(&self, head: usize) {
        let Some(words) = self.places().get(head).filter(|_| head != 0) else { return };
        let length = words[segment::LENGTH].load(Ordering::Relaxed);
        let which = Lane::ALL[words[segment::LANE].load(Ordering::Relaxed) as usize % LANES];
        self.lane(which)[lane::RELEASED].fetch_add(length, Ordering::Relaxed);
        let count = words[segment::STATE].load(Ordering::Relaxed) & !0xffff_ffff;
        // Release: partner of the Acquire in `take`, whose thread overwrites the records.
        words[segment::STATE].store(count | segment::RELEASED, Ordering::Release);
        // Release: a thread that sees the count finds the segment.
        self.released[which as usize].fetch_add(1, Ordering::Release);
    }

    /// The lane's next segment that is no writer's current one, in one round.
    fn take(&self, first: u64, owner: Owner, which: Lane, entry: u64, now: Nanos) -> Option<usize> {
        let lane_words = self.lane(which);
        let (begin, count) = self.segments_of(which);
        // No segment was released since a search found none.
        let released = self.released[which as usize].load(Ordering::Acquire);
        if self.exhausted[which as usize].load(Ordering::Relaxed) == released + 1 {
            return None;
        }
        let open = self.open_in(which);
        for _ in 0..count {
            let hand = lane_words[lane::HAND].fetch_add(1, Ordering::Relaxed);
            let place = (hand % count as u64) as usize;
            if place >= open {
                // The hand goes to the next round, and so through all segments, also while few are open.
                lane_words[lane::HAND].fetch_max(hand + (count - place) as u64, Ordering::Relaxed);
                continue;
            }
            let base = self.segment_at(begin + place);
            let words = &self.words[base..base + segment::RECORDS];
            let found = words[segment::STATE].load(Ordering::Relaxed);
            if matches!(low(found), segment::CURRENT | segment::BEING_TAKEN) {
                continue;
            }
            let taken = (found & !0xffff_ffff).wrapping_add(1 << 32);
            // Acquire: partner of the Release in `release`.
            let swapped = words[segment::STATE].compare_exchange(
                found,
                taken | segment::BEING_TAKEN,
                Ordering::Acquire,
                Ordering::Relaxed,
            );
            if swapped.is_err() {
                continue;
            }
            // Counted before they are overwritten: no record is missing uncounted.
            lane_words[lane::OVERWRITTEN].fetch_add(words[segment::LENGTH].load(Ordering::Relaxed), Ordering::Relaxed);
            // The fences keep the format's order, state, length, records: a reader that saw anything of the new owner's sees the change.
            fence(Ordering::Release);
            words[segment::LENGTH].store(0, Ordering::Relaxed);
            words[segment::FOLDED].store(0, Ordering::Relaxed);
            fence(Ordering::Release);
            words[segment::WHO].store(u64::from(owner.number) | u64::from(owner.thread) << 32, Ordering::Relaxed);
            words[segment::LANE].store(which as u64, Ordering::Relaxed);
            words[segment::FIRST].store(first, Ordering::Relaxed);
            words[segment::TAKEN].store(now, Ordering::Relaxed);
            words[segment::ENTRY].store(entry, Ordering::Relaxed);
            words[segment::STATE].store(taken | segment::CURRENT, Ordering::Release);
            // This owner's records come after, also for an early reader.
            fence(Ordering::Release);
            return Some(base);
        }
        self.exhausted[which as usize].store(released + 1, Ordering::Relaxed);
        None
    }

    /// Only the first `segments` of each lane may be taken, until [`Recorder::open_up_to`]. For one thread that has the recording alone.
    pub fn limit(&self, segments: usize) {
        self.open.iter().for_each(|open| {
            open.fetch_min(segments, Ordering::Relaxed);
        });
    }

    /// Also the segments that end before this word may be taken.
    pub fn open_up_to(&self, word: usize) {
        let whole = word.saturating_sub(self.shape.segments_at()) / self.shape.segment_words();
        for which in Lane::ALL {
            let (begin, count) = self.segments_of(which);
            let upto = whole.saturating_sub(begin).min(count);
            // Release: a thread that sees the number finds the room.
            if self.open[which as usize].fetch_max(upto, Ordering::Release) < upto {
                // Counts as a release, with Release as there.
                self.released[which as usize].fetch_add(1, Ordering::Release);
            }
        }
    }
}

#[derive(Clone, Copy)]
pub struct Current<'a> {
    pub words: &'a [AtomicU64],
    pub length: u64,
    /// The place of the next record, also behind the segment.
    pub at: u32,
}

#[inline(always)]
pub fn put_record(place: Place<'_>, record: &Record) {
    let words = record.to_words();
    for n in 0..record::WORDS {
        place[n].store(words[n], Ordering::Relaxed);
    }
}

/// A submission of the fast path ([`Record::to_words`]) without the time of entry, which is read as late as possible.
#[inline(always)]
pub(crate) fn put_submission(place: Place<'_>, head: u64, (subject, context): (u64, u16), from: u64, raw: RawPayload) {
    for (word, value) in [
        (record::HEAD, head),
        (record::RETURNED, 0),
        (record::SUBJECT, subject),
        (record::PLACE, u64::from(context) | raw.three << 16),
        (record::EXTENT, raw.extent),
        (record::CALLER, from),
        (record::DETAIL, raw.detail),
    ] {
        place[word].store(value, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::layout::Shape;
    use crate::trace::ProcessFacts;

    /// A signal handler leaves [`Recorder::place_in_next`] by a jump, behind the exchange of the former segment and before the store of the cursor.
    #[test]
    fn a_jump_out_of_the_change_of_segments_gives_no_segment_up_that_another_thread_may_have() {
        let shape = Shape::of_bytes(Shape::SMALLEST);
        let words: Vec<_> = (0..shape.words()).map(|_| AtomicU64::new(0)).collect();
        let recorder = Recorder::new(&words, shape, &ProcessFacts::default()).unwrap();
        let (count, lane) = (recorder.segments_of(Lane::Work).1 as u64, Lane::Work);
        let owner = |number| Owner { number, thread: number };
        let fill = |writer: &SegmentWriter<'_>, number, records: usize| {
            for _ in 0..records {
                let next = || recorder.place_in_next(writer, owner(number), lane, 0);
                recorder.place(writer).or_else(next).unwrap();
                recorder.complete(writer);
            }
        };
        let (jumps, other) = (SegmentWriter::default(), SegmentWriter::default());
        fill(&jumps, 1, shape.records);
        // As far as `place_in_next` comes before the jump.
        let full = recorder.counted(&jumps);
        recorder.take(jumps.next(), owner(1), lane, 0, 0).unwrap();
        recorder.release_segment(jumps.previous.swap(full, Ordering::Relaxed));
        // The thread goes on, in another segment, and others go round: what it has left last is its own still.
        fill(&jumps, 1, 1);
        let state = || recorder.places()[full][segment::STATE].load(Ordering::Relaxed);
        let taken = state();
        assert_eq!(low(taken), segment::CURRENT);
        while recorder.counts(lane).hand < 3 * count {
            fill(&other, 2, 1);
        }
        assert_eq!(state(), taken);
        // Once the next one is full as well, it is given up, once.
        let released = || recorder.released[lane as usize].load(Ordering::Relaxed);
        let before = released();
        fill(&jumps, 1, shape.records);
        assert_eq!((low(state()), released()), (segment::RELEASED, before + 1));
        while other.cursor().head(shape.records) != full {
            fill(&other, 2, 1);
        }
        fill(&jumps, 1, shape.records);
        assert_eq!(low(state()), segment::CURRENT, "it is another thread's");
    }
}
