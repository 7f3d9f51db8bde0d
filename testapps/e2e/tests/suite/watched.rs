//! A run that is watched from outside: `lazyguard health`, `lazyguard metrics`, `lazyguard run --metrics`, `lazyguard top`.

use crate::run_passes_on::{send, under};
use lazyguard_e2e::{command, root, skipped, Run, Running, Work, PATIENCE};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Makes driver calls until there is a file `hang`, then has a thread that waits for a value; writes that value when there is a file
/// `release`, and ends when there is a file `end`. The files lie in the folder that is its argument.
const PROGRAM: &str = "import ctypes, os, sys, threading, time\n\
    driver = ctypes.CDLL('libcuda.so.1')\n\
    context, stream, other, word = (ctypes.c_void_p() for _ in range(4))\n\
    assert driver.cuInit(0) == 0\n\
    assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0\n\
    assert driver.cuCtxSetCurrent(context) == 0\n\
    assert driver.cuMemAlloc_v2(ctypes.byref(word), ctypes.c_size_t(4)) == 0\n\
    assert driver.cuStreamCreate(ctypes.byref(stream), 1) == 0\n\
    assert driver.cuStreamCreate(ctypes.byref(other), 1) == 0\n\
    def until(name):\n\
    \x20   while not os.path.exists(os.path.join(sys.argv[1], name)):\n\
    \x20       assert driver.cuStreamSynchronize(other) == 0\n\
    \x20       time.sleep(0.02)\n\
    def hang():\n\
    \x20   assert driver.cuCtxSetCurrent(context) == 0\n\
    \x20   assert driver.cuStreamWaitValue32_v2(stream, word, 7, 1) == 0\n\
    \x20   assert driver.cuStreamSynchronize(stream) == 0\n\
    print('ready', flush=True)\n\
    until('hang')\n\
    thread = threading.Thread(target=hang)\n\
    thread.start()\n\
    until('release')\n\
    assert driver.cuStreamWriteValue32_v2(other, word, 7, 0) == 0\n\
    thread.join()\n\
    until('end')\n";

/// The exit code of a command about a folder, and what it prints.
fn asked(name: &str, folder: &Path) -> (Option<i32>, String) {
    let output = Command::new(command()).arg(name).arg(folder).output().unwrap_or_else(|error| panic!("{error}"));
    assert!(output.stderr.is_empty() || name != "health", "{}", String::from_utf8_lossy(&output.stderr));
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Waits until health has this exit code, and returns its line.
fn until(running: &mut Running, folder: &Path, code: i32) -> String {
    running.until(&format!("health {code}"), PATIENCE, |_| {
        let (found, line) = asked("health", folder);
        assert_eq!(line.lines().count(), 1, "{line}");
        (found == Some(code)).then_some(line)
    })
}

/// The value of a metric in a text, of the first process, whose further label is this one.
fn value(text: &str, name: &str, label: &str) -> Option<f64> {
    let mut lines = text.lines().filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with('{')));
    lines.find(|line| line.contains(label))?.rsplit(' ').next()?.parse().ok()
}

#[test]
fn health_and_metrics_follow_a_run_from_its_start_to_its_end() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let (out, file) = (work.path().join("out"), work.path().join("run.prom"));
    let there_is = |name: &str| fs::write(work.path().join(name), "").unwrap_or_else(|error| panic!("{error}"));
    let (code, line) = asked("health", &out);
    assert!(code == Some(1) && line.contains("there is no such folder"), "{line}");
    let (folder, metrics) = (out.to_string_lossy().into_owned(), file.to_string_lossy().into_owned());
    let arguments = work.path().to_string_lossy().into_owned();
    let options = ["--out", &folder, "--hang-after", "300ms", "--metrics", &metrics];
    let mut running = under(&work, &options, &["python3", "-c", PROGRAM, &arguments]).start();
    running.until("it is ready", PATIENCE, |r| r.stdout().contains("ready").then_some(()));
    assert_eq!(until(&mut running, &out, 0), "well: 1 process\n");
    there_is("hang");
    let line = until(&mut running, &out, 117);
    assert!(line.starts_with("hang: process ") && line.contains(" LG203 in cuStreamSynchronize for "), "{line}");
    let (code, text) = asked("metrics", &out);
    assert_eq!(code, Some(0));
    let process =
        text.split("process=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default().to_owned();
    assert_eq!(value(&text, "lazyguard_hang_info", "code=\"LG203\""), Some(1.0), "{text}");
    for metric in ["hang", "hang_seconds", "longest_call_seconds", "oldest_outstanding_seconds", "calls_total"] {
        let label = if metric.starts_with("oldest") { "stream_class=\"non-blocking\"" } else { "" };
        let name = format!("lazyguard_{metric}");
        assert!(value(&text, &name, label).is_some_and(|value| value > 0.2), "{name}: {text}");
    }
    // The call in progress counts.
    let blocked = |text: &str| value(text, "lazyguard_blocked_seconds_total", "cause=\"synchronize\"").unwrap_or(0.0);
    assert!(blocked(&text) > 0.2, "{text}");
    let read = || fs::read_to_string(&file).unwrap_or_default();
    running
        .until("the hang in the file", PATIENCE, |_| (value(&read(), "lazyguard_hang", "") == Some(1.0)).then_some(()));
    there_is("release");
    until(&mut running, &out, 0);
    send("STOP", &process);
    let line = until(&mut running, &out, 1);
    assert!(line.ends_with("is stopped, by a signal or a debugger\n"), "{line}");
    send("CONT", &process);
    until(&mut running, &out, 0);
    there_is("end");
    let outcome = running.finish_within(PATIENCE);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "ready\n"), "{outcome}");
    let (code, line) = asked("health", &out);
    assert!(code == Some(1) && line.ends_with(" ended\n"), "{line}");
    let (first, last) = (text, read());
    assert_eq!(value(&last, "lazyguard_process_state", "state=\"ended\""), Some(1.0), "{last}");
    assert_eq!((value(&last, "lazyguard_hang", ""), value(&last, "lazyguard_slow", "")), (Some(0.0), Some(0.0)));
    for name in ["lazyguard_calls_total", "lazyguard_blocked_seconds_total"] {
        let of = |text: &str| value(text, name, "").unwrap_or(0.0);
        assert!(of(&last) > of(&first), "{name}: {first}\n{last}");
    }
    let check = Command::new("python3").arg(root().join("scripts/check-schema")).arg(&file).output();
    let check = check.unwrap_or_else(|error| panic!("check-schema: {error}"));
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stdout));
}

#[test]
fn top_is_a_table_and_at_a_terminal_a_live_one() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let out = work.path().join("out");
    fs::write(work.path().join("hang"), "").unwrap_or_else(|error| panic!("{error}"));
    let (folder, arguments) = (out.to_string_lossy().into_owned(), work.path().to_string_lossy().into_owned());
    let options = ["--out", &folder, "--hang-after", "300ms"];
    let mut running = under(&work, &options, &["python3", "-c", PROGRAM, &arguments]).start();
    until(&mut running, &out, 117);
    let top = format!("{} top --interval 200ms {folder}", command().display());
    let table = Run::new(&work, command()).args(["top", &folder]).finish();
    assert_eq!((table.code, table.stderr.as_str()), (Some(0), ""), "{table}");
    let lines: Vec<_> = table.stdout.lines().collect();
    assert!(lines[0].starts_with("lazyguard top: 1 process, 1 hang, ") && lines[1].starts_with("RANK  "), "{table}");
    assert!(lines[2].contains("HANG LG203") && lines[2].contains("cuStreamWaitValue32_v2 on stream"), "{table}");
    assert!(
        lines[4].starts_with("  HANG LG203: ") && table.stdout.contains("): cuStreamSynchronize on stream"),
        "{table}"
    );
    let twice = Run::new(&work, "sh").args(["-c", &format!("{top} | grep -m 2 '^lazyguard top: 1 process'")]).finish();
    assert_eq!((twice.stdout.lines().count(), twice.stderr.as_str()), (2, ""), "{twice}");
    let player = root().join("testapps/e2e/tests/suite/run_terminal.py");
    let player =
        Run::new(&work, "python3").args([player.as_os_str()]).args(["a_live_table_gives_the_terminal_back", &top]);
    let outcome = player.args([work.path()]).finish();
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "as expected\n"), "{outcome}");
}

#[test]
fn top_says_what_is_not_there_and_looks_again() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let folder = work.path().join("later").display().to_string();
    let once = Run::new(&work, command()).args(["top", &folder]).finish();
    let line = format!("lazyguard: {folder}: there is no such folder, and it is no number of a process");
    assert_eq!((once.code, &once.stderr), (Some(1), &format!("{line}\n")), "{once}");
    // It may be started before the run: once the folder has come, the program's table does, and the line came once.
    let top = format!("{} top --interval 200ms {folder}", command().display());
    let run =
        format!("{} run --out {folder} -- {}", command().display(), lazyguard_e2e::app("route_direct_link").display());
    let script = format!("{{ sleep 1; {run} >/dev/null 2>&1; }} & {top} | grep -m 1 '^lazyguard top: 1 process'");
    let outcome = Run::new(&work, "bash").args(["-c", &script]).finish();
    assert_eq!(outcome.stderr, format!("{line}; top looks again every 200ms\n"), "{outcome}");
    assert!(outcome.stdout.starts_with("lazyguard top: 1 process"), "{outcome}");
}

#[test]
fn of_two_ranks_the_one_that_hangs_is_named() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let out = work.path().join("out");
    let rank = |number: u8, name: &str| {
        let folder = work.folder(&number.to_string());
        fs::write(folder.join(name), "").unwrap_or_else(|error| panic!("{error}"));
        folder.to_string_lossy().into_owned()
    };
    let (well, stuck) = (rank(0, "nothing"), rank(1, "hang"));
    let script = "RANK=0 python3 -c \"$0\" \"$1\" & echo $!; RANK=1 python3 -c \"$0\" \"$2\" & echo $!; wait";
    let folder = out.to_string_lossy().into_owned();
    let options = ["--out", &folder, "--hang-after", "300ms"];
    let mut running = under(&work, &options, &["sh", "-c", script, PROGRAM, &well, &stuck]).start();
    let ready = |r: &Running| r.stdout().matches("ready").count() == 2;
    running.until("both are ready", PATIENCE, |r| ready(r).then_some(()));
    let line = until(&mut running, &out, 117);
    assert!(line.starts_with("hang: rank 1, process "), "{line}");
    let (_, text) = asked("metrics", &out);
    let hangs = |rank: &str| value(&text, "lazyguard_hang", &format!("rank=\"{rank}\""));
    assert_eq!((hangs("0"), hangs("1")), (Some(0.0), Some(1.0)), "{text}");
    let processes: Vec<_> = running.stdout().lines().filter(|line| *line != "ready").map(str::to_owned).collect();
    // In another container the processes have other ids, and are there by their heartbeats.
    let elsewhere = ["--pid", "--fork", "--mount-proc"];
    let asked_elsewhere = || {
        let unshare = Command::new("unshare").args(elsewhere).arg(command()).arg("health").arg(&out).output();
        unshare.ok().filter(|output| output.stdout.ends_with(b"\n"))
    };
    match asked_elsewhere() {
        Some(output) => {
            let line = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.code() == Some(117) && line.starts_with("hang: rank 1, process "), "{line}");
        }
        None => skipped("a namespace of process ids needs root, and unshare"),
    }
    send("KILL", &processes[1]);
    let line = until(&mut running, &out, 0);
    assert_eq!(line, "well: 1 process; 1 was killed or ended without an exit\n");
    // The frozen rank is not taken for one that is well.
    send("STOP", &processes[0]);
    until(&mut running, &out, 1);
}
