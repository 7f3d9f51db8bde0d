//! `lazyguard run` without something that it usually has: descriptors, threads, processes, room for files, `/proc`. The program runs as
//! it would without this command, and a line says what is missing.

use crate::run_passes_on::{send, under};
use lazyguard_e2e::{app, command, library, skipped, Outcome, Run, Work};
use std::process::Command;
use std::time::Duration;

const LONG: Duration = lazyguard_e2e::PATIENCE;

/// A shell that sets a limit and becomes `lazyguard run` with these arguments.
fn limited<'w>(work: &'w Work, limit: &str, arguments: &[&str]) -> Run<'w> {
    let script = format!("{limit}; exec \"$0\" run \"$@\"");
    Run::new(work, "bash").args(["-c", &script]).args([command()]).args(arguments)
}

fn lines(outcome: &Outcome) -> Vec<&str> {
    outcome.stderr.lines().collect()
}

#[test]
fn a_program_with_hardly_any_descriptors_runs() {
    let work = Work::new(lazyguard_e2e::this_test!());
    for count in 4..12 {
        let limit = format!("ulimit -n {count}");
        let outcome = limited(&work, &limit, &["--", "/bin/echo", "it ran"]).finish();
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "it ran\n"), "{count}: {outcome}");
        assert!(count < 5 || lines(&outcome).is_empty(), "{count}: {outcome}");
        assert!(count < 5 || outcome.left_behind().is_empty(), "{count}: {:?}", outcome.left_behind());
    }
    let outcome = limited(&work, "ulimit -n 5", &["--timeout", "1s", "--", "sleep", "60"]).finish();
    assert_eq!(outcome.code, Some(124), "{outcome}");
    assert!(outcome.seconds < 5.0, "{outcome}");
    let hangs = app("lazy_pair").to_string_lossy().into_owned();
    let options = ["--preload", "off", "--hang-after", "400ms", "--on-hang", "kill", "--timeout", "15s", "--", &hangs];
    let outcome = limited(&work, "ulimit -n 8", &options).finish();
    assert_eq!(outcome.code, Some(117), "{outcome}");
}

#[test]
fn signals_are_passed_on_without_descriptors() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let program = "trap 'echo heard; exit 3' USR1; echo ready; while :; do sleep 0.05; done";
    let mut running = limited(&work, "ulimit -n 5", &["--", "bash", "-c", program]).start();
    running.until("it is ready", LONG, |r| r.stdout().contains("ready").then_some(()));
    send("USR1", &running.process().to_string());
    let outcome = running.finish_within(LONG);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(3), "ready\nheard\n"), "{outcome}");
}

/// A limit of processes that is used up.
fn crowded(work: &Work, count: u32, arguments: &[&str]) -> Option<Outcome> {
    as_user(work, &format!("ulimit -u {count}"), arguments)
}

/// `None`, and why, where a limit cannot be tried, for it does not hold for root.
fn as_user(work: &Work, limit: &str, arguments: &[&str]) -> Option<Outcome> {
    // A user without any other process.
    let user = (61_000 + std::process::id() % 4_000).to_string();
    let setpriv = ["setpriv", "--reuid", &user, "--regid", &user, "--clear-groups"];
    let test = Command::new(setpriv[0]).args(&setpriv[1..]).args(["test", "-r"]).arg(library()).status();
    if !test.is_ok_and(|status| status.success()) {
        skipped(&format!("needs root, setpriv, and {} readable by every user", library().display()));
        return None;
    }
    let script = format!("{limit}; exec \"$0\" \"$@\"");
    let run = Run::new(work, setpriv[0]).args(&setpriv[1..]).args(["bash", "-c", &script]).args([command()]);
    Some(run.args(["run"]).args(arguments).finish())
}

#[test]
fn a_program_for_which_there_is_no_second_process_takes_the_first_ones_place() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let Some(outcome) = crowded(&work, 1, &["--", "/bin/echo", "it ran"]) else { return };
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "it ran\n"), "{outcome}");
    assert!(lines(&outcome).len() == 1 && outcome.stderr.contains("not watched"), "{outcome}");
    // This command adopts orphans; the program in its place does not (37 is PR_GET_CHILD_SUBREAPER).
    let asks = "import ctypes; n = ctypes.c_int(7); ctypes.CDLL(None).prctl(37, ctypes.byref(n)); print(n.value)";
    let outcome = crowded(&work, 1, &["--", "python3", "-c", asks]).unwrap();
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "0\n"), "{outcome}");
    // Without this command, no process could enforce the time limit.
    let outcome = crowded(&work, 1, &["--timeout", "1s", "--", "/bin/echo", "it ran"]).unwrap();
    assert_eq!((outcome.code, outcome.stdout.as_str(), lines(&outcome).len()), (Some(126), "", 1), "{outcome}");
}

#[test]
fn a_hang_is_found_under_a_umask_that_takes_the_owners_rights() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let hangs = app("lazy_pair").to_string_lossy().into_owned();
    for umask in ["umask 0177", "umask 0277"] {
        let options = ["--preload", "off", "--hang-after", "400ms", "--on-hang", "kill", "--timeout", "15s", "--"];
        let Some(outcome) = as_user(&work, umask, &[&options[..], &[&hangs]].concat()) else { return };
        assert_eq!(outcome.code, Some(117), "{umask}: {outcome}");
        assert!(!outcome.stderr.contains("Permission denied"), "{umask}: {outcome}");
    }
}

#[test]
fn a_program_beside_which_there_is_no_room_for_a_thread_runs_and_is_watched() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let Some(outcome) = crowded(&work, 2, &["--", "/bin/echo", "it ran"]) else { return };
    assert_eq!(
        (outcome.code, outcome.stdout.as_str(), outcome.stderr.as_str()),
        (Some(0), "it ran\n", ""),
        "{outcome}"
    );
    let outcome = crowded(&work, 2, &["--timeout", "1s", "--", "sleep", "60"]).unwrap();
    assert_eq!(outcome.code, Some(124), "{outcome}");
}

/// Memory for its stack is missing: the variable is that of Rust's threads.
#[test]
fn a_program_beside_which_a_thread_has_no_memory_runs_and_hears_its_signals() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let program = "trap 'echo heard; exit 3' TERM; echo ready; while :; do sleep 0.05; done";
    let mut running =
        under(&work, &[], &["bash", "-c", program]).set("RUST_MIN_STACK", (1_u64 << 50).to_string()).start();
    running.until("it is ready", LONG, |r| r.stdout().contains("ready").then_some(()));
    send("TERM", &running.process().to_string());
    let outcome = running.finish_within(LONG);
    assert_eq!(
        (outcome.code, outcome.stdout.as_str(), outcome.stderr.as_str()),
        (Some(3), "ready\nheard\n", ""),
        "{outcome}"
    );
}

#[test]
fn a_program_whose_files_may_not_grow_runs() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let run = |options: &str| {
        let script = format!("(ulimit -f 0; \"$0\" run {options} -- /bin/echo it ran; echo $?) 2>&1 | cat");
        Run::new(&work, "bash").args(["-c", &script]).args([command()]).finish()
    };
    let outcome = run("");
    let said: Vec<_> = outcome.stdout.lines().collect();
    assert_eq!((said.len(), &said[1..]), (3, &["it ran", "0"][..]), "{outcome}");
    assert!(said[0].contains("runs without one"), "{outcome}");
    assert_eq!(outcome.left_behind(), [""; 0]);
    // The program has run, and whether it passed is not known.
    let outcome = run("--fail-on hang");
    assert!(outcome.stdout.contains("it ran\n") && outcome.stdout.ends_with("\n125\n"), "{outcome}");
}

#[test]
fn a_program_runs_where_there_is_no_place_for_a_folder() {
    let work = Work::new(lazyguard_e2e::this_test!());
    // None of the three places can be written to.
    let script = "for place in /dev/shm /tmp; do\n\
                  mount --bind $place $place && mount -o remount,bind,ro $place || exit 99\n\
                  done\n\
                  exec \"$0\" run -- /bin/echo it ran";
    let run = Run::new(&work, "unshare").args(["-rm", "sh", "-c", script]).args([command()]);
    let outcome = run.set("TMPDIR", "/proc").finish();
    if outcome.code == Some(99) || outcome.stderr.contains("unshare:") {
        skipped(&format!("needs a namespace of users and mounts: {outcome}"));
        return;
    }
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "it ran\n"), "{outcome}");
    assert!(lines(&outcome).len() == 1 && outcome.stderr.contains("runs without one"), "{outcome}");
}

#[test]
fn a_program_runs_without_proc_and_is_ended_when_its_time_is_over() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let without = |arguments: &[&str]| {
        let script = "umount -l /proc && exec \"$0\" run \"$@\"";
        let run = Run::new(&work, "unshare").args(["-m", "sh", "-c", script]).args([command()]);
        run.args(arguments).finish()
    };
    let outcome = without(&["--", "/bin/echo", "it ran"]);
    if outcome.stderr.contains("unshare:") || outcome.stderr.contains("umount:") {
        skipped(&format!("needs a namespace of mounts, and the right to unmount /proc in it: {outcome}"));
        return;
    }
    assert_eq!(
        (outcome.code, outcome.stdout.as_str(), outcome.stderr.as_str()),
        (Some(0), "it ran\n", ""),
        "{outcome}"
    );
    let outcome = without(&["--", "sh", "-c", "kill -SEGV $$"]);
    assert_eq!(outcome.code, Some(139), "{outcome}");
    let outcome = without(&["--timeout", "1s", "--", "sleep", "60"]);
    assert_eq!(outcome.code, Some(124), "{outcome}");
    assert!(outcome.stderr.contains("/proc is not mounted") && lines(&outcome).len() == 2, "{outcome}");
    // Guarded, too.
    let uses = "import ctypes; print(ctypes.CDLL('libcuda.so.1').cuInit(0))";
    let outcome = without(&["--timeout", "15s", "--", "python3", "-c", uses]);
    assert_eq!((outcome.code, outcome.stdout.as_str(), outcome.stderr.as_str()), (Some(0), "0\n", ""), "{outcome}");
    // What is ignored here is ignored in the program.
    let script = "trap '' HUP; umount -l /proc && exec \"$0\" run -- sh -c 'kill -HUP $$; echo it goes on'";
    let run = Run::new(&work, "unshare").args(["-m", "sh", "-c", script]).args([command()]).finish();
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "it goes on\n"), "{run}");
}

/// The command is found by the name that it was started with.
#[test]
fn the_library_is_found_without_proc() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let folder = command().parent().map(|folder| folder.to_string_lossy().into_owned()).unwrap_or_default();
    let script = format!("PATH='{folder}':$PATH; umount -l /proc && exec lazyguard run -- sh -c 'echo $LD_PRELOAD'");
    let outcome = Run::new(&work, "unshare").args(["-m", "sh", "-c", &script]).finish();
    if outcome.stderr.contains("unshare:") || outcome.stderr.contains("umount:") {
        skipped(&format!("needs a namespace of mounts, and the right to unmount /proc in it: {outcome}"));
        return;
    }
    assert_eq!((outcome.code, outcome.stdout.trim_end()), (Some(0), &*library().to_string_lossy()), "{outcome}");
}

#[test]
fn a_program_runs_where_the_folder_of_the_run_cannot_be_made() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let cuda = app("lazy_pair_single_kernel").to_string_lossy().into_owned();
    let read_only = work.folder("read-only");
    let file = work.path().join("file");
    std::fs::write(&file, "").unwrap();
    let folders = ["/proc/nowhere".to_owned(), file.join("in-it").to_string_lossy().into_owned()];
    for folder in &folders {
        let outcome = under(&work, &["--out", folder], &[&cuda]).finish();
        assert_eq!((outcome.code, outcome.left_behind()), (Some(0), vec![]), "{outcome}");
        let said = lines(&outcome);
        assert!(said.len() == 1 && said[0].contains(folder) && said[0].contains("a private folder"), "{outcome}");
        let refused = under(&work, &["--require-records", "--out", folder], &["echo", "it ran"]).finish();
        assert_eq!((refused.code, refused.stdout.as_str(), lines(&refused).len()), (Some(125), "", 1), "{refused}");
    }
    // What is found is still found.
    let hangs = app("lazy_pair").to_string_lossy().into_owned();
    let options = ["--preload", "off", "--hang-after", "400ms", "--on-hang", "kill", "--out", &folders[0]];
    let outcome = under(&work, &options, &[&hangs]).start().finish_within(LONG);
    assert_eq!((outcome.code, outcome.left_behind().len()), (Some(117), 1), "{outcome}");
    // A read-only file system, and a full one.
    for (mount, line) in [("-o ro,size=64k", "Read-only file system"), ("-o size=16k", "No space left on device")] {
        let script = format!(
            "mount -t tmpfs {mount} none \"$0\" && {{ cat /dev/zero > \"$0/filler\"; }} 2>/dev/null; \
             \"$@\"; code=$?; ls -A \"$0\" | grep -v filler; exit $code"
        );
        let run = Run::new(&work, "unshare").args(["-rm", "sh", "-c", &script]).args([&read_only]);
        let out = read_only.join("out");
        let run = run.args([command()]).args(["run", "--out"]).args([&out]).args(["--", &cuda]);
        let outcome = run.finish();
        if outcome.stderr.contains("unshare:") || outcome.stderr.contains("mount:") {
            skipped(&format!("needs a namespace of mounts: {outcome}"));
            return;
        }
        assert_eq!((outcome.code, lines(&outcome).len()), (Some(0), 1), "{outcome}");
        assert!(outcome.stderr.contains(line) && outcome.stderr.contains("a private folder"), "{outcome}");
        assert!(!outcome.stdout.contains("out"), "something is left there: {outcome}");
    }
}

/// `/proc` calls such a process a zombie while its other threads run.
#[test]
fn a_program_whose_first_thread_has_ended_is_ended_when_its_time_is_over() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let leaves = "import ctypes, threading, time\n\
                  threading.Thread(target=time.sleep, args=(60,)).start()\n\
                  print('ready', flush=True)\n\
                  ctypes.PyDLL(None).pthread_exit(None)";
    let mut running = under(&work, &["--timeout", "1s"], &["python3", "-c", leaves]).start();
    let program = running.until("its first thread has ended", LONG, |r| {
        let children = format!("/proc/{0}/task/{0}/children", r.process());
        let program = std::fs::read_to_string(children).ok()?.trim().to_owned();
        let stat = std::fs::read_to_string(format!("/proc/{program}/stat")).ok()?;
        stat.contains(") Z ").then_some(program)
    });
    let outcome = running.finish_within(LONG);
    assert_eq!(outcome.code, Some(124), "{outcome}");
    assert!(!std::path::Path::new(&format!("/proc/{program}")).exists(), "{program} goes on");
}
