//! The verdict: when it comes, where it goes and what it says.

use crate::apps::run;
use lazyguard_e2e::{app, number, text, App, Run, Work};
use std::fs;
use std::time::{Duration, Instant};

const SECOND: Duration = Duration::from_secs(1);

/// The lines of the one block on standard error.
pub(crate) fn expect_a_block(stderr: &str) -> Vec<&str> {
    let begins = stderr.lines().filter(|line| line.starts_with("lazyguard: HANG")).count();
    assert_eq!(begins, 1, "one block was expected:\n{stderr}");
    let lines = stderr.lines().skip_while(|line| !line.starts_with("lazyguard: HANG"));
    let block: Vec<_> = lines.take_while(|line| line.starts_with("lazyguard: ")).collect();
    assert!(block.len() > 4, "the block says next to nothing:\n{stderr}");
    block
}

/// The time from the program's last driver call, as the simulated driver's log shows it, to the verdict on standard error.
fn seconds_to_the_verdict(work: &Work, name: &str, threshold: &str) -> Duration {
    let log = work.path().join(format!("calls-{name}-{threshold}"));
    let app = App::named(name);
    let off =
        run(work, &app).guarded().set("LAZYGUARD_PRELOAD", "off").hang_after(threshold).set("LGSIM_CALL_LOG", &log);
    let mut running = off.start();
    let (mut blocked_since, mut length) = (Instant::now(), 0);
    running.until("the verdict", Duration::from_secs(20), |running| {
        let now = fs::metadata(&log).map_or(0, |metadata| metadata.len());
        if now != length {
            (blocked_since, length) = (Instant::now(), now);
        }
        running.stderr().contains("lazyguard: HANG").then_some(())
    });
    assert!(length > 0, "no call was logged");
    blocked_since.elapsed()
}

#[test]
fn the_verdict_comes_within_a_second_of_the_threshold_and_not_before() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for (threshold, milliseconds) in [("200ms", 200), ("500ms", 500), ("2s", 2000)] {
        for name in ["plain_spin", "persistent_two_libraries"] {
            let took = seconds_to_the_verdict(&work, name, threshold);
            let due = Duration::from_millis(milliseconds);
            // The log is looked at every few milliseconds, so the beginning is known a little late.
            assert!(
                took + Duration::from_millis(30) >= due,
                "{name}: a verdict after {took:?}, before the threshold of {due:?}"
            );
            assert!(
                took <= due + SECOND,
                "{name}: a verdict after {took:?}, more than a second past the threshold of {due:?}"
            );
        }
    }
}

/// The report of a program that hangs without preloading, line by line, and its process id.
fn report_of(work: &Work, name: &str) -> (String, u32, lazyguard_e2e::Json) {
    let app = App::named(name);
    let mut running = run(work, &app).guarded().kept().set("LAZYGUARD_PRELOAD", "off").hang_after("300ms").start();
    let folder = running.until_a_hang_is_reported();
    (running.stderr(), running.process(), folder.hang())
}

fn expect_lines(stderr: &str, parts: &[&[&str]]) {
    let block = expect_a_block(stderr);
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
    let stream = |pointer: &str| {
        format!(
            "stream {} ({:#x}",
            number(&hang, &format!("{pointer}/number")),
            number(&hang, &format!("{pointer}/handle"))
        )
    };
    let (of_the_launch, of_the_culprit) = (stream("/blocked/0/stream"), stream("/verdicts/0/culprits/0/stream"));
    expect_lines(
        &said,
        &[
            &["HANG", &format!("process {process} (persistent_two_libraries)"), "blocked for 0."],
            &["LG202: ", "loading a module"],
            &[&thread, "in cuLaunchKernel of one_time_kernel", &of_the_launch, "for 0."],
            &["persistent_kernel", &of_the_culprit, "not known to have ended"],
            &["fix: ", "Load one_time_kernel before kernel persistent_kernel"],
            &["more: lazyguard explain LG202"],
            &[&of_the_culprit, "cuLaunchKernel of persistent_kernel since +", "1 operation(s) submitted"],
            &["preload off: 0 kernel(s)"],
            &["details: lazyguard report ", text(&hang, "/folder")],
        ],
    );
}

#[test]
fn the_block_names_the_cold_kernel_and_what_it_is_behind() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let (said, process, hang) = report_of(&work, "lazy_pair");
    expect_lines(
        &said,
        &[
            &["LG201: "],
            &[&format!("thread {process} \"lazy_pair\" in cuCtxSynchronize for 0.")],
            &["cuLaunchKernel on stream ", "loaded k2 on its first use"],
            &["kernel k1 on stream ", "not known to have ended"],
            &["fix: Load k2 before kernel k1"],
        ],
    );
    assert_eq!(text(&hang, "/loads/0/function"), "k2");
    assert_eq!(text(&hang, "/loads/0/behind/0/oldest/function"), "k1");
    assert_eq!(hang["verdicts"][0]["threads"], serde_json::json!([process]));
}

#[test]
fn the_block_names_the_address_and_the_value_that_is_waited_for() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let (said, _, hang) = report_of(&work, "wait_never_written");
    let address = format!("{:#x}", number(&hang, "/waits/0/address"));
    expect_lines(
        &said,
        &[&["LG203: "], &["memory at", &address, "== 7", "0 submitted write(s)"], &["fix: ", "writes 7 to", &address]],
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
    expect_lines(&said, &[&["unsatisfied waits:"], &["memory at", "== 1"]]);
    // Whoever gets in first loads; the other waits behind it. Both orders were seen.
    assert_eq!(text(&hang, "/verdicts/0/code"), "LG202");
}

#[test]
fn a_hang_is_reported_once() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let app = App::named("plain_spin");
    let running = run(&work, &app).guarded().kept().hang_after("200ms").start();
    let outcome = running.finish_within(2 * SECOND);
    expect_a_block(&outcome.stderr);
    assert_eq!(number(&outcome.out().account(), "/hangs"), 1);
}

#[test]
fn a_slow_program_has_no_verdict_below_the_threshold() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let outcome = Run::new(&work, app("slow_but_fine")).guarded().kept().hang_after("4s").finish();
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome}");
    crate::apps::expect_uneventful(&outcome.out());
}

/// A call can be slow with nothing in flight that it could wait for: that is no hang, however long it takes.
#[test]
fn a_slow_call_with_nothing_in_flight_is_no_hang() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let slow = Run::new(&work, app("route_direct_link")).guarded().kept().hang_after("200ms");
    let outcome = slow.set("LGSIM_DELAY", "cuLibraryLoadData=900,cuModuleLoadData=900,cuMemAlloc_v2=900").finish();
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome}");
    crate::apps::expect_uneventful(&outcome.out());
}

/// Whoever closed descriptor 2 and opened a file of its own there must not find a report in it.
#[test]
fn nothing_is_written_to_another_file_that_took_the_place_of_standard_error() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let own = work.path().join("own-file");
    let program = "import ctypes, os, sys\n\
                   driver = ctypes.CDLL('libcuda.so.1')\n\
                   assert driver.cuInit(0) == 0\n\
                   device, context, stream, word = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()\n\
                   assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0\n\
                   assert driver.cuCtxSetCurrent(context) == 0\n\
                   assert driver.cuMemAlloc_v2(ctypes.byref(word), ctypes.c_size_t(4)) == 0\n\
                   assert driver.cuStreamCreate(ctypes.byref(stream), 1) == 0\n\
                   os.close(2)\n\
                   assert os.open(sys.argv[1], os.O_RDWR | os.O_CREAT) == 2\n\
                   assert driver.cuStreamWaitValue32_v2(stream, word, 7, 1) == 0\n\
                   driver.cuStreamSynchronize(stream)\n";
    let hanging =
        Run::new(&work, "python3").args(["-c", program]).args([&own]).guarded().kept().hang_after("200ms").start();
    let out = hanging.out();
    let mut hanging = hanging;
    hanging.until("the report of a hang", Duration::from_secs(20), |_| out.join("run.json").is_file().then_some(()));
    let outcome = hanging.stop();
    assert_eq!((outcome.code, outcome.stderr.as_str()), (None, ""), "{outcome}");
    assert_eq!(
        fs::read(&own).unwrap_or_else(|error| panic!("{error}")),
        b"",
        "the report went into the program's own file"
    );
    assert_eq!(text(&outcome.out().hang(), "/verdicts/0/code"), "LG203");
}
