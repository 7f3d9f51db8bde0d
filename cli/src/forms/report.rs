//! `lazyguard report` for several processes, and for hazards.
//!
//! [`Format`] has the forms of a report of hazards; [`crate::words::format::Format`] has those of every other report.

use super::{html, json, junit, sarif, text};
use crate::folder::{is_process_folder, Run};
use crate::judge::collect::{self, Collected};
use crate::judge::{baseline, suppress, Process, Rules, Seen};
use crate::machine::files;
use crate::words::{self, write_line, Failure, Outcome, Output};
use lazyguard_core::report::Detail;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// For a person.
    Text,
    /// For a program: one JSON object.
    Json,
    /// The hazards alone, for systems that show the results of analyses.
    Sarif,
    /// The same for systems that show the results of tests.
    Junit,
}

/// Prints the processes whose folders lie under a root: a line each, and their hangs and hazards.
pub(crate) fn report_all(
    root: &Path,
    format: words::Format,
    detail: Detail,
    all: bool,
    out: &mut Output<'_>,
) -> Outcome {
    let rules = Rules::default();
    let seen = Seen::of(root, collect::under(root), &rules);
    match format {
        words::Format::Json => out.raw().write_all(json::text(&seen).as_bytes())?,
        words::Format::Text => {
            out.lines(text::processes(&seen, detail))?;
            let is_held_up = seen.processes.iter().any(|process| process.is_held_up());
            if is_held_up && detail == Detail::Short {
                out.lines(text::number_of_hazards(&seen.judged, root))?;
            } else if !seen.judged.hazards.is_empty() {
                write_line!(out, "")?;
                out.lines(detail.of(text::hazards(&seen, all)))?;
            }
        }
    }
    Ok(exit_code(&seen))
}

pub(crate) fn report_hazards(
    what: &Path,
    format: Format,
    suppressions: &[PathBuf],
    baseline: Option<&Path>,
    all: bool,
    out: &mut Output<'_>,
) -> Outcome {
    let read = |path: &Path| match baseline::read(path) {
        Ok(None) => Err(Failure::Input(format!("baseline {}: there is no such file", path.display()))),
        keys => keys,
    };
    let baseline = baseline.map_or(Ok(None), read)?;
    let rules = Rules { suppressions: suppress::read(suppressions)?, baseline, ..Rules::default() };
    let seen = Seen::of(what, found(what)?, &rules);
    let text = match format {
        Format::Json => json::text(&seen),
        Format::Sarif => sarif::text(&seen),
        Format::Junit => junit::text(&seen)?,
        Format::Text => {
            out.lines(seen.problem_lines().chain(text::hazards(&seen, all)))?;
            return Ok(exit_code(&seen));
        }
    };
    out.raw().write_all(text.as_bytes())?;
    Ok(exit_code(&seen))
}

pub(crate) fn report_page(what: &Path, file: &Path, out: &mut Output<'_>) -> Outcome {
    let rules = Rules::default();
    let seen = Seen::of(what, found(what)?, &rules);
    files::write(file, &html::text(&seen))?;
    out.lines(seen.problem_lines())?;
    write_line!(out, "{}", text::result(&seen))?;
    write_line!(out, "page: {}", file.display())?;
    Ok(exit_code(&seen))
}

/// The readable part has been reported; the exit code tells a script that there was an unreadable one.
fn exit_code(seen: &Seen<'_>) -> ExitCode {
    let is_damaged = |process: &Process| process.gpu_problem().is_some();
    ExitCode::from(u8::from(seen.problems().next().is_some() || seen.processes.iter().any(is_damaged)))
}

fn found(what: &Path) -> Result<Collected, Failure> {
    let run = Run::find(what)?;
    match &run.folder {
        Some(folder) if run.process.is_none() => {
            let (mut processes, unreadable) = collect::under(folder);
            if is_process_folder(folder) {
                processes.insert(0, collect::process(&run));
            }
            if processes.is_empty() {
                return Err(Failure::Input(format!("{}: holds no run folder of a process", folder.display())));
            }
            Ok((processes, unreadable))
        }
        _ => Ok((vec![collect::process(&run)], Vec::new())),
    }
}
