//! The reasons for which the shim passes a call on unchanged. Each is counted, so the summary says what the guard did not see.

use serde::{Deserialize, Serialize};

/// The reason for an untouched call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PassThrough {
    /// `cuInit` has not succeeded, or not under the guard.
    NotArmed,
    /// The guard failed, or memory ran out.
    SteppedAside,
    /// The forked process has not called `cuInit`.
    ForkedChild,
    /// The call came from inside a driver call or the guard.
    Nested,
    /// A signal handler made it above a call that a jump may have left.
    SignalHandler,
    /// The thread has no slot yet.
    ThreadBeginning,
    /// The threads' slots are full.
    NoThreadSlot,
    /// The launch lacks its description; the driver refuses it.
    NoDescription,
    /// The gate's time limit let the submission through.
    GatePatience,
    /// The host function belongs to a graph that the guard does not follow.
    CapturedHostFunction,
    /// Memory for following the host function ran out.
    NoMemory,
    /// The driver returned an unknown form of the function.
    UnknownVersion,
    /// Another driver, or a layer, holds the function.
    SecondDriver,
    /// The driver asks for its own function.
    AskedByDriver,
    /// Another NCCL than the followed one holds the function.
    SecondNccl,
    /// The reference lies in read-only memory.
    ReadOnlySlot,
}

impl PassThrough {
    /// Each at its own number, with what was passed through.
    pub const ALL: [(Self, &'static str); 16] = [
        (Self::NotArmed, "calls before the guard was armed"),
        (Self::SteppedAside, "calls after the guard stepped aside"),
        (Self::ForkedChild, "calls in a forked child that is not armed"),
        (Self::Nested, "calls from inside another call"),
        (Self::SignalHandler, "calls of a signal handler on top of another call"),
        (Self::ThreadBeginning, "calls of a thread that was being given its slot"),
        (Self::NoThreadSlot, "calls of threads that found no free slot"),
        (Self::NoDescription, "launches without a description"),
        (Self::GatePatience, "submissions let through the closed gate"),
        (Self::CapturedHostFunction, "host functions of graphs that are not followed"),
        (Self::NoMemory, "host functions for which memory was short"),
        (Self::UnknownVersion, "look-ups of an unknown version of a function"),
        (Self::SecondDriver, "look-ups answered by a second driver"),
        (Self::AskedByDriver, "look-ups by the driver itself"),
        (Self::SecondNccl, "look-ups answered by a second NCCL"),
        (Self::ReadOnlySlot, "references of objects that could not be bound"),
    ];

    pub fn text(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

/// Untouched calls, by reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassedThrough {
    /// The reason.
    pub reason: PassThrough,
    /// How many.
    pub count: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_at_its_own_number_and_has_a_text_of_its_own() {
        for (number, (reason, text)) in PassThrough::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, number);
            let same = PassThrough::ALL.into_iter().filter(|(_, other)| *other == text).count();
            assert_eq!(same, 1, "{reason:?}");
        }
    }
}
