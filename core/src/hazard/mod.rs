//! The deadlocks that did not happen today: from a run that passed to what another timing would have made of it.
//!
//! The shim notes a hazard where it arises, as a record of its own, because only there is it known what was in flight. What a
//! record means, which of them are the same hazard, and what to say of it is decided here, for the live process and for the
//! command-line tool alike.
//!
//! Must not: look at live state, or make a hazard of anything that no record shows.

mod group;

pub use group::{Hazard, Met, StreamClass};
