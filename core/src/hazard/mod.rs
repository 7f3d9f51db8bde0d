//! The deadlocks that did not happen today: from a run that passed to what another timing would have made of it.
//!
//! The shim notes a hazard where it arises, as a record of its own, because only there is it known what was in flight. What a
//! record means, which of them are the same hazard, and what to say of it is decided here, for the live process and for the
//! command-line tool alike.
//!
//! | file | holds |
//! |---|---|
//! | `rules` | what is a hazard, as far as that can be decided without CUDA |
//! | `waits` | waits for values that nothing submitted satisfies |
//! | `noted` | one occurrence, and its record |
//! | `fold` | from occurrences to hazards |
//! | `group` | a hazard, once it has been counted |
//! | `words` | the sentences |
//! | `read` | the hazards of a recording |
//! | `file` | the hazards of a process, as a file |
//!
//! Must not: look at live state, or make a hazard of anything that no record shows.

mod aggregator;
mod event;
mod file;
mod group;
pub mod messages;
mod read;
pub mod rules;
mod waits;

pub use aggregator::{Aggregator, Counted, Names, MOST_GROUPS};
pub use event::{blocks_the_host, ConflictingOperation, Flags, HazardEvent};
pub use file::{joined, HazardFile};
pub use group::{FirstOccurrence, Hazard, StreamClass};
pub use read::{hazards_of, Gathered};
pub use waits::{Outstanding, Waits};
