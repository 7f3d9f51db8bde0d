//! One model of streams, folded from the records of calls: what was submitted, what a success proves to have ended, what an event
//! covers, and when a queue is full.
//!
//! The hang's diagnosis, the summary of calls that blocked the host and the timeline use it to read records. The live state
//! ([`crate::state::Tracker`]) keeps the same facts in the recording's tables, without a lock. It takes the proofs and the rules
//! from here. A test (`core/tests/suite/model.rs`) compares the two.
//!
//! | file | holds |
//! |---|---|
//! | `rules` | the legacy default stream's order, full queues, full devices |
//! | `collectives` | kernels in which GPUs wait for each other |
//! | `proofs` | what a success proves, and what an event covers |
//! | `streams` | what each stream is busy with |
//! | `images` | what the code of modules and libraries is |
//! | `remembered` | the newest things by key |
//!
//! Must not: treat as ended what may not have ended; or grow with the number of records.

mod collectives;
mod images;
mod proofs;
mod remembered;
mod rules;
mod streams;

pub use collectives::{part_of_waiting, waits_for_peers};
pub use images::Images;
pub use proofs::{proves, Proofs, Proven, Recorded, Scope};
pub use remembered::Remembered;
pub use rules::{fills_device, in_turn, more_than_a_queue_holds, queue_may_be_full, takes_time};
pub use streams::Streams;
