//! Another kind of file in place of one that a command reads: the command says so in one line, and never waits for it.

use super::common::{hanging, launch, Job};
use super::{lazyguard, texts, Folder};
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Every file that a command reads in a run folder.
const FILES: [&str; 7] =
    ["trace.lgt", "hang.json", "run.json", "hazards.json", "stacks.dmp", "supervised.json", "card.json"];

fn fifo(path: &Path) {
    let _ = fs::remove_file(path);
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// What a command comes to that must not wait.
fn at_once(arguments: &[&str]) -> Output {
    let mut child = lazyguard(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let since = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if since.elapsed() > Duration::from_secs(20) {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{arguments:?} waits");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.wait_with_output().unwrap()
}

fn each_command(folder: &str) {
    let copy = format!("{}-copy", folder.trim_end_matches('/'));
    let _ = fs::remove_dir_all(&copy);
    for arguments in [
        &["report", folder][..],
        &["report", folder, "--format", "json"],
        &["report", folder, "--hazards"],
        &["report", folder, "--cold-start"],
        &["report", folder, "--blocking"],
        &["log", folder],
        &["export", folder, "--to", "perfetto", "-o", "/dev/null"],
        &["dump", folder],
        &["health", folder],
        &["metrics", folder],
        &["anonymise", folder, &copy],
    ] {
        let output = at_once(arguments);
        let (_, errors) = texts(&output);
        assert!(output.status.code().is_some_and(|code| code < 2), "{arguments:?}: {errors}");
        assert!(errors.lines().all(|line| line.starts_with("lazyguard: ")), "{arguments:?}: {errors}");
    }
    let _ = fs::remove_dir_all(&copy);
}

#[test]
fn no_command_waits_for_what_is_no_file() {
    let folder = Folder::new("in_the_way");
    for name in FILES {
        let _ = fs::remove_dir_all(folder.of(""));
        let one = folder.of("rank0-4242");
        fs::create_dir_all(&one).unwrap();
        let job = Job::new();
        hanging(&job);
        job.save(&one, 60_000_000_000);
        fifo(&one.join(name));
        each_command(one.to_str().unwrap());
        // The folder of a run, and one that holds all kinds of things, as /tmp does.
        fifo(&folder.of(name));
        each_command(folder.path());
    }
    fifo(&folder.of("dump.json"));
    fifo(&folder.of("dump.txt"));
    each_command(folder.path());
}

#[test]
fn what_is_in_the_way_is_said() {
    let folder = Folder::new("in_the_way_said");
    fs::write(folder.of("log.jsonl"), "").unwrap();
    for name in ["trace.lgt", "hang.json"] {
        fifo(&folder.of(name));
        let (_, errors) = texts(&at_once(&["report", folder.path()]));
        assert!(errors.contains(&format!("{name}: it is a FIFO, and no file")), "{errors}");
        fs::remove_file(folder.of(name)).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", folder.of(name)).unwrap();
        let (_, errors) = texts(&at_once(&["report", folder.path()]));
        assert!(errors.contains(&format!("{name}: it is a symbolic link")), "{errors}");
        fs::remove_file(folder.of(name)).unwrap();
    }
}

#[test]
fn the_file_whose_code_was_called_is_another_thing_now() {
    let folder = Folder::new("in_the_way_code");
    fifo(&folder.of("train"));
    let job = Job::new();
    let main = job.thread(100, "main");
    let path = folder.of("train");
    job.tracker.recorder().add_file(0, 0x40_0000, 0x48_0000, 0x40_0000, path.to_str().unwrap());
    job.make(main, &launch(0, 0, 100), 5, 0);
    job.save(&folder.0, 1_000_000);
    let (out, errors) = texts(&at_once(&["log", folder.path()]));
    assert!(out.contains("from train+0x1234") && errors.is_empty(), "{out}{errors}");
}

/// Without a name for it, the timeline goes into the run folder.
#[test]
fn a_timeline_is_not_written_to_where_a_link_leads() {
    let folder = Folder::new("in_the_way_timeline");
    Job::new().save(&folder.0, 10);
    fs::write(folder.of("mine"), "mine").unwrap();
    let timeline = folder.of("trace.perfetto-trace");
    std::os::unix::fs::symlink("mine", &timeline).unwrap();
    let export = || at_once(&["export", folder.path(), "--to", "perfetto"]);
    assert_eq!(export().status.code(), Some(1));
    assert_eq!(fs::read(folder.of("mine")).unwrap(), b"mine");
    fifo(&timeline);
    assert_eq!(export().status.code(), Some(1));
    fs::remove_file(&timeline).unwrap();
    assert_eq!((export().status.code(), export().status.code()), (Some(0), Some(0)));
}

#[test]
fn a_link_that_the_user_names_is_followed() {
    let folder = Folder::new("in_the_way_links");
    fs::create_dir(folder.of("run")).unwrap();
    let job = Job::new();
    hanging(&job);
    job.save(&folder.of("run"), 60_000_000_000);
    std::os::unix::fs::symlink("run", folder.of("latest")).unwrap();
    std::os::unix::fs::symlink("run/trace.lgt", folder.of("recording")).unwrap();
    for name in ["latest", "recording"] {
        let output = at_once(&["report", folder.of(name).to_str().unwrap()]);
        let (out, errors) = texts(&output);
        assert!(out.contains(" pid 4242 (train): blocked ") && errors.is_empty(), "{out}{errors}");
    }
}
