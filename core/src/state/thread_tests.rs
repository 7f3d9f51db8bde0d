use super::*;
use crate::state::OpenRecord;
use crate::state::Tracker;
use crate::trace::{Kind, Record, SLOW_NANOS};
use crate::trace::{Payload, RawPayload};

fn slot() -> ThreadSlot {
    let tracker: &'static Tracker = Box::leak(Box::default());
    slot_over(tracker.recorder())
}

fn slot_over(recorder: &'static Recorder<'static>) -> ThreadSlot {
    let slot = ThreadSlot::over(recorder, recorder.thread_entry(0).unwrap(), 1, Arc::new(Launchers::new(0)));
    assert!(slot.begin(1, 42, 5));
    slot
}

fn facts(symbol: &[u8], entered: Nanos, stream: u32) -> Record {
    let entry_point = EntryPoint::by_symbol(symbol).unwrap();
    let (kind, queries) = Kind::of_call(entry_point.class());
    let raw = RawPayload::default().with_queries(queries);
    Record { kind, raw, context: 1, stream, function: 3, entered, ..Record::of(entry_point) }
}

fn open(slot: &ThreadSlot, symbol: &[u8], entered: Nanos, stream: u32) -> OpenRecord {
    let facts = facts(symbol, entered, stream);
    let open = slot.open(&facts, facts.entry_point.class());
    slot.mark(&open);
    open
}

fn close(slot: &ThreadSlot, open: &OpenRecord, returned: Nanos, result: i32) -> bool {
    let id = open.place[record::HEAD].load(Ordering::Relaxed) as u16;
    let kept = slot.close(*open, EntryPoint::by_id(id).unwrap().class(), returned, result);
    slot.unmark();
    kept
}

/// The complete records of the slot's current segment in a lane.
fn records(slot: &ThreadSlot, lane: Lane) -> Vec<Record> {
    let mut found: Vec<_> = slot
        .recorder
        .newest(&slot.writers[lane as usize], 100)
        .map(|place| Record::from_words(&place.each_ref().map(|w| w.load(Ordering::Relaxed))).unwrap())
        .collect();
    found.reverse();
    found
}

#[test]
fn a_call_is_visible_from_mark_to_close_with_its_facts() {
    let slot = slot();
    assert_eq!(slot.published(), None);
    let facts = facts(b"cuStreamSynchronize", 100, 2);
    let open = slot.open(&facts, facts.entry_point.class());
    assert_eq!(slot.published(), None);
    slot.mark(&open);
    let call = slot.published().unwrap();
    assert_eq!((call.thread, call.record.entry_point, call.record.entered), (42, facts.entry_point, 100));
    assert_eq!(
        (call.record.context, call.record.stream, call.record.function, call.record.kind),
        (1, 2, 3, Kind::Call)
    );
    assert!(slot.close(open, facts.entry_point.class(), 200, -3));
    assert_eq!(slot.published(), None, "it has returned, whatever its mark says");
    slot.unmark();
    let expect = Record { returned: 200, result: -3, ..facts };
    assert_eq!(records(&slot, Lane::Waits), [expect]);
    assert_eq!(slot.counts(), (1, 0));
}

#[test]
fn a_call_inside_a_call_is_told_apart() {
    let slot = slot();
    let at = |stack| Caller { stack, ..Caller::default() };
    assert!(slot.enter(at(0x7000)));
    assert!(!slot.enter(at(0x6f00)), "further in");
    assert!(!slot.abandoned(at(0x6f00)));
    assert!(slot.abandoned(at(0x7100)), "an exception went through the call");
    let open = open(&slot, b"cuLaunchKernel", 10, 1);
    let _ = open;
    slot.abandon(30);
    assert_eq!(slot.published(), None);
    let [left] = records(&slot, Lane::Work)[..] else { panic!() };
    assert_eq!((left.flags & flag::LEFT, left.returned), (flag::LEFT, 30));
    assert!(slot.enter(at(0x7000)));
}

#[test]
fn quick_calls_that_say_nothing_leave_no_record_and_slow_ones_do() {
    let slot = slot();
    let launch_cache = open(&slot, b"cuMemFree_v2", 10, 0);
    assert!(!close(&slot, &launch_cache, 10 + SLOW_NANOS - 1, 0));
    let slow = open(&slot, b"cuMemFree_v2", 10, 0);
    assert!(close(&slot, &slow, 10 + SLOW_NANOS, 0));
    assert_eq!(records(&slot, Lane::RareEvents).len(), 1);
}

#[test]
fn a_call_of_the_guards_own_shows_while_it_lasts_and_leaves_nothing() {
    let slot = slot();
    let before = slot.counts();
    for question in ["cuEventQuery", "cuFuncLoad"] {
        let facts =
            Record { entered: 10, caller: 0x77, ..Record::of(EntryPoint::by_symbol(question.as_bytes()).unwrap()) };
        let shown = slot.shows(&facts, || slot.published().expect("it is shown"));
        assert_eq!((shown.record.entry_point, shown.record.entered), (facts.entry_point, 10));
        assert_eq!((slot.published(), slot.counts()), (None, before));
    }
    let next = open(&slot, b"cuEventRecord", 20, 1);
    assert!(close(&slot, &next, 21, 0));
    assert_eq!((records(&slot, Lane::Work).len(), records(&slot, Lane::RareEvents).len()), (1, 0));
}

#[test]
fn polling_is_one_record_a_stream_and_answer() {
    let slot = slot();
    let poll = |at, stream, result| {
        let open = open(&slot, b"cuStreamQuery", at, stream);
        close(&slot, &open, at + 1, result);
    };
    for at in 0..500 {
        poll(at * 10, 1, 600);
        poll(at * 10 + 5, 2, 600);
    }
    poll(6000, 1, 0);
    poll(6010, 1, 600);
    let found: Vec<_> =
        records(&slot, Lane::Work).iter().map(|r| (r.payload(), r.stream, r.result, r.entered, r.returned)).collect();
    let queries = |count| Payload::Queries { count, event: 0 };
    assert_eq!(
        found,
        [
            (queries(500), 1, 600, 0, 4991),
            (queries(500), 2, 600, 5, 4996),
            (queries(1), 1, 0, 6000, 6001),
            (queries(1), 1, 600, 6010, 6011)
        ]
    );
}

#[test]
fn what_finds_no_segment_is_dropped_and_counted_and_stays_visible_meanwhile() {
    let tracker: &'static Tracker = Box::leak(Box::default());
    let recorder = tracker.recorder();
    let segments = recorder.segments_of(Lane::Waits).1;
    let writers: Vec<SegmentWriter<'_>> = (0..segments).map(|_| SegmentWriter::default()).collect();
    let somebody = Owner { number: 9, thread: 9 };
    assert!(writers.iter().all(|writer| recorder.place_in_next(writer, somebody, Lane::Waits, 0).is_some()));
    let slot = slot_over(recorder);
    let call = open(&slot, b"cuCtxSynchronize", 100, 0);
    assert_eq!(slot.published().unwrap().record.entered, 100);
    close(&slot, &call, 200, 0);
    assert_eq!(slot.published(), None);
    assert_eq!(recorder.counts(Lane::Waits).dropped, 1);
    recorder.release(&writers[0]);
    let call = open(&slot, b"cuCtxSynchronize", 300, 0);
    close(&slot, &call, 400, 0);
    assert_eq!(records(&slot, Lane::Waits).len(), 1);
}

#[test]
fn the_caches_forget_when_the_epoch_moves_and_keep_contexts_apart() {
    let slot = slot();
    slot.cache_stream(0x5000, 1, 9);
    slot.cache_loaded_function(0x6000, 1, 1, 4);
    assert_eq!(slot.cached_stream(0x5000, 1), Some(9));
    assert_eq!(slot.cached_stream(0x5000, 2), None);
    assert_eq!(slot.cached_loaded_function(0x6000, 1, 1), Some(4));
    assert_eq!(slot.cached_loaded_function(0x6000, 2, 1), None);
}

#[test]
fn a_call_that_turns_out_to_have_loaded_says_so_and_keeps_its_other_facts() {
    let slot = slot();
    let facts = Record { function: 0, ..facts(b"cuModuleGetFunction", 100, 2) };
    let open = slot.open(&facts, facts.entry_point.class());
    slot.mark(&open);
    // A quick one leaves no record.
    assert!(slot.close(open, facts.entry_point.class(), 100 + SLOW_NANOS, -3));
    slot.amend_load(&open, 7);
    slot.unmark();
    let expect = Record { returned: 100 + SLOW_NANOS, result: -3, kind: Kind::ColdFunction, function: 7, ..facts };
    assert_eq!(records(&slot, Lane::of(facts.entry_point.class())), [expect]);
}
