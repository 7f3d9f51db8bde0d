//! Operations of streams about which the driver cannot be asked, beside streams for which it has answered.

use super::test_trace::{TestTrace, NOW};
use super::{Code, Confidence};
use crate::state::{StreamKey, StreamKind};
use crate::trace::{Kind, RawPayload, Record};

const NOT_READY: i32 = 600;

/// The driver answers of a stream that it is busy.
fn busy(story: &TestTrace, stream: usize) {
    let query = story.facts("cuStreamQuery", 0, Some(stream));
    story.seen(Record { kind: Kind::Seen, result: NOT_READY, ..query });
}

fn destroy(story: &TestTrace, stream: usize) {
    let handle = 0x51 + stream as u64;
    story.tracker.stream_gone(StreamKey { handle, context: 0, thread: 0 });
    assert!(story.tracker.stream_entry(story.streams[stream]).unwrap().destroyed());
}

/// `old` on a stream that is destroyed, then `spin` on another one.
fn old_and_spin(kind: StreamKind) -> TestTrace {
    let story = TestTrace::of(kind);
    story.launch(0, 10, "old");
    destroy(&story, 0);
    story.launch(1, 20, "spin");
    story
}

#[test]
fn what_is_known_to_be_busy_is_named_before_what_a_destroyed_stream_had_to_do() {
    let story = old_and_spin(StreamKind::NonBlocking);
    story.waits(1, 30, "cuCtxSynchronize", None);
    story.check(&[(Code::LG299, "old")]);
    busy(&story, 1);
    story.check(&[(Code::LG299, "spin")]);
    // It may still be the other one.
    let named = |story: &TestTrace| {
        let verdict = story.diagnosis().verdicts.remove(0);
        verdict.culprits.iter().map(|c| c.operation.function.clone().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(named(&story), ["spin", "old"]);
    let story = old_and_spin(StreamKind::NonBlocking);
    story.blocked(1, 30, "cuModuleLoadData", None, Kind::ColdModule, "");
    busy(&story, 1);
    story.check(&[(Code::LG202, "spin")]);
    assert_eq!(named(&story), ["spin", "old"]);
}

#[test]
fn a_thread_that_is_blocked_on_a_stream_shows_as_well_that_it_is_busy() {
    let story = old_and_spin(StreamKind::NonBlocking);
    story.waits(1, 30, "cuCtxSynchronize", None).waits(2, 40, "cuStreamSynchronize", Some(1));
    story.check(&[(Code::LG299, "spin")]);
}

#[test]
fn a_thread_that_polls_a_stream_or_waits_for_an_event_of_it_shows_it_too() {
    let with = |waits: &dyn Fn(&TestTrace)| {
        let story = old_and_spin(StreamKind::NonBlocking);
        story.about(1, 25, "cuEventRecord", 0xe, 0).waits(1, 30, "cuCtxSynchronize", None);
        waits(&story);
        story.diagnosis().verdicts[0].culprits[0].operation.function.clone().unwrap()
    };
    let waits_for_the_event = |story: &TestTrace| {
        let raw = RawPayload::about(0xe);
        story.blocked_in(2, &Record { raw, ..story.facts("cuEventSynchronize", 40, Some(1)) });
    };
    assert_eq!(with(&|_| ()), "old");
    assert_eq!(with(&|story| _ = story.polls(2, 40, NOW - 1000, "cuStreamQuery", 1, 0)), "spin");
    assert_eq!(with(&|story| _ = story.polls(2, 40, NOW - 1000, "cuEventQuery", 1, 0xe)), "spin");
    assert_eq!(with(&waits_for_the_event), "spin");
}

/// A stream that waits for an event behind `k1`, then for one behind `k3`, of two other streams.
fn two_events() -> TestTrace {
    let story = TestTrace::new();
    story.launch(0, 10, "k1").about(0, 12, "cuEventRecord", 0xe, 0);
    story.launch(2, 14, "k3").about(2, 16, "cuEventRecord", 0xf, 0);
    story.about(1, 20, "cuStreamWaitEvent", 0xe, 0).about(1, 22, "cuStreamWaitEvent", 0xf, 0);
    story.waits(1, 30, "cuStreamSynchronize", Some(1));
    story
}

#[test]
fn of_two_events_the_later_one_is_named_where_the_former_may_be_complete_and_its_stream_cannot_be_asked() {
    two_events().check(&[(Code::LG299, "k1")]);
    let story = two_events();
    busy(&story, 2);
    story.check(&[(Code::LG299, "k1")]);
    let story = two_events();
    destroy(&story, 0);
    story.check(&[(Code::LG299, "k1")]);
    busy(&story, 2);
    story.check(&[(Code::LG299, "k3")]);
}

#[test]
fn an_answer_of_before_the_call_says_nothing() {
    let story = old_and_spin(StreamKind::NonBlocking);
    busy(&story, 1);
    let (now, second) = (NOW, super::test_trace::SECOND);
    let story = story.patient(0);
    story.waits(1, now - second / 2, "cuCtxSynchronize", None);
    let snapshot = super::snapshot_at(&story.recording(), 0, second / 4, second / 4).unwrap();
    let verdict = &super::diagnose(&snapshot).verdicts[0];
    assert_eq!(verdict.culprits[0].operation.function.as_deref(), Some("old"));
}

#[test]
fn a_load_that_waits_for_several_streams_waits_for_the_one_that_is_busy() {
    let story = old_and_spin(StreamKind::NonBlocking);
    story.cold(2, 25, "k2").waits(1, 30, "cuStreamSynchronize", Some(2));
    story.check(&[(Code::LG201, "old")]);
    busy(&story, 1);
    story.check(&[(Code::LG201, "spin")]);
}

#[test]
fn the_default_stream_waits_for_the_stream_that_is_busy() {
    let story = old_and_spin(StreamKind::Blocking);
    let key = StreamKey { handle: 1, context: story.context, thread: 0 };
    let legacy = story.tracker.stream(key, story.context, StreamKind::Legacy, 1);
    story.call(&Record { stream: legacy, ..story.submit(0, 25, "cuLaunchKernel") }, 0);
    story.blocked_in(1, &Record { stream: legacy, ..story.facts("cuEventSynchronize", 30, None) });
    busy(&story, 1);
    story.check(&[(Code::LG299, "spin")]);
}

#[test]
fn a_wait_of_a_destroyed_stream_that_memory_does_not_satisfy_is_named_all_the_same() {
    let story = TestTrace::new();
    story.wait(0, 10, 0xa, 1);
    destroy(&story, 0);
    story.launch(1, 20, "spin").waits(1, 30, "cuCtxSynchronize", None);
    busy(&story, 1);
    story.check(&[(Code::LG299, "spin")]);
    story.memory_holds(0xa, 7);
    story.check(&[(Code::LG203, "cuStreamWaitValue32_v2")]);
}

#[test]
fn without_an_answer_of_another_stream_the_oldest_operation_is_named() {
    let story = TestTrace::new();
    story.launch(0, 10, "old").launch(1, 20, "spin");
    destroy(&story, 0);
    destroy(&story, 1);
    story.waits(1, 30, "cuCtxSynchronize", None);
    story.check(&[(Code::LG299, "old")]);
}

/// `k1` on the first stream, `k2` loaded on first use on the second, and there a wait for a value that nobody writes.
fn load_and_wait() -> TestTrace {
    let story = TestTrace::new();
    story.launch(0, 10, "k1").cold(1, 20, "k2").wait(1, 30, 0xf1a6, 1);
    story.waits(1, 40, "cuStreamSynchronize", Some(1));
    story
}

#[test]
fn a_wait_behind_a_load_that_has_returned_explains_more_than_its_barrier() {
    let said = |story: &TestTrace| story.diagnosis().verdicts[0].chain.join("\n");
    let story = load_and_wait();
    busy(&story, 1);
    story.check(&[(Code::LG203, "cuStreamWaitValue32_v2")]);
    assert!(
        said(&story).contains("if k1 on stream 1 has not ended, that is a barrier as well (LG201)"),
        "{}",
        said(&story)
    );
    // Also where the thread that has made the load waits since.
    let story = load_and_wait();
    let (_, slot) = story.tracker.threads().find(|(_, slot)| slot.thread() == 100).unwrap();
    let waits = story.facts("cuStreamSynchronize", 45, Some(1));
    slot.mark(&slot.open(&waits, waits.entry_point.class()));
    busy(&story, 1);
    story.check(&[(Code::LG203, "cuStreamWaitValue32_v2")]);
    // Something else may keep that stream busy.
    let story = load_and_wait();
    story.launch(0, 35, "later");
    busy(&story, 0);
    busy(&story, 1);
    story.check(&[(Code::LG203, "cuStreamWaitValue32_v2")]);
    // Nothing else is there.
    let story = load_and_wait();
    busy(&story, 0);
    busy(&story, 1);
    story.check(&[(Code::LG201, "k1")]);
    assert_eq!(story.diagnosis().verdicts[0].confidence, Confidence::Likely);
    let mut snapshot = story.snapshot();
    snapshot.streams.iter_mut().for_each(|stream| stream.all_recorded = false);
    assert_eq!(super::diagnose(&snapshot).verdicts[0].code, Code::LG203, "what came later may have been overwritten");
    // A wait for an event of a third stream may keep the first one busy.
    let story = load_and_wait();
    story.launch(2, 31, "k3").about(2, 32, "cuEventRecord", 0xe, 0).about(0, 33, "cuStreamWaitEvent", 0xe, 0);
    busy(&story, 0);
    busy(&story, 1);
    story.check(&[(Code::LG203, "cuStreamWaitValue32_v2")]);
    // An event behind `k1` is not complete.
    let story = load_and_wait();
    story.about(0, 32, "cuEventRecord", 0xe, 0).launch(0, 35, "later").polls(7, 50, NOW - 1000, "cuEventQuery", 0, 0xe);
    story.check(&[(Code::LG201, "k1")]);
}

#[test]
fn a_wait_of_another_stream_behind_a_load_explains_it_as_well() {
    let story = TestTrace::new();
    story.launch(0, 10, "k1").cold(1, 20, "k2").wait(0, 30, 0xf1a6, 1).about(0, 32, "cuEventRecord", 0xe, 0);
    story.about(1, 34, "cuStreamWaitEvent", 0xe, 0).launch(1, 36, "k3").waits(1, 40, "cuStreamSynchronize", Some(1));
    busy(&story, 0);
    busy(&story, 1);
    story.check(&[(Code::LG203, "cuStreamWaitValue32_v2")]);
}

#[test]
fn a_kernel_behind_a_load_explains_no_more_than_its_barrier() {
    let story = TestTrace::new();
    story.launch(0, 10, "k1").cold(1, 20, "k2");
    // On a stream of another context, so that the load does not hold it back.
    let other = story.tracker.context(0xd0, 1);
    let key = StreamKey { handle: 0x99, context: 0, thread: 0 };
    let far = story.tracker.stream(key, other, StreamKind::NonBlocking, 1);
    let on_it = |facts: Record| Record { stream: far, context: other as u16, ..facts };
    story.call(&on_it(story.submit(0, 22, "cuLaunchKernel")), 0);
    let record = Record { raw: RawPayload::memory(0xe, 0), ..story.submit(0, 24, "cuEventRecord") };
    story.call(&on_it(record), 0);
    story.about(1, 26, "cuStreamWaitEvent", 0xe, 0).waits(1, 40, "cuStreamSynchronize", Some(1));
    story.check(&[(Code::LG201, "k1")]);
}

#[test]
fn a_load_in_progress_is_not_passed() {
    let story = TestTrace::new();
    story.launch(0, 10, "k1").blocked(2, 20, "cuModuleGetFunction", None, Kind::ColdFunction, "k2");
    story.launch(1, 25, "k3").wait(1, 30, 0xf1a6, 1).waits(1, 40, "cuStreamSynchronize", Some(1));
    story.check(&[(Code::LG201, "k1")]);
}
