//! `lazyguard export`: a recording for another program's eyes.
//!
//! | file | holds |
//! |---|---|
//! | `timeline` | which tracks, slices and arrows the records make |
//! | `perfetto` | how those are written |
//! | `protobuf` | in bytes |

mod perfetto;
mod protobuf;
#[cfg(test)]
mod read_back;
mod timeline;

use crate::source::{duration, Run};
use crate::{Failure, Outcome};
use lazyguard_core::trace::read::Entry;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use timeline::Timeline;

/// What a timeline is called in a run folder.
const TIMELINE: &str = "trace.perfetto-trace";

/// What a recording can be exported to.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum Format {
    /// A timeline for ui.perfetto.dev.
    Perfetto,
}

/// What to export, and where to.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A process, or a run folder.
    #[arg(value_name = "PID|FOLDER")]
    what: PathBuf,
    /// The form.
    #[arg(long, value_enum)]
    to: Format,
    /// The file; `-` is standard output [default: trace.perfetto-trace in the run folder]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Only calls entered at this time or later: 1.5, 250ms; in seconds since the guard was armed, without a unit.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    since: Option<u64>,
    /// Only calls entered up to this time.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    until: Option<u64>,
}

/// Writes a timeline.
pub(crate) fn export(arguments: &Arguments) -> Outcome {
    let Format::Perfetto = arguments.to;
    let run = Run::find(&arguments.what)?;
    let opened = run.must_open()?;
    let in_folder = || opened.path.with_file_name(TIMELINE);
    let path = arguments.output.clone().unwrap_or_else(in_folder);
    let range = arguments.since.unwrap_or(0)..=arguments.until.unwrap_or(u64::MAX);
    let write = |out: &mut dyn Write, failed: &dyn Fn(io::Error) -> Failure| {
        let out = BufWriter::with_capacity(1 << 20, out);
        let mut timeline = Timeline::new(&opened.recording, opened.callers(), out).map_err(failed)?;
        let mut see = |entry: &Entry| match range.contains(&entry.record.entered) {
            true => timeline.see(entry).map_err(failed),
            false => Ok(()),
        };
        opened.each_record(&mut see)?;
        opened.calls_in_progress().iter().try_for_each(see)?;
        timeline.finish(&opened.state_in_words()).map_err(failed)
    };
    if path.as_os_str() == OsStr::new("-") {
        write(&mut io::stdout().lock(), &Failure::Output)?;
        return Ok(ExitCode::SUCCESS);
    }
    let failed = |error: io::Error| Failure::Input(format!("cannot write {}: {error}", path.display()));
    let mut file = File::create(&path).map_err(failed)?;
    match write(&mut file, &failed) {
        Ok((slices, bytes)) => {
            let size = bytes as f64 / 1e6;
            writeln!(
                io::stdout(),
                "{}: {slices} slices in {size:.1} MB; open it at https://ui.perfetto.dev",
                path.display()
            )?;
            Ok(ExitCode::SUCCESS)
        }
        Err(failure) => {
            discard(&path);
            Err(failure)
        }
    }
}

/// Takes away what could not be written to its end, unless it is something like a terminal.
fn discard(path: &Path) {
    if fs::metadata(path).is_ok_and(|metadata| metadata.is_file()) {
        // It is in nobody's way; what went wrong before is what is reported.
        let _ = fs::remove_file(path);
    }
}
