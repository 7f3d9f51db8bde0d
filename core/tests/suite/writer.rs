//! What the writer writes is what the reader reads.

use crate::support::check::check;
use crate::support::written::{bytes, facts, make, process_facts, tracker, world_of, written};
use lazyguard_core::state::{FunctionKind, Tracker};
use lazyguard_core::trace::layout::{flag, record, Shape};
use lazyguard_core::trace::read::{Entry, LiveRecording, Recording, Source};
use lazyguard_core::trace::{Follower, Kind, Lane, ProcessFacts, RawPayload, Record, Recorder, StartFacts};
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// Calls of each thread. Miri takes a thousand times as long.
const CALLS: u64 = if cfg!(miri) { 100 } else { 3000 };
const SHAPE: Shape = Shape { threads: 8, contexts: 2, streams: 2, text_bytes: 512, segments: [12, 4, 4], records: 16 };

fn extent(record: &Record) -> u64 {
    record.to_words()[record::EXTENT]
}

#[test]
fn a_short_run_is_read_as_it_went() {
    let bytes = written();
    check(&bytes);
    let recording = Recording::open(bytes).expect("a recording");
    assert_eq!(recording.defects(), []);
    let launches: Vec<_> = recording
        .records()
        .filter(|entry| entry.record.entry_point.symbol() == "cuLaunchKernel")
        .map(|entry| (entry.number, extent(&entry.record), entry.record.entered))
        .collect();
    // Four segments of eight; the first was overwritten by the one that the thread is in, or by the other thread's.
    let first = launches.first().map_or(0, |launch| launch.0);
    assert!(first > 0 && first % 8 == 0, "{launches:?}");
    // The last one took the fast path.
    let made = (first..30).map(|n| (n, n, 10_000 + n * 2_000)).chain([(30, 0, 96_000)]);
    assert_eq!(launches, made.collect::<Vec<_>>());
    let [stream] = recording.streams() else { panic!("{:?}", recording.streams()) };
    let newest = stream.work.recent.back().map(|op| op.at);
    assert_eq!(
        (stream.work.submissions.count, stream.work.submissions.last, newest),
        (1, 96_500, Some(96_000)),
        "the reader folds it"
    );
    let queries: Vec<_> = recording
        .records()
        .filter(|entry| entry.record.kind == Kind::Queries)
        .map(|entry| (entry.record.result, extent(&entry.record), entry.record.entered, entry.record.returned))
        .collect();
    assert_eq!(queries, [(600, 4, 80_000, 87_000), (0, 1, 88_000, 89_000)]);
    let summary = recording.lanes()[Lane::Work as usize];
    assert_eq!((summary.written(), summary.dropped), (34, 0));
    let [main, worker, caller] = recording.threads() else { panic!("{:?}", recording.threads()) };
    let call = main.call_in_progress.map(|call| (call.entry_point.symbol(), call.entered, call.stream));
    assert_eq!(call, Some(("cuStreamSynchronize", 110_000, 1)));
    assert_eq!((main.name.as_str(), main.calls, main.launches, worker.ended), ("main", 33, 31, 94_000));
    let outer = caller.call_in_progress.map(|call| (call.entry_point.symbol(), call.kind, call.entered));
    assert_eq!(outer, Some(("ncclAllReduce", Kind::Communication, 94_300)));
    let [communicator] = recording.communicators() else { panic!("{:?}", recording.communicators()) };
    assert_eq!((communicator.rank, communicator.collectives, communicator.last), (Some((3, 8)), 1, 94_300));
    assert_eq!(
        recording.strings().communicators.newest(communicator.number, 94_300).map(AsRef::as_ref),
        Some("data_parallel")
    );
    let function = recording.strings().function(1, 10_000).expect("the function");
    assert_eq!((function.name, function.owner), (Some("_Z6kernelPf"), 0xb001));
}

#[test]
fn a_call_in_which_its_thread_was_cancelled_has_a_record() {
    let tracker = tracker(SHAPE);
    let number = tracker.begin_thread(101, 1).expect("a slot");
    let slot = tracker.thread(number).expect("a thread");
    make(tracker, number, &facts("cuLaunchKernel", 10), 0);
    slot.count_launch();
    let facts = facts("cuLaunchKernel", 2_000);
    let open = slot.open(&facts, facts.entry_point.class());
    slot.mark(&open);
    tracker.end_thread(number, 5_000);
    let recording = Recording::open(bytes(tracker)).expect("a recording");
    assert_eq!(recording.defects(), []);
    let found: Vec<_> =
        recording.records().map(|e| (e.record.flags & flag::LEFT, e.record.entered, e.record.returned)).collect();
    assert_eq!(found, [(0, 10, 1_010), (flag::LEFT, 2_000, 5_000)]);
    assert!(recording.threads()[0].call_in_progress.is_none());
}

/// A recording that has room for the first segments only, until the rest is opened.
#[test]
fn no_segment_is_taken_before_it_is_open() {
    let tracker = tracker(SHAPE);
    let recorder = tracker.recorder();
    recorder.limit(2);
    let number = tracker.begin_thread(101, 1).expect("a slot");
    let records = SHAPE.records as u64;
    let used = || {
        let (begin, count) = recorder.segments_of(Lane::Work);
        (begin..begin + count).filter(|&index| recorder.look(index).is_some()).count()
    };
    let calls = |from: u64, count: u64| {
        (from..from + count).for_each(|n| make(tracker, number, &facts("cuLaunchKernel", n * 10), 0));
    };
    calls(1, records * 5);
    assert_eq!((used(), recorder.counts(Lane::Work).dropped), (2, 0));
    // Up to the end of the third segment; those that are open stay so.
    recorder.open_up_to(0);
    recorder.open_up_to(SHAPE.segments_at() + 3 * SHAPE.segment_words() + 1);
    calls(200, records * 5);
    assert_eq!(used(), 3);
    recorder.open_up_to(SHAPE.words());
    calls(400, records * 20);
    assert_eq!((used(), recorder.counts(Lane::Work).dropped), (12, 0));
    let recording = Recording::open(bytes(tracker)).expect("a recording");
    assert_eq!(recording.defects(), []);
    let kept = recording.records().filter(|entry| entry.record.entry_point.symbol() == "cuLaunchKernel").count();
    assert!(kept as u64 > records * 11, "{kept}");
    // With one segment each, a second thread finds none, until there are more.
    let narrow = world_of(SHAPE, &process_facts());
    narrow.recorder().limit(1);
    let [first, second] = [201, 202].map(|thread| narrow.begin_thread(thread, 1).expect("a slot"));
    make(narrow, first, &facts("cuLaunchKernel", 10), 0);
    make(narrow, second, &facts("cuLaunchKernel", 20), 0);
    assert_eq!(narrow.recorder().counts(Lane::Work).dropped, 1);
    narrow.recorder().open_up_to(SHAPE.words());
    make(narrow, second, &facts("cuLaunchKernel", 30), 0);
    assert_eq!(narrow.recorder().counts(Lane::Work).dropped, 1);
}

/// A page without room is not to be looked at: what lies in a closed segment, here a copy of another one, is seen by none.
#[test]
fn what_is_closed_is_not_looked_at_and_what_is_open_is_followed() {
    let tracker = tracker(SHAPE);
    let recorder = tracker.recorder();
    recorder.limit(2);
    let number = tracker.begin_thread(101, 1).expect("a slot");
    let records = SHAPE.records as u64;
    let mut follower = Follower::default();
    let mut followed = 0;
    let mut follow = || {
        follower.follow(recorder, Lane::Work, &mut |_| followed += 1);
        (followed, follower.lost(recorder, Lane::Work))
    };
    // Several rounds through the open ones, with a look at each of them.
    make(tracker, number, &facts("cuLaunchKernel", 5), 0);
    let mut made = 1;
    assert_eq!(follow(), (made, 0));
    for word in recorder.closed().into_iter().flatten() {
        let like = SHAPE.segments_at() + (word - SHAPE.segments_at()) % SHAPE.segment_words();
        recorder.words()[word].store(recorder.words()[like].load(Ordering::Relaxed), Ordering::Relaxed);
    }
    for n in 1..=records * 5 {
        make(tracker, number, &facts("cuLaunchKernel", n * 10), 0);
        made += 1;
        assert_eq!(follow(), (made, 0), "{n}");
    }
    let live = |recorder: &Recorder<'_>| {
        let recording = Recording::open(recorder).expect("a recording");
        assert_eq!(recording.defects(), []);
        recording.records().filter(|entry| entry.record.entry_point.symbol() == "cuLaunchKernel").count() as u64
    };
    assert_eq!(live(recorder), records + made % records);
    // The room has come: it is zero.
    for word in recorder.closed().into_iter().flatten() {
        recorder.words()[word].store(0, Ordering::Relaxed);
    }
    recorder.open_up_to(SHAPE.words());
    for n in 500..500 + records * 30 {
        make(tracker, number, &facts("cuLaunchKernel", n * 10), 0);
        made += 1;
        assert_eq!(follow(), (made, 0), "{n}");
    }
    assert_eq!(live(recorder), records * 11 + made % records);
}

/// The calls of a thread. Each field of a record identifies it, so that a mixture of two would show.
fn calls_of(tracker: &Tracker, thread: u64, numbers: impl Iterator<Item = u64>) {
    let number = tracker.begin_thread(thread as u32 + 100, 1).expect("a slot");
    for n in numbers {
        let symbol = if n % 10 == 9 { "cuStreamSynchronize" } else { "cuLaunchKernel" };
        let mark = thread << 32 | n;
        let facts = facts(symbol, n * 2_000 + thread);
        make(tracker, number, &Record { caller: mark, raw: RawPayload::memory(mark, mark), ..facts }, 0);
    }
    if thread.is_multiple_of(2) {
        tracker.end_thread(number, u64::MAX);
    }
}

/// A record that [`calls_of`] made is as it was made.
fn whole(entry: &Entry) {
    let Record { entered, returned, caller: mark, .. } = entry.record;
    let thread = mark >> 32;
    assert_eq!((mark, mark), (extent(&entry.record), entry.record.to_words()[record::DETAIL]), "{entry:?}");
    assert_eq!(thread + 100, u64::from(entry.thread), "{entry:?}");
    assert_eq!((entered, returned), ((mark & 0xffff_ffff) * 2_000 + thread, entered + 1000), "{entry:?}");
}

#[test]
fn of_threads_that_record_at_once_each_record_is_there_or_counted() {
    const THREADS: u64 = 6;
    let tracker = tracker(SHAPE);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || calls_of(tracker, thread, 0..CALLS));
        }
    });
    let bytes = bytes(tracker);
    check(&bytes);
    let recording = Recording::open(bytes).expect("a recording");
    assert_eq!(recording.defects(), []);
    let [work, waits, rare_events] = recording.lanes();
    assert_eq!(work.written() + work.dropped, THREADS * CALLS / 10 * 9);
    assert_eq!(waits.written() + waits.dropped, THREADS * CALLS / 10);
    assert_eq!(rare_events.written() + rare_events.dropped, 0);
    let mut last = BTreeMap::new();
    for entry in recording.records() {
        whole(&entry);
        let one = (entry.number, extent(&entry.record));
        if let Some(former) = last.insert((entry.thread_number, entry.lane), one) {
            assert!(former.0 < one.0 && former.1 < one.1);
        }
    }
}

/// The memory of a recording that is being written.
#[derive(Clone, Copy)]
struct Memory(&'static [AtomicU64]);

impl Source for Memory {
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64 * 8)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let words = self.0.get(offset as usize / 8..).unwrap_or_default();
        let chunks = buffer.chunks_exact_mut(8).zip(words);
        // Acquire: in order, as a processor reads that keeps the order of its loads.
        Ok(chunks.map(|(chunk, word)| chunk.copy_from_slice(&word.load(Ordering::Acquire).to_le_bytes())).count() * 8)
    }
}

#[test]
fn a_recording_that_is_read_while_it_is_written_shows_no_record_in_part() {
    const THREADS: u64 = 3;
    const READS: usize = if cfg!(miri) { 3 } else { 100 };
    let tracker = tracker(SHAPE);
    let memory = Memory(tracker.recorder().words());
    let done = AtomicBool::new(false);
    let mut seen = 0;
    std::thread::scope(|scope| {
        let done = &done;
        let numbers = move || (0..).take_while(move |_| !done.load(Ordering::Relaxed));
        for thread in 0..THREADS {
            scope.spawn(move || calls_of(tracker, thread, numbers()));
        }
        // However the reading ends, the writing does too.
        let _stop = Stop(done);
        let (mut reads, begin) = (0, Instant::now());
        while reads < READS || seen == 0 && begin.elapsed().as_secs() < 20 {
            reads += 1;
            let recording = Recording::open(memory).expect("a recording");
            for entry in recording.records() {
                whole(&entry);
                seen += 1;
            }
            for thread in recording.threads() {
                if let Some(call) = thread.call_in_progress {
                    assert_eq!((call.caller >> 32) + 100, u64::from(thread.thread), "{thread:?}");
                    assert_eq!((extent(&call), call.returned), (call.caller, 0), "{thread:?}");
                }
            }
        }
    });
    assert!(seen > 0, "nothing was read while it was written");
}

/// The times of the records of a lane that are new.
fn news<S: Source>(live: &mut LiveRecording<S>, lane: Lane, most: u64) -> Vec<u64> {
    let mut times = Vec::new();
    live.refresh().expect("a recording");
    live.news(lane, most, &mut |_, entry| times.push(entry.record.entered));
    times
}

#[test]
fn of_a_recording_that_grows_each_record_is_new_once_and_each_text() {
    let tracker = tracker(SHAPE);
    let mut live = LiveRecording::open(Memory(tracker.recorder().words())).expect("a recording");
    assert!(news(&mut live, Lane::Work, u64::MAX).is_empty());
    let number = tracker.begin_thread(101, 1).expect("a slot");
    let launch = |at| make(tracker, number, &facts("cuLaunchKernel", at), 0);
    (1..4).for_each(launch);
    make(tracker, number, &facts("cuStreamSynchronize", 5), 0);
    assert_eq!(news(&mut live, Lane::Work, u64::MAX), [1, 2, 3]);
    assert!(news(&mut live, Lane::Work, u64::MAX).is_empty());
    assert_eq!(news(&mut live, Lane::Waits, 1), [5]);
    let function = tracker.function(0xf001, FunctionKind::Kernel, 0xb001);
    tracker.name_function(function, "_Z6kernelPf");
    tracker.introduce_function(function, 6);
    // Into the next segment.
    (10..30).for_each(launch);
    assert_eq!(news(&mut live, Lane::Work, u64::MAX), (10..30).collect::<Vec<_>>());
    assert_eq!(live.tables.strings().function(function, 7).and_then(|function| function.name), Some("_Z6kernelPf"));
    assert_eq!(live.tables.threads()[0].calls, 24);
    // More than there is room for: what was overwritten before it was looked at is counted.
    (1_000..2_000).for_each(launch);
    let found = news(&mut live, Lane::Work, u64::MAX);
    assert_eq!(found.last(), Some(&1_999));
    assert_eq!(found.len() as u64 + live.lost(Lane::Work), 1_000);
    (2_000..2_100).for_each(launch);
    let found = news(&mut live, Lane::Work, 2);
    assert!((1..=32).contains(&found.len()) && found.last() == Some(&2_099), "{found:?}");
}

#[test]
fn what_is_new_is_whole_while_threads_write_and_all_of_it_is_handed_out_or_lost() {
    const THREADS: u64 = 3;
    let tracker = tracker(SHAPE);
    let mut live = LiveRecording::open(Memory(tracker.recorder().words())).expect("a recording");
    let mut count = 0;
    let mut look = |live: &mut LiveRecording<Memory>| {
        let mut last = BTreeMap::new();
        live.refresh().expect("a recording");
        live.news(Lane::Work, u64::MAX, &mut |_, entry| {
            whole(entry);
            count += 1;
            if let Some(former) = last.insert(entry.thread_number, entry.number) {
                assert!(former < entry.number, "{former} before {entry:?}");
            }
        });
    };
    std::thread::scope(|scope| {
        let writers: Vec<_> =
            (0..THREADS).map(|thread| scope.spawn(move || calls_of(tracker, thread, 0..CALLS))).collect();
        while !writers.iter().all(|writer| writer.is_finished()) {
            look(&mut live);
        }
    });
    look(&mut live);
    let dropped = live.tables.lanes()[Lane::Work as usize].dropped;
    assert_eq!(count + live.lost(Lane::Work) + dropped, THREADS * CALLS / 10 * 9);
}

/// Says so when it goes.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn how_the_process_came_to_be_guarded_is_read_as_it_was_written() {
    let start = StartFacts {
        loaded: 5_000,
        init_entered: 6_000,
        init_returned: 7_000,
        before_loaded_micros: 3,
        arming_micros: 0,
    };
    let tracker = world_of(SHAPE, &ProcessFacts { start, ..process_facts() });
    let read = || Recording::open(bytes(tracker)).expect("a recording").facts().start;
    assert_eq!(read(), start);
    tracker.recorder().armed_after(u32::MAX);
    assert_eq!(read(), StartFacts { arming_micros: u32::MAX, ..start });
}
