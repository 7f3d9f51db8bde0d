//! What a program has of `lazyguard run` it has as it was given, and alone: descriptors, standard streams, environment, search path.

use crate::run_passes_on::under;
use lazyguard_e2e::{command, hostile_program, Outcome, Run, Work};
use std::fs;

/// Runs a Python text that starts programs with the words behind it before them: bare with none, and with those of `lazyguard run`.
fn both(work: &Work, text: &str) -> (Outcome, Outcome) {
    let python = |words: &[&str]| Run::new(work, "python3").args(["-c", text]).args(words).finish();
    (python(&[]), python(&[&command().to_string_lossy(), "run", "--"]))
}

/// A parent that reads something of the program's to its end, and then answers.
const ASKED: &str = "import os, pty, signal, socket, subprocess, sys\n\
    signal.alarm(30)\n\
    def ends(kind):\n\
    \x20   if kind == 'socket':\n\
    \x20       pair = socket.socketpair()\n\
    \x20       return [end.detach() for end in pair]\n\
    \x20   return pty.openpty() if kind == 'terminal' else os.pipe()\n\
    def read(end):\n\
    \x20   got = b''\n\
    \x20   while True:\n\
    \x20       try: more = os.read(end, 100)\n\
    \x20       except OSError: more = b'' # of a terminal\n\
    \x20       got += more\n\
    \x20       if not more: return got.decode()\n\
    program = 'import os, sys; n = int(sys.argv[1]); os.write(n, b\"question\"); os.close(n); print(sys.stdin.readline()); sys.exit(3)'\n\
    for number in (1, 2, 77):\n\
    \x20   for kind in ('pipe', 'socket', 'terminal'):\n\
    \x20       ours, its = ends(kind)\n\
    \x20       os.dup2(its, 77)\n\
    \x20       streams = {'stdout' if number == 1 else 'stderr': its} if number < 3 else {'pass_fds': [77]}\n\
    \x20       others = {'stdout': subprocess.DEVNULL} if number != 1 else {}\n\
    \x20       words = sys.argv[1:] + [sys.executable, '-c', program, str(number)]\n\
    \x20       child = subprocess.Popen(words, stdin=subprocess.PIPE, **streams, **others)\n\
    \x20       os.close(its); os.close(77)\n\
    \x20       print(number, kind, read(ours), flush=True)\n\
    \x20       child.stdin.write(b'answer\\n'); child.stdin.close()\n\
    \x20       print(child.wait() if number != 1 else child.wait() > 0)\n";

#[test]
fn what_a_program_closes_has_its_end() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let kinds = ["pipe", "socket", "terminal"];
    let lines = |number: u8, code: &str| kinds.map(|kind| format!("{number} {kind} question\n{code}\n")).concat();
    // What is printed to a closed standard output makes Python fail.
    let (bare, guarded) = both(&work, ASKED);
    assert_eq!(bare.stdout, [lines(1, "True"), lines(2, "3"), lines(77, "3")].concat(), "{bare}");
    assert_eq!((guarded.code, &guarded.stdout), (bare.code, &bare.stdout), "{guarded}");
    // One run in another.
    let run = [&*command().to_string_lossy(), "run", "--"].map(str::to_owned);
    let nested = Run::new(&work, "python3").args(["-c", ASKED]).args(run.iter().chain(&run)).finish();
    assert_eq!((nested.code, &nested.stdout), (bare.code, &bare.stdout), "{nested}");
}

/// A lock that the program gives back by closing its descriptor, and the write end of a pipe whose reader has gone.
#[test]
fn what_a_program_gives_back_is_free() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let text = "import fcntl, os, signal, struct, subprocess, sys, tempfile\n\
        signal.alarm(30)\n\
        path = tempfile.mkstemp()[1]\n\
        program = 'import os, sys, time; os.close(int(sys.argv[1])); print(\"closed\", flush=True); time.sleep(60)'\n\
        whole = struct.pack('hhqqi', fcntl.F_WRLCK, 0, 0, 0, 0)\n\
        ofd = lambda file: fcntl.fcntl(file, 37, whole)\n\
        def start(number, **more):\n\
        \x20   words = sys.argv[1:] + [sys.executable, '-c', program, str(number)]\n\
        \x20   child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **more)\n\
        \x20   print(child.stdout.readline().decode(), end='')\n\
        \x20   return child\n\
        for lock in (lambda file: fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB), ofd):\n\
        \x20   for number in (9, 250):\n\
        \x20       file = open(path, 'w'); lock(file); os.dup2(file.fileno(), number); file.close()\n\
        \x20       child = start(number, pass_fds=[number])\n\
        \x20       os.close(number)\n\
        \x20       try: lock(open(path, 'w')); print('free')\n\
        \x20       except OSError as error: print(error)\n\
        \x20       child.terminate(); child.wait()\n\
        child = start(0)\n\
        try: os.write(child.stdin.fileno(), b'x'); print('it is read')\n\
        except OSError as error: print(error)\n\
        child.terminate(); child.wait()\n";
    let (bare, guarded) = both(&work, text);
    let expect = format!("{}closed\n[Errno 32] Broken pipe\n", "closed\nfree\n".repeat(4));
    assert_eq!((bare.code, &bare.stdout), (Some(0), &expect), "{bare}");
    guarded.expect_same_as(&bare);
}

/// In all eight combinations, the number is free, and the program's first file gets it.
#[test]
fn a_closed_standard_stream_stays_closed() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let text = "import os, subprocess, sys\n\
        program = 'for n in 0 1 2 3; do [ -e /proc/$$/fd/$n ] && printf \"$n \" >&9; done; echo x; echo \"$?\" >&9'\n\
        for closed in range(8):\n\
        \x20   ours, its = os.pipe()\n\
        \x20   def close():\n\
        \x20       os.dup2(its, 9, inheritable=True)\n\
        \x20       for number in range(3):\n\
        \x20           if closed >> number & 1: os.close(number)\n\
        \x20   streams = dict.fromkeys(('stdin', 'stdout', 'stderr'), subprocess.DEVNULL)\n\
        \x20   child = subprocess.Popen(sys.argv[1:] + ['bash', '-c', program], preexec_fn=close, close_fds=False, **streams)\n\
        \x20   os.close(its); child.wait()\n\
        \x20   print(closed, os.read(ours, 100).decode(), child.returncode, flush=True)\n";
    let (bare, guarded) = both(&work, text);
    assert!(bare.stdout.starts_with("0 0 1 2 ") && bare.stdout.contains("\n7 1\n"), "{bare}");
    guarded.expect_same_as(&bare);
}

#[test]
fn the_commands_own_lines_come_also_where_the_program_has_closed_standard_error() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let run = format!("{} run", command().display());
    let ends = "--timeout 400ms -- bash -c 'exec 2>&-; sleep 60'";
    let missing = "--fail-on unguarded -- true";
    let file = work.path().join("said").display().to_string();
    for (script, times) in [
        // Until its end, the program has the pipe's last end.
        (format!("{run} {missing} 2>&1 >/dev/null | cat"), 1),
        // The shell's `sleep` has the pipe as well, so there is still a reader.
        (format!("{{ {run} {ends}; sleep 0.2; }} 2>&1 | cat"), 1),
        // A file is not written over, by whatever has its position.
        (
            format!(
                "{{ echo first >&2; {run} {ends}; echo last >&2; }} 2>{file}; cat {file} | grep -c -e first -e last"
            ),
            0,
        ),
        (format!("cat {file}"), 1),
        // Nobody reads any more.
        (format!("exec 9>&1; {{ {run} {ends}; echo $? >&9; }} 2>&1 >/dev/null | head -c 0"), 0),
    ] {
        let outcome = Run::new(&work, "bash").args(["-c", &script]).finish();
        assert_eq!(outcome.stdout.matches("lazyguard: ").count(), times, "{script}: {outcome}");
        assert!(times == 1 || outcome.stdout == "2\n" || outcome.stdout == "124\n", "{script}: {outcome}");
    }
}

/// The user has meant such a descriptor for the command. A link leads to one, a file has the program's output before, and a socket has no place.
#[test]
fn a_file_that_is_a_descriptor_is_written() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let run = format!("{} run --json", command().display());
    let socket = "import socket, subprocess, sys\n\
        ours, its = socket.socketpair()\n\
        subprocess.Popen(sys.argv[2:], **{sys.argv[1]: its, 'stdin': subprocess.DEVNULL})\n\
        its.close()\n\
        print(''.join(iter(lambda: ours.recv(9999).decode(), '')))";
    let mut scripts = vec![format!("{run} >(cat) -- printf said | cat")];
    for (number, stream, name) in [(1, "stdout", "/dev/stdout"), (2, "stderr", "/dev/stderr"), (3, "", "/dev/fd/3")] {
        let link = work.path().join(format!("link{number}")).display().to_string();
        std::os::unix::fs::symlink(name, &link).unwrap();
        let file = work.path().join("file").display().to_string();
        for path in [name, &format!("/proc/self/fd/{number}"), &link] {
            let run = format!("{run} {path} -- sh -c 'printf said >&{number}; exec {number}>&-; sleep 0.3'");
            scripts.push(format!("{{ {run} {number}>&9 9>&-; }} 9>&1 >&2 | cat"));
            scripts.push(format!("{run} {number}>{file}; cat {file}"));
            scripts.extend((number < 3).then(|| format!("python3 -c \"{socket}\" {stream} {run}")));
        }
    }
    for script in scripts {
        let outcome = Run::new(&work, "bash").args(["-c", &script]).finish();
        let findings = outcome.stdout.strip_prefix("said").unwrap_or_default();
        assert!(serde_json::from_str::<lazyguard_e2e::Json>(findings).is_ok(), "{script}: {outcome}");
    }
}

#[test]
fn a_descriptor_that_cannot_be_written_to_is_refused_before_the_program_starts() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for (path, how, why) in [
        ("/dev/stdout", ">&-", "descriptor 1 is not open"),
        ("/dev/fd/77", "", "descriptor 77 is not open"),
        ("/dev/fd/77", "77</dev/null", "descriptor 77 is open for reading alone"),
        ("/dev/stdin", "", "it is standard input"),
    ] {
        let script = format!("{} run --junit {path} -- sh -c 'echo began >&2' {how}; exit $?", command().display());
        let outcome = Run::new(&work, "bash").args(["-c", &script]).finish();
        let line = format!("lazyguard: {path}: cannot be written: {why}\n");
        assert_eq!((outcome.code, &outcome.stderr), (Some(125), &line), "{outcome}");
    }
    // The metrics are in a file that is replaced: a link to a descriptor stays, and the run is as without.
    let link = work.path().join("link").display().to_string();
    std::os::unix::fs::symlink("/proc/self/fd/1", &link).unwrap();
    let outcome = Run::new(&work, command()).args(["run", "--metrics", &link, "--", "true"]).finish();
    let line = format!("lazyguard: --metrics: {link}: cannot be written: it is a descriptor, and no file\n");
    assert_eq!((outcome.code, &outcome.stderr), (Some(0), &line), "{outcome}");
    assert!(std::path::Path::new(&link).is_symlink());
}

#[test]
fn the_environment_is_the_programs_entry_for_entry() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let odd = hostile_program("odd_environment");
    let show = [odd.as_os_str(), "show".as_ref()];
    let bare = Run::new(&work, &odd).args(show).finish();
    let guarded =
        Run::new(&work, &odd).args([command().as_os_str(), "run".as_ref(), "--".as_ref()]).args(show).finish();
    assert!(bare.code == Some(0) && bare.stdout.contains("[TWICE=first]\n") && bare.stdout.contains("[]\n"), "{bare}");
    guarded.expect_same_as(&bare);
    // Also where signals are ignored.
    let script = "trap '' PIPE CHLD HUP; exec \"$@\"";
    let guarded =
        Run::new(&work, "bash").args(["-c", script, "bash"]).args([&odd, &command()]).args(["run"]).args(show);
    guarded.finish().expect_same_as(&bare);
}

/// The kernel has a limit, and the command itself has been started below it.
#[test]
fn an_environment_that_leaves_no_room_for_more_is_the_programs_all_the_same() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let text = "import os, subprocess, sys\n\
        def starts(size):\n\
        \x20   full = {f'FULL{n}': 'x' * min(100000, size - n) for n in range(0, size, 100000)}\n\
        \x20   try: return subprocess.run([*sys.argv[1:], 'printenv', 'LAST'], env={**os.environ, **full, 'LAST': 'last'}, capture_output=True)\n\
        \x20   except OSError: return None\n\
        low, high = 0, 8 << 20\n\
        while high - low > 16:\n\
        \x20   middle = (low + high) // 2\n\
        \x20   low, high = (middle, high) if starts(middle) else (low, middle)\n\
        end = starts(low)\n\
        print(end.returncode, end.stdout.decode(), len(end.stderr.splitlines()))\n";
    let (bare, guarded) = both(&work, text);
    assert_eq!((bare.stdout.as_str(), guarded.stdout.as_str()), ("0 last\n 0\n", "0 last\n 1\n"), "{guarded}");
}

/// As `execvp`, which `env` uses.
#[test]
fn the_search_path_is_searched_as_it_is_without_the_command() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let folder = |name: &str| work.folder(name);
    let script = |folder: &str, text: &str, mode: &str| {
        let path = work.folder(folder).join("app");
        fs::write(&path, text).unwrap();
        assert!(std::process::Command::new("chmod").arg(mode).arg(&path).status().is_ok_and(|status| status.success()));
    };
    script("not-executable", "#!/bin/sh\necho wrong\n", "644");
    script("plain", "echo \"by a shell: $0 $*\"\n", "755");
    script("first", "#!/bin/sh\necho \"first: $0 $*\"\n", "755");
    script("second", "#!/bin/sh\necho second\n", "755");
    script("no-interpreter", "#!/no/such/interpreter\n", "755");
    fs::create_dir_all(folder("a-folder").join("app")).unwrap();
    let at = |name: &str| work.path().join(name).display().to_string();
    let paths = [
        vec![at("nowhere"), at("not-executable"), at("first"), at("second")],
        vec![at("a-folder"), at("second")],
        vec![at("plain"), at("first")],
        vec![at("no-interpreter"), at("second")],
        vec![at("first") + "/app", at("second")],
        vec![at("not-executable")],
        vec![at("nowhere")],
    ];
    let mut settings: Vec<_> = paths.iter().map(|path| format!("PATH={}", path.join(":"))).collect();
    settings.extend([format!("cd {}; PATH=:/nowhere", at("second")), "PATH=".to_owned(), "unset PATH".to_owned()]);
    for setting in settings {
        let run = |with: &[&str]| {
            let script =
                format!("shopt -u sourcepath; {setting}; export PATH; exec \"$@\" app 'one word' two 2>/dev/null");
            let script = if setting.starts_with("unset") { script.replace("export PATH; ", "") } else { script };
            Run::new(&work, "/bin/bash").args(["-c", &script, "bash"]).args(with).finish()
        };
        let lazyguard = command().display().to_string();
        let (bare, guarded) = (run(&["/usr/bin/env"]), run(&[&lazyguard, "run", "--"]));
        assert!(bare.code.is_some_and(|code| [0, 126, 127].contains(&code)), "{setting}: {bare}");
        assert_eq!((guarded.code, &guarded.stdout), (bare.code, &bare.stdout), "{setting}: {guarded}");
    }
    let outcome = under(&work, &[], &["sh", "-c", "echo $0"]).finish();
    assert_eq!(outcome.stdout, "sh\n", "the name is the one that was given: {outcome}");
}

/// A parent that does not read, with a pipe that stays open; and one that is late.
#[test]
fn a_standard_error_without_room_does_not_keep_the_command() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let text = "import os, subprocess, sys, threading, time\n\
        def end(reads):\n\
        \x20   ours, its = os.pipe()\n\
        \x20   os.set_blocking(its, False)\n\
        \x20   for size in (4096, 1):\n\
        \x20       try:\n\
        \x20           while True: os.write(its, b'x' * size)\n\
        \x20       except BlockingIOError: pass\n\
        \x20   os.set_blocking(its, True)\n\
        \x20   child = subprocess.Popen([*sys.argv[1:], '--timeout', '300ms', '--', 'sleep', '60'], stderr=its)\n\
        \x20   if reads: time.sleep(0.6); os.read(ours, 1 << 20)\n\
        \x20   try: code = child.wait(20)\n\
        \x20   except subprocess.TimeoutExpired: child.kill(); code = 'waits'\n\
        \x20   os.set_blocking(ours, False)\n\
        \x20   print(code, os.get_blocking(its), b'lazyguard: ' in os.read(ours, 1 << 20))\n\
        end(False); end(True)\n";
    let run = [&*command().to_string_lossy(), "run"].map(str::to_owned);
    let ended = Run::new(&work, "python3").args(["-c", text]).args(&run).finish();
    assert_eq!(ended.stdout, "124 True False\n124 True True\n", "{ended}");
}
