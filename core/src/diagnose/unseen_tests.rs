//! Calls that wait for what the guard does not follow: more streams than the tables have room for, or more destroyed ones than are kept.

use super::test_trace::{TestTrace, NOW, SECOND};
use super::{links_of, Code, Confidence, Diagnosis, Party, Status};
use crate::replay::Scope;
use crate::state::{StreamKey, StreamKind};
use crate::trace::{Kind, RawPayload, Record};

const SYNC: &str = "cuStreamSynchronize";

fn key(handle: u64) -> StreamKey {
    StreamKey { handle, context: 0, thread: 0 }
}

/// A stream with a number for which the table has no room.
fn beyond(story: &TestTrace) -> u32 {
    let room = story.tracker.recorder().shape().streams;
    let of = |n: u64| story.tracker.stream(key(0x1000 + n), story.context, StreamKind::NonBlocking, 1);
    (0..room as u64).map(of).last().filter(|number| *number as usize > room).unwrap()
}

/// Launches on so many streams, each of which is destroyed then; their work may have ended.
fn destroyed(story: &TestTrace, count: u64, from: u64, ended: bool) {
    for n in 0..count {
        let (handle, at) = (0x9000 + from + n, from + 10 * n);
        let stream = story.tracker.stream(key(handle), story.context, StreamKind::NonBlocking, at);
        let function = story.function("old");
        story.call(&Record { stream, function, ..story.submit(0, at, "cuLaunchKernel") }, 0);
        story.tracker.stream_gone(key(handle));
        if ended {
            story.tracker.ended(Scope::Stream(stream), at + 5);
        }
    }
}

fn sentence(diagnosis: &Diagnosis) -> &str {
    &diagnosis.verdicts[0].sentence
}

#[test]
fn a_wait_for_a_stream_without_an_entry_is_a_hang_once_the_patience_is_over() {
    let story = TestTrace::new();
    let stream = beyond(&story);
    story.blocked_in(1, &Record { stream, ..story.facts(SYNC, 30, None) });
    let diagnosis = story.diagnosis();
    assert_eq!((diagnosis.status, diagnosis.verdicts[0].code), (Status::Hang, Code::LG299), "{diagnosis:#?}");
    assert_eq!(diagnosis.verdicts[0].confidence, Confidence::Possible);
    assert_eq!(
        sentence(&diagnosis),
        "cuStreamSynchronize cannot return: it waits for a stream that the guard does not follow."
    );
    assert!(diagnosis.verdicts[0].chain[1].contains("tables had no room for that stream"), "{diagnosis:#?}");
    assert!(diagnosis.verdicts[0].fix.contains("LAZYGUARD_RECORD"), "{diagnosis:#?}");
    let links = links_of(&story.snapshot(), &diagnosis.verdicts[0]);
    assert_eq!((&links[0].from, &links[0].to), (&Party::Thread(1), &Party::Unseen));
    // The stream has its name all the same.
    let call = &story.snapshot().blocked[0];
    assert_eq!(call.stream.as_ref().map(|stream| stream.number), Some(stream));
    story.patient(20 * SECOND).check_slow("what that does is not known");
}

#[test]
fn operations_of_other_streams_are_not_named_for_a_stream_without_an_entry() {
    for call in [SYNC, "cuEventSynchronize"] {
        let story = TestTrace::new();
        let stream = beyond(&story);
        story.launch(0, 10, "k").blocked_in(1, &Record { stream, ..story.facts(call, 30, None) });
        let diagnosis = story.diagnosis();
        assert_eq!(
            (diagnosis.verdicts[0].code, diagnosis.verdicts[0].culprits.len()),
            (Code::LG299, 0),
            "{diagnosis:#?}"
        );
    }
    // Neither is any for a launch.
    let story = TestTrace::new();
    let stream = beyond(&story);
    story.launch(0, 10, "k").blocked_in(1, &Record { stream, ..story.facts("cuLaunchKernel", 30, None) });
    story.check(&[(Code::LG299, "")]);
}

#[test]
fn who_polls_a_stream_without_an_entry_hangs_where_the_program_does_nothing_else() {
    let polls = |last_call: u64| {
        let story = TestTrace::new();
        let stream = beyond(&story);
        let slot = story.tracker.thread(TestTrace::begin_thread(&story.tracker, 7)).unwrap();
        for at in (30..NOW).step_by(SECOND as usize / 4) {
            let raw = RawPayload::default().with_queries(1);
            let query = Record { kind: Kind::Queries, raw, stream, ..story.facts("cuStreamQuery", at, None) };
            let class = query.entry_point.class();
            let open = slot.open(&query, class);
            slot.mark(&open);
            slot.close(open, class, at + 1, 600);
            slot.unmark();
        }
        story.about(2, last_call, "cuEventRecord", 0x7, 0);
        story.diagnosis()
    };
    let diagnosis = polls(40);
    assert_eq!((diagnosis.status, diagnosis.verdicts[0].code), (Status::Hang, Code::LG299), "{diagnosis:#?}");
    assert!(sentence(&diagnosis).starts_with("cuStreamQuery goes on answering \"not ready\""), "{diagnosis:#?}");
    // Calls may be what is submitted to that stream.
    let diagnosis = polls(6 * SECOND);
    assert_eq!((diagnosis.status, diagnosis.verdicts.len()), (Status::Slow, 0), "{diagnosis:#?}");
}

#[test]
fn a_wait_for_the_context_is_a_hang_where_some_stream_has_no_entry() {
    let story = TestTrace::new();
    story.waits(1, 30, "cuCtxSynchronize", None).check_unexplained();
    beyond(&story);
    let diagnosis = story.diagnosis();
    assert_eq!((diagnosis.status, diagnosis.verdicts[0].code), (Status::Hang, Code::LG299), "{diagnosis:#?}");
    assert!(sentence(&diagnosis).ends_with("it waits for streams that the guard does not follow."), "{diagnosis:#?}");
    // Work that is known to be in flight is named as before.
    story.launch(0, 20, "k").check(&[(Code::LG299, "k")]);
    // A load may take long by itself.
    let story = TestTrace::new().patient(20 * SECOND);
    beyond(&story);
    story.blocked(1, 30, "cuModuleLoadData", None, Kind::ColdModule, "").check_slow("only be slow");
}

#[test]
fn two_threads_that_wait_for_different_streams_without_entries_are_two_findings() {
    let story = TestTrace::new();
    let stream = beyond(&story);
    for (thread, stream) in [(1, stream), (2, stream - 1), (3, stream)] {
        story.blocked_in(thread, &Record { stream, ..story.facts(SYNC, 30 + u64::from(thread), None) });
    }
    let threads: Vec<_> = story.diagnosis().verdicts.into_iter().map(|verdict| verdict.threads).collect();
    assert_eq!(threads, [vec![1, 3], vec![2]]);
}

#[test]
fn work_of_destroyed_streams_that_are_no_longer_followed_may_be_what_does_not_end() {
    let story = TestTrace::new();
    destroyed(&story, 33, 100, false);
    story.waits(1, 1000, "cuCtxSynchronize", None);
    let verdict = &story.diagnosis().verdicts[0];
    assert!(verdict.chain.iter().any(|line| line.contains("more streams were destroyed")), "{verdict:#?}");
    // The work of all followed streams has ended.
    let story = TestTrace::new();
    destroyed(&story, 33, 100, false);
    let followed: Vec<_> = story.tracker.streams().filter(|(_, s)| s.destroyed()).map(|(number, _)| number).collect();
    followed.into_iter().for_each(|number| story.tracker.ended(Scope::Stream(number), 900));
    story.waits(1, 1000, "cuCtxSynchronize", None);
    let diagnosis = story.diagnosis();
    assert_eq!((diagnosis.status, diagnosis.verdicts[0].code), (Status::Hang, Code::LG299), "{diagnosis:#?}");
    assert!(sentence(&diagnosis).ends_with("destroyed streams that the guard no longer follows."), "{diagnosis:#?}");
    // Not of a load, nor of a wait for a stream, nor once the context was idle.
    story.tracker.context_complete(story.context, 950);
    assert_eq!(story.snapshot().unfollowed, []);
}

#[test]
fn what_is_named_beside_work_that_is_not_followed_is_certain_only_if_it_is_known_not_to_have_ended() {
    let load = |unfollowed: bool, asked: bool| {
        let story = TestTrace::new();
        if unfollowed {
            destroyed(&story, 33, 100, false);
            // All that are still followed have ended.
            let followed: Vec<_> =
                story.tracker.streams().filter(|(_, s)| s.destroyed()).map(|(number, _)| number).collect();
            followed.into_iter().for_each(|number| story.tracker.ended(Scope::Stream(number), 900));
        }
        story.launch(0, 1000, "k").blocked(1, 1100, "cuModuleLoadData", None, Kind::ColdModule, "");
        if asked {
            let query = story.facts("cuStreamQuery", 0, Some(0));
            story.seen(Record { kind: Kind::Seen, result: 600, ..query });
        }
        story.check(&[(Code::LG202, "k")]);
        story.diagnosis().verdicts[0].confidence
    };
    assert_eq!(load(false, false), Confidence::Likely);
    assert_eq!(load(true, false), Confidence::Possible);
    assert_eq!(load(true, true), Confidence::Likely);
}
