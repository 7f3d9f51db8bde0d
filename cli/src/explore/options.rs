//! The options of `lazyguard explore`.

use crate::folder::duration;
use clap::ValueHint;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

#[derive(clap::Args)]
#[command(
    after_help = "Exit codes: 117 a hang was found, 0 none was; the program's own where its first run fails (125 for 117); 125 a run could not be made.
Settings are those of the environment, beside LAZYGUARD_PRELOAD, LAZYGUARD_ON_HANG, LAZYGUARD_OUT and LAZYGUARD_SCHEDULE."
)]
pub(crate) struct Arguments {
    /// The most runs before a hang is found.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub runs: u64,
    /// The most time before a hang is found; making its schedule small and its replays come on top.
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = time)]
    pub within: Duration,
    /// The number by which the schedules are drawn: the same draws the same. Without one, by the clock.
    #[arg(long, value_name = "S")]
    pub seed: Option<u64>,
    /// How often a hang that was found is made again. It counts if half of these hang, the first by the threshold of lazyguard run.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub replays: u64,
    /// How long a call may be blocked; by default twice as long as the program takes, and half a second at least; where a hang is proven, as in lazyguard run.
    #[arg(long, value_name = "DURATION", value_parser = time)]
    pub hang_after: Option<Duration>,
    /// How long a run may take; by default ten times as long as the first, and a minute at least.
    #[arg(long, value_name = "DURATION", value_parser = time)]
    pub timeout: Option<Duration>,
    /// The policy of preloading: off, so that a hang shows which preloading would prevent.
    #[arg(long, value_name = "POLICY", default_value = "off")]
    pub preload: String,
    /// The folder for the runs; without one, a private folder that stays if a hang was found.
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub out: Option<PathBuf>,
    /// Write the findings of the last run as a JUnit report.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub junit: Option<PathBuf>,
    /// Write them as JSON.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub json: Option<PathBuf>,
    /// Write them as SARIF.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub sarif: Option<PathBuf>,
    /// Write them as one page for a browser.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub html: Option<PathBuf>,
    /// The hazards that are neither reported nor aimed at; may be given more than once.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub suppress: Vec<PathBuf>,
    /// The known hazards, which are neither reported nor aimed at.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub baseline: Option<PathBuf>,
    /// The program and its arguments.
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true)]
    pub program: Vec<OsString>,
}

impl Arguments {
    /// The files that the last run writes, by the options that name them.
    pub fn written(&self) -> impl Iterator<Item = (&'static str, &PathBuf)> {
        let Self { junit, json, sarif, html, .. } = self;
        let files = [("--junit", junit), ("--json", json), ("--sarif", sarif), ("--html", html)];
        files.into_iter().filter_map(|(flag, path)| Some((flag, path.as_ref()?)))
    }

    /// The options of each run by which it tells hazards.
    pub fn rules(&self) -> Vec<OsString> {
        let suppress = self.suppress.iter().map(|path| ("--suppress", path));
        as_options(self.baseline.iter().map(|path| ("--baseline", path)).chain(suppress))
    }
}

pub(super) fn as_options<'a>(files: impl Iterator<Item = (&'static str, &'a PathBuf)>) -> Vec<OsString> {
    files.flat_map(|(flag, path)| [flag.into(), path.as_os_str().to_owned()]).collect()
}

fn time(value: &str) -> Result<Duration, String> {
    duration(value).map(Duration::from_nanos)
}
