//! The reasons for which a call passes through untouched: the real function is called, and nothing else happens.
//!
//! Where anything is in doubt, the shim passes a call on unchanged. Each such place names its reason here and is counted under it,
//! so the summary of a run says what the guard did not see.

use serde::{Deserialize, Serialize};

/// Why a call passed through untouched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PassThrough {
    /// `cuInit` has not succeeded yet, or the guard is not armed by it.
    NotArmed,
    /// The guard had a fault of its own, or memory ran out.
    SteppedAside,
    /// The process was forked and has not initialised the driver itself.
    ForkedChild,
    /// The thread is inside a driver call or inside the guard: the driver's own calls, and those of a callback.
    Nested,
    /// A signal handler on a stack of its own, on top of a call that may have been left by a jump.
    SignalHandler,
    /// The thread is being given its slot: an allocator that calls the driver, or a signal handler.
    ThreadBeginning,
    /// All slots for threads are taken.
    NoThreadSlot,
    /// The argument that describes the launch is missing; the driver refuses the call.
    NoDescription,
    /// The guard waited for the gate for as long as it may, and let the submission through.
    GatePatience,
    /// The host function becomes part of a graph, by a call or in a number of which the guard follows none.
    CapturedHostFunction,
    /// There was no memory to follow the host function with.
    NoMemory,
    /// The driver answered with a form of the function that this build does not know.
    UnknownVersion,
    /// The answer lies in a driver other than the adopted one, or in another layer.
    SecondDriver,
    /// The driver itself asks for one of its functions.
    AskedByDriver,
    /// The function lies in an NCCL other than the one that is followed.
    SecondNccl,
    /// An object's reference to the driver or to NCCL is in memory that the guard could not write to.
    ReadOnlySlot,
}

impl PassThrough {
    /// All of them, each at its own number.
    pub const ALL: [Self; 16] = [
        Self::NotArmed,
        Self::SteppedAside,
        Self::ForkedChild,
        Self::Nested,
        Self::SignalHandler,
        Self::ThreadBeginning,
        Self::NoThreadSlot,
        Self::NoDescription,
        Self::GatePatience,
        Self::CapturedHostFunction,
        Self::NoMemory,
        Self::UnknownVersion,
        Self::SecondDriver,
        Self::AskedByDriver,
        Self::SecondNccl,
        Self::ReadOnlySlot,
    ];

    /// What was passed through, and why.
    pub fn text(self) -> &'static str {
        match self {
            Self::NotArmed => "calls before the guard was armed",
            Self::SteppedAside => "calls after the guard stepped aside",
            Self::ForkedChild => "calls in a forked child that is not armed",
            Self::Nested => "calls from inside another call",
            Self::SignalHandler => "calls of a signal handler on top of another call",
            Self::ThreadBeginning => "calls of a thread that was being given its slot",
            Self::NoThreadSlot => "calls of threads that found no free slot",
            Self::NoDescription => "launches without a description",
            Self::GatePatience => "submissions let through the closed gate",
            Self::CapturedHostFunction => "host functions of graphs that are not followed",
            Self::NoMemory => "host functions for which memory was short",
            Self::UnknownVersion => "look-ups of an unknown version of a function",
            Self::SecondDriver => "look-ups answered by a second driver",
            Self::AskedByDriver => "look-ups by the driver itself",
            Self::SecondNccl => "look-ups answered by a second NCCL",
            Self::ReadOnlySlot => "references of objects that could not be bound",
        }
    }
}

/// How often calls passed through untouched for one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassedThrough {
    /// The reason.
    pub reason: PassThrough,
    /// How often.
    pub count: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_at_its_own_number_and_has_a_text_of_its_own() {
        for (number, reason) in PassThrough::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, number);
            let same = PassThrough::ALL.into_iter().filter(|other| other.text() == reason.text()).count();
            assert_eq!(same, 1, "{reason:?}");
        }
    }
}
