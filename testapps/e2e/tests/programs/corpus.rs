//! The corpus: small programs that hang for one reason each, and programs that are only slow. The first lines of each state the expected
//! result; no other file does.

use crate::{ask, part_of_corpus, questions, Question};
use lazyguard_e2e::{
    anonymised, expect_uneventful, report_of, slower, Expect, Folder, Header, InCorpus, Json, Run, Running, Work,
};
use libtest_mimic::Trial;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The pace, and the threshold: slow programs last so many of it.
const PACE: Duration = Duration::from_millis(800);
/// A program that completes does so in a fraction of this; one that is still there hangs.
const HANGS: Duration = Duration::from_millis(1200);
/// The driver's answers, and the program's start.
const ANSWERS: Duration = Duration::from_millis(3000 + 1000);
/// The longest program lasts four times the pace, on a machine that may be busy with something else.
const ENDS: Duration = lazyguard_e2e::PATIENCE;

pub(crate) fn pace() -> Duration {
    PACE * slower()
}

/// The final verdict is there after three times the threshold; after six times where only a host function may wake a thread, and after ten where a launch that
/// may compile computes.
fn verdict() -> Duration {
    11 * pace() + ANSWERS * slower()
}

pub(crate) fn trials() -> Vec<Trial> {
    let programs = ["hang", "slow"].into_iter().flat_map(part_of_corpus);
    programs.flat_map(|program| ask("corpus", &program.name, questions_of(&program.header))).collect()
}

fn questions_of(header: &Header) -> &'static [Question] {
    if header.told.is_some() {
        return match header.expect {
            Expect::Hang { .. } => questions![bare_it_hangs, what_is_said_of_it_is_known],
            _ => questions![it_ends_and_what_is_said_of_it_is_known],
        };
    }
    match (&header.expect, header.default.as_deref()) {
        (Expect::Ends { .. } | Expect::Hazards { .. }, _) => questions![it_ends_and_is_never_called_a_hang],
        (Expect::Hang { .. }, None) => questions![bare_it_hangs, the_verdict_is_right_live_and_from_its_folder],
        (Expect::Hang { .. }, Some("completes")) => questions![
            bare_it_hangs,
            the_verdict_is_right_live_and_from_its_folder,
            under_the_default_settings_it_completes,
        ],
        (Expect::Hang { .. }, Some(_)) => questions![
            bare_it_hangs,
            the_verdict_is_right_live_and_from_its_folder,
            under_the_default_settings_the_verdict_is_right,
        ],
    }
}

fn run<'w>(work: &'w Work, program: &InCorpus) -> Run<'w> {
    at_pace(work, program, pace())
}

fn at_pace<'w>(work: &'w Work, program: &InCorpus, pace: Duration) -> Run<'w> {
    Run::new(work, program.path()).set("LG_SCALE_MS", pace.as_millis().to_string())
}

fn guarded<'w>(work: &'w Work, program: &InCorpus, pace: Duration) -> Run<'w> {
    at_pace(work, program, pace).guarded().kept().hang_after(&format!("{}ms", pace.as_millis()))
}

pub(crate) fn guarded_as_it_says<'w>(work: &'w Work, program: &InCorpus) -> Run<'w> {
    as_it_says(guarded(work, program, pace()), program)
}

fn as_it_says<'w>(run: Run<'w>, program: &InCorpus) -> Run<'w> {
    program.header.env.iter().fold(run, |run, (name, value)| run.set(name, value))
}

fn bare_it_hangs(test: &str, name: &str) {
    let (work, program) = (Work::new(test), InCorpus::named(name));
    let outcome = run(&work, &program).start().finish_within(HANGS);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (None, ""), "it should hang: {outcome}");
}

fn the_verdict_is_right_live_and_from_its_folder(test: &str, name: &str) {
    let (work, program) = (Work::new(test), InCorpus::named(name));
    let Expect::Hang { code, .. } = &program.header.expect else { panic!("{name} is not said to hang") };
    expect_the_verdict(&work, &program, code, guarded_as_it_says(&work, &program));
}

/// Asked where the first lines give a code for the default settings.
fn under_the_default_settings_the_verdict_is_right(test: &str, name: &str) {
    let (work, program) = (Work::new(test), InCorpus::named(name));
    let code = program.header.default.as_deref().unwrap_or_default();
    expect_the_verdict(&work, &program, code, guarded(&work, &program, pace()));
}

fn under_the_default_settings_it_completes(test: &str, name: &str) {
    let (work, program) = (Work::new(test), InCorpus::named(name));
    let outcome = guarded(&work, &program, pace()).start().finish_within(ENDS);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "it should complete: {outcome}");
    expect_uneventful(&outcome.out());
}

fn it_ends_and_is_never_called_a_hang(test: &str, name: &str) {
    let (work, program) = (Work::new(test), InCorpus::named(name));
    let Expect::Ends { may_be_slow, may_be_silent } = program.header.expect else { panic!("{name} is said to hang") };
    // Beside each other: both do little but wait.
    let bare = run(&work, &program).start();
    let kept = guarded_as_it_says(&work, &program).start();
    let (bare, mut kept) = (bare.finish_within(ENDS), kept.finish_within(ENDS));
    assert_eq!((bare.code, bare.stderr.as_str()), (Some(0), ""), "it should end by itself: {bare}");
    if kept.stderr.is_empty() && !may_be_silent {
        // On a busy machine the program may end before the watchdog's thread gets to run. Then it is tried at half the pace.
        kept = as_it_says(guarded(&work, &program, pace() * 2), &program).start().finish_within(ENDS);
    }
    assert_eq!((kept.code, &kept.stdout), (bare.code, &bare.stdout), "the guard changes what it does: {kept}");

    let foreign = kept.stderr.lines().find(|line| !line.starts_with("lazyguard: "));
    assert_eq!(foreign, None, "a line without the guard's mark: {kept}");
    assert!(!kept.stderr.contains("lazyguard: HANG"), "it is called a hang: {kept}");
    assert!(!kept.stderr.contains("LG2"), "it is given a code: {kept}");
    let called_slow = kept.stderr.contains("lazyguard: SLOW");
    assert!(called_slow || kept.stderr.is_empty(), "something is said, and not that it is slow: {kept}");
    assert!(if called_slow { may_be_slow } else { may_be_silent }, "said to be slow: {called_slow}; {kept}");
    if kept.out().holds("hang.json") {
        let status = kept.out().hang()["status"].clone();
        assert_eq!(status, "slow", "{}", kept.out().report("text"));
    }
}

/// A program that ends by itself and is reported as a hang with this code, and then as resolved.
fn it_ends_and_what_is_said_of_it_is_known(test: &str, name: &str) {
    let (work, program) = (Work::new(test), InCorpus::named(name));
    let told = program.header.told.as_deref().unwrap_or_default();
    let bare = run(&work, &program).start();
    let kept = guarded_as_it_says(&work, &program).start();
    let (bare, kept) = (bare.finish_within(ENDS), kept.finish_within(ENDS));
    assert_eq!((kept.code, &kept.stdout), (Some(0), &bare.stdout), "the guard changes what it does: {kept}");
    let codes: Vec<_> = kept.stderr.matches("lazyguard: LG2").collect();
    assert_eq!(codes.len(), 1, "{kept}");
    assert!(kept.stderr.contains(&format!("lazyguard: {told} (")), "{kept}");
    assert!(kept.stderr.contains("lazyguard: RESOLVED "), "{kept}");
}

/// A program that hangs, and for which the guard reports a wrong code or nothing.
fn what_is_said_of_it_is_known(test: &str, name: &str) {
    let (work, program) = (Work::new(test), InCorpus::named(name));
    let told = program.header.told.as_deref().unwrap_or_default();
    let mut running = guarded_as_it_says(&work, &program).start();
    if told == "nothing" {
        std::thread::sleep(verdict());
        let outcome = running.stop();
        assert_eq!(outcome.stderr, "", "{outcome}");
        return;
    }
    let folder = until_the_final_verdict(&mut running);
    let outcome = running.stop();
    assert_eq!(folder.hang()["verdicts"][0]["code"], told, "{outcome}");
}

/// Waits for the verdict that the driver was asked about, kills the program with SIGKILL, and reads what is left: as it was reported,
/// and from the recording alone.
fn expect_the_verdict(work: &Work, program: &InCorpus, code: &str, run: Run<'_>) {
    let mut running = run.start();
    let folder = until_the_final_verdict(&mut running);
    let said = running.stop().stderr;
    let reported = report_of(folder.path());
    let alone = without_the_report(work, folder.path());
    let recorded = report_of(&alone);
    let copy = anonymised(&alone.join("trace.lgt"), &work.path().join("copy.lgt"), &["--keep-kernel-names"]);
    let copied = report_of(copy);

    let mut wrong = Vec::new();
    if reported["hang"] != folder.hang() {
        wrong.push("the command reports another hang than the file holds".to_owned());
    }
    wrong.extend(differences(program, code, "live", &reported["hang"]["verdicts"]));
    wrong.extend(differences(program, code, "from the recording alone", &recorded["recording"]["verdicts"]));
    let [verdicts, of_copy] = [&recorded, &copied].map(|report| in_short(&report["recording"]["verdicts"]));
    if verdicts != of_copy {
        wrong.push(format!("from the anonymised recording: {of_copy:#?}, and from the recording: {verdicts:#?}"));
    }
    if !said.contains(&format!("lazyguard: {code} (")) {
        wrong.push(format!("{code} is not on standard error"));
    }
    let hang = &reported["hang"];
    let snapshot = &recorded["recording"]["snapshot"];
    assert!(
        wrong.is_empty(),
        "{}\n--- {}\n--- standard error\n{said}\n--- hang.json\n{hang:#}\n--- from the recording: {:#}\n{snapshot:#}",
        wrong.join("\n"),
        program.header.what,
        recorded["recording"]["verdicts"]
    );
}

fn until_the_final_verdict(running: &mut Running) -> Folder {
    until_the_verdict_within(running, verdict())
}

pub(crate) fn until_the_verdict_within(running: &mut Running, limit: Duration) -> Folder {
    let out = running.out();
    running.until("the final verdict, the driver asked", limit, |running| {
        // It is replaced, never changed, but may not be there yet.
        let hang: Json = serde_json::from_slice(&fs::read(out.join("hang.json")).ok()?).ok()?;
        let final_one = hang["status"] == "hang" && !hang["probe"].is_null();
        (final_one && running.stderr().contains("lazyguard: HANG")).then_some(())
    });
    // The process stamps its recording ten times a second: killed at once, it would have been last seen before the verdict.
    std::thread::sleep(Duration::from_millis(250));
    Folder::at(&out)
}

/// A copy of a run folder that lacks the report, so that there is nothing to go by but the recording.
fn without_the_report(work: &Work, folder: &Path) -> PathBuf {
    let copy = work.folder("recording");
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())).flatten() {
        if entry.file_name() != "hang.json" && entry.path().is_file() {
            let copied = fs::copy(entry.path(), copy.join(entry.file_name()));
            copied.unwrap_or_else(|error| panic!("{}: {error}", entry.path().display()));
        }
    }
    copy
}

/// What is wrong with verdicts, in one line each.
fn differences(program: &InCorpus, code: &str, whence: &str, verdicts: &Json) -> Vec<String> {
    let Expect::Hang { culprit, innocent, .. } = &program.header.expect else { return Vec::new() };
    let verdicts = verdicts.as_array().map_or(&[][..], Vec::as_slice);
    let Some(first) = verdicts.first() else { return vec![format!("{whence}: there is no verdict")] };
    let mut wrong = Vec::new();
    if first["code"] != code {
        wrong.push(format!("{whence}: the code is {}, and should be {code}", first["code"]));
    }
    let blamed = culprits(first);
    if blamed.first() != Some(culprit) {
        wrong.push(format!("{whence}: {blamed:?} is blamed, and {culprit} should be, in the first place"));
    }
    if let Some(innocent) = innocent {
        if verdicts.iter().any(|verdict| culprits(verdict).contains(innocent)) {
            wrong.push(format!("{whence}: {innocent} is blamed, and has nothing to do with it"));
        }
    }
    let empty =
        |key: &str| first[key].as_array().is_none_or(Vec::is_empty) && first[key].as_str().is_none_or(str::is_empty);
    wrong.extend(["chain", "fix"].iter().filter(|key| empty(key)).map(|key| format!("{whence}: there is no {key}")));
    wrong
}

/// What verdicts say, but for the numbers of streams.
fn in_short(verdicts: &Json) -> Vec<String> {
    let in_short = |verdict: &Json| {
        let at: Vec<_> = verdict["evidence"].as_array().into_iter().flatten().map(|fact| fact["at"].clone()).collect();
        format!("{} {} {:?} {:?} {at:?}", verdict["code"], verdict["confidence"], verdict["threads"], culprits(verdict))
    };
    verdicts.as_array().into_iter().flatten().map(in_short).collect()
}

/// What a verdict blames: kernels by name, other operations by the call that submitted them.
fn culprits(verdict: &Json) -> Vec<String> {
    let name = |culprit: &Json| {
        let operation = &culprit["operation"];
        operation["function"].as_str().or(operation["call"].as_str()).unwrap_or("?").to_owned()
    };
    verdict["culprits"].as_array().into_iter().flatten().map(name).collect()
}
