//! The writer of a recording.
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

use super::layout::{self, header, lane, record, segment, Shape, LANES};
use super::raw::RawPayload;
use super::record::Record;
use crate::api::Lane;
use crate::sync::{fence, AtomicU64, Ordering};
use crate::Nanos;
use std::ops::Range;
// Used by one thread alone: it needs no model checking, and is built at compile time.
use std::sync::atomic::{AtomicU64 as OwnU64, AtomicUsize};
use std::sync::Mutex;

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

    /// Of its segment, which holds so many records; 0 without a segment.
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

/// Where a thread writes in one lane; for that thread alone.
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

    /// For the lane of work.
    pub fn of_thread(entry: &'a [AtomicU64; layout::thread::WORDS], index: u32) -> Self {
        Self::with(CursorWord::OfThread(&entry[layout::thread::CURSOR], index))
    }

    /// For another thread, whose records are numbered from 0.
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
        self.numbers.load(Ordering::Relaxed).wrapping_add(self.cursor().at() as u64)
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

#[derive(Clone, Debug, Default)]
pub struct ProcessFacts {
    pub process: u32,
    /// As `cuDriverGetVersion` counts.
    pub driver_version: i32,
    /// Nanoseconds since 1970.
    pub armed_unix_nanos: u64,
    pub armed_monotonic_nanos: u64,
    /// In clock ticks since the machine started.
    pub start_ticks: u64,
    pub program: String,
    pub host: String,
    /// In its job, or empty.
    pub rank: String,
    pub lazyguard: String,
    pub start: StartFacts,
}

/// On `CLOCK_MONOTONIC`; 0 for what is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StartFacts {
    /// In a forked child, when it was forked.
    pub loaded: Nanos,
    /// Of the call of `cuInit` that armed the guard.
    pub init_entered: Nanos,
    pub init_returned: Nanos,
    /// From the process's start to [`StartFacts::loaded`], 1 at least; exact to a hundredth of a second.
    pub before_loaded_micros: u32,
    /// After [`StartFacts::init_returned`].
    pub arming_micros: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneCounts {
    pub segments: u32,
    /// Segments looked at to be taken.
    pub hand: u64,
    /// Records in segments that were taken again.
    pub overwritten: u64,
    /// Records in segments that were released.
    pub released: u64,
    /// Records without a segment.
    pub dropped: u64,
}

pub struct Recorder<'a> {
    pub(super) words: &'a [AtomicU64],
    pub(super) shape: Shape,
    pub(super) texts: Mutex<()>,
    /// Released segments of each lane; and that number, plus 1, when a search last found none.
    released: [AtomicU64; LANES],
    exhausted: [AtomicU64; LANES],
    /// Segments of each lane that may be taken, from the first one on. The others may have no room: a look at them could end the process.
    open: [AtomicUsize; LANES],
}

pub(super) fn low(word: u64) -> u64 {
    word & 0xffff_ffff
}

impl<'a> Recorder<'a> {
    /// In words that are zero; `None` if there are too few.
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
                // As if one had been released; Release, as there.
                self.released[which as usize].fetch_add(1, Ordering::Release);
            }
        }
    }

    /// By lane: the words of segments that may not be taken yet.
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

    /// Arming is done, so long after the driver's initialisation.
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

    /// One of [`layout::state`].
    pub fn set_state(&self, state: u64) {
        self.words[header::STATE].store(state, Ordering::Relaxed);
    }

    pub fn seen_alive(&self, now: Nanos) {
        self.words[header::LAST_SEEN].store(now, Ordering::Relaxed);
    }

    pub fn count_without_entry(&self) {
        self.words[header::WITHOUT_ENTRY].fetch_add(1, Ordering::Relaxed);
    }

    /// Of an ended thread, whose entry is used again.
    pub fn keep_counts(&self, calls: u64, launches: u64) {
        self.words[header::FORMER_CALLS].fetch_add(calls, Ordering::Relaxed);
        self.words[header::FORMER_LAUNCHES].fetch_add(launches, Ordering::Relaxed);
    }

    pub fn kept_counts(&self) -> (u64, u64) {
        let of = |word: usize| self.words[word].load(Ordering::Relaxed);
        (of(header::FORMER_CALLS), of(header::FORMER_LAUNCHES))
    }

    /// The newest request for a report, which a reader writes into the file.
    pub fn asked(&self) -> u64 {
        self.words[header::ASKED].load(Ordering::Relaxed)
    }

    /// The newest answered request; 1 if there was none.
    pub fn answered(&self, number: u64) {
        // Release: a reader that sees the number finds the answer.
        self.words[header::ANSWERED].store(number, Ordering::Release);
    }

    /// Entry `index` (from 0) of a table at word `at`.
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

    /// Completes the record in the writer's place.
    pub fn complete(&self, writer: &SegmentWriter<'_>) {
        if let CursorWord::Own(_) = writer.cursor {
            let cursor = writer.cursor();
            let head = cursor.head(self.shape.records);
            if let Some(words) = self.places().get(head) {
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
        let head = Some(cursor.head(self.shape.records)).filter(|&head| head != 0)?;
        let base = head * record::WORDS;
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

    pub fn count_dropped(&self, which: Lane) {
        // No index, which could panic.
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

    fn lane(&self, which: Lane) -> &'a [AtomicU64] {
        let at = header::LANES + which as usize * header::LANE_WORDS;
        &self.words[at..at + header::LANE_WORDS]
    }

    pub(super) fn segment_at(&self, index: usize) -> usize {
        self.shape.segments_at() + index * self.shape.segment_words()
    }

    /// The lane's next segment that is no writer's current one, in one round.
    fn take(&self, first: u64, owner: Owner, which: Lane, entry: u64, now: Nanos) -> Option<usize> {
        let lane_words = self.lane(which);
        let (begin, count) = self.segments_of(which);
        // None was released since a search found none.
        let released = self.released[which as usize].load(Ordering::Acquire);
        if self.exhausted[which as usize].load(Ordering::Relaxed) == released + 1 {
            return None;
        }
        let open = self.open_in(which);
        for _ in 0..count {
            let hand = lane_words[lane::HAND].fetch_add(1, Ordering::Relaxed);
            let place = (hand % count as u64) as usize;
            if place >= open {
                // To the next round: the hand goes through all segments, also while few are open.
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
            let overwritten = words[segment::LENGTH].load(Ordering::Relaxed);
            lane_words[lane::OVERWRITTEN].fetch_add(overwritten, Ordering::Relaxed);
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

    /// The first, and how many.
    pub fn segments_of(&self, which: Lane) -> (usize, usize) {
        (self.shape.segments[..which as usize].iter().sum(), self.shape.segments[which as usize])
    }
}

#[derive(Clone, Copy)]
pub struct Current<'a> {
    pub words: &'a [AtomicU64],
    pub length: u64,
    /// Of the next record, also behind the segment.
    pub at: u32,
}

/// Cut to whole characters, and filled up with zeros.
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
