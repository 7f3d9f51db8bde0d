//! `lazyguard`: puts the guard in front of a program, and reads what it recorded.
//!
//! Everything that is decided is decided in `lazyguard-core`; this crate finds files, reads arguments and prints. Exit
//! codes: 0 done; 1 what was asked for is not there or cannot be read; 2 unusable arguments; those of `lazyguard run` are in
//! `run::code`.

#![cfg_attr(test, allow(clippy::disallowed_methods, clippy::print_stderr))]

mod clean;
mod doctor;
mod dump;
mod elf;
mod ends;
mod explain;
mod export;
mod files;
mod findings;
mod format;
mod library;
mod log;
mod manual;
mod names;
mod nvml;
mod old_runs;
mod output;
mod process;
mod recorded;
#[cfg(test)]
#[path = "../tests/common/mod.rs"]
mod recordings;
mod report;
mod run;
mod source;
mod stacks;
mod symbolize;
mod timing;

use clap::error::ContextValue;
use clap::{Parser, Subcommand};
use lazyguard_core::api::ENTRY_POINTS;
use lazyguard_core::report::one_line;
use lazyguard_core::trace::layout;
use output::{write_line, Output};
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::LazyLock;

/// Keeps CUDA programs from deadlocking on lazy loading, and says why they hang.
#[derive(Parser)]
#[command(name = "lazyguard", version = VERSION.as_str(), propagate_version = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

/// The version, the commit of a released build (an everyday one is not compiled again for every commit), and the recordings that this
/// build reads.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let commit = option_env!("LAZYGUARD_COMMIT").filter(|commit| !commit.is_empty());
    let build = commit.map_or_else(|| "development build".to_owned(), |commit| format!("commit {commit}"));
    format!("{} ({build}, recording format {})", env!("CARGO_PKG_VERSION"), layout::VERSION)
});

#[derive(Subcommand)]
enum Command {
    /// Run a program under the guard, end it when it hangs or takes too long, and say what was found.
    ///
    /// The program's output, input, terminal and exit code are its own. Settings that no option names are those of the
    /// environment.
    Run(Box<run::Options>),
    /// Print what is known of a run: the hang, if there is one, how the process ended, the hazards, and the summary.
    Report(report::Arguments),
    /// Ask a running process what it is doing now, and print its answer. No thread of it is stopped.
    Dump(dump::Arguments),
    /// Print the records of a recording, one a line.
    Log(log::Arguments),
    /// Write a recording as a timeline that a viewer opens.
    Export(export::Arguments),
    /// Explain a code, or a word that a report uses: HANG, SLOW, likely.
    Explain {
        /// The code or the word, such as LG201; without one, all of them in a line each.
        code: Option<String>,
    },
    /// Look at this machine, and at a program: would the guard see its driver calls?
    Doctor(doctor::Arguments),
    /// Remove the private folders that this user's processes and runs have left behind.
    ///
    /// Of living processes, of other users, and where --out or LAZYGUARD_OUT said, nothing is removed.
    Clean(clean::Arguments),
    /// Print the table of settings.
    Settings,
    /// Print a manual page, for `man -l -`.
    Man {
        /// The command that it is about, such as run; without one, all of lazyguard.
        command: Option<String>,
        /// Write the pages of all commands into this folder instead.
        #[arg(long, value_name = "FOLDER", conflicts_with = "command")]
        out: Option<PathBuf>,
    },
    /// Print the completions of a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the driver symbols that the library stands in front of.
    Symbols {
        /// With the ids by which recordings name them.
        #[arg(long)]
        ids: bool,
    },
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return unusable(in_lines(error)),
    };
    let outcome = match arguments.command {
        Command::Run(options) => return run::run(*options),
        Command::Report(arguments) => report::report(&arguments),
        Command::Dump(arguments) => dump::dump(&arguments),
        Command::Log(arguments) => log::log(&arguments),
        Command::Export(arguments) => export::export(&arguments),
        Command::Explain { code } => explain::explain(code.as_deref()),
        Command::Doctor(arguments) => doctor::doctor(arguments),
        Command::Clean(arguments) => clean::clean(&arguments),
        Command::Settings => manual::settings(),
        Command::Man { command, out } => manual::man(command.as_deref(), out.as_deref()),
        Command::Completions { shell } => manual::completions(shell),
        Command::Symbols { ids } => symbols(ids),
    };
    match outcome {
        Ok(code) => code,
        // A reader that closes the pipe early, as `head` does, has what it wanted.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(failure) => {
            output::say(failure);
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

/// Arguments that cannot be used, or a question for help. Of `lazyguard run`, one line, and the code that says that the program
/// has not run.
fn unusable(error: clap::Error) -> ExitCode {
    if !error.use_stderr() || std::env::args_os().nth(1).is_none_or(|command| command != "run") {
        // As the parser itself does; where it cannot be printed, there is no reader.
        let _ = error.print();
        return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
    }
    let text = error.to_string();
    let lines = || text.lines().map(str::trim);
    let line = lines().take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    let similar = lines().find_map(|line| line.strip_prefix("tip: ").filter(|tip| tip.contains("similar")));
    let tip = similar.map(|tip| format!("; {tip}")).unwrap_or_default();
    output::say(format_args!("{}{tip} (see lazyguard run --help)", line.trim_start_matches("error: ")));
    ExitCode::from(run::code::OWN_FAILURE)
}

/// The error with the arguments that it quotes as parts of a line: a script may have taken them from anywhere.
fn in_lines(mut error: clap::Error) -> clap::Error {
    let plain = |text: &String| one_line(text).into_owned();
    let quoted = error.context().filter_map(|(kind, value)| match value {
        ContextValue::String(text) => Some((kind, ContextValue::String(plain(text)))),
        ContextValue::Strings(texts) => Some((kind, ContextValue::Strings(texts.iter().map(plain).collect()))),
        _ => None,
    });
    for (kind, value) in quoted.collect::<Vec<_>>() {
        error.insert(kind, value);
    }
    error
}

fn symbols(ids: bool) -> Outcome {
    let mut out = Output::standard();
    for form in ENTRY_POINTS {
        match ids {
            true => write_line!(out, "{} {}", form.id, form.symbol)?,
            false => write_line!(out, "{}", form.symbol)?,
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
