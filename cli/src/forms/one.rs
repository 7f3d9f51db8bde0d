//! `lazyguard report` for one process. The live report and the recording are shown by the same code.

use super::text;
use crate::folder::{gpu_core, is_process_folder, is_run, process_folders, Recorded, RecordingSeen, Run, RECORDING};
use crate::judge::collect::{self, Whole};
use crate::judge::{compare, is_by_the_guard, Process, Ranks, Rules};
use crate::stacks;
use crate::words::{say, write_line, Failure, Format, Outcome, Output};
use lazyguard_core::gpu_core::GpuCore;
use lazyguard_core::hazard::Hazard;
use lazyguard_core::report::{Detail, HangReport, RevokedSeen, StackSeen, Summary};
use lazyguard_core::run_folder::file::{LOG, RUN};
use lazyguard_core::stack::STACKS;
use lazyguard_core::trace::ProcessState;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The object that `lazyguard report --format json` prints of one process.
#[derive(Serialize)]
struct ProcessReport<'a> {
    /// `hang.json`, with the verdicts of this build.
    hang: Option<&'a HangReport>,
    /// How long that hang has lasted; null once it is over.
    lasts: Option<Lasts>,
    /// The content of `run.json`.
    run: Option<&'a Summary>,
    /// The content of the recording.
    recording: Option<RecordingSeen<'a>>,
    /// The readable stacks in `stacks.dmp`, with functions and lines, or null.
    stacks: Option<&'a [StackSeen]>,
    /// The readable core dump of the GPU in `gpu.core`, or null.
    gpu: Option<&'a GpuCore>,
    /// Sentences that the core dump adds to the verdicts.
    gpu_says: Vec<String>,
    /// The hazards that the process met; null where they cannot be read.
    hazards: Option<Vec<&'a Hazard>>,
}

/// A reported hang, seen later.
#[derive(Serialize)]
struct Lasts {
    /// When its calls were last seen in progress, in nanoseconds since 1970.
    seen_unix_ns: u64,
    /// Whether the process still lives.
    is_now: bool,
    /// How long the first call had lasted then.
    blocked_nanos: u64,
}

struct Found<'a> {
    run: &'a Run,
    process: Process,
    whole: Whole,
    log: Option<PathBuf>,
}

/// Prints the report of one process. An unreadable part does not prevent the rest; without a rest, its failure is the whole report.
pub(crate) fn report_one(run: &Run, format: Format, detail: Detail, all: bool, out: &mut Output<'_>) -> Outcome {
    let log = run.folder.as_ref().map(|folder| folder.join(LOG)).filter(|log| log.exists());
    if let Some(folder) = run.folder.as_deref().filter(|folder| log.is_none() && !is_process_folder(folder)) {
        return Err(no_run_folder(folder));
    }
    let (mut process, whole) = collect::whole(run, true);
    let mut problems = std::mem::take(&mut process.problems);
    // The text has it beside the rest of the core.
    let gpu_problem = process.gpu_problem();
    problems.extend(gpu_problem.clone().filter(|_| matches!(format, Format::Json)));
    let has_anything = whole.reported.is_some() || process.summary.is_some() || log.is_some();
    if has_anything || whole.recorded.is_some() {
        let found = Found { run, process, whole, log };
        match format {
            Format::Json => out.json(&found.json())?,
            Format::Text => found.write_text(detail, all, out)?,
        }
        out.flush()?;
    }
    let last = problems.pop();
    problems.iter().for_each(say);
    let readable = if gpu_problem.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    last.map_or(Ok(readable), |last| Err(Failure::Input(last)))
}

fn no_run_folder(folder: &Path) -> Failure {
    let mut unreadable = Vec::new();
    process_folders(folder, &mut unreadable, |_| true);
    let unreadable = unreadable.first().map(|first| match unreadable.len() {
        1 => format!("; a folder in it cannot be looked into: {first}"),
        count => format!("; {count} folders in it cannot be looked into, the first: {first}"),
    });
    let what = match is_run(folder) {
        true => "no process of this run has initialised CUDA under the guard".to_owned(),
        false => format!("not a run folder: no hang.json, run.json, log.jsonl or {RECORDING}"),
    };
    Failure::at(folder, what + &unreadable.unwrap_or_default())
}

impl Found<'_> {
    fn json(&self) -> ProcessReport<'_> {
        let Self { process, whole, .. } = self;
        let names = process.names();
        let has_stacks = process.folder.join(STACKS).exists() && stacks::problem_in(&process.folder).is_none();
        let gpu = process.gpu.as_ref().and_then(|gpu| gpu.as_ref().ok());
        let hazards = process.hazards.iter().map(|seen| &seen.hazard);
        ProcessReport {
            hang: whole.reported.as_ref(),
            lasts: self.lasts(),
            run: process.summary.as_ref(),
            recording: whole.recorded.as_ref().map(Recorded::json),
            stacks: Some(&names.stacks[..]).filter(|_| has_stacks),
            gpu,
            gpu_says: process
                .gpu
                .as_ref()
                .map_or_else(Vec::new, |core| gpu_core::sentences(core, whole.reported.as_ref())),
            hazards: process.knows_hazards.then(|| hazards.collect()),
        }
    }

    fn lasts(&self) -> Option<Lasts> {
        let (hang, recorded) = (self.whole.reported.as_ref()?, self.whole.recorded.as_ref()?);
        let newest = recorded.newest(hang)?;
        let since = hang.snapshot.blocked.first().map_or(hang.snapshot.last_activity, |call| call.entered);
        Some(Lasts {
            seen_unix_ns: self.process.armed_unix_nanos.saturating_add(newest.at),
            is_now: newest.is_now,
            blocked_nanos: newest.at.saturating_sub(since),
        })
    }

    fn why_there_is_no_summary(&self) -> &'static str {
        let Some(opened) = self.whole.recorded.as_ref().map(|recorded| &recorded.opened) else {
            return match self.run.recording.is_some() {
                true => "no summary, and the recording that would say why cannot be read",
                false => "no summary: the program did not end in an orderly way, still runs, or its summary could not be written",
            };
        };
        match opened.recording.facts().state {
            ProcessState::Ended => {
                "no summary: the program ended in an orderly way, but its summary (run.json) was not written, as where a disk is full, or is gone"
            }
            _ if opened.alive => "no summary: the program still runs",
            ProcessState::SteppedAside => "no summary: the guard had stepped aside before the program ended",
            _ if opened.hidden || !opened.is_of_this_machine() => {
                "no summary: the program did not end in an orderly way, or still runs where it cannot be seen from here"
            }
            _ => "no summary: the program did not end in an orderly way",
        }
    }

    fn write_text(&self, detail: Detail, all: bool, out: &mut Output<'_>) -> Result<(), Failure> {
        let Self { process, whole: Whole { reported, recorded }, .. } = self;
        let ranks = self.compared();
        if let Some(ranks) = &ranks {
            out.lines(ranks.lines(detail))?;
            write_line!(out, "")?;
        }
        match (reported, recorded) {
            (Some(hang), recorded) => {
                let named = process.names().report.as_ref().unwrap_or(hang);
                let named = HangReport { folder: None, ..named.clone() };
                let lines = named.lines(recorded.as_ref().and_then(|recorded| recorded.newest(hang)), detail);
                out.lines(lines.into_iter().filter_map(|line| text::beside(ranks.as_ref(), line)))?;
                if let Some(recorded) = recorded {
                    recorded.write_what_became_of(hang, out)?;
                }
                write_line!(out, "")?;
            }
            (None, Some(recorded)) => recorded.write_standstill(detail, out)?,
            (None, None) => {}
        }
        if let Some(core) = &process.gpu {
            out.lines(gpu_core::lines(core, reported.as_ref()))?;
            write_line!(out, "")?;
        }
        self.write_end(out)?;
        let judged = Rules::default().judge(std::slice::from_ref(process));
        match process.knows_hazards {
            true if judged.hazards.is_empty() => {}
            true if process.is_held_up() && detail == Detail::Short => {
                out.lines(text::number_of_hazards(&judged, &process.folder))?;
            }
            true => out.lines(detail.of(text::judged(&judged, all)))?,
            false => write_line!(out, "the hazards cannot be told: the recording cannot be read")?,
        }
        match recorded {
            Some(recorded) => recorded.write_account(out)?,
            None => write_line!(out, "{}", match self.run.recording.is_some() {
                true => "the recording (trace.lgt) cannot be read: what happened, and whether the process runs, is not known",
                false => {
                    "no recording: it was kept in memory and went with the process (a private folder on a disk, a file system in a \
                     network), or LAZYGUARD_RECORD is off"
                }
            })?,
        }
        if let Some(log) = &self.log {
            write_line!(out, "log: {}", log.display())?;
        }
        if let (Some(folder), Some(_)) = (&self.run.folder, recorded) {
            write_line!(out, "records: lazyguard log {0}, or lazyguard export {0} --to perfetto", folder.display())?;
        }
        Ok(())
    }

    /// The ranks of the run around a rank's folder.
    fn compared(&self) -> Option<Ranks> {
        let run = self.run.folder.as_deref()?.parent()?;
        (!self.process.rank.is_empty() && is_run(run)).then(|| compare(&collect::under(run).0)).flatten()
    }

    fn write_end(&self, out: &mut Output<'_>) -> Result<(), Failure> {
        let summary = self.process.summary.as_ref();
        let by_the_guard = summary.filter(|summary| is_by_the_guard(summary)).map(|summary| &summary.ended);
        let recorded = self.whole.recorded.as_ref();
        if let Some(recorded) = recorded {
            write_line!(out, "{}", recorded.how_it_ended(by_the_guard.map(|ended| format!("was {ended}"))))?;
        }
        match summary {
            // How it ended has been said where there is a recording.
            Some(summary) => {
                let revoked = self.whole.reported.as_ref().and_then(|hang| hang.revoked.as_ref());
                let said = [by_the_guard.filter(|_| recorded.is_some()).cloned(), revoked.map(RevokedSeen::in_words)];
                out.lines(summary.lines().iter().filter(|line| !said.iter().flatten().any(|said| said == *line)))?;
            }
            None if self.process.folder.join(RUN).exists() => {
                write_line!(out, "the summary (run.json) cannot be read: how the program ended is not known")?;
            }
            None => write_line!(out, "{}", self.why_there_is_no_summary())?,
        }
        Ok(())
    }
}
