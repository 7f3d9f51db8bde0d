//! Collects what the processes of a run have left: every process folder under a root, with its hang, its hazards, its summary and how the
//! process ended.
//!
//! Must not: fail for the contents of one folder. A missing or damaged file costs its own contents, and one line.

use super::collectives::{self, Collectives};
use super::communications::{self, Communications};
use crate::ends::{self, ProcessEnd};
use crate::parallel;
use crate::recorded::{Recorded, StoodStill};
use crate::runs::{is_nested_in, is_run, process_folders};
use crate::source::{read, Opened, Run, HAZARDS};
use crate::symbolize::SourceLine;
use crate::{gpu_core, stacks, Failure};
use lazyguard_core::diagnose::{ends_of, HowEnded, Status};
use lazyguard_core::gpu_core::GpuCore;
use lazyguard_core::hazard::{joined, Gathered, Hazard, HazardFile};
use lazyguard_core::report::{DumpReport, HangReport, Newest, Outcome, StackSeen, Summary};
use lazyguard_core::run_folder::file::DUMP;
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The hang or slow operation of a process.
pub(super) enum Stood {
    /// A hang, as it was reported, or as the recording shows it.
    Hang(HangReport),
    /// A hang that was reported and is over, or a slow operation that did not end well: [`HangReport::outcome`] says how.
    Over(HangReport),
    /// A call that did not return before the process was killed, and had not been in progress for as long as a report waits.
    Suspected(HangReport),
    /// A slow operation that may have ended by itself.
    Slow(HangReport),
}

impl Stood {
    fn of_report(report: HangReport) -> Option<Self> {
        match (report.status, report.resolved) {
            (Status::Hang, None) => Some(Self::Hang(report)),
            (Status::Hang, Some(_)) => Some(Self::Over(report)),
            (Status::Slow, None) => Some(Self::Slow(report)),
            (Status::Slow, Some(_)) => (report.outcome() != Outcome::Resolved).then_some(Self::Over(report)),
            (Status::Well, _) => None,
        }
    }

    fn of_recording(seen: StoodStill) -> Option<Self> {
        match (seen.report.status, seen.long_enough) {
            (Status::Hang, true) => Some(Self::Hang(seen.report)),
            (Status::Hang, false) => Some(Self::Suspected(seen.report)),
            (Status::Slow, true) => Some(Self::Slow(seen.report)),
            _ => None,
        }
    }

    /// The report.
    pub fn report(&self) -> &HangReport {
        match self {
            Self::Hang(report) | Self::Over(report) | Self::Suspected(report) | Self::Slow(report) => report,
        }
    }

    /// In a word, for people and for programs.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Hang(_) => "hang",
            Self::Suspected(_) => "suspected",
            Self::Slow(_) => "slow",
            Self::Over(report) => report.outcome().word(),
        }
    }

    /// The lines of its report. What is suspected is called that, and not a hang.
    pub fn lines(&self, newest: Option<Newest>) -> Vec<String> {
        self.as_called(self.report().lines(newest))
    }

    /// These lines of the report, called as this is.
    pub fn as_called(&self, mut lines: Vec<String>) -> Vec<String> {
        if let (Self::Suspected(_), Some(first)) = (self, lines.first_mut()) {
            *first = first.replacen("HANG", "SUSPECTED", 1);
        }
        lines
    }

    /// Its rank by severity; the most severe is the lowest.
    pub fn place(&self) -> u8 {
        match self {
            Self::Hang(_) => 0,
            Self::Over(report) if report.stands() => 0,
            Self::Suspected(_) => 1,
            Self::Slow(_) => 2,
            Self::Over(_) => 3,
        }
    }
}

/// Whether a signal asks a process to end. A launcher sends these, or the program to its own workers.
pub(super) fn asks_to_end(signal: i32) -> bool {
    const ASK: [Signal; 3] = [Signal::HUP, Signal::INT, Signal::TERM];
    Signal::from_named_raw(signal).is_some_and(|signal| ASK.contains(&signal))
}

/// Whether a signal is that of a fault, of a limit or of the kernel without memory: it ends a program that nobody has asked to end.
pub(super) fn is_of_a_crash(signal: i32) -> bool {
    use Signal as S;
    let crash = [S::ILL, S::TRAP, S::ABORT, S::BUS, S::FPE, S::KILL, S::SEGV, S::XCPU, S::XFSZ, S::SYS];
    Signal::from_named_raw(signal).is_some_and(|signal| crash.contains(&signal))
}

/// The state of a process whose only file is the summary written at a hang.
const RUNNING_THEN: &str = "was running when its hang was reported; how it ended was not seen";

/// How a process ended that does not hang.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Course {
    /// A signal ended it, which `lazyguard run` did not send.
    Signalled(i32),
    /// `lazyguard run` ended it.
    Killed,
    /// It is gone, had no orderly end, and only its parent knows how it ended; or it runs, and its streams are neither known to be idle nor to move.
    #[default]
    Unknown,
    /// It ended by itself, or it runs and nothing is known to stand.
    Well,
}

impl Course {
    /// `end` is what the `lazyguard run` around it has seen, `opened` its recording, `summary` its own summary.
    fn of(end: Option<&ProcessEnd>, opened: Option<&Opened>, summary: Option<&Summary>) -> Self {
        match (end, opened) {
            (Some(ProcessEnd { ended_by_run: true, .. }), _) => Self::Killed,
            (Some(ProcessEnd { signal: Some(signal), .. }), _) => Self::Signalled(*signal),
            (Some(ProcessEnd { exit_code: Some(_), .. }), _) => Self::Well,
            _ if summary.is_some_and(|summary| summary.ended == "exit" || is_by_the_guard(summary)) => Self::Well,
            (_, Some(opened)) if !opened.was_cut_off() => Self::Well,
            _ => Self::Unknown,
        }
    }

    /// In a word, for people and for programs.
    pub fn word(self) -> &'static str {
        match self {
            Self::Signalled(_) => "signalled",
            Self::Killed => "killed",
            Self::Unknown => "unknown",
            Self::Well => "well",
        }
    }
}

/// Whether the summary says that the guard has ended the process, as `LAZYGUARD_ON_HANG` says.
fn is_by_the_guard(summary: &Summary) -> bool {
    summary.ended.starts_with("ended by")
}

/// What a process has submitted that waits for other ranks: its kernels, and its calls of NCCL.
fn communication_of(opened: &Opened) -> Result<(Option<Collectives>, Option<Communications>), Failure> {
    let (mut kernels, mut calls) = (collectives::Reader::new(opened), communications::Reader::new(opened));
    if kernels.is_some() || calls.is_some() {
        opened.each_record(|entry| {
            kernels.iter_mut().for_each(|kernels| kernels.take_in(&entry.record));
            calls.iter_mut().for_each(|calls| calls.take_in(&entry.record));
            Ok(())
        })?;
    }
    Ok((kernels.map(collectives::Reader::finish), calls.map(communications::Reader::finish)))
}

/// A hazard of one process.
pub(super) struct HazardSeen {
    pub hazard: Hazard,
    /// Where the first call was made, if that is a line of source.
    pub line: Option<SourceLine>,
}

/// A process of the run.
#[derive(Default)]
pub(super) struct Process {
    /// Its folder.
    pub folder: PathBuf,
    /// Its recording, where there is one.
    pub recording: Option<PathBuf>,
    /// The folder's name under the root.
    pub name: String,
    pub process: u32,
    pub program: String,
    /// Empty where it has none.
    pub rank: String,
    pub host: String,
    /// When its times begin; 0 where that is not known.
    pub armed_unix_nanos: u64,
    /// For how long it was under the guard, as far as was seen.
    pub nanos: u64,
    pub driver_version: i32,
    /// Its state, in words.
    pub ended: String,
    pub stood: Option<Stood>,
    /// The state of the hang since its report.
    pub newest: Option<Newest>,
    pub course: Course,
    /// Its end, as `lazyguard run` saw it.
    pub end: Option<ProcessEnd>,
    pub summary: Option<Summary>,
    pub hazards: Vec<HazardSeen>,
    /// Whether its recording could be read.
    pub is_read: bool,
    /// Its collectives, where it has any.
    pub collectives: Option<Collectives>,
    /// Its calls of NCCL, where it has made any.
    pub communications: Option<Communications>,
    /// Its answer to the newest request for a report.
    pub dump: Option<DumpReport>,
    /// The launches in its recording.
    pub launches: u64,
    /// Whether it is known to have ended.
    pub has_ended: bool,
    /// See [`Process::names`].
    pub names: OnceLock<Names>,
    /// What could not be read; a line each.
    pub problems: Vec<String>,
}

/// The names in a process's hang, which take a tenth of a second, and what else of it takes time to read.
#[derive(Default)]
pub(super) struct Names {
    /// The report of its hang, with names of functions, files and lines.
    pub report: Option<HangReport>,
    /// The stacks of the threads that were blocked, with names where they are known.
    pub stacks: Vec<StackSeen>,
    /// Where its device stood, where a core dump of that was taken.
    pub gpu: Option<Result<GpuCore, String>>,
}

impl Process {
    /// The names in its hang. They are looked up when they are first asked for: of a hundred ranks with the same hang, one is printed.
    pub fn names(&self) -> &Names {
        self.names.get_or_init(|| self.look_up(Run::find(&self.folder).ok().as_ref()))
    }

    /// The process, to be opened once more.
    pub fn run(&self) -> Option<Run> {
        let recording = self.recording.as_deref()?;
        Run::find_quietly(if self.folder.as_os_str().is_empty() { recording } else { &self.folder }).ok()
    }

    /// Looks up the names in the hangs of all of these processes, for a form of output that has them all.
    pub fn name_all(processes: &[Self]) {
        parallel::each(processes, |process| {
            process.names();
        });
    }

    fn look_up(&self, run: Option<&Run>) -> Names {
        let gpu = gpu_core::of_folder(&self.folder);
        let Some(report) = self.stood.as_ref().map(Stood::report) else { return Names { gpu, ..Names::default() } };
        let stacks = match stacks::of_folder(&self.folder, Some(report)) {
            Some(stacks) => stacks.unwrap_or_default(),
            None => report.stacks.clone(),
        };
        let mut named = stacks::told_by(report, &stacks);
        // What cannot be opened now has been said before.
        if let Some(opened) = run.and_then(|run| run.open().ok().flatten()) {
            opened.callers().name_in(&mut named);
        }
        Names { report: Some(named), stacks, gpu }
    }

    /// The lines about the core dump of its device, where there is one.
    pub fn gpu_lines(&self) -> Vec<String> {
        let hang = self.stood.as_ref().map(Stood::report);
        self.names().gpu.as_ref().map_or_else(Vec::new, |core| gpu_core::lines(core, hang))
    }

    /// The program, the process and its rank, as a line names them.
    pub fn title(&self) -> String {
        let program = if self.program.is_empty() { "a program" } else { &self.program };
        match self.rank.as_str() {
            "" => format!("{program} (process {})", self.process),
            rank => format!("{program} (process {}, rank {rank})", self.process),
        }
    }

    /// The hang, unless it is known to have ended by itself.
    pub fn hang(&self) -> Option<&HangReport> {
        match &self.stood {
            Some(Stood::Hang(report) | Stood::Over(report)) if report.stands() => Some(report),
            _ => None,
        }
    }

    /// In a word: its state, or how it ended.
    pub fn word(&self) -> &'static str {
        self.stood.as_ref().map_or(self.course.word(), Stood::word)
    }

    /// Hazards that the guard did not prevent.
    pub fn met(&self) -> usize {
        self.hazards.iter().filter(|seen| !seen.hazard.prevented).count()
    }

    /// Whether it has launched anything, or called NCCL, after its answer to the newest request for a report. Polling does not count.
    pub fn went_on_after_its_dump(&self) -> bool {
        let Some(dump) = &self.dump else { return true };
        let newest_call = self.communications.as_ref().and_then(Communications::newest_call);
        self.launches > dump.launches || newest_call.is_some_and(|at| at > dump.hang.snapshot.at)
    }

    /// Whether it is gone without an orderly end, which neither a hang of its own nor the run explains. Other ranks may wait for it.
    pub fn has_crashed(&self) -> bool {
        let crashed = match self.course {
            Course::Signalled(signal) => !asks_to_end(signal),
            Course::Unknown => self.has_ended,
            Course::Killed | Course::Well => false,
        };
        crashed && self.hang().is_none()
    }

    /// The worst first.
    fn order(&self) -> (bool, u8, u8, bool, u64, &str) {
        let stood = self.stood.as_ref().map_or(u8::MAX, Stood::place);
        let course = match self.course {
            Course::Signalled(_) => 0,
            Course::Unknown => 1,
            Course::Killed => 2,
            Course::Well => 3,
        };
        (!self.has_crashed(), stood, course, self.met() == 0, self.rank.parse().unwrap_or(u64::MAX), &self.name)
    }
}

/// Every process whose folder lies under the root: directly, or in the folder of another process or of another run. The worst
/// comes first. A root that is not there has none.
pub(super) fn under(root: &Path) -> (Vec<Process>, Vec<String>) {
    all(root, |_| true)
}

/// The same of a run's own folder: a run in it is part of this one only if its program has started that.
pub(super) fn of_run(root: &Path) -> (Vec<Process>, Vec<String>) {
    let started_by_it = |folder: &Path| folder.parent().is_some_and(|around| is_nested_in(folder, around));
    all(root, |folder| !is_run(folder) || started_by_it(folder))
}

fn all(root: &Path, takes: impl Fn(&Path) -> bool) -> (Vec<Process>, Vec<String>) {
    let mut problems = Vec::new();
    let folders = process_folders(root, &mut problems, takes);
    let mut found = parallel::each(&folders, |folder| {
        let name = folder.strip_prefix(root).unwrap_or(folder).display().to_string();
        Process { name, ..of_folder(folder) }
    });
    found.sort_by(|a, b| a.order().cmp(&b.order()));
    (found, problems)
}

/// Whether any process has left something under the root.
pub(crate) fn holds_processes(root: &Path) -> bool {
    !process_folders(root, &mut Vec::new(), |_| true).is_empty()
}

/// Why folders under the root cannot be read; a line each.
pub(crate) fn unreadable_in(root: &Path) -> Vec<String> {
    let mut problems = Vec::new();
    process_folders(root, &mut problems, |_| true);
    problems
}

fn of_folder(folder: &Path) -> Process {
    match Run::find(folder) {
        Ok(run) => process(&run),
        Err(failure) => {
            Process { folder: folder.to_owned(), problems: vec![failure.to_string()], ..Process::default() }
        }
    }
}

/// What one process has left.
pub(super) fn process(run: &Run) -> Process {
    let mut found = Process { recording: run.recording.clone(), ..Process::default() };
    let (mut reported, mut file) = (None, None);
    if let Some(folder) = &run.folder {
        found.name =
            folder.file_name().map_or_else(|| folder.display().to_string(), |name| name.to_string_lossy().into());
        found.folder.clone_from(folder);
        reported = found.keep(read::<HangReport>(folder, "hang.json"));
        found.summary = found.keep(read(folder, "run.json"));
        file = found.keep(read::<HazardFile>(folder, HAZARDS));
        // One of another version says nothing here.
        found.dump = read(folder, DUMP).ok().flatten();
    }
    let before = found.problems.len();
    let opened: Option<Opened> = found.keep(run.open());
    let is_unreadable = found.problems.len() > before;
    found.problems.extend(opened.iter().filter_map(Opened::cut_short).map(|why| why.to_string()));

    if let Some(opened) = &opened {
        let facts = opened.recording.facts();
        (found.process, found.program, found.rank) = (facts.process, facts.program.clone(), opened.recording.rank());
        found.host.clone_from(&facts.host);
        found.driver_version = i32::try_from(facts.driver_version).unwrap_or(0);
        let launches = opened.recording.threads().iter().map(|thread| thread.launches);
        found.launches = launches.fold(facts.former_launches, u64::saturating_add);
        (found.armed_unix_nanos, found.nanos) = (facts.armed_unix_nanos, facts.last_seen);
        found.ended = opened.state_in_words();
        let is_gone = opened.live_process().is_none();
        found.has_ended = is_gone && (opened.is_of_this_machine() || opened.state() == "ended");
        let communication = communication_of(opened);
        found.is_read = communication.is_ok();
        (found.collectives, found.communications) = found.keep(communication.map(Some)).unwrap_or_default();
    } else if let Some(summary) = &found.summary {
        (found.process, found.program) = (summary.process, summary.program.clone());
        found.driver_version = summary.driver_version;
    } else if let Some(hang) = &reported {
        (found.process, found.program) = (hang.process, hang.program.clone());
    }
    if let Some(file) = &file {
        if found.process == 0 {
            (found.process, found.program) = (file.process, file.program.clone());
        }
        if found.rank.is_empty() {
            found.rank.clone_from(&file.rank);
        }
    }
    if let Some(summary) = &found.summary {
        found.nanos = found.nanos.max(summary.nanos);
        if found.ended.is_empty() || is_by_the_guard(summary) {
            // Without a recording, the current state is unknown.
            let running = summary.ended == "running";
            found.ended = if running { RUNNING_THEN.to_owned() } else { summary.ended.clone() };
        }
    }
    let started = opened.as_ref().map(|opened| opened.recording.facts().process_start_ticks);
    found.end = run.folder.as_deref().and_then(|folder| ends::of(folder, found.process, started));
    found.course = Course::of(found.end.as_ref(), opened.as_ref(), found.summary.as_ref());
    let orderly = opened.as_ref().is_some_and(|opened| opened.state() == "ended");
    match &found.end {
        // The guard's summary is more exact; an orderly end with status 0 needs no correction.
        Some(end) if found.summary.as_ref().is_some_and(is_by_the_guard) && !end.ended_by_run => {}
        Some(end) => found.ended = ends::words(Some(*end), orderly, || found.ended.clone()),
        None if found.ended.is_empty() && is_unreadable => {
            found.ended = "left a recording that cannot be read: how it ended is not known".to_owned();
        }
        None if found.ended.is_empty() => found.ended = ends::UNKNOWN.to_owned(),
        None => {}
    }

    let hazards = found.keep(hazards(file, opened.as_ref()).map(Some)).unwrap_or_default();
    found.problems.extend(found.summary.as_ref().and_then(|summary| {
        let mut lost = summary.hazards.iter().chain(&summary.prevented);
        let lost = lost.find(|(code, count)| *count > 0 && !hazards.iter().any(|hazard| hazard.code.name() == code));
        lost.map(|(code, _)| format!("{}: run.json counts hazards of {code}, and nothing tells of them", found.name))
    }));
    let mut callers = opened.as_ref().map(Opened::callers);
    let mut line_of = |hazard: &Hazard| callers.as_mut()?.line(hazard.first.caller);
    found.hazards = hazards.into_iter().map(|hazard| HazardSeen { line: line_of(&hazard), hazard }).collect();
    if let (Some(report), Some(opened)) = (&mut reported, &opened) {
        found.keep(what_became_of(report, opened).map(Some));
    }
    found.newest = reported.as_ref().zip(opened.as_ref()).and_then(|(report, opened)| opened.newest(report));
    let recorded: Option<Recorded> = match opened {
        Some(opened) if reported.is_none() && !orderly => found.keep(Recorded::read(opened).map(Some)),
        _ => None,
    };
    // The process did not end by itself, and what it had submitted may stand.
    let may_stand = matches!(found.course, Course::Killed | Course::Unknown | Course::Well)
        && found.end.as_ref().is_none_or(|end| end.exit_code.is_none());
    if let Some(outstanding) = recorded.as_ref().filter(|_| may_stand).and_then(Recorded::outstanding) {
        found.ended = format!("{}; {outstanding}", found.ended);
        found.course = if found.course == Course::Well { Course::Unknown } else { found.course };
    }
    found.stood = match reported {
        Some(report) => Stood::of_report(report),
        None => recorded.as_ref().and_then(Recorded::stood_still).and_then(Stood::of_recording),
    };
    match run.folder.as_deref() {
        Some(folder) => found.problems.extend(stacks::problem_in(folder)),
        // A recording by itself is not found again by its folder.
        None => drop(found.names.set(found.look_up(Some(run)))),
    }
    found
}

/// The process may end before its watchdog has seen the end of a hang; the recording has the results of the calls.
fn what_became_of(report: &mut HangReport, opened: &Opened) -> Result<(), Failure> {
    if report.resolved.is_some() || report.status == Status::Well {
        return Ok(());
    }
    let ends = ends_of(&opened.recording, report.waited_in())
        .map_err(|error| Failure::Input(format!("{}: {error}", opened.path.display())))?;
    let is_known = ends.iter().all(|end| !matches!(end.how, HowEnded::Unknown | HowEnded::AsksNoMore));
    if is_known && !ends.is_empty() && ends.len() == report.waited_in().count() {
        report.resolved =
            Some(ends.iter().filter_map(|end| end.at).max().unwrap_or(opened.recording.facts().last_seen));
        report.ends = ends;
    }
    Ok(())
}

/// The hazards of a process: those that it wrote into its folder. If it did not write them or was cut off, those in its recording.
pub(crate) fn hazards_in(folder: Option<&Path>, opened: Option<&Opened>) -> Result<Vec<Hazard>, Failure> {
    let file: Option<HazardFile> = folder.map(|folder| read(folder, HAZARDS)).transpose()?.flatten();
    hazards(file, opened)
}

fn hazards(file: Option<HazardFile>, opened: Option<&Opened>) -> Result<Vec<Hazard>, Failure> {
    let Some(opened) = opened else { return Ok(file.map(|file| file.hazards).unwrap_or_default()) };
    let mut hazards = match file {
        Some(file) if opened.state() == "ended" => file.hazards,
        Some(file) => joined(file.hazards, from_recording(opened)?),
        None => from_recording(opened)?,
    };
    let mut callers = opened.callers();
    for first in hazards.iter_mut().map(|hazard| &mut hazard.first).filter(|first| first.place.is_none()) {
        first.place = callers.name(first.caller).map(str::to_owned);
    }
    Ok(hazards)
}

/// The hazards that a recording holds.
fn from_recording(opened: &Opened) -> Result<Vec<Hazard>, Failure> {
    let mut gathered = Gathered::default();
    opened.each_record(|entry| {
        gathered.see(&opened.recording, entry);
        Ok(())
    })?;
    Ok(gathered.hazards(&opened.recording))
}

impl Process {
    /// The value that was read; else notes why, in one line.
    fn keep<T>(&mut self, read: Result<Option<T>, Failure>) -> Option<T> {
        read.unwrap_or_else(|failure| {
            self.problems.push(failure.to_string());
            None
        })
    }
}
