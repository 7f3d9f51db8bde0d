//! `lazyguard top`: what the processes of a run do, in a terminal, again and again.
//!
//! Without a terminal on standard output, the table is plain text: once, or every `--interval`.
//!
//! Must not: stop or ask a process.

use crate::folder::live::Depth;
use crate::folder::{duration, proc_is_mounted};
use crate::forms::top::screen::{Event, Screen};
use crate::forms::top::table;
use crate::judge::Watched;
use crate::words::{say, write_line, Failure, Outcome, Output};
use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

const INTERVAL: Duration = Duration::from_secs(1);
const SHORTEST: Duration = Duration::from_millis(100);

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Processes, their folders, or the folders of runs; without one, the guarded processes of this machine that this user may see.
    #[arg(value_name = "PID|FOLDER")]
    what: Vec<PathBuf>,
    /// Look again after so long: 500ms, 2s. Without a terminal on standard output, the table is printed again and again.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    interval: Option<u64>,
}

pub(crate) fn top(arguments: &Arguments) -> Outcome {
    let interval = arguments.interval.map_or(INTERVAL, Duration::from_nanos).max(SHORTEST);
    if arguments.what.is_empty() && !proc_is_mounted() {
        return Err(Failure::Input("/proc is not mounted: name a folder".to_owned()));
    }
    let mut job = Watched::new(arguments.what.clone());
    // Without a terminal of its own, as after setsid, a process has no keys.
    let screen = is_terminal().then(Screen::enter).and_then(Result::ok);
    let Some(screen) = screen else { return plain(&mut job, interval, arguments.interval.is_some()) };
    loop {
        let processes = job.look(Depth::Records);
        loop {
            let (width, height) = screen.size();
            screen.show(&table::lines(&processes, job.problems(), Some(width)), height).map_err(Failure::Output)?;
            match screen.wait(interval).map_err(Failure::Output)? {
                Event::Time => break,
                Event::Redraw => {}
                Event::Quit => return Ok(ExitCode::SUCCESS),
            }
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "it is only looked at")]
fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// The table as plain text. Launches a second need two looks.
fn plain(job: &mut Watched, interval: Duration, again: bool) -> Outcome {
    job.look(Depth::Records);
    let mut missing = if again { say_new(&[], job.problems(), interval) } else { Vec::new() };
    loop {
        thread::sleep(interval);
        let processes = job.look(Depth::Records);
        let mut out = Output::standard();
        out.lines(table::lines(&processes, &[], None))?;
        if again {
            write_line!(out, "")?;
        }
        out.flush()?;
        drop(out);
        if !again {
            job.problems().iter().for_each(say);
            return Ok(ExitCode::from(u8::from(processes.is_empty())));
        }
        missing = say_new(&missing, job.problems(), interval);
    }
}

/// A folder that is not there may be that of a run that is still to start: a line says that it is waited for.
fn say_new(said: &[String], problems: &[String], interval: Duration) -> Vec<String> {
    let new = problems.iter().filter(|problem| !said.contains(problem));
    new.for_each(|problem| say(format!("{problem}; top looks again every {interval:?}")));
    problems.to_vec()
}
