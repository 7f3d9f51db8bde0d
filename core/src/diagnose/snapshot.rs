//! A standstill as plain data: everything that a diagnosis needs, and nothing else.

use super::late_rank::{LateRank, LateSeen};
use super::operation::{BusyStream, FedStream, OperationSeen, Origin, StreamRef};
use super::wait::WaitSeen;
use crate::api::{Call, ColdKind, ComputeTime, ThreadActivity};
use crate::replay::more_than_a_queue_holds;
use crate::Nanos;
use serde::{Deserialize, Serialize};

/// A driver call that has not returned, or a thread's endless queries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockedCall {
    /// The thread's id.
    pub thread: u32,
    /// The thread's name.
    pub thread_name: String,
    /// The driver call.
    pub call: Call,
    /// When the call was entered; of repeated queries, the first.
    pub entered: Nanos,
    /// Its duration so far.
    pub blocked_nanos: Nanos,
    /// Whether that exceeds the threshold.
    pub past_threshold: bool,
    /// The context's handle, or 0.
    pub context: u64,
    /// Its stream.
    pub stream: Option<StreamRef>,
    /// Its kernel.
    pub function: Option<String>,
    /// Whether it loads on first use, and how.
    pub cold: Option<ColdKind>,
    /// How many queries it stands for, all "not ready".
    pub queries: Option<u64>,
    /// When its event was recorded: earlier work of the stream is waited for.
    pub event_recorded: Option<Nanos>,
    /// Whether the table of streams was full, so that the stream is unknown.
    pub no_entry: bool,
    /// Whether it compiles code.
    pub compiles: bool,
    /// The thread's recent processor time, during a load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub computes: Option<ComputeTime>,
    /// How long it has computed without a page fault and a child, during a load.
    #[serde(default)]
    pub alone_nanos: Nanos,
    /// The error that each of its queries gave, if that is one that ends a context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<i32>,
    /// Whether it instantiates a graph whose kernels may need more local memory than the context has.
    pub sets_aside: bool,
    /// Whether it is the guard's own, ahead of the program's use.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_guards: bool,
    /// From where it was made.
    #[serde(flatten)]
    pub origin: Origin,
}

/// The first call that gave the error of a failed context.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureSeen {
    /// The thread's id.
    pub thread: u32,
    /// The error.
    pub result: i32,
    /// The call's stream.
    pub stream: Option<StreamRef>,
    /// The call.
    pub operation: OperationSeen,
}

/// A stream's wait for an event behind unended work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventWaitSeen {
    /// The waiting stream's number.
    pub stream: u32,
    /// When it was submitted.
    pub at: Nanos,
    /// The event's handle.
    pub event: u64,
    /// The number of the event's stream.
    pub recorded_on: u32,
    /// When it was recorded.
    pub recorded: Nanos,
}

/// A host function that has not returned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostFunctionSeen {
    /// The stream's number.
    pub stream: u32,
    /// When it was submitted.
    pub at: Nanos,
    /// When it was called.
    pub entered: Nanos,
    /// Its address.
    pub address: u64,
    /// The thread that runs it.
    pub thread: u32,
    /// That thread's activity.
    pub doing: Option<ThreadActivity>,
    /// Whether another stream's graph more likely called it.
    pub or_another: bool,
}

/// A runnable thread outside driver calls: it may still end a wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunnableThread {
    /// The thread's id.
    pub thread: u32,
    /// Its activity.
    pub doing: ThreadActivity,
}

/// A load on first use behind work that has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColdLoadSeen {
    /// When the loading call was entered.
    pub at: Nanos,
    /// The call.
    pub call: Call,
    /// Which of the two loads.
    pub kind: ColdKind,
    /// The context's handle.
    pub context: u64,
    /// The kernel's name.
    pub function: Option<String>,
    /// The call's stream.
    pub stream: Option<StreamRef>,
    /// The calling thread.
    pub thread: u32,
    /// From where it was made.
    #[serde(flatten)]
    pub origin: Origin,
    /// Whether this first launch may be such a barrier too: a kernel of the module prints.
    pub first_launch: bool,
    /// The unended work in flight at the load.
    pub behind: Vec<BusyStream>,
}

/// Work of destroyed streams that the guard no longer follows singly.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnfollowedWork {
    /// The handle of their context.
    pub context: u64,
    /// When the newest of it was submitted.
    pub until: Nanos,
}

/// Everything a diagnosis needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// When it was taken.
    pub at: Nanos,
    /// How long a call lasts until it counts as blocked.
    pub threshold_nanos: Nanos,
    /// How long an unknown pattern stands still until it counts as stuck.
    pub patience_nanos: Nanos,
    /// When the stopped process was continued, or 0.
    pub awake_since: Nanos,
    /// Calls that have not returned and endless queries, the longest first.
    pub blocked: Vec<BlockedCall>,
    /// Streams with outstanding work, oldest first.
    pub streams: Vec<BusyStream>,
    /// Streams that receive work while a call waits for their context, the busiest first.
    pub fed: Vec<FedStream>,
    /// Work of destroyed streams, by context.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unfollowed: Vec<UnfollowedWork>,
    /// Threads, contexts and streams beyond the tables' capacity.
    pub without_entry: u64,
    /// Failed contexts' first errors, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<FailureSeen>,
    /// Unsatisfied waits, oldest first.
    pub waits: Vec<WaitSeen>,
    /// Waits for events, oldest first.
    pub event_waits: Vec<EventWaitSeen>,
    /// Those that have not returned.
    pub host_functions: Vec<HostFunctionSeen>,
    /// Loads on first use behind unended work, oldest first.
    pub loads: Vec<ColdLoadSeen>,
    /// Threads that may still end a wait.
    pub runnable: Vec<RunnableThread>,
    /// Threads outside driver calls that wait for another, without limit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<u32>,
    /// Since when all of those are known to wait, or 0.
    #[serde(default)]
    pub waiting_since: Nanos,
    /// Ranks that are late, where calls wait for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late: Option<LateSeen>,
    /// Ranks that stand still and wait for no other, where calls wait for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub standing: Vec<LateRank>,
    /// When a driver call other than a poll's last began or ended.
    pub last_activity: Nanos,
    /// Whether the driver has been asked.
    pub asked: bool,
    /// Whether `CUDA_LAUNCH_BLOCKING` is set.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub launch_blocking: bool,
    /// `CUDA_DEVICE_MAX_CONNECTIONS`: the hardware queues that streams share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
}

impl Snapshot {
    pub fn stream(&self, number: u32) -> Option<&BusyStream> {
        self.streams.iter().find(|s| s.stream.number == number)
    }

    /// Whether everything submitted until then has ended, because the driver has accepted more launches since than a queue holds.
    pub(crate) fn has_passed(&self, stream: u32, until: Nanos) -> bool {
        let passed = |fed: &FedStream| more_than_a_queue_holds(fed.launches) && until <= fed.since;
        self.fed.iter().any(|fed| fed.stream.number == stream && passed(fed))
    }
}
