//! `LAZYGUARD_ON_HANG`: the program ends as the setting says, or continues beside a command that it does not notice.

use lazyguard_e2e::{corpus_program, number, read_by_script, run, text, App, Folder, Recording, Run, Running, Work};
use std::fs;
use std::path::Path;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// A session, and `hang`, which never returns unless another thread of the process lets it.
const SESSION: &str = "import ctypes, os, signal, sys, threading, time\n\
    driver = ctypes.CDLL('libcuda.so.1')\n\
    device, context, stream, other, word = ctypes.c_int(), *(ctypes.c_void_p() for _ in range(3)), ctypes.c_uint64()\n\
    def session():\n\
    \x20   assert driver.cuInit(0) == 0\n\
    \x20   assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0\n\
    \x20   assert driver.cuCtxSetCurrent(context) == 0\n\
    \x20   assert driver.cuMemAlloc_v2(ctypes.byref(word), ctypes.c_size_t(4)) == 0\n\
    \x20   assert driver.cuStreamCreate(ctypes.byref(stream), 1) == 0\n\
    \x20   assert driver.cuStreamCreate(ctypes.byref(other), 1) == 0\n\
    \x20   assert driver.cuStreamWaitValue32_v2(stream, word, 7, 1) == 0\n\
    def hang():\n\
    \x20   assert driver.cuCtxSetCurrent(context) == 0\n\
    \x20   assert driver.cuStreamSynchronize(stream) == 0\n\
    def release():\n\
    \x20   assert driver.cuStreamWriteValue32_v2(other, word, 7, 0) == 0\n";

/// Runs a Python program that has the session above.
fn python<'w>(work: &'w Work, program: &str, on_hang: &str) -> Run<'w> {
    let run = Run::new(work, "python3").args(["-c", &format!("{SESSION}{program}")]).guarded();
    run.hang_after("300ms").set("LAZYGUARD_ON_HANG", on_hang)
}

/// The files that a process leaves which the guard has ended.
fn expect_everything(folder: &Folder, how: &str) {
    assert!(text(&folder.hang(), "/verdicts/0/code").starts_with("LG2"));
    let summary = folder.summary();
    assert_eq!(text(&summary, "/ended"), format!("ended by LAZYGUARD_ON_HANG={how}"));
    assert_eq!(number(&summary, "/hangs"), 1);
    let recording = Recording::of(folder.path());
    recording.expect_to_add_up();
    assert!(!recording.is_alive() && recording.number("/calls") > 5, "{:#}", recording.0);
    assert_eq!(text(&recording.0, "/verdicts/0/code"), text(&folder.hang(), "/verdicts/0/code"));
    assert!(folder.log().iter().any(|line| line["event"] == "context"), "the log was cut off");
    assert!(folder.report("text").contains(&format!("ended by LAZYGUARD_ON_HANG={how}")));
}

/// The signal is one that the program handles and blocks, as those do that write a stack of their own.
#[test]
fn abort_ends_the_process_by_its_signal_whatever_the_program_does_with_it() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let program = "signal.signal(signal.SIGABRT, lambda *_: print('handled', flush=True))\n\
                   signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGABRT])\n\
                   session()\n\
                   threading.Thread(target=hang, daemon=True).start()\n\
                   while True: time.sleep(1)\n";
    let outcome = python(&work, program, "abort").kept().finish();
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(-libc::SIGABRT), ""), "{outcome}");
    assert!(outcome.stderr.contains("lazyguard: ending the process, as LAZYGUARD_ON_HANG=abort says"), "{outcome}");
    expect_everything(&outcome.out(), "abort");
}

/// The program is already at its exit: one handler hangs in the driver, the next one would sleep for ever.
#[test]
fn exit_ends_the_process_with_its_status_past_every_exit_handler() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let program = "libc = ctypes.CDLL(None)\n\
                   handler = ctypes.CFUNCTYPE(None, ctypes.c_void_p)\n\
                   handlers = [handler(lambda _: time.sleep(1000)), handler(lambda _: hang())]\n\
                   session()\n\
                   for one in handlers: assert libc.__cxa_atexit(one, None, None) == 0\n\
                   libc.exit(3)\n";
    for (value, status) in [("exit:7", 7), ("exit:0", 0), ("exit:255", 255)] {
        let outcome = python(&work, program, value).kept().finish();
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(status), ""), "{outcome}");
        expect_everything(&outcome.out(), value);
    }
}

/// The user has not asked for a folder, and the recording was in memory: both outlive the process.
#[test]
fn the_private_folder_stays_with_a_whole_recording() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for (number, (value, code)) in (1..).zip([("abort", -libc::SIGABRT), ("exit:9", 9)]) {
        let app = App::named("lazy_pair");
        let hanging = run(&work, &app).guarded().set("LAZYGUARD_PRELOAD", "off").hang_after("300ms");
        let outcome = hanging.set("LAZYGUARD_ON_HANG", value).finish();
        assert_eq!(outcome.code, Some(code), "{outcome}");
        let folder = Folder::only_one_in(&work.path().join(format!("{number}/tmp")));
        assert!(outcome.stderr.contains(&folder.path().display().to_string()), "{outcome}");
        assert_eq!(text(&folder.hang(), "/verdicts/0/code"), "LG201");
        assert_eq!(text(&Recording::of(folder.path()).0, "/verdicts/0/code"), "LG201");
        assert_eq!(text(&folder.summary(), "/ended"), format!("ended by LAZYGUARD_ON_HANG={value}"));
        assert!(!folder.holds("dump.request"));
    }
}

/// A program with one child of its own, which waits for its children, counts their signals, and ends the hang on request.
const WITNESS: &str = "import subprocess\n\
    signals = []\n\
    signal.signal(signal.SIGCHLD, lambda *_: signals.append(1))\n\
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)\n\
    pipe = os.pipe()\n\
    os.set_inheritable(pipe[1], True)\n\
    session()\n\
    thread = threading.Thread(target=hang)\n\
    thread.start()\n\
    while not os.path.exists(sys.argv[1]): time.sleep(0.01)\n\
    for _ in range(50):\n\
    \x20   try: print('an unexpected child:', os.waitpid(-1, os.WNOHANG), flush=True)\n\
    \x20   except ChildProcessError: pass\n\
    \x20   time.sleep(0.01)\n\
    child = subprocess.Popen(['true'])\n\
    print('its own child:', os.waitpid(-1, 0) == (child.pid, 0))\n\
    print('signals:', len(signals))\n\
    release()\n\
    thread.join()\n\
    child.returncode = 0\n\
    print('released')\n";

const WITNESSED: &str = "its own child: True\nsignals: 1\nreleased\n";

/// Waits until there is a file, and gives what is in it.
fn until_there_is(running: &mut Running, path: &Path) -> String {
    running.until("what the command writes", 20 * SECOND, |_| {
        fs::read_to_string(path).ok().filter(|written| written.ends_with("end\n"))
    })
}

#[test]
fn a_command_is_told_of_the_hang_and_the_program_does_not_notice_it() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let (told, go) = (work.path().join("told"), work.path().join("go"));
    // The last signal ends a shell only if it is not ignored there, as it is in the program.
    let command = format!(
        "command:{{ echo \"$LAZYGUARD_HANG_PID,$LAZYGUARD_HANG_CODE,$LAZYGUARD_HANG_FOLDER,$LAZYGUARD_HANG_REPORT\"; \
         test -s \"$LAZYGUARD_HANG_REPORT\" && echo report; echo \"preloads:$LD_PRELOAD\"; cat; \
         ls -l /proc/$$/fd | grep -c pipe:; cut -d' ' -f5,6 /proc/$$/stat; echo $$; \
         grep -E '^Sig(Blk|Ign)' /proc/self/status; sh -c 'kill -USR1 $$'; echo \"killed:$?\"; echo end; }} \
         > {told}.new 2>&1; mv {told}.new {told}; echo aloud; exit 3",
        told = told.display()
    );
    let mut running = python(&work, WITNESS, &command).args([&go]).kept().start();
    let written = until_there_is(&mut running, &told);
    let out = running.out();
    let said = |running: &mut Running| running.stderr().contains("LAZYGUARD_ON_HANG has ended").then_some(());
    running.until("the end of the command", 5 * SECOND, said);
    let process = running.process();
    // SAFETY: takes an integer.
    let own_session = unsafe { libc::getsid(process as libc::pid_t) }.to_string();
    fs::write(&go, "").unwrap_or_else(|error| panic!("{error}"));
    let outcome = running.finish_within(20 * SECOND);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), WITNESSED), "{outcome}\n{written}");

    let lines: Vec<_> = written.lines().collect();
    let (folder, report) = (out.display(), out.join("hang.json"));
    assert_eq!(lines[0], format!("{process},LG203,{folder},{}", report.display()), "{written}");
    assert_eq!(lines[1..3], ["report", "preloads:"], "{written}");
    // Nothing on standard input, and not the program's pipe, which others may wait for the end of.
    assert_eq!(lines[3], "0", "{written}");
    // The group is its own, and the session not the program's.
    let [group, session] = [0, 1].map(|n| lines[4].split(' ').nth(n).unwrap_or_else(|| panic!("{written}")));
    assert_eq!(group, lines[5], "{written}");
    assert_ne!(session, own_session, "{written}");
    // The C library keeps two signals for itself, 32 and 33, and has what it spawns ignore them.
    let signals = |line: &str, name: &str| u64::from_str_radix(line.strip_prefix(name)?.trim(), 16).ok();
    assert_eq!(signals(lines[6], "SigBlk:"), Some(0), "{written}");
    assert_eq!(signals(lines[7], "SigIgn:").map(|ignored| ignored & !(0b11 << 31)), Some(0), "{written}");
    assert!(lines.contains(&format!("killed:{}", 128 + libc::SIGUSR1).as_str()), "{written}");

    assert!(outcome.stderr.lines().any(|line| line == "aloud"), "standard output leads nowhere: {outcome}");
    let ended = "the command of LAZYGUARD_ON_HANG has ended";
    assert!(outcome.stderr.contains(&format!("lazyguard: {ended}\n")), "{outcome}");
    assert_eq!(Recording::of(&out).text("/state"), "ended");
    assert!(read_by_script(&out).to_string().contains(ended), "the recording has no note of it");
    assert_eq!(text(&outcome.out().summary(), "/ended"), "exit");
    assert!(outcome.out().hang()["verdicts"].is_array());
}

#[test]
fn a_command_that_does_not_end_is_left_alone() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let (told, go) = (work.path().join("told"), work.path().join("go"));
    let command =
        format!("command:echo $$ > {0}.new; echo end >> {0}.new; mv {0}.new {0}; exec sleep 1000", told.display());
    let mut running = python(&work, WITNESS, &command).args([&go]).kept().start();
    let written = until_there_is(&mut running, &told);
    let sleeper =
        Stray(written.lines().next().and_then(|line| line.parse().ok()).unwrap_or_else(|| panic!("{written}")));
    let parent = field_of_status(sleeper.0, "PPid").unwrap_or_else(|| panic!("the command is not there"));
    assert_ne!(parent, running.process(), "the command is a child that the program can find");
    let said = "the command of LAZYGUARD_ON_HANG still runs after 10s, and is left alone";
    running.until("that it is left alone", 20 * SECOND, |running| running.stderr().contains(said).then_some(()));
    fs::write(&go, "").unwrap_or_else(|error| panic!("{error}"));
    let outcome = running.finish_within(20 * SECOND);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), WITNESSED), "{outcome}");
    assert_eq!(outcome.stderr.matches(said).count(), 1, "{outcome}");
    assert!(Path::new(&format!("/proc/{}", sleeper.0)).exists(), "the command went with the program");
}

/// A number of a process's status.
fn field_of_status(process: libc::pid_t, field: &str) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')?.trim().parse().ok())
}

/// A process outside the program's group, which only this test ends.
struct Stray(libc::pid_t);

impl Drop for Stray {
    fn drop(&mut self) {
        // SAFETY: takes integers only. It sleeps for longer than any test lasts, so the number is its own.
        unsafe { libc::kill(self.0, libc::SIGKILL) };
    }
}

/// A file of the program's that has taken the place of standard error gets nothing of the command's either.
#[test]
fn a_command_says_nothing_where_standard_error_is_something_else() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let (told, go, own) = (work.path().join("told"), work.path().join("go"), work.path().join("own"));
    let program = WITNESS.replacen(
        "session()\n",
        "session()\nos.close(2)\nassert os.open(sys.argv[2], os.O_RDWR | os.O_CREAT) == 2\n",
        1,
    );
    let command = format!("command:echo loud; echo louder >&2; echo end > {0}.new; mv {0}.new {0}", told.display());
    let mut running = python(&work, &program, &command).args([&go, &own]).kept().start();
    until_there_is(&mut running, &told);
    fs::write(&go, "").unwrap_or_else(|error| panic!("{error}"));
    let outcome = running.finish_within(20 * SECOND);
    assert_eq!((outcome.code, outcome.stdout.as_str(), outcome.stderr.as_str()), (Some(0), WITNESSED, ""), "{outcome}");
    assert_eq!(fs::read(&own).unwrap_or_else(|error| panic!("{error}")), b"");
}

/// The driver's answer about the stream without a waiting thread ages, so that its verdict comes, unless no look is in its time, and goes.
#[test]
fn a_hang_with_a_second_cause_is_reported_and_acted_on_once() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let run = Run::new(&work, corpus_program("two_streams_stand")).guarded().kept().hang_after("1s");
    let mut running = run.set("LAZYGUARD_ON_HANG", "command:echo it ran").start();
    let repeated = |r: &mut Running| (r.stderr().matches(", as reported").count() == 2).then_some(());
    running.until("the second line that it still hangs", 20 * SECOND, repeated);
    let outcome = running.stop();
    let (stderr, hang) = (&outcome.stderr, outcome.out().hang());
    let count = |text: &str| stderr.lines().filter(|line| line.contains(text)).count();
    assert_eq!((count("it ran"), count("details: "), count("LG207 (likely)")), (1, 1, 1), "{stderr}");
    let second = count(": beside what was reported");
    assert!(second <= 1 && second == count("LG203 (possible)"), "{stderr}");
    let verdicts = hang["verdicts"].as_array().into_iter().flatten();
    let codes: Vec<_> = verdicts.map(|verdict| text(verdict, "/code")).collect();
    assert_eq!(codes, ["LG207", "LG203"][..=second], "{hang}");
}

#[test]
fn without_a_hang_nothing_is_done() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for value in ["abort", "exit:7", "command:echo loud", "report"] {
        let plain = run(&work, &App::named("module_pair")).guarded().set("LAZYGUARD_ON_HANG", value);
        let outcome = plain.hang_after("300ms").finish();
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{value}: {outcome}");
    }
}

#[test]
fn a_value_that_cannot_be_used_is_a_line_and_the_report_is_all() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for value in ["exit:256", "exit:-1", "exit", "command:", "kill", "abort:now"] {
        let app = App::named("lazy_pair");
        let hanging = run(&work, &app).guarded().kept().set("LAZYGUARD_PRELOAD", "off").hang_after("300ms");
        let mut running = hanging.set("LAZYGUARD_ON_HANG", value).start();
        running.until_a_hang_is_reported();
        let outcome = running.finish_within(SECOND / 2);
        assert_eq!(outcome.code, None, "it was ended: {outcome}");
        let lines: Vec<_> = outcome.stderr.lines().filter(|line| line.contains("LAZYGUARD_ON_HANG")).collect();
        assert!(lines.len() == 1 && lines[0].contains(value) && lines[0].contains("using report"), "{outcome}");
    }
}
