//! `lazyguard report`: the state or the end of a process, and the reason.

use super::common::{ended_process, facts, hanging, launch, wait, write, Job, SMALL};
use super::{lazyguard, said, texts, Folder};
use lazyguard_core::diagnose::{snapshot_at, Snapshot};
use lazyguard_core::report::{HangReport, PreloadSummary};
use lazyguard_core::trace::read::Recording;
use lazyguard_core::trace::{ProcessFacts, Record};
use serde_json::Value;

const SECOND: u64 = 1_000_000_000;

fn json(folder: &Folder) -> Value {
    serde_json::from_str(&said(&["report", folder.path(), "--format", "json"])).expect("one JSON object")
}

/// The lines are in the text in this order, with others in between.
fn expect_in_order(text: &str, lines: &[&str]) {
    let mut rest = text;
    for line in lines {
        let at = rest.find(line).unwrap_or_else(|| panic!("missing, or out of order: {line}\n{text}"));
        rest = &rest[at + line.len()..];
    }
}

#[test]
fn who_was_killed_without_a_live_report_learns_why_from_the_recording() {
    let folder = Folder::new("killed");
    let job = Job::new();
    hanging(&job);
    job.save(&folder.0, 60 * SECOND);
    expect_in_order(
        &said(&["report", folder.path()]),
        &[
            &format!(
                "HANG 15:07:40Z {} rank 3 pid 4242 (train): blocked 59 s in cuCtxSynchronize at train+0x3333\n",
                ended_process().host
            ),
            "LG201 (likely): k2 cannot start: loading it on its first launch waits for k1 on stream 1, and k1 has not ended.\n",
            "  fix: load k2 before launching k1: cudaFuncGetAttributes(k2), or LAZYGUARD_PRELOAD=auto\n",
            "  k1 launched at train+0x1111, k2 at train+0x2222\n",
            "  - cuLaunchKernel on stream 2 loaded k2 on its first use at +1.000 s\n",
            "blocked calls:\n  thread 100 \"main\" in cuCtxSynchronize for 59 s since +1.000 s, called from train+0x3333\n",
            "  stream 1 (0x51, non-blocking): cuLaunchKernel of k1 since +1.000 s, 1 operation submitted in all\n",
            "preload off: 0 kernels",
            "\ntrain (process 4242, rank 3 on ",
            " was killed or ended without an exit; last seen at +60.000 s (2025-06-15 15:07:40 UTC)\n",
            "no summary: ",
            "recording: ",
            "3 driver calls, 2 launches in 1 thread\n  work: 1 record\n  waits: 0 records\n  rare_events: 1 record\n",
        ],
    );
    let report = json(&folder);
    assert!(report["hang"].is_null() && report["run"].is_null());
    let recording = &report["recording"];
    assert_eq!(recording["verdicts"][0]["code"], "LG201");
    assert_eq!(recording["verdicts"][0]["culprits"][0]["operation"]["function"], "_Z2k1v");
    assert_eq!((&recording["state"], &recording["alive"]), (&"guarded".into(), &false.into()));
    let snapshot: Snapshot = serde_json::from_value(recording["snapshot"].clone()).expect("a snapshot as in hang.json");
    assert_eq!((snapshot.at, snapshot.threshold_nanos), (60 * SECOND, SECOND / 20));
    assert_eq!((snapshot.blocked.len(), snapshot.streams.len(), snapshot.loads.len()), (1, 2, 1));
}

#[test]
fn the_json_form_says_what_the_recording_is_and_holds() {
    let folder = Folder::new("json");
    let job = Job::new();
    hanging(&job);
    job.save(&folder.0, 2 * SECOND);
    let recording = &json(&folder)["recording"];
    for (key, expect) in [
        ("format_version", Value::from(1)),
        ("file", folder.of("trace.lgt").to_str().into()),
        ("bytes", (SMALL.words() * 8).into()),
        ("process", 4242.into()),
        ("program", "train".into()),
        ("host", ended_process().host.into()),
        ("rank", "3".into()),
        ("driver_version", 13000.into()),
        ("lazyguard", "0.1.0".into()),
        ("armed_unix_ns", 1_750_000_000_000_000_000_u64.into()),
        ("last_seen_ns", (2 * SECOND).into()),
        ("calls", 3.into()),
        ("launches", 2.into()),
        ("defects", Value::Array(Vec::new())),
        (
            "threads",
            serde_json::json!([
                { "number": 1, "thread": 100, "name": "main", "state": "alive", "calls": 3, "launches": 2 }
            ]),
        ),
    ] {
        assert_eq!(recording[key], expect, "{key}");
    }
    let lanes = recording["lanes"].as_array().unwrap();
    assert_eq!(
        lanes.iter().map(|lane| lane["lane"].as_str().unwrap()).collect::<Vec<_>>(),
        ["work", "waits", "rare_events"]
    );
    assert_eq!(lanes[0], serde_json::json!({ "lane": "work", "present": 1, "overwritten": 0, "dropped": 0 }));
}

#[test]
fn who_was_killed_need_not_have_waited_for_the_threshold() {
    for (setting, seen, codes) in [
        ("LAZYGUARD_HANG_AFTER=60s", 40 * SECOND, 1),
        ("LAZYGUARD_HANG_AFTER=off", 40 * SECOND, 1),
        ("LAZYGUARD_HANG_AFTER=60s", SECOND + 40_000_000, 0),
        ("LAZYGUARD_HANG_AFTER=10ms", SECOND + 40_000_000, 1),
    ] {
        let folder = Folder::new("threshold");
        let job = Job::new();
        hanging(&job);
        job.tracker.recorder().add_setting(0, setting);
        job.save(&folder.0, seen);
        assert_eq!(json(&folder)["recording"]["verdicts"].as_array().map(Vec::len), Some(codes), "{setting} {seen}");
    }
}

#[test]
fn who_was_killed_before_the_threshold_learns_what_is_suspected() {
    let folder = Folder::new("suspected");
    let job = Job::new();
    hanging(&job);
    job.save(&folder.0, 5 * SECOND);
    expect_in_order(
        &said(&["report", folder.path()]),
        &[
            " rank 3 pid 4242 (train): a call had been in progress for 4.000 s when it was last seen; a hang is reported after 30.000 s \
             (LAZYGUARD_HANG_AFTER). If it is stuck, this is why:\n",
            "LG201 (likely): ",
            "  k1 launched at train+0x1111, k2 at train+0x2222\n",
            "was killed or ended without an exit; last seen at +5.000 s",
        ],
    );
}

#[test]
fn who_was_killed_soon_after_a_harmless_call_is_told_no_tales() {
    let folder = Folder::new("harmless");
    let job = Job::new();
    let main = job.thread(100, "main");
    let stream = job.stream(0x51);
    let k = job.function("k");
    job.make(main, &launch(stream, k, SECOND), 5_000, 0);
    job.hold(main, &Record { stream, ..facts("cuStreamSynchronize", 2 * SECOND) });
    job.save(&folder.0, 2 * SECOND + 1_000_000);
    let text = said(&["report", folder.path()]);
    expect_in_order(
        &text,
        &[
            "calls in progress when it was last seen:\n",
            "  +2.000000 thread 100 \"main\": cuStreamSynchronize on stream 1 (0x51), in progress for 1.0 ms\n",
            "busy streams, with the oldest operation not known to have ended:\n  stream 1 (0x51, non-blocking): cuLaunchKernel of k ",
            "was killed or ended without an exit",
        ],
    );
    assert!(!text.contains("LG299"), "{text}");
}

#[test]
fn without_a_call_in_progress_the_last_records_of_each_thread_are_told() {
    let folder = Folder::new("last_records");
    let job = Job::new();
    let (main, worker) = (job.thread(100, "main"), job.thread(101, "worker"));
    let stream = job.stream(0x51);
    let k = job.function("k");
    job.make(worker, &write(stream, 0xf1a6, 1, SECOND), 5_000, 0);
    job.make(main, &launch(stream, k, 2 * SECOND), 5_000, 0);
    job.make(main, &launch(stream, k, 3 * SECOND), 5_000, 0);
    job.save(&folder.0, 4 * SECOND);
    let text = said(&["report", folder.path()]);
    expect_in_order(
        &text,
        &[
            "no driver call was in progress when it was last seen; the last record of each thread:\n",
            "  +1.000000 thread 101 \"worker\": cuStreamWriteValue32_v2 of 1 to 0xf1a6 on stream 1 (0x51), 5.0 us\n",
            "  +3.000000 thread 100 \"main\": cuLaunchKernel of k ",
            "\ntrain (process 4242, ",
        ],
    );
    assert!(!text.contains("+2.000000"), "{text}");
}

#[test]
fn an_orderly_end_is_just_that() {
    let folder = Folder::new("orderly");
    let job = Job::new();
    let main = job.thread(100, "main");
    job.make(main, &wait(job.stream(0x51), 0xf1a6, 1, SECOND), 5_000, 0);
    job.ended();
    job.save(&folder.0, 4 * SECOND);
    let text = said(&["report", folder.path()]);
    assert!(text.starts_with("train (process 4242, rank 3 on "), "{text}");
    assert!(text.lines().next().is_some_and(|line| line.contains(" ended; last seen at +4.000 s")), "{text}");
    assert_eq!(json(&folder)["recording"]["state"], "ended");
}

#[test]
fn on_another_machine_a_process_may_still_run() {
    let folder = Folder::new("elsewhere");
    let job = Job::of(SMALL, &ProcessFacts { host: "node-7".to_owned(), ..ended_process() });
    job.save(&folder.0, 4 * SECOND);
    let text = said(&["report", folder.path()]);
    assert!(text.contains("was killed or ended without an exit, or still runs on node-7, which is not this machine"));
}

/// A live report of what the recording of [`hanging`] shows.
fn live_report(job: &Job, folder: &Folder) -> HangReport {
    let recording = Recording::open(job.bytes(SECOND)).unwrap();
    let snapshot = snapshot_at(&recording, 35 * SECOND, 30 * SECOND, 90 * SECOND).unwrap();
    HangReport::new(4242, "train", Some(folder.path()), snapshot, PreloadSummary::default())
}

#[test]
fn a_live_report_comes_first_and_the_recording_says_whether_it_lasted() {
    let folder = Folder::new("live_report");
    let job = Job::new();
    hanging(&job);
    let hang = live_report(&job, &folder);
    std::fs::write(folder.of("hang.json"), lazyguard_core::report::json(&hang)).unwrap();
    job.save(&folder.0, 60 * SECOND);
    expect_in_order(
        &said(&["report", folder.path()]),
        &[
            "HANG pid 4242 (train): blocked 34 s in cuCtxSynchronize at train+0x3333; 59 s when it was last seen\n",
            "was killed or ended without an exit; last seen at +60.000 s",
        ],
    );
    let report = json(&folder);
    assert_eq!(report["hang"], serde_json::to_value(&hang).unwrap());
    assert_eq!(report["recording"]["verdicts"], report["hang"]["verdicts"]);
    let (seen, lasted) = (1_750_000_000 * SECOND + 60 * SECOND, &report["lasts"]["blocked_nanos"]);
    assert_eq!((&report["lasts"]["seen_unix_ns"], &report["lasts"]["is_now"]), (&seen.into(), &false.into()));
    assert!(lasted.as_u64().is_some_and(|nanos| nanos.abs_diff(59 * SECOND) < SECOND), "{lasted}");
    // The same without the call: the hang has passed.
    let job = Job::new();
    job.thread(100, "main");
    job.save(&folder.0, 60 * SECOND);
    let text = said(&["report", folder.path()]);
    assert!(text.contains("this hang is over: none of these calls was in progress"), "{text}");
}

#[test]
fn calls_of_threads_whose_entry_has_been_used_again_count() {
    let folder = Folder::new("former_threads");
    let job = Job::of(lazyguard_core::trace::layout::Shape { threads: 2, ..SMALL }, &ended_process());
    for n in 0..50_u32 {
        let thread = job.thread(100 + n, "short");
        let at = SECOND * u64::from(n + 1);
        job.make(thread, &launch(0, 0, at), 5, 0);
        job.make(thread, &facts("cuCtxSynchronize", at + 100), 5, 0);
        job.tracker.end_thread(thread, at + 200);
    }
    job.save(&folder.0, 60 * SECOND);
    let recording = &json(&folder)["recording"];
    assert_eq!((&recording["calls"], &recording["launches"]), (&100.into(), &50.into()));
    let text = said(&["report", folder.path()]);
    assert!(text.contains("  100 driver calls, 50 launches in 50 threads\n"), "{text}");
}

#[test]
fn what_is_lost_or_makes_no_sense_is_counted() {
    let folder = Folder::new("lost");
    let tiny = lazyguard_core::trace::layout::Shape { segments: [2, 1, 1], records: 4, ..SMALL };
    let job = Job::of(tiny, &ended_process());
    let main = job.thread(100, "main");
    (0..20).for_each(|n| job.make(main, &launch(0, 0, SECOND + n * 100), 5, 0));
    job.save(&folder.0, 4 * SECOND);
    let text = said(&["report", folder.path()]);
    assert!(text.contains("  work: 8 records; 12 older ones were overwritten\n"), "{text}");
    let told = json(&folder);
    let of_work = |what: &str| told["recording"]["lanes"][0][what].as_u64();
    assert_eq!(["present", "overwritten", "dropped"].map(of_work), [Some(8), Some(12), Some(0)], "{told:#}");
    let mut bytes = job.bytes(4 * SECOND);
    bytes.truncate(bytes.len() - 64);
    std::fs::write(folder.of("trace.lgt"), bytes).unwrap();
    // The command reports all readable records, and says that some are missing.
    let cut_short = |arguments: &[&str]| {
        let output = crate::lazyguard(arguments).arg(folder.path()).output().expect("the command runs");
        let (out, errors) = crate::texts(&output);
        let told =
            format!("{out}{errors}").contains("trace.lgt: the file ends 64 bytes early, and what was there is lost");
        assert!(output.status.code() == Some(1) && told, "{arguments:?}: {out}{errors}");
        out
    };
    let text = cut_short(&["report"]);
    assert!(text.contains(" of it cannot be read and left out:\n    at byte "), "{text}");
    let parsed: serde_json::Value = serde_json::from_str(&cut_short(&["report", "--format", "json"])).expect("JSON");
    assert!(parsed["recording"]["defects"].as_array().is_some_and(|defects| !defects.is_empty()), "{parsed:#}");
    for arguments in
        [&["report", "--hazards"][..], &["report", "--cold-start"], &["log"], &["export", "--to", "perfetto"]]
    {
        cut_short(arguments);
    }
    // A folder that holds it says so as well.
    assert!(cut_short(&["report", "--hazards", "--format", "json"]).contains("\"problems\""));
}

/// Why there is no summary is what the recording knows, and no more.
#[test]
fn an_account_that_is_missing_is_told_by_how_the_process_stands() {
    let folder = Folder::new("no_account");
    let job = Job::new();
    hanging(&job);
    let summary = || {
        let output = lazyguard(&["report", folder.path()]).output().unwrap();
        let (out, _) = texts(&output);
        out.lines().find(|line| line.contains("summary")).unwrap_or_default().to_owned()
    };
    job.save(&folder.0, 2 * SECOND);
    assert_eq!(summary(), "no summary: the program did not end in an orderly way");
    std::fs::write(folder.of("run.json"), "{\"schema\":").unwrap();
    assert_eq!(summary(), "the summary (run.json) cannot be read: how the program ended is not known");
    std::fs::remove_file(folder.of("run.json")).unwrap();
    // A disk may be full at the end; the recording has had its room from the beginning.
    job.ended();
    job.save(&folder.0, 2 * SECOND);
    assert!(
        summary().starts_with("no summary: the program ended in an orderly way, but its summary (run.json) was not")
    );
    std::fs::write(folder.of("trace.lgt"), "nonsense").unwrap();
    std::fs::write(folder.of("log.jsonl"), "").unwrap();
    let output = lazyguard(&["report", folder.path()]).output().unwrap();
    let (out, _) = texts(&output);
    assert!(out.contains("the recording (trace.lgt) cannot be read: ") && !out.contains("no recording"), "{out}");
    assert!(out.contains("no summary, and the recording that would say why cannot be read\n"), "{out}");
}

/// A call that came back with an error was not slow, and its hang has not gone on by itself.
#[test]
fn what_became_of_a_hang_that_was_reported_is_told_from_the_records() {
    let folder = Folder::new("became");
    let job = Job::new();
    let main = job.thread(100, "main");
    job.make(main, &facts("cuCtxSynchronize", SECOND), 40 * SECOND, 719);
    job.save(&folder.0, 60 * SECOND);
    let call = serde_json::json!({
        "thread": 100, "thread_name": "main", "call": "cuCtxSynchronize", "entered": SECOND, "blocked_nanos": 30 * SECOND,
        "past_threshold": true, "context": 0, "stream": null, "function": null, "cold": null,
        "no_entry": false, "compiles": false, "sets_aside": false,
    });
    let hang = serde_json::json!({
        "schema": 1, "process": 4242, "program": "train", "folder": null, "verdicts": [], "preload": PreloadSummary::default(),
        "host": "", "rank": "", "armed_unix_nanos": 0, "status": "hang", "slow": [], "acts": false, "ends": [], "stacks": [], "places": [],
        "at": 31 * SECOND, "threshold_nanos": 30 * SECOND, "blocked": [call], "streams": [], "waits": [], "loads": [],
        "patience_nanos": 0, "awake_since": 0, "fed": [], "without_entry": 0, "event_waits": [], "host_functions": [], "runnable": [],
        "last_activity": 0, "asked": false,
    });
    std::fs::write(folder.of("hang.json"), hang.to_string()).unwrap();
    expect_in_order(
        &said(&["report", folder.path()]),
        &[
            "this hang is over: none of these calls was in progress when the process was last seen\n",
            "  cuCtxSynchronize in thread 100 returned error 719 (CUDA_ERROR_LAUNCH_FAILED) at +41.000 s\n",
        ],
    );
}
