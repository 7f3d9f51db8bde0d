//! `lazyguard metrics`, and `lazyguard run --metrics`: what the processes of a run do, for a monitoring system.
//!
//! | file | holds |
//! |---|---|
//! | `families` | the metrics, by what `live` says of the processes |
//! | `text` | Prometheus' text format |
//! | `otlp` | OpenTelemetry's JSON, sent to a collector over HTTP |
//! | `writer` | a file that is replaced every few seconds |
//!
//! Must not: be in the guarded process. The command reads the files of the run.

mod families;
mod otlp;
mod text;
mod writer;

pub(crate) use writer::Writer;

use crate::live::{Depth, Job};
use crate::output::{say, Output};
use crate::source::duration;
use crate::{Failure, Outcome};
use otlp::Collector;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// How soon the command ends at a signal.
const POLL: Duration = Duration::from_millis(100);

/// What is asked for.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Processes, their folders, or the folders of runs: of several runs in a folder, the newest.
    #[arg(value_name = "PID|FOLDER", required = true)]
    what: Vec<PathBuf>,
    /// Write to this file, which is replaced as a whole: for node_exporter, one that ends with .prom in the folder of its textfile collector.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Send them to a collector of OpenTelemetry instead: http://HOST:4318/v1/metrics.
    #[arg(long, value_name = "URL", conflicts_with = "output", value_parser = Collector::parse)]
    otlp: Option<Collector>,
    /// Write or send again after so long, until the command is ended: 15s, 1m.
    #[arg(long, value_name = "DURATION", value_parser = interval)]
    interval: Option<u64>,
}

fn interval(text: &str) -> Result<u64, String> {
    let nanos = duration(text)?;
    match nanos < 100_000_000 {
        true => Err("at least 100ms".to_owned()),
        false => Ok(nanos),
    }
}

/// Prints, writes or sends the metrics.
pub(crate) fn metrics(arguments: Arguments) -> Outcome {
    let Arguments { what, output, otlp, interval } = arguments;
    let ends = Arc::new(AtomicBool::new(false));
    if interval.is_some() {
        if output.is_none() && otlp.is_none() {
            return Err(Failure::Usage(
                "--interval needs a place that is written again: --output or --otlp".to_owned(),
            ));
        }
        // The first process of a container is not ended by a signal that it has no action for.
        for signal in [SIGINT, SIGTERM] {
            let _ = signal_hook::flag::register(signal, Arc::clone(&ends));
        }
    }
    let mut job = Job::new(what);
    let mut complained = String::new();
    loop {
        let begin = Instant::now();
        let families = families::of(&job.look(Depth::Records));
        let written = match (&output, &otlp) {
            (Some(path), _) => writer::replace(path, &text::text(&families)),
            (None, Some(collector)) => collector.send(&families),
            (None, None) => {
                let mut out = Output::standard();
                out.raw().write_all(text::text(&families).as_bytes())?;
                out.flush().map_err(Failure::Output)
            }
        };
        let Some(every) = interval else {
            written?;
            job.problems().iter().for_each(say);
            if families.is_empty() && job.problems().is_empty() {
                say("no guarded process");
            }
            return Ok(ExitCode::from(u8::from(families.is_empty())));
        };
        // A collector that does not answer, or a folder that is not there yet, may be there the next time.
        let problems = written.err().map(|failure| failure.to_string()).into_iter().chain(job.problems().to_vec());
        let problems = problems.collect::<Vec<_>>().join("; ");
        if !problems.is_empty() && problems != complained {
            say(&problems);
        }
        complained = problems;
        while begin.elapsed() < Duration::from_nanos(every) {
            if ends.load(Ordering::Relaxed) {
                return Ok(ExitCode::SUCCESS);
            }
            thread::sleep(POLL);
        }
    }
}
