//! `lazyguard run` of programs that use CUDA without the guard, or that record nothing.

use crate::run_passes_on::under;
use lazyguard_e2e::{app, command, driver, text, Json, Outcome, Work};
use std::fs;
use std::process::Command;

const FAIL: [&str; 2] = ["--fail-on", "unguarded"];

/// A Python program that has loaded the driver for a while.
const LOADS: &str = "import ctypes, os, sys, time\ncuda = ctypes.CDLL('libcuda.so.1')\n";

/// The code, and the lines on standard error with a star for each number.
fn said(outcome: &Outcome) -> (Option<i32>, Vec<String>) {
    let number = |word: &str| if word.parse::<u32>().is_ok() { "*".to_owned() } else { word.to_owned() };
    let line = |line: &str| line.split(' ').map(number).collect::<Vec<_>>().join(" ");
    (outcome.code, outcome.stderr.lines().map(line).collect())
}

#[test]
fn a_program_without_cuda_is_quiet_and_fails_only_where_that_is_asked_for() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let lines = |options: &[&str], program: &str| said(&under(&work, options, &["sh", "-c", program]).finish());
    assert_eq!(lines(&[], "sleep 0.5"), (Some(0), vec![]));
    assert_eq!(lines(&["--fail-on", "hang,hazard"], "sleep 0.5"), (Some(0), vec![]));
    let line = "lazyguard: nothing was recorded: no process of the run initialised CUDA under the guard; this fails the run, as \
                --fail-on unguarded says";
    assert_eq!(lines(&FAIL, "sleep 0.5"), (Some(119), vec![line.to_owned()]));
    assert_eq!(lines(&FAIL, "exit 7"), (Some(7), vec![line.to_owned()]), "the program's own failure comes first");
    let cuda = app("lazy_pair_single_kernel").display().to_string();
    assert_eq!(lines(&FAIL, &format!("'{cuda}' >/dev/null; true")), (Some(0), vec![]));
}

#[test]
fn a_process_that_has_loaded_the_driver_without_the_guard_is_named() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let (junit, json) = (work.path().join("found.xml"), work.path().join("found.json"));
    let program = format!("{LOADS}time.sleep(1)");
    let clears = ["env", "-u", "LD_PRELOAD", "python3", "-c", &program];
    let line = "lazyguard: process * (python3) loaded the CUDA driver without the guard: nothing is known of what happened there";
    assert_eq!(said(&under(&work, &[], &clears).finish()), (Some(0), vec![line.to_owned()]));
    let files = ["--junit", &junit.to_string_lossy(), "--json", &json.to_string_lossy()];
    let outcome = under(&work, &[&FAIL[..], &files].concat(), &clears).finish();
    let line = format!("{line}; this fails the run, as --fail-on unguarded says");
    assert_eq!(said(&outcome), (Some(119), vec![line]));
    let found: Json = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    assert_eq!((text(&found, "/failed"), found["run"]["exit_code"].as_u64()), ("unguarded", Some(119)), "{found:#}");
    assert!(text(&found, "/run/unguarded").contains("without the guard"), "{found:#}");
    let junit = fs::read_to_string(&junit).unwrap();
    assert!(junit.contains("<failure") && junit.contains("type=\"unguarded\""), "{junit}");
    // Beside one that is recorded.
    let cuda = app("lazy_pair_single_kernel").display().to_string();
    let both = format!("'{cuda}' >/dev/null; exec env -i \"$@\"");
    let library = format!("LD_LIBRARY_PATH={}", driver().parent().unwrap().display());
    let words = ["sh", "-c", &both, "sh", &library, "/usr/bin/env", "python3", "-c", &program];
    let outcome = under(&work, &FAIL, &words).finish();
    assert_eq!(outcome.code, Some(119), "{outcome}");
}

/// Its folder is on a disk, so its recording is in memory, and `_exit` loses it.
#[test]
fn a_process_that_leaves_by_underscore_exit_was_guarded() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let program = format!(
        "{LOADS}time.sleep(1)\ncuda.cuInit(0)\ncontext = ctypes.c_void_p()\n\
         cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)\ncuda.cuCtxSetCurrent(context)\n\
         cuda.cuCtxSynchronize()\nos._exit(0)"
    );
    assert_eq!(said(&under(&work, &[], &["python3", "-c", &program]).finish()), (Some(0), vec![]));
}

#[test]
fn a_process_that_has_loaded_the_driver_and_has_not_initialised_it_is_told_of_where_nothing_is_recorded() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let idle = format!("{LOADS}time.sleep(1)");
    let line = "lazyguard: nothing was recorded, although process * (python3) loaded the CUDA driver: CUDA was not initialised, or not \
                under the guard";
    let lines = |options: &[&str], words: &[&str]| said(&under(&work, options, words).finish());
    assert_eq!(lines(&[], &["python3", "-c", &idle]), (Some(0), vec![line.to_owned()]));
    assert_eq!(lines(&["--guard", "off"], &["python3", "-c", &idle]), (Some(0), vec![]), "it was switched off");
    // A forked child of a process that is recorded has loaded the driver, and not initialised it.
    let forks = format!("{LOADS}assert cuda.cuInit(0) == 0\nif os.fork() == 0: time.sleep(1)\nelse: os.wait()");
    assert_eq!(lines(&FAIL, &["python3", "-c", &forks]), (Some(0), vec![]));
    // A run with another folder has what it records there.
    let out = work.path().join("own").display().to_string();
    let lazyguard = command().display().to_string();
    let inner = [&lazyguard, "run", "--out", &out, "--", "python3", "-c", &forks];
    assert_eq!(lines(&[], &inner), (Some(0), vec![]));
    // Too short for a look at it, and its file says enough.
    let program = work.path().join("linked").display().to_string();
    let source = work.path().join("linked.cpp").display().to_string();
    fs::write(&source, "int main() {}").unwrap();
    let driver = driver().display().to_string();
    let compiled = Command::new("c++").args([&source, "-o", &program, "-Wl,--no-as-needed", &driver]).status();
    assert!(compiled.is_ok_and(|status| status.success()), "no program that needs {driver}");
    let line = format!("lazyguard: nothing was recorded, although {program} is built for CUDA: CUDA was not initialised, or not under the guard");
    assert_eq!(lines(&[], &[&program]), (Some(0), vec![line]));
}
