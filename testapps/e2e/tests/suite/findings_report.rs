//! `lazyguard report` of a folder that holds those of several processes.

use lazyguard_e2e::{app, command, corpus_program, root, text, Json, Outcome, Run, Work};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder that holds those of all processes.
fn out(work: &Work) -> PathBuf {
    work.path().join("run")
}

/// Runs a guarded program as one rank of a job.
fn rank<'w>(work: &'w Work, program: PathBuf, rank: &str) -> Run<'w> {
    let template = out(work).join("rank%r-%p");
    Run::new(work, program).guarded().set("LAZYGUARD_OUT", template).set("RANK", rank)
}

/// A hazard that preloading cannot prevent: the program loads a module itself, while a kernel runs.
fn loads_beside_work() -> PathBuf {
    corpus_program("module_load_behind_long_kernel")
}

/// A hang that the guard prevents.
fn lazy_pair() -> PathBuf {
    app("lazy_pair")
}

fn well(outcome: &Outcome) {
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome}");
}

/// A hang that ends its process.
fn hang(work: &Work, number: &str) {
    let run = rank(work, lazy_pair(), number).set("LAZYGUARD_PRELOAD", "off").hang_after("300ms");
    let outcome = run.set("LAZYGUARD_ON_HANG", "exit:9").finish();
    assert_eq!(outcome.code, Some(9), "{outcome}");
}

/// Exit code, standard output, standard error.
fn report(arguments: &[&str], folder: &Path) -> (Option<i32>, String, String) {
    let output = Command::new(command()).arg("report").args(arguments).arg(folder).current_dir(root()).output();
    let output = output.unwrap_or_else(|error| panic!("lazyguard report: {error}"));
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap_or_else(|error| panic!("{error}"));
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn said(arguments: &[&str], folder: &Path) -> String {
    let (code, out, error) = report(arguments, folder);
    assert_eq!((code, error.as_str()), (Some(0), ""), "{arguments:?}: {out}");
    out
}

fn json(arguments: &[&str], folder: &Path) -> Json {
    let arguments: Vec<_> = arguments.iter().copied().chain(["--format", "json"]).collect();
    serde_json::from_str(&said(&arguments, folder)).unwrap_or_else(|error| panic!("{error}"))
}

/// Writes what a report says, and has it checked against its schema.
fn check_schema(work: &Work, format: &str, extension: &str) -> String {
    let content = said(&["--hazards", "--format", format], &out(work));
    let path = work.path().join(format!("findings.{extension}"));
    fs::write(&path, &content).unwrap_or_else(|error| panic!("{error}"));
    let checked = Command::new("python3").arg(root().join("scripts/check-schema")).arg(&path).output();
    let checked = checked.unwrap_or_else(|error| panic!("check-schema: {error}"));
    let told = format!("{}{}", String::from_utf8_lossy(&checked.stdout), String::from_utf8_lossy(&checked.stderr));
    assert!(checked.status.success(), "{told}\n{content}");
    content
}

fn words<'j>(list: &'j Json, pointer: &str) -> Vec<&'j str> {
    list.as_array().into_iter().flatten().map(|one| text(one, pointer)).collect()
}

#[test]
fn the_same_hazard_of_two_ranks_is_told_once_with_both() {
    let work = Work::new(lazyguard_e2e::this_test!());
    well(&rank(&work, lazy_pair(), "1").finish());
    well(&rank(&work, lazy_pair(), "0").finish());
    well(&rank(&work, loads_beside_work(), "2").finish());
    let found = json(&["--hazards"], &out(&work));
    let keys = words(&found["hazards"], "/key");
    assert_eq!(keys, ["LG102|-|cuModuleLoadData|none", "LG101|k2|cuLaunchKernel|blocking|prevented"], "{found:#}");
    let prevented = &found["hazards"][1];
    assert_eq!(words(&prevented["met_by"], "/rank"), ["0", "1"]);
    assert_eq!((&prevented["count"], &prevented["prevented"]), (&2.into(), &true.into()));
    let place = text(&found["hazards"][0], "/first/file");
    assert!(place.ends_with(".hpp") || place.ends_with(".cpp"), "{place}");
    let summary = "run: 3 processes, no hang, 1 hazard, 1 prevented";
    assert_eq!(text(&found, "/result"), summary);
    let all = said(&[], &out(&work));
    assert!(all.starts_with(summary), "{all}");
    for line in ["well      lazy_pair (process ", ", rank 1) ended, ", "hazards   module_load_behind_long_kernel ("] {
        assert!(all.contains(line), "{line}: {all}");
    }
    assert!(
        all.contains("met by lazy_pair (process ") && all.contains("  without the guard it is a hang once"),
        "{all}"
    );
    for (format, extension) in [("junit", "xml"), ("sarif", "sarif")] {
        check_schema(&work, format, extension);
    }
}

#[test]
fn ranks_that_hang_come_first_and_the_same_hang_is_told_once() {
    let work = Work::new(lazyguard_e2e::this_test!());
    well(&rank(&work, loads_beside_work(), "0").finish());
    hang(&work, "1");
    hang(&work, "2");
    let all = said(&[], &out(&work));
    let lines: Vec<_> = all.lines().collect();
    assert!(lines[0].starts_with("run: 3 processes, 2 hangs, "), "{all}");
    assert!(lines[2].starts_with("  hang      lazy_pair (process ") && lines[2].contains(", rank 1) "), "{all}");
    assert!(lines[3].starts_with("  hang      lazy_pair (process ") && !lines[3].contains("LG201"), "{all}");
    assert!(lines[4].starts_with("  hazards   module_load_behind_long_kernel ("), "{all}");
    assert_eq!(all.lines().filter(|line| line.starts_with("HANG ")).count(), 1, "{all}");
    assert_eq!(all.matches("k2 cannot start: ").count(), 1, "{all}");
    assert!(all.lines().any(|line| line == "the same in ranks 1-2 (2 processes)"), "{all}");

    let found = json(&[], &out(&work));
    assert_eq!(words(&found["processes"], "/status"), ["hang", "hang", "well"]);
    assert_eq!(text(&found["processes"][0], "/hang/verdicts/0/code"), "LG201");
    let junit = check_schema(&work, "junit", "xml");
    assert_eq!(
        junit.matches("<failure message=\"k2 cannot start: loading it on its first launch waits for k1").count(),
        2,
        "{junit}"
    );
    let sarif: Json = serde_json::from_str(&check_schema(&work, "sarif", "sarif")).unwrap_or_default();
    let results = &sarif["runs"][0]["results"];
    assert_eq!(words(results, "/ruleId")[..2], ["LG201", "LG201"], "{sarif:#}");
    let place = text(results, "/0/locations/0/physicalLocation/artifactLocation/uri");
    assert!(place.starts_with("testapps/"), "the line is in the working folder: {place}");
}

#[test]
fn what_is_suppressed_or_known_is_said_to_be() {
    let work = Work::new(lazyguard_e2e::this_test!());
    well(&rank(&work, loads_beside_work(), "0").finish());
    let (suppressions, baseline) = (work.path().join("s.txt"), work.path().join("base.json"));
    let write = |path: &Path, content: &str| fs::write(path, content).unwrap_or_else(|error| panic!("{error}"));
    write(&suppressions, "# seen\nprogram:module_load_*\nLG105:*\n");
    write(
        &baseline,
        "{\"schema\": 1, \"keys\": [\"LG102|-|cuModuleLoadData|none\", \"LG109|gone|cuLaunchKernel|none\"]}",
    );
    let (suppress, base) = (suppressions.display().to_string(), baseline.display().to_string());
    let found = json(&["--hazards", "--suppress", &suppress], &out(&work));
    assert_eq!(text(&found["hazards"][0], "/status"), "suppressed");
    assert_eq!(text(&found["hazards"][0], "/suppressed_by/0"), format!("{suppress}:2: program:module_load_*"));
    assert_eq!(text(&found, "/unused_suppressions/0"), format!("{suppress}:3: LG105:*"));
    let known = said(&["--hazards", "--baseline", &base], &out(&work));
    assert!(known.contains("  known: the baseline has it\n"), "{known}");
    assert!(known.ends_with("1 hazard of the baseline did not turn up\n"), "{known}");
    write(&suppressions, "LG102\n");
    let (code, none, error) = report(&["--hazards", "--suppress", &suppress], &out(&work));
    assert_eq!((code, none.as_str()), (Some(1), ""));
    assert!(error.starts_with(&format!("lazyguard: {suppress}:1: \"LG102\" has no colon")), "{error}");
}

#[test]
fn a_process_that_is_killed_has_its_hazards_in_the_recording() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let mut running = rank(&work, loads_beside_work(), "0").set("LG_SCALE_MS", "20000").start();
    let recording = || fs::read_dir(out(&work)).ok()?.flatten().map(|entry| entry.path()).find(|path| path.is_dir());
    let found = running.until("the hazard", lazyguard_e2e::PATIENCE, |_| {
        let (_, said, _) = report(&["--hazards"], &recording()?);
        said.starts_with("hazard LG102").then_some(said)
    });
    running.stop();
    let folder = recording().unwrap_or_else(|| panic!("no folder"));
    let _ = fs::remove_file(folder.join("hazards.json"));
    let afterwards = said(&["--hazards"], &folder);
    assert!(afterwards.starts_with("hazard LG102: cuModuleLoadData, beside busy_for, once"), "{afterwards}\n{found}");
    // One process alone is reported as such.
    assert!(said(&[], &folder).contains("was killed or ended without an exit"));
    fs::write(folder.join("hazards.json"), "{\"cut").unwrap_or_else(|error| panic!("{error}"));
    let (code, damaged, error) = report(&["--hazards"], &folder);
    // The command reports the readable part; the exit code tells a script of the rest.
    assert_eq!((code, error.as_str()), (Some(1), ""), "{damaged}");
    assert!(damaged.starts_with(&format!("cannot be read: {}", folder.join("hazards.json").display())), "{damaged}");
    assert!(damaged.contains("hazard LG102"), "{damaged}");
}

/// A process whose kernel runs is not well for that: while it runs, and when it was killed with the kernel outstanding.
#[test]
fn well_is_said_of_no_process_that_has_work_outstanding() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let server = corpus_program("server_kernel_runs_and_no_thread_waits");
    let mut running = rank(&work, server, "0").hang_after("800ms").set("LG_SCALE_MS", "9000").start();
    let first = |key: &str| text(&json(&["--hazards"], &out(&work))["processes"][0], key).to_owned();
    running.until("its recording", lazyguard_e2e::PATIENCE, |running| {
        (out(&work).exists() && running.age().as_millis() > 2500).then_some(())
    });
    assert_eq!(first("/status"), "unknown");
    let mut folders =
        fs::read_dir(out(&work)).unwrap().flatten().map(|entry| entry.path()).filter(|path| path.is_dir());
    let single = said(&[], &folders.next().unwrap());
    assert!(single.contains("kernel spin_until has run on stream 1 for"), "{single}");
    assert!(single.contains("no thread waits for it"), "{single}");
    drop(running);
    assert_eq!(first("/status"), "unknown");
    let ended = first("/ended");
    assert!(ended.contains("kernel spin_until on stream 1 is outstanding since +0."), "{ended}");
}
