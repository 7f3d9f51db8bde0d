//! Loads on first use, and what they find in flight.

use super::operation::Operation;

/// The two lazy loads; they fail differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ColdKind {
    /// A function's first use in a module that is there: returns at once and puts a barrier on the device.
    Function,
    /// A module's or library's first use in the context: blocks the calling thread until the context is idle.
    Module,
}

/// An operation that was in flight at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlight {
    /// The stream's number.
    pub stream: u32,
    /// The oldest operation there that was not known to be complete.
    pub oldest: Operation,
}
