//! Which rank is to blame where one has called a collective and another one has not: the whole decision, as one table.
//!
//! | the rank that has called it stands in | the rank that has not | named first | second |
//! |---|---|---|---|
//! | a wait that the program asked for | any | the rank that has not called it | |
//! | a call that the driver holds back (a load, a release, a full queue, a filled device) | shows a wait for a rank | the rank that has called it | the one that has not |
//! | the same | shows nothing of its own | the rank that has called it | the one that has not |
//! | the same | stands still, or is at work, on its own host | the rank that has not called it | the one that has |
//!
//! In the third row the deadlock of the rank that has called it is all that is known: a process that only polls shared memory shows no more.
//!
//! Must not: find out which rank has not called it; `waits` has.

use super::doing::{answer_of, culprit, own_verdict, standing, Asked};
use crate::judge::process::Process;
use crate::judge::stood::Course;
use lazyguard_core::api::Class;
use lazyguard_core::diagnose::{Code, ThreadActivity, Verdict};
use lazyguard_core::evidence;
use lazyguard_core::report::{FrameSeen, HangReport};

/// How a rank stands that has called the collective.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    Asked,
    /// With the code and sentence of its own verdict.
    HeldBack(String),
}

/// How a rank shows itself that has not called it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behind {
    WaitsForARank,
    OnItsOwn,
    ShowsNothing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum First {
    Caller,
    Behind,
}

/// The table.
pub(crate) fn first(caller: &Caller, behind: &[Behind]) -> First {
    match caller {
        Caller::Asked => First::Behind,
        // One that is busy by itself keeps the others of those behind as well.
        Caller::HeldBack(_) if behind.contains(&Behind::OnItsOwn) => First::Behind,
        Caller::HeldBack(_) => First::Caller,
    }
}

/// Whether the program asked for the wait of the first verdict's call: a synchronize, a query, or a copy that has to wait.
fn is_asked_for(report: &HangReport, verdict: &Verdict) -> bool {
    let is_asked = |class: Class| {
        let copies = matches!(class, Class::Copy | Class::CopyAsync | Class::Set);
        copies || class.synchronizes() || matches!(class, Class::StreamQuery | Class::EventQuery)
    };
    let call = report.snapshot.blocked.iter().find(|call| verdict.threads.contains(&call.thread));
    match verdict.code {
        Code::LG208 | Code::LG299 => true,
        Code::LG204 => call.and_then(|call| call.call.class()).is_some_and(is_asked),
        _ => false,
    }
}

impl Caller {
    pub fn of(process: &Process) -> Self {
        let verdict = standing(process).and_then(|report| Some((report, report.verdicts.first()?)));
        let is_held_back = verdict.is_some_and(|(report, verdict)| !is_asked_for(report, verdict));
        match culprit(process).filter(|_| is_held_back).and_then(|_| own_verdict(process)) {
            Some(why) => Self::HeldBack(why),
            None => Self::Asked,
        }
    }
}

impl Behind {
    /// `waits_for_another`: its calls of NCCL show that.
    pub fn of(process: Option<&Process>, waits_for_another: bool, asked: &Asked) -> Self {
        let Some(process) = process else { return Self::ShowsNothing };
        if waits_for_another {
            return Self::WaitsForARank;
        }
        if let Some(evidence) = &process.evidence {
            return Self::by_evidence(evidence.class);
        }
        let has_ended = matches!(process.course, Course::Signalled(_)) || process.has_ended;
        if has_ended || process.end.is_some_and(|end| end.stopped) {
            return Self::OnItsOwn;
        }
        answer_of(process, asked).map_or(Self::ShowsNothing, |answer| Self::by_answer(process, answer))
    }

    fn by_evidence(class: evidence::Class) -> Self {
        use evidence::Class;
        match class {
            Class::Peer => Self::WaitsForARank,
            Class::File | Class::Child | Class::Lock | Class::Computes | Class::Compiles | Class::Collects => {
                Self::OnItsOwn
            }
            Class::Stopped | Class::Starved | Class::Gone | Class::Ends => Self::OnItsOwn,
            Class::Rests | Class::Waits => Self::ShowsNothing,
        }
    }

    /// By the main thread's stack, and whether it computed.
    fn by_answer(process: &Process, answer: &HangReport) -> Self {
        let main = answer.stacks.iter().find(|stack| stack.thread == process.process);
        if main.is_some_and(|main| main.frames.iter().any(communicates)) {
            return Self::WaitsForARank;
        }
        let activity = answer.snapshot.runnable.iter().find(|thread| thread.thread == process.process);
        match activity.map(|main| main.doing) {
            Some(ThreadActivity::Running) => Self::OnItsOwn,
            _ => Self::ShowsNothing,
        }
    }
}

/// Whether a frame is of code by which ranks wait for each other.
fn communicates(frame: &FrameSeen) -> bool {
    const LIBRARIES: [&str; 8] =
        ["libgloo", "libmpi", "libucp", "libucs", "libnvshmem", "libnccl", "libtorch_mpi", "libpmix"];
    const FUNCTIONS: [&str; 8] = ["c10d::", "gloo::", "MPI_", "PMPI_", "ucp_", "nvshmem", "tensorpipe::", "TCPStore"];
    let function = frame.function.as_deref().unwrap_or_default();
    LIBRARIES.iter().any(|name| frame.module.starts_with(name)) || FUNCTIONS.iter().any(|name| function.contains(name))
}

#[cfg(test)]
#[path = "blame_tests.rs"]
mod tests;
