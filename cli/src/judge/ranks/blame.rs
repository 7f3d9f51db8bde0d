//! Which rank is named first for a collective that one has called and another has not.
//!
//! | the rank that has called it | the rank that has not | named first |
//! |---|---|---|
//! | waits as the program asked | does anything | the one that has not called it |
//! | is blocked behind it | waits for another rank | the one that has called it |
//! | is blocked behind it | is seen to do something else | the one that has not called it |
//! | loads code behind it | is not seen to do anything | the one that has called it |
//! | is blocked behind it by another call | is not seen to do anything | the one that has not called it |
//!
//! A rank waits for another rank at the job's store, in a library by which ranks talk to each other, and at a connection to another rank's process. A
//! server beside the job is something else.
//!
//! A rank waits as the program asked in a synchronization, a poll, and a copy. It is blocked by a load, by a call that needs an idle context, by a full
//! queue, and by a device that is full. If the one that has not called it is first, the other is said to be one that would hang as well. If several have
//! not, one that does something else keeps the rest.
//!
//! A load whose other ranks are not seen is named first because a program whose ranks load behind their collectives hangs sooner or later: the fix
//! of the load is right in either case.

use super::doing::{self, standing, Asked};
use crate::judge::process::Process;
use crate::judge::stood::Course;
use lazyguard_core::api::Class;
use lazyguard_core::diagnose::{Code, ThreadActivity, Verdict};
use lazyguard_core::evidence::Class as Host;
use lazyguard_core::report::{FrameSeen, HangReport};
use lazyguard_core::stack::PythonFrame;

/// How a rank stands that has called a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ahead {
    AsAsked,
    Blocked,
    Loads,
}

/// The activity of a rank that has not called it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Behind {
    NotSeen,
    WaitsForRank,
    /// One such rank keeps the others waiting that have not called it, whatever those wait for.
    DoesOther,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum First {
    Ahead,
    Behind,
}

/// The table above, a line each.
pub(crate) const fn named_first(ahead: Ahead, behind: Behind) -> First {
    match (ahead, behind) {
        (Ahead::AsAsked, _) => First::Behind,
        (Ahead::Blocked | Ahead::Loads, Behind::WaitsForRank) => First::Ahead,
        (Ahead::Blocked | Ahead::Loads, Behind::DoesOther) => First::Behind,
        (Ahead::Loads, Behind::NotSeen) => First::Ahead,
        (Ahead::Blocked, Behind::NotSeen) => First::Behind,
    }
}

/// How a process stands behind a collective of its own, and the verdict that says so. `None` where none of its calls stands behind one.
pub(crate) fn ahead(process: &Process) -> Option<(Ahead, &Verdict)> {
    let report = standing(process)?;
    let behind_its_own = report.verdicts.iter().filter(|verdict| is_behind_its_own(verdict));
    // The first of several is the cause.
    behind_its_own.map(|verdict| (stands(report, verdict), verdict)).rev().max_by_key(|(ahead, _)| *ahead)
}

/// Whether a process hangs behind no collective.
pub(crate) fn stands_by_itself(process: &Process) -> bool {
    let verdicts = standing(process).map_or(&[][..], |report| &report.verdicts);
    let is_its_own = |verdict: &Verdict| verdict.code != Code::LG208 && !is_behind_its_own(verdict);
    !verdicts.is_empty() && verdicts.iter().all(is_its_own)
}

fn is_behind_its_own(verdict: &Verdict) -> bool {
    verdict.culprits.iter().chain(&verdict.held_back).any(|culprit| culprit.operation.waits_for_peers())
}

fn stands(report: &HangReport, verdict: &Verdict) -> Ahead {
    match verdict.code {
        Code::LG201 | Code::LG202 => Ahead::Loads,
        Code::LG205 | Code::LG206 => Ahead::Blocked,
        Code::LG204 if !doing::is_asked_for(report, verdict) => Ahead::Blocked,
        Code::LG208 if finds_a_full_queue(report, verdict) => Ahead::Blocked,
        _ => Ahead::AsAsked,
    }
}

fn finds_a_full_queue(report: &HangReport, verdict: &Verdict) -> bool {
    let class = doing::call_of(report, verdict).and_then(|call| call.call.class());
    let submits = matches!(class, Some(Class::Launch | Class::GraphLaunch | Class::HostFunction | Class::StreamSubmit));
    submits && !report.snapshot.launch_blocking
}

/// The activity of a rank that has not called the collective, as far as it was seen.
pub(crate) fn behind(process: Option<&Process>, asked: &Asked) -> Behind {
    let Some(process) = process else { return Behind::NotSeen };
    if let Some(evidence) = asked.evidence(process) {
        let waits =
            || asked.waits_for_the_job(evidence) || by_python(&files_of(&evidence.python)) == Behind::WaitsForRank;
        return match evidence.class {
            Host::Peer | Host::Lock if waits() => Behind::WaitsForRank,
            // By their libraries: those wait by a poll, a lock, or a loop.
            Host::Peer | Host::Lock | Host::Computes | Host::Rests | Host::Waits if is_in_a_library(process, asked) => {
                Behind::WaitsForRank
            }
            // For a time, or for what is not known: it may look again and again for what another rank leaves.
            Host::Rests | Host::Waits => Behind::NotSeen,
            _ => Behind::DoesOther,
        };
    }
    if doing::was_stopped(process) || doing::own_verdict(process).is_some() {
        return Behind::DoesOther;
    }
    if has_ended_before(process, asked) {
        return Behind::DoesOther;
    }
    let Some(answer) = asked.answer(process) else { return Behind::NotSeen };
    if doing::call_in_progress(answer).is_some() {
        return Behind::DoesOther;
    }
    if is_in_a_library(process, asked) {
        return Behind::WaitsForRank;
    }
    let own = process.stood.as_ref().and_then(|stood| stood.report().python.as_deref());
    let in_python = own
        .into_iter()
        .chain(answer.python.as_deref())
        .find_map(doing::main_python_files)
        .map(|files| by_python(&files));
    let main = answer.snapshot.runnable.iter().find(|thread| thread.thread == process.process);
    let computes = main.is_some_and(|main| main.doing == ThreadActivity::Running);
    in_python.unwrap_or(Behind::NotSeen).max(if computes { Behind::DoesOther } else { Behind::NotSeen })
}

/// Whether the main thread is in a library by which ranks talk to each other.
fn is_in_a_library(process: &Process, asked: &Asked) -> bool {
    let stacks = asked.answer(process).into_iter().flat_map(|answer| &answer.stacks);
    stacks.filter(|stack| stack.thread == process.process).flat_map(|stack| &stack.frames).any(is_of_peers)
}

/// Whether it had ended before the first hang was reported, or ended by itself where none was.
fn has_ended_before(process: &Process, asked: &Asked) -> bool {
    let by_itself = process.has_ended && matches!(process.course, Course::Well | Course::Unknown)
        || matches!(process.course, Course::Signalled(_));
    // Processes that are killed together are seen last at times that differ by that much.
    const TOGETHER: u64 = 2_000_000_000;
    let margin = if process.course == Course::Unknown { TOGETHER } else { 0 };
    let end = process.armed_unix_nanos.saturating_add(process.nanos).saturating_add(margin);
    by_itself && asked.at_the_hang.is_none_or(|hang| end <= hang)
}

/// Parts of the names of functions that wait for another process of the job.
const FUNCTIONS: &[&str] = &[
    "gloo::",
    "TCPStore",
    "PrefixStore",
    "FileStore",
    "ncclRecv",
    "MPI_",
    "MPIDI_",
    "ompi_",
    "opal_",
    "ucp_",
    "nvshmem",
];
/// Libraries by which ranks talk to each other.
const LIBRARIES: &[&str] = &["libgloo", "libmpi", "libucp", "libuct", "libpmix", "libnvshmem", "libnccl"];
/// Parts of the paths of Python files whose functions do.
const FILES: &[&str] = &[
    "torch/distributed/distributed_c10d.py",
    "torch/distributed/rendezvous.py",
    "torch/distributed/rpc/",
    "/mpi4py/",
    "/horovod/",
];
/// The frames around these say what they wait for; without such, it is not known.
const UNCLEAR: &[&str] = &["/selectors.py", "/asyncio/", "/threading.py", "/concurrent/", "/socket.py"];

fn files_of(frames: &[PythonFrame]) -> Vec<String> {
    frames.iter().map(|frame| frame.file.clone()).collect()
}

fn is_of_peers(frame: &FrameSeen) -> bool {
    let function = frame.function.as_deref().unwrap_or_default();
    LIBRARIES.iter().any(|name| frame.module.starts_with(name)) || FUNCTIONS.iter().any(|part| function.contains(part))
}

/// By the files of the main thread's Python frames, the innermost first. A frame of the program itself may be in any call.
fn by_python(files: &[String]) -> Behind {
    let is_one = |file: &str, of: &[&str]| of.iter().any(|part| file.contains(part));
    let library = files.iter().take_while(|file| doing::is_in_a_library(file));
    let library: Vec<_> = library.filter(|file| !is_one(file, UNCLEAR)).collect();
    match library.first() {
        Some(_) if library.iter().any(|file| is_one(file, FILES)) => Behind::WaitsForRank,
        Some(_) => Behind::DoesOther,
        None => Behind::NotSeen,
    }
}

#[cfg(test)]
#[path = "blame_tests.rs"]
mod tests;
