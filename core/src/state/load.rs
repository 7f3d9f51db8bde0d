//! What a load on first use, or another call, finds in flight.

use crate::api::Operation;

/// An operation that was in flight at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlight {
    /// The stream's number.
    pub stream: u32,
    /// The oldest operation there that was not known to be complete.
    pub oldest: Operation,
}
