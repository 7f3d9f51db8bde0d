//! `lazyguard clean` removes what ended processes have left, and keeps what is in use or belongs to others.

use super::common::{hanging, Job};
use super::{lazyguard, texts, Folder};
use rustix::fs::{flock, FlockOperation};
use std::fs;
use std::os::unix::fs::{symlink, MetadataExt as _};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// A process id above the kernel's limit.
const NO_PROCESS: u32 = 4_194_999;

fn user() -> u32 {
    fs::metadata("/proc/self").unwrap().uid()
}

fn namespace() -> u16 {
    lazyguard_core::old_runs::namespace()
}

/// A private folder with a recording.
fn private(folder: &Folder, kind: &str, process: u32, namespace: u16) -> PathBuf {
    let number = fs::read_dir(&folder.0).unwrap().count();
    let path = folder.of(&format!("lazyguard-{kind}{}-{process}-{namespace:04x}{number:04x}", user()));
    fs::create_dir(&path).unwrap();
    let job = Job::new();
    hanging(&job);
    job.save(&path, 60_000_000_000);
    path
}

/// What it says, and how it ends. The folders for temporary files of this machine are looked at as well, and nothing in them is
/// removed unless it is old.
fn clean(folder: &Folder, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = lazyguard(&[&["clean"], arguments].concat());
    let output = command.env("TMPDIR", folder.path()).output().unwrap();
    let (out, errors) = texts(&output);
    let of_these = |line: &&str| !line.contains('/') || line.contains(folder.path());
    (output.status.code(), out.lines().filter(of_these).map(|line| format!("{line}\n")).collect(), errors)
}

#[test]
fn what_the_dead_have_left_goes_and_nothing_else() {
    let folder = Folder::new("clean");
    let (dead, run) =
        (private(&folder, "", NO_PROCESS, namespace()), private(&folder, "run-", NO_PROCESS, namespace()));
    fs::write(run.join("supervised.json"), "{}").unwrap();
    fs::create_dir(run.join(format!("rank0-{NO_PROCESS}"))).unwrap();
    let living = private(&folder, "", std::process::id(), namespace());
    let run_lives = private(&folder, "run-", std::process::id(), namespace());
    // In another container, and not stamped since.
    let silent = private(&folder, "", NO_PROCESS, namespace() ^ 1);
    let other_user = folder.of(&format!("lazyguard-{}-{NO_PROCESS}-00000000", user() + 1));
    fs::create_dir(&other_user).unwrap();
    let target = folder.of("target");
    fs::create_dir(&target).unwrap();
    fs::write(target.join("trace.lgt"), "mine").unwrap();
    let link = folder.of(&format!("lazyguard-{}-{NO_PROCESS}-{:04x}9999", user(), namespace()));
    symlink(&target, &link).unwrap();
    // What was left long ago, so that nothing else on this machine is meant.
    let long_ago = SystemTime::now() - Duration::from_secs(1_000_000 * 3600);
    for path in [&dead, &run, &living, &run_lives, &silent, &other_user] {
        fs::File::open(path).unwrap().set_modified(long_ago).unwrap();
    }
    let all = [&dead, &run, &living, &run_lives, &silent, &other_user, &target, &link];
    let there = || all.map(|path| fs::symlink_metadata(path).is_ok());
    let old = ["--older-than", "900000h"];

    let (code, out, errors) = clean(&folder, &[&["--dry-run"], &old[..]].concat());
    assert_eq!((code, errors.as_str()), (Some(0), ""), "{out}");
    assert!(out.contains(&format!("would remove {} (process {NO_PROCESS}, ", dead.display())), "{out}");
    assert!(out.contains("2 folders would be removed, ") && there().iter().all(|&there| there), "{out}");

    let (code, out, errors) = clean(&folder, &old);
    assert_eq!((code, errors.as_str()), (Some(0), ""), "{out}");
    assert!(out.contains(&format!("removed {} (run {NO_PROCESS}, ", run.display())), "{out}");
    assert!(out.contains("\n2 folders removed, ") && out.contains(" freed\n"), "{out}");
    assert_eq!(there(), [false, false, true, true, true, true, true, true]);

    let (code, out, _) = clean(&folder, &[&["--all"], &old[..]].concat());
    assert_eq!(code, Some(0));
    assert!(out.contains("1 folder removed, "), "{out}");
    assert_eq!(there(), [false, false, true, true, false, true, true, true]);
    assert_eq!(fs::read(target.join("trace.lgt")).unwrap(), b"mine");
}

#[test]
fn a_failure_younger_than_a_day_goes_only_with_all() {
    let folder = Folder::new("clean_fresh");
    let run = private(&folder, "run-", NO_PROCESS, namespace());
    fs::write(run.join("supervised.json"), "{}").unwrap();
    fs::write(run.join("kept"), "").unwrap();
    let would = format!("would remove {}", run.display());
    let (_, out, _) = clean(&folder, &["-n"]);
    assert!(!out.contains(&would) && out.contains("kept: of failures, younger than a day (--all takes them)"), "{out}");
    assert!(clean(&folder, &["-n", "--all"]).1.contains(&would));
}

#[test]
fn what_cannot_be_removed_is_said() {
    let folder = Folder::new("clean_foreign");
    let left = private(&folder, "", NO_PROCESS, namespace());
    fs::write(left.join("notes\n::error::x"), "mine").unwrap();
    fs::File::open(&left).unwrap().set_modified(SystemTime::now() - Duration::from_secs(1_000_000 * 3600)).unwrap();
    for more in [&[][..], &["-n"]] {
        let (code, _, errors) = clean(&folder, &[&["--older-than", "900000h"], more].concat());
        assert_eq!(code, Some(1));
        assert!(errors.starts_with("lazyguard: ") && errors.contains("notes\\n::error::x"), "{errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
    }
    assert!(left.join("trace.lgt").exists());
}

#[test]
fn what_processes_of_another_host_have_stays() {
    let folder = Folder::new("clean_hosts");
    // The first namespace of process numbers has this number on every host.
    let of_every_host = 4_026_531_836_u32 as u16;
    let link = fs::read_link("/proc/self/ns/pid").unwrap();
    let of_this = link.to_str().unwrap().trim_start_matches("pid:[").trim_end_matches(']').parse::<u64>().unwrap();
    let elsewhere = [of_every_host, of_this as u16].map(|namespace| {
        let path = private(&folder, "", NO_PROCESS, namespace);
        fs::remove_file(path.join("trace.lgt")).unwrap();
        path
    });
    // Two hosts may have the same namespace number; a locked mark means that the run is alive.
    let run = private(&folder, "run-", NO_PROCESS, namespace());
    fs::write(run.join("supervised.json"), "{}").unwrap();
    let mark = fs::File::open(run.join("supervised.json")).unwrap();
    flock(&mark, FlockOperation::NonBlockingLockExclusive).unwrap();
    let removed =
        |path: &PathBuf| clean(&folder, &["--dry-run"]).1.contains(&format!("would remove {}", path.display()));
    assert_eq!((elsewhere.each_ref().map(removed), removed(&run)), ([false, false], false));
    drop(mark);
    assert!(removed(&run));
}

#[test]
fn folders_that_lie_too_deep_in_each_other_are_said() {
    let folder = Folder::new("clean_deep");
    let run = private(&folder, "run-", NO_PROCESS, namespace());
    fs::create_dir_all(run.join("d/".repeat(300))).unwrap();
    fs::File::open(&run).unwrap().set_modified(SystemTime::now() - Duration::from_secs(1_000_000 * 3600)).unwrap();
    let (code, out, errors) = clean(&folder, &["--older-than", "900000h"]);
    assert_eq!((code, errors.lines().count()), (Some(1), 1), "{out}{errors}");
    assert!(errors.contains(run.to_str().unwrap()) && errors.contains("deeper"), "{errors}");
    assert!(run.join("d/d/d/d/d/d").exists() && !run.join("trace.lgt").exists());
}
