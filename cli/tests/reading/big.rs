//! The command reads a gigabyte of records in seconds and in little memory.

use super::common::{about, ended_process, facts, launch, submit, Job};
use super::Folder;
use lazyguard_core::trace::layout::Shape;
use lazyguard_core::trace::{RawPayload, Record};
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const THREADS: u32 = 8;
const STREAMS: u64 = 64;
const FUNCTIONS: u64 = 1000;

/// A recording of this size, full to the brim: launches, and now and then a copy, an event, a write, or a synchronize.
fn fill(job: &Job, bytes: usize) {
    let threads: Vec<_> = (0..THREADS).map(|n| job.thread(100 + n, "worker")).collect();
    let streams: Vec<_> = (0..STREAMS).map(|n| job.stream(0x1000 + n)).collect();
    let kernels: Vec<_> = (0..FUNCTIONS).map(|n| job.function(&format!("_ZN2at6native6kernelILi{n}EEEvPfi"))).collect();
    for n in 0..(bytes / 64) as u64 {
        let at = 1_000 * n;
        let thread = threads[(n % 8) as usize];
        let stream = streams[(n / 8 % STREAMS) as usize];
        let event = |record: Record| about(0xe000 + n / 64 % 512, record);
        let record = match n % 64 {
            20 => Record { raw: RawPayload::memory(0, 4096), ..submit("cuMemcpyHtoDAsync_v2", stream, at) },
            30 => super::common::write(stream, 0xf000 + n % 128, n, at),
            40 => event(submit("cuEventRecord", stream, at)),
            50 => event(submit("cuStreamWaitEvent", stream, at)),
            60 => {
                job.synchronize(thread, stream, at, 450);
                continue;
            }
            _ => launch(stream, kernels[(n % FUNCTIONS) as usize], at),
        };
        job.make(thread, &Record { caller: 0x40_1000 + n % 97 * 16, ..record }, 450, 0);
    }
    job.hold(threads[0], &facts("cuCtxSynchronize", 1_000 * (bytes / 64) as u64));
}

/// Takes a gigabyte of memory, twice that of disk, and a minute; by hand, with `--ignored --nocapture`, and in a release
/// build it shows how long each command takes.
#[test]
#[ignore = "takes gigabytes and a minute"]
fn a_gigabyte_of_records_is_read_in_seconds_and_in_little_memory() {
    let folder = Folder::new("gigabyte");
    let job = Job::of(Shape::of_bytes(1 << 30), &ended_process());
    fill(&job, 1 << 30);
    job.tracker.recorder().seen_alive(1 << 44);
    let mut file = BufWriter::with_capacity(1 << 20, File::create(folder.of("trace.lgt")).unwrap());
    for word in job.tracker.recorder().words() {
        file.write_all(&word.load(Ordering::Relaxed).to_le_bytes()).unwrap();
    }
    file.flush().unwrap();
    for command in [
        "report FOLDER",
        "report FOLDER --format json",
        "log FOLDER --last 5",
        "log FOLDER --function 'kernel<7>' --slower-than 1s",
        "log FOLDER",
        "log FOLDER --format json",
        "export FOLDER --to perfetto",
    ] {
        let begun = Instant::now();
        // Address space is more than memory; the commands need no tenth of the recording.
        let line = format!("ulimit -v 200000; exec \"$LAZYGUARD\" {}", command.replace("FOLDER", "\"$FOLDER\""));
        let mut shell = Command::new("bash");
        shell.args(["-c", &line]).env("LAZYGUARD", env!("CARGO_BIN_EXE_lazyguard")).env("FOLDER", folder.path());
        let status = shell.stdin(Stdio::null()).stdout(Stdio::null()).status().unwrap();
        let took = begun.elapsed();
        assert!(status.success(), "{command}: {status}");
        assert!(took < Duration::from_secs(120), "{command}: {took:?}");
        println!("{took:8.2?}  lazyguard {command}");
    }
}
