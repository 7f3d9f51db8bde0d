//! A process that ends in any way, at any point: its folder has the records written before, and names the call in progress.

use lazyguard_e2e::{
    calls_in, command, expect_only_slow, gapless_numbers, hostile_program, in_progress, log_of, number, numbers_in,
    read_by_script, report_of, root, text, text_report_of, App, Folder, Json, Outcome, Recording, Run, Running, Work,
};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The lines "NAME NUMBER" of a text.
pub(crate) fn facts(text: &str) -> BTreeMap<String, u64> {
    let fact = |line: &str| Some((line.split_once(' ')?.0.to_owned(), line.split_once(' ')?.1.parse().ok()?));
    text.lines().filter_map(fact).collect()
}

pub(crate) fn facts_in(path: &Path) -> BTreeMap<String, u64> {
    facts(&fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

/// The line of a program's source that holds a text.
fn line_of(program: &str, what: &str) -> usize {
    let path = root().join("testapps/hostile").join(program);
    let source = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let lines: Vec<_> =
        source.lines().enumerate().filter(|(_, line)| line.contains(what)).map(|(n, _)| n + 1).collect();
    assert_eq!(lines.len(), 1, "{program}: one line with {what:?} was expected");
    lines[0]
}

/// Everything that `crash` has said is in the recording of its folder, and nothing else but what it says nothing of.
fn expect_all_calls(folder: &Path, said: &str) -> Vec<Json> {
    let (said, log) = (facts(said), log_of(folder, &[]));
    assert!(said.get("cuLaunchKernel").is_some_and(|launches| *launches > 1000), "it was cut off too early: {said:?}");
    let recorded = calls_in(&log);
    for (call, calls) in &said {
        assert_eq!(
            recorded.get(call),
            Some(calls),
            "calls of {call} in the recording, and as the program counted them"
        );
    }
    for ((thread, lane), numbers) in gapless_numbers(&log) {
        assert_eq!(
            numbers.complete.first().copied().unwrap_or(0),
            0,
            "thread {thread}, {lane}: the beginning is missing"
        );
    }
    let recording = Recording::of(folder);
    recording.expect_to_add_up();
    assert_eq!(recording.number("/launches"), said["cuLaunchKernel"]);
    assert_eq!((recording.records().overwritten, recording.records().dropped), (0, 0));
    log
}

/// The recording shows where the process was when it ended: in `cuStreamSynchronize`, called where the program calls it.
fn expect_the_blocked_call(folder: &Path, log: &[Json], facts: &BTreeMap<String, u64>) -> Json {
    let open: Vec<_> = log.iter().filter(|line| in_progress(line)).collect();
    assert_eq!(open.len(), 1, "one call was in progress: {open:?}");
    assert_eq!((text(open[0], "/call"), text(open[0], "/event")), ("cuStreamSynchronize", "synchronize"));
    assert_eq!(number(open[0], "/thread"), facts["blocked_thread"]);
    assert_eq!(number(open[0], "/handle"), facts["blocked_stream"]);
    assert!(text(open[0], "/caller").starts_with("0x"), "{}", open[0]);

    let recording = Recording::of(folder);
    assert_eq!((recording.text("/state"), recording.is_alive()), ("guarded", false));
    let blocked = recording.0.pointer("/snapshot/blocked/0").cloned().unwrap_or_default();
    assert_eq!(recording.0.pointer("/snapshot/blocked/1"), None, "another call is said to be blocked");
    assert_eq!(text(&blocked, "/call"), "cuStreamSynchronize");
    assert_eq!(number(&blocked, "/thread"), facts["blocked_thread"]);
    assert_eq!(number(&blocked, "/stream/handle"), facts["blocked_stream"]);
    assert_eq!(number(&blocked, "/entered"), number(open[0], "/at_ns"));
    assert_eq!(number(&blocked, "/stream/number"), number(open[0], "/stream"));
    recording.0
}

/// A run of `crash`, and where its facts are.
fn crash<'w>(work: &'w Work, way: &str) -> (Run<'w>, PathBuf) {
    let facts = work.path().join(format!("facts-{way}"));
    (Run::new(work, hostile_program("crash")).args([way]).args([&facts]).guarded().kept(), facts)
}

/// Runs `crash` to its end and reads what it left; answers what the command says of the recording.
fn crashed(work: &Work, way: &str, code: i32) -> (Folder, Json) {
    let (run, facts) = crash(work, way);
    let outcome = run.finish();
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(code), ""), "{way}: {outcome}");
    let folder = outcome.out();
    assert!(!folder.holds("run.json") && !folder.holds("hang.json"), "{way}: it did not end in an orderly way");
    let log = expect_all_calls(folder.path(), &outcome.stdout);
    let recording = expect_the_blocked_call(folder.path(), &log, &facts_in(&facts));
    let report = report_of(folder.path());
    assert!(report["run"].is_null() && report["hang"].is_null(), "{way}: {report:#}");
    (folder, recording)
}

/// The kernel that spins is what the blocked call waits for; nothing else is wrong. It has not been waited for long, so it may only
/// be slow, and has no code.
fn expect_the_spinning_kernel(way: &str, (folder, recording): (Folder, Json)) {
    let blocked = &recording["snapshot"]["blocked"][0]["stream"];
    expect_only_slow(&recording, "spin", number(blocked, "/handle"));
    // What a person reads names the call and its line in the program, the kernel and the stream.
    let said = text_report_of(folder.path());
    let line = format!("crash.c:{}", line_of("crash.c", "  cuStreamSynchronize(waited_for);"));
    let handle = format!("{:#x}", number(blocked, "/handle"));
    for what in ["SUSPECTED ", "cuStreamSynchronize", "waits for spin on ", line.as_str(), handle.as_str()] {
        assert!(said.contains(what), "{way}: {what} is not in the report:\n{said}");
    }
    assert!(!said.contains("LG2"), "{way}: it is given a code:\n{said}");
}

#[test]
fn sigkill_by_another_thread_loses_nothing() {
    let work = Work::new(lazyguard_e2e::this_test!());
    expect_the_spinning_kernel("kill", crashed(&work, "kill", -libc::SIGKILL));
}

#[test]
fn sigkill_right_after_a_launch_loses_nothing() {
    let work = Work::new(lazyguard_e2e::this_test!());
    expect_the_spinning_kernel("raise", crashed(&work, "raise", -libc::SIGKILL));
}

#[test]
fn sigkill_right_after_the_first_launch_loses_no_line_of_the_program() {
    let work = Work::new(lazyguard_e2e::this_test!());
    // Whether the thread that reads all mappings has had its turn by then is up to the machine.
    for _ in 0..4 {
        let outcome = crash(&work, "first").0.finish();
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(-libc::SIGKILL), ""), "{outcome}");
        let log = Run::new(&work, command()).args(["log"]).args([outcome.out().path()]).finish().stdout;
        let launches: Vec<_> = log.lines().filter(|line| line.contains("cuLaunchKernel of nothing")).collect();
        assert_eq!(launches.len(), 1, "{log}");
        assert!(launches[0].contains("(counted_launch, "), "from where it was launched is not said: {log}");
    }
}

/// The thread that reads the mappings may not have begun, may be reading, or may be done.
#[test]
fn an_exit_right_after_the_start_loses_no_file() {
    const MAPPINGS: usize = 6000;
    let work = Work::new(lazyguard_e2e::this_test!());
    for after in ["0", "2000", "10000", "40000"] {
        let run = Run::new(&work, hostile_program("exits_early")).args([&MAPPINGS.to_string(), after]).guarded().kept();
        let outcome = run.finish();
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome}");
        let files = read_by_script(outcome.out().path())["files"].as_array().map_or(0, Vec::len);
        assert!(files > MAPPINGS / 2, "{files} parts of files are known {after} us after the start");
    }
}

#[test]
fn leaving_by_underscore_exit_loses_nothing() {
    let work = Work::new(lazyguard_e2e::this_test!());
    expect_the_spinning_kernel("exit", crashed(&work, "exit", 7));
}

#[test]
fn abort_loses_nothing() {
    let work = Work::new(lazyguard_e2e::this_test!());
    expect_the_spinning_kernel("abort", crashed(&work, "abort", -libc::SIGABRT));
}

#[test]
fn a_segmentation_fault_loses_nothing() {
    let work = Work::new(lazyguard_e2e::this_test!());
    expect_the_spinning_kernel("segfault", crashed(&work, "segfault", -libc::SIGSEGV));
}

#[test]
fn a_segmentation_fault_in_a_host_function_loses_nothing() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let (folder, recording) = crashed(&work, "callback", -libc::SIGSEGV);
    let busy = recording["snapshot"]["streams"].as_array().cloned().unwrap_or_default();
    let blocked_on = number(&recording, "/snapshot/blocked/0/stream/number");
    let waited_for = busy.iter().find(|stream| number(stream, "/stream/number") == blocked_on);
    let waited_for = waited_for.unwrap_or_else(|| panic!("the stream is not said to be busy: {recording:#}"));
    assert_eq!(text(waited_for, "/oldest/call"), "cuLaunchHostFunc", "{recording:#}");
    // The host function has been entered and has not returned, and waits for another thread: that has a pattern.
    let log = log_of(folder.path(), &[]);
    let events = |event: &str| log.iter().filter(|line| line["event"] == event).collect::<Vec<_>>();
    let (begun, ended) = (events("host_function_begins"), events("host_function_ends"));
    assert_eq!((begun.len(), ended.len()), (1, 0), "{begun:?} {ended:?}");
    assert_eq!(number(begun[0], "/stream"), blocked_on, "{}", begun[0]);
    assert_eq!(text(&recording, "/verdicts/0/code"), "LG207", "{recording:#}");
    assert_eq!(text(&recording, "/verdicts/0/culprits/0/operation/call"), "cuLaunchHostFunc", "{recording:#}");
    assert!(text_report_of(folder.path()).contains("cuLaunchHostFunc"));
}

/// What a thread of `launch_storm` has published.
struct Published {
    thread: u64,
    begun: u64,
    returned: u64,
}

fn published(path: &Path) -> Vec<Published> {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let words: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let threads = words.chunks(8).skip(1).map(|w| Published { thread: w[0], begun: w[1], returned: w[2] });
    threads.filter(|published| published.thread != 0).collect()
}

/// A storm that lasts until it is stopped, with all its threads launching.
pub(crate) fn storm(work: &Work, round: usize, record: &str) -> (Running, PathBuf) {
    let path = work.path().join(format!("published-{round}"));
    let run = Run::new(work, hostile_program("launch_storm")).args(["4", "0", "1"]).args([&path]);
    let run = run.guarded().kept().set("LGSIM_FREE_RUNNING", "1").set("LAZYGUARD_PRELOAD", "eager");
    let mut running = run.set("LAZYGUARD_RECORD", record).start();
    let begun = |path: &Path| fs::read(path).is_ok_and(|bytes| bytes.first() == Some(&1));
    running.until("the storm", Duration::from_secs(10), |_| begun(&path).then_some(()));
    (running, path)
}

#[test]
fn sigkill_under_a_storm_of_launches_loses_nothing() {
    /// Records of a segment: a process that is killed while a thread takes a segment over may count them twice, or not at all.
    const SEGMENT: u64 = 63;
    /// So many of a thread's newest records are read.
    const NEWEST: &str = "4000";
    let work = Work::new(lazyguard_e2e::this_test!());
    let mut cut_in_a_call = 0;
    for round in 0..6 {
        let (running, path) = storm(&work, round, "16M");
        std::thread::sleep(Duration::from_millis(7 * round as u64));
        let outcome = running.stop();
        assert_eq!(outcome.stderr, "", "{outcome}");
        let folder = outcome.out();
        let recording = Recording::of(folder.path());
        recording.expect_to_add_up();
        assert_eq!((recording.text("/state"), recording.is_alive()), ("guarded", false));
        assert_eq!(recording.records().dropped, 0);
        let published = published(&path);
        assert_eq!(published.len(), 4);
        // Beside the launches of its threads, the program makes one and a fill.
        let sum = |of: fn(&Published) -> u64| 2 + published.iter().map(of).sum::<u64>();
        let most = sum(|thread| thread.begun) + 4 * SEGMENT;
        let least = sum(|thread| thread.returned).saturating_sub(4 * SEGMENT);
        let all = recording.lane("work").all();
        assert!((least..=most).contains(&all), "{all} launches are accounted for, of {least} to {most}");
        for thread in published {
            let entry = recording.list("threads").iter().find(|entry| entry["thread"] == thread.thread);
            let entry = entry.unwrap_or_else(|| panic!("nothing of thread {} is there", thread.thread));
            let between = thread.returned..=thread.begun;
            let launches = number(entry, "/launches");
            assert!(between.contains(&launches), "{launches} launches are counted, of {between:?} that were made");

            let whose = number(entry, "/number");
            let filters = ["--thread", &thread.thread.to_string(), "--lane", "work", "--last", NEWEST];
            let log = log_of(folder.path(), &filters);
            // A thread of the storm does nothing but launch, so the numbers of its records are those of its launches, from 0.
            let numbers = numbers_in(&log).remove(&(whose, "work".to_owned())).unwrap_or_default();
            let recorded = numbers.complete.last().map_or(0, |last| last + 1);
            // A segment that another thread is about to take may be left when what came after it has been overwritten.
            assert!(numbers.runs() <= 4, "records are missing in between: {numbers:?}");
            assert!(between.contains(&recorded), "{recorded} launches are recorded, of {between:?} that were made");
            assert!(numbers.in_progress.is_none_or(|at| at + 1 == thread.begun), "{numbers:?} of {}", thread.begun);
            cut_in_a_call += log.iter().filter(|line| in_progress(line)).count();
            for launch in log {
                let facts = (text(&launch, "/event"), text(&launch, "/function"), number(&launch, "/thread"));
                assert_eq!(facts, ("launch", "nothing", thread.thread), "{launch}");
            }
        }
    }
    // Two dozen threads that do nothing but launch: some were in a launch.
    assert!(cut_in_a_call > 0, "no thread was seen in the middle of a call");
}

/// Runs a program with a file system of its own for its run folder, and copies the run folder to another place afterwards:
/// the run, the file system, and that place. `None` where the machine allows no mount.
fn on_a_small_disk<'w>(work: &'w Work, size: &str, program: &Path) -> Option<(Run<'w>, PathBuf, PathBuf)> {
    const SCRIPT: &str = "disk=$0 kept=$1; shift; mount -t tmpfs -o size=\"$SIZE\" none \"$disk\" || exit 99; \
                          \"$@\"; code=$?; rm -f \"$disk/filler\"; cp -r \"$disk/out\" \"$kept\" 2>&1; exit $code";
    let (disk, kept) = (work.folder("disk"), work.path().join("kept"));
    let allowed = Command::new("unshare").args(["-rm", "mount", "-t", "tmpfs", "none"]).arg(&disk).output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        skipped("this machine allows no mount in a namespace of one's own");
        return None;
    }
    let run = Run::new(work, "unshare").args(["-rm", "bash", "-c", SCRIPT]).args([&disk, &kept, program]);
    Some((run.guarded().set("LAZYGUARD_OUT", disk.join("out")).set("SIZE", size), disk, kept))
}

#[expect(clippy::print_stderr, reason = "a test that cannot be made here says so")]
fn skipped(why: &str) {
    eprintln!("skipped: {why}");
}

/// The lines of standard error that are the guard's.
fn own_lines(outcome: &Outcome) -> Vec<&str> {
    outcome.stderr.lines().filter(|line| line.starts_with("lazyguard: ")).collect()
}

#[test]
fn a_disk_that_fills_up_later_loses_nothing() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let Some((run, disk, kept)) = on_a_small_disk(&work, "80m", &hostile_program("crash")) else { return };
    let facts = work.path().join("facts");
    let outcome = run.args(["kill"]).args([&facts, &disk]).finish();
    assert_eq!(outcome.code, Some(128 + libc::SIGKILL), "{outcome}");
    assert_eq!(own_lines(&outcome), [""; 0]);
    let log = expect_all_calls(&kept, &outcome.stdout);
    expect_the_blocked_call(&kept, &log, &facts_in(&facts));
}

#[test]
fn a_limit_on_the_size_of_files_that_is_set_later_loses_nothing() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let (run, facts) = crash(&work, "raise");
    let outcome = run.args(["limit"]).finish();
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(-libc::SIGKILL), ""), "{outcome}");
    let log = expect_all_calls(outcome.out().path(), &outcome.stdout);
    expect_the_blocked_call(outcome.out().path(), &log, &facts_in(&facts));
}

/// So many lines say what is less than was asked for, each with these words.
fn expect_lines(outcome: &Outcome, lines: &[&[&str]]) {
    let own = own_lines(outcome);
    let says = |(line, words): (&&str, &&[&str])| words.iter().all(|word| line.contains(word));
    assert!(own.len() == lines.len() && own.iter().zip(lines).all(says), "it should say {lines:?}: {outcome}");
}

/// What is said where there was room neither at the beginning nor at the end.
const IN_MEMORY: [&[&str]; 2] = [&["recording is kept in memory"], &["recording could not be kept"]];

/// The names of what is in a folder.
fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())).flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn on_a_disk_with_little_room_the_recording_is_smaller() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let Some((run, _, kept)) = on_a_small_disk(&work, "6m", &hostile_program("out_many_launches")) else { return };
    let outcome = run.finish();
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "sum 10000\n"), "{outcome}");
    expect_lines(&outcome, &[&["recording", "1 MiB"]]);
    let recording = Recording::of(&kept);
    recording.expect_to_add_up();
    assert_eq!((recording.text("/state"), recording.number("/launches")), ("ended", 10_000));
    assert!(recording.number("/bytes") <= 1 << 20);
}

#[test]
fn on_a_disk_without_room_the_recording_is_kept_in_memory() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let Some((run, _, kept)) = on_a_small_disk(&work, "512k", &hostile_program("out_many_launches")) else { return };
    let outcome = run.finish();
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "sum 10000\n"), "{outcome}");
    expect_lines(&outcome, &IN_MEMORY);
    // Half a recording would be worse than none.
    assert_eq!(names_in(&kept), ["log.jsonl", "run.json"]);
    let report = report_of(&kept);
    assert!(report["recording"].is_null(), "{report:#}");
    assert_eq!(number(&report, "/run/launches"), 10_000);
}

/// Where the file system is short, the log is what is given up, and the report says so; the program's share stays.
#[test]
fn the_log_stops_where_the_file_system_is_short() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for (size, records) in [("20m", "1MiB"), ("6m", "off")] {
        let script = "head -c \"$FILLED\" /dev/zero > \"$0/filler\"; exec \"$1\"";
        let bash = Path::new("bash");
        let Some((run, disk, kept)) = on_a_small_disk(&work, size, bash) else { return };
        let filled = if size == "20m" { "18500k" } else { "100k" };
        let run = run.args(["-c", script]).args([&disk, &hostile_program("out_without_end")]).set("FILLED", filled);
        let outcome = run.set("LAZYGUARD_RECORD", records).finish();
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "sum 1\n"), "{outcome}");
        assert!(!outcome.stderr.contains("log"), "{outcome}");
        let lines = Folder::at(&kept).log();
        let is_short = report_of(&kept).to_string().contains("the log has left out lines");
        assert_eq!((lines.is_empty(), is_short), (size == "20m", size == "20m"), "{size}: {outcome}");
        fs::remove_dir_all(&kept).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn on_a_disk_without_room_a_hang_is_diagnosed_all_the_same() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let app = App::named("persistent_one_time");
    let Some((run, ..)) = on_a_small_disk(&work, "512k", &app.path()) else { return };
    let mut running = run.set("LAZYGUARD_PRELOAD", "off").hang_after("300ms").start();
    let told = |running: &mut Running| running.stderr().contains("details: ").then_some(());
    running.until("the verdict", Duration::from_secs(10), told);
    let said = running.stderr();
    assert!(said.contains("lazyguard: LG201 ("), "{said}");
    assert_eq!(said.lines().filter(|line| line.contains("memory")).count(), 1, "{said}");
}

/// The disk was full only for a while: what was kept in memory meanwhile is written when a hang is reported, and at the end.
#[test]
fn a_recording_in_memory_is_written_at_a_hang_and_at_the_end() {
    const SCRIPT: &str = "disk=$0 kept=$1; shift; mount -t tmpfs -o size=20m none \"$disk\" || exit 99; \
                          head -c 20000k /dev/zero > \"$disk/filler\"; \"$@\" & \
                          until [ -e \"$disk/out/log.jsonl\" ]; do sleep 0.05; done; sleep 0.2; rm \"$disk/filler\"; \
                          for i in $(seq 100); do [ -e \"$disk/out/trace.lgt\" ] && break; sleep 0.1; done; \
                          kill -9 $!; wait; cp -r \"$disk/out\" \"$kept\"";
    let work = Work::new(lazyguard_e2e::this_test!());
    for (name, threshold, state) in [("plain_spin", "800ms", "guarded"), ("slow_but_fine", "30s", "ended")] {
        let kept = work.path().join(format!("kept-{name}"));
        let Some((_, disk, _)) = on_a_small_disk(&work, "", Path::new("")) else { return };
        let run = Run::new(&work, "unshare").args(["-rm", "bash", "-c", SCRIPT]).args([&disk, &kept]);
        let run = run.args([App::named(name).path()]).guarded().set("LAZYGUARD_OUT", disk.join("out"));
        let outcome = run.hang_after(threshold).finish();
        assert!(outcome.stderr.contains("memory"), "it is not kept in memory: {outcome}");
        let recording = Recording::of(&kept);
        recording.expect_to_add_up();
        assert_eq!((recording.text("/state"), recording.is_alive()), (state, false), "{name}");
        assert_eq!(recording.number("/launches"), 1, "{name}");
        if state == "guarded" {
            // It is killed when it has been called slow.
            let blocked = recording.0["snapshot"]["streams"][0]["stream"].clone();
            expect_only_slow(&recording.0, "spin", number(&blocked, "/handle"));
        }
    }
}

/// With the signal as the system hands it out: bare, it ends the process only when that itself writes too much.
#[test]
fn a_limit_on_the_size_of_files_does_not_kill_the_program() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let program = hostile_program("out_many_launches");
    // The simulated driver writes code to a file of its own, of less than 64 KiB; the log and the recording are longer.
    for (kib, lines) in [("1024", &[&["recording", "1 MiB"][..]][..]), ("64", &IN_MEMORY)] {
        let script = format!("set -o pipefail; (ulimit -c 0; ulimit -f {kib}; exec \"$0\") | cat");
        let run = Run::new(&work, "bash").args(["-c", &script]).args([&program]).guarded().kept();
        let outcome = run.set("LAZYGUARD_LOG", "launch").finish();
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "sum 10000\n"), "{kib} KiB: {outcome}");
        expect_lines(&outcome, lines);
        assert_eq!(number(&outcome.out().summary(), "/launches"), 10_000);
    }
}
