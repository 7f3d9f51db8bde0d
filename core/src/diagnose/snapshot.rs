//! A standstill as plain data: everything that a diagnosis needs, and nothing else.

use super::graph::GraphSeen;
use crate::api::{
    Call, ColdKind, ComputeTime, Condition, EntryPoint, Stores, StreamKind, ThreadActivity, ValueWait, ValueWrite,
};
use crate::replay::{more_than_a_queue_holds, takes_time, waits_for_peers};
use crate::trace::LaunchKey;
use crate::Nanos;
use serde::{Deserialize, Serialize};

/// A stream, as a report names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamRef {
    /// The number that ties the parts of a report together.
    pub number: u32,
    /// The program's handle.
    pub handle: u64,
    /// What kind it is.
    pub kind: StreamKind,
    /// The context's handle.
    pub context: u64,
}

/// How much an operation is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Extent {
    /// A launch.
    Grid {
        /// Blocks of the whole grid.
        blocks: u64,
        /// Threads of a block.
        threads: u32,
        /// Blocks of this kernel that the device can hold at once, where the driver was asked.
        resident: Option<u64>,
    },
    /// A copy to, a fill of, or an allocation or release in stream order of memory.
    Memory {
        /// The device address that it begins to write at, or of the memory; 0 where that is not known.
        address: u64,
        /// How many bytes.
        bytes: u64,
    },
}

/// Which launch of a function on a stream an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launches {
    /// Its number among them; the first is 1.
    pub number: u64,
    /// How many there are so far.
    pub of: u64,
}

/// From where a call was made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The address that the call returns to, or 0 where its record is gone.
    #[serde(default)]
    pub caller: u64,
    /// Of a launch by a CUDA runtime the return addresses of the frames outside that one, the innermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outer: Vec<u64>,
}

impl Origin {
    /// The return addresses, the innermost first.
    pub fn addresses(&self) -> impl Iterator<Item = u64> + '_ {
        std::iter::once(self.caller).chain(self.outer.iter().copied())
    }
}

/// An operation that was submitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationSeen {
    /// When the submitting call was entered.
    pub at: Nanos,
    /// The submitting driver call.
    pub call: Call,
    /// The kernel, where it is one and its name is known.
    pub function: Option<String>,
    /// How much it is about, where its record is there.
    pub extent: Option<Extent>,
    /// Whether it is a launch whose blocks have to be resident all at once, as of a cooperative grid.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_once: bool,
    /// Of a launch which one it is of those of its function on this stream, where all of them were recorded.
    pub launches: Option<Launches>,
    /// Of the launch of a graph what that does, where it was seen.
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

    /// Whether it waits for kernels of other GPUs.
    pub fn waits_for_peers(&self) -> bool {
        self.peers_kernel().is_some()
    }

    /// The kernel by which it does: its own, or one of its graph.
    pub fn peers_kernel(&self) -> Option<&str> {
        let in_graph = || self.graph.as_ref().and_then(GraphSeen::peers_kernel);
        self.function.as_deref().filter(|function| waits_for_peers(function)).or_else(in_graph)
    }
}

/// A driver call that has not returned, or queries that a thread repeats without getting on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockedCall {
    /// The thread's id.
    pub thread: u32,
    /// The thread's name.
    pub thread_name: String,
    /// The driver call.
    pub call: Call,
    /// When it was entered; of repeated queries the first.
    pub entered: Nanos,
    /// For how long it has been blocked.
    pub blocked_nanos: Nanos,
    /// Whether that is past the threshold.
    pub past_threshold: bool,
    /// The context's handle, or 0.
    pub context: u64,
    /// The stream it is about.
    pub stream: Option<StreamRef>,
    /// The kernel it is about.
    pub function: Option<String>,
    /// Whether the call loads on first use, and what.
    pub cold: Option<ColdKind>,
    /// How many queries it stands for, all of which said "not ready"; `None` for a call that has not returned.
    pub queries: Option<u64>,
    /// Where it is about an event: when that was recorded. Only what was submitted to the stream before is waited for.
    pub event_recorded: Option<Nanos>,
    /// Whether the table of streams had no room for its stream, of which the guard therefore knows nothing.
    #[serde(default)]
    pub no_entry: bool,
    /// Whether the call has code to compile, which may take long.
    #[serde(default)]
    pub compiles: bool,
    /// For how much of the newest time the thread computed, where the call loads code and the process was watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub computes: Option<ComputeTime>,
    /// Whether the call makes a graph executable of which a kernel needs more local memory than the context has set aside, or may need it: the
    /// driver could not be asked about one.
    #[serde(default)]
    pub sets_aside: bool,
    /// From where it was made.
    #[serde(flatten)]
    pub origin: Origin,
}

/// A stream with work that is not known to be complete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BusyStream {
    /// Which.
    pub stream: StreamRef,
    /// The oldest operation that is not known to be complete.
    pub oldest: OperationSeen,
    /// When the newest submission returned.
    pub last_submitted: Nanos,
    /// Operations submitted since the stream was first seen.
    pub submitted: u64,
    /// The first of the operations that are not known to be complete, oldest first, as far as their records are there.
    #[serde(default)]
    pub operations: Vec<OperationSeen>,
    /// How many operations are not known to be complete; more where records have been overwritten.
    #[serde(default)]
    pub outstanding: u64,
    /// How many of them take time of their own, which records of events, waits for events and writes do not.
    #[serde(default)]
    pub timed: u64,
    /// Whether no record has been overwritten, so that every operation was counted.
    #[serde(default)]
    pub all_recorded: bool,
    /// When progress of the stream was last seen, or 0.
    #[serde(default)]
    pub moved: Nanos,
    /// When the driver last answered that it is busy, or 0.
    #[serde(default)]
    pub answered_busy: Nanos,
    /// Whether the program has destroyed it.
    #[serde(default)]
    pub destroyed: bool,
}

impl BusyStream {
    /// The operations that may run or wait by now, oldest first.
    pub(crate) fn timed(&self) -> impl Iterator<Item = &OperationSeen> {
        // The table of streams knows of the oldest one when its record is gone.
        let is_listed = self.operations.iter().any(|op| op.at == self.oldest.at);
        let oldest = (!is_listed).then_some(&self.oldest);
        oldest.into_iter().chain(&self.operations).filter(|op| op.call.class().is_none_or(takes_time))
    }

    /// When the first operation was submitted that is not known to have ended. The table of streams holds few, so that its oldest one
    /// may be later.
    pub(super) fn since(&self) -> Nanos {
        self.operations.first().map_or(self.oldest.at, |op| op.at.min(self.oldest.at))
    }

    /// The oldest operation that may run or wait by now; where none is known, the oldest operation.
    pub fn front(&self) -> &OperationSeen {
        self.timed().next().unwrap_or(&self.oldest)
    }

    /// Whether every operation that may run or wait is listed.
    pub(super) fn lists_all(&self) -> bool {
        self.all_recorded && self.timed <= self.timed().count() as u64
    }
}

/// A stream to which operations were submitted while a call waits for its context to be idle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FedStream {
    /// Which.
    pub stream: StreamRef,
    /// When the call that waits was entered; of several in that context the first.
    pub since: Nanos,
    /// Operations submitted after that; more where records have been overwritten.
    pub operations: u64,
    /// Launches among them.
    pub launches: u64,
    /// The newest of them.
    pub newest: OperationSeen,
    /// The threads that submitted them, the busiest first, as far as there are few.
    pub by: Vec<Feeder>,
}

/// A thread that submits to a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Feeder {
    /// The thread's id.
    pub thread: u32,
    /// The thread's name.
    pub thread_name: String,
    /// How many of the operations are this thread's.
    pub operations: u64,
    /// The driver call of its newest one.
    pub call: Call,
    /// The kernel of that, where it is one and its name is known.
    pub function: Option<String>,
    /// From where that was made.
    #[serde(flatten)]
    pub origin: Origin,
}

/// A wait for a value that is not known to be satisfied.
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
    /// The comparison, as the driver's documentation writes it.
    pub condition: Condition,
    /// Whether 64 bits are compared; else 32.
    #[serde(default)]
    pub wide: bool,
    /// Submitted writes that would satisfy it.
    pub satisfying_writes: Vec<WriteSeen>,
    /// How many writes to the address were submitted that would not.
    pub other_writes: usize,
    /// The thread that submitted the wait; 0 where that is not known.
    #[serde(default)]
    pub thread: u32,
    /// The newest operation that was submitted to write there, as far as the records show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newest_write: Option<NewestWrite>,
    /// Copies and memsets outstanding on other streams that write there.
    #[serde(default)]
    pub fills: Vec<WriteSeen>,
    /// What the memory was seen to hold since, where it could be looked at.
    pub holds: Option<u64>,
    /// Whether what it was seen to hold ends the wait.
    #[serde(default)]
    pub satisfied: bool,
}

#[derive(Clone, Copy)]
pub(super) struct Submitter {
    pub entry_point: EntryPoint,
    pub thread: u32,
}

/// The newest operation that writes to the memory of a wait.
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
    /// The value; `None` for a copy, a memset, and a write of a part.
    pub value: Option<u64>,
}

/// A write of a value by a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteSeen {
    /// The writing stream's number.
    pub stream: u32,
    /// When it was submitted.
    pub at: Nanos,
    /// The value; 0 for a copy or memset.
    pub value: u64,
    /// Whether it is not known to have been carried out.
    #[serde(default)]
    pub outstanding: bool,
}

/// A stream's wait for an event, with work before the event that is not known to be complete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventWaitSeen {
    /// The waiting stream's number.
    pub stream: u32,
    /// When it was submitted.
    pub at: Nanos,
    /// The event's handle.
    pub event: u64,
    /// The number of the stream that the event was recorded on.
    pub recorded_on: u32,
    /// When it was recorded.
    pub recorded: Nanos,
}

/// A host function that a stream called and that has not returned.
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
    /// What that thread was seen to do.
    pub doing: Option<ThreadActivity>,
    /// Whether the call is likelier that of another stream's graph, which calls the same function.
    #[serde(default)]
    pub or_another: bool,
}

/// A thread of the program that is in no driver call and is runnable, or becomes so by itself: it may still end a wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunnableThread {
    /// The thread's id.
    pub thread: u32,
    /// Its activity, as far as it was seen.
    pub doing: ThreadActivity,
}

/// A load on first use, with what was in flight then and still is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColdLoadSeen {
    /// When the call that loads was entered.
    pub at: Nanos,
    /// The call.
    pub call: Call,
    /// Which of the two loads.
    pub kind: ColdKind,
    /// The context's handle.
    pub context: u64,
    /// The kernel, where its name is known.
    pub function: Option<String>,
    /// The stream the call submitted to.
    pub stream: Option<StreamRef>,
    /// The calling thread.
    pub thread: u32,
    /// From where it was made.
    #[serde(flatten)]
    pub origin: Origin,
    /// Whether the function was loaded, and this was its first launch, which may be such a barrier as well: where a kernel of the
    /// module prints.
    #[serde(default)]
    pub first_launch: bool,
    /// What was in flight at the load and is not known to have ended since.
    pub behind: Vec<BusyStream>,
}

/// Work on streams that were destroyed, more than the guard follows one by one. Some of it may not have ended.
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
    /// The threshold after which a call counts as blocked.
    pub threshold_nanos: Nanos,
    /// How long what has no known pattern, or may still be helped, has to stand still until it counts as stuck.
    #[serde(default)]
    pub patience_nanos: Nanos,
    /// When the process was continued after it had been stopped as a whole, or 0.
    #[serde(default)]
    pub awake_since: Nanos,
    /// Calls that have not returned and queries without end, the longest first.
    pub blocked: Vec<BlockedCall>,
    /// Streams with work outstanding, oldest first.
    pub streams: Vec<BusyStream>,
    /// Streams that were submitted to while a call waits for their context to be idle, the busiest first.
    #[serde(default)]
    pub fed: Vec<FedStream>,
    /// Of each context the work of destroyed streams that are not among these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unfollowed: Vec<UnfollowedWork>,
    /// How many threads, contexts and streams found no room in the tables.
    #[serde(default)]
    pub without_entry: u64,
    /// Unsatisfied waits, oldest first.
    pub waits: Vec<WaitSeen>,
    /// Waits for events, oldest first.
    #[serde(default)]
    pub event_waits: Vec<EventWaitSeen>,
    /// Host functions that have not returned.
    #[serde(default)]
    pub host_functions: Vec<HostFunctionSeen>,
    /// Loads on first use behind something that still has not ended, oldest first.
    pub loads: Vec<ColdLoadSeen>,
    /// Threads that may still end a wait, where the guard has looked.
    #[serde(default)]
    pub runnable: Vec<RunnableThread>,
    /// When a thread of the program last made a driver call that was not a query without end, or one returned.
    #[serde(default)]
    pub last_activity: Nanos,
    /// Whether the driver has been asked what only it knows.
    #[serde(default)]
    pub asked: bool,
    /// Whether `CUDA_LAUNCH_BLOCKING` is set: a launch returns when its kernel has ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub launch_blocking: bool,
    /// `CUDA_DEVICE_MAX_CONNECTIONS`, where it is set: the hardware queues that streams share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
}

impl Snapshot {
    /// The stream with this number, if it is busy.
    pub fn stream(&self, number: u32) -> Option<&BusyStream> {
        self.streams.iter().find(|s| s.stream.number == number)
    }

    /// Whether everything submitted to a stream until then has ended, because the driver has accepted more launches after it than a queue
    /// holds: a stream runs them in order.
    pub(crate) fn has_passed(&self, stream: u32, until: Nanos) -> bool {
        let passed = |fed: &FedStream| more_than_a_queue_holds(fed.launches) && until <= fed.since;
        self.fed.iter().any(|fed| fed.stream.number == stream && passed(fed))
    }
}

const MOST_WRITES: usize = 16;

/// A wait, with the submitted writes that would satisfy it, of those near its address; `outstanding` says of a write that it is
/// not known to have been carried out, `holds` what the memory was seen to hold.
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
    // A completed write counts only if no later write followed. A write after the wait on the wait's own stream is never
    // completed.
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
