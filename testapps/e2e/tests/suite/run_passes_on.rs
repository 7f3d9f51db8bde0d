//! `lazyguard run` changes none of these: exit codes, signals, input, output, and what the program inherits.

use lazyguard_e2e::{command, Outcome, Run, Running, Work};
use std::ffi::OsStr;
use std::process::Command;
use std::time::Duration;

const LONG: Duration = lazyguard_e2e::PATIENCE;

/// `lazyguard run` of a program.
pub(crate) fn under<'w, A: AsRef<OsStr>>(work: &'w Work, options: &[&str], program: &[A]) -> Run<'w> {
    Run::new(work, command()).args(["run"]).args(options).args(["--"]).args(program)
}

/// Runs a shell's script under it.
fn script(work: &Work, text: &str) -> Outcome {
    under(work, &[], &["sh", "-c", text]).finish()
}

/// Sends a signal to a process, or to a group with a minus before it.
pub(crate) fn send(signal: &str, to: &str) {
    let sent = Command::new("bash").args(["-c", &format!("kill -s {signal} -- {to}")]).status();
    assert!(sent.is_ok_and(|status| status.success()), "{signal} to {to}");
}

/// What a Python program needs to say which signals it gets; the last of them ends it. A line is one write: two processes say theirs
/// into one pipe, and an unbuffered `print` makes several.
const TELLS: &str = "import os, signal, sys, time\n\
    def tells(who, *names):\n\
    \x20   for name in names:\n\
    \x20       signal.signal(getattr(signal, 'SIG' + name), lambda *_, n=name: os.write(1, f'{who} {n}\\n'.encode()))\n\
    \x20   os.write(1, f'{who} ready\\n'.encode())\n";

fn python(text: &str) -> [String; 3] {
    ["python3".to_owned(), "-c".to_owned(), format!("{TELLS}{text}")]
}

/// Waits until the program has said something so many times.
fn until_said(running: &mut Running, what: &str, times: usize) {
    running.until(what, LONG, |r| (r.stdout().lines().filter(|line| *line == what).count() >= times).then_some(()));
}

#[test]
fn exit_codes_are_the_programs() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for code in [0, 1, 3, 117, 255] {
        let outcome = script(&work, &format!("exit {code}"));
        assert_eq!((outcome.code, outcome.stdout.as_str(), outcome.stderr.as_str()), (Some(code), "", ""), "{outcome}");
        assert_eq!(outcome.left_behind(), [""; 0]);
    }
    // A crash is said. A realtime signal has no name.
    for (signal, number, said) in [
        ("KILL", 9, "lazyguard: sh ended by signal 9 (SIGKILL)\n"),
        ("SEGV", 11, "lazyguard: sh ended by signal 11 (SIGSEGV)\n"),
        ("TERM", 15, ""),
        ("35", 35, ""),
    ] {
        let outcome = script(&work, &format!("kill -{signal} $$"));
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(128 + number), said), "{signal}: {outcome}");
    }
}

#[test]
fn what_cannot_be_run_is_said_as_env_says_it() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let script = work.path().join("no-first-line");
    std::fs::write(&script, "echo \"by a shell: $1\"\n").unwrap();
    let script = script.to_string_lossy().into_owned();
    for (program, code) in [("/no/such/program", 127), ("no-such-program", 127), ("/etc/passwd", 126), (&script, 126)] {
        let outcome = under(&work, &[], &[program]).finish();
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(code), ""), "{outcome}");
        assert!(outcome.stderr.lines().count() == 1 && outcome.stderr.contains(program), "{outcome}");
        assert_eq!(outcome.left_behind(), [""; 0]);
    }
    send_mode(&script);
    let outcome = under(&work, &[], &[script.as_str(), "word"]).finish();
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "by a shell: word\n"), "{outcome}");
}

fn send_mode(path: &str) {
    assert!(Command::new("chmod").args(["+x", path]).status().is_ok_and(|status| status.success()));
}

#[test]
fn arguments_that_cannot_be_used_are_one_line_and_the_program_does_not_run() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for options in [
        &["--no-such-option"][..],
        &["--timeout", "soon"],
        &["--preload", "everything"],
        &["--hang-after=-1"],
        &["--on-hang", "explode"],
        &["--out", "/tmp/%q"],
        &["--fail-on", "rain"],
        &["--library", "/no/such/library"],
        &["--library", "/etc/hostname"],
        &["--library", "/proc/self/exe"],
        &["--schedule", "/no/such/schedule"],
        &["--schedule", "/etc/hostname"],
        &["--schedule", "/dev/null"],
        &["--require-records", "--out", "/proc/nowhere"],
    ] {
        let outcome = under(&work, options, &["echo", "it ran"]).finish();
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(125), ""), "{options:?}: {outcome}");
        let said = outcome.stderr.as_str();
        assert!(said.starts_with("lazyguard: ") && said.lines().count() == 1, "{options:?}: {outcome}");
    }
    let similar = under(&work, &["--tiemout", "5"], &["echo", "it ran"]).finish();
    let expect = "lazyguard: unexpected argument '--tiemout' found; a similar argument exists: '--timeout' (see lazyguard run --help)\n";
    assert_eq!((similar.code, similar.stderr.as_str()), (Some(125), expect), "{similar}");
    let nothing = Run::new(&work, command()).args(["run"]).finish();
    assert_eq!((nothing.code, nothing.stderr.lines().count()), (Some(125), 1), "{nothing}");
}

#[test]
fn input_and_output_are_the_programs_byte_for_byte() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let lazyguard = command();
    let text =
        "head -c 1000000 /dev/zero | tr '\\0' '\\377' | \"$0\" \"$@\" | cksum; printf 'no end of line' | \"$0\" \"$@\"";
    let copy =
        "import shutil, sys; shutil.copyfileobj(sys.stdin.buffer, sys.stdout.buffer); sys.stderr.write('e\\r\\n')";
    let bare = Run::new(&work, "sh").args(["-c", text, "python3", "-c", copy]).finish();
    let run = ["-c", text, &*lazyguard.to_string_lossy(), "run", "python3", "-c", copy];
    let guarded = Run::new(&work, "sh").args(run).finish();
    assert!(bare.stdout.contains("no end of line"), "{bare}");
    guarded.expect_same_as(&bare);
}

/// Its files, its process group, what is blocked and ignored, its limits and its folder.
#[test]
fn what_a_program_inherits_it_inherits() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let lazyguard = command();
    let looks = "import os, signal\n\
        status = dict(line.split(':', 1) for line in open('/proc/self/status').read().splitlines())\n\
        own = 3 << 31 # of the C library's: ignored in whatever it spawns\n\
        print([hex(int(status[name], 16) & ~own) for name in ('SigBlk', 'SigIgn', 'SigCgt')])\n\
        print(sorted(os.listdir('/proc/self/fd')), os.getcwd(), os.umask(0), os.nice(0))\n\
        print(os.read(7, 5), os.getpgrp() == int(os.environ['GROUP']), os.getsid(0) == int(os.environ['GROUP']))\n";
    let starts = "import os, signal, sys\n\
        signal.signal(signal.SIGHUP, signal.SIG_IGN)\n\
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n\
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, signal.SIGCHLD, signal.SIGALRM])\n\
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)\n\
        os.setsid() if os.getpgrp() != os.getpid() else None\n\
        reads, writes = os.pipe()\n\
        os.write(writes, b'seven'); os.dup2(reads, 7)\n\
        os.umask(0o027); os.chdir('/usr')\n\
        os.environ['GROUP'] = str(os.getpgrp())\n\
        os.execvp(sys.argv[1], sys.argv[1:])\n";
    let bare = Run::new(&work, "python3").args(["-c", starts, "python3", "-c", looks]).finish();
    let run = ["-c", starts, &*lazyguard.to_string_lossy(), "run", "python3", "-c", looks];
    let guarded = Run::new(&work, "python3").args(run).finish();
    assert!(bare.code == Some(0) && bare.stdout.contains("b'seven' True"), "{bare}");
    guarded.expect_same_as(&bare);
}

/// Services and shells ignore it in what they start; this command's own runtime does so as well, and undoes it in what it starts.
#[test]
fn a_write_to_a_closed_pipe_does_what_it_did() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let lazyguard = command();
    let ignored = |outcome: &Outcome| {
        let set = outcome.stdout.trim().strip_prefix("SigIgn:").map(|set| u64::from_str_radix(set.trim(), 16));
        // The C library's own two are ignored in whatever it spawns.
        set.and_then(Result::ok).unwrap_or_else(|| panic!("{outcome}")) & !(3 << 31)
    };
    for (first, expect) in [("", 0), ("trap '' PIPE; ", 1 << 12), ("trap '' HUP PIPE; ", 1 << 12 | 1)] {
        let text = format!("{first}exec \"$@\"");
        let looks = ["grep", "SigIgn", "/proc/self/status"];
        let bare = Run::new(&work, "sh").args(["-c", &text, "sh"]).args(looks).finish();
        let guarded =
            Run::new(&work, "sh").args(["-c", &text, "sh", &*lazyguard.to_string_lossy(), "run"]).args(looks).finish();
        // A test runner may ignore some as well.
        assert_eq!(ignored(&bare) & expect, expect, "{first}: {bare}");
        assert_eq!(ignored(&guarded), ignored(&bare), "{first}: {guarded}");
    }
}

#[test]
fn a_signal_goes_to_the_program_once_and_to_nobody_else() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let names = [
        "HUP", "INT", "QUIT", "USR1", "USR2", "ALRM", "VTALRM", "PROF", "WINCH", "XCPU", "IO", "PWR", "ABRT", "ILL",
        "TRAP", "BUS", "FPE", "SEGV", "STKFLT", "SYS", "URG", "RTMIN", "RTMAX", "TERM",
    ];
    let listed = names.map(|name| format!("'{name}'")).join(", ");
    let text = format!(
        "child = os.fork()\n\
         tells('child' if child == 0 else 'program', {listed})\n\
         signal.pause() if child == 0 else None\n\
         while True: signal.pause()\n"
    );
    let mut running = under(&work, &[], &python(&text)).start();
    let process = running.process().to_string();
    until_said(&mut running, "program ready", 1);
    until_said(&mut running, "child ready", 1);
    for name in names {
        send(name, &process);
        until_said(&mut running, &format!("program {name}"), 1);
    }
    let said = running.stdout();
    let outcome = running.stop();
    for name in names {
        assert_eq!(said.lines().filter(|line| *line == format!("program {name}")).count(), 1, "{name}: {outcome}");
    }
    assert!(!said.lines().any(|line| line.starts_with("child") && line != "child ready"), "{outcome}");
}

#[test]
fn a_queued_signal_keeps_its_sender_and_its_value() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let text = "import ctypes, os, signal\n\
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN])\n\
        print('ready', flush=True)\n\
        about, wanted = (ctypes.c_int * 32)(), (ctypes.c_ulong * 16)(1 << (signal.SIGRTMIN - 1))\n\
        ctypes.CDLL(None).sigwaitinfo(wanted, about)\n\
        print(about[2], about[4], about[6])\n";
    let mut running = under(&work, &[], &["python3", "-c", text]).start();
    until_said(&mut running, "ready", 1);
    let queues = "import ctypes, os, signal, sys\n\
        ctypes.CDLL(None).sigqueue(int(sys.argv[1]), signal.SIGRTMIN, ctypes.c_void_p(42))\n\
        print(os.getpid())\n";
    let queued = Run::new(&work, "python3").args(["-c", queues, &running.process().to_string()]).finish();
    let outcome = running.finish_within(LONG);
    let expect = format!("ready\n-1 {} 42\n", queued.stdout.trim());
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), expect.as_str()), "{outcome}");
}

#[test]
fn a_signal_that_ends_the_program_is_its_exit_code() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for (name, number) in [("TERM", 15), ("INT", 2), ("HUP", 1), ("USR1", 10), ("QUIT", 3)] {
        let mut running = under(&work, &[], &["sh", "-c", "echo ready; exec sleep 60"]).start();
        until_said(&mut running, "ready", 1);
        send(name, &running.process().to_string());
        let outcome = running.finish_within(LONG);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(128 + number), ""), "{name}: {outcome}");
        assert_eq!(outcome.left_behind(), [""; 0]);
    }
}

/// However soon it ends: where the ends of children are ignored, the kernel keeps nothing of them.
#[test]
fn an_exit_code_is_passed_on_also_where_the_ends_of_children_are_ignored() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let starts = "import signal, subprocess, sys\n\
        ignores = lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n\
        for _ in range(30):\n\
        \x20   print(subprocess.call(sys.argv[1:], preexec_fn=ignores))\n";
    let lazyguard = command();
    let run = ["-c", starts, &*lazyguard.to_string_lossy(), "run", "sh", "-c", "exit 3"];
    let outcome = Run::new(&work, "python3").args(run).finish();
    assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("3\n".repeat(30).as_str(), ""), "{outcome}");
}

/// Under `nohup`, or in the background of a script.
#[test]
fn a_signal_that_is_ignored_stays_ignored() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let lazyguard = command();
    let text = "trap '' HUP INT; exec \"$0\" run sh -c 'echo ready; read line < \"$1\"; echo survived' sh \"$1\"";
    let pipe = work.path().join("pipe").to_string_lossy().into_owned();
    assert!(Command::new("mkfifo").arg(&pipe).status().is_ok_and(|status| status.success()));
    let mut running = Run::new(&work, "sh").args(["-c", text, &*lazyguard.to_string_lossy(), &pipe]).start();
    until_said(&mut running, "ready", 1);
    send("HUP", &running.process().to_string());
    send("INT", &format!("-{}", running.process()));
    std::fs::write(&pipe, "go on\n").unwrap();
    let outcome = running.finish_within(LONG);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "ready\nsurvived\n"), "{outcome}");
}

#[test]
fn a_signal_that_is_blocked_waits_for_the_program_to_unblock_it() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let lazyguard = command();
    let text = "tells('program', 'USR1')\n\
        while not os.path.exists(sys.argv[1]): time.sleep(0.01)\n\
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1])\n\
        print('over', flush=True)\n";
    let blocks = "import os, signal, sys\n\
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])\n\
        os.execvp(sys.argv[1], sys.argv[1:])\n";
    let go = work.path().join("go");
    let run = ["-c", blocks, &*lazyguard.to_string_lossy(), "run", "--"];
    let mut running = Run::new(&work, "python3").args(run).args(python(text)).args([&go]).start();
    until_said(&mut running, "program ready", 1);
    send("USR1", &running.process().to_string());
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(running.stdout(), "program ready\n");
    std::fs::write(&go, "").unwrap();
    let outcome = running.finish_within(LONG);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "program ready\nprogram USR1\nover\n"), "{outcome}");
}

/// `kill 0` in a script reaches the script, and comes back to it no second time.
#[test]
fn what_the_program_sends_to_its_own_group_is_not_sent_back() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let text = "tells('program', 'USR1', 'TERM')\n\
        os.kill(0, signal.SIGUSR1); os.kill(os.getppid(), signal.SIGTERM)\n\
        until = time.time() + 0.5\n\
        while time.time() < until: time.sleep(0.05)\n";
    let outcome = under(&work, &[], &python(text)).finish();
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "program ready\nprogram USR1\n"), "{outcome}");
}

#[test]
fn what_the_program_leaves_in_the_background_goes_on() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let outcome = script(&work, "sleep 60 > /dev/null & echo $!");
    let background = outcome.stdout.trim().to_owned();
    assert_eq!(outcome.code, Some(0), "{outcome}");
    assert!(outcome.seconds < 30.0, "it was waited for: {outcome}");
    send("KILL", &background);
}

/// Only the superuser can make such a program of another user's, and only another user would be spared the guard.
#[test]
fn a_program_that_the_guard_cannot_go_into_runs_and_that_is_said() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let program = work.path().join("program").to_string_lossy().into_owned();
    let made = format!("cp /bin/echo '{program}' && chown 65534 '{program}' && chmod u+s '{program}'");
    let is_made = Command::new("sh").args(["-c", &made]).stderr(std::process::Stdio::null()).status();
    let outcome = under(&work, &[], &[program.as_str(), "it ran"]).finish();
    if is_made.is_ok_and(|status| status.success()) {
        assert!(outcome.stderr.contains("set-user-id") && outcome.stderr.lines().count() == 1, "{outcome}");
    } else {
        assert_eq!(outcome.stderr, "", "{outcome}");
    }
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "it ran\n"), "{outcome}");
}

#[test]
fn the_users_own_libraries_are_preloaded_behind_the_guard() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let library = lazyguard_e2e::library();
    let run = |preload: &str| {
        let outcome = under(&work, &[], &["sh", "-c", "echo \"$LD_PRELOAD\""]).set("LD_PRELOAD", preload).finish();
        assert_eq!(outcome.code, Some(0), "{outcome}");
        outcome.stdout.trim().to_owned()
    };
    let driver = lazyguard_e2e::driver();
    assert_eq!(run(""), library.to_string_lossy());
    assert_eq!(run(&driver.to_string_lossy()), format!("{}:{}", library.display(), driver.display()));
}
