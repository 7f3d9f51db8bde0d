//! Collects what the processes of a run have left: every process folder under a root.
//!
//! A recording says what happened to its process. The files beside it say what is in no record:
//!
//! | file | read for |
//! |---|---|
//! | `hang.json` | the snapshot of a hang, whose records may be overwritten by now, with stacks and the driver's answers; diagnosed anew |
//! | `hazards.json` | exact counts: the recording has the first, second, fourth ... occurrence of a frequent hazard |
//! | `run.json` | the guard's own account, and whether `LAZYGUARD_ON_HANG` ended the process |
//! | `dump.json` | the process's state at a hang elsewhere or before its end, and when the run told it to end |
//! | `supervised.json`, above | how the process ended, as its parent saw it |
//!
//! Must not: fail for the contents of one folder. A damaged file costs its own contents, and one line.

use super::collectives::{self, Collectives};
use super::communications::{self, Communications};
use super::process::{HazardSeen, Process};
use super::shared::{self, Shared};
use super::stood::{is_by_the_guard, Course, Stood};
use crate::folder::live::evidence;
use crate::folder::{
    ends, hang_in, is_nested_in, is_run, process_folders, read, Opened, ProcessEnd, Recorded, Run, HAZARDS,
};
use crate::machine::parallel;
use crate::stacks;
use crate::words::Failure;
use lazyguard_core::diagnose::{ends_of, HowEnded, Status};
use lazyguard_core::hazard::{joined, Aggregator, FirstOccurrence, Hazard, HazardFile, Weigher};
use lazyguard_core::report::{HangReport, Summary};
use lazyguard_core::run_folder::file::{DUMP, EVIDENCE, RUN};
use lazyguard_core::Nanos;
use std::path::Path;

const RUNNING_THEN: &str = "was running when its hang was reported; how it ended was not seen";

/// The parts that can be compared with other processes.
type Comparable = (Option<Collectives>, Option<Communications>, Option<Shared>);

/// Calls after `until` are a consequence of the run's end, and do not count.
fn communication_of(opened: &Opened, until: Nanos) -> Result<Comparable, Failure> {
    let (mut kernels, mut calls) = (collectives::Reader::new(opened), communications::Reader::new(opened, until));
    let mut shared = shared::Reader::new(opened);
    if kernels.is_some() || calls.is_some() || shared.is_some() {
        opened.visit(|entry| {
            calls.iter_mut().for_each(|calls| calls.take_in(&entry.record));
            if entry.record.entered > until {
                return;
            }
            kernels.iter_mut().for_each(|kernels| kernels.take_in(&entry.record));
            shared.iter_mut().for_each(|shared| shared.take_in(&entry.record));
        })?;
    }
    let (kernels, calls) = (kernels.map(collectives::Reader::finish), calls.map(communications::Reader::finish));
    Ok((kernels, calls, shared.map(shared::Reader::finish)))
}

/// The processes under a root, the worst first, and what could not be read of the root itself.
pub(crate) type Collected = (Vec<Process>, Vec<String>);

/// Every process whose folder lies under the root, also in the folder of another process or run.
pub(crate) fn under(root: &Path) -> Collected {
    all(root, |_| true)
}

/// The same of a run's own folder: a run in it is part of this one only if its program has started that.
pub(crate) fn of_run(root: &Path) -> Collected {
    let started_by_it = |folder: &Path| folder.parent().is_some_and(|around| is_nested_in(folder, around));
    all(root, |folder| !is_run(folder) || started_by_it(folder))
}

fn all(root: &Path, takes: impl Fn(&Path) -> bool) -> Collected {
    let mut problems = Vec::new();
    let mut found = parallel::each(&process_folders(root, &mut problems, takes), |folder| {
        let name = folder.strip_prefix(root).unwrap_or(folder).display().to_string();
        let found = Run::find(folder).map_or_else(
            |failure| Process { folder: folder.to_owned(), problems: vec![failure.to_string()], ..Process::default() },
            |run| process(&run),
        );
        Process { name, ..found }
    });
    look_at_the_living(&mut found);
    found.sort_by(|a, b| a.order().cmp(&b.order()));
    (found, problems)
}

/// At a hang, and where ranks are late, what each process does on the host now.
fn look_at_the_living(processes: &mut [Process]) {
    if !processes.iter().any(|process| process.is_held_up() && process.lives) {
        return;
    }
    let living = processes.iter().filter(|process| process.lives);
    let living: Vec<_> = living.map(|process| (process.process, Vec::new())).collect();
    for evidence in evidence::of(&living) {
        let of = processes.iter_mut().find(|process| process.lives && process.process == evidence.process);
        of.into_iter().for_each(|process| process.evidence = Some(evidence.clone()));
    }
}

pub(crate) fn holds_processes(root: &Path) -> bool {
    !process_folders(root, &mut Vec::new(), |_| true).is_empty()
}

pub(crate) fn process(run: &Run) -> Process {
    whole(run, false).0
}

#[derive(Default)]
pub(crate) struct Whole {
    pub reported: Option<HangReport>,
    pub recorded: Option<Recorded>,
}

/// One process, from the files that it has left; `whole` where its records are to be read in any case.
pub(crate) fn whole(run: &Run, whole: bool) -> (Process, Whole) {
    let mut found = Process { recording: run.recording.clone(), ..Process::default() };
    let (mut reported, mut file) = (None, None);
    if let Some(folder) = &run.folder {
        found.name =
            folder.file_name().map_or_else(|| folder.display().to_string(), |name| name.to_string_lossy().into());
        found.folder.clone_from(folder);
        reported = found.keep(hang_in(folder));
        found.summary = found.keep(read(folder, RUN));
        file = found.keep(read::<HazardFile>(folder, HAZARDS));
        // One of another version says nothing here.
        found.dump = read(folder, DUMP).ok().flatten();
        found.evidence = found.keep(read(folder, EVIDENCE));
    }
    let before = found.problems.len();
    let opened: Option<Opened> = found.keep(run.open());
    let is_unreadable = found.problems.len() > before;
    let end_of = |process, started| run.folder.as_deref().and_then(|folder| ends::of(folder, process, started));
    match &opened {
        Some(opened) => {
            let facts = opened.recording.facts();
            found.end = end_of(facts.process, Some(facts.start_ticks));
            found.take_recording(opened);
        }
        None => {
            found.take_forms(reported.as_ref(), file.as_ref());
            found.end = end_of(found.process, None);
        }
    }
    found.course = Course::of(found.end.as_ref(), opened.as_ref(), found.summary.as_ref());
    found.ended = how_it_ended(found.end, opened.as_ref(), found.summary.as_ref(), is_unreadable);
    found.take_hazards(file, opened.as_ref());
    if let (Some(report), Some(opened)) = (&mut reported, &opened) {
        found.keep(what_became_of(report, opened).map(Some));
        found.newest = opened.newest(report);
    }
    let orderly = opened.as_ref().is_some_and(|opened| opened.state() == "ended");
    let opened = opened.filter(|_| whole || reported.is_none() && !orderly);
    let recorded = opened.and_then(|opened| found.keep(Recorded::read(opened).map(Some)));
    let of_recording = recorded.as_ref().filter(|_| reported.is_none() && !orderly);
    // The process did not end by itself, and what it had submitted may stand.
    let may_stand =
        !matches!(found.course, Course::Signalled(_)) && found.end.is_none_or(|end| end.exit_code.is_none());
    if let Some(outstanding) = of_recording.filter(|_| may_stand).and_then(Recorded::outstanding) {
        found.ended = format!("{}; {outstanding}", found.ended);
        found.course = if found.course == Course::Well { Course::Unknown } else { found.course };
    }
    let mut kept = reported.clone().filter(|_| whole);
    found.stood = match reported {
        Some(report) => Stood::of_report(report),
        None => of_recording.and_then(Recorded::stood_still).and_then(Stood::of_recording),
    };
    let ends_at = found.ends_at();
    found.stood = found.stood.filter(|stood| !stood.began_after(ends_at));
    if run.folder.is_some() {
        found.take_gpu_core(kept.as_mut(), || run.open().ok().flatten());
    }
    found.problems.extend(run.folder.as_deref().and_then(stacks::problem_in));
    // A recording by itself, and a process by its number, are not found again by the folder.
    if whole || run.folder.is_none() {
        drop(found.names.set(found.look_up(|| run.open().ok().flatten())));
    }
    (found, Whole { reported: kept, recorded })
}

impl Process {
    fn keep<T>(&mut self, read: Result<Option<T>, Failure>) -> Option<T> {
        read.unwrap_or_else(|failure| {
            self.problems.push(failure.to_string());
            None
        })
    }

    fn take_recording(&mut self, opened: &Opened) {
        self.problems.extend(opened.cut_short().map(|why| why.to_string()));
        let facts = opened.recording.facts();
        (self.process, self.program, self.rank) = (facts.process, facts.program.clone(), opened.recording.rank());
        self.host.clone_from(&facts.host);
        self.driver_version = facts.driver_version;
        let launches = opened.recording.threads().iter().map(|thread| thread.launches);
        self.launches = launches.fold(facts.former_launches, u64::saturating_add);
        (self.armed_unix_nanos, self.nanos) = (facts.armed_unix_nanos, facts.last_seen);
        self.lives = opened.live_process().is_some();
        self.has_ended = !self.lives && (opened.is_of_this_machine() || opened.state() == "ended");
        let communication = communication_of(opened, self.ends_at());
        self.is_read = communication.is_ok();
        (self.collectives, self.communications, self.shared) = self.keep(communication.map(Some)).unwrap_or_default();
    }

    fn take_forms(&mut self, hang: Option<&HangReport>, hazards: Option<&HazardFile>) {
        let summary = self.summary.as_ref();
        let by_hazards = || hazards.map(|file| (file.process, file.program.clone()));
        let by_hang = || hang.map(|hang| (hang.process, hang.program.clone()));
        let named = summary.map(|summary| (summary.process, summary.program.clone()));
        let named = named.or_else(by_hang).or_else(by_hazards).unwrap_or_default();
        let ranks = [hang.map(|hang| &hang.rank), hazards.map(|file| &file.rank)];
        self.rank = ranks.into_iter().flatten().find(|rank| !rank.is_empty()).cloned().unwrap_or_default();
        if let Some(&Summary { driver_version, nanos, launches, .. }) = summary {
            (self.driver_version, self.nanos, self.launches) = (driver_version, nanos, launches);
        }
        (self.process, self.program) = named;
    }

    fn take_hazards(&mut self, file: Option<HazardFile>, opened: Option<&Opened>) {
        let read = hazards(file, opened);
        self.knows_hazards = read.is_ok();
        let mut hazards = self.keep(read.map(Some)).unwrap_or_default();
        let mut counted = self.summary.iter().flat_map(|summary| summary.hazards.iter().chain(&summary.prevented));
        let is_lost = |code: &str| !hazards.iter().any(|hazard| hazard.code.name() == code);
        if let Some((code, _)) = counted.find(|(code, count)| *count > 0 && is_lost(code)) {
            self.problems.push(format!("{}: run.json counts hazards of {code}, and nothing tells of them", self.name));
        }
        self.keep(opened.map(|opened| weigh(&mut hazards, opened)).transpose());
        let mut callers = opened.map(Opened::callers);
        let mut line_of = |hazard: &Hazard| callers.as_mut()?.line(hazard.first.caller, hazard.kernel.as_deref());
        self.hazards = hazards.into_iter().map(|hazard| HazardSeen { line: line_of(&hazard), hazard }).collect();
    }
}

/// The guard knows more than the parent saw, unless the parent ended it.
fn how_it_ended(
    end: Option<ProcessEnd>,
    opened: Option<&Opened>,
    summary: Option<&Summary>,
    is_unreadable: bool,
) -> String {
    let by_run = end.is_some_and(|end| end.ended_by_run);
    if let Some(summary) = summary.filter(|summary| is_by_the_guard(summary) && !by_run) {
        return summary.ended.clone();
    }
    ends::words(end, opened.is_some_and(|opened| opened.state() == "ended"), || match (opened, summary) {
        (Some(opened), _) => opened.state_in_words(),
        // Without a recording, the current state is unknown.
        (None, Some(summary)) if summary.ended == "running" => RUNNING_THEN.to_owned(),
        (None, Some(summary)) => summary.ended.clone(),
        (None, None) if is_unreadable => "left a recording that cannot be read: how it ended is not known".to_owned(),
        (None, None) => ends::UNKNOWN.to_owned(),
    })
}

/// The process may end before its watchdog has seen the end of a hang; the recording has the results of the calls.
fn what_became_of(report: &mut HangReport, opened: &Opened) -> Result<(), Failure> {
    if report.resolved.is_some() || report.status == Status::Well {
        return Ok(());
    }
    let ends = ends_of(&opened.recording, report.waited_in()).map_err(|error| Failure::at(&opened.path, error))?;
    let is_known = ends.iter().all(|end| !matches!(end.how, HowEnded::Unknown | HowEnded::AsksNoMore));
    if is_known && !ends.is_empty() && ends.len() == report.waited_in().count() {
        report.resolved = ends.iter().filter_map(|end| end.at).max().or(Some(opened.recording.facts().last_seen));
        report.ends = ends;
    }
    Ok(())
}

/// The hazards of a process: those that it wrote into its folder. If it did not write them or was cut off, those in its recording.
fn hazards(file: Option<HazardFile>, opened: Option<&Opened>) -> Result<Vec<Hazard>, Failure> {
    let Some(opened) = opened else {
        let pathless = |hazard: Hazard| Hazard { first: FirstOccurrence { path: None, ..hazard.first }, ..hazard };
        return Ok(file.into_iter().flat_map(|file| file.hazards).map(pathless).collect());
    };
    let mut hazards = match file {
        Some(file) if opened.state() == "ended" => file.hazards,
        Some(file) => joined(file.hazards, from_recording(opened)?),
        None => from_recording(opened)?,
    };
    let mut callers = opened.callers();
    for Hazard { first, kernel, .. } in hazards.iter_mut().filter(|hazard| hazard.first.place.is_none()) {
        let path = opened.recording.strings().path(first.path.take().unwrap_or(0));
        first.caller = callers.caller_by(path, first.caller, kernel.clone());
        first.place = callers.name(first.caller).map(str::to_owned);
    }
    Ok(hazards)
}

/// The process knew only what had happened until it noted a hazard.
fn weigh(hazards: &mut Vec<Hazard>, opened: &Opened) -> Result<(), Failure> {
    if hazards.is_empty() {
        return Ok(());
    }
    let mut weigher = Weigher::new(&opened.recording);
    opened.visit(|entry| weigher.see(entry))?;
    weigher.finish(hazards);
    Ok(())
}

fn from_recording(opened: &Opened) -> Result<Vec<Hazard>, Failure> {
    let mut gathered = Aggregator::default();
    opened.visit(|entry| gathered.see(&opened.recording, entry))?;
    Ok(gathered.hazards_of(&opened.recording))
}
