//! Arguments that cannot be used, and questions for help or the version.

use super::{manual, version};
use crate::words::{exit_code, output};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use lazyguard_core::report::one_line;
use std::error::Error as _;
use std::process::ExitCode;

/// A question for help or the version is answered; else one line says what is wrong.
pub(crate) fn unusable(error: clap::Error) -> ExitCode {
    let error = in_lines(error);
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

/// Says what is wrong with a value, without the parser's words; `run` has words of its own.
fn plainly(error: &clap::Error, command: &str) -> Option<String> {
    let text = |kind| if let Some(ContextValue::String(text)) = error.get(kind) { Some(text) } else { None };
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
