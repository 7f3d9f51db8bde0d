//! Sample runs for tests: folders as processes leave them, and the facts of each run.

use super::collect;
use super::fail_on::{FailOn, FailedOn};
use super::judged::Rules;
use super::process::Process;
use super::seen::{End, Finished, Hung, Seen, Unguarded};
use super::stood::Stood;
use super::{hangs, suppress};
use crate::recordings::{ended_process, facts, hanging, Job, SMALL};
use crate::stacks::SourceLine;
use lazyguard_core::diagnose::{snapshot_at, Code, Confidence, Culprit, Status, Verdict};
use lazyguard_core::hazard::{FirstOccurrence, Hazard, StreamClass};
use lazyguard_core::report::{json, HangReport, PreloadSummary};
use lazyguard_core::stall::Stall;
use lazyguard_core::trace::read::Recording;
use lazyguard_core::trace::ProcessFacts;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

const SECOND: u64 = 1_000_000_000;

/// A folder of a test's own.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("lazyguard-{name}-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn folder(&self) -> &Path {
        &self.0
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A file, and the folders that lead to it.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A hazard that was met three times.
pub(crate) fn hazard(code: Code, kernel: Option<&str>) -> Hazard {
    Hazard {
        code,
        title: code.title().to_owned(),
        prevented: false,
        confidence: Confidence::Likely,
        because: String::new(),
        waits: None,
        kernel: kernel.map(str::to_owned),
        call: "cuLaunchKernel".to_owned(),
        stream_class: StreamClass::NonBlocking,
        count: 3,
        at_least: false,
        what: "k2 was loaded on its first use while k1 was in flight on stream 1".to_owned(),
        must_meet: vec!["the load of k2".to_owned(), "k1, if it waits for k2".to_owned()],
        evidence: Vec::new(),
        fix: "Load k2 before kernel k1 is submitted".to_owned(),
        first: FirstOccurrence {
            at: SECOND,
            thread: 100,
            stream: 2,
            other_stream: 1,
            other: "k1".to_owned(),
            ..FirstOccurrence::default()
        },
    }
}

/// The `hazards.json` of a process.
pub(crate) fn hazards_json(process: u32, rank: &str, hazards: &[Hazard]) -> String {
    json!({ "schema": 1, "process": process, "program": "train", "rank": rank, "hazards": hazards, "overflow": 0 })
        .to_string()
}

/// The recording of a process that ended well, or hangs.
pub(crate) fn recording(rank: &str, hangs: bool) -> Job {
    let facts = ProcessFacts { host: "node7".to_owned(), rank: rank.to_owned(), ..ended_process() };
    let job = Job::of(SMALL, &facts);
    if hangs {
        hanging(&job);
    } else {
        job.ended();
    }
    job
}

/// The recording of a process whose main thread made this call, which took 40 seconds and returned this.
pub(crate) fn recording_of_a_call(call: &str, entered: u64, result: i32) -> Job {
    let job = recording("0", false);
    let main = job.thread(100, "main");
    job.make(main, &facts(call, entered), 40 * SECOND, result);
    job
}

/// The report of a hang as the live process writes it.
pub(crate) fn hang_json(job: &Job, folder: &Path) -> String {
    json(&hang_report(job, folder))
}

pub(crate) fn hang_report(job: &Job, folder: &Path) -> HangReport {
    let recording = Recording::open(job.bytes(SECOND)).unwrap();
    let snapshot = snapshot_at(&recording, 35 * SECOND, 30 * SECOND, 90 * SECOND).unwrap();
    let facts = recording.facts();
    let report = HangReport::new(4242, "train", folder.to_str(), snapshot, PreloadSummary::default());
    let (host, rank) = (facts.host.clone(), facts.rank.clone());
    HangReport { host, rank, armed_unix_nanos: facts.armed_unix_nanos, ..report }
}

/// A run of one program, as a test describes it.
pub(crate) struct Told {
    pub fail_on: String,
    /// Lines of a suppression file.
    pub suppressions: String,
    /// Whether there is a baseline that has the hazard.
    pub known: bool,
    pub prevented: bool,
    pub kernel: String,
    /// The source file of the call, in the working folder; empty where it is not known.
    pub file: String,
    /// Whether that file lies elsewhere.
    pub outside: bool,
    pub hang: bool,
    /// Whether the process submits no more.
    pub stalled: bool,
    pub no_hazard: bool,
    /// Whether a process had loaded the driver without the guard.
    pub unguarded: bool,
    /// How many processes there are, all alike.
    pub processes: u32,
    /// How the program ended; `None` where it was not run by this command.
    pub end: Option<End>,
    /// The attempts before it that hung.
    pub earlier: Vec<Hung>,
}

impl Default for Told {
    fn default() -> Self {
        Self {
            fail_on: "hang".to_owned(),
            suppressions: String::new(),
            known: false,
            earlier: Vec::new(),
            prevented: false,
            kernel: "k2".to_owned(),
            file: String::new(),
            outside: false,
            hang: false,
            stalled: false,
            no_hazard: false,
            unguarded: false,
            processes: 1,
            end: Some(End::Exited(0)),
        }
    }
}

impl Told {
    fn hazard(&self) -> Hazard {
        Hazard { prevented: self.prevented, ..hazard(Code::LG101, Some(&self.kernel)) }
    }

    fn leave(&self, scratch: &Scratch) -> Vec<Process> {
        let job = recording("3", self.hang);
        let bytes = job.bytes(3 * SECOND);
        let stall = || HangReport {
            status: Status::Stalled,
            verdicts: Vec::new(),
            stall: Some(stall()),
            ..hang_report(&job, Path::new(""))
        };
        let hang = self.hang.then(|| hang_report(&job, Path::new(""))).or_else(|| self.stalled.then(stall));
        for number in 0..self.processes {
            let name = format!("root/rank3-{number}");
            scratch.file(&format!("{name}/trace.lgt"), &bytes);
            let hazards = if self.no_hazard { Vec::new() } else { vec![self.hazard()] };
            scratch.file(&format!("{name}/hazards.json"), hazards_json(4242, "3", &hazards));
            if let Some(hang) = &hang {
                let folder = scratch.path(&name).to_str().map(str::to_owned);
                scratch.file(&format!("{name}/hang.json"), json(&HangReport { folder, ..hang.clone() }));
            }
        }
        let (mut processes, unreadable) = collect::under(&scratch.path("root"));
        assert_eq!(unreadable, Vec::<String>::new());
        let folder = if self.outside { PathBuf::new() } else { here() };
        if !self.file.is_empty() {
            let line = SourceLine { file: folder.join(&self.file), line: 12 };
            processes.iter_mut().flat_map(|p| &mut p.hazards).for_each(|seen| seen.line = Some(line.clone()));
        }
        processes
    }
}

fn stall() -> Stall {
    let evidence = json!({ "process": 4242, "class": "file", "moves": false, "sentence": "opens /data/x" });
    Stall { since: SECOND, evidence: serde_json::from_value(evidence).unwrap() }
}

fn here() -> PathBuf {
    PathBuf::from("/src/job")
}

/// The run that `conclude` receives.
pub(crate) fn finished(root: PathBuf, end: End) -> Finished {
    Finished {
        command: ["/opt/job/bin/train", "--fast"].map(str::to_owned).into(),
        root,
        started_unix_nanos: 1_750_000_000 * SECOND,
        nanos: 3_200_000_000,
        end,
        rank: Some("3".to_owned()),
        unguarded: Unguarded::default(),
    }
}

/// Calls `look` with what is seen of a run.
pub(crate) fn seen(told: &Told, look: impl FnOnce(&Seen<'_>)) {
    let scratch = Scratch::new("seen");
    let processes = told.leave(&scratch);
    let fail_on: FailOn = told.fail_on.parse().unwrap();
    let rules = Rules {
        fail_on: fail_on.clone(),
        suppressions: suppress::read(&[scratch.file("s.txt", &told.suppressions)]).unwrap(),
        baseline: told.known.then(|| [told.hazard().key()].into()),
    };
    let judged = rules.judge(&processes);
    let without_guard = if told.unguarded { vec!["process 7 (app)".to_owned()] } else { Vec::new() };
    let unguarded = Unguarded { without_guard, expected: None };
    let run = told.end.map(|end| Finished { unguarded, ..finished(scratch.path("root"), end) });
    let hangs =
        told.end == Some(End::EndedOnHang) || fail_on.has(FailedOn::Hang) && !hangs::hangs(&processes).is_empty();
    let failing = judged.hazards.iter().any(|finding| finding.fails).then_some(FailedOn::Hazard);
    let failing = failing.or((told.stalled && fail_on.has(FailedOn::Stall)).then_some(FailedOn::Stall));
    let failing = failing.or((told.unguarded && fail_on.has(FailedOn::Unguarded)).then_some(FailedOn::Unguarded));
    look(&Seen {
        run: run.as_ref(),
        root: &scratch.path("root"),
        here: here(),
        processes,
        judged,
        fail_on: &fail_on,
        has_baseline: told.known,
        earlier: &told.earlier,
        explored: None,
        failed: if hangs { Some(FailedOn::Hang) } else { failing },
        folder_stays: told.end != Some(End::Exited(0)) || hangs,
        unreadable: Vec::new(),
    });
}

/// A process that hangs with one verdict: this code, and these culprits.
pub(crate) fn hanging_in(process: Process, code: Code, culprits: Vec<Culprit>) -> Process {
    let verdict = Verdict {
        code,
        title: code.title().to_owned(),
        confidence: Confidence::Likely,
        sentence: "it waits.".to_owned(),
        held_back: None,
        fed: Vec::new(),
        threads: vec![1],
        chain: Vec::new(),
        evidence: Vec::new(),
        culprits,
        fix: String::new(),
    };
    let mut report = hang_report(&recording("0", true), Path::new("/out"));
    (report.status, report.verdicts) = (Status::Hang, vec![verdict]);
    Process { stood: Some(Stood::Hang(report)), ..process }
}
