//! The guard does not affect a process that never touches CUDA.

use lazyguard_e2e::{app, root, Outcome, Run, Work};
use std::fs;
use std::process::Command;

/// Command lines that any machine has, and that start threads, children, pipes and interpreters between them.
const COMMANDS: [(&str, &[&str]); 9] = [
    ("/bin/true", &[]),
    ("/bin/false", &[]),
    ("bash", &["-c", "echo out; echo err >&2; exit 3"]),
    ("sh", &["-c", "printf '3\\n1\\n2\\n' | sort | (cat; echo done) | tr a-z A-Z; kill -0 $$ && echo alive"]),
    ("python3", &["-c", "pass"]),
    ("python3", &["-c", "import sys, threading, subprocess\nt = threading.Thread(target=print, args=('thread',)); t.start(); t.join()\nprint(subprocess.run(['echo', 'child'], capture_output=True).stdout); sys.exit(5)"]),
    ("git", &["--version"]),
    ("ls", &["-a", "/"]),
    ("bash", &["-c", "set -o pipefail; (exit 4) | cat; exit ${PIPESTATUS[0]}"]),
];

fn bare_and_guarded(program: &str, args: &[&str], work: &Work, settings: &[(&str, &str)]) -> [Outcome; 2] {
    let run = || settings.iter().fold(Run::new(work, program).args(args), |run, (name, value)| run.set(name, value));
    [run().finish(), run().guarded().finish()]
}

fn expect_unnoticed(program: &str, args: &[&str], work: &Work, settings: &[(&str, &str)]) {
    let [bare, guarded] = bare_and_guarded(program, args, work, settings);
    guarded.expect_same_as(&bare);
    assert_eq!(guarded.left_behind(), bare.left_behind(), "files were left in TMPDIR by {program}");
}

#[test]
fn ordinary_programs_print_the_same_and_leave_no_file() {
    let work = Work::new(lazyguard_e2e::this_test!());
    COMMANDS.iter().for_each(|(program, args)| expect_unnoticed(program, args, &work, &[]));
}

#[test]
fn not_even_with_a_folder_asked_for() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let folder = work.path().join("asked-for");
    let settings = [("LAZYGUARD_OUT", folder.to_str().unwrap_or_default()), ("LAZYGUARD_SUMMARY", "on")];
    COMMANDS.iter().for_each(|(program, args)| expect_unnoticed(program, args, &work, &settings));
    assert!(!folder.exists(), "a folder was made");
}

#[test]
fn not_even_with_settings_that_make_no_sense() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let settings = [("LAZYGUARD", "perhaps"), ("LAZYGUARD_PRELOAD", "yesterday"), ("LAZYGUARD_NO_SUCH", "1")];
    COMMANDS.iter().for_each(|(program, args)| expect_unnoticed(program, args, &work, &settings));
}

#[test]
fn the_environment_is_as_it_was() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let [bare, guarded] = bare_and_guarded("env", &[], &work, &[]);
    // These folders are each run's own, and LD_PRELOAD is the guard.
    let rest = |outcome: &Outcome| {
        let differs =
            |line: &str| ["LD_PRELOAD=", "TMPDIR=", "XDG_CACHE_HOME="].iter().any(|name| line.starts_with(name));
        let own = |line: &&str| !differs(line);
        outcome.stdout.lines().filter(own).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!((guarded.code, rest(&guarded), &guarded.stderr), (bare.code, rest(&bare), &bare.stderr));
}

#[test]
fn no_thread_is_started_and_no_descriptor_is_opened() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let count = "import os, time\ntime.sleep(0.3)\nprint(len(os.listdir('/proc/self/task')), sorted(os.listdir('/proc/self/fd')))";
    let [bare, guarded] = bare_and_guarded("python3", &["-c", count], &work, &[]);
    assert!(bare.stdout.starts_with("1 "), "{bare}");
    guarded.expect_same_as(&bare);
}

#[test]
fn a_script_that_only_starts_a_cuda_program_has_no_folder_of_its_own() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let program = app("route_direct_link");
    // The last command is the shell's own: a shell runs a program that comes last in its own place.
    let script = format!("'{}' && '{}' && :", program.display(), program.display());
    let out = work.path().join("out-%p");
    let outcome = Run::new(&work, "bash").args(["-c", &script]).guarded().set("LAZYGUARD_OUT", &out).finish();
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "route ok 3\nroute ok 3\n"), "{outcome}");
    let names =
        fs::read_dir(work.path()).into_iter().flatten().flatten().map(|e| e.file_name().to_string_lossy().into_owned());
    let folders: Vec<_> = names.filter(|name| name.starts_with("out-")).collect();
    assert_eq!(folders.len(), 2, "one folder for each program that used CUDA: {folders:?}");
    assert!(!folders.contains(&format!("out-{}", outcome.process)), "the shell has a folder: {folders:?}");
}

/// Sixteen of the programs that `scripts/check-harmless --all` runs, with real work: preloaded, and under `lazyguard run`.
#[test]
fn ordinary_programs_do_what_they_did() {
    let output = Command::new(root().join("scripts/check-harmless")).output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.ends_with(" passed, 0 failed\n"), "{said}");
}
