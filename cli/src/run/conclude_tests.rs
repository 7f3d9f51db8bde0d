//! Tests of a run's outcome, from the folders that its processes leave.

use super::*;
use crate::judge::exit_code;
use crate::judge::test_samples::{
    finished, hang_json, hang_report, hazard, hazards_json, recording, recording_of_a_call, Scratch,
};
use crate::recordings::{ended_process, Job, SMALL};
use lazyguard_core::api::result::error_name;
use lazyguard_core::diagnose::{CallEnd, Code, HowEnded};
use lazyguard_core::hazard::Hazard;
use lazyguard_core::report::{json, DumpReport, Summary, SCHEMA};
use lazyguard_core::trace::ProcessFacts;
use serde_json::json;
use std::path::Path;

const SECOND: u64 = 1_000_000_000;

/// A run whose folders a test puts together.
struct Left(Scratch);

impl Left {
    fn new() -> Self {
        Self(Scratch::new("conclude"))
    }

    fn root(&self) -> PathBuf {
        self.0.path("root")
    }

    /// A process that ended well and has met these hazards.
    fn process(self, rank: &str, hazards: &[Hazard]) -> Self {
        let name = format!("root/rank{rank}-4242");
        self.0.file(&format!("{name}/trace.lgt"), recording(rank, false).bytes(3 * SECOND));
        self.0.file(&format!("{name}/hazards.json"), hazards_json(4242, rank, hazards));
        let summary =
            Summary { schema: SCHEMA, program: "train".to_owned(), process: 4242, launches: 7, ..Summary::default() };
        self.0.file(&format!("{name}/run.json"), serde_json::to_string(&summary).unwrap());
        self
    }

    fn hanging(self, rank: &str) -> Self {
        let name = format!("root/rank{rank}-4242");
        let job = recording(rank, true);
        self.0.file(&format!("{name}/trace.lgt"), job.bytes(60 * SECOND));
        self.0.file(&format!("{name}/hang.json"), hang_json(&job, &self.0.path(&name)));
        self
    }

    /// A process whose call had been in progress for less than the threshold.
    fn suspected(self, rank: &str) -> Self {
        self.0.file(&format!("root/rank{rank}-4242/trace.lgt"), recording(rank, true).bytes(3 * SECOND));
        self
    }

    fn file(self, name: &str, content: &str) -> Self {
        self.0.file(name, content);
        self
    }

    fn conclude(&self, end: End, wanted: &Wanted) -> Conclusion {
        conclude(&finished(self.root(), end), wanted).unwrap()
    }

    fn fails(&self, end: End, fail_on: &str) -> Option<FailedOn> {
        self.conclude(end, &wanted(fail_on)).failed
    }
}

fn wanted(fail_on: &str) -> Wanted {
    Wanted { fail_on: fail_on.parse().unwrap(), annotations: Annotations::Off, ..Wanted::default() }
}

fn writing<const N: usize>(files: [(&'static str, PathBuf); N], fail_on: &str) -> Wanted {
    Wanted { files: files.into(), ..wanted(fail_on) }
}

fn met() -> Hazard {
    hazard(Code::LG101, Some("k2"))
}

#[test]
fn a_run_that_is_well_says_nothing_and_leaves_nothing() {
    let left = Left::new().process("0", &[]);
    let conclusion = left.conclude(End::Exited(0), &wanted("hang,hazard"));
    assert_eq!((conclusion.failed, conclusion.keep), (None, false));
    assert_eq!(conclusion.lines, Vec::<String>::new());
    // If no process has used CUDA, there is no root either.
    let nothing = Left::new().conclude(End::Exited(3), &wanted("hang,hazard"));
    assert_eq!((nothing.failed, nothing.keep, nothing.lines), (None, false, Vec::new()));
}

#[test]
fn a_program_that_fails_by_itself_keeps_its_folder() {
    let left = Left::new().process("0", &[]);
    let conclusion = left.conclude(End::Exited(3), &wanted("hang"));
    assert_eq!((conclusion.failed, conclusion.keep, conclusion.lines), (None, true, Vec::new()));
}

#[test]
fn a_crash_is_one_line_and_an_end_that_was_asked_for_is_none() {
    let left = Left::new().process("0", &[]);
    let lines = |signal| left.conclude(End::Signalled(signal), &wanted("")).lines;
    assert_eq!(lines(11), ["lazyguard: train ended by signal 11 (SIGSEGV)"]);
    assert_eq!(lines(9), ["lazyguard: train ended by signal 9 (SIGKILL)"]);
    // Who sends these knows it.
    assert_eq!((lines(15).len(), lines(10).len(), lines(13).len()), (0, 0, 0));
}

#[test]
fn a_rank_that_crashed_is_named_before_those_that_hang() {
    let end = json!([{ "process": 7, "start_ticks": null, "exit_code": null, "signal": 11, "ended_by_run": false, "at_unix_ns": 1 }]);
    let left = Left::new().hanging("0").file("root/supervised.json", &json!({ "ended": end }).to_string());
    let crashed = ProcessFacts { process: 7, rank: "1".to_owned(), ..ended_process() };
    left.0.file("root/rank1-7/trace.lgt", Job::of(SMALL, &crashed).bytes(3 * SECOND));
    let lines = left.conclude(End::Exited(1), &wanted("")).lines;
    assert!(lines[0].ends_with("(process 7, rank 1) was ended by signal 11 (SIGSEGV)"), "{lines:#?}");
    let (processes, _) = collect::of_run(&left.root());
    assert_eq!(processes.iter().map(|process| process.rank.as_str()).collect::<Vec<_>>(), ["1", "0"]);
}

#[test]
fn the_end_of_a_job_has_few_lines_however_many_ranks_it_has() {
    let ranks = (1..64).map(|rank| rank.to_string());
    let left = ranks.fold(Left::new().hanging("0"), |left, rank| {
        left.process(&rank, &[]).file(&format!("root/rank{rank}-4242/run.json"), "cut")
    });
    let lines = left.conclude(End::EndedOnHang, &wanted("hang")).lines;
    assert!(lines.len() <= 20 && lines[0].contains("HANG") && lines[1].contains("LG201"), "{lines:#?}");
    assert!(lines[19].ends_with("more lines: lazyguard report on the folder has them"), "{lines:#?}");
}

#[test]
fn files_name_the_folder_of_a_run_only_where_it_stays() {
    let left = Left::new().process("0", &[met()]);
    let [junit, sarif] = ["j.xml", "s.sarif"].map(|name| left.0.path(name));
    let files = || writing([("--junit", junit.clone()), ("--sarif", sarif.clone())], "");
    let name_it = |end, wanted: &Wanted| {
        left.conclude(end, wanted);
        let read = |path: &Path| std::fs::read_to_string(path).unwrap();
        (read(&junit).contains(left.root().to_str().unwrap()), read(&sarif).contains("rank0-4242"))
    };
    assert_eq!(name_it(End::Exited(0), &files()), (false, false));
    assert_eq!(name_it(End::Exited(3), &files()), (true, true));
    assert_eq!(name_it(End::Exited(0), &Wanted { keeps_folder: true, ..files() }), (true, true));
}

#[test]
fn a_hang_fails_the_run_where_that_is_asked_for_and_always_where_it_was_ended_for_it() {
    let left = Left::new().hanging("0");
    assert_eq!(left.fails(End::Exited(0), "hang"), Some(FailedOn::Hang));
    assert_eq!(left.fails(End::Signalled(9), "hazard"), None);
    assert_eq!(left.fails(End::EndedOnHang, "hazard"), Some(FailedOn::Hang));
    let conclusion = left.conclude(End::EndedOnHang, &wanted("hang"));
    let expect = [
        "lazyguard: HANG 15:07:15Z node7 rank 0 pid 4242 (train): blocked 34 s in cuCtxSynchronize at train+0x3333; 59 s when it \
         was last seen, at 15:07:40Z",
        "lazyguard: LG201 (likely): k2 cannot start: loading it on its first launch waits for k1 on stream 1, and k1 has not ended.",
        "lazyguard:   fix: load k2 before launching k1: cudaFuncGetAttributes(k2), or LAZYGUARD_PRELOAD=auto",
        "lazyguard:   k1 launched at train+0x1111, k2 at train+0x2222",
    ];
    assert_eq!((conclusion.keep, &conclusion.lines[..]), (true, &expect.map(str::to_owned)[..]));
    // A run that its user has ended says it as well.
    let ended = left.conclude(End::Signalled(2), &wanted(""));
    assert_eq!((ended.failed, &ended.lines[..]), (None, &expect.map(str::to_owned)[..]));
    // Ranks that hang for the same cause are reported once.
    let ranks = (1..8).fold(Left::new().hanging("0"), |left, rank| left.hanging(&rank.to_string()));
    let lines = ranks.conclude(End::EndedOnHang, &wanted("hang")).lines;
    assert_eq!(
        (lines.len(), lines.last().map(String::as_str)),
        (5, Some("lazyguard: the same in ranks 0-7 (8 processes)"))
    );
}

/// Its process is no rank, and has printed its report: the end has what is known since.
#[test]
fn the_end_of_a_run_does_not_repeat_the_report_of_its_process() {
    let conclusion = Left::new().hanging("").conclude(End::EndedOnHang, &wanted("hang"));
    let expect = "lazyguard: HANG 15:07:15Z node7 pid 4242 (train): blocked 34 s in cuCtxSynchronize at train+0x3333; 59 s when it \
                  was last seen, at 15:07:40Z: LG201, as reported";
    // The process had no name of a place.
    assert_eq!(conclusion.lines, [expect, "lazyguard:   k1 launched at train+0x1111, k2 at train+0x2222"]);
    // It was killed before it reported anything.
    let left = Left::new();
    left.0.file("root/rank-4242/trace.lgt", recording("", true).bytes(60 * SECOND));
    let lines = left.conclude(End::TimedOut, &wanted("hang")).lines;
    assert!(lines[1].starts_with("lazyguard: LG201 (likely): k2 cannot start"), "{lines:#?}");
}

#[test]
fn a_call_that_a_process_makes_when_the_run_ends_it_is_no_hang() {
    for (before, is_one) in [(1, false), (0, true)] {
        let left = Left::new().hanging("0");
        let report = hang_report(&recording("0", true), &left.root().join("rank0-4242"));
        let entered = report.waited_in().map(|call| call.entered).min().expect("a call that is waited in");
        let dump = DumpReport { told_at: Some(entered - before), ..DumpReport::new(1, 1, (0, 0), report) };
        let left = left.file("root/rank0-4242/dump.json", &json(&dump));
        assert_eq!(left.fails(End::TimedOut, "hang").is_some(), is_one, "{before}");
    }
}

#[test]
fn a_hang_that_went_on_by_itself_is_none() {
    let left = Left::new().process("0", &[]);
    let folder = left.root().join("rank0-4242");
    let mut report = hang_report(&recording("0", true), &folder);
    report.resolved = Some(40 * SECOND);
    let left = left.file("root/rank0-4242/hang.json", &json(&report));
    let conclusion = left.conclude(End::Exited(0), &wanted("hang"));
    assert_eq!((conclusion.failed, conclusion.keep), (None, true));
}

/// The hang is over: its first call ended so.
fn over(how: HowEnded, result: Option<i32>) -> Left {
    let left = Left::new().process("0", &[]);
    let folder = left.root().join("rank0-4242");
    let mut report = hang_report(&recording("0", true), &folder);
    let call = report.waited_in().next().expect("a call that is waited in");
    let (thread, call, entered) = (call.thread, call.call.clone(), call.entered);
    let error = result.and_then(error_name).map(str::to_owned);
    report.ends = vec![CallEnd { thread, call, entered, how, at: Some(40 * SECOND), result, error }];
    report.resolved = Some(40 * SECOND);
    left.file("root/rank0-4242/hang.json", &json(&report))
}

#[test]
fn a_hang_that_ended_with_an_error_is_a_hang_and_says_which() {
    let left = over(HowEnded::Failed, Some(719));
    let conclusion = left.conclude(End::Exited(0), &wanted("hang"));
    assert_eq!((conclusion.failed, conclusion.keep), (Some(FailedOn::Hang), true));
    let (first, last) = (&conclusion.lines[0], &conclusion.lines[conclusion.lines.len() - 1]);
    assert!(
        first.starts_with("lazyguard: HANG ") && last.ends_with("(CUDA_ERROR_LAUNCH_FAILED) at +40.000 s"),
        "{first} {last}"
    );
    // A refused image says nothing about what the load waited for.
    assert_eq!(over(HowEnded::Failed, Some(209)).fails(End::Exited(0), "hang"), None);
    assert_eq!(over(HowEnded::Returned, None).fails(End::Exited(0), "hang"), None);
    assert_eq!(over(HowEnded::Left, None).fails(End::Exited(0), "hang"), Some(FailedOn::Hang));
    assert_eq!(over(HowEnded::AsksNoMore, None).fails(End::Exited(0), "hang"), None);
}

/// The process may end before its watchdog has looked again; the recording has the record of the call.
#[test]
fn what_became_of_a_hang_is_taken_from_the_recording_where_the_report_does_not_know() {
    for (result, fails) in [(719, Some(FailedOn::Hang)), (0, None)] {
        let left = Left::new().process("0", &[]);
        let folder = left.root().join("rank0-4242");
        let job = recording("0", true);
        let report = hang_report(&job, &folder);
        let blocked = report.waited_in().next().expect("a call that is waited in");
        // The same process, some time later: the call is over.
        let later = recording_of_a_call(blocked.call.symbol(), blocked.entered, result);
        let left = left.file("root/rank0-4242/hang.json", &json(&report));
        left.0.file("root/rank0-4242/trace.lgt", later.bytes(60 * SECOND));
        assert_eq!(left.fails(End::Exited(0), "hang"), fails, "{result}");
    }
}

/// At a hang a summary is kept; a process that is killed later has said no more.
#[test]
fn a_process_without_a_recording_is_not_said_to_run() {
    let left = Left::new();
    let summary =
        Summary { schema: SCHEMA, program: "train".to_owned(), ended: "running".to_owned(), ..Summary::default() };
    left.0.file("root/rank0-1/run.json", serde_json::to_string(&summary).unwrap());
    let (processes, _) = collect::under(&left.root());
    assert_eq!(processes[0].ended, "was running when its hang was reported; how it ended was not seen");
}

#[test]
fn a_process_that_was_killed_over_a_call_is_suspected_and_fails_nothing() {
    let left = Left::new();
    left.0.file("root/rank0-1/trace.lgt", recording("0", true).bytes(3 * SECOND));
    let conclusion = left.conclude(End::TimedOut, &wanted("hang"));
    assert_eq!(conclusion.failed, None);
    let first = "lazyguard: SUSPECTED hang in train (process 4242, rank 0): LG201: k2 cannot start";
    assert!(conclusion.keep && conclusion.lines[0].starts_with(first), "{:?}", conclusion.lines);
    // Once it has lasted for as long as a report waits, it is one.
    left.0.file("root/rank0-1/trace.lgt", recording("0", true).bytes(60 * SECOND));
    assert_eq!(left.fails(End::TimedOut, "hang"), Some(FailedOn::Hang));
}

#[test]
fn a_hang_comes_before_hazards() {
    let left = Left::new().hanging("0").process("1", &[met()]);
    assert_eq!(left.fails(End::Exited(0), "hang,hazard"), Some(FailedOn::Hang));
    assert_eq!(left.fails(End::Exited(0), "hazard"), Some(FailedOn::Hazard));
}

#[test]
fn a_hazard_that_fails_the_run_is_said_with_the_option_that_says_so() {
    let left = Left::new().process("0", &[met()]);
    let conclusion = left.conclude(End::Exited(0), &wanted("hazard:LG101"));
    assert_eq!((conclusion.failed, conclusion.keep), (Some(FailedOn::Hazard), true));
    let expect = [
        "lazyguard: hazard LG101: cuLaunchKernel of k2 on a non-blocking stream, beside k1, 3 times: a cold function was loaded while other work was in flight",
        "lazyguard: this hazard fails the run, as --fail-on LG101 says",
    ];
    assert_eq!(conclusion.lines, expect);
    assert_eq!(left.fails(End::Exited(0), "LG104,hang"), None);
}

#[test]
fn the_summary_counts_processes_hangs_and_hazards() {
    let other = hazard(Code::LG102, None);
    let prevented = Hazard { prevented: true, ..hazard(Code::LG101, Some("k3")) };
    let left = Left::new().process("0", &[met(), other, prevented.clone()]).process("1", &[met()]);
    let left = left.file("s.txt", "LG102:*\ncall:cuFree\n");
    let summary = Wanted { result: true, suppressions: vec![left.0.path("s.txt")], ..wanted("hang") };
    let lines = left.conclude(End::Exited(0), &summary).lines;
    let unused = format!("lazyguard: unused suppression {}:2: call:cuFree", left.0.path("s.txt").display());
    let line = "lazyguard: train: 2 processes, no hang, 2 hazards (1 new, 1 suppressed), 1 prevented, 3.2 s";
    assert_eq!(lines, [unused.as_str(), line]);
    for (left, end, expect) in [
        (Left::new().process("0", &[met()]), End::Exited(0), "train: 1 process, no hang, 1 hazard, 3.2 s"),
        (Left::new().hanging("0"), End::TimedOut, "train: 1 process, 1 hang, no hazard, timed out after 3.2 s"),
        (Left::new().process("0", &[]), End::TimedOut, "train: 1 process, no hazard, timed out after 3.2 s"),
        (
            Left::new().suspected("0"),
            End::TimedOut,
            "train: 1 process, 1 suspected hang, no hazard, timed out after 3.2 s",
        ),
        (
            Left::new().suspected("0"),
            End::Signalled(9),
            "train: 1 process, 1 suspected hang, no hazard, ended by signal 9 (SIGKILL) after 3.2 s",
        ),
        (Left::new(), End::Exited(2), "train: no process was recorded, no hang, no hazard, exit status 2 after 3.2 s"),
        (
            Left::new().process("0", &[prevented]),
            End::Exited(0),
            "train: 1 process, no hang, no hazard, 1 prevented, 3.2 s",
        ),
    ] {
        let wanted = Wanted { result: true, ..wanted("prevented,LG109") };
        let lines = left.conclude(end, &wanted).lines;
        assert!(lines.contains(&format!("lazyguard: {expect}")), "{expect}: {lines:?}");
    }
}

#[test]
fn a_baseline_is_written_and_what_it_has_fails_no_run() {
    let left = Left::new().process("0", &[met()]);
    let path = left.0.path("ci/base.json");
    let write = writing([("--write-baseline", path.clone())], "hang");
    left.conclude(End::Exited(0), &write);
    let compare = Wanted { baseline: Some(path.clone()), ..wanted("hazard") };
    assert_eq!(left.conclude(End::Exited(0), &compare).failed, None);
    let new = Left::new().process("0", &[met(), hazard(Code::LG104, None)]);
    let conclusion = new.conclude(End::Exited(0), &compare);
    assert_eq!(conclusion.failed, Some(FailedOn::Hazard));
    assert!(conclusion.lines[0].starts_with("lazyguard: hazard LG104: "), "{:?}", conclusion.lines);
    assert!(!conclusion.lines.iter().any(|line| line.contains("LG101")), "{:?}", conclusion.lines);
}

#[test]
fn programs_that_share_a_baseline_add_to_it_and_suppressed_hazards_stay_out() {
    let (one, two) = (Left::new().process("0", &[met()]), Left::new().process("0", &[hazard(Code::LG104, None)]));
    let one = one.file("s.txt", "LG105:*\n");
    let path = one.0.path("base.json");
    let both = || Wanted { baseline: Some(path.clone()), ..writing([("--write-baseline", path.clone())], "hazard") };
    assert_eq!(one.conclude(End::Exited(0), &both()).failed, Some(FailedOn::Hazard));
    two.conclude(End::Exited(0), &both());
    let three = Left::new().process("0", &[hazard(Code::LG105, None)]);
    three.conclude(End::Exited(0), &Wanted { suppressions: vec![one.0.path("s.txt")], ..both() });
    let keys = baseline::read(&path).unwrap().unwrap();
    let expect = ["LG101|k2|cuLaunchKernel|non-blocking", "LG104|-|cuLaunchKernel|non-blocking"];
    assert_eq!(keys.into_iter().collect::<Vec<_>>(), expect);
}

#[test]
fn the_lists_are_those_from_before_the_run() {
    let left = Left::new().process("0", &[met()]).file("s.txt", "LG101:*\n");
    let mut suppressed = Wanted { suppressions: vec![left.0.path("s.txt")], ..wanted("hazard") };
    suppressed.rules = Some(rules(&suppressed).unwrap());
    std::fs::remove_file(left.0.path("s.txt")).unwrap();
    assert_eq!(left.conclude(End::Exited(0), &suppressed).failed, None);
}

#[test]
fn a_baseline_that_is_not_there_is_an_error_that_says_how_to_make_one() {
    let left = Left::new();
    let compare = Wanted { baseline: Some("/no/such/base.json".into()), ..wanted("hazard") };
    let error = conclude(&finished(left.root(), End::Exited(0)), &compare).unwrap_err().to_string();
    let expect =
        "baseline /no/such/base.json: there is no such file; --write-baseline /no/such/base.json makes one of a run";
    assert_eq!(error, expect);
    // Known before the program has run as well.
    assert_eq!(rules(&compare).unwrap_err().to_string(), expect);
    let suppressions = vec![left.0.file("s.txt", "LG101")];
    let error = rules(&Wanted { suppressions, ..wanted("hang") }).unwrap_err().to_string();
    assert!(error.contains("s.txt:1: \"LG101\" has no colon"), "{error}");
    assert!(rules(&wanted("hang")).is_ok());
}

#[test]
fn the_files_that_are_asked_for_are_written_and_one_that_cannot_be_is_an_error() {
    let left = Left::new().process("0", &[met()]);
    let files = [("--junit", "a/j.xml"), ("--json", "b.json"), ("--sarif", "c.sarif"), ("--html", "d.html")];
    left.conclude(End::Exited(0), &writing(files.map(|(flag, name)| (flag, left.0.path(name))), "hang"));
    for (name, start) in [
        ("a/j.xml", "<?xml version=\"1.0\""),
        ("b.json", "{\n"),
        ("c.sarif", "{\n"),
        ("d.html", "<!DOCTYPE html>\n<html lang=\"en\">"),
    ] {
        let text = std::fs::read_to_string(left.0.path(name)).unwrap();
        assert!(text.starts_with(start), "{name}: {text}");
    }
    left.0.file("file", "");
    for (flag, what) in [
        ("--junit", "file/j.xml"),
        ("--json", "root"),
        ("--sarif", "root"),
        ("--html", "root"),
        ("--write-baseline", "root"),
    ] {
        let conclusion = left.conclude(End::Exited(0), &writing([(flag, left.0.path(what))], "hazard"));
        let errors: Vec<_> = conclusion.unwritten.iter().map(ToString::to_string).collect();
        assert!(errors[0].starts_with(&format!("{}: cannot be written: ", left.0.path(what).display())), "{errors:?}");
        assert!(conclusion.failed == Some(FailedOn::Hazard) && !conclusion.lines.is_empty(), "what was found is told");
    }
}

#[test]
fn a_line_stays_one_whatever_the_program_is_called() {
    let left = Left::new();
    let run = Finished { command: vec!["/bin/a\n::error::b".to_owned()], ..finished(left.root(), End::Exited(0)) };
    let conclusion = conclude(&run, &Wanted { result: true, ..wanted("hang") }).unwrap();
    assert!(conclusion.lines.iter().all(|line| !line.contains('\n')), "{:?}", conclusion.lines);
    assert!(conclusion.lines[0].contains("::error::b"), "{:?}", conclusion.lines);
}

#[test]
fn a_run_that_was_only_given_the_same_folder_is_no_part_of_this_one() {
    let left = Left::new();
    let other = Left::new().process("0", &[met()]);
    let run = left.root().join("run-7");
    std::fs::create_dir_all(left.root()).unwrap();
    std::fs::rename(other.root(), &run).unwrap();
    let started_by = |around: serde_json::Value| {
        std::fs::write(run.join("supervised.json"), serde_json::json!({ "around": around }).to_string()).unwrap();
        left.fails(End::Exited(0), "hazard")
    };
    assert_eq!(started_by(serde_json::Value::Null), None);
    assert_eq!(started_by("/elsewhere".into()), None);
    assert_eq!(started_by(left.root().to_str().into()), Some(FailedOn::Hazard));
    assert_eq!(collect::under(&left.root()).0.len(), 1, "a report is of all that lies there");
}

#[test]
fn what_is_damaged_costs_a_line_and_the_rest_is_told() {
    let left = Left::new().process("0", &[met()]).process("1", &[met()]).process("2", &[met()]).hanging("3");
    for name in ["rank0-4242/hazards.json", "rank1-4242/run.json", "rank2-4242/trace.lgt"] {
        left.0.file(&format!("root/{name}"), "{\"cut");
    }
    std::fs::create_dir(left.root().join("of-somebody-else")).unwrap();
    let conclusion = left.conclude(End::Exited(0), &Wanted { result: true, ..wanted("hang,hazard") });
    assert_eq!(conclusion.failed, Some(FailedOn::Hang));
    for name in ["rank0-4242/hazards.json: ", "rank1-4242/run.json: ", "rank2-4242/trace.lgt: "] {
        let line = format!("lazyguard: cannot be read: {}", left.root().join(name).display());
        let told = conclusion.lines.iter().filter(|told| told.starts_with(line.trim_end())).count();
        assert_eq!(told, 1, "{name}: {:?}", conclusion.lines);
    }
    let summary = "lazyguard: train: 4 processes, 1 hang, 1 hazard, 3.2 s";
    assert!(conclusion.lines.iter().any(|line| line == summary), "{:?}", conclusion.lines);
}

#[test]
fn a_program_that_replaces_itself_has_its_folder_in_the_one_of_the_first() {
    let left = Left::new().process("0", &[met()]);
    left.0.file("root/rank0-4242/4242/trace.lgt", recording("0", false).bytes(SECOND));
    left.0.file("root/rank0-4242/4242/hazards.json", hazards_json(4242, "0", &[met()]));
    let lines = left.conclude(End::Exited(0), &Wanted { result: true, ..wanted("hang") }).lines;
    assert_eq!(lines, ["lazyguard: train: 2 processes, no hang, 1 hazard, 3.2 s"]);
}

#[test]
fn the_exit_code_of_a_run_is_the_worst_of_what_happened() {
    use FailedOn::{Hang, Hazard};
    for (end, failed, code) in [
        (End::Exited(0), None, 0),
        (End::Exited(7), None, 7),
        (End::Exited(0), Some(Hazard), 118),
        (End::Exited(7), Some(Hazard), 7),
        (End::Signalled(9), Some(Hazard), 137),
        (End::Signalled(15), None, 143),
        (End::Signalled(64), Some(Hazard), 192),
        (End::TimedOut, None, 124),
        (End::EndedOnHang, None, 117),
        (End::TimedOut, Some(Hazard), 124),
        (End::TimedOut, Some(Hang), 117),
        (End::Exited(0), Some(Hang), 117),
        (End::EndedOnHang, Some(Hang), 117),
    ] {
        assert_eq!(exit_code(end, failed), code, "{end:?} {failed:?}");
    }
}

/// The files of all sorts of runs, and two files that no schema allows.
#[test]
fn every_file_is_as_its_schema_wants_it() {
    let prevented = Hazard { prevented: true, ..hazard(Code::LG101, Some("k3")) };
    let nasty =
        hazard(Code::LG109, Some("k<\u{1}&'\"]]>, 100%\u{e9}\u{1f600}>::operator()(int*) const [with T = \u{7f}]"));
    let mut damaged = Left::new().process("0", &[met()]);
    damaged = damaged.file("root/rank0-4242/trace.lgt", "cut").file("root/rank0-4242/run.json", "");
    let many =
        Left::new().hanging("0").process("1", &[met(), prevented, nasty]).process("2", &[met()]).process("", &[]);
    let runs = [
        (Left::new(), End::Exited(0)),
        (Left::new().process("0", &[]), End::Exited(3)),
        (Left::new().process("0", &[met(), hazard(Code::LG104, None)]), End::Exited(0)),
        (Left::new().hanging("0"), End::EndedOnHang),
        (Left::new(), End::EndedOnHang),
        (many, End::Signalled(11)),
        (damaged, End::TimedOut),
    ];
    let place = Scratch::new("schemas");
    let suppressions = place.file("s.txt", "LG104:*\nprogram:nobody\n");
    let baseline = place.file("base.json", baseline::text([met().key()].into()).unwrap());
    let mut files = Vec::new();
    for (number, (left, end)) in runs.iter().enumerate() {
        for fail_on in ["hang", "hang,hazard,prevented"] {
            for baseline in [None, Some(baseline.clone())] {
                let name = format!("{number}-{fail_on}-{}", baseline.is_some());
                let (junit, sarif) = (place.path(&format!("{name}.xml")), place.path(&format!("{name}.sarif")));
                files.extend([junit.clone(), sarif.clone()]);
                let (suppressions, files) = (vec![suppressions.clone()], [("--junit", junit), ("--sarif", sarif)]);
                left.conclude(*end, &Wanted { suppressions, baseline, ..writing(files, fail_on) });
            }
        }
    }
    let check = |files: &[PathBuf]| {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/check-schema");
        let output = std::process::Command::new("python3").arg(script).args(files).output().unwrap();
        let said = format!("{}{}", String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
        (output.status.code(), said)
    };
    let (code, said) = check(&files);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.ends_with("56 passed, 0 failed\n"), "{said}");
    let junit = std::fs::read_to_string(&files[0]).unwrap().replace("<testcase name=", "<testcase title=");
    let sarif = std::fs::read_to_string(&files[1]).unwrap().replace("\"text\":", "\"said\":");
    let (code, said) = check(&[place.file("bad.xml", junit), place.file("bad.sarif", sarif)]);
    assert!(code == Some(1) && said.contains("bad.xml: ") && said.contains("bad.sarif: "), "{said}");
    assert!(said.ends_with("0 passed, 2 failed\n"), "{said}");
}
