//! Streams that share a hardware queue.

use super::super::test_trace::TestTrace;
use super::QUEUES_AT_FIRST;
use crate::api::Code;
use crate::state::{StreamKey, StreamKind};
use crate::trace::Environment;

/// A process with so many hardware queues, or the driver's number of them.
fn with_queues(connections: u32) -> TestTrace {
    let story = TestTrace::new();
    story.environment(Environment { launch_blocking: false, connections });
    story
}

/// A kernel that never ends, a kernel behind it, and one on another stream that is waited for.
fn step_behind_spin(story: &TestTrace) -> &TestTrace {
    story.launch(0, 10, "spin").launch(0, 12, "step").launch(1, 14, "set").waits(1, 30, "cuStreamSynchronize", Some(1));
    story.driver_says_busy(0).driver_says_busy(1)
}

#[test]
fn a_launch_behind_one_that_waits_in_the_only_queue_cannot_start() {
    let story = with_queues(1);
    step_behind_spin(&story).check(&[(Code::LG211, "spin")]);
    let verdict = &story.diagnosis().verdicts[0];
    assert_eq!(
        verdict.sentence,
        format!(
            "set on stream {1} cannot start: step on stream {0} is before it in the hardware queue of both, and waits for spin on stream {0}, and \
             spin has not ended.",
            story.streams[0], story.streams[1]
        )
    );
    assert_eq!(verdict.held_back.as_ref().and_then(|held| held.operation.function.as_deref()), Some("set"));
    assert!(verdict.fix.contains("or launch set before step"), "{}", verdict.fix);
}

/// A kernel that runs keeps no other from starting, and one that was submitted later does not either.
#[test]
fn a_launch_that_runs_or_that_came_later_holds_up_none() {
    let story = with_queues(1);
    story.launch(0, 10, "spin").launch(1, 14, "set").waits(1, 30, "cuStreamSynchronize", Some(1));
    story.driver_says_busy(0).driver_says_busy(1).check(&[(Code::LG299, "set")]);
    let story = with_queues(1);
    story.launch(0, 10, "spin").launch(1, 12, "set").launch(0, 14, "step").waits(1, 30, "cuStreamSynchronize", Some(1));
    story.driver_says_busy(0).driver_says_busy(1).check(&[(Code::LG299, "set")]);
}

#[test]
fn a_stream_of_which_the_driver_has_said_nothing_holds_up_none() {
    let story = with_queues(1);
    story.launch(0, 10, "spin").launch(0, 12, "step").launch(1, 14, "set").waits(1, 30, "cuStreamSynchronize", Some(1));
    story.check(&[(Code::LG299, "set")]);
}

/// A kernel that never ends, a kernel of a second stream behind it, and one of the third stream that is waited for.
fn add_behind_an_event(story: &TestTrace) -> &TestTrace {
    story.launch(0, 10, "spin").about(0, 11, "cuEventRecord", 0xe, 0).about(1, 12, "cuStreamWaitEvent", 0xe, 0);
    story.launch(1, 13, "add").launch(2, 14, "set").waits(1, 30, "cuStreamSynchronize", Some(2));
    story.driver_says_busy(0).driver_says_busy(1).driver_says_busy(2)
}

/// With more queues than one it is not known which streams share one, and with fewer streams than queues none do.
#[test]
fn with_more_streams_than_queues_two_streams_may_share_one() {
    let story = with_queues(0);
    add_behind_an_event(&story).check(&[(Code::LG299, "set")]);
    let story = with_queues(2);
    add_behind_an_event(&story).check(&[(Code::LG211, "spin")]);
    let verdict = &story.diagnosis().verdicts[0];
    assert!(verdict.sentence.contains("may not have started: add on stream"), "{}", verdict.sentence);
    assert!(verdict.fix.ends_with("if set does not end then either, find out why"), "{}", verdict.fix);
    let mut story = with_queues(0);
    let more = (0..QUEUES_AT_FIRST).map(|n| StreamKey { handle: 0x100 + u64::from(n), context: 0, thread: 0 });
    let last = more.map(|key| story.tracker.stream(key, story.context, StreamKind::NonBlocking, 1)).last();
    story.streams[1] = last.unwrap();
    add_behind_an_event(&story).check(&[(Code::LG211, "spin")]);
    // A kernel that another one follows on its stream may have ended; that two streams share a queue is not known either.
    let mut story = with_queues(2);
    story.streams[1] = story.streams[2];
    step_behind_spin(&story).check(&[(Code::LG299, "set")]);
}

#[test]
fn two_streams_that_wait_for_each_other_through_the_queue_are_a_cycle() {
    let story = with_queues(1);
    story.wait(0, 10, 0xf1a6, 1).launch(0, 12, "step").launch(1, 14, "first").write(1, 16, 0xf1a6, 1);
    story.driver_says_busy(0).driver_says_busy(1).waits(1, 30, "cuStreamSynchronize", Some(1));
    story.check(&[(Code::LG211, "cuStreamWaitValue32_v2")]);
    assert_eq!(story.diagnosis().verdicts[0].confidence, super::super::Confidence::Certain);
}

/// A collective waits for other ranks, whatever stands behind it here.
#[test]
fn a_collective_at_the_end_of_the_path_is_lg208_and_the_queue_is_said() {
    let story = with_queues(1);
    story.launch(0, 10, "ncclDevKernel_SendRecv").launch(0, 12, "step").launch(1, 14, "ncclDevKernel_SendRecv");
    story.driver_says_busy(0).driver_says_busy(1).waits(1, 30, "cuStreamSynchronize", Some(1));
    story.check(&[(Code::LG208, "ncclDevKernel_SendRecv")]);
    let verdict = &story.diagnosis().verdicts[0];
    assert_eq!(verdict.culprits[0].stream.number, story.streams[0]);
    assert!(
        verdict.chain.iter().any(|line| line.contains("at the head of the one hardware queue of all streams")),
        "{verdict:#?}"
    );
}

/// A call that waits for all work waits for the kernel that does not end; the queue blocks the kernel that may end it.
#[test]
fn a_call_that_waits_for_all_work_is_said_which_launch_the_queue_blocks() {
    let story = with_queues(1);
    story.launch(0, 10, "spin").launch(0, 12, "step").launch(1, 14, "set").waits(1, 30, "cuCtxSynchronize", None);
    story.driver_says_busy(0).driver_says_busy(1).check(&[(Code::LG211, "spin")]);
}

/// Kernels that are not known to have ended may have: a collective of the stream itself is likelier not to.
#[test]
fn a_collective_is_not_behind_kernels_that_may_have_ended() {
    let story = with_queues(1);
    story.launch(0, 10, "old").launch(0, 12, "older").launch(1, 14, "ncclDevKernel_AllReduce_Sum");
    story.driver_says_busy(0).driver_says_busy(1).waits(1, 30, "cuStreamSynchronize", Some(1));
    story.check(&[(Code::LG208, "ncclDevKernel_AllReduce_Sum")]);
    let verdict = &story.diagnosis().verdicts[0];
    assert!(!verdict.chain.iter().any(|line| line.contains("hardware queue")), "{verdict:#?}");
    assert_eq!(story.snapshot().collective_behind_a_queue(), None);
}

/// Earlier kernels of both streams have ended, and the guard does not know.
#[test]
fn the_launch_that_the_queue_holds_back_is_the_first_one_behind_its_head() {
    let story = with_queues(1);
    story.launch(1, 8, "done").launch(0, 9, "done").launch(2, 10, "ncclDevKernel_SendRecv");
    story.about(2, 12, "cuEventRecord", 0xe, 0).about(0, 14, "cuStreamWaitEvent", 0xe, 0).launch(0, 16, "add");
    story.launch(1, 18, "ncclDevKernel_SendRecv").waits(1, 30, "cuStreamSynchronize", Some(1));
    story.driver_says_busy(0).driver_says_busy(1).driver_says_busy(2);
    story.check(&[(Code::LG208, "ncclDevKernel_SendRecv")]);
    let told = story.snapshot().collective_behind_a_queue().unwrap();
    let [first, behind, sends] = [story.streams[1], story.streams[0], story.streams[2]];
    let expect = format!(
        "ncclDevKernel_SendRecv on stream {first} cannot start: add on stream {behind} is before it in the hardware queue of both, and waits for \
         the only launch of ncclDevKernel_SendRecv on stream {sends}, which waits for other ranks"
    );
    assert_eq!(told, expect);
}
