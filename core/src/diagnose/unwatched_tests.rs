//! Streams that no thread waits for.

use super::super::test_trace::{TestTrace, NOW, SECOND};
use super::super::verdict::Confidence;
use crate::api::{Code, StreamKind, ThreadActivity};
use crate::state::StreamKey;
use crate::trace::{RawPayload, Record};

/// A stream waits for a value that no operation writes; the driver says that it is busy, and another thread does other work all the time.
fn beside_a_busy_thread(patience: u64) -> TestTrace {
    let story = TestTrace::new().patient(patience);
    story.wait(0, SECOND, 0xf1a6, 1);
    for at in [3, 5, 7, 9] {
        story.launch(1, at * SECOND, "healthy").synchronize(1, at * SECOND + 10);
    }
    story
}

#[test]
fn a_pattern_that_no_thread_waits_for_is_slow_and_then_a_hang() {
    let story = beside_a_busy_thread(6 * SECOND);
    story.check_well();
    story.driver_says_busy(0);
    story.check_verdicts_of_streams(&[(Code::LG203, "cuStreamWaitValue32_v2")]);
    let slow = beside_a_busy_thread(20 * SECOND);
    slow.driver_says_busy(0);
    slow.check_slow("no thread waits for stream");
}

#[test]
fn an_answer_that_is_old_or_was_given_before_the_newest_submission_says_nothing() {
    let story = beside_a_busy_thread(6 * SECOND);
    story.driver_says_busy_at(0, 3 * SECOND); // seven seconds ago, and the patience is six
    story.check_well();
    let story = TestTrace::new();
    story.wait(0, SECOND, 0xf1a6, 1).driver_says_busy(0);
    story.launch(0, NOW - SECOND / 2, "k").launch(1, NOW - 10, "healthy");
    story.check_well();
}

#[test]
fn a_collective_that_no_thread_waits_for_is_lg208() {
    let story = TestTrace::new();
    story.launch(0, SECOND, "ncclDevKernel_AllReduce_Sum").launch(1, 9 * SECOND, "step").synchronize(1, 9 * SECOND + 5);
    story.driver_says_busy(0);
    story.check_verdicts_of_streams(&[(Code::LG208, "ncclDevKernel_AllReduce_Sum")]);
}

#[test]
fn a_kernel_that_runs_is_a_line_and_nothing_more() {
    let story = TestTrace::new();
    story.launch(0, SECOND, "serve").launch(1, 9 * SECOND, "step").synchronize(1, 9 * SECOND + 5);
    story.check_well();
    assert!(story.snapshot().unwatched().is_empty());
    story.driver_says_busy(0);
    story.check_well();
    let lines = story.snapshot().unwatched();
    assert!(lines.len() == 1 && lines[0].contains("kernel serve has run on stream 1 for"), "{lines:?}");
    assert!(lines[0].ends_with("; no thread waits for it"), "{lines:?}");
    let wakes = TestTrace::new();
    wakes.launch(0, SECOND, "serve").call(&wakes.submit(0, SECOND + 10, "cuLaunchHostFunc"), 0).driver_says_busy(0);
    wakes.check_well();
    assert!(wakes.snapshot().unwatched()[0]
        .contains("and the host function at 0x0 that stream 1 is to call behind it may be waited for"));
    story.waits(1, NOW - SECOND, "cuStreamSynchronize", Some(0));
    assert!(story.snapshot().unwatched().is_empty());
}

#[test]
fn a_kernel_whose_end_wakes_none_of_the_threads_that_all_wait_is_slow_and_never_a_hang() {
    let story = |doing| {
        let story = TestTrace::new().patient(6 * SECOND);
        story.launch(0, SECOND, "spin").about(0, SECOND + 10, "cuEventRecord", 0xe0, 0);
        story.thread_does(7, ThreadActivity::Waiting).thread_does(8, doing).driver_says_busy(0);
        story
    };
    let stands = story(ThreadActivity::Waiting);
    stands.check_slow("spin has not ended: a signal's handler or another process may let a thread go on");
    let said = stands.diagnosis().slow.join("\n");
    assert!(said.contains("every thread outside the driver waits for another thread, without limit"), "{said}");
    for doing in [ThreadActivity::Running, ThreadActivity::Sleeping, ThreadActivity::Expecting] {
        story(doing).check_well();
    }
}

/// A kernel runs on a stream that is to call a host function behind it, while the threads do this.
fn host_function_behind_a_kernel(patience: u64, doing: &[ThreadActivity]) -> TestTrace {
    let story = TestTrace::new().patient(patience);
    let calls = Record { raw: RawPayload::about(0xca11), ..story.submit(0, SECOND + 10, "cuLaunchHostFunc") };
    story.launch(0, SECOND, "spin").call(&calls, 0);
    for (thread, doing) in (7..).zip(doing) {
        story.thread_does_since(3 * SECOND, thread, *doing);
    }
    story.driver_says_busy(0);
    story
}

#[test]
fn a_host_function_behind_a_kernel_that_alone_may_wake_a_thread_is_slow_and_after_twice_the_patience_a_hang() {
    let both = [ThreadActivity::Waiting, ThreadActivity::Waiting];
    let slow = host_function_behind_a_kernel(6 * SECOND, &both);
    slow.check_slow("has not ended: nothing known keeps it from ending, so it may only be slow");
    let said = slow.diagnosis().slow.join("\n");
    assert!(
        said.contains("the host function at 0xca11 that stream 1 is to call behind it may be waited for"),
        "{said}"
    );
    let hang = host_function_behind_a_kernel(4 * SECOND, &both);
    hang.check_verdicts_of_streams(&[(Code::LG299, "spin")]);
    let verdict = hang.diagnosis().verdicts.remove(0);
    assert_eq!(verdict.confidence, Confidence::Likely);
    let sentence = "every thread waits for another, and only the host function at 0xca11 is known to wake one: stream 1 calls it behind spin on \
                    stream 1, and spin has not ended.";
    assert_eq!(verdict.sentence, sentence);
}

#[test]
fn a_thread_that_goes_on_or_began_to_wait_lately_or_work_that_moves_elsewhere_makes_no_hang_of_it() {
    use ThreadActivity::{Expecting, Running, Sleeping, Waiting};
    for doing in [[Waiting, Running], [Waiting, Sleeping], [Waiting, Expecting], [Running, Running]] {
        host_function_behind_a_kernel(4 * SECOND, &doing)
            .check_slow("has not ended: nothing known keeps it from ending");
    }
    // They may be a server's, which waits for requests.
    host_function_behind_a_kernel(4 * SECOND, &[Expecting, Expecting]).check_well();
    host_function_behind_a_kernel(4 * SECOND, &[]).check_well();
    let lately = host_function_behind_a_kernel(4 * SECOND, &[Waiting]);
    lately.thread_does_since(NOW - 3 * SECOND, 7, Running).thread_does_since(NOW - 2 * SECOND, 7, Waiting);
    lately.check_slow("a signal's handler or another process");
    let moves = host_function_behind_a_kernel(4 * SECOND, &[Waiting]);
    moves.launch(1, NOW - SECOND, "step").call(&moves.submit(1, NOW - SECOND + 10, "cuLaunchHostFunc"), 0);
    moves.driver_says_busy(0).check_slow("a signal's handler or another process");
    let runs = host_function_behind_a_kernel(4 * SECOND, &[Waiting, Running]);
    runs.launch(1, NOW - SECOND, "step").synchronize(1, NOW - SECOND + 10).driver_says_busy(0).check_well();
}

#[test]
fn a_value_that_is_written_behind_a_kernel_may_be_waited_for_in_memory() {
    let story = TestTrace::new().patient(4 * SECOND);
    story.launch(0, SECOND, "spin").write(0, SECOND + 10, 0xf1a6, 1);
    story.thread_does(7, ThreadActivity::Running).driver_says_busy(0);
    story.check_slow("has not ended: nothing known keeps it from ending");
    let said = story.diagnosis().slow.join("\n");
    assert!(said.contains("the value that stream 1 is to write behind it may be waited for"), "{said}");
}

#[test]
fn memory_of_the_host_may_be_written_when_the_program_likes() {
    let story = beside_a_busy_thread(6 * SECOND);
    story.memory_holds(0xf1a6, 0).driver_says_busy(0);
    story.check_well();
    let lines = story.snapshot().unwatched();
    let stands = "stream 1 waits since +1.000 s for memory at 0xf1a6 to be == 1, and no submitted operation writes that; it holds 0";
    assert_eq!(lines, [format!("{stands}; no thread waits for it")]);
}

/// A kernel runs, and a thread asks for its stream by a new event each quarter of a second.
fn asked_by_new_events(patience: u64) -> TestTrace {
    let story = TestTrace::new().patient(patience);
    story.launch(0, SECOND, "serve");
    for at in (2 * SECOND..NOW).step_by(SECOND as usize / 4) {
        let destroy = Record { raw: RawPayload::about(0xe), ..story.facts("cuEventDestroy_v2", at + 20, None) };
        story.about(0, at, "cuEventRecord", 0xe, 0).asks(at + 10, 0, 0xe).call(&destroy, 0);
    }
    story.driver_says_busy(0);
    story
}

#[test]
fn a_stream_that_the_program_asks_for_and_nothing_else_is_slow_and_then_a_hang() {
    asked_by_new_events(6 * SECOND).check_verdicts_of_streams(&[(Code::LG299, "serve")]);
    asked_by_new_events(20 * SECOND).check_slow("the program has asked for its state 32 times since +2.000 s");
    let serves = asked_by_new_events(6 * SECOND);
    serves.launch(1, NOW - SECOND, "step").synchronize(1, NOW - SECOND + 10).check_well();
    let marks = asked_by_new_events(6 * SECOND);
    marks.about(1, NOW - SECOND, "cuEventRecord", 0xf, 0).check_well();
}

/// A kernel runs, and until then a server asks each second for its stream, beside other work.
fn asked_by_a_server(until: u64, patience: u64) -> TestTrace {
    let story = TestTrace::new().patient(patience);
    story.launch(0, 10, "serve");
    for at in (SECOND..until).step_by(SECOND as usize) {
        story.asks(at, 0, 0).launch(1, at + 100, "step").synchronize(1, at + 110);
    }
    story.driver_says_busy(0);
    story
}

#[test]
fn a_stream_that_a_server_asks_for_now_and_then_is_slow_after_a_long_time_and_never_a_hang() {
    asked_by_a_server(NOW, 3 * SECOND).check_slow("the program has asked for its state 9 times since +1.000 s");
    asked_by_a_server(NOW, 4 * SECOND).check_well();
    asked_by_a_server(4 * SECOND, 3 * SECOND).check_well();
    asked_by_a_server(SECOND + 1, 3 * SECOND).check_well();
    let ended = asked_by_a_server(NOW, 3 * SECOND);
    ended.launch(0, NOW - 8 * SECOND, "next").synchronize(0, NOW - 500).driver_says_busy(0).check_well();
}

#[test]
fn a_thread_that_asks_more_rarely_than_the_threshold_is_not_known_to_wait() {
    let story = TestTrace::new();
    story.launch(0, 10, "serve");
    for at in [1, 4, 7] {
        story.asks(at * SECOND, 0, 0);
    }
    story.asks(NOW - 100, 0, 0).driver_says_busy(0).check_well();
}

/// A host function stands behind a wait for a value in memory of the host, and a thread waits for another.
fn woken_behind_a_wait(patience: u64) -> TestTrace {
    let story = TestTrace::new().patient(patience);
    story.wait(0, SECOND, 0xf1a6, 1).call(&story.submit(0, SECOND + 10, "cuLaunchHostFunc"), 0);
    story.thread_does(7, ThreadActivity::Waiting).driver_says_busy(0);
    story
}

#[test]
fn threads_that_wait_for_the_host_function_behind_a_value_of_their_own_are_slow_and_then_a_hang() {
    let story = woken_behind_a_wait(6 * SECOND);
    story.own_memory_holds(0xf1a6, 0).check_verdicts_of_streams(&[(Code::LG203, "cuStreamWaitValue32_v2")]);
    let chain = story.diagnosis().verdicts[0].chain.join("\n");
    for said in ["the host function at 0x0 that stream 1 is to call", "thread 7", "0xf1a6 to be == 1", "it held 0"] {
        assert!(chain.contains(said), "{said}: {chain}");
    }
    let slow = woken_behind_a_wait(20 * SECOND);
    slow.own_memory_holds(0xf1a6, 0).check_slow("that is memory of the host, which may still write there");
}

#[test]
fn they_are_a_line_where_anything_else_may_store_the_value() {
    let line = |story: &TestTrace| {
        story.check_well();
        let lines = story.snapshot().unwatched();
        assert!(lines[0].contains("it holds 0; no thread waits for it"), "{lines:?}");
        lines[0].contains("without limit: thread 7")
    };
    let shared = woken_behind_a_wait(6 * SECOND);
    assert!(line(shared.memory_holds(0xf1a6, 0)), "another process may have it");
    let story = || {
        let story = woken_behind_a_wait(6 * SECOND);
        story.own_memory_holds(0xf1a6, 0);
        story
    };
    for doing in [ThreadActivity::Running, ThreadActivity::Sleeping, ThreadActivity::Expecting] {
        assert!(!line(story().thread_does(8, doing)), "{doing:?}");
    }
    assert!(line(story().launch(1, 2 * SECOND, "stores").driver_says_busy(1)), "a kernel may");
    let reset = story();
    reset.launch(0, 2 * SECOND, "k").driver_says_busy(0);
    assert!(line(&reset), "the word may have been reset, and the kernel behind the wait run");
    let other = story();
    other.wait(0, 2 * SECOND, 0xf1a8, 1).driver_says_busy(0);
    assert!(line(other.memory_holds(0xf1a8, 0)), "the stream may stand at the later wait");
    let unseen = TestTrace::new().patient(6 * SECOND);
    unseen.wait(0, SECOND, 0xf1a6, 1).call(&unseen.submit(0, SECOND + 10, "cuLaunchHostFunc"), 0);
    assert!(!line(unseen.own_memory_holds(0xf1a6, 0).driver_says_busy(0)), "the threads were not looked at");
    let armed = TestTrace::new().patient(6 * SECOND);
    armed.wait(0, SECOND, 0xf1a6, 1).thread_does(7, ThreadActivity::Waiting).driver_says_busy(0);
    assert!(line(armed.own_memory_holds(0xf1a6, 0)), "nothing behind the wait wakes a thread");
}

/// A retry each half second: this call behind the wait, then a kernel.
fn tried_again(call: &str) -> TestTrace {
    let story = TestTrace::new();
    story.wait(0, SECOND, 0xf1a6, 1);
    for at in (SECOND + SECOND / 2..NOW).step_by(SECOND as usize / 2) {
        story.call(&story.submit(0, at, call), 0).launch(0, at + 100, "step");
    }
    story.driver_says_busy(0);
    story
}

#[test]
fn a_stuck_stream_that_is_still_submitted_to_is_at_rest() {
    let story = tried_again("cuLaunchHostFunc");
    story.check_verdicts_of_streams(&[(Code::LG203, "cuStreamWaitValue32_v2")]);
    let story = TestTrace::new();
    story.wait(0, SECOND, 0xf1a6, 1);
    for at in 2..10 {
        story.about(0, at * SECOND, "cuEventRecord", 0xe0 + at, 0);
    }
    story.driver_says_busy(0);
    story.check_verdicts_of_streams(&[(Code::LG203, "cuStreamWaitValue32_v2")]);
}

#[test]
fn a_stream_that_is_submitted_to_may_have_passed_what_no_host_function_follows() {
    tried_again("cuEventRecord").check_well();
    // The host function is called, so the wait is over.
    let story = tried_again("cuLaunchHostFunc");
    story.host_function(0, NOW - 2000, NOW - 1000, 7, Some(NOW - 900)).driver_says_busy(0).check_well();
    // Behind a kernel that runs, a server is fed.
    let story = TestTrace::new();
    story.launch(0, SECOND, "serve").call(&story.submit(0, 2 * SECOND, "cuLaunchHostFunc"), 0);
    story.launch(0, NOW - 100, "step").driver_says_busy(0).check_well();
}

#[test]
fn a_stream_in_the_cycle_of_a_call_is_no_second_cause() {
    let mut story = TestTrace::of(StreamKind::Blocking);
    let key = StreamKey { handle: 1, context: story.context, thread: 0 };
    story.streams[2] = story.tracker.stream(key, story.context, StreamKind::Legacy, 1);
    story.wait(0, SECOND, 0xf1a6, 1).launch(2, SECOND + 10, "step").write(1, SECOND + 20, 0xf1a6, 1);
    story.waits(1, SECOND + 30, "cuStreamSynchronize", Some(1)).driver_says_busy(2);
    story.check(&[(Code::LG203, "cuStreamWaitValue32_v2")]);
    let sentence = &story.diagnosis().verdicts[0].sentence;
    assert!(sentence.starts_with("streams ") && sentence.contains(" and "), "{sentence}");
}
