//! `lazyguard attach`: looks at a process that runs without the guard.

use crate::folder::duration;
use crate::inspect::attach::look_at;
use crate::words::{Format, Outcome};
use std::time::Duration;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The process id.
    #[arg(value_name = "PID", value_parser = pid, allow_negative_numbers = true)]
    process: u32,
    /// For a person or for a program.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// How long to wait between the two looks at the process: 1s, 500ms; in seconds without a unit.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "1s")]
    between: u64,
    /// Print the stacks of all threads, not only of those that are in the driver.
    #[arg(long)]
    all: bool,
}

fn pid(text: &str) -> Result<u32, &'static str> {
    text.parse().ok().filter(|process| *process > 0).ok_or("no number of a process, which is what attach is given")
}

pub(crate) fn attach(arguments: &Arguments) -> Outcome {
    look_at(arguments.process, arguments.format, Duration::from_nanos(arguments.between), arguments.all)
}
