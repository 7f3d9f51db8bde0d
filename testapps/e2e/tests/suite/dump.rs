//! `lazyguard dump`: a guarded process answers in any state, without harm to it.

use lazyguard_e2e::{app, command, hostile_program, number, run, text, App, Json, Outcome, Run, Running, Work};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

const SECOND: Duration = Duration::from_secs(1);

fn dump(process: u32, more: &[&str]) -> Output {
    let output = Command::new(command()).args(["dump", &process.to_string()]).args(more).output();
    output.unwrap_or_else(|error| panic!("lazyguard dump: {error}"))
}

fn texts(output: &Output) -> (String, String) {
    (String::from_utf8_lossy(&output.stdout).into_owned(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn said(process: u32, more: &[&str]) -> String {
    let output = dump(process, more);
    let (out, errors) = texts(&output);
    assert!(output.status.success() && errors.is_empty(), "lazyguard dump {more:?}: {}: {errors}{out}", output.status);
    out
}

fn json(process: u32) -> Json {
    let out = said(process, &["--format", "json"]);
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
}

/// The one line with which it fails.
fn refused(process: u32, more: &[&str]) -> String {
    let output = dump(process, more);
    let (out, errors) = texts(&output);
    assert_eq!((output.status.code(), out.as_str()), (Some(1), ""), "{errors}");
    assert!(errors.starts_with("lazyguard: ") && errors.lines().count() == 1, "{errors}");
    errors
}

/// Waits until a process has made its last call before it hangs.
fn until_it_is_blocked(running: &mut Running, calls: &Path) {
    let (mut since, mut length) = (Instant::now(), 0);
    running.until("the standstill", 20 * SECOND, |_| {
        let now = fs::metadata(calls).map_or(0, |metadata| metadata.len());
        if now != length {
            (since, length) = (Instant::now(), now);
        }
        (length > 0 && since.elapsed() >= SECOND / 2).then_some(())
    });
}

/// A program that hangs with LG201, and is not called a hang for a long time.
fn hung(work: &Work, settings: &[(&str, &str)]) -> (Running, std::path::PathBuf) {
    let number = fs::read_dir(work.path()).map_or(0, |entries| entries.count());
    let calls = work.path().join(format!("calls-{number}"));
    let run =
        run(work, &App::named("lazy_pair")).guarded().set("LAZYGUARD_PRELOAD", "off").set("LGSIM_CALL_LOG", &calls);
    let run = settings.iter().fold(run, |run, (name, value)| run.set(name, value));
    let mut running = run.start();
    until_it_is_blocked(&mut running, &calls);
    (running, calls)
}

fn expect_lg201(process: u32, blocked: u64) -> Json {
    let answer = json(process);
    assert_eq!(text(&answer, "/hang/verdicts/0/code"), "LG201", "{answer:#}");
    assert_eq!(text(&answer, "/hang/verdicts/0/culprits/0/operation/function"), "k1");
    assert_eq!(number(&answer, "/hang/blocked/0/thread"), blocked);
    assert!(number(&answer, "/hang/blocked/0/blocked_nanos") >= 400_000_000, "{answer:#}");
    assert_eq!((number(&answer, "/hang/process"), number(&answer, "/launches")), (u64::from(process), 2));
    answer
}

/// No signal, no trace, no other call than without: only the answer is there, and nothing on standard error.
fn expect_undisturbed(running: Running, calls: &Path, before: &[u8]) -> Outcome {
    assert_eq!(fs::read(calls).unwrap_or_else(|error| panic!("{error}")), before, "the driver was called");
    let outcome = running.stop();
    assert_eq!((outcome.code, outcome.stderr.as_str()), (None, ""), "{outcome}");
    outcome
}

#[test]
fn a_hung_process_says_why_before_it_is_called_a_hang() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let out = work.path().join("out");
    let (running, calls) = hung(&work, &[("LAZYGUARD_OUT", &out.to_string_lossy())]);
    let (process, before) = (running.process(), fs::read(&calls).unwrap_or_default());
    let said = said(process, &[]);
    for part in [
        &format!("pid {process} (lazy_pair) at +"),
        "1 call in progress, 2 busy streams",
        "a hang is reported after 30 s (LAZYGUARD_HANG_AFTER). If it is stuck, this is why:\nLG201 (likely): ",
        "waits for k1 on stream 1",
        "fix: load k2 before launching k1",
        "in cuCtxSynchronize for ",
        // The stack of the blocked thread, with the names from its files.
        " s in cuCtxSynchronize at main lazy_pair.cpp:",
        &format!("stack of thread {process} in cuCtxSynchronize:\n"),
        "    at main, ",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    // What the process writes down itself has no names, and the same lines.
    let written = fs::read_to_string(out.join("dump.txt")).unwrap_or_default();
    assert!(written.contains("    at lazy_pair+0x") && written.contains("LG201 (likely): "), "{written}");
    assert!(written.lines().all(|line| !line.starts_with("lazyguard: ")), "{written}");
    let answer = expect_lg201(process, u64::from(process));
    assert_eq!(number(&answer, "/hang_after_nanos"), 30_000_000_000);
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    assert!(status.contains("TracerPid:\t0\n"), "{status}");
    // It can still not be written to by mistake.
    assert_eq!(fs::metadata(out.join("trace.lgt")).map(|m| m.mode() & 0o777).unwrap_or_default(), 0o400);
    expect_undisturbed(running, &calls, &before);
    assert!(!out.join("hang.json").exists());
}

/// In memory, on a disk, in a file system in memory; with the search for hangs and without.
#[test]
fn it_answers_wherever_its_recording_is() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let shared = Shared::new();
    for settings in [
        &[("LAZYGUARD_RECORD", "off"), ("LAZYGUARD_HANG_AFTER", "0")][..],
        &[("LAZYGUARD_HANG_AFTER", "0")][..],
        &[("LAZYGUARD_HANG_AFTER", "off"), ("LAZYGUARD_LOG", "off"), ("TMPDIR", &shared.0)][..],
        &[("LAZYGUARD_RECORD", "off"), ("LAZYGUARD_OUT", &work.path().join("kept").to_string_lossy())][..],
    ] {
        let (running, calls) = hung(&work, settings);
        let (process, before) = (running.process(), fs::read(&calls).unwrap_or_default());
        let numbers = [(); 3].map(|()| number(&expect_lg201(process, u64::from(process)), "/request"));
        assert!(numbers[0] < numbers[1] && numbers[1] < numbers[2], "{numbers:?}");
        let hang_after = settings.iter().any(|(name, _)| *name == "LAZYGUARD_HANG_AFTER");
        assert_eq!(said(process, &[]).contains("hangs are not looked for (LAZYGUARD_HANG_AFTER=0)"), hang_after);
        expect_undisturbed(running, &calls, &before);
    }
}

/// A folder in memory, which goes with the test.
struct Shared(String);

impl Shared {
    fn new() -> Self {
        let path = format!("/dev/shm/lazyguard-e2e-dump-{}", std::process::id());
        fs::create_dir_all(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        Self(path)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn many_who_ask_at_once_are_all_answered() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let out = work.path().join("out").to_string_lossy().into_owned();
    for settings in [&[("LAZYGUARD_OUT", out.as_str())][..], &[("LAZYGUARD_RECORD", "off")][..]] {
        let (running, _) = hung(&work, settings);
        let process = running.process();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..4).for_each(|_| drop(expect_lg201(process, u64::from(process)))));
            }
        });
        assert_eq!(running.stop().stderr, "");
    }
    assert_eq!(fs::metadata(format!("{out}/trace.lgt")).map(|m| m.mode() & 0o777).unwrap_or_default(), 0o400);
}

/// The process's own user can ask, without the superuser's permissions.
#[test]
fn the_superusers_power_is_not_needed() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let out = work.path().join("out").to_string_lossy().into_owned();
    for settings in [&[("LAZYGUARD_OUT", out.as_str())][..], &[("LAZYGUARD_RECORD", "off")][..]] {
        let (running, _) = hung(&work, settings);
        let asking = Run::new(&work, command()).args(["dump", &running.process().to_string()]).powerless().finish();
        assert!(asking.code == Some(0) && asking.stdout.contains("LG201 ("), "{asking}");
    }
    assert_eq!(fs::metadata(format!("{out}/trace.lgt")).map(|m| m.mode() & 0o777).unwrap_or_default(), 0o400);
}

/// A program that launches as fast as it can, and one that polls: each answer is of a later moment, and they do not fail.
#[test]
fn a_process_at_full_speed_answers_and_goes_on() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let storm = Run::new(&work, hostile_program("launch_storm")).args(["4", "0"]).guarded().kept();
    let storms = storm.hang_after("300ms").start();
    let process = storms.process();
    std::thread::sleep(SECOND / 2);
    let answers = [(); 5].map(|()| json(process));
    for pair in answers.windows(2) {
        assert!(number(&pair[0], "/launches") < number(&pair[1], "/launches"), "{pair:#?}");
        assert!(number(&pair[0], "/hang/at") < number(&pair[1], "/hang/at"), "{pair:#?}");
    }
    for answer in &answers {
        // A launch may be in progress because the queue is full; the report adds its reservation. No other verdict may appear.
        let verdicts = answer["hang"]["verdicts"].as_array().map_or(&[][..], Vec::as_slice);
        assert!(verdicts.iter().all(|verdict| verdict["code"] == "LG205"), "{answer:#}");
    }
    let said = said(process, &[]);
    let well = ["none of which is known to be stuck", "nothing is blocked", "If it is stuck, this is why:"];
    assert!(well.iter().any(|words| said.contains(words)), "{said}");
    let outcome = storms.stop();
    assert_eq!((outcome.code, outcome.stderr.as_str()), (None, ""), "{outcome}");
}

#[test]
fn a_process_that_waits_for_work_that_ends_is_none_the_worse() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for value in ["16MiB", "off"] {
        let mut running = Run::new(&work, app("slow_but_fine")).guarded().set("LAZYGUARD_RECORD", value).start();
        let process = running.process();
        let blocked = running.until("the synchronize", 10 * SECOND, |_| {
            let output = dump(process, &["--format", "json"]);
            let answer: Json = serde_json::from_slice(&output.stdout).ok()?;
            answer["hang"]["blocked"].as_array().is_some_and(|calls| !calls.is_empty()).then_some(answer)
        });
        assert_eq!(text(&blocked, "/hang/blocked/0/call"), "cuStreamSynchronize", "{blocked:#}");
        assert_eq!(text(&blocked, "/hang/streams/0/oldest/function"), "busy", "{blocked:#}");
        assert_eq!(blocked["hang"]["verdicts"], Json::Array(Vec::new()), "{blocked:#}");
        let outcome = running.finish_within(20 * SECOND);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "slow kernel done\n"), "{outcome}");
        assert_eq!((outcome.stderr.as_str(), outcome.left_behind()), ("", Vec::new()), "the private folder stays");
    }
}

#[test]
fn what_is_kept_of_a_run_that_was_asked_is_the_answer() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let mut running = Run::new(&work, app("slow_but_fine")).guarded().kept().set("LAZYGUARD_RECORD", "off").start();
    let process = running.process();
    running.until("an answer", 10 * SECOND, |_| dump(process, &[]).status.success().then_some(()));
    let out = running.out();
    assert!(out.join("dump.request").exists());
    let outcome = running.finish_within(20 * SECOND);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome}");
    let mut names: Vec<_> = fs::read_dir(&out)
        .into_iter()
        .flatten()
        .flatten()
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert_eq!(names, ["dump.json", "dump.txt", "log.jsonl", "run.json"]);
}

#[test]
fn whoever_cannot_answer_is_said_to_in_a_line() {
    let work = Work::new(lazyguard_e2e::this_test!());
    // Never there, there no more, there and not guarded.
    let unguarded = Run::new(&work, "sleep").args(["100"]).start();
    assert!(refused(unguarded.process(), &[]).contains("does not take requests: it is not guarded"));
    let gone = unguarded.process();
    drop(unguarded);
    assert!(refused(gone, &[]).contains("there is no process with this id"));
    let bad = Command::new(command()).args(["dump", "0"]).output().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(bad.status.code(), Some(2));

    let out = work.path().join("out").to_string_lossy().into_owned();
    for settings in [&[("LAZYGUARD_OUT", out.as_str())][..], &[("LAZYGUARD_RECORD", "off")][..]] {
        let (running, _) = hung(&work, settings);
        let process = running.process();
        stop(process);
        let begin = Instant::now();
        assert!(refused(process, &[]).contains("is stopped, by a signal or a debugger"));
        assert!(begin.elapsed() < 5 * SECOND, "it was waited for");
        signal(process, libc::SIGCONT);
        // What was asked of it while it was stopped is forgotten.
        expect_lg201(process, u64::from(process));
    }
}

fn stop(process: u32) {
    signal(process, libc::SIGSTOP);
    while !fs::read_to_string(format!("/proc/{process}/stat")).is_ok_and(|stat| stat.contains(") T ")) {
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn signal(process: u32, signal: i32) {
    // SAFETY: takes integers only; the process is a child that has not been waited for.
    unsafe { libc::kill(process as libc::pid_t, signal) };
}

/// It is killed between the request and its next look: the command does not wait until the limit.
#[test]
fn a_process_that_ends_meanwhile_is_not_waited_for() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let (mut running, _) = hung(&work, &[("LAZYGUARD_RECORD", "off")]);
    let process = running.process();
    // Its answer goes nowhere from now on, so the command waits.
    let folder = lazyguard_e2e::Folder::only_one_in(&running.temporary());
    fs::create_dir(folder.path().join(".dump.txt.new")).unwrap_or_else(|error| panic!("{error}"));
    assert!(refused(process, &["--timeout", "300ms"]).contains("has not answered within 300ms"));
    let begin = Instant::now();
    let asking = std::thread::spawn(move || refused(process, &["--timeout", "30s"]));
    // Of a slow machine too: it has asked by then.
    std::thread::sleep(2 * SECOND);
    signal(process, libc::SIGKILL);
    running.until("its end", 5 * SECOND, |running| (!running.runs()).then_some(()));
    let line = asking.join().unwrap_or_else(|_| panic!("the command said something else"));
    assert!(line.contains("has ended meanwhile") && begin.elapsed() < 10 * SECOND, "{line}");
}

/// Where the disk is full, the process says so in the header of the recording, because it cannot write the answer.
#[test]
fn an_answer_that_cannot_be_written_is_said_to() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let out = work.path().join("out");
    let (running, _) = hung(&work, &[("LAZYGUARD_OUT", &out.to_string_lossy())]);
    fs::create_dir(out.join(".dump.txt.new")).unwrap_or_else(|error| panic!("{error}"));
    assert!(refused(running.process(), &[]).contains("could not write its answer to "));
    assert_eq!(running.stop().stderr, "");
}

/// A child has its parent's recording mapped, and is not its parent.
#[test]
fn a_forked_child_is_not_taken_for_its_parent() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let program = "import ctypes, os, time\n\
                   driver = ctypes.CDLL('libcuda.so.1')\n\
                   assert driver.cuInit(0) == 0\n\
                   driver.cuCtxSynchronize()\n\
                   child = os.fork()\n\
                   if child == 0: time.sleep(100)\n\
                   print(child, flush=True)\n\
                   time.sleep(100)\n";
    let out = work.path().join("forks").to_string_lossy().into_owned();
    for (name, value) in [("LAZYGUARD_OUT", out.as_str()), ("LAZYGUARD_RECORD", "off")] {
        let run = Run::new(&work, "python3").args(["-c", program]).guarded().set(name, value);
        let mut running = run.start();
        let child = running.until("the child", 10 * SECOND, |running| running.stdout().trim().parse::<u32>().ok());
        assert!(said(running.process(), &[]).contains("nothing is blocked: no thread is in a driver call"));
        let line = refused(child, &[]);
        assert!(line.contains("does not take requests") || line.contains("was forked from"), "{line}");
    }
}

#[test]
fn a_process_that_is_told_that_it_is_ready_loads_late_from_then_on() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let request = work.path().join("request");
    let program = lazyguard_e2e::corpus_program("module_loaded_when_ready");
    let mut running = Run::new(&work, program).guarded().kept().set("LG_REQUEST", &request).start();
    let process = running.process().to_string();
    let told = running.until("the process takes requests", 20 * SECOND, |_| {
        let told = Command::new(command()).args(["ready", &process]).output().ok()?;
        told.status.success().then(|| texts(&told))
    });
    let line = format!("process {process} is ready: what it loads from now on is LG110\n");
    assert_eq!(told, (line, String::new()));
    fs::write(&request, "").unwrap_or_else(|error| panic!("{error}"));
    let outcome = running.finish_within(20 * SECOND);
    assert_eq!(outcome.code, Some(0), "{outcome}");
    let report = Command::new(command()).args(["report", "--hazards"]).arg(outcome.out().path()).output();
    let (text, _) = texts(&report.unwrap_or_else(|error| panic!("{error}")));
    assert_eq!(text.matches("key: LG110|").count(), 1, "{text}");
    let list = text.split("to warm up before the program is ready:\n").nth(1).unwrap_or_default();
    assert!(list.starts_with("cuModuleLoadData from ") && list.lines().count() == 1, "{text}");
}

#[test]
fn all_processes_of_a_run_are_told_that_they_are_ready() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let (request, out) = (work.path().join("request"), work.path().join("run"));
    let program = lazyguard_e2e::corpus_program("module_loaded_when_ready");
    let two = format!("{0} & {0} & wait", program.display());
    let run = Run::new(&work, command()).args(["run", "--keep", "--out"]).args([&out]).args(["--", "sh", "-c", &two]);
    let mut running = run.set("LG_REQUEST", &request).start();
    let ready = || Command::new(command()).arg("ready").arg(&out).output();
    running.until("both processes take requests", 20 * SECOND, |_| {
        let (lines, _) = texts(&ready().ok()?);
        (lines.matches(" is ready: ").count() == 2).then_some(())
    });
    // Each process is stopped in turn, and the command tells the other.
    let of_run = lazyguard_e2e::only_run_in(&out);
    let names = fs::read_dir(of_run).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let both: Vec<u32> = names.filter_map(|name| name.to_str()?.strip_prefix("rank0-")?.parse().ok()).collect();
    assert_eq!(both.len(), 2);
    for (stopped, other) in [(both[0], both[1]), (both[1], both[0])] {
        stop(stopped);
        let told = ready().unwrap();
        signal(stopped, libc::SIGCONT);
        let line = format!("process {other} is ready: what it loads from now on is LG110\n");
        assert_eq!((told.status.code(), texts(&told).0), (Some(1), line));
        assert!(texts(&told).1.starts_with(&format!("lazyguard: process {stopped}: is stopped")));
    }
    fs::write(&request, "").unwrap_or_else(|error| panic!("{error}"));
    let outcome = running.finish_within(20 * SECOND);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "served\nserved\n"), "{outcome}");
    let (hazards, _) = texts(&Command::new(command()).args(["report", "--hazards"]).arg(&out).output().unwrap());
    assert!(hazards.contains("2 times") || hazards.matches(", 1 time)").count() == 2, "{hazards}");
    let (_, gone) = texts(&ready().unwrap());
    assert!(gone.ends_with(": no process of it runs here any more\n"), "{gone}");
}
