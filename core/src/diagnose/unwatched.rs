//! Streams that stand still although no thread waits for them in a call.
//!
//! A stream is *at rest* since its newest submission that may keep it busy, or since something of it was seen to end. A program that tries again
//! goes on submitting to a stuck stream: neither operations that take no time count, nor those behind a host function that has not returned. Once
//! a stream rests for the threshold, and the driver has called it busy since, its wait-for path is followed. A path that ends in a pattern is a
//! finding. A path that ends in a running kernel, or in memory of the host that the program may store to when it likes, is a server's normal life:
//! one line ([`Snapshot::unwatched`]). It is slow, and never a hang, if every thread waits for another and that kernel's end wakes none; if a thread may wait
//! for a host function or a write behind that kernel; and if the program asks for the stream's state in vain, by whichever calls. A poll beside which it does
//! nothing is a hang like that of a single thread. So is a host function behind a kernel, after twice the time, where every thread waits for another and
//! nothing else is known to wake one.
//!
//! Must not: take for busy a stream of which the driver has said nothing lately.

use super::finding::Finding;
use super::gathered::MOST_WAITS;
use super::graph::GraphPartSeen;
use super::messages;
use super::needs::Decision;
use super::operation::{BusyStream, OperationSeen, StreamRef};
use super::path::{End, Path};
use super::snapshot::Snapshot;
use super::verdict::Culprit;
use super::wait::WaitSeen;
use crate::api::{counted, Asked, Class, Code, NodeKind, ThreadActivity};
use crate::replay::in_turn;
use crate::Nanos;

/// How long an answer of the driver counts at least; else for the patience.
const FRESH_NANOS: Nanos = 1_000_000_000;

impl BusyStream {
    /// The last operation at which it may stand, as far as all are listed.
    fn last_to_stand_at(&self) -> Option<Nanos> {
        let class = |op: &OperationSeen| op.call.class();
        // The guard sees each call of a host function, and its return.
        let host = self.operations.iter().find(|op| class(op) == Some(Class::HostFunction));
        let waits =
            |op: &&OperationSeen| !matches!(class(op), Some(Class::EventRecord | Class::WriteValue | Class::FreeAsync));
        let lists_all = self.lists_all() && self.operations.len() < MOST_WAITS;
        host.or_else(|| self.operations.iter().rfind(waits).filter(|_| lists_all)).map(|op| op.at)
    }
}

impl Snapshot {
    /// The newest submission that may keep the stream busy.
    fn until(&self, stream: &BusyStream) -> Nanos {
        let StreamRef { number, context, kind, .. } = stream.stream;
        // Each operation, whatever it does, waits for what such streams have taken in before.
        let mut others = self.streams.iter().filter(|s| s.stream.context == context && s.stream.number != number);
        let takes_turns = others.any(|other| in_turn(kind, other.stream.kind));
        stream.last_to_stand_at().filter(|_| !takes_turns).unwrap_or(stream.last_submitted)
    }

    fn at_rest_since(&self, stream: &BusyStream) -> Nanos {
        self.until(stream).max(stream.since()).max(stream.moved)
    }

    /// Whether the driver has lately called a stream busy since it rests; its answer counts `times` as long.
    fn was_busy_at_rest(&self, stream: &BusyStream, times: u64) -> bool {
        let counts_for = self.patience_nanos.max(FRESH_NANOS).saturating_mul(times);
        let fresh = self.at.saturating_sub(stream.answered_busy) <= counts_for;
        // A stream that was destroyed since cannot be asked again.
        stream.answered_busy != 0 && stream.answered_busy >= self.at_rest_since(stream) && fresh && !stream.destroyed
    }

    /// The same for the threshold.
    pub fn stands_at_rest(&self, stream: &BusyStream) -> bool {
        self.threshold_nanos != 0 && self.was_busy_at_rest(stream, 1) && self.rested(stream) >= self.threshold_nanos
    }

    pub fn any_stands_at_rest(&self) -> bool {
        self.streams.iter().any(|stream| self.stands_at_rest(stream))
    }

    fn rested(&self, stream: &BusyStream) -> Nanos {
        self.at.saturating_sub(self.at_rest_since(stream).max(self.awake_since))
    }

    /// Whether the program asks about a stream at rest: all the time, or still after three times the patience.
    fn is_asked_for(&self, stream: &BusyStream, asked: &Asked) -> bool {
        let (long, asks) = (self.patience_nanos.saturating_mul(3), self.at.saturating_sub(asked.last));
        let still = || asked.times > 1 && self.rested(stream) >= long && asks <= long / 2;
        asked.last >= self.at_rest_since(stream) && (self.is_polled(asked) || still())
    }

    /// Whether the program asks all the time, by whichever threads and events, and does nothing else.
    fn is_polled(&self, asked: &Asked) -> bool {
        let [asks, acts] = [asked.last, self.last_activity].map(|at| self.at.saturating_sub(at));
        let threshold = self.threshold_nanos;
        asked.is_poll(threshold) && asks <= Asked::pause(threshold) && acts >= threshold
    }

    /// The stream that has been at rest the longest with work outstanding. Unless the driver was asked, that may have ended.
    pub fn longest_at_rest(&self, least: Nanos) -> Option<String> {
        let stands = self.streams.iter().filter(|stream| self.rested(stream) >= least);
        let stands = stands.filter(|stream| stream.timed().next().is_some());
        let oldest = stands.min_by_key(|stream| self.at_rest_since(stream))?;
        Some(messages::outstanding(&oldest.stream, oldest.front()))
    }

    /// Work that runs, or waits for the host, while no thread waits for it: a line each.
    pub fn unwatched(&self) -> Vec<String> {
        let decision = Decision::new(self);
        let waited_for = |stream: &BusyStream| {
            let needed = |call| decision.needs(call).iter().any(|(number, _)| *number == stream.stream.number);
            self.blocked.iter().any(needed)
        };
        // The guard asks once in a patience, so that the newest answer may be older than one.
        let rests = |s: &&BusyStream| self.was_busy_at_rest(s, 2) && self.rested(s) >= self.threshold_nanos;
        let runs = self.streams.iter().filter(rests).filter(|s| self.threshold_nanos != 0 && !waited_for(s));
        let runs = runs.filter_map(|s| {
            let path = decision.paths.from(s.stream.number, Nanos::MAX)?;
            let stands = match &path.end {
                End::Runs(culprit) if culprit.stream.number == s.stream.number => has_run(culprit, self.at),
                End::Unwritten(wait, _) => stands_at(wait, wait.holds?),
                _ => return None,
            };
            Some(line(&stands, s, self))
        });
        runs.collect()
    }
}

impl<'a> Decision<'a> {
    /// The findings of streams at rest, but for streams that a call's finding names already.
    pub(super) fn of_streams(&self, known: &[Finding<'a>]) -> Vec<Finding<'a>> {
        let at_rest = |s: &&BusyStream| self.snapshot.stands_at_rest(s);
        let explained: Vec<u32> = known.iter().flat_map(|finding| self.streams_of(finding)).collect();
        let mut found: Vec<Finding<'a>> = Vec::new();
        for stream in self.snapshot.streams.iter().filter(at_rest) {
            let is_new = !explained.contains(&stream.stream.number);
            let stands = |path: &Path<'a>| has_pattern(path) || self.waits_for_itself(stream, path);
            let asked = stream.asked.filter(|asked| self.snapshot.is_asked_for(stream, asked));
            let counts = |path: &Path<'a>| {
                is_new
                    && (asked.is_some() || stands(path) || self.wakes_nobody(path) || self.may_be_awaited(stream, path))
            };
            let path = self.paths.from(stream.stream.number, self.snapshot.until(stream)).filter(counts);
            let Some(mut finding) = path.map(|path| self.of_path(path)) else { continue };
            let what = |finding: &Finding<'a>| (finding.code, finding.culprits.first().cloned());
            if known.iter().chain(&found).any(|other| what(other) == what(&finding)) {
                continue;
            }
            finding.at_rest = Some(self.snapshot.at_rest_since(stream));
            finding.because.insert(0, messages::at_rest(&stream.stream, self.snapshot.rested(stream)));
            finding.because.extend(asked.map(|asked| messages::asked(&asked)));
            finding.may_be_meant =
                !stands(&finding.path) && !asked.is_some_and(|asked| self.snapshot.is_polled(&asked));
            if !has_pattern(&finding.path) {
                finding.because.extend(signal_behind(stream).into_iter().chain(all_wait(self.snapshot)));
            }
            finding.conclusive = false;
            self.await_a_host_function(stream, &mut finding);
            found.push(finding);
        }
        found
    }

    /// Whether only a thread that waits for this stream's host function can still store the value: no other process has the memory, each thread
    /// waits for another, and nothing else is in flight. The guard does not see a store of a signal's handler or of another device.
    fn waits_for_itself(&self, stream: &BusyStream, path: &Path<'a>) -> bool {
        let (all, End::Unwritten(wait, _)) = (self.snapshot, &path.end) else { return false };
        let nothing_runs = || {
            let mut paths = all.streams.iter().filter_map(|s| self.paths.from(s.stream.number, Nanos::MAX));
            paths.all(|path| matches!(path.end, End::Unwritten(..)))
        };
        // The word may have been reset after the stream had passed its wait: what is behind it would run, and only a host function is known to.
        let stands_before = |op: &OperationSeen| match op.call.class() {
            Some(Class::HostFunction | Class::EventRecord | Class::WriteValue) => true,
            class => op.at < wait.at || op.at == wait.at && class == Some(Class::WaitValue),
        };
        wait.own
            && wait.stream.number == stream.stream.number
            && stream.lists_all()
            && stream.operations.iter().all(stands_before)
            && stream.operations.iter().any(|op| op.host_function.is_some() && op.at > wait.at)
            && self.all_stand()
            && nothing_runs()
    }

    /// Whether each thread waits for another. A signal's handler or another process may still wake one.
    fn all_stand(&self) -> bool {
        let Snapshot { blocked, host_functions, unfollowed, without_entry, .. } = self.snapshot;
        let nothing_else = blocked.is_empty() && host_functions.is_empty() && unfollowed.is_empty();
        nothing_else && *without_entry == 0 && all_wait(self.snapshot).is_some()
    }

    /// Whether each thread still waits once all kernels have ended.
    fn wakes_nobody(&self, path: &Path<'a>) -> bool {
        let calls_none = |op: &OperationSeen| op.host_function.is_none() && op.graph.is_none();
        let wakes_none = |s: &BusyStream| s.lists_all() && s.operations.iter().all(calls_none);
        matches!(path.end, End::Runs(_)) && self.all_stand() && self.snapshot.streams.iter().all(wakes_none)
    }

    /// Whether a thread may wait for what the stream is to do behind a kernel: each thread waits for another; or, while no thread calls the driver, one waits,
    /// or looks at memory as far as can be seen.
    fn may_be_awaited(&self, stream: &BusyStream, path: &Path<'a>) -> bool {
        let Snapshot { at, patience_nanos, last_activity, blocked, waiting, runnable, .. } = self.snapshot;
        let is_behind_a_kernel = matches!(path.end, End::Runs(_)) && stream.operations.iter().any(signals);
        let is_quiet = || blocked.is_empty() && at.saturating_sub(*last_activity) >= *patience_nanos;
        let may_wait = || !waiting.is_empty() || runnable.iter().any(|one| one.doing != ThreadActivity::Expecting);
        is_behind_a_kernel && (self.all_stand() || is_quiet() && may_wait())
    }

    /// Makes the finding one of a host function that is not called, where nothing else is known to wake a thread.
    fn await_a_host_function(&self, stream: &BusyStream, finding: &mut Finding<'a>) {
        let Snapshot { at, patience_nanos, last_activity, waiting_since, streams, .. } = self.snapshot;
        let stands = |s: &BusyStream| self.snapshot.stands_at_rest(s) || !s.operations.iter().any(signals);
        let (End::Runs(kernel), Code::LG299, Some(function)) = (&finding.path.end, finding.code, calls_behind(stream))
        else {
            return;
        };
        if !self.all_stand() || !streams.iter().all(stands) {
            return;
        }
        (finding.sentence, finding.fix) = messages::awaits(function, &stream.stream, kernel);
        finding.is_awaited = true;
        finding.at_rest = finding.at_rest.map(|at| at.max(*last_activity));
        finding.may_be_meant = at.saturating_sub(*waiting_since) < *patience_nanos;
    }

    /// The streams that its calls wait for, and those on its path.
    fn streams_of(&self, finding: &Finding<'a>) -> Vec<u32> {
        let path = &finding.path;
        let needed = finding.calls.iter().flat_map(|call| self.needs(call)).map(|(stream, _)| stream);
        let unless = path.unless.as_ref().map(|unless| unless.1.stream.number);
        let blamed = finding.culprits.iter().chain(&finding.held_back).map(|culprit| culprit.stream.number);
        needed.chain(unless).chain(blamed).chain(messages::streams_on(path)).collect()
    }

    pub(super) fn of_path(&self, path: Path<'a>) -> Finding<'a> {
        match path.barrier() {
            Some(_) => self.barrier(Vec::new(), path),
            None => self.by_its_end(Vec::new(), path),
        }
    }
}

/// Whether the end of a path does not go on by itself.
fn has_pattern(path: &Path<'_>) -> bool {
    match &path.end {
        _ if path.barrier().is_some() => true,
        End::Filled(..) | End::Peers(_) => true,
        End::Host(host, _) => !host.or_another && !host.doing.is_some_and(ThreadActivity::goes_on),
        End::Meeting | End::Driver | End::Fed(..) | End::Unseen(_) | End::Failed(_) => false,
        End::Cycle(_) | End::Unwritten(..) | End::Runs(_) => !path.may_be_meant(),
    }
}

fn line(stands: &str, stream: &BusyStream, snapshot: &Snapshot) -> String {
    let signal = signal_behind(stream).map(|signal| format!(" in a call, and {signal}")).unwrap_or_default();
    let all_wait = all_wait(snapshot).map(|all| format!("; {all}")).unwrap_or_default();
    format!("{stands}; no thread waits for it{signal}{all_wait}")
}

fn has_run(culprit: &Culprit, at: Nanos) -> String {
    let Culprit { stream, operation } = culprit;
    let lasted = messages::lasted(at.saturating_sub(operation.at));
    format!("{} has run on {stream} for {lasted}", messages::operation(operation))
}

fn stands_at(wait: &WaitSeen, holds: u64) -> String {
    let (since, unwritten) = (messages::time(wait.at), messages::unwritten(wait));
    format!("{} waits since {since} {unwritten}; it holds {holds}", wait.stream)
}

/// Whether a thread may wait outside the driver for an operation: a host function, or the write of a value.
fn signals(op: &OperationSeen) -> bool {
    let writes = |part: &GraphPartSeen| part.kind == NodeKind::ValueWrite;
    let graph_writes = || op.graph.iter().flat_map(|graph| &graph.parts).any(writes);
    op.call.class() == Some(Class::WriteValue) || op.calls().is_some() || graph_writes()
}

fn calls_behind(stream: &BusyStream) -> Option<u64> {
    stream.operations.iter().find_map(OperationSeen::calls)
}

fn signal_behind(stream: &BusyStream) -> Option<String> {
    let on = &stream.stream;
    if let Some(address) = calls_behind(stream) {
        return Some(format!("the host function at {address:#x} that {on} is to call behind it may be waited for"));
    }
    let writes = stream.operations.iter().any(signals);
    writes.then(|| format!("the value that {on} is to write behind it may be waited for"))
}

/// That the process does nothing by itself, as far as can be seen.
pub(super) fn all_wait(snapshot: &Snapshot) -> Option<String> {
    let (first, others) = snapshot.waiting.split_first().filter(|_| snapshot.runnable.is_empty())?;
    let more =
        if others.is_empty() { String::new() } else { format!(" and {}", counted(others.len() as u64, "other")) };
    Some(format!("every thread outside the driver waits for another thread, without limit: thread {first}{more}"))
}

#[cfg(test)]
#[path = "unwatched_tests.rs"]
mod tests;
