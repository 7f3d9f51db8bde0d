//! `lazyguard report --cold-start` and `--blocking`: where the time of a start went, and which asynchronous calls blocked the host.
//!
//! Must not: decide anything. `judge/timing` defines each part and each reason.

mod blocking;
mod cards;
mod cold_start;
mod read;
mod table;

pub(crate) use read::{cold_start_of, Arguments};

use crate::words::{write_line, Failure, Format, Outcome, Output};
use read::ProcessTimes;
use serde::Serialize;
use std::io;
use std::path::Path;
use std::process::ExitCode;

const SCHEMA: u32 = 1;

/// The object that `--format json` prints of a run's times.
#[derive(Serialize)]
struct Timings {
    /// 1; raised when a key changes its meaning or goes away.
    schema: u32,
    /// The processes.
    processes: Vec<ProcessTimes>,
}

pub(crate) fn report(what: &Path, arguments: &Arguments, format: Format) -> Outcome {
    let processes = read::processes(what)?;
    if processes.is_empty() {
        return Err(Failure::Input(format!("{}: holds no recording, and no folder with one", what.display())));
    }
    let mut out = Output::standard();
    let mut unreadable = None;
    let mut all = Vec::new();
    for (number, run) in processes.iter().enumerate() {
        match (ProcessTimes::read(run, arguments), format) {
            (Ok(mut times), format) => {
                unreadable = times.cut_short.take().or(unreadable);
                if let Format::Json = format {
                    all.push(times);
                    continue;
                }
                if number > 0 {
                    write_line!(out, "")?;
                }
                times.write_text(&mut out)?;
            }
            (Err(why), Format::Text) if processes.len() > 1 => write_line!(out, "{why}")?,
            (Err(failure), _) => unreadable = Some(failure),
        }
    }
    if !all.is_empty() {
        out.json(&Timings { schema: SCHEMA, processes: all })?;
    }
    out.flush()?;
    unreadable.map_or(Ok(ExitCode::SUCCESS), Err)
}

pub(crate) fn after_run(root: &Path, cold_start: bool, blocking: bool) -> Result<(), Failure> {
    let asked = Arguments { cold_start, blocking, slower_than: None };
    let out = &mut Output::standard_error();
    let processes = read::processes(root)?;
    if processes.is_empty() {
        write_line!(out, "no process of the run left a recording: none initialised CUDA, or LAZYGUARD_RECORD=off")?;
        if cold_start {
            cards::write_without_recording(root, out)?;
        }
    }
    for run in &processes {
        match ProcessTimes::read(run, &asked) {
            Ok(times) => {
                times.write_text(out)?;
                out.lines(&times.cut_short)?;
            }
            Err(why) => write_line!(out, "{why}")?,
        }
    }
    Ok(())
}

impl ProcessTimes {
    fn write_text(&self, out: &mut Output<'_>) -> io::Result<()> {
        let rank = if self.rank.is_empty() { String::new() } else { format!(", rank {}", self.rank) };
        write_line!(out, "{} (process {}{rank} on {}) {}", self.program, self.process, self.host, self.ended)?;
        if let (Some(summary), Some(cards)) = (&self.cold_start, &self.card) {
            cold_start::write(summary, out)?;
            cards.write(summary, out)?;
        }
        if let Some(summary) = &self.blocking {
            blocking::write(summary, out)?;
        }
        Ok(())
    }
}
