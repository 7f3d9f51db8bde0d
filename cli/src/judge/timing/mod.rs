//! Where a program's time on the host went: until its steady state, and in calls that should not have blocked it.
//!
//! | file | holds |
//! |---|---|
//! | `cold_start` | the summary of a start, and the first use of each kernel |
//! | `part` | what the time of a start can have gone into |
//! | `sweep` | time gone through once: the parts, and when the steady state was reached |
//! | `blocking` | the asynchronous calls that blocked the host, and why |
//! | `reason` | the reasons there are |
//! | `holders` | calls of other threads that hold the context's lock |
//! | `kernels` | which kernel a record means |
//! | `histogram` | how long things took, without keeping each of them |
//!
//! Both summaries are visitors of the replay of a recording, with the calls in progress among the records.
//!
//! Must not: keep anything in proportion to the number of records, or give an inferred reason without calling it likely.

mod blocking;
mod cold_start;
mod histogram;
mod holders;
mod kernels;
mod part;
mod reason;
mod sweep;

pub use blocking::{Blocking, BlockingFold, Group, THRESHOLD_NANOS};
pub use cold_start::{ColdStart, ColdStartFold, FirstUse, Missing, Sum};
pub use histogram::Decade;
pub use part::Part;
