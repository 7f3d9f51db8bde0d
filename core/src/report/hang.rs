//! The report of a hang as `hang.json` holds it; `hang_text` has its text.

use super::probe::ProbeSeen;
use super::summary::PreloadSummary;
use super::{Block, FrameSeen, RevokedSeen, StackSeen, REVOKED_RESULT, SCHEMA};
use crate::api::result::error_in_words;
use crate::api::{lasted, time_of_day, Code};
use crate::diagnose::messages::time;
use crate::diagnose::{diagnose, BlockedCall, CallEnd, Diagnosis, HowEnded, Snapshot, Status, Verdict};
use crate::stall::Stall;
use crate::Nanos;
use serde::{Deserialize, Serialize};

/// How a hang, or something slow, came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The blocked calls returned without an error.
    Resolved,
    /// A blocked call returned an error.
    Failed,
    /// An error that the guard caused by having the driver end the work.
    FailedOnPurpose,
    /// An error that the guard caused by revoking the communicators.
    Revoked,
    /// The threads left their calls without a return, or poll no more.
    Abandoned,
}

impl Outcome {
    pub fn word(self) -> &'static str {
        match self {
            Self::Resolved => "resolved",
            Self::Failed => "failed",
            Self::FailedOnPurpose => "failed on purpose",
            Self::Revoked => "revoked",
            Self::Abandoned => "abandoned",
        }
    }
}

const ERROR_OF_A_DUMP: i32 = 719;

/// The GPU core dump that the guard asked for. A driver that makes it ends the contexts' work: blocked and later calls
/// return error 719.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuDumpSeen {
    /// When it was asked for.
    pub at: Nanos,
    /// Whether the driver could be asked.
    pub taken: bool,
    /// Whether `LAZYGUARD_ON_HANG=fail` asked.
    pub fails: bool,
    /// The size of `gpu.core`.
    pub bytes: Option<u64>,
    /// Why it is missing.
    pub missing: Option<String>,
    /// Whether the driver began nothing within `LAZYGUARD_GPU_DUMP_WAIT`.
    pub unanswered: bool,
    /// Whether the program goes on launching though each launch is refused.
    pub ignored: bool,
}

impl GpuDumpSeen {
    pub fn fails_calls(&self) -> bool {
        self.taken && self.fails && !self.unanswered
    }

    /// The line for a dump that did not come.
    pub fn missing_in_words(&self) -> Option<String> {
        let what = if self.fails && !self.taken { "the blocked calls cannot be failed" } else { "no GPU core dump" };
        let then = if self.fails && self.unanswered { "; the blocked calls may stay blocked" } else { "" };
        self.missing.as_ref().map(|why| format!("{what}: {why}{then}"))
    }
}

/// A hang as `hang.json` holds it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HangReport {
    /// 1; raised when a key changes its meaning or goes away.
    pub schema: u32,
    /// The process id.
    pub process: u32,
    /// The program's file name.
    pub program: String,
    /// The machine.
    pub host: String,
    /// The rank in the job, or empty.
    pub rank: String,
    /// When the report's times begin, in nanoseconds since 1970, or 0.
    pub armed_unix_nanos: u64,
    /// The run folder.
    pub folder: Option<String>,
    /// Whether it is a hang, slow, or stalled.
    pub status: Status,
    /// The root cause first.
    pub verdicts: Vec<Verdict>,
    /// Why a slow report is no hang, and its waits.
    pub slow: Vec<String>,
    /// The process's activity on the host, where it submits no more and nothing is in flight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stall: Option<Stall>,
    /// The driver's answers, once asked.
    pub probe: Option<ProbeSeen>,
    /// Whether the action of `LAZYGUARD_ON_HANG` is due.
    pub acts: bool,
    /// The fate of a requested GPU core dump.
    pub gpu_dump: Option<GpuDumpSeen>,
    /// The revocation of communicators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<RevokedSeen>,
    /// When the last reported call ended.
    pub resolved: Option<Nanos>,
    /// How the blocked calls ended.
    pub ends: Vec<CallEnd>,
    /// The standstill.
    #[serde(flatten)]
    pub snapshot: Snapshot,
    /// The result of preloading.
    pub preload: PreloadSummary,
    /// Blocked threads, and those that run a host function.
    pub stacks: Vec<StackSeen>,
    /// The named addresses, resolved.
    pub places: Vec<FrameSeen>,
    /// The Python stacks, as text.
    pub python: Option<String>,
    /// The entries of lists that are left out, and names that are cut, as the file has a bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shortened: Option<u64>,
}

impl HangReport {
    /// A clone, whose 13 KiB of code are there once. Derived ones are in each crate that calls them.
    #[inline(never)]
    #[must_use]
    pub fn copied(&self) -> Self {
        self.clone()
    }

    pub fn new(process: u32, program: &str, folder: Option<&str>, snapshot: Snapshot, preload: PreloadSummary) -> Self {
        let (program, folder) = (program.to_owned(), folder.map(str::to_owned));
        Self { schema: SCHEMA, process, program, folder, snapshot, preload, ..Self::default() }.diagnosed_anew()
    }

    /// Another build may have written the report's verdicts.
    #[must_use]
    pub fn diagnosed_anew(self) -> Self {
        let Diagnosis { mut status, verdicts, slow } = diagnose(&self.snapshot);
        if self.stall.is_some() && status == Status::Well {
            status = self.status;
        }
        Self { status, verdicts, slow, ..self }
    }

    /// Whether both are of one hang. A second verdict may come, and go while the driver's answer ages.
    pub fn same_hang(&self, told: &Self) -> bool {
        self.status == told.status && self.verdicts.iter().any(|verdict| told.tells(verdict))
    }

    /// Whether one of its verdicts is of the same cause.
    pub fn tells(&self, verdict: &Verdict) -> bool {
        // The newest operation of a stream that is still fed changes, while the cause is the same.
        let culprit = |v: &Verdict| v.culprits.first().filter(|_| v.fed.is_empty()).map(|c| c.operation.at);
        self.verdicts.iter().any(|v| (v.code, culprit(v)) == (verdict.code, culprit(verdict)))
    }

    pub fn who(&self, at: Nanos) -> String {
        let mut parts = Vec::new();
        if self.armed_unix_nanos != 0 {
            parts.push(time_of_day(self.armed_unix_nanos.saturating_add(at)));
        }
        if !self.host.is_empty() {
            parts.push(self.host.clone());
        }
        if !self.rank.is_empty() {
            parts.push(format!("rank {}", self.rank));
        }
        parts.push(format!("pid {} ({})", self.process, self.program));
        parts.join(" ")
    }

    /// The calls that made this a report: those past the threshold.
    pub fn waited_in(&self) -> impl Iterator<Item = &BlockedCall> {
        self.snapshot.blocked.iter().filter(|call| call.past_threshold)
    }

    /// The outcome of a hang that is over.
    pub fn outcome(&self) -> Outcome {
        let any = |how: HowEnded| self.ends.iter().any(|end| end.how == how);
        let is_revoked = self.revoked.as_ref().is_some_and(RevokedSeen::is_done);
        let by_revoke = |end: &CallEnd| {
            end.result == Some(REVOKED_RESULT) || self.gave_way(end).is_some_and(|(_, error)| error == REVOKED_RESULT)
        };
        if is_revoked && self.ends.iter().any(by_revoke) {
            Outcome::Revoked
        } else if self.ends.iter().any(|end| self.failed_on_purpose(end)) {
            Outcome::FailedOnPurpose
        } else if any(HowEnded::Failed) {
            Outcome::Failed
        } else if self.ends.is_empty() || any(HowEnded::Returned) || any(HowEnded::Unknown) {
            Outcome::Resolved
        } else {
            Outcome::Abandoned
        }
    }

    /// Whether the guard made this call return: with an error, or as [`HangReport::gave_way`] says.
    fn failed_on_purpose(&self, end: &CallEnd) -> bool {
        self.gpu_dump.as_ref().is_some_and(|dump| dump.taken && dump.fails) && end.lost_work()
            || self.gave_way(end).is_some()
    }

    /// The name of the end, and the error of later calls, where the call returned success after its work was ended on purpose: a launch that waits for room in
    /// a full queue, or a release.
    fn gave_way(&self, end: &CallEnd) -> Option<(&'static str, i32)> {
        let at = end.at.filter(|_| end.how == HowEnded::Returned)?;
        let revoked = self.revoked.as_ref().filter(|revoked| revoked.is_done() && at >= revoked.at);
        let dump = self.gpu_dump.as_ref().filter(|dump| dump.fails_calls() && at >= dump.at);
        let revoked = revoked.map(|_| ("REVOKED", REVOKED_RESULT));
        revoked.or_else(|| dump.map(|_| ("FAILED ON PURPOSE", ERROR_OF_A_DUMP)))
    }

    /// Whether a load of the program's is in the way, which a later run can make ahead.
    pub fn is_of_a_load(&self) -> bool {
        self.verdicts.iter().any(|verdict| matches!(verdict.code, Code::LG201 | Code::LG202))
    }

    /// Whether a hang that is over still counts.
    pub fn stands(&self) -> bool {
        self.status == Status::Hang
            && match self.outcome() {
                Outcome::Resolved => self.resolved.is_none(),
                Outcome::FailedOnPurpose | Outcome::Revoked => true,
                Outcome::Failed => self.ends.iter().any(CallEnd::lost_work),
                Outcome::Abandoned => self.ends.iter().any(|end: &CallEnd| end.how == HowEnded::Left),
            }
    }

    pub fn went_on(&self, now: Nanos) -> Block {
        let after = format!("{} after the report", lasted(now.saturating_sub(self.snapshot.at)));
        let process = self.who(now);
        let first = |how: HowEnded| self.ends.iter().find(|end| end.how == how);
        let failed = self.ends.iter().find(|end| end.lost_work());
        let failed = failed.or_else(|| self.ends.iter().find(|end| self.gave_way(end).is_some()));
        let gave_way = failed.and_then(|end| self.gave_way(end));
        Block::marked([match (self.outcome(), failed.or_else(|| first(HowEnded::Failed)), self.ends.first()) {
            (_, Some(end), _) if gave_way.is_some() => {
                let CallEnd { call, thread, .. } = end;
                let (how, error) = gave_way.unwrap_or_default();
                let error = error_in_words(error);
                format!(
                    "{how} WITH ERROR {error} {process}: {call} in thread {thread} returned {after}, and the \
                     calls after it return the error"
                )
            }
            (outcome @ (Outcome::Failed | Outcome::FailedOnPurpose | Outcome::Revoked), Some(end), _) => {
                let error = end.result.map(error_in_words).unwrap_or_default();
                let CallEnd { call, thread, .. } = end;
                let how = match outcome {
                    Outcome::Failed => "ENDED",
                    Outcome::Revoked => "REVOKED",
                    _ => "FAILED ON PURPOSE",
                };
                format!("{how} WITH ERROR {error} {process}: {call} in thread {thread} returned it {after}")
            }
            (Outcome::Abandoned, _, Some(end)) => format!("ABANDONED {process}: {}, {after}", end_in_words(end)),
            _ if self.stall.is_some() => format!("RESOLVED {process}: it goes on {after}"),
            _ if self.ends.is_empty() && self.waited_in().next().is_none() && !self.snapshot.any_stands_at_rest() => {
                format!("RESOLVED {process}: it called the driver again {after}")
            }
            _ if !self.ends.is_empty() && self.ends.iter().all(|end| end.how == HowEnded::Returned) => {
                format!("RESOLVED {process}: it went on by itself {after}, so it was slow, not stuck")
            }
            _ => format!("RESOLVED {process}: it went on {after}"),
        }])
    }

    pub fn ends_in_words(&self) -> Vec<String> {
        let words = |end: &CallEnd| match end_in_words(end) {
            words if self.gave_way(end).is_some() => {
                let (_, error) = self.gave_way(end).unwrap_or_default();
                format!("{words}; calls after it return error {}", error_in_words(error))
            }
            words if self.failed_on_purpose(end) => format!("{words}, on purpose (LAZYGUARD_ON_HANG=fail)"),
            words => words,
        };
        self.ends.iter().map(words).collect()
    }
}

fn end_in_words(end: &CallEnd) -> String {
    let CallEnd { thread, call, .. } = end;
    let at = end.at.map(|at| format!(" at {}", time(at))).unwrap_or_default();
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
            format!("thread {thread} polls {call} no more, and what it asked about is not known to have ended")
        }
        HowEnded::Unknown => {
            format!("{call} in thread {thread} is no longer in progress; the record of its return is gone")
        }
    }
}
