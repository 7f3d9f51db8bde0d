//! Makes verdicts of a snapshot.
//!
//! [`Snapshot`] is plain data, made of a recording by [`SnapshotBuilder`] (the live process reads its own, the command the file), or read
//! from `hang.json`. [`diagnose`] is a pure function of it, so the watchdog and the tool
//! cannot disagree.
//!
//! A long kernel and an endless one look alike from outside, so a verdict waits according to the cost of a wrong one:
//!
//! | waited for | counts as a hang |
//! |---|---|
//! | LG201 and LG202: the program did not ask to wait there, and the kernel may need the blocked work | after the threshold |
//! | a cycle; with no runnable thread, a value in device memory that no submitted work may write, or a host function that waits for another thread | after the threshold |
//! | what a kernel, a runnable thread, the host, another process or a running host function may still end; work of a destroyed stream; what the guard does not follow; a load that has to compile; any call that nothing explains | after three times the threshold without progress |
//! | a kernel for which no thread waits in a call: a host function behind it is all that is known to wake one of the threads, which all wait | after six times the threshold |
//!
//! Until then it is slow. Only a cycle is *certain*; every other verdict is *likely* or *possible*.
//!
//! Must not: look at live state other than through the recording, or guess: what is not explained is LG299, with the oldest
//! operation of each busy stream, and what may still end is called slow.

mod answers;
#[cfg(test)]
mod answers_tests;
#[cfg(test)]
mod atlas_tests;
mod behind;
mod builder;
mod causes;
pub(crate) mod chain;
#[cfg(test)]
mod collective_tests;
mod cycles;
mod decide;
mod doubts;
mod ends;
mod finding;
mod gathered;
mod graph;
mod graph_calls;
#[cfg(test)]
mod graph_tests;
mod late;
mod late_rank;
#[cfg(test)]
mod late_tests;
mod links;
pub(crate) mod messages;
mod needs;
mod occupancy;
mod operation;
mod path;
mod paths;
mod room;
mod shared_queue;
mod snapshot;
#[cfg(test)]
mod test_trace;
#[cfg(test)]
mod unseen_tests;
mod unwatched;
mod verdict;
mod view;
mod wait;

pub use crate::api::{Asked, Code, ThreadActivity};
pub use crate::replay::waits_for_peers;
pub use behind::{behind, chained, untold, waits_by_default, Behind};
pub use builder::snapshot_at;
pub use decide::diagnose;
pub use ends::{ends_of, CallEnd, HowEnded};
pub use gathered::SnapshotBuilder;
pub use graph::{GraphPartSeen, GraphSeen};
pub use late::waits_for_ranks;
pub use late_rank::{LateRank, LateSeen};
pub use links::{links_of, Link, Party};
pub use messages::needs_idle;
pub use occupancy::{resident_blocks, Device, Needs};
pub use operation::{BusyStream, Extent, FedStream, Feeder, OperationSeen, Origin, StreamRef};
pub use snapshot::{
    BlockedCall, ColdLoadSeen, EventWaitSeen, FailureSeen, HostFunctionSeen, RunnableThread, Snapshot, UnfollowedWork,
};
pub use verdict::{Confidence, Culprit, Diagnosis, ShownRecord, Status, Verdict};
pub use wait::{NewestWrite, WaitSeen, WriteSeen};
