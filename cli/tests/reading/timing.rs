//! `lazyguard report --cold-start` and `--blocking`, for a person and for a program.

use super::common::{ended_process, facts, launch, Job, SMALL};
use super::{lazyguard, said, texts, Folder};
use lazyguard_core::trace::layout::Shape;
use lazyguard_core::trace::{Kind, ProcessFacts, Record, StartFacts};
use serde_json::{json, Value};
use std::path::Path;

const MS: u64 = 1_000_000;
/// When the processes of these tests were armed, in nanoseconds after their start.
const ARMED: u64 = 62 * MS;

fn process(number: u32) -> ProcessFacts {
    let start = StartFacts {
        loaded: 76_948 * MS,
        init_entered: 76_968 * MS,
        init_returned: 76_998 * MS,
        before_loaded_micros: 10_000,
        arming_micros: 5_000,
    };
    ProcessFacts { process: number, start, ..ended_process() }
}

/// Loads a module, launches `warm` for the first time and then again and again; a second load blocks one launch of it in another thread.
fn a_start(facts_of_it: &ProcessFacts) -> Job {
    let job = Job::of(SMALL, facts_of_it);
    let (main, loader) = (job.thread(4242, "main"), job.thread(4250, "loader"));
    let (stream, warm) = (job.stream(0x600), job.function("_Z4warmPf"));
    let cold = |call, at| Record { kind: Kind::ColdModule, ..facts(call, at) };
    job.make(main, &facts("cuDevicePrimaryCtxRetain", 10 * MS), 20 * MS, 0);
    job.make(main, &cold("cuModuleLoadData", 40 * MS), 10 * MS, 0);
    job.make(main, &facts("cuMemAlloc_v2", 55 * MS), MS, 0);
    job.make(main, &launch(stream, warm, 60 * MS), 2 * MS, 0);
    job.make(loader, &cold("cuModuleLoadData", 70 * MS), 30 * MS, 0);
    job.make(main, &launch(stream, warm, 75 * MS), 26 * MS, 0);
    for n in 0..50 {
        job.make(main, &launch(stream, warm, (110 + n) * MS), 4_096, 0);
    }
    job.ended();
    job
}

fn folder_with(test: &str, job: &Job) -> Folder {
    let folder = Folder::new(test);
    job.save(&folder.of(""), 200 * MS);
    folder
}

fn json_of(folder: &str, options: &[&str]) -> Value {
    let said = said(&[&["report", folder, "--format", "json"], options].concat());
    serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"))
}

fn ns(value: &Value, pointer: &str) -> u64 {
    value.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("no {pointer} in {value:#}"))
}

fn part(summary: &Value, name: &str) -> u64 {
    let parts = summary["parts"].as_array().expect("parts").iter();
    parts.filter(|part| part["part"] == name).map(|part| ns(part, "/ns")).sum()
}

#[test]
fn a_start_is_told_in_parts_that_are_the_whole_of_it() {
    let folder = folder_with("cold-start", &a_start(&process(4242)));
    let told = json_of(folder.path(), &["--cold-start"]);
    assert_eq!((&told["schema"], told["processes"].as_array().map(Vec::len)), (&json!(1), Some(1)));
    let process = &told["processes"][0];
    assert_eq!(
        (&process["process"], &process["program"], &process["rank"]),
        (&json!(4242), &json!("train"), &json!("3"))
    );
    assert_eq!(process["blocking"], Value::Null, "it was not asked for");
    let summary = &process["cold_start"];
    assert_eq!((&summary["from_process_start"], &summary["steady"]["reached"]), (&json!(true), &json!(true)));
    let whole = ns(summary, "/steady/until_ns");
    assert_eq!(whole, ARMED + 100 * MS, "the end of the last load");
    let parts: u64 = summary["parts"].as_array().expect("parts").iter().map(|part| ns(part, "/ns")).sum();
    assert_eq!(parts, whole);
    for (name, expect) in [
        ("loader", 10 * MS),
        ("program", 20 * MS),
        ("driver_init", 30 * MS),
        ("arming", 5 * MS),
        ("context", 20 * MS),
        ("modules", 40 * MS),
        ("allocations", MS),
        ("first_launches", 2 * MS),
        ("submissions", 0),
    ] {
        assert_eq!(part(summary, name), expect, "{name} of {summary:#}");
    }
    let text = said(&["report", folder.path(), "--cold-start"]);
    for line in [
        "train (process 4242, rank 3 on ",
        "cold start: steady 162.0 ms after its start\n",
        "40.0 ms   24.7 %  #######                         module and library loads\n",
        "162.0 ms  in all\n",
        "modules and libraries: 2 in 40.0 ms, the longest 30.0 ms\n",
        "30.0 ms  at +132.0 ms, thread 4250, cuModuleLoadData: module and library loads\n",
        "  2.0 ms      4.4 us      2.0 ms        52  warm\n",
        "cuMemAlloc: 1 in 1.0 ms, the longest 1.0 ms\n",
        "the card's state: nobody looked at it while the program ran",
    ] {
        assert!(text.contains(line), "{line:?} is not in\n{text}");
    }
}

#[test]
fn a_call_that_was_held_up_by_another_threads_load_names_it() {
    let folder = folder_with("blocking", &a_start(&process(4242)));
    let told = json_of(folder.path(), &["--blocking"]);
    let summary = &told["processes"][0]["blocking"];
    assert_eq!((ns(summary, "/count"), ns(summary, "/total_ns"), ns(summary, "/asynchronous_calls")), (2, 28 * MS, 52));
    let group = &summary["groups"][0];
    assert_eq!(
        (&group["call"], &group["kernel"], &group["reason"]),
        (&json!("cuLaunchKernel"), &json!("warm"), &json!("lock_held"))
    );
    let other = json!({ "thread": 4250, "thread_name": "loader", "call": "cuModuleLoadData", "kernel": null, "max_ns": 30 * MS });
    assert_eq!(group["other"], other);
    let text = said(&["report", folder.path(), "--blocking"]);
    for line in [
        "asynchronous calls that blocked the host for 100.0 us or more: 2 of 52, 28.0 ms in all, the longest 26.0 ms\n",
        "       1 - 10 ms         1  ###############\n",
        "  26.0 ms (92.9 %)  cuLaunchKernel of warm: 1 time, the longest 26.0 ms, first at +0.075000 in thread 4242\n",
        "why: the context's lock was held by another thread's call: thread 4250 \"loader\" in cuModuleLoadData\n",
        "why: likely: the context's first launch",
    ] {
        assert!(text.contains(line), "{line:?} is not in\n{text}");
    }
    assert!(!text.contains("cold start"), "it was not asked for:\n{text}");
    let fewer = json_of(folder.path(), &["--blocking", "--slower-than", "10ms"]);
    assert_eq!(ns(&fewer, "/processes/0/blocking/count"), 1);
    let none = said(&["report", folder.path(), "--blocking", "--slower-than", "1s"]);
    assert!(none.contains("for 1.000 s or more: none of 52\n"), "{none}");
}

#[test]
fn the_processes_of_a_run_are_told_one_after_the_other() {
    let folder = Folder::new("several-processes");
    for (name, number) in [("rank1-17", 17), ("rank0-16", 16)] {
        std::fs::create_dir(folder.of(name)).expect("a folder");
        a_start(&process(number)).save(&folder.of(name), 200 * MS);
    }
    std::fs::create_dir(folder.of("not-a-process")).expect("a folder");
    let told = json_of(folder.path(), &["--cold-start", "--blocking"]);
    let processes: Vec<_> =
        told["processes"].as_array().expect("processes").iter().map(|p| ns(p, "/process")).collect();
    assert_eq!(processes, [16, 17]);
    assert!(told["processes"]
        .as_array()
        .expect("processes")
        .iter()
        .all(|p| p["cold_start"].is_object() && p["blocking"].is_object()));
    let text = said(&["report", folder.path(), "--cold-start", "--blocking"]);
    let (first, second) = (text.find("(process 16").expect("the first"), text.find("(process 17").expect("the second"));
    assert!(first < second && text.matches("cold start: steady").count() == 2, "{text}");

    std::fs::write(folder.of("rank0-16").join("trace.lgt"), "no recording").expect("written");
    let output = lazyguard(&["report", folder.path(), "--cold-start"]).output().expect("the command runs");
    let (out, _) = texts(&output);
    assert!(out.contains("this is not a recording") && out.contains("(process 17"), "{out}");
}

#[test]
fn what_has_been_overtaken_is_said_and_no_later_launch_is_called_the_first() {
    let tiny = Shape { segments: [3, 16, 16], ..SMALL };
    let job = Job::of(tiny, &process(4242));
    let main = job.thread(4242, "main");
    let (stream, early, late) = (job.stream(0x600), job.function("early"), job.function("late"));
    job.make(main, &Record { kind: Kind::ColdFunction, ..launch(stream, early, MS) }, MS, 0);
    for n in 0..1000 {
        job.make(main, &launch(stream, late, (10 + n) * MS), 4_096, 0);
    }
    job.make(main, &launch(stream, early, 1100 * MS), 4_096, 0);
    let folder = Folder::new("overwritten-timing");
    job.save(&folder.of(""), 1200 * MS);
    let told = json_of(folder.path(), &["--cold-start"]);
    let summary = &told["processes"][0]["cold_start"];
    let missing = ns(summary, "/missing/work");
    assert!(missing > 800, "{missing}");
    let text = said(&["report", folder.path(), "--cold-start"]);
    let said_so = format!("the first {missing} launches, copies and other submissions have been overwritten in the recording: what was first is known from the loads only");
    assert!(text.contains(&said_so), "{text}");
    assert!(text.contains("late (its first launch has been overwritten)\n"), "{text}");
    assert!(text.contains("early (loaded its function)\n"), "{text}");
    let known: Vec<_> =
        summary["kernels"].as_array().expect("kernels").iter().map(|k| (&k["kernel"], &k["first_is_known"])).collect();
    assert_eq!(known, [(&json!("early"), &json!(true)), (&json!("late"), &json!(false))]);
}

#[test]
fn a_recording_without_the_beginning_is_told_from_where_it_begins() {
    let folder = folder_with("no-beginning", &a_start(&ended_process()));
    let told = json_of(folder.path(), &["--cold-start"]);
    let summary = &told["processes"][0]["cold_start"];
    assert_eq!(
        (&summary["from_process_start"], ns(summary, "/steady/until_ns"), part(summary, "loader")),
        (&json!(false), 100 * MS, 0)
    );
    let text = said(&["report", folder.path(), "--cold-start"]);
    assert!(text.contains("steady 100.0 ms after the guard was armed (the recording does not tell more)\n"), "{text}");
}

#[test]
fn the_card_is_told_as_it_was_at_the_start_and_when_steady() {
    let folder = Folder::new("card");
    let process_folder = folder.of("rank0-16");
    std::fs::create_dir(&process_folder).expect("a folder");
    a_start(&process(16)).save(&process_folder, 200 * MS);
    let began = ended_process().armed_unix_nanos - ARMED;
    let sample = |at: u64, state: u32, sm: u32, throttled: &[&str]| {
        json!({ "unix_ns": at, "card": 0, "power_state": state, "sm_mhz": sm, "memory_mhz": 2619, "temperature_c": 35,
                "power_mw": 70_400, "throttled": throttled })
    };
    let cards = json!({
        "schema": 1, "why": null, "driver": "580.00",
        "cards": [{ "index": 0, "name": "H200", "uuid": "GPU-1", "most_sm_mhz": 1980, "most_memory_mhz": null, "persistent": false }],
        "samples": [
            sample(began - 90 * MS, 8, 345, &["idle"]),
            sample(began + 10 * MS, 0, 1500, &[]),
            sample(began + 110 * MS, 0, 1980, &["power cap"]),
            sample(began + 190 * MS, 0, 100, &[]),
        ],
    });
    let write = |cards: &Value| std::fs::write(folder.of("card.json"), cards.to_string()).expect("written");
    write(&cards);
    let told = json_of(folder.path(), &["--cold-start"]);
    let card = &told["processes"][0]["card"];
    assert_eq!(
        (&card["why"], &card["cards"][0]["start"]["sm_mhz"], &card["cards"][0]["steady"]["sm_mhz"]),
        (&Value::Null, &json!(345), &json!(1980))
    );
    assert_eq!(ns(card, "/cards/0/clock_reached_ns"), 110 * MS);
    let text = said(&["report", folder.path(), "--cold-start"]);
    for line in [
        "card 0 (H200):\n",
        "at the start  P8, SM 345 of 1980 MHz, memory 2619 MHz, 35 C, 70 W, clocks held down by: idle\n",
        "when steady   P0, SM 1980 of 1980 MHz, memory 2619 MHz, 35 C, 70 W, clocks held down by: power cap\n",
        "its clock was first seen to be about that at +110.0 ms\n",
        "persistence mode is off",
    ] {
        assert!(text.contains(line), "{line:?} is not in\n{text}");
    }
    write(&json!({ "schema": 1, "why": "libnvidia-ml.so.1: cannot open", "driver": null, "cards": [], "samples": [] }));
    let text = said(&["report", folder.path(), "--cold-start"]);
    assert!(text.contains("the card's state: libnvidia-ml.so.1: cannot open\n"), "{text}");
    write(&json!("nonsense"));
    let text = said(&["report", folder.path(), "--cold-start"]);
    assert!(text.contains("the card's state: ") && text.contains("card.json: "), "{text}");
}

#[test]
fn what_cannot_be_told_is_an_error_in_a_line() {
    let folder = Folder::new("no-recording");
    for (arguments, expect, code) in [
        (&["report", folder.path(), "--cold-start"][..], "holds no recording", 1),
        (&["report", "/there/is/no/such/folder", "--blocking"], "there is no such folder", 1),
        (&["report", folder.path(), "--slower-than", "1ms"], "--blocking", 2),
    ] {
        let output = lazyguard(arguments).output().expect("the command runs");
        let (out, errors) = texts(&output);
        assert!(errors.contains(expect) && out.is_empty(), "{arguments:?}: {out}{errors}");
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {errors}");
    }
    assert!(!Path::new(folder.path()).join("card.json").exists(), "reading writes nothing");
}
