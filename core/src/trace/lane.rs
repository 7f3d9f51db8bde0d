//! Which lane a record belongs to, and which calls leave one.

use super::layout;
use crate::api::Class;
use crate::Nanos;

/// A class of records with segments of its own, so that frequent records never displace rare ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Lane {
    /// Launches, copies, fills, host functions, events, queries.
    Work = 0,
    /// Calls in which a thread waits for work.
    Waits = 1,
    /// Loads, unloads, memory operations, the life of contexts and streams, captures, hazards, and what blocked.
    RareEvents = 2,
}

impl Lane {
    /// All lanes, in the order of their numbers.
    pub const ALL: [Self; layout::LANES] = [Self::Work, Self::Waits, Self::RareEvents];

    /// The lane of calls of a class, as long as they do not load on first use: those are rare_events.
    pub const fn of(class: Class) -> Self {
        match class {
            Class::Launch
            | Class::HostFunction
            | Class::GraphLaunch
            | Class::StreamSubmit
            | Class::StreamWaitEvent
            | Class::ExternalWait
            | Class::ExternalSignal
            | Class::EventRecord
            | Class::EventDestroy
            | Class::StreamQuery
            | Class::EventQuery
            | Class::AllocateAsync
            | Class::FreeAsync
            | Class::Copy
            | Class::CopyAsync
            | Class::Set
            | Class::SetAsync => Self::Work,
            Class::ContextSynchronize | Class::StreamSynchronize | Class::EventSynchronize => Self::Waits,
            _ => Self::RareEvents,
        }
    }
}

/// From how long on a call leaves a record that leaves none when it is quick.
pub const SLOW_NANOS: Nanos = 100_000;

/// Whether a call that has returned leaves a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Each one.
    Always,
    /// Equal ones in a row are one record with a count.
    Folded,
    /// Only if it took [`SLOW_NANOS`] or loaded something.
    IfSlow,
}

impl Keep {
    /// What holds for calls of a class.
    pub const fn of(class: Class) -> Self {
        match class {
            Class::StreamQuery | Class::EventQuery => Self::Folded,
            Class::Init
            | Class::Lookup
            | Class::Query
            | Class::ContextCurrent
            | Class::ContextWait
            | Class::FunctionResolve
            | Class::KernelResolve
            | Class::KernelFunction
            | Class::LibraryModule
            | Class::FunctionLoad
            | Class::GraphNode
            | Class::EventCreate
            | Class::Allocate
            | Class::Free => Self::IfSlow,
            _ => Self::Always,
        }
    }
}
