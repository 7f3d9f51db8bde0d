//! The report of a hang: one block of text, or one JSON object.

use super::account::PreloadAccount;
use super::name::demangle;
use super::{StackSeen, SCHEMA};
use crate::diagnose::{diagnose, Snapshot, Verdict};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// Waits listed in the text; the JSON form has them all.
const MOST_WAITS: usize = 8;
/// The same for what Python says.
const MOST_PYTHON_LINES: usize = 100;

/// A hang as `hang.json` holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HangReport {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The process.
    pub process: u32,
    /// The program's file name.
    pub program: String,
    /// The run folder, if there is one.
    pub folder: Option<String>,
    /// The verdicts, the root cause first.
    pub verdicts: Vec<Verdict>,
    /// What stood still.
    #[serde(flatten)]
    pub snapshot: Snapshot,
    /// What was loaded ahead of use, and what was not.
    pub preload: PreloadAccount,
    /// The stacks of the blocked threads, as far as they could be had.
    #[serde(default)]
    pub stacks: Vec<StackSeen>,
    /// What the Python interpreter in the process says of its threads.
    #[serde(default)]
    pub python: Option<String>,
}

impl HangReport {
    /// Diagnoses a snapshot.
    pub fn new(process: u32, program: &str, folder: Option<&str>, snapshot: Snapshot, preload: PreloadAccount) -> Self {
        Self {
            schema: SCHEMA,
            process,
            program: program.to_owned(),
            folder: folder.map(str::to_owned),
            verdicts: diagnose(&snapshot),
            snapshot,
            preload,
            stacks: Vec::new(),
            python: None,
        }
    }

    /// The block for standard error. Every line begins with `lazyguard:`, so that it can be found in a job's log.
    pub fn text(&self) -> String {
        let mut lines = Vec::new();
        let longest = self.snapshot.blocked.first().map_or(0.0, |c| seconds(c.blocked_nanos));
        lines.push(format!("HANG: process {} ({}) has been blocked for {longest:.1} s", self.process, self.program));
        for verdict in &self.verdicts {
            lines.push(format!("{}: {}", verdict.code, verdict.title));
            lines.extend(verdict.chain.iter().map(|step| format!("  - {step}")));
            lines.push(format!("  fix: {}", verdict.fix));
            lines.push(format!("  more: lazyguard explain {}", verdict.code));
        }
        lines.push("blocked calls:".to_owned());
        for call in &self.snapshot.blocked {
            let mut line = format!("  thread {} \"{}\" in {}", call.thread, call.thread_name, call.call);
            if let Some(function) = &call.function {
                let _ = write!(line, " of {}", demangle(function));
            }
            if let Some(stream) = &call.stream {
                let _ = write!(line, " on stream {} ({:#x})", stream.number, stream.handle);
            }
            let _ = write!(line, " for {:.1} s", seconds(call.blocked_nanos));
            lines.push(line);
            lines.extend(self.stacks.iter().filter(|stack| stack.thread == call.thread).flat_map(StackSeen::lines));
        }
        lines.extend(self.python_lines());
        lines.extend(self.outstanding());
        lines.extend(self.preload.lines());
        if let Some(folder) = &self.folder {
            lines.push(format!("details: lazyguard report {folder}"));
        }
        let mut text = String::new();
        for line in lines {
            let _ = writeln!(text, "lazyguard: {line}");
        }
        text
    }

    /// What Python says of its threads, as far as it is not too much for a block of text.
    fn python_lines(&self) -> impl Iterator<Item = String> + '_ {
        let said = || self.python.iter().flat_map(|text| text.lines()).filter(|line| !line.is_empty());
        let more = said().count().saturating_sub(MOST_PYTHON_LINES);
        let rest = (more > 0).then(|| format!("python: and {more} more lines in python.txt"));
        said().take(MOST_PYTHON_LINES).map(|line| format!("python: {line}")).chain(rest)
    }

    /// What is outstanding: the busy streams, and the waits that are not satisfied; a line each.
    pub fn outstanding(&self) -> Vec<String> {
        let mut lines = vec!["busy streams, with the oldest operation not known to have ended:".to_owned()];
        for busy in &self.snapshot.streams {
            let what = busy.oldest.function.as_deref().map(|f| format!(" of {}", demangle(f))).unwrap_or_default();
            lines.push(format!(
                "  stream {} ({:#x}, {}): {}{what} since +{:.3} s, {} operation(s) submitted in all",
                busy.stream.number,
                busy.stream.handle,
                busy.stream.kind,
                busy.oldest.call,
                seconds(busy.oldest.at),
                busy.submitted
            ));
        }
        if !self.snapshot.waits.is_empty() {
            lines.push("unsatisfied waits:".to_owned());
        }
        for wait in self.snapshot.waits.iter().take(MOST_WAITS) {
            lines.push(format!(
                "  stream {}: memory at {:#x} {} {}, since +{:.3} s; {} submitted write(s) would satisfy it",
                wait.stream.number,
                wait.address,
                wait.condition,
                wait.value,
                seconds(wait.at),
                wait.satisfying_writes.len()
            ));
        }
        if self.snapshot.waits.len() > MOST_WAITS {
            lines.push(format!("  and {} more", self.snapshot.waits.len() - MOST_WAITS));
        }
        lines
    }

    /// The JSON object.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_else(|error| format!("{{\"error\":\"{error}\"}}"))
    }
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}
