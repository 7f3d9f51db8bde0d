//! Hazards: the deadlocks that a run which passed would have had with another timing.
//!
//! The shim notes a hazard where it arises, because only the shim knows what was in flight. This module decides what a record means, which
//! records are one hazard, and what to report, for the live process and the command alike.
//!
//! The log's thread writes `hazards.json` when there is something new, at an orderly end, and before `LAZYGUARD_ON_HANG` ends the process.
//!
//! | kept for it | where, and how much |
//! |---|---|
//! | waits for values that no submitted write satisfies, and the newest writes | `waits`: 256 each |
//! | operations outstanding on a stream since it was last known to be idle | a word of the stream, and of each event |
//! | functions and libraries that the guard preloaded and the program has not used yet | a bit of the function, a mark of library and context |
//! | the most local memory that a context's kernels have needed | a word of the context, asked at the first launch of each function |
//! | cooperative grids that fill the device | 16; while one may be in flight, launches go the slow path |
//!
//! An ordinary launch pays one comparison: whether it took a millisecond.
//!
//! Must not: look at live state, or make a hazard of anything that no record shows.

mod aggregator;
mod event;
mod group;
pub mod messages;
pub mod rules;
mod waits;
mod weigh;

pub use aggregator::{Aggregator, Names, MOST_GROUPS};
pub use event::{blocks_the_host, Flags, HazardEvent};
pub use group::{joined, FirstOccurrence, Hazard, HazardFile, StreamClass};
pub use waits::{Outstanding, Waits, Writes};
pub use weigh::Weigher;
