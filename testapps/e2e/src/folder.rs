//! A run folder, read as a user's program would: its JSON, and the command's report of it.

use crate::artefacts::command;
use crate::recording::only_hints;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A JSON value.
pub type Json = serde_json::Value;

/// A run folder.
#[derive(Clone, Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// The run folder at a path.
    pub fn at(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// The run folder that is the only one in a folder. Beside it may lie the marker of a job.
    pub fn only_one_in(parent: &Path) -> Self {
        let entries: Vec<_> = fs::read_dir(parent)
            .into_iter()
            .flatten()
            .flatten()
            .map(|e| e.path())
            .filter(|path| path.is_dir())
            .collect();
        assert_eq!(entries.len(), 1, "one run folder was expected in {}, found {entries:?}", parent.display());
        Self(entries[0].clone())
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Whether it is there.
    pub fn exists(&self) -> bool {
        self.0.exists()
    }

    /// Whether it holds a file.
    pub fn holds(&self, name: &str) -> bool {
        self.0.join(name).is_file()
    }

    fn json(&self, name: &str) -> Json {
        let path = self.0.join(name);
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}\n{text}", path.display()))
    }

    /// The summary of the run.
    pub fn summary(&self) -> Json {
        self.json("run.json")
    }

    /// The report of the newest hang.
    pub fn hang(&self) -> Json {
        self.json("hang.json")
    }

    /// The log: every line is an object.
    pub fn log(&self) -> Vec<Json> {
        let (lines, torn) = self.log_lines();
        assert!(torn.is_empty(), "{}: the last line is torn: {torn}", self.0.display());
        lines
    }

    /// The log's lines before those, once it was full.
    pub fn older_log(&self) -> Vec<Json> {
        let (lines, torn) = self.lines_of("log.1.jsonl");
        assert!(torn.is_empty(), "{}: the last line is torn: {torn}", self.0.display());
        lines
    }

    /// The bytes of all of its files.
    pub fn bytes(&self) -> u64 {
        let entries = fs::read_dir(&self.0).unwrap_or_else(|error| panic!("{}: {error}", self.0.display()));
        entries.flatten().map(|entry| entry.metadata().map_or(0, |about| about.len())).sum()
    }

    /// The log of a process that was cut off, perhaps in the middle of a line: every whole line is an object.
    pub fn log_so_far(&self) -> Vec<Json> {
        self.log_lines().0
    }

    /// The whole lines, and the text after the last line's end.
    fn log_lines(&self) -> (Vec<Json>, String) {
        self.lines_of("log.jsonl")
    }

    fn lines_of(&self, name: &str) -> (Vec<Json>, String) {
        let path = self.0.join(name);
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let (whole, torn) = text.rsplit_once('\n').unwrap_or(("", &text));
        let object = |(number, line)| match serde_json::from_str::<Json>(line) {
            Ok(value) if value.is_object() => value,
            Ok(value) => panic!("{}:{number}: no object: {value}", path.display()),
            Err(error) => panic!("{}:{number}: {error}: {line}", path.display()),
        };
        (whole.lines().enumerate().map(object).collect(), torn.to_owned())
    }

    /// The log's lines of one event.
    pub fn events(&self, event: &str) -> Vec<Json> {
        self.log().into_iter().filter(|line| line["event"] == event).collect()
    }

    /// What `lazyguard report` says of it.
    pub fn report(&self, format: &str) -> String {
        let folder = self.0.as_os_str();
        let output = Command::new(command()).arg("report").arg(folder).args(["--format", format]).output();
        let output = output.unwrap_or_else(|error| panic!("lazyguard report: {error}"));
        let (said, complained) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(
            output.status.success() && only_hints(&complained),
            "lazyguard report: {}: {complained}{said}",
            output.status
        );
        said.into_owned()
    }
}

/// A number of a JSON value, by pointer.
pub fn number(value: &Json, pointer: &str) -> u64 {
    value.pointer(pointer).and_then(Json::as_u64).unwrap_or_else(|| panic!("no number at {pointer} of {value:#}"))
}

/// A text of a JSON value, by pointer.
pub fn text<'a>(value: &'a Json, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Json::as_str).unwrap_or_else(|| panic!("no text at {pointer} of {value:#}"))
}

/// The folder of the one run, or of the one job, in the folder that `--out` named.
pub fn only_run_in(out: &Path) -> PathBuf {
    let entries = fs::read_dir(out).unwrap_or_else(|error| panic!("{}: {error}", out.display()));
    let mut runs: Vec<_> = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    match (runs.pop(), runs.is_empty()) {
        (Some(run), true) => run,
        (run, _) => panic!("{}: not one run: {run:?}, {runs:?}", out.display()),
    }
}
