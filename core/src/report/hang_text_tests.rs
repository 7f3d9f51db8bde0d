use super::*;
use crate::api::Call;
use crate::api::StreamKind;
use crate::diagnose::{BusyStream, StreamRef};
use crate::diagnose::{HostFunctionSeen, OperationSeen, Snapshot};
use crate::preload::Nudge;
use crate::report::PreloadSummary;
use crate::report::StackSeen;

const SECOND: Nanos = 1_000_000_000;

fn place(address: u64, module: &str, function: &str, line: u32) -> FrameSeen {
    FrameSeen {
        address,
        module: module.to_owned(),
        offset: address,
        function: (!function.is_empty()).then(|| function.to_owned()),
        file: (line != 0).then(|| "/src/app.cpp".to_owned()),
        line: (line != 0).then_some(line),
        ..FrameSeen::default()
    }
}

fn stream(number: u32) -> StreamRef {
    StreamRef { number, handle: 0x50 + u64::from(number), kind: StreamKind::Blocking, context: 0xc0 }
}

fn operation(at: Nanos, function: &str, caller: u64) -> OperationSeen {
    OperationSeen::new(at, Call::from("cuLaunchKernel".to_owned()), Some(function.to_owned()), from(caller))
}

fn from(caller: u64) -> Origin {
    Origin { caller, outer: Vec::new() }
}

fn call(thread: u32, call: &str, queries: Option<u64>) -> BlockedCall {
    BlockedCall {
        thread,
        thread_name: "main".to_owned(),
        call: Call::from(call.to_owned()),
        entered: 10 * SECOND,
        blocked_nanos: 30 * SECOND,
        past_threshold: true,
        context: 0xc0,
        stream: None,
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
        origin: from(0x30),
    }
}

fn busy(number: u32, oldest: OperationSeen) -> BusyStream {
    BusyStream {
        stream: stream(number),
        oldest,
        last_submitted: 9 * SECOND,
        submitted: 1,
        operations: Vec::new(),
        outstanding: 1,
        timed: 1,
        all_recorded: true,
        moved: 0,
        answered_busy: 0,
        asked: None,
        destroyed: false,
    }
}

/// A thread is blocked behind k1 on stream 1, and k2 on stream 2 with it.
fn report() -> HangReport {
    let (k1, k2) = (operation(8 * SECOND, "_Z2k1v", 0x10), operation(9 * SECOND, "_Z2k2v", 0x20));
    let load = crate::diagnose::ColdLoadSeen {
        at: 9 * SECOND,
        call: Call::from("cuLaunchKernel".to_owned()),
        kind: crate::api::ColdKind::Function,
        context: 0xc0,
        function: k2.function.clone(),
        stream: Some(stream(2)),
        thread: 7,
        origin: from(0x20),
        first_launch: false,
        behind: vec![busy(1, k1.clone())],
    };
    let snapshot = Snapshot {
        at: 40 * SECOND,
        threshold_nanos: 30 * SECOND,
        patience_nanos: 90 * SECOND,
        blocked: vec![call(7, "cuCtxSynchronize", None)],
        streams: vec![busy(1, k1), busy(2, k2)],
        loads: vec![load],
        ..Snapshot::default()
    };
    let report = HangReport::new(23226, "lazy_pair", Some("/runs/7"), snapshot, PreloadSummary::default());
    HangReport {
        places: vec![
            place(0x10, "lazy_pair", "main", 11),
            place(0x20, "lazy_pair", "main", 12),
            place(0x30, "lazy_pair", "main", 15),
        ],
        host: "node7".to_owned(),
        rank: "0".to_owned(),
        armed_unix_nanos: 1_750_000_000 * SECOND,
        ..report
    }
}

#[test]
fn the_head_says_who_why_what_to_do_and_where() {
    let report = report();
    let expect = [
        "HANG 15:07:20Z node7 rank 0 pid 23226 (lazy_pair): blocked 30 s in cuCtxSynchronize at main app.cpp:15",
        "LG201 (likely): k2 cannot start: loading it on its first launch waits for k1 on stream 1, and k1 has not ended.",
        "  fix: load k2 before launching k1: cudaFuncGetAttributes(k2), or LAZYGUARD_PRELOAD=auto",
        "  k1 launched at main app.cpp:11, k2 at main app.cpp:12",
    ];
    assert_eq!(report.head(None), expect);
    let text = report.text();
    let lines: Vec<_> = text.unmarked().collect();
    assert_eq!(lines[..4], expect);
    assert_eq!(
        lines[4..],
        [
            "  - cuLaunchKernel on stream 2 loaded k2 on its first use at +9.000 s",
            "blocked calls:",
            "  thread 7 \"main\" in cuCtxSynchronize for 30 s since +10.000 s, called from main app.cpp:15",
            "busy streams, with the oldest operation not known to have ended:",
            "  stream 1 (0x51, created with default flags): cuLaunchKernel of k1 since +8.000 s, 1 operation submitted in all",
            "  stream 2 (0x52, created with default flags): cuLaunchKernel of k2 since +9.000 s, 1 operation submitted in all",
            "preload : 0 kernels preloaded in 0.0 ms",
            "details: lazyguard report /runs/7",
        ]
    );
}

/// The line of the head that says where the kernels were launched: `k1` from 0x10, `k2` by these frames from 0x20.
fn launched(inner: &[u64], places: Vec<FrameSeen>, runtimes: Vec<NudgeAnswer>) -> Option<String> {
    let mut report = HangReport { places, ..report() };
    report.preload.runtimes = runtimes;
    for held_back in report.verdicts.iter_mut().filter_map(|verdict| verdict.held_back.as_mut()) {
        let mut addresses = inner.iter().copied().chain([0x20]);
        held_back.operation.origin = Origin { caller: addresses.next().unwrap_or(0), outer: addresses.collect() };
    }
    report.head(None).get(3).cloned()
}

#[test]
fn kernels_that_were_launched_from_one_place_are_named_together() {
    let places = [0x10, 0x20].map(|address| place(address, "lazy_pair", "launches", 28)).to_vec();
    assert_eq!(launched(&[], places, Vec::new()).as_deref(), Some("  k1 and k2 launched at launches app.cpp:28"));
}

#[test]
fn a_launch_is_where_the_programs_frame_is_and_not_where_the_runtimes_and_nvccs_are() {
    let of_runtime = [
        [("app", "libcudart_static_4d8b33a1"), ("app", "cudaLaunchKernel"), ("app", "_Z20__device_stub__Z2k2vv")],
        [("libcudart.so.13", ""), ("libcudart.so.13", ""), ("app", "_Z20__device_stub__Z2k2vv")],
        [("app", "libcudart_static_4d8b33a1"), ("app", "_Z20__device_stub__Z2k2vv"), ("app", "_Z2k2v")],
    ];
    for frames in of_runtime {
        let inner = frames.iter().zip(1..).map(|((module, function), address)| place(address, module, function, 0));
        let places: Vec<_> = inner.chain([place(0x20, "app", "main", 12)]).collect();
        let found = launched(&[1, 2, 3], places, Vec::new());
        assert_eq!(found.as_deref(), Some("  k2 launched at main app.cpp:12"), "{frames:?}");
    }
    // A function of the program's calls the runtime itself.
    let places = vec![place(1, "libcudart.so.13", "", 0), place(2, "app", "start", 7), place(0x20, "app", "main", 12)];
    assert_eq!(launched(&[1, 2], places, Vec::new()).as_deref(), Some("  k2 launched at start app.cpp:7"));
}

/// NCCL's, cuBLAS's and PyTorch's frames are not the program's.
#[test]
fn a_launch_of_a_librarys_is_at_the_programs_line_and_in_python_at_that_of_python() {
    for library in ["libnccl.so.2", "libcublas.so.12", "libcudnn_ops.so.9"] {
        let places = vec![place(1, library, "", 0), place(0x20, "app", "main", 12)];
        assert_eq!(
            launched(&[1], places, Vec::new()).as_deref(),
            Some("  k2 launched at main app.cpp:12"),
            "{library}"
        );
        assert_eq!(launched(&[1], vec![place(1, library, "", 0)], Vec::new()), None, "{library}");
    }
    let python = "Thread 0x01 (most recent call first):\n  File \"/opt/lib/python3.12/site-packages/torch/x.py\", line 9 in f\n  \
                  File \"/srv/job/train.py\", line 31 in <module>\n";
    let in_python = |module: &str, line: u32, python: Option<&str>| {
        let mut report = report();
        let places = [(0x10, "step", 5), (0x20, "load", line)];
        report.places = places.map(|(address, name, line)| place(address, module, name, line)).to_vec();
        report.program = "python3.12".to_owned();
        report.python = python.map(str::to_owned);
        // The main thread is in the second launch.
        (report.snapshot.blocked[0].thread, report.snapshot.blocked[0].entered) = (report.process, 9 * SECOND);
        report.head(None).into_iter().skip(3).collect::<Vec<_>>()
    };
    for module in ["libtorch_cuda.so", "libnccl.so.2"] {
        assert_eq!(in_python(module, 0, Some(python)), ["  k2 launched at train.py:31"], "{module}");
        assert_eq!(in_python(module, 0, None), Vec::<String>::new(), "{module}");
    }
    assert_eq!(
        in_python("stream.cpython-312-x86_64-linux-gnu.so", 0, Some(python)),
        ["  k1 launched at step app.cpp:5, k2 at train.py:31"]
    );
    // The program's own extension.
    assert_eq!(in_python("fast.so", 7, None), ["  k1 launched at step app.cpp:5, k2 at load app.cpp:7"]);
}

#[test]
fn without_names_a_launch_is_outside_of_the_frames_that_a_runtime_has() {
    let nameless = |inner: &str| {
        let inner = (1..4).map(|address| place(address, inner, "", 0));
        inner.chain([place(0x20, "app", "", 0)]).collect::<Vec<_>>()
    };
    let launched = |inner: &str, runtimes| launched(&[1, 2, 3], nameless(inner), runtimes);
    let linked = NudgeAnswer { object: "/bin/app".to_owned(), fat_binaries: 1, answer: Nudge::RegisterNow };
    assert_eq!(launched("app", vec![linked]).as_deref(), Some("  k2 launched at app+0x20"));
    assert_eq!(launched("libcudart.so.12", Vec::new()).as_deref(), Some("  k2 launched at app+0x20"));
    assert_eq!(launched("app", Vec::new()).as_deref(), Some("  k2 launched at app+0x1"), "no runtime is known there");
}

#[test]
fn what_is_in_the_text_is_in_the_json() {
    let value: serde_json::Value = serde_json::from_str(&crate::report::json(&report())).unwrap();
    let verdict = &value["verdicts"][0];
    let expected: [(&serde_json::Value, serde_json::Value); 7] = [
        (&value["host"], "node7".into()),
        (&value["rank"], "0".into()),
        (&value["armed_unix_nanos"], (1_750_000_000 * SECOND).into()),
        (&value["blocked"][0]["caller"], 0x30.into()),
        (&value["places"][0]["line"], 11.into()),
        (&verdict["held_back"]["operation"]["function"], "_Z2k2v".into()),
        (&verdict["culprits"][0]["operation"]["caller"], 0x10.into()),
    ];
    for (found, expect) in expected {
        assert_eq!(*found, expect);
    }
    assert_eq!(serde_json::from_str::<HangReport>(&crate::report::json(&report())).unwrap(), report());
}

#[test]
fn a_hang_of_hours_says_how_long_it_lasts_now() {
    let report = report();
    let first = |at, is_now| report.head(Some(Newest { at, is_now })).remove(0);
    assert!(
        first(19_000 * SECOND, true).ends_with("at main app.cpp:15; now 5 h 16 min"),
        "{}",
        first(19_000 * SECOND, true)
    );
    let killed = first(70 * SECOND, false);
    assert!(killed.ends_with("; 60 s when it was last seen, at 15:07:50Z"), "{killed}");
    assert_eq!(first(40 * SECOND, true), report.head(None)[0], "nothing newer is known");
}

#[test]
fn events_that_a_thread_polls_in_turns_are_one_line() {
    let mut report = report();
    report.snapshot.blocked.extend((0..7).map(|n| call(9, "cuEventQuery", Some(400 + n))));
    let text = report.text().as_str().to_owned();
    let polls: Vec<_> = text.lines().filter(|line| line.contains("cuEventQuery")).collect();
    assert_eq!(
        polls,
        ["lazyguard:   thread 9 \"main\" polls 7 events by cuEventQuery, 2821 times for 30 s since +10.000 s, called from main \
          app.cpp:15"]
    );
}

#[test]
fn a_host_function_is_named_and_its_thread_comes_first() {
    let mut report = report();
    let host = HostFunctionSeen {
        stream: 1,
        at: SECOND,
        entered: 2 * SECOND,
        address: 0xf00,
        thread: 11,
        doing: None,
        or_another: false,
    };
    report.snapshot.host_functions.push(host);
    report.verdicts[0].sentence = "stream 1 cannot go on: its host function at 0xf00 has not returned.".to_owned();
    report.places.push(place(0xf00, "lazy_pair", "waits_for_ever", 40));
    let stack = |thread: u32, function: &str| StackSeen {
        thread,
        frames: vec![place(1, "lazy_pair", function, 0)],
        notes: Vec::new(),
    };
    report.stacks = vec![stack(7, "main"), stack(11, "waits_for_ever")];
    let head = report.head(None);
    assert!(head[1].ends_with("its host function waits_for_ever app.cpp:40 has not returned."), "{head:?}");
    assert_eq!(
        report.stack_lines(Detail::Short),
        [
            "stack of thread 11 in the host function waits_for_ever app.cpp:40:",
            "    at waits_for_ever (lazy_pair+0x1)",
            "stack of thread 7 in cuCtxSynchronize:",
            "    at main (lazy_pair+0x1)",
        ]
    );
    report.stacks[1].frames = report.stacks[0].frames.clone();
    assert_eq!(report.stack_lines(Detail::Short)[0], "stack of threads 11, 7:");
}

#[test]
fn a_process_of_which_no_thread_is_in_a_call_is_not_called_blocked() {
    let snapshot = Snapshot { at: 5 * SECOND, last_activity: SECOND, ..Snapshot::default() };
    let mut report = HangReport::new(7, "app", None, snapshot, PreloadSummary::default());
    report.status = Status::Hang;
    assert!(report
        .text()
        .as_str()
        .starts_with("lazyguard: HANG pid 7 (app): no driver call but of a poll for 4.0 s\n"));
}

#[test]
fn a_verdict_that_comes_or_goes_is_of_the_same_hang() {
    let one = report();
    let other = Verdict { code: Code::LG203, ..one.verdicts[0].clone() };
    let both = HangReport { verdicts: vec![other.clone(), one.verdicts[0].clone()], ..report() };
    assert!(one.same_hang(&both) && both.same_hang(&one) && both.tells(&other) && !one.tells(&other));
    let later = HangReport { verdicts: vec![other], ..report() };
    assert!(!later.same_hang(&one) && !HangReport { status: Status::Slow, ..report() }.same_hang(&one));
    let beside = later.beside().as_str().to_owned();
    assert!(beside.contains(": beside what was reported\n") && beside.contains("LG203 (likely): "), "{beside}");
}
