//! `lazyguard report`: what a run folder holds.

use crate::{Failure, Outcome};
use lazyguard_core::report::{Account, HangReport};
use serde_json::json;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

/// How a report is written.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum Format {
    /// For a person.
    Text,
    /// For a program: one JSON object with `hang` and `run`, each null where there is none.
    Json,
}

/// Prints the report of a run folder.
pub(crate) fn report(folder: &Path, format: Format) -> Outcome {
    let hang: Option<HangReport> = read(folder, "hang.json")?;
    let run: Option<Account> = read(folder, "run.json")?;
    let log = folder.join("log.jsonl");
    if hang.is_none() && run.is_none() && !log.exists() {
        return Err(Failure::Input(format!(
            "{}: not a run folder: no hang.json, run.json or log.jsonl",
            folder.display()
        )));
    }
    let mut out = io::stdout().lock();
    match format {
        Format::Json => {
            let both = json!({ "hang": hang, "run": run });
            writeln!(out, "{both:#}")?;
        }
        Format::Text => {
            if let Some(hang) = &hang {
                for line in hang.text().lines() {
                    writeln!(out, "{}", line.strip_prefix("lazyguard: ").unwrap_or(line))?;
                }
                writeln!(out)?;
            }
            match &run {
                Some(run) => run.lines().iter().try_for_each(|line| writeln!(out, "{line}"))?,
                None => writeln!(out, "no account: the program did not end in an orderly way, or still runs")?,
            }
            if log.exists() {
                writeln!(out, "log: {}", log.display())?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn read<T: serde::de::DeserializeOwned>(folder: &Path, name: &str) -> Result<Option<T>, Failure> {
    let path = folder.join(name);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Failure::Input(format!("{}: {error}", path.display()))),
    };
    serde_json::from_str(&text).map(Some).map_err(|error| Failure::Input(format!("{}: {error}", path.display())))
}
