//! CUDA runtime instances that are too large for all their kernels to be loaded: what of them is loaded, and when.

use lazyguard_e2e::{app, Folder, Outcome, Run, Work};

/// How a program shows that work may wait behind other work, and the call by which it does.
const SIGNS: [(&str, &str); 7] = [
    ("communicator", "ncclCommInitRank"),
    ("communicators", "ncclCommInitAll"),
    ("wait", "cuStreamWaitValue32_v2"),
    ("batch", "cuStreamBatchMemOp_v2"),
    ("cooperative", "cuLaunchCooperativeKernel"),
    ("launch_ex", "cuLaunchKernelEx"),
    ("elsewhere", "cuStreamWaitValue32_v2"),
];

/// Every instance is large.
fn large<'w>(work: &'w Work, sign: &str, preload: &str) -> Run<'w> {
    let run = Run::new(work, app("shows_danger")).args([sign]).guarded().kept();
    run.set("LAZYGUARD_NUDGE", "0").set("LAZYGUARD_PRELOAD", preload)
}

fn completed(work: &Work, sign: &str, preload: &str) -> Outcome {
    let outcome = large(work, sign, preload).finish();
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{sign} {preload}: {outcome}");
    assert_eq!(outcome.stdout, "one-time kernel wrote 42\n", "{sign} {preload}: {outcome}");
    outcome
}

fn hung(work: &Work, sign: &str, preload: &str, code: &str) -> Folder {
    let mut running = large(work, sign, preload).hang_after("300ms").start();
    let folder = running.until_a_hang_is_reported();
    assert_eq!(folder.hang()["verdicts"][0]["code"], code, "{sign} {preload}");
    folder
}

/// The call that showed danger, what was not registered then, and the libraries whose modules were loaded.
fn account(folder: &Folder) -> (Option<String>, Option<u64>, Option<u64>) {
    let preload = &folder.summary()["preload"];
    let danger = &preload["danger"];
    let call = danger["call"].as_str().map(str::to_owned);
    (call, danger["unregistered"].as_u64(), preload["library_modules"].as_u64())
}

#[test]
fn what_would_have_been_loaded_stands_in_the_account() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for (sign, call) in [SIGNS[0], SIGNS[2]] {
        let folder = hung(&work, sign, "auto", "LG202");
        assert_eq!(account(&folder), (Some(call.to_owned()), Some(2), Some(0)));
        let report = folder.report("text");
        let says = format!("from {call} at +0.");
        assert!(report.contains(&says) && report.contains("2 fat binaries were not registered then"), "{report}");
        assert!(report.contains("LAZYGUARD_PRELOAD=auto,danger=modules"), "{report}");
    }
    assert_eq!(account(&hung(&work, "nothing", "auto", "LG202")), (None, None, Some(0)));
}

#[test]
fn everything_is_loaded_at_the_first_sign_of_danger_and_the_program_completes() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for (sign, call) in SIGNS {
        let outcome = completed(&work, sign, "auto,danger=eager");
        assert_eq!(account(&outcome.out()), (Some(call.to_owned()), Some(0), Some(0)), "{outcome}");
    }
    hung(&work, "nothing", "auto,danger=eager", "LG202");
}

/// The load of a kernel puts a barrier on the device, but it blocks no thread.
#[test]
fn the_modules_alone_end_the_loads_that_block_the_context() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let folder = hung(&work, "wait", "auto,danger=modules", "LG201");
    assert_eq!(account(&folder), (Some("cuStreamWaitValue32_v2".to_owned()), Some(0), Some(2)));
    assert!(folder.report("text").contains("the modules of 2 libraries loaded without the kernels, in "));
    assert_eq!(account(&hung(&work, "nothing", "modules", "LG201")), (None, None, Some(2)), "at the start");
}

/// Of the library that the program uses first the kernels are loaded then, as without the setting.
#[test]
fn a_library_of_a_large_instance_is_loaded_at_its_first_use() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for preload in ["auto", "auto,danger=modules", "modules"] {
        let folder = hung(&work, "nothing", preload, if preload == "modules" { "LG201" } else { "LG202" });
        let preload = &folder.summary()["preload"];
        assert_eq!((preload["kernels"].as_u64(), preload["pending"].as_u64()), (Some(1), Some(1)), "{preload:#}");
    }
}

#[test]
fn of_a_small_instance_everything_is_loaded_under_each_of_these_policies() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for preload in ["auto", "modules", "auto,danger=modules"] {
        let run = Run::new(&work, app("shows_danger")).args(["wait"]).guarded().kept();
        let outcome = run.set("LAZYGUARD_PRELOAD", preload).finish();
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{preload}: {outcome}");
        assert_eq!(account(&outcome.out()), (None, None, Some(0)), "{preload}: {outcome}");
    }
}
