//! Streams and their operations, as a report names them.

use super::graph::{GraphPartSeen, GraphSeen};
use crate::api::{Asked, Call, NodeKind, StreamKind};
use crate::replay::{is_transfer, takes_time, waits_for_peers};
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
    /// A launch's number among those of its function on this stream, if all were recorded.
    pub launches: Option<Launches>,
    /// The launched graph's content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph: Option<GraphSeen>,
    /// Its host function's address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_function: Option<u64>,
    /// From where it was made.
    #[serde(flatten)]
    pub origin: Origin,
    /// The key of a launch, by which the live process asks the driver about it.
    #[serde(skip)]
    pub launch: Option<LaunchKey>,
}

impl OperationSeen {
    /// A submission of which nothing more is known.
    pub(crate) fn new(at: Nanos, call: Call, function: Option<String>, origin: Origin) -> Self {
        let (extent, launches, graph, host_function, launch) = (None, None, None, None, None);
        Self { at, call, function, extent, at_once: false, launches, graph, host_function, origin, launch }
    }

    /// The address of a host function that it calls, or its graph.
    pub fn calls(&self) -> Option<u64> {
        let is_one = |part: &&GraphPartSeen| part.kind == NodeKind::HostFunction;
        let of_graph = || self.graph.iter().flat_map(|graph| &graph.parts).find(is_one)?.address;
        self.host_function.or_else(of_graph)
    }

    pub fn waits_for_peers(&self) -> bool {
        self.peers_kernel().is_some()
    }

    /// Whether it is a send or a receive, and no collective.
    pub fn is_transfer(&self) -> bool {
        self.peers_kernel().is_some_and(is_transfer)
    }

    /// Its own kernel, or one of its graph, that waits for peers.
    pub fn peers_kernel(&self) -> Option<&str> {
        let in_graph = || self.graph.as_ref().and_then(GraphSeen::peers_kernel);
        self.function.as_deref().filter(|function| waits_for_peers(function)).or_else(in_graph)
    }
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
    /// The program's queries since `moved`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Asked>,
    /// Whether the program destroyed it.
    pub destroyed: bool,
}

impl BusyStream {
    pub fn timed(&self) -> impl Iterator<Item = &OperationSeen> {
        // The table of streams knows of the oldest one when its record is gone.
        let is_listed = self.operations.iter().any(|op| op.at == self.oldest.at);
        let oldest = (!is_listed).then_some(&self.oldest);
        oldest.into_iter().chain(&self.operations).filter(|op| op.call.class().is_none_or(takes_time))
    }

    /// When the first operation was submitted that may be outstanding: the table of streams holds few.
    pub(super) fn since(&self) -> Nanos {
        self.operations.first().map_or(self.oldest.at, |op| op.at.min(self.oldest.at))
    }

    /// The first operation that may run; else the oldest.
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
