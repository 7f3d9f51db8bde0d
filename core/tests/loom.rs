//! What holds of a recording in every interleaving of the threads, however late each sees another's stores.
//!
//! The model checker `loom` runs each of these tests in every interleaving within its bound on how often a thread is interrupted.
//! The recordings are the smallest in which segments are full, taken again, and exhausted.
//!
//! Runs under `--cfg loom` only: `scripts/loom`.
#![cfg(loom)]

use lazyguard_core::api::EntryPoint;
use lazyguard_core::state::{
    begin_fast, Caller, Known, OpenRecord, StreamKey, StreamKind, SubmissionFacts, ThreadSlot, Tracker,
};
use lazyguard_core::trace::layout::{header, lane, record, segment, Shape, WORD};
use lazyguard_core::trace::read::Recording;
use lazyguard_core::trace::{Follower, Lane, Owner, ProcessFacts, RawPayload, Record, Recorder, SegmentWriter};
use loom::sync::atomic::{fence, AtomicU64, Ordering};
use loom::thread;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU64 as Told;
use std::sync::Arc;

/// The lane that is written to where it makes no difference which.
const LANE: Lane = Lane::Work;
const RELAXED: Ordering = Ordering::Relaxed;
const ONE: Owner = Owner { number: 1, thread: 101 };
const OTHER: Owner = Owner { number: 2, thread: 102 };

/// Runs the test in every way in which threads are interrupted at most so many times, or as many as the environment says;
/// says in how many ways. Once is enough to run one thread as far as any point of another, with all that it may see there.
fn in_every_way(interruptions: usize, test: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(interruptions));
    builder.max_branches = 10_000;
    let ways = Arc::new(Told::new(0));
    let counted = ways.clone();
    builder.check(move || {
        counted.fetch_add(1, RELAXED);
        test();
    });
    println!("{} ways", ways.load(RELAXED));
}

fn shape(work: usize, records: usize) -> Shape {
    Shape { threads: 0, contexts: 0, streams: 0, text_bytes: 0, segments: [work, 0, 0], records }
}

fn zeros(shape: Shape) -> Vec<AtomicU64> {
    (0..shape.words()).map(|_| AtomicU64::new(0)).collect()
}

/// A recording of a shape, which is made anew for each way and lives as long.
macro_rules! recorder {
    ($shape:expr) => {{
        loom::lazy_static! {
            static ref WORDS: Vec<AtomicU64> = zeros($shape);
            static ref RECORDER: Recorder<'static> =
                Recorder::new(&WORDS, $shape, &ProcessFacts::default()).expect("words for the shape");
        }
        let recorder: &'static Recorder<'static> = &RECORDER;
        recorder
    }};
}

/// A tracker over such a recording.
macro_rules! tracker {
    ($shape:expr) => {{
        loom::lazy_static! {
            static ref WORLD: Tracker = Tracker::new(recorder!($shape), Box::leak(Box::default()));
        }
        let tracker: &'static Tracker = &WORLD;
        tracker
    }};
}

// --- records ---

/// Identifies a record.
fn mark(owner: Owner, number: u64) -> u64 {
    u64::from(owner.number) << 32 | number + 1
}

/// Writes a record that two of its words identify: enough to detect a mixture, and few enough for the model checker.
/// Returns whether there was a place.
fn write(recorder: &Recorder<'_>, writer: &SegmentWriter<'_>, owner: Owner) -> bool {
    let mark = mark(owner, writer.next());
    let Some(place) = recorder.place(writer).or_else(|| recorder.place_in_next(writer, owner, LANE, 7)) else {
        recorder.count_dropped(LANE);
        return false;
    };
    place[record::ENTERED].store(mark, RELAXED);
    place[record::DETAIL].store(mark, RELAXED);
    recorder.complete(writer);
    true
}

/// A shape for writers whose cursors are in the entries of so many threads.
fn shape_of_threads(threads: usize, work: usize, records: usize) -> Shape {
    Shape { threads, ..shape(work, records) }
}

/// The writer of the thread with this owner's entry, where the recording has one; else one that keeps its cursor to itself.
fn writer_of(recorder: &'static Recorder<'static>, owner: Owner) -> SegmentWriter<'static> {
    let index = owner.number - 1;
    recorder
        .thread_entry(index as usize)
        .map_or_else(SegmentWriter::default, |entry| SegmentWriter::of_thread(entry, index))
}

/// Reads all that is there, and checks each record; returns how many there are.
fn read(recorder: &Recorder<'_>) -> u64 {
    let mut count = 0;
    for index in 0..recorder.shape().segment_count() {
        let Some(look) = recorder.look(index) else { continue };
        for number in 0..look.length {
            let Some(words) = recorder.read(&look, number) else { break };
            let expected = mark(look.owner, look.first + u64::from(number));
            assert_eq!((words[record::ENTERED], words[record::DETAIL]), (expected, expected), "{look:?}");
            assert_eq!(look.owner.thread, look.owner.number + 100);
            count += 1;
        }
    }
    count
}

/// Writes so many records as a thread of its own, which then gives its segments up. Returns how many found a place.
fn start_writer(recorder: &'static Recorder<'static>, owner: Owner, records: u32) -> thread::JoinHandle<u64> {
    thread::spawn(move || {
        let writer = writer_of(recorder, owner);
        let written = (0..records).filter(|_| write(recorder, &writer, owner)).count();
        recorder.release(&writer);
        written as u64
    })
}

fn join<T>(handle: thread::JoinHandle<T>) -> T {
    handle.join().unwrap()
}

/// One thread's record, and another thread that takes its segment while a third one reads.
fn take_and_read(recorder: &'static Recorder<'static>) {
    let writer = writer_of(recorder, ONE);
    assert!(write(recorder, &writer, ONE));
    assert_eq!(read(recorder), 1, "also where the head does not count it yet");
    recorder.release(&writer);
    let other = start_writer(recorder, OTHER, 2);
    let reader = thread::spawn(|| read(recorder));
    let written = 1 + join(other);
    join(reader);
    assert_eq!(read(recorder) + recorder.counts(LANE).overwritten, written);
}

#[test]
fn a_record_is_read_whole_or_not_at_all_while_its_segment_is_taken_by_another() {
    in_every_way(3, || take_and_read(recorder!(shape(1, 2))));
}

#[test]
fn a_record_that_a_threads_cursor_counts_is_read_whole_or_not_at_all() {
    in_every_way(3, || take_and_read(recorder!(shape_of_threads(2, 1, 2))));
}

#[test]
fn records_are_read_whole_and_counted_while_a_cursor_moves_to_the_next_segment() {
    in_every_way(2, || {
        let recorder = recorder!(shape_of_threads(1, 2, 1));
        let writer = start_writer(recorder, ONE, 2);
        let reader = thread::spawn(|| read(recorder));
        let written = join(writer);
        join(reader);
        let counts = recorder.counts(LANE);
        assert_eq!((written, counts.released), (2, 2));
        assert_eq!(read(recorder) + counts.overwritten, written);
    });
}

#[test]
fn what_two_writers_take_from_each_other_is_counted_and_can_be_had_again() {
    in_every_way(3, || {
        let recorder = recorder!(shape(2, 1));
        let (one, other) = (start_writer(recorder, ONE, 2), start_writer(recorder, OTHER, 1));
        let written = join(one) + join(other);
        let counts = recorder.counts(LANE);
        assert_eq!(written + counts.dropped, 3);
        assert_eq!(counts.released, written);
        assert_eq!(read(recorder) + counts.overwritten, written);
        assert!(write(recorder, &SegmentWriter::default(), ONE), "what was released can be had");
    });
}

#[test]
fn records_are_read_whole_while_two_writers_take_segments_from_each_other() {
    in_every_way(2, || {
        let recorder = recorder!(shape(1, 1));
        let (one, other) = (start_writer(recorder, ONE, 1), start_writer(recorder, OTHER, 1));
        let reader = thread::spawn(|| read(recorder));
        let written = join(one) + join(other);
        join(reader);
        assert_eq!(read(recorder) + recorder.counts(LANE).overwritten, written);
    });
}

#[test]
fn a_segment_that_is_given_up_is_taken_by_one_and_its_records_are_counted() {
    in_every_way(3, || {
        let recorder = recorder!(shape(1, 1));
        let writer = SegmentWriter::default();
        assert!(write(recorder, &writer, ONE));
        let takers = [OTHER, Owner { number: 3, thread: 103 }].map(|owner| {
            thread::spawn(move || {
                let writer = SegmentWriter::default();
                recorder.place_in_next(&writer, owner, LANE, 7).is_some()
            })
        });
        recorder.release(&writer);
        let taken = takers.map(join).into_iter().filter(|&taken| taken).count();
        assert!(taken <= 1);
        let look = recorder.look(0).unwrap();
        assert_eq!(look.is_current, taken == 1);
        assert_eq!((recorder.counts(LANE).overwritten, u64::from(look.length)), (taken as u64, 1 - taken as u64));
    });
}

#[test]
fn a_follower_is_handed_each_record_once_and_knows_what_it_lost() {
    in_every_way(2, || {
        let recorder = recorder!(shape(2, 1));
        // The heads stay as they are, so that each record is of a call that is known.
        let entry_point = EntryPoint::by_symbol(b"cuLaunchKernel").unwrap();
        for index in 0..2 {
            let at = recorder.shape().segments_at() + index * recorder.shape().segment_words();
            recorder.words()[at + segment::RECORDS + record::HEAD].store(u64::from(entry_point.id()), RELAXED);
        }
        let mut follower = Follower::default();
        let mut handed = BTreeSet::new();
        let mut follow = || {
            let mut last = BTreeMap::new();
            follower.follow(recorder, LANE, &mut |followed| {
                let (owner, mark) = (followed.owner, followed.record.entered);
                assert_eq!(mark, followed.record.to_words()[record::DETAIL]);
                assert_eq!(mark >> 32, u64::from(owner.number));
                assert!(handed.insert(mark), "handed again");
                assert!(last.insert(owner.number, mark) < Some(mark), "out of order");
            });
            (handed.len() as u64, follower.lost(recorder, LANE))
        };
        let writer = SegmentWriter::default();
        assert!(write(recorder, &writer, ONE));
        recorder.release(&writer);
        assert_eq!(follow(), (1, 0));
        let other = start_writer(recorder, OTHER, 2);
        thread::yield_now();
        follow();
        let written = 1 + join(other);
        let (handed, lost) = follow();
        assert_eq!(handed + lost, written);
        assert!(lost <= recorder.counts(LANE).overwritten, "what is there is handed out");
    });
}

// --- a crash ---

/// What a file holds of a new recording of this shape.
fn new_file(shape: Shape) -> Vec<u64> {
    let file = Arc::new(std::sync::Mutex::new(Vec::new()));
    let filled = file.clone();
    in_every_way(2, move || {
        let words = zeros(shape);
        Recorder::new(&words, shape, &ProcessFacts::default()).expect("words for the shape");
        *filled.lock().unwrap() = words.iter().map(|word| word.load(RELAXED)).collect();
    });
    let file = file.lock().unwrap();
    file.clone()
}

#[test]
fn a_crash_at_any_moment_leaves_every_complete_record_or_its_count() {
    const SHAPE: fn() -> Shape = || shape(2, 1);
    let new = new_file(SHAPE());
    in_every_way(2, move || {
        let recorder = recorder!(SHAPE());
        let complete: Arc<[Told; 2]> = Arc::default();
        let threads = [ONE, OTHER].map(|owner| {
            let complete = complete.clone();
            thread::spawn(move || {
                let writer = SegmentWriter::default();
                for _ in 0..3 - owner.number {
                    if write(recorder, &writer, owner) {
                        // In the same moment: `loom` lets others in before what is done to an atomic of its own.
                        complete[owner.number as usize - 1].fetch_add(1, RELAXED);
                    }
                }
                recorder.release(&writer);
            })
        });
        // What comes later is of no interest, and what is read below is what all stores up to here have left: an exchange
        // takes the newest value.
        thread::yield_now();
        loom::skip_branch();
        let complete: u64 = complete.iter().map(|count| count.load(RELAXED)).sum();
        let mut file = new.clone();
        let lane_words = header::LANES..header::LANES + header::LANE_WORDS;
        for at in lane_words.chain(recorder.shape().segments_at()..file.len()) {
            file[at] = recorder.words()[at].fetch_add(0, RELAXED);
        }
        let bytes: Vec<u8> = file.iter().flat_map(|word| word.to_le_bytes()).collect();
        let recording = Recording::open(bytes).unwrap();
        assert_eq!(recording.defects(), []);
        let summary = recording.lanes()[LANE as usize];
        let segments = file[recorder.shape().segments_at()..].chunks(recorder.shape().segment_words());
        let being_taken: u64 = segments
            .filter(|words| words[segment::STATE] & 0xffff_ffff == segment::BEING_TAKEN)
            .map(|words| words[segment::LENGTH])
            .sum();
        let told = summary.present + file[header::LANES + lane::OVERWRITTEN];
        assert!(complete <= told && told <= complete + being_taken, "{complete} {told} {being_taken}");
        let mut present = 0;
        for words in file[recorder.shape().segments_at()..].chunks(recorder.shape().segment_words()) {
            if words[segment::LENGTH] != 0 {
                let who = words[segment::WHO];
                let owner = Owner { number: who as u32, thread: (who >> 32) as u32 };
                let expected = mark(owner, words[segment::FIRST]);
                let at = |word: usize| words[segment::RECORDS + word];
                assert_eq!((at(record::ENTERED), at(record::DETAIL)), (expected, expected));
                present += 1;
            }
        }
        assert_eq!(present, summary.present);
        threads.into_iter().for_each(join);
    });
}

#[test]
fn a_crash_at_any_moment_leaves_every_record_that_a_cursor_has_passed() {
    const SHAPE: fn() -> Shape = || shape_of_threads(1, 2, 1);
    let new = new_file(SHAPE());
    in_every_way(2, move || {
        let recorder = recorder!(SHAPE());
        let complete: Arc<Told> = Arc::default();
        let counted = complete.clone();
        let calling = thread::spawn(move || {
            let writer = writer_of(recorder, ONE);
            for _ in 0..3 {
                if write(recorder, &writer, ONE) {
                    counted.fetch_add(1, RELAXED);
                }
            }
            recorder.release(&writer);
        });
        // See above.
        thread::yield_now();
        loom::skip_branch();
        let complete = complete.load(RELAXED);
        let mut file = new.clone();
        let lane_words = header::LANES..header::LANES + header::LANE_WORDS;
        for at in lane_words.chain(recorder.shape().threads_at()..file.len()) {
            file[at] = recorder.words()[at].fetch_add(0, RELAXED);
        }
        let bytes: Vec<u8> = file.iter().flat_map(|word| word.to_le_bytes()).collect();
        let recording = Recording::open(bytes).unwrap();
        assert_eq!(recording.defects(), []);
        let overtaken = file[header::LANES + lane::OVERWRITTEN];
        let told = recording.lanes()[LANE as usize].present + overtaken;
        assert!(complete <= told && told <= 3 + overtaken.min(1), "{complete} {told}");
        join(calling);
    });
}

// --- calls in progress ---

/// A shape with so many segments of each lane, which hold this many records, and room for one thread.
fn shape_with_thread(segments: [usize; 3], records: usize) -> Shape {
    Shape { threads: 1, segments, ..shape(0, records) }
}

/// The call of this number up to its mark. Every fact of the call holds the number.
fn begin(slot: &ThreadSlot, symbol: &str, number: u32) -> OpenRecord {
    let entry_point = EntryPoint::by_symbol(symbol.as_bytes()).unwrap();
    let entered = u64::from(number) * 1000;
    let facts = Record { entered, stream: number, function: number, context: number as u16, ..Record::of(entry_point) };
    assert!(slot.enter(Caller { stack: number as usize, ..Caller::default() }));
    let open = slot.open(&facts, entry_point.class());
    slot.mark(&open);
    open
}

/// All of the call.
fn make(tracker: &Tracker, slot: u32, symbol: &str, number: u32) {
    let slot = tracker.thread(slot).unwrap();
    let open = begin(slot, symbol, number);
    let entry_point = EntryPoint::by_symbol(symbol.as_bytes()).unwrap();
    slot.close(open, entry_point.class(), u64::from(number) * 1000 + 1, -1);
    slot.unmark();
    slot.leave();
}

/// Reads the call that the thread is in, and checks that all its facts are of one call.
fn watch(tracker: &Tracker, slot: u32) {
    if let Some(call) = tracker.thread(slot).unwrap().published() {
        let record = &call.record;
        let number = (record.entered / 1000) as u32;
        let told = (record.stream, record.function, u32::from(record.context), call.frame as u32, call.serial as u32);
        assert_eq!(told, (number, number, number, number, number), "{call:?}");
        assert_eq!(record.entered % 1000, 0);
        assert_eq!(call.thread, 101);
    }
}

/// A thread that makes these calls, and one that watches it.
fn make_and_watch(tracker: &'static Tracker, symbols: [&'static str; 2]) {
    let slot = tracker.begin_thread(101, 5).unwrap();
    let calling = thread::spawn(move || {
        for (symbol, number) in symbols.into_iter().zip(1..) {
            make(tracker, slot, symbol, number);
        }
    });
    let watching = thread::spawn(move || watch(tracker, slot));
    join(calling);
    join(watching);
    assert_eq!(tracker.thread(slot).unwrap().published(), None);
}

#[test]
fn a_call_is_told_without_anything_of_the_next_one_in_its_segment() {
    in_every_way(1, || make_and_watch(tracker!(shape_with_thread([0, 1, 0], 2)), ["cuStreamSynchronize"; 2]));
}

#[test]
fn a_call_is_told_without_anything_of_the_next_one_in_another_segment() {
    in_every_way(1, || make_and_watch(tracker!(shape_with_thread([0, 2, 0], 1)), ["cuStreamSynchronize"; 2]));
}

#[test]
fn a_call_is_told_without_anything_of_the_next_one_at_the_cursor() {
    in_every_way(1, || make_and_watch(tracker!(shape_with_thread([1, 0, 0], 2)), ["cuMemcpyHtoDAsync_v2"; 2]));
}

#[test]
fn a_call_is_told_without_anything_of_the_next_one_at_the_cursor_in_another_segment() {
    in_every_way(1, || make_and_watch(tracker!(shape_with_thread([2, 0, 0], 1)), ["cuMemcpyHtoDAsync_v2"; 2]));
}

#[test]
fn a_call_is_told_without_anything_of_the_next_one_in_another_lane() {
    let symbols = ["cuMemAlloc_v2", "cuStreamSynchronize"];
    in_every_way(1, move || make_and_watch(tracker!(shape_with_thread([0, 1, 1], 1)), symbols));
}

#[test]
fn a_call_is_told_without_anything_of_the_next_one_where_the_first_leaves_no_record() {
    in_every_way(1, || make_and_watch(tracker!(shape_with_thread([0, 0, 1], 1)), ["cuMemFree_v2"; 2]));
}

#[test]
fn a_call_is_told_without_anything_of_the_next_one_where_there_is_no_segment() {
    in_every_way(1, || make_and_watch(tracker!(shape_with_thread([0, 0, 0], 1)), ["cuMemFree_v2"; 2]));
}

#[test]
fn a_call_is_told_without_anything_of_the_thread_that_has_its_slot_next() {
    in_every_way(2, || {
        let tracker = tracker!(shape_with_thread([0, 0, 0], 1));
        let slot = tracker.begin_thread(101, 5).unwrap();
        let calling = thread::spawn(move || {
            make(tracker, slot, "cuStreamSynchronize", 1);
            tracker.end_thread(slot, 6);
            assert_eq!(tracker.begin_thread(102, 7), Some(slot));
            make(tracker, slot, "cuStreamSynchronize", 2);
        });
        thread::yield_now();
        if let Some(call) = tracker.thread(slot).unwrap().published() {
            let record = &call.record;
            let number = (record.entered / 1000) as u32;
            let context = u32::from(record.context);
            let told = (record.stream, record.function, context, call.frame as u32, call.thread, call.serial);
            assert_eq!(told, (number, number, number, number, 100 + number, 1), "{call:?}");
        }
        join(calling);
    });
}

#[test]
fn a_call_that_was_let_through_before_the_gate_closed_is_told_to_who_closed_it() {
    in_every_way(1, || {
        let tracker = tracker!(shape_with_thread([0, 0, 0], 1));
        let slot = tracker.begin_thread(101, 5).unwrap();
        let gate = Arc::new(AtomicU64::new(0));
        let seen = gate.clone();
        let calling = thread::spawn(move || {
            make(tracker, slot, "cuMemFree_v2", 1);
            begin(tracker.thread(slot).unwrap(), "cuMemFree_v2", 2);
            fence(Ordering::SeqCst);
            seen.load(RELAXED) == 0
        });
        let closing = thread::spawn(move || {
            gate.store(1, RELAXED);
            fence(Ordering::SeqCst);
            tracker.thread(slot).unwrap().published().is_some()
        });
        let let_through = join(calling);
        assert!(join(closing) || !let_through);
    });
}

#[test]
fn a_call_that_has_returned_is_read_with_its_answer() {
    in_every_way(1, || {
        let tracker = tracker!(shape_with_thread([0, 1, 0], 1));
        let slot = tracker.begin_thread(101, 5).unwrap();
        let calling = thread::spawn(move || make(tracker, slot, "cuStreamSynchronize", 1));
        thread::yield_now();
        if let Some(look) = tracker.recorder().look(0).filter(|look| look.length != 0) {
            let words = tracker.recorder().read(&look, 0).unwrap();
            let record = Record::from_words(&words).unwrap();
            assert_eq!((record.entered, record.returned, record.result, record.stream), (1000, 1001, -1, 1));
        }
        join(calling);
    });
}

// --- texts ---

// --- launches that are folded later ---

const STREAM: StreamKey = StreamKey { handle: 0x200, context: 0, thread: 0 };

/// A launch on the fast path at this time, if the thread has a segment with room; it calls `inside` while it is in progress.
fn launch(tracker: &Tracker, slot: u32, at: u64, inside: impl FnOnce()) -> bool {
    let slot = tracker.thread(slot).unwrap();
    let now: fn() -> u64 = if at == 10 { || 10 } else { || 20 };
    let facts = SubmissionFacts::of(
        EntryPoint::by_symbol(b"cuLaunchKernel").unwrap(),
        0xf0,
        STREAM.handle,
        RawPayload::default(),
    );
    let Some(launch) =
        begin_fast(slot, facts, || Caller { stack: 1, ..Caller::default() }, |_| Some(0), tracker.epoch(), now)
    else {
        return false;
    };
    launch.submit(true);
    inside();
    launch.end(at + 1, 0, u64::MAX);
    true
}

/// A thread that may launch on a stream, with a segment that has a record.
fn able_to_launch(tracker: &Tracker) -> u32 {
    let number = about_to_be_able(tracker, 101);
    becomes_able(tracker, number);
    number
}

/// From now on the slow path lets the thread launch on the stream by the fast one.
fn becomes_able(tracker: &Tracker, number: u32) {
    let (stream, context) = (tracker.known_stream(STREAM).unwrap(), tracker.known_context(0xc0).unwrap());
    tracker.thread(number).unwrap().remember_stream(
        tracker.epoch(),
        &Known { stream: STREAM.handle, number: stream, context, default_stream: false },
    );
}

/// The same thread before that.
fn about_to_be_able(tracker: &Tracker, thread: u32) -> u32 {
    let context = tracker.context(0xc0, 1);
    tracker.stream(STREAM, context, StreamKind::NonBlocking, 1);
    let number = tracker.begin_thread(thread, 5).unwrap();
    let slot = tracker.thread(number).unwrap();
    slot.cache_loaded_function(0xf0, context, tracker.epoch(), 1);
    slot.push(
        &Record { entered: 6, returned: 6, ..Record::of(EntryPoint::by_symbol(b"cuMemcpyHtoDAsync_v2").unwrap()) },
        LANE,
    );
    number
}

/// A shape with a stream and a context as well.
fn shape_with_stream(segments: [usize; 3], records: usize) -> Shape {
    Shape { contexts: 1, streams: 1, ..shape_with_thread(segments, records) }
}

#[test]
fn each_launch_is_folded_once_whoever_folds_while_it_is_made() {
    in_every_way(1, || {
        let tracker = tracker!(shape_with_stream([2, 0, 0], 3));
        let slot = able_to_launch(tracker);
        let folding = thread::spawn(move || tracker.fold());
        assert!(launch(tracker, slot, 10, || {}) && launch(tracker, slot, 20, || {}));
        tracker.thread(slot).unwrap().fold_launches();
        join(folding);
        // Whichever of the two has found the other in its turn.
        assert!(tracker.fold());
        let stream = tracker.stream_entry(tracker.known_stream(STREAM).unwrap()).unwrap();
        assert_eq!((stream.submitted_count(), stream.last_submitted(), stream.outstanding_count(0)), (2, 21, 2));
        assert_eq!(stream.oldest(0).map(|op| op.at), Some(10));
    });
}

#[test]
fn a_launch_is_folded_once_where_its_segment_is_left_while_another_thread_folds() {
    in_every_way(1, || {
        let tracker = tracker!(shape_with_stream([2, 0, 0], 2));
        let slot = able_to_launch(tracker);
        let folding = thread::spawn(move || _ = tracker.fold());
        assert!(launch(tracker, slot, 10, || {}), "the segment has room for this one");
        // A record that has no room there.
        let submits = Record { entered: 12, ..Record::of(EntryPoint::by_symbol(b"cuMemcpyHtoDAsync_v2").unwrap()) };
        tracker.thread(slot).unwrap().push(&submits, LANE);
        // If the other thread kept the turn, the segment is full still, and the record dropped.
        let is_left = tracker.recorder().counts(LANE).dropped == 0;
        assert_eq!(launch(tracker, slot, 20, || {}), is_left);
        join(folding);
        assert!(tracker.fold());
        let stream = tracker.stream_entry(tracker.known_stream(STREAM).unwrap()).unwrap();
        let expected = if is_left { (2, 21) } else { (1, 11) };
        assert_eq!((stream.submitted_count(), stream.last_submitted()), expected);
    });
}

#[test]
fn who_finds_a_launch_folded_by_another_thread_finds_its_stream_busy() {
    in_every_way(2, || {
        let tracker = tracker!(shape_with_stream([2, 0, 0], 2));
        let slot = able_to_launch(tracker);
        assert!(launch(tracker, slot, 10, || {}), "the segment has room for this one, and for none behind it");
        let asking = thread::spawn(move || !tracker.in_flight(0).is_empty());
        tracker.thread(slot).unwrap().fold_launches();
        assert!(join(asking), "the launch had returned before");
    });
}

/// The gate's protocol, as above, with a launch of which nothing but its record tells; of a thread that has been able to launch by the fast path
/// before the gate was closed, or is so from its launch on.
fn a_launch_against_the_gate(was_able: bool) {
    in_every_way(2, move || {
        let tracker = tracker!(shape_with_stream([1, 0, 0], 3));
        let slot = if was_able { able_to_launch(tracker) } else { about_to_be_able(tracker, 101) };
        let gate = Arc::new(AtomicU64::new(0));
        let closed = gate.clone();
        let closing = thread::spawn(move || {
            closed.store(1, RELAXED);
            fence(Ordering::SeqCst);
            !tracker.in_flight(0).is_empty()
        });
        if !was_able {
            becomes_able(tracker, slot);
        }
        let mut let_through = false;
        launch(tracker, slot, 10, || {
            fence(Ordering::SeqCst);
            let_through = gate.load(RELAXED) == 0;
        });
        assert!(
            join(closing) || !let_through,
            "a launch was let through, and the thread that closed the gate found none"
        );
    });
}

#[test]
fn who_has_closed_the_gate_finds_the_stream_of_a_launch_busy() {
    a_launch_against_the_gate(true);
}

#[test]
fn who_has_closed_the_gate_looks_at_a_thread_that_launches_for_the_first_time() {
    a_launch_against_the_gate(false);
}

#[test]
fn a_question_about_a_stream_finds_all_threads_that_begin_to_launch_there_at_once() {
    in_every_way(2, || {
        let tracker = tracker!(Shape { threads: 2, ..shape_with_stream([2, 0, 0], 3) });
        let [one, other] = [101, 102].map(|thread| about_to_be_able(tracker, thread));
        let launching = thread::spawn(move || {
            becomes_able(tracker, other);
            assert!(launch(tracker, other, 20, || {}));
        });
        becomes_able(tracker, one);
        assert!(launch(tracker, one, 10, || {}));
        join(launching);
        let stream = tracker.known_stream(STREAM).unwrap();
        assert!(tracker.fold_of(stream));
        assert_eq!(tracker.stream_entry(stream).unwrap().submitted_count(), 2);
    });
}

/// The thread that asks has left a fold of the slot by a jump, and comes back while the slot's thread launches and another thread asks.
fn left_by_a_jump(is_done: bool) {
    in_every_way(1, move || {
        let tracker = tracker!(shape_with_stream([2, 0, 0], 3));
        let slot = able_to_launch(tracker);
        assert!(launch(tracker, slot, 10, || {}));
        let jumping = tracker.begin_thread(102, 5).unwrap();
        tracker.jump_out_of_a_fold(slot, jumping, is_done);
        let asking = thread::spawn(move || !tracker.in_flight(0).is_empty());
        let coming_back = thread::spawn(move || tracker.abandon(tracker.thread(jumping).unwrap(), 30));
        assert!(launch(tracker, slot, 20, || {}));
        tracker.thread(slot).unwrap().fold_launches();
        assert!(join(asking), "the first launch had returned before");
        join(coming_back);
        assert!(tracker.fold());
        let stream = tracker.stream_entry(tracker.known_stream(STREAM).unwrap()).unwrap();
        assert_eq!((stream.last_submitted(), stream.oldest(0).map(|op| op.at)), (21, Some(10)));
        assert_eq!(stream.submitted_count(), 2 + u64::from(is_done), "the first one twice, if it was all but counted");
    });
}

#[test]
fn a_fold_that_was_left_before_its_first_record_is_made_again() {
    left_by_a_jump(false);
}

#[test]
fn a_fold_that_was_left_before_it_was_counted_is_made_again() {
    left_by_a_jump(true);
}

#[test]
fn a_text_that_counts_is_all_there() {
    in_every_way(1, || {
        let recorder = recorder!(Shape { text_bytes: 64, ..shape(0, 1) });
        let adding = thread::spawn(|| recorder.add_note(9, "note"));
        thread::yield_now();
        let used = recorder.words()[header::TEXTS_USED].load(Ordering::Acquire) as usize;
        let at = recorder.shape().texts_at();
        let words: Vec<_> = recorder.words()[at..at + used / WORD].iter().map(|word| word.load(RELAXED)).collect();
        assert!(words.is_empty() || words == [5 | 32 << 32, 9, 4, u64::from_le_bytes(*b"note\0\0\0\0")], "{words:x?}");
        join(adding);
    });
}
