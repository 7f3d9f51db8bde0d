//! The kinds of slices of the timeline.

use lazyguard_core::report::event_of_record;
use lazyguard_core::trace::Record;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum What {
    Blocked,
    Load,
    Preload,
    Hazard,
    Communication,
    Submission,
    Memory,
    /// A thread waits for work to end, or asks whether it has.
    Wait,
    Other,
    InFlight,
}

impl What {
    const TABLE: [(Self, &'static str, &'static str); 10] = [
        (Self::Blocked, "blocked", "blocked call"),
        (Self::Load, "load", "load or unload of code"),
        (Self::Preload, "preload", "preloaded by the guard"),
        (Self::Hazard, "hazard", "hazard"),
        (Self::Communication, "communication", "call of NCCL"),
        (Self::Submission, "submission", "submission"),
        (Self::Memory, "memory", "memory"),
        (Self::Wait, "wait", "wait or query"),
        (Self::Other, "other", "other call"),
        (Self::InFlight, "in-flight", "operation not known to have ended"),
    ];

    pub fn all() -> impl Iterator<Item = Self> {
        Self::TABLE.into_iter().map(|(what, ..)| what)
    }

    pub fn of(record: &Record) -> Option<Self> {
        Some(match event_of_record(record.kind, record.entry_point.class()) {
            "load" | "unload" => Self::Load,
            "preload" => Self::Preload,
            "hazard" => Self::Hazard,
            "communication" => Self::Communication,
            "launch" | "graph_launch" | "host_function" | "memory_operation" | "event_record" | "event_wait" => {
                Self::Submission
            }
            "copy" | "memset" | "allocation" => Self::Memory,
            "synchronize" | "query" => Self::Wait,
            "context" | "stream" | "capture" | "other" => Self::Other,
            // What the guard has noticed beside the calls of threads.
            _ => return None,
        })
    }

    pub const fn class(self) -> &'static str {
        Self::TABLE[self as usize].1
    }

    pub const fn words(self) -> &'static str {
        Self::TABLE[self as usize].2
    }

    /// Only slices of one kind become one: loads and calls of NCCL are what a reader looks for.
    pub const fn kind(self) -> u8 {
        match self {
            Self::Load | Self::Preload => 2,
            Self::Communication => 1,
            _ => 0,
        }
    }

    pub const fn stays_apart(self) -> bool {
        matches!(self, Self::Blocked | Self::Hazard | Self::InFlight)
    }
}
