use super::super::test_trace::TestTrace;
use super::*;
use crate::api::{Call, StreamKind};
use crate::diagnose::{Origin, StreamRef};
use crate::report::{GpuDumpSeen, HangReport, Outcome, PreloadSummary};
use crate::trace::RawPayload;

/// A call that a report named.
fn named(thread: u32, call: &str, entered: Nanos, queries: Option<u64>, story: &TestTrace) -> BlockedCall {
    let stream = StreamRef { number: story.streams[0], handle: 0x51, kind: StreamKind::NonBlocking, context: 0xc0 };
    BlockedCall {
        thread,
        thread_name: "main".to_owned(),
        call: Call::from(call.to_owned()),
        entered,
        blocked_nanos: 5,
        past_threshold: true,
        context: 0xc0,
        stream: queries.map(|_| stream),
        function: None,
        cold: None,
        queries,
        event_recorded: None,
        no_entry: false,
        compiles: false,
        computes: None,
        alone_nanos: 0,
        error: None,
        sets_aside: false,
        is_guards: false,
        origin: Origin::default(),
    }
}

fn ends(story: &TestTrace, calls: &[BlockedCall]) -> Vec<CallEnd> {
    ends_of(&story.recording(), calls.iter()).unwrap()
}

/// A report of these calls, over with these ends, and its line.
fn over(story: &TestTrace, calls: Vec<BlockedCall>) -> (HangReport, String) {
    let ends = ends(story, &calls);
    let snapshot = crate::diagnose::Snapshot { at: 500_000_000, blocked: calls, ..Default::default() };
    let mut report = HangReport::new(7, "app", None, snapshot, PreloadSummary::default());
    (report.status, report.resolved, report.ends) = (crate::diagnose::Status::Hang, Some(900_000_000), ends);
    let line = report.went_on(900_000_000);
    (report, line.as_str().to_owned())
}

#[test]
fn a_call_that_returned_is_told_from_one_that_failed() {
    let story = TestTrace::new();
    story.call(&story.facts("cuCtxSynchronize", 20, None), 0);
    let (report, line) = over(&story, vec![named(100, "cuCtxSynchronize", 20, None, &story)]);
    assert_eq!((report.outcome(), report.stands(), report.ends[0].at), (Outcome::Resolved, false, Some(21)));
    assert_eq!(
        line,
        "lazyguard: RESOLVED pid 7 (app): it went on by itself 0.4 s after the report, so it was slow, not stuck\n"
    );
    story.call(&story.facts("cuCtxSynchronize", 30, None), 719);
    let (report, line) = over(&story, vec![named(100, "cuCtxSynchronize", 30, None, &story)]);
    assert_eq!((report.outcome(), report.stands(), report.ends[0].result), (Outcome::Failed, true, Some(719)));
    assert_eq!(
        line,
        "lazyguard: ENDED WITH ERROR 719 (CUDA_ERROR_LAUNCH_FAILED) pid 7 (app): cuCtxSynchronize in thread 100 returned \
         it 0.4 s after the report\n"
    );
    // An invalid image is no error of the work that the load waited for.
    story.call(&story.facts("cuModuleLoadData", 40, None), 209);
    let (report, line) = over(&story, vec![named(100, "cuModuleLoadData", 40, None, &story)]);
    assert_eq!((report.outcome(), report.stands()), (Outcome::Failed, false));
    assert!(line.contains("ENDED WITH ERROR 209 (CUDA_ERROR_NO_BINARY_FOR_GPU)"), "{line}");
}

/// A dump that the driver was asked for.
fn asked(at: Nanos, fails: bool) -> GpuDumpSeen {
    GpuDumpSeen { at, taken: true, fails, bytes: None, missing: None, unanswered: false, ignored: false }
}

#[test]
fn of_a_request_that_the_driver_loses_no_error_is_promised() {
    let lost = |fails: bool| {
        let why = "the driver has taken the request and written nothing in 10s".to_owned();
        GpuDumpSeen { missing: Some(why), unanswered: true, ..asked(21, fails) }
    };
    assert_eq!(
        [asked(21, true), asked(21, false), lost(true), GpuDumpSeen { taken: false, ..asked(21, true) }]
            .map(|dump| dump.fails_calls()),
        [true, false, false, false]
    );
    let line = "no GPU core dump: the driver has taken the request and written nothing in 10s";
    assert_eq!(lost(false).missing_in_words().as_deref(), Some(line));
    assert_eq!(lost(true).missing_in_words(), Some(format!("{line}; the blocked calls may stay blocked")));
    // An error that comes all the same is the guard's doing.
    let story = TestTrace::new();
    story.call(&story.facts("cuCtxSynchronize", 20, None), 719);
    let (mut report, _) = over(&story, vec![named(100, "cuCtxSynchronize", 20, None, &story)]);
    report.gpu_dump = Some(lost(true));
    assert_eq!((report.outcome(), report.stands()), (Outcome::FailedOnPurpose, true));
}

/// As a launch does that waits for room in a full queue.
#[test]
fn a_call_that_returned_because_its_work_was_ended_on_purpose_is_not_one_that_went_on() {
    let story = TestTrace::new();
    story.call(&story.facts("cuLaunchKernel", 20, None), 0);
    let (mut report, _) = over(&story, vec![named(100, "cuLaunchKernel", 20, None, &story)]);
    let dump = |at: u64| asked(at, true);
    report.gpu_dump = Some(dump(21));
    assert_eq!((report.outcome(), report.stands()), (Outcome::FailedOnPurpose, true));
    assert_eq!(
        report.went_on(900_000_000).as_str(),
        "lazyguard: FAILED ON PURPOSE WITH ERROR 719 (CUDA_ERROR_LAUNCH_FAILED) pid 7 (app): cuLaunchKernel in thread 100 \
         returned 0.4 s after the report, and the calls after it return the error\n"
    );
    assert_eq!(
        report.ends_in_words(),
        ["cuLaunchKernel in thread 100 returned at +0.000 s; calls after it return error 719 (CUDA_ERROR_LAUNCH_FAILED)"]
    );
    // The dump was made, and is not kept.
    let too_large = GpuDumpSeen { missing: Some("it has 1025 MiB, more than is kept".to_owned()), ..dump(21) };
    report.gpu_dump = Some(too_large);
    assert_eq!((report.outcome(), report.stands()), (Outcome::FailedOnPurpose, true));
    // It had returned before; the driver was asked to no effect; the process was to be ended.
    for other in [
        dump(22),
        GpuDumpSeen { unanswered: true, ..dump(21) },
        GpuDumpSeen { taken: false, ..dump(21) },
        GpuDumpSeen { fails: false, ..dump(21) },
    ] {
        report.gpu_dump = Some(other);
        assert_eq!((report.outcome(), report.stands()), (Outcome::Resolved, false));
        assert_eq!(report.ends_in_words(), ["cuLaunchKernel in thread 100 returned at +0.000 s"]);
    }
}

#[test]
fn queries_end_with_the_answer_that_is_not_not_ready() {
    for (answer, how) in [(719, HowEnded::Failed), (0, HowEnded::Returned)] {
        let story = TestTrace::new();
        story.launch(0, 10, "k").polls(7, 20, 60, "cuEventQuery", 0, 0xe);
        let slot = story.tracker.threads().find(|(_, slot)| slot.thread() == 7).unwrap().1;
        let facts = Record { raw: RawPayload::about(0xe).with_queries(1), ..story.facts("cuEventQuery", 80, Some(0)) };
        let open = slot.open(&facts, facts.entry_point.class());
        slot.mark(&open);
        slot.close(open, facts.entry_point.class(), 81, answer);
        slot.unmark();
        let end = ends(&story, &[named(7, "cuEventQuery", 20, Some(3), &story)]).remove(0);
        assert_eq!((end.how, end.at, end.result), (how, Some(81), (answer != 0).then_some(answer)));
    }
}

#[test]
fn a_thread_that_asks_no_more_has_not_learnt_that_it_ended() {
    let story = TestTrace::new();
    story.launch(0, 10, "k").polls(7, 20, 60, "cuStreamQuery", 0, 0);
    let (report, line) = over(&story, vec![named(7, "cuStreamQuery", 20, Some(3), &story)]);
    assert_eq!((report.outcome(), report.stands()), (Outcome::Abandoned, false));
    let expect =
        "ABANDONED pid 7 (app): thread 7 polls cuStreamQuery no more, and what it asked about is not known to have \
                  ended, 0.4 s after the report";
    assert!(line.contains(expect), "{line}");
    // Another call has shown it since.
    story.synchronize(0, 70);
    let end = ends(&story, &[named(7, "cuStreamQuery", 20, Some(3), &story)]).remove(0);
    assert_eq!(end.how, HowEnded::Returned);
}

#[test]
fn a_thread_that_left_its_call_or_ended_in_it_has_not_gone_on() {
    let story = TestTrace::new();
    story.waits(7, 20, "cuCtxSynchronize", None).waits(8, 30, "cuCtxSynchronize", None);
    let calls = [7, 8].map(|thread| named(thread, "cuCtxSynchronize", if thread == 7 { 20 } else { 30 }, None, &story));
    assert_eq!(ends(&story, &calls), [], "they are in progress");
    let slot = |id: u32| story.tracker.threads().find(|(_, slot)| slot.thread() == id).unwrap();
    slot(7).1.abandon(60);
    story.tracker.end_thread(slot(8).0, 70);
    let (report, line) = over(&story, calls.to_vec());
    let how: Vec<_> = report.ends.iter().map(|end| (end.how, end.at)).collect();
    assert_eq!(how, [(HowEnded::Left, Some(60)), (HowEnded::Left, Some(70))]);
    assert_eq!((report.outcome(), report.stands()), (Outcome::Abandoned, true));
    let expect =
        "ABANDONED pid 7 (app): thread 7 left cuCtxSynchronize without its return, by an exception, a jump or a";
    assert!(line.contains(expect), "{line}");
}

#[test]
fn what_is_not_known_is_not_said() {
    let story = TestTrace::new();
    let (report, line) = over(&story, vec![named(9, "cuCtxSynchronize", 20, None, &story)]);
    assert_eq!((report.ends[0].how, report.stands()), (HowEnded::Unknown, false));
    assert_eq!(line, "lazyguard: RESOLVED pid 7 (app): it went on 0.4 s after the report\n");
    // If no thread was in a call, only a further call is known.
    let (_, line) = over(&story, Vec::new());
    assert_eq!(line, "lazyguard: RESOLVED pid 7 (app): it called the driver again 0.4 s after the report\n");
}
