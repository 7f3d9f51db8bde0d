//! A process by its id: the command finds its recording among the mapped files.

use super::common::{ended_process, facts, launch, Job, SMALL};
use super::{said, Folder};
use lazyguard_core::trace::{ProcessFacts, Record};
use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

/// A process that has mapped a file, as a guarded one has its recording.
pub(super) struct Mapping(Child);

impl Mapping {
    fn of(path: &Path) -> Self {
        const PROGRAM: &str = "import mmap, sys\n\
             with open(sys.argv[1], 'rb') as file: mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)\n\
             print('mapped', flush=True)\n\
             sys.stdin.read()";
        let mut python = Command::new("python3");
        python.args(["-c", PROGRAM]).arg(path).stdin(Stdio::piped()).stdout(Stdio::piped());
        Self(python.spawn().expect("python3"))
    }

    /// Waits until the file is mapped.
    fn ready(&mut self) {
        let mut line = String::new();
        let out = self.0.stdout.as_mut().expect("a pipe");
        BufReader::new(out).read_line(&mut line).expect("a line");
        assert_eq!(line, "mapped\n");
    }

    pub(super) fn id(&self) -> String {
        self.0.id().to_string()
    }

    fn start_ticks(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id())).expect("the process is there");
        stat.rsplit_once(") ").expect("a name").1.split(' ').nth(19).expect("field 22").parse().expect("a number")
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process with a call in progress, and its run folder.
pub(super) fn blocked_process(folder: &Folder, setting: &str) -> Mapping {
    let path = folder.of("trace.lgt");
    std::fs::write(&path, vec![0; SMALL.words() * 8]).expect("the file is made");
    let mut process = Mapping::of(&path);
    process.ready();
    // Only now is it known when the process started.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos() as u64;
    let facts_of_it = ProcessFacts {
        process: process.0.id(),
        start_ticks: process.start_ticks(),
        // As if the clock had been set back since: however slow this machine is, the call has not been in progress for long.
        armed_unix_nanos: now + 3_600_000_000_000,
        ..ended_process()
    };
    let job = Job::of(SMALL, &facts_of_it);
    job.tracker.recorder().add_setting(0, setting);
    let main = job.thread(100, "main");
    let stream = job.stream(0x51);
    let k = job.function("spin");
    job.make(main, &launch(stream, k, 1_000), 5, 0);
    job.hold(main, &Record { stream, ..facts("cuStreamSynchronize", 2_000) });
    let file = std::fs::OpenOptions::new().write(true).open(&path).expect("the file opens");
    file.write_all_at(&job.bytes(100_000_000), 0).expect("the recording is written");
    process
}

#[test]
fn a_process_is_found_by_its_id_as_long_as_it_lives() {
    let folder = Folder::new("process");
    let mut process = blocked_process(&folder, "LAZYGUARD_HANG_AFTER=off");
    let id = process.0.id().to_string();
    let text = said(&["report", &id]);
    assert!(
        text.starts_with("calls in progress:\n  +0.000002 thread 100 \"main\": cuStreamSynchronize on stream 1"),
        "{text}"
    );
    assert!(text.contains(" is running; last seen at +0."), "{text}");
    let report: Value = serde_json::from_str(&said(&["report", &id, "--format", "json"])).unwrap();
    assert_eq!(report["recording"]["alive"], true);
    assert_eq!(report["recording"]["file"], folder.of("trace.lgt").to_str().unwrap());
    let log = said(&["log", &id, "--last", "1"]);
    assert!(log.contains("cuStreamSynchronize on stream 1 (0x51), in progress"), "{log}");
    said(&["export", &id, "--to", "perfetto"]);
    assert!(folder.of("trace.perfetto-trace").exists());
    let by_folder = said(&["report", folder.path()]);
    assert!(by_folder.contains(" is running; "), "{by_folder}");
    process.0.kill().unwrap();
    process.0.wait().unwrap();
    let text = said(&["report", folder.path()]);
    assert!(text.contains(" was killed or ended without an exit; "), "{text}");
}

#[test]
fn the_threshold_of_a_process_that_lives_is_its_setting() {
    for (setting, expect) in [("LAZYGUARD_HANG_AFTER=10ms", "hang"), ("LAZYGUARD_LOG=off", "well")] {
        let folder = Folder::new("live_threshold");
        let process = blocked_process(&folder, setting);
        let report: Value =
            serde_json::from_str(&said(&["report", &process.0.id().to_string(), "--format", "json"])).unwrap();
        assert_eq!(report["recording"]["status"], expect, "{setting}: {report:#}");
    }
}

/// A user who may look into the process's mapping finds the process's own recording there; other users get no recording.
#[test]
fn what_lies_where_the_recording_was_is_not_taken_for_it() {
    let folder = Folder::new("replaced");
    let process = blocked_process(&folder, "LAZYGUARD_HANG_AFTER=off");
    std::fs::remove_file(folder.of("trace.lgt")).unwrap();
    let other = Job::new();
    let thread = other.thread(100, "somebody else");
    other.make(thread, &facts("cuCtxSynchronize", 1_000), 5, 0);
    other.save(&folder.0, 10_000);
    let output = super::lazyguard(&["log", &process.0.id().to_string()]).output().unwrap();
    let (out, errors) = super::texts(&output);
    assert!(
        out.contains("cuStreamSynchronize on stream 1") || errors.contains("is not there any more"),
        "{out}{errors}"
    );
    assert!(!out.contains("somebody else"), "{out}");
}

#[test]
fn another_process_with_the_same_id_is_not_taken_for_it() {
    let folder = Folder::new("same_id");
    let another = ProcessFacts { process: std::process::id(), start_ticks: 1, ..ended_process() };
    Job::of(SMALL, &another).save(&folder.0, 10);
    let text = said(&["report", folder.path()]);
    assert!(text.contains(" was killed or ended without an exit; "), "{text}");
}

#[test]
fn a_folder_named_as_a_process_is_a_folder() {
    let folder = Folder::new("named");
    std::fs::create_dir(folder.of("1")).unwrap();
    Job::new().save(&folder.of("1"), 10);
    let mut command = super::lazyguard(&["log", "1"]);
    let output = command.current_dir(&folder.0).output().unwrap();
    assert_eq!(
        (output.status.code(), output.stdout.as_slice(), output.stderr.as_slice()),
        (Some(0), &b""[..], &b"lazyguard: the recording holds no record\n"[..])
    );
}
