//! Each setting has its effect; an unusable one costs one line and nothing else.

use lazyguard_e2e::{
    app, calls, command, expect_a_block, expect_slow, expect_uneventful, number, run, text, App, Folder, Json, Outcome,
    Run, Work,
};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Settings that a test below is about; those of `LAZYGUARD_RECORD` are in `recorder`,
/// those of `LAZYGUARD_ON_HANG` in `on_hang`, those of `LAZYGUARD_PROFILE` and `LAZYGUARD_PRELOAD_FREE` in `profile`,
/// those of `LAZYGUARD_DEFER` in `defer`, those of `LAZYGUARD_SCHEDULE` in `explore`, those of `LAZYGUARD_MAX_LATE` in `late`. `every_setting_has_its_test` compares
/// them with what the command lists.
const TESTED: [&str; 22] = [
    "LAZYGUARD",
    "LAZYGUARD_PRELOAD",
    "LAZYGUARD_PRELOAD_KERNELS",
    "LAZYGUARD_PRELOAD_TIME",
    "LAZYGUARD_PRELOAD_SHARE",
    "LAZYGUARD_PRELOAD_MEMORY",
    "LAZYGUARD_PRELOAD_FREE",
    "LAZYGUARD_NUDGE",
    "LAZYGUARD_DEFER",
    "LAZYGUARD_READY_AFTER",
    "LAZYGUARD_HANG_AFTER",
    "LAZYGUARD_MAX_LATE",
    "LAZYGUARD_ON_HANG",
    "LAZYGUARD_ON_STALL",
    "LAZYGUARD_GPU_DUMP",
    "LAZYGUARD_GPU_DUMP_WAIT",
    "LAZYGUARD_OUT",
    "LAZYGUARD_PROFILE",
    "LAZYGUARD_LOG",
    "LAZYGUARD_RECORD",
    "LAZYGUARD_SCHEDULE",
    "LAZYGUARD_SUMMARY",
];

#[test]
fn every_setting_has_its_test() {
    let said = |arguments: &[&str]| {
        let output = Command::new(command()).args(arguments).output().unwrap_or_else(|error| panic!("{error}"));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let help = said(&["settings"]);
    assert!(said(&["run", "--help"]).contains("[variable: LAZYGUARD]"));
    let known: BTreeSet<_> = help.split("[variable: ").skip(1).filter_map(|rest| rest.split(']').next()).collect();
    assert_eq!(known, BTreeSet::from(TESTED), "left: the command's; right: tested here");
}

fn with<'w>(work: &'w Work, name: &str, settings: &[(&str, &str)]) -> Run<'w> {
    let run = run(work, &App::named(name)).guarded().kept();
    settings.iter().fold(run, |run, (name, value)| run.set(name, value))
}

fn completed(work: &Work, name: &str, settings: &[(&str, &str)]) -> Outcome {
    let outcome = with(work, name, settings).finish();
    assert_eq!(outcome.code, Some(0), "{settings:?}: {outcome}");
    outcome
}

/// Runs a program that hangs under the settings, until it is reported.
fn hung(work: &Work, name: &str, settings: &[(&str, &str)]) -> Folder {
    let mut running = with(work, name, settings).hang_after("300ms").start();
    running.until_a_hang_is_reported()
}

fn skipped(summary: &Json, reason: &str) -> u64 {
    let skips = summary["skipped"].as_array().into_iter().flatten();
    skips.filter(|skip| skip["reason"] == reason).filter_map(|skip| skip["count"].as_u64()).sum()
}

#[test]
fn off_leaves_every_call_untouched() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for value in ["off", "0", "false", "no"] {
        let outcome = with(&work, "module_pair", &[("LAZYGUARD", value), ("LAZYGUARD_SUMMARY", "on")]).finish();
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome}");
        assert!(!outcome.out().exists() && outcome.left_behind().is_empty(), "LAZYGUARD={value}, and there are files");
    }
    let on = completed(&work, "module_pair", &[("LAZYGUARD", "on")]);
    expect_uneventful(&on.out());
}

#[test]
fn off_looks_every_function_up_as_bare() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let log = |of: &str| work.path().join(format!("calls-{of}"));
    run(&work, &App::named("blocking_async")).set("LGSIM_CALL_LOG", log("bare")).finish();
    with(&work, "blocking_async", &[("LAZYGUARD", "off")]).set("LGSIM_CALL_LOG", log("off")).finish();
    assert_eq!(calls(&log("off")), calls(&log("bare")), "left: switched off; right: bare");
}

/// Loads are late from a time on, and those before it are not; the run fails for them if asked.
#[test]
fn what_is_loaded_late_is_a_hazard() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let late = |settings: &[(&str, &str)]| {
        let outcome = completed(&work, "module_pair", settings);
        let written = fs::read_to_string(outcome.out().path().join("hazards.json")).unwrap_or_default();
        let hazards: Json = serde_json::from_str(&written).unwrap_or_default();
        let codes = hazards["hazards"].as_array().into_iter().flatten().map(|hazard| text(hazard, "/code").to_owned());
        codes.filter(|code| code == "LG110").count()
    };
    assert!(late(&[("LAZYGUARD_READY_AFTER", "1ns")]) > 0);
    assert_eq!(late(&[("LAZYGUARD_READY_AFTER", "1h")]), 0);
    let out = work.path().join("out");
    let run = Run::new(&work, command()).args(["run", "--ready-after", "1ns", "--fail-on", "late-load"]);
    let failed = run.args([app("module_pair")]).set("LAZYGUARD_OUT", &out).finish();
    assert_eq!(failed.code, Some(118), "{failed}");
}

/// A profile loads modules and libraries ahead: it is advised for no other call.
#[test]
fn what_a_profile_does_not_do_is_not_advised() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let program = lazyguard_e2e::corpus_program("prepares_when_ready");
    let outcome = Run::new(&work, program).guarded().kept().finish();
    let written = fs::read_to_string(outcome.out().path().join("hazards.json")).unwrap_or_default();
    let hazards: Json = serde_json::from_str(&written).unwrap_or_default();
    let fixes: Vec<_> =
        hazards["hazards"].as_array().into_iter().flatten().map(|hazard| text(hazard, "/fix")).collect();
    assert_eq!(fixes.len(), 3, "{outcome}\n{written}");
    for fix in fixes {
        assert!(fix.starts_with("Call cu") && fix.ends_with(" before lazyguard_ready()."), "{fix}");
    }
}

/// The command preloads the library and changes nothing else: settings, arguments, output and exit code go through.
#[test]
fn lazyguard_run_is_the_same_as_preloading() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let out = work.path().join("out");
    let run = |program: &str| Run::new(&work, command()).args(["run", program]).set("LAZYGUARD_OUT", &out);
    let cuda = run(&app("cold_trigger").to_string_lossy()).args(["occupancy"]).finish();
    assert_eq!(
        (cuda.code, cuda.stdout.as_str(), cuda.stderr.as_str()),
        (Some(0), "released by occupancy\n", ""),
        "{cuda}"
    );
    let of_run = lazyguard_e2e::only_run_in(&out);
    let folder = of_run.join(format!("rank0-{}", only_process_in(&of_run)));
    assert!(folder.join("run.json").is_file(), "the program ran without the guard");
    let plain = run("sh").args(["-c", "echo \"$1\"; exit 3", "sh", "--help me"]).finish();
    assert_eq!((plain.code, plain.stdout.as_str(), plain.stderr.as_str()), (Some(3), "--help me\n", ""), "{plain}");
    let missing = run("/no/such/program").finish();
    assert_eq!((missing.code, missing.stdout.as_str()), (Some(127), ""), "{missing}");
}

/// The id of the only process with a folder in a run's folder.
fn only_process_in(run: &Path) -> String {
    let entries = fs::read_dir(run).into_iter().flatten().flatten();
    let names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    let mut processes = names.iter().filter_map(|name| name.strip_prefix("rank0-"));
    let only = processes.next().filter(|_| processes.next().is_none());
    only.unwrap_or_else(|| panic!("one folder of a process was expected: {names:?}")).to_owned()
}

#[test]
fn each_policy_loads_what_it_says() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let kernels = |policy| {
        let outcome = completed(&work, "module_pair", &[("LAZYGUARD_PRELOAD", policy)]);
        let summary = expect_uneventful(&outcome.out());
        assert_eq!(text(&summary, "/preload/policy"), policy);
        number(&summary, "/preload/kernels")
    };
    assert_eq!(kernels("off"), 0);
    // The program gets two functions of a module that holds more; those it gets are loaded by getting them.
    assert!(kernels("resolve") <= 2);
    let all = kernels("auto");
    assert!(all > 2, "auto loaded {all} kernels");
    assert_eq!(kernels("eager"), all);
}

#[test]
fn resolve_loads_a_kernel_as_it_is_got() {
    let work = Work::new(lazyguard_e2e::this_test!());
    // The library holds more kernels than the two that the program gets.
    let loaded = |policy| {
        let outcome = completed(&work, "route_direct_link", &[("LAZYGUARD_PRELOAD", policy)]);
        number(&expect_uneventful(&outcome.out()), "/preload/kernels")
    };
    let (resolved, all) = (loaded("resolve"), loaded("auto"));
    assert!(0 < resolved && resolved < all, "resolve loaded {resolved}, auto {all}");
}

#[test]
fn each_budget_stops_the_loading_and_the_account_says_so() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for (setting, value, reason, most) in [
        ("LAZYGUARD_PRELOAD_KERNELS", "0", "budget_kernels", 0),
        ("LAZYGUARD_PRELOAD_KERNELS", "2", "budget_kernels", 2),
        ("LAZYGUARD_PRELOAD_TIME", "0ms", "budget_time", 0),
        ("LAZYGUARD_PRELOAD_MEMORY", "0", "budget_memory", 0),
    ] {
        let outcome = completed(&work, "slow_but_fine", &[(setting, value)]);
        let summary = &expect_uneventful(&outcome.out())["preload"];
        assert_eq!(number(summary, "/kernels"), most, "{setting}={value}: {summary:#}");
        assert!(skipped(summary, reason) > 0, "{setting}={value}: {summary:#}");
        assert!(outcome.out().report("text").contains(setting), "the report names the setting to change");
        // The blanket policy knows no budget.
        let eager = completed(&work, "module_pair", &[(setting, value), ("LAZYGUARD_PRELOAD", "eager")]);
        assert!(number(&eager.out().summary(), "/preload/kernels") > 2, "{setting}={value} holds for eager");
    }
}

/// Each kernel takes longer than what is free at any time.
const SLOWLY: (&str, &str) = ("LGSIM_DELAY", "cuKernelGetFunction=450");
/// Each kernel takes its part of the time for which the gate may be closed.
const NOT_QUITE_SO_SLOWLY: (&str, &str) = ("LGSIM_DELAY", "cuKernelGetFunction=60");
const NO_BUDGET: (&str, &str) = ("LAZYGUARD_PRELOAD_TIME", "60s");

/// A library that turns up after the context was created is loaded at a pace.
#[test]
fn the_share_sets_the_pace_for_what_turns_up_late() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let outcome = completed(
        &work,
        "cold_trigger_occupancy",
        &[("LAZYGUARD_PRELOAD_SHARE", "100%"), NOT_QUITE_SO_SLOWLY, NO_BUDGET],
    );
    let summary = expect_uneventful(&outcome.out());
    assert!(number(&summary, "/preload/kernels") > 2 && number(&summary, "/preload/pending") == 0, "{summary:#}");
    let folder = hung(&work, "cold_trigger_occupancy", &[("LAZYGUARD_PRELOAD_SHARE", "0"), SLOWLY, NO_BUDGET]);
    let preload = &folder.summary()["preload"];
    assert_eq!((number(preload, "/kernels"), number(preload, "/pending")), (1, 1), "{preload:#}");
    assert!(folder.report("text").contains("LAZYGUARD_PRELOAD_SHARE"), "the report names the setting to change");
}

/// Every CUDA runtime in a process retains the primary context for itself; only the first time is the start, also where nothing was
/// pending then.
#[test]
fn a_context_that_is_retained_again_is_no_start() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let settings = [("LAZYGUARD_PRELOAD_SHARE", "0"), SLOWLY, NO_BUDGET];
    let summary = completed(&work, "retains_again", &settings).out().summary();
    assert_eq!((number(&summary, "/preload/kernels"), number(&summary, "/preload/pending")), (1, 4), "{summary:#}");
}

#[test]
fn a_spent_budget_lets_the_hang_happen_and_the_report_names_the_budget() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let folder = hung(&work, "lazy_pair", &[("LAZYGUARD_PRELOAD_KERNELS", "0")]);
    assert_eq!(text(&folder.hang(), "/verdicts/0/code"), "LG201");
    assert!(folder.report("text").contains("the budget of kernels is spent"), "{}", folder.report("text"));
}

#[test]
fn without_the_nudge_runtimes_are_left_alone() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let nudged = completed(&work, "persistent_two_libraries", &[]).out().summary();
    assert_eq!(text(&nudged, "/preload/runtimes/0/answer"), "register_now", "{nudged:#}");
    assert!(number(&nudged, "/preload/runtimes/0/fat_binaries") > 0);
    let folder = hung(&work, "persistent_two_libraries", &[("LAZYGUARD_NUDGE", "0")]);
    assert_eq!(text(&folder.hang(), "/verdicts/0/code"), "LG202");
    assert_eq!(text(&folder.hang(), "/preload/runtimes/0/answer"), "too_many");
    let preload = &folder.summary()["preload"];
    let counts = (number(preload, "/kernels"), number(preload, "/pending"));
    assert_eq!(counts, (1, 1), "a library is loaded at its first use: {preload:#}");
    assert!(folder.report("text").contains("LAZYGUARD_NUDGE"), "the report names the setting to change");
}

#[test]
fn what_is_done_despite_the_users_own_setting_is_said() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let lazy = completed(&work, "persistent_two_libraries", &[("CUDA_MODULE_LOADING", "LAZY")]);
    let summary = lazy.out().summary();
    assert!(text(&summary, "/preload/notes/0").contains("CUDA_MODULE_LOADING=LAZY"), "{summary:#}");
    let eager = completed(&work, "persistent_two_libraries", &[("CUDA_MODULE_LOADING", "EAGER")]);
    let summary = eager.out().summary();
    assert!(skipped(&summary["preload"], "already_eager") > 0, "{summary:#}");
    assert_eq!(number(&summary, "/preload/kernels"), 0, "the driver loads everything itself: {summary:#}");
}

#[test]
fn the_threshold_can_be_never() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for value in ["0", "off"] {
        let running = with(&work, "plain_spin", &[("LAZYGUARD_HANG_AFTER", value)]).start();
        let outcome = running.finish_within(Duration::from_millis(1500));
        assert_eq!((outcome.code, outcome.stderr.as_str()), (None, ""), "{outcome}");
        assert!(!outcome.out().holds("hang.json"));
    }
}

#[test]
fn the_threshold_takes_units() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for (value, nanos) in [("250ms", 250_000_000), ("0.3s", 300_000_000), ("1", 1_000_000_000), ("0.01m", 600_000_000)]
    {
        let mut running = with(&work, "plain_spin", &[("LAZYGUARD_HANG_AFTER", value)]).start();
        let hang = running.until_a_hang_is_reported().hang();
        assert_eq!(number(&hang, "/threshold_nanos"), nanos, "LAZYGUARD_HANG_AFTER={value}");
        assert!(number(&hang, "/blocked/0/blocked_nanos") >= nanos);
    }
}

#[test]
fn the_folder_follows_its_template() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let template = work.path().join("deep/er/%h-%p-%r-%t-%%-%x");
    let started = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_secs();
    let outcome =
        Run::new(&work, app("module_pair")).guarded().set("LAZYGUARD_OUT", &template).set("RANK", "17").finish();
    // An unknown field stays as it was written, and costs one line.
    assert_eq!((outcome.code, outcome.stderr.lines().count()), (Some(0), 1), "{outcome}");
    assert!(outcome.stderr.contains("has %x, which is no field"), "{outcome}");
    let folder = Folder::only_one_in(&work.path().join("deep/er"));
    let name = folder.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned();
    let rest = name.strip_prefix(&format!("{host}-{}-17-", outcome.process)).unwrap_or_else(|| panic!("{name}"));
    let seconds: u64 = rest.strip_suffix("-%-%x").and_then(|s| s.parse().ok()).unwrap_or_else(|| panic!("{name}"));
    assert!((started..started + 60).contains(&seconds), "{name} where the time is {started}");
    assert!(folder.holds("run.json") && folder.holds("log.jsonl"));
}

#[test]
fn processes_that_are_given_one_folder_do_not_write_over_each_other() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let shared = work.path().join("shared");
    let run = || Run::new(&work, app("module_pair")).guarded().set("LAZYGUARD_OUT", &shared).finish();
    let (first, second) = (run(), run());
    let summary = |path: &Path| -> Json {
        let text =
            fs::read_to_string(path.join("run.json")).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}"))
    };
    assert_eq!(summary(&shared)["process"], first.process);
    assert_eq!(summary(&shared.join(second.process.to_string()))["process"], second.process);
}

#[test]
fn the_private_folder_is_private_and_goes_at_a_clean_exit() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let mut running = Run::new(&work, app("slow_but_fine")).guarded().start();
    let temporary = running.temporary();
    let mode = running.until("the private folder", Duration::from_secs(10), |_| {
        let entry = fs::read_dir(&temporary).ok()?.flatten().next()?;
        Some(entry.metadata().ok()?.mode() & 0o7777)
    });
    assert_eq!(mode, 0o700, "{mode:o}");
    let outcome = running.finish_within(Duration::from_secs(60));
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome}");
    assert_eq!(outcome.left_behind(), [""; 0]);
}

#[test]
fn the_private_folder_stays_when_there_is_something_to_report() {
    let work = Work::new(lazyguard_e2e::this_test!());
    // A kernel of four seconds makes no progress for three times this threshold, with room for a busy machine; then it ends, and so does the program.
    let outcome = Run::new(&work, app("slow_but_fine")).guarded().args(["4000"]).hang_after("300ms").finish();
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "slow kernel done\n"), "{outcome}");
    expect_slow(&outcome.stderr);
    expect_a_block(&outcome.stderr);
    let temporary = work.path().join("1/tmp");
    let folder = Folder::only_one_in(&temporary);
    assert_eq!(fs::metadata(folder.path()).map(|m| m.mode() & 0o7777).unwrap_or_default(), 0o700);
    assert!(outcome.stderr.contains(&format!("lazyguard report {}", folder.path().display())), "{outcome}");
    assert_eq!(text(&folder.hang(), "/verdicts/0/code"), "LG299");
    assert_eq!((text(&folder.summary(), "/ended"), number(&folder.summary(), "/hangs")), ("exit", 1));
}

#[test]
fn each_level_of_the_log_holds_what_it_says() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let events = |level| {
        // Cold loads with work in flight, synchronizes and launches: without preloading there is something of everything.
        let outcome = completed(&work, "blocking_async", &[("LAZYGUARD_LOG", level), ("LAZYGUARD_PRELOAD", "off")]);
        let log = if outcome.out().holds("log.jsonl") { outcome.out().log() } else { Vec::new() };
        log.iter().map(|line| text(line, "/event").to_owned()).collect::<BTreeSet<_>>()
    };
    assert_eq!(events("off"), BTreeSet::new());
    assert_eq!(events("hazard"), BTreeSet::from(["hazard".to_owned()]));
    let load = events("load");
    assert!(["hazard", "load"].iter().all(|event| load.contains(*event)), "{load:?}");
    assert!(!load.contains("launch") && !load.contains("synchronize"), "{load:?}");
    let launch = events("launch");
    assert!(launch.contains("launch") && launch.contains("synchronize") && launch.is_superset(&load), "{launch:?}");
}

#[test]
fn the_summary_says_what_was_done_skipped_and_why() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let outcome = completed(&work, "module_pair", &[("LAZYGUARD_SUMMARY", "on"), ("LAZYGUARD_PRELOAD_KERNELS", "1")]);
    let lines: Vec<_> = outcome.stderr.lines().collect();
    assert!(lines.iter().all(|line| line.starts_with("lazyguard: ")), "{outcome}");
    for part in [
        "module_pair (process ",
        " launches, 0 hangs",
        "preload auto: 1 kernel preloaded",
        "the budget of kernels is spent",
    ] {
        assert!(lines.iter().any(|line| line.contains(part)), "the summary does not say {part:?}: {outcome}");
    }
    assert_eq!(completed(&work, "module_pair", &[("LAZYGUARD_SUMMARY", "off")]).stderr, "");
}

#[test]
fn an_unusable_value_is_one_line_and_the_default() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for (setting, value) in [
        ("LAZYGUARD", "perhaps"),
        ("LAZYGUARD_PRELOAD", "sometimes"),
        ("LAZYGUARD_PRELOAD", "library"),
        ("LAZYGUARD_PRELOAD_KERNELS", "-1"),
        ("LAZYGUARD_PRELOAD_TIME", "soon"),
        ("LAZYGUARD_PRELOAD_SHARE", "101"),
        ("LAZYGUARD_PRELOAD_MEMORY", "much"),
        ("LAZYGUARD_PRELOAD_FREE", "101"),
        ("LAZYGUARD_NUDGE", "0.5"),
        ("LAZYGUARD_READY_AFTER", "never"),
        ("LAZYGUARD_HANG_AFTER", "-3 fortnights"),
        ("LAZYGUARD_MAX_LATE", "later"),
        ("LAZYGUARD_ON_HANG", "exit:256"),
        ("LAZYGUARD_ON_STALL", "fail"),
        ("LAZYGUARD_LOG", "everything"),
        ("LAZYGUARD_SCHEDULE", "/no/such/file"),
        ("LAZYGUARD_SUMMARY", "maybe"),
    ] {
        let outcome = completed(&work, "module_pair", &[(setting, value)]);
        assert_eq!(outcome.stdout, "module pair ok\n", "{outcome}");
        let lines: Vec<_> = outcome.stderr.lines().collect();
        assert_eq!(lines.len(), 1, "{setting}={value}: {outcome}");
        assert!(
            lines[0].starts_with("lazyguard: ") && lines[0].contains(setting) && lines[0].contains(value),
            "{}",
            lines[0]
        );
        let summary = expect_uneventful(&outcome.out());
        assert_eq!(text(&summary, "/preload/policy"), "auto", "{setting}={value}");
        assert!(number(&summary, "/preload/kernels") > 2, "{setting}={value}: {summary:#}");
    }
}

#[test]
fn an_unknown_setting_is_one_line_that_names_the_known_ones() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let outcome = completed(&work, "module_pair", &[("LAZYGUARD_PRELAOD", "off")]);
    let lines: Vec<_> = outcome.stderr.lines().collect();
    assert!(lines.len() == 1 && lines[0].contains("LAZYGUARD_PRELAOD"), "{outcome}");
    assert!(TESTED.iter().all(|known| lines[0].contains(known)), "{}", lines[0]);
    expect_uneventful(&outcome.out());
}
