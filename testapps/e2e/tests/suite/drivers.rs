//! Drivers other than the one this was built with: older, newer, failing.

use lazyguard_e2e::{
    app, apps, calls, driver_folder, expect_uneventful, hostile_program, number, run, text, App, Json, Outcome, Run,
    Work,
};
use std::time::Duration;

const HANGS: Duration = Duration::from_secs(2);

/// A driver that is played, by the environment.
type Driver = [(&'static str, &'static str)];

const NEWER: &Driver = &[("LGSIM_DRIVER_VERSION", "99000")];
const BEFORE_ENUMERATION: &Driver = &[("LGSIM_DRIVER_VERSION", "12000"), ("CUDA_MODULE_LOADING", "LAZY")];
const BEFORE_LIBRARIES: &Driver = &[("LGSIM_DRIVER_VERSION", "11070"), ("CUDA_MODULE_LOADING", "LAZY")];
const EAGER_BY_DEFAULT: &Driver = &[("LGSIM_DRIVER_VERSION", "12000")];
const PRIVATE_POINTERS: &Driver = &[("LGSIM_PRIVATE_POINTERS", "1")];
const UNKNOWN_SYMBOL: &Driver = &[("LGSIM_UNKNOWN_SYMBOL", "1")];

/// Older drivers lack the exports as well: there is a library for each version, without what came later.
fn on<'w>(work: &'w Work, app: &App, driver: &Driver) -> Run<'w> {
    let run = driver.iter().fold(run(work, app), |run, (name, value)| run.set(name, value));
    let version = driver
        .iter()
        .find(|(name, _)| *name == "LGSIM_DRIVER_VERSION")
        .map(|(_, version)| driver_folder().join(version));
    match version.filter(|folder| folder.is_dir()) {
        Some(folder) => run.set("LD_LIBRARY_PATH", folder),
        None => run,
    }
}

#[test]
fn each_older_driver_has_a_library_of_its_own() {
    for driver in [BEFORE_ENUMERATION, BEFORE_LIBRARIES] {
        let library = driver_folder().join(driver[0].1).join("libcuda.so.1");
        assert!(library.is_file(), "{} is not there; scripts/build makes it", library.display());
    }
}

/// A program under the guard and without, on one driver: what completes bare must complete guarded, with the same output,
/// and nothing may crash. A program that is linked to a function which the driver lacks cannot even be started bare; the
/// guard has an export of that name, so it starts and is told that there is no such function. Answers what the guarded run came to.
fn compare(work: &Work, app: &App, driver: &Driver) -> Outcome {
    let bare = on(work, app, driver).start().finish_within(HANGS);
    let guarded = on(work, app, driver).guarded().kept().start();
    let limit = if bare.code.is_some() { Duration::from_secs(60) } else { HANGS };
    let guarded = guarded.finish_within(limit);
    if bare.stderr.contains("symbol lookup error") {
        assert!(guarded.code.is_some_and(|code| code > 0), "{driver:?}: {guarded}\nwhere bare: {bare}");
    } else if bare.code.is_some() {
        assert_eq!(guarded.code, bare.code, "{driver:?}: {guarded}\nwhere bare: {bare}");
        assert_eq!(guarded.stderr, bare.stderr, "{driver:?}: {guarded}\nwhere bare: {bare}");
        assert_eq!(guarded.sorted_stdout(), bare.sorted_stdout(), "{driver:?}: {guarded}\nwhere bare: {bare}");
    } else {
        assert!(
            guarded.code.is_none_or(|code| code == 0),
            "{driver:?}: it hangs bare, and guarded it fails: {guarded}"
        );
    }
    guarded
}

fn every_program_that_completes_bare_completes_guarded(test: &str, driver: &Driver) {
    let work = Work::new(test);
    for app in apps().iter().filter(|app| !app.hangs_bare() && app.name != "slow_but_fine") {
        let outcome = compare(&work, app, driver);
        if outcome.code == Some(0) && outcome.out().exists() {
            expect_uneventful(&outcome.out());
        }
    }
}

#[test]
fn programs_that_complete_do_so_on_a_newer_driver() {
    every_program_that_completes_bare_completes_guarded(lazyguard_e2e::this_test!(), NEWER);
}

#[test]
fn programs_that_complete_do_so_on_a_driver_before_12_4() {
    every_program_that_completes_bare_completes_guarded(lazyguard_e2e::this_test!(), BEFORE_ENUMERATION);
}

#[test]
fn programs_that_complete_do_so_on_a_driver_before_12_0() {
    every_program_that_completes_bare_completes_guarded(lazyguard_e2e::this_test!(), BEFORE_LIBRARIES);
}

#[test]
fn programs_that_complete_do_so_where_looked_up_pointers_are_not_the_exported_ones() {
    every_program_that_completes_bare_completes_guarded(lazyguard_e2e::this_test!(), PRIVATE_POINTERS);
}

fn expect_guarded_completes(work: &Work, names: &[&str], driver: &Driver) -> Vec<Json> {
    let run_one = |name: &&str| {
        let app = App::named(name);
        let outcome = on(work, &app, driver).guarded().kept().finish();
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{name} on {driver:?}: {outcome}");
        outcome.out().summary()
    };
    names.iter().map(run_one).collect()
}

const REPORTED: [&str; 4] = ["lazy_pair", "persistent_one_time", "persistent_two_libraries", "value_fence"];

#[test]
fn the_seeds_complete_on_a_newer_driver() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for summary in expect_guarded_completes(&work, &REPORTED, NEWER) {
        assert_eq!(number(&summary, "/driver_version"), 99000);
        assert!(number(&summary, "/preload/kernels") > 0, "{summary:#}");
    }
}

#[test]
fn the_seeds_complete_where_looked_up_pointers_are_not_the_exported_ones() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for summary in expect_guarded_completes(&work, &REPORTED, PRIVATE_POINTERS) {
        assert!(number(&summary, "/launches") > 0, "the launches went past the guard: {summary:#}");
    }
}

/// Before 12.4 a library's kernels cannot be listed. What the program has got hold of is loaded all the same, and what
/// that leaves out is said.
#[test]
fn before_12_4_kernels_are_loaded_as_they_are_got() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for app in apps().iter().filter(|app| app.program() == "cold_trigger") {
        let outcome = on(&work, app, BEFORE_ENUMERATION).guarded().kept().finish();
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome}");
        assert_eq!(Some(outcome.stdout.as_str()), app.expected_output());
        let summary = outcome.out().summary();
        assert_eq!(
            (number(&summary, "/driver_version"), number(&summary, "/preload/kernels")),
            (12000, 2),
            "{summary:#}"
        );
        expect_skip(&summary, "cannot_enumerate");
    }
}

/// The runtime gets a kernel when it is first launched, which is too late. The report of the hang says why it happened.
#[test]
fn before_12_4_a_kernel_that_is_got_too_late_hangs_and_the_report_says_why() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let app = App::named("lazy_pair");
    let mut running = on(&work, &app, BEFORE_ENUMERATION).guarded().kept().hang_after("300ms").start();
    let folder = running.until_a_hang_is_reported();
    assert_eq!(text(&folder.hang(), "/verdicts/0/code"), "LG201");
    expect_skip(&folder.summary(), "cannot_enumerate");
    assert!(running.stderr().contains("the driver cannot list kernels (before 12.4)"), "{}", running.stderr());
}

fn expect_skip(summary: &Json, reason: &str) {
    let skips = summary["preload"]["skipped"].as_array().map_or(&[][..], Vec::as_slice);
    assert!(skips.iter().any(|skip| skip["reason"] == reason), "the summary does not say {reason}: {summary:#}");
}

#[test]
fn seeds_complete_on_a_driver_without_libraries() {
    let work = Work::new(lazyguard_e2e::this_test!());
    // Without libraries the runtime loads modules, and getting a module's function loads it: what hangs there hangs
    // otherwise or not at all, and the guard makes nothing worse.
    for name in REPORTED {
        let outcome = compare(&work, &App::named(name), BEFORE_LIBRARIES);
        let text = outcome.stderr.clone();
        assert!(!text.contains("panicked"), "{outcome}");
    }
}

#[test]
fn a_hang_on_an_old_driver_is_diagnosed() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for (name, driver) in
        [("lazy_pair", BEFORE_ENUMERATION), ("module_persistent_load", BEFORE_LIBRARIES), ("plain_spin", NEWER)]
    {
        let app = App::named(name);
        let off = on(&work, &app, driver).guarded().kept().set("LAZYGUARD_PRELOAD", "off").hang_after("300ms");
        let mut running = off.start();
        let hang = running.until_a_hang_is_reported().hang();
        assert_eq!(text(&hang, "/verdicts/0/code"), app.expected_code(), "{name} on {driver:?}");
    }
}

#[test]
fn a_driver_that_loads_eagerly_by_default_is_left_to_it() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for summary in expect_guarded_completes(&work, &REPORTED, EAGER_BY_DEFAULT) {
        assert_eq!(number(&summary, "/preload/kernels"), 0, "{summary:#}");
        expect_skip(&summary, "already_eager");
    }
}

#[test]
fn a_function_of_a_future_driver_passes_untouched() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let program = hostile_program("trap05_get_proc_address");
    let run = || UNKNOWN_SYMBOL.iter().fold(Run::new(&work, &program), |run, (name, value)| run.set(name, value));
    let (bare, guarded) = (run().finish(), run().guarded().finish());
    guarded.expect_same_as(&bare);
    assert!(bare.stdout.contains("cuLgFutureCall"), "the program does not ask for it: {bare}");
}

/// Integers that no header of ours knows reach the program as they are, also from calls that the guard follows.
#[test]
fn unknown_results_pass_through() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for failing in [
        "cuLaunchKernel",
        "cuLibraryLoadData",
        "cuStreamSynchronize",
        "cuStreamCreate",
        "cuLibraryGetKernel",
        "cuMemAlloc_v2",
    ] {
        for result in ["9999", "-5", "2"] {
            let run = || Run::new(&work, app("route_direct_link")).set("LGSIM_FAIL", format!("{failing}={result}"));
            let (bare, guarded) = (run().finish(), run().guarded().finish());
            guarded.expect_same_as(&bare);
        }
    }
}

/// The guard's own calls fail as well when the driver is in a bad state: the program must not notice.
#[test]
fn own_calls_that_fail_change_nothing() {
    let work = Work::new(lazyguard_e2e::this_test!());
    const OWN: [&str; 10] = [
        "cuDriverGetVersion",
        "cuModuleGetLoadingMode",
        "cuCtxRecordEvent",
        "cuEventQuery",
        "cuEventCreate",
        "cuLibraryGetKernelCount",
        "cuLibraryEnumerateKernels",
        "cuKernelGetFunction",
        "cuMemGetInfo_v2",
        "cuFuncIsLoaded",
    ];
    for failing in OWN {
        for result in ["999", "9999"] {
            let run = || Run::new(&work, hostile_program("plain_job")).set("LGSIM_FAIL", format!("{failing}={result}"));
            let (bare, guarded) = (run().finish(), run().guarded().kept().finish());
            guarded.expect_same_as(&bare);
            assert!(guarded.out().summary()["lost"].as_array().is_some(), "no summary");
        }
    }
}

/// A call that never returns blocks its caller and nobody else, and the guard reports nothing that it does not know.
#[test]
fn a_call_that_never_returns_is_not_called_twice() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let log = work.path().join("calls");
    let never = Run::new(&work, app("route_direct_link")).guarded().kept().hang_after("200ms");
    let outcome = never.set("LGSIM_NEVER_RETURN", "cuStreamSynchronize,cuCtxSynchronize").set("LGSIM_CALL_LOG", &log);
    let outcome = outcome.start().finish_within(HANGS);
    assert_eq!(outcome.code, None, "{outcome}");
    let calls = calls(&log);
    let blocked: usize = ["cuStreamSynchronize", "cuCtxSynchronize"].iter().filter_map(|call| calls.get(*call)).sum();
    assert_eq!(blocked, 1, "{calls:?}");
}
