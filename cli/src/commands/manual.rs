//! The documentation that `lazyguard` generates: manual pages and completions.
//!
//! All of it comes from the tables that the arguments are parsed by.

use crate::commands::arguments::Arguments;
use crate::run::options::exit_codes;
use crate::words::{print, Failure, Outcome};
use clap::{Arg, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use std::path::Path;
use std::process::ExitCode;

/// The whole help of `run`, an option a line: the parser's own takes three. The manual page has more.
fn help_of_run() -> String {
    let mut all = Arguments::command();
    all.build();
    let in_a_line = |arg: Arg| {
        let values = arg.get_long_help().and_then(|help| Some(help.to_string().split_once('\n')?.1.to_owned()));
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let is_unlisted = arg.is_positional() || arg.is_hide_set();
        arg.hide_short_help(false)
            .hide(is_unlisted)
            .help(format!("{help} {}", values.unwrap_or_default()).trim_end().to_owned())
    };
    let Some(run) = all.find_subcommand_mut("run") else { return String::new() };
    const MORE: &str = "Print this help; `lazyguard help run` has more on each option, and examples";
    let run = run.clone().mut_args(in_a_line).mut_arg("help", |help| help.help(MORE));
    let mut run = run.term_width(0).after_help(exit_codes());
    run.render_help().to_string()
}

pub(crate) fn settings() -> Outcome {
    print(|out| Ok(out.lines(help_of_run().lines())?))
}

pub(crate) fn man(command: Option<&str>, out: Option<&Path>) -> Outcome {
    // A page names the version below, where there is no room for its commit.
    let all = Arguments::command().version(env!("CARGO_PKG_VERSION")).disable_help_subcommand(true);
    let mut all = all.mut_subcommands(|command| command.disable_help_subcommand(true));
    all.build();
    if let Some(folder) = out {
        let written = std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(all, folder));
        written.map_err(|error| Failure::at(folder, error))?;
        return Ok(ExitCode::SUCCESS);
    }
    let about = command.map_or(Ok(&all), |name| {
        all.find_subcommand(name).ok_or_else(|| Failure::Input(format!("there is no command {name:?}")))
    });
    let about = about?.clone();
    print(|out| Ok(Man::new(about).render(out.raw())?))
}

pub(crate) fn completions(shell: Shell) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "lazyguard", &mut script);
    print(|out| Ok(out.raw().write_all(&script)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::options::{in_short, OWN};
    use crate::words::exit_code;
    use clap::Parser as _;
    use lazyguard_core::settings::{RANKS, SETTINGS};

    const PAGE: &str = include_str!("../../../docs/CONFIGURATION.md");

    /// The rows of the page that begin so.
    fn rows(start: &str) -> usize {
        PAGE.lines().filter(|line| line.starts_with(start)).count()
    }

    #[test]
    fn the_documentation_lists_every_setting_as_the_code_has_it() {
        for s in SETTINGS {
            let row = format!("| `{}` | `{}` | {} | {} | {} |", s.name, s.flag, s.values, s.default, s.help);
            assert!(PAGE.contains(&row), "docs/CONFIGURATION.md lacks: {row}");
        }
        assert_eq!(rows("| `LAZYGUARD"), SETTINGS.len(), "docs/CONFIGURATION.md has rows the code does not have");
    }

    #[test]
    fn the_documentation_lists_every_option_and_exit_code_of_run() {
        for own in OWN {
            let value = own.value.map(|value| format!(" {value}")).unwrap_or_default();
            let row = format!("| `{}{value}` | {} | {} | {} |", own.flag, own.values, own.default, own.help);
            assert!(PAGE.contains(&row), "docs/CONFIGURATION.md lacks: {row}");
        }
        assert_eq!(rows("| `--"), OWN.len(), "docs/CONFIGURATION.md has rows the code does not have");
        for (code, meaning) in exit_code::TABLE {
            let row = format!("| {code} | {meaning} |");
            assert!(PAGE.contains(&row), "docs/CONFIGURATION.md lacks: {row}");
        }
        let ranks = RANKS.map(|name| format!("`{name}`")).join(", ");
        assert!(PAGE.contains(&ranks), "docs/CONFIGURATION.md lacks the ranks in their order: {ranks}");
    }

    #[test]
    fn the_help_and_the_manual_page_of_run_are_complete() {
        let mut all = Arguments::command();
        all.build();
        let mut run = all.find_subcommand("run").unwrap().clone();
        let (help, short) = (help_of_run(), run.render_help().to_string());
        assert!(help.lines().count() <= 63 && short.lines().count() <= 25, "{help}\n{short}");
        let mut page = Vec::new();
        Man::new(run).render(&mut page).unwrap();
        let page = String::from_utf8(page).unwrap().replace("\\-", "-");
        for setting in SETTINGS {
            for text in [setting.flag, setting.name, in_short(setting.help)] {
                assert!(help.contains(text), "the help lacks {text}");
            }
            assert!(
                page.contains(setting.flag) && page.contains(setting.name),
                "the manual page lacks {}",
                setting.flag
            );
        }
        for own in OWN {
            assert!(help.contains(own.flag) && help.contains(in_short(own.help)), "the help lacks {}", own.flag);
            assert!(page.contains(own.flag), "the manual page lacks {}", own.flag);
        }
        for (code, meaning) in exit_code::TABLE {
            assert!(help.contains(code) && help.contains(meaning), "the help lacks the exit code {code}");
            assert!(page.contains(code), "the manual page lacks the exit code {code}");
        }
    }

    #[test]
    fn every_command_says_its_version_and_doctor_takes_a_program_as_run_does() {
        let parse = |words: &[&str]| Arguments::try_parse_from([&["lazyguard"], words].concat());
        for words in [&["--version"][..], &["run", "--version"], &["report", "--version"]] {
            let Err(said) = parse(words) else { panic!("{words:?}") };
            let format = format!(", recording format {})", lazyguard_core::trace::layout::VERSION);
            let said = said.to_string();
            assert!(said.contains(env!("CARGO_PKG_VERSION")) && said.trim_end().ends_with(&format), "{said}");
        }
        for words in [&["doctor", "./app"][..], &["doctor", "--", "./app"], &["doctor", "./app", "--flag", "-x"]] {
            assert!(parse(words).is_ok(), "{words:?}");
        }
    }

    #[test]
    fn completions_know_the_options_of_run() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::Elvish, Shell::PowerShell] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "lazyguard", &mut script);
            let script = String::from_utf8(script).unwrap();
            for flag in SETTINGS.iter().map(|s| s.flag).chain(OWN.iter().map(|own| own.flag)) {
                assert!(script.contains(flag.trim_start_matches('-')), "{shell}: {flag}");
            }
        }
    }
}
