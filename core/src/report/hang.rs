//! The report of a hang: one block of text, or one JSON object.

use super::probe::ProbeSeen;
use super::summary::PreloadSummary;
use super::{Block, StackSeen, SCHEMA};
use crate::api::result::error_in_words;
use crate::demangle::demangle;
use crate::diagnose::{diagnose, BlockedCall, CallEnd, HowEnded, Snapshot, Status, Verdict};
use crate::Nanos;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// Waits, streams and calls listed in the text; the JSON form has them all.
const MOST_WAITS: usize = 8;
const MOST_STREAMS: usize = 16;
const MOST_CALLS: usize = 16;
/// The same for what Python says.
const MOST_PYTHON_LINES: usize = 100;

/// How it ended that something stood still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The program went on.
    Resolved,
    /// A call that was waited in returned an error.
    Failed,
    /// The calls that were waited in were left without their return, or what was asked about is asked no more.
    Abandoned,
}

impl Outcome {
    /// In a word, for people and for programs.
    pub fn word(self) -> &'static str {
        match self {
            Self::Resolved => "resolved",
            Self::Failed => "failed",
            Self::Abandoned => "abandoned",
        }
    }
}

/// A hang as `hang.json` holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HangReport {
    /// 1; raised when a key changes its meaning or goes away.
    pub schema: u32,
    /// The process.
    pub process: u32,
    /// The program's file name.
    pub program: String,
    /// The run folder, if there is one.
    pub folder: Option<String>,
    /// How things stand.
    #[serde(default = "hang")]
    pub status: Status,
    /// Of a hang the verdicts, the root cause first.
    pub verdicts: Vec<Verdict>,
    /// Of something slow what is waited for, and why it is not called a hang.
    #[serde(default)]
    pub slow: Vec<String>,
    /// What the driver itself said, once it was asked.
    #[serde(default)]
    pub probe: Option<ProbeSeen>,
    /// Whether what the user wants done about a hang is due: it is certain, or has lasted for long enough.
    #[serde(default)]
    pub acts: bool,
    /// When it was over: nothing that was reported is waited for any more. `ends` says how it ended.
    #[serde(default)]
    pub resolved: Option<Nanos>,
    /// What became of the calls that were waited in, once it is over.
    #[serde(default)]
    pub ends: Vec<CallEnd>,
    /// What stood still.
    #[serde(flatten)]
    pub snapshot: Snapshot,
    /// What was preloaded, and what was not.
    pub preload: PreloadSummary,
    /// The stacks of the blocked threads, as far as they could be had.
    #[serde(default)]
    pub stacks: Vec<StackSeen>,
    /// What the Python interpreter in the process says of its threads.
    #[serde(default)]
    pub python: Option<String>,
}

impl HangReport {
    /// Diagnoses a snapshot.
    pub fn new(process: u32, program: &str, folder: Option<&str>, snapshot: Snapshot, preload: PreloadSummary) -> Self {
        let diagnosis = diagnose(&snapshot);
        Self {
            schema: SCHEMA,
            process,
            program: program.to_owned(),
            folder: folder.map(str::to_owned),
            status: diagnosis.status,
            verdicts: diagnosis.verdicts,
            slow: diagnosis.slow,
            probe: None,
            acts: false,
            resolved: None,
            ends: Vec::new(),
            snapshot,
            preload,
            stacks: Vec::new(),
            python: None,
        }
    }

    /// What tells one report from another: the codes and what is to blame.
    pub fn same_cause(&self, other: &Self) -> bool {
        let causes = |report: &Self| -> Vec<_> {
            let culprit = |v: &Verdict| v.culprits.first().filter(|_| v.fed.is_empty()).map(|c| c.operation.at);
            // Of streams that are fed the newest operation is another one each time, and the cause is the same.
            report.verdicts.iter().map(|v| (v.code, culprit(v))).collect()
        };
        self.status == other.status && causes(self) == causes(other)
    }

    /// The first line.
    fn heading(&self) -> String {
        let process = format!("process {} ({})", self.process, self.program);
        let past = self.snapshot.blocked.iter().filter(|call| call.past_threshold || call.queries.is_none());
        let longest = past.map(|call| call.blocked_nanos).max();
        let quiet = self.snapshot.at.saturating_sub(self.snapshot.last_activity);
        let waited = seconds(longest.unwrap_or(quiet));
        match self.status {
            // Nothing is blocked in a call where no thread is in one.
            Status::Hang if self.snapshot.blocked.is_empty() => {
                format!("HANG: {process} has made no driver call for {waited:.1} s")
            }
            Status::Hang => format!("HANG: {process} has been blocked for {waited:.1} s"),
            Status::Slow => format!("SLOW: {process} has waited for {waited:.1} s; that is no known deadlock, yet"),
            Status::Well => format!("{process}: no hang is known"),
        }
    }

    /// The causes, or what is waited for.
    fn causes(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for verdict in &self.verdicts {
            lines.push(format!("{}: {} ({})", verdict.code, verdict.title, verdict.confidence.name()));
            lines.extend(verdict.chain.iter().map(|step| format!("  - {step}")));
            lines.push(format!("  fix: {}", verdict.fix));
            lines.push(format!("  more: lazyguard explain {}", verdict.code));
        }
        lines.extend(self.slow.iter().map(|line| format!("  - {line}")));
        lines
    }

    /// The block for standard error. Every line begins with `lazyguard:`, so that it can be found in a job's log.
    pub fn text(&self) -> Block {
        let mut lines = vec![self.heading()];
        lines.extend(self.causes());
        if !self.snapshot.blocked.is_empty() {
            lines.push("blocked calls:".to_owned());
        }
        for call in self.snapshot.blocked.iter().take(MOST_CALLS) {
            let mut line = format!("  thread {} \"{}\" in {}", call.thread, call.thread_name, call.call);
            if let Some(function) = &call.function {
                let _ = write!(line, " of {}", demangle(function));
            }
            if let Some(stream) = &call.stream {
                let _ = write!(line, " on stream {} ({:#x})", stream.number, stream.handle);
            }
            match call.queries {
                Some(queries) => {
                    let _ = write!(line, ", asked {queries} times in {:.1} s", seconds(call.blocked_nanos));
                }
                None => {
                    let _ = write!(line, " for {:.1} s", seconds(call.blocked_nanos));
                }
            }
            lines.push(line);
            lines.extend(self.stacks.iter().filter(|stack| stack.thread == call.thread).flat_map(StackSeen::lines));
        }
        lines.extend(more(self.snapshot.blocked.len(), MOST_CALLS));
        lines.extend(self.outstanding());
        lines.extend(self.probe.iter().flat_map(ProbeSeen::lines));
        lines.extend(self.preload.lines());
        if let Some(folder) = &self.folder {
            lines.push(format!("details: lazyguard report {folder}"));
        }
        Block::marked(lines)
    }

    /// The calls that made this a report: those past the threshold.
    pub fn waited_in(&self) -> impl Iterator<Item = &BlockedCall> {
        self.snapshot.blocked.iter().filter(|call| call.past_threshold)
    }

    /// How it ended, once it is over.
    pub fn outcome(&self) -> Outcome {
        let any = |how: HowEnded| self.ends.iter().any(|end| end.how == how);
        if any(HowEnded::Failed) {
            Outcome::Failed
        } else if self.ends.is_empty() || any(HowEnded::Returned) || any(HowEnded::Unknown) {
            Outcome::Resolved
        } else {
            Outcome::Abandoned
        }
    }

    /// Whether the hang that was reported stands, although it is over: it did not go on by itself.
    pub fn stands(&self) -> bool {
        let left = |end: &CallEnd| end.how == HowEnded::Left;
        self.status == Status::Hang
            && match self.outcome() {
                Outcome::Resolved => self.resolved.is_none(),
                Outcome::Failed => self.ends.iter().any(CallEnd::lost_work),
                Outcome::Abandoned => self.ends.iter().any(left),
            }
    }

    /// The line for a report whose cause is gone.
    pub fn went_on(&self, now: Nanos) -> Block {
        let after = format!("{:.1} s after the report", seconds(now.saturating_sub(self.snapshot.at)));
        let process = format!("process {} ({})", self.process, self.program);
        let first = |how: HowEnded| self.ends.iter().find(|end| end.how == how);
        let failed = self.ends.iter().find(|end| end.lost_work()).or_else(|| first(HowEnded::Failed));
        Block::marked([match (self.outcome(), failed, self.ends.first()) {
            (Outcome::Failed, Some(end), _) => {
                let error = end.result.map(error_in_words).unwrap_or_default();
                let CallEnd { call, thread, .. } = end;
                format!("ENDED WITH ERROR {error}: {process}: {call} in thread {thread} returned it {after}")
            }
            (Outcome::Abandoned, _, Some(end)) => format!("ABANDONED: {process}: {}, {after}", end_in_words(end)),
            _ if self.ends.is_empty() && self.waited_in().next().is_none() => {
                format!("RESOLVED: {process} called the driver again {after}")
            }
            _ if !self.ends.is_empty() && self.ends.iter().all(|end| end.how == HowEnded::Returned) => {
                format!("RESOLVED: {process} went on by itself {after}: it was slow, not stuck")
            }
            _ => format!("RESOLVED: {process} went on {after}"),
        }])
    }

    /// What became of the calls that were waited in; a line each.
    pub fn ends_in_words(&self) -> Vec<String> {
        self.ends.iter().map(end_in_words).collect()
    }

    /// The line for a report that stands as it did.
    pub fn repeated(&self) -> Block {
        let codes: Vec<_> = self.verdicts.iter().map(|v| v.code.name()).collect();
        let line = match self.status {
            Status::Hang => format!("{}: still {}, as reported", self.heading(), codes.join(", ")),
            _ => format!("{}, as reported", self.heading()),
        };
        Block::marked([line])
    }

    /// The block of what Python says of its threads, or nothing.
    pub fn python_text(&self) -> Block {
        Block::marked(self.python_lines())
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
        if self.snapshot.streams.is_empty() {
            return vec!["no stream has work outstanding, as far as is known".to_owned()];
        }
        let mut lines = vec!["busy streams, with the oldest operation not known to have ended:".to_owned()];
        for busy in self.snapshot.streams.iter().take(MOST_STREAMS) {
            let fed = self.snapshot.fed.iter().find(|fed| fed.stream.number == busy.stream.number);
            if let Some(fed) = fed.filter(|fed| self.snapshot.has_passed(fed.stream.number, busy.oldest.at)) {
                // The oldest one has ended: so many came after it.
                let what = fed.newest.function.as_deref().map(|f| format!(" of {}", demangle(f))).unwrap_or_default();
                lines.push(format!(
                    "  stream {} ({:#x}, {}): submitted to all the while, the newest {}{what} at +{:.3} s, {} operation(s) submitted in \
                     all",
                    busy.stream.number,
                    busy.stream.handle,
                    busy.stream.kind,
                    fed.newest.call,
                    seconds(fed.newest.at),
                    busy.submitted
                ));
                continue;
            }
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
        lines.extend(more(self.snapshot.streams.len(), MOST_STREAMS));
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
        lines.extend(more(self.snapshot.waits.len(), MOST_WAITS));
        lines
    }

    /// The JSON object.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_else(|error| format!("{{\"error\":\"{error}\"}}"))
    }
}

/// What became of a call.
fn end_in_words(end: &CallEnd) -> String {
    let CallEnd { thread, call, .. } = end;
    let at = end.at.map(|at| format!(" at +{:.3} s", seconds(at))).unwrap_or_default();
    match end.how {
        HowEnded::Returned => format!("{call} in thread {thread} returned{at}"),
        HowEnded::Failed => {
            let error = end.result.map(error_in_words).unwrap_or_default();
            format!("{call} in thread {thread} returned error {error}{at}")
        }
        HowEnded::Left => {
            format!("thread {thread} left {call} without its return, by an exception, a jump or a cancellation")
        }
        HowEnded::AsksNoMore => {
            format!("thread {thread} calls {call} no more, and what it asked about is not known to have ended")
        }
        HowEnded::Unknown => {
            format!("{call} in thread {thread} is no longer in progress; the record of its return is gone")
        }
    }
}

/// Reports of former versions were made of hangs only.
fn hang() -> Status {
    Status::Hang
}

/// Says that a list goes on.
fn more(count: usize, shown: usize) -> Option<String> {
    (count > shown).then(|| format!("  and {} more", count - shown))
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_of_which_no_thread_is_in_a_call_is_not_called_blocked() {
        let snapshot = Snapshot { at: 5_000_000_000, last_activity: 1_000_000_000, ..Snapshot::default() };
        let mut report = HangReport::new(7, "app", None, snapshot, PreloadSummary::default());
        report.status = Status::Hang;
        assert!(report
            .text()
            .as_str()
            .starts_with("lazyguard: HANG: process 7 (app) has made no driver call for 4.0 s\n"));
    }
}
