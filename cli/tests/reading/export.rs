//! `lazyguard export`: the file, its place, and the choice of recording. Tests of the contents are beside the code that makes them.

use super::common::{facts, launch, Job};
use super::{lazyguard, said, Folder};
use lazyguard_core::diagnose::snapshot_at;
use lazyguard_core::report::{json, HangReport, PreloadSummary};
use lazyguard_core::trace::read::Recording;
use lazyguard_core::trace::Record;
use std::fs;

fn a_run(folder: &Folder) {
    let job = Job::new();
    let main = job.thread(100, "main");
    let stream = job.stream(0x51);
    let k = job.function("_Z6kernelv");
    (0..10).for_each(|n| job.make(main, &launch(stream, k, 1_000_000 * (n + 1)), 5_000, 0));
    job.hold(main, &facts("cuCtxSynchronize", 20_000_000));
    job.save(&folder.0, 30_000_000);
}

/// A run that is killed while it waits for a kernel: until when it was seen, in nanoseconds.
fn a_hang(folder: &Folder, seen: u64) -> Job {
    let job = Job::new();
    let main = job.thread(100, "main");
    let stream = job.stream(0x51);
    let k = job.function("_Z4spinv");
    job.make(main, &launch(stream, k, 1_000_000), 5_000, 0);
    job.hold(main, &Record { stream, ..facts("cuStreamSynchronize", 2_000_000) });
    job.save(&folder.0, seen);
    job
}

fn exported(folder: &Folder) -> Vec<u8> {
    said(&["export", folder.path(), "--to", "perfetto"]);
    fs::read(folder.of("trace.perfetto-trace")).unwrap()
}

#[test]
fn the_verdict_of_the_recording_stands_in_the_timeline() {
    let folder = Folder::new("verdict");
    a_hang(&folder, 30_000_000_000);
    // It was killed before anything without a pattern could be called a hang.
    assert_eq!(count(&exported(&folder), "LazyGuard verdict"), 0);
    a_hang(&folder, 300_000_000_000);
    let bytes = exported(&folder);
    for (text, times) in [("LazyGuard verdict", 1), ("LG299: ", 1), ("the recording", 1), ("over since", 0)] {
        assert_eq!(count(&bytes, text), times, "{text}");
    }
    let part = said(&["export", folder.path(), "--to", "perfetto", "--until", "0.5ms"]);
    assert!(part.contains(": 0 slices "), "{part}");
}

#[test]
fn a_reported_hang_stands_in_the_timeline_with_the_verdict_of_this_build() {
    let folder = Folder::new("reported");
    let job = a_hang(&folder, 300_000_000_000);
    let report = |at| {
        let recording = Recording::open(job.bytes(1)).unwrap();
        let snapshot = snapshot_at(&recording, at, 1_000, 1_000).unwrap();
        let mut hang = HangReport::new(4242, "train", None, snapshot, PreloadSummary::default());
        hang.verdicts[0].title = "as another build has it".to_owned();
        hang
    };
    fs::write(folder.of("hang.json"), json(&report(200_000_000))).unwrap();
    let bytes = exported(&folder);
    for (text, times) in [("as another build has it", 0), ("LG299: ", 1), ("hang.json", 1), ("over since", 0)] {
        assert_eq!(count(&bytes, text), times, "{text}");
    }
    // Another call of the thread is in progress now, so that one has returned.
    let mut over = report(200_000_000);
    over.snapshot.blocked[0].entered = 1_500_000;
    fs::write(folder.of("hang.json"), json(&over)).unwrap();
    let bytes = exported(&folder);
    for (text, times) in [("as another build has it", 0), ("LG299: ", 1), ("hang.json", 1), ("over since", 1)] {
        assert_eq!(count(&bytes, text), times, "{text}");
    }
    fs::write(folder.of("hang.json"), "{").unwrap();
    assert_eq!(count(&exported(&folder), "the recording"), 1);
}

/// How often a text occurs in a file.
fn count(bytes: &[u8], text: &str) -> usize {
    bytes.windows(text.len()).filter(|window| *window == text.as_bytes()).count()
}

#[test]
fn a_timeline_goes_into_the_run_folder_or_where_it_is_wanted() {
    let folder = Folder::new("timeline");
    a_run(&folder);
    let line = said(&["export", folder.path(), "--to", "perfetto"]);
    let path = folder.of("trace.perfetto-trace");
    assert!(line.starts_with(&format!("{}: 21 slices in 0.0 MB; ", path.display())), "{line}");
    let bytes = fs::read(&path).unwrap();
    // A trace is a list of packets, each with its length; a name is there once: the kernel's as an operation's and as a fact.
    assert_eq!(bytes[0], 0x0a);
    assert_eq!(
        (count(&bytes, "kernel"), count(&bytes, "cuLaunchKernel"), count(&bytes, "cuCtxSynchronize")),
        (2, 1, 1)
    );
    said(&["export", folder.path(), "--to", "perfetto", "-o", folder.of("elsewhere").to_str().unwrap()]);
    assert_eq!(fs::read(folder.of("elsewhere")).unwrap(), bytes);
    let piped = lazyguard(&["export", folder.path(), "--to", "perfetto", "-o", "-"]).output().unwrap();
    assert_eq!(piped.stdout, bytes);
}

#[test]
fn a_part_of_the_run_can_be_chosen() {
    let folder = Folder::new("part");
    a_run(&folder);
    let part = |filter: &[&str]| {
        let line = said(&[&["export", folder.path(), "--to", "perfetto"], filter].concat());
        line.split(": ").nth(1).and_then(|rest| rest.split(' ').next()).map(str::to_owned).unwrap()
    };
    assert_eq!(part(&["--since", "9ms"]), "5");
    assert_eq!(part(&["--until", "2ms"]), "4");
    assert_eq!(part(&["--since", "3ms", "--until", "3.5ms"]), "2");
}
