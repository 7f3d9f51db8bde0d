//! Operations of streams about which the driver cannot be asked, beside streams for which it has answered.

use super::test_trace::TestTrace;
use super::Code;
use crate::state::{StreamKey, StreamKind};
use crate::trace::{Kind, Record};

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
fn an_answer_of_before_the_call_says_nothing() {
    let story = old_and_spin(StreamKind::NonBlocking);
    busy(&story, 1);
    let (now, second) = (super::test_trace::NOW, super::test_trace::SECOND);
    let story = story.patient(0);
    story.waits(1, now - second / 2, "cuCtxSynchronize", None);
    let snapshot = super::snapshot_of(&story.recording(), second / 4, second / 4).unwrap();
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
