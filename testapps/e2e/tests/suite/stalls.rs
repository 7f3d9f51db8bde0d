//! Processes that submit no more (`testapps/stalls/stops.py`): a stall has its class in one line and in the report, and a process at rest has no line.

use crate::run_passes_on::under;
use lazyguard_e2e::{command, root, text, Folder, Run, Running, Work, PATIENCE};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const THRESHOLD: &str = "500ms";
/// Past three thresholds, ten of its longest pauses, and both looks.
const LONG: Duration = Duration::from_secs(8);

fn fifo(work: &Work) -> PathBuf {
    let path = work.path().join("shard.tar");
    let made = Command::new("mkfifo").arg(&path).status().unwrap_or_else(|error| panic!("mkfifo: {error}"));
    assert!(made.success() || path.exists());
    path
}

fn program() -> PathBuf {
    root().join("testapps/stalls/stops.py")
}

fn stops<'w>(work: &'w Work, how: &str) -> Run<'w> {
    let run = Run::new(work, "python3").args([program().as_os_str(), how.as_ref(), fifo(work).as_os_str()]);
    run.guarded().kept().hang_after(THRESHOLD)
}

/// The guard's lines on standard error.
fn said(running: &Running) -> Vec<String> {
    running.stderr().lines().filter(|line| line.starts_with("lazyguard:")).map(str::to_owned).collect()
}

fn until_stalled(running: &mut Running) {
    running.until("the line of a stall", PATIENCE, |running| running.stderr().contains("STALLED").then_some(()));
}

#[track_caller]
fn expect_a_stall(how: &str, class: &str, sentence: &str) {
    let work = Work::new(&format!("stalls-{how}"));
    let mut running = stops(&work, how).start();
    until_stalled(&mut running);
    let lines = said(&running);
    assert!(lines.len() == 1 && lines[0].starts_with("lazyguard: STALLED "), "{lines:#?}");
    assert!(lines[0].contains(sentence) && lines[0].ends_with(&format!("(class {class})")), "{lines:#?}");
    let folder = Folder::at(&running.out());
    let hang = folder.hang();
    assert_eq!((text(&hang, "/status"), text(&hang, "/stall/evidence/class")), ("stalled", class), "{hang:#}");
    assert!(text(&hang, "/stall/evidence/sentence").contains(sentence), "{hang:#}");
    let report = folder.report("text");
    assert!(report.starts_with("STALLED ") && !report.contains("no hang"), "{report}");
    assert!(report.lines().next().unwrap().contains(sentence), "{report}");
}

/// Its host side is looked at, and nothing is said.
#[track_caller]
fn expect_rest(how: &str) {
    let work = Work::new(&format!("rests-{how}"));
    let mut running = stops(&work, how).start();
    let tasks = format!("/proc/{}/task", running.process());
    let looks = || {
        let names = fs::read_dir(&tasks).into_iter().flatten().flatten();
        names
            .filter_map(|task| fs::read_to_string(task.path().join("comm")).ok())
            .any(|name| name == "lazyguard-looks\n")
    };
    running.until("a look at it", PATIENCE, |_| looks().then_some(()));
    running.until("the end of the look", PATIENCE, |_| (!looks()).then_some(()));
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(said(&running), [""; 0], "{}", running.stderr());
}

#[track_caller]
fn expect_silence(running: &mut Running, what: &str) {
    running.until("the program's stop", PATIENCE, |running| running.stdout().contains("stops").then_some(()));
    let since = Instant::now();
    running.until("a long time", PATIENCE, |_| (since.elapsed() >= LONG).then_some(()));
    assert!(!running.stderr().contains("STALLED"), "{what}: {}", running.stderr());
}

macro_rules! stalls {
    ($($name:ident: $how:literal, $class:literal, $sentence:literal;)+) => {
        $(#[test]
        fn $name() {
            expect_a_stall($how, $class, $sentence);
        })+
    };
}

stalls! {
    a_worker_that_was_forked_and_reads_for_ever: "fork", "child", "shard.tar, a FIFO whose other end no process has opened";
    a_worker_that_was_spawned_and_reads_for_ever: "spawn", "child", "shard.tar, a FIFO whose other end no process has opened";
    a_thread_that_reads_for_ever: "thread", "lock", "opens";
    a_checkpoint_that_is_not_written: "checkpoint", "file", "shard.tar, a FIFO whose other end no process has opened";
    a_lock_held_by_a_thread_that_reads: "lock", "lock", "opens";
    a_peer_that_does_not_answer: "peer", "peer", "waits for an answer of 127.0.0.1:";
    a_server_whose_worker_was_killed: "dead-worker", "gone", "was killed by SIGKILL";
}

macro_rules! rests {
    ($($name:ident: $how:literal;)+) => {
        $(#[test]
        fn $name() {
            expect_rest($how);
        })+
    };
}

rests! {
    a_server_that_accepts_is_at_rest: "accept";
    a_server_that_selects_is_at_rest: "select";
    a_server_with_an_epoll_is_at_rest: "epoll";
    a_server_of_asyncio_is_at_rest: "asyncio";
    a_worker_thread_of_a_server_is_at_rest: "worker-of-a-server";
    a_prompt_is_at_rest: "prompt";
    a_loop_with_a_timer_is_at_rest: "timer";
    a_process_that_waits_for_a_signal_is_at_rest: "pause";
    a_notebook_s_kernel_is_at_rest: "notebook";
    a_server_with_a_client_that_sends_nothing_is_at_rest: "consumer";
}

#[test]
fn a_program_that_has_only_initialised_and_one_under_a_debugger_are_not_stalled() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for how in ["only-initialises", "debugger"] {
        let mut running = stops(&work, how).start();
        expect_silence(&mut running, how);
        assert_eq!(said(&running), [""; 0], "{how}");
    }
}

#[test]
fn a_training_that_evaluates_on_the_host_is_slow_once_and_never_stalled() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let mut running = stops(&work, "evaluates").start();
    running.until("its line", PATIENCE, |running| running.stderr().contains("SLOW").then_some(()));
    expect_silence(&mut running, "evaluates");
    let lines = said(&running);
    assert!(lines.len() == 1 && lines[0].contains("computes"), "{lines:#?}");
    assert_eq!(text(&Folder::at(&running.out()).hang(), "/status"), "slow");
}

#[test]
fn a_stall_that_goes_on_is_over_in_a_line() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let mut running = stops(&work, "checkpoint").start();
    until_stalled(&mut running);
    let read = fs::read(work.path().join("shard.tar")).unwrap();
    assert_eq!(read, b"weights");
    running.until("its end", PATIENCE, |running| running.stderr().contains("RESOLVED").then_some(()));
    let lines = said(&running);
    assert!(lines.len() == 2 && lines[1].contains("it goes on"), "{lines:#?}");
    let outcome = running.finish_within(PATIENCE);
    assert_eq!(outcome.code, Some(0), "{outcome}");
    let folder = outcome.out();
    assert!(folder.hang()["resolved"].is_u64() && !folder.report("text").contains("now "), "{}", folder.report("text"));
}

fn asked(name: &str, about: &Path) -> (Option<i32>, String) {
    let output = Command::new(command()).arg(name).arg(about).output().unwrap_or_else(|error| panic!("{error}"));
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn a_stall_is_not_well_for_those_that_watch_and_its_path_is_no_label() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let mut running = stops(&work, "checkpoint").start();
    until_stalled(&mut running);
    let (code, line) = asked("health", &running.out());
    assert!(code == Some(117) && line.starts_with("stalled: ") && line.contains("(class file)"), "{code:?} {line}");
    let (_, metrics) = asked("metrics", &running.out());
    assert!(metrics.contains(",code=\"stalled\",class=\"file\"} 1\n") && !metrics.contains("shard.tar"), "{metrics}");
    let (_, top) = asked("top", &running.out());
    assert!(top.contains("1 stalled") && top.contains("STALLED file") && !top.contains("no hang"), "{top}");
}

#[test]
fn the_guard_acts_on_a_stall_only_if_asked() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let told = work.path().join("told");
    let command = format!("command:echo $LAZYGUARD_HANG_CODE > {}", told.display());
    let mut running = stops(&work, "checkpoint").set("LAZYGUARD_ON_STALL", command).start();
    running.until("the command", PATIENCE, |_| {
        fs::read_to_string(&told).is_ok_and(|said| said == "stalled\n").then_some(())
    });
    assert!(running.runs());
    drop(running);
    let outcome = stops(&work, "checkpoint").set("LAZYGUARD_ON_STALL", "exit:9").start().finish_within(PATIENCE);
    assert_eq!(outcome.code, Some(9), "{outcome}");
    assert!(outcome.stderr.contains("ending the process, as LAZYGUARD_ON_STALL=exit:9 says"), "{outcome}");
    assert_eq!(text(&outcome.out().summary(), "/ended"), "ended by LAZYGUARD_ON_STALL=exit:9");
}

/// Two ranks under `lazyguard run`.
fn job<'w>(work: &'w Work, options: &[&str], how: &str) -> Run<'w> {
    let ranks = format!(
        "for rank in 0 1; do RANK=$rank python3 {} {how} {} & done; wait",
        program().display(),
        fifo(work).display()
    );
    let out = work.path().join("job").to_string_lossy().into_owned();
    let all = [&["--out", &out, "--hang-after", THRESHOLD, "--kill-after", "1s"][..], options].concat();
    under(work, &all, &["sh", "-c", &ranks])
}

#[test]
fn a_job_whose_ranks_all_write_a_checkpoint_is_stalled_and_ended_if_asked() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let junit = work.path().join("junit.xml").to_string_lossy().into_owned();
    let outcome = job(&work, &["--on-stall", "kill", "--junit", &junit], "checkpoint").start().finish_within(PATIENCE);
    assert_eq!(outcome.code, Some(117), "{outcome}");
    assert_eq!(outcome.stderr.matches("has stalled, and --on-stall is kill").count(), 1, "{outcome}");
    let (_, report) = asked("report", &work.path().join("job"));
    let first = report.lines().next().unwrap_or_default();
    assert!(first.contains(" stalled, ") && !report.contains("no hang"), "{report}");
    assert!(report.contains("STALLED ") && report.contains("shard.tar"), "{report}");
    let junit = fs::read_to_string(junit).unwrap();
    assert!(junit.contains("type=\"stalled\"") && junit.contains("(class file)"), "{junit}");
}

#[test]
fn a_run_fails_for_a_stall_if_asked() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let outcome = job(&work, &["--fail-on", "stall", "--timeout", "20s"], "checkpoint").start().finish_within(PATIENCE);
    assert_eq!(outcome.code, Some(117), "{outcome}");
    assert!(outcome.stderr.matches("lazyguard: STALLED ").count() >= 1, "{outcome}");
}

#[test]
fn a_rank_that_waits_while_another_works_is_not_stalled() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let mut running = job(&work, &[], "one-of-two").start();
    running.until("both", PATIENCE, |running| (running.stdout().matches("stops").count() == 2).then_some(()));
    expect_silence(&mut running, "a rank behind");
}
