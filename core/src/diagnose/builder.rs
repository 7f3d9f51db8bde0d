//! From a recording to a snapshot: what stood still when the process was last seen.
//!
//! The tables tell which streams have work outstanding and which calls are in progress. The records add what the tables do
//! not hold: the operations in their order, waits and writes, events, loads, host functions, queries without end, and what was
//! seen of the process when something stood still. The live process takes its snapshot from its own recording, so that its
//! verdict and the one from its files are the same.
//!
//! Must not: keep more than a bounded number of records, whatever the recording's size; or hold anything against a stream
//! that was done by another one under the same number.

use super::memory::{ValueWait, ValueWrite};
use super::snapshot::{wait_seen, Extent, LaunchKey, ThreadActivity};
use super::{
    BlockedCall, BusyStream, ColdLoadSeen, EventWaitSeen, FedStream, Feeder, HostFunctionSeen, OperationSeen,
    RunnableThread, Snapshot, StreamRef, WaitSeen, WriteSeen,
};
use crate::api::result::NOT_READY;
use crate::api::{Class, EntryPoint};
use crate::state::{ColdKind, Operation};
use crate::trace::layout::{flag, image};
use crate::trace::read::{Entry, Recording, Source, StreamSeen, StringTable, ThreadSeen};
use crate::trace::{Kind, Record};
use crate::Nanos;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::io;

/// Waits kept of one stream: as many as a stream takes. The first ones are kept, which are what it stands at.
const MOST_WAITS: usize = 1100;
const MOST_WAITS_IN_ALL: usize = 4096;
/// Copies and memsets told of one wait.
const MOST_FILLS: usize = 16;
/// Operations kept of one stream, the first ones.
const MOST_OPERATIONS: usize = 48;
/// Loads kept, again the first ones.
const MOST_LOADS: usize = 64;
/// Streams kept of those that a load stands behind.
const MOST_BEHIND: usize = 256;
/// Writes kept, the newest; and copies and memsets.
const MOST_WRITES: usize = 4096;
/// Events and images that are told apart.
const MOST_HANDLES: usize = 1 << 16;
/// Streams that are submitted to, and threads that submit to one of them, while a call waits for their context to be idle.
const MOST_FED: usize = 256;
const MOST_FEEDERS: usize = 8;
/// Streams and events that one thread may poll in turns.
const MOST_POLLED: usize = 64;

/// In the flags of a load that is kept here: it is the first launch of a function that was loaded. No record has it.
const FIRST_LAUNCH: u8 = 128;

/// A thread that has not asked for this long has stopped asking.
pub const ASKS_NO_MORE_NANOS: Nanos = 1_000_000_000;

/// A stream with work outstanding, as far as records are held against it.
struct Busy {
    context: u32,
    complete_until: Nanos,
    oldest: Operation,
    waits: Vec<ValueWait>,
    event_waits: Vec<EventWaitSeen>,
    operations: Vec<Record>,
    outstanding: u64,
    moved: Nanos,
    /// Up to where events were seen to be complete.
    confirmed: Nanos,
}

/// Queries of one stream or event, all of which said "not ready".
struct Poll {
    record: Record,
    recorded: Option<Nanos>,
}

impl Poll {
    fn is_about(&self, record: &Record) -> bool {
        self.record.stream == record.stream && self.record.detail == record.detail
    }
}

/// What was submitted to a stream while a call waits for its context to be idle.
struct Fed {
    since: Nanos,
    operations: u64,
    launches: u64,
    newest: Record,
    /// Of each thread how many, and its newest one; by its number.
    by: BTreeMap<u32, (u64, Record)>,
}

/// A host function that has been called.
struct Called {
    thread: u32,
    thread_number: u32,
    record: Record,
}

/// A copy or memset.
struct Memset {
    at: Nanos,
    stream: u32,
    address: u64,
    bytes: u64,
}

/// What a snapshot needs of the records. Show it each one ([`SnapshotBuilder::push`]), then take the snapshot.
pub struct SnapshotBuilder {
    busy: BTreeMap<u32, Busy>,
    writes: VecDeque<ValueWrite>,
    fills: VecDeque<Memset>,
    loads: Vec<(u32, Record)>,
    events: HashMap<u64, (u32, Nanos)>,
    images: HashMap<u64, u64>,
    /// Waits for events of everything that is submitted to a context later.
    context_waits: Vec<(u32, EventWaitSeen)>,
    polls: HashMap<u32, Vec<Poll>>,
    called: Vec<Called>,
    /// Of each context since when a call waits for it to be idle.
    needed_idle: HashMap<u16, Nanos>,
    fed: BTreeMap<u32, Fed>,
    /// Since when a stream has its number.
    births: HashMap<u32, Nanos>,
    /// Threads that have run host functions: the driver's own.
    host_threads: HashSet<u32>,
    /// What was launched: the context and the function.
    launched: HashSet<(u16, u32)>,
    /// Contexts in which something was launched.
    contexts: HashSet<u16>,
    /// Of each function the handle of its module or library.
    owners: HashMap<u32, u64>,
    /// Whether the first launches are among the records.
    from_the_beginning: bool,
    /// Of what was seen: of each thread what it did last, of memory when, and what it held, of launches how many blocks.
    doing: BTreeMap<u32, ThreadActivity>,
    held: HashMap<u64, (Nanos, u64)>,
    resident: HashMap<LaunchKey, u64>,
    asked: bool,
    activity: Nanos,
    last: Nanos,
}

impl SnapshotBuilder {
    /// Nothing seen yet.
    pub fn new<S: Source>(recording: &Recording<S>) -> Self {
        let busy = recording.streams().iter().filter_map(|stream| {
            let idle_until = idle_until(recording, stream.context);
            let oldest = stream.oldest(idle_until)?;
            let complete_until = stream.complete_until.max(idle_until);
            // A stream is complete up to its birth: what came before was done by another one under the same number.
            let busy = Busy {
                context: stream.context,
                complete_until,
                oldest,
                waits: Vec::new(),
                event_waits: Vec::new(),
                operations: Vec::new(),
                outstanding: 0,
                moved: 0,
                confirmed: 0,
            };
            Some((stream.number, busy))
        });
        let mut builder = Self {
            busy: busy.collect(),
            writes: VecDeque::new(),
            fills: VecDeque::new(),
            loads: Vec::new(),
            events: HashMap::new(),
            images: HashMap::new(),
            context_waits: Vec::new(),
            polls: HashMap::new(),
            called: Vec::new(),
            needed_idle: HashMap::new(),
            fed: BTreeMap::new(),
            births: HashMap::new(),
            host_threads: HashSet::new(),
            launched: HashSet::new(),
            contexts: HashSet::new(),
            owners: recording.strings().owners(),
            from_the_beginning: recording.lanes().iter().all(|summary| summary.overwritten == 0),
            doing: BTreeMap::new(),
            held: HashMap::new(),
            resident: HashMap::new(),
            asked: false,
            activity: 0,
            last: last_of_tables(recording),
        };
        for thread in recording.threads() {
            if let Some(record) = &thread.call_in_progress {
                builder.last = builder.last.max(record.entered);
                builder.activity = builder.activity.max(record.entered);
                if matches!(record.kind, Kind::ColdFunction | Kind::ColdModule) {
                    builder.load(thread.thread, record);
                }
                if record.kind == Kind::ColdModule || record.entry_point.class().needs_an_idle_context() {
                    let since = builder.needed_idle.entry(record.context).or_insert(record.entered);
                    *since = record.entered.min(*since);
                }
            }
        }
        if !builder.needed_idle.is_empty() {
            builder.births = recording.streams().iter().map(|stream| (stream.number, stream.born)).collect();
        }
        builder
    }

    /// What is outstanding the longest on each busy stream: the stream's number, and when the submitting call was entered.
    pub fn outstanding(&self) -> impl Iterator<Item = (u32, Nanos)> + '_ {
        self.busy.iter().map(|(number, busy)| (*number, busy.oldest.at))
    }

    /// Takes in a record.
    pub fn push(&mut self, entry: &Entry) {
        let record = &entry.record;
        self.last = self.last.max(record.entered).max(record.returned);
        match record.kind {
            Kind::Hazard | Kind::Preload => return,
            Kind::Seen => return self.seen(record),
            Kind::HostBegins | Kind::HostEnds => return self.host_function(entry),
            Kind::ColdFunction | Kind::ColdModule => {
                if record.entry_point.class() == Class::Launch && self.launched.len() < MOST_HANDLES {
                    self.contexts.insert(record.context);
                    self.launched.insert((record.context, record.function));
                }
                self.load(entry.thread, record);
            }
            Kind::Queries if record.result == NOT_READY => return self.poll(entry),
            Kind::Queries => {
                // Others may be asked about in turns, and go on.
                if let Some(polls) = self.polls.get_mut(&entry.thread_number) {
                    polls.retain(|poll| !poll.is_about(record));
                }
                self.succeeded(record);
                return;
            }
            Kind::Call => self.first_launch(entry),
        }
        self.polls.remove(&entry.thread_number);
        self.activity = self.activity.max(record.entered).max(record.returned);
        // What the driver refused did not happen.
        if record.returned == 0 || record.result == 0 {
            self.succeeded(record);
            self.feeds(entry);
        }
    }

    /// Something was submitted while a call waits for the context to be idle.
    fn feeds(&mut self, entry: &Entry) {
        let record = &entry.record;
        let Some(&since) = self.needed_idle.get(&record.context) else { return };
        let born = self.births.get(&record.stream).copied().unwrap_or(Nanos::MAX);
        if !record.submitted() || record.entered <= since.max(born) {
            return;
        }
        if self.fed.len() == MOST_FED && !self.fed.contains_key(&record.stream) {
            return;
        }
        let fed = self.fed.entry(record.stream).or_insert_with(|| Fed {
            since,
            operations: 0,
            launches: 0,
            newest: *record,
            by: BTreeMap::new(),
        });
        fed.operations += 1;
        fed.launches += u64::from(record.entry_point.class() == Class::Launch);
        fed.newest = *record;
        if fed.by.len() < MOST_FEEDERS || fed.by.contains_key(&entry.thread_number) {
            let (count, newest) = fed.by.entry(entry.thread_number).or_insert((0, *record));
            *count += 1;
            *newest = *record;
        }
    }

    fn succeeded(&mut self, record: &Record) {
        let (at, address, bytes, stream) = (record.entered, record.detail, record.extent, record.stream);
        match record.entry_point.class() {
            Class::StreamSynchronize | Class::StreamQuery => self.moved(|number, _| number == stream, record.returned),
            Class::ContextSynchronize => {
                let context = u32::from(record.context);
                self.moved(|_, busy| busy.context == context, record.returned);
            }
            Class::EventSynchronize | Class::EventQuery => {
                if let Some((stream, recorded)) = self.events.get(&record.detail).copied() {
                    // An event that was complete before tells nothing new; of queries the first one told it.
                    let told = if record.kind == Kind::Queries { record.entered } else { record.returned };
                    if let Some(busy) = self.busy.get_mut(&stream).filter(|busy| recorded > busy.confirmed) {
                        busy.confirmed = recorded;
                        busy.moved = busy.moved.max(told);
                    }
                }
            }
            Class::EventDestroy => {
                // Its handle may be another's from now on.
                self.events.remove(&record.detail);
            }
            Class::ModuleLoad | Class::LibraryLoad if self.images.len() < MOST_HANDLES => {
                self.images.insert(record.detail, record.three & 0xffff);
            }
            Class::Set | Class::Copy => self.fill(Memset { at, stream, address, bytes }),
            _ => {}
        }
        if !record.submitted() {
            if record.entry_point.class() == Class::StreamWaitEvent && stream == 0 {
                if let Some(&(recorded_on, recorded)) = self.events.get(&record.detail) {
                    let event = record.detail;
                    let wait = EventWaitSeen { stream, at, event, recorded_on, recorded };
                    if self.context_waits.len() < MOST_WAITS {
                        self.context_waits.push((u32::from(record.context), wait));
                    }
                }
            }
            return;
        }
        match record.entry_point.class() {
            Class::WaitValue | Class::WriteValue | Class::BatchMemOp => self.memory_operation(record),
            Class::EventRecord if self.events.len() < MOST_HANDLES || self.events.contains_key(&record.detail) => {
                self.events.insert(record.detail, (stream, at));
            }
            Class::StreamWaitEvent => self.event_wait(record),
            Class::SetAsync | Class::CopyAsync => self.fill(Memset { at, stream, address, bytes }),
            _ => {}
        }
        if let Some(busy) = self.busy.get_mut(&stream).filter(|busy| at > busy.complete_until) {
            busy.outstanding += 1;
            // What may hold a stream up is told in any case.
            let waits = matches!(
                record.entry_point.class(),
                Class::WaitValue | Class::BatchMemOp | Class::HostFunction | Class::StreamWaitEvent
            );
            if busy.operations.len() < if waits { MOST_OPERATIONS + MOST_WAITS } else { MOST_OPERATIONS } {
                busy.operations.push(*record);
            }
        }
    }

    fn moved(&mut self, which: impl Fn(u32, &Busy) -> bool, at: Nanos) {
        let streams = self.busy.iter_mut().filter(|(number, busy)| which(**number, busy));
        streams.for_each(|(_, busy)| busy.moved = busy.moved.max(at));
    }

    fn fill(&mut self, fill: Memset) {
        if fill.address != 0 {
            if self.fills.len() == MOST_WRITES {
                self.fills.pop_front();
            }
            self.fills.push_back(fill);
        }
    }

    fn memory_operation(&mut self, record: &Record) {
        let (at, address, value) = (record.entered, record.detail, record.extent);
        if record.flags & flag::WAIT == 0 {
            if self.writes.len() == MOST_WRITES {
                self.writes.pop_front();
            }
            let wide = record.flags & flag::WIDE != 0;
            self.writes.push_back(ValueWrite { at, address, value, stream: record.stream, wide });
            return;
        }
        let Some(busy) = self.busy.get_mut(&record.stream) else { return };
        if at > busy.complete_until && busy.waits.len() < MOST_WAITS {
            let wide = record.flags & flag::WIDE != 0;
            busy.waits.push(ValueWait { at, address, value, flags: u32::from(record.block()[0]), wide });
        }
    }

    fn event_wait(&mut self, record: &Record) {
        let Some(&(recorded_on, recorded)) = self.events.get(&record.detail) else { return };
        let (stream, at, event) = (record.stream, record.entered, record.detail);
        let Some(busy) = self.busy.get_mut(&stream).filter(|busy| at > busy.complete_until) else { return };
        if busy.event_waits.len() < MOST_WAITS {
            busy.event_waits.push(EventWaitSeen { stream, at, event, recorded_on, recorded });
        }
    }

    fn load(&mut self, thread: u32, record: &Record) {
        let refused = record.returned != 0 && record.result != 0;
        // A launch would stand behind its own barrier: where it has ended and what was before it has not, there was none.
        let ran = record.submitted()
            && record.returned != 0
            && self.busy.get(&record.stream).is_none_or(|busy| record.entered <= busy.complete_until);
        if !refused && !ran && self.loads.len() < MOST_LOADS && self.behind(record).next().is_some() {
            self.loads.push((thread, *record));
        }
    }

    /// The first launch of a function that is loaded puts a barrier on the device as its load does where it prints, or where it is
    /// the first of its context and a kernel of some module prints. What prints is told by the images, as far as those are small.
    fn first_launch(&mut self, entry: &Entry) {
        let record = &entry.record;
        let launches = record.entry_point.class() == Class::Launch && record.submitted() && record.result == 0;
        if !launches || self.launched.len() == MOST_HANDLES {
            return;
        }
        let first_of_all = self.contexts.insert(record.context);
        let first = self.launched.insert((record.context, record.function));
        let owner = self.owners.get(&record.function).copied().unwrap_or(0);
        let prints = |owner: &u64| self.images.get(owner).is_some_and(|image| image & image::PRINTS != 0);
        let barrier = first && prints(&owner) || first_of_all && self.images.keys().any(prints);
        if barrier && self.from_the_beginning {
            self.load(entry.thread, &Record { kind: Kind::ColdFunction, ..*record });
            if let Some((_, load)) = self.loads.last_mut().filter(|(_, load)| load.entered == record.entered) {
                load.flags |= FIRST_LAUNCH;
            }
        }
    }

    fn poll(&mut self, entry: &Entry) {
        let record = entry.record;
        let recorded = self.events.get(&record.detail).map(|(_, at)| *at).filter(|_| record.detail != 0);
        let polls = self.polls.entry(entry.thread_number).or_default();
        // The same again, after another answer about something else: the former one is told with it.
        match polls.iter().position(|poll| poll.is_about(&record)) {
            Some(known) => {
                let known = &mut polls[known].record;
                known.returned = record.returned;
                known.extent = known.extent.saturating_add(record.extent);
            }
            None if polls.len() < MOST_POLLED => polls.push(Poll { record, recorded }),
            None => {}
        }
    }

    fn host_function(&mut self, entry: &Entry) {
        let record = entry.record;
        self.activity = self.activity.max(record.entered);
        self.moved(|number, _| number == record.stream, record.entered);
        self.called.retain(|called| called.thread_number != entry.thread_number);
        self.host_threads.insert(entry.thread);
        if record.kind == Kind::HostBegins {
            self.called.push(Called { thread: entry.thread, thread_number: entry.thread_number, record });
        }
    }

    /// What was seen of the process, or answered by the driver, when something stood still.
    fn seen(&mut self, record: &Record) {
        let at = record.entered;
        match record.entry_point.class() {
            Class::Init => {
                // Another number says that the thread has gone, or that nothing is known of it any more.
                let thread = record.detail as u32;
                match ThreadActivity::from_number(record.extent) {
                    Some(doing) => self.doing.insert(thread, doing),
                    None => self.doing.remove(&thread),
                };
            }
            Class::WaitValue => {
                self.held.insert(record.detail, (at, record.extent));
            }
            Class::Launch => {
                self.resident.insert(launch_key(record), record.extent);
            }
            Class::StreamQuery => {
                self.asked = true;
                if record.result == 0 {
                    self.moved(|number, _| number == record.stream, at);
                }
            }
            Class::EventQuery => self.moved(|number, _| number == record.stream, at),
            _ => {}
        }
    }

    /// The streams of the load's context whose oldest outstanding operation was submitted before the load.
    fn behind<'a>(&'a self, record: &'a Record) -> impl Iterator<Item = u32> + 'a {
        let earlier = |busy: &Busy| busy.context == u32::from(record.context) && busy.oldest.at < record.entered;
        self.busy.iter().filter(move |(_, busy)| earlier(busy)).map(|(number, _)| *number)
    }

    /// The process is alive at this moment, whatever the recording knows of: what stood still stands still yet.
    pub fn alive_at(&mut self, now: Nanos) {
        self.last = self.last.max(now);
    }

    /// The snapshot, at the last moment that the recording knows of. A `threshold` of 0 is never passed. `patience` is how long
    /// what has no known pattern has to stand still.
    pub fn snapshot<S: Source>(&self, recording: &Recording<S>, threshold: Nanos, patience: Nanos) -> Snapshot {
        let view = View { recording, builder: self };
        let mut streams: Vec<_> = self.busy.keys().filter_map(|number| view.busy_stream(*number)).collect();
        streams.sort_by_key(|stream| stream.oldest.at);
        let mut event_waits: Vec<_> = self.busy.values().flat_map(|busy| busy.event_waits.iter().cloned()).collect();
        for (context, wait) in &self.context_waits {
            let held = self.busy.iter().filter(|(_, busy)| busy.context == *context);
            event_waits.extend(held.filter_map(|(&stream, busy)| {
                let first = busy.operations.iter().find(|op| op.entered > wait.at)?;
                Some(EventWaitSeen { stream, at: first.entered, ..wait.clone() })
            }));
        }
        event_waits.retain(|wait| self.busy.get(&wait.recorded_on).is_some_and(|on| wait.recorded > on.complete_until));
        event_waits.sort_by_key(|wait| wait.at);
        let blocked = view.blocked(threshold);
        // Who waits is not at large, nor are the driver's own threads.
        let busy_elsewhere: HashSet<u32> =
            blocked.iter().map(|call| call.thread).chain(self.host_threads.iter().copied()).collect();
        Snapshot {
            at: self.last,
            threshold_nanos: threshold,
            patience_nanos: patience,
            awake_since: 0,
            streams,
            fed: view.fed(),
            waits: view.waits(),
            event_waits,
            host_functions: self.called.iter().filter_map(|called| self.host_function_seen(called)).collect(),
            loads: view.loads(),
            runnable: self
                .doing
                .iter()
                .filter(|(thread, doing)| doing.goes_on() && !busy_elsewhere.contains(thread))
                .map(|(&thread, &doing)| RunnableThread { thread, doing })
                .collect(),
            blocked,
            last_activity: self.activity,
            asked: self.asked,
        }
    }

    fn host_function_seen(&self, called: &Called) -> Option<HostFunctionSeen> {
        let Record { stream, entered, extent, detail, .. } = called.record;
        // A stream that is done with it is not held up by it.
        self.busy.get(&stream).filter(|busy| extent > busy.complete_until)?;
        let doing = self.doing.get(&called.thread).copied();
        Some(HostFunctionSeen { stream, at: extent, entered, address: detail, thread: called.thread, doing })
    }
}

/// The snapshot of a recording, of all of its records. See [`SnapshotBuilder::snapshot`].
pub fn snapshot_of<S: Source>(recording: &Recording<S>, threshold: Nanos, patience: Nanos) -> io::Result<Snapshot> {
    snapshot_at(recording, 0, threshold, patience)
}

/// The same, of a process that is alive at this moment.
pub fn snapshot_at<S: Source>(
    recording: &Recording<S>,
    now: Nanos,
    threshold: Nanos,
    patience: Nanos,
) -> io::Result<Snapshot> {
    let mut builder = SnapshotBuilder::new(recording);
    let mut records = recording.records();
    records.by_ref().for_each(|entry| builder.push(&entry));
    builder.alive_at(now);
    match records.error() {
        Some(error) => Err(io::Error::new(error.kind(), error.to_string())),
        None => Ok(builder.snapshot(recording, threshold, patience)),
    }
}

fn launch_key(record: &Record) -> LaunchKey {
    LaunchKey { function: record.function, three: record.three, detail: record.detail }
}

fn idle_until<S: Source>(recording: &Recording<S>, context: u32) -> Nanos {
    recording.contexts().iter().find(|c| c.number == context).map_or(0, |c| c.idle_until)
}

/// The last moment that the header and the tables know of.
fn last_of_tables<S: Source>(recording: &Recording<S>) -> Nanos {
    let threads = recording.threads().iter().map(|thread| thread.born.max(thread.ended));
    let streams = recording.streams().iter().map(|stream| stream.born.max(stream.last_submitted));
    threads.chain(streams).fold(recording.facts().last_seen, Nanos::max)
}

/// The name of a function, as a record means it whose call returned then; its handle, if it has none.
fn function_name(texts: &StringTable, number: u32, returned: Nanos) -> Option<String> {
    if number == 0 {
        return None;
    }
    let function = texts.function(number, returned)?;
    Some(function.name.map_or_else(|| format!("function {:#x}", function.handle), str::to_owned))
}

/// When a record's call returned, for the question what its numbers mean: a call in progress means what is newest.
fn meant_at(record: &Record) -> Nanos {
    if record.returned == 0 {
        Nanos::MAX
    } else {
        record.returned
    }
}

/// A recording, seen through numbers.
struct View<'a, S> {
    recording: &'a Recording<S>,
    builder: &'a SnapshotBuilder,
}

impl<S: Source> View<'_, S> {
    fn context_handle(&self, number: u32) -> u64 {
        self.recording.contexts().iter().find(|c| c.number == number).map_or(0, |c| c.handle)
    }

    fn stream(&self, number: u32) -> Option<&StreamSeen> {
        let streams = self.recording.streams();
        // They are in the order of their numbers, as in the table.
        streams.binary_search_by_key(&number, |s| s.number).ok().and_then(|at| streams.get(at))
    }

    /// The stream that has the number now.
    fn stream_ref(&self, number: u32) -> Option<StreamRef> {
        let stream = self.stream(number)?;
        let kind = stream.kind.name().to_owned();
        Some(StreamRef { number, handle: stream.handle, kind, context: self.context_handle(stream.context) })
    }

    /// The stream that had the number then.
    fn stream_ref_then(&self, number: u32, at: Nanos) -> Option<StreamRef> {
        match self.recording.strings().stream(number, at) {
            Some(stream) => Some(StreamRef {
                number,
                handle: stream.handle,
                kind: stream.kind.name().to_owned(),
                context: self.context_handle(stream.context),
            }),
            None => self.stream_ref(number),
        }
    }

    fn operation(&self, record: &Record) -> OperationSeen {
        let wide = |three: [u32; 3]| three.iter().map(|&n| u64::from(n)).product::<u64>();
        let extent = match record.entry_point.class() {
            Class::Launch => Some(Extent::Grid {
                blocks: wide(record.grid()),
                threads: wide(record.block().map(u32::from)).min(u64::from(u32::MAX)) as u32,
                resident: self.builder.resident.get(&launch_key(record)).copied(),
            }),
            Class::Copy | Class::CopyAsync | Class::Set | Class::SetAsync => {
                Some(Extent::Memory { address: record.detail, bytes: record.extent })
            }
            _ => None,
        };
        OperationSeen {
            at: record.entered,
            call: record.entry_point.symbol().to_owned(),
            function: function_name(self.recording.strings(), record.function, meant_at(record)),
            launch: matches!(extent, Some(Extent::Grid { .. })).then(|| launch_key(record)),
            extent,
            caller: record.caller,
        }
    }

    /// A busy stream without its operations, of which only the snapshot's list of streams has copies.
    fn front(&self, number: u32) -> Option<BusyStream> {
        Some(BusyStream { operations: Vec::new(), ..self.busy_stream(number)? })
    }

    fn busy_stream(&self, number: u32) -> Option<BusyStream> {
        let busy = self.builder.busy.get(&number)?;
        let stream = self.stream(number)?;
        let operations: Vec<_> = busy.operations.iter().map(|record| self.operation(record)).collect();
        let oldest = operations.iter().find(|op| op.at == busy.oldest.at).cloned();
        Some(BusyStream {
            stream: self.stream_ref(number)?,
            oldest: oldest.unwrap_or_else(|| OperationSeen {
                at: busy.oldest.at,
                call: EntryPoint::by_id(busy.oldest.entry_point).map_or("?", EntryPoint::symbol).to_owned(),
                function: function_name(self.recording.strings(), busy.oldest.function, Nanos::MAX),
                extent: None,
                caller: 0,
                launch: None,
            }),
            last_submitted: stream.last_submitted,
            submitted: stream.submitted,
            operations,
            outstanding: busy.outstanding.max(1),
            moved: busy.moved,
            destroyed: stream.destroyed,
        })
    }

    fn fed(&self) -> Vec<FedStream> {
        let mut fed: Vec<_> = self
            .builder
            .fed
            .iter()
            .filter_map(|(number, fed)| {
                let mut by: Vec<_> =
                    fed.by.iter().map(|(thread, (count, newest))| self.feeder(*thread, *count, newest)).collect();
                by.sort_by_key(|feeder| std::cmp::Reverse(feeder.operations));
                Some(FedStream {
                    stream: self.stream_ref(*number)?,
                    since: fed.since,
                    operations: fed.operations,
                    launches: fed.launches,
                    newest: self.operation(&fed.newest),
                    by,
                })
            })
            .collect();
        fed.sort_by_key(|fed| std::cmp::Reverse(fed.operations));
        fed
    }

    fn feeder(&self, number: u32, operations: u64, newest: &Record) -> Feeder {
        let thread = self.recording.threads().iter().find(|thread| thread.number == number);
        Feeder {
            thread: thread.map_or(0, |thread| thread.thread),
            thread_name: thread.map(|thread| thread.name.clone()).unwrap_or_default(),
            operations,
            call: newest.entry_point.symbol().to_owned(),
            function: function_name(self.recording.strings(), newest.function, meant_at(newest)),
            caller: newest.caller,
        }
    }

    fn blocked(&self, threshold: Nanos) -> Vec<BlockedCall> {
        let threads = self.recording.threads();
        let mut blocked: Vec<_> = threads
            .iter()
            .filter_map(|thread| Some(self.blocked_call(thread, thread.call_in_progress.as_ref()?, None, threshold)))
            .collect();
        for thread in threads.iter().filter(|thread| thread.call_in_progress.is_none()) {
            let last = self.builder.last;
            let asks = |poll: &&Poll| {
                let record = &poll.record;
                record.extent > 1 && last.saturating_sub(record.returned) <= threshold.max(ASKS_NO_MORE_NANOS)
            };
            let polls = self.builder.polls.get(&thread.number).into_iter().flatten().filter(asks);
            blocked.extend(polls.map(|poll| self.blocked_call(thread, &poll.record, poll.recorded, threshold)));
        }
        blocked.sort_by_key(|call| (call.entered, call.thread));
        blocked
    }

    fn blocked_call(
        &self,
        thread: &ThreadSeen,
        call: &Record,
        recorded: Option<Nanos>,
        threshold: Nanos,
    ) -> BlockedCall {
        let blocked_nanos = self.builder.last.saturating_sub(call.entered);
        let about_event = matches!(call.entry_point.class(), Class::EventSynchronize | Class::EventQuery);
        let image_kind = match call.entry_point.class() {
            Class::ModuleLoad => Some(call.three & 0xffff),
            _ => self.builder.images.get(&call.detail).copied(),
        };
        let compiles = call.kind == Kind::ColdModule && image_kind.is_some_and(image::needs_compiler);
        BlockedCall {
            thread: thread.thread,
            thread_name: thread.name.clone(),
            call: call.entry_point.symbol().to_owned(),
            entered: call.entered,
            blocked_nanos,
            past_threshold: threshold != 0 && blocked_nanos >= threshold,
            context: self.context_handle(u32::from(call.context)),
            stream: self.stream_ref(call.stream),
            function: function_name(self.recording.strings(), call.function, Nanos::MAX),
            cold: cold_kind(call.kind),
            queries: (call.kind == Kind::Queries && call.returned != 0).then_some(call.extent),
            event_recorded: recorded
                .or_else(|| self.builder.events.get(&call.detail).map(|(_, at)| *at))
                .filter(|_| about_event),
            compiles,
            caller: call.caller,
        }
    }

    fn waits(&self) -> Vec<WaitSeen> {
        let SnapshotBuilder { busy, writes, fills, held, .. } = self.builder;
        // By the eight bytes in which they are: no wait compares more.
        let mut near: HashMap<u64, Vec<ValueWrite>> = HashMap::new();
        writes.iter().for_each(|w| near.entry(w.address >> 3).or_default().push(*w));
        let not_done = |stream: u32, at: Nanos| busy.get(&stream).is_some_and(|s| s.oldest.at <= at);
        let outstanding = |w: &ValueWrite| not_done(w.stream, w.at);
        // Where there are too many, the first ones of each stream: it is those that it can stand at.
        let mut all: Vec<_> = busy
            .iter()
            .flat_map(|(number, stream)| stream.waits.iter().enumerate().map(move |(rank, wait)| (rank, *number, wait)))
            .collect();
        all.sort_by_key(|(rank, ..)| *rank);
        all.truncate(MOST_WAITS_IN_ALL);
        let mut waits: Vec<_> = all
            .into_iter()
            .filter_map(|(_, number, wait)| Some((self.stream_ref(number)?, wait)))
            .map(|(name, wait)| {
                let number = name.number;
                let holds = held.get(&wait.address).filter(|(at, _)| *at > wait.at).map(|(_, value)| *value);
                let writes = near.get(&(wait.address >> 3)).map_or(&[][..], Vec::as_slice);
                let mut seen = wait_seen(name, wait, writes, &outstanding, holds);
                let there = |f: &&Memset| f.address <= wait.address && wait.address - f.address < f.bytes;
                // What was filled before the wait was submitted, and is done, is what the wait found.
                let counts = |f: &&Memset| (f.at > wait.at && f.stream != number) || not_done(f.stream, f.at);
                let behind_itself = |f: &Memset| f.stream == number && f.at > wait.at;
                let fills = fills.iter().filter(there).filter(counts).filter(|f| !behind_itself(f)).take(MOST_FILLS);
                seen.fills.extend(fills.map(|f| WriteSeen {
                    stream: f.stream,
                    at: f.at,
                    value: 0,
                    outstanding: not_done(f.stream, f.at),
                }));
                seen
            })
            .collect();
        waits.sort_by_key(|wait| wait.at);
        waits
    }

    fn loads(&self) -> Vec<ColdLoadSeen> {
        let mut loads: Vec<_> = self
            .builder
            .loads
            .iter()
            .filter_map(|(thread, record)| {
                Some(ColdLoadSeen {
                    at: record.entered,
                    call: record.entry_point.symbol().to_owned(),
                    kind: cold_kind(record.kind)?,
                    context: self.context_handle(u32::from(record.context)),
                    function: function_name(self.recording.strings(), record.function, meant_at(record)),
                    stream: self.stream_ref_then(record.stream, meant_at(record)),
                    thread: *thread,
                    caller: record.caller,
                    first_launch: record.flags & FIRST_LAUNCH != 0,
                    behind: self
                        .builder
                        .behind(record)
                        .take(MOST_BEHIND)
                        .filter_map(|number| self.front(number))
                        .collect(),
                })
            })
            .collect();
        loads.sort_by_key(|load| load.at);
        loads
    }
}

fn cold_kind(kind: Kind) -> Option<ColdKind> {
    match kind {
        Kind::ColdFunction => Some(ColdKind::Function),
        Kind::ColdModule => Some(ColdKind::Module),
        _ => None,
    }
}

#[cfg(test)]
#[path = "builder_tests.rs"]
mod tests;
