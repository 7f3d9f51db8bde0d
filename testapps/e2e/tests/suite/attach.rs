//! `lazyguard report PID`: what it says of processes without the guard, and that they go on as before.

use lazyguard_e2e::{
    app, command, corpus_program, root, skipped, stack_program, text, Json, Run, Running, Work, PATIENCE,
};
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// A user who owns nothing.
const USER: u32 = 65534;

fn attach(process: u32, more: &[&str]) -> Output {
    let output = Command::new(command()).args(["report", &process.to_string()]).args(more).output();
    output.unwrap_or_else(|error| panic!("lazyguard report: {error}"))
}

fn texts(output: &Output) -> (String, String) {
    (String::from_utf8_lossy(&output.stdout).into_owned(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn said(process: u32, more: &[&str]) -> String {
    let output = attach(process, more);
    let (out, errors) = texts(&output);
    assert!(
        output.status.success() && errors.is_empty(),
        "lazyguard report {more:?}: {}: {errors}{out}",
        output.status
    );
    out
}

/// The one line with which it fails.
fn refusal(output: &Output) -> String {
    let (out, errors) = texts(output);
    assert_eq!((output.status.code(), out.as_str()), (Some(1), ""), "{errors}");
    assert!(errors.starts_with("lazyguard: process ") && errors.lines().count() == 1, "{errors}");
    errors
}

fn json(process: u32) -> Json {
    let out = said(process, &["--format", "json"]);
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
}

/// The driver functions that threads are in at both looks.
fn calls(seen: &Json) -> Vec<&str> {
    let threads = seen["threads"].as_array().map_or(&[][..], Vec::as_slice);
    let lasting = threads.iter().filter(|thread| thread["call"]["lasts"] == true);
    lasting.map(|thread| thread["call"]["function"].as_str().unwrap_or("?")).collect()
}

fn codes(seen: &Json) -> Vec<&str> {
    seen["candidates"].as_array().into_iter().flatten().map(|candidate| text(candidate, "/code")).collect()
}

/// What `report` says of a process.
fn reported(process: u32) -> String {
    let output = Command::new(command()).args(["report", &process.to_string()]).output();
    let (out, errors) = texts(&output.unwrap_or_else(|error| panic!("{error}")));
    assert_eq!(errors, "", "{out}");
    out
}

/// Looks again and again until so many threads are in driver calls: a program takes a while until it hangs.
fn until_in_calls(running: &mut Running, expect: &[&str]) -> Json {
    let process = running.process();
    running.until(&format!("{expect:?}"), PATIENCE, |_| {
        let seen = json(process);
        (calls(&seen) == expect).then_some(seen)
    })
}

fn functions(thread: &Json) -> Vec<&str> {
    let frames = thread["frames"].as_array().into_iter().flatten();
    frames.filter_map(|frame| frame["function"].as_str()).collect()
}

/// Of a file of `/proc/PID/status`.
fn status(process: u32, name: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim().to_owned()
}

#[test]
fn each_thread_in_a_driver_call_is_named_with_its_function_and_its_stack() {
    let work = Work::new(lazyguard_e2e::this_test!());
    if !is_allowed(&work) {
        return;
    }
    let mut chain = Run::new(&work, stack_program("chain")).start();
    let seen = until_in_calls(&mut chain, &["cuStreamSynchronize"]);
    let thread = &seen["threads"][0];
    let own: Vec<_> = functions(thread).into_iter().skip_while(|name| *name != "cuStreamSynchronize").collect();
    assert_eq!(own[..5], ["cuStreamSynchronize", "wait_for_stream", "chain_inner", "chain_outer", "main"], "{seen:#}");
    assert_eq!((thread["is_whole"].as_bool(), own.last()), (Some(true), Some(&"_start")), "{seen:#}");
    assert!(text(&seen, "/driver").ends_with("libcuda.so.1") && seen["guarded"] == false, "{seen:#}");
    assert_eq!(codes(&seen), ["LG201", "LG203", "LG299"]);
    let printed = said(chain.process(), &[]);
    for expect in [
        "in cuStreamSynchronize at both looks: it waits until all work of one stream has ended",
        "    at wait_for_stream, ",
        "what cannot be seen from outside: which kernel",
        "lazyguard run -- ",
    ] {
        assert!(printed.contains(expect), "{expect}: {printed}");
    }
    let report = reported(chain.process());
    assert!(report.contains("in cuStreamSynchronize at both looks: ") && report.contains("LG203"), "{report}");

    // One thread loads under a wait, the other is to write what is waited for.
    let mut fence = Run::new(&work, app("value_fence")).start();
    let seen = until_in_calls(&mut fence, &["cuLaunchKernel", "cuLaunchKernel"]);
    assert_eq!(codes(&seen), ["LG202", "LG205", "LG299"], "{seen:#}");

    let mut host = Run::new(&work, corpus_program("host_function_waits")).start();
    // The driver calls the host function at a moment of its own.
    let process = host.process();
    let seen = host.until("the host function", PATIENCE, |_| {
        let seen = json(process);
        let is_in_both = calls(&seen) == ["cuStreamSynchronize"] && codes(&seen)[0] == "LG207";
        is_in_both.then_some(seen)
    });
    let threads = seen["threads"].as_array().map_or(&[][..], Vec::as_slice);
    let runs = threads.iter().find(|thread| thread["runs_host_function"] == true);
    let runs = runs.unwrap_or_else(|| panic!("no thread runs a host function: {seen:#}"));
    assert!(functions(runs).iter().any(|name| name.contains("host_function_waits")), "{runs:#}");
}

#[test]
fn python_frames_are_read_and_the_program_sees_no_signal_and_no_child() {
    let work = Work::new(lazyguard_e2e::this_test!());
    if !is_allowed(&work) {
        return;
    }
    for (number, python) in ["python3", "/usr/bin/python3"].iter().enumerate() {
        if number > 0 && !Path::new(python).exists() {
            continue;
        }
        let end = work.path().join(format!("end-{number}"));
        let program = root().join("testapps/stacks/children.py");
        let mut running = Run::new(&work, python).args([&program, &end]).start();
        let seen = until_in_calls(&mut running, &["cuStreamSynchronize"]);
        let frames = seen["threads"][0]["python"].as_array().into_iter().flatten();
        let frames: Vec<_> = frames.map(|frame| (text(frame, "/function"), frame["line"].as_u64())).collect();
        let source = fs::read_to_string(&program).unwrap_or_else(|error| panic!("{error}"));
        let line = |what: &str| source.lines().position(|line| line == what).map(|number| number as u64 + 1);
        let old = "Python older than 3.11 is not read";
        let is_old = seen["refused"].as_array().is_some_and(|refused| refused.contains(&old.into()));
        let expect = [
            ("wait_for", line("    driver.cuStreamSynchronize(stream)")),
            ("main", line("    wait_for(driver, stream)")),
            ("<module>", line("main()")),
        ];
        assert_eq!(frames, expect[..if is_old { 0 } else { 3 }], "{seen:#}");
        assert_eq!(is_old, text(&seen, "/python") == "older than 3.11", "{seen:#}");
        fs::write(&end, "").unwrap_or_else(|error| panic!("{error}"));
        let outcome = running.finish_within(PATIENCE);
        assert_eq!(outcome.stdout, "children before: 0, signals before: 0, own child: 7, signals: 1\n", "{outcome}");
    }
}

/// Whether this machine lets this user look into another process; else the test is skipped, and the reason is one that the command names.
fn is_allowed(work: &Work) -> bool {
    let sleeper = Run::new(work, "sleep").args(["1000"]).start();
    let output = attach(sleeper.process(), &[]);
    if output.status.success() {
        return true;
    }
    let why = refusal(&output);
    assert!(
        why.contains("kernel.yama.ptrace_scope") || why.contains("a security module") || why.contains("seccomp"),
        "{why}"
    );
    skipped(&why);
    false
}

fn is_root() -> bool {
    // SAFETY: asks only.
    unsafe { libc::geteuid() == 0 }
}

/// A program that hangs, and waits in all ways that a stop would end early.
fn undisturbed(work: &Work, more: &[&str]) -> (Running, PathBuf) {
    let end = work.path().join("end");
    let mut running = Run::new(work, stack_program("undisturbed")).args([&end]).args(more).start();
    running.until("its start", PATIENCE, |running| running.stdout().contains("ready").then_some(()));
    (running, end)
}

#[test]
fn the_process_goes_on_as_before_also_when_the_command_is_killed() {
    let work = Work::new(lazyguard_e2e::this_test!());
    if !is_allowed(&work) {
        return;
    }
    let (running, end) = undisturbed(&work, &[]);
    let process = running.process();
    for _ in 0..3 {
        let all = json(process).to_string();
        for expect in ["asleep in epoll_wait", "spins", "waits_for_events", "receives", "waits_for_a_signal"] {
            assert!(all.contains(&format!("\"{expect}\"")), "{expect}: {all}");
        }
    }
    let mut killed = Command::new(command());
    // Its second look comes a second after the first.
    killed.args(["report", &process.to_string()]).stdout(Stdio::null());
    let mut killed = killed.spawn().unwrap_or_else(|error| panic!("{error}"));
    std::thread::sleep(Duration::from_millis(300));
    killed.kill().and_then(|()| killed.wait()).unwrap_or_else(|error| panic!("{error}"));

    fs::write(&end, "").unwrap_or_else(|error| panic!("{error}"));
    let outcome = running.finish_within(PATIENCE);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "ready\ninterrupted: 0\n"), "{outcome}");
}

#[test]
fn a_stopped_process_stays_stopped() {
    let work = Work::new(lazyguard_e2e::this_test!());
    if !is_allowed(&work) {
        return;
    }
    let mut running = Run::new(&work, stack_program("chain")).start();
    until_in_calls(&mut running, &["cuStreamSynchronize"]);
    let process = running.process();
    let pid = libc::pid_t::try_from(process).unwrap_or_else(|error| panic!("{error}"));
    // SAFETY: takes integers only; the process is this test's child.
    let signal = |number| assert_eq!(unsafe { libc::kill(pid, number) }, 0);
    signal(libc::SIGSTOP);
    running.until("the stop", PATIENCE, |_| status(process, "State:").starts_with('T').then_some(()));
    let stopped = json(process);
    assert_eq!(
        (stopped["stopped"].as_bool(), calls(&stopped)),
        (Some(true), vec!["cuStreamSynchronize"]),
        "{stopped:#}"
    );
    running.until("the end of tracing", PATIENCE, |_| (status(process, "State:") == "T (stopped)").then_some(()));
    assert_eq!(status(process, "TracerPid:"), "0");
    signal(libc::SIGCONT);
    running.until("the end of the stop", PATIENCE, |_| (!status(process, "State:").starts_with('T')).then_some(()));
}

#[test]
fn a_process_without_cuda_a_guarded_one_and_one_that_is_gone() {
    let work = Work::new(lazyguard_e2e::this_test!());
    if !is_allowed(&work) {
        return;
    }
    let mut sleeper = Run::new(&work, "sleep").args(["1000"]).start();
    let process = sleeper.process();
    // The program sleeps once it has started. A sleep that was interrupted, as by a look before this one or where the
    // machine stood still, goes on in a system call of its own.
    let printed = sleeper.until("asleep", PATIENCE, |_| {
        let printed = said(process, &[]);
        let sleeps =
            ["clock_nanosleep", "restart_syscall"].iter().any(|call| printed.contains(&format!("asleep in {call}")));
        sleeps.then_some(printed)
    });
    assert!(printed.contains("no libcuda.so is mapped"), "{printed}");
    assert!(!printed.contains("what fits"), "{printed}");
    drop(sleeper);
    assert!(refusal(&attach(process, &[])).contains("there is no process with this id"));

    // A thread of the kernel, where the machine shows any.
    if fs::read_to_string("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n") {
        assert!(refusal(&attach(2, &[])).contains("a thread of the kernel") || !is_root());
    }

    // It has no recording before it initialises CUDA.
    let mut guarded = Run::new(&work, "sleep").args(["1000"]).guarded().start();
    let process = guarded.process();
    guarded.until("the look at it", PATIENCE, |_| said(process, &[]).contains("it is guarded: ").then_some(()));
    drop(guarded);

    let mut guarded = Run::new(&work, stack_program("chain")).guarded().hang_after("1000s").start();
    let report = guarded.until("its report", PATIENCE, |guarded| {
        Some(reported(guarded.process())).filter(|report| report.contains("LG203 (likely)"))
    });
    assert!(!report.contains("at both looks"), "{report}");
}

#[test]
fn where_the_kernel_refuses_the_reason_is_named() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let is_root = is_root();
    // As a user without rights.
    let as_user = |program: &Path| {
        let mut command = Command::new(program);
        command.env("LD_LIBRARY_PATH", lazyguard_e2e::driver_folder()).stdin(Stdio::null());
        if is_root {
            command.uid(USER).gid(USER);
        }
        command
    };
    let looks = |process: u32| as_user(&command()).args(["report", &process.to_string()]).output();
    match looks(std::process::id()) {
        Ok(output) if is_root => {
            let said = refusal(&output);
            assert!(
                said.contains("it belongs to user 0, and this command runs as user 65534")
                    && said.contains("CAP_SYS_PTRACE"),
                "{said}"
            );
        }
        Ok(_) => {}
        Err(error) => return skipped(&format!("another user cannot run {}: {error}", command().display())),
    }
    // A process of this user that forbids it.
    let mut started = as_user(&stack_program("undisturbed"));
    started.arg(work.path().join("never")).arg("undumpable").stdout(Stdio::piped());
    let mut started = started.spawn().unwrap_or_else(|error| panic!("{error}"));
    let mut ready = String::new();
    let mut out = std::io::BufReader::new(started.stdout.take().unwrap_or_else(|| panic!("no pipe")));
    std::io::BufRead::read_line(&mut out, &mut ready).unwrap_or_else(|error| panic!("{error}"));
    let said = looks(started.id()).map(|output| refusal(&output));
    started.kill().and_then(|()| started.wait()).unwrap_or_else(|error| panic!("{error}"));
    assert!(said.as_ref().is_ok_and(|said| said.contains("prctl(PR_SET_DUMPABLE, 0)")), "{said:?}");
}
