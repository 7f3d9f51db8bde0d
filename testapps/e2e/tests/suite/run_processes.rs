//! How each process of a run ended. `lazyguard run` knows the end of a process that it has reaped or ended itself. It never reports as
//! well a process that a signal or the command ended, or one with an unknown end.

use crate::run_passes_on::under;
use lazyguard_e2e::{app, command, only_run_in, root, text, Json, Outcome, Work};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A guarded process that comes to the end that `how` says, in Python.
fn ends(how: &str) -> String {
    format!("python3 -c 'import ctypes, os, signal, time; ctypes.CDLL(\"libcuda.so.1\").cuInit(0); {how}'")
}

const SEGFAULT: &str = "os.kill(os.getpid(), signal.SIGSEGV)";

struct Ran {
    outcome: Outcome,
    out: PathBuf,
    json: Json,
    junit: String,
    sarif: Json,
}

impl Ran {
    fn new(work: &Work, options: &[&str], script: &str) -> Self {
        let name = |name: &str| work.path().join(name).to_string_lossy().into_owned();
        let [out, json, junit, sarif] = ["out", "found.json", "found.xml", "found.sarif"].map(name);
        let files = ["--result", "--out", &out, "--json", &json, "--junit", &junit, "--sarif", &sarif];
        // Written by the one before.
        let _ = fs::remove_dir_all(&out);
        let run = under(work, &[&files[..], options].concat(), &["sh", "-c", script]);
        let outcome = run.start().finish_within(lazyguard_e2e::PATIENCE);
        let read = |path: &str| fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}: {outcome}"));
        let parsed = |path: &str| serde_json::from_str(&read(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
        let check = Command::new("python3").arg(root().join("scripts/check-schema")).args([&sarif, &junit]).output();
        let check = check.unwrap_or_else(|error| panic!("check-schema: {error}"));
        assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stdout));
        let (junit, json, sarif) = (read(&junit), parsed(&json), parsed(&sarif));
        Self { out: only_run_in(Path::new(&out)), junit, json, sarif, outcome }
    }

    fn reported(&self, folder: &Path) -> String {
        let output = Command::new(command()).arg("report").arg(folder).output();
        String::from_utf8_lossy(&output.unwrap_or_else(|error| panic!("{error}")).stdout).into_owned()
    }

    /// Every form says this of the run's one process.
    fn expect(&self, status: &str, ended: &str) {
        let process = &self.json["processes"][0];
        assert_eq!(self.json["processes"].as_array().map(Vec::len), Some(1), "{}", self.outcome);
        assert_eq!((text(process, "/status"), text(process, "/ended")), (status, ended), "{}", self.outcome);
        let of_sarif = &self.sarif["runs"][0]["invocations"][0]["properties"]["processes"][0];
        assert_eq!((text(of_sarif, "/status"), text(of_sarif, "/ended")), (status, ended), "{of_sarif:#}");
        let report = self.reported(&self.out);
        let line = report.lines().find(|line| line.contains("rank0-")).unwrap_or_default();
        assert!(line.starts_with(&format!("  {status:<9} ")) && line.contains(ended), "{report}");
        let folder = self.out.join(text(process, "/folder"));
        let one = self.reported(&folder);
        assert!(one.contains(ended), "{one}");
    }
}

#[test]
fn a_segfault_of_the_program_is_told_by_its_signal() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let ran = Ran::new(&work, &[], &format!("exec {}", ends(SEGFAULT)));
    assert_eq!(ran.outcome.code, Some(139), "{}", ran.outcome);
    ran.expect("signalled", "was ended by signal 11 (SIGSEGV)");
    assert!(ran.outcome.stderr.contains(", 1 ended by a signal, "), "{}", ran.outcome);
    let failed = "<failure message=\"was ended by signal 11 (SIGSEGV)\" type=\"signal\"";
    assert!(ran.junit.contains(failed), "{}", ran.junit);
    let process = &ran.json["processes"][0];
    assert_eq!((process["signal"].as_i64(), process["ended_by_run"].as_bool()), (Some(11), Some(false)), "{process:#}");
}

/// A daemon's end is known, for this command is its parent by then, and the program passes.
#[test]
fn a_segfault_of_an_orphan_is_told_and_does_not_change_the_exit_code() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let script = format!("({} &) ; sleep 2", ends(&format!("time.sleep(0.5); {SEGFAULT}")));
    let ran = Ran::new(&work, &["--fail-on", "hang"], &script);
    assert_eq!(ran.outcome.code, Some(0), "{}", ran.outcome);
    ran.expect("signalled", "was ended by signal 11 (SIGSEGV)");
}

/// The kernel informs the process's parent alone.
#[test]
fn of_a_segfault_that_a_parent_of_its_own_was_told_of_it_is_said_that_it_is_not_known() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let ran = Ran::new(&work, &[], &format!("{}; true", ends(SEGFAULT)));
    assert_eq!(ran.outcome.code, Some(0), "{}", ran.outcome);
    ran.expect("unknown", "was killed or ended without an exit");
    assert!(ran.junit.contains("<skipped") && !ran.junit.contains("<failure"), "{}", ran.junit);
}

#[test]
fn what_this_command_has_ended_is_not_well() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let ran = Ran::new(&work, &["--timeout", "2s"], &format!("exec {}", ends("time.sleep(60)")));
    assert_eq!(ran.outcome.code, Some(124), "{}", ran.outcome);
    ran.expect("killed", "was ended by `lazyguard run`, by signal 15 (SIGTERM)");
    assert!(ran.outcome.stderr.contains(", 1 ended by `lazyguard run`, "), "{}", ran.outcome);
    // Also where the kernel informs a parent of the process's own.
    let script = format!("trap 'wait; exit 1' TERM; {} & wait", ends("time.sleep(60)"));
    let ran = Ran::new(&work, &["--timeout", "2s"], &script);
    assert_eq!(ran.outcome.code, Some(124), "{}", ran.outcome);
    ran.expect("killed", "was ended by `lazyguard run`");
}

#[test]
fn what_ends_by_itself_is_well_however_it_does() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let ran = Ran::new(&work, &[], &format!("exec {}", ends("os._exit(0)")));
    assert_eq!(ran.outcome.code, Some(0), "{}", ran.outcome);
    ran.expect("well", "ended with exit status 0");
    let ran = Ran::new(&work, &[], &format!("exec {}", ends("raise SystemExit(3)")));
    assert_eq!(ran.outcome.code, Some(3), "{}", ran.outcome);
    assert_eq!(text(&ran.json["processes"][0], "/ended"), "ended with exit status 3");
    let ran = Ran::new(&work, &[], &format!("'{}'", app("lazy_pair_single_kernel").display()));
    assert_eq!((ran.outcome.code, text(&ran.json["processes"][0], "/ended")), (Some(0), "ended"), "{}", ran.outcome);
    assert!(!ran.outcome.stderr.contains("ended by"), "{}", ran.outcome);
}

/// Of hundreds of processes those are noted that have a folder here.
#[test]
fn the_mark_says_how_those_ended_that_have_a_folder() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let script = format!("n=0; while [ $n -lt 50 ]; do (true &) ; n=$((n+1)); done; exec {}", ends(SEGFAULT));
    let ran = Ran::new(&work, &[], &script);
    let mark = fs::read_to_string(ran.out.join("supervised.json")).unwrap();
    let mark: Json = serde_json::from_str(&mark).unwrap_or_else(|error| panic!("{error}: {mark}"));
    let ended = mark["ended"].as_array().unwrap();
    assert_eq!(ended.len(), 1, "{mark:#}");
    assert_eq!((ended[0]["signal"].as_i64(), ended[0]["exit_code"].is_null()), (Some(11), true), "{mark:#}");
    assert_eq!(ended[0]["process"], ran.json["processes"][0]["process"], "{mark:#}");
    assert!(ended[0]["at_unix_ns"].as_u64() > mark["started_unix_ns"].as_u64(), "{mark:#}");
}

/// The program ends, and what it has started goes on with work that hangs later.
#[test]
fn a_process_that_goes_on_behind_the_program_is_no_longer_watched_and_that_is_said() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let there = work.path().join("there").to_string_lossy().into_owned();
    let daemon = ends(&format!("open(\"{there}\", \"w\"); time.sleep(20)"));
    let script = format!("setsid {daemon} & while ! test -e '{there}'; do sleep 0.05; done");
    let line = " goes on behind the program: --on-hang and --fail-on end with that; ";
    let told = under(&work, &["--on-hang", "kill"], &["sh", "-c", &script]).finish();
    assert!(told.code == Some(0) && told.stderr.contains(line) && told.stderr.lines().count() == 1, "{told}");
    let process = told.stderr.split_whitespace().nth(2).unwrap_or_default().to_owned();
    let killed = Command::new("kill").args(["-KILL", &process]).status();
    assert!(killed.is_ok_and(|status| status.success()), "{process}");
    // Who asks for nothing is told nothing.
    let alone = ends("pass");
    let quiet = under(&work, &["--on-hang", "kill"], &["sh", "-c", &alone]).finish();
    assert_eq!((quiet.code, quiet.stderr.as_str()), (Some(0), ""), "{quiet}");
}
