//! The layout of a recording: `docs/TRACE_FORMAT.md`, in constants. The reader prefers the numbers in the header.
//!
//! Must not: change what a number means without a new [`VERSION`].

pub const WORD: usize = 8;
pub const MAGIC: u64 = u64::from_le_bytes(*b"LGTRACE\n");
pub const VERSION: u32 = 1;
pub const HEADER_BYTES: usize = 4096;
pub const LANES: usize = 3;

pub mod header {
    // `docs/TRACE_FORMAT.md` says what each holds.
    pub const MAGIC: usize = 0;
    pub const VERSION: usize = 1;
    pub const FILE_BYTES: usize = 2;
    pub const PROCESS: usize = 3;
    pub const ARMED_UNIX_NANOS: usize = 4;
    pub const ARMED_MONOTONIC_NANOS: usize = 5;
    pub const PROCESS_START_TICKS: usize = 6;
    pub const STATE: usize = 7;
    pub const LAST_SEEN: usize = 8;
    pub const THREADS: usize = 9;
    pub const CONTEXTS: usize = 11;
    pub const STREAMS: usize = 13;
    pub const TEXTS: usize = 15;
    pub const SEGMENTS: usize = 17;
    pub const RECORD_SHAPE: usize = 19;
    pub const LANE_COUNT: usize = 20;
    pub const TEXTS_USED: usize = 21;
    pub const TEXTS_LOST: usize = 22;
    pub const WITHOUT_ENTRY: usize = 23;
    pub const FORMER_CALLS: usize = 24;
    pub const FORMER_LAUNCHES: usize = 25;
    pub const ASKED: usize = 26;
    pub const ANSWERED: usize = 27;
    pub const LOADED: usize = 28;
    pub const INIT_ENTERED: usize = 29;
    pub const INIT_RETURNED: usize = 30;
    pub const START_MICROS: usize = 31;
    pub const LANES: usize = 32;
    pub const LANE_WORDS: usize = 8;
    pub const HANG: usize = 56;
    /// In [`HANG`]: a hang was reported, and stands.
    pub const HANG_STANDS: u64 = 1;
    /// In [`HANG`]: and the action on it is due.
    pub const HANG_IS_DUE: u64 = 2;
    pub const PROGRAM: std::ops::Range<usize> = 64..80;
    pub const HOST: std::ops::Range<usize> = 80..88;
    pub const RANK: std::ops::Range<usize> = 88..92;
    pub const LAZYGUARD: std::ops::Range<usize> = 92..96;
    pub const COMMUNICATORS: usize = 96;
    pub const COMMUNICATOR_COUNT: usize = 48;
}

pub mod lane {
    pub const SEGMENTS: usize = 0;
    pub const HAND: usize = 1;
    pub const OVERWRITTEN: usize = 2;
    pub const RELEASED: usize = 3;
    pub const DROPPED: usize = 4;
}

/// Words of a thread's entry. The words that every launch writes are among the first eight, one line of a processor's cache.
pub mod thread {
    pub const WORDS: usize = 24;
    pub const WHO: usize = 0;
    pub const STATE: usize = 1;
    pub const CALLS: usize = 2;
    pub const LAUNCHES: usize = 3;
    pub const MARK: usize = 4;
    pub const STACK: usize = 5;
    pub const FRAME: usize = 6;
    /// See `Cursor` of the writer.
    pub const CURSOR: usize = 7;
    pub const SEGMENTS_1_2: usize = 8;
    pub const BORN: usize = 9;
    pub const ENDED: usize = 10;
    pub const NAME: std::ops::Range<usize> = 11..13;
    pub const OUTER: usize = 13;
    pub const OUTER_ENTERED: usize = 14;
    pub const OUTER_STACK: usize = 15;
    pub const SPARE: usize = 16;
    pub const STATE_FREE: u64 = 0;
    pub const STATE_ALIVE: u64 = 1;
    pub const STATE_ENDED: u64 = 2;
    /// In the mark, in place of the lane: the record is the spare one.
    pub const MARK_SPARE: u64 = 255;
}

pub mod communicator {
    pub const WORDS: usize = 8;
    pub const HANDLE: usize = 0;
    pub const ID: usize = 1;
    pub const RANK: usize = 2;
    pub const BORN: usize = 3;
    pub const ENDED: usize = 4;
    pub const COLLECTIVES: usize = 5;
    pub const LAST: usize = 6;
    pub const OTHERS: usize = 7;
    /// In [`HANDLE`]: the entry is being filled in.
    pub const BEING_TAKEN: u64 = 1;
    /// In [`HANDLE`]: the call that makes it has not returned, or has failed.
    pub const NO_HANDLE: u64 = 2;
    /// Records give a rank 16 bits, of which the last number is none.
    pub const MOST_RANKS: u32 = 0xffff;
}

pub mod context {
    pub const WORDS: usize = 8;
    pub const HANDLE: usize = 0;
    pub const ALIVE: usize = 1;
    pub const BORN: usize = 2;
    pub const IDLE_UNTIL: usize = 3;
    pub const ORPHANED_UNTIL: usize = 4;
}

/// Words of a stream's entry. The words that every launch writes are among the second eight and the newest operations.
pub mod stream {
    pub const WORDS: usize = 80;
    pub const HANDLE: usize = 0;
    pub const PLACE: usize = 1;
    pub const KIND: usize = 2;
    pub const ALIVE: usize = 3;
    pub const CAPTURING: usize = 4;
    pub const DESTROYED: usize = 5;
    pub const BORN: usize = 6;
    pub const SUBMITTED: usize = 8;
    pub const LAST_SUBMITTED: usize = 9;
    pub const COMPLETE_UNTIL: usize = 10;
    pub const FIRST_SINCE_IDLE: usize = 11;
    pub const PASSED: usize = 13;
    pub const RECENT: usize = 16;
    pub const RECENT_COUNT: usize = crate::api::StreamWork::RECENT;
}

pub mod text {
    pub const NAME: u16 = 1;
    pub const FUNCTION: u16 = 2;
    pub const FILE: u16 = 3;
    pub const SETTING: u16 = 4;
    pub const NOTE: u16 = 5;
    pub const STREAM: u16 = 6;
    pub const COMMUNICATOR: u16 = 8;
    pub const GRAPH: u16 = 7;
    pub const PATH: u16 = 9;
    pub const SHARED: u16 = 10;
    /// Words of a graph's entry before its parts, and words of a part.
    pub const GRAPH_HEAD: usize = 3;
    pub const GRAPH_PART: usize = 3;
    /// In the first word of a part: 64 bits are compared or written, else 32.
    pub const GRAPH_PART_WIDE: u64 = 1 << 24;
}

pub mod segment {
    pub const WORDS: usize = 512;
    pub const STATE: usize = 0;
    pub const LENGTH: usize = 1;
    pub const WHO: usize = 2;
    pub const LANE: usize = 3;
    pub const FIRST: usize = 4;
    pub const TAKEN: usize = 5;
    pub const FOLDED: usize = 6;
    pub const ENTRY: usize = 7;
    pub const RECORDS: usize = 8;
    pub const FREE: u64 = 0;
    pub const BEING_TAKEN: u64 = 1;
    pub const CURRENT: u64 = 2;
    pub const RELEASED: u64 = 3;
}

pub mod record {
    pub const WORDS: usize = 8;
    pub const HEAD: usize = 0;
    pub const ENTERED: usize = 1;
    pub const RETURNED: usize = 2;
    pub const SUBJECT: usize = 3;
    pub const PLACE: usize = 4;
    pub const EXTENT: usize = 5;
    pub const CALLER: usize = 6;
    pub const DETAIL: usize = 7;
}

pub mod flag {
    pub const SUBMITTED: u8 = 1;
    pub const CAPTURED: u8 = 2;
    pub const LEFT: u8 = 4;
    pub const CUT: u8 = 8;
    /// A memory operation of 64 bits.
    pub const WIDE: u8 = 16;
    /// The same bit, of a launch: its blocks have to be resident all at once.
    pub const AT_ONCE: u8 = 16;
    pub const WAIT: u8 = 32;
    /// In a segment alone: the table of streams has this submission once the segment counts it in [`super::segment::FOLDED`].
    pub const FOLDED_LATER: u8 = 64;
    pub const SETS_ASIDE: u8 = 128;
}

/// The first of the three short numbers of a load's record.
pub mod image {
    pub const MACHINE_CODE: u64 = 1;
    pub const FAT_BINARY: u64 = 2;
    pub const PTX: u64 = 3;
    pub const FAT_BINARY_OF_PTX: u64 = 4;
    /// Added where a small image names a function by which kernels print.
    pub const PRINTS: u64 = 0x100;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub threads: usize,
    pub contexts: usize,
    pub streams: usize,
    /// Bytes for texts, a multiple of a word.
    pub text_bytes: usize,
    pub segments: [usize; LANES],
    pub records: usize,
}

impl Shape {
    /// The smallest recording that is of use.
    pub const SMALLEST: usize = 1 << 20;

    /// At most this many bytes, at least [`Shape::SMALLEST`]: an eighth for texts, and an eighth of the segments for each rarer lane.
    pub fn of_bytes(bytes: usize) -> Self {
        let bytes = bytes.max(Self::SMALLEST);
        let mut shape = Self {
            threads: (bytes >> 14).clamp(64, 4096),
            contexts: 64,
            streams: (bytes >> 15).clamp(32, 4096),
            text_bytes: bytes / 8 / WORD * WORD,
            segments: [0; LANES],
            records: (segment::WORDS - segment::RECORDS) / record::WORDS,
        };
        let room = (bytes - shape.segments_at() * WORD) / (segment::WORDS * WORD);
        shape.segments = [room - room / 8 * 2, room / 8, room / 8];
        shape
    }

    pub const fn threads_at(&self) -> usize {
        HEADER_BYTES / WORD
    }

    pub const fn contexts_at(&self) -> usize {
        self.threads_at() + self.threads * thread::WORDS
    }

    pub const fn streams_at(&self) -> usize {
        self.contexts_at() + self.contexts * context::WORDS
    }

    pub const fn texts_at(&self) -> usize {
        self.streams_at() + self.streams * stream::WORDS
    }

    /// In words; at the beginning of a page.
    pub const fn segments_at(&self) -> usize {
        (self.texts_at() + self.text_bytes / WORD).next_multiple_of(segment::WORDS)
    }

    pub const fn segment_words(&self) -> usize {
        segment::RECORDS + self.records * record::WORDS
    }

    pub const fn segment_count(&self) -> usize {
        self.segments[0] + self.segments[1] + self.segments[2]
    }

    pub const fn words(&self) -> usize {
        self.segments_at() + self.segment_count() * self.segment_words()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threads_entry_ends_with_its_spare_record() {
        assert_eq!(thread::SPARE + record::WORDS, thread::WORDS);
    }

    #[test]
    fn the_communicators_lie_in_the_header() {
        let end = header::COMMUNICATORS + header::COMMUNICATOR_COUNT * communicator::WORDS;
        assert!(header::LAZYGUARD.end <= header::COMMUNICATORS && end <= HEADER_BYTES / WORD);
    }

    #[test]
    fn a_shape_fits_its_bytes_and_gives_most_of_them_to_records() {
        for bytes in [0, Shape::SMALLEST, 16 << 20, (16 << 20) + 4095, 1 << 30] {
            let shape = Shape::of_bytes(bytes);
            let used = shape.words() * WORD;
            assert!(used <= bytes.max(Shape::SMALLEST), "{bytes}: {shape:?}");
            assert!(used > bytes / 100 * 99, "{bytes}: {used}");
            assert!(shape.segment_count() * segment::WORDS * WORD > bytes / 2, "{bytes}: {shape:?}");
            assert_eq!((shape.records, shape.segment_words()), (63, segment::WORDS));
        }
    }
}
