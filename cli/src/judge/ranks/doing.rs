//! Says what a rank does that keeps the others waiting.
//!
//! Must not: say of a process what was not seen of it.

use crate::folder::read;
use crate::judge::hangs::{ranks_in_words, who};
use crate::judge::process::Process;
use crate::judge::stood::{Course, Stood};
use lazyguard_core::api::{Call, Class as CallClass};
use lazyguard_core::diagnose::{BlockedCall, BusyStream, Code, Culprit, Snapshot, ThreadActivity, Verdict, WaitSeen};
use lazyguard_core::evidence::{Class, Evidence};
use lazyguard_core::order::grouped;
use lazyguard_core::report::{main_python, HangReport, StackSeen};
use lazyguard_core::run_folder::file::MAIN_STACK;
use lazyguard_core::stack::PythonFrame;
use lazyguard_core::Nanos;
use std::collections::{BTreeMap, BTreeSet};

pub(crate) fn standing(process: &Process) -> Option<&HangReport> {
    match &process.stood {
        Some(Stood::Suspected(report)) => Some(report),
        _ => process.hang().or_else(|| process.waits_for_late_ranks()),
    }
}

/// A process at its hang, or when it was asked for a report.
pub(crate) fn in_flight_report(process: &Process) -> Option<&HangReport> {
    standing(process).or_else(|| process.dump.as_ref().map(|dump| &dump.hang))
}

pub(crate) fn in_flight(process: &Process) -> Option<&Snapshot> {
    in_flight_report(process).map(|report| &report.snapshot)
}

/// Why ranks wait in a collective that all have called, or where to look for the reason.
pub(crate) fn why_all_wait(ranks: &BTreeMap<u64, &Process>) -> String {
    let in_queue = |(rank, process): (&u64, &&Process)| {
        let sentence = in_flight(process)?.collective_behind_a_queue()?;
        Some(format!("on rank {rank} {sentence} ({})", Code::LG211))
    };
    // Its collectives before such a wait are not known to have ended, so that its own verdict is of those.
    let behind_a_wait = |(rank, process): (&u64, &&Process)| {
        let sentence = in_flight(process)?.waits.iter().find_map(WaitSeen::unwritten)?;
        Some(format!("on rank {rank} {sentence} ({})", Code::LG203))
    };
    let is_over = |process: &Process| process.has_ended && process.course == Course::Well;
    let was_looked_at = |process: &Process| in_flight(process).is_some_and(|snapshot| snapshot.asked);
    let is_unknown = |process: &Process| !is_over(process) && !was_looked_at(process);
    let unknown: Vec<_> = ranks.iter().filter(|(_, process)| is_unknown(process)).map(|(rank, _)| *rank).collect();
    let cause = ranks.iter().find_map(in_queue).or_else(|| ranks.iter().find_map(behind_a_wait));
    cause.unwrap_or_else(|| match unknown.len() {
        0 => "look at the network and the devices".to_owned(),
        _ => format!("what keeps the device of {} busy is not known, see `lazyguard dump`", ranks_in_words(unknown)),
    })
}

pub(crate) fn culprit(process: &Process) -> Option<&Culprit> {
    let culprits = standing(process)?.verdicts.iter().flat_map(|verdict| &verdict.culprits);
    culprits.into_iter().find(|culprit| culprit.operation.waits_for_peers())
}

/// Why a process is blocked, but for a wait for other ranks that the program asked for.
pub(crate) fn own_verdict(process: &Process) -> Option<String> {
    let report = standing(process)?;
    let for_ranks = |verdict: &Verdict| {
        let culprit = verdict.culprits.first();
        is_asked_for(report, verdict) && culprit.is_some_and(|culprit| culprit.operation.waits_for_peers())
    };
    let first = report.verdicts.iter().find(|verdict| !for_ranks(verdict));
    first.filter(|verdict| verdict.code != Code::LG208).map(in_words)
}

pub(crate) fn in_words(verdict: &Verdict) -> String {
    format!("{}: {}", verdict.code, verdict.sentence.trim_end_matches('.'))
}

/// Whether a collective's kernel that the process launched from one time to another has ended. `None` where it was not looked at since.
pub(crate) fn has_ended(process: &Process, from: Nanos, until: Nanos) -> Option<bool> {
    let Some(snapshot) = in_flight(process).filter(|snapshot| snapshot.at >= from) else {
        return (process.has_ended && process.course == Course::Well).then_some(true);
    };
    let is_it = |at: Nanos| (from..until).contains(&at);
    let is_cut_off = |stream: &BusyStream| (stream.operations.len() as u64) < stream.outstanding;
    // The first of several that are not known to have ended may have.
    let is_the_only_one = |stream: &BusyStream| {
        !is_cut_off(stream) && stream.operations.iter().filter(|op| op.waits_for_peers()).count() == 1
    };
    let in_it = |culprit: &&Culprit| is_it(culprit.operation.at) && !culprit.operation.is_transfer();
    if let Some(stands) = culprit(process).filter(in_it) {
        return snapshot.stream(stands.stream.number).filter(|stream| is_the_only_one(stream)).map(|_| false);
    }
    let may_run = |stream: &BusyStream| {
        stream.oldest.at < until && is_cut_off(stream)
            || stream.operations.iter().any(|op| op.waits_for_peers() && is_it(op.at))
    };
    (!snapshot.streams.iter().any(may_run)).then_some(true)
}

/// Says that a collective has ended on some ranks and not on others; `None` where that is not so.
pub(crate) fn lost_signal(ended: &BTreeMap<u64, Option<bool>>, what: &str) -> Option<String> {
    let those = |which: bool| ended.iter().filter(|(_, its)| **its == Some(which)).map(|(rank, _)| *rank).collect();
    let (over, open): (Vec<_>, Vec<_>) = (those(true), those(false));
    (!over.is_empty() && !open.is_empty()).then(|| {
        let (over, open) = (ranks_in_words(over), ranks_in_words(open));
        format!("{over}'s {what} has ended, {open}'s has not: a signal between them was lost.")
    })
}

/// The clocks of two machines differ by no more than this, in nanoseconds.
const CLOCKS_DIFFER: u64 = 10_000_000_000;

pub(crate) struct Asked {
    /// Whether one has answered that the run has ended.
    by_the_run: bool,
    /// When the first hang was reported, in nanoseconds since 1970. Then every process of the job was asked that shares its folder.
    pub at_the_hang: Option<u64>,
    processes: BTreeSet<u32>,
}

impl Asked {
    pub(crate) fn of(ranks: &BTreeMap<u64, &Process>) -> Self {
        let answered = |process: &&Process| process.course == Course::Killed && process.dump.is_some();
        Self {
            by_the_run: ranks.values().any(answered),
            at_the_hang: ranks.values().filter_map(|process| process.hang()).map(unix_nanos).min(),
            processes: ranks.values().map(|process| process.process).collect(),
        }
    }

    /// Whether what it waits for is the job's store, or another rank.
    pub fn waits_for_the_job(&self, evidence: &Evidence) -> bool {
        // A server in a thread of its own is no rank.
        let other = evidence.peer.filter(|peer| *peer != evidence.process);
        evidence.of_job || other.is_some_and(|peer| self.processes.contains(&peer))
    }

    /// Why the process's host side stands: by a look from outside, or by its own watchdog.
    pub fn evidence<'a>(&self, process: &'a Process) -> Option<&'a Evidence> {
        let own = || Some(&self.answer(process)?.stall.as_ref()?.evidence);
        process.evidence.as_ref().or_else(own)
    }

    /// The process's answer that tells what it did instead: to the run, right before its end; or to the hang, with no call since.
    pub fn answer<'a>(&self, process: &'a Process) -> Option<&'a HangReport> {
        let answer = &process.dump.as_ref()?.hang;
        let is_to_the_hang =
            || self.at_the_hang.is_some_and(|hang| unix_nanos(answer).saturating_add(CLOCKS_DIFFER) >= hang);
        (process.course == Course::Killed || is_to_the_hang() && !process.went_on_after_its_dump()).then_some(answer)
    }
}

pub(crate) fn call_of<'a>(report: &'a HangReport, verdict: &Verdict) -> Option<&'a BlockedCall> {
    let thread = verdict.threads.first()?;
    report.snapshot.blocked.iter().find(|call| call.thread == *thread && call.queries.is_none())
}

/// Whether the rule of the default stream alone makes this call wait: it synchronizes or copies.
pub(crate) fn is_asked_for(report: &HangReport, verdict: &Verdict) -> bool {
    let class = call_of(report, verdict).and_then(|call| call.call.class());
    verdict.code == Code::LG204
        && matches!(class, Some(CallClass::Copy | CallClass::Set | CallClass::StreamSynchronize))
}

fn unix_nanos(report: &HangReport) -> u64 {
    report.armed_unix_nanos.saturating_add(report.snapshot.at)
}

pub(crate) fn doing(process: &Process, asked: &Asked) -> Option<String> {
    let stopped = was_stopped(process);
    // The stop may have interrupted a call that only the recording shows.
    if let Some(why) = own_verdict(process).filter(|_| !stopped || process.hang().is_some()) {
        return Some(format!("and is blocked: {why}"));
    }
    if stopped {
        return Some("and was stopped, by a signal or a debugger".to_owned());
    }
    let seen = asked.evidence(process).and_then(seen);
    let ended_itself = matches!(process.course, Course::Signalled(_))
        || process.has_ended && matches!(process.course, Course::Well | Course::Unknown);
    let answer = asked.answer(process);
    if ended_itself && answer.is_none() {
        return Some(format!("and {}", process.ended));
    }
    let report = process.stood.as_ref().map(|stood| stood.report());
    let Some(answer) = answer else {
        let silent = || {
            (process.course == Course::Killed && asked.by_the_run && report.is_none())
                .then(|| "and did not answer when it was asked for a report".to_owned())
        };
        return seen.or_else(silent);
    };
    // A rank that ends is in a call of NCCL at the most.
    let ends = asked.evidence(process).is_some_and(|evidence| evidence.class == Class::Ends);
    if let Some(call) = call_in_progress(answer).filter(|_| !ends) {
        return Some(format!("and was in {call}"));
    }
    let python = report.into_iter().chain([answer]).find_map(|report| report.python.as_deref());
    if let Some(seen) = seen {
        // A thread that computes moves on while its frames are read from outside; its interpreter has written them.
        let place = python.and_then(python_place).filter(|_| !seen.contains(".py:"));
        return Some(place.map(|place| format!("{seen} ({place})")).unwrap_or(seen));
    }
    Some(format!("and its main thread {}", main_thread(process, answer, python)))
}

/// How long it had made no driver call when it was asked.
pub(crate) fn quiet(process: &Process, asked: &Asked) -> Option<Nanos> {
    let answer = asked.answer(process).filter(|answer| call_in_progress(answer).is_none())?;
    let Snapshot { at, last_activity, .. } = answer.snapshot;
    (last_activity > 0).then(|| at.saturating_sub(last_activity))
}

/// Its activity on the host, where that is more than that it waits.
fn seen(evidence: &Evidence) -> Option<String> {
    match evidence.class {
        Class::Waits => None,
        Class::Stopped | Class::Gone | Class::Ends => Some(format!("and {}", evidence.sentence)),
        _ => Some(format!("and its main thread {}", evidence.sentence)),
    }
}

/// The stack of the main thread of a rank that has not joined, where that is in no driver call.
pub(crate) fn stack(process: &Process, asked: &Asked) -> Vec<String> {
    let answer = asked.answer(process).filter(|answer| call_in_progress(answer).is_none());
    let main = answer.and_then(|answer| answer.stacks.iter().find(|stack| stack.thread == process.process));
    let Some((answer, main)) = answer.zip(main) else {
        let seen = read::<StackSeen>(&process.folder, MAIN_STACK).ok().flatten();
        return seen.map(|stack| stack.lines()).unwrap_or_default();
    };
    let mut named = HangReport { stacks: vec![main.clone()], ..answer.clone() };
    // Without the recording's names, the lines have files and offsets.
    if let Some(opened) = process.opened() {
        opened.callers().name_in(&mut named);
    }
    named.stacks.iter().filter(|stack| !stack.is_of_python_alone()).flat_map(StackSeen::lines).collect()
}

/// The frames of Python in which the main thread of such a rank stands.
pub(crate) fn python(process: &Process, asked: &Asked) -> Vec<PythonFrame> {
    let answer = asked.answer(process).filter(|answer| call_in_progress(answer).is_none());
    let report = process.stood.as_ref().map(|stood| stood.report());
    let text = answer.and_then(|answer| report.into_iter().chain([answer]).find_map(|report| report.python.as_deref()));
    let seen = || asked.evidence(process).map(|evidence| evidence.python.clone()).unwrap_or_default();
    text.map(main_python).filter(|frames| !frames.is_empty()).unwrap_or_else(seen)
}

/// Whether the process was stopped when the run came to end it. The run continues it to end it, and only then it may still answer.
pub(crate) fn was_stopped(process: &Process) -> bool {
    process.end.is_some_and(|end| end.stopped)
}

pub(crate) fn call_in_progress(asked: &HangReport) -> Option<&Call> {
    asked.snapshot.blocked.iter().find(|call| call.queries.is_none()).map(|call| &call.call)
}

fn main_thread(process: &Process, asked: &HangReport, python: Option<&str>) -> String {
    if let Some(place) = python.and_then(python_place) {
        return format!("was at {place}");
    }
    let main = asked.snapshot.runnable.iter().find(|thread| thread.thread == process.process);
    let did = match main.map(|main| main.doing) {
        Some(ThreadActivity::Running) => "was computing",
        Some(ThreadActivity::Sleeping) => "was sleeping",
        _ => "was waiting, in no driver call",
    };
    did.to_owned()
}

/// Says what processes did that were ended and not seen to hang: a line for all that did the same, and the stack of the first.
pub(crate) fn when_they_were_ended<'a>(processes: impl Iterator<Item = &'a Process>) -> Vec<(String, Vec<String>)> {
    let asked = Asked { by_the_run: true, at_the_hang: None, processes: BTreeSet::new() };
    let did = processes.filter_map(|process| Some((when_it_was_ended(process)?, process)));
    let line = |(what, same): (String, Vec<(String, &Process)>)| {
        let same: Vec<_> = same.into_iter().map(|(_, process)| process).collect();
        let stack = same.first().map(|process| stack(process, &asked)).unwrap_or_default();
        (format!("{}: when ended, {what}", who(&same)), stack)
    };
    grouped(did, |(what, _)| what.clone()).into_iter().map(line).collect()
}

fn when_it_was_ended(process: &Process) -> Option<String> {
    if process.course != Course::Killed || process.hang().is_some() {
        return None;
    }
    if was_stopped(process) {
        return Some("stopped, by a signal or a debugger".to_owned());
    }
    let asked = &process.dump.as_ref()?.hang;
    Some(match call_in_progress(asked) {
        Some(call) => format!("in {call}"),
        None => format!("in no hang: its main thread {}", main_thread(process, asked, asked.python.as_deref())),
    })
}

const LIBRARIES: [&str; 4] = ["/lib/python", "/site-packages/", "/dist-packages/", "<frozen "];

pub(crate) fn is_in_a_library(file: &str) -> bool {
    LIBRARIES.iter().any(|part| file.contains(part))
}

/// The files of the main thread's Python frames, the innermost first.
pub(crate) fn main_python_files(stacks: &str) -> Option<Vec<String>> {
    let files: Vec<_> = main_python(stacks).into_iter().map(|frame| frame.file).collect();
    (!files.is_empty()).then_some(files)
}

/// `nccl_job.py:7 in main`, in the program's own code.
fn python_place(stacks: &str) -> Option<String> {
    let frames = main_python(stacks);
    let place = |frame: &PythonFrame| {
        let file = frame.file.rsplit('/').next().unwrap_or(&frame.file);
        format!("{file}:{} in {}", frame.line, frame.function)
    };
    let innermost = place(frames.first()?);
    let own = frames.iter().find(|frame| !is_in_a_library(&frame.file)).map(place).filter(|own| *own != innermost);
    Some(own.map(|own| format!("{own}, which has led to {innermost}")).unwrap_or(innermost))
}

#[cfg(test)]
mod tests {
    use super::python_place;

    #[test]
    fn the_main_thread_is_the_last_that_the_interpreter_writes() {
        let stacks =
            "Thread 0x7f01 (most recent call first):\n  File \"/usr/lib/python3.11/threading.py\", line 331 in wait\n\n\
                      Current thread 0x7f02 (most recent call first):\n  File \"/srv/job/nccl_job.py\", line 7 in stall\n  \
                      File \"/srv/job/nccl_job.py\", line 20 in <module>\n";
        assert_eq!(python_place(stacks).as_deref(), Some("nccl_job.py:7 in stall"));
        let in_a_library =
            stacks.replace("/srv/job/nccl_job.py\", line 7", "/usr/lib/python3.11/selectors.py\", line 415");
        let place = python_place(&in_a_library);
        assert_eq!(place.as_deref(), Some("nccl_job.py:20 in <module>, which has led to selectors.py:415 in stall"));
        assert_eq!(python_place("this interpreter has no function"), None);
    }
}
