//! `lazyguard`: puts the guard in front of a program, and reads what it recorded.
//!
//! All decisions are made in `lazyguard-core`; this crate finds files, reads arguments and prints. Exit codes: 0 done; 1 what was asked
//! for is missing or unreadable; 2 unusable arguments; those of `lazyguard run` are in `exit_code`.

#![cfg_attr(test, allow(clippy::disallowed_methods, clippy::print_stderr))]

mod anonymise;
mod arguments;
mod attach;
mod clean;
mod doctor;
mod dump;
mod elf;
mod ends;
mod exit_code;
mod explain;
mod explore;
mod export;
mod failure;
mod files;
mod findings;
mod format;
mod gpu_core;
mod health;
mod install;
mod library;
mod live;
mod log;
mod manual;
mod metrics;
mod names;
mod nvml;
mod old_runs;
mod on_hang;
mod output;
mod parallel;
mod process;
mod profile;
mod profile_cache;
mod recorded;
mod recording_header;
#[cfg(test)]
#[path = "../tests/common/mod.rs"]
mod recordings;
mod report;
mod run;
mod runs;
mod source;
mod stacks;
mod symbolize;
mod system;
mod timing;
mod top;
mod version;

use arguments::{Arguments, Command};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::Parser;
use failure::{Failure, Outcome};
use lazyguard_core::api::ENTRY_POINTS;
use lazyguard_core::report::one_line;
use output::{write_line, Output};
use std::error::Error as _;
use std::io;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return unusable(in_lines(error)),
    };
    let outcome = match arguments.command {
        Command::Run(options) => return run::run(*options),
        Command::Explore(arguments) => explore::explore(*arguments),
        Command::Report(arguments) => report::report(&arguments),
        Command::Top(arguments) => top::top(&arguments),
        Command::Health(arguments) => health::health(arguments),
        Command::Metrics(arguments) => metrics::metrics(arguments),
        Command::Dump(arguments) => dump::dump(&arguments),
        Command::Attach(arguments) => attach::attach(&arguments),
        Command::Log(arguments) => log::log(&arguments),
        Command::Export(arguments) => export::export(&arguments),
        Command::Anonymise(arguments) => anonymise::anonymise(&arguments),
        Command::Explain { code } => explain::explain(code.as_deref()),
        Command::Doctor(arguments) => doctor::doctor(arguments),
        Command::Clean(arguments) => clean::clean(&arguments),
        Command::Profile(arguments) => profile::profile(&arguments),
        Command::Path => library::path(),
        Command::Install(arguments) => install::install(&arguments),
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
            let code = failure.exit_code();
            output::say(failure);
            ExitCode::from(code)
        }
    }
}

/// Arguments that cannot be used, or a question for help or the version. One line; of `lazyguard run`, the code that says that the program
/// has not run.
fn unusable(error: clap::Error) -> ExitCode {
    if error.kind() == ErrorKind::DisplayVersion {
        // A line that cannot be written has no reader.
        let _ = version::print();
        return ExitCode::SUCCESS;
    }
    let command = std::env::args_os().nth(1).unwrap_or_default().to_string_lossy().into_owned();
    if error.kind() == ErrorKind::DisplayHelp && command == "run" && std::env::args_os().any(|word| word == "--help") {
        // A line that cannot be written has no reader.
        let _ = manual::settings();
        return ExitCode::SUCCESS;
    }
    if !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        // As the parser itself does; where it cannot be printed, there is no reader.
        let _ = error.print();
        return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
    }
    let text = error.to_string();
    let lines = || text.lines().map(str::trim);
    let line = lines().take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    let similar = lines().find_map(|line| line.strip_prefix("tip: ").filter(|tip| tip.contains("similar")));
    let tip = similar.map(|tip| format!("; {tip}")).unwrap_or_default();
    let line = plainly(&error, &command).unwrap_or_else(|| line.trim_start_matches("error: ").to_owned());
    let of =
        if error.kind() == ErrorKind::InvalidSubcommand { String::new() } else { format!("{} ", one_line(&command)) };
    output::say(format_args!("{line}{tip} (see lazyguard {of}--help)"));
    ExitCode::from(if command == "run" { exit_code::OWN_FAILURE } else { 2 })
}

/// What is wrong with a value, without the parser's words; `run` has words of its own.
fn plainly(error: &clap::Error, command: &str) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text),
        _ => None,
    };
    match error.kind() {
        _ if command == "run" => None,
        ErrorKind::ValueValidation => Some(format!("{}: {}", text(ContextKind::InvalidValue)?, error.source()?)),
        // A number is no option.
        ErrorKind::UnknownArgument => text(ContextKind::InvalidArg)
            .filter(|given| given[1..].bytes().next().is_some_and(|b| b.is_ascii_digit()))
            .map(|given| format!("{given}: neither a process nor a folder")),
        _ => None,
    }
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
            true => write_line!(out, "{} {}", form.id, form.symbol())?,
            false => write_line!(out, "{}", form.symbol())?,
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
