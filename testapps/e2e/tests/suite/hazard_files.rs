//! The hazards of a run in its folder: grouped, counted and thinned out; the same from the file that the process wrote and from its
//! recording; present however the process ended.

use lazyguard_e2e::{log_of, number, run, text, App, Folder, InCorpus, Json, Outcome, Run, Work};
use std::collections::BTreeMap;
use std::time::Duration;

/// The hazards of a folder's file.
fn hazards(folder: &Folder) -> Vec<Json> {
    let file = std::fs::read_to_string(folder.path().join("hazards.json"));
    let file: Json = file.ok().and_then(|file| serde_json::from_str(&file).ok()).unwrap_or_default();
    file["hazards"].as_array().cloned().unwrap_or_default()
}

/// What distinguishes one hazard from another, in the file.
fn key(hazard: &Json) -> String {
    let kernel = hazard["kernel"].as_str().unwrap_or("-");
    format!("{} {kernel} {} {}", text(hazard, "/code"), text(hazard, "/call"), hazard["prevented"])
}

/// The same of a line of `lazyguard log`.
fn key_of_line(line: &Json) -> String {
    let kernel = line["function"].as_str().unwrap_or("-");
    let call = text(line, "/call").trim_end_matches("_ptsz").trim_end_matches("_v2");
    format!("{} {kernel} {call} {}", text(line, "/code"), line["prevented"].as_bool().unwrap_or(false))
}

/// The counts that the recording's lines carry, by hazard.
fn recorded(folder: &Folder) -> BTreeMap<String, Vec<u64>> {
    let mut counts: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for line in log_of(folder.path(), &["--event", "hazard"]) {
        counts.entry(key_of_line(&line)).or_default().push(number(&line, "/count"));
    }
    counts
}

/// The file says of each hazard what the recording does: the first occurrence in full, and a count between the last one
/// recorded and the next that would have been.
fn expect_the_same_from_the_recording(folder: &Folder) {
    let (of_file, of_recording) = (hazards(folder), recorded(folder));
    let keys: Vec<_> = of_file.iter().map(key).collect();
    assert!(!keys.is_empty(), "no hazards in {}", folder.path().display());
    assert_eq!(of_recording.len(), of_file.len(), "{keys:?} in the file, {of_recording:?} in the recording");
    for hazard in &of_file {
        let counts = of_recording.get(&key(hazard)).unwrap_or_else(|| panic!("{} is not recorded", key(hazard)));
        let powers: Vec<_> = (0..counts.len() as u32).map(|n| 1u64 << n).collect();
        assert_eq!(counts, &powers, "{}: the first, second, fourth, eighth ... are recorded", key(hazard));
        let (last, count) = (powers[powers.len() - 1], number(hazard, "/count"));
        assert!((last..2 * last).contains(&count), "{}: {count} in all, {counts:?} recorded", key(hazard));
        let lines = log_of(folder.path(), &["--event", "hazard"]);
        let first = lines.iter().find(|line| key_of_line(line) == key(hazard)).unwrap_or(&Json::Null);
        // A wait is recorded when what satisfies it is submitted.
        if hazard["code"] != "LG103" {
            assert_eq!(first["at_ns"], hazard["first"]["at"], "{hazard:#}");
            assert_eq!(first["thread"], hazard["first"]["thread"], "{hazard:#}");
        }
        for sentence in ["what", "fix"] {
            assert!(text(hazard, &format!("/{sentence}")).len() > 20, "{hazard:#}");
        }
        assert!(hazard["must_meet"].as_array().is_some_and(|all| (2..=3).contains(&all.len())), "{hazard:#}");
    }
}

fn slow<'w>(work: &'w Work, name: &str) -> Run<'w> {
    Run::new(work, InCorpus::named(name).path()).set("LG_SCALE_MS", "300").guarded().kept()
}

fn expect_success(outcome: &Outcome) -> Folder {
    assert_eq!(outcome.code, Some(0), "{outcome}");
    outcome.out()
}

/// The hazards of a run, as code, kernel and call.
fn told(folder: &Folder) -> Vec<(String, String, String)> {
    let one = |hazard: &Json| {
        let kernel = hazard["kernel"].as_str().unwrap_or("-").to_owned();
        (text(hazard, "/code").to_owned(), kernel, text(hazard, "/call").to_owned())
    };
    hazards(folder).iter().map(one).collect()
}

fn is(code: &str, kernel: &str, call: &str) -> (String, String, String) {
    (code.to_owned(), kernel.to_owned(), call.to_owned())
}

#[test]
fn hazards_are_the_same_in_the_file_and_in_the_recording() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for name in ["cold_kernel_beside_long_kernel", "wait_written_late", "module_load_behind_long_kernel"] {
        let folder = expect_success(&slow(&work, name).set("LAZYGUARD_PRELOAD", "off").finish());
        expect_the_same_from_the_recording(&folder);
        assert!(hazards(&folder).iter().all(|hazard| hazard["at_least"] == false), "{:#?}", hazards(&folder));
    }
    let folder = expect_success(&slow(&work, "wait_written_late").finish());
    assert_eq!(told(&folder), [is("LG103", "-", "cuStreamWaitValue32")]);
    let found = &hazards(&folder)[0];
    assert_eq!((text(found, "/stream_class"), text(found, "/first/other")), ("non-blocking", "cuStreamWriteValue32"));
    assert!(number(found, "/first/at") < number(found, "/first/other_at"), "the wait came first: {found:#}");
    assert_ne!(found["first"]["stream"], found["first"]["other_stream"]);
}

/// With preloading nothing is cold; hazards that it prevented are reported, and marked as prevented.
#[test]
fn what_the_guard_prevented_is_told_apart() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let name = "cold_kernel_beside_long_kernel";
    let without = expect_success(&slow(&work, name).set("LAZYGUARD_PRELOAD", "off").finish());
    let outcome = slow(&work, name).set("LAZYGUARD_SUMMARY", "on").finish();
    let with = expect_success(&outcome);
    assert_eq!(told(&without), told(&with), "the same as without preloading");
    assert!(hazards(&without).iter().all(|hazard| hazard["prevented"] == false));
    assert!(hazards(&with).iter().all(|hazard| hazard["prevented"] == true));
    let (without, with) = (without.summary(), with.summary());
    assert_eq!((&without["hazards"], &without["prevented"]), (&with["prevented"], &with["hazards"]));
    assert_eq!(with["hazards"], Json::Array(Vec::new()));
    assert!(outcome.stderr.contains("prevented LG101: cuLaunchKernel of step"), "{}", outcome.stderr);
}

/// The runtime that launches the kernel is linked into the program, as NVIDIA's static one is.
#[test]
fn a_hazard_of_a_runtime_s_call_is_at_the_program_s_line() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let outcome = Run::new(&work, lazyguard_e2e::app("lazy_pair")).guarded().kept().finish();
    let report = outcome.out().report("json");
    let found: Json = serde_json::from_str(&report).unwrap_or_default();
    let place = found.pointer("/hazards/0/first/place").and_then(Json::as_str).unwrap_or_default();
    assert!(place.contains("main, /") && place.contains("lazy_pair.cpp:14"), "{place}\n{report}");
    assert!(found.pointer("/hazards/0/first/path").is_none(), "{report}");
    let log = Run::new(&work, lazyguard_e2e::command()).args(["log", "--event", "hazard"]).args([outcome.out().path()]);
    let log = log.finish();
    assert!(log.stdout.lines().any(|line| line.contains("LG101") && line.contains("lazy_pair.cpp:14")), "{log}");
}

/// A hazard in a loop is counted each time and leaves a handful of records.
#[test]
fn a_hazard_in_a_loop_leaves_few_records() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let outcome = Run::new(&work, lazyguard_e2e::hostile_program("hazards_in_a_loop")).guarded().kept().finish();
    let folder = expect_success(&outcome);
    expect_the_same_from_the_recording(&folder);
    let found = hazards(&folder);
    assert_eq!(told(&folder), [is("LG103", "-", "cuStreamWaitValue32")]);
    assert_eq!(number(&found[0], "/count"), 100);
    assert_eq!(recorded(&folder).into_values().next().unwrap_or_default(), [1, 2, 4, 8, 16, 32, 64]);
    assert_eq!(folder.summary()["hazards"], serde_json::json!([["LG103", 100]]));
}

/// A process that is killed has had time to write down what arose before.
#[test]
fn hazards_outlive_a_kill() {
    let work = Work::new(lazyguard_e2e::this_test!());
    // It hangs, and what makes it hang is a hazard first.
    let app = App::named("module_persistent_load");
    let mut running = run(&work, &app).guarded().kept().hang_after("60s").start();
    running.until("hazards.json", Duration::from_secs(10), |running| {
        running.out().join("hazards.json").is_file().then_some(())
    });
    let outcome = running.stop();
    assert_eq!(outcome.code, None, "{outcome}");
    let folder = outcome.out();
    expect_the_same_from_the_recording(&folder);
    assert!(hazards(&folder).iter().all(|hazard| hazard["at_least"] == true), "{:#?}", hazards(&folder));
    assert!(!folder.holds("run.json"), "there is no summary");
}

#[test]
fn hazards_are_kept_without_a_recording() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let folder = expect_success(&slow(&work, "wait_written_late").set("LAZYGUARD_RECORD", "off").finish());
    assert!(!folder.holds("trace.lgt"));
    assert_eq!(told(&folder), [is("LG103", "-", "cuStreamWaitValue32")]);
    assert_eq!(folder.summary()["hazards"], serde_json::json!([["LG103", 1]]));
}

/// Each of these is slow, or does much at a time, and nothing in it waits for what is submitted later.
#[test]
fn programs_without_hazards_have_none() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let folder = expect_success(&run(&work, &App::named("slow_but_fine")).guarded().kept().finish());
    assert!(!folder.holds("hazards.json"));
    for name in ["fork_and_join", "value_ping_pong", "many_streams", "free_behind_finite_work", "polls_long_kernel"] {
        // Not to be called long, the kernel takes less than a tenth of a second.
        let run = slow(&work, name);
        let run = if name == "free_behind_finite_work" { run.set("LG_SCALE_MS", "100") } else { run };
        let folder = expect_success(&run.finish());
        assert_eq!(told(&folder), [], "{name}");
    }
}
