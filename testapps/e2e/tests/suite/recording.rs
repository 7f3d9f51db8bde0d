//! The log and the summary in a run folder after a run.

use lazyguard_e2e::{app, apps, expect_uneventful, hostile_program, number, run, text, App, Json, Run, Work};
use std::collections::BTreeSet;

/// Fields that every line of the log has, beside `level` and `event`.
const FIELDS: [&str; 3] = ["at_ns", "thread", "call"];
const EVENTS: [&str; 9] =
    ["load", "unload", "synchronize", "memory_operation", "context", "launch", "graph_launch", "hazard", "preload"];

fn expect_well_formed(log: &[Json]) {
    for line in log {
        assert!(EVENTS.contains(&text(line, "/event")), "no event is called so: {line}");
        assert!(FIELDS.iter().all(|field| !line[field].is_null()), "a field is missing: {line}");
        assert!(text(line, "/call").starts_with("cu"), "{line}");
    }
}

#[test]
fn the_log_is_json_lines_of_known_events() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let mut seen = BTreeSet::new();
    for name in ["blocking_async", "value_fence", "module_pair", "cold_trigger_graph_node", "lazy_pair_single_kernel"] {
        let outcome = run(&work, &App::named(name)).guarded().kept().set("LAZYGUARD_LOG", "launch").finish();
        let log = outcome.out().log();
        expect_well_formed(&log);
        seen.extend(log.iter().map(|line| text(line, "/event").to_owned()));
    }
    for event in ["load", "synchronize", "memory_operation", "context", "launch", "graph_launch", "preload"] {
        assert!(seen.contains(event), "no {event} was logged, only {seen:?}");
    }
}

#[test]
fn every_launch_is_logged_with_its_kernel_and_stream() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let program = hostile_program("out_many_launches");
    let outcome = Run::new(&work, program).guarded().kept().set("LAZYGUARD_LOG", "launch").finish();
    let launches = outcome.out().events("launch");
    let summary = outcome.out().summary();
    let lost = summary["lost"].as_array().into_iter().flatten().filter_map(|entry| entry[1].as_u64()).sum::<u64>();
    assert_eq!(number(&summary, "/launches"), 10_000);
    let logged = launches.len() as u64;
    assert!(0 < logged && logged <= 10_000, "{logged} launches are in the log");
    // Other calls leave records as well, so more may have been lost than launches.
    assert!(
        logged + lost >= 10_000,
        "a launch is neither in the log nor counted as lost: {logged} in the log, {summary:#}"
    );
    for launch in &launches {
        assert!(!text(launch, "/function").is_empty() && number(launch, "/stream") > 0, "{launch}");
        assert_eq!(launch["result"], 0);
    }
}

/// A job whose synchronizes and loads have no end takes the recording and a mebibyte, and what the log no longer has is counted.
#[test]
fn the_files_of_a_process_have_a_bound() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let program = hostile_program("out_without_end");
    let outcome = Run::new(&work, program).guarded().kept().finish();
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome}");
    let folder = outcome.out();
    assert!(folder.bytes() <= 17 << 20, "{} bytes", folder.bytes());
    let (older, newer) = (folder.older_log(), folder.log());
    let of_both = || older.iter().chain(&newer);
    let logged = |event| of_both().filter(|line| text(line, "/event") == event).count() as u64;
    assert_eq!(logged("synchronize"), 0, "each of them is in the recording");
    assert!(logged("unload") > 100);
    assert!(of_both().map(|line| number(line, "/at_ns")).is_sorted(), "the files take turns");
    let summary = folder.summary();
    let lost = |what: &str| {
        let rows = summary["lost"].as_array().into_iter().flatten();
        rows.filter(|row| row[0].as_str().is_some_and(|name| name.contains(what)))
            .filter_map(|row| row[1].as_u64())
            .sum::<u64>()
    };
    let replaced = lost("older log lines");
    assert!(replaced > 100 && lost("could not be written") == 0, "{summary:#}");
    // Others than loads have lines as well.
    let all = logged("load") + logged("unload") + replaced;
    assert!((6000..6200).contains(&all), "{all}: {summary:#}");
    assert!(folder.report("text").contains("older log lines"), "{}", folder.report("text"));
}

#[test]
fn times_go_forward_and_durations_are_of_the_calls() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let outcome = Run::new(&work, app("slow_but_fine")).guarded().kept().set("LAZYGUARD_LOG", "launch").finish();
    let folder = outcome.out();
    let synchronize = &folder.events("synchronize")[0];
    assert_eq!(text(synchronize, "/call"), "cuStreamSynchronize");
    let took = number(synchronize, "/took_ns");
    assert!((800_000_000..30_000_000_000).contains(&took), "the kernel takes a second and a half: {synchronize}");
    assert!(number(&folder.events("launch")[0], "/at_ns") < number(synchronize, "/at_ns"));
    assert!(number(&folder.summary(), "/nanos") > took);
    // Unlike a short one, such a call is in the log by default.
    let folder = Run::new(&work, app("slow_but_fine")).guarded().kept().finish().out();
    assert!(folder.events("synchronize").iter().all(|line| number(line, "/took_ns") >= 800_000_000));
    assert!(!folder.events("synchronize").is_empty() && folder.events("launch").is_empty(), "{:?}", folder.log());
}

#[test]
fn what_was_loaded_ahead_is_in_the_log_and_in_the_account() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let outcome = run(&work, &App::named("persistent_two_libraries")).guarded().kept().finish();
    let summary = expect_uneventful(&outcome.out());
    let loaded: u64 = outcome.out().events("preload").iter().map(|line| number(line, "/loaded")).sum();
    assert!(loaded > 0, "nothing was preloaded");
    assert_eq!(number(&summary, "/preload/kernels"), loaded);
    assert_eq!(summary["preload"]["skipped"], Json::Array(Vec::new()), "{summary:#}");
    assert_eq!(number(&summary, "/preload/pending"), 0);
    assert_eq!(number(&summary, "/driver_version"), 13000);
    let said = outcome.out().report("text");
    assert!(said.contains(&format!("preload auto: {loaded} kernels preloaded")), "{said}");
}

/// Every way to load a function under work in flight is recorded as the hazard it is, kernel and stream named.
#[test]
fn a_cold_function_load_under_work_in_flight_is_a_hazard() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for app in apps().iter().filter(|app| app.program() == "cold_trigger") {
        let mut running = run(&work, app).guarded().kept().set("LAZYGUARD_PRELOAD", "off").hang_after("300ms").start();
        let folder = running.until_a_hang_is_reported();
        running.until("the hazard in the log", std::time::Duration::from_secs(5), |_| {
            (folder.holds("log.jsonl") && !folder.events("hazard").is_empty()).then_some(())
        });
        let hazards = folder.events("hazard");
        let hazard = &hazards[0];
        assert_eq!(text(hazard, "/code"), "LG101", "{}: {hazard}", app.name);
        assert_eq!(text(hazard, "/function"), "release", "{}: the kernel that was cold: {hazard}", app.name);
        assert_eq!(text(hazard, "/in_flight"), "spin", "{}: the kernel that was in flight: {hazard}", app.name);
        let counted = &folder.summary()["hazards"];
        assert_eq!(counted, &serde_json::json!([["LG101", hazards.len()]]), "{}: {hazards:?}", app.name);
    }
}

#[test]
fn a_module_load_under_work_in_flight_is_a_hazard() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for name in ["module_persistent_load", "persistent_two_libraries"] {
        let app = App::named(name);
        let mut running = run(&work, &app).guarded().kept().set("LAZYGUARD_PRELOAD", "off").hang_after("300ms").start();
        let folder = running.until_a_hang_is_reported();
        let counted = &folder.summary()["hazards"];
        assert!(counted.as_array().into_iter().flatten().any(|entry| entry[0] == "LG102"), "{name}: {counted}");
    }
}

/// The run passed, and another timing would not have: that is what a hazard is for.
#[test]
fn hazards_of_a_run_that_passes_are_in_its_account() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let app = App::named("blocking_async");
    let outcome = run(&work, &app).guarded().kept().set("LAZYGUARD_PRELOAD", "off").finish();
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome}");
    let summary = expect_uneventful(&outcome.out());
    let count = |summary: &Json, which: &str| {
        let found = summary[which].as_array().into_iter().flatten().find(|entry| entry[0] == "LG101");
        found.and_then(|entry| entry[1].as_u64()).unwrap_or(0)
    };
    let counted = count(&summary, "hazards");
    let told = outcome.out().events("hazard").into_iter().filter(|line| line["code"] == "LG101");
    let last = told.map(|line| number(&line, "/count")).max().unwrap_or(0);
    assert!(counted > 0, "kernels are loaded cold there while others run: {summary:#}");
    assert!((last..2 * last).contains(&counted), "{last} told, {summary:#}");
    // Loaded ahead of use, nothing is cold.
    let prevented = run(&work, &app).guarded().kept().finish().out().summary();
    assert_eq!((count(&prevented, "hazards"), count(&prevented, "prevented")), (0, counted), "{prevented:#}");
}

/// What was recorded before is readable, whole lines only.
#[test]
fn the_log_survives_sigkill() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let program = hostile_program("exit_sigkill_in_call");
    let outcome = Run::new(&work, program).guarded().kept().set("LAZYGUARD_LOG", "launch").finish();
    assert_eq!(outcome.code, Some(-9), "{outcome}");
    let folder = outcome.out();
    expect_well_formed(&folder.log());
    // On a machine that stood still for a moment, the kernel may not have been loaded ahead: then its launch is a load.
    let launches = folder.log().into_iter().filter(|line| line["call"] == "cuLaunchKernel").count();
    assert!(!folder.events("load").is_empty() && launches == 1, "{:?}", folder.log());
    assert!(folder.report("text").contains("no summary"), "{}", folder.report("text"));
    let report: Json = serde_json::from_str(&folder.report("json")).unwrap_or_else(|error| panic!("{error}"));
    assert!(report["run"].is_null() && report["hang"].is_null());
}
