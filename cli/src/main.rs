//! `lazyguard`: puts the guard in front of a program, and reads what it recorded.
//!
//! Everything that is decided is decided in `lazyguard-core`; this crate finds files, reads arguments and prints. Exit
//! codes: 0 done; 1 what was asked for is not there or cannot be read; 2 unusable arguments; 126 and 127 as `env` uses
//! them for a program that cannot be run or found.

mod callers;
#[allow(dead_code, reason = "`lazyguard run` looks at the cards once it waits for the program")]
mod card;
mod doctor;
mod dump;
mod explain;
mod export;
mod log;
mod names;
#[cfg(test)]
#[path = "../tests/common/mod.rs"]
mod recordings;
mod report;
mod run;
mod source;
mod stacks;
mod timing;

use clap::{Parser, Subcommand};
use lazyguard_core::api::FORMS;
use lazyguard_core::settings::SETTINGS;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Keeps CUDA programs from deadlocking on lazy loading, and says why they hang.
#[derive(Parser)]
#[command(name = "lazyguard", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a program under the guard, with the settings of the environment.
    Run {
        /// The guard's library, if it is not beside this command.
        #[arg(long, value_name = "FILE")]
        library: Option<PathBuf>,
        /// The program and its arguments.
        #[arg(trailing_var_arg = true, required = true, allow_hyphen_values = true)]
        program: Vec<String>,
    },
    /// Print what is known of a run: the hang, if there is one, how the process ended, and the account.
    Report {
        /// A process, or a run folder.
        #[arg(value_name = "PID|FOLDER")]
        what: PathBuf,
        /// For a person or for a program.
        #[arg(long, value_enum, default_value = "text")]
        format: report::Format,
        #[command(flatten)]
        timing: timing::Arguments,
    },
    /// Ask a running process what it is doing now, and print its answer. No thread of it is stopped.
    Dump(dump::Arguments),
    /// Print the records of a recording, one a line.
    Log(log::Arguments),
    /// Write a recording as a timeline that a viewer opens.
    Export(export::Arguments),
    /// Explain a code.
    Explain {
        /// The code, such as LG201; without one, all of them in a line each.
        code: Option<String>,
    },
    /// Look at this machine, and at a program: would the guard see its driver calls?
    Doctor {
        /// The guard's library, if it is not beside this command.
        #[arg(long, value_name = "FILE")]
        library: Option<PathBuf>,
        /// The program that is to be guarded.
        #[arg(last = true)]
        program: Vec<PathBuf>,
    },
    /// Print the table of settings.
    Settings,
    /// Print the driver symbols that the library stands in front of.
    Symbols {
        /// With the ids by which recordings name them.
        #[arg(long)]
        ids: bool,
    },
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Run { library, program } => run::run(library, &program),
        Command::Report { what, format, timing } if timing.wanted() => timing::report(&what, &timing, format),
        Command::Report { what, format, .. } => report::report(&what, format),
        Command::Dump(arguments) => dump::dump(&arguments),
        Command::Log(arguments) => log::log(&arguments),
        Command::Export(arguments) => export::export(&arguments),
        Command::Explain { code } => explain::explain(code.as_deref()),
        Command::Doctor { library, program } => doctor::doctor(library, program.first()),
        Command::Settings => settings(),
        Command::Symbols { ids } => symbols(ids),
    };
    match outcome {
        Ok(code) => code,
        // A reader that closes the pipe early, as `head` does, has what it wanted.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("lazyguard: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// Why a command failed.
#[derive(Debug)]
enum Failure {
    /// What was asked for is not there or cannot be read; the text says what and why.
    Input(String),
    /// Standard output cannot be written.
    Output(io::Error),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Input(text) => f.write_str(text),
            Self::Output(error) => write!(f, "cannot write: {error}"),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

type Outcome = Result<ExitCode, Failure>;

fn settings() -> Outcome {
    let mut out = io::stdout().lock();
    for setting in SETTINGS {
        writeln!(out, "{}", setting.name)?;
        writeln!(out, "    {}", setting.help)?;
        writeln!(out, "    values: {}", setting.values)?;
        writeln!(out, "    default: {}", setting.default)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn symbols(ids: bool) -> Outcome {
    let mut out = io::stdout().lock();
    for form in FORMS {
        match ids {
            true => writeln!(out, "{} {}", form.id, form.symbol)?,
            false => writeln!(out, "{}", form.symbol)?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_lists_every_setting_as_the_code_has_it() {
        let page = include_str!("../../docs/CONFIGURATION.md");
        for s in SETTINGS {
            let row = format!("| `{}` | {} | {} | {} |", s.name, s.values, s.default, s.help);
            assert!(page.contains(&row), "docs/CONFIGURATION.md lacks: {row}");
        }
        let rows = page.lines().filter(|line| line.starts_with("| `LAZYGUARD")).count();
        assert_eq!(rows, SETTINGS.len(), "docs/CONFIGURATION.md has rows the code does not have");
    }
}
