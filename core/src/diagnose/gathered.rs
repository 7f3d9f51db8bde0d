//! What the builder gathers from a recording before it makes a snapshot.

use super::snapshot::EventWaitSeen;
use crate::api::{ColdKind, Operation, ThreadActivity, ValueWait, ValueWrite};
use crate::model::{Images, Proofs};
use crate::trace::{LaunchKey, Record};
use crate::Nanos;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

/// A thread without a query for this long has stopped polling.
pub const ASKS_NO_MORE_NANOS: Nanos = 1_000_000_000;

/// A stream with outstanding work, and its records.
pub(super) struct Busy {
    pub(super) context: u32,
    pub(super) complete_until: Nanos,
    pub(super) oldest: Operation,
    pub(super) waits: Vec<ValueWait>,
    pub(super) event_waits: Vec<EventWaitSeen>,
    pub(super) operations: Vec<Record>,
    pub(super) outstanding: u64,
    pub(super) moved: Nanos,
    /// The time until which completed events prove the stream complete.
    pub(super) confirmed: Nanos,
}

/// Queries of one stream or event, all of which said "not ready".
pub(super) struct Poll {
    pub record: Record,
    pub count: u64,
    /// When the event was recorded.
    pub recorded: Option<Nanos>,
}

impl Poll {
    pub fn is_about(&self, record: &Record) -> bool {
        self.record.stream == record.stream && self.record.event() == record.event()
    }
}

/// What was submitted to a stream while a call waits for its context to be idle.
pub(super) struct Fed {
    pub(super) since: Nanos,
    pub(super) operations: u64,
    pub(super) launches: u64,
    pub(super) newest: Record,
    /// Of each thread how many, and its newest one; by its number.
    pub(super) by: BTreeMap<u32, (u64, Record)>,
}

/// A host function that has been called.
pub(super) struct Called {
    pub thread: u32,
    pub thread_number: u32,
    pub record: Record,
}

/// A copy or memset.
pub(super) struct Fill {
    pub at: Nanos,
    pub stream: u32,
    pub address: u64,
    pub bytes: u64,
}

/// A load on first use.
pub(super) struct Load {
    pub kind: ColdKind,
    pub thread: u32,
    pub record: Record,
    /// Whether the function was loaded, and this is its first launch.
    pub first_launch: bool,
}

/// What a snapshot needs of the records. Show it each one ([`SnapshotBuilder::push`]), then take the snapshot.
pub struct SnapshotBuilder {
    pub(super) busy: BTreeMap<u32, Busy>,
    pub(super) writes: VecDeque<ValueWrite>,
    pub(super) fills: VecDeque<Fill>,
    pub(super) loads: Vec<Load>,
    pub(super) proofs: Proofs,
    pub(super) images: Images,
    /// Waits for events of everything that is submitted to a context later.
    pub(super) context_waits: Vec<(u32, EventWaitSeen)>,
    pub(super) polls: HashMap<u32, Vec<Poll>>,
    pub(super) called: Vec<Called>,
    /// Of each context since when a call waits for it to be idle.
    pub(super) needed_idle: HashMap<u16, Nanos>,
    pub(super) fed: BTreeMap<u32, Fed>,
    /// Since when a stream has its number.
    pub(super) births: HashMap<u32, Nanos>,
    /// Threads that have run host functions: the driver's own.
    pub(super) host_threads: HashSet<u32>,
    /// What was launched: the context and the function.
    pub(super) launched: HashSet<(u16, u32)>,
    /// Contexts in which something was launched.
    pub(super) contexts: HashSet<u16>,
    /// Of each function the handle of its module or library.
    pub(super) owners: HashMap<u32, u64>,
    /// Whether the first launches are among the records.
    pub(super) from_the_beginning: bool,
    /// Observations: the newest activity of each thread; the newest content of memory, with its time; the resident blocks of each launch.
    pub(super) doing: BTreeMap<u32, ThreadActivity>,
    pub(super) held: HashMap<u64, (Nanos, u64)>,
    pub(super) resident: HashMap<LaunchKey, u64>,
    pub(super) asked: bool,
    pub(super) activity: Nanos,
    pub(super) last: Nanos,
}

impl SnapshotBuilder {
    /// The streams of the load's context whose oldest outstanding operation was submitted before the load.
    pub(super) fn behind<'a>(&'a self, record: &'a Record) -> impl Iterator<Item = u32> + 'a {
        let earlier = |busy: &Busy| busy.context == u32::from(record.context) && busy.oldest.at < record.entered;
        self.busy.iter().filter(move |(_, busy)| earlier(busy)).map(|(number, _)| *number)
    }
}
