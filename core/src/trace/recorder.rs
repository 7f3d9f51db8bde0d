//! A recording's memory: its header, and the entries of its tables. `writer` has its records.

use super::facts::{LaneUse, ProcessFacts, ProcessState};
use super::layout::{self, header, lane, record, Shape, LANES};
use crate::api::Lane;
use crate::sync::{AtomicU64, Ordering};
use crate::Nanos;
use std::ops::Range;
use std::sync::atomic::AtomicUsize;
use std::sync::Mutex;

pub struct Recorder<'a> {
    pub(super) words: &'a [AtomicU64],
    pub(super) shape: Shape,
    pub(super) texts: Mutex<()>,
    /// Released segments of each lane; and that number, plus 1, when a search last found none.
    pub(super) released: [AtomicU64; LANES],
    pub(super) exhausted: [AtomicU64; LANES],
    /// Segments of each lane that may be taken, from the first one on. The others may have no room: a look at them could end the process.
    pub(super) open: [AtomicUsize; LANES],
}

impl<'a> Recorder<'a> {
    /// Makes a recording in words that are zero; `None` if there are too few.
    pub fn new(words: &'a [AtomicU64], shape: Shape, facts: &ProcessFacts) -> Option<Self> {
        let words = words.get(..shape.words())?;
        let recorder = Self {
            words,
            shape,
            texts: Mutex::new(()),
            released: Default::default(),
            exhausted: Default::default(),
            open: shape.segments.map(AtomicUsize::new),
        };
        let set = |at: usize, value: u64| recorder.words[at].store(value, Ordering::Relaxed);
        let pair = |low: usize, high: usize| low as u64 | (high as u64) << 32;
        let bytes = |words: usize| (words * layout::WORD) as u64;
        set(header::VERSION, pair(layout::VERSION as usize, layout::HEADER_BYTES));
        set(header::FILE_BYTES, bytes(shape.words()));
        for (at, value) in [
            (header::PROCESS, u64::from(facts.process) | u64::from(facts.driver_version as u32) << 32),
            (header::ARMED_UNIX_NANOS, facts.armed_unix_nanos),
            (header::ARMED_MONOTONIC_NANOS, facts.armed_monotonic_nanos),
            (header::PROCESS_START_TICKS, facts.start_ticks),
            (header::STATE, facts.state.number()),
            (header::LAST_SEEN, facts.last_seen),
            (header::WITHOUT_ENTRY, facts.without_entry),
            (header::TEXTS_LOST, facts.texts_lost),
            (header::FORMER_CALLS, facts.former_calls),
            (header::FORMER_LAUNCHES, facts.former_launches),
            (header::LOADED, facts.start.loaded),
            (header::INIT_ENTERED, facts.start.init_entered),
            (header::INIT_RETURNED, facts.start.init_returned),
            (
                header::START_MICROS,
                u64::from(facts.start.before_loaded_micros) | u64::from(facts.start.arming_micros) << 32,
            ),
        ] {
            set(at, value);
        }
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
        // Last, with Release: a file with the mark of a recording has a header.
        recorder.words[header::MAGIC].store(layout::MAGIC, Ordering::Release);
        Some(recorder)
    }

    /// The words of each lane's segments that may not be taken yet.
    pub fn closed(&self) -> [Range<usize>; LANES] {
        Lane::ALL.map(|which| {
            let (begin, count) = self.segments_of(which);
            self.segment_at(begin + self.open_in(which))..self.segment_at(begin + count)
        })
    }

    pub(super) fn open_in(&self, which: Lane) -> usize {
        // Acquire: partner of the Release in `open_up_to`.
        self.open[which as usize].load(Ordering::Acquire)
    }

    /// Arming took so long after the driver's initialisation.
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

    pub fn set_state(&self, state: ProcessState) {
        self.words[header::STATE].store(state.number(), Ordering::Relaxed);
    }

    pub fn seen_alive(&self, now: Nanos) {
        self.words[header::LAST_SEEN].store(now, Ordering::Relaxed);
    }

    /// A word of the header, which needs no room in the folder.
    pub fn tell_of_a_hang(&self, word: u64) {
        self.words[header::HANG].store(word, Ordering::Relaxed);
    }

    pub fn count_without_entry(&self) {
        self.words[header::WITHOUT_ENTRY].fetch_add(1, Ordering::Relaxed);
    }

    /// Keeps the counts of an ended thread whose entry a new thread gets.
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

    pub fn count_dropped(&self, which: Lane) {
        // No index, which could panic.
        let word = self.words.get(header::LANES + which as usize * header::LANE_WORDS + lane::DROPPED);
        word.into_iter().for_each(|dropped| _ = dropped.fetch_add(1, Ordering::Relaxed));
    }

    pub fn counts(&self, which: Lane) -> LaneUse {
        LaneUse::of(which, |word| self.lane(which)[word].load(Ordering::Relaxed))
    }

    pub(super) fn lane(&self, which: Lane) -> &'a [AtomicU64] {
        let at = header::LANES + which as usize * header::LANE_WORDS;
        &self.words[at..at + header::LANE_WORDS]
    }

    pub(super) fn segment_at(&self, index: usize) -> usize {
        self.shape.segments_at() + index * self.shape.segment_words()
    }

    /// The first, and how many.
    pub fn segments_of(&self, which: Lane) -> (usize, usize) {
        (self.shape.segments[..which as usize].iter().sum(), self.shape.segments[which as usize])
    }
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
