//! What the reader makes of recordings that are damaged, or change while they are read.

use crate::support::build::{call, pair, Builder, TINY};
use crate::support::cases::entry_point;
use crate::support::written::killed_as_a_launch_returns;
use lazyguard_core::trace::layout::{header, lane, record, segment, text, thread, Shape};
use lazyguard_core::trace::read::{Recording, Source, ThreadState, Unreadable};
use lazyguard_core::trace::ProcessState;
use std::cell::{Cell, RefCell};
use std::io;

const MAIN: (u32, u32) = (1, 100);
const OTHER: (u32, u32) = (2, 101);

fn open(builder: &Builder) -> Recording<&[u8]> {
    Recording::open(builder.bytes.as_slice()).expect("a recording")
}

fn times<S: Source>(recording: &Recording<S>) -> Vec<u64> {
    recording.records().map(|entry| entry.record.entered).collect()
}

fn launches(times: &[u64]) -> Vec<[u64; 8]> {
    times.iter().map(|&time| call(entry_point("cuLaunchKernel"), time, time + 1)).collect()
}

/// A recording with a thread, and a launch in each lane.
fn small() -> Builder {
    let mut file = Builder::new(TINY);
    file.thread(0, MAIN, "main");
    for (lane, index) in [(0, 0), (1, 3), (2, 5)] {
        file.segment(index, lane, MAIN, 0, &launches(&[10 + lane]));
    }
    file
}

/// What the one defect says that a change to a small recording makes.
fn defect(change: impl FnOnce(&mut Builder)) -> String {
    let mut file = small();
    change(&mut file);
    let recording = open(&file);
    assert_eq!(recording.defect_count(), 1, "{:?}", recording.defects());
    recording.defects()[0].to_string()
}

#[test]
fn what_is_no_recording_of_this_version_is_refused_in_a_line() {
    let refused = |bytes: &[u8]| Recording::open(bytes).err().map(|why| why.to_string()).unwrap_or_default();
    let mut file = small();
    for foreign in [&b"x"[..], b"LGTRACE", &[1; 4096], &[&[0; 4095][..], &[1]].concat()] {
        assert_eq!(refused(foreign), "this is not a recording");
    }
    assert_eq!(refused(b"LGTRACE\n\x01\0\0"), "this is not a recording");
    file.set(header::VERSION, pair(4_u32, 4096_u32));
    let by = format!(
        "this is a recording of version 4, written by LazyGuard {}; this build reads version 1",
        env!("CARGO_PKG_VERSION")
    );
    assert_eq!(refused(&file.bytes), by);
    file.bytes.truncate(200);
    assert_eq!(refused(&file.bytes), "this is a recording of version 4; this build reads version 1");
    assert!(matches!(Recording::open(Failing), Err(Unreadable::Io(_))));
}

/// A file of which no byte can be read.
struct Failing;

impl Source for Failing {
    fn size(&self) -> io::Result<u64> {
        Ok(4096)
    }

    fn read_at(&self, _: u64, _: &mut [u8]) -> io::Result<usize> {
        Err(io::ErrorKind::IsADirectory.into())
    }
}

/// The writer allocates the file, fills in the header, and stores the mark last: it may be killed at each of these.
#[test]
fn what_was_killed_while_it_was_being_made_is_told_from_what_is_none() {
    let whole = small().bytes;
    let mut unmarked = whole.clone();
    unmarked[..8].fill(0);
    let mut begun = vec![0; whole.len()];
    begun[8..16].copy_from_slice(&whole[8..16]);
    for never_begun in [Vec::new(), vec![0; 100], vec![0; whole.len()], begun, unmarked.clone()] {
        assert!(matches!(Recording::open(&never_begun[..]), Err(Unreadable::NeverBegun)));
    }
    // Another file may begin with zeros as well.
    let mut foreign = unmarked;
    foreign[16] ^= 1;
    assert!(matches!(Recording::open(&foreign[..]), Err(Unreadable::NotARecording)));
}

#[test]
fn a_recording_without_faults_shows_none() {
    let file = small();
    let recording = open(&file);
    assert_eq!(recording.defects(), []);
    assert_eq!(times(&recording), [10, 11, 12]);
    assert_eq!(recording.lanes().map(|lane| (lane.present, lane.written())), [(1, 1); 3]);
}

#[test]
fn tables_that_cannot_be_are_empty_and_those_that_reach_too_far_are_cut() {
    let threads = |change: &dyn Fn(&mut Builder)| {
        let mut file = small();
        change(&mut file);
        let recording = open(&file);
        (recording.threads().len(), recording.defects().first().map(ToString::to_string).unwrap_or_default())
    };
    let place = |count: u32, bytes: u32| move |file: &mut Builder| file.set(header::THREADS + 1, pair(count, bytes));
    assert_eq!(threads(&place(3, 192)), (1, String::new()));
    assert_eq!(threads(&place(0, 192)), (0, String::new()));
    assert_eq!(threads(&place(3, 184)).1, "at byte 72: threads: 3 entries of 184 bytes at byte 4096 cannot be");
    assert_eq!(threads(&place(3, 0)).0, 0);
    assert_eq!(threads(&place(3, 196)).0, 0);
    let (count, said) = threads(&place(u32::MAX, 192));
    assert!(count > 0 && said.ends_with("of 4294967295 entries lie inside the file"), "{count}: {said}");
    let elsewhere = |offset: u64| move |file: &mut Builder| file.set(header::THREADS, offset);
    assert_eq!(threads(&elsewhere(u64::MAX - 7)).1, "at byte 72: threads: 0 of 3 entries lie inside the file");
    assert_eq!(threads(&elsewhere(4100)).0, 0);
    assert_eq!(threads(&elsewhere(0)).1, "at byte 0: header and threads lie on each other");
}

#[test]
fn areas_that_lie_on_each_other_are_read_and_said() {
    let said = defect(|file| file.set(header::CONTEXTS, (file.shape.streams_at() * 8) as u64));
    let pairs = ["contexts and streams", "streams and contexts"].map(|pair| format!("{pair} lie on each other"));
    assert!(pairs.iter().any(|pair| said.ends_with(pair)), "{said}");
}

#[test]
fn the_shape_of_segments_is_taken_as_far_as_it_can_be() {
    let records = |segments: (u32, u32), shape: (u32, u32)| {
        let mut file = small();
        file.set(header::SEGMENTS + 1, pair(segments.0, segments.1));
        file.set(header::RECORD_SHAPE, pair(shape.0, shape.1));
        let recording = open(&file);
        (times(&recording).len(), recording.defect_count())
    };
    let bytes = (TINY.segment_words() * 8) as u32;
    assert_eq!(records((7, bytes), (4, 64)), (3, 0));
    // Fewer records than there is room for; more; none; records that are too small; segments that are.
    assert_eq!(records((7, bytes), (1, 64)), (3, 0));
    assert_eq!(records((7, bytes), (9, 64)), (3, 1));
    assert_eq!(records((7, bytes), (0, 64)).0, 0);
    assert_eq!(records((7, bytes), (4, 56)), (0, 1));
    assert_eq!(records((7, 120), (1, 64)), (0, 1));
    assert_eq!(records((7, 0), (4, 64)), (0, 1));
    assert_eq!(records((0, bytes), (4, 64)).0, 0);
}

#[test]
fn segments_are_read_as_far_as_they_make_sense() {
    let said = defect(|file| file.set(file.segment_at(0) + segment::LENGTH, 5));
    assert!(said.ends_with("segment 0: 4 of 5 records are there"), "{said}");
    let said = defect(|file| file.state(0, 4, 1));
    assert!(said.ends_with("segment 0: state 4"), "{said}");
    let said = defect(|file| file.set(file.segment_at(0) + segment::LANE, 3));
    assert!(said.ends_with("segment 0: lane 3"), "{said}");
    let said = defect(|file| {
        file.set(file.segment_at(0) + segment::LANE, 1);
        file.set(file.segment_at(0) + segment::FIRST, 7);
    });
    assert!(said.ends_with("segment 0: not among those of its lane 1"), "{said}");
    let said = defect(|file| file.set(file.segment_at(0) + segment::WHO, pair(0_u32, 100_u32)));
    assert!(said.ends_with("segment 0: records of no thread"), "{said}");
    let said = defect(|file| {
        file.segment(1, 0, MAIN, 0, &launches(&[50]));
    });
    assert!(said.ends_with("segment 1: numbers that segment 0 has"), "{said}");
    let said = defect(|file| file.set_lane(1, lane::SEGMENTS, pair(3_u32, 5_u32)));
    assert!(said.ends_with("lane 1: segments 3 to 8 of 7"), "{said}");
    let said = defect(|file| file.set(header::LANE_COUNT, 4));
    assert!(said.ends_with("4 lanes, of which 3 are known"), "{said}");
}

#[test]
fn records_come_in_the_order_of_their_calls_whatever_the_order_in_the_file() {
    let mut file = Builder::new(TINY);
    file.segment(0, 0, MAIN, 0, &launches(&[70, 20, 90, 20]));
    file.segment(1, 0, MAIN, 4, &launches(&[10, 80, 20]));
    file.segment(2, 0, OTHER, 0, &launches(&[20, 75]));
    file.segment(3, 1, MAIN, 0, &launches(&[20]));
    let recording = open(&file);
    assert_eq!(times(&recording), [10, 20, 20, 20, 20, 20, 70, 75, 80, 90]);
    let ties: Vec<_> = recording
        .records()
        .filter(|entry| entry.record.entered == 20)
        .map(|entry| (entry.thread_number, entry.lane as u8, entry.number))
        .collect();
    assert_eq!(ties, [(1, 0, 1), (1, 0, 3), (1, 0, 6), (1, 1, 0), (2, 0, 0)]);
}

#[test]
fn records_of_kinds_and_forms_to_come_are_counted_and_passed_over() {
    let mut file = small();
    let mut records = launches(&[20, 30, 40, 50]);
    records[1][record::HEAD] = 0xfff0;
    records[2][record::HEAD] |= 6 << 16;
    file.segment(1, 0, OTHER, 0, &records);
    let recording = open(&file);
    assert_eq!(times(&recording), [10, 11, 12, 20, 50]);
    assert_eq!((recording.unknown_records(), recording.lanes()[0].present), (2, 5));
    assert_eq!(recording.defects(), []);
}

#[test]
fn states_to_come_are_told_by_their_number() {
    let mut file = small();
    file.set(header::STATE, 9);
    file.set(file.thread_at(0) + thread::STATE, 5);
    let recording = open(&file);
    assert_eq!(recording.facts().state, ProcessState::Unknown(9));
    assert_eq!(recording.threads()[0].state, ThreadState::Unknown(5));
}

#[test]
fn texts_are_read_up_to_the_first_that_cannot_be_one() {
    let with_texts = |change: &dyn Fn(&mut Builder, usize)| {
        let mut file = small();
        file.name(1, 1, "one");
        let second = file.shape.texts_at() + file.get(header::TEXTS_USED) as usize / 8;
        file.name(2, 2, "two");
        file.function(3, 1, 1, 0xf1, 0, false);
        file.function(4, 2, 2, 0xf2, 0, false);
        change(&mut file, second);
        let recording = open(&file);
        let name = |number| recording.strings().function(number, 10).and_then(|f| f.name.map(str::to_owned));
        let said = recording.defects().iter().map(|defect| defect.text.clone()).collect::<Vec<_>>().join("; ");
        (name(1), name(2), said)
    };
    let (one, two) = (Some("one".to_owned()), Some("two".to_owned()));
    assert_eq!(with_texts(&|_, _| ()), (one.clone(), two, String::new()));
    for size in [0, 8, 44, 4096] {
        let (first, second, said) = with_texts(&|file, at| file.set(at, pair(text::NAME, size as u64)));
        assert_eq!((first, second), (None, None), "nothing behind it is read, and so no function");
        assert!(said.starts_with(&format!("a text of {size} bytes")), "{said}");
    }
    // A length that is longer than the entry.
    let (first, second, said) = with_texts(&|file, at| file.set(at + 3, 9));
    assert_eq!((first, second), (one.clone(), None));
    assert_eq!(said, "a text of kind 1 in 40 bytes");
    let (_, _, said) = with_texts(&|file, _| file.set(header::TEXTS_USED, 4096));
    assert!(said.starts_with("strings: 4096 bytes of 1024 are in use"), "{said}");
    let (_, second, said) = with_texts(&|file, _| file.set(header::TEXTS_USED, 72));
    assert_eq!((second, said.as_str()), (None, "a text of 40 bytes, 32 before the end"));
}

#[test]
fn a_number_that_is_used_again_means_what_it_meant_when_the_call_returned() {
    let mut file = small();
    file.name(1, 1, "old");
    file.name(1, 2, "new");
    file.function(20, 7, 2, 0xf2, 0xb, true);
    // Made by another thread in the same moment: further back in the file, and earlier.
    file.function(10, 7, 1, 0xf1, 0xa, false);
    file.text(text::SETTING, 0, &[], Some(b"LAZYGUARD_LOG=all"));
    file.text(text::SETTING, 0, &[], Some(b"LAZYGUARD_LOGS=none"));
    let recording = open(&file);
    let texts = recording.strings();
    let at = |time| texts.function(7, time).map(|f| (f.name, f.handle, f.owner, f.kernel));
    assert_eq!(at(9), None);
    assert_eq!(at(10), Some((Some("old"), 0xf1, 0xa, false)));
    assert_eq!(at(19), at(10));
    assert_eq!(at(u64::MAX), Some((Some("new"), 0xf2, 0xb, true)));
    assert_eq!(texts.function(8, 100), None);
    assert_eq!((texts.setting("LAZYGUARD_LOG"), texts.setting("LAZYGUARD")), (Some("all"), None));
}

#[test]
fn a_mark_that_leads_nowhere_is_a_defect_and_no_call() {
    let launch = entry_point("cuLaunchKernel");
    let said = |mark: u64, change: &dyn Fn(&mut Builder)| {
        let mut file = small();
        let at = file.thread_at(0);
        file.writes_work(0, 0);
        file.writes_others(0, [Some(3), None]);
        file.record(0, 1, &call(launch, 20, 0));
        file.set(at + thread::MARK, u64::from(launch) | mark);
        change(&mut file);
        let recording = open(&file);
        let call = recording.threads()[0].call_in_progress;
        (call.map(|call| call.entered), recording.defects().first().map(|d| d.text.clone()).unwrap_or_default())
    };
    let names = |what: &str| (None, format!("thread 1: the mark of its call names {what}"));
    let of_place = |record: usize| 1 << 16 | (small().place(0, record) as u64) << 32;
    let first = of_place(1);
    assert_eq!(said(first, &|_| ()), (Some(20), String::new()));
    assert_eq!(said(4 << 16, &|_| ()), names("an unknown lane"));
    assert_eq!(said(3 << 16, &|_| ()), names("no segment"));
    assert_eq!(said(first, &|file| file.set(file.thread_at(0) + thread::CURSOR, 99)), names("no segment"));
    let given_away = |file: &mut Builder| file.set(file.segment_at(0) + segment::WHO, pair(2_u32, 101_u32));
    assert_eq!(said(first, &given_away), names("a segment that is not its own"));
    assert_eq!(said(first | 1, &|_| ()), names("another call than the record"));
    let full = |file: &mut Builder| {
        file.set(file.segment_at(0) + segment::LENGTH, 4);
        file.writes_work(0, 0);
    };
    assert_eq!(said(of_place(4), &full), names("a record behind its segment"));
}

#[test]
fn a_launch_that_has_just_returned_is_on_its_stream_although_its_record_is_not_complete() {
    let file = killed_as_a_launch_returns();
    let recording = Recording::open(file.as_slice()).expect("a recording");
    assert_eq!(recording.threads()[0].call_in_progress, None, "it has returned");
    assert_eq!(times(&recording), [5_000], "its record is not complete");
    let stream = &recording.streams()[0];
    assert_eq!((stream.work.submissions.count, stream.work.submissions.last), (1, 96_500));
    assert_eq!(stream.oldest(0).map(|op| op.at), Some(96_000));
}

#[test]
fn of_many_defects_the_first_are_kept_and_all_are_counted() {
    let shape = Shape { segments: [200, 1, 1], text_bytes: 0, ..TINY };
    let mut file = Builder::new(shape);
    (0..200).for_each(|index| file.state(index, 77, 0));
    let recording = open(&file);
    assert_eq!((recording.defects().len(), recording.defect_count()), (64, 200));
}

/// A file that changes while it is read.
struct Living {
    bytes: RefCell<Vec<u8>>,
    /// What happens before the read with this number, counted down.
    countdown: Cell<usize>,
    change: fn(&mut Vec<u8>),
}

impl Living {
    fn new(file: Builder, change: fn(&mut Vec<u8>)) -> Self {
        Self { bytes: RefCell::new(file.bytes), countdown: Cell::new(usize::MAX), change }
    }
}

impl Source for &Living {
    fn size(&self) -> io::Result<u64> {
        Ok(self.bytes.borrow().len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        match self.countdown.get() {
            0 => (self.change)(&mut self.bytes.borrow_mut()),
            left => self.countdown.set(left - 1),
        }
        if self.bytes.borrow().is_empty() {
            return Err(io::Error::other("the disk is gone"));
        }
        self.bytes.borrow().read_at(offset, buffer)
    }
}

/// The times that are read and how many segments are passed over, if the change happens before that read of the records.
fn while_it_is_read(reads: usize, change: fn(&mut Vec<u8>)) -> (Vec<u64>, u64) {
    let living = Living::new(small(), change);
    let recording = Recording::open(&living).expect("a recording");
    living.countdown.set(reads);
    let mut records = recording.records();
    let found = records.by_ref().map(|entry| entry.record.entered).collect();
    (found, records.passed_over)
}

/// Changes a word of the second segment with records.
fn in_segment_3(bytes: &mut [u8], word: usize, value: u64) {
    let place = (TINY.segments_at() + 3 * TINY.segment_words() + word) * 8;
    bytes[place..place + 8].copy_from_slice(&value.to_le_bytes());
}

#[test]
fn a_segment_that_is_taken_meanwhile_is_passed_over_as_a_whole() {
    let taken = |bytes: &mut Vec<u8>| in_segment_3(bytes, segment::STATE, pair(segment::BEING_TAKEN, 2_u32));
    // Each segment takes two reads, and the second one is the one of the call entered second.
    for reads in 0..4 {
        assert_eq!(while_it_is_read(reads, taken), (vec![10, 12], 1), "{reads}");
    }
    assert_eq!(while_it_is_read(4, taken), (vec![10, 11, 12], 0));
    let taken_and_filled = |bytes: &mut Vec<u8>| in_segment_3(bytes, segment::STATE, pair(segment::CURRENT, 2_u32));
    assert_eq!(while_it_is_read(3, taken_and_filled), (vec![10, 12], 1));
    // Released by its own thread, or longer than before: it is what it was.
    let released = |bytes: &mut Vec<u8>| {
        in_segment_3(bytes, segment::STATE, pair(segment::RELEASED, 1_u32));
        in_segment_3(bytes, segment::LENGTH, 4);
    };
    assert_eq!(while_it_is_read(0, released), (vec![10, 11, 12], 0));
}

#[test]
fn a_segment_that_was_being_taken_counts_until_its_taker_goes_on() {
    let read = |reads: usize, change: fn(&mut Vec<u8>)| {
        let mut file = small();
        file.state(3, segment::BEING_TAKEN, 2);
        let living = Living::new(file, change);
        let recording = Recording::open(&living).expect("a recording");
        living.countdown.set(reads);
        times(&recording)
    };
    assert_eq!(read(9, |_| ()), [10, 11, 12]);
    let emptied = |bytes: &mut Vec<u8>| in_segment_3(bytes, segment::LENGTH, 0);
    assert_eq!(read(3, emptied), [10, 12]);
    let taken = |bytes: &mut Vec<u8>| in_segment_3(bytes, segment::STATE, pair(segment::CURRENT, 2_u32));
    assert_eq!(read(3, taken), [10, 12]);
}

#[test]
fn a_file_that_shrinks_or_fails_meanwhile_gives_what_was_read_before() {
    assert_eq!(while_it_is_read(2, |bytes| bytes.truncate(5000)), (vec![10], 2));
    let living = Living::new(small(), Vec::clear);
    let recording = Recording::open(&living).expect("a recording");
    living.countdown.set(2);
    let mut records = recording.records();
    assert_eq!(records.by_ref().count(), 1);
    assert_eq!(
        (records.passed_over, records.finish().err().map(|error| error.to_string())),
        (2, Some("the disk is gone".to_owned()))
    );
}

#[test]
fn a_file_that_fails_from_the_beginning_shows_it() {
    let living = Living::new(small(), Vec::clear);
    living.countdown.set(0);
    assert!(matches!(Recording::open(&living), Err(Unreadable::Io(_))));
    // The header can still be read, and nothing else.
    let living = Living::new(small(), Vec::clear);
    living.countdown.set(1);
    let recording = Recording::open(&living).expect("a header");
    assert_eq!(recording.facts().program, "train");
    assert!(recording.threads().is_empty() && recording.records().next().is_none());
    assert!(recording.defects().iter().any(|defect| defect.text.ends_with("cannot be read: the disk is gone")));
}

#[test]
fn a_mark_that_keeps_changing_is_no_call() {
    let change = |bytes: &mut Vec<u8>| {
        let place = (TINY.threads_at() + thread::MARK) * 8 + 4;
        bytes[place] ^= 1;
    };
    let make = || {
        let mut file = small();
        let at = file.thread_at(0);
        file.set(at + thread::MARK, u64::from(entry_point("cuLaunchKernel")) | 255 << 16);
        file.set_all(at + thread::SPARE, &launches(&[20])[0]);
        file.set(at + thread::SPARE + record::RETURNED, 0);
        Living::new(file, change)
    };
    let still = make();
    let recording = Recording::open(&still).expect("a recording");
    assert!(recording.threads()[0].call_in_progress.is_some());
    let changing = make();
    changing.countdown.set(2);
    let recording = Recording::open(&changing).expect("a recording");
    assert_eq!((recording.threads()[0].call_in_progress, recording.defect_count()), (None, 0));
}

/// A file that says of itself that it is long, and holds but a few bytes at its beginning; what follows takes no room.
struct Hollow {
    bytes: Vec<u8>,
    length: u64,
    read: Cell<u64>,
}

impl Source for &Hollow {
    fn size(&self) -> io::Result<u64> {
        Ok(self.length)
    }

    fn next_data(&self, offset: u64) -> u64 {
        if offset < self.bytes.len() as u64 {
            offset
        } else {
            u64::MAX
        }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.read.set(self.read.get() + buffer.len() as u64);
        assert!(self.read.get() < 64 << 20, "more is read than there is");
        let there = usize::try_from(offset).ok().and_then(|offset| self.bytes.get(offset..)).unwrap_or_default();
        let (count, inside) = (there.len().min(buffer.len()), self.length.saturating_sub(offset));
        let all = buffer.len().min(usize::try_from(inside).unwrap_or(usize::MAX));
        buffer[..all].fill(0);
        buffer[..count].copy_from_slice(&there[..count]);
        Ok(all)
    }
}

#[test]
fn what_takes_no_room_in_a_long_file_is_neither_read_nor_kept_in_memory() {
    const LENGTH: u64 = 64 << 30;
    let read = |change: &dyn Fn(&mut Builder)| {
        let mut file = small();
        change(&mut file);
        let hollow = Hollow { bytes: file.bytes, length: LENGTH, read: Cell::new(0) };
        let recording = Recording::open(&hollow).expect("a recording");
        (times(&recording).len(), recording.threads().len())
    };
    let count = |word: usize| move |file: &mut Builder| file.set(word, file.get(word) | 0xffff_ffff);
    assert_eq!(read(&|_| ()), (3, 1));
    assert_eq!(read(&count(header::SEGMENTS + 1)), (3, 1));
    // What follows the tables of a small file is read as if it were entries.
    for table in [header::THREADS + 1, header::CONTEXTS + 1, header::STREAMS + 1] {
        assert_eq!(read(&count(table)).0, 3);
    }
    assert_eq!(read(&|file| file.set_all(header::TEXTS + 1, &[LENGTH])), (3, 1));
    let texts = |file: &mut Builder| {
        // A text of the largest size; the file has only its beginning.
        let end = file.bytes.len() as u64;
        file.bytes.extend_from_slice(&pair(u32::from(text::NOTE), 0xffff_fff8_u32).to_le_bytes());
        file.set(header::TEXTS, end);
        file.set(header::TEXTS + 1, LENGTH);
        file.set(header::TEXTS_USED, LENGTH);
    };
    assert_eq!(read(&texts), (3, 1));
    // Entries as large as that are none of this version's.
    let large = |file: &mut Builder| file.set(header::SEGMENTS + 1, pair(7_u32, 0xffff_fff8_u32));
    assert_eq!(read(&large), (0, 1));
    assert_eq!(read(&|file| file.set(header::THREADS + 1, pair(3_u32, 0xffff_fff8_u32))), (3, 0));
    let longer = Hollow { bytes: small().bytes, length: LENGTH + 1, read: Cell::new(0) };
    let why = Recording::open(&longer).err().map(|why| why.to_string()).unwrap_or_default();
    assert_eq!(why, "this is no recording: it has 68719476737 bytes, and a recording has 64 GiB at most");
}
