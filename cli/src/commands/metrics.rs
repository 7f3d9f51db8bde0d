//! `lazyguard metrics`, and `lazyguard run --metrics`: what the processes of a run do, for a monitoring system.
//!
//! Must not: be in the guarded process. The command reads the files of the run.

use crate::folder::duration;
use crate::folder::live::Depth;
use crate::forms::prometheus::{families, writer};
use crate::judge::Watched;
use crate::words::{print, say, Failure, Outcome};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

const POLL: Duration = Duration::from_millis(100);

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Processes, their folders, or the folders of runs: of several runs in a folder, the newest.
    #[arg(value_name = "PID|FOLDER", required = true)]
    what: Vec<PathBuf>,
    /// Write to this file, which is replaced as a whole: for node_exporter, one that ends with .prom in the folder of its textfile collector.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Was a push to a collector of OpenTelemetry.
    #[arg(long, hide = true, value_parser = otlp)]
    otlp: Option<String>,
    /// Write again after so long, until the command is ended: 15s, 1m.
    #[arg(long, value_name = "DURATION", value_parser = interval)]
    interval: Option<u64>,
}

fn otlp(_: &str) -> Result<String, String> {
    Err("--otlp is gone: --output FILE writes what node_exporter serves, which a collector scrapes".to_owned())
}

fn interval(text: &str) -> Result<u64, String> {
    Some(duration(text)?).filter(|nanos| *nanos >= 100_000_000).ok_or_else(|| "at least 100ms".to_owned())
}

pub(crate) fn metrics(arguments: Arguments) -> Outcome {
    let Arguments { what, output, interval, .. } = arguments;
    let mut job = Watched::new(what);
    if let Some(every) = interval {
        let usage = || Failure::Usage("--interval needs a file that is written again: --output".to_owned());
        let path = output.ok_or_else(usage)?;
        let ends = Arc::new(AtomicBool::new(false));
        // The first process of a container is not ended by a signal that it has no action for.
        for signal in [SIGINT, SIGTERM] {
            let _ = signal_hook::flag::register(signal, Arc::clone(&ends));
        }
        let mut next = Instant::now();
        let wait = || {
            while Instant::now() < next && !ends.load(Ordering::Relaxed) {
                thread::sleep(POLL);
            }
            next = Instant::now() + Duration::from_nanos(every);
            ends.load(Ordering::Relaxed)
        };
        // A folder that is not there yet may be there the next time.
        let problems = |job: &Watched, failed: Option<Failure>| {
            let failed = failed.map(|failure| failure.to_string()).into_iter();
            failed.chain(job.problems().to_vec()).collect::<Vec<_>>().join("; ")
        };
        writer::write_again(&mut job, &path, wait, problems);
        return Ok(ExitCode::SUCCESS);
    }
    let text = families::text(&job.look(Depth::Records));
    match &output {
        Some(path) => writer::replace(path, &text)?,
        None => drop(print(|out| Ok(out.raw().write_all(text.as_bytes())?))?),
    }
    job.problems().iter().for_each(say);
    if text.is_empty() && job.problems().is_empty() {
        say("no guarded process");
    }
    Ok(ExitCode::from(u8::from(text.is_empty())))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_push_is_answered_with_what_to_use_instead() {
        assert!(super::otlp("http://collector:4318").unwrap_err().contains("gone: --output FILE"));
    }
}
