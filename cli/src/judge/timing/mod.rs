//! Sums up a program's time on the host: until its steady state, and in calls that should not have blocked it. Both summaries are visitors of
//! the replay of a recording.
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
