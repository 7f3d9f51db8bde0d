//! A recording in the command's words: `lazyguard report` and `lazyguard log`, of a run folder or of a running process.

use crate::artefacts::command;
use crate::folder::{number, text, Json};
use crate::root;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Whether the command's standard error holds nothing but hints: which of several runs it took, or that a filter matched nothing.
pub(crate) fn only_hints(complained: &str) -> bool {
    let hints = ["lazyguard: several processes were given this folder", "lazyguard: none of the "];
    complained.lines().all(|line| hints.iter().any(|hint| line.starts_with(hint)))
}

/// What the command prints, which succeeds and complains of nothing on standard error.
fn printed(subcommand: &str, whose: &OsStr, more: &[&str]) -> String {
    let output = Command::new(command()).arg(subcommand).arg(whose).args(more).output();
    let output = output.unwrap_or_else(|error| panic!("lazyguard {subcommand}: {error}"));
    let (said, complained) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(
        output.status.success() && only_hints(&complained),
        "lazyguard {subcommand} {} {more:?}: {}: {complained}{said}",
        whose.display(),
        output.status
    );
    said.into_owned()
}

/// `lazyguard report` for a program: the whole object.
pub fn report_of(whose: impl AsRef<OsStr>) -> Json {
    let said = printed("report", whose.as_ref(), &["--format", "json"]);
    serde_json::from_str(&said).unwrap_or_else(|error| panic!("lazyguard report: {error}\n{said}"))
}

/// What `scripts/read_trace.py`, the second reader, says of the recording in a run folder.
pub fn read_by_script(folder: &Path) -> Json {
    let output =
        Command::new("python3").arg(root().join("scripts/read_trace.py")).arg(folder.join("trace.lgt")).output();
    let output = output.unwrap_or_else(|error| panic!("read_trace.py: {error}"));
    assert!(output.status.success(), "read_trace.py: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("read_trace.py: {error}"))
}

/// What `lazyguard anonymise` makes of a run folder or a recording; `to` is where.
pub fn anonymised(from: &Path, to: &Path, options: &[&str]) -> PathBuf {
    let to_text = to.to_string_lossy();
    printed("anonymise", from.as_os_str(), &[&[to_text.as_ref()], options].concat());
    to.to_owned()
}

/// `lazyguard report` for a person.
pub fn text_report_of(whose: impl AsRef<OsStr>) -> String {
    printed("report", whose.as_ref(), &["--format", "text"])
}

/// The hazards that `lazyguard report --hazards` lists.
pub fn hazards_of(whose: impl AsRef<OsStr>) -> Json {
    let said = printed("report", whose.as_ref(), &["--hazards", "--format", "json"]);
    let mut report: Json =
        serde_json::from_str(&said).unwrap_or_else(|error| panic!("lazyguard report --hazards: {error}\n{said}"));
    assert!(report["hazards"].is_array(), "there is no list of hazards: {report:#}");
    report["hazards"].take()
}

/// `lazyguard log` with filters: the records, as it orders them.
pub fn log_of(whose: impl AsRef<OsStr>, filters: &[&str]) -> Vec<Json> {
    let said = printed("log", whose.as_ref(), &[&["--format", "json"], filters].concat());
    let object = |line| match serde_json::from_str::<Json>(line) {
        Ok(value) if value.is_object() => value,
        Ok(value) => panic!("lazyguard log: no object: {value}"),
        Err(error) => panic!("lazyguard log: {error}: {line}"),
    };
    said.lines().map(object).collect()
}

/// `lazyguard report` of where time went, for a program: one object for each process.
pub fn timing_of(whose: impl AsRef<OsStr>, options: &[&str]) -> Vec<Json> {
    let said = printed("report", whose.as_ref(), &[&["--format", "json"], options].concat());
    let mut told: Json =
        serde_json::from_str(&said).unwrap_or_else(|error| panic!("lazyguard report: {error}\n{said}"));
    assert_eq!(number(&told, "/schema"), 1);
    match told["processes"].take() {
        Json::Array(processes) => processes,
        other => panic!("no processes but {other:#}"),
    }
}

/// The same for a person.
pub fn timing_text_of(whose: impl AsRef<OsStr>, options: &[&str]) -> String {
    printed("report", whose.as_ref(), options)
}

/// What `lazyguard report` says of a recording.
#[derive(Clone, Debug)]
pub struct Recording(pub Json);

impl Recording {
    /// The recording of a folder or process, which has one and nothing wrong with it.
    pub fn of(whose: impl AsRef<OsStr>) -> Self {
        let recording = Self(report_of(whose)["recording"].take());
        assert!(recording.0.is_object(), "there is no recording");
        assert_eq!(recording.0["defects"], Json::Array(Vec::new()), "{:#}", recording.0);
        recording
    }

    /// A number, by pointer.
    pub fn number(&self, pointer: &str) -> u64 {
        number(&self.0, pointer)
    }

    /// A text, by pointer.
    pub fn text(&self, pointer: &str) -> &str {
        text(&self.0, pointer)
    }

    /// Whether its process runs.
    pub fn is_alive(&self) -> bool {
        self.0["alive"].as_bool().unwrap_or_else(|| panic!("alive is neither true nor false: {:#}", self.0))
    }

    /// A list, by key.
    pub fn list(&self, key: &str) -> &[Json] {
        self.0[key].as_array().unwrap_or_else(|| panic!("no list {key} in {:#}", self.0))
    }

    /// The fate of a lane's records.
    pub fn lane(&self, name: &str) -> Lane {
        let lane = self.list("lanes").iter().find(|lane| lane["lane"] == name);
        let lane = lane.unwrap_or_else(|| panic!("no lane {name} in {:#}", self.0));
        Lane {
            present: number(lane, "/present"),
            overwritten: number(lane, "/overwritten"),
            dropped: number(lane, "/dropped"),
        }
    }

    /// The fate of the records of all lanes.
    pub fn records(&self) -> Lane {
        let lanes = ["work", "waits", "rare_events"].map(|name| self.lane(name));
        let sum = |of: fn(&Lane) -> u64| lanes.iter().map(of).sum();
        Lane {
            present: sum(|lane| lane.present),
            overwritten: sum(|lane| lane.overwritten),
            dropped: sum(|lane| lane.dropped),
        }
    }

    /// Fails if there are more launches than calls.
    pub fn expect_to_add_up(&self) {
        assert!(self.number("/launches") <= self.number("/calls"), "{:#}", self.0);
    }
}

/// The fate of a lane's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane {
    /// Are in the file.
    pub present: u64,
    /// Records that newer ones have overwritten.
    pub overwritten: u64,
    /// Never were in the file.
    pub dropped: u64,
}

impl Lane {
    /// All that were made.
    pub const fn all(&self) -> u64 {
        self.present + self.overwritten + self.dropped
    }
}

/// Whether a line of the log is a call that has not returned.
pub fn in_progress(line: &Json) -> bool {
    line["in_progress"] == true
}

/// Whether a line of the log is about a call that the program made, and not about what was seen beside its calls.
pub fn is_call(line: &Json) -> bool {
    !["hazard", "preload", "host_function_begins", "host_function_ends", "seen"]
        .iter()
        .any(|other| line["event"] == *other)
}

/// Calls that have returned, by export; questions that are one record count as often as they were asked.
pub fn calls_in(log: &[Json]) -> BTreeMap<String, u64> {
    let mut calls = BTreeMap::new();
    for line in log.iter().filter(|line| !in_progress(line) && is_call(line)) {
        let count = if line["event"] == "query" { number(line, "/count") } else { 1 };
        *calls.entry(text(line, "/call").to_owned()).or_default() += count;
    }
    calls
}

/// The numbers of a thread's records in a lane.
#[derive(Clone, Debug, Default)]
pub struct Numbers {
    /// Of records of calls that have returned.
    pub complete: BTreeSet<u64>,
    /// Of the record of the call in progress.
    pub in_progress: Option<u64>,
}

impl Numbers {
    /// How many runs of numbers without a gap they are.
    pub fn runs(&self) -> usize {
        self.complete.iter().filter(|&number| number.checked_sub(1).is_none_or(|n| !self.complete.contains(&n))).count()
    }
}

/// The numbers of the records, by the thread's number and the lane. Fails if one comes twice.
pub fn numbers_in(log: &[Json]) -> BTreeMap<(u64, String), Numbers> {
    let mut all: BTreeMap<(u64, String), Numbers> = BTreeMap::new();
    // The record of a call in progress may have none.
    for line in log.iter().filter(|line| line["number"].is_u64()) {
        let of_thread = all.entry((number(line, "/thread_number"), text(line, "/lane").to_owned())).or_default();
        let at = number(line, "/number");
        if in_progress(line) {
            assert_eq!(of_thread.in_progress.replace(at), None, "two calls of one thread are in progress: {line}");
        } else {
            assert!(of_thread.complete.insert(at), "two records have one number: {line}");
        }
    }
    for (whose, numbers) in &all {
        if let (Some(last), Some(next)) = (numbers.complete.last(), numbers.in_progress) {
            assert_eq!(last + 1, next, "{whose:?}: the call in progress is not the one after the last record");
        }
    }
    all
}

/// The same; fails also if one is missing between the first and the last of a thread's records in a lane.
pub fn gapless_numbers(log: &[Json]) -> BTreeMap<(u64, String), Numbers> {
    let all = numbers_in(log);
    for (whose, numbers) in &all {
        assert!(numbers.runs() <= 1, "records of {whose:?} are missing in between: {:?}", numbers.complete);
    }
    all
}
