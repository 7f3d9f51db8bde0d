//! `lazyguard report`: reports a run, from its folder or from the process that is still running.
//!
//! A hang is reported from the live report where there is one, else from the recording, by the same code. The last calls of the process
//! are always known, because the recorder writes each one before the call is made.
//!
//! A running process that keeps no recording in a file is asked ([`dump`]); one that is not guarded is looked at from outside ([`attach`]).

use crate::attach;
use crate::dump;
use crate::findings;
use crate::format::Format;
use crate::gpu_core;
use crate::output::{say, write_line, Output};
use crate::recorded::{write_hang, Recorded, RecordingSeen};
use crate::runs;
use crate::source::{hang_in, is_process_folder, read, Opened, Run, RECORDING};
use crate::timing;
use crate::{stacks, Failure, Outcome};
use lazyguard_core::gpu_core::GpuCore;
use lazyguard_core::hazard::Hazard;
use lazyguard_core::report::{HangReport, StackSeen, Summary};
use lazyguard_core::trace::read::ProcessState;
use serde::Serialize;
use serde_json::{json, Value};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// How long a process has to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The time between two looks at a process from outside.
const BETWEEN: Duration = Duration::from_secs(1);

/// What is asked for.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A process, its folder, or the folder of a run; of several runs in a folder, the newest.
    #[arg(value_name = "PID|FOLDER", required_unless_present = "gpu_core")]
    what: Option<PathBuf>,
    /// Report a GPU core dump of the driver: its kernels, and where their threads stand.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["what", "list", "hazards", "cold_start", "blocking"])]
    gpu_core: Option<PathBuf>,
    /// List the runs in a folder with start and command, and report none.
    #[arg(long, conflicts_with_all = ["hazards", "cold_start", "blocking", "format"])]
    list: bool,
    /// For a person or for a program.
    #[arg(long, value_enum, default_value = "text")]
    format: findings::Format,
    /// Print the hazards: the deadlocks that did not happen this time.
    #[arg(long, conflicts_with_all = ["cold_start", "blocking"])]
    hazards: bool,
    /// A file that names reviewed hazards, which are marked as suppressed.
    #[arg(long, value_name = "FILE", requires = "hazards")]
    suppress: Vec<PathBuf>,
    /// A baseline of `lazyguard run`, whose hazards are marked as known.
    #[arg(long, value_name = "FILE", requires = "hazards")]
    baseline: Option<PathBuf>,
    /// Write the report as one page for a browser, and print one line.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["list", "format", "hazards", "cold_start", "blocking"])]
    html: Option<PathBuf>,
    #[command(flatten)]
    timing: timing::Arguments,
}

/// The files of a run.
struct Found {
    folder: Option<PathBuf>,
    hang: Option<HangReport>,
    run: Option<Summary>,
    log: Option<PathBuf>,
    recorded: Option<Recorded>,
    /// There is a recording, and it cannot be read.
    recording_is_unreadable: bool,
    /// There is a summary, and it cannot be read.
    account_is_unreadable: bool,
    hazards: Result<Vec<Hazard>, Failure>,
    /// The stacks that were kept when a hang was reported.
    stacks: Option<Result<Vec<StackSeen>, String>>,
    /// What the core dump of the GPU says.
    gpu: Option<Result<GpuCore, String>>,
}

/// What `lazyguard report --format json` prints of one process.
#[derive(Serialize)]
struct ProcessReport<'a> {
    /// The content of `hang.json`.
    hang: Option<&'a HangReport>,
    /// How long that hang has lasted; null once it is over.
    lasts: Option<Lasts>,
    /// The content of `run.json`.
    run: Option<&'a Summary>,
    /// The content of the recording.
    recording: Option<RecordingSeen<'a>>,
    /// The stacks of `stacks.dmp`, with functions and lines.
    stacks: Option<&'a [StackSeen]>,
    /// The content of `gpu.core`.
    gpu: Option<&'a GpuCore>,
    /// Sentences that the core dump adds to the verdicts.
    gpu_says: Vec<String>,
    /// The hazards of the process.
    hazards: Option<&'a [Hazard]>,
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

/// Prints the report of a run.
pub(crate) fn report(arguments: &Arguments) -> Outcome {
    let Arguments { what, gpu_core, list, format, hazards, suppress, baseline, html, timing } = arguments;
    if let Some(file) = gpu_core {
        return gpu_core::report(file, plain(*format)?);
    }
    // There is one, or the options were refused.
    let Some(what) = what else { return Ok(ExitCode::FAILURE) };
    if *list {
        return runs::list(what);
    }
    let what = &runs::newest_in(what);
    let mut out = Output::standard();
    if let Some(file) = html {
        let outcome = findings::report_page(what, file, &mut out);
        out.flush()?;
        return outcome;
    }
    if *hazards {
        let outcome = findings::report_hazards(what, *format, suppress, baseline.as_deref(), &mut out);
        out.flush()?;
        return outcome;
    }
    let format = plain(*format)?;
    if timing.wanted() {
        drop(out);
        return timing::report(what, timing, format);
    }
    if let Some(process) = Run::without_a_recording(what) {
        drop(out);
        return match dump::can_be_asked(process) {
            true => dump::ask(process, format, PATIENCE),
            false => attach::look_at(process, format, BETWEEN, false),
        };
    }
    let run = Run::find(what)?;
    if run.process.is_none() && !is_process_folder(what) && findings::holds_processes(what) {
        let outcome = findings::report_all(what, format, &mut out);
        out.flush()?;
        return outcome;
    }
    let outcome = report_one(run, format, &mut out);
    out.flush()?;
    outcome
}

/// The format of a report that is not of hazards.
fn plain(format: findings::Format) -> Result<Format, Failure> {
    match format {
        findings::Format::Text => Ok(Format::Text),
        findings::Format::Json => Ok(Format::Json),
        findings::Format::Sarif | findings::Format::Junit => {
            Err(Failure::Usage("this format is one of hazards and hangs together: say --hazards".to_owned()))
        }
    }
}

/// Prints the report of one process. An unreadable part does not prevent the rest; without a rest, its failure is the whole report.
fn report_one(run: Run, format: Format, out: &mut Output<'_>) -> Outcome {
    let mut unreadable = Vec::new();
    let (mut hang, mut summary, mut log) = (None, None, None);
    let mut account_is_unreadable = false;
    if let Some(folder) = &run.folder {
        hang = kept(hang_in(folder), &mut unreadable);
        let before = unreadable.len();
        summary = kept(read(folder, "run.json"), &mut unreadable);
        account_is_unreadable = unreadable.len() > before;
        log = Some(folder.join("log.jsonl")).filter(|log| log.exists());
        if hang.is_none() && summary.is_none() && log.is_none() && !is_process_folder(folder) {
            let unreadable = findings::unreadable_in(folder);
            let unreadable = unreadable.first().map(|first| match unreadable.len() {
                1 => format!("; a folder in it cannot be looked into: {first}"),
                count => format!("; {count} folders in it cannot be looked into, the first: {first}"),
            });
            return Err(Failure::Input(format!(
                "{}: not a run folder: no hang.json, run.json, log.jsonl or {RECORDING}{}",
                folder.display(),
                unreadable.unwrap_or_default()
            )));
        }
    }
    let recorded = run.open().and_then(|opened| opened.map(Recorded::read).transpose());
    let recording_is_unreadable = recorded.is_err();
    let recorded = kept(recorded, &mut unreadable);
    if hang.is_none() && summary.is_none() && log.is_none() && recorded.is_none() {
        // The recording's failure is the last one.
        return unreadable.pop().map_or(Ok(ExitCode::SUCCESS), Err);
    }
    let opened = recorded.as_ref().map(Recorded::opened);
    unreadable.extend(opened.and_then(Opened::cut_short));
    let mut hazards = findings::hazards_in(run.folder.as_deref(), opened);
    if let (Err(failure), Some(opened)) = (&hazards, opened) {
        unreadable.push(Failure::Input(failure.to_string()));
        hazards = findings::hazards_in(None, Some(opened));
    }
    let stacks = run.folder.as_deref().and_then(|folder| stacks::of_folder(folder, hang.as_ref()));
    let gpu = run.folder.as_deref().and_then(gpu_core::of_folder);
    let found = Found {
        folder: run.folder,
        hang,
        run: summary,
        log,
        recorded,
        recording_is_unreadable,
        account_is_unreadable,
        hazards,
        stacks,
        gpu,
    };
    match format {
        Format::Json => writeln!(out.raw(), "{:#}", found.json())?,
        Format::Text => found.write_text(out)?,
    }
    out.flush()?;
    if let Some(Err(why)) = &found.stacks {
        unreadable.push(Failure::Input(format!("the stacks cannot be told in full: {why}")));
    }
    unreadable.extend(found.hazards.err());
    let last = unreadable.pop();
    unreadable.iter().for_each(say);
    last.map_or(Ok(ExitCode::SUCCESS), Err)
}

/// The value that was read; else keeps the failure.
fn kept<T>(read: Result<Option<T>, Failure>, unreadable: &mut Vec<Failure>) -> Option<T> {
    read.unwrap_or_else(|failure| {
        unreadable.push(failure);
        None
    })
}

impl Found {
    fn json(&self) -> Value {
        json!(ProcessReport {
            hang: self.hang.as_ref(),
            lasts: self.lasts(),
            run: self.run.as_ref(),
            recording: self.recorded.as_ref().map(Recorded::json),
            stacks: self.stacks.as_ref().and_then(|stacks| stacks.as_deref().ok()),
            gpu: self.gpu.as_ref().and_then(|gpu| gpu.as_ref().ok()),
            gpu_says: match &self.gpu {
                Some(Ok(core)) => gpu_core::said(core, self.hang.as_ref()),
                _ => Vec::new(),
            },
            hazards: self.hazards.as_deref().ok(),
        })
    }

    fn lasts(&self) -> Option<Lasts> {
        let (hang, recorded) = (self.hang.as_ref()?, self.recorded.as_ref()?);
        let newest = recorded.newest(hang)?;
        let armed = recorded.opened().recording.facts().armed_unix_nanos;
        let since = hang.snapshot.blocked.first().map_or(hang.snapshot.last_activity, |call| call.entered);
        Some(Lasts {
            seen_unix_ns: armed.saturating_add(newest.at),
            is_now: newest.is_now,
            blocked_nanos: newest.at.saturating_sub(since),
        })
    }

    /// The guard's action that ended the process, if it did, in the summary's words.
    fn ended_by_the_guard(&self) -> Option<&str> {
        self.run.as_ref().map(|run| run.ended.as_str()).filter(|ended| ended.starts_with("ended by"))
    }

    /// The summary is written at an orderly end; the recording has the state of the process.
    fn why_there_is_no_account(&self) -> &'static str {
        let Some(opened) = self.recorded.as_ref().map(Recorded::opened) else {
            return "the program did not end in an orderly way, still runs, or its summary could not be written";
        };
        match opened.recording.facts().state {
            ProcessState::Ended => {
                "the program ended in an orderly way, but its summary (run.json) was not written, as where a disk is full, or is gone"
            }
            _ if opened.alive => "the program still runs",
            ProcessState::SteppedAside => "the guard had stepped aside before the program ended",
            _ if opened.hidden || !opened.is_of_this_machine() => {
                "the program did not end in an orderly way, or still runs where it cannot be seen from here"
            }
            _ => "the program did not end in an orderly way",
        }
    }

    fn write_text(&self, out: &mut Output<'_>) -> Result<(), Failure> {
        match (&self.hang, &self.recorded) {
            (Some(hang), recorded) => {
                let named = match &self.stacks {
                    Some(Ok(stacks)) => stacks::told_by(hang, stacks),
                    _ => hang.clone(),
                };
                let mut named = HangReport { folder: None, ..named };
                if let Some(recorded) = recorded {
                    recorded.opened().callers().name_in(&mut named);
                }
                write_hang(out, &named, recorded.as_ref().and_then(|recorded| recorded.newest(hang)), 0)?;
                if let Some(recorded) = recorded {
                    recorded.write_what_became_of(hang, out)?;
                }
                write_line!(out, "")?;
            }
            (None, Some(recorded)) => recorded.write_standstill(out)?,
            (None, None) => {}
        }
        if let Some(core) = &self.gpu {
            gpu_core::lines(core, self.hang.as_ref()).iter().try_for_each(|line| write_line!(out, "{line}"))?;
            write_line!(out, "")?;
        }
        if let Some(recorded) = &self.recorded {
            let by_the_guard = self.ended_by_the_guard().map(|ended| format!("was {ended}"));
            write_line!(out, "{}", recorded.how_it_ended(by_the_guard))?;
        }
        match &self.run {
            // How it ended has been said where there is a recording.
            Some(run) => {
                let said = self.recorded.as_ref().and(self.ended_by_the_guard());
                let lines = run.lines();
                lines
                    .iter()
                    .filter(|line| Some(line.as_str()) != said)
                    .try_for_each(|line| write_line!(out, "{line}"))?;
            }
            None if self.account_is_unreadable => {
                write_line!(out, "the summary (run.json) cannot be read: how the program ended is not known")?;
            }
            None if self.recording_is_unreadable => {
                write_line!(out, "no summary, and the recording that would say why cannot be read")?;
            }
            None => write_line!(out, "no summary: {}", self.why_there_is_no_account())?,
        }
        match &self.hazards {
            Ok(hazards) => {
                hazards.iter().flat_map(findings::lines_of).try_for_each(|line| write_line!(out, "{line}"))?
            }
            Err(unreadable) => write_line!(out, "the hazards cannot be told: {unreadable}")?,
        }
        match &self.recorded {
            Some(recorded) => recorded.write_account(out)?,
            None if self.recording_is_unreadable => {
                write_line!(out, "the recording (trace.lgt) cannot be read: what happened, and whether the process runs, is not known")?;
            }
            None => write_line!(
                out,
                "no recording: it was kept in memory and went with the process (a private folder on a disk, a file system in a \
                 network), or LAZYGUARD_RECORD is off"
            )?,
        }
        if let Some(log) = &self.log {
            write_line!(out, "log: {}", log.display())?;
        }
        if let (Some(folder), Some(_)) = (&self.folder, &self.recorded) {
            write_line!(out, "records: lazyguard log {0}, or lazyguard export {0} --to perfetto", folder.display())?;
        }
        Ok(())
    }
}
