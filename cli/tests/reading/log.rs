//! `lazyguard log`: every field, every filter.

use super::common::{about, facts, hazard, launch, preload, submit, wait, write, Job};
use super::{said, Folder};
use lazyguard_core::trace::layout::flag;
use lazyguard_core::trace::{Kind, RawPayload, Record};
use serde_json::{json, Value};

/// A run with some of everything, in its folder.
fn a_run(folder: &Folder) -> Job {
    let job = Job::new();
    let (main, worker) = (job.thread(100, "main"), job.thread(101, "worker"));
    let (one, two) = (job.stream(0x51), job.stream(0x52));
    let (k1, k2) = (job.function("_ZN2at6kernelIfEEvi"), job.function("k2"));
    job.make(main, &about(0xb1, facts("cuLibraryLoadData", 100)), 50, 0);
    let (raw, _) = RawPayload::launch([40, 2, 1], [128, 1, 1], 512);
    let shared = Record { raw, ..launch(one, k1, 1_000) };
    job.make(main, &shared, 5, 0);
    let cold = launch(two, k2, 2_000);
    job.make(worker, &Record { kind: Kind::ColdFunction, raw: cold.raw.with_owner(0xb1), ..cold }, 900, 0);
    let hazard = hazard(101, one, k1, facts("cuLaunchKernel", 2_000));
    job.note(worker, &Record { stream: two, function: k2, returned: 2_001, ..hazard });
    job.make(worker, &wait(one, 0xf1a6, 7, 3_000), 5, 0);
    job.make(worker, &write(two, 0xf1a6, 6, 4_000), 5, 0);
    job.make(main, &Record { raw: RawPayload::memory(0, 4096), ..submit("cuMemcpyHtoDAsync_v2", one, 5_000) }, 5, 0);
    job.make(main, &Record { raw: RawPayload::memory(0xd00d, 64), ..facts("cuMemAlloc_v2", 6_000) }, 200_000, 2);
    job.make(main, &about(0xe, submit("cuEventRecord", one, 300_000)), 5, 0);
    (0..3).for_each(|n| job.make(main, &Record { stream: one, ..facts("cuStreamQuery", 310_000 + n * 100) }, 5, 600));
    let preload = preload(12, 3, 5, 0xb1, facts("cuStreamQuery", 320_000));
    job.note(main, &Record { returned: 321_000, ..preload });
    let captured = Record { flags: flag::CAPTURED, ..launch(one, k1, 330_000) };
    job.make(main, &captured, 5, 0);
    job.make(main, &Record { flags: flag::SUBMITTED | flag::LEFT, ..submit("cuLaunchHostFunc", one, 340_000) }, 5, 0);
    job.hold(main, &Record { stream: one, caller: 0x7001, ..facts("cuStreamSynchronize", 350_000) });
    job.save(&folder.0, 2_000_000_000);
    job
}

fn lines(arguments: &[&str]) -> Vec<Value> {
    let text = said(&[&["log"], arguments, &["--format", "json"]].concat());
    text.lines().map(|line| serde_json::from_str(line).expect("a JSON object a line")).collect()
}

/// The times of the records that come through.
fn times(arguments: &[&str]) -> Vec<u64> {
    lines(arguments).iter().map(|line| line["at_ns"].as_u64().unwrap()).collect()
}

#[test]
fn every_line_has_what_applies_to_it_and_no_more() {
    let folder = Folder::new("every_line");
    a_run(&folder);
    let lines = lines(&[folder.path()]);
    let at = |at: u64| lines.iter().find(|line| line["at_ns"] == at).unwrap_or_else(|| panic!("no record at {at}"));
    let main = json!({ "thread": 100, "thread_number": 1, "thread_name": "main", "context": 1 });
    let worker = json!({ "thread": 101, "thread_number": 2, "thread_name": "worker", "context": 1 });
    let expect = |line: &Value, who: &Value, rest: Value| {
        let mut all = who.as_object().unwrap().clone();
        all.extend(rest.as_object().unwrap().clone());
        assert_eq!(line, &Value::Object(all));
    };
    expect(
        at(100),
        &main,
        json!({
            "at_ns": 100, "took_ns": 50, "event": "load", "call": "cuLibraryLoadData", "result": 0, "lane": "rare_events",
            "number": 0, "owner": 0xb1,
        }),
    );
    expect(
        at(1_000),
        &main,
        json!({
            "at_ns": 1_000, "took_ns": 5, "event": "launch", "call": "cuLaunchKernel", "result": 0, "lane": "work", "number": 0,
            "stream": 1, "handle": 0x51, "function": "at::kernel<float>", "grid": [40, 2, 1], "block": [128, 1, 1],
            "shared_bytes": 512, "caller": "0x401234",
        }),
    );
    let cold = lines.iter().find(|line| !line["cold"].is_null()).unwrap();
    expect(
        cold,
        &worker,
        json!({
            "at_ns": 2_000, "took_ns": 900, "event": "load", "call": "cuLaunchKernel", "result": 0, "lane": "rare_events",
            "number": 0, "stream": 2, "handle": 0x52, "function": "k2", "cold": "function", "grid": [40, 2, 1],
            "block": [128, 1, 1], "owner": 0xb1, "caller": "0x401234",
        }),
    );
    let hazard = lines.iter().find(|line| line["event"] == "hazard").unwrap();
    expect(
        hazard,
        &json!({ "thread": 101, "thread_number": 2, "thread_name": "worker" }),
        json!({
            "at_ns": 2_000, "took_ns": 1, "event": "hazard", "call": "cuLaunchKernel", "lane": "rare_events", "number": 1,
            "stream": 2, "handle": 0x52, "function": "k2", "code": "LG101", "confidence": "possible", "count": 1, "in_flight_on": 1, "in_flight": "at::kernel<float>",
        }),
    );
    expect(
        at(3_000),
        &worker,
        json!({
            "at_ns": 3_000, "took_ns": 5, "event": "memory_operation", "call": "cuStreamWaitValue32_v2", "result": 0,
            "lane": "rare_events", "number": 2, "stream": 1, "handle": 0x51, "address": 0xf1a6, "value": 7, "wait": true,
            "condition": "==",
        }),
    );
    expect(
        at(4_000),
        &worker,
        json!({
            "at_ns": 4_000, "took_ns": 5, "event": "memory_operation", "call": "cuStreamWriteValue32_v2", "result": 0,
            "lane": "rare_events", "number": 3, "stream": 2, "handle": 0x52, "address": 0xf1a6, "value": 6, "wait": false,
        }),
    );
    expect(
        at(5_000),
        &main,
        json!({
            "at_ns": 5_000, "took_ns": 5, "event": "copy", "call": "cuMemcpyHtoDAsync_v2", "result": 0, "lane": "work",
            "number": 1, "stream": 1, "handle": 0x51, "bytes": 4096,
        }),
    );
    expect(
        at(6_000),
        &main,
        json!({
            "at_ns": 6_000, "took_ns": 200_000, "event": "allocation", "call": "cuMemAlloc_v2", "result": 2,
            "lane": "rare_events", "number": 1, "address": 0xd00d, "bytes": 64,
        }),
    );
    expect(
        at(300_000),
        &main,
        json!({
            "at_ns": 300_000, "took_ns": 5, "event": "event_record", "call": "cuEventRecord", "result": 0, "lane": "work",
            "number": 2, "stream": 1, "handle": 0x51, "event_handle": 0xe,
        }),
    );
    expect(
        at(310_000),
        &main,
        json!({
            "at_ns": 310_000, "took_ns": 205, "event": "query", "call": "cuStreamQuery", "result": 600, "lane": "work",
            "number": 3, "stream": 1, "handle": 0x51, "count": 3,
        }),
    );
    expect(
        at(320_000),
        &json!({ "thread": 100, "thread_number": 1, "thread_name": "main" }),
        json!({
            "at_ns": 320_000, "took_ns": 1_000, "event": "preload", "call": "cuStreamQuery", "lane": "rare_events", "number": 2,
            "owner": 0xb1, "loaded": 12, "refused": 3, "left_out": 5,
        }),
    );
    assert_eq!(at(330_000)["captured"], true);
    assert_eq!(at(340_000)["left"], true);
    expect(
        at(350_000),
        &main,
        json!({
            "at_ns": 350_000, "event": "synchronize", "call": "cuStreamSynchronize", "lane": "waits", "stream": 1, "handle": 0x51,
            "caller": "0x7001", "in_progress": true,
        }),
    );
    assert_eq!(lines.len(), 14);
    assert!(lines.is_sorted_by_key(|line| line["at_ns"].as_u64()));
}

#[test]
fn each_filter_lets_through_what_it_names() {
    let folder = Folder::new("each_filter");
    a_run(&folder);
    let of = |filter: &[&str]| times(&[&[folder.path()], filter].concat());
    assert_eq!(of(&["--thread", "101"]), [2_000, 2_000, 3_000, 4_000]);
    assert_eq!(of(&["--thread", "worker"]), of(&["--thread", "101"]));
    let none = super::lazyguard(&["log", folder.path(), "--thread", "nobody"]).output().unwrap();
    let hint = "lazyguard: none of the 14 records that were looked at matches; without a filter, all are printed\n";
    assert_eq!((none.status.code(), super::texts(&none)), (Some(0), (String::new(), hint.to_owned())));
    assert_eq!(of(&["--stream", "2"]), [2_000, 2_000, 4_000]);
    assert_eq!(of(&["--function", "kernel<float>"]), [1_000, 330_000]);
    assert_eq!(of(&["--call", "Memcpy"]), [5_000]);
    assert_eq!(of(&["--lane", "waits"]), [350_000]);
    assert_eq!(of(&["--lane", "work"]), [1_000, 5_000, 300_000, 310_000, 330_000, 340_000]);
    assert_eq!(of(&["--event", "hazard"]), [2_000]);
    // A launch that loads is both.
    assert_eq!(of(&["--event", "load"]), [100, 2_000]);
    assert_eq!(of(&["--event", "launch"]), [1_000, 2_000, 330_000]);
    assert_eq!(of(&["--since", "0.0003"]), [300_000, 310_000, 320_000, 330_000, 340_000, 350_000]);
    assert_eq!(of(&["--since", "4us", "--until", "6us"]), [4_000, 5_000, 6_000]);
    // What is in progress has been so until the process was last seen.
    assert_eq!(of(&["--slower-than", "800ns"]), [2_000, 6_000, 320_000, 350_000]);
    assert_eq!(of(&["--slower-than", "1.9s"]), [350_000]);
    assert_eq!(of(&["--last", "2"]), [340_000, 350_000]);
    assert_eq!(of(&["--last", "1", "--thread", "worker"]), [4_000]);
    assert_eq!(of(&["--last", "0"]), [0; 0]);
    assert_eq!(of(&["--event", "launch", "--stream", "1", "--until", "1ms", "--call", "Kernel"]), [1_000, 330_000]);
}

#[test]
fn the_text_says_the_same_for_a_person() {
    let folder = Folder::new("text");
    a_run(&folder);
    let text = said(&["log", folder.path()]);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 14);
    for expect in [
        "+0.000001 thread 100 \"main\": cuLaunchKernel of at::kernel<float> <<<40x2x1, 128x1x1, 512>>> on stream 1 (0x51), 5 ns, from 0x401234",
        "+0.000002 thread 101 \"worker\": cuLaunchKernel of k2 <<<40x2x1, 128x1x1, 0>>> on stream 2 (0x52), loaded the function on first use, 900 ns, from 0x401234",
        "+0.000002 thread 101 \"worker\": possible hazard LG101 in cuLaunchKernel of k2 on stream 2 (0x52) beside at::kernel<float> on stream 1, 1 time",
        "+0.000003 thread 101 \"worker\": cuStreamWaitValue32_v2 until memory at 0xf1a6 == 7 on stream 1 (0x51), 5 ns",
        "+0.000004 thread 101 \"worker\": cuStreamWriteValue32_v2 of 6 to 0xf1a6 on stream 2 (0x52), 5 ns",
        "+0.000005 thread 100 \"main\": cuMemcpyHtoDAsync_v2 of 4096 bytes on stream 1 (0x51), 5 ns",
        "+0.000006 thread 100 \"main\": cuMemAlloc_v2 at 0xd00d of 64 bytes, 200.0 us, result 2",
        "+0.000300 thread 100 \"main\": cuEventRecord event 0xe on stream 1 (0x51), 5 ns",
        "+0.000310 thread 100 \"main\": cuStreamQuery on stream 1 (0x51), 3 times, 205 ns, result 600",
        "+0.000320 thread 100 \"main\": loaded 12 kernels ahead of use in cuStreamQuery, 3 refused, 5 left out, 1.0 us",
        "+0.000340 thread 100 \"main\": cuLaunchHostFunc on stream 1 (0x51), 5 ns, left without returning",
        "+0.000350 thread 100 \"main\": cuStreamSynchronize on stream 1 (0x51), in progress for 2.000 s, from 0x7001",
    ] {
        assert!(lines.contains(&expect), "no line is: {expect}\n{text}");
    }
    assert!(lines.iter().any(|line| line.starts_with("+0.000330") && line.contains(", captured")));
}

#[test]
fn a_recording_may_be_named_by_itself() {
    let folder = Folder::new("by_itself");
    a_run(&folder);
    std::fs::rename(folder.of("trace.lgt"), folder.of("copied")).unwrap();
    assert_eq!(times(&[folder.of("copied").to_str().unwrap(), "--lane", "waits"]), [350_000]);
}

#[test]
fn the_page_tells_of_every_key_every_event_and_every_option() {
    let reference = include_str!("../../../docs/REFERENCE.md");
    let (_, reference) = reference.split_once("\n## `lazyguard log --format json`\n").expect("a section");
    let section = reference.split("\n## ").next().expect("its text");
    let folder = Folder::new("page");
    a_run(&folder);
    let keys = lines(&[folder.path()]).into_iter().flat_map(|line| line.as_object().cloned().unwrap_or_default());
    for key in keys.map(|(key, _)| key) {
        assert!(section.contains(&format!("\n- `{key}`")), "docs/REFERENCE.md does not tell of the key {key}");
    }
    for event in lazyguard_core::report::events() {
        assert!(section.contains(&format!("`{event}`")), "docs/REFERENCE.md does not tell of the event {event}");
    }
    let page = include_str!("../../../docs/READING.md");
    for command in ["report", "log", "export"] {
        let help = said(&[command, "--help"]);
        let of_all = ["--help", "--version"];
        let options = help.split_ascii_whitespace().filter(|word| word.starts_with("--") && !of_all.contains(word));
        for option in options {
            assert!(page.contains(option), "docs/READING.md does not tell of {option}");
        }
    }
}
