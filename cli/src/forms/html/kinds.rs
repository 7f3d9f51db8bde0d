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
    /// Each with where in its lane a slice lies, and how high it is: what matters is not shown by its colour alone.
    const TABLE: [(Self, &'static str, &'static str, (i64, i64)); 10] = [
        (Self::Blocked, "blocked", "blocked call", (2, 20)),
        (Self::Load, "load", "load or unload of code", (2, 20)),
        (Self::Preload, "preload", "preloaded by the guard", (2, 20)),
        (Self::Hazard, "hazard", "hazard", (1, 22)),
        (Self::Communication, "communication", "call of NCCL", (4, 16)),
        (Self::Submission, "submission", "submission", (6, 12)),
        (Self::Memory, "memory", "memory", (6, 12)),
        (Self::Wait, "wait", "wait or query", (8, 8)),
        (Self::Other, "other", "other call", (8, 8)),
        (Self::InFlight, "in-flight", "operation not known to have ended", (4, 16)),
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
            // A record of what the guard has noticed beside the calls of threads.
            _ => return None,
        })
    }

    pub const fn class(self) -> &'static str {
        Self::TABLE[self as usize].1
    }

    pub const fn words(self) -> &'static str {
        Self::TABLE[self as usize].2
    }

    pub const fn place(self) -> (i64, i64) {
        Self::TABLE[self as usize].3
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
