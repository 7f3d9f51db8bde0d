//! The operations that a load on first use, or another call, finds in flight.

use crate::api::Operation;
use crate::Nanos;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InFlight {
    /// 0 of work on destroyed streams.
    pub stream: u32,
    /// The oldest one there that was not known to be complete.
    pub operation: Operation,
}

impl InFlight {
    /// Launches of a thread that could not be folded (`super::fold`), and may be in flight.
    pub const UNKNOWN: Self = Self { stream: 0, operation: Operation { at: Nanos::MAX, entry_point: 0, function: 0 } };

    /// Whether the operation is known. An unknown one counts as in flight, but no report may name it.
    pub fn is_known(&self) -> bool {
        *self != Self::UNKNOWN
    }
}
