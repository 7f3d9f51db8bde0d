//! Hostile names: in every text form a name stays part of a line; in the forms for programs it is unchanged.

use super::common::{ended_process, facts, hazard, launch, wait, Job, SMALL};
use super::{lazyguard, texts, Folder};
use lazyguard_core::diagnose::snapshot_at;
use lazyguard_core::preload::Nudge;
use lazyguard_core::report::{json, HangReport, NudgeAnswer, PreloadSummary, Summary};
use lazyguard_core::trace::read::Recording;
use lazyguard_core::trace::{Kind, ProcessFacts, Record};
use serde_json::{json, Value};

const MS: u64 = 1_000_000;

/// Ends a line, forges others of this command's and of CI systems', clears the screen, and turns letters around.
const FORGED: &str =
    "k\n::error::forged\r\nlazyguard: forged\u{1b}[2J\u{9b}1m\u{85}##vso[task.complete result=Succeeded;]\u{2028}forged\u{202e}x\t";
/// The same for where a line begins with the name.
const AT_THE_START: &str = " ::error title=forged::x\n##teamcity[buildProblem description='forged']\u{7}";
/// What fits into a thread's name.
const THREAD: &str = "\n::error::f\u{1b}[m";

/// Two processes, one of which hangs, with such names wherever there is a name.
fn hostile(folder: &Folder) {
    for (name, hangs) in [("rank0-4242", true), ("rank1-4243", false)] {
        let path = folder.of(name);
        std::fs::create_dir(&path).unwrap();
        let facts = ProcessFacts {
            program: AT_THE_START.to_owned(),
            rank: "1\n::error::f".to_owned(),
            lazyguard: "0\n::error::f".to_owned(),
            host: "h\n::error::f".to_owned(),
            ..ended_process()
        };
        let job = Job::of(SMALL, &facts);
        a_run(&job, hangs);
        job.save(&path, 60_000 * MS);
        let hazard = json!({
            "code": "LG101", "title": FORGED, "prevented": false, "kernel": FORGED, "call": FORGED,
            "stream_class": "non-blocking", "count": 3, "at_least": false, "what": FORGED,
            "must_meet": [FORGED], "evidence": [{ "at": 1, "what": FORGED }], "fix": FORGED,
            "first": { "at": 7, "thread": 100, "stream": 2, "other_stream": 1, "other": FORGED, "other_at": 0, "held_nanos": 0, "caller": 0, "place": FORGED },
        });
        let hazards = json!({ "schema": 1, "process": 4242, "program": AT_THE_START, "rank": "1\n::f", "hazards": [hazard], "overflow": 0 });
        std::fs::write(path.join("hazards.json"), hazards.to_string()).unwrap();
        let runtimes = vec![NudgeAnswer { object: FORGED.to_owned(), fat_binaries: 1, answer: Nudge::RegisterNow }];
        let notes = vec![FORGED.to_owned()];
        let summary = Summary {
            schema: 1,
            version: FORGED.to_owned(),
            process: 4242,
            program: AT_THE_START.to_owned(),
            ended: format!("ended by {FORGED}"),
            hazards: vec![("LG101".to_owned(), 3)],
            prevented: vec![(FORGED.to_owned(), 1)],
            preload: PreloadSummary { policy: FORGED.to_owned(), runtimes, notes, ..PreloadSummary::default() },
            unhooked: vec![FORGED.to_owned()],
            lost: vec![(FORGED.to_owned(), 1)],
            ..Summary::default()
        };
        std::fs::write(path.join("run.json"), json(&summary)).unwrap();
        if hangs {
            let recording = Recording::open(job.bytes(60_000 * MS)).unwrap();
            let snapshot = snapshot_at(&recording, 60_000 * MS, 1_000 * MS, 0).unwrap();
            let mut hang = HangReport::new(4242, AT_THE_START, Some(FORGED), snapshot, PreloadSummary::default());
            hang.python = Some(format!("Thread 1\n{FORGED}"));
            std::fs::write(path.join("hang.json"), json(&hang)).unwrap();
        }
    }
}

fn a_run(job: &Job, hangs: bool) {
    let (main, other) = (job.thread(100, THREAD), job.thread(101, THREAD));
    let (one, two) = (job.stream(0x51), job.stream(0x52));
    let (k1, k2) = (job.function(FORGED), job.function(AT_THE_START));
    let recorder = job.tracker.recorder();
    recorder.add_setting(0, &format!("LAZYGUARD_ON_HANG={FORGED}"));
    recorder.add_note(0, FORGED);
    recorder.add_file(0, 0x40_0000, 0x48_0000, 0x40_0000, &format!("/opt/{FORGED}"));
    job.make(main, &Record { kind: Kind::ColdModule, caller: 0x40_1111, ..facts("cuModuleLoadData", MS) }, 9 * MS, 0);
    job.make(main, &Record { caller: 0x40_1111, ..launch(one, k1, 20 * MS) }, 2 * MS, 0);
    job.make(other, &Record { kind: Kind::ColdFunction, caller: 0x40_2222, ..launch(two, k2, 30 * MS) }, MS, 0);
    let hazard = hazard(101, one, k1, facts("cuLaunchKernel", 30 * MS));
    job.note(other, &Record { stream: two, function: k2, returned: 31 * MS, ..hazard });
    job.make(other, &wait(two, 0xf1a6, 7, 40 * MS), 5, 0);
    if hangs {
        job.hold(main, &Record { caller: 0x40_3333, ..facts("cuCtxSynchronize", 50 * MS) });
    } else {
        job.ended();
    }
}

/// No line begins as a forged one does, nothing commands a CI system or a terminal, and each newline is this command's.
fn expect_plain(what: &str, text: &str) {
    assert!(text.contains("forged") || text.contains("error::f"), "{what} has none of the names: {text}");
    for line in text.lines() {
        let start = line.trim_start();
        let forged = ["::", "lazyguard: forged", "forged", "##"].iter().find(|forged| start.starts_with(**forged));
        assert_eq!(forged, None, "{what} has a forged line: {line:?}");
        assert!(!line.contains("##vso[") && !line.contains("##teamcity["), "{what} commands a CI system: {line:?}");
        let obeyed = line.chars().find(|&letter| letter.is_control() || "\u{2028}\u{202e}".contains(letter));
        assert_eq!(obeyed, None, "{what} has {obeyed:?}: {line:?}");
    }
}

#[test]
fn a_name_is_a_part_of_a_line_in_every_text_form() {
    let folder = Folder::new("foreign");
    hostile(&folder);
    let (all, hanging, well) = (folder.path(), folder.of("rank0-4242"), folder.of("rank1-4243"));
    for one in [hanging.to_str().unwrap(), well.to_str().unwrap()] {
        for arguments in [
            &["report", one][..],
            &["report", one, "--hazards"],
            &["report", one, "--cold-start"],
            &["report", one, "--blocking", "--slower-than", "1us"],
            &["log", one],
            &["health", one],
            &["metrics", one],
            &["top", one],
        ] {
            let (out, errors) = texts(&lazyguard(arguments).output().unwrap());
            expect_plain(&format!("{arguments:?}"), &(out + &errors));
        }
    }
    for arguments in [&["report", all][..], &["report", all, "--hazards"], &["report", all, "--cold-start"]] {
        let (out, errors) = texts(&lazyguard(arguments).output().unwrap());
        expect_plain(&format!("{arguments:?}"), &(out + &errors));
    }
}

#[test]
fn what_the_user_says_and_what_is_not_there_is_a_part_of_a_line() {
    let folder = Folder::new("foreign_paths");
    let missing = folder.of(&format!("x{FORGED}"));
    let missing = missing.to_str().unwrap();
    let runs = ["run", "--library", missing, "--", "/bin/true"];
    for arguments in [
        &["report", missing][..],
        &["report", missing, "--hazards"],
        &["log", missing],
        &["export", missing, "--to", "perfetto"],
        &["explain", FORGED],
        &["man", FORGED],
        &["doctor", missing],
        &["doctor", "--", missing],
        &["log", missing, "--event", FORGED],
        &["log", missing, "--since", FORGED],
        &["dump", missing],
        &["health", missing],
        &["metrics", missing],
        &["metrics", missing, "--otlp", FORGED],
        &["top", missing],
        &["anonymise", missing, missing],
        &[missing],
        &runs,
    ] {
        let (out, errors) = texts(&lazyguard(arguments).output().unwrap());
        expect_plain(&format!("{arguments:?}"), &(out + &errors));
    }
}

#[test]
fn a_name_for_a_program_is_what_the_program_says() {
    let folder = Folder::new("foreign_raw");
    hostile(&folder);
    let one = folder.of("rank0-4242");
    let one = one.to_str().unwrap();
    let (out, _) = texts(&lazyguard(&["log", one, "--format", "json"]).output().unwrap());
    let lines: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect();
    assert!(lines.iter().any(|line| line["function"] == FORGED && line["thread_name"] == THREAD), "{out}");
    let (out, errors) = texts(&lazyguard(&["report", one, "--format", "json"]).output().unwrap());
    assert!(errors.starts_with("lazyguard: rank0-4242: run.json counts hazards of k\\n"), "{errors}");
    assert_eq!(errors.lines().count(), 1);
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&report["run"]["program"], &report["hang"]["program"]), (&AT_THE_START.into(), &AT_THE_START.into()));
    let hazards = report["hazards"].as_array().unwrap();
    assert!(hazards.iter().any(|hazard| hazard["kernel"] == FORGED && hazard["fix"] == FORGED), "{hazards:#?}");
}

#[test]
fn a_name_is_text_in_the_page() {
    let folder = Folder::new("foreign_page");
    hostile(&folder);
    let file = folder.of("page.html");
    let made = lazyguard(&["report", folder.path(), "--html", file.to_str().unwrap()]).output().unwrap();
    expect_plain("report --html", &(texts(&made).0 + "not forged"));
    let page = std::fs::read_to_string(&file).unwrap();
    for (tag, count) in [("<script", 1), ("<style", 1), ("<h1", 1), ("<img", 0), ("<iframe", 0)] {
        assert_eq!(page.matches(tag).count(), count, "{tag}");
    }
    let (_, body) = page.split_once("<body>").unwrap();
    let (body, _) = body.split_once("<script>").unwrap();
    let obeyed =
        body.chars().find(|&letter| letter != '\n' && letter.is_control() || "\u{2028}\u{202e}".contains(letter));
    assert_eq!(obeyed, None);
    assert!(
        body.contains("k\\n::error::forged") && body.contains("##vso[task.complete result=Succeeded;]"),
        "a name is what it is"
    );
}
