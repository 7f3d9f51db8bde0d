//! Hostile names of programs and their parts: none forges a line or commands a terminal.

use crate::run_passes_on::under;
use lazyguard_e2e::{app, command, Run, Running, Work};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

/// A file's name. What the kernel makes of it for the thread's name, 15 bytes, is as bad.
const NAME: &str = "\n::error::f\u{1b}[2J\r##vso[task.complete]\nlazyguard: RESOLVED: forged\u{9b}1m\u{202e}";

/// A program that hangs with LG201, under that name.
fn program(work: &Work) -> PathBuf {
    let path = work.folder("bin").join(NAME);
    // It looks for its kernels beside its own folder.
    let kernels = work.path().join("kernels");
    symlink(app("lazy_pair").with_file_name("../kernels"), kernels).unwrap_or_else(|error| panic!("{error}"));
    fs::copy(app("lazy_pair"), &path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    path
}

/// Every line is one of the guard's, and nothing in it is obeyed by a terminal or a CI system.
fn expect_plain(what: &str, text: &str, marked: bool) {
    assert!(text.contains("error::f\\x1b"), "{what} does not name the program, escaped: {text:?}");
    for line in text.lines() {
        assert!(!marked || line.starts_with("lazyguard: "), "{what} has a line without the guard's mark: {line:?}");
        let start = line.trim_start();
        assert!(!start.starts_with("::") && !line.contains("##vso["), "{what} commands a CI system: {line:?}");
        assert!(!start.starts_with("lazyguard: RESOLVED"), "{what} has a forged line: {line:?}");
        let obeyed = line.chars().find(|&letter| letter.is_control() || letter == '\u{202e}');
        assert_eq!(obeyed, None, "{what}: {line:?}");
    }
}

fn asked(work: &Work, args: &[&str]) -> String {
    let outcome = Run::new(work, command()).args(args).finish();
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome}");
    outcome.stdout
}

fn hanging(work: &Work) -> Running {
    let run = Run::new(work, program(work)).guarded().kept().set("LAZYGUARD_PRELOAD", "off");
    let mut running = run.set("LAZYGUARD_SUMMARY", "on").hang_after("300ms").start();
    running
        .until("the report", lazyguard_e2e::PATIENCE, |running| running.stderr().contains("details: ").then_some(()));
    running
}

#[test]
fn the_live_report_and_every_command_name_it_in_one_line() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let running = hanging(&work);
    let process = running.process().to_string();
    for args in [["dump", &process], ["report", &process], ["log", &process]] {
        expect_plain(&args.join(" "), &asked(&work, &args), false);
    }
    let out = running.out();
    let outcome = running.stop();
    expect_plain("the live report", &outcome.stderr, true);
    let text = fs::read_to_string(out.join("dump.txt")).unwrap_or_else(|error| panic!("{error}"));
    expect_plain("dump.txt", &text, false);
    let folder = out.to_string_lossy().into_owned();
    for more in [&["report"][..], &["report", "--cold-start"], &["report", "--blocking"], &["log"]] {
        let args: Vec<_> = more.iter().copied().chain([folder.as_str()]).collect();
        expect_plain(&more.join(" "), &asked(&work, &args), false);
    }
    // For a program, the name is what it is.
    let json = fs::read_to_string(out.join("hang.json")).unwrap_or_else(|error| panic!("{error}"));
    let json: lazyguard_e2e::Json = serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(json["program"], NAME);
    let thread = json["blocked"][0]["thread_name"].as_str().unwrap_or_default();
    assert!(NAME.contains(thread) && thread.starts_with("::error::f\u{1b}"), "{thread:?}");
}

#[test]
fn what_a_run_prints_names_it_in_one_line_and_annotations_are_of_their_form() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let program = program(&work);
    let options =
        ["--preload", "off", "--hang-after", "300ms", "--on-hang", "kill", "--kill-after", "0", "--cold-start"];
    for annotations in ["off", "github", "azure", "teamcity"] {
        let options = [&options[..], &["--result", "--annotations", annotations]].concat();
        let outcome = under(&work, &options, &[&program]).finish();
        assert_eq!(outcome.code, Some(117), "{outcome}");
        // What names the program, and the beginnings of all that are written for the system: a forged one has none of these.
        let (names_it, starts) = match annotations {
            "github" => {
                ("title=LG201%3A \\n%3A%3Aerror%3A%3Af\\x1b", ["::error file=testapps/", "::warning file=testapps/"])
            }
            "azure" => ("code=LG201;]LG201: \\n::error::f\\x1b", ["##vso[task.logissue "; 2]),
            "teamcity" => (
                "LG201: \\n::error::f\\x1b",
                ["##teamcity[buildProblem description='testapps/", "##teamcity[message text='testapps/"],
            ),
            _ => ("no such line", ["no such line"; 2]),
        };
        let is_annotation = |line: &&str| starts.iter().any(|start| line.starts_with(start));
        let (own, others): (Vec<&str>, Vec<&str>) = outcome.stderr.lines().partition(is_annotation);
        let naming_it = own.iter().filter(|line| line.contains(names_it)).count();
        assert_eq!(naming_it, usize::from(annotations != "off"), "{outcome}");
        assert!(own.iter().all(|line| !line.contains(char::is_control)), "{own:?}");
        expect_plain(annotations, &others.join("\n"), false);
    }
}
