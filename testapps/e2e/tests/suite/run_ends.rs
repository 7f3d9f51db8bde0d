//! `lazyguard run` ends a program that exceeds its time or hangs, with all processes that it has started.

use crate::run_passes_on::under;
use lazyguard_e2e::{app, only_run_in, text, Folder, Outcome, Run, Work};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const LONG: Duration = lazyguard_e2e::PATIENCE;

/// Every process whose id the program has printed is gone.
fn expect_all_gone(outcome: &Outcome, most: usize) {
    let processes: Vec<_> = outcome.stdout.split_whitespace().filter(|word| word.parse::<u32>().is_ok()).collect();
    assert_eq!(processes.len(), most, "{outcome}");
    for process in processes {
        assert!(!Path::new("/proc").join(process).exists(), "{process} is still there: {outcome}");
    }
}

#[test]
fn time_that_is_over_ends_the_program() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let outcome = under(&work, &["--timeout", "1"], &["sh", "-c", "echo begun; exec sleep 60"]).finish();
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(124), "begun\n"), "{outcome}");
    assert!(outcome.seconds < 5.0, "{outcome}");
    assert!(outcome.stderr.lines().count() == 1 && outcome.stderr.contains("--timeout"), "{outcome}");
    assert_eq!(outcome.left_behind(), [""; 0]);
    let in_time = under(&work, &["--timeout", "20"], &["sh", "-c", "exit 3"]).finish();
    assert_eq!((in_time.code, in_time.stderr.as_str()), (Some(3), ""), "{in_time}");
}

#[test]
fn who_ignores_the_first_signal_gets_the_second() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let text = "trap '' TERM; echo $$; sh -c 'echo $$; while :; do sleep 1; done'";
    let outcome = under(&work, &["--timeout", "1500ms", "--kill-after", "500ms"], &["sh", "-c", text]).finish();
    assert_eq!(outcome.code, Some(124), "{outcome}");
    assert!((2.0..10.0).contains(&outcome.seconds), "{outcome}");
    expect_all_gone(&outcome, 2);
}

/// A handler of the program's has its time to save what there is.
#[test]
fn who_heeds_the_first_signal_has_time_for_it() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let text = "trap 'sleep 0.5; echo saved; exit 9' TERM; echo begun; while :; do sleep 0.1; done";
    let outcome = under(&work, &["--timeout", "1500ms"], &["sh", "-c", text]).finish();
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(124), "begun\nsaved\n"), "{outcome}");
    assert!(outcome.seconds < 8.0, "it was waited for more than had to be: {outcome}");
}

/// Sessions and groups of their own, parents that are gone, processes that are stopped: they were all started by the program.
#[test]
fn nobody_gets_away_when_everything_is_ended() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let program = "import os, signal, subprocess, sys, time\n\
        def stays():\n\
        \x20   os.write(1, b'%d\\n' % os.getpid())\n\
        \x20   signal.signal(signal.SIGTERM, signal.SIG_IGN)\n\
        \x20   while True: time.sleep(1)\n\
        def daemon():\n\
        \x20   if os.fork() == 0:\n\
        \x20       os.setsid()\n\
        \x20       stays() if os.fork() == 0 else os._exit(0)\n\
        \x20   os.wait()\n\
        daemon(); daemon()\n\
        if os.fork() == 0:\n\
        \x20   os.setpgid(0, 0); stays()\n\
        if os.fork() == 0:\n\
        \x20   os.write(1, b'%d\\n' % os.getpid()); os.kill(os.getpid(), signal.SIGSTOP); time.sleep(60)\n\
        stays()\n";
    let options = ["--timeout", "4s", "--kill-after", "300ms"];
    let outcome = under(&work, &options, &["python3", "-c", program]).finish();
    assert_eq!(outcome.code, Some(124), "{outcome}");
    expect_all_gone(&outcome, 5);
}

/// A shell that becomes `lazyguard run` leaves it what it has started before, such as the reader of its log.
#[test]
fn who_was_there_before_the_program_is_left_alone() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let lazyguard = lazyguard_e2e::command();
    let log = work.path().join("log");
    // In a session of its own: what is left of the group is ended with the test's program.
    let reads = work.path().join("reads");
    std::fs::write(&reads, "cat > \"$1\"; echo the log is whole >> \"$1\"\n").unwrap();
    let text = "exec > >(exec setsid sh \"$2\" \"$1\"); exec \"$0\" run --timeout 1s -- sh -c 'echo begun; sleep 60'";
    let outcome = Run::new(&work, "bash")
        .args(["-c", text])
        .args([lazyguard.as_os_str(), log.as_os_str(), reads.as_os_str()])
        .finish();
    assert_eq!(outcome.code, Some(124), "{outcome}");
    let begin = Instant::now();
    loop {
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        if said == "begun\nthe log is whole\n" {
            return;
        }
        assert!(begin.elapsed() < LONG, "the reader of the log was ended: {said}: {outcome}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Started before the library is loaded into it, it hangs, with a helper beside it.
fn hanging(helper: &str) -> [String; 3] {
    let text = format!("{helper} echo $$; exec '{}'", app("lazy_pair").display());
    ["sh".to_owned(), "-c".to_owned(), text]
}

const HANGS: [&str; 4] = ["--preload", "off", "--hang-after", "400ms"];

#[test]
fn a_hang_ends_the_program_and_everything_it_has_started() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let out = work.path().join("out").to_string_lossy().into_owned();
    let options = [&HANGS[..], &["--on-hang", "kill", "--kill-after", "500ms", "--out", &out]].concat();
    let helper = "setsid sh -c 'trap \"\" TERM; echo $$; while :; do sleep 1; done' & sleep 0.2;";
    let outcome = under(&work, &options, &hanging(helper)).start().finish_within(LONG);
    assert_eq!(outcome.code, Some(117), "{outcome}");
    expect_all_gone(&outcome, 2);
    assert!(outcome.stderr.contains("lazyguard: HANG") && outcome.stderr.contains("--on-hang is kill"), "{outcome}");
    // The process has printed the verdict: the end of the run adds the lines of the source.
    assert_eq!(outcome.stderr.matches("k2 cannot start: ").count(), 1, "{outcome}");
    let (_, end) = outcome.stderr.rsplit_once(": LG201, as reported\n").unwrap_or_else(|| panic!("{outcome}"));
    assert!(end.starts_with("lazyguard:   k1 launched at main lazy_pair.cpp:"), "{outcome}");
    let run = only_run_in(Path::new(&out));
    assert!(outcome.stderr.contains(&format!("lazyguard report {}\n", run.display())), "{outcome}");
    let folder = Folder::only_one_in(&run);
    let hang = folder.hang();
    assert_eq!((text(&hang, "/verdicts/0/code"), hang["acts"].as_bool()), ("LG201", Some(true)), "{hang:#}");
    assert!(hang["probe"].is_object(), "the report was not complete: {hang:#}");
    assert!(folder.report("text").contains("LG201"));
}

#[test]
fn a_hang_in_any_process_ends_all_and_the_private_folder_is_kept() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let both = format!("sleep 60 & '{}' & wait", app("lazy_pair").display());
    let run = under(&work, &[&HANGS[..], &["--on-hang", "kill"]].concat(), &["sh", "-c", &both]);
    let outcome = run.start().finish_within(LONG);
    assert_eq!((outcome.code, outcome.left_behind().len()), (Some(117), 1), "{outcome}");
    let root = &outcome.left_behind()[0];
    assert!(root.starts_with("lazyguard-run-") && outcome.stderr.contains(root), "{outcome}");
    // The variable says the same, where no option does.
    let run = under(&work, &HANGS, &hanging("")).set("LAZYGUARD_ON_HANG", "kill");
    let outcome = run.start().finish_within(LONG);
    assert_eq!(outcome.code, Some(117), "{outcome}");
    assert!(!outcome.stderr.contains("is not usable"), "{outcome}");
}

const SOON: [&str; 4] = ["--preload", "off", "--hang-after", "3s"];

/// Takes the room for a report: the descriptors, or the folder.
const NO_ROOM: [&str; 2] =
    ["(sleep 1.5; prlimit --pid $$ --nofile=3) &", "(sleep 1.5; rm -rf \"$LAZYGUARD_RUN_ROOT\") &"];

#[test]
fn a_hang_ends_the_program_also_where_its_report_cannot_be_kept() {
    let work = Work::new(lazyguard_e2e::this_test!());
    // On a disk, a recording would be in memory.
    let out = format!("/dev/shm/e2e-lost-kill-{}", std::process::id());
    let ends = ["--on-hang", "kill", "--kill-after", "0", "--timeout", "20s", "--out", &out];
    let options = [&SOON[..], &ends].concat();
    for taken in NO_ROOM {
        let text = format!("{taken}\nexec '{}'", app("lazy_pair").display());
        let outcome = under(&work, &options, &["bash", "-c", &text]).start().finish_within(LONG);
        assert_eq!(outcome.code, Some(117), "{taken}: {outcome}");
        assert!(outcome.stderr.contains("the report could not be kept"), "{taken}: {outcome}");
        assert!(!outcome.stderr.contains("nothing was recorded"), "{taken}: {outcome}");
        let says_so = outcome.stderr.contains("what this run recorded is lost: its folder ");
        assert_eq!(says_so, taken.contains("rm -rf"), "{taken}: {outcome}");
    }
    let _ = std::fs::remove_dir_all(&out);
}

#[test]
fn a_run_does_not_pass_whose_hang_was_reported_and_could_not_be_kept() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let out = format!("/dev/shm/e2e-lost-fail-{}", std::process::id());
    let options = [&SOON[..], &["--fail-on", "hang", "--out", &out]].concat();
    let hangs = app("lazy_pair").display().to_string();
    for taken in NO_ROOM {
        let text = format!("bash -c '{taken}\nexec \"$0\"' '{hangs}' & sleep 8; kill -9 $!; exit 0");
        let outcome = under(&work, &options, &["bash", "-c", &text]).start().finish_within(LONG);
        assert!(outcome.stderr.contains("lazyguard: HANG"), "{taken}: {outcome}");
        assert!(matches!(outcome.code, Some(117 | 125)), "{taken}: {outcome}");
    }
    let _ = std::fs::remove_dir_all(&out);
}

/// A slow program is not ended.
#[test]
fn what_goes_on_is_not_ended() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let options = ["--hang-after", "700ms", "--on-hang", "kill", "--fail-on", "hang"];
    let outcome = under(&work, &options, &[app("slow_but_fine")]).start().finish_within(LONG);
    assert_eq!(outcome.code, Some(0), "{outcome}");
}

#[test]
fn a_hang_that_the_program_is_ended_for_otherwise_fails_the_run_if_asked() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for (fail_on, code) in [(&["--fail-on", "hang"][..], 117), (&[], 124)] {
        let options = [&HANGS[..], fail_on, &["--timeout", "2500ms"]].concat();
        let outcome = under(&work, &options, &hanging("")).start().finish_within(LONG);
        assert_eq!(outcome.code, Some(code), "{fail_on:?}: {outcome}");
        assert!(outcome.stderr.contains("the folder of this run is kept"), "{outcome}");
    }
    let outcome =
        under(&work, &[&HANGS[..], &["--on-hang", "exit:42"]].concat(), &hanging("")).start().finish_within(LONG);
    assert_eq!(outcome.code, Some(42), "the guard ends the process itself: {outcome}");
}

/// The supervisor is gone; the program is unharmed.
#[test]
fn the_program_goes_on_when_the_supervisor_is_killed() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let done = work.path().join("done");
    let text = format!("echo ready; sleep 1; echo done > '{}'", done.display());
    let mut running = under(&work, &[], &["sh", "-c", &text]).start();
    running.until("it runs", LONG, |r| r.stdout().contains("ready").then_some(()));
    let killed = Command::new("sh").args(["-c", &format!("kill -9 {}", running.process())]).status();
    assert!(killed.is_ok_and(|status| status.success()));
    let begin = Instant::now();
    while !done.exists() {
        assert!(begin.elapsed() < LONG, "it has not gone on");
        std::thread::sleep(Duration::from_millis(20));
    }
}
