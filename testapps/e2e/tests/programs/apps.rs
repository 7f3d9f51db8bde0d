//! Runs every driver-API program on the simulated driver, and defines each question about it.

use crate::{ask, questions, Question};
use lazyguard_e2e::{calls, expect_a_block, expect_uneventful, number, run, text, App, Json, Outcome, Running, Work};
use libtest_mimic::Trial;
use std::fs;
use std::time::Duration;

/// A program that completes does so in a fraction of this; one that is still there hangs.
const HANGS: Duration = Duration::from_secs(2);
const POLICIES: [&str; 4] = ["off", "resolve", "auto", "eager"];

/// Calls that the guard makes on its own behalf even without preloading, beside the program's: once, when it is armed; to
/// know which context a call is about; and, at a load on first use, to know what is in flight.
const OWN_CALLS: [&str; 11] = [
    "cuDriverGetVersion",
    "cuModuleGetLoadingMode",
    "cuCtxGetCurrent",
    "cuFuncIsLoaded",
    "cuFuncGetAttribute",
    "cuKernelGetAttribute",
    "cuDeviceGetAttribute",
    "cuPointerGetAttribute",
    "cuStreamQuery",
    "cuStreamIsCapturing",
    "cuThreadExchangeStreamCaptureMode",
];

pub(crate) fn trials() -> Vec<Trial> {
    lazyguard_e2e::apps().iter().flat_map(|app| ask("apps", &app.name, questions_of(app))).collect()
}

fn questions_of(app: &App) -> &'static [Question] {
    match (app.hangs_bare(), app.hangs_guarded()) {
        (false, _) => questions![
            bare_it_completes,
            guarded_it_prints_the_same_under_every_policy,
            every_call_reaches_the_driver_once,
        ],
        (true, false) => questions![
            bare_it_hangs,
            guarded_it_completes,
            switched_off_it_hangs_in_silence,
            without_preloading_it_hangs_and_is_diagnosed,
        ],
        (true, true) => {
            questions![bare_it_hangs, guarded_it_hangs_and_is_diagnosed, without_preloading_it_hangs_and_is_diagnosed,]
        }
    }
}

fn expect_completed(app: &App, outcome: &Outcome) {
    assert_eq!(outcome.code, Some(0), "it should complete: {outcome}");
    let expected = app.expected_output().unwrap_or_else(|| panic!("{} has no expected output", app.name));
    if app.unordered() {
        let mut lines: Vec<_> = expected.lines().collect();
        lines.sort_unstable();
        assert_eq!(outcome.sorted_stdout(), lines, "the output is not as listed: {outcome}");
    } else {
        assert_eq!(outcome.stdout, expected, "the output is not as listed: {outcome}");
    }
    assert_eq!(outcome.stderr, "", "nothing belongs on standard error: {outcome}");
}

fn bare_it_completes(test: &str, name: &str) {
    let (work, app) = (Work::new(test), App::named(name));
    expect_completed(&app, &run(&work, &app).finish());
}

fn bare_it_hangs(test: &str, name: &str) {
    let (work, app) = (Work::new(test), App::named(name));
    let outcome = run(&work, &app).start().finish_within(HANGS);
    assert_eq!(outcome.code, None, "it should hang: {outcome}");
    assert_eq!(outcome.stderr, "", "nothing belongs on standard error: {outcome}");
}

/// The default settings, as a user has them: nothing but the preloaded library.
fn expect_the_default_guard_leaves_no_trace(work: &Work, app: &App) {
    let outcome = run(work, app).guarded().finish();
    expect_completed(app, &outcome);
    assert_eq!(outcome.left_behind(), [""; 0], "files were left in TMPDIR");
}

fn expect_completes_under(work: &Work, app: &App, policy: &str) {
    let outcome = run(work, app).guarded().kept().set("LAZYGUARD_PRELOAD", policy).finish();
    expect_completed(app, &outcome);
    let summary = expect_uneventful(&outcome.out());
    assert_eq!(text(&summary, "/preload/policy"), policy);
    if let Some(launches) = app.entry["launches"].as_u64() {
        assert_eq!(number(&summary, "/launches"), launches, "launches went past the guard: {summary:#}");
    }
    assert_eq!(outcome.left_behind(), [""; 0], "files were left in TMPDIR");
}

fn guarded_it_completes(test: &str, name: &str) {
    let (work, app) = (Work::new(test), App::named(name));
    expect_the_default_guard_leaves_no_trace(&work, &app);
    expect_completes_under(&work, &app, "auto");
    expect_completes_under(&work, &app, "eager");
}

fn guarded_it_prints_the_same_under_every_policy(test: &str, name: &str) {
    let (work, app) = (Work::new(test), App::named(name));
    expect_the_default_guard_leaves_no_trace(&work, &app);
    for policy in POLICIES {
        expect_completes_under(&work, &app, policy);
    }
}

fn switched_off_it_hangs_in_silence(test: &str, name: &str) {
    let (work, app) = (Work::new(test), App::named(name));
    let running = run(&work, &app).guarded().kept().hang_after("300ms").set("LAZYGUARD", "off").start();
    let outcome = running.finish_within(HANGS);
    assert_eq!(outcome.code, None, "it should hang: {outcome}");
    assert_eq!(outcome.stderr, "", "the guard is switched off: {outcome}");
    assert!(
        !outcome.out().exists() && outcome.left_behind().is_empty(),
        "the guard is switched off, and there are files"
    );
}

fn guarded_it_hangs_and_is_diagnosed(test: &str, name: &str) {
    let (work, app) = (Work::new(test), App::named(name));
    expect_diagnosed(&app, run(&work, &app).guarded().kept().hang_after("500ms").start());
}

fn without_preloading_it_hangs_and_is_diagnosed(test: &str, name: &str) {
    let (work, app) = (Work::new(test), App::named(name));
    let off = run(&work, &app).guarded().kept().hang_after("500ms").set("LAZYGUARD_PRELOAD", "off");
    expect_diagnosed(&app, off.start());
}

/// Waits for the verdict, then compares it in every form it comes in.
fn expect_diagnosed(app: &App, mut running: Running) {
    let folder = running.until_a_hang_is_reported();
    assert!(running.runs(), "it ended, so it was no hang: {}", running.stderr());
    let (code, said) = (app.expected_code(), running.stderr());
    let block = expect_a_block(&said);
    assert!(block[1].starts_with(&format!("lazyguard: {code} (")), "the first verdict should be {code}:\n{said}");
    assert!(block.iter().any(|line| line.starts_with("lazyguard:   fix: ")), "no fix is given:\n{said}");

    let hang = folder.hang();
    assert_eq!(text(&hang, "/verdicts/0/code"), code, "{hang:#}");
    assert_eq!(number(&hang, "/process"), u64::from(running.process()));
    expect_the_blocked_threads_are_threads_of(&hang, running.process());

    let reported: Json =
        serde_json::from_str(&folder.report("json")).unwrap_or_else(|error| panic!("the report: {error}"));
    // When it is due to be acted upon is added a moment later.
    let told = |hang: &Json| {
        let mut hang = hang.clone();
        hang.as_object_mut().map(|hang| hang.remove("acts"));
        hang
    };
    assert_eq!(told(&reported["hang"]), told(&hang), "the command reports another hang than the file holds");
    assert_eq!(text(&reported, "/run/ended"), "running");
    assert_eq!(number(&reported, "/run/hangs"), 1);
    assert!(folder.report("text").contains(&format!("{code} (")), "{}", folder.report("text"));
    expect_explained(code);
}

fn expect_the_blocked_threads_are_threads_of(hang: &Json, process: u32) {
    let blocked = hang["blocked"].as_array().map_or(&[][..], Vec::as_slice);
    assert!(!blocked.is_empty(), "no blocked call is named: {hang:#}");
    for call in blocked {
        let thread = number(call, "/thread");
        let comm = fs::read_to_string(format!("/proc/{process}/task/{thread}/comm"));
        let comm = comm.unwrap_or_else(|error| panic!("{thread} is no thread of the program: {error}"));
        assert_eq!(text(call, "/thread_name"), comm.trim_end());
    }
}

fn expect_explained(code: &str) {
    let output = std::process::Command::new(lazyguard_e2e::command()).args(["explain", code]).output();
    let output = output.unwrap_or_else(|error| panic!("lazyguard explain: {error}"));
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.starts_with(&format!("{code}: ")), "lazyguard explain {code}: {said}");
}

fn every_call_reaches_the_driver_once(test: &str, name: &str) {
    let (work, app) = (Work::new(test), App::named(name));
    let log = |of: &str| work.path().join(format!("calls-{of}"));
    run(&work, &app).set("LGSIM_CALL_LOG", log("bare")).finish();
    run(&work, &app).guarded().set("LAZYGUARD_PRELOAD", "off").set("LGSIM_CALL_LOG", log("guarded")).finish();
    let (bare, guarded) = (calls(&log("bare")), calls(&log("guarded")));
    assert!(bare.len() > 3, "hardly a call was logged: {bare:?}");
    for symbol in bare.keys().chain(guarded.keys()) {
        let [bare, guarded] = [&bare, &guarded].map(|counts| counts.get(symbol).copied().unwrap_or(0));
        if OWN_CALLS.contains(&symbol.as_str()) {
            assert!(guarded >= bare, "{symbol}: {bare} calls bare, {guarded} guarded: some did not reach the driver");
        } else {
            assert_eq!(guarded, bare, "{symbol}: so many calls reached the driver guarded, and so many bare");
        }
    }
}
