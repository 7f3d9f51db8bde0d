//! A file that permissions hide is not reported as missing.

use super::common::{hanging, Job};
use super::{texts, Folder};
use std::fs::{self, Permissions};
use std::os::unix::fs::{chown, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A user of no process and of no file but those of these tests.
const OTHER: u32 = 54_321;

fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

/// A command of an administrator without the right to read all files, as in a container with reduced rights; of another user, with that
/// user's rights. `None` where this machine cannot drop rights.
fn without_rights(arguments: &[&str]) -> Option<Command> {
    let own = env!("CARGO_BIN_EXE_lazyguard");
    if !is_root() {
        let mut command = Command::new(own);
        command.args(arguments);
        return Some(command);
    }
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-dac_override,-dac_read_search,-kill,-sys_ptrace", "--inh-caps=-all"]);
    let works = Command::new("setpriv").args(["--bounding-set=-dac_override", "true"]).output();
    if !works.is_ok_and(|output| output.status.success()) {
        eprintln!("left out: setpriv cannot take rights away here");
        return None;
    }
    command.arg(own).args(arguments);
    Some(command)
}

fn run(mut command: Command) -> (Option<i32>, String, String) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let (out, errors) = texts(&output);
    (output.status.code(), out, errors)
}

/// Another user's, if this one may give something away; else just not readable.
fn keep_for_the_other(path: &Path, mode: u32) {
    if is_root() {
        chown(path, Some(OTHER), Some(OTHER)).unwrap();
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    } else {
        fs::set_permissions(path, Permissions::from_mode(0o000)).unwrap();
    }
}

/// The run folder of a job that was killed.
fn killed(folder: &Folder) -> PathBuf {
    let job = Job::new();
    hanging(&job);
    let path = folder.of("run");
    fs::create_dir(&path).unwrap();
    job.save(&path, 60_000_000_000);
    fs::write(path.join("log.jsonl"), "").unwrap();
    path
}

fn expect_permissions_named(errors: &str) {
    let expect = if is_root() { format!("ask as user {OTHER}") } else { "its own user".to_owned() };
    assert!(errors.contains(&expect), "{errors}");
}

#[test]
fn a_recording_that_may_not_be_read_is_there_and_its_process_is_not_said_to_run() {
    let folder = Folder::new("permissions_recording");
    let path = killed(&folder);
    keep_for_the_other(&path.join("trace.lgt"), 0o400);
    let Some(command) = without_rights(&["report", path.to_str().unwrap()]) else { return };
    let (code, out, errors) = run(command);
    assert_eq!(code, Some(1), "{out}{errors}");
    assert!(!out.contains("still runs") && !out.contains("went with the process"), "{out}");
    assert!(out.contains("the recording (trace.lgt) cannot be read: "), "{out}");
    expect_permissions_named(&errors);
}

#[test]
fn a_folder_that_may_not_be_looked_into_is_one() {
    let folder = Folder::new("permissions_folder");
    let path = killed(&folder);
    keep_for_the_other(&path, 0o700);
    for arguments in
        [&["report", path.to_str().unwrap()][..], &["log", path.to_str().unwrap()], &["report", folder.path()]]
    {
        let Some(command) = without_rights(arguments) else { return };
        let (code, out, errors) = run(command);
        assert_eq!((code, out.as_str()), (Some(1), ""), "{arguments:?}: {errors}");
        expect_permissions_named(&errors);
    }
    fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn what_a_process_has_left_for_its_user_alone_is_said_to_be_that() {
    if !is_root() {
        return;
    }
    let folder = Folder::new("permissions_private");
    // Beyond what the kernel gives.
    let left = folder.of(&format!("lazyguard-{OTHER}-4194999-00000001"));
    fs::rename(killed(&folder), &left).unwrap();
    keep_for_the_other(&left, 0o700);
    let Some(mut command) = without_rights(&["report", "4194999"]) else { return };
    command.env("TMPDIR", folder.path());
    let (code, out, errors) = run(command);
    assert_eq!((code, out.as_str()), (Some(1), ""), "{errors}");
    assert!(errors.contains(left.to_str().unwrap()) && errors.lines().count() == 1, "{errors}");
    expect_permissions_named(&errors);
}

/// A process that another user must not see (`hidepid`) is there.
#[test]
fn a_process_that_is_hidden_is_not_said_to_be_gone() {
    let folder = Folder::new("permissions_hidden");
    let copy = folder.of("lazyguard");
    fs::copy(env!("CARGO_BIN_EXE_lazyguard"), &copy).unwrap();
    let script = format!(
        "mount -t proc -o hidepid=2 proc /proc && exec setpriv --reuid={OTHER} --clear-groups -- \"$0\" \"$@\""
    );
    let run = |arguments: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", &script]).arg(&copy).args(arguments);
        run(command)
    };
    // Where the folder or the mount is out of reach, there is nothing to try.
    let (code, out, errors) = run(&["symbols"]);
    if code != Some(0) || !out.contains("cuInit") {
        eprintln!("left out: no mount of /proc, or no other user, here: {errors}");
        return;
    }
    let own = std::process::id().to_string();
    for command in ["report", "log", "dump"] {
        let (code, out, errors) = run(&[command, &own]);
        assert_eq!((code, out.as_str()), (Some(1), ""), "{command}: {errors}");
        assert!(
            errors.contains("runs, and cannot be looked into") && errors.contains("CAP_SYS_PTRACE"),
            "{command}: {errors}"
        );
    }
    let (_, _, errors) = run(&["report", "4194999"]);
    assert!(errors.contains("there is no process with this id"), "{errors}");
}
