//! `lazyguard dump`: asks a guarded process for a report now.

use crate::folder::{duration, one_process};
use crate::inspect::dump::ask;
use crate::words::{Failure, Format, Outcome};
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The process, or the run folder that it writes to.
    #[arg(value_name = "PID|FOLDER", value_parser = process_or_folder)]
    what: PathBuf,
    /// For a person or for a program.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// How long to wait for the answer: 10s, 500ms; in seconds without a unit.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "10s")]
    timeout: u64,
}

pub(crate) fn dump(arguments: &Arguments) -> Outcome {
    ask(process_meant(&arguments.what)?, arguments.format, Duration::from_nanos(arguments.timeout))
}

pub(super) fn process_or_folder(text: &str) -> Result<PathBuf, String> {
    const NEITHER: &str =
        "neither a process nor a folder; a process that runs is named by its number or by its run folder";
    let is_one = text.parse::<u32>().is_ok_and(|process| process > 0) || Path::new(text).exists();
    is_one.then(|| PathBuf::from(text)).ok_or_else(|| NEITHER.to_owned())
}

/// The process, from its number or its run folder. As in the other commands, a name that is both is the folder.
pub(super) fn process_meant(what: &Path) -> Result<u32, Failure> {
    if let (false, Some(process)) = (what.exists(), what.to_str().and_then(|text| text.parse().ok())) {
        return Ok(process);
    }
    let Some(opened) = one_process(what)?.open()? else {
        let why = "no guarded process has a recording in it; a process is named by its number too";
        return Err(Failure::at(what, why));
    };
    let process = opened.recording.facts().process;
    let why = "does not run here any more and cannot be asked; what it left can be read";
    let gone = || Failure::at(what, format!("its process ({process}) {why}: lazyguard report {}", what.display()));
    opened.live_process().ok_or_else(gone)
}
