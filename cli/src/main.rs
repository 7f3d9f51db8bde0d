//! `lazyguard`: puts the guard in front of a program, and reads what it recorded.
//!
//! All decisions are made in `lazyguard-core`; this crate finds files, reads arguments and prints. Exit codes: 0 done; 1 what was asked
//! for is missing or unreadable; 2 unusable arguments; those of `lazyguard run` are in `words/exit_code.rs`.
//!
//! Each folder is a room on a floor of its own, and uses only rooms below it. `scripts/check-imports` has their order.

#![cfg_attr(test, allow(clippy::disallowed_methods, clippy::print_stderr))]

mod commands;
mod explore;
mod folder;
mod forms;
mod inspect;
mod judge;
mod machine;
#[cfg(test)]
#[path = "../tests/common/mod.rs"]
mod recordings;
mod run;
mod stacks;
mod words;

use clap::Parser as _;
use commands::arguments::{Arguments, Command};
use std::io;
use std::process::ExitCode;
use words::Failure;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return commands::unusable::unusable(error),
    };
    let outcome = match arguments.command {
        Command::Run(options) => return run::run(*options),
        Command::Explore(arguments) => explore::explore(*arguments),
        Command::Report(arguments) => commands::report::report(&arguments),
        Command::Top(arguments) => commands::top::top(&arguments),
        Command::Health(arguments) => commands::health::health(arguments),
        Command::Metrics(arguments) => commands::metrics::metrics(arguments),
        Command::Dump(arguments) => commands::dump::dump(&arguments),
        Command::Ready(arguments) => commands::ready::ready(&arguments),
        Command::Log(arguments) => commands::log::log(&arguments),
        Command::Export(arguments) => commands::export::export(&arguments),
        Command::Anonymise(arguments) => commands::anonymise::anonymise(&arguments),
        Command::Explain { code } => commands::explain::explain(code.as_deref()),
        Command::Doctor(arguments) => commands::doctor::doctor(arguments),
        Command::Clean(arguments) => commands::clean::clean(&arguments),
        Command::Profile(arguments) => commands::profile::profile(&arguments),
        Command::Path => commands::library::path(),
        Command::Install(arguments) => commands::install::install(&arguments),
        Command::Settings => commands::manual::settings(),
        Command::Man { command, out } => commands::manual::man(command.as_deref(), out.as_deref()),
        Command::Completions { shell } => commands::manual::completions(shell),
        Command::Symbols { ids } => commands::library::symbols(ids),
    };
    match outcome {
        Ok(code) => code,
        // A reader that closes the pipe early, as `head` does, has what it wanted.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(failure) => {
            let code = failure.exit_code();
            words::output::say(failure);
            ExitCode::from(code)
        }
    }
}
