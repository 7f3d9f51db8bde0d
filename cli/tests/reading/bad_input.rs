//! Unreadable input gives one clear line and an exit code.

use super::common::{ended_process, hanging, Job, SMALL};
use super::{lazyguard, texts, Folder};
use lazyguard_core::api::EntryPoint;
use lazyguard_core::state::Caller;
use lazyguard_core::trace::ProcessFacts;
use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::Stdio;

/// Fails with this code, one line of explanation, and nothing on standard output.
fn refused(arguments: &[&str], code: i32, expect: &str) {
    let output = lazyguard(arguments).output().unwrap();
    let (out, errors) = texts(&output);
    assert_eq!((output.status.code(), out.as_str()), (Some(code), ""), "{arguments:?}: {errors}");
    assert!(errors.contains(expect), "{arguments:?}: {errors}");
    assert!(errors.lines().count() == 1 && errors.starts_with("lazyguard: "), "{arguments:?}: {errors}");
}

/// Each command that reads a recording, about this.
fn each(what: &str, expect: &str) {
    refused(&["report", what], 1, expect);
    refused(&["report", what, "--format", "json"], 1, expect);
    refused(&["log", what], 1, expect);
    refused(&["export", what, "--to", "perfetto"], 1, expect);
    let copy = concat!(env!("CARGO_TARGET_TMPDIR"), "/never-made");
    refused(&["anonymise", what, copy], 1, expect);
    assert!(!Path::new(copy).exists());
}

#[test]
fn there_is_nothing_there() {
    let folder = Folder::new("nothing");
    each(folder.of("missing").to_str().unwrap(), "there is no such folder");
    refused(&["log", folder.path()], 1, "holds no recording (trace.lgt)");
    refused(&["export", folder.path(), "--to", "perfetto"], 1, "holds no recording (trace.lgt)");
    refused(&["report", folder.path()], 1, "not a run folder");
    refused(&["anonymise", folder.path(), "copy"], 1, "holds no recording that can be read");
}

#[test]
fn there_is_something_else() {
    let folder = Folder::new("something_else");
    for content in [&b"LGTRACE"[..], b"{\"at_ns\":1}\n", &[7; 1 << 16]] {
        fs::write(folder.of("trace.lgt"), content).unwrap();
        each(folder.path(), "trace.lgt: this is not a recording");
    }
    // What a process leaves that is killed while it makes its recording; under another name it may be anything.
    for content in [&b""[..], &[0; 1 << 16]] {
        fs::write(folder.of("trace.lgt"), content).unwrap();
        each(folder.path(), "trace.lgt: nothing was recorded: the process was killed before anything was");
        let other = folder.of("other.bin");
        fs::write(&other, content).unwrap();
        each(other.to_str().unwrap(), "other.bin: this is not a recording");
        fs::remove_file(other).unwrap();
    }
    let mut newer = Job::new().bytes(0);
    newer[8] = 9;
    fs::write(folder.of("trace.lgt"), newer).unwrap();
    each(folder.path(), "a recording of version 9");
    each(folder.path(), "; this build reads version 1");
    fs::remove_file(folder.of("trace.lgt")).unwrap();
    fs::create_dir(folder.of("trace.lgt")).unwrap();
    each(folder.path(), "trace.lgt: ");
}

#[test]
fn a_form_of_another_number_is_one_line_with_the_lazyguard_that_wrote_it() {
    let folder = Folder::new("other_form");
    fs::write(folder.of("hang.json"), "{\"schema\": 2, \"stands\": \"otherwise\"}").unwrap();
    let line = "hang.json: it is of format 2; this build reads format 1\n";
    refused(&["report", folder.path()], 1, line);
    fs::write(folder.of("run.json"), "{\"schema\": 2, \"version\": \"9.8.7\"}").unwrap();
    let (out, errors) = texts(&lazyguard(&["report", folder.path()]).output().unwrap());
    let lines: Vec<_> = errors.lines().filter_map(|line| line.rsplit_once('/')).map(|(_, line)| line).collect();
    let line = |form: &str| format!("{form}: it is of format 2, written by LazyGuard 9.8.7; this build reads format 1");
    assert_eq!((out.as_str(), lines), ("", vec![&*line("hang.json"), &*line("run.json")]));
}

/// What a rank did on the host may be all that explains a hang.
#[test]
fn a_damaged_look_at_the_host_side_costs_a_line() {
    let folder = Folder::new("look");
    fs::write(folder.of("trace.lgt"), Job::new().bytes(0)).unwrap();
    let report = || lazyguard(&["report", folder.path()]).output().unwrap();
    let whole = report();
    assert_eq!((whole.status.code(), texts(&whole).1.as_str()), (Some(0), ""));
    for damaged in ["", "{\"process\": 7", "[]"] {
        fs::write(folder.of("evidence.json"), damaged).unwrap();
        let found = report();
        let (out, errors) = texts(&found);
        assert_eq!((found.status.code(), out), (Some(1), texts(&whole).0), "{damaged:?}");
        assert!(errors.lines().count() == 1 && errors.contains("evidence.json: "), "{damaged:?}: {errors}");
    }
}

#[test]
fn a_long_recording_that_takes_next_to_no_room_is_read_at_once_and_in_little_memory() {
    let folder = Folder::new("hollow");
    let mut bytes = Job::new().bytes(0);
    let (segments, threads) = (18 * 8, 10 * 8);
    // As many segments and threads as a count can say.
    bytes[segments..segments + 4].fill(0xff);
    bytes[threads..threads + 4].fill(0xff);
    fs::write(folder.of("trace.lgt"), bytes).unwrap();
    let file = fs::OpenOptions::new().write(true).open(folder.of("trace.lgt")).unwrap();
    file.set_len(64 << 30).unwrap();
    let copy = folder.of("copy");
    for arguments in [format!("report {}", folder.path()), format!("anonymise {} {}", folder.path(), copy.display())] {
        let line = format!("ulimit -v 400000 -t 20; exec {} {arguments}", env!("CARGO_BIN_EXE_lazyguard"));
        let output = std::process::Command::new("bash").args(["-c", &line]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", texts(&output).1);
    }
    assert!(fs::metadata(copy.join("trace.lgt")).is_ok_and(|about| about.len() < 16 << 10));
    file.set_len(7 << 40).unwrap();
    each(folder.path(), "trace.lgt: this is no recording: it has 7696581394432 bytes");
}

/// Rank 0 waits for rank 1 in the call that makes their communicator, or rank 1 hangs by itself.
fn ranks(folder: &Folder, hangs: bool) {
    for rank in [0, 1] {
        let facts = ProcessFacts { process: 4242 + rank, rank: rank.to_string(), ..ended_process() };
        let job = Job::of(SMALL, &facts);
        if rank == 0 || hangs {
            job.tracker.communicators().begin(0x77, 5).expect("an entry").set_rank(rank, 2);
        }
        if rank == 0 {
            let slot = job.tracker.thread(job.thread(100, "main")).expect("a thread");
            let call = EntryPoint::by_symbol(b"ncclCommInitRank").expect("in the table");
            assert!(slot.enter_outer(call, 1, Caller::default(), 1_000_000_000));
        } else if hangs {
            hanging(&job);
        }
        let of_rank = folder.of(&format!("rank{rank}-{}", facts.process));
        fs::create_dir_all(&of_rank).unwrap();
        job.save(&of_rank, 60_000_000_000);
    }
}

#[test]
fn no_number_of_a_communicator_costs_a_report_much_time_or_memory() {
    let folder = Folder::new("communicator");
    let place = 96 * 8;
    for hangs in [false, true] {
        ranks(&folder, hangs);
        let trace = folder.of("rank0-4242/trace.lgt");
        let whole = fs::read(&trace).unwrap();
        for at in (place..place + 64).step_by(4) {
            for value in [0, 0x7fff_ffff, 0xffff_ff00, u32::MAX] {
                let mut damaged = whole.clone();
                damaged[at..at + 4].copy_from_slice(&value.to_le_bytes());
                fs::write(&trace, damaged).unwrap();
                let line =
                    format!("ulimit -v 400000 -t 5; exec {} report {}", env!("CARGO_BIN_EXE_lazyguard"), folder.path());
                let output = std::process::Command::new("bash").args(["-c", &line]).output().unwrap();
                assert_eq!(output.status.code(), Some(0), "{at}, {value:#x}: {}", texts(&output).1);
            }
        }
    }
}

#[test]
fn the_process_is_not_there_or_keeps_no_recording() {
    // Process ids end before four million.
    each("4294967294", "process 4294967294: there is no process with this id, and no folder of this name");
    let own = std::process::id().to_string();
    for command in [&["log", &own][..], &["export", &own, "--to", "perfetto"], &["anonymise", &own, "/never-made"]] {
        refused(command, 1, "keeps no recording in a file");
        refused(command, 1, &format!("; one that is not guarded: lazyguard report {own}"));
    }
}

#[test]
fn a_recording_that_cannot_be_read_keeps_nobody_from_the_rest() {
    let folder = Folder::new("rest");
    fs::write(folder.of("trace.lgt"), "nonsense").unwrap();
    fs::write(folder.of("log.jsonl"), "").unwrap();
    let output = lazyguard(&["report", folder.path()]).output().unwrap();
    let (out, errors) = texts(&output);
    assert_eq!(output.status.code(), Some(1));
    assert!(out.contains("no summary") && out.contains("log.jsonl"), "{out}");
    assert!(errors.contains("this is not a recording") && errors.lines().count() == 1, "{errors}");
}

#[test]
fn unusable_arguments_are_told_from_what_is_not_there() {
    for arguments in [
        &["report"][..],
        &["log"],
        &["export", "/"],
        &["export", "/", "--to", "paper"],
        &["log", "/", "--lane", "fast"],
        &["log", "/", "--event", "party"],
        &["log", "/", "--since", "yesterday"],
        &["log", "/", "--slower-than", "-1s"],
        &["log", "/", "--last", "few"],
        &["log", "/", "--stream", "main"],
        &["log", "/", "--format", "xml"],
        &["anonymise", "/"],
        &["anonymise", "/", "copy", "--last", "0"],
        &["symbols", "--name"],
    ] {
        refused(arguments, 2, "lazyguard: ");
    }
}

#[test]
fn what_is_no_process_and_no_folder_is_said_plainly() {
    for command in ["report", "health", "dump", "log", "top"] {
        refused(&[command, "-1"], 2, &format!("-1: neither a process nor a folder (see lazyguard {command} --help)"));
    }
    for command in ["dump", "ready"] {
        refused(
            &[command, "abc"],
            2,
            "abc: neither a process nor a folder; a process that runs is named by its number",
        );
    }
    refused(&["report", "abc"], 1, "abc: there is no such folder, and it is no number of a process");
}

#[test]
fn a_timeline_that_cannot_be_written_leaves_nothing_behind() {
    let folder = Folder::new("unwritable");
    Job::new().save(&folder.0, 10);
    refused(
        &["export", folder.path(), "--to", "perfetto", "-o", "/no/such/folder/t"],
        1,
        "cannot write /no/such/folder/t",
    );
    refused(&["export", folder.path(), "--to", "perfetto", "-o", "/dev/full"], 1, "cannot write /dev/full");
    assert!(fs::metadata("/dev/full").is_ok());
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let folder = Folder::new("enough");
    let job = Job::new();
    let main = job.thread(100, "main");
    (0..5000).for_each(|n| job.make(main, &super::common::launch(0, 0, 100 + 10 * n), 5, 0));
    job.save(&folder.0, 1_000_000);
    for arguments in [&["log", folder.path()][..], &["export", folder.path(), "--to", "perfetto", "-o", "-"]] {
        let mut child = lazyguard(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut some = [0; 16];
        child.stdout.take().unwrap().read_exact(&mut some).unwrap();
        // The pipe is closed now, with most of it unread.
        let output = child.wait_with_output().unwrap();
        let (_, errors) = texts(&output);
        assert_eq!((output.status.code(), errors.as_str()), (Some(0), ""), "{arguments:?}");
    }
}
