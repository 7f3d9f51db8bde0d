use super::super::streams::MOST_DESTROYED;
use super::*;
use crate::api::{Class, EntryPoint, StreamKind};
use crate::replay::Scope;
use crate::state::{begin_fast, object_key, Caller, FastSubmission, FunctionKind, Known, SubmissionFacts};
use crate::trace::layout::Shape;
use crate::trace::{ProcessFacts, RawPayload};

#[path = "recorded_tests.rs"]
mod recorded;

impl Default for Tracker {
    /// A state over a recording in memory.
    fn default() -> Self {
        let shape = Shape::of_bytes(Shape::SMALLEST);
        let words: Box<[Word]> = (0..shape.words()).map(|_| Word::new(0)).collect();
        let recorder = Recorder::new(Box::leak(words), shape, &ProcessFacts::default()).unwrap();
        Self::new(Box::leak(Box::new(recorder)), Box::leak(Box::default()))
    }
}

fn created(tracker: &Tracker, handle: u64, context: u32) -> u32 {
    tracker.stream(StreamKey { handle, context: 0, thread: 0 }, context, StreamKind::NonBlocking, 1)
}

fn submit(tracker: &Tracker, stream: u32, at: Nanos) {
    let entry = tracker.stream_entry(stream).unwrap();
    entry.submitting(Operation { at, entry_point: 0, function: 0 }, tracker.stream_idle_until(entry));
    entry.submitted(at + 1);
}

#[test]
fn contexts_keep_their_work_apart_and_a_synchronize_clears_one() {
    let tracker = Tracker::default();
    let (a, b) = (tracker.context(0xa, 0), tracker.context(0xb, 0));
    let (s, t) = (created(&tracker, 0x100, a), created(&tracker, 0x200, b));
    submit(&tracker, s, 10);
    submit(&tracker, t, 11);
    assert_eq!(tracker.in_flight(a).len(), 1);
    assert_eq!(tracker.in_flight(0).len(), 2);
    tracker.context_complete(a, 20);
    assert!(tracker.in_flight(a).is_empty());
    assert_eq!(tracker.in_flight(0)[0].stream, t);
}

#[test]
fn a_completed_event_completes_what_was_before_it_only() {
    let tracker = Tracker::default();
    let c = tracker.context(0xa, 0);
    let s = created(&tracker, 0x100, c);
    submit(&tracker, s, 10);
    tracker.event_recorded(0xe, s, 1, c, 20);
    submit(&tracker, s, 30);
    tracker.event_complete_at(0xe, 20, |_, _| unreachable!());
    assert_eq!(tracker.in_flight(c)[0].operation.at, 30);
    tracker.event_recorded(0xe, s, 2, c, 50);
    tracker.event_complete_at(0xe, 20, |_, _| unreachable!());
    assert!(!tracker.in_flight(c).is_empty(), "the answer is about the record before");
    tracker.event_complete_at(0xe, 50, |_, _| unreachable!());
    assert!(tracker.in_flight(c).is_empty());
}

#[test]
fn handles_used_again_mean_something_new() {
    let tracker = Tracker::default();
    let c = tracker.context(0xa, 0);
    let before = tracker.epoch();
    let f = tracker.function(0xf0, FunctionKind::Kernel, 0x11b);
    tracker.name_function(f, "k1");
    tracker.function_entry(f).unwrap().set_loaded_in(c);
    tracker.set_present(0x11b, c, false);
    tracker.owner_gone(0x11b);
    assert_ne!(tracker.epoch(), before);
    assert!(!tracker.present(0x11b, c));
    let g = tracker.function(0xf0, FunctionKind::Function, 0x22b);
    assert!(!tracker.function_entry(g).unwrap().loaded_in(c));
    assert_eq!(tracker.function_name(g), None);
    // The same, where the guard did not see the module's unload.
    tracker.name_function(g, "k2");
    tracker.function_entry(g).unwrap().set_loaded_in(c);
    let h = tracker.function(0xf0, FunctionKind::Function, 0x33b);
    assert!(!tracker.function_entry(h).unwrap().loaded_in(c));
    assert_eq!(tracker.function_name(h), None);
    tracker.name_function(h, "k3");
    tracker.name_function(h, "k4");
    assert_eq!(tracker.function_name(h), Some("k4"));
}

#[test]
fn what_was_loaded_ahead_is_used_first_once_in_each_context() {
    let tracker = Tracker::default();
    let (a, b) = (tracker.context(0xa, 0), tracker.context(0xb, 0));
    let f = tracker.function(0xf0, FunctionKind::Kernel, 0x11b);
    let entry = tracker.function_entry(f).unwrap();
    entry.set_preloaded(a);
    tracker.set_present(0x11b, a, true);
    assert!(entry.loaded_in(a) && tracker.present(0x11b, a));
    assert!(!entry.take_preloaded(b) && !tracker.take_present_preloaded(0x11b, b), "not there");
    assert!(entry.take_preloaded(a) && !entry.take_preloaded(a));
    assert!(tracker.take_present_preloaded(0x11b, a) && !tracker.take_present_preloaded(0x11b, a));
    // Code that the program brought in by itself stays its own.
    tracker.set_present(0x11b, b, false);
    tracker.set_present(0x11b, b, true);
    assert!(!tracker.take_present_preloaded(0x11b, b));
    assert!(entry.set_launched_in(a) && !entry.set_launched_in(a) && entry.set_launched_in(b));
    tracker.context_gone(0xa);
    assert!(entry.set_launched_in(a), "the number is another context's");
    assert!(!entry.set_launched_in(64), "past those that are known");
}

#[test]
fn launches_that_are_looked_at_one_by_one_end_what_threads_remember() {
    let tracker = Tracker::default();
    tracker.context(0xa, 0);
    let before = tracker.epoch();
    assert!(tracker.fast_launches(false));
    tracker.set_slow_path(true);
    assert!(tracker.slow_path() && !tracker.fast_launches(false));
    let during = tracker.epoch();
    assert_ne!(during, before);
    tracker.set_slow_path(true);
    tracker.set_slow_path(false);
    assert!(tracker.fast_launches(false));
    assert_eq!(tracker.epoch(), during, "what is remembered from here on stays");
}

#[test]
fn a_completed_event_tells_how_many_operations_have_ended() {
    let tracker = Tracker::default();
    let c = tracker.context(0xa, 0);
    let s = created(&tracker, 0x100, c);
    let stream = tracker.stream_entry(s).unwrap();
    for at in [10, 20, 30] {
        submit(&tracker, s, at);
    }
    tracker.event_recorded(0xe, s, 3, c, 40);
    submit(&tracker, s, 50);
    assert_eq!(stream.outstanding_count(0), 4);
    tracker.event_complete_at(0xe, 40, |_, _| unreachable!());
    assert_eq!(stream.outstanding_count(0), 1);
    assert!(tracker.other_stream_exists(c, 0, false) && !tracker.other_stream_exists(c, s, false));
    let legacy = StreamKey { handle: 1, context: c, thread: 0 };
    let legacy = tracker.stream(legacy, c, StreamKind::Legacy, 1);
    assert!(!tracker.other_stream_exists(c, s, true), "one that is there by itself, and unused");
    submit(&tracker, legacy, 70);
    assert!(tracker.other_stream_exists(c, s, true) && !tracker.other_stream_exists(c + 1, s, true));
}

#[test]
fn a_stream_destroyed_under_work_counts_until_its_context_is_idle() {
    let tracker = Tracker::default();
    let c = tracker.context(0xa, 0);
    let key = StreamKey { handle: 0x100, context: 0, thread: 0 };
    let s = created(&tracker, 0x100, c);
    submit(&tracker, s, 10);
    tracker.stream_gone(key);
    assert_eq!(tracker.known_stream(key), None);
    assert_eq!(tracker.in_flight(c)[0].stream, s);
    assert_ne!(created(&tracker, 0x100, c), s, "the handle used again is another stream");
    tracker.context_complete(c, 20);
    assert!(tracker.in_flight(c).is_empty());
    assert_eq!(created(&tracker, 0x200, c), s, "its number is free again");
    for at in 0..1000 {
        submit(&tracker, created(&tracker, 0x300, c), 30 + at);
        tracker.stream_gone(StreamKey { handle: 0x300, context: 0, thread: 0 });
    }
    assert!(tracker.streams.iter().count() < 100, "they do not pile up");
    assert!(tracker.in_flight(c).len() <= MOST_DESTROYED + 1);
    tracker.context_complete(c, 5000);
    assert!(tracker.in_flight(c).is_empty());
}

#[test]
fn of_too_many_destroyed_streams_those_whose_work_has_ended_are_given_up_first() {
    let tracker = Tracker::default();
    let c = tracker.context(0xa, 0);
    let destroyed_at = |at: Nanos, ended: bool| {
        let stream = created(&tracker, 0x300, c);
        submit(&tracker, stream, at);
        tracker.stream_gone(StreamKey { handle: 0x300, context: 0, thread: 0 });
        if ended {
            // By an event that was recorded there.
            tracker.ended(Scope::Stream(stream), at + 2);
        }
        stream
    };
    let spins = destroyed_at(10, false);
    for n in 0..200 {
        destroyed_at(100 + 10 * n, true);
    }
    assert_eq!(tracker.in_flight(c).iter().map(|f| (f.stream, f.operation.at)).collect::<Vec<_>>(), [(spins, 10)]);
    assert!(!tracker.context_entry(c).unwrap().has_orphans());
    assert!(tracker.streams.iter().count() < 100, "they do not pile up");
    // If none has ended, the tracker no longer follows the oldest, and knows that it does not.
    for n in 0..MOST_DESTROYED as u64 {
        destroyed_at(5000 + 10 * n, false);
    }
    assert!(tracker.in_flight(c).iter().all(|f| f.stream != spins || f.operation.at != 10));
    assert!(tracker.context_entry(c).unwrap().has_orphans());
}

#[test]
fn a_primary_context_that_was_reset_is_one_again_and_a_created_one_in_its_place_is_not() {
    let tracker = Tracker::default();
    let is_primary = |context| tracker.context_entry(context).is_some_and(|entry| entry.is_primary_of(1));
    tracker.is_context_of(1, tracker.context(0xa, 0), true);
    for _ in 0..2 {
        tracker.context_gone(0xa);
        assert!(is_primary(tracker.context(0xa, 1)) && !is_primary(tracker.context(0xb, 1)));
    }
    tracker.is_context_of(1, tracker.context(0xa, 2), false);
    tracker.context_gone(0xa);
    assert!(!is_primary(tracker.context(0xa, 3)));
}

#[test]
fn a_lost_context_takes_its_streams_along_and_leaves_the_kernels() {
    let tracker = Tracker::default();
    let c = tracker.context(0xa, 0);
    let s = created(&tracker, 0x100, c);
    submit(&tracker, s, 10);
    let k = tracker.function(0xf0, FunctionKind::Kernel, 0x11b);
    tracker.function_entry(k).unwrap().set_loaded_in(c);
    tracker.context_gone(0xa);
    assert!(tracker.in_flight(0).is_empty());
    assert!(!tracker.function_entry(k).unwrap().loaded_in(c));
    assert!(tracker.known_context(0xa).is_none());
}

#[test]
fn the_work_of_a_context_is_in_flight_until_its_end_and_its_handles_are_others_before() {
    let tracker = Tracker::default();
    let c = tracker.context(0xa, 0);
    let s = created(&tracker, 0x100, c);
    submit(&tracker, s, 10);
    let ends = tracker.context_ends(0xa).unwrap();
    assert!(tracker.known_context(0xa).is_none() && tracker.contexts().next().is_none());
    let other = created(&tracker, 0x100, tracker.context(0xa, 20));
    assert_ne!(other, s);
    assert_eq!(tracker.in_flight(c).iter().map(|f| f.stream).collect::<Vec<_>>(), [s]);
    tracker.context_ended(ends);
    assert!(tracker.in_flight(c).is_empty());
    assert!(tracker.stream_entry(other).unwrap().alive() && !tracker.stream_entry(s).unwrap().alive());
}

/// A thread that may launch on the stream on the fast path, and has a segment.
fn launching(tracker: &Tracker, thread: u32, stream: u32, context: u32) -> &ThreadSlot {
    use crate::trace::{Lane, Record};
    let slot = tracker.thread(tracker.begin_thread(thread, 5).unwrap()).unwrap();
    let known = Known { stream: 0x100, number: stream, context, default_stream: false };
    slot.remember_stream(tracker.epoch(), &known);
    slot.cache_loaded_function(0xf0, context, tracker.epoch(), 1);
    slot.push(&Record { entered: 6, returned: 6, ..Record::of(EntryPoint::of_class(Class::Launch)) }, Lane::Work);
    slot
}

fn facts() -> SubmissionFacts {
    let raw = RawPayload::launch([5, 6, 7], [8, 9, 10], 11).0;
    SubmissionFacts::of(EntryPoint::of_class(Class::Launch), 0xf0, 0x100, raw)
}

fn begun(tracker: &Tracker, slot: &ThreadSlot, now: fn() -> Nanos) -> FastSubmission {
    let launch =
        begin_fast(slot, facts(), || Caller { stack: 1, ..Caller::default() }, |_| Some(0), tracker.epoch(), now)
            .unwrap();
    launch.submit(true);
    launch
}

#[test]
fn a_refused_launch_does_not_end_one_that_another_thread_is_in() {
    const REFUSED: i32 = 719;
    for fast in [true, false] {
        let tracker = Tracker::default();
        let context = tracker.context(0xa, 0);
        let stream = created(&tracker, 0x100, context);
        let (one, other) = (launching(&tracker, 101, stream, context), launching(&tracker, 102, stream, context));
        let number = tracker.stream_entry(stream).filter(|_| !fast).map(|entry| {
            let number = entry.submitting(Operation { at: 100, entry_point: 0, function: 0 }, 0);
            entry.submitted(110);
            number.unwrap()
        });
        let refused = fast.then(|| begun(&tracker, one, || 100));
        let launch = begun(&tracker, other, || 105);
        // The other launch has returned at 108, but its record is not complete yet.
        match (refused, number) {
            (Some(refused), _) => {
                refused.end(110, REFUSED, Nanos::MAX);
                tracker.launch_refused(stream, 100, 110);
            }
            (_, number) => tracker.submission_refused(stream, number.unwrap(), 110),
        }
        launch.end(108, 0, Nanos::MAX);
        assert_eq!(tracker.in_flight(0).len(), 1, "fast: {fast}");
    }
}

#[test]
fn a_record_of_an_event_that_repeats_is_an_operation_of_its_stream_and_no_launch() {
    let tracker = Tracker::default();
    let context = tracker.context(0xa, 0);
    let stream = created(&tracker, 0x100, context);
    let slot = launching(&tracker, 101, stream, context);
    let [of_record, of_wait] = [Class::EventRecord, Class::StreamWaitEvent].map(EntryPoint::of_class);
    let number = tracker.event_recorded(0xe, stream, 1, context, 50);
    slot.cache_loaded_function(object_key(of_record, 0xe), context, tracker.epoch(), number);
    let begin = |entry_point: EntryPoint| {
        let object = object_key(entry_point, 0xe);
        let facts = SubmissionFacts::of(entry_point, object, 0x100, RawPayload::about(0xe));
        begin_fast(slot, facts, || Caller { stack: 1, ..Caller::default() }, |_| Some(0), tracker.epoch(), || 100)
    };
    assert!(begin(of_wait).is_none(), "another call about the event was not made");
    let fast = begin(of_record).unwrap();
    fast.submit(false);
    assert_eq!((fast.number, fast.stream_and_context(), fast.entered()), (number, (stream, context), 100));
    fast.end(110, 0, Nanos::MAX);
    assert!(tracker.fold());
    let entry = tracker.stream_entry(stream).unwrap();
    let operation = Operation { at: 100, entry_point: of_record.id(), function: 0 };
    assert_eq!((entry.submitted_count(), entry.oldest(0)), (1, Some(operation)));
    assert_eq!(tracker.counts(), (1, 0));
}

/// Two threads that may launch on a stream, and one that does not.
fn two_launching(tracker: &Tracker) -> (u32, &ThreadSlot, &ThreadSlot, u32) {
    let context = tracker.context(0xa, 0);
    let stream = created(tracker, 0x100, context);
    let (one, other) = (launching(tracker, 101, stream, context), launching(tracker, 102, stream, context));
    (stream, one, other, tracker.begin_thread(103, 5).unwrap())
}

fn launched(tracker: &Tracker, slot: &ThreadSlot) {
    begun(tracker, slot, || 100).end(101, 0, Nanos::MAX);
}

#[test]
fn a_fold_that_was_left_by_a_jump_makes_what_is_asked_unknown_until_its_thread_comes_back() {
    for is_done in [false, true] {
        let tracker = Tracker::default();
        let (stream, one, other, asking) = two_launching(&tracker);
        launched(&tracker, one);
        launched(&tracker, other);
        tracker.jump_out_of_a_fold(one.number, asking, is_done);
        assert!(!tracker.fold() && !tracker.fold_of(stream));
        let entry = tracker.stream_entry(stream).unwrap();
        assert_eq!(entry.submitted_count(), 1 + u64::from(is_done), "the other thread's launch is folded");
        tracker.context_complete(entry.context(), 200);
        assert_eq!(tracker.in_flight(0), [InFlight::UNKNOWN], "what is unknown counts as in flight");
        one.fold_launches();
        tracker.launch_refused(stream, 100, 101);
        // The thread that has jumped comes back, as the shim's `recover` says.
        tracker.abandon(tracker.thread(asking).unwrap(), 300);
        assert!(tracker.fold());
        assert_eq!(entry.submitted_count(), 2 + u64::from(is_done), "one may be there twice, and none is missing");
        assert!(tracker.in_flight(0).is_empty());
    }
}

#[test]
fn a_launch_whose_fold_was_left_is_found_after_it_on_a_busy_stream() {
    for is_done in [false, true] {
        let tracker = Tracker::default();
        let (stream, one, _, asking) = two_launching(&tracker);
        launched(&tracker, one);
        tracker.jump_out_of_a_fold(one.number, asking, is_done);
        tracker.end_thread(asking, 300);
        assert!(tracker.fold(), "the thread that had jumped has ended");
        let entry = tracker.stream_entry(stream).unwrap();
        assert_eq!((entry.oldest(0).map(|op| op.at), entry.last_submitted()), (Some(100), 101));
    }
}

#[test]
fn a_thread_whose_turn_is_kept_launches_on_and_loses_counted_records_alone() {
    let tracker = Tracker::default();
    let (stream, one, _, asking) = two_launching(&tracker);
    launched(&tracker, one);
    tracker.jump_out_of_a_fold(one.number, asking, false);
    let push = || {
        one.push(&crate::trace::Record::of(EntryPoint::of_class(Class::Launch)), crate::trace::Lane::Work);
    };
    let dropped = || tracker.recorder().counts(crate::trace::Lane::Work).dropped;
    (0..2 * tracker.recorder().shape().records).for_each(|_| push());
    assert!(dropped() > 0, "the segment is full, and may not be left");
    tracker.abandon(tracker.thread(asking).unwrap(), 300);
    let before = dropped();
    push();
    assert_eq!(dropped(), before);
    assert_eq!(tracker.stream_entry(stream).unwrap().submitted_count(), 1, "folded when the segment was left");
}

#[test]
fn a_thread_that_ends_while_its_turn_is_kept_is_folded_later_and_its_slot_used_again() {
    let tracker = Tracker::default();
    let (stream, one, _, asking) = two_launching(&tracker);
    let number = one.number;
    launched(&tracker, one);
    tracker.jump_out_of_a_fold(number, asking, false);
    tracker.end_thread(number, 300);
    assert!(!one.in_use() && !tracker.fold());
    assert_ne!(tracker.begin_thread(104, 301), Some(number), "it has segments still");
    tracker.abandon(tracker.thread(asking).unwrap(), 302);
    assert!(tracker.fold());
    assert_eq!(tracker.stream_entry(stream).unwrap().submitted_count(), 1);
    assert_eq!(tracker.begin_thread(105, 303), Some(number));
}

#[test]
fn a_question_about_one_stream_looks_at_the_threads_that_launch_there() {
    let tracker = Tracker::default();
    let context = tracker.context(0xa, 0);
    let (mine, shared) = (created(&tracker, 0x100, context), created(&tracker, 0x200, context));
    let one = launching(&tracker, 101, mine, context);
    launched(&tracker, one);
    let submitted = |stream: u32| tracker.stream_entry(stream).unwrap().submitted_count();
    assert!(tracker.fold_of(shared));
    assert_eq!(submitted(mine), 0, "that stream was not asked about");
    assert!(tracker.fold_of(mine));
    assert_eq!(submitted(mine), 1);
    // If a slot has had the fast path, its next thread finds the caches filled.
    tracker.end_thread(one.number, 200);
    let next = tracker.thread(tracker.begin_thread(102, 201).unwrap()).unwrap();
    assert_eq!(next.number, one.number);
    next.push(&crate::trace::Record::of(EntryPoint::of_class(Class::Launch)), crate::trace::Lane::Work);
    launched(&tracker, next);
    assert!(tracker.fold_of(mine));
    assert_eq!(submitted(mine), 2);
}

#[test]
fn what_may_be_outstanding_does_not_grow_with_threads_that_launch_nothing() {
    let tracker = Tracker::default();
    let (stream, one, other, _) = two_launching(&tracker);
    (0..40).for_each(|n| _ = tracker.begin_thread(200 + n, 5).unwrap());
    launched(&tracker, one);
    launched(&tracker, other);
    assert!((2..=4).contains(&tracker.outstanding_at_most(stream)), "and a record of each that is no launch");
    assert!(tracker.fold());
    assert_eq!(tracker.outstanding_at_most(stream), 2);
}
