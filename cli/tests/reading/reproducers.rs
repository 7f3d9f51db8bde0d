//! `lazyguard export --to cuda`: the calls, objects and values of the program that it makes. The end-to-end tests compile such programs.

use super::common::{about, facts, launch, submit, wait, write, Job};
use super::{lazyguard, said, Folder};
use lazyguard_core::api::EntryPoint;
use lazyguard_core::trace::{RawPayload, Record};

const SEEN: u64 = 300_000_000_000;

fn made(job: &Job, test: &str) -> String {
    let folder = Folder::new(test);
    job.save(&folder.0, SEEN);
    said(&["export", folder.path(), "--to", "cuda", "-o", "-"])
}

fn calls(record: Record, call: &str) -> Record {
    Record { entry_point: EntryPoint::by_symbol(call.as_bytes()).unwrap_or(record.entry_point), ..record }
}

/// A job whose only stream spins in a kernel from the first millisecond on, and its thread and stream.
fn spinning() -> (Job, u32, u32) {
    let job = Job::new();
    let (main, stream) = (job.thread(4242, "main"), job.stream(0x51));
    job.make(main, &launch(stream, job.function("spin"), 1_000_000), 5_000, 0);
    (job, main, stream)
}

#[test]
fn a_word_begins_with_a_value_that_does_not_end_the_wait_for_it() {
    let begins = |name: &str, value: u64, flags: u32| {
        let job = Job::new();
        let (main, stream) = (job.thread(4242, "main"), job.stream(0x51));
        let raw = RawPayload::memory_operation(0x7000, value, flags);
        job.make(main, &Record { raw, ..wait(stream, 0x7000, value, 1_000_000) }, 5_000, 0);
        job.hold(main, &Record { stream, ..facts("cuStreamSynchronize", 2_000_000) });
        made(&job, name)
    };
    let (until_zero, nor) = (begins("until-zero", 0, 1), begins("nor", 0xf0, 3));
    assert!(until_zero.contains("  set(words + 0, -1, 4);\n"), "{until_zero}");
    assert!(nor.contains("  set(words + 0, -1, 4);\n"), "{nor}");
    let at_least = begins("at-least", 0x9000_0001, 0);
    assert!(at_least.contains("  set(words + 0, 2415919104, 4);\n"), "{at_least}");
    let until_one = begins("until-one", 1, 1);
    assert!(!until_one.contains("  set("), "{until_one}");
}

#[test]
fn what_is_left_out_of_a_long_queue_counts_for_its_kind() {
    let (job, main, stream) = spinning();
    let (a, b) = (job.function("a"), job.function("b"));
    for n in 0..300 {
        job.make(main, &launch(stream, a, 2_000_000 + 100_000 * n), 5_000, 0);
        job.make(main, &launch(stream, b, 2_050_000 + 100_000 * n), 5_000, 0);
    }
    job.hold(main, &launch(stream, a, 90_000_000));
    let text = made(&job, "long-queue");
    let launches = text.lines().filter(|line| line.contains("in_turn(") && line.contains("launch("));
    let times =
        |line: &str| line.split_once("i < ").map_or(1, |(_, rest)| rest[..rest.find(';').unwrap()].parse().unwrap());
    assert_eq!(launches.map(times).sum::<u64>(), 602, "{text}");
}

#[test]
fn copies_of_a_size_share_their_memory() {
    let (job, main, stream) = spinning();
    let raw = RawPayload::default();
    for n in 0..200 {
        let copy = submit("cuMemcpyHtoDAsync_v2", stream, 2_000_000 + 100_000 * n);
        job.make(main, &Record { raw, ..copy }, 5_000, 0);
    }
    job.hold(main, &Record { stream, ..facts("cuStreamSynchronize", 90_000_000) });
    let text = made(&job, "copies");
    assert!(text.contains("for (int i = 1; i < 200; ++i) CK(cuMemcpyHtoDAsync(to_1, pinned_1, 1, stream["), "{text}");
}

#[test]
fn an_event_that_is_destroyed_behind_its_wait_is_left_in_place() {
    let (job, main, stream) = spinning();
    let (other, step) = (job.stream(0x52), job.function("step"));
    let of_event = |call: &str, stream: u32, at: u64| about(0xe1, submit(call, stream, at));
    job.make(main, &of_event("cuEventRecord", stream, 2_000_000), 5_000, 0);
    job.make(main, &of_event("cuStreamWaitEvent", other, 3_000_000), 5_000, 0);
    job.make(main, &about(0xe1, facts("cuEventDestroy_v2", 4_000_000)), 5_000, 0);
    job.make(main, &launch(other, step, 5_000_000), 5_000, 0);
    job.hold(main, &Record { stream: other, ..facts("cuStreamSynchronize", 6_000_000) });
    let text = made(&job, "destroyed-event");
    let order =
        ["cuEventRecord(event[0], stream[", "cuStreamWaitEvent(stream[", "launch(kernel_1", "cuStreamSynchronize("];
    let places = order.map(|call| text.rfind(call));
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}\n{text}");
}

#[test]
fn events_are_of_the_context_that_records_them_and_all_contexts_reach_the_words() {
    let (job, main, _) = spinning();
    let second = Job { tracker: job.tracker, context: job.tracker.context(0xc1, 1) };
    let (stream, k) = (second.stream(0x52), job.function("other"));
    let record = |job: &Job, event: u64, stream: u32, at: u64| {
        job.make(main, &about(event, submit("cuEventRecord", stream, at)), 5_000, 0);
    };
    second.make(main, &launch(stream, k, 2_000_000), 5_000, 0);
    record(&job, 0xe1, 1, 3_000_000);
    record(&second, 0xe2, stream, 4_000_000);
    second.hold(main, &Record { stream, ..facts("cuStreamSynchronize", 5_000_000) });
    let text = made(&job, "two-contexts");
    for (at, event) in [(0, 0), (1, 1)] {
        let made = format!("CK(cuCtxSetCurrent(context[{at}]));\n  for (const int n : {{{event}}}) CK(cuEventCreate(");
        assert!(text.contains(&made), "{made}\n{text}");
    }
    assert!(text.contains("never = memory_of_all(8)") && text.contains("CUdeviceptr memory_of_all("), "{text}");
}

#[test]
fn the_operations_of_a_batch_come_in_their_order() {
    let job = Job::new();
    let (main, stream) = (job.thread(4242, "main"), job.stream(0x51));
    let first = calls(wait(stream, 0x7000, 7, 1_000_000), "cuStreamBatchMemOp_v2");
    let second = calls(write(stream, 0x7004, 8, 1_000_000), "cuStreamBatchMemOp_v2");
    job.note(main, &Record { context: job.context as u16, ..second });
    job.make(main, &first, 5_000, 0);
    job.hold(main, &Record { stream, ..facts("cuStreamSynchronize", 2_000_000) });
    let text = made(&job, "batch");
    let (waits, writes) = (text.find("return cuStreamWaitValue32("), text.find("return cuStreamWriteValue32("));
    assert!(waits.is_some() && waits < writes, "{text}");
}

#[test]
fn calls_that_wait_for_a_whole_context_or_take_any_memory_hang_alike() {
    for (call, statement) in [
        ("cuDevicePrimaryCtxReset_v2", "context[0], false, [&] { return cuDevicePrimaryCtxReset(device); }"),
        ("cuDevicePrimaryCtxRelease_v2", "context[0], false, [&] { return cuDevicePrimaryCtxRelease(device); }"),
        ("cuMemcpy", "return cuMemcpy((CUdeviceptr) pageable_1, from_1, 1); }"),
    ] {
        let (job, main, _) = spinning();
        // A call may have no context.
        Job { context: 0, ..job }.hold(main, &facts(call, 2_000_000));
        let text = made(&job, call);
        assert!(text.contains(statement) && text.contains("CUcontext context[1];"), "{statement}\n{text}");
    }
}

#[test]
fn names_and_sizes_that_a_compiler_would_stumble_over_are_others() {
    let job = Job::new();
    let (main, stream) = (job.thread(4242, "main"), job.stream(0x51));
    let (raw, _) = RawPayload::launch([65535, 65535, 2], [8, 8, 1], 0);
    let huge = Record { raw, ..launch(stream, job.function("\u{202e}evil\\"), 1_000_000) };
    job.make(main, &huge, 5_000, 0);
    job.hold(main, &Record { stream, ..facts("cuStreamSynchronize", 2_000_000) });
    let text = made(&job, "names");
    assert!(text.contains("launch(kernel_0, 2147483647, 64, "), "{text}");
    assert!(text.is_ascii() && text.contains("\"_evil_\""), "{text}");
}

#[test]
fn the_kernel_behind_a_copy_that_seems_not_to_end_spins() {
    let job = Job::new();
    let (main, stream) = (job.thread(4242, "main"), job.stream(0x51));
    job.make(main, &submit("cuMemcpyHtoDAsync_v2", stream, 1_000_000), 5_000, 0);
    job.make(main, &launch(stream, job.function("first"), 2_000_000), 5_000, 0);
    job.make(main, &launch(stream, job.function("second"), 3_000_000), 5_000, 0);
    job.hold(main, &Record { stream, ..facts("cuStreamSynchronize", 4_000_000) });
    let text = made(&job, "behind-a-copy");
    for (kernel, flag) in [("kernel_0, 80, 128, stream[1]", "never"), ("kernel_1, 80, 128, stream[1]", "already")] {
        assert!(text.contains(&format!("launch({kernel}, {flag})")), "{text}");
    }
}

/// Without the work that does not end, the program would end.
#[test]
fn a_hang_whose_work_the_recording_lacks_is_refused() {
    let refused = |job: &Job, test: &str, code: &str| {
        let folder = Folder::new(test);
        job.save(&folder.0, SEEN);
        let refused = lazyguard(&["export", folder.path(), "--to", "cuda", "-o", "-"]).output().unwrap();
        let line = format!("lazyguard: no reproducer of this {code} can be made: the recording does not have all the work that it waits for\n");
        assert_eq!((refused.status.code(), String::from_utf8_lossy(&refused.stderr).into_owned()), (Some(1), line));
        assert!(refused.stdout.is_empty(), "{refused:?}");
    };
    let job = Job::new();
    job.hold(job.thread(4242, "main"), &facts("cuCtxDestroy_v2", 2_000_000));
    refused(&job, "nothing-known", "LG299");
    let (job, main, stream) = spinning();
    for n in 0..30_000 {
        job.make(main, &launch(job.stream(0x52), job.function("other"), 2_000_000 + 10_000 * n), 5_000, 0);
    }
    job.hold(main, &Record { stream, ..facts("cuStreamSynchronize", 900_000_000) });
    refused(&job, "overwritten", "LG299");
}

/// The line about the file would come into it.
#[test]
fn the_device_of_standard_output_is_standard_output() {
    let folder = Folder::new("standard-output");
    let (job, main, stream) = spinning();
    job.hold(main, &Record { stream, ..facts("cuStreamSynchronize", 2_000_000) });
    job.save(&folder.0, SEEN);
    let file = std::fs::File::create(folder.of("out")).unwrap();
    let arguments = ["export", folder.path(), "--to", "cuda", "-o", "/dev/stdout"];
    assert!(lazyguard(&arguments).stdout(file).status().unwrap().success());
    let text = std::fs::read_to_string(folder.of("out")).unwrap();
    assert!(text.starts_with("// LG299: ") && text.ends_with("}\n"), "{text}");
}
