//! Collectives as NCCL and PyTorch submit them: one event recorded again and again on two streams, and a thread that polls an event of each
//! collective. The calls are those that two cards were seen to get.

use super::test_trace::{TestTrace, SECOND};
use super::{Code, Status};
use crate::trace::Kind;

const ALL_REDUCE: &str = "ncclDevKernel_AllReduce_Sum_f32_RING_LL";
const OWN: u64 = 0x36f5_d050;
/// The stream of the program, that of NCCL itself, and another one of the program.
const PROGRAM: usize = 0;
const NCCL: usize = 1;
const OTHER: usize = 2;

/// A collective on a stream, 20 ns from then on; the event behind it is the one that the watchdog polls.
fn collective(story: &TestTrace, stream: usize, at: u64, event: u64) {
    story.about(NCCL, at, "cuEventRecord", OWN, 0);
    story.about(stream, at + 2, "cuStreamWaitEvent", OWN, 0);
    story.launch(stream, at + 4, ALL_REDUCE);
    story.about(stream, at + 6, "cuEventRecord", OWN, 0);
    story.about(NCCL, at + 8, "cuStreamWaitEvent", OWN, 0);
    story.about(stream, at + 10, "cuEventRecordWithFlags", event, 0);
    story.about(stream, at + 12, "cuEventRecord", event + 8, 0);
}

const STEP: u64 = 1000;

/// Twenty times a collective and a kernel; the events of so many are complete.
fn training(story: &TestTrace, complete: u64) {
    for n in 1..=20 {
        collective(story, PROGRAM, n * STEP, 0x100 * n);
        story.launch(PROGRAM, n * STEP + 14, "vectorized_elementwise_kernel");
    }
    let until = complete * STEP + 10;
    story.tracker.stream_entry(story.streams[PROGRAM]).unwrap().complete_until(until);
}

#[test]
fn the_collective_that_a_rank_skipped_is_named_and_counted() {
    let story = TestTrace::new();
    training(&story, 13);
    story.waits(1, 30 * STEP, "cuCtxSynchronize", None);
    for n in 14..=20 {
        story.polls(2, n * STEP + 50, 9 * SECOND, "cuEventQuery", PROGRAM, 0x100 * n);
    }
    story.check(&[(Code::LG208, ALL_REDUCE)]);
    let verdict = &story.diagnosis().verdicts[0];
    assert_eq!(
        verdict.sentence,
        format!(
            "cuCtxSynchronize cannot return: it waits for the 14th of 20 launches of {ALL_REDUCE} on stream 1, which waits for other ranks."
        )
    );
    assert!(
        verdict.chain.iter().any(|line| line.contains("13 earlier launches of it on this stream have ended")),
        "{verdict:#?}"
    );
    assert_eq!(verdict.culprits.len(), 1, "{verdict:#?}");
    let of_events = |line: &String| line.contains("cuEventRecord") || line.contains("for event");
    assert!(!verdict.chain.iter().any(of_events), "{verdict:#?}");
    // One line for the thread that polls seven events.
    assert_eq!(verdict.chain.iter().filter(|line| line.contains("thread 2 ")).count(), 1, "{verdict:#?}");
}

#[test]
fn without_polled_events_it_is_not_said_which_collective_it_is() {
    for (complete, which) in
        [(0, "one of 20 launches"), (13, "one of the last 7 of 20 launches"), (19, "the 20th of 20 launches")]
    {
        let story = TestTrace::new();
        training(&story, complete);
        story.waits(1, 30 * STEP, "cuCtxSynchronize", None);
        story.check(&[(Code::LG208, ALL_REDUCE)]);
        let sentence = &story.diagnosis().verdicts[0].sentence;
        assert!(sentence.contains(&format!("it waits for {which} of {ALL_REDUCE} on stream 1")), "{sentence}");
    }
}

#[test]
fn a_cold_load_behind_a_collective_waits_for_its_kernel() {
    let story = TestTrace::new();
    // On a side stream of the program, behind a record of an event on the stream on which nothing runs.
    story.about(PROGRAM, 10, "cuEventRecordWithFlags", 0x42, 0).about(OTHER, 12, "cuStreamWaitEvent", 0x42, 0);
    collective(&story, OTHER, 20, 0x100);
    story.blocked(1, 60, "cuLaunchKernel", Some(PROGRAM), Kind::ColdModule, "mul");
    story.check(&[(Code::LG202, ALL_REDUCE)]);
    let verdict = &story.diagnosis().verdicts[0];
    assert_eq!(verdict.culprits.len(), 1, "records of events take no time: {verdict:#?}");
    assert!(
        verdict.sentence.contains(&format!("waits for the only launch of {ALL_REDUCE} on stream 3")),
        "{verdict:#?}"
    );
}

#[test]
fn a_stream_that_only_records_and_waits_has_nothing_to_wait_for() {
    let story = TestTrace::new();
    training(&story, 20);
    story.about(OTHER, 25 * STEP, "cuStreamWaitEvent", 0x900, 0).launch(OTHER, 26 * STEP, "spin");
    story.tracker.stream_entry(story.streams[PROGRAM]).unwrap().complete_until(21 * STEP);
    story.waits(1, 30 * STEP, "cuCtxSynchronize", None);
    story.check(&[(Code::LG299, "spin")]);
    assert_eq!(story.diagnosis().verdicts[0].culprits.len(), 1);
}

#[test]
fn the_first_event_that_is_not_ready_bounds_what_may_still_run() {
    let story = TestTrace::new();
    story.launch(PROGRAM, 10, "long").about(PROGRAM, 12, "cuEventRecord", 0x1, 0);
    collective(&story, PROGRAM, 20, 0x100);
    story.waits(1, 60, "cuCtxSynchronize", None);
    story.check(&[(Code::LG208, ALL_REDUCE)]);
    // Now it is known that the kernel before the collective has not ended.
    story.polls(2, 50, 9 * SECOND, "cuEventQuery", PROGRAM, 0x1);
    story.check(&[(Code::LG299, "long")]);
}

#[test]
fn a_collective_that_is_watched_while_the_program_gets_on_is_no_hang() {
    let story = TestTrace::new();
    collective(&story, PROGRAM, 20, 0x100);
    story.polls(2, 50, 9 * SECOND, "cuEventQuery", PROGRAM, 0x100);
    story.about(OTHER, 95 * SECOND / 10, "cuEventRecord", 0x7, 0);
    let diagnosis = story.diagnosis();
    assert_eq!((diagnosis.status, diagnosis.verdicts.len()), (Status::Slow, 0), "{diagnosis:#?}");
    assert!(diagnosis.slow[0].contains("a rank may only be late"), "{diagnosis:#?}");
}

#[test]
fn a_kernel_that_an_event_waits_for_is_less_likely_than_the_collective_behind_that_event() {
    let story = TestTrace::new();
    story.launch(PROGRAM, 10, "k1").about(PROGRAM, 12, "cuEventRecord", 0x1, 0);
    story.about(OTHER, 14, "cuStreamWaitEvent", 0x1, 0).launch(OTHER, 16, ALL_REDUCE);
    story.about(OTHER, 18, "cuEventRecord", 0x2, 0).about(PROGRAM, 20, "cuStreamWaitEvent", 0x2, 0);
    story.waits(1, 60, "cuStreamSynchronize", Some(PROGRAM));
    story.check(&[(Code::LG208, ALL_REDUCE)]);
}

#[test]
fn a_function_that_is_loaded_behind_a_collective_is_a_barrier_as_behind_any_kernel() {
    let story = TestTrace::new();
    story.launch(PROGRAM, 10, ALL_REDUCE).cold(OTHER, 12, "k2");
    story.waits(1, 60, "cuStreamSynchronize", Some(PROGRAM));
    story.check(&[(Code::LG201, ALL_REDUCE)]);
}

#[test]
fn what_comes_before_the_collective_and_has_not_been_seen_to_end_is_said() {
    let story = TestTrace::new();
    story.launch(PROGRAM, 10, "spin").launch(PROGRAM, 12, ALL_REDUCE);
    story.waits(1, 60, "cuStreamSynchronize", Some(PROGRAM));
    let chain = &story.diagnosis().verdicts[0].chain;
    assert!(chain.iter().any(|line| line == "nor is kernel spin, which comes before it on that stream"), "{chain:#?}");
}
