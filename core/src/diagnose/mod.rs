//! From a snapshot to verdicts.
//!
//! [`Snapshot`] is plain data, made of a recording: by the live process of its own ([`snapshot_at`]), by the command-line tool
//! of the file ([`snapshot_of`]), or read from `hang.json`. [`diagnose`] is a pure function of it, so the watchdog and the tool
//! cannot disagree.
//!
//! | file | holds |
//! |---|---|
//! | `snapshot` | what stood still |
//! | `builder` | from a recording to that |
//! | `memory` | waits for values and writes of them |
//! | `occupancy` | how much of the device a kernel fills |
//! | `paths` | what each stream stands at, and what that waits for |
//! | `decide` | which pattern that is, and what to change |
//! | `messages` | the sentences |
//! | `verdict`, `code` | what comes out |
//! | `ends` | what became of the calls that a report named |
//!
//! Must not: look at live state other than through the recording, or guess: what is not explained is LG299, with the oldest
//! operation of each busy stream, and what may still end is called slow.

mod builder;
mod code;
mod decide;
mod ends;
mod memory;
pub(crate) mod messages;
mod occupancy;
mod paths;
mod snapshot;
#[cfg(test)]
mod test_trace;
mod verdict;

pub use builder::{snapshot_at, snapshot_of, SnapshotBuilder, ASKS_NO_MORE_NANOS};
pub use code::Code;
pub use decide::diagnose;
pub use ends::{ends_of, CallEnd, HowEnded};
pub use memory::{Stores, ValueWait, ValueWrite};
pub use occupancy::{resident_blocks, Device, Needs};
pub use snapshot::{
    BlockedCall, BusyStream, ColdLoadSeen, EventWaitSeen, Extent, FedStream, Feeder, HostFunctionSeen, LaunchKey,
    OperationSeen, RunnableThread, Snapshot, StreamRef, ThreadActivity, WaitSeen, WriteSeen,
};
pub use verdict::{Confidence, Culprit, Diagnosis, Evidence, Status, Verdict};
