//! The verdict: its time, its destinations and its text.

use lazyguard_e2e::{
    app, corpus_program, expect_a_block, expect_slow, expect_uneventful, hazards_of, log_of, number, one_of_three, run,
    text, text_report_of, watchdog_blocks, App, Folder, Json, Outcome, Run, Running, Work,
};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const SECOND: Duration = Duration::from_secs(1);

/// The times from the program's last driver call, as the simulated driver's log shows it, to reports on standard error, by heading: the most
/// and the least that each may be.
fn seconds_to(work: &Work, name: &str, threshold: u64, headings: &[&str]) -> Vec<[Duration; 2]> {
    let log = work.path().join(format!("calls-{name}-{threshold}"));
    let _ = fs::remove_file(&log);
    let app = App::named(name);
    let off = run(work, &app).guarded().set("LAZYGUARD_PRELOAD", "off").set("LGSIM_CALL_LOG", &log);
    let mut running = off.hang_after(&format!("{threshold}ms")).start();
    let own = format!("{} ", running.process());
    let (mut last_look, mut since, mut calls, mut took) = (Instant::now(), [Instant::now(); 2], 0, Vec::new());
    running.until("the reports", lazyguard_e2e::PATIENCE, |running| {
        // The program has one thread. What another one asks is the guard's question.
        let look = Instant::now();
        let now = fs::read_to_string(&log).map_or(0, |log| log.lines().filter(|line| line.starts_with(&own)).count());
        if now != calls {
            (since, calls) = ([last_look, Instant::now()], now);
        }
        last_look = look;
        let next = headings.get(took.len())?;
        if running.stderr().contains(&format!("lazyguard: {next} ")) {
            took.push(since.map(|since| since.elapsed()));
        }
        (took.len() == headings.len()).then_some(())
    });
    assert!(calls > 0, "no call was logged");
    took
}

/// Whether no report comes early or more than a second late, as one can seem to on a machine that stands still at times.
fn reports_come_in_time(work: &Work, name: &str, headings: &[(&str, u32)], threshold: u64) -> Result<(), String> {
    let names: Vec<_> = headings.iter().map(|(heading, _)| *heading).collect();
    for ((heading, times), [most, least]) in headings.iter().zip(seconds_to(work, name, threshold, &names)) {
        let due = Duration::from_millis(threshold) * *times;
        // The guard knows of the call a moment before the log does.
        if most + Duration::from_millis(30) < due || least > due + SECOND {
            return Err(format!("{name}: {heading} after {least:?} to {most:?}, and due after {due:?}"));
        }
    }
    Ok(())
}

#[test]
fn the_verdict_comes_within_a_second_of_the_threshold_and_not_before() {
    let work = Work::new(lazyguard_e2e::this_test!());
    // A standstill of no known pattern is slow at the threshold, and a hang after three times that.
    for (name, headings) in
        [("plain_spin", &[("SLOW", 1), ("HANG", 3)][..]), ("persistent_two_libraries", &[("HANG", 1)])]
    {
        for threshold in [200, 500, 2000] {
            one_of_three(|| reports_come_in_time(&work, name, headings, threshold));
        }
    }
}

/// The report of a program that hangs without preloading, line by line, and its process id.
fn report_of(work: &Work, name: &str) -> (String, u32, Json) {
    let app = App::named(name);
    let mut running = run(work, &app).guarded().kept().set("LAZYGUARD_PRELOAD", "off").hang_after("300ms").start();
    let folder = running.until_a_hang_is_reported();
    // Stacks follow the block in a write of their own.
    running.until("its stacks", SECOND * 10, |r| r.stderr().contains("stack of thread").then_some(()));
    (running.stderr(), running.process(), folder.hang())
}

fn expect_lines(stderr: &str, parts: &[&[&str]]) {
    expect_lines_of(&expect_a_block(stderr), stderr, parts);
}

fn expect_lines_of(block: &[&str], stderr: &str, parts: &[&[&str]]) {
    for parts in parts {
        let found = block.iter().any(|line| parts.iter().all(|part| line.contains(part)));
        assert!(found, "no line of the block says {parts:?}:\n{stderr}");
    }
}

#[test]
fn the_block_names_thread_call_function_and_stream() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let (said, process, hang) = report_of(&work, "persistent_two_libraries");
    let thread = format!("thread {process} \"persistent_two_\"");
    let stream = |pointer: &str| format!("stream {}", number(&hang, &format!("{pointer}/number")));
    let (of_the_launch, of_the_culprit) = (stream("/blocked/0/stream"), stream("/verdicts/0/culprits/0/stream"));
    let handle =
        format!("{of_the_culprit} ({:#x}, non-blocking)", number(&hang, "/verdicts/0/culprits/0/stream/handle"));
    let block = expect_a_block(&said);
    let (who, place) =
        (format!(" pid {process} (persistent_two_libraries): blocked "), " at persistent_two_libraries+0x");
    assert!(block[0].contains(&who) && block[0].contains(place) && blocked_for(block[0]) < 5.0, "{said}");
    assert_eq!(
        block[1],
        format!(
            "lazyguard: LG202 (likely): one_time_kernel cannot start: loading its module on its first launch waits for \
             persistent_kernel on {of_the_culprit}, and persistent_kernel has not ended."
        )
    );
    assert!(
        block[2].starts_with("lazyguard:   fix: load one_time_kernel before launching persistent_kernel: "),
        "{said}"
    );
    assert!(block[3].starts_with("lazyguard:   persistent_kernel launched at persistent_two_libraries+0x"), "{said}");
    expect_lines(
        &said,
        &[
            &[&thread, "in cuLaunchKernel of one_time_kernel", &of_the_launch, "for "],
            &[&handle, "cuLaunchKernel of persistent_kernel since +", "1 operation submitted"],
            &["preload off: 0 kernels"],
            &["details: lazyguard report ", text(&hang, "/folder")],
            &[&format!("stack of thread {process} in cuLaunchKernel:")],
        ],
    );
    // The JSON has the same, typed.
    assert_eq!(
        text(&hang, "/verdicts/0/sentence"),
        block[1].split_once(": ").and_then(|(_, s)| s.split_once(": ")).map_or("", |(_, s)| s)
    );
    assert_eq!(text(&hang, "/verdicts/0/held_back/operation/function"), "one_time_kernel");
    let caller = number(&hang, "/verdicts/0/culprits/0/operation/caller");
    let places = hang["places"].as_array().map_or(&[][..], Vec::as_slice);
    let place = places.iter().find(|place| number(place, "/address") == caller);
    assert_eq!(place.map(|place| text(place, "/module")), Some("persistent_two_libraries"), "{hang:#}");
}

/// Which machine, rank and time it was is in the line that is read first, and in the JSON.
#[test]
fn the_first_line_names_time_host_and_rank() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for (name, rank) in [("RANK", "3"), ("OMPI_COMM_WORLD_RANK", "4"), ("SLURM_PROCID", "5"), ("PMI_RANK", "6")] {
        let app = App::named("lazy_pair");
        let run = run(&work, &app).guarded().kept().set("LAZYGUARD_PRELOAD", "off").set(name, rank).hang_after("300ms");
        let mut running = run.start();
        let hang = running.until_a_hang_is_reported().hang();
        let host = text(&hang, "/host");
        assert_eq!((text(&hang, "/rank"), host.is_empty()), (rank, false), "{hang:#}");
        let since = number(&hang, "/armed_unix_nanos") + number(&hang, "/at");
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_nanos();
        assert!(u128::from(since) < now && now - u128::from(since) < 60_000_000_000, "{since} {now}");
        let seconds = since / 1_000_000_000;
        let clock = format!("{:02}:{:02}:{:02}Z", seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
        let said = running.stop().stderr;
        let expect = format!("lazyguard: HANG {clock} {host} rank {rank} pid ");
        assert!(expect_a_block(&said)[0].starts_with(&expect), "{expect}: {said}");
    }
}

#[test]
fn the_block_names_the_cold_kernel_and_what_it_is_behind() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let (said, process, hang) = report_of(&work, "lazy_pair");
    expect_lines(
        &said,
        &[
            &["LG201 (likely): k2 cannot start: loading it on its first launch waits for k1 on stream 1"],
            &[&format!("thread {process} \"lazy_pair\" in cuCtxSynchronize for ")],
            &["cuLaunchKernel on stream ", "loaded k2 on its first use"],
            &["fix: load k2 before launching k1: cudaFuncGetAttributes(k2), or LAZYGUARD_PRELOAD=auto"],
            &["k1 launched at lazy_pair+0x", ", k2 at lazy_pair+0x"],
        ],
    );
    assert_eq!(text(&hang, "/loads/0/function"), "k2");
    assert_eq!(text(&hang, "/loads/0/behind/0/oldest/function"), "k1");
    assert_eq!(hang["verdicts"][0]["threads"], serde_json::json!([process]));
}

/// A thread that runs a host function is in no driver call, and it is the one that does not return.
#[test]
fn a_host_function_is_named_and_its_own_thread_comes_first() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let run = Run::new(&work, corpus_program("host_function_waits")).guarded().kept().hang_after("300ms");
    let mut running = run.start();
    let folder = running.until_a_hang_is_reported();
    let hang = folder.hang();
    let thread = number(&hang, "/host_functions/0/thread");
    assert_eq!(number(&hang, "/stacks/0/thread"), thread, "{hang:#}");
    assert!(hang["stacks"][0]["frames"].as_array().is_some_and(|frames| frames.len() > 2), "{hang:#}");
    drop(running);
    let told = folder.report("text");
    let sentence = told.lines().nth(1).unwrap_or_default();
    let named =
        ["its host function ", "lambda", " host_function_waits.cpp:"].iter().all(|part| sentence.contains(part));
    assert!(named && !sentence.contains("host function at 0x"), "{told}");
    let title = format!("stack of thread {thread} in the host function ");
    let first = told.lines().find(|line| line.starts_with("stack of thread"));
    assert!(first.is_some_and(|line| line.starts_with(&title)), "{told}");
}

/// What was reported after a fraction of a second is asked about a while later: how long it lasts by now is said.
#[test]
fn a_report_says_how_long_the_hang_lasts_by_now() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let app = App::named("lazy_pair");
    let off = run(&work, &app).guarded().kept().set("LAZYGUARD_PRELOAD", "off").hang_after("300ms");
    let mut running = off.start();
    let folder = running.until_a_hang_is_reported();
    std::thread::sleep(3 * SECOND);
    let told = folder.report("text");
    let first = told.lines().next().unwrap_or_default();
    assert!(first.contains(": blocked ") && first.contains(" s in cuCtxSynchronize at main lazy_pair.cpp:"), "{told}");
    let now = first.split_once("; now ").and_then(|(_, now)| now.strip_suffix(" s")?.parse::<f64>().ok());
    assert!(now.is_some_and(|now| (3.0..60.0).contains(&now)), "{told}");
    drop(running);
    let told = folder.report("text");
    let first = told.lines().next().unwrap_or_default();
    assert!(first.contains(" s when it was last seen, at "), "{told}");
}

#[test]
fn the_block_names_the_address_and_the_value_that_is_waited_for() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let (said, _, hang) = report_of(&work, "wait_never_written");
    let address = format!("{:#x}", number(&hang, "/waits/0/address"));
    expect_lines(
        &said,
        &[
            &[
                "LG203 (likely): stream ",
                " cannot go on: it waits for memory at ",
                &address,
                "== 7, and no submitted operation",
            ],
            &["fix: ", "writes 7 to", &address],
        ],
    );
    assert_eq!(number(&hang, "/waits/0/value"), 7);
}

#[test]
fn the_block_names_every_blocked_thread() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let (said, process, hang) = report_of(&work, "value_fence");
    let blocked = hang["blocked"].as_array().map_or(&[][..], Vec::as_slice);
    assert_eq!(blocked.len(), 2, "main and the worker are blocked: {hang:#}");
    let threads: Vec<_> = blocked.iter().map(|call| number(call, "/thread")).collect();
    assert!(threads.contains(&u64::from(process)) && threads[0] != threads[1], "{threads:?}");
    expect_lines(
        &said,
        &[&[&format!("thread {} ", threads[0]), "in cuLaunchKernel"], &[&format!("thread {} ", threads[1])]],
    );
    expect_lines(&said, &[&["waits since +", "for memory at", "== 1"]]);
    // The thread that enters first loads; the other waits behind it. Both orders occur.
    assert_eq!(text(&hang, "/verdicts/0/code"), "LG202");
}

#[test]
fn what_is_slow_becomes_a_hang_once_and_is_reported_once_as_each() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let app = App::named("plain_spin");
    let mut running = run(&work, &app).guarded().kept().hang_after("400ms").start();
    let out = running.out();
    running.until("the report that it is slow", 20 * SECOND, |_| {
        let hang: Json = serde_json::from_slice(&fs::read(out.join("hang.json")).ok()?).ok()?;
        (hang["status"] == "slow" && !hang["probe"].is_null()).then_some(())
    });
    let block = running
        .until("the report", 20 * SECOND, |running| (running.stderr().contains("details: ")).then(|| running.stderr()));
    expect_lines_of(
        &expect_slow(&block),
        &block,
        &[
            &["in cuCtxSynchronize for "],
            &["waits for spin on stream 1, and spin has not ended", "so it may only be slow"],
            &["the driver says: busy: stream 1"],
        ],
    );
    let hang = running.until_a_hang_is_reported().hang();
    assert_eq!((text(&hang, "/status"), text(&hang, "/verdicts/0/code")), ("hang", "LG299"));
    assert_eq!(text(&hang, "/verdicts/0/culprits/0/operation/function"), "spin");
    // No further report: it counts as a hang until it ends.
    let outcome = running.finish_within(5 * SECOND);
    expect_slow(&outcome.stderr);
    expect_a_block(&outcome.stderr);
    for said_by_both in ["blocked calls:", "busy streams", "stack of thread", "the driver says: "] {
        assert_eq!(outcome.stderr.matches(said_by_both).count(), 1, "{said_by_both}: {outcome}");
    }
    let order: Vec<_> = watchdog_blocks(&outcome.stderr).iter().map(|block| block[0].split(' ').nth(1)).collect();
    let hang_from = order.iter().position(|heading| *heading == Some("HANG")).unwrap_or(0);
    assert!(hang_from > 0 && !order[hang_from..].contains(&Some("SLOW")), "{outcome}");
    assert_eq!(number(&outcome.out().summary(), "/hangs"), 1);
}

/// How long it had been blocked, by a heading.
fn blocked_for(line: &str) -> f64 {
    let (_, rest) = line.split_once(": blocked ").unwrap_or_else(|| panic!("{line}"));
    rest.split(' ').next().and_then(|seconds| seconds.parse().ok()).unwrap_or_else(|| panic!("{line}"))
}

/// Lets a hang stand for four repetitions. Whether each came in time, which one may not on a machine that stands still at times; all else is checked.
fn repetitions_come_in_time(test: &str) -> Result<(), String> {
    const THRESHOLD: f64 = 0.3;
    let work = Work::new(test);
    let app = App::named("persistent_two_libraries");
    let off = run(&work, &app).guarded().kept().set("LAZYGUARD_PRELOAD", "off").hang_after("300ms");
    let mut running = off.start();
    let count = |running: &mut Running| running.stderr().lines().filter(|line| line.ends_with(", as reported")).count();
    running.until("four repetitions", 30 * SECOND, |running| (count(running) >= 4).then_some(()));
    let outcome = running.stop();
    let folder = outcome.out();
    assert_eq!((number(&folder.summary(), "/hangs"), text(&folder.hang(), "/verdicts/0/code")), (1, "LG202"));
    let block = expect_a_block(&outcome.stderr);
    let mut last = blocked_for(block[0]);
    for (number, repeated) in watchdog_blocks(&outcome.stderr)[1..].iter().enumerate() {
        let [line] = repeated[..] else { panic!("a repetition is a line: {outcome}") };
        assert!(line.ends_with(": still LG202, as reported"), "{outcome}");
        let (pause, took) = (THRESHOLD * f64::from(1 << number), blocked_for(line) - last);
        // The lines give tenths of a second, and the watchdog looks once in the threshold.
        if took < pause - 0.11 || took > 1.5 * pause + 1.0 {
            return Err(format!("repetition {number} after {took} s: {outcome}"));
        }
        last = blocked_for(line);
    }
    Ok(())
}

#[test]
fn what_stands_as_reported_is_repeated_in_a_line_after_pauses_that_double() {
    let test = lazyguard_e2e::this_test!();
    one_of_three(|| repetitions_come_in_time(test));
}

/// Waits for a value, and for a file: when that is there, another thread writes the value. Then what it has is destroyed.
const RELEASED: &str = "import ctypes, os, sys, threading, time\n\
    driver = ctypes.CDLL('libcuda.so.1')\n\
    context, stream, other, event = (ctypes.c_void_p() for _ in range(4))\n\
    word = ctypes.c_uint64()\n\
    def ck(result): assert result == 0, result\n\
    ck(driver.cuInit(0))\n\
    ck(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))\n\
    ck(driver.cuCtxSetCurrent(context))\n\
    ck(driver.cuMemAlloc_v2(ctypes.byref(word), ctypes.c_size_t(4)))\n\
    ck(driver.cuStreamCreate(ctypes.byref(stream), 1))\n\
    ck(driver.cuStreamCreate(ctypes.byref(other), 1))\n\
    ck(driver.cuEventCreate(ctypes.byref(event), 2))\n\
    def release():\n\
    \x20   while not os.path.exists(sys.argv[1]): time.sleep(0.01)\n\
    \x20   ck(driver.cuCtxSetCurrent(context))\n\
    \x20   ck(driver.cuStreamWriteValue32_v2(other, word, 7, 0))\n\
    thread = threading.Thread(target=release)\n\
    thread.start()\n\
    ck(driver.cuStreamWaitValue32_v2(stream, word, 7, 1))\n\
    ck(driver.cuEventRecord(event, stream))\n\
    ck(driver.cuStreamSynchronize(stream))\n\
    thread.join()\n\
    ck(driver.cuEventDestroy_v2(event))\n\
    ck(driver.cuStreamDestroy_v2(stream))\n\
    print('released', flush=True)\n\
    time.sleep(float(sys.argv[2]))\n";

/// That program, which stays for so many seconds afterwards, and the file that releases it.
fn released<'w>(work: &'w Work, name: &str, stays: &str) -> (Run<'w>, PathBuf) {
    let file = work.path().join(name);
    (Run::new(work, "python3").args(["-c", RELEASED]).args([&file]).args([stays]), file)
}

fn release(file: &Path) {
    fs::write(file, "").unwrap_or_else(|error| panic!("{}: {error}", file.display()));
}

#[test]
fn a_hang_that_goes_on_after_all_is_said_to_have_resolved() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let (run, file) = released(&work, "release", "1.5");
    let mut running = run.guarded().kept().hang_after("300ms").start();
    let before = running.until_a_hang_is_reported().hang();
    assert!(before["resolved"].is_null(), "{before:#}");
    release(&file);
    let folder = Folder::at(&running.out());
    running.until("the end of the hang", 10 * SECOND, |_| folder.hang()["resolved"].is_u64().then_some(()));
    let outcome = running.finish_within(20 * SECOND);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "released\n"), "{outcome}");
    expect_a_block(&outcome.stderr);
    let last = watchdog_blocks(&outcome.stderr).pop().unwrap_or_default();
    let [line] = last[..] else { panic!("that it has resolved is a line, and the last one: {outcome}") };
    let process = format!(" pid {} (python3", outcome.process);
    let says = line.starts_with("lazyguard: RESOLVED ") && line.contains(&process);
    assert!(says && line.contains("): it went on by itself "), "{outcome}");
    // What was found then stays, with the time at which it was over.
    let mut after = folder.hang();
    assert!(number(&after, "/resolved") > number(&after, "/at"), "{after:#}");
    after["resolved"] = Json::Null;
    assert_eq!(after["verdicts"], before["verdicts"]);
    assert!(folder.report("text").contains("this hang is over"), "{}", folder.report("text"));
    assert_eq!((text(&folder.summary(), "/ended"), number(&folder.summary(), "/hangs")), ("exit", 1));
}

/// Waits in vain for a value, in a call that the driver ends with an error; stays for so many seconds afterwards.
const FAILS: &str = "import ctypes, sys, time\n\
    driver = ctypes.CDLL('libcuda.so.1')\n\
    context, stream, word = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()\n\
    def ck(result): assert result == 0, result\n\
    ck(driver.cuInit(0))\n\
    ck(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))\n\
    ck(driver.cuCtxSetCurrent(context))\n\
    ck(driver.cuMemAlloc_v2(ctypes.byref(word), ctypes.c_size_t(4)))\n\
    ck(driver.cuStreamCreate(ctypes.byref(stream), 1))\n\
    ck(driver.cuStreamWaitValue32_v2(stream, word, 7, 1))\n\
    print(driver.cuStreamSynchronize(stream), flush=True)\n\
    time.sleep(float(sys.argv[1]))\n";

/// A call that came back with an error was not slow: the context may be gone. The watchdog sees it, or the exit does; where the process
/// ends without either, the recording has it.
#[test]
fn a_hang_that_ends_with_an_error_is_not_said_to_have_resolved() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for stays in ["1.5", "0"] {
        let run = Run::new(&work, "python3").args(["-c", FAILS]).args([stays]).guarded().kept().hang_after("300ms");
        let run = run.set("LGSIM_DELAY", "cuStreamSynchronize=2000").set("LGSIM_FAIL", "cuStreamSynchronize=719");
        let outcome = run.finish();
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "719\n"), "{outcome}");
        expect_a_block(&outcome.stderr);
        assert!(!outcome.stderr.contains("RESOLVED"), "{outcome}");
        let last = watchdog_blocks(&outcome.stderr).pop().unwrap_or_default();
        let [line] = last[..] else { panic!("that it has ended is a line, and the last one: {outcome}") };
        let process = format!(" pid {} (", outcome.process);
        let says = line.starts_with("lazyguard: ENDED WITH ERROR 719 (CUDA_ERROR_LAUNCH_FAILED) ");
        assert!(says && line.contains(&process) && line.contains("cuStreamSynchronize in thread "), "{outcome}");
        let folder = outcome.out();
        let hang = folder.hang();
        assert_eq!((text(&hang, "/ends/0/how"), number(&hang, "/ends/0/result")), ("failed", 719), "{hang:#}");
        assert_eq!(text(&hang, "/ends/0/error"), "CUDA_ERROR_LAUNCH_FAILED");
        let report = folder.report("text");
        assert!(report.contains(" returned error 719 (CUDA_ERROR_LAUNCH_FAILED) at +"), "{report}");
    }
    // It ends at once, and no handler of the exit runs.
    let app = App::named("plain_spin");
    let run = run(&work, &app).guarded().kept().hang_after("300ms");
    let run = run.set("LGSIM_DELAY", "cuCtxSynchronize=2000").set("LGSIM_FAIL", "cuCtxSynchronize=719");
    let outcome = run.finish();
    assert_eq!(outcome.code, Some(3), "{outcome}");
    let report = outcome.out().report("text");
    assert!(report.contains("this hang is over") && report.contains(" returned error 719 (CUDA_ERROR_"), "{report}");
}

/// The context is lost and every question is answered with an error: that is an answer.
#[test]
fn an_error_that_the_driver_answers_is_told() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let app = App::named("plain_spin");
    let run = run(&work, &app).guarded().kept().hang_after("300ms").set("LGSIM_FAIL", "cuStreamQuery=719");
    let mut running = run.start();
    let hang = running.until_a_hang_is_reported().hang();
    assert_eq!(hang["probe"]["failed"], serde_json::json!([[1, 719]]), "{hang:#}");
    let stderr = running.stop().stderr;
    assert!(stderr.contains("the driver says: stream 1: error 719 (CUDA_ERROR_LAUNCH_FAILED)"), "{stderr}");
}

fn signal(running: &Running, signal: i32) {
    // SAFETY: takes integers only; the process is a child that has not been waited for.
    unsafe { libc::kill(running.process() as libc::pid_t, signal) };
}

#[test]
fn the_time_for_which_a_process_was_stopped_is_no_hang() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let log = work.path().join("calls");
    let (run, file) = released(&work, "release", "0");
    let mut running = run.guarded().kept().hang_after("1s").set("LGSIM_CALL_LOG", &log).start();
    running.until("the call that blocks", 10 * SECOND, |_| {
        fs::read_to_string(&log).is_ok_and(|calls| calls.contains("cuStreamSynchronize")).then_some(())
    });
    signal(&running, libc::SIGSTOP);
    std::thread::sleep(3 * SECOND);
    let goes_on = Instant::now();
    signal(&running, libc::SIGCONT);
    // The time counts again from here: a whole threshold has to go by, and then it is reported like any other.
    let stderr = running
        .until("the report", 20 * SECOND, |running| running.stderr().contains("details: ").then(|| running.stderr()));
    assert!(goes_on.elapsed() >= SECOND, "reported {:?} after it was continued: {stderr}", goes_on.elapsed());
    expect_slow(&stderr);
    release(&file);
    let outcome = running.finish_within(20 * SECOND);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "released\n"), "{outcome}");
}

#[test]
fn a_hang_in_a_process_that_is_stopped_and_continued_is_not_over() {
    let work = Work::new(lazyguard_e2e::this_test!());
    // One is blocked in a call; the other polls.
    for program in [app("lazy_pair"), corpus_program("polls_stream_behind_load")] {
        let off = Run::new(&work, program).guarded().kept().hang_after("1s").set("LAZYGUARD_PRELOAD", "off");
        let mut running = off.start();
        let folder = running.until_a_hang_is_reported();
        signal(&running, libc::SIGSTOP);
        std::thread::sleep(2 * SECOND);
        signal(&running, libc::SIGCONT);
        // The guard has looked at it again, before and after a whole threshold of being awake.
        std::thread::sleep(3 * SECOND);
        let hang = folder.hang();
        assert_eq!(hang["resolved"], serde_json::Value::Null, "{hang:#}");
        let stderr = running.stop().stderr;
        assert_eq!(stderr.matches("details: ").count(), 1, "{stderr}");
        assert!(!stderr.contains("RESOLVED") && !stderr.contains("SLOW"), "{stderr}");
    }
}

/// A look at the thread nearly always finds it in a query.
#[test]
fn a_poll_of_slow_queries_is_a_hang_and_is_not_over_while_the_thread_asks() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let polls = Run::new(&work, corpus_program("polls_stream_behind_load")).guarded().kept().hang_after("1s");
    let mut running = polls.set("LAZYGUARD_PRELOAD", "off").set("LGSIM_DELAY", "cuStreamQuery=20").start();
    let hang = running.until_a_hang_is_reported().hang();
    assert!(number(&hang, "/blocked/0/queries") > 2, "{hang:#}");
    std::thread::sleep(3 * SECOND);
    let stderr = running.stop().stderr;
    assert!(!stderr.contains("RESOLVED"), "{stderr}");
    assert_eq!(stderr.matches("details: ").count(), 1, "{stderr}");
}

/// The threads of a process, with their names.
pub(crate) fn threads_of(process: u32) -> Vec<(String, String)> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let name = |task: &fs::DirEntry| fs::read_to_string(task.path().join("comm")).unwrap_or_default().trim().to_owned();
    tasks.map(|task| (task.file_name().to_string_lossy().into_owned(), name(&task))).collect()
}

fn threads_named(process: u32, name: &str) -> Vec<String> {
    threads_of(process).into_iter().filter(|(_, its)| its == name).map(|(thread, _)| thread).collect()
}

/// A driver that blocks its callers blocks only the one thread that the guard can afford to lose.
#[test]
fn a_question_that_is_never_answered_costs_nothing() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for (question, named) in
        [("cuStreamQuery", "cuStreamQuery of stream "), ("cuEventQuery", "cuEventQuery of an event on stream ")]
    {
        let (bare, file) = released(&work, &format!("bare-{question}"), "0");
        release(&file);
        let bare = bare.finish();

        let log = work.path().join(format!("calls-{question}"));
        let (run, file) = released(&work, question, "0");
        let run = run.guarded().kept().hang_after("500ms").set("LGSIM_NEVER_RETURN", question);
        let mut running = run.set("LGSIM_CALL_LOG", &log).start();
        let calls = |of: &str| -> Vec<String> {
            let log = fs::read_to_string(&log).unwrap_or_default();
            let made = log.lines().filter_map(|line| line.split_once(' ')).filter(|(_, symbol)| *symbol == of);
            made.map(|(thread, _)| thread.to_owned()).collect()
        };
        running
            .until("the call that blocks", 10 * SECOND, |_| (!calls("cuStreamSynchronize").is_empty()).then_some(()));
        let blocked = Instant::now();
        let stderr = running.until("the report", 20 * SECOND, |running| {
            running.stderr().contains("details: ").then(|| running.stderr())
        });
        let took = blocked.elapsed();
        assert!(took <= SECOND / 2 + 2 * SECOND, "{took:?} for a threshold of half a second: {stderr}");
        let lost = threads_named(running.process(), "lazyguard-probe");
        assert_eq!(lost.len(), 1, "the thread that asks is lost: {lost:?}");
        expect_lines_of(
            &expect_slow(&stderr),
            &stderr,
            &[&["the driver says: ", named, " was not answered, so the rest was not asked"]],
        );

        // It is looked at again, and becomes a hang, by what is known without the driver.
        let hang = running.until_a_hang_is_reported().hang();
        assert_eq!((text(&hang, "/status"), text(&hang, "/verdicts/0/code")), ("hang", "LG203"), "{hang:#}");
        assert_eq!(text(&hang, "/probe/unanswered"), "an earlier question");
        assert_eq!(threads_named(running.process(), "lazyguard-probe"), lost, "another thread was started to ask");

        release(&file);
        let outcome = running.finish_within(20 * SECOND);
        assert_eq!((outcome.code, &outcome.stdout), (bare.code, &bare.stdout), "{outcome}\nwhere bare: {bare}");
        assert_eq!(calls(question), lost, "who asked; the program did not");
        // Events that are destroyed at once leave no record.
        let log = log_of(outcome.out().path(), &[]);
        let destroyed =
            |line: &&Json| ["cuStreamDestroy_v2", "cuEventDestroy_v2"].iter().any(|call| line["call"] == *call);
        let destroyed: Vec<_> = log.iter().filter(destroyed).collect();
        assert!(destroyed.iter().any(|line| line["call"] == "cuStreamDestroy_v2"), "{destroyed:?}");
        // A question that is waited for would be, until the file is there.
        assert!(destroyed.iter().all(|line| number(line, "/took_ns") < 2_000_000_000), "{destroyed:?}");
    }
}

#[test]
fn a_slow_program_has_no_verdict_below_the_threshold() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let outcome = Run::new(&work, app("slow_but_fine")).guarded().kept().hang_after("4s").finish();
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome}");
    expect_uneventful(&outcome.out());
}

/// Reported as slow, and never as a hang; with the output that it has bare.
fn expect_slow_and_no_hang(outcome: &Outcome) {
    assert_eq!(outcome.code, Some(0), "{outcome}");
    let [slow, hang] = ["lazyguard: SLOW ", "lazyguard: HANG "].map(|word| outcome.stderr.contains(word));
    assert!(slow && !hang && outcome.stderr.contains("lazyguard: RESOLVED "), "{outcome}");
}

/// A call can be slow with nothing in flight that it could wait for.
#[test]
fn a_slow_call_with_nothing_in_flight_is_slow_and_no_hang() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let slow = Run::new(&work, app("route_direct_link")).guarded().kept().hang_after("600ms");
    expect_slow_and_no_hang(&slow.set("LGSIM_DELAY", "cuMemAlloc_v2=1200").finish());
}

/// Makes a graph executable, without a kernel in it, beside work that ends only after that.
const MAKES_EXECUTABLE: &str = "import ctypes\n\
    driver = ctypes.CDLL('libcuda.so.1')\n\
    context, graph, ready, word = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()\n\
    waits, writes = ctypes.c_void_p(), ctypes.c_void_p()\n\
    def ck(result): assert result == 0, result\n\
    ck(driver.cuInit(0))\n\
    ck(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))\n\
    ck(driver.cuCtxSetCurrent(context))\n\
    ck(driver.cuMemAlloc_v2(ctypes.byref(word), ctypes.c_size_t(4)))\n\
    for stream in (waits, writes): ck(driver.cuStreamCreate(ctypes.byref(stream), 1))\n\
    ck(driver.cuGraphCreate(ctypes.byref(graph), 0))\n\
    ck(driver.cuStreamWaitValue32_v2(waits, word, 7, 1))\n\
    ck(driver.cuGraphInstantiateWithFlags(ctypes.byref(ready), graph, ctypes.c_uint64(0)))\n\
    ck(driver.cuStreamWriteValue32_v2(writes, word, 7, 0))\n\
    ck(driver.cuCtxSynchronize())\n\
    print('made', flush=True)\n";

/// The driver waits for the context then only where a kernel of the graph needs local memory.
#[test]
fn a_graph_that_is_made_executable_for_long_is_no_hang() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let slow = Run::new(&work, "python3").args(["-c", MAKES_EXECUTABLE]).guarded().kept().hang_after("700ms");
    let outcome = slow.set("LGSIM_DELAY", "cuGraphInstantiateWithFlags=1500").finish();
    expect_slow_and_no_hang(&outcome);
    assert_eq!(outcome.stdout, "made\n", "{outcome}");
}

/// A program that closed descriptor 2 and opened a file of its own there must not find a report in it.
#[test]
fn nothing_is_written_to_another_file_that_took_the_place_of_standard_error() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let own = work.path().join("own-file");
    let program = concat!(
        lazyguard_e2e::python_session!(),
        "os.close(2)\n\
                   assert os.open(sys.argv[1], os.O_RDWR | os.O_CREAT) == 2\n\
                   assert driver.cuStreamWaitValue32_v2(stream, word, 7, 1) == 0\n\
                   driver.cuStreamSynchronize(stream)\n",
    );
    let hanging =
        Run::new(&work, "python3").args(["-c", program]).args([&own]).guarded().kept().hang_after("200ms").start();
    let out = hanging.out();
    let mut hanging = hanging;
    hanging.until("the report of a hang", lazyguard_e2e::PATIENCE, |_| out.join("run.json").is_file().then_some(()));
    let outcome = hanging.stop();
    assert_eq!((outcome.code, outcome.stderr.as_str()), (None, ""), "{outcome}");
    assert_eq!(
        fs::read(&own).unwrap_or_else(|error| panic!("{error}")),
        b"",
        "the report went into the program's own file"
    );
    assert_eq!(text(&outcome.out().hang(), "/verdicts/0/code"), "LG203");
}

#[test]
fn nothing_is_written_to_a_file_that_was_given_the_number_of_a_closed_standard_error() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let own = work.path().join("own-file");
    let closes = "import os, sys\nos.close(2)\nos.execv(sys.executable, [sys.executable, '-c', *sys.argv[1:]])\n";
    let program = concat!(
        "import os, sys\nassert os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT) == 2\n",
        lazyguard_e2e::python_session!(),
        "assert driver.cuStreamWaitValue32_v2(stream, word, 7, 1) == 0\n\
                   def ends():\n    \
                   time.sleep(1)\n    \
                   driver.cuCtxSetCurrent(context)\n    \
                   driver.cuStreamWriteValue32_v2(None, word, 7, 0)\n\
                   threading.Thread(target=ends).start()\n\
                   assert driver.cuStreamSynchronize(stream) == 0\n",
    );
    let python = Run::new(&work, "python3").args(["-c", closes, program]).args([&own]);
    let outcome = python.guarded().kept().hang_after("200ms").finish();
    assert_eq!(outcome.code, Some(0), "{outcome}");
    assert_eq!(fs::read_to_string(&own).ok().as_deref(), Some(""), "the report went into the program's own file");
    assert!(outcome.out().path().join("hang.json").is_file(), "{outcome}");
}

/// Is slow two dozen times, and then hangs.
const SLOW_AND_THEN_HANGS: &str = "import ctypes\n\
    driver = ctypes.CDLL('libcuda.so.1')\n\
    context, stream, word = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()\n\
    def ck(result): assert result == 0, result\n\
    ck(driver.cuInit(0))\n\
    ck(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))\n\
    ck(driver.cuCtxSetCurrent(context))\n\
    ck(driver.cuStreamCreate(ctypes.byref(stream), 1))\n\
    for _ in range(24): ck(driver.cuMemAlloc_v2(ctypes.byref(word), ctypes.c_size_t(4)))\n\
    ck(driver.cuStreamWaitValue32_v2(stream, word, 7, 1))\n\
    ck(driver.cuStreamSynchronize(stream))\n";

#[test]
fn a_hang_after_many_slow_calls_is_reported() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let run = Run::new(&work, "python3").args(["-c", SLOW_AND_THEN_HANGS]).guarded().kept().hang_after("200ms");
    let mut running = run.set("LGSIM_DELAY", "cuMemAlloc_v2=350").start();
    running.until_a_hang_is_reported();
    let stderr = running.stop().stderr;
    assert!(stderr.contains("lazyguard: LG203 ("), "{stderr}");
    let slow = stderr.matches("lazyguard: SLOW ").count();
    assert!(slow <= 20, "{slow} reports: {stderr}");
}

/// Writes two hundred values to one address, and waits there for one that is none of them. Another thread writes that if it is told to.
const WRITES_MANY: &str = "import ctypes, sys\n\
    driver = ctypes.CDLL('libcuda.so.1')\n\
    context, waits, writes, word = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()\n\
    def ck(result): assert result == 0, result\n\
    ck(driver.cuInit(0))\n\
    ck(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))\n\
    ck(driver.cuCtxSetCurrent(context))\n\
    ck(driver.cuMemAlloc_v2(ctypes.byref(word), ctypes.c_size_t(4)))\n\
    for stream in (waits, writes): ck(driver.cuStreamCreate(ctypes.byref(stream), 1))\n\
    for value in range(1, 201): ck(driver.cuStreamWriteValue32_v2(writes, word, value, 0))\n\
    ck(driver.cuStreamSynchronize(writes))\n\
    ck(driver.cuStreamWaitValue32_v2(waits, word, int(sys.argv[1]), 1))\n\
    if len(sys.argv) > 2: ck(driver.cuStreamWriteValue32_v2(writes, word, int(sys.argv[1]), 0))\n\
    ck(driver.cuStreamSynchronize(waits))\n";

/// Most of them by the fast path, which leaves no rare event.
#[test]
fn of_many_writes_to_one_address_the_newest_counts() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let run = Run::new(&work, "python3").args(["-c", WRITES_MANY, "1000"]).guarded().kept().hang_after("200ms");
    let mut running = run.start();
    running.until_a_hang_is_reported();
    let outcome = running.stop();
    assert!(outcome.stderr.contains("lazyguard: LG203 ("), "{outcome}");
    let hang = outcome.out().hang();
    assert_eq!(number(&hang, "/waits/0/newest_write/value"), 200, "{hang:#}");
    assert_eq!(number(&hang, "/waits/0/other_writes"), 200, "{hang:#}");
    let recorded = text_report_of(outcome.out().path().join("trace.lgt"));
    assert!(recorded.contains("the newest write there is of 200"), "{recorded}");
    let log = log_of(outcome.out().path(), &[]);
    let written = || log.iter().filter(|line| line["call"] == "cuStreamWriteValue32_v2");
    let of_lane = |lane: &str| written().filter(|line| line["lane"] == lane).count();
    assert_eq!(of_lane("work") + of_lane("rare_events"), 200);
    assert!((3..=8).contains(&of_lane("rare_events")), "{}", of_lane("rare_events"));
}

/// A wait for the value of a write that came before it stands before none; one for another value stands before the write of that.
#[test]
fn a_wait_behind_many_writes_is_a_hazard_only_where_none_of_them_satisfies_it() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for (value, expect) in [("200", 0), ("1000", 1)] {
        let run = Run::new(&work, "python3").args(["-c", WRITES_MANY, value, "write"]).guarded().kept();
        let outcome = run.finish();
        assert_eq!(outcome.code, Some(0), "{outcome}");
        let hazards = hazards_of(outcome.out().path());
        assert_eq!(hazards.as_array().map_or(0, Vec::len), expect, "a wait for {value}: {hazards:#}");
    }
}
