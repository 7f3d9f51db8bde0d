use super::super::test_trace::{TestTrace, NOW, SECOND};
use super::super::{links_of, snapshot_at, Party, ThreadActivity};
use super::*;
use crate::api::{ComputeTime, ENTRY_POINTS};
use crate::state::{Operation, StreamKey, StreamKind};
use crate::trace::layout::{flag, image};
use crate::trace::{Image, Kind, LaunchKey, RawPayload, Record};

const SYNC: &str = "cuStreamSynchronize";

#[test]
fn the_barrier_of_a_cold_function_is_blamed_on_what_it_stands_behind() {
    let story = TestTrace::new();
    story.launch(0, 10, "k1").cold(1, 20, "k2").waits(1, 30, "cuCtxSynchronize", None);
    story.check(&[(Code::LG201, "k1")]);
    let fix = &story.diagnosis().verdicts[0].fix;
    assert!(fix.contains("cudaFuncGetAttributes(k2)") && fix.contains("before launching k1"), "{fix}");
}

#[test]
fn an_innocent_stream_synchronized_after_a_cold_load_is_explained() {
    let story = TestTrace::new();
    story.launch(0, 10, "spin").cold(1, 20, "k2").launch(2, 25, "warm").waits(1, 30, SYNC, Some(2));
    story.check(&[(Code::LG201, "spin")]);
}

#[test]
fn the_stream_that_the_barrier_stands_behind_waits_for_what_it_keeps_back() {
    let story = TestTrace::new();
    story.launch(0, 10, "spin").cold(1, 20, "k2").waits(1, 30, SYNC, Some(0));
    story.check(&[(Code::LG201, "spin")]);
}

#[test]
fn the_first_launch_of_a_context_is_a_barrier_where_a_module_prints() {
    for (image, code) in [(1, Code::LG299), (0x101, Code::LG201)] {
        first_launch_beside_a_wait(image, code);
    }
}

fn image_of(bits: u64) -> RawPayload {
    RawPayload::image(Image::of(bits))
}

fn first_launch_beside_a_wait(image: u64, code: Code) {
    let story = TestTrace::new().patient(0);
    let load = story.facts("cuModuleLoadData", 5, None);
    story.call(&Record { kind: Kind::ColdModule, raw: image_of(image).with_owner(0x77), ..load }, 0);
    let other = story.tracker.context(0xd0, 1);
    let streams = [0x91, 0x92].map(|handle| {
        let key = StreamKey { handle, context: 0, thread: 0 };
        story.tracker.stream(key, other, StreamKind::NonBlocking, 1)
    });
    let on = |stream: usize, facts: Record| Record { stream: streams[stream], context: other as u16, ..facts };
    story.call(&on(0, story.submit(0, 10, "cuWaitExternalSemaphoresAsync")), 0);
    let launch = Record { function: story.function("k"), ..story.submit(0, 20, "cuLaunchKernel") };
    story.call(&on(1, launch), 0);
    story.call(&on(1, Record { entered: 30, ..launch }), 0);
    story.blocked_in(1, &Record { stream: streams[1], context: other as u16, ..story.facts(SYNC, 40, None) });
    let verdict = &story.diagnosis().verdicts[0];
    assert_eq!(verdict.code, code, "{verdict:#?}");
    let culprit = &verdict.culprits[0].operation;
    assert_eq!(
        culprit.function.as_deref().unwrap_or(culprit.call.symbol()),
        if image == 1 { "k" } else { "cuWaitExternalSemaphoresAsync" }
    );
    assert_eq!(verdict.chain.iter().any(|line| line.contains("first launch")), image != 1, "{verdict:#?}");
}

#[test]
fn a_cold_load_that_found_nothing_in_flight_is_innocent() {
    let story = TestTrace::new().patient(0);
    story.cold(1, 5, "k2").synchronize(1, 7).launch(0, 10, "spin").waits(1, 30, SYNC, Some(0));
    story.check(&[(Code::LG299, "spin")]);
}

#[test]
fn a_thread_blocked_in_a_cold_launch_explains_those_behind_it() {
    let story = TestTrace::new();
    story.wait(0, 10, 0xf1a6, 1);
    story.blocked(2, 20, "cuLaunchKernel", Some(1), Kind::ColdModule, "trivial");
    story.blocked(1, 30, "cuLaunchKernel", Some(0), Kind::Call, "trivial");
    story.waits(3, 40, SYNC, Some(0));
    story.check(&[(Code::LG202, "cuStreamWaitValue32_v2")]);
    let verdict = &story.diagnosis().verdicts[0];
    assert_eq!(verdict.threads, [2, 1, 3]);
    assert!(verdict.chain.iter().any(|c| c.contains("0xf1a6")), "{verdict:#?}");
}

#[test]
fn a_module_load_alone_is_only_slow_and_one_that_compiles_gets_time() {
    let story = TestTrace::new();
    story.blocked(1, 30, "cuModuleLoadData", None, Kind::ColdModule, "");
    story.check_unexplained();
    let story = TestTrace::new().patient(20 * SECOND);
    story.blocked(1, 30, "cuModuleLoadData", None, Kind::ColdModule, "");
    story.check_slow("the driver may be at work in it");
    let story = TestTrace::new();
    story.launch(0, 10, "k");
    let load = story.facts("cuModuleLoadData", 30, None);
    story.blocked_in(1, &Record { kind: Kind::ColdModule, raw: image_of(image::PTX), ..load });
    story.check(&[(Code::LG202, "k")]); // 10 seconds are more than three times the threshold
    let story = TestTrace::new().patient(20 * SECOND);
    story.launch(0, 10, "k").blocked_in(1, &Record { kind: Kind::ColdModule, raw: image_of(image::PTX), ..load });
    story.check_slow("has to compile its code first");
}

#[test]
fn a_load_that_computes_with_nothing_in_flight_is_slow_for_as_long_as_it_does() {
    let load = |computed: &[u64]| {
        let story = TestTrace::new();
        story.blocked(1, 30, "cuModuleLoadData", None, Kind::ColdModule, "");
        for nanos in computed {
            story.computed(1, *nanos);
        }
        story
    };
    load(&[SECOND * 98 / 100])
        .check_slow("thread 1 \"t1\" computes in cuModuleLoadData (98 % of 1.0 s), as a compiler does");
    load(&[SECOND / 3]).check_unexplained();
    load(&[SECOND, SECOND / 3]).check_unexplained();
    // Other threads' calls wait for it inside the driver.
    let story = load(&[SECOND]);
    story.blocked(2, 40, "cuMemAlloc_v2", None, Kind::Call, "");
    story.check_slow("thread 1 \"t1\" computes");
    // A load waits for what is in flight by looking again and again.
    let story = load(&[SECOND]);
    story.launch(0, 10, "k");
    story.check(&[(Code::LG202, "k")]);
    // Pinning memory is such work as well.
    for (symbol, text) in [
        ("cuMemHostRegister_v2", "computes in cuMemHostRegister_v2 (98 % of 1.0 s), and waits"),
        ("cuInit", "computes in cuInit"),
    ] {
        let story = TestTrace::new();
        story.blocked(1, 30, symbol, None, Kind::Call, "").computed(1, SECOND * 98 / 100);
        story.check_slow(text);
    }
    // The linker waits for nothing, and a kernel in flight is no reason.
    let link = TestTrace::new();
    link.launch(0, 10, "k").blocked(1, 30, "cuLinkComplete", None, Kind::Call, "").check_unexplained();
    link.computed(1, SECOND).check_slow("computes in cuLinkComplete (100 % of 1.0 s), as a compiler does");
    // A wait computes by looking again and again.
    let story = TestTrace::new();
    story.waits(1, 30, "cuCtxSynchronize", None).computed(1, SECOND);
    story.check_unexplained();
}

/// A first launch that computes for eight seconds by now, with `CUDA_LAUNCH_BLOCKING`, a look at it each second, and a page fault or a child in one of them.
fn first_launch_computes(launch_blocking: bool, disturbed: Option<u64>, symbol: &str) -> TestTrace {
    let story = TestTrace::new();
    let launch = Record { function: story.function("spin"), kind: Kind::ColdModule, ..story.submit(0, 30, symbol) };
    let op = Operation { at: 30, entry_point: launch.entry_point.id(), function: launch.function };
    story.tracker.stream_entry(story.streams[0]).unwrap().submitting(op, 0);
    story.blocked_in(1, &launch);
    if launch_blocking {
        story.launch_blocking();
    }
    for second in 2..=9 {
        let time = ComputeTime { nanos: SECOND, within_nanos: SECOND, alone: disturbed != Some(second) };
        story.computed_at(second * SECOND, 1, time);
    }
    story
}

#[test]
fn a_first_launch_that_computes_alone_for_ten_thresholds_waits_for_its_kernel_where_launches_block() {
    let diagnosis = |story: &TestTrace, threshold: u64| {
        diagnose(&snapshot_at(&story.recording(), 0, threshold, 3 * threshold).unwrap())
    };
    let (short, long) = (8 * SECOND / 10, SECOND);
    let hang = diagnosis(&first_launch_computes(true, None, "cuLaunchKernel"), short);
    let verdict = &hang.verdicts[0];
    assert_eq!((verdict.code, verdict.confidence), (Code::LG299, Confidence::Likely), "{verdict:#?}");
    assert!(verdict.culprits[0].operation.function.as_deref() == Some("spin"), "{verdict:#?}");
    assert!(verdict.chain.iter().any(|line| line.contains("CUDA_LAUNCH_BLOCKING is set")), "{verdict:#?}");
    for (blocks, disturbed, symbol, threshold) in [
        (true, None, "cuLaunchKernel", long),
        (true, Some(5), "cuLaunchKernel", short),
        (true, Some(9), "cuLaunchKernel", short),
        (false, None, "cuLaunchKernel", short),
        (true, None, "cuModuleLoadData", short),
    ] {
        let slow = diagnosis(&first_launch_computes(blocks, disturbed, symbol), threshold);
        assert_eq!(slow.status, Status::Slow, "{blocks} {disturbed:?} {symbol} {threshold}: {slow:#?}");
        assert!(slow.slow[0].contains("as a compiler does"), "{slow:#?}");
    }
}

#[test]
fn a_context_that_is_being_made_gets_time_however_short_the_threshold_is() {
    let story = TestTrace::new();
    story
        .blocked(1, 30, "cuDevicePrimaryCtxRetain", None, Kind::Call, "")
        .check_slow("the driver may be at work in it");
    let snapshot = Snapshot { at: LEAST_TO_BEGIN + 30, ..story.snapshot() };
    assert_eq!(diagnose(&snapshot).status, Status::Hang);
}

#[test]
fn what_was_written_to_an_unsatisfied_wait_is_said_with_the_threads() {
    let story = TestTrace::new();
    story.write(1, 8, 0xf1a6, 5).wait(0, 10, 0xf1a6, 7).write(1, 12, 0xf1a6, 3).waits(1, 30, SYNC, Some(0));
    let verdict = &story.diagnosis().verdicts[0];
    assert_eq!(
        verdict.sentence,
        "stream 1 cannot go on: it waits for memory at 0xf1a6 to be == 7, and no submitted operation writes that: the newest write \
         there is of 3."
    );
    let said = |line: &str| verdict.chain.iter().any(|said| said.contains(line));
    assert!(
        said("stream 1 waits since +0.000 s for memory at 0xf1a6 to be == 7 (submitted by thread 100)"),
        "{verdict:#?}"
    );
    let newest =
        "the newest write there of 3 is cuStreamWriteValue32_v2 of thread 100, submitted to stream 2 at +0.000 s";
    assert!(said(newest), "{verdict:#?}");
    let story = TestTrace::new();
    story.about(1, 8, "cuMemsetD32Async", 0xf1a0, 64).wait(0, 10, 0xf1a6, 7).waits(1, 30, SYNC, Some(0));
    story.synchronize(1, 9);
    let chain = story.diagnosis().verdicts[0].chain.join("\n");
    assert!(
        chain.contains("the newest write there is cuMemsetD32Async of thread 100, submitted to stream 2"),
        "{chain}"
    );
}

#[test]
fn a_value_nobody_writes_is_told_from_one_whose_writer_is_stuck() {
    let story = TestTrace::new();
    story.wait(0, 10, 0xf1a6, 1).write(1, 12, 0xf1a6, 7).waits(1, 30, SYNC, Some(0));
    story.check(&[(Code::LG203, "cuStreamWaitValue32_v2")]);
    let story = TestTrace::new().patient(0);
    story.wait(0, 10, 0xf1a6, 1).launch(1, 11, "spin").write(1, 12, 0xf1a6, 1).waits(1, 30, SYNC, Some(0));
    story.check(&[(Code::LG299, "spin")]);
    let story = TestTrace::new().patient(0);
    story.wait(0, 10, 0xf1a6, 1).launch(1, 11, "spin").about(1, 12, "cuMemsetD32Async", 0xf1a0, 64);
    story.waits(1, 30, SYNC, Some(0));
    story.check(&[(Code::LG299, "spin")]);
}

#[test]
fn a_launch_that_loads_while_nothing_else_runs_does_not_wait_for_itself() {
    for kind in [Kind::ColdModule, Kind::ColdFunction] {
        let story = TestTrace::new();
        let launch = story.submit(0, 30, "cuLaunchKernel");
        let op = Operation { at: 30, entry_point: launch.entry_point.id(), function: 0 };
        story.tracker.stream_entry(story.streams[0]).unwrap().submitting(op, 0);
        story.blocked_in(1, &Record { kind, function: story.function("k"), ..launch });
        story.check_unexplained();
    }
}

#[test]
fn a_value_that_has_been_written_is_not_waited_for() {
    let story = TestTrace::new().patient(0);
    story.wait(0, 10, 0xf1a6, 1).write(1, 12, 0xf1a6, 1).synchronize(1, 14).launch(0, 16, "spin");
    story.waits(1, 30, SYNC, Some(0));
    story.check(&[(Code::LG299, "spin")]);
    let story = TestTrace::new().patient(0);
    story.wait(0, 10, 0xf1a6, 1).launch(0, 16, "spin").waits(1, 30, SYNC, Some(0));
    story.check(&[(Code::LG203, "cuStreamWaitValue32_v2")]);
    story.memory_holds(0xf1a6, 1);
    assert_eq!(story.diagnosis().verdicts[0].code, Code::LG299);
}

#[test]
fn two_streams_that_wait_for_what_the_other_writes_behind_its_wait_are_a_circle() {
    let story = TestTrace::new();
    story.wait(0, 10, 0xa, 1).write(0, 11, 0xb, 1).wait(1, 12, 0xb, 1).write(1, 13, 0xa, 1);
    story.waits(1, 30, SYNC, Some(0));
    story.check(&[(Code::LG203, "cuStreamWaitValue32_v2")]);
    assert_eq!(story.diagnosis().verdicts[0].confidence, Confidence::Certain);
}

#[test]
fn a_circle_behind_kernels_that_may_have_ended_is_one() {
    let rounds = |second: u64| {
        let story = TestTrace::new().patient(0);
        story.launch(0, 10, "k").about(0, 11, "cuEventRecord", 0xe1, 0);
        story.about(1, 12, "cuStreamWaitEvent", 0xe1, 0).launch(1, 13, "k").write(1, 14, 0xa, 1);
        story.wait(0, 15, 0xa, second).launch(0, 16, "k").about(0, 17, "cuEventRecord", 0xe1, 0);
        story.about(1, 18, "cuStreamWaitEvent", 0xe1, 0).launch(1, 19, "k").write(1, 20, 0xa, 2);
        story.waits(1, 30, "cuCtxSynchronize", None);
        story
    };
    rounds(2).check(&[(Code::LG203, "cuStreamWaitEvent")]);
    assert_eq!(rounds(2).diagnosis().verdicts[0].confidence, Confidence::Certain);
    rounds(1).check(&[(Code::LG299, "k")]);
    // A kernel that has not ended, because the driver calls its stream busy and nothing else is there, is what stands.
    let story = TestTrace::new().patient(0);
    story.launch(2, 9, "spin").driver_says_busy(2).about(2, 10, "cuEventRecord", 0xe2, 0);
    story.about(0, 11, "cuStreamWaitEvent", 0xe2, 0).wait(0, 12, 0xa, 1).write(0, 13, 0xb, 1);
    story.wait(1, 14, 0xb, 1).write(1, 15, 0xa, 1).waits(1, 30, SYNC, Some(0));
    story.check(&[(Code::LG299, "spin")]);
}

#[test]
fn many_rounds_without_a_circle_are_looked_through_once() {
    let story = TestTrace::new().patient(0);
    for round in 0..400 {
        let at = 10 + 20 * round;
        for (on, to, event) in [(0, 1, 0xe1), (1, 2, 0xe2), (2, 0, 0xe3)] {
            let at = at + 5 * on as u64;
            story.launch(on, at, "k").about(on, at + 1, "cuEventRecord", event, 0);
            story.about(to, at + 2, "cuStreamWaitEvent", event, 0);
        }
    }
    story.waits(1, 9_000, "cuCtxSynchronize", None);
    assert_eq!(story.diagnosis().verdicts[0].code, Code::LG299);
}

#[test]
fn a_circle_that_the_host_or_a_thread_may_break_is_slow_until_the_patience_is_over() {
    let circle = |patience: u64| {
        let story = TestTrace::new().patient(patience);
        story.wait(0, 10, 0xa, 1).write(0, 11, 0xb, 1).wait(1, 12, 0xb, 1).write(1, 13, 0xa, 1);
        story.waits(1, 30, SYNC, Some(0));
        story
    };
    circle(20 * SECOND).check(&[(Code::LG203, "cuStreamWaitValue32_v2")]);
    circle(20 * SECOND).memory_holds(0xa, 0).check_slow("a store of the host");
    circle(20 * SECOND).thread_does(60, ThreadActivity::Sleeping).check_slow("thread 60");
    let over = circle(SECOND);
    over.memory_holds(0xa, 0).check(&[(Code::LG203, "cuStreamWaitValue32_v2")]);
    assert_eq!(over.diagnosis().verdicts[0].confidence, Confidence::Possible);
}

#[test]
fn a_value_stays_until_a_later_write_has_run() {
    let story = TestTrace::new().patient(20 * SECOND);
    // Stream 1 has written 1; its write of 2 stands behind a kernel.
    story.wait(0, 30, 0xa, 1).write(1, 10, 0xa, 1).synchronize(1, 15).launch(1, 20, "k").write(1, 25, 0xa, 2);
    story.waits(1, 40, SYNC, Some(0)).check_slow("may only be slow");
}

#[test]
fn a_wait_whose_write_was_overwritten_may_have_seen_it() {
    let numbers = |patience: u64| {
        let story = TestTrace::new().patient(patience);
        story.wait(0, 10, 0xa, 1).write(1, 20, 0xa, 1).write(1, 25, 0xa, 2).synchronize(1, 30);
        story.waits(1, 40, SYNC, Some(0));
        story
    };
    numbers(20 * SECOND).check_slow("");
    numbers(SECOND).check(&[(Code::LG203, "cuStreamWaitValue32_v2")]);
    let early = TestTrace::new().patient(20 * SECOND);
    early.write(1, 10, 0xa, 1).write(1, 15, 0xa, 2).synchronize(1, 18).wait(0, 20, 0xa, 1).waits(1, 40, SYNC, Some(0));
    early.check(&[(Code::LG203, "cuStreamWaitValue32_v2")]);
}

#[test]
fn a_wait_whose_writer_is_behind_the_barrier_behind_the_wait_is_the_barriers_fault() {
    let story = TestTrace::new();
    story.wait(0, 10, 0xa, 1).cold(1, 12, "k2").write(1, 13, 0xa, 1).waits(1, 30, SYNC, Some(0));
    story.check(&[(Code::LG201, "cuStreamWaitValue32_v2")]);
    assert_eq!(story.diagnosis().verdicts[0].confidence, Confidence::Certain);
}

#[test]
fn a_chain_of_events_leads_to_the_wait_at_its_end() {
    let story = TestTrace::new();
    story.wait(0, 10, 0xa, 1).about(0, 11, "cuEventRecord", 0xe1, 0);
    story.about(1, 12, "cuStreamWaitEvent", 0xe1, 0).about(1, 13, "cuEventRecord", 0xe2, 0);
    story.about(2, 14, "cuStreamWaitEvent", 0xe2, 0).launch(2, 15, "k").waits(1, 30, SYNC, Some(2));
    story.check(&[(Code::LG203, "cuStreamWaitValue32_v2")]);
    let chain = story.diagnosis().verdicts[0].chain.join("\n");
    assert!(chain.contains("0xe1") && chain.contains("0xe2"), "{chain}");
}

#[test]
fn the_legacy_stream_orders_what_is_beside_it() {
    let story = TestTrace::of(StreamKind::Blocking);
    let key = StreamKey { handle: 1, context: story.context, thread: 0 };
    let legacy = story.tracker.stream(key, story.context, StreamKind::Legacy, 1);
    story.wait(0, 10, 0xa, 1);
    let launch = story.submit(1, 12, "cuLaunchKernel");
    story.call(&Record { stream: legacy, function: story.function("k"), ..launch }, 0);
    story.launch(1, 14, "k2").waits(1, 30, SYNC, Some(1));
    story.check(&[(Code::LG203, "cuStreamWaitValue32_v2")]);
}

#[test]
fn the_default_stream_waits_by_its_rule_only_for_blocking_streams() {
    const ALL_REDUCE: &str = "ncclDevKernel_AllReduce_Sum_f32_RING_LL";
    let cases = [
        (StreamKind::NonBlocking, true, Code::LG208),
        (StreamKind::Blocking, true, Code::LG208),
        (StreamKind::Blocking, false, Code::LG204),
    ];
    for (kind, waits_by_event, code) in cases {
        let story = TestTrace::of(kind);
        let key = StreamKey { handle: 1, context: story.context, thread: 0 };
        let legacy = story.tracker.stream(key, story.context, StreamKind::Legacy, 1);
        story.launch(0, 10, ALL_REDUCE).about(0, 11, "cuEventRecord", 0xe1, 0);
        if waits_by_event {
            let wait = story.submit(1, 12, "cuStreamWaitEvent");
            story.call(&Record { stream: legacy, raw: RawPayload::memory(0xe1, 0), ..wait }, 0);
        }
        story.call(&Record { stream: legacy, ..story.submit(1, 14, "cuMemcpyDtoDAsync_v2") }, 0);
        story.blocked_in(1, &Record { stream: legacy, ..story.facts(SYNC, 30, None) });
        story.check(&[(code, ALL_REDUCE)]);
    }
}

#[test]
fn a_wait_that_the_program_submitted_explains_the_call_also_where_a_blocking_stream_has_it_too() {
    const ALL_REDUCE: &str = "ncclDevKernel_AllReduce_Sum_f32_RING_LL";
    let story = TestTrace::of(StreamKind::NonBlocking);
    let stream = |handle: u64, kind: StreamKind| {
        story.tracker.stream(StreamKey { handle, context: story.context, thread: 0 }, story.context, kind, 1)
    };
    let (blocking, legacy) = (stream(0x77, StreamKind::Blocking), stream(1, StreamKind::Legacy));
    story.launch(0, 10, ALL_REDUCE).about(0, 11, "cuEventRecord", 0xe1, 0);
    for (on, at) in [(blocking, 12), (legacy, 16)] {
        let wait = story.submit(1, at, "cuStreamWaitEvent");
        story.call(&Record { stream: on, raw: RawPayload::memory(0xe1, 0), ..wait }, 0);
        story.call(&Record { stream: on, ..story.submit(1, at + 2, "cuMemcpyDtoDAsync_v2") }, 0);
    }
    story.blocked_in(1, &Record { stream: legacy, ..story.facts(SYNC, 30, None) });
    story.check(&[(Code::LG208, ALL_REDUCE)]);
}

#[test]
fn a_copy_behind_a_kernel_on_the_default_stream_is_named_where_another_thread_waits_for_the_kernel() {
    let cases =
        [("cuMemcpyHtoD_v2", 2, Code::LG204), ("cuMemcpyDtoH_v2", 2, Code::LG299), ("cuMemcpyHtoD_v2", 1, Code::LG299)];
    for (copy, threads, code) in cases {
        let story = TestTrace::new();
        let key = StreamKey { handle: 1, context: story.context, thread: 0 };
        let legacy = story.tracker.stream(key, story.context, StreamKind::Legacy, 1);
        let launch = story.submit(1, 12, "cuLaunchKernel");
        story.call(&Record { stream: legacy, function: story.function("consume"), ..launch }, 0);
        story.waits(2, 40, copy, None);
        if threads == 2 {
            story.blocked_in(1, &Record { stream: legacy, ..story.facts(SYNC, 30, None) });
        }
        story.check(&[(code, "consume")]);
    }
}

#[test]
fn of_two_calls_that_block_the_context_the_first_is_blamed_and_both_are_to_be_mended() {
    let (free, load) = ("cuMemFree_v2", "cuModuleLoadData");
    for (first, second, code) in [(free, load, Code::LG204), (load, free, Code::LG202)] {
        let story = TestTrace::new().patient(20 * SECOND);
        let kind = |call| if call == load { Kind::ColdModule } else { Kind::Call };
        story.launch(0, 10, "spin");
        story.blocked(1, 30, first, None, kind(first), "").blocked(2, 40, second, None, kind(second), "");
        story.check(&[(code, "spin")]);
        let verdict = &story.diagnosis().verdicts[0];
        assert_eq!(verdict.threads, [1, 2], "{verdict:#?}");
        assert!(verdict.fix.contains("cuMemFree") && verdict.fix.contains(load), "{verdict:#?}");
    }
}

#[test]
fn calls_that_wait_for_the_whole_context_are_named_for_it() {
    for call in ["cuMemFree_v2", "cuMemHostUnregister", "cuModuleUnload", "cuCtxSetLimit", "cuMemFreeHost"] {
        let story = TestTrace::new();
        story.launch(0, 10, "spin").waits(1, 30, call, None).waits(2, 40, SYNC, Some(0));
        story.check(&[(Code::LG204, "spin")]);
        let verdict = &story.diagnosis().verdicts[0];
        assert_eq!(verdict.threads, [1, 2], "{call}");
        // Memory that is page-locked has no such function.
        assert_eq!(verdict.fix.contains("cuMemFreeAsync"), call == "cuMemFree_v2", "{call}: {}", verdict.fix);
    }
    let story = TestTrace::new();
    story.launch(0, 10, "spin").blocked(1, 30, "cuLaunchKernel", Some(1), Kind::Call, "big");
    story.check(&[(Code::LG204, "spin")]);
    for call in ["cuGraphInstantiateWithFlags", "cuGraphExecUpdate_v2", "cuGraphExecKernelNodeSetParams_v2"] {
        let story = TestTrace::new();
        let facts = story.facts(call, 30, None);
        story.launch(0, 10, "spin").blocked_in(1, &Record { flags: flag::SETS_ASIDE, ..facts });
        story.check(&[(Code::LG204, "spin")]);
        let verdict = &story.diagnosis().verdicts[0];
        assert!(verdict.fix.contains("StackSize"), "{call}: {verdict:#?}");
    }
    // A call for a graph whose kernels need no local memory may take long by itself, and is reported all the same.
    for call in ["cuGraphExecDestroy", "cuGraphAddKernelNode_v2", "cuGraphInstantiateWithFlags", "cuGraphExecUpdate_v2"]
    {
        let story = TestTrace::new();
        story.launch(0, 10, "spin").waits(1, 30, call, None);
        story.check(&[(Code::LG299, "spin")]);
    }
    let story = TestTrace::of(StreamKind::Blocking);
    story.launch(0, 10, "spin").waits(1, 30, "cuMemcpyDtoH_v2", None);
    story.check(&[(Code::LG204, "spin")]);
    let story = TestTrace::of(StreamKind::NonBlocking);
    story.launch(0, 10, "spin").waits(1, 30, "cuMemcpyDtoH_v2", None);
    story.check(&[(Code::LG299, "spin")]);
}

#[test]
fn a_full_queue_is_told_by_what_is_outstanding() {
    let story = TestTrace::new();
    story.launch(0, 10, "spin");
    for n in 0..1000 {
        story.launch(0, 20 + 2 * n, "k");
    }
    story.blocked(1, 5000, "cuLaunchKernel", Some(0), Kind::Call, "k");
    story.check(&[(Code::LG205, "spin")]);
}

/// The queue fills because other ranks have not joined. A thread that the blocked launch keeps from its call is in the same verdict.
#[test]
fn a_queue_that_is_full_behind_a_collective_is_its_consequence() {
    let story = TestTrace::new();
    story.launch(0, 10, "ncclDevKernel_AllReduce_Sum");
    for n in 0..1000 {
        story.launch(0, 20 + 2 * n, "k");
    }
    story.blocked(1, 5000, "cuLaunchKernel", Some(0), Kind::Call, "k").waits(2, 5010, "cuMemAlloc_v2", None);
    story.check(&[(Code::LG208, "ncclDevKernel_AllReduce_Sum")]);
    let verdict = &story.diagnosis().verdicts[0];
    assert_eq!(verdict.threads, [1, 2]);
    assert!(verdict.sentence.starts_with("cuLaunchKernel cannot return: it waits for "), "{}", verdict.sentence);
    assert!(verdict.chain.join("\n").contains("not known to have ended, and its queue is full"), "{verdict:#?}");
}

#[test]
fn a_kernel_that_finds_no_room_is_told_where_the_driver_was_asked() {
    let story = TestTrace::new().patient(0);
    story.launch_of(0, 10, "big", 5000).launch(1, 12, "small").waits(1, 30, SYNC, Some(1));
    story.check(&[(Code::LG299, "small")]);
    let launch = LaunchKey { function: story.function("big"), block: [64, 1, 1], shared_or_owner: 0 };
    let raw = RawPayload::resident(launch, 4224);
    let seen = Record { kind: Kind::Seen, function: launch.function, raw, ..story.facts("cuLaunchKernel", 0, None) };
    story.seen(seen);
    story.check(&[(Code::LG206, "big")]);
}

#[test]
fn a_host_function_that_does_not_return_is_told_from_one_that_is_under_way() {
    let story = TestTrace::new();
    story.host_function(0, 10, 20, 50, None).launch(0, 22, "k").waits(1, 30, SYNC, Some(0));
    story.check(&[(Code::LG207, "cuLaunchHostFunc")]);
    let story = TestTrace::new().patient(20 * SECOND);
    story.host_function(0, 10, 20, 50, None).launch(0, 22, "k").waits(1, 30, SYNC, Some(0));
    story.thread_does(50, ThreadActivity::Waiting).check(&[(Code::LG207, "cuLaunchHostFunc")]);
    let story = TestTrace::new().patient(20 * SECOND);
    story.host_function(0, 10, 20, 50, None).launch(0, 22, "k").waits(1, 30, SYNC, Some(0));
    story.thread_does(50, ThreadActivity::Sleeping).check_slow("under way");
}

#[test]
fn who_is_at_large_may_still_help_for_a_time() {
    let story = TestTrace::new().patient(20 * SECOND);
    story.wait(0, 10, 0xa, 1).waits(1, 30, SYNC, Some(0)).thread_does(1, ThreadActivity::Running);
    story.check(&[(Code::LG203, "cuStreamWaitValue32_v2")]);
    story.thread_does(60, ThreadActivity::Sleeping).check_slow("thread 60");
    let story = TestTrace::new();
    story.wait(0, 10, 0xa, 1).waits(1, 30, SYNC, Some(0)).thread_does(60, ThreadActivity::Sleeping);
    story.check(&[(Code::LG203, "cuStreamWaitValue32_v2")]);
    assert_eq!(story.diagnosis().verdicts[0].confidence, Confidence::Possible);
}

#[test]
fn what_has_no_pattern_is_slow_first_and_what_moves_is_slow() {
    let story = TestTrace::new().patient(20 * SECOND);
    story.launch(0, 10, "k1").waits(1, 30, "cuCtxSynchronize", None).check_slow("may only be slow");
    let story = TestTrace::new();
    story.launch(0, 10, "k1").launch(0, 20, "k2").waits(1, 30, SYNC, Some(0));
    story.check(&[(Code::LG299, "k1")]);
    let query = story.facts("cuEventQuery", 0, Some(0));
    story.seen(Record { kind: Kind::Seen, ..query }).check_slow("still moving");
}

#[test]
fn polling_is_waiting() {
    let between = TestTrace::new();
    between.launch(0, 10, "k1").cold(1, 20, "k2").polls(7, 30, NOW - 1000, "cuStreamQuery", 1, 0);
    let inside = TestTrace::new();
    inside.launch(0, 10, "k1").polls_until(7, [30, NOW - 1000], "cuStreamQuery", 0, 0, Some(NOW - 100));
    between.check(&[(Code::LG201, "k1")]);
    inside.check(&[(Code::LG299, "k1")]);
    let story = TestTrace::new();
    story.wait(0, 10, 0xa, 1).about(0, 12, "cuEventRecord", 0xe, 0);
    story.polls(7, 30, NOW - 1000, "cuEventQuery", 0, 0xe);
    story.check(&[(Code::LG203, "cuStreamWaitValue32_v2")]);
}

/// The driver may have answered before it had the submission.
#[test]
fn what_was_being_submitted_when_another_thread_was_told_idle_may_be_outstanding() {
    let story = TestTrace::new();
    story.wait_of(0, 10, 0xa, 1, 100).idle(0, 50).about(0, 120, "cuEventRecord", 0xe, 0).waits(1, 130, SYNC, Some(0));
    story.check(&[(Code::LG203, "cuStreamWaitValue32_v2")]);
    assert_eq!(story.diagnosis().verdicts[0].culprits[0].operation.at, 10);
    let alone = TestTrace::new();
    alone.wait_of(0, 10, 0xa, 1, 100).idle(0, 50).polls(7, 130, NOW - 1000, "cuStreamQuery", 0, 0);
    alone.check(&[(Code::LG203, "cuStreamWaitValue32_v2")]);
}

#[test]
fn a_fill_of_the_word_counts_by_what_it_stores() {
    let fill = |story: &TestTrace, stream, at, word| {
        let facts = story.submit(stream, at, "cuMemsetD32Async");
        story.call(&Record { raw: RawPayload::fill(0xa0, 8, word), ..facts }, 0);
    };
    for (word, code, culprit) in [(0, Code::LG203, "cuStreamWaitValue32_v2"), (7, Code::LG299, "k1")] {
        let story = TestTrace::new();
        fill(&story, 0, 10, word);
        story.wait(0, 20, 0xa4, 7).launch(0, 25, "k1").waits(1, 30, SYNC, Some(0));
        story.check(&[(code, culprit)]);
    }
    // Behind a kernel on another stream: the value is to come, or never comes.
    for (word, code, culprit) in [(0, Code::LG203, "cuStreamWaitValue32_v2"), (7, Code::LG299, "k1")] {
        let story = TestTrace::new();
        story.launch(1, 5, "k1");
        fill(&story, 1, 10, word);
        story.wait(0, 20, 0xa0, 7).waits(1, 30, SYNC, Some(0));
        story.check(&[(code, culprit)]);
    }
}

/// The guard does not know the bytes of a copy. A stream without later work stands at its wait all the same.
#[test]
fn a_copy_before_the_last_wait_of_its_stream_has_not_ended_it() {
    let story = TestTrace::new();
    story.about(0, 10, "cuMemcpyHtoDAsync_v2", 0xa0, 4).wait(0, 20, 0xa0, 7).waits(1, 30, SYNC, Some(0));
    story.check(&[(Code::LG203, "cuStreamWaitValue32_v2")]);
    story.launch(0, 25, "k1").check(&[(Code::LG299, "k1")]);
}

/// The release may hold what the launch waits for, whichever was entered first.
#[test]
fn a_launch_beside_a_release_is_not_the_cause() {
    for [launch, release] in [[20, 30], [30, 20]] {
        let story = TestTrace::new();
        story.wait(0, 10, 0xa0, 7).waits(1, launch, "cuLaunchKernel", Some(1)).waits(2, release, "cuMemFree_v2", None);
        story.check(&[(Code::LG204, "cuStreamWaitValue32_v2")]);
        assert_eq!(story.diagnosis().verdicts[0].threads, [2, 1]);
    }
}

/// A copy ends by itself: one that may have ended long ago is no cause.
#[test]
fn a_load_behind_a_copy_holds_nothing_up_and_the_loaded_kernel_may() {
    let story = TestTrace::new();
    story.about(0, 10, "cuMemcpyHtoDAsync_v2", 0xa0, 4).cold(1, 20, "spin").cold(0, 25, "k");
    story.waits(1, 30, "cuCtxSynchronize", None);
    for stream in 0..2 {
        story.driver_says_busy(stream);
    }
    story.check(&[(Code::LG201, "spin")]);
    let story = TestTrace::new();
    story.about(0, 10, "cuMemcpyHtoDAsync_v2", 0xa0, 4).cold(1, 20, "k").waits(1, 30, "cuCtxSynchronize", None);
    story.driver_says_busy(0).check(&[(Code::LG201, "cuMemcpyHtoDAsync_v2")]);
}

#[test]
fn a_program_that_calls_nobody_is_looked_at_for_work_that_cannot_start() {
    let story = TestTrace::new();
    story.launch(0, 10, "k1").cold(1, 20, "k2");
    story.check(&[(Code::LG201, "k1")]);
    let story = TestTrace::new();
    story.launch(0, 10, "persistent").launch(1, 20, "k2");
    story.check_well();
}

#[test]
fn nothing_is_said_before_the_threshold_and_a_call_that_nothing_explains_is_reported_after_it() {
    let story = TestTrace::new();
    story.launch(0, 10, "k1").cold(1, 20, "k2").waits(1, NOW - SECOND, "cuCtxSynchronize", None);
    let story_is_young = story.diagnosis();
    assert!(story_is_young.verdicts.iter().all(|v| v.threads.is_empty()), "{story_is_young:#?}");
    let idle = TestTrace::new();
    idle.waits(1, 30, "cuCtxSynchronize", None).check_unexplained();
    let young = TestTrace::new();
    young.waits(1, NOW - SECOND, "cuCtxSynchronize", None).check_well();
}

/// A call of any class is reported, with the work in flight in its context or else in another one.
#[test]
fn a_call_of_any_class_that_does_not_return_is_reported() {
    for entry_point in ENTRY_POINTS.iter().map(|facts| facts.symbol()) {
        let story = TestTrace::new();
        story.waits(1, 30, entry_point, None);
        // Late enough for a context that is being made.
        let diagnosis = diagnose(&Snapshot { at: LEAST_TO_BEGIN + 30, ..story.snapshot() });
        assert_eq!((diagnosis.status, diagnosis.verdicts.len()), (Status::Hang, 1), "{entry_point}: {diagnosis:#?}");
        assert_eq!(diagnosis.verdicts[0].threads, [1], "{entry_point}");
        let young = TestTrace::new().patient(20 * SECOND);
        young.waits(1, 30, entry_point, None);
        assert_eq!(young.diagnosis().status, Status::Slow, "{entry_point}");
    }
    let story = TestTrace::new();
    let other = story.tracker.context(0xd0, 1);
    story
        .launch(0, 10, "resident")
        .blocked_in(1, &Record { context: other as u16, ..story.facts("cuMemcpyPeer", 30, None) });
    story.check(&[(Code::LG204, "resident")]);
}

/// A copy between two devices returns before it is made. The call that waits for it waits for the work of both.
#[test]
fn a_call_behind_a_copy_between_devices_waits_for_the_work_of_both() {
    let story = TestTrace::new();
    let other = story.tracker.context(0xd0, 1);
    let default =
        story.tracker.stream(StreamKey { handle: 1, context: other, thread: 0 }, other, StreamKind::Legacy, 1);
    let on_it = |facts: Record| Record { stream: default, context: other as u16, ..facts };
    story.launch(0, 10, "resident").call(&on_it(story.submit(0, 20, "cuMemcpyPeer")), 0);
    story.launch(1, 24, "later");
    story.blocked_in(1, &Record { context: other as u16, ..story.facts("cuCtxSynchronize", 30, None) });
    story.check(&[(Code::LG204, "resident")]);
    let sentence = &story.diagnosis().verdicts[0].sentence;
    assert_eq!(
        sentence,
        "cuCtxSynchronize cannot return: cuMemcpyPeer waits for the work of both devices, and so for resident on stream 1, \
         and resident has not ended."
    );
}

/// The launch of a kernel that nothing else is in flight with is its own culprit where launches block.
#[test]
fn a_launch_that_blocks_until_its_kernel_has_ended_names_it() {
    let launching = |story: &TestTrace, name: &str| {
        let launch = Record { function: story.function(name), ..story.submit(0, 30, "cuLaunchKernel") };
        let op = Operation { at: 30, entry_point: launch.entry_point.id(), function: launch.function };
        story.tracker.stream_entry(story.streams[0]).unwrap().submitting(op, 0);
        story.blocked_in(1, &launch);
    };
    for (name, code) in [("spin", Code::LG299), ("ncclDevKernel_AllReduce_Sum", Code::LG208)] {
        let story = TestTrace::new();
        launching(&story, name);
        story.check_unexplained();
        story.launch_blocking();
        story.check(&[(code, name)]);
        let verdict = &story.diagnosis().verdicts[0];
        assert!(verdict.chain.iter().any(|line| line.contains("CUDA_LAUNCH_BLOCKING is set")), "{verdict:#?}");
        assert!(verdict.fix.contains("unset CUDA_LAUNCH_BLOCKING"), "{verdict:#?}");
    }
    // The launches before have returned, so their kernels have ended.
    for (name, code) in [("spin", Code::LG299), ("ncclDevKernel_AllReduce_Sum", Code::LG208)] {
        let story = TestTrace::new();
        story.launch(0, 10, "ncclDevKernel_AllGather").launch(0, 12, "step").launch_blocking();
        launching(&story, name);
        story.check(&[(code, name)]);
    }
    let story = TestTrace::new();
    story.wait(0, 10, 0xf1a6, 1).launch_blocking();
    launching(&story, "innocent");
    story.check(&[(Code::LG203, "cuStreamWaitValue32_v2")]);
}

#[test]
fn a_hang_in_one_context_does_not_blame_another() {
    let story = TestTrace::new();
    let other = story.tracker.context(0xd0, 1);
    let key = StreamKey { handle: 0x99, context: 0, thread: 0 };
    let far = story.tracker.stream(key, other, StreamKind::Blocking, 1);
    let launch = story.submit(0, 5, "cuLaunchKernel");
    story.call(&Record { stream: far, context: other as u16, ..launch }, 0);
    story.launch(0, 10, "k1").waits(1, 30, "cuCtxSynchronize", None);
    let verdict = &story.diagnosis().verdicts[0];
    assert!(verdict.culprits.iter().all(|c| c.stream.context == 0xc0), "{verdict:#?}");
}

/// A load that blocks since 20, and so many launches of `step` on the stream after that.
fn loads_beside(story: &TestTrace, stream: usize, launches: u64) {
    story.blocked(1, 20, "cuModuleLoadData", None, Kind::ColdModule, "");
    (0..launches).for_each(|n| {
        story.launch(stream, 30 + 2 * n, "step");
    });
}

#[test]
fn a_load_that_finds_the_context_never_idle_is_told_which_stream_is_fed_and_by_whom() {
    let story = TestTrace::new();
    story.launch(0, 10, "old");
    loads_beside(&story, 0, 2100);
    story.check(&[(Code::LG202, "step")]);
    let verdict = &story.diagnosis().verdicts[0];
    assert!(verdict.title.contains("other threads keep busy"), "{verdict:#?}");
    let [fed] = &verdict.fed[..] else { panic!("{verdict:#?}") };
    let link = (Party::Thread(verdict.threads[0]), Party::Stream(fed.stream.number));
    let links = links_of(&story.snapshot(), verdict);
    assert_eq!(links.into_iter().map(|link| (link.from, link.to)).collect::<Vec<_>>(), [link]);
    assert_eq!((fed.stream.number, fed.since, fed.launches), (story.streams[0], 20, 2100));
    assert_eq!((fed.by[0].thread, fed.by[0].operations, fed.by[0].function.as_deref()), (100, 2100, Some("step")));
    let chain = verdict.chain.join("\n");
    assert!(chain.contains("at least 2100 operations") && chain.contains("by thread 100 \"t100\""), "{chain}");
    assert!(!chain.contains("kernel old") && !verdict.fix.contains("kernel old"), "{verdict:#?}");
    assert!(verdict.fix.starts_with("pause what is submitted to stream"), "{}", verdict.fix);
}

#[test]
fn the_same_is_known_where_the_thread_that_feeds_waits_for_its_work() {
    let story = TestTrace::new();
    story.launch(0, 10, "old").blocked(1, 20, "cuModuleLoadData", None, Kind::ColdModule, "");
    for at in [30, 40, 50] {
        story.launch(0, at, "step").synchronize(0, at + 5);
    }
    story.check(&[(Code::LG202, "step")]);
    // Nothing is in flight at this very moment, and the load has not returned.
    assert!(story.snapshot().streams.is_empty());
    let story = story.patient(30 * SECOND);
    story.check_slow("a pause in what is submitted lets that call go on");
}

#[test]
fn a_release_that_finds_the_context_never_idle_is_told_the_same() {
    let story = TestTrace::new();
    story.launch(0, 10, "old").waits(1, 20, "cuMemFree_v2", None);
    story.launch(0, 30, "step").synchronize(0, 40);
    story.check(&[(Code::LG204, "step")]);
}

#[test]
fn a_kernel_that_never_ends_is_blamed_although_another_stream_is_fed() {
    for launches in [10, 2100] {
        let story = TestTrace::new();
        story.launch(0, 8, "old").launch(1, 10, "spin");
        loads_beside(&story, 0, launches);
        story.check(&[(Code::LG202, "spin")]);
        let verdict = &story.diagnosis().verdicts[0];
        assert_eq!(verdict.culprits.len(), 1, "{verdict:#?}");
        assert!(verdict.fed.is_empty() && verdict.title == Code::LG202.title());
    }
}

#[test]
fn a_stream_that_takes_no_more_than_its_queue_holds_may_stand_still() {
    let story = TestTrace::new();
    story.launch(0, 10, "old");
    loads_beside(&story, 0, 100);
    story.check(&[(Code::LG202, "old")]);
    assert!(story.diagnosis().verdicts[0].chain.iter().any(|line| line.starts_with("100 operations were submitted")));
    story.patient(30 * SECOND).check_slow("100 operations were submitted");
}

#[test]
fn a_load_that_has_to_compile_is_not_called_starved() {
    let story = TestTrace::new();
    let load = story.facts("cuModuleLoadData", 20, None);
    story.blocked_in(1, &Record { kind: Kind::ColdModule, raw: image_of(image::PTX), ..load });
    story.launch(0, 30, "step").synchronize(0, 40).check_unexplained();
    let chain = story.diagnosis().verdicts[0].chain.join("\n");
    assert!(chain.contains("has to compile its code first"), "{chain}");
}

#[test]
fn a_cold_launch_is_not_what_keeps_its_own_load_waiting() {
    let story = TestTrace::new();
    let launch =
        Record { kind: Kind::ColdModule, function: story.function("cold"), ..story.submit(1, 20, "cuLaunchKernel") };
    let op = Operation { at: 20, entry_point: launch.entry_point.id(), function: launch.function };
    story.tracker.stream_entry(story.streams[1]).unwrap().submitting(op, 0);
    story.blocked_in(1, &launch);
    story.launch(0, 30, "step").synchronize(0, 40).launch(0, 50, "step");
    story.check(&[(Code::LG202, "step")]);
    let fix = &story.diagnosis().verdicts[0].fix;
    assert!(fix.contains("or load cold before"), "{fix}");
}

/// The wait in one sentence with its names, of each code.
#[test]
fn the_sentence_of_a_verdict_names_what_waits_and_what_it_waits_for() {
    let say = |story: &TestTrace, code: Code, expect: &str| {
        let verdict = story.diagnosis().verdicts.remove(0);
        assert_eq!((verdict.code, verdict.sentence.as_str()), (code, expect), "{verdict:#?}");
        verdict
    };
    let story = TestTrace::new();
    story.launch(0, 10, "k1").cold(1, 20, "k2").waits(1, 30, "cuCtxSynchronize", None);
    let verdict = say(
        &story,
        Code::LG201,
        "k2 cannot start: loading it on its first launch waits for k1 on stream 1, and k1 has not ended.",
    );
    let held_back = verdict.held_back.unwrap();
    assert_eq!((held_back.operation.function.as_deref(), held_back.stream.number), (Some("k2"), 2));

    let story = TestTrace::new();
    story.wait(0, 10, 0xf1a6, 1).blocked(2, 20, "cuLaunchKernel", Some(1), Kind::ColdModule, "k2");
    say(
        &story,
        Code::LG202,
        "k2 cannot start: loading its module on its first launch waits for stream 1, which waits for memory at 0xf1a6 to be == 1, \
         and no submitted operation writes that.",
    );

    let story = TestTrace::new();
    story.launch(0, 10, "k").blocked(1, 20, "cuModuleLoadData", None, Kind::ColdModule, "");
    let expect = "cuModuleLoadData cannot return: loading waits for k on stream 1, and k has not ended.";
    say(&story, Code::LG202, expect);

    // If k2 follows k on its stream before the call, k2 may be the one that has not ended.
    let story = TestTrace::new().patient(0);
    story.launch(0, 10, "k").launch(0, 12, "k2").waits(1, 20, SYNC, Some(0)).launch(0, 30, "k3");
    let expect =
        "cuStreamSynchronize cannot return: it waits for k on stream 1, and k or an operation after it has not ended.";
    say(&story, Code::LG299, expect);
    let story = TestTrace::new().patient(0);
    story.launch(0, 10, "k").waits(1, 20, SYNC, Some(0)).launch(0, 30, "k3");
    say(&story, Code::LG299, "cuStreamSynchronize cannot return: it waits for k on stream 1, and k has not ended.");

    let story = TestTrace::new();
    story.launch(0, 10, "old");
    loads_beside(&story, 0, 2100);
    say(
        &story,
        Code::LG202,
        "cuModuleLoadData cannot return: it waits for the context to be idle, and thread 100 keeps submitting to stream 1.",
    );

    let story = TestTrace::new();
    story.wait(0, 10, 0xf1a6, 1).waits(1, 30, SYNC, Some(0));
    say(
        &story,
        Code::LG203,
        "stream 1 cannot go on: it waits for memory at 0xf1a6 to be == 1, and no submitted operation writes that.",
    );

    let story = TestTrace::new();
    story.wait(0, 10, 0xa, 1).write(0, 11, 0xb, 1).wait(1, 12, 0xb, 1).write(1, 13, 0xa, 1);
    story.waits(1, 30, SYNC, Some(0));
    let expect = "streams 1 and 2 cannot go on: they wait for each other, each behind its own wait.";
    say(&story, Code::LG203, expect);

    let story = TestTrace::new();
    story.launch(0, 10, "spin").waits(1, 30, "cuMemFree_v2", None);
    say(
        &story,
        Code::LG204,
        "cuMemFree_v2 cannot return: it waits for an idle context, and so for spin on stream 1, and spin has not ended.",
    );

    let story = TestTrace::new();
    story.launch(0, 10, "spin");
    (0..1000).for_each(|n| {
        story.launch(0, 20 + 2 * n, "k");
    });
    story.blocked(1, 5000, "cuLaunchKernel", Some(0), Kind::Call, "k");
    let expect = "cuLaunchKernel cannot return: the queue of stream 1 is full, and spin at its head has not ended.";
    say(&story, Code::LG205, expect);

    let story = TestTrace::new().patient(0);
    story.launch_of(0, 10, "big", 5000).launch(1, 12, "small").waits(1, 30, SYNC, Some(1));
    let launch = LaunchKey { function: story.function("big"), block: [64, 1, 1], shared_or_owner: 0 };
    let raw = RawPayload::resident(launch, 4224);
    story.seen(Record { kind: Kind::Seen, function: launch.function, raw, ..story.facts("cuLaunchKernel", 0, None) });
    let expect = "small on stream 2 cannot start: big on stream 1 fills the device and has not ended.";
    let held_back = say(&story, Code::LG206, expect).held_back.unwrap();
    assert_eq!(held_back.operation.function.as_deref(), Some("small"));

    let story = TestTrace::new();
    story.host_function(0, 10, 20, 50, None).launch(0, 22, "k").waits(1, 30, SYNC, Some(0));
    say(&story, Code::LG207, "stream 1 cannot go on: its host function at 0xf00 has not returned.");

    let story = TestTrace::new().patient(0);
    story.launch(0, 10, "spin").waits(1, 30, "cuCtxSynchronize", None);
    let expect = "cuCtxSynchronize cannot return: it waits for spin on stream 1, and spin has not ended.";
    say(&story, Code::LG299, expect);
}

/// A stream that gets memory from a pool that another stream frees stands behind what comes before the release.
#[test]
fn memory_of_a_pool_that_is_freed_behind_a_kernel_makes_its_new_stream_wait_for_that() {
    let story = TestTrace::new();
    story.launch(0, 10, "resident").about(0, 11, "cuMemFreeAsync", 0xa000, 0);
    story.about(1, 12, "cuMemAllocAsync", 0xa000, 96).launch(1, 13, "release").waits(1, 30, SYNC, Some(1));
    story.check(&[(Code::LG299, "resident")]);
    assert!(story.diagnosis().verdicts[0].chain.join("\n").contains("memory of a pool"));
    let elsewhere = TestTrace::new();
    elsewhere.launch(0, 10, "innocent").about(0, 11, "cuMemFreeAsync", 0xa000, 0);
    elsewhere.about(1, 12, "cuMemAllocAsync", 0xb000, 96).launch(1, 13, "spin").waits(1, 30, SYNC, Some(1));
    elsewhere.check(&[(Code::LG299, "spin")]);
    // An allocation alone takes no time.
    let alone = TestTrace::new();
    alone.about(1, 12, "cuMemAllocAsync", 0xb000, 96).launch(1, 13, "spin").waits(1, 30, SYNC, Some(1));
    alone.check(&[(Code::LG299, "spin")]);
}

/// A grid that stands behind something itself fills no device.
#[test]
fn a_grid_that_has_not_started_is_not_what_fills_the_device() {
    for behind in [false, true] {
        let story = TestTrace::new();
        if behind {
            story.wait(0, 9, 0xf1a6, 1);
        }
        story.launch_of(0, 10, "grid", 132).launch(1, 20, "small").waits(1, 30, SYNC, Some(1));
        let launch = LaunchKey { function: story.function("grid"), block: [64, 1, 1], shared_or_owner: 0 };
        let (function, raw) = (launch.function, RawPayload::resident(launch, 132));
        story.seen(Record { kind: Kind::Seen, function, raw, ..story.facts("cuLaunchKernel", 0, None) });
        let expect = if behind { (Code::LG299, "small") } else { (Code::LG206, "grid") };
        assert_eq!(story.diagnosis().verdicts[0].code, expect.0, "{:#?}", story.diagnosis());
        let culprit = story.diagnosis().verdicts[0].culprits[0].operation.name();
        assert_eq!(culprit, expect.1);
    }
}
