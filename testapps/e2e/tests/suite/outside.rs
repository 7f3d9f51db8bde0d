//! Processes in which no thread is blocked in the driver, and calls that compute there: who is to blame, and that nobody is ended for life.

use crate::marker::left;
use crate::nccl::{bare, job, kill};
use crate::run_passes_on::{send, under};
use lazyguard_e2e::{app, command, corpus_program, library, root, text, text_report_of, Json, Run, Work, PATIENCE};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// A shell that starts both ranks of `outside_the_driver.py`, with nothing in the environment that says a rank.
fn ranks(work: &Work, fault: &str) -> [String; 3] {
    let folder = work.folder(&format!("ranks-{fault}")).to_string_lossy().into_owned();
    let (program, nccl) =
        (root().join("testapps/ranks/outside_the_driver.py"), root().join("target/simnccl/libnccl.so.2"));
    let one = format!("python3 '{}' '{}' '{folder}' $rank {fault}", program.display(), nccl.display());
    let script = format!("rm -f '{folder}/id'; for rank in 0 1; do {one} & done; wait");
    ["sh".to_owned(), "-c".to_owned(), script]
}

const BEHIND: &str = "rank 1 has not called collective 4 of communicator 0 (AllReduce of 1,024 float32, sum), and its main thread was at \
                      outside_the_driver.py:40 in stalls; rank 0 waits in it.";

/// Under the library alone, each rank leaves what its report needs.
#[test]
fn a_rank_that_sleeps_outside_the_driver_is_behind_and_its_line_is_said() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let out = work.path().join("out");
    let job = ranks(&work, "stalls");
    let run = bare(&work, &job).set("LD_PRELOAD", library()).set("LAZYGUARD_OUT", out.join("%p"));
    let mut running = run.hang_after("600ms").start();
    running.until("the hang", PATIENCE, |running| running.stderr().contains("HANG").then_some(()));
    running.until("the answer of the other rank", PATIENCE, |_| {
        let folders = fs::read_dir(&out).ok()?.flatten().filter(|entry| entry.path().join("dump.json").exists());
        (folders.count() > 0).then_some(())
    });
    // Its answer has Python's stacks a moment later.
    std::thread::sleep(Duration::from_secs(3));
    let heard = running.stderr();
    assert!(
        heard.contains("lazyguard: HANG ") && heard.contains(" rank 0 pid ") && heard.contains("LG208 (likely)"),
        "{heard}"
    );
    let said = kill(running, &out);
    assert_eq!(said.lines().nth(2), Some(BEHIND), "{said}");
    assert!(said.contains("rank 0)") && said.contains("rank 1)"), "the ranks by NCCL's calls: {said}");
}

#[test]
fn a_run_that_ends_such_a_job_says_the_line_of_the_rank_that_is_behind() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let folder = work.path().join("out").to_string_lossy().into_owned();
    let options = ["--hang-after", "600ms", "--on-hang", "kill", "--out", &folder];
    let outcome = under(&work, &options, &ranks(&work, "stalls")).finish();
    assert_eq!(outcome.code, Some(117), "{outcome}");
    let behind = BEHIND.replace(
        "was at outside_the_driver.py:40 in stalls",
        "sleeps until a time (outside_the_driver.py:40 in stalls)",
    );
    assert!(outcome.stderr.lines().any(|line| line.ends_with(&behind)), "{outcome}");
}

#[test]
fn a_job_whose_rank_only_comes_late_outside_the_driver_ends_as_without_the_guard() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let options = ["--hang-after", "2s", "--on-hang", "kill"];
    for fault in ["none", "late"] {
        let outcome = under(&work, &options, &ranks(&work, fault)).finish();
        let steps = outcome.stdout.lines().filter(|line| line.ends_with(": 5 steps")).count();
        assert!(outcome.code == Some(0) && steps == 2 && !outcome.stderr.contains("HANG"), "{fault}: {outcome}");
    }
}

/// The process cannot read the stack of a thread that runs, or that is stopped.
#[test]
fn the_main_thread_of_the_rank_to_blame_is_looked_at_before_it_is_ended() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for (fault, doing) in [("loop", "was running"), ("stops", "was stopped"), ("skip", "at ")] {
        let folder = work.path().join(fault).to_string_lossy().into_owned();
        // A rank that computes is late, and no hang, until then.
        let late = ["--max-late", "3s", "--hang-after", "400ms"];
        let options = [&late[..], &["--on-hang", "kill", "--record", "1MiB", "--out", &folder]].concat();
        let outcome = under(&work, &options, &job(&work, "nccl_job", 3, &format!("steps {fault}"))).finish();
        assert_eq!(outcome.code, Some(117), "{outcome}");
        let is_of_rank =
            |line: &str| line.starts_with("lazyguard:   rank 2 (process ") && line.contains("): 11 collectives");
        let lines = || outcome.stderr.lines().skip_while(|line| !is_of_rank(line));
        let stack: Vec<_> = lines().skip(1).take_while(|line| line.starts_with("lazyguard:     ")).collect();
        assert!(
            stack.iter().any(|line| line.contains("program.cpp:") || line.contains("job.cpp:")),
            "{fault}: {outcome}"
        );
        assert!(stack.iter().any(|line| line.contains(doing)), "{fault}: {outcome}");
    }
}

/// The guard sees no hang, and the time is over.
#[test]
fn a_process_that_is_ended_in_no_hang_shows_where_its_main_thread_waits() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let program = corpus_program("long_kernel_wakes_the_main_thread").to_string_lossy().into_owned();
    let folder = work.path().join("out").to_string_lossy().into_owned();
    let options = ["--timeout", "4s", "--hang-after", "2s", "--out", &folder];
    let outcome = under(&work, &options, &[&program]).set("LG_SCALE_MS", "60000").finish();
    assert!(outcome.code == Some(124) && !outcome.stderr.contains("HANG"), "{outcome}");
    let lines: Vec<_> = outcome.stderr.lines().collect();
    let ended =
        lines.iter().position(|line| line.ends_with("in no hang: its main thread was waiting, in no driver call"));
    let stack = &lines[ended.unwrap_or_else(|| panic!("{outcome}"))..];
    assert!(stack.iter().any(|line| line.contains("long_kernel_wakes_the_main_thread.cpp:")), "{outcome}");
}

/// One that hangs outside the driver by itself.
#[test]
fn a_process_that_hangs_outside_the_driver_shows_the_stack_of_its_main_thread() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let mut running =
        Run::new(&work, corpus_program("collective_outside_the_driver")).guarded().kept().hang_after("400ms").start();
    let process = running.process();
    let folder = running.until_a_hang_is_reported();
    running.until("its stack", PATIENCE, |_| {
        let hang = folder.hang();
        let stacks = hang["stacks"].as_array().cloned().unwrap_or_default();
        stacks.iter().any(|stack| stack["thread"] == process).then_some(())
    });
    let title = format!("stack of thread {process} (the main thread), in no driver call:");
    let said = text_report_of(folder.path());
    assert!(said.contains(&title) && said.contains("collective_outside_the_driver.cpp:"), "{said}");
    running.stop();
}

fn asked(name: &str, folder: &Path) -> (Option<i32>, String) {
    let output = Command::new(command()).arg(name).arg(folder).output().unwrap_or_else(|error| panic!("{error}"));
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn a_kernel_that_simply_runs_is_a_line_of_report_top_and_health() {
    expect_the_line(
        "server_kernel_runs_and_no_thread_waits",
        "kernel spin_until has run on stream ",
        &["no thread waits for it"],
    );
    let armed = ["to be >= 1, and no submitted operation writes that; it holds 0; no thread waits for it"];
    expect_the_line("armed_server_idles", "stream 1 waits since ", &armed);
}

fn expect_the_line(program: &str, begin: &str, said: &[&str]) {
    let work = Work::new(&format!("{}-{program}", lazyguard_e2e::this_test!()));
    let run = Run::new(&work, corpus_program(program)).guarded().kept();
    let run = run.set("LG_SCALE_MS", "6000").set("LAZYGUARD_ON_HANG", "exit:9").hang_after("400ms");
    let mut running = run.start();
    let out = running.out();
    let runs = |output: &str| {
        let line = output.lines().find(|line| line.contains(begin));
        line.is_some_and(|line| said.iter().all(|said| line.contains(said)))
    };
    running.until("the line of health", PATIENCE, |_| {
        let (code, line) = asked("health", &out);
        (code == Some(0) && line.starts_with("well: 1 process") && runs(&line)).then_some(())
    });
    for name in ["top", "report"] {
        let (code, said) = asked(name, &out);
        assert!(code == Some(0) && runs(&said), "{name}: {said}");
    }
    assert!(running.runs() && !running.stderr().contains("lazyguard"), "{}", running.stderr());
    running.stop();
}

/// A host function behind a kernel is all that may wake the main thread: slow first, and then a hang with both names, which is never certain.
#[test]
fn a_host_function_behind_a_kernel_is_named_where_it_alone_may_wake_a_thread() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let program = corpus_program("host_function_behind_a_kernel_wakes");
    let run = Run::new(&work, program).guarded().kept().set("LAZYGUARD_ON_HANG", "exit:9").hang_after("400ms");
    let outcome = run.finish();
    assert_eq!(outcome.code, Some(9), "{outcome}");
    let (slow, hang) = outcome.stderr.split_once("lazyguard: HANG ").unwrap_or_else(|| panic!("{outcome}"));
    let may_be = "the host function host_function_behind_a_kernel_wakes+0x";
    assert!(slow.contains("lazyguard: SLOW ") && slow.contains(may_be), "{outcome}");
    let verdict =
        hang.lines().find(|line| line.starts_with("lazyguard: LG299 (likely): every thread waits for another"));
    let behind =
        " is known to wake one: stream 1 calls it behind spin_until on stream 1, and spin_until has not ended.";
    assert!(verdict.is_some_and(|line| line.contains(may_be) && line.ends_with(behind)), "{outcome}");
}

const COMPUTES: &str = "computes in cuModuleLoadData";

fn loads<'w>(work: &'w Work, settings: &[(&str, &str)]) -> Run<'w> {
    let run = Run::new(work, app("module_pair")).guarded().kept().set("LAZYGUARD_ON_HANG", "exit:9");
    settings.iter().fold(run.hang_after("400ms"), |run, (name, value)| run.set(name, value))
}

#[test]
fn a_call_that_compiles_is_slow_for_as_long_as_it_takes_and_nobody_is_ended_for_it() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let compiles = corpus_program("ptx_compiles_for_very_long");
    let run = Run::new(&work, compiles).guarded().kept().set("LAZYGUARD_ON_HANG", "exit:9").hang_after("400ms");
    let mut running = run.set("LG_SCALE_MS", "2400").start();
    running.until("that it computes", PATIENCE, |running| {
        let (_, said) = asked("report", &running.out());
        said.contains(COMPUTES).then_some(())
    });
    let outcome = running.finish_within(PATIENCE);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "compiled\n"), "{outcome}");
    assert!(
        outcome.stderr.contains(COMPUTES)
            && outcome.stderr.contains("lazyguard: SLOW ")
            && !outcome.stderr.contains("HANG"),
        "{outcome}"
    );
}

/// The driver sleeps there for good. One that computes for good cannot be told from a compiler.
#[test]
fn a_load_that_neither_returns_nor_computes_is_a_hang_and_acted_upon() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let never = ("LGSIM_NEVER_RETURN", "cuModuleLoadData");
    let outcome = loads(&work, &[never]).finish();
    assert_eq!(outcome.code, Some(9), "{outcome}");
    let hang: Json = serde_json::from_str(&left(work.path(), "", "hang.json").unwrap_or_default()).unwrap_or_default();
    assert_eq!(text(&hang, "/verdicts/0/code"), "LG299", "{hang:#}");
    // Of one that computes, a kill leaves the same answer in the recording.
    let mut running = loads(&work, &[never, ("LGSIM_COMPUTES", "cuModuleLoadData")]).start();
    let out = running.out();
    std::thread::sleep(Duration::from_secs(4));
    assert!(running.runs() && !running.stderr().contains("HANG"), "{}", running.stderr());
    send("KILL", &running.process().to_string());
    running.finish_within(PATIENCE);
    let said = asked("report", &out).1;
    assert!(said.contains(COMPUTES) && !said.contains("HANG"), "{said}");
}

/// One that pins hundreds of gigabytes, and a link, which waits for no kernel.
#[test]
fn an_allocation_or_a_link_that_computes_is_slow_and_not_acted_upon() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for (program, call) in [("busy_server", "cuMemAlloc_v2"), ("link_computes_beside_a_kernel", "cuLinkComplete")] {
        let start = |computes: &str| {
            let run = Run::new(&work, corpus_program(program)).guarded().hang_after("1s").set("LG_SCALE_MS", "20");
            run.set("LAZYGUARD_ON_HANG", "exit:9")
                .set("LGSIM_NEVER_RETURN", call)
                .set("LGSIM_COMPUTES", computes)
                .start()
        };
        let mut computes = start(call);
        std::thread::sleep(Duration::from_secs(4));
        let said = computes.stderr();
        assert!(computes.runs() && said.contains(&format!("computes in {call}")) && !said.contains("HANG"), "{said}");
        computes.stop();
        let sleeps = start("").finish_within(PATIENCE);
        assert!(sleeps.code == Some(9) && sleeps.stderr.contains("nothing is known to be in flight"), "{sleeps}");
    }
}
