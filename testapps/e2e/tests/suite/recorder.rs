//! The recording: each kind of event with its facts, and an account of every record.

use crate::crash::{facts_in, storm};
use lazyguard_e2e::{
    calls_in, command, gapless_numbers, hostile_program, in_progress, is_call, log_of, number, one_of_three,
    read_by_script, report_of, run, text, text_report_of, App, Json, Outcome, Recording, Run, Running, Work,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

const SECOND: Duration = Duration::from_secs(1);

/// A run with an orderly end, its recording and its log.
fn recorded(run: Run<'_>) -> (Outcome, Recording, Vec<Json>) {
    let outcome = run.guarded().kept().finish();
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome}");
    let recording = Recording::of(outcome.out().path());
    recording.expect_to_add_up();
    assert_eq!((recording.text("/state"), recording.is_alive()), ("ended", false));
    let log = log_of(outcome.out().path(), &[]);
    (outcome, recording, log)
}

/// The log of `every_event` and its facts.
fn every_event(work: &Work, preload: &str, delay: &str) -> (Vec<Json>, BTreeMap<String, u64>) {
    let facts = work.path().join(format!("facts-{preload}"));
    let run = Run::new(work, hostile_program("every_event")).args([&facts]);
    let (_, recording, log) = recorded(run.set("LAZYGUARD_PRELOAD", preload).set("LGSIM_DELAY", delay));
    assert_eq!(recording.records().present, log.len() as u64, "what is present is what the log prints");
    assert!(log.iter().all(|line| !in_progress(line)), "nothing is in progress in a process that has ended");
    assert!(log.is_sorted_by_key(|line| number(line, "/at_ns")), "the log goes forward");
    (log, facts_in(&facts))
}

/// The lines of a call.
fn of<'l>(log: &'l [Json], call: &str) -> Vec<&'l Json> {
    log.iter().filter(|line| line["call"] == call && is_call(line)).collect()
}

/// The only line of a call with a number at a key.
fn the<'l>(log: &'l [Json], call: &str, key: &str, value: u64) -> &'l Json {
    let found: Vec<_> = of(log, call).into_iter().filter(|line| line[key] == value).collect();
    assert_eq!(found.len(), 1, "{call} with {key} {value} was made once; of its lines {:#?}", of(log, call));
    found[0]
}

#[test]
fn a_launch_has_its_function_stream_grid_and_block() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let (log, facts) = every_event(&work, "off", "");
    let shapes: Vec<_> = of(&log, "cuLaunchKernel")
        .into_iter()
        .map(|line| {
            assert_eq!((number(line, "/thread"), number(line, "/result")), (facts["thread"], 0), "{line}");
            assert!(line["took_ns"].is_u64() && number(line, "/context") > 0 && number(line, "/stream") > 0, "{line}");
            assert!(text(line, "/caller").starts_with("0x"), "{line}");
            (text(line, "/function"), number(line, "/handle"), line["grid"].clone(), line["block"].clone())
        })
        .collect();
    let shape = |numbers: [u32; 3]| Json::from(numbers.to_vec());
    let (stream, second, one) = (facts["stream"], facts["second"], shape([1, 1, 1]));
    let expected = [
        ("add", stream, shape([3, 2, 1]), shape([4, 2, 2])),
        ("nothing", stream, shape([7, 1, 1]), one.clone()),
        ("add", second, shape([5, 3, 2]), shape([2, 1, 1])),
        ("spin", stream, one.clone(), one.clone()),
        ("nothing", stream, shape([11, 1, 1]), one),
    ];
    assert_eq!(shapes, expected);
    let warm = &of(&log, "cuLaunchKernel")[2];
    assert_eq!((text(warm, "/event"), number(warm, "/shared_bytes")), ("launch", 256), "{warm}");
    assert_eq!(warm["cold"], Json::Null, "{warm}");
}

#[test]
fn a_load_on_first_use_says_what_how_long_and_by_whom() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let (log, facts) = every_event(&work, "off", "cuLaunchKernel=15,cuLibraryLoadData=25");
    let cold: Vec<_> = of(&log, "cuLaunchKernel").into_iter().filter(|line| !line["cold"].is_null()).collect();
    let what: Vec<_> = cold.iter().map(|line| (text(line, "/cold"), text(line, "/function"))).collect();
    assert_eq!(what, [("module", "add"), ("function", "nothing"), ("function", "spin")]);
    for line in cold {
        assert_eq!((text(line, "/event"), text(line, "/lane")), ("load", "rare_events"), "{line}");
        assert_eq!((number(line, "/thread"), number(line, "/owner")), (facts["thread"], facts["library"]), "{line}");
        assert!((15_000_000..2_000_000_000).contains(&number(line, "/took_ns")), "{line}");
    }
    let load = the(&log, "cuLibraryLoadData", "owner", facts["library"]);
    assert_eq!((text(load, "/event"), load["cold"].is_null()), ("load", true), "{load}");
    assert!((25_000_000..2_000_000_000).contains(&number(load, "/took_ns")), "{load}");
}

#[test]
fn what_is_loaded_ahead_of_use_is_recorded_and_then_nothing_is_cold() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let (log, facts) = every_event(&work, "eager", "");
    let ahead: Vec<_> = log.iter().filter(|line| line["event"] == "preload").collect();
    assert!(ahead.iter().map(|line| number(line, "/loaded")).sum::<u64>() >= 5, "{ahead:?}");
    assert!(ahead.iter().all(|line| number(line, "/refused") == 0 && number(line, "/thread") == facts["thread"]));
    assert!(ahead.iter().any(|line| line["owner"] == facts["library"]), "{ahead:?}");
    assert!(of(&log, "cuLaunchKernel").iter().all(|line| line["cold"].is_null() && line["lane"] == "work"));
}

#[test]
fn memory_operations_have_address_value_and_condition() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let (log, facts) = every_event(&work, "off", "");
    let mut operations: Vec<_> = log
        .iter()
        .filter(|line| line["event"] == "memory_operation")
        .map(|line| {
            let condition = if line["wait"] == true { text(line, "/condition") } else { "write" };
            (number(line, "/handle"), number(line, "/address") - facts["words"], number(line, "/value"), condition)
        })
        .collect();
    let (stream, second, wide) = (facts["stream"], facts["second"], 1 << 40);
    let mut expected = [
        (stream, 0, 7, "write"),
        (second, 0, 7, "=="),
        (stream, 8, wide, "write"),
        (second, 8, wide, ">="),
        (second, 8, wide, "&"),
        (second, 0, 1, "nor"),
        (second, 16, 3, "write"),
        (second, 24, 0, ">="),
    ];
    // Those of a batch are of one moment.
    operations.sort_unstable();
    expected.sort_unstable();
    assert_eq!(operations, expected, "left: stream, offset, value and condition as recorded; right: as submitted");
    assert_eq!(of(&log, "cuStreamBatchMemOp_v2").len(), 2, "a batch leaves a record for each operation");
}

#[test]
fn events_are_recorded_waited_for_and_asked() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let (log, facts) = every_event(&work, "off", "");
    for (call, event, stream) in [
        ("cuEventRecord", "event_record", Some("stream")),
        ("cuStreamWaitEvent", "event_wait", Some("second")),
        ("cuEventSynchronize", "synchronize", None),
        ("cuEventQuery", "query", None),
        ("cuEventElapsedTime_v2", "query", None),
    ] {
        let line = the(&log, call, "event_handle", facts["event"]);
        assert_eq!(text(line, "/event"), event, "{line}");
        if let Some(stream) = stream {
            assert_eq!(number(line, "/handle"), facts[stream], "{line}");
        }
    }
    assert_eq!(number(of(&log, "cuEventQuery")[0], "/count"), 1);
    let synchronizes = log.iter().filter(|line| line["event"] == "synchronize");
    assert!(synchronizes.clone().count() > 5 && synchronizes.into_iter().all(|line| line["lane"] == "waits"));
}

#[test]
fn copies_fills_and_host_functions_are_recorded() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let (log, facts) = every_event(&work, "off", "");
    for (call, bytes, stream) in [
        ("cuMemcpyHtoD_v2", 100, None),
        ("cuMemcpyDtoH_v2", 200, None),
        ("cuMemcpyHtoDAsync_v2", 300, Some("stream")),
        ("cuMemcpyDtoHAsync_v2", 400, Some("stream")),
        ("cuMemcpyDtoDAsync_v2", 500, Some("second")),
    ] {
        let line = the(&log, call, "bytes", bytes);
        assert_eq!((text(line, "/event"), text(line, "/lane")), ("copy", "work"), "{line}");
        assert_eq!(line["handle"].as_u64().filter(|_| stream.is_some()), stream.map(|name| facts[name]), "{line}");
    }
    let fills: Vec<_> = log.iter().filter(|line| line["event"] == "memset").map(|line| text(line, "/call")).collect();
    assert_eq!(fills, ["cuMemsetD32_v2", "cuMemsetD32_v2", "cuMemsetD8_v2", "cuMemsetD32Async"]);
    let host_function = the(&log, "cuLaunchHostFunc", "handle", facts["stream"]);
    assert_eq!(text(host_function, "/event"), "host_function");
    // When the driver called it, and when it returned.
    let [begun, ended] = ["host_function_begins", "host_function_ends"].map(|event| {
        let is_its = |line: &&Json| line["event"] == event && line["call"] == "cuLaunchHostFunc";
        let lines: Vec<_> = log.iter().filter(is_its).collect();
        assert_eq!(lines.len(), 1, "{event}: {lines:?}");
        assert_eq!((text(lines[0], "/lane"), &lines[0]["stream"]), ("waits", &host_function["stream"]), "{}", lines[0]);
        lines[0]
    });
    assert_eq!(begun["host_function"], ended["host_function"]);
    assert!(number(begun, "/thread") != facts["thread"], "it is called by a thread of the driver's: {begun}");
    let times = [host_function, begun, ended].map(|line| number(line, "/at_ns"));
    assert!(times.is_sorted(), "{times:?}");
}

#[test]
fn an_allocation_is_recorded_if_it_blocked() {
    const SLOW_NANOS: u64 = 100_000;
    let work = Work::new(lazyguard_e2e::this_test!());
    one_of_three(|| {
        let (log, facts) = every_event(&work, "off", "cuMemHostAlloc=20");
        let freed = the(&log, "cuMemFree_v2", "address", facts["freed"]);
        assert_eq!((text(freed, "/event"), text(freed, "/lane")), ("allocation", "rare_events"), "{freed}");
        assert!(number(freed, "/took_ns") > 20_000_000, "it waited for the kernel: {freed}");
        let slow = the(&log, "cuMemHostAlloc", "bytes", 4);
        assert!(number(slow, "/took_ns") >= 20_000_000 && number(slow, "/address") != 0, "{slow}");
        // A quick one may be slow on a machine that is busy with something else: then there is a record, and it says so.
        let allocations: Vec<_> = log.iter().filter(|line| line["event"] == "allocation").collect();
        let ordered: Vec<_> = allocations.iter().filter(|line| line["lane"] == "rare_events").collect();
        assert!(
            ordered.iter().all(|line| number(line, "/took_ns") >= SLOW_NANOS),
            "a quick one is recorded: {ordered:?}"
        );
        // Those that are ordered on a stream are work like any other.
        let pooled = the(&log, "cuMemAllocAsync", "bytes", 700);
        let let_go = the(&log, "cuMemFreeAsync", "address", facts["pooled"]);
        for line in [pooled, let_go] {
            assert_eq!((text(line, "/lane"), number(line, "/handle")), ("work", facts["second"]), "{line}");
        }
        // On a machine that stands still, more of them are slow.
        if ordered.len() <= 5 {
            Ok(())
        } else {
            Err(format!("of a dozen allocations nearly all were slow: {ordered:?}"))
        }
    });
}

#[test]
fn a_call_that_may_wait_for_the_context_or_a_process_is_recorded_if_it_was_slow() {
    const CALLS: [&str; 29] = [
        "cuCtxSetFlags",
        "cuKernelGetParamInfo",
        "cuCtxEnablePeerAccess",
        "cuCtxDisablePeerAccess",
        "cuGreenCtxCreate",
        "cuArrayDestroy",
        "cuMipmappedArrayDestroy",
        "cuMemMap",
        "cuMemUnmap",
        "cuMemSetAccess",
        "cuIpcGetMemHandle",
        "cuIpcGetEventHandle",
        "cuMemExportToShareableHandle",
        "cuMemPoolExportPointer",
        "cuMemPoolImportPointer",
        "cuIpcOpenMemHandle_v2",
        "cuIpcOpenEventHandle",
        "cuIpcCloseMemHandle",
        "cuMemImportFromShareableHandle",
        "cuMulticastAddDevice",
        "cuMulticastBindMem",
        "cuMulticastBindAddr",
        "cuLinkCreate_v2",
        "cuLinkAddData_v2",
        "cuLinkAddFile_v2",
        "cuLinkComplete",
        "cuLinkDestroy",
        "cuMemPoolTrimTo",
        "cuGraphDestroy",
    ];
    let work = Work::new(lazyguard_e2e::this_test!());
    let (log, facts) = every_event(&work, "off", &CALLS.map(|call| format!("{call}=20")).join(","));
    for call in CALLS {
        let lines = of(&log, call);
        assert_eq!(lines.len(), 1, "{call}: {lines:?}");
        assert_eq!((text(lines[0], "/lane"), number(lines[0], "/thread")), ("rare_events", facts["thread"]), "{call}");
        assert!(number(lines[0], "/took_ns") >= 20_000_000, "{}", lines[0]);
    }
}

#[test]
fn what_is_captured_is_told_from_what_is_submitted() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let (log, facts) = every_event(&work, "off", "");
    let captured: Vec<_> = log.iter().filter(|line| line["captured"] == true).collect();
    let launches: Vec<_> = captured.iter().filter(|line| line["call"] == "cuLaunchKernel").collect();
    assert_eq!(launches.len(), 1, "{captured:?}");
    assert_eq!((text(launches[0], "/function"), number(launches[0], "/grid/0")), ("nothing", 11));
    for call in ["cuStreamBeginCapture_v2", "cuStreamEndCapture"] {
        let line = the(&log, call, "handle", facts["stream"]);
        assert_eq!((text(line, "/event"), text(line, "/lane")), ("capture", "rare_events"), "{line}");
    }
    let graph = the(&log, "cuGraphLaunch", "handle", facts["stream"]);
    assert_eq!((text(graph, "/event"), graph["captured"] == true), ("graph_launch", false), "{graph}");
}

#[test]
fn what_an_executable_graph_holds_is_recorded_with_the_calls_about_it() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let (log, facts) = every_event(&work, "off", "");
    let calls = ["cuGraphInstantiateWithFlags", "cuGraphExecUpdate_v2", "cuGraphLaunch", "cuGraphExecDestroy"];
    for call in calls {
        let line = the(&log, call, "graph", facts["graph"]);
        let makes = call.contains("Instantiate") || call.contains("Update");
        let holds = if makes { "1 host function, 1 event wait, 1 value wait" } else { "" };
        assert_eq!(line["holds"].as_str().unwrap_or(""), holds, "{line}");
    }
    let called = |event: &str| {
        let is_its = |line: &&Json| line["event"] == event && line["call"] == "cuGraphAddHostNode";
        let found: Vec<_> = log.iter().filter(is_its).collect();
        assert_eq!(found.len(), 1, "{event}: {found:?}");
        number(found[0], "/host_function")
    };
    let function = facts["graph_function"];
    assert_eq!((called("host_function_begins"), called("host_function_ends")), (function, function));
}

#[test]
fn contexts_and_streams_are_born_and_die() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let (log, facts) = every_event(&work, "off", "");
    for (name, birth) in
        [("stream", "cuStreamCreate"), ("second", "cuStreamCreateWithPriority"), ("other", "cuStreamCreate")]
    {
        let born = the(&log, birth, "handle", facts[name]);
        assert_eq!((text(born, "/event"), text(born, "/lane")), ("stream", "rare_events"), "{born}");
        if name != "stream" {
            let died = the(&log, "cuStreamDestroy_v2", "handle", facts[name]);
            assert_eq!((text(died, "/event"), &died["stream"]), ("stream", &born["stream"]), "{died}");
            assert_eq!(died["context"], born["context"], "{born}\n{died}");
        }
    }
    let contexts: Vec<_> = log.iter().filter(|line| line["event"] == "context").collect();
    let calls: Vec<_> = contexts.iter().map(|line| text(line, "/call")).collect();
    assert_eq!(calls, ["cuDevicePrimaryCtxRetain", "cuCtxCreate_v4", "cuCtxDestroy_v2"]);
    let numbers: Vec<_> = contexts.iter().map(|line| number(line, "/context")).collect();
    assert!(numbers[0] != numbers[1] && numbers[1] == numbers[2] && numbers[0] > 0, "{contexts:?}");
    assert_eq!(the(&log, "cuStreamCreate", "handle", facts["other"])["context"], numbers[1]);
    assert_eq!(text(the(&log, "cuLibraryUnload", "owner", facts["library"]), "/event"), "unload");
}

#[test]
fn polling_is_folded_into_records_with_a_count() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let facts = work.path().join("facts");
    let (_, _, log) = recorded(Run::new(&work, hostile_program("polls")).args([&facts]));
    let facts = facts_in(&facts);
    // The answers with how often they were given one after the other.
    let polls = |key: &str, name: &str| -> Vec<(i64, u64)> {
        let of_this = log.iter().filter(|line| line["event"] == "query" && line[key] == facts[name]);
        of_this.map(|line| (line["result"].as_i64().unwrap_or(-1), number(line, "/count"))).collect()
    };
    const NOT_READY: i64 = 600;
    assert_eq!(polls("handle", "alone"), [(NOT_READY, 1000), (0, 1)]);
    assert_eq!(polls("event_handle", "event"), [(NOT_READY, 1000), (0, 1)]);
    let sums = |polls: &[(i64, u64)]| {
        let sum =
            |of: bool| polls.iter().filter(|(result, _)| (*result == 0) == of).map(|(_, count)| count).sum::<u64>();
        (sum(false), sum(true))
    };
    for (name, most) in [("first", 4), ("second", 4), ("beside", 12)] {
        let polls = polls("handle", name);
        assert_eq!(sums(&polls), (1000, 1), "{name}: {polls:?}");
        assert!(polls.len() <= most, "{name}: a thousand questions are {} records: {polls:?}", polls.len());
    }
    // A record of many queries lasts from the first to the last.
    let folded = log.iter().find(|line| line["event"] == "query" && line["count"] == 1000);
    assert!(folded.is_some_and(|line| number(line, "/took_ns") > 0), "{folded:?}");
}

/// The second reader is written from the format's description alone; what it makes of a recording is what the command does.
#[test]
fn the_second_reader_agrees_with_the_command() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let whole = Run::new(&work, hostile_program("every_event")).guarded().kept().finish();
    let cut_off = Run::new(&work, hostile_program("crash")).args(["raise"]).guarded().kept().finish();
    assert_eq!((whole.code, cut_off.code), (Some(0), Some(-libc::SIGKILL)), "{whole}\n{cut_off}");
    let printed = |mut command: Command| {
        let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        assert!(output.status.success() && output.stderr.is_empty(), "{command:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let mut symbols = Command::new(command());
    symbols.args(["symbols", "--ids"]);
    let ids: BTreeMap<String, u64> = printed(symbols)
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(id, symbol)| (symbol.to_owned(), id.parse().unwrap_or_else(|_| panic!("{id} of {symbol}"))))
        .collect();
    for outcome in [whole, cut_off] {
        let folder = outcome.out();
        let read = read_by_script(folder.path());
        let (log, recording) = (log_of(folder.path(), &[]), Recording::of(folder.path()));
        for key in ["state", "process", "program", "driver_version"] {
            assert_eq!(read[key], recording.0[key], "{key}");
        }
        assert_eq!(number(&read, "/last_seen"), recording.number("/last_seen_ns"));
        let record = |line: &Json, [at, stream, handle, function]: [&str; 4], form: u64| {
            let text = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
            let numbers = ["thread_number", "thread", "number", at].map(|key| number(line, &format!("/{key}")));
            let others = [stream, handle, "context"].map(|key| line[key].as_u64().unwrap_or_default());
            (numbers, others, form, text(function))
        };
        let second = read["records"].as_array().into_iter().flatten();
        let mut second: Vec<_> = second
            .map(|line| {
                record(line, ["entered", "stream", "stream_handle", "function_name"], number(line, "/entry_point"))
            })
            .collect();
        let complete = log.iter().filter(|line| !in_progress(line));
        let mut first: Vec<_> = complete
            .map(|line| record(line, ["at_ns", "stream", "handle", "function"], ids[text(line, "/call")]))
            .collect();
        first.sort();
        second.sort();
        assert!(first.len() > 50);
        assert_eq!(first, second, "left: the command's; right: the second reader's");
        let open = |thread: &Json| {
            let call = &thread["in_progress"];
            call.is_object()
                .then(|| (number(thread, "/thread"), number(call, "/entered"), number(call, "/entry_point")))
        };
        let open: Vec<_> = read["threads"].as_array().into_iter().flatten().filter_map(open).collect();
        let open_too = log.iter().filter(|line| in_progress(line));
        let open_too = open_too.map(|l| (number(l, "/thread"), number(l, "/at_ns"), ids[text(l, "/call")]));
        assert_eq!(open, open_too.collect::<Vec<_>>(), "left: the second reader's; right: the command's");
    }
}

/// A storm of so many threads at a time, launches and rounds, free-running.
fn whole_storm<'w>(work: &'w Work, together: u64, launches: u64, rounds: u64) -> Run<'w> {
    let arguments = [together, launches, rounds].map(|number| number.to_string());
    let run = Run::new(work, hostile_program("launch_storm")).args(arguments).set("LGSIM_FREE_RUNNING", "1");
    // Nothing is cold when the storm begins, however slow the machine.
    run.set("LAZYGUARD_PRELOAD", "eager")
}

/// Beside the launches of its threads, `launch_storm` makes one launch and one fill, which are in the same lane.
const BESIDE: u64 = 2;

#[test]
fn ten_million_launches_on_eight_threads_are_accounted_for() {
    const EACH: u64 = 1_250_000;
    let work = Work::new(lazyguard_e2e::this_test!());
    let outcome = whole_storm(&work, 8, EACH, 1).guarded().kept().finish();
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome}");
    let folder = outcome.out();
    let recording = Recording::of(folder.path());
    recording.expect_to_add_up();
    let work_lane = recording.lane("work");
    assert_eq!(work_lane.all(), 8 * EACH + BESIDE, "{work_lane:?}");
    assert_eq!(work_lane.dropped, 0, "eight threads have segments enough");
    assert!(work_lane.present > 50_000 && work_lane.overwritten > 0, "{work_lane:?}");
    let others = [recording.lane("waits"), recording.lane("rare_events")];
    assert!(others.iter().all(|lane| lane.overwritten == 0 && lane.dropped == 0), "the rare ones stay: {others:?}");

    let threads: Vec<_> = recording.list("threads").iter().filter(|thread| thread["launches"] == EACH).collect();
    assert_eq!(threads.len(), 8, "{:#}", recording.0);
    let sum = |key: &str| recording.list("threads").iter().map(|thread| number(thread, key)).sum::<u64>();
    assert_eq!((sum("/launches"), sum("/calls")), (recording.number("/launches"), recording.number("/calls")));
    assert_eq!(recording.number("/launches"), 8 * EACH + 1);
    assert_eq!(number(&folder.summary(), "/launches"), 8 * EACH + 1);
    let mut newest_is_there = 0;
    for thread in threads {
        assert!(number(thread, "/calls") - EACH <= 1, "it launches, and may make its context current: {thread}");
        // What a thread has left that was done before the others may have been overwritten by what they did since.
        let whose = number(thread, "/thread").to_string();
        let last = log_of(folder.path(), &["--thread", &whose, "--lane", "work", "--last", "1"]);
        assert!(last.iter().all(|line| line["number"] == EACH - 1), "the newest record is the newest launch: {last:?}");
        newest_is_there += last.len();
    }
    assert!(newest_is_there > 0, "not even the last thread's records are there");
}

#[test]
fn a_thousand_threads_that_come_and_go_leave_nothing_unaccounted() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let outcome = whole_storm(&work, 8, 250, 125).guarded().kept().finish();
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome}");
    let recording = Recording::of(outcome.out().path());
    recording.expect_to_add_up();
    let lane = recording.lane("work");
    assert_eq!((lane.all(), lane.dropped), (1000 * 250 + BESIDE, 0), "{lane:?}");
    assert!(
        lane.overwritten > 0,
        "there are more records than room, so segments of threads that are gone are used again"
    );
    assert_eq!(recording.number("/launches"), 1000 * 250 + 1);
    assert_eq!(number(&outcome.out().summary(), "/launches"), 1000 * 250 + 1);
    // The newest are there: of about a hundred and twenty threads, but for the few at the edge, as a whole.
    let log = log_of(outcome.out().path(), &["--lane", "work", "--last", "30000"]);
    let numbers = gapless_numbers(&log);
    let whole = numbers.values().filter(|numbers| numbers.complete.len() == 250).count();
    assert!(log.len() == 30_000 && whole > 100, "of {} threads {whole} are there as a whole", numbers.len());
    let newest = log.iter().map(|line| number(line, "/thread_number")).max();
    assert!(newest.is_some_and(|newest| newest >= 1001), "{newest:?}: a thread's number is never used twice");
}

#[test]
fn two_thousand_threads_of_one_launch_lose_nothing() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let (_, recording, log) = recorded(Run::new(&work, hostile_program("threads_by_the_thousand")));
    assert_eq!(recording.number("/launches"), 2000);
    let lane = recording.lane("work");
    assert_eq!((lane.overwritten, lane.dropped), (0, 0), "{lane:?}");
    assert_eq!(of(&log, "cuLaunchKernel").len(), 2000);
    let threads: BTreeSet<_> =
        of(&log, "cuLaunchKernel").into_iter().map(|line| number(line, "/thread_number")).collect();
    assert_eq!(threads.len(), 2000, "a thread's number is never used twice");
}

#[test]
fn the_smallest_recording_says_what_it_has_lost() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let (outcome, recording, log) = recorded(whole_storm(&work, 4, 20_000, 3).set("LAZYGUARD_RECORD", "1M"));
    let bytes = fs::metadata(outcome.out().path().join("trace.lgt")).map(|m| m.len()).unwrap_or_default();
    assert!((1_000_000..=1 << 20).contains(&bytes), "{bytes}");
    assert_eq!(recording.number("/bytes"), bytes);
    let lane = recording.lane("work");
    assert_eq!(lane.all(), 12 * 20_000 + BESIDE, "{lane:?}");
    assert!(lane.present > 1000 && lane.overwritten > lane.present, "{lane:?}");
    assert_eq!(recording.number("/launches"), 12 * 20_000 + 1);
    gapless_numbers(&log);
    // What is rare is still there, however much there was of the rest.
    assert_eq!((of(&log, "cuLibraryLoadData").len(), of(&log, "cuStreamCreate").len()), (1, 5));
}

#[test]
fn more_threads_at_once_than_the_smallest_recording_has_room_for_are_counted() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let run = whole_storm(&work, 63, 300, 2).set("LAZYGUARD_RECORD", "1M");
    let (_, recording, _) = recorded(run);
    assert_eq!(recording.lane("work").all(), 126 * 300 + BESIDE, "{:#}", recording.0);
    assert_eq!(recording.number("/launches"), 126 * 300 + 1);
}

#[test]
fn each_size_is_kept_to() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for (value, most) in [("1M", 1 << 20), ("1MiB", 1 << 20), ("5M", 5 << 20), ("12MiB", 12 << 20), ("", 16 << 20)] {
        let run = run(&work, &App::named("module_pair"));
        let run = if value.is_empty() { run } else { run.set("LAZYGUARD_RECORD", value) };
        let (outcome, recording, _) = recorded(run);
        let bytes = fs::metadata(outcome.out().path().join("trace.lgt")).map(|m| m.len()).unwrap_or_default();
        assert!(bytes <= most && bytes > most / 10 * 9, "LAZYGUARD_RECORD={value}: {bytes} of {most} bytes");
        assert_eq!(recording.number("/bytes"), bytes);
    }
}

#[test]
fn switched_off_there_is_no_recording_and_everything_else() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let off = |name: &str| run(&work, &App::named(name)).guarded().kept().set("LAZYGUARD_RECORD", "off");
    let outcome = off("module_pair").finish();
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome}");
    let folder = outcome.out();
    assert!(folder.holds("run.json") && !folder.holds("trace.lgt"));
    let report = report_of(folder.path());
    assert!(report["recording"].is_null() && report["run"].is_object(), "{report:#}");
    let log = Command::new(command()).arg("log").arg(folder.path()).output().unwrap_or_else(|error| panic!("{error}"));
    let complaint = String::from_utf8_lossy(&log.stderr).into_owned();
    assert!(!log.status.success() && complaint.lines().count() == 1, "there is nothing to print: {complaint}");

    let mut hanging = off("lazy_pair").set("LAZYGUARD_PRELOAD", "off").hang_after("300ms").start();
    let folder = hanging.until_a_hang_is_reported();
    assert_eq!(text(&folder.hang(), "/verdicts/0/code"), "LG201");
    assert!(!folder.holds("trace.lgt"));
    assert!(report_of(folder.path())["recording"].is_null());
}

#[test]
fn a_size_that_makes_no_sense_costs_a_line_and_is_the_default() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for value in ["lots", "0", "512K", "65G", "-1", "16MB of it"] {
        let run = run(&work, &App::named("module_pair")).guarded().kept().set("LAZYGUARD_RECORD", value);
        let outcome = run.finish();
        assert_eq!(outcome.code, Some(0), "{outcome}");
        let lines: Vec<_> = outcome.stderr.lines().collect();
        assert!(lines.len() == 1 && lines[0].contains("LAZYGUARD_RECORD"), "LAZYGUARD_RECORD={value}: {outcome}");
        let bytes = Recording::of(outcome.out().path()).number("/bytes");
        assert!(bytes <= 16 << 20 && bytes > 15 << 20, "LAZYGUARD_RECORD={value}: {bytes} bytes");
    }
}

/// A program that hangs, as process `rank` of a job, past the threshold.
fn hanging(work: &Work, name: &str, template: &Path, rank: &str) -> Running {
    let run = run(work, &App::named(name)).guarded().set("LAZYGUARD_OUT", template).set("RANK", rank);
    let mut running = run.set("LAZYGUARD_PRELOAD", "off").hang_after("300ms").start();
    running.until("the verdict", 20 * SECOND, |running| running.stderr().contains("details: ").then_some(()));
    running
}

/// The states of a process' threads while something is done, as letters.
fn states_during<T>(process: u32, done: impl FnOnce() -> T) -> (T, BTreeSet<char>) {
    /// Ends the watching also when what is done fails.
    struct Over<'o>(&'o AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut seen = BTreeSet::new();
            while !over.load(Ordering::Relaxed) {
                for thread in fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten() {
                    let state = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
                    seen.extend(state.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()));
                }
            }
            seen
        });
        let watching = Over(&over);
        let answer = done();
        drop(watching);
        (answer, watch.join().unwrap_or_default())
    })
}

#[test]
fn a_process_that_hangs_is_read_while_it_does() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let out = work.path().join("out");
    let mut running = hanging(&work, "persistent_two_libraries", &out, "0");
    let process = running.process().to_string();
    let ((recording, log, said), states) =
        states_during(running.process(), || (Recording::of(&process), log_of(&process, &[]), text_report_of(&process)));
    assert!(!states.is_empty() && states.iter().all(|state| !"tT".contains(*state)), "it was stopped: {states:?}");
    assert!(running.runs(), "reading it ended it");
    assert_eq!((recording.text("/state"), recording.is_alive()), ("guarded", true));
    assert_eq!((recording.number("/process"), recording.text("/verdicts/0/code")), (running.process().into(), "LG202"));
    let open: Vec<_> = log.iter().filter(|line| in_progress(line)).collect();
    assert_eq!(open.len(), 1, "{open:?}");
    assert_eq!((text(open[0], "/call"), text(open[0], "/function")), ("cuLaunchKernel", "one_time_kernel"));
    assert_eq!(text(open[0], "/cold"), "module", "{}", open[0]);
    assert!(calls_in(&log).contains_key("cuLaunchKernel"), "the launches before it are there");
    assert!(said.contains("LG202 (likely): ") && said.contains("one_time_kernel"), "{said}");
    // The same by its folder; the time at which it was last seen advances.
    let by_folder = Recording::of(&out);
    assert!(by_folder.is_alive() && by_folder.number("/last_seen_ns") >= recording.number("/last_seen_ns"));
    let moved = |_: &mut _| {
        let later = Recording::of(&process).number("/last_seen_ns");
        (later >= recording.number("/last_seen_ns") + 300_000_000).then_some(())
    };
    running.until("it to be seen later", lazyguard_e2e::PATIENCE, moved);
}

#[test]
fn the_processes_of_a_job_are_told_apart() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let (each, shared) = (work.path().join("job-%r"), work.path().join("shared"));
    for (template, folders) in [(&each, ["job-3", "job-4"]), (&shared, ["shared", "shared"])] {
        let first = hanging(&work, "plain_spin", template, "3");
        let second = hanging(&work, "wait_never_written", template, "4");
        for (running, rank, code) in [(&first, "3", None), (&second, "4", Some("LG203"))] {
            let recording = Recording::of(running.process().to_string());
            assert_eq!(recording.number("/process"), u64::from(running.process()));
            assert_eq!(recording.text("/rank"), rank);
            match code {
                // It has been called slow, and by now may be called a hang.
                None => assert!(["slow", "hang"].contains(&recording.text("/status")), "{:#}", recording.0),
                Some(code) => assert_eq!(recording.text("/verdicts/0/code"), code),
            }
            assert!(recording.is_alive());
        }
        // One is killed: its folder says so, and the other one's does not.
        let (gone, stays) = (work.path().join(folders[0]), second.process().to_string());
        let process = u64::from(first.process());
        first.stop();
        let recording = Recording::of(&gone);
        assert_eq!((recording.number("/process"), recording.is_alive()), (process, false));
        assert!(Recording::of(&stays).is_alive());
        if template == &shared {
            assert!(
                Recording::of(shared.join(&stays)).is_alive(),
                "the second one has a folder inside the first one's"
            );
        }
    }
}

#[test]
fn a_process_that_is_not_guarded_costs_one_line() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let plain = Run::new(&work, "sleep").args(["30"]).start();
    // `report` looks at a running one from outside.
    for (whose, subcommands) in
        [(plain.process().to_string(), &["log"][..]), ("4194304999".to_owned(), &["report", "log"])]
    {
        for subcommand in subcommands {
            let output = Command::new(command()).args([*subcommand, whose.as_str()]).output();
            let output = output.unwrap_or_else(|error| panic!("lazyguard {subcommand}: {error}"));
            let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!output.status.success() && output.stdout.is_empty(), "{subcommand} {whose}: {output:?}");
            assert!(complaint.lines().count() == 1 && complaint.contains(&whose), "{subcommand} {whose}: {complaint}");
        }
    }
}

/// Records come and go under the reader; what it prints is whole all the same.
#[test]
fn a_storm_is_read_while_it_goes_on() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let (mut running, _) = storm(&work, 0, "1M");
    let process = running.process().to_string();
    let (mut newest, mut read, mut rounds) = (0, 0, 0);
    // On a busy machine a reader finds little that has not been overwritten, each time.
    while rounds < 5 || read <= 100 && rounds < 60 {
        rounds += 1;
        let log = log_of(&process, &["--lane", "work"]);
        let launches: Vec<_> = log.iter().filter(|line| line["event"] == "launch").collect();
        // Most of what is there when the reading begins is overwritten before it is read.
        read += launches.len();
        for launch in launches {
            assert_eq!((text(launch, "/function"), text(launch, "/call")), ("nothing", "cuLaunchKernel"), "{launch}");
            assert!(launch["grid"] == Json::from(vec![1, 1, 1]) && number(launch, "/stream") > 0, "{launch}");
            newest = newest.max(number(launch, "/at_ns"));
        }
        let mut seen = BTreeSet::new();
        let whole = log.iter().all(|line| {
            let numbers = (number(line, "/thread_number"), line["number"].as_u64());
            in_progress(line) || seen.insert(numbers)
        });
        assert!(whole, "one record was read twice");
        let recording = Recording::of(&process);
        assert!(recording.is_alive() && recording.number("/launches") > 0);
        assert!(running.runs(), "reading it ended it: {}", running.stderr());
    }
    assert!(read > 100, "only {read} launches were read");
    let last = running.stop();
    assert!(Recording::of(last.out().path()).number("/snapshot/at") >= newest, "what was read is of a later moment");
}

/// The recordings below a folder, by process.
fn recordings_below(folder: &Path) -> BTreeMap<u64, PathBuf> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else if entry.file_name() == "trace.lgt" {
                let process = Recording::of(&folder).number("/process");
                assert_eq!(found.insert(process, folder.clone()), None, "two recordings of one process");
            }
        }
    }
    found
}

/// The ranks of a job start at the same moment, and may be given the same folder.
#[test]
fn processes_that_start_at_once_in_one_folder_have_a_recording_each() {
    let work = Work::new(lazyguard_e2e::this_test!());
    // The moment that matters is short: one run in twenty would show that it is missed.
    for _ in 0..30 {
        let run = Run::new(&work, hostile_program("ranks_at_once")).guarded().kept().set("LAZYGUARD_RECORD", "1M");
        let outcome = run.finish();
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "2 ranks, 2 well\n"), "{outcome}");
        assert_eq!(outcome.stderr, "", "{outcome}");
        let below = recordings_below(outcome.out().path());
        assert_eq!(below.len(), 2, "{below:?}");
        for (process, folder) in below {
            let report = report_of(&folder);
            assert_eq!((number(&report, "/run/process"), number(&report, "/recording/launches")), (process, 10));
        }
    }
}

/// The children share the file's mapping, and nothing of theirs is in it.
#[test]
fn forked_children_leave_the_parents_recording_alone() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for name in ["trap11_fork_child_silent", "trap11_fork_after_init"] {
        let outcome = Run::new(&work, hostile_program(name)).guarded().kept().finish();
        assert_eq!(outcome.code, Some(0), "{outcome}");
        let below = recordings_below(outcome.out().path());
        let parent = u64::from(outcome.process);
        assert_eq!(below.get(&parent).map(PathBuf::as_path), Some(outcome.out().path()), "{name}: {below:?}");
        let recording = Recording::of(outcome.out().path());
        recording.expect_to_add_up();
        assert_eq!((recording.text("/state"), recording.records().dropped), ("ended", 0));
        let log = log_of(outcome.out().path(), &[]);
        gapless_numbers(&log);
        let launches = calls_in(&log).get("cuLaunchKernel").copied().unwrap_or_default();
        assert_eq!(number(&outcome.out().summary(), "/launches"), recording.number("/launches"), "{name}");
        if name == "trap11_fork_after_init" {
            assert_eq!((launches, recording.number("/launches")), (2, 2), "the child's launch is not the parent's");
        }
        let threads: BTreeSet<_> = log.iter().map(|line| number(line, "/thread")).collect();
        let known: BTreeSet<_> = recording.list("threads").iter().map(|thread| number(thread, "/thread")).collect();
        assert!(threads.contains(&parent) && threads.is_subset(&known), "{name}: {threads:?}, {known:?}");
    }
}

#[test]
fn a_forked_childs_own_run_has_its_own_recording() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let outcome = Run::new(&work, hostile_program("trap11_fork_before_init")).guarded().kept().finish();
    assert_eq!(outcome.code, Some(0), "{outcome}");
    let below = recordings_below(outcome.out().path());
    assert_eq!(below.len(), 2, "{below:?}");
    for (process, folder) in below {
        let log = log_of(&folder, &[]);
        assert_eq!(calls_in(&log).get("cuLaunchKernel"), Some(&10), "of process {process}");
        assert!(log.iter().all(|line| line["thread"] == process), "another process' thread is in it");
        assert_eq!(Recording::of(&folder).text("/state"), "ended");
    }
}

/// The second image has its process' id, and a recording of its own.
#[test]
fn an_exec_leaves_the_recording_of_what_was_before() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let template = work.path().join("exec/%p-%t");
    let run = Run::new(&work, hostile_program("trap11_exec")).guarded();
    let outcome = run.set("LAZYGUARD_OUT", &template).finish();
    assert_eq!(outcome.code, Some(0), "{outcome}");
    let mut launches = Vec::new();
    let mut folders = vec![work.path().join("exec")];
    while let Some(folder) = folders.pop() {
        let below = fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path());
        folders.extend(below.filter(|path| path.is_dir()));
        if folder.join("trace.lgt").is_file() {
            let recording = Recording::of(&folder);
            assert!(!recording.is_alive());
            launches.push((recording.number("/launches"), recording.text("/state").to_owned()));
        }
    }
    launches.sort();
    let (ended, replaced) = ("ended".to_owned(), "guarded".to_owned());
    assert_eq!(launches, [(3, replaced), (4, ended.clone()), (5, ended.clone()), (6, ended)]);
}

/// The private folders in a run's `TMPDIR`.
fn private_folders(temporary: &Path) -> BTreeSet<PathBuf> {
    let entries = fs::read_dir(temporary).into_iter().flatten().flatten().map(|entry| entry.path());
    entries
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("lazyguard-")))
        .collect()
}

#[test]
fn private_folders_without_a_hang_stay_for_a_day() {
    let work = Work::new(lazyguard_e2e::this_test!());
    // Private folders hold a recording where they lie in memory.
    let temporary = PathBuf::from(format!("/dev/shm/lazyguard-e2e-{}", std::process::id()));
    fs::create_dir_all(&temporary).unwrap_or_else(|error| panic!("{}: {error}", temporary.display()));
    let guarded = |program: &str| Run::new(&work, hostile_program(program)).guarded().set("TMPDIR", &temporary);
    // One that hangs and was reported, and one that runs: both stay, whatever comes.
    let mut reported =
        run(&work, &App::named("plain_spin")).guarded().set("TMPDIR", &temporary).hang_after("200ms").start();
    reported.until("the verdict", 10 * SECOND, |running| running.stderr().contains("details: ").then_some(()));
    reported.stop();
    let running = run(&work, &App::named("plain_spin")).guarded().set("TMPDIR", &temporary).start();
    let mut begun = running;
    begun.until("its folder", 10 * SECOND, |_| (private_folders(&temporary).len() == 2).then_some(()));
    let stay = private_folders(&temporary);

    let mut newest = BTreeSet::new();
    for _ in 0..12 {
        let before = private_folders(&temporary);
        let outcome = guarded("exit_underscore").finish();
        assert_eq!(outcome.code, Some(7), "{outcome}");
        newest.extend(private_folders(&temporary).difference(&before).cloned());
    }
    assert_eq!(newest.len(), 12, "each run had a folder");
    let left = private_folders(&temporary);
    assert_eq!(left, &stay | &newest, "together they take less than 256 MiB");
    for folder in &newest {
        assert_eq!(Recording::of(folder).number("/launches"), 100, "what is kept is whole");
    }
    // After a day the next run takes them away.
    let yesterday = SystemTime::now() - 25 * 60 * 60 * SECOND;
    for folder in left.difference(&stay) {
        let file = fs::File::open(folder).unwrap_or_else(|error| panic!("{error}"));
        file.set_modified(yesterday).unwrap_or_else(|error| panic!("{error}"));
    }
    assert_eq!(guarded("plain_job").finish().code, Some(0));
    assert_eq!(private_folders(&temporary), stay, "left: what is there; right: what was to stay");
    begun.stop();
    fs::remove_dir_all(&temporary).unwrap_or_else(|error| panic!("{}: {error}", temporary.display()));
}
