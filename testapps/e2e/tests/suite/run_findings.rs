//! `lazyguard run` reports its findings: exit codes, files that fit their schemas, annotations, suppressions and a baseline.

use crate::run_passes_on::under;
use lazyguard_e2e::{app, command, corpus_program, root, text, Json, Outcome, Run, Work};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Gives LG103, and nothing else.
fn hazardous() -> PathBuf {
    corpus_program("wait_before_its_write")
}

/// A program under `lazyguard run` with these options; files are named in a folder of the test's.
fn ran(work: &Work, options: &[&str], program: &Path) -> Outcome {
    let program = program.to_string_lossy().into_owned();
    under(work, options, &[&program]).finish()
}

fn file(work: &Work, name: &str) -> String {
    work.path().join(name).to_string_lossy().into_owned()
}

fn json(path: &str) -> Json {
    let read = fs::read(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_json::from_slice(&read).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn expect_by_their_schemas(files: &[&str]) {
    let output = Command::new("python3").arg(root().join("scripts/check-schema")).args(files).output();
    let output = output.unwrap_or_else(|error| panic!("check-schema: {error}"));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.ends_with(&format!("{} passed, 0 failed\n", files.len())), "{said}");
}

/// The number of cases of a JUnit file that failed.
fn failures(path: &str) -> usize {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}")).matches("<failure").count()
}

#[test]
fn a_hazard_fails_a_run_only_where_that_is_asked_for() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let quiet = ran(&work, &[], &hazardous());
    assert_eq!((quiet.code, quiet.stderr.as_str()), (Some(0), ""), "{quiet}");
    for (fail_on, code) in [
        ("hazard", 118),
        ("hang,hazard", 118),
        ("LG103", 118),
        ("hazard:LG101,LG103", 118),
        ("hang", 0),
        ("hazard:LG101", 0),
        ("prevented", 0),
    ] {
        let outcome = ran(&work, &["--fail-on", fail_on], &hazardous());
        assert_eq!(outcome.code, Some(code), "--fail-on {fail_on}: {outcome}");
        assert_eq!(outcome.stderr.contains("LG103"), code != 0, "--fail-on {fail_on}: {outcome}");
    }
    // What the guard has prevented fails a run only by its own word.
    let pair = app("lazy_pair");
    assert_eq!(ran(&work, &["--fail-on", "hang,hazard"], &pair).code, Some(0));
    assert_eq!(ran(&work, &["--fail-on", "prevented"], &pair).code, Some(118));
}

/// A FIFO may have no reader, or one that stands still: the run ends in both cases.
#[test]
fn a_file_that_is_a_fifo_holds_no_run_up() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let fifo = file(&work, "fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().is_ok_and(|status| status.success()));
    for flag in ["--json", "--junit", "--sarif", "--html", "--write-baseline", "--metrics"] {
        for (program, code) in [("exit 3", 3), ("exit 0", if flag == "--metrics" { 0 } else { 125 })] {
            let outcome = under(&work, &[flag, &fifo], &["sh", "-c", program]).finish();
            assert_eq!(outcome.code, Some(code), "{flag}: {outcome}");
            assert_eq!(outcome.stderr.matches("fifo: cannot be written: it is a FIFO").count(), 1, "{flag}: {outcome}");
        }
    }
    // The words of the command are more than a pipe holds.
    let run = format!("{} run --json {fifo} -- sh -c", command().display());
    let late = format!("(sleep 2; cat) < {fifo} & {run} 'sleep 1' $(seq 20000); wait");
    let outcome = Run::new(&work, "bash").args(["-c", &late]).finish();
    assert!(serde_json::from_str::<Json>(&outcome.stdout).is_ok() && outcome.stdout.len() > 1 << 16, "{outcome}");
    let began = file(&work, "began");
    let ends =
        format!("until [ -e {began} ]; do sleep 0.05; done; while kill $!; do sleep 0.1; done; wait $!; echo $?");
    let stands = format!("exec 3<> {fifo}; {run} \"trap '' TERM; : > {began}\" $(seq 20000) & {ends}");
    let outcome = Run::new(&work, "bash").args(["-c", &stands]).finish();
    assert!(outcome.stdout == "125\n" && outcome.stderr.contains("its reader took nothing"), "{outcome}");
}

#[test]
fn ranks_that_have_the_same_options_write_files_of_their_own() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let [junit, known] = ["%r/junit-%r.xml", "known.%r"].map(|name| file(&work, name));
    let options = ["--junit", &junit, "--baseline", &known, "--write-baseline", &known, "--fail-on", "hazard"];
    let program = hazardous().to_string_lossy().into_owned();
    let of = |rank: &str| under(&work, &options, &[&program]).set("SLURM_PROCID", rank).finish();
    let (first, second, again) = (of("0"), of("12"), of("0"));
    assert_eq!((first.code, second.code, again.code), (Some(118), Some(118), Some(0)), "{first}{second}{again}");
    for name in ["0/junit-0.xml", "12/junit-12.xml", "known.0", "known.12"] {
        assert!(work.path().join(name).is_file(), "{name}: {second}");
    }
}

#[test]
fn a_run_inside_another_hides_nothing_from_it() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let (inner, program) = (command().to_string_lossy().into_owned(), hazardous().to_string_lossy().into_owned());
    let out = file(&work, "kept");
    for inside in [&["run"][..], &["run", "--out", &out]] {
        let words = [&[inner.as_str()], inside, &["--", &program]].concat();
        let outcome = under(&work, &["--fail-on", "hazard"], &words).finish();
        let expect = if inside.len() == 1 { 118 } else { 0 };
        // An inner run with a folder of its own hides its findings from the outer run.
        assert_eq!(outcome.code, Some(expect), "{inside:?}: {outcome}");
    }
    let words = [inner.as_str(), "run", "--", &inner, "run", "--", &program];
    let outcome = under(&work, &["--fail-on", "hazard", "--annotations", "github"], &words)
        .set("GITHUB_ACTIONS", "true")
        .finish();
    assert_eq!(outcome.code, Some(118), "three in each other: {outcome}");
    assert_eq!(outcome.stderr.matches("::error").count(), 1, "it is annotated once: {outcome}");
}

#[test]
fn the_files_fit_their_schemas_and_say_the_same() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let [xml, sarif, found] = ["a.xml", "a.sarif", "a.json"].map(|name| file(&work, name));
    let files = ["--junit", &xml, "--sarif", &sarif, "--json", &found];
    let failing = ran(&work, &[&files[..], &["--fail-on", "hazard"]].concat(), &hazardous());
    assert_eq!(failing.code, Some(118), "{failing}");
    expect_by_their_schemas(&[&xml, &sarif]);
    let (results, said) = (&json(&sarif)["runs"][0]["results"], json(&found));
    assert_eq!((text(&results[0], "/ruleId"), results.as_array().map_or(0, Vec::len)), ("LG103", 1), "{results:#}");
    assert_eq!(failures(&xml), 1);
    assert_eq!((text(&said, "/hazards/0/code"), text(&said, "/failed")), ("LG103", "hazard"), "{said:#}");
    assert_eq!(said["run"]["exit_code"], 118, "{said:#}");

    // The same hazard, where nothing was asked of it.
    let passing = ran(&work, &files, &hazardous());
    assert_eq!(passing.code, Some(0), "{passing}");
    expect_by_their_schemas(&[&xml, &sarif]);
    assert_eq!(failures(&xml), 0);
}

#[test]
fn a_hang_that_is_ended_is_in_all_the_files() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let [xml, sarif, found, page] = ["h.xml", "h.sarif", "h.json", "h.html"].map(|name| file(&work, name));
    let options = ["--preload", "off", "--hang-after", "300ms", "--on-hang", "kill", "--kill-after", "0"];
    let files = ["--junit", &xml, "--sarif", &sarif, "--json", &found, "--html", &page];
    let outcome = ran(&work, &[&options[..], &files].concat(), &app("lazy_pair"));
    assert_eq!(outcome.code, Some(117), "{outcome}");
    expect_by_their_schemas(&[&xml, &sarif]);
    assert!(failures(&xml) >= 1);
    assert_eq!(text(&json(&sarif), "/runs/0/results/0/ruleId"), "LG201");
    let verdict = &json(&found)["processes"][0]["hang"]["verdicts"][0];
    assert_eq!(text(verdict, "/code"), "LG201");
    let page = fs::read_to_string(&page).unwrap_or_else(|error| panic!("{page}: {error}"));
    for said in [text(verdict, "/sentence"), text(verdict, "/fix"), "class=\"blocked\"", "id=\"waits-0-0-title\""] {
        assert!(page.contains(said), "the page lacks {said:?}");
    }
    assert!(outcome.stderr.contains("lazyguard report "), "the command that reads it is not named: {outcome}");
}

#[test]
fn a_team_starts_from_todays_hazards() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let known = file(&work, "known.json");
    let written = ran(&work, &["--write-baseline", &known], &hazardous());
    assert_eq!(written.code, Some(0), "{written}");
    let known_now = ran(&work, &["--baseline", &known, "--fail-on", "hazard", "--result"], &hazardous());
    assert_eq!(known_now.code, Some(0), "{known_now}");
    assert!(known_now.stderr.contains("1 known"), "{known_now}");

    let other = corpus_program("free_beside_long_kernel");
    let new = ran(&work, &["--baseline", &known, "--fail-on", "hazard"], &other);
    assert_eq!(new.code, Some(118), "{new}");
    assert!(new.stderr.contains("LG104"), "{new}");
    let missing = ran(&work, &["--baseline", &file(&work, "nowhere.json")], &hazardous());
    assert_eq!((missing.code, missing.stdout.as_str()), (Some(125), ""), "it ran all the same: {missing}");
}

#[test]
fn what_somebody_has_looked_at_is_suppressed_and_what_is_no_more_is_said() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let rules = file(&work, "rules.txt");
    let with = |text: &str| {
        fs::write(&rules, text).unwrap_or_else(|error| panic!("{rules}: {error}"));
        ran(&work, &["--suppress", &rules, "--fail-on", "hazard"], &hazardous())
    };
    for rule in ["call:cuStreamWaitValue*", "LG103:*", "program:wait_before_*", "key:LG103|*"] {
        let outcome = with(&format!("# looked at\n{rule}\n"));
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{rule}: {outcome}");
    }
    let unused = with("LG103:*\ncall:cuMemFree*\n");
    assert_eq!(unused.code, Some(0), "{unused}");
    assert!(unused.stderr.contains("unused") && unused.stderr.contains("call:cuMemFree*"), "{unused}");
    assert_eq!(with("kernel:spin\n").code, Some(118));
    let unreadable = with("LG103\n");
    assert_eq!((unreadable.code, unreadable.stdout.as_str()), (Some(125), ""), "it ran all the same: {unreadable}");
    assert!(unreadable.stderr.contains("rules.txt"), "{unreadable}");
}

#[test]
fn annotations_are_those_of_the_system_that_runs_it() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let program = hazardous().to_string_lossy().into_owned();
    let on = |variable: &str, value: &str, options: &[&str]| {
        let options = [&["--fail-on", "hazard"], options].concat();
        under(&work, &options, &[&program]).set(variable, value).finish()
    };
    for (variable, value, begins) in [
        ("GITHUB_ACTIONS", "true", "::error "),
        ("TF_BUILD", "True", "##vso[task.logissue "),
        ("TEAMCITY_VERSION", "2026.1", "##teamcity[buildProblem "),
    ] {
        let outcome = on(variable, value, &[]);
        assert_eq!(outcome.stderr.lines().filter(|line| line.starts_with(begins)).count(), 1, "{variable}: {outcome}");
        assert_eq!(outcome.stdout, "the value came\n", "{outcome}");
        let off = on(variable, value, &["--annotations", "off"]);
        assert!(!off.stderr.contains(begins), "{variable}: {off}");
    }
}
