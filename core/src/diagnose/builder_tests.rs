use super::super::test_trace::{TestTrace, NOW, QUERIES, SECOND};
use super::*;
use crate::state::{StreamKey, StreamKind};
use crate::trace::layout::flag;
use crate::trace::RawPayload;

#[test]
fn what_a_load_found_in_flight_is_told() {
    let story = TestTrace::new();
    story.launch(0, 10, "k1").cold(1, 20, "k2").waits(1, 30, "cuCtxSynchronize", None);
    let snapshot = story.snapshot();
    assert_eq!(snapshot.loads[0].behind[0].oldest.function.as_deref(), Some("k1"));
    let [one, two] = &snapshot.streams[..] else { panic!("{snapshot:#?}") };
    assert_eq!((one.outstanding, one.operations.len(), one.moved), (1, 1, 0));
    assert_eq!(two.operations[0].call.symbol(), "cuLaunchKernel");
}

#[test]
fn what_a_stream_has_passed_is_over() {
    let story = TestTrace::new();
    story.wait(0, 10, 0xf1a6, 1).launch(0, 12, "k").synchronize(0, 20);
    story.launch(0, 30, "k").cold(1, 40, "k2").synchronize(0, 50).launch(0, 60, "spin");
    story.waits(1, 70, "cuStreamSynchronize", Some(0));
    let snapshot = story.snapshot();
    assert!(snapshot.waits.is_empty() && snapshot.loads.is_empty(), "{snapshot:#?}");
    let stream = &snapshot.streams[1];
    assert_eq!((stream.oldest.at, stream.outstanding, stream.moved), (60, 1, 51));
}

#[test]
fn what_the_driver_refused_holds_nothing_up() {
    let story = TestTrace::new();
    let wait = story.submit(0, 10, "cuStreamWaitValue32_v2");
    let refused =
        Record { flags: flag::SUBMITTED | flag::WAIT, raw: RawPayload::memory_operation(0xf1a6, 0, 1), ..wait };
    story.launch(0, 5, "spin").call(&refused, 1);
    story.waits(1, 30, "cuStreamSynchronize", Some(0));
    assert!(story.snapshot().waits.is_empty());
}

#[test]
fn a_stream_under_a_number_used_again_is_not_held_responsible() {
    let story = TestTrace::new();
    story.wait(0, 10, 0xf1a6, 1);
    story.call(&story.facts("cuCtxSynchronize", 20, None), 0);
    story.tracker.context_complete(story.context, 20);
    story.tracker.stream_gone(StreamKey { handle: 0x51, context: 0, thread: 0 });
    let key = StreamKey { handle: 0x99, context: 0, thread: 0 };
    let again = story.tracker.stream(key, story.context, StreamKind::Blocking, 25);
    assert_eq!(again, story.streams[0]);
    story.launch(0, 30, "spin").waits(1, 40, "cuStreamSynchronize", Some(0));
    assert_eq!(story.snapshot().streams[0].stream.handle, 0x99);
}

#[test]
fn the_first_waits_and_loads_are_kept_of_however_many() {
    let story = TestTrace::new();
    for n in 0..MOST_WAITS as u64 + 10 {
        story.wait(0, 10 + 2 * n, 0xf1a6, n);
    }
    let snapshot = story.snapshot();
    assert_eq!((snapshot.waits.len(), snapshot.waits[0].at), (MOST_WAITS, 10));
    assert_eq!(snapshot.streams[0].operations.len(), MOST_WAITS + 10, "what may hold a stream up is kept");
    assert_eq!(snapshot.streams[0].outstanding, MOST_WAITS as u64 + 10);
    for n in 0..MOST_LOADS as u64 + 10 {
        story.cold(1, 10_000 + 2 * n, "k");
    }
    let snapshot = story.snapshot();
    assert_eq!((snapshot.loads.len(), snapshot.loads[0].at), (MOST_LOADS, 10_000));
}

#[test]
fn without_a_threshold_nothing_is_past_it() {
    let story = TestTrace::new();
    story.launch(0, 10, "spin").waits(1, 30, "cuCtxSynchronize", None);
    let snapshot = snapshot_at(&story.recording(), 0, 0, 0).unwrap();
    assert_eq!((snapshot.blocked.len(), snapshot.blocked[0].past_threshold), (1, false));
    assert_eq!(snapshot.at, NOW);
}

#[test]
fn queries_without_end_are_a_wait_and_those_that_stopped_are_none() {
    let story = TestTrace::new();
    story.launch(0, 10, "k").launch(1, 12, "k");
    story.polls(7, 20, NOW - 1000, "cuStreamQuery", 0, 0);
    story.polls(8, 30, NOW - 3 * SECOND, "cuStreamQuery", 1, 0);
    let blocked = story.snapshot().blocked;
    assert_eq!(blocked.len(), 1, "{blocked:#?}");
    assert_eq!((blocked[0].thread, blocked[0].queries, blocked[0].entered), (7, Some(QUERIES + 1), 20));
}

#[test]
fn a_query_in_progress_belongs_to_its_poll_until_it_blocks_itself() {
    let blocked = |last: Nanos, query: Nanos| {
        let story = TestTrace::new();
        story.launch(0, 10, "k").polls_until(7, [20, last], "cuStreamQuery", 0, 0, Some(query));
        let blocked = story.snapshot().blocked;
        blocked.iter().map(|call| (call.entered, call.queries)).collect::<Vec<_>>()
    };
    assert_eq!(blocked(NOW - 1000, NOW - 100), [(20, Some(QUERIES + 1))], "it asks again");
    let blocks = NOW - 2 * SECOND;
    assert_eq!(blocked(blocks - 100, blocks), [(blocks, None)]);
}

#[test]
fn an_event_is_what_was_recorded_last_before_it_was_waited_for() {
    let story = TestTrace::new();
    story.launch(0, 10, "k").about(0, 20, "cuEventRecord", 0xe, 0);
    story.about(1, 30, "cuStreamWaitEvent", 0xe, 0);
    story.launch(2, 35, "k").about(2, 40, "cuEventRecord", 0xe, 0);
    let waits = story.snapshot().event_waits;
    assert_eq!(waits.len(), 1, "{waits:#?}");
    assert_eq!((waits[0].recorded_on, waits[0].recorded, waits[0].stream), (story.streams[0], 20, story.streams[1]));
}

#[test]
fn host_functions_are_told_until_they_return() {
    let story = TestTrace::new();
    story.host_function(0, 10, 20, 50, None).host_function(1, 10, 20, 51, Some(30));
    story.launch(1, 40, "k");
    let snapshot = story.snapshot();
    let told: Vec<_> = snapshot.host_functions.iter().map(|h| (h.stream, h.at, h.entered, h.thread)).collect();
    assert_eq!(told, [(story.streams[0], 10, 20, 50)]);
    assert_eq!(snapshot.stream(story.streams[1]).unwrap().moved, 30);
}

#[test]
fn memory_is_told_as_it_was_seen_after_the_wait() {
    let story = TestTrace::new();
    story.wait(0, 10, 0xf1a6, 5).about(1, 20, "cuMemsetD32Async", 0xf1a0, 64);
    let wait = &story.snapshot().waits[0];
    assert_eq!((wait.holds, wait.satisfied, wait.fills.len()), (None, false, 1));
    story.memory_holds(0xf1a6, 5);
    let wait = &story.snapshot().waits[0];
    assert_eq!((wait.holds, wait.satisfied), (Some(5), true));
}

#[test]
fn a_poll_whose_context_has_failed_is_lg212_and_names_the_first_error() {
    let story = TestTrace::new();
    story.launch(0, 10, "k").asks(20, 0, 0).fails(7, [30, NOW - 1000], 719);
    let snapshot = story.snapshot();
    assert_eq!(snapshot.blocked.len(), 1, "{:#?}", snapshot.blocked);
    assert_eq!((snapshot.blocked[0].error, snapshot.blocked[0].entered), (Some(719), 30));
    let diagnosis = story.diagnosis();
    let verdict = &diagnosis.verdicts[0];
    assert_eq!((diagnosis.status, verdict.code), (crate::diagnose::Status::Hang, crate::diagnose::Code::LG212));
    let first = "the context has failed with 719 (CUDA_ERROR_LAUNCH_FAILED) at cuStreamQuery of thread 7 at ";
    assert!(verdict.sentence.starts_with(first), "{}", verdict.sentence);
    assert_eq!(verdict.culprits[0].operation.at, 30);
}

#[test]
fn synchronizations_and_launches_in_a_failed_context_ask_as_queries_do() {
    for call in ["cuCtxSynchronize", "cuStreamSynchronize", "cuEventSynchronize", "cuLaunchKernel", "cuMemcpyHtoD_v2"] {
        let story = TestTrace::new();
        story.launch(0, 10, "k").fails_in(7, [30, NOW - 1000], call, 700);
        let snapshot = story.snapshot();
        let blocked: Vec<_> = snapshot.blocked.iter().map(|b| (b.error, b.entered, b.queries)).collect();
        assert_eq!(blocked, [(Some(700), 30, Some(QUERIES + 1))], "{call}: {:#?}", snapshot.blocked);
        let verdict = &story.diagnosis().verdicts[0];
        let goes_on = format!("and the program goes on asking by {call}.");
        assert!(verdict.code == crate::diagnose::Code::LG212 && verdict.sentence.ends_with(&goes_on), "{verdict:#?}");
    }
    // It has stopped; the allocator has no memory; the guard has revoked what is waited for.
    for (error, last) in [(700, NOW - 3 * SECOND), (2, NOW - 1000), (909, NOW - 1000)] {
        let story = TestTrace::new();
        story.launch(0, 10, "k").fails_in(7, [30, last], "cuStreamSynchronize", error);
        assert!(story.snapshot().blocked.is_empty(), "{error} until {last}");
    }
}

#[test]
fn a_poll_that_gives_another_error_or_stopped_long_ago_is_no_failed_context() {
    for (error, last) in [(2, NOW - 1000), (909, NOW - 1000), (719, NOW - 3 * SECOND)] {
        let story = TestTrace::new();
        story.launch(0, 10, "k").fails(7, [30, last], error);
        assert!(story.snapshot().blocked.is_empty(), "{error} until {last}");
    }
    let story = TestTrace::new();
    story.launch(0, 10, "k").fails(7, [30, 2 * SECOND], 700).launch(1, 3 * SECOND, "k");
    assert!(story.snapshot().failures.is_empty(), "a later launch has succeeded");
}
