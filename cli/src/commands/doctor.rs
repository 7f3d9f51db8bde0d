//! `lazyguard doctor`: what the guard will and will not see, here and in a program.

use crate::folder::duration;
use crate::inspect::doctor::{examine, start_driver};
use crate::words::{Format, Outcome};
use std::path::PathBuf;
use std::time::Duration;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The guard's library, if it is not beside this command or in ../lib.
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,
    /// For a person or for a program.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// How long the driver may take to start: 20s, 500ms; on a machine whose devices sleep it takes some seconds.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "20s")]
    start_limit: u64,
    /// Starts the driver in this process, for the doctor that started it.
    #[arg(long, hide = true)]
    start_driver: bool,
    /// The program that is to be guarded, or a library; its arguments are ignored.
    #[arg(trailing_var_arg = true, value_name = "PROGRAM")]
    program: Vec<PathBuf>,
}

pub(crate) fn doctor(arguments: Arguments) -> Outcome {
    let Arguments { library, format, start_limit, start_driver: is_child, program } = arguments;
    if is_child {
        return start_driver();
    }
    examine(library, program.first().map(PathBuf::as_path), Duration::from_nanos(start_limit), format)
}
