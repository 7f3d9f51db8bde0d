//! For `--on-hang kill`, `fail` and `revoke`: whether the guard of a process asks for the action, and whether the process then answers.
//!
//! Must not: act on an incomplete report, or on an operation that was slow and has gone on.

use super::root::{folders, process_with};
use crate::folder::live::{evidence, Replaced};
use crate::folder::{is_nested_in, RecordingFile, Run, Stat};
use crate::inspect::attach;
use crate::machine::{files, Beside};
use lazyguard_core::diagnose::Status;
use lazyguard_core::report::{DumpReport, GpuDumpSeen, RevokedSeen, WATCHES_COLLECTIVES};
use lazyguard_core::run_folder::file::{DUMP, EVIDENCE, GPU_PIPE, HANG, MAIN_STACK};
use lazyguard_core::trace::read::{LiveRecording, ThreadSeen};
use serde::Deserialize;
use serde_json::Value;
use std::collections::HashMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

const MOST_LOOKED_AT: usize = 16;

/// When a process has answered the error: none of its calls is blocked, and it does not launch as before.
pub(super) fn answered_at(folder: &Path) -> Option<u64> {
    report_in(folder).filter(|hang| hang["acts"] == true && hang["gpu_dump"]["ignored"] != true)?["resolved"].as_u64()
}

pub(super) fn waits_for_the_driver(folder: &Path) -> bool {
    let waits = |dump: &Value| dump["taken"] == true && dump["bytes"].is_null() && dump["missing"].is_null();
    report_in(folder).is_some_and(|hang| waits(&hang["gpu_dump"]))
}

fn report_in(folder: &Path) -> Option<Value> {
    files::json_in(folder, HANG)
}

fn recording_in(folder: &Path) -> Option<LiveRecording<RecordingFile>> {
    Run::find_quietly(folder).ok()?.open_live().ok()?
}

/// The calls of the threads that launch work, or of all where none does; NCCL's and PyTorch's own threads call on.
pub(super) fn calls_of(folder: &Path) -> Option<u64> {
    let recording = recording_in(folder)?;
    let counts = |thread: &&ThreadSeen| !thread.name.starts_with(WATCHES_COLLECTIVES);
    let threads: Vec<_> = recording.tables.threads().iter().filter(counts).collect();
    let none_launches = threads.iter().all(|thread| thread.launches == 0);
    Some(threads.iter().filter(|thread| none_launches || thread.launches > 0).map(|thread| thread.calls).sum())
}

/// The folders of processes that may be ranks of a communicator: what keeps its recording in memory is not known.
pub(super) fn with_communicators(places: &[PathBuf]) -> Vec<PathBuf> {
    let is_rank = |folder: &PathBuf| recording_in(folder).is_none_or(|one| !one.tables.communicators().is_empty());
    folders_of_processes(places).into_iter().filter(is_rank).collect()
}

pub(super) fn stands_in(folder: &Path) -> bool {
    unresolved_in(folder).is_some_and(|hang| hang["acts"] == true)
}

pub(super) fn is_told(folder: &Path) -> bool {
    unresolved_in(folder).is_some_and(|hang| hang["status"] == "hang")
}

fn unresolved_in(folder: &Path) -> Option<Value> {
    report_in(folder).filter(|hang| hang["resolved"].is_null())
}

#[derive(Debug, Deserialize)]
struct Report {
    #[serde(default)]
    acts: bool,
    #[serde(default)]
    status: Status,
    resolved: Option<u64>,
    /// The time of the standstill, which tells one hang of a process from the next.
    #[serde(default)]
    at: u64,
    #[serde(default)]
    gpu_dump: Option<GpuDumpSeen>,
    #[serde(default)]
    revoked: Option<RevokedSeen>,
}

impl Report {
    /// Whether the guard has had the calls return an error, which the others of the job are to do as well.
    fn has_acted(&self) -> bool {
        self.revoked.is_some() || self.gpu_dump.as_ref().is_some_and(GpuDumpSeen::fails_calls)
    }
}

#[derive(Debug, Default)]
pub(super) struct Watch {
    read: HashMap<PathBuf, Replaced<Report>>,
    /// The standstill of each folder that was due last.
    due: HashMap<PathBuf, u64>,
}

impl Watch {
    pub fn look(&mut self, places: &[PathBuf]) -> Option<PathBuf> {
        folders_of_processes(places).into_iter().find(|folder| self.is_due(folder))
    }

    /// Whether a folder has a new report by which the action is due. A process that fails on purpose may have answered, and be gone, before this look.
    pub fn is_due(&mut self, folder: &Path) -> bool {
        let new = self.read.entry(folder.to_owned()).or_default().look(folder, HANG);
        let Some(hang) = new.filter(|hang| hang.acts) else { return false };
        let is_another = self.due.get(folder) != Some(&hang.at);
        let is_due = hang.resolved.is_none() || is_another && hang.has_acted();
        if is_due {
            self.due.insert(folder.to_owned(), hang.at);
        }
        is_due
    }

    /// A process that submits no more.
    pub fn look_for_a_stall(&mut self, places: &[PathBuf]) -> Option<PathBuf> {
        let stalls = |hang: &Report| hang.status == Status::Stalled && hang.resolved.is_none();
        let mut look =
            |folder: &Path| self.read.entry(folder.to_owned()).or_default().look(folder, HANG).is_some_and(stalls);
        folders_of_processes(places).into_iter().find(|folder| look(folder))
    }
}

pub(super) fn folders_of_processes(places: &[PathBuf]) -> Vec<PathBuf> {
    let own: Vec<_> = places.iter().flat_map(|place| folders(place)).collect();
    // A `lazyguard run` among the program's processes has a folder in ours, with those of its own processes.
    let nested = own.iter().filter(|folder| is_nested_in(folder, &places[0])).flat_map(|folder| folders(folder));
    let nested: Vec<_> = nested.collect();
    own.into_iter().chain(nested).collect()
}

pub(super) fn with_contexts(places: &[PathBuf]) -> Vec<PathBuf> {
    let has_pipe = |folder: &PathBuf| fs::symlink_metadata(folder.join(GPU_PIPE)).is_ok();
    folders_of_processes(places).into_iter().filter(has_pipe).collect()
}

/// Keeps what each process does on the host, and the stack of each silent main thread, before the run ends.
pub(super) fn keep_main_threads(places: &[PathBuf], alive: &[u32], limit: Duration) {
    let silent: Vec<_> =
        living(places, alive).into_iter().filter(|(process, folder)| !is_known(folder, *process)).collect();
    // A thread looks, which the kernel may hold: it is left behind then.
    let looks = move |_: &_| {
        for (process, folder) in silent.into_iter().take(MOST_LOOKED_AT) {
            let stack = attach::main_thread(process).map(|stack| stack.json());
            let _ = stack.map(|text| files::create_in(&folder, MAIN_STACK)?.write_all(text.as_bytes()));
        }
    };
    let stacks = Beside::start("lazyguard-looks", limit, looks);
    keep_evidence(&living(places, alive));
    drop(stacks);
}

pub(super) fn living(places: &[PathBuf], alive: &[u32]) -> Vec<(u32, PathBuf)> {
    let all = folders_of_processes(places).into_iter();
    all.filter_map(|folder| Some((process_with(&folder).filter(|process| alive.contains(process))?, folder))).collect()
}

pub(super) fn keep_evidence(living: &[(u32, PathBuf)]) {
    let asked: Vec<_> = living.iter().map(|(process, folder)| (*process, threads_that_submit(folder))).collect();
    for found in evidence::of(&asked) {
        let folder = living.iter().find(|(process, _)| *process == found.process).map(|(_, folder)| folder);
        // Without the file the report says less.
        let _ = folder.map(|folder| files::create_in(folder, EVIDENCE)?.write_all(found.json().as_bytes()));
    }
}

fn threads_that_submit(folder: &Path) -> Vec<u32> {
    let recording = recording_in(folder);
    let threads = recording.iter().flat_map(|recording| recording.tables.threads());
    threads.filter(|thread| thread.launches > 0).map(|thread| thread.thread).collect()
}

/// A stopped process has reported what it did before.
fn is_known(folder: &Path, process: u32) -> bool {
    if Stat::of(process as i32).is_some_and(Stat::is_stopped) {
        return false;
    }
    let has_stack = |dump: DumpReport| {
        dump.hang.snapshot.blocked.iter().any(|call| call.queries.is_none())
            || dump.hang.stacks.iter().any(|stack| stack.thread == process)
    };
    report_in(folder).is_some_and(|hang| hang["resolved"].is_null())
        || files::json_in(folder, DUMP).is_some_and(has_stack)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_larger_than_a_report_or_a_mark_can_be_is_not_read() {
        let root = std::env::temp_dir().join(format!("lazyguard-watch-large-{}", std::process::id()));
        let (own, nested) = (root.join("rank0-1"), root.join("run-7/rank0-8"));
        [&own, &nested].iter().for_each(|folder| fs::create_dir_all(folder).unwrap());
        let padded = |text: String| text + &" ".repeat(1 << 24);
        let report = r#"{"acts": true}"#.to_owned();
        fs::write(own.join(HANG), padded(report.clone())).unwrap();
        fs::write(nested.join(HANG), report).unwrap();
        let mark = serde_json::json!({ "around": root }).to_string();
        fs::write(root.join("run-7").join(super::super::root::MARK), padded(mark.clone())).unwrap();
        let mut watch = Watch::default();
        assert_eq!(watch.look(std::slice::from_ref(&root)), None);
        fs::write(root.join("run-7").join(super::super::root::MARK), mark).unwrap();
        assert_eq!(watch.look(std::slice::from_ref(&root)), Some(nested));
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn a_hang_is_due_when_its_report_says_so_and_it_stands() {
        let root = std::env::temp_dir().join(format!("lazyguard-watch-{}", std::process::id()));
        let (own, nested) = (root.join("rank0-1"), root.join("run-7/rank0-8"));
        fs::create_dir_all(&own).unwrap();
        fs::create_dir_all(&nested).unwrap();
        let mark = |run: &str, around: &str| {
            let mark = serde_json::json!({ "around": around }).to_string();
            fs::write(root.join(run).join(super::super::root::MARK), mark).unwrap();
        };
        mark("run-7", root.to_str().unwrap());
        let another_runs = root.join("run-9/rank0-9");
        fs::create_dir_all(&another_runs).unwrap();
        mark("run-9", "/elsewhere");
        let mut watch = Watch::default();
        let mut look = |folder: &Path, report: &str| {
            fs::write(folder.join(".new"), report).unwrap();
            fs::rename(folder.join(".new"), folder.join(HANG)).unwrap();
            watch.look(std::slice::from_ref(&root))
        };
        assert_eq!(look(&own, r#"{"status": "hang"}"#), None);
        assert_eq!(look(&own, r#"{"status": "hang", "acts": true, "resolved": 5}"#), None);
        let dump = r#""gpu_dump": {"at": 4, "taken": true, "fails": true, "unanswered": false, "ignored": false}"#;
        let answered = format!(r#"{{"acts": true, "at": 4, "resolved": 5, {dump}}}"#);
        assert_eq!(look(&own, &answered), Some(own.clone()), "it has failed on purpose meanwhile");
        assert_eq!(look(&own, &answered), None, "that was acted on");
        let revoked = r#""revoked": {"at": 6, "nanos": 1, "communicators": []}"#;
        assert_eq!(look(&own, &format!(r#"{{"acts": true, "at": 6, {revoked}}}"#)), Some(own.clone()));
        assert_eq!(look(&own, &format!(r#"{{"acts": true, "at": 6, "resolved": 7, {revoked}}}"#)), None);
        assert_eq!(look(&own, "{cut"), None);
        assert_eq!(look(&own, r#"{"acts": true, "resolved": null}"#), Some(own.clone()));
        assert_eq!(look(&nested, r#"{"acts": true}"#), Some(nested.clone()));
        assert_eq!(look(&another_runs, r#"{"acts": true}"#), None, "it was only given the same folder");
        assert_eq!(watch.look(std::slice::from_ref(&root)), None);
        fs::remove_dir_all(&root).unwrap();
    }
}
