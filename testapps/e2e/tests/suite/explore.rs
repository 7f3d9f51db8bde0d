//! `lazyguard explore`: finds the order of calls that hangs a program which passes, and no such order of one that passes in any.
//!
//! The programs are the shapes of `testapps/races`; those of `reported.cpp` were written without a look at the explorer. With
//! `LAZYGUARD_TEST_LONG` each is tried by three seeds, and its safe twin in 300 runs.

use crate::run_passes_on::under;
use lazyguard_e2e::{command, hostile_program, log_of, number, root, target, text, Json, Outcome, Run, Work, PATIENCE};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// A run takes a third of a second, and one that hangs two; of three ranks on a busy machine, ten times that.
const LONG: Duration = Duration::from_secs(3600);

fn is_long() -> bool {
    std::env::var_os("LAZYGUARD_TEST_LONG").is_some_and(|value| !value.is_empty())
}

/// Tried by `LAZYGUARD_TEST_LONG` alone: three ranks, each tried for a minute and more.
const TAKE_LONG: [&str; 1] = ["ring_and_reduce"];

fn races() -> PathBuf {
    target().join("races/races")
}

fn explored_of(work: &Work, program: PathBuf, options: &[&str], arguments: &[&str]) -> Outcome {
    // By the default threshold, a proof takes half a minute.
    let run = Run::new(work, command())
        .set("LAZYGUARD_HANG_AFTER", "3s")
        .args(["explore"])
        .args(options)
        .args(["--"])
        .args([program])
        .args(arguments);
    run.start().finish_within(LONG)
}

fn explored(work: &Work, options: &[&str], arguments: &[&str]) -> Outcome {
    explored_of(work, races(), options, arguments)
}

/// The codes of a shape's hang, as its source has them.
fn codes_of([program, shape]: [&str; 2]) -> Vec<String> {
    let source = root().join(format!("testapps/races/{program}.cpp"));
    let text = fs::read_to_string(source).unwrap_or_else(|error| panic!("{error}"));
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("// shape: {shape} ")));
    let words = line.unwrap_or_else(|| panic!("{program}.cpp says no code of {shape}")).split(' ');
    words.filter(|word| word.starts_with("LG")).map(str::to_owned).collect()
}

/// The shape passes, and is found to hang with one of its codes; in the long form by every seed.
fn is_found(test: &str, [program, shape]: [&str; 2], late: &str) {
    if TAKE_LONG.contains(&shape) && !is_long() {
        return;
    }
    let codes = codes_of([program, shape]);
    let (work, program) = (Work::new(test), target().join("races").join(program));
    for _ in 0..if is_long() { 100 } else { 1 } {
        let plain = Run::new(&work, &program).args([shape]).finish();
        assert_eq!((plain.code, plain.stderr.as_str()), (Some(0), ""), "{plain}");
    }
    for seed in if is_long() { &["1", "2", "3"][..] } else { &["1"] } {
        let replays = if is_long() { "10" } else { "1" };
        let options = ["--runs", "30", "--seed", seed, "--replays", replays];
        let found = explored_of(&work, program.clone(), &options, &[shape]);
        assert_eq!(found.code, Some(117), "{shape} by seed {seed}: {found}");
        let first = found.stderr.lines().find(|line| line.contains("hangs when ")).unwrap_or_default();
        assert!(codes.iter().any(|code| first.ends_with(&format!(": {code}"))), "{first}\n{found}");
        assert!(first.contains(late), "{late}: {first}\n{found}");
        let replayed = found.stderr.split(&format!(" of {replays} replays hung")).next().unwrap_or_default();
        let hung: u64 = replayed.rsplit("; ").next().and_then(|count| count.parse().ok()).unwrap_or(0);
        if ["two_communicators", "ring_and_reduce"].contains(&shape) {
            let order = found.stderr.lines().find(|line| line.starts_with("lazyguard: order|-|nccl"));
            assert!(order.is_some_and(|line| line.ends_with(": provoked")), "{found}");
            assert!(found.stderr.contains("found in run 1 "), "aimed at first: {found}");
        }
        assert!(hung * 10 >= 9 * replays.parse::<u64>().unwrap_or(1), "{found}");
    }
}

fn is_safe(test: &str, [program, shape]: [&str; 2]) {
    let (work, program) = (Work::new(test), target().join("races").join(program));
    let runs = if is_long() { "300" } else { "8" };
    let options = ["--runs", runs, "--seed", "1", "--within", "1h"];
    let outcome = explored_of(&work, program, &options, &[shape, "safe"]);
    assert_eq!(outcome.code, Some(0), "{shape}: {outcome}");
    assert!(outcome.stderr.contains(&format!("no hang in {runs} runs with seed 1")), "{outcome}");
    assert!(!outcome.stderr.contains("order|"), "collectives on streams of their own: {outcome}");
    assert_eq!(outcome.left_behind(), Vec::<String>::new(), "{outcome}");
}

#[test]
fn a_rank_that_waits_for_a_held_one_is_no_hang_however_long_the_program_takes() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let options = ["--runs", "3", "--seed", "3", "--hang-after", "300ms"];
    let script = "sleep 1.5; exec \"$0\" two_communicators safe";
    let outcome = explored_of(&work, "sh".into(), &options, &["-c", script, races().to_str().unwrap()]);
    assert!(outcome.code == Some(0) && outcome.stderr.contains("no hang in 3 runs"), "{outcome}");
}

macro_rules! races {
    ($($program:ident { $($shape:ident hangs when $late:expr;)+ })+) => {
        mod finds {
            $($(#[test]
            fn $shape() {
                let shape = [stringify!($program), stringify!($shape)];
                super::is_found(lazyguard_e2e::this_test!(), shape, $late);
            })+)+
        }

        mod leaves_alone {
            $($(#[test]
            fn $shape() {
                super::is_safe(lazyguard_e2e::this_test!(), [stringify!($program), stringify!($shape)]);
            })+)+
        }
    };
}

races! {
    races {
        release hangs when "thread worker's cuMemFree comes after thread main's";
        load hangs when "thread worker's cuModuleLoadData comes after thread main's";
        first_use hangs when "thread worker's cuLaunchKernel comes after thread main's";
        event hangs when "thread worker's cuEventSynchronize comes after thread main's";
        host_function hangs when "thread worker's cuLaunchHostFunc comes after thread main's";
        default_stream hangs when "thread worker's cuMemcpyHtoD comes after thread main's";
        one_stream hangs when "thread worker's cuStreamWriteValue32 comes after thread main's";
        graph hangs when "thread worker's cuGraphLaunch comes after thread main's";
        synchronize hangs when "thread worker's cuCtxSynchronize comes after thread main's";
        lock hangs when "thread worker's cuEventRecord comes after thread main's";
        two_communicators hangs when "in rank ";
        rank_loads hangs when "in rank 2 thread worker's cuModuleLoadData comes after thread main's";
    }
    reported {
        event_again hangs when "thread worker's cuStreamWaitEvent comes after thread main's";
        callback_lock hangs when "thread worker's cuLaunchHostFunc comes after thread main's";
        unload hangs when "thread worker's cuModuleUnload comes after thread main's";
        graph_host_node hangs when "thread worker's cuMemFreeHost comes after thread main's cuGraphLaunch";
        cold_producer hangs when "thread worker's cuLaunchKernel comes after thread main's";
        ring_and_reduce hangs when "in rank ";
    }
}

#[test]
fn the_reports_say_what_was_provoked_and_the_schedule_is_replayed() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let file = |name: &str| work.path().join(name).display().to_string();
    let (json, junit, sarif, html) = (file("f.json"), file("f.xml"), file("f.sarif"), file("f.html"));
    let out = file("the runs");
    let forms = ["--json", &json, "--junit", &junit, "--sarif", &sarif, "--html", &html, "--out", &out];
    let found = explored(&work, &[&forms[..], &["--seed", "4", "--replays", "1"]].concat(), &["load"]);
    assert_eq!(found.code, Some(117), "{found}");
    // On a busy machine the main thread's next call is the first that suffices.
    let begins = "lazyguard: hangs when thread worker's cuModuleLoadData comes after thread main's cu";
    let sentence = found.stderr.lines().find(|line| line.starts_with(begins) && line.ends_with(": LG202"));
    let sentence = sentence.and_then(|line| line.strip_prefix("lazyguard: ")).unwrap_or_else(|| panic!("{found}"));
    let hazard = "LG102|-|cuModuleLoadData|none";
    assert!(found.stderr.contains(&format!("lazyguard: {hazard}: provoked\n")), "{found}");
    let read: Json = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    assert_eq!(text(&read, "/explored/sentence"), sentence);
    assert_eq!(
        (text(&read, "/explored/hazards/0/key"), text(&read, "/explored/hazards/0/explored")),
        (hazard, "provoked")
    );
    assert_eq!((&read["run"]["exit_code"], text(&read, "/processes/0/status")), (&117.into(), "hang"));
    for form in [&junit, &sarif, &html] {
        let text = fs::read_to_string(form).unwrap().replace("&apos;", "'").replace("&#39;", "'");
        assert!(text.contains(sentence), "{form}: {text}");
    }
    let again = found.stderr.lines().find_map(|line| line.strip_prefix("lazyguard: again: lazyguard ")).unwrap();
    let again = format!("'{}' {again}", command().display());
    // It has the default threshold, and ends no hang.
    let limited = format!("{again} safe").replace(" run ", " run --on-hang kill --hang-after 500ms ");
    let safe = Run::new(&work, "sh").args(["-c", &limited]).finish();
    assert_eq!((safe.code, safe.stdout.as_str()), (Some(0), "passed\n"), "{safe}");
    let schedule = text(&read, "/explored/schedule").to_owned();
    let options = ["--preload", "off", "--schedule", &schedule, "--on-hang", "kill", "--hang-after", "500ms"];
    let program = races().display().to_string();
    let again = under(&work, &options, &[&program, "load"]).start().finish_within(PATIENCE);
    assert_eq!(again.code, Some(117), "{again}");
    let safe = under(&work, &options, &[&program, "load", "safe"]).start().finish_within(PATIENCE);
    assert_eq!((safe.code, safe.stdout.as_str()), (Some(0), "passed\n"), "{safe}");
    let none = explored(&work, &["--runs", "0", "--out", &out], &["load", "safe"]);
    assert!(none.code == Some(0) && !work.path().join("the runs/schedule").exists(), "of the search before: {none}");
}

#[test]
fn a_program_that_fails_by_itself_keeps_its_exit_code() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let failed = explored(&work, &[], &["no-such-shape"]);
    assert_eq!(failed.code, Some(2), "{failed}");
    assert!(failed.stderr.contains("the first run, in which no thread is held, ended with exit code 2"), "{failed}");
    let first = "the first run, in which no thread is held,";
    for (options, program, code, line) in [
        (vec![], vec!["/no/such/program"], 127, format!("{first} did not start: cannot run /no/such/program: ")),
        (vec![], vec!["/etc/passwd"], 126, format!("{first} did not start: cannot run /etc/passwd: ")),
        (vec![], vec!["sh", "-c", "exit 117"], 125, format!("{first} ended with exit code 117\n")),
        (vec![], vec!["sh", "-c", "exit 125"], 125, format!("{first} ended with exit code 125\n")),
        (
            vec![],
            vec!["sh", "-c", "echo a; echo why; exit 3"],
            3,
            format!("{first} ended with exit code 3; its last line: why\n"),
        ),
        (vec!["--timeout", "1s"], vec!["sleep", "60"], 124, format!("{first} was ended after the time of --timeout")),
        (vec!["--suppress", "/no/such/file"], vec!["true"], 125, "suppressions /no/such/file: ".to_owned()),
        (vec!["--json", "/dev/stdout"], vec!["true"], 125, "--json /dev/stdout: explore writes regular".to_owned()),
        (vec!["--html", "/"], vec!["true"], 125, "--html /: explore writes regular files alone\n".to_owned()),
        (vec!["--preload", "no"], vec!["true"], 125, "--preload \"no\" is not usable".to_owned()),
    ] {
        let words = [&["explore"], &options[..], &["--"], &program[..]].concat();
        let outcome = Run::new(&work, command()).args(words).finish();
        assert!(outcome.code == Some(code) && outcome.stderr.starts_with(&format!("lazyguard: {line}")), "{outcome}");
        assert_eq!((outcome.stderr.lines().count(), outcome.left_behind()), (1, vec![]), "{outcome}");
    }
}

/// Its report says so by the time it is read, and no hang is left to be explored.
#[test]
fn a_first_run_that_is_ended_for_a_hang_which_then_goes_is_told_from_a_failure() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let program = "import ctypes, os, signal, threading, time\n\
        driver = ctypes.CDLL('libcuda.so.1')\n\
        context, stream, word = (ctypes.c_void_p() for _ in range(3))\n\
        driver.cuInit(0)\n\
        driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)\n\
        driver.cuCtxSetCurrent(context)\n\
        driver.cuMemAlloc_v2(ctypes.byref(word), ctypes.c_size_t(4))\n\
        driver.cuStreamCreate(ctypes.byref(stream), 1)\n\
        def goes(*_):\n\
        \x20   driver.cuMemcpyHtoD_v2(word, ctypes.byref(ctypes.c_int(7)), ctypes.c_size_t(4))\n\
        \x20   time.sleep(3)\n\
        \x20   os._exit(0)\n\
        signal.signal(signal.SIGTERM, goes)\n\
        def hang():\n\
        \x20   driver.cuCtxSetCurrent(context)\n\
        \x20   driver.cuStreamWaitValue32_v2(stream, word, 7, 1)\n\
        \x20   driver.cuStreamSynchronize(stream)\n\
        threading.Thread(target=hang).start()\n\
        while True: time.sleep(0.05)\n";
    let outcome = explored_of(&work, "python3".into(), &["--hang-after", "300ms"], &["-c", program]);
    assert!(outcome.stderr.contains("was ended for a hang that was over when its report was read"), "{outcome}");
    assert_eq!((outcome.code, outcome.left_behind()), (Some(117), vec![]), "{outcome}");
    assert!(!outcome.stderr.contains("is kept"), "{outcome}");
}

#[test]
fn an_exit_code_of_the_program_is_no_result_of_a_run() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let explored = |options: &[&str], script: &str| explored_of(&work, "sh".into(), options, &["-c", script]);
    for (own, code) in [(125, 125), (117, 125), (118, 118)] {
        let failed = explored(&[], &format!("echo hello; exit {own}"));
        let said = format!("the first run, in which no thread is held, ended with exit code {own}");
        assert!(failed.code == Some(code) && failed.stderr.contains(&said), "{failed}");
        assert!(!failed.stderr.contains("lazyguard: hello"), "{failed}");
    }
    let (count, races) = (work.path().join("count").display().to_string(), races().display().to_string());
    let script = format!("echo >>{count}; '{races}' release safe; [ $(wc -l <{count}) != 2 ] || exit 125");
    let json = work.path().join("f.json");
    let later = explored(&["--runs", "2", "--seed", "1", "--json", json.to_str().unwrap()], &script);
    assert_eq!(later.code, Some(0), "{later}");
    let line = "1 of 2 runs ended otherwise than the first one: 1 ended with exit code 125\n";
    assert!(later.stderr.contains(line), "{later}");
    let read: Json = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    let ended = serde_json::json!([{"how": "ended with exit code 125", "runs": 1}]);
    assert_eq!(read["explored"]["otherwise"], ended);
    assert!(
        later.stderr.contains("run 1 ended with exit code 125; its last line: passed (run-1.output in "),
        "{later}"
    );
    let no_run = explored(&["--preload", "no-policy"], "exit 0");
    assert!(no_run.code == Some(125) && no_run.stderr.contains("no-policy"), "{no_run}");
}

#[test]
fn a_program_that_hangs_by_itself_is_reported_within_its_threshold() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let program = lazyguard_e2e::corpus_program("free");
    let hung = explored_of(&work, program, &["--hang-after", "300ms"], &[]);
    assert_eq!(hung.code, Some(117), "{hung}");
    assert!(hung.stderr.contains("hangs without any thread held"), "{hung}");
    assert!(hung.stderr.contains("; 1 of 1 replays hung\n"), "{hung}");
    assert!(hung.seconds < 20.0, "three runs of a second each: {hung}");
}

#[test]
fn a_private_folder_of_an_earlier_process_with_its_number_is_left_alone() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let script = "mkdir $TMPDIR/lazyguard-explore-$$ && exec \"$0\" explore --runs 0 true";
    let outcome = Run::new(&work, "sh").args(["-c", script]).args([command()]).finish();
    assert_eq!((outcome.code, outcome.left_behind().len()), (Some(0), 1), "{outcome}");
}

#[test]
fn a_daemon_of_an_explored_run_ends_with_it() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let (pids, program) = (work.path().join("pids"), hostile_program("plain_job"));
    let script = format!("setsid sleep 300 & echo $! >> '{}'; '{}'", pids.display(), program.display());
    let options = ["explore", "--runs", "2", "--within", "20s", "--", "sh", "-c", &script];
    let outcome = Run::new(&work, command()).args(options).finish();
    let daemons = fs::read_to_string(&pids).unwrap_or_default();
    assert!(daemons.lines().count() >= 1, "{outcome}");
    for daemon in daemons.lines() {
        let left = fs::read_to_string(format!("/proc/{daemon}/cmdline")).unwrap_or_default();
        assert!(!left.contains("300"), "{daemon}: {outcome}");
    }
}

/// Another user may have planted it.
#[test]
fn a_link_in_the_folder_for_the_runs_is_not_written_through() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for name in ["run-0.output", "run-0"] {
        let (out, victim) = (work.folder(&format!("out-{name}")), work.folder(&format!("victim-{name}")));
        let precious = victim.join("file");
        fs::write(&precious, "precious").unwrap_or_else(|error| panic!("{error}"));
        let behind = if name == "run-0" { &victim } else { &precious };
        std::os::unix::fs::symlink(behind, out.join(name)).unwrap_or_else(|error| panic!("{error}"));
        let options = ["explore", "--runs", "1", "--within", "3s", "--out", &out.to_string_lossy(), "--", "true"];
        let outcome = Run::new(&work, command()).args(options).finish();
        assert!(outcome.code == Some(125) && outcome.stderr.contains("symbolic link"), "{outcome}");
        assert_eq!(fs::read_to_string(&precious).unwrap_or_default(), "precious");
        assert_eq!(fs::read_dir(&victim).into_iter().flatten().count(), 1, "{name}");
    }
}

#[test]
fn a_schedule_that_no_explore_can_have_written_is_not_read() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let schedule = work.path().join("schedule");
    fs::write(&schedule, "# a comment\n".repeat(100_000)).unwrap_or_else(|error| panic!("{error}"));
    let run = Run::new(&work, hostile_program("plain_job")).guarded().set("LAZYGUARD_SCHEDULE", &schedule);
    let outcome = run.finish();
    assert!(
        outcome.code == Some(0) && outcome.stderr.contains("it is larger than 1 MiB; no thread is held"),
        "{outcome}"
    );
    // A run without its holds would seem to pass.
    let call = "cuMemFree@218%loader#1";
    for damaged in [
        String::new(),
        "\0".repeat(100),
        "budget -5\n".to_owned(),
        format!("budget 9\nhold * 7 {call}"),
        format!("budget 9\nhold * 7x {call}\n"),
        "budget 9\nhold * 7 cuMemFree\n".to_owned(),
        "{\"schema\": 1}\nbudget 9\n".to_owned(),
    ] {
        fs::write(&schedule, &damaged).unwrap_or_else(|error| panic!("{error}"));
        let run = Run::new(&work, hostile_program("plain_job")).guarded().set("LAZYGUARD_SCHEDULE", &schedule);
        let outcome = run.finish();
        let said = "it is no schedule of lazyguard explore, or was cut off";
        let line = format!("cannot be read: {said}; no thread is held\n");
        assert!(outcome.code == Some(0) && outcome.stderr.ends_with(&line), "{damaged:?}: {outcome}");
        let refused = under(&work, &["--schedule", &schedule.to_string_lossy()], &[hostile_program("plain_job")]);
        let refused = refused.finish();
        assert!(refused.code == Some(125) && refused.stdout.is_empty(), "{damaged:?}: {refused}");
        assert!(refused.stderr.ends_with(&format!(": {said}\n")), "{damaged:?}: {refused}");
    }
}

/// A shell that counts its runs in a file: in those of these numbers it hangs, in the others it is a shape of the races.
fn hangs_by_chance(work: &Work, in_runs: &str, shape: &[&str], options: &[&str]) -> Outcome {
    let (count, program) = (work.path().join("count"), lazyguard_e2e::corpus_program("free"));
    let script = format!(
        "n=$(cat '{0}' 2>/dev/null || echo 0); echo $((n + 1)) >'{0}'; \
         case $n in {in_runs}) exec '{1}' ;; *) exec '{2}' {3} ;; esac",
        count.display(),
        program.display(),
        races().display(),
        shape.join(" ")
    );
    let options = [&["--seed", "1", "--hang-after", "500ms"][..], options].concat();
    explored_of(work, "sh".into(), &options, &["-c", &script])
}

fn not_counted(outcome: &Outcome, run: u32, replays: u32) {
    let line = format!(
        "lazyguard: hung in run {run} (LG204) and in 0 of {replays} replays: not counted: cuMemFree_v2 cannot return"
    );
    assert!(outcome.stderr.lines().any(|said| said.starts_with(&line)), "{line}: {outcome}");
}

#[test]
fn a_hang_that_the_first_run_alone_has_is_not_counted() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let outcome = hangs_by_chance(&work, "0", &["release", "safe"], &["--runs", "3"]);
    assert_eq!(outcome.code, Some(0), "{outcome}");
    not_counted(&outcome, 0, 2);
    assert!(
        outcome.stderr.contains("no hang in 3 runs with seed 1") && !outcome.stderr.contains("hangs "),
        "{outcome}"
    );
}

#[test]
fn a_hang_that_no_replay_has_is_not_counted_and_the_search_goes_on() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let outcome = hangs_by_chance(&work, "2", &["release", "safe"], &["--runs", "4"]);
    assert_eq!(outcome.code, Some(0), "{outcome}");
    not_counted(&outcome, 2, 10);
    assert!(
        outcome.stderr.contains("no hang in 4 runs with seed 1") && !outcome.stderr.contains("hangs "),
        "{outcome}"
    );
}

/// In the run of the search and in the replays, the program passes by itself after five seconds: behind twice the bare run, and before the
/// threshold of `lazyguard run`.
#[test]
fn a_program_that_goes_on_by_itself_behind_the_threshold_is_no_hang() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let (count, program) = (work.path().join("count"), lazyguard_e2e::corpus_program("free"));
    let script = format!(
        "n=$(cat '{0}' 2>/dev/null || echo 0); echo $((n + 1)) >'{0}'; \
         case $n in 1|3|4) timeout 5 '{1}'; exit 0 ;; *) exec '{2}' release safe ;; esac",
        count.display(),
        program.display(),
        races().display()
    );
    let run = Run::new(&work, command())
        .set("LAZYGUARD_HANG_AFTER", "7s")
        .args(["explore", "--seed", "1", "--runs", "1", "--"]);
    let outcome = run.args(["sh", "-c", &script]).start().finish_within(LONG);
    assert_eq!(outcome.code, Some(0), "{outcome}");
    let line =
        "lazyguard: hung in run 1 (LG204) and in 0 of 1 replays: not counted: it went on by itself, and ended after ";
    let seconds = outcome.stderr.split_once(line).and_then(|(_, after)| after.split(' ').next()?.parse::<f64>().ok());
    assert!(seconds.is_some_and(|seconds| (5.0..7.0).contains(&seconds)), "{outcome}");
    assert!(outcome.stderr.contains("no hang in 1 run with seed 1"), "{outcome}");
}

/// On a busy device the runs without a hold hang, by which the schedule is made small.
#[test]
fn a_schedule_that_hangs_counts_though_a_smaller_one_has_hung_by_chance() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let outcome = hangs_by_chance(&work, "2|3", &["load"], &["--runs", "30", "--replays", "1"]);
    assert_eq!(outcome.code, Some(117), "{outcome}");
    let first = outcome.stderr.lines().find(|line| line.starts_with("lazyguard: hangs when ")).unwrap_or_default();
    assert!(first.ends_with(": LG202"), "{outcome}");
    assert!(outcome.stderr.contains("found in run 1 with seed 1; 1 of 1 replays hung\n"), "{outcome}");
}

/// It writes the reports.
#[test]
fn a_last_run_that_hangs_is_made_again() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let junit = work.path().join("f.xml");
    let options = ["--runs", "0", "--junit", &junit.display().to_string()];
    let failures = || fs::read_to_string(&junit).unwrap().matches("<failure").count();
    let said = "lazyguard: the last run, with no thread held, hung (LG204): cuMemFree_v2 cannot return";
    let chance = hangs_by_chance(&work, "1", &["release", "safe"], &options);
    assert_eq!((chance.code, chance.stderr.matches(said).count(), failures()), (Some(0), 1, 0), "{chance}");
    assert!(chance.stderr.contains("no hang in 0 runs with seed 1"), "{chance}");
    fs::remove_file(work.path().join("count")).unwrap();
    let each = hangs_by_chance(&work, "[1-9]", &["release", "safe"], &options);
    assert_eq!((each.code, each.stderr.matches(said).count()), (Some(117), 3), "{each}");
    assert!(failures() > 0 && !each.stderr.contains("no hang"), "{each}");
}

#[test]
fn a_hang_behind_one_that_is_not_counted_is_the_result() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let outcome = hangs_by_chance(&work, "0", &["load"], &["--runs", "30", "--replays", "1"]);
    assert_eq!(outcome.code, Some(117), "{outcome}");
    not_counted(&outcome, 0, 2);
    assert!(
        outcome.stderr.contains("hangs when thread worker's cuModuleLoadData comes after thread main's"),
        "{outcome}"
    );
    assert!(outcome.stderr.contains("; 1 of 1 replays hung\n"), "{outcome}");
}

#[test]
fn a_signal_ends_it_along_with_its_program() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let program = lazyguard_e2e::corpus_program("free");
    let run = Run::new(&work, "timeout").args(["--foreground", "--preserve-status", "2"]).args([command()]);
    let orphan = work.path().join("orphan");
    let script = format!("sleep 300 & echo $! >'{}'; exec '{}'", orphan.display(), program.display());
    let ended = run
        .args(["explore", "--hang-after", "1h", "--", "sh", "-c", &script])
        .start()
        .finish_within(Duration::from_secs(20));
    assert_eq!(ended.code, Some(128 + libc::SIGTERM), "{ended}");
    assert_eq!(ended.stderr, "lazyguard: ended by a signal\n", "{ended}");
    let orphan = fs::read_to_string(orphan).unwrap();
    let state = fs::read_to_string(format!("/proc/{}/stat", orphan.trim())).unwrap_or_default();
    assert!(state.is_empty() || state.contains(") Z "), "{state}");
    assert_eq!(ended.left_behind(), Vec::<String>::new(), "{ended}");
}

/// The judgement goes by the order in which operations came to the driver.
#[test]
fn a_launch_that_is_held_is_entered_behind_its_hold() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let schedule = work.path().join("schedule");
    let run = |text: &str| {
        fs::write(&schedule, text).unwrap();
        let run = Run::new(&work, races()).args(["first_use", "safe"]).guarded().kept();
        let outcome = run.set("LAZYGUARD_SCHEDULE", &schedule).finish();
        assert_eq!(outcome.code, Some(0), "{outcome}");
        let points = fs::read_to_string(outcome.out().path().join("points")).unwrap_or_default();
        let point = points.lines().find(|line| line.contains("cuLaunchKernel@") && line.contains("%worker#1"));
        let words: Vec<_> = point.unwrap_or_else(|| panic!("{points}")).split(' ').map(str::to_owned).collect();
        (outcome, words)
    };
    let (_, bare) = run("budget 0\n");
    let (held, point) = run(&format!("budget 400000000\nhold * 400000000 {}\n", bare[2]));
    assert!(point[3].parse::<u64>().unwrap() >= 400_000_000, "{point:?}");
    let launches = log_of(held.out().path(), &["--event", "launch"]);
    let took: Vec<_> = launches.iter().map(|launch| number(launch, "/took_ns")).collect();
    assert!(took.len() == 2 && took.iter().all(|took| *took < 300_000_000), "{took:?}");
}

#[test]
fn a_thread_that_is_held_is_no_hang_and_the_program_is_as_without() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let schedule = work.path().join("schedule");
    let points = |outcome: &Outcome| fs::read_to_string(outcome.out().path().join("points")).unwrap_or_default();
    let run = |text: &str| {
        fs::write(&schedule, text).unwrap();
        let run = Run::new(&work, races()).args(["release", "safe"]).guarded().kept().hang_after("600ms");
        let outcome = run.set("LAZYGUARD_SCHEDULE", &schedule).finish();
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "passed\n"), "{outcome}");
        outcome
    };
    let bare = run("budget 0\n");
    let all = points(&bare);
    let call = |function: &str| all.split_whitespace().find(|word| word.starts_with(function)).unwrap_or_default();
    let free = call("cuMemFree@");
    assert!(free.contains("%worker#1"), "{all}");
    // The main thread waits at the end for the held one, in no call; and in the safe form, the stream for the word that came before.
    let held = run(&format!("budget 2500000000\nhold * 2500000000 {free} cuNothing@000%none#1\n"));
    assert_eq!(held.stderr, "", "{held}");
    let waited = |outcome: &Outcome| {
        let all = points(outcome);
        let line = all.lines().find(|line| line.contains(free)).unwrap_or_default();
        assert!(line.ends_with(" over"), "{all}");
        line.split(' ').nth(3).and_then(|nanos| nanos.parse::<u64>().ok()).unwrap_or_else(|| panic!("{all}"))
    };
    assert!(waited(&held) >= 2_500_000_000 && held.seconds > 2.5, "{held}");
    let bounded = run(&format!("budget 50000000\nhold * 2500000000 {free}\n"));
    assert!(waited(&bounded) < 1_500_000_000, "the budget bounds what a hold may take: {bounded}");
    let other_rank = run(&format!("budget 900000000\nhold 7 900000000 {free}\n"));
    assert!(!points(&other_rank).contains(" over\n"), "{}", points(&other_rank));
}
