//! Writes recordings word by word: a second writer, which can also write what the first one never does.

use lazyguard_core::trace::layout::{self, header, lane, record, segment, text, thread, Shape};
use lazyguard_core::trace::{ProcessState, WORDS};

/// A shape that fits into a few KiB: four records a segment.
pub const TINY: Shape =
    Shape { threads: 3, contexts: 2, streams: 3, text_bytes: 1024, segments: [3, 2, 2], records: 4 };

/// A thread of the recording: its number and its id in the system.
pub type Who = (u32, u32);

/// A recording in the making.
pub struct Builder {
    /// The file so far.
    pub bytes: Vec<u8>,
    /// Its shape.
    pub shape: Shape,
}

/// Two halves of a word.
pub fn pair(low: impl Into<u64>, high: impl Into<u64>) -> u64 {
    low.into() | high.into() << 32
}

/// The words of a record of this entry point that was entered and returned then.
pub fn call(entry_point: u16, entered: u64, returned: u64) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    words[record::HEAD] = u64::from(entry_point);
    words[record::ENTERED] = entered;
    words[record::RETURNED] = returned;
    words
}

impl Builder {
    /// A recording in which nothing has been recorded yet.
    pub fn new(shape: Shape) -> Self {
        let mut new = Self { bytes: vec![0; shape.words() * layout::WORD], shape };
        let size = |words: usize| (words * layout::WORD) as u64;
        new.set(header::MAGIC, layout::MAGIC);
        new.set(header::VERSION, pair(layout::VERSION, 4096_u32));
        new.set(header::FILE_BYTES, new.bytes.len() as u64);
        new.set(header::PROCESS, pair(4242_u32, 12080_u32));
        new.set(header::ARMED_UNIX_NANOS, 1_700_000_000_000_000_000);
        new.set(header::ARMED_MONOTONIC_NANOS, 86_400_000_000_000);
        new.set(header::PROCESS_START_TICKS, 8_640_000);
        new.set(header::STATE, ProcessState::Guarded.number());
        for (at, offset, count, words) in [
            (header::THREADS, shape.threads_at(), shape.threads, thread::WORDS),
            (header::CONTEXTS, shape.contexts_at(), shape.contexts, layout::context::WORDS),
            (header::STREAMS, shape.streams_at(), shape.streams, layout::stream::WORDS),
            (header::SEGMENTS, shape.segments_at(), shape.segment_count(), shape.segment_words()),
        ] {
            new.set(at, size(offset));
            new.set(at + 1, pair(count as u64, size(words)));
        }
        new.set(header::TEXTS, size(shape.texts_at()));
        new.set(header::TEXTS + 1, shape.text_bytes as u64);
        new.set(header::RECORD_SHAPE, pair(shape.records as u64, size(WORDS)));
        new.set(header::LANE_COUNT, 3);
        let mut first = 0;
        for (number, &segments) in shape.segments.iter().enumerate() {
            new.set_lane(number, lane::SEGMENTS, pair(first, segments as u64));
            first += segments as u64;
        }
        new.set_text(header::PROGRAM.start, "train");
        new.set_text(header::HOST.start, "node-7");
        new.set_text(header::RANK.start, "3");
        new.set_text(header::LAZYGUARD.start, "0.1.0");
        new
    }

    /// Stores a word.
    pub fn set(&mut self, word: usize, value: u64) {
        self.bytes[word * 8..word * 8 + 8].copy_from_slice(&value.to_le_bytes());
    }

    /// A word.
    pub fn get(&self, word: usize) -> u64 {
        self.bytes[word * 8..].first_chunk().copied().map_or(0, u64::from_le_bytes)
    }

    /// Stores words one behind the other.
    pub fn set_all(&mut self, word: usize, values: &[u64]) {
        values.iter().zip(word..).for_each(|(value, word)| self.set(word, *value));
    }

    /// Stores the bytes of a text.
    pub fn set_text(&mut self, word: usize, text: &str) {
        self.bytes[word * 8..word * 8 + text.len()].copy_from_slice(text.as_bytes());
    }

    /// Stores a word of a lane.
    pub fn set_lane(&mut self, number: usize, word: usize, value: u64) {
        self.set(header::LANES + number * header::LANE_WORDS + word, value);
    }

    /// Where entry `index` of the threads begins, in words.
    pub fn thread_at(&self, index: usize) -> usize {
        self.shape.threads_at() + index * thread::WORDS
    }

    /// Where entry `index` of the contexts begins, in words.
    pub fn context_at(&self, index: usize) -> usize {
        self.shape.contexts_at() + index * layout::context::WORDS
    }

    /// Where entry `index` of the streams begins, in words.
    pub fn stream_at(&self, index: usize) -> usize {
        self.shape.streams_at() + index * layout::stream::WORDS
    }

    /// Where segment `index` begins, in words.
    pub fn segment_at(&self, index: usize) -> usize {
        self.shape.segments_at() + index * self.shape.segment_words()
    }

    /// A thread that is alive.
    pub fn thread(&mut self, index: usize, (number, id): Who, name: &str) -> usize {
        let at = self.thread_at(index);
        self.set(at + thread::WHO, pair(number, id));
        self.set(at + thread::STATE, thread::STATE_ALIVE);
        self.set(at + thread::BORN, 1000 + index as u64);
        self.set_text(at + thread::NAME.start, name);
        at
    }

    /// Complete records of a thread in a segment that is the thread's current one.
    pub fn segment(
        &mut self,
        index: usize,
        lane: u64,
        (number, id): Who,
        first: u64,
        records: &[[u64; WORDS]],
    ) -> usize {
        let at = self.segment_at(index);
        self.set(at + segment::STATE, pair(segment::CURRENT, 1_u32));
        self.set(at + segment::LENGTH, records.len() as u64);
        self.set(at + segment::WHO, pair(number, id));
        self.set(at + segment::LANE, lane);
        self.set(at + segment::FIRST, first);
        self.set(at + segment::TAKEN, records.first().map_or(0, |record| record[record::ENTERED]));
        for (place, words) in records.iter().enumerate() {
            self.record(index, place, words);
        }
        at
    }

    /// The thread with this entry is in this segment of the lane of work: its cursor counts the records, and the head does not.
    pub fn writes_work(&mut self, thread: usize, index: usize) {
        let segment = self.segment_at(index);
        let length = self.get(segment + segment::LENGTH) as usize;
        let cursor = pair(self.place(index, length) as u64, self.place(index, self.shape.records) as u64);
        self.set(self.thread_at(thread) + thread::CURSOR, cursor);
        self.set(segment + segment::ENTRY, thread as u64 + 1);
        self.set(segment + segment::LENGTH, 0);
    }

    /// The index, as cursors and marks have it, of this record of a segment.
    pub fn place(&self, index: usize, record: usize) -> usize {
        self.segment_at(index) / WORDS + 1 + record
    }

    /// The thread with this entry is in these segments of the other lanes, by their indices.
    pub fn writes_others(&mut self, thread: usize, [waits, rare]: [Option<u32>; 2]) {
        let number = |index: Option<u32>| index.map_or(0, |index| index + 1);
        self.set(self.thread_at(thread) + thread::SEGMENTS_1_2, pair(number(waits), number(rare)));
    }

    /// Stores a record without counting it.
    pub fn record(&mut self, segment: usize, place: usize, words: &[u64; WORDS]) {
        let at = self.segment_at(segment) + segment::RECORDS + place * WORDS;
        self.set_all(at, words);
    }

    /// Sets a segment's state.
    pub fn state(&mut self, index: usize, state: u64, count: u32) {
        self.set(self.segment_at(index) + segment::STATE, pair(state, count));
    }

    /// An entry of the texts: words, and behind them, where there is one, a text with its length in front.
    pub fn text(&mut self, kind: u16, at: u64, words: &[u64], tail: Option<&[u8]>) {
        let used = self.get(header::TEXTS_USED) as usize;
        let mut entry: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        if let Some(tail) = tail {
            entry.extend((tail.len() as u64).to_le_bytes());
            entry.extend(tail);
            entry.resize(entry.len().next_multiple_of(8), 0);
        }
        let size = 16 + entry.len();
        assert!(used + size <= self.shape.text_bytes, "no room for the text");
        let begin = self.shape.texts_at() + used / 8;
        self.set(begin, pair(kind, size as u64));
        self.set(begin + 1, at);
        self.bytes[(begin + 2) * 8..(begin + 2) * 8 + entry.len()].copy_from_slice(&entry);
        self.set(header::TEXTS_USED, (used + size) as u64);
    }

    /// A name.
    pub fn name(&mut self, at: u64, number: u64, name: &str) {
        self.text(text::NAME, at, &[number], Some(name.as_bytes()));
    }

    /// A function.
    pub fn function(&mut self, at: u64, number: u32, name: u32, handle: u64, owner: u64, kernel: bool) {
        self.text(text::FUNCTION, at, &[pair(number, name), handle, owner, u64::from(kernel)], None);
    }
}
