//! A standstill as plain data: everything that a diagnosis needs, and nothing else.

use super::graph::GraphSeen;
use crate::api::{
    Call, ColdKind, ComputeTime, Condition, EntryPoint, Stores, StreamKind, ThreadActivity, ValueWait, ValueWrite,
};
use crate::replay::{more_than_a_queue_holds, takes_time, waits_for_peers};
use crate::trace::LaunchKey;
use crate::Nanos;
use serde::{Deserialize, Serialize};

/// A stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamRef {
    /// The same in all parts of a report.
    pub number: u32,
    /// The program's handle.
    pub handle: u64,
    /// Its kind.
    pub kind: StreamKind,
    /// The context's handle.
    pub context: u64,
}

/// An operation's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Extent {
    /// A launch.
    Grid {
        /// Blocks of the whole grid.
        blocks: u64,
        /// Threads of a block.
        threads: u32,
        /// Blocks that the device holds at once.
        resident: Option<u64>,
    },
    /// A copy, memset, or stream-ordered allocation or release.
    Memory {
        /// The destination, or 0.
        address: u64,
        /// How many bytes.
        bytes: u64,
    },
}

/// The launch's place among those of its function on the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launches {
    /// From 1.
    pub number: u64,
    /// Launches so far.
    pub of: u64,
}

/// From where a call was made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The return address, or 0.
    #[serde(default)]
    pub caller: u64,
    /// Return addresses behind a CUDA runtime, the innermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outer: Vec<u64>,
}

impl Origin {
    pub fn addresses(&self) -> impl Iterator<Item = u64> + '_ {
        std::iter::once(self.caller).chain(self.outer.iter().copied())
    }
}

/// A submitted operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationSeen {
    /// When the call was entered.
    pub at: Nanos,
    /// The submitting driver call.
    pub call: Call,
    /// The kernel's name.
    pub function: Option<String>,
    /// Its size.
    pub extent: Option<Extent>,
    /// Whether all blocks must be resident at once, as in a cooperative launch.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_once: bool,
    /// Of a launch which one it is of those of its function on this stream, where all of them were recorded.
    pub launches: Option<Launches>,
    /// The launched graph's content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph: Option<GraphSeen>,
    /// From where it was made.
    #[serde(flatten)]
    pub origin: Origin,
    /// Of a launch what the driver can be asked about, by the live process.
    #[serde(skip)]
    pub launch: Option<LaunchKey>,
}

impl OperationSeen {
    /// What a call submits, of which nothing more is known.
    pub(crate) fn new(at: Nanos, call: Call, function: Option<String>, origin: Origin) -> Self {
        Self { at, call, function, extent: None, at_once: false, launches: None, graph: None, origin, launch: None }
    }

    pub fn waits_for_peers(&self) -> bool {
        self.peers_kernel().is_some()
    }

    /// Its own kernel, or one of its graph, that waits for peers.
    pub fn peers_kernel(&self) -> Option<&str> {
        let in_graph = || self.graph.as_ref().and_then(GraphSeen::peers_kernel);
        self.function.as_deref().filter(|function| waits_for_peers(function)).or_else(in_graph)
    }
}

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
    /// Whether it instantiates a graph whose kernels may need more local memory than the context has.
    pub sets_aside: bool,
    /// From where it was made.
    #[serde(flatten)]
    pub origin: Origin,
}

/// A stream with unended work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BusyStream {
    /// Which.
    pub stream: StreamRef,
    /// The oldest unended operation.
    pub oldest: OperationSeen,
    /// When the newest submission returned.
    pub last_submitted: Nanos,
    /// Operations since the stream was first seen.
    pub submitted: u64,
    /// The first unended operations, oldest first.
    pub operations: Vec<OperationSeen>,
    /// Unended operations, at least.
    pub outstanding: u64,
    /// Those that take device time: no events, waits for events or writes.
    pub timed: u64,
    /// Whether no record was overwritten.
    pub all_recorded: bool,
    /// When its progress was last seen, or 0.
    pub moved: Nanos,
    /// When the driver last said busy, or 0.
    pub answered_busy: Nanos,
    /// Whether the program destroyed it.
    pub destroyed: bool,
}

impl BusyStream {
    pub(crate) fn timed(&self) -> impl Iterator<Item = &OperationSeen> {
        // The table of streams knows of the oldest one when its record is gone.
        let is_listed = self.operations.iter().any(|op| op.at == self.oldest.at);
        let oldest = (!is_listed).then_some(&self.oldest);
        oldest.into_iter().chain(&self.operations).filter(|op| op.call.class().is_none_or(takes_time))
    }

    /// When the first operation was submitted that may be outstanding: the table of streams holds few.
    pub(super) fn since(&self) -> Nanos {
        self.operations.first().map_or(self.oldest.at, |op| op.at.min(self.oldest.at))
    }

    /// Where none may run, the oldest operation.
    pub fn front(&self) -> &OperationSeen {
        self.timed().next().unwrap_or(&self.oldest)
    }

    /// Whether every operation that may run or wait is listed.
    pub(super) fn lists_all(&self) -> bool {
        self.all_recorded && self.timed <= self.timed().count() as u64
    }
}

/// A stream that receives work while a call waits for its context.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FedStream {
    /// Which.
    pub stream: StreamRef,
    /// When the first such call was entered.
    pub since: Nanos,
    /// Operations since then, at least.
    pub operations: u64,
    /// Launches among them.
    pub launches: u64,
    /// The newest of them.
    pub newest: OperationSeen,
    /// The submitting threads, the busiest first.
    pub by: Vec<Feeder>,
}

/// A thread that submits to a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Feeder {
    /// The thread's id.
    pub thread: u32,
    /// The thread's name.
    pub thread_name: String,
    /// Its operations there.
    pub operations: u64,
    /// Its newest driver call.
    pub call: Call,
    /// That call's kernel.
    pub function: Option<String>,
    /// From where that was made.
    #[serde(flatten)]
    pub origin: Origin,
}

/// A wait for a value that no operation has satisfied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitSeen {
    /// The waiting stream.
    pub stream: StreamRef,
    /// When it was submitted.
    pub at: Nanos,
    /// The device address.
    pub address: u64,
    /// The value.
    pub value: u64,
    /// The comparison.
    pub condition: Condition,
    /// Whether it compares 64 bits, not 32.
    pub wide: bool,
    /// Submitted writes that satisfy it.
    pub satisfying_writes: Vec<WriteSeen>,
    /// Submitted writes to the address that do not.
    pub other_writes: usize,
    /// The submitting thread, or 0.
    pub thread: u32,
    /// The newest operation that writes there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newest_write: Option<NewestWrite>,
    /// Outstanding copies and memsets that write there.
    pub fills: Vec<WriteSeen>,
    /// The memory's value, where readable.
    pub holds: Option<u64>,
    /// Whether that value ends the wait.
    pub satisfied: bool,
}

#[derive(Clone, Copy)]
pub(super) struct Submitter {
    pub entry_point: EntryPoint,
    pub thread: u32,
}

/// The newest write to a wait's memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewestWrite {
    /// The writing stream's number.
    pub stream: u32,
    /// When it was submitted.
    pub at: Nanos,
    /// The submitting call.
    pub call: Call,
    /// The thread that made it.
    pub thread: u32,
    /// Null for a copy, a memset or a partial write.
    pub value: Option<u64>,
}

/// A stream's write of a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteSeen {
    /// The writing stream's number.
    pub stream: u32,
    /// When it was submitted.
    pub at: Nanos,
    /// 0 for a copy or memset.
    pub value: u64,
    /// Whether it may be pending.
    pub outstanding: bool,
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
    /// When a thread last entered or left a driver call; endless queries do not count.
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

const MOST_WRITES: usize = 16;

/// `writes` are those near the wait's address, `outstanding` says that one may be pending, `holds` is the memory's content.
pub(super) fn wait_seen(
    stream: StreamRef,
    wait: &ValueWait,
    writes: &[(ValueWrite, Submitter)],
    outstanding: &dyn Fn(&ValueWrite) -> bool,
    holds: Option<u64>,
) -> WaitSeen {
    let all = || writes.iter().filter(|(w, _)| w.stores_for(wait) != Stores::Nothing);
    let to_address = || all().map(|(write, _)| write);
    let newest = to_address().map(|w| w.at).max();
    // A completed write counts only if no later write followed; one behind the wait on the wait's own stream is never completed.
    let counts = |w: &&ValueWrite| {
        let behind_itself = w.stream == stream.number && w.at > wait.at;
        !behind_itself && (outstanding(w) || Some(w.at) == newest)
    };
    let seen =
        |w: &ValueWrite, value: u64| WriteSeen { stream: w.stream, at: w.at, value, outstanding: outstanding(w) };
    let satisfying = |w: &ValueWrite| match w.stores_for(wait) {
        Stores::All(value) if wait.satisfied_by(value) => Some(seen(w, value)),
        _ => None,
    };
    // A write of half the compared bytes may be the missing half.
    let half = |w: &ValueWrite| (w.stores_for(wait) == Stores::Half && outstanding(w)).then(|| seen(w, 0));
    let satisfying_writes: Vec<_> = to_address().filter(counts).filter_map(satisfying).take(MOST_WRITES).collect();
    let others = to_address().filter(|w| satisfying(w).is_none() || !counts(w)).count();
    WaitSeen {
        at: wait.at,
        address: wait.address,
        value: wait.value,
        condition: wait.condition(),
        wide: wait.wide,
        other_writes: others,
        thread: 0,
        newest_write: all().max_by_key(|(w, _)| w.at).map(|(w, by)| NewestWrite {
            stream: w.stream,
            at: w.at,
            call: by.entry_point.into(),
            thread: by.thread,
            value: match w.stores_for(wait) {
                Stores::All(value) => Some(value),
                _ => None,
            },
        }),
        satisfying_writes,
        fills: to_address().filter(counts).filter_map(half).take(MOST_WRITES).collect(),
        holds,
        satisfied: holds.is_some_and(|value| wait.satisfied_by(value)),
        stream,
    }
}
