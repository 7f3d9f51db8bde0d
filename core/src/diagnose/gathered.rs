//! The facts that the builder gathers from a recording before it makes a snapshot.

use super::graph_calls::{GraphCalls, Launch};
use super::snapshot::EventWaitSeen;
use super::wait::Submitter;
use crate::api::{
    Asked, Class, ColdKind, ComputeTime, GraphContents, Operation, ThreadActivity, ValueWait, ValueWrite,
};
use crate::map::{HashMap, HashSet};
use crate::replay::{takes_time, Replay};
use crate::trace::{Environment, LaunchKey, Record};
use crate::Nanos;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// Waits kept of one stream, the first ones: the stream stands at one of those.
pub const MOST_WAITS: usize = 1100;

#[derive(Default)]
pub(super) struct Busy {
    pub(super) context: u32,
    pub(super) complete_until: Nanos,
    pub(super) oldest: Operation,
    /// Each with the thread that submitted it.
    pub(super) waits: Vec<(ValueWait, u32)>,
    pub(super) event_waits: Vec<EventWaitSeen>,
    pub(super) operations: Vec<Record>,
    pub(super) outstanding: u64,
    /// How many take time, and how many of `operations` are records and writes.
    pub(super) timed: u64,
    pub(super) untimed_kept: usize,
    pub(super) moved: Nanos,
    pub(super) answered_busy: Nanos,
    pub(super) asked: Option<Asked>,
    pub(super) confirmed: Nanos,
    /// The host functions of its graphs, with each graph's first launch.
    pub(super) graphs_call: HashMap<u64, Nanos>,
}

/// The first call that gave the error of a failed context.
pub(super) struct Failure {
    pub thread: u32,
    pub record: Record,
}

/// Operations kept of one stream, the first ones; of those that take no time as many again.
const MOST_OPERATIONS: usize = 48;

impl Busy {
    /// When the first operation was submitted that may be outstanding: the table of streams holds few.
    pub(super) fn since(&self) -> Nanos {
        self.operations.first().map_or(self.oldest.at, |op| op.entered.min(self.oldest.at))
    }

    /// Whether a submission to this stream may be outstanding. If another thread's query was entered before the submission had returned, the driver
    /// may have answered for the time before it: success proves nothing of it then.
    pub(super) fn may_hold(&self, record: &Record) -> bool {
        let until = self.complete_until;
        record.entered > until || record.entered < until && (record.returned == 0 || record.returned > until)
    }

    /// Whether something that takes time was submitted after this time.
    pub(super) fn runs_after(&self, at: Nanos) -> bool {
        self.operations.iter().any(|op| op.entered > at && takes_time(op.entry_point.class()))
    }

    pub(super) fn takes_in(&mut self, record: &Record) {
        let class = record.entry_point.class();
        self.outstanding += 1;
        // The table of streams knows no returns.
        if record.entered < self.oldest.at {
            self.oldest =
                Operation { at: record.entered, entry_point: record.entry_point.id(), function: record.function };
        }
        let is_kept = if takes_time(class) {
            self.timed += 1;
            // Operations that may block a stream are kept in any case.
            let waits = matches!(class, Class::WaitValue | Class::BatchMemOp | Class::HostFunction);
            let most = if waits { MOST_OPERATIONS + MOST_WAITS } else { MOST_OPERATIONS };
            self.operations.len() - self.untimed_kept < most
        } else {
            let most = if class == Class::StreamWaitEvent { MOST_WAITS } else { MOST_OPERATIONS };
            let is_kept = self.untimed_kept < most;
            self.untimed_kept += usize::from(is_kept);
            is_kept
        };
        if is_kept {
            self.operations.push(*record);
        }
    }
}

/// Queries of one stream or event, all of which said "not ready".
pub(super) struct Poll {
    pub record: Record,
    pub asked: Asked,
    pub recorded: Option<Nanos>,
}

impl Poll {
    pub fn is_about(&self, record: &Record) -> bool {
        self.record.stream == record.stream && self.record.event() == record.event()
    }
}

/// The work submitted to a stream while a call waits for its context to be idle.
pub(super) struct Fed {
    pub(super) since: Nanos,
    pub(super) operations: u64,
    pub(super) launches: u64,
    pub(super) newest: Record,
    /// By the thread's number: how many, and the newest.
    pub(super) by: BTreeMap<u32, (u64, Record)>,
}

pub(super) struct Called {
    pub thread: u32,
    pub thread_number: u32,
    pub record: Record,
    /// The launch of a graph that made the call, where all launches and calls were counted.
    pub launch: Option<Launch>,
}

pub(super) struct Fill {
    pub at: Nanos,
    pub stream: u32,
    pub address: u64,
    pub bytes: u64,
    /// The word that it repeats, if that is known.
    pub word: Option<u32>,
    pub by: Submitter,
}

impl Fill {
    /// The value that it stores where the wait looks; `None` where that is not known, or not all of the fill's.
    pub fn as_write(&self, wait: &ValueWait) -> Option<ValueWrite> {
        let compared = if wait.wide { 8 } else { 4 };
        let from = wait.address.checked_sub(self.address)?;
        let word = u64::from(self.word.filter(|_| from.saturating_add(compared) <= self.bytes)?);
        let (address, value) = (wait.address, word | word << 32);
        Some(ValueWrite { at: self.at, address, value, stream: self.stream, wide: wait.wide })
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Launched {
    pub all: u64,
    pub ended: u64,
}

pub(super) struct Load {
    pub kind: ColdKind,
    pub thread: u32,
    pub record: Record,
    pub first_launch: bool,
}

#[derive(Default)]
pub struct SnapshotBuilder {
    pub(super) busy: BTreeMap<u32, Busy>,
    pub(super) writes: VecDeque<(ValueWrite, Submitter)>,
    pub(super) fills: VecDeque<Fill>,
    pub(super) loads: Vec<Load>,
    pub(super) replay: Replay,
    /// By context: waits of everything that is submitted later.
    pub(super) context_waits: Vec<(u32, EventWaitSeen)>,
    pub(super) polls: HashMap<u32, Vec<Poll>>,
    /// By context.
    pub(super) failures: BTreeMap<u16, Failure>,
    pub(super) called: Vec<Called>,
    pub(super) graph_calls: GraphCalls,
    /// By context: since when a call waits for it to be idle.
    pub(super) needed_idle: HashMap<u16, Nanos>,
    pub(super) fed: BTreeMap<u32, Fed>,
    pub(super) births: HashMap<u32, Nanos>,
    pub(super) host_threads: HashSet<u32>,
    pub(super) launches: HashMap<(u32, u32), Launched>,
    pub(super) launched: HashSet<(u16, u32)>,
    pub(super) contexts: HashSet<u16>,
    /// By executable graph: its contents, each from a time on.
    pub(super) graphs: HashMap<u64, Vec<(Nanos, Rc<GraphContents>)>>,
    /// By function: the handle of its module or library.
    pub(super) owners: HashMap<u32, u64>,
    pub(super) from_the_beginning: bool,
    /// Observations: activity of threads, their processor time, content of memory, resident blocks of launches.
    /// Each activity with the time since when it is known.
    pub(super) doing: BTreeMap<u32, (Nanos, ThreadActivity)>,
    pub(super) computes: HashMap<u32, (Nanos, ComputeTime)>,
    /// By thread: since when it computes alone, without a pause.
    pub(super) alone_since: HashMap<u32, Nanos>,
    pub(super) held: HashMap<u64, (Nanos, u64, bool)>,
    pub(super) resident: HashMap<LaunchKey, u64>,
    pub(super) asked: bool,
    pub(super) environment: Environment,
    pub(super) activity: Nanos,
    pub(super) last: Nanos,
}

impl SnapshotBuilder {
    /// The stream of a submission that may be outstanding.
    pub(super) fn busy_with(&mut self, record: &Record) -> Option<&mut Busy> {
        self.busy.get_mut(&record.stream).filter(|busy| busy.may_hold(record))
    }

    /// Whether a submission is known to have ended.
    pub(super) fn has_ended(&self, record: &Record) -> bool {
        self.busy.get(&record.stream).is_none_or(|busy| !busy.may_hold(record))
    }

    /// The streams of the load's context with an older outstanding operation.
    pub(super) fn behind<'a>(&'a self, record: &'a Record) -> impl Iterator<Item = u32> + 'a {
        let earlier = |busy: &Busy| busy.context == u32::from(record.context) && busy.since() < record.entered;
        self.busy.iter().filter(move |(_, busy)| earlier(busy)).map(|(number, _)| *number)
    }
}
