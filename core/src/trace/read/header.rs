//! The header: facts of the process, and where the areas lie.
//!
//! The reader takes an impossible area as empty, and one that reaches past the end as far as the file goes. Either is a defect.

use super::defects::{Defects, Unreadable};
use super::source::{field, high, low, read, word, Source, BEFORE_RECORDS, RECORD_BYTES, STRETCH};
use crate::order;
use crate::settings::MOST_RECORD_BYTES;
use crate::trace::facts::{LaneUse, ProcessFacts, ProcessState, StartFacts};
use crate::trace::layout::{self, header, HEADER_BYTES, LANES, WORD};
use crate::trace::Lane;
use std::ops::RangeInclusive;

/// The most words of a segment, which is read as a whole. The writer's segments have 512.
const MOST_SEGMENT_WORDS: usize = 2048;

/// Entries of one size, all inside the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Area {
    pub offset: u64,
    pub count: u64,
    pub stride: u64,
}

impl Area {
    pub(super) fn place(&self, index: u64) -> u64 {
        self.offset.saturating_add(index.saturating_mul(self.stride))
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Segments {
    /// The last one may be cut off.
    pub area: Area,
    pub records: u64,
}

pub(super) struct Header {
    pub facts: ProcessFacts,
    pub threads: Area,
    pub contexts: Area,
    pub streams: Area,
    pub communicators: Area,
    pub strings: (u64, u64),
    pub segments: Segments,
    pub lanes: [LaneUse; LANES],
    pub length: u64,
}

impl Header {
    pub(super) fn read<S: Source>(source: &S, defects: &mut Defects) -> Result<Self, Unreadable> {
        let length = source.size().map_err(Unreadable::Io)?;
        let head = checked_head(source, length, defects)?;
        let facts = facts(&head);
        let missing = missing(&facts, length);
        if missing > 0 {
            defects.note(length, || format!("the file ends here, {missing} bytes early"));
        }
        let mut reader = AreaReader { head: &head, length, defects };
        let threads = reader.table("threads", header::THREADS, layout::thread::WORDS);
        let contexts = reader.table("contexts", header::CONTEXTS, layout::context::WORDS);
        let streams = reader.table("streams", header::STREAMS, layout::stream::WORDS);
        let communicators = Area {
            offset: offset(header::COMMUNICATORS),
            count: header::COMMUNICATOR_COUNT as u64,
            stride: offset(layout::communicator::WORDS),
        };
        let (strings, texts_bytes) = reader.strings();
        let segments = reader.segments();
        let parts = [
            ("header", Area { offset: 0, count: 1, stride: HEADER_BYTES as u64 }),
            ("threads", threads),
            ("contexts", contexts),
            ("streams", streams),
            ("texts", Area { offset: strings.0, count: u64::from(texts_bytes != 0), stride: texts_bytes }),
            ("segments", segments.area),
        ];
        overlaps(parts, defects);
        let lanes = lanes(&head, defects);
        Ok(Self { facts, threads, contexts, streams, communicators, strings, segments, lanes, length })
    }

    /// The first segment of a lane and their number, as far as they lie inside the file.
    pub(super) fn segments_of(&self, lane: Lane) -> (u64, u64) {
        let LaneUse { first, segments, .. } = self.lanes[lane as usize];
        (first.into(), u64::from(segments).min(self.segments.area.count.saturating_sub(first.into())))
    }
}

/// The bytes of a header, as far as they are there; of no recording that this build cannot read.
fn checked_head<S: Source>(source: &S, length: u64, defects: &mut Defects) -> Result<Vec<u8>, Unreadable> {
    if length > MOST_RECORD_BYTES {
        return Err(Unreadable::TooLarge(length));
    }
    let mut head = vec![0; usize::try_from(length).unwrap_or(usize::MAX).min(HEADER_BYTES)];
    let there = super::source::fill(source, 0, &mut head).map_err(Unreadable::Io)?;
    head.truncate(there);
    if head.len() < 2 * WORD || word(&head, header::MAGIC) != layout::MAGIC {
        return Err(if !never_begun(&head, length) { Unreadable::NotARecording } else { Unreadable::NeverBegun });
    }
    let version = word(&head, header::VERSION);
    if low(version) != layout::VERSION {
        let by = if head.len() < HEADER_BYTES { String::new() } else { field(&head, &header::LAZYGUARD) };
        return Err(Unreadable::Version(low(version), by));
    }
    if high(version) as usize != HEADER_BYTES {
        defects.note(offset(header::VERSION), || format!("the header's size is given as {}", high(version)));
    }
    Ok(head)
}

/// Whether the file is empty, zero, or has the first words of a header: the writer stores the mark of a recording last.
fn never_begun(head: &[u8], length: u64) -> bool {
    let at = |number: usize| word(head, number);
    let version = u64::from(layout::VERSION) | (HEADER_BYTES as u64) << 32;
    let is_header = at(header::VERSION) == version && [0, length].contains(&at(header::FILE_BYTES));
    at(header::MAGIC) == 0 && (head.iter().all(|&byte| byte == 0) || head.len() == HEADER_BYTES && is_header)
}

/// How many bytes of the file are missing at least.
pub(super) fn missing(facts: &ProcessFacts, length: u64) -> u64 {
    facts.file_bytes.max(HEADER_BYTES as u64).saturating_sub(length)
}

fn offset(word: usize) -> u64 {
    (word * WORD) as u64
}

fn facts(head: &[u8]) -> ProcessFacts {
    let at = |number: usize| word(head, number);
    ProcessFacts {
        process: low(at(header::PROCESS)),
        driver_version: high(at(header::PROCESS)) as i32,
        armed_unix_nanos: at(header::ARMED_UNIX_NANOS),
        armed_monotonic_nanos: at(header::ARMED_MONOTONIC_NANOS),
        start_ticks: at(header::PROCESS_START_TICKS),
        state: ProcessState::from_number(at(header::STATE)),
        last_seen: at(header::LAST_SEEN),
        program: field(head, &header::PROGRAM),
        host: field(head, &header::HOST),
        rank: field(head, &header::RANK),
        lazyguard: field(head, &header::LAZYGUARD),
        file_bytes: at(header::FILE_BYTES),
        without_entry: at(header::WITHOUT_ENTRY),
        texts_lost: at(header::TEXTS_LOST),
        former_calls: at(header::FORMER_CALLS),
        former_launches: at(header::FORMER_LAUNCHES),
        start: StartFacts {
            loaded: at(header::LOADED),
            init_entered: at(header::INIT_ENTERED),
            init_returned: at(header::INIT_RETURNED),
            before_loaded_micros: low(at(header::START_MICROS)),
            arming_micros: high(at(header::START_MICROS)),
        },
    }
}

struct AreaReader<'a> {
    head: &'a [u8],
    length: u64,
    defects: &'a mut Defects,
}

impl AreaReader<'_> {
    fn table(&mut self, what: &str, at: usize, words: usize) -> Area {
        self.area(what, at, words..=words, u64::MAX)
    }

    /// The last entry counts if the file has more than `before` bytes of it.
    fn area(&mut self, what: &str, at: usize, words: RangeInclusive<usize>, before: u64) -> Area {
        let (begin, shape) = (word(self.head, at), word(self.head, at + 1));
        let told = Area { offset: begin, count: u64::from(low(shape)), stride: u64::from(high(shape)) };
        if told.count == 0 {
            return Area::default();
        }
        let aligned = [begin, told.stride].iter().all(|bytes| bytes.is_multiple_of(WORD as u64));
        if !aligned || !(offset(*words.start())..=offset(*words.end())).contains(&told.stride) {
            self.defects.note(offset(at), || {
                format!("{what}: {} entries of {} bytes at byte {begin} cannot be", told.count, told.stride)
            });
            return Area::default();
        }
        let there = self.length.saturating_sub(begin);
        let fit = there / told.stride + u64::from(there % told.stride > before);
        if fit < told.count {
            self.defects.note(offset(at), || format!("{what}: {fit} of {} entries lie inside the file", told.count));
        }
        Area { count: told.count.min(fit), ..told }
    }

    /// Beginning and used bytes of the texts; size of their area.
    fn strings(&mut self) -> ((u64, u64), u64) {
        let (begin, size) = (word(self.head, header::TEXTS), word(self.head, header::TEXTS + 1));
        let used = word(self.head, header::TEXTS_USED);
        if used > size {
            self.defects.note(offset(header::TEXTS_USED), || format!("strings: {used} bytes of {size} are in use"));
        }
        let used = used.min(size);
        let there = used.min(self.length.saturating_sub(begin));
        if there < used {
            self.defects
                .note(offset(header::TEXTS), || format!("strings: {there} of {used} bytes lie inside the file"));
        }
        ((begin, there), size)
    }

    fn segments(&mut self) -> Segments {
        use layout::{record, segment};
        let shape = word(self.head, header::RECORD_SHAPE);
        let (records, record_bytes) = (u64::from(low(shape)), u64::from(high(shape)));
        // The last segment of a file that was cut off is there in part.
        let words = segment::RECORDS + record::WORDS..=MOST_SEGMENT_WORDS;
        let area = self.area("segments", header::SEGMENTS, words, BEFORE_RECORDS);
        let room = area.stride.saturating_sub(BEFORE_RECORDS) / RECORD_BYTES;
        if area.count == 0 {
            return Segments::default();
        }
        if record_bytes != RECORD_BYTES {
            self.defects
                .note(offset(header::RECORD_SHAPE), || format!("segments: records of {record_bytes} bytes cannot be"));
            return Segments::default();
        }
        if records > room {
            self.defects.note(offset(header::RECORD_SHAPE), || format!("{room} of {records} records fit a segment"));
        }
        Segments { area, records: records.min(room) }
    }
}

/// Overlapping areas are read all the same.
fn overlaps(parts: [(&str, Area); 6], defects: &mut Defects) {
    let mut parts: Vec<_> = parts.into_iter().filter(|(_, area)| area.count != 0).collect();
    order::sort_by_key(&mut parts, |(_, area)| area.offset);
    for pair in parts.windows(2) {
        let [(before, area), (after, next)] = pair else { continue };
        if area.place(area.count) > next.offset {
            defects.note(next.offset, || format!("{before} and {after} lie on each other"));
        }
    }
}

fn lanes(head: &[u8], defects: &mut Defects) -> [LaneUse; LANES] {
    let told = word(head, header::LANE_COUNT);
    if told != LANES as u64 && head.len() > header::LANE_COUNT * WORD {
        defects.note(offset(header::LANE_COUNT), || format!("{told} lanes, of which {LANES} are known"));
    }
    let all = u64::from(low(word(head, header::SEGMENTS + 1)));
    Lane::ALL.map(|lane| {
        let (number, at) = (lane as usize, header::LANES + lane as usize * header::LANE_WORDS);
        let seen = LaneUse::of(lane, |word| self::word(head, at + word));
        let (first, end) = (seen.first, u64::from(seen.first) + u64::from(seen.segments));
        if end > all {
            defects.note(offset(at), || format!("lane {number}: segments {first} to {end} of {all}"));
        }
        seen
    })
}

/// Hands out each entry with its index. Entries that take no room in the file are zero, and left out. The last one may be cut off.
pub(super) fn each_entry<S: Source>(
    source: &S,
    area: &Area,
    length: u64,
    defects: &mut Defects,
    mut take: impl FnMut(u64, &[u8], &mut Defects),
) {
    // An area without entries has no stride.
    let Some(at_once) = STRETCH.checked_div(area.stride).map(|count| count.max(1)) else { return };
    let stride = usize::try_from(area.stride).unwrap_or(usize::MAX);
    // One buffer for all, since each page of a new one costs a page fault.
    let most = at_once.min(area.count).saturating_mul(area.stride).min(length);
    let mut buffer = vec![0; usize::try_from(most).unwrap_or(0)];
    let mut begin = 0;
    while begin < area.count {
        begin = begin.max(source.next_data(area.place(begin)).saturating_sub(area.offset) / area.stride);
        let count = at_once.min(area.count.saturating_sub(begin));
        let offset = area.place(begin);
        let size = usize::try_from(count.saturating_mul(area.stride).min(length.saturating_sub(offset))).unwrap_or(0);
        let there = read(source, offset, &mut buffer[..size], defects);
        for (index, bytes) in (begin..).zip(buffer[..there].chunks(stride)) {
            take(index, bytes, defects);
        }
        begin = begin.saturating_add(count.max(1));
    }
}
