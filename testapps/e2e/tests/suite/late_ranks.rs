//! A rank that is late and moves ends no job, whatever the action on a hang; one that stands still does.

use crate::nccl::bare;
use crate::run_passes_on::under;
use lazyguard_e2e::{command, library, log_of, root, text_report_of, Outcome, Running, Work, PATIENCE};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Far below the pause of a rank that is late, also after the time that the ranks have to answer.
const THRESHOLD: &str = "400ms";
const PAUSE: u32 = 7;
const ACTIONS: [&str; 4] = ["kill", "fail", "revoke", "abort"];

/// A shell that starts both ranks, and fails where one of them does.
fn job(work: &Work, kind: &str, name: &str) -> [String; 3] {
    job_of(work, kind, name, PAUSE)
}

fn job_of(work: &Work, kind: &str, name: &str, seconds: u32) -> [String; 3] {
    let folder = work.folder(name).display().to_string();
    let (program, nccl) = (root().join("testapps/ranks/late.py"), root().join("target/simnccl/libnccl.so.2"));
    let all = if kind == "three" { "0 1 2" } else { "0 1" };
    let one =
        format!("RANK=$rank python3 '{}' '{}' '{folder}' $rank {kind} {seconds}", program.display(), nccl.display());
    let script =
        format!("for rank in {all}; do {one} & p=\"$p $!\"; done; c=0; for x in $p; do wait $x || c=$?; done; exit $c");
    ["sh".to_owned(), "-c".to_owned(), script]
}

fn start(work: &Work, kind: &str, action: &str, round: u32, more: &[&str]) -> Running {
    start_at(work, kind, action, round, THRESHOLD, more)
}

fn start_at(work: &Work, kind: &str, action: &str, round: u32, threshold: &str, more: &[&str]) -> Running {
    let name = format!("{kind}-{action}-{round}");
    let out = work.path().join(format!("out-{name}")).display().to_string();
    let options = ["--hang-after", threshold, "--on-hang", action, "--fail-on", "hang", "--out", &out];
    under(work, &[&options, more].concat(), &job(work, kind, &name)).start()
}

/// With each action, at once; as often as `LAZYGUARD_TEST_LATE` says.
fn ends_no_job(work: &Work, kind: &str, rank: u32) {
    let rounds = std::env::var("LAZYGUARD_TEST_LATE").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(1);
    for round in 0..rounds {
        let started = ACTIONS.map(|action| (action, start(work, kind, action, round, &[])));
        let mut is_named = false;
        for (action, running) in started {
            let outcome = running.finish_within(PATIENCE);
            let ended = outcome.stdout.matches(": 4 steps").count();
            assert_eq!((outcome.code, ended), (Some(0), 2), "round {round}, {kind} with {action}: {outcome}");
            assert!(!outcome.stderr.contains("HANG"), "round {round}, {kind} with {action}: {outcome}");
            is_named |= outcome.stderr.contains(&format!("rank {rank} (process "));
        }
        assert!(is_named, "round {round}, {kind}");
    }
}

#[test]
fn a_rank_that_evaluates_ends_no_job() {
    ends_no_job(&Work::new(lazyguard_e2e::this_test!()), "evaluates", 1);
}

#[test]
fn the_first_rank_may_be_the_late_one() {
    ends_no_job(&Work::new(lazyguard_e2e::this_test!()), "evaluates_first", 0);
}

#[test]
fn a_checkpoint_that_is_written_on_ends_no_job() {
    ends_no_job(&Work::new(lazyguard_e2e::this_test!()), "checkpoint", 1);
}

#[test]
fn a_compilation_ends_no_job() {
    ends_no_job(&Work::new(lazyguard_e2e::this_test!()), "compiles", 1);
}

#[test]
fn an_uneven_batch_ends_no_job() {
    ends_no_job(&Work::new(lazyguard_e2e::this_test!()), "uneven", 1);
}

#[test]
fn a_slow_start_ends_no_job() {
    ends_no_job(&Work::new(lazyguard_e2e::this_test!()), "starts", 1);
}

#[test]
fn a_rank_that_stands_still_is_a_hang_as_ever() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for (kind, does) in [
        ("fifo", "opens "),
        ("leaves", "has left its loop and is in _shutdown"),
        ("lock", ""),
        ("stopped", "was stopped"),
        ("killed", ""),
    ] {
        let outcome = start(&work, kind, "kill", 0, &[]).finish_within(PATIENCE);
        assert_eq!(outcome.code, Some(117), "{kind}: {outcome}");
        assert!(outcome.stderr.contains("LG208 (likely)"), "{kind}: {outcome}");
        assert_eq!(statements_in(&work.path().join(format!("out-{kind}-kill-0"))), [""; 0], "{kind}");
        is_read(&work.path().join(format!("out-{kind}-kill-0")), &outcome, does);
    }
}

/// What two ranks leave fits on a screen, and says nothing twice.
fn is_read(folder: &Path, outcome: &Outcome, does: &str) {
    let most_on_standard_error = 30;
    assert!(outcome.stderr.lines().count() <= most_on_standard_error, "{outcome}");
    let report = Command::new(command()).arg("report").arg(folder).output().unwrap_or_else(|error| panic!("{error}"));
    let report = String::from_utf8_lossy(&report.stdout).into_owned();
    let lines: Vec<_> = report.lines().collect();
    assert!(lines.len() <= 40, "{} lines: {report}", lines.len());
    assert!(lines[2].starts_with("rank 1 has not called collective 3 of communicator 0 "), "{report}");
    let twice = lines.iter().filter(|line| !line.is_empty() && report.matches(**line).count() > 1);
    assert_eq!(twice.count(), 0, "{report}");
    assert!(does.is_empty() || lines[2].contains(does) && report.matches(does).count() == 1, "{report}");
    assert_eq!(report.matches("cuStreamSynchronize cannot return").count(), 1, "{report}");
}

/// As PyTorch Lightning does: the run's SIGTERM interrupts the wait, and the program's handler calls one more collective.
#[test]
fn a_collective_that_a_rank_calls_when_the_run_ends_it_is_not_compared() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for (action, more) in [("kill", &[][..]), ("fail", &[]), ("report", &["--timeout", "40s"])] {
        let outcome =
            start(&work, "asked", action, 0, &[&["--kill-after", "2s"], more].concat()).finish_within(PATIENCE);
        // A machine that lacks processors leaves the ranks more time to answer than the run has: it is a time-out then.
        let codes: &[i32] = if action == "report" { &[117, 124] } else { &[117] };
        assert!(outcome.code.is_some_and(|code| codes.contains(&code)), "{action}: {outcome}");
        let folder = work.path().join(format!("out-asked-{action}-0"));
        let blamed = "rank 1 has not called collective 3 of communicator 0 (AllReduce of 1,024 float32, sum), and its main thread opens ";
        assert!(outcome.stderr.contains(blamed), "{action}: {outcome}");
        let rank_1 = process_of_rank(&folder, 1);
        assert!(!log_of(&rank_1, &["--call", "ncclBroadcast"]).is_empty(), "{action}: {outcome}");
    }
}

/// The statements of processes about themselves, below a folder.
fn statements_in(folder: &Path) -> Vec<String> {
    let names = |folder: &Path| std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let all = names(folder).flat_map(|run| names(&run).chain([run.clone()]).collect::<Vec<_>>());
    let name = |path: PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    all.map(name).filter(|name| name.starts_with(".lazyguard-late")).collect()
}

/// In the folder that the run made for itself.
fn process_of_rank(folder: &Path, rank: u32) -> PathBuf {
    let folders = |folder: &Path| std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let all = folders(folder).flat_map(|run| folders(&run).collect::<Vec<_>>());
    let begin = format!("rank{rank}-");
    let is_it = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&begin));
    all.into_iter().find(is_it).unwrap_or_else(|| panic!("no rank {rank} in {}", folder.display()))
}

#[test]
fn a_rank_that_stands_still_is_named_within_ten_seconds_of_the_threshold() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let fifo =
        format!("opens {}/fifo-report-0/fifo, a FIFO whose other end no process has opened", work.path().display());
    // One that is stopped does not say so itself: the run does.
    let started = [("fifo", fifo.as_str()), ("stopped", "is stopped (SIGSTOP)")]
        .map(|(kind, does)| (start_at(&work, kind, "report", 0, "3s", &[]), does));
    for (mut running, does) in started {
        let is_named =
            |line: &str| ["rank 1 (process ", does, "and has stood still for "].iter().all(|part| line.contains(part));
        running.until("the threshold", PATIENCE, |running| running.stderr().contains("SLOW").then_some(()));
        let since = Instant::now();
        running.until("the rank", PATIENCE, |running| running.stderr().lines().any(is_named).then_some(()));
        assert!(since.elapsed() < Duration::from_secs(10), "{:?}: {}", since.elapsed(), running.stderr());
        // The report of the hang says it as well.
        running.until("the hang", PATIENCE, |running| {
            let said = running.stderr();
            let hang: Vec<_> = said.lines().skip_while(|line| !line.contains(" HANG ")).take(4).collect();
            hang.iter().any(|line| is_named(line)).then_some(())
        });
        if does == fifo {
            each_command_names_it(&work.path().join("out-fifo-report-0"), &fifo);
        }
    }
}

#[test]
fn a_rank_that_waits_itself_and_not_for_long_is_not_named_as_one_that_stands_still() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let mut running = start_at(&work, "three", "report", 0, "3s", &[]);
    running.until("the rank", PATIENCE, |running| running.stderr().contains("has stood still for").then_some(()));
    running.until("the hang", PATIENCE, |running| running.stderr().contains("HANG").then_some(()));
    let said = running.stderr();
    assert!(said.contains("rank 2 (process ") && !said.contains("rank 1 (process "), "{said}");
}

/// The job goes on living beside its hang.
fn each_command_names_it(folder: &Path, does: &str) {
    let said = |name: &str, about: &Path| {
        let output = Command::new(command()).arg(name).arg(about).output().unwrap_or_else(|error| panic!("{error}"));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let ranks = [0, 1].map(|rank| process_of_rank(folder, rank));
    let run = ranks[0].parent().unwrap();
    for about in [run, &ranks[0], &ranks[1]] {
        let report = said("report", about);
        let first =
            report.lines().find(|line| line.starts_with("rank 1 has not called collective 3 of ")).unwrap_or_default();
        assert!(first.contains(does) && first.contains("(late.py:"), "{report}");
    }
    for name in ["top", "health"] {
        let text = said(name, run);
        assert!(text.contains("rank 1 has not called collective 3 of ") && text.contains(does), "{name}: {text}");
    }
    let metrics = said("metrics", run);
    let is_it = |line: &&str| line.starts_with("lazyguard_blamed{") && line.contains("rank=\"1\"");
    let blamed = metrics.lines().find(is_it).unwrap_or_default();
    assert!(blamed.ends_with(",code=\"LG208\",class=\"file\"} 1") && !metrics.contains("FIFO"), "{metrics}");
}

#[test]
fn a_rank_that_was_killed_before_it_left_a_folder_is_named() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let outcome = start(&work, "killed_early", "kill", 0, &[]).finish_within(PATIENCE);
    assert_eq!(outcome.code, Some(117), "{outcome}");
    let named =
        "rank 1 has not come to the call that makes communicator 0, and has left no recording; rank 0 waits in it.";
    assert!(outcome.stderr.contains(named), "{outcome}");
}

#[test]
fn a_rank_is_late_for_the_most_at_most() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for (name, most) in [("long", "4s"), ("off", "0")] {
        let options = ["--hang-after", THRESHOLD, "--on-hang", "kill", "--max-late", most];
        let outcome = under(&work, &options, &job_of(&work, "evaluates", name, 600)).start().finish_within(PATIENCE);
        assert_eq!(outcome.code, Some(117), "{most}: {outcome}");
        assert_eq!(outcome.stderr.contains("rank 1 (process "), most != "0", "{most}: {outcome}");
    }
}

#[test]
fn a_report_of_a_job_that_waits_begins_with_the_late_rank_and_what_it_does() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let mut running = start(&work, "evaluates", "kill", 0, &["--keep"]);
    let is_named = |running: &mut Running| running.stderr().contains(": rank 1 (process ").then_some(());
    running.until("the late rank's name", PATIENCE, is_named);
    let text = text_report_of(work.path().join("out-evaluates-kill-0"));
    let sentence = text.lines().nth(2).unwrap_or_default();
    assert!(sentence.starts_with("rank 1 has not called collective 3 of communicator 0"), "{text}");
    assert!(
        sentence.contains("computes in evaluates (late.py:") && sentence.ends_with("; rank 0 waits in it."),
        "{text}"
    );
    assert_eq!(running.finish_within(PATIENCE).code, Some(0));
}

/// As under launchers of which no `lazyguard run` knows: the ranks share a folder.
#[test]
fn the_library_alone_asks_by_the_folder_that_the_ranks_share() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let out = work.path().join("out");
    let run = bare(&work, &job(&work, "evaluates", "alone")).set("LD_PRELOAD", library());
    let run = run.set("LAZYGUARD_OUT", out.join("%p")).set("LAZYGUARD_ON_HANG", "abort").hang_after(THRESHOLD);
    let outcome = run.start().finish_within(PATIENCE);
    assert_eq!((outcome.code, outcome.stdout.matches(": 4 steps").count()), (Some(0), 2), "{outcome}");
    assert!(!outcome.stderr.contains("HANG") && outcome.stderr.contains("rank 1 (process "), "{outcome}");
    assert_eq!(statements_in(&out), [""; 0]);
}
