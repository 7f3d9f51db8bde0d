//! The options of `lazyguard run`: one for every setting of the core's table, and those of the table here. Help, manual page, completions and
//! docs/CONFIGURATION.md follow from both.
//!
//! Must not: look at the environment.

use super::retry::ATTEMPT;
use crate::run::conclude::Wanted;
use crate::words::exit_code;
use crate::words::on_hang::KILL;
use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches, ValueHint};
use lazyguard_core::settings::{self, Setting, GPU_DUMP, ON_HANG, ON_STALL, PROFILE, SETTINGS};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Own {
    pub flag: &'static str,
    pub value: Option<&'static str>,
    pub values: &'static str,
    pub default: &'static str,
    pub help: &'static str,
    pub many: bool,
}

impl Own {
    const fn switch(flag: &'static str, help: &'static str) -> Self {
        Self { flag, value: None, values: "a switch", default: "off", help, many: false }
    }

    /// A file that the run writes.
    const fn file(flag: &'static str, help: &'static str) -> Self {
        Self { flag, value: Some("FILE"), values: WRITTEN, default: "none", help, many: false }
    }

    /// An option with a value: the value's name, what it may be, and its default.
    const fn valued(flag: &'static str, [value, values, default]: [&'static str; 3], help: &'static str) -> Self {
        Self { flag, value: Some(value), values, default, help, many: false }
    }

    const fn many(self) -> Self {
        Self { many: true, ..self }
    }
}

const WRITTEN: &str = "a file; %h, %p, %r, %t and %% as in --out";

pub(crate) const METRICS: &str = "--metrics";

pub(crate) const OWN: &[Own] = &[
    Own::valued(
        "--timeout",
        ["DURATION", "a duration: 500ms, 30s, 2m; 0 is never", "never"],
        "how long the program may take; after that, run ends it and every process that it has started",
    ),
    Own::valued(
        "--kill-after",
        ["DURATION", "a duration; 0 is at once", "10s"],
        "how long run waits between SIGTERM and SIGKILL when it ends a process, and with --on-hang fail before that",
    ),
    Own::valued(
        "--fail-on",
        [
            "LIST",
            "hang, stall, hazard, hazard:CODE, CODE, late-load, prevented, unguarded, retried; a list with commas; may be given more than once",
            "nothing",
        ],
        "the findings that fail the run of a program with status 0",
    )
    .many(),
    Own::valued(
        "--retry",
        ["N", "a number up to 100", "0"],
        "how often a run that ended for a hang is made again, with preloading and the profile of what it had loaded; other failures are final",
    ),
    Own::switch("--keep", "keep the folder of the run in any case"),
    Own::switch("--require-records", "do not start the program where the folder of the run cannot be made"),
    Own::switch("--result", "at the end, write one line of findings to standard error, also if there are none"),
    Own::file("--junit", "write the findings as a JUnit report"),
    Own::file("--json", "write the findings as JSON"),
    Own::file("--sarif", "write the findings as SARIF"),
    Own::file("--html", "write the findings as one page for a browser"),
    Own::valued(
        "--annotations",
        ["SYSTEM", "auto, off, github, gitlab, azure, teamcity", "auto"],
        "write the findings to standard error as annotations of a CI system; auto detects the system",
    ),
    Own::valued(
        "--suppress",
        ["FILE", "a file of TYPE:PATTERN lines; may be given more than once", "none"],
        "the hazards that are neither reported nor fail the run",
    )
    .many(),
    Own::valued(
        "--baseline",
        ["FILE", "a file of --write-baseline; fields as there", "none"],
        "the known hazards: only new ones are reported and fail the run",
    ),
    Own::file("--write-baseline", "write the hazards of this run as a baseline"),
    Own::file(METRICS, "write the processes' metrics for Prometheus, every two seconds and at the end"),
    Own::switch("--cold-start", "at the end, say what the program's start spent its time on"),
    Own::switch("--blocking", "at the end, say which asynchronous calls blocked the host, and why"),
    Own::valued(
        "--library",
        ["FILE", "a file", "that of this command, which `lazyguard doctor` names"],
        "the guard's library",
    ),
];

/// The options that `-h` shows: those that most people need, in this order. They come first in `--help`.
const FIRST: [&str; 5] = ["--on-hang", "--hang-after", "--out", "--timeout", "--fail-on"];

const MORE: &str = "More options";
const SETTINGS_HEADING: &str = "Settings (an option overrides its variable)";

#[derive(Debug)]
pub(crate) struct Options {
    pub settings: Vec<(&'static str, String)>,
    /// `--profile` without a folder: the profile is the program's own in the user's cache.
    pub own_profile: bool,
    /// Why the profile of several attempts is in the run's folder; `None` where it is not.
    pub profile_of_run: Option<String>,
    pub timeout: Option<Duration>,
    pub kill_after: Duration,
    pub retry: u32,
    /// This run is an attempt of several: the file of those that hung before it.
    pub attempt: Option<PathBuf>,
    pub keep: bool,
    pub require_records: bool,
    pub cold_start: bool,
    pub blocking: bool,
    pub library: Option<PathBuf>,
    pub wanted: Wanted,
    pub program: Vec<OsString>,
}

impl Options {
    pub fn setting(&self, name: &str) -> Option<&str> {
        self.settings.iter().find(|(given, _)| *given == name).map(|(_, value)| value.as_str())
    }
}

fn long(flag: &'static str) -> &'static str {
    flag.trim_start_matches('-')
}

pub(crate) fn values_of(setting: &Setting) -> String {
    match setting.name {
        ON_HANG | ON_STALL => format!("{}, {KILL}", setting.values),
        PROFILE => {
            format!("{}; without a value, the default, also where the variable names a folder", setting.values)
        }
        GPU_DUMP => format!("{}; without a value, on: --gpu-dump -- PROGRAM", setting.values),
        _ => setting.values.to_owned(),
    }
}

/// Accepts any text, and offers the literal words of `values`, a list with commas, for completion in a shell.
#[derive(Clone)]
struct Words(Vec<&'static str>);

impl Words {
    fn of(values: &'static str) -> Self {
        let is_a_word = |value: &&str| !value.is_empty() && value.bytes().all(|b| b.is_ascii_lowercase());
        Self(values.split(", ").filter(is_a_word).collect())
    }
}

impl TypedValueParser for Words {
    type Value = String;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        (!self.0.is_empty()).then(|| Box::new(self.0.iter().map(PossibleValue::new)) as _)
    }
}

/// The help of an option in a line: the part before the first colon or semicolon, unless that is only a value.
pub(crate) fn in_short(help: &'static str) -> &'static str {
    help.split([':', ';']).next().filter(|first| first.contains(' ')).unwrap_or(help)
}

fn of_setting(setting: &'static Setting) -> Arg {
    let values = values_of(setting);
    let mut words = Words::of(setting.values);
    words.0.extend([ON_HANG, ON_STALL].contains(&setting.name).then_some(KILL));
    let default = if setting.name == PROFILE { "the program's own in the user's cache" } else { setting.default };
    let details = format!("{}\n[values: {values}] [default: {default}] [variable: {}]", setting.help, setting.name);
    let hint = if ["LAZYGUARD_OUT", PROFILE].contains(&setting.name) { ValueHint::DirPath } else { ValueHint::Other };
    let least_values = if [PROFILE, GPU_DUMP].contains(&setting.name) { 0 } else { 1 };
    // The last occurrence counts, so that a later option overrides a script's.
    Arg::new(setting.name)
        .num_args(least_values..=1)
        .long(long(setting.flag))
        .value_name("VALUE")
        .help(in_short(setting.help))
        .long_help(details)
        .value_hint(hint)
        .value_parser(words)
        .hide_possible_values(true)
        .overrides_with(setting.name)
}

fn all_options() -> Vec<Arg> {
    let own = OWN.iter().map(|own| (own.flag, of_own(own), MORE));
    let settings = SETTINGS.iter().map(|setting| (setting.flag, of_setting(setting), SETTINGS_HEADING));
    let mut all: Vec<_> = own.chain(settings).collect();
    let place = |flag: &str| FIRST.iter().position(|first| *first == flag).unwrap_or(FIRST.len());
    all.sort_by_key(|(flag, _, _)| place(flag));
    let headed = |(flag, arg, heading): (&str, Arg, &'static str)| match place(flag) == FIRST.len() {
        true => arg.help_heading(heading).hide_short_help(true),
        false => arg,
    };
    all.into_iter().map(headed).collect()
}

fn of_own(own: &'static Own) -> Arg {
    let arg = Arg::new(own.flag).long(long(own.flag));
    let Some(value) = own.value else {
        return arg.action(ArgAction::SetTrue).help(own.help).overrides_with(own.flag);
    };
    let arg = arg
        .value_name(value)
        .help(in_short(own.help))
        .long_help(format!("{}\n[values: {}] [default: {}]", own.help, own.values, own.default));
    let arg = if value == "FILE" {
        arg.value_hint(ValueHint::FilePath).value_parser(clap::value_parser!(OsString))
    } else {
        arg.value_hint(ValueHint::Other).value_parser(Words::of(own.values)).hide_possible_values(true)
    };
    if own.many {
        arg.action(ArgAction::Append)
    } else {
        arg.overrides_with(own.flag)
    }
}

impl clap::Args for Options {
    fn augment_args(command: Command) -> Command {
        let any = || clap::value_parser!(OsString);
        let program = Arg::new(PROGRAM)
            .value_name("PROGRAM")
            .help("The program and its arguments")
            .value_hint(ValueHint::CommandWithArguments)
            .value_parser(any())
            .num_args(1..)
            .trailing_var_arg(true)
            .required(true);
        command
            .args(all_options())
            .args([ATTEMPT, EXPLORED].map(|flag| Arg::new(flag).long(long(flag)).hide(true).value_parser(any())))
            .arg(program)
            .after_long_help(format!("{DURATIONS}\n\n{}\n{FILES_AND_EXAMPLES}", exit_codes()))
            .after_help(
                "`--help` lists all options and exit codes; `lazyguard help run` has more on each, and examples.",
            )
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// The option by which `lazyguard explore` gives its last run what it has learned.
pub(crate) const EXPLORED: &str = "--explored";

const PROGRAM: &str = "PROGRAM";

const DURATIONS: &str = "Durations are a number and ns, us, ms, s, m or h; without a unit it is seconds. An empty value is as good as none.";

pub(crate) fn exit_codes() -> String {
    let code = |(code, meaning): &(&str, &str)| format!("\n  {code:<8} {meaning}");
    format!("Exit codes:{}", exit_code::TABLE.iter().map(code).collect::<String>())
}

const FILES_AND_EXAMPLES: &str = "
Files:
  Every guarded process of the program has a folder of its own, named rankR-PID, in the folder of the run: one in the folder that
  --out names, or a private one that is kept if the run fails. `lazyguard report FOLDER` reads all of them, of several runs the
  newest.

Examples:
  lazyguard run -- ./app --its-own-options
  lazyguard run --timeout 20m --on-hang kill --fail-on hang -- python train.py
  lazyguard run --profile off -- ./app
  lazyguard run --out /logs/%h -- torchrun --nproc-per-node 8 train.py
  srun lazyguard run --out /shared/logs -- python train.py";

impl FromArgMatches for Options {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |name: &str| matches.get_one::<String>(name).map(|v| v.trim()).filter(|v| !v.is_empty());
        let file = |name: &str| matches.get_one::<OsString>(name).filter(|path| !path.is_empty()).map(PathBuf::from);
        // An empty value is one.
        let has_value = |name: &str| matches.get_one::<String>(name).is_some();
        let mut settings = Vec::new();
        for setting in SETTINGS {
            let is_bare = setting.name == GPU_DUMP && matches.contains_id(GPU_DUMP) && !has_value(GPU_DUMP);
            let Some(value) = given(setting.name).or(is_bare.then_some("on")) else { continue };
            check(setting, value)?;
            settings.push((setting.name, value.to_owned()));
        }
        let written = OWN.iter().filter(|own| own.values == WRITTEN);
        let files = written.filter_map(|own| Some((own.flag, file(own.flag)?))).collect();
        expect_different_files(&files)?;
        let time = |flag| given(flag).map(|value| duration(flag, value)).transpose();
        let all = |name: &str| matches.get_many::<OsString>(name).into_iter().flatten();
        let lists = matches.get_many::<String>("--fail-on").into_iter().flatten();
        let lists: Vec<_> = lists.map(|list| list.trim()).collect();
        Ok(Self {
            settings,
            own_profile: matches.contains_id(PROFILE) && !has_value(PROFILE),
            profile_of_run: None,
            timeout: time("--timeout")?.filter(|time| !time.is_zero()),
            kill_after: time("--kill-after")?.unwrap_or(KILL_AFTER),
            retry: given("--retry").map_or(Ok(0), retries)?,
            attempt: file(ATTEMPT),
            keep: matches.get_flag("--keep"),
            require_records: matches.get_flag("--require-records"),
            cold_start: matches.get_flag("--cold-start"),
            blocking: matches.get_flag("--blocking"),
            library: file("--library"),
            wanted: Wanted {
                fail_on: parsed("--fail-on", &lists.join(","))?,
                files,
                suppressions: all("--suppress").filter(|path| !path.is_empty()).map(PathBuf::from).collect(),
                baseline: file("--baseline"),
                annotations: parsed("--annotations", given("--annotations").unwrap_or("auto"))?,
                result: matches.get_flag("--result"),
                explored: file(EXPLORED),
                ..Wanted::default()
            },
            program: all(PROGRAM).cloned().collect(),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn expect_different_files(files: &BTreeMap<&'static str, PathBuf>) -> Result<(), clap::Error> {
    for (flag, path) in files.iter().filter(|(_, path)| path.is_file() || !path.exists()) {
        if let Some((other, _)) = files.iter().find(|(other, its)| *other < flag && *its == path) {
            return Err(unusable(flag, &path.to_string_lossy(), &format!("{other} writes there")));
        }
    }
    Ok(())
}

const MOST_RETRIES: u32 = 100;

const KILL_AFTER: Duration = Duration::from_secs(10);

fn check(setting: &Setting, value: &str) -> Result<(), clap::Error> {
    if setting.name == "LAZYGUARD_OUT" {
        return match settings::unknown_field(value) {
            Some(field) => Err(unusable(setting.flag, value, &format!("{field} is no field; {}", setting.values))),
            None => Ok(()),
        };
    }
    let is_no_folder = |path: &Path| path.exists() && !path.is_dir();
    if setting.name == PROFILE && value != "off" && is_no_folder(Path::new(value)) {
        return Err(unusable(setting.flag, value, "it is no folder; without one, write --profile -- PROGRAM"));
    }
    if setting.takes(value) || [ON_HANG, ON_STALL].contains(&setting.name) && value == KILL {
        return Ok(());
    }
    Err(unusable(setting.flag, value, &format!("values: {}", values_of(setting))))
}

fn retries(value: &str) -> Result<u32, clap::Error> {
    let number = value.parse().ok().filter(|number| *number <= MOST_RETRIES);
    number.ok_or_else(|| unusable("--retry", value, "values: a number up to 100"))
}

fn duration(flag: &str, value: &str) -> Result<Duration, clap::Error> {
    let nanos = settings::duration(value).ok_or_else(|| unusable(flag, value, "values: a duration: 500ms, 30s, 2m"))?;
    Ok(Duration::from_nanos(nanos))
}

fn parsed<T: FromStr<Err: std::fmt::Display>>(flag: &str, value: &str) -> Result<T, clap::Error> {
    value.parse().map_err(|error: T::Err| unusable(flag, value, &error.to_string()))
}

fn unusable(flag: &str, value: &str, why: &str) -> clap::Error {
    clap::Error::raw(ErrorKind::ValueValidation, format!("{flag} {value:?} is not usable ({why})"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Args as _;

    fn parse(arguments: &[&str]) -> Result<Options, String> {
        let command = Options::augment_args(Command::new("run"));
        let matches = command.try_get_matches_from([&["run"], arguments].concat()).map_err(|e| e.to_string())?;
        Options::from_arg_matches(&matches).map_err(|error| error.to_string())
    }

    #[test]
    fn the_help_begins_with_the_options_that_most_people_need_and_the_short_one_has_no_others() {
        let mut command = Options::augment_args(Command::new("run"));
        let short = command.render_help().to_string();
        let flags = |text: &str| -> Vec<String> {
            let options = text.lines().filter_map(|line| line.trim_start().strip_prefix("--"));
            options.filter_map(|line| Some(format!("--{}", line.split([' ', '=']).next()?))).collect()
        };
        assert_eq!(flags(&short), FIRST);
        assert!(short.lines().count() < 25, "{short}");
        let long = flags(&command.render_long_help().to_string());
        assert_eq!(long[..FIRST.len()], FIRST);
        let mut all = OWN.iter().map(|own| own.flag).chain(SETTINGS.iter().map(|setting| setting.flag));
        assert!(all.all(|flag| long.iter().any(|shown| shown == flag)), "{long:?}");
    }

    #[test]
    fn the_table_has_no_option_twice() {
        let flags: Vec<_> = OWN.iter().map(|own| own.flag).chain(SETTINGS.iter().map(|s| s.flag)).collect();
        for (n, flag) in flags.iter().enumerate() {
            assert!(flag.starts_with("--") && !flags[..n].contains(flag), "{flag}");
        }
        // Panics where the parser finds its own options inconsistent.
        Options::augment_args(Command::new("run")).debug_assert();
    }

    #[test]
    fn what_is_behind_the_program_is_the_programs() {
        for before in [&["--"][..], &[]] {
            let options = parse(&[before, &["app", "--help", "--timeout", "-x", "--", "y"]].concat()).unwrap();
            assert_eq!(options.program, ["app", "--help", "--timeout", "-x", "--", "y"]);
            assert_eq!(options.timeout, None);
        }
    }

    #[test]
    fn settings_are_given_by_options_and_the_last_one_counts() {
        let options =
            parse(&["--preload", "off", "--hang-after=5", "--preload", "resolve", "--out", "", "app"]).unwrap();
        assert_eq!(options.setting("LAZYGUARD_PRELOAD"), Some("resolve"));
        assert_eq!(options.setting("LAZYGUARD_HANG_AFTER"), Some("5"));
        assert_eq!(options.setting("LAZYGUARD_OUT"), None);
        assert_eq!(parse(&["--on-hang", "kill", "app"]).unwrap().setting("LAZYGUARD_ON_HANG"), Some("kill"));
    }

    #[test]
    fn a_profile_has_a_folder_or_is_the_programs_own() {
        for (given, folder, own) in [
            (&["--profile", "dir", "--"][..], Some("dir"), false),
            (&["--profile", "dir"], Some("dir"), false),
            (&["--profile=dir"], Some("dir"), false),
            (&["--profile", "off"], Some("off"), false),
            (&["--profile", "--"], None, true),
            (&["--profile", "--keep"], None, true),
            (&["--profile", "--out", "logs"], None, true),
            (&["--profile", "dir", "--profile", "--"], None, true),
            (&["--profile", "--profile", "dir"], Some("dir"), false),
            (&["--profile="], None, false),
            (&["--profile", ""], None, false),
            (&[], None, false),
        ] {
            let options = parse(&[given, &["app", "--profile"]].concat()).unwrap();
            assert_eq!((options.setting(PROFILE), options.own_profile), (folder, own), "{given:?}");
            assert_eq!(options.program, ["app", "--profile"], "{given:?}");
        }
        assert!(parse(&["--profile", "app"]).unwrap_err().contains("PROGRAM"));
    }

    #[test]
    fn a_gpu_dump_is_asked_for_with_a_value_or_without() {
        for (given, value) in [
            (&["--gpu-dump", "--"][..], Some("on")),
            (&["--gpu-dump", "--keep"], Some("on")),
            (&["--gpu-dump", "on"], Some("on")),
            (&["--gpu-dump=full"], Some("full")),
            (&["--gpu-dump=off"], Some("off")),
            (&["--gpu-dump", "--gpu-dump", "off"], Some("off")),
            (&["--gpu-dump="], None),
            (&[], None),
        ] {
            let options = parse(&[given, &["app"]].concat()).unwrap();
            assert_eq!((options.setting(GPU_DUMP), options.program.len()), (value, 1), "{given:?}");
        }
        assert!(parse(&["--gpu-dump", "app"]).is_err());
    }

    #[test]
    fn durations_are_seconds_without_a_unit() {
        let options = parse(&["--timeout", "2m", "--kill-after", "3", "app"]).unwrap();
        assert_eq!((options.timeout, options.kill_after), (Some(Duration::from_secs(120)), Duration::from_secs(3)));
        let options = parse(&["--timeout", "0", "app"]).unwrap();
        assert_eq!((options.timeout, options.kill_after), (None, KILL_AFTER));
    }

    #[test]
    fn a_bad_value_is_one_line_that_names_the_option() {
        for bad in [
            &["--timeout", "soon", "app"][..],
            &["--preload", "everything", "app"],
            &["--preload", "modules", "app"],
            &["--out", "/out/%q", "app"],
            &["--on-hang", "exit:300", "app"],
            &["--fail-on", "rain", "app"],
            &["--annotations", "smoke", "app"],
            &["--json", "a", "--junit", "b", "--sarif", "a", "app"],
            &["--profile", "/proc/self/exe", "app"],
            &["--profile", "/dev/null", "app"],
        ] {
            let said = parse(bad).unwrap_err();
            assert!(said.contains(bad[0]) && said.contains(bad[1]) && said.trim_end().lines().count() == 1, "{said}");
        }
        assert!(parse(&["--no-such-option", "app"]).is_err());
        assert!(parse(&["--timeout", "3"]).is_err());
    }
}
