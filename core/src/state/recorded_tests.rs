//! Tests the readers of the slots' records: of threads without an entry, after jumps of signal handlers, and while threads go on, end and fold.

use super::*;
use crate::trace::layout::{flag, header, record, segment, thread, Shape};
use crate::trace::read::{LiveRecording, Recording, Source};
use crate::trace::{Lane, RawPayload, Record};
use std::cell::{Cell, RefCell};
use std::io;

fn with_a_stream() -> (Tracker, u32, u32) {
    let tracker = Tracker::default();
    let context = tracker.context(0xa, 0);
    let stream = created(&tracker, 0x100, context);
    (tracker, context, stream)
}

fn bytes_of(tracker: &Tracker) -> Vec<u8> {
    // A word at a time, which takes an unoptimised test less time than a byte.
    let mut bytes = vec![0; size_of_val(tracker.recorder().words())];
    tracker.recorder().read_at(0, &mut bytes).unwrap();
    bytes
}

fn launch(tracker: &Tracker, slot: &ThreadSlot, returned: Nanos) {
    begun(tracker, slot, || 100).end(returned, 0, Nanos::MAX);
}

#[test]
fn a_launch_on_the_fast_path_is_a_record_with_its_result_and_its_time() {
    let (tracker, context, stream) = with_a_stream();
    let slot = launching(&tracker, 9, stream, context);
    let seen = || (slot.published().map(|call| call.record.entered), slot.counts());
    assert_eq!(seen(), (None, (0, 0)));
    let launch = begun(&tracker, slot, || 100);
    assert_eq!(seen(), (Some(100), (1, 1)));
    let open = launch.record().unwrap();
    assert_eq!((open.entered, open.returned, open.stream, open.result), (100, 0, stream, 0));
    let (raw, _) = RawPayload::launch([5, 6, 7], [8, 9, 10], 11);
    assert_eq!((u32::from(open.context), open.raw, open.flags), (context, raw, flag::SUBMITTED));
    assert!(!slot.enter(Caller { stack: 2, ..Caller::default() }), "what is called in a launch passes untouched");
    assert!(!launch.end(149, 0, 50), "49 ns are not long");
    assert_eq!(seen(), (None, (1, 1)));
    let next = launch.next_place();
    let launch = begun(&tracker, slot, || 200);
    assert!(launch.end(250, -5, 50));
    let refused = launch.record().unwrap();
    assert_eq!((refused.entered, refused.returned, refused.result), (200, 250, -5));
    assert_eq!(next.wrapping_add(8 * record::WORDS), launch.next_place());
    // A launch that the gate does not let through takes the slow path from the start.
    let launch =
        begin_fast(slot, facts(), || Caller { stack: 1, ..Caller::default() }, |_| Some(0), tracker.epoch(), || 300)
            .unwrap();
    launch.cancel();
    assert_eq!(seen(), (None, (2, 2)));
    assert!(slot.enter(Caller { stack: 2, ..Caller::default() }));
    slot.leave();
    let recording = Recording::open(bytes_of(&tracker)).unwrap();
    let times: Vec<_> = recording.records().map(|entry| (entry.record.entered, entry.record.result)).collect();
    assert_eq!(times, [(6, 0), (100, 0), (200, -5)]);
}

/// The process ends while its threads live, the last of which has made eleven launches and is in another one.
#[test]
fn launches_of_a_thread_without_an_entry_are_in_the_recording() {
    let (tracker, context, stream) = with_a_stream();
    let room = tracker.recorder().shape().threads as u32;
    (0..room).for_each(|n| _ = tracker.begin_thread(1000 + n, 5).unwrap());
    let slot = launching(&tracker, 9, stream, context);
    let caller = || Caller { stack: 1, ..Caller::default() };
    assert!(
        begin_fast(slot, facts(), caller, |_| Some(0), tracker.epoch(), || 100).is_none(),
        "it has no cursor in an entry"
    );
    let launch = |at| {
        assert!(slot.enter(caller()));
        let open = slot.open(&Record { entered: at, ..Record::of(EntryPoint::of_class(Class::Launch)) }, Class::Launch);
        slot.mark(&open);
        open
    };
    for at in 100..110 {
        assert!(slot.close(launch(at), Class::Launch, at + 1, 0));
        slot.unmark();
        slot.leave();
    }
    launch(200);
    let published = slot.published().unwrap();
    assert_eq!((published.thread, published.record.entered), (9, 200));
    let recording = Recording::open(tracker.recorder()).unwrap();
    let lost: u64 = recording.lanes().iter().map(|lane| lane.dropped + lane.overwritten).sum();
    let there = recording.records().filter(|entry| entry.thread == 9).count() as u64;
    assert_eq!((there, lost), (11, 0));
}

/// A signal handler leaves the guard by a jump, behind the count of the record and before the end of the mark.
#[test]
fn a_jump_behind_the_end_of_a_call_leaves_its_record_alone() {
    for lane in [Lane::Work, Lane::Waits] {
        let (tracker, context, stream) = with_a_stream();
        let slot = launching(&tracker, 9, stream, context);
        let class = if lane == Lane::Work { Class::Launch } else { Class::ContextSynchronize };
        let facts = Record { entered: 200, ..Record::of(EntryPoint::of_class(class)) };
        assert!(slot.enter(Caller { stack: 0x7000, ..Caller::default() }));
        let open = slot.open(&facts, class);
        slot.mark(&open);
        assert!(slot.close(open, class, 300, 0));
        // Here the jump.
        tracker.abandon(slot, 400);
        let recording = Recording::open(bytes_of(&tracker)).unwrap();
        let there = recording.records().filter(|entry| entry.lane == lane).count() as u64;
        let expect = if lane == Lane::Work { 2 } else { 1 };
        assert_eq!((there, recording.unknown_records(), recording.lanes()[lane as usize].present), (expect, 0, expect));
    }
}

/// The same of a recording that has gone round: the place behind the cursor has an old record.
#[test]
fn a_jump_behind_the_end_of_a_call_brings_no_old_record_back() {
    let (tracker, context, stream) = with_a_stream();
    let slot = launching(&tracker, 9, stream, context);
    let facts = Record { entered: 200, ..Record::of(EntryPoint::of_class(Class::Launch)) };
    let push = |at| slot.push(&Record { entered: at, returned: at, ..facts }, Lane::Work);
    let segments = tracker.recorder().segments_of(Lane::Work).1 as u64;
    (0..segments * 63 + 10).for_each(|n| push(1000 + n));
    let all = |tracker: &Tracker| {
        Recording::open(bytes_of(tracker)).unwrap().records().map(|e| e.record.entered).collect::<Vec<_>>()
    };
    let before = all(&tracker);
    assert!(slot.enter(Caller { stack: 0x7000, ..Caller::default() }));
    let open = slot.open(&Record { entered: 9_000_000, ..facts }, Class::Launch);
    slot.mark(&open);
    assert!(slot.close(open, Class::Launch, 9_000_001, 0));
    tracker.abandon(slot, 9_000_002);
    let after = all(&tracker);
    let new: Vec<_> = after.iter().filter(|at| !before.contains(at)).collect();
    assert_eq!(new, [&9_000_000]);
    assert_eq!(after.len(), before.len() + 1);
}

/// A recording whose writer goes on after so many reads.
struct Moving<'a> {
    tracker: &'a Tracker,
    reads: Cell<u32>,
    at: u32,
    then: RefCell<Option<Box<dyn FnOnce() + 'a>>>,
}

impl<'a> Moving<'a> {
    fn of(tracker: &'a Tracker, at: u32, then: impl FnOnce() + 'a) -> Self {
        Self { tracker, reads: Cell::new(0), at, then: RefCell::new(Some(Box::new(then))) }
    }
}

impl Source for &Moving<'_> {
    fn size(&self) -> io::Result<u64> {
        self.tracker.recorder().size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.tracker.recorder().read_at(offset, buffer);
        self.reads.set(self.reads.get() + 1);
        if self.reads.get() == self.at {
            self.then.take().into_iter().for_each(|then| then());
        }
        read
    }
}

/// The thread ends while its segment is looked through.
#[test]
fn a_segment_that_is_left_while_it_is_read_has_no_unknown_records() {
    let mut seen = Vec::new();
    for at in 1..60 {
        let (tracker, context, stream) = with_a_stream();
        let slot = launching(&tracker, 9, stream, context);
        let then = || {
            (0..10).for_each(|n| launch(&tracker, slot, 101 + n));
            tracker.end_thread(1, 500);
        };
        let source = Moving::of(&tracker, at, then);
        let recording = Recording::open(&source).unwrap();
        if recording.unknown_records() != 0 || recording.defect_count() != 0 {
            seen.push((at, recording.unknown_records(), recording.defects().len()));
        }
    }
    assert_eq!(seen, []);
}

/// A file that is cut off while it is read.
struct Shrinks(Vec<u8>, usize);

impl Source for &Shrinks {
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        (&self.0[..self.1]).read_at(offset, buffer)
    }
}

#[test]
fn a_file_that_shrinks_within_the_head_of_a_segment_is_read_as_far_as_it_goes() {
    let (tracker, context, stream) = with_a_stream();
    let slot = launching(&tracker, 9, stream, context);
    (0..100).for_each(|n| push_launch(slot, n));
    tracker.end_thread(1, 500);
    let bytes = bytes_of(&tracker);
    let shape = *tracker.recorder().shape();
    for segment in 0..2 {
        for end in (0..=segment::RECORDS + record::WORDS).map(|words| words * 8 + 3) {
            let end = (shape.segments_at() + segment * shape.segment_words()) * 8 + end;
            let source = Shrinks(bytes.clone(), end);
            let read = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let recording = Recording::open(&source).unwrap();
                let _ = recording.records().count();
                let mut live = LiveRecording::open(&source).unwrap();
                live.refresh().unwrap();
                Lane::ALL.iter().for_each(|lane| live.news(*lane, 100, &mut |_, _| {}));
            }));
            assert!(read.is_ok(), "segment {segment}, cut at {end}");
        }
    }
}

/// Words of the parts that the reader follows are changed at random: nothing panics, and all of it ends.
#[test]
fn odd_numbers_in_cursors_heads_and_header_are_read() {
    let shape = Shape { threads: 3, contexts: 2, streams: 2, text_bytes: 256, segments: [5, 2, 2], records: 3 };
    let words: Box<[Word]> = (0..shape.words()).map(|_| Word::new(0)).collect();
    let recorder = Box::leak(Box::new(Recorder::new(Box::leak(words), shape, &ProcessFacts::default()).unwrap()));
    let tracker = Tracker::new(recorder, Box::leak(Box::default()));
    let context = tracker.context(0xa, 0);
    let stream = created(&tracker, 0x100, context);
    let slot = launching(&tracker, 9, stream, context);
    (0..5).for_each(|n| push_launch(slot, n));
    let other = launching(&tracker, 10, stream, context);
    launch(&tracker, other, 105);
    let _ = begun(&tracker, other, || 200);
    let bytes = bytes_of(&tracker);
    let mut state = 0x1234_5678_9abc_def1_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut places: Vec<usize> = (1..40).chain(header::LANES..header::LANES + 24).collect();
    (0..3).for_each(|n| places.extend((0..thread::WORDS).map(|w| shape.threads_at() + n * thread::WORDS + w)));
    (0..9).for_each(|n| places.extend((0..16).map(|w| shape.segments_at() + n * shape.segment_words() + w)));
    for _ in 0..1_500 {
        let mut changed = bytes.clone();
        for _ in 0..=random() % 4 {
            let at = places[random() as usize % places.len()] * 8;
            let former = u64::from_le_bytes(changed[at..at + 8].try_into().unwrap());
            let odd = [0, 1, 2, 3, 7, 8, 63, 64, 4096, 1 << 32, u64::from(u32::MAX), u64::MAX, u64::MAX >> 1]
                [random() as usize % 13];
            let new = match random() % 6 {
                0 => odd,
                1 => former.wrapping_add(odd),
                2 => former.wrapping_sub(odd),
                3 => former & 0xffff_ffff | odd << 32,
                4 => former & !0xffff_ffff | odd & 0xffff_ffff,
                _ => random(),
            };
            changed[at..at + 8].copy_from_slice(&new.to_le_bytes());
        }
        if let Ok(recording) = Recording::open(&changed) {
            let _ = recording.records().count();
        }
        if let Ok(mut live) = LiveRecording::open(&changed) {
            for _ in 0..2 {
                let _ = live.refresh();
                Lane::ALL.iter().for_each(|lane| live.news(*lane, 100, &mut |_, _| {}));
            }
        }
    }
}

/// Another thread folds while the recording is read: between the records and the table of streams.
#[test]
fn launches_that_are_folded_while_they_are_read_count_once() {
    let mut seen = Vec::new();
    for at in 1..60 {
        let (tracker, context, stream) = with_a_stream();
        let slot = launching(&tracker, 9, stream, context);
        static NOW: Word = Word::new(100);
        for n in 0..60 {
            NOW.store(100 + n * 10, Ordering::Relaxed);
            begun(&tracker, slot, || NOW.load(Ordering::Relaxed)).end(105 + n * 10, 0, Nanos::MAX);
        }
        let then = || assert!(tracker.fold());
        let source = Moving::of(&tracker, at, then);
        let recording = Recording::open(&source).unwrap();
        let of_stream = recording.streams().iter().find(|seen| seen.number == stream).unwrap();
        let newest = of_stream.work.recent.back().map(|operation| operation.at);
        if (of_stream.work.submissions.count, newest) != (60, Some(690)) {
            seen.push((at, of_stream.work.submissions.count, newest));
        }
    }
    assert_eq!(seen, []);
}

fn push_launch(slot: &ThreadSlot, at: Nanos) {
    let facts = Record::of(EntryPoint::of_class(Class::Launch));
    slot.push(&Record { entered: at, returned: at, ..facts }, Lane::Work);
}
