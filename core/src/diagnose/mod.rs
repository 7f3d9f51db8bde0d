//! From a snapshot to verdicts.
//!
//! [`Snapshot`] is plain data: taken from live state by [`Snapshot::take`], made of a recording by [`snapshot_of`], or read
//! from `hang.json`. [`diagnose`] is a pure function of it, so the watchdog and the command-line tool cannot disagree.
//!
//! Must not: look at live state (only `take` does, and it takes no lock that a stuck thread can hold), or guess: what is
//! not explained is LG299, with the oldest operation of each busy stream.

mod code;
mod recorded;
mod snapshot;
mod verdict;

pub use code::Code;
pub use recorded::{snapshot_of, Gathering};
pub use snapshot::{BlockedCall, BusyStream, ColdLoadSeen, OperationSeen, Snapshot, StreamRef, WaitSeen, WriteSeen};
pub use verdict::{diagnose, Culprit, Verdict};
