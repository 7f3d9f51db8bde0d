//! The writer of a recording.
//!
//! Protocol. A segment belongs to one thread at a time, and only that thread writes to it, through its [`SegmentWriter`]. It stores
//! the facts of a record; before a call, the thread's mark (see `state::ThreadSlot`); after the call, the rest of the record; and last, with
//! Release, its cursor or the segment's length, which makes the record complete. A reader's Acquire is the partner.
//!
//! In the lane of work the cursor is in the thread's entry, a line of memory that each of its calls stores to anyway. The head of the segment gets
//! the length when the thread leaves the segment, before the cursor moves on. Other writers keep their cursor, and count each record in the
//! head. So a length is the one by the cursor that is in the segment, or else the one in the head.
//!
//! A thread whose segment is full takes the next one without an owner: the one that was taken longest ago. It then releases the one that was full
//! before. Taking is one compare-and-swap on the segment's state, which also counts; a reader that finds the same state and count before and after
//! has read one owner's records.
//!
//! Must not: allocate, lock, wait or call the system where a record is written. Strings are written on cold paths, under a lock.

use super::layout::{self, header, lane, record, segment, Shape, LANES};
use super::raw::RawPayload;
use super::record::Record;
use crate::api::Lane;
use crate::sync::{fence, AtomicU64, Ordering};
use crate::Nanos;
use std::ops::Range;
// The writer is one thread's own: it needs no model checking, and is built at compile time.
use std::sync::atomic::{AtomicU64 as OwnU64, AtomicUsize};
use std::sync::Mutex;

pub type Place<'a> = &'a [AtomicU64; record::WORDS];

/// The words of a recording, as many as a record has at a time: records begin at multiples, and so do segments, whose heads are as long.
pub type Places<'a> = &'a [[AtomicU64; record::WORDS]];

const _: () = assert!(segment::RECORDS == record::WORDS && segment::WORDS.is_multiple_of(record::WORDS));

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    pub number: u32,
    pub thread: u32,
}

/// The place of the next record in the low half, and one past the segment's last place in the high half; 0 without a segment. Indices are those of
/// [`Places`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cursor(pub(crate) u64);

impl Cursor {
    /// In the first place of the segment with its head there.
    fn at_first(head: usize, records: usize) -> Self {
        Self((head + 1) as u64 | ((head + 1 + records) as u64) << 32)
    }

    /// The place of the next record, which is not there where the segment is full.
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

    /// Of the head of its segment, where segments hold so many records; 0 without a segment.
    pub(super) fn head(self, records: usize) -> usize {
        self.end().saturating_sub(records + 1)
    }

    pub(super) fn length(self, records: usize) -> usize {
        self.at().saturating_sub(self.head(records) + 1)
    }
}

enum CursorWord<'a> {
    /// In the writer: what is complete is counted in the head of the segment, record by record.
    Own(AtomicU64),
    /// In the entry with this index of the writer's thread. Only a segment that is left counts its records in its head, which is a line of memory
    /// that launches need not touch.
    OfThread(&'a AtomicU64, u32),
}

/// Where a thread writes in one lane. The thread alone stores to it.
pub struct SegmentWriter<'a> {
    cursor: CursorWord<'a>,
    /// What makes an index the record's number among the thread's in this lane, added to it.
    numbers: OwnU64,
    /// Of the head of the segment it had before: full, and still this writer's; 0 for none.
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

    /// The one of a thread in the lane of work, whose cursor is in the thread's entry: the one with this index.
    pub fn of_thread(entry: &'a [AtomicU64; layout::thread::WORDS], index: u32) -> Self {
        Self::with(CursorWord::OfThread(&entry[layout::thread::CURSOR], index))
    }

    /// For another thread, whose records are numbered from 0. The writer has no segment.
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

    /// Acquire: partner of the Release with which a record is complete, and with which a segment is taken and given up.
    pub(crate) fn cursor(&self) -> Cursor {
        Cursor(self.word().load(Ordering::Acquire))
    }

    /// The number of the thread's next record in this lane.
    pub fn next(&self) -> u64 {
        self.numbers.load(Ordering::Relaxed).wrapping_add(self.cursor().at() as u64)
    }
}

/// The place at a thread's cursor in the lane of work, as [`Recorder::place`].
#[inline(always)]
pub(crate) fn place_at<'a>(cursor: Cursor, places: Places<'a>) -> Option<Place<'a>> {
    if !cursor.has_room() {
        return None;
    }
    places.get(cursor.at())
}

/// The record in the place of a thread's cursor in the lane of work is complete.
#[inline(always)]
pub(crate) fn complete_at(cursor: &AtomicU64) {
    // Release: partner of the Acquire with which readers take the cursor. The record is stored before.
    cursor.store(cursor.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
}

#[derive(Clone, Debug, Default)]
pub struct ProcessFacts {
    pub process: u32,
    /// As `cuDriverGetVersion` counts.
    pub driver_version: i32,
    /// When the process was armed, nanoseconds since 1970-01-01 UTC.
    pub armed_unix_nanos: u64,
    pub armed_monotonic_nanos: u64,
    /// When the process started, in clock ticks since the machine did.
    pub start_ticks: u64,
    pub program: String,
    pub host: String,
    /// Rank among the processes of the job, or empty.
    pub rank: String,
    pub lazyguard: String,
    pub start: StartFacts,
}

/// How the process came to be guarded, on `CLOCK_MONOTONIC`; 0 for what is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StartFacts {
    /// When the guard's library was loaded; in a forked child, when it was forked.
    pub loaded: Nanos,
    /// When the call of `cuInit` that armed the guard was entered.
    pub init_entered: Nanos,
    pub init_returned: Nanos,
    /// How long before [`StartFacts::loaded`] the process started, in microseconds, and no less than 1; told by the system
    /// to a hundredth of a second.
    pub before_loaded_micros: u32,
    /// How long arming took after [`StartFacts::init_returned`], in microseconds.
    pub arming_micros: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneCounts {
    pub segments: u32,
    /// How often a segment was looked at to be taken.
    pub hand: u64,
    /// Records in segments when they were taken again.
    pub overwritten: u64,
    /// Records in segments that were released.
    pub released: u64,
    /// Records for which there was no segment.
    pub dropped: u64,
}

pub struct Recorder<'a> {
    pub(super) words: &'a [AtomicU64],
    pub(super) shape: Shape,
    pub(super) texts: Mutex<()>,
    /// How many segments of each lane have been released; and what that was, plus 1, when last none was to be had.
    released: [AtomicU64; LANES],
    exhausted: [AtomicU64; LANES],
    /// How many segments of each lane may be taken, from its first one on. What is in the others may have no room yet: even a look at
    /// them could end the process.
    open: [AtomicUsize; LANES],
}

pub(super) fn low(word: u64) -> u64 {
    word & 0xffff_ffff
}

impl<'a> Recorder<'a> {
    /// Makes a recording of this shape in words that are zero. `None` if there are too few of them.
    pub fn new(words: &'a [AtomicU64], shape: Shape, facts: &ProcessFacts) -> Option<Self> {
        let words = words.get(..shape.words())?;
        let open = shape.segments.map(AtomicUsize::new);
        let recorder = Self {
            words,
            shape,
            texts: Mutex::new(()),
            released: Default::default(),
            exhausted: Default::default(),
            open,
        };
        let set = |at: usize, value: u64| recorder.words[at].store(value, Ordering::Relaxed);
        let pair = |low: usize, high: usize| low as u64 | (high as u64) << 32;
        let bytes = |words: usize| (words * layout::WORD) as u64;
        set(header::VERSION, pair(layout::VERSION as usize, layout::HEADER_BYTES));
        set(header::FILE_BYTES, bytes(shape.words()));
        set(header::PROCESS, u64::from(facts.process) | u64::from(facts.driver_version as u32) << 32);
        set(header::ARMED_UNIX_NANOS, facts.armed_unix_nanos);
        set(header::ARMED_MONOTONIC_NANOS, facts.armed_monotonic_nanos);
        set(header::PROCESS_START_TICKS, facts.start_ticks);
        set(header::LOADED, facts.start.loaded);
        set(header::INIT_ENTERED, facts.start.init_entered);
        set(header::INIT_RETURNED, facts.start.init_returned);
        set(header::START_MICROS, pair(facts.start.before_loaded_micros as usize, facts.start.arming_micros as usize));
        for (at, offset, count, stride) in [
            (header::THREADS, shape.threads_at(), shape.threads, layout::thread::WORDS),
            (header::CONTEXTS, shape.contexts_at(), shape.contexts, layout::context::WORDS),
            (header::STREAMS, shape.streams_at(), shape.streams, layout::stream::WORDS),
            (header::SEGMENTS, shape.segments_at(), shape.segment_count(), shape.segment_words()),
        ] {
            set(at, bytes(offset));
            set(at + 1, pair(count, stride * layout::WORD));
        }
        set(header::TEXTS, bytes(shape.texts_at()));
        set(header::TEXTS + 1, shape.text_bytes as u64);
        set(header::RECORD_SHAPE, pair(shape.records, record::WORDS * layout::WORD));
        set(header::LANE_COUNT, LANES as u64);
        let mut first = 0;
        for (n, &segments) in shape.segments.iter().enumerate() {
            set(header::LANES + n * header::LANE_WORDS + lane::SEGMENTS, pair(first, segments));
            first += segments;
        }
        for (range, content) in [
            (header::PROGRAM, &facts.program),
            (header::HOST, &facts.host),
            (header::RANK, &facts.rank),
            (header::LAZYGUARD, &facts.lazyguard),
        ] {
            put_text(&recorder.words[range], content);
        }
        set(header::STATE, layout::state::GUARDED);
        // Last, with Release: what has the mark of a recording has a header.
        recorder.words[header::MAGIC].store(layout::MAGIC, Ordering::Release);
        Some(recorder)
    }

    /// Only the first `segments` of each lane may be taken, until [`Recorder::open_up_to`]. For one thread that has the recording to itself.
    pub fn limit(&self, segments: usize) {
        self.open.iter().for_each(|open| {
            open.fetch_min(segments, Ordering::Relaxed);
        });
    }

    /// The segments that end before this word may be taken, beside those that may be.
    pub fn open_up_to(&self, word: usize) {
        let whole = word.saturating_sub(self.shape.segments_at()) / self.shape.segment_words();
        for which in Lane::ALL {
            let (begin, count) = self.segments_of(which);
            let upto = whole.saturating_sub(begin).min(count);
            // Release: a thread that sees the number finds the room.
            if self.open[which as usize].fetch_max(upto, Ordering::Release) < upto {
                // As if one had been released. Release: a thread that sees the count sees how many there are.
                self.released[which as usize].fetch_add(1, Ordering::Release);
            }
        }
    }

    /// The words of the segments that may not be taken yet, of each lane.
    pub fn closed(&self) -> [Range<usize>; LANES] {
        Lane::ALL.map(|which| {
            let (begin, count) = self.segments_of(which);
            self.segment_at(begin + self.open_in(which))..self.segment_at(begin + count)
        })
    }

    fn open_in(&self, which: Lane) -> usize {
        // Acquire: partner of the Release in `open_up_to`.
        self.open[which as usize].load(Ordering::Acquire)
    }

    /// Arming is done, and took so long since the driver was initialised.
    pub fn armed_after(&self, micros: u32) {
        let word = &self.words[header::START_MICROS];
        let before = word.load(Ordering::Relaxed) & 0xffff_ffff;
        word.store(before | u64::from(micros) << 32, Ordering::Relaxed);
    }

    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    pub fn words(&self) -> &'a [AtomicU64] {
        self.words
    }

    /// How the process stands: one of [`layout::state`].
    pub fn set_state(&self, state: u64) {
        self.words[header::STATE].store(state, Ordering::Relaxed);
    }

    pub fn seen_alive(&self, now: Nanos) {
        self.words[header::LAST_SEEN].store(now, Ordering::Relaxed);
    }

    /// Something found no entry in its table.
    pub fn count_without_entry(&self) {
        self.words[header::WITHOUT_ENTRY].fetch_add(1, Ordering::Relaxed);
    }

    /// The entry of a thread that has ended is used again: what it counted is kept.
    pub fn keep_counts(&self, calls: u64, launches: u64) {
        self.words[header::FORMER_CALLS].fetch_add(calls, Ordering::Relaxed);
        self.words[header::FORMER_LAUNCHES].fetch_add(launches, Ordering::Relaxed);
    }

    pub fn kept_counts(&self) -> (u64, u64) {
        let of = |word: usize| self.words[word].load(Ordering::Relaxed);
        (of(header::FORMER_CALLS), of(header::FORMER_LAUNCHES))
    }

    /// The number of the newest request for a report. A reader writes it, into the file.
    pub fn asked(&self) -> u64 {
        self.words[header::ASKED].load(Ordering::Relaxed)
    }

    /// Requests are taken, and this is the number of the newest one that was answered; 1 if there was none.
    pub fn answered(&self, number: u64) {
        // Release: a reader that sees the number finds the answer.
        self.words[header::ANSWERED].store(number, Ordering::Release);
    }

    /// Entry `index` (from 0) of a table that begins at word `at`, or `None` where the table ends.
    fn entry<const WORDS: usize>(&self, at: usize, count: usize, index: usize) -> Option<&'a [AtomicU64; WORDS]> {
        (index < count).then(|| self.words.get(at + index * WORDS..)?.first_chunk()).flatten()
    }

    pub fn thread_entry(&self, index: usize) -> Option<&'a [AtomicU64; layout::thread::WORDS]> {
        self.entry(self.shape.threads_at(), self.shape.threads, index)
    }

    pub fn communicator_entry(&self, index: usize) -> Option<&'a [AtomicU64; layout::communicator::WORDS]> {
        self.entry(header::COMMUNICATORS, header::COMMUNICATOR_COUNT, index)
    }

    pub fn context_entry(&self, index: usize) -> Option<&'a [AtomicU64; layout::context::WORDS]> {
        self.entry(self.shape.contexts_at(), self.shape.contexts, index)
    }

    pub fn have_entries(&self, stream: u32, context: u32) -> bool {
        let is_among = |number: u32, count: usize| (1..=count).contains(&(number as usize));
        is_among(stream, self.shape.streams) && is_among(context, self.shape.contexts)
    }

    pub fn stream_entry(&self, index: usize) -> Option<&'a [AtomicU64; layout::stream::WORDS]> {
        self.entry(self.shape.streams_at(), self.shape.streams, index)
    }

    // --- records ---

    /// The place of the thread's next record, if it has a segment with room. What is stored there counts for nothing until
    /// [`Recorder::complete`].
    #[inline(always)]
    pub fn place(&self, writer: &SegmentWriter<'_>) -> Option<Place<'a>> {
        place_at(writer.cursor(), self.places())
    }

    pub fn places(&self) -> Places<'a> {
        self.words.as_chunks().0
    }

    /// The same when there is none: gives the segment up, if there was one, and takes another. `None` if each one is some
    /// thread's current one, which is counted when the record is dropped.
    #[cold]
    pub fn place_in_next(
        &self,
        writer: &SegmentWriter<'_>,
        owner: Owner,
        which: Lane,
        now: Nanos,
    ) -> Option<Place<'a>> {
        // The full segment stays the thread's own until the next one is full as well: what it did last is there also if it now
        // does not get to run, or hangs, while others go round. Only if there is no segment left, its own have to serve.
        let next = writer.next();
        let entry = match writer.cursor {
            CursorWord::Own(_) => 0,
            CursorWord::OfThread(_, index) => u64::from(index) + 1,
        };
        let full = self.counted(writer);
        let base = match self.take(next, owner, which, entry, now) {
            Some(base) => {
                let former = writer.previous.swap(full, Ordering::Relaxed);
                // The same one where a jump of a signal handler has left this before the cursor moved: it stays the thread's own.
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
        // Release: what was folded in the former segment, and how many records it has, is seen by who finds this one.
        writer.word().store(Cursor::at_first(head, self.shape.records).0, Ordering::Release);
        self.place(writer)
    }

    /// The head of the writer's segment, or 0 where it has none. Its records are counted there from now on.
    fn counted(&self, writer: &SegmentWriter<'_>) -> usize {
        let cursor = writer.cursor();
        let head = cursor.head(self.shape.records);
        if let (CursorWord::OfThread(..), Some(words)) = (&writer.cursor, self.places().get(head).filter(|_| head != 0))
        {
            words[segment::LENGTH].store(cursor.length(self.shape.records) as u64, Ordering::Release);
        }
        head
    }

    /// The record in the writer's place is complete.
    pub fn complete(&self, writer: &SegmentWriter<'_>) {
        if let CursorWord::Own(_) = writer.cursor {
            let cursor = writer.cursor();
            let head = cursor.head(self.shape.records);
            if let Some(words) = self.places().get(head) {
                // Release: partner of the Acquire with which readers take the length. The record is stored before.
                words[segment::LENGTH].store(cursor.length(self.shape.records) as u64 + 1, Ordering::Release);
            }
        }
        complete_at(writer.word());
    }

    /// The thread's newest `count` complete records in its current segment, newest first.
    #[inline]
    pub fn newest<'s>(&'s self, writer: &SegmentWriter<'_>, count: u32) -> impl Iterator<Item = Place<'a>> + 's {
        let cursor = writer.cursor();
        let count = cursor.length(self.shape.records).min(count as usize);
        self.places().get(cursor.at() - count..cursor.at()).unwrap_or_default().iter().rev()
    }

    pub fn segment(&self, writer: &SegmentWriter<'_>) -> Option<Current<'a>> {
        let cursor = writer.cursor();
        let head = Some(cursor.head(self.shape.records)).filter(|&head| head != 0)?;
        let base = head * record::WORDS;
        let words = self.words.get(base..base + self.shape.segment_words())?;
        Some(Current { words, length: cursor.length(self.shape.records) as u64, at: cursor.at() as u32 })
    }

    /// The thread's current segment, as its index plus 1, or 0.
    pub fn current_segment(&self, writer: &SegmentWriter<'_>) -> u32 {
        match writer.cursor().head(self.shape.records) {
            0 => 0,
            head => ((head * record::WORDS - self.shape.segments_at()) / self.shape.segment_words()) as u32 + 1,
        }
    }

    pub fn count_dropped(&self, which: Lane) {
        // No index, which could panic where nothing may.
        let word = self.words.get(header::LANES + which as usize * header::LANE_WORDS + lane::DROPPED);
        word.into_iter().for_each(|dropped| _ = dropped.fetch_add(1, Ordering::Relaxed));
    }

    pub fn counts(&self, which: Lane) -> LaneCounts {
        let of = |word: usize| self.lane(which)[word].load(Ordering::Relaxed);
        LaneCounts {
            segments: (of(lane::SEGMENTS) >> 32) as u32,
            hand: of(lane::HAND),
            overwritten: of(lane::OVERWRITTEN),
            released: of(lane::RELEASED),
            dropped: of(lane::DROPPED),
        }
    }

    /// Ends the writer. From now on other writers may take its segments; their records stay until then.
    pub fn release(&self, writer: &SegmentWriter<'_>) {
        writer.numbers.store(writer.next(), Ordering::Relaxed);
        let head = self.counted(writer);
        // Release: who finds no segment here sees what is counted in the one that was left.
        writer.word().store(0, Ordering::Release);
        self.release_segment(writer.previous.swap(0, Ordering::Relaxed));
        self.release_segment(head);
    }

    /// Others may take the segment with its head there, if there is one.
    fn release_segment(&self, head: usize) {
        let Some(words) = self.places().get(head).filter(|_| head != 0) else { return };
        let length = words[segment::LENGTH].load(Ordering::Relaxed);
        let which = Lane::ALL[words[segment::LANE].load(Ordering::Relaxed) as usize % LANES];
        self.lane(which)[lane::RELEASED].fetch_add(length, Ordering::Relaxed);
        let count = words[segment::STATE].load(Ordering::Relaxed) & !0xffff_ffff;
        // Release: partner of the Acquire in `take`, whose thread writes over what this one has written.
        words[segment::STATE].store(count | segment::RELEASED, Ordering::Release);
        // Release: a thread that sees the count sees the state, and does not go round in vain.
        self.released[which as usize].fetch_add(1, Ordering::Release);
    }

    fn lane(&self, which: Lane) -> &'a [AtomicU64] {
        let at = header::LANES + which as usize * header::LANE_WORDS;
        &self.words[at..at + header::LANE_WORDS]
    }

    /// Where segment `index` begins, in words.
    pub(super) fn segment_at(&self, index: usize) -> usize {
        self.shape.segments_at() + index * self.shape.segment_words()
    }

    /// Takes the next segment of the lane that is no writer's current one, going round once; returns where it begins.
    fn take(&self, first: u64, owner: Owner, which: Lane, entry: u64, now: Nanos) -> Option<usize> {
        let lane_words = self.lane(which);
        let (begin, count) = self.segments_of(which);
        // No segment was released since a writer last went round and found none: going round again would find none.
        let released = self.released[which as usize].load(Ordering::Acquire);
        if self.exhausted[which as usize].load(Ordering::Relaxed) == released + 1 {
            return None;
        }
        let open = self.open_in(which);
        for _ in 0..count {
            let hand = lane_words[lane::HAND].fetch_add(1, Ordering::Relaxed);
            let place = (hand % count as u64) as usize;
            if place >= open {
                // To the next round. For those who follow the hand it goes through all segments, also while few are open.
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
            // Counted before they are overwritten: whatever happens in between, no record is missing without being counted.
            let overwritten = words[segment::LENGTH].load(Ordering::Relaxed);
            lane_words[lane::OVERWRITTEN].fetch_add(overwritten, Ordering::Relaxed);
            // The fences keep the stores in the order of the format: the state before the length, and the length before the records
            // it counted, so that a reader that saw anything of the new owner's sees the change.
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
            // What this owner stores in the records comes after, also for a reader that sees it early.
            fence(Ordering::Release);
            return Some(base);
        }
        self.exhausted[which as usize].store(released + 1, Ordering::Relaxed);
        None
    }

    /// Segments of a lane: the first, and how many.
    pub fn segments_of(&self, which: Lane) -> (usize, usize) {
        (self.shape.segments[..which as usize].iter().sum(), self.shape.segments[which as usize])
    }
}

#[derive(Clone, Copy)]
pub struct Current<'a> {
    pub words: &'a [AtomicU64],
    pub length: u64,
    /// The place of the next record, also where that is behind the segment.
    pub at: u32,
}

/// Stores a text in words, cut to whole characters where it does not fit, and filled up with zeros.
pub fn put_text(words: &[AtomicU64], content: &str) {
    let mut end = content.len().min(words.len() * layout::WORD);
    while !content.is_char_boundary(end) {
        end -= 1;
    }
    let mut bytes = content.as_bytes()[..end].chunks(layout::WORD);
    for word in words {
        let mut filled = [0; layout::WORD];
        if let Some(chunk) = bytes.next() {
            filled[..chunk.len()].copy_from_slice(chunk);
        }
        word.store(u64::from_le_bytes(filled), Ordering::Relaxed);
    }
}

#[inline(always)]
pub fn put_record(place: Place<'_>, record: &Record) {
    let words = record.to_words();
    for n in 0..record::WORDS {
        place[n].store(words[n], Ordering::Relaxed);
    }
}

/// Stores a record of a submission of the fast path ([`Record::to_words`]), but for the time of entry, which is read as late as possible.
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
