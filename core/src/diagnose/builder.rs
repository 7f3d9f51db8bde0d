//! Makes a snapshot of a recording: what stood still when the process was last seen.
//!
//! The tables say which streams have work outstanding and which calls are in progress. The records add the rest. The live process takes its
//! snapshot from its own recording, so its verdict and the one from its files agree.
//!
//! Must not: keep more than a bounded number of records, whatever the recording's size; or attribute to a stream what an earlier
//! stream of the same number did.

use super::gathered::{Busy, Called, Failure, Fed, Fill, Load, Poll, SnapshotBuilder, MOST_WAITS};
use super::snapshot::{EventWaitSeen, Snapshot};
use super::view::cold_kind;
use super::wait::Submitter;
use crate::api::result::{loses_work, NOT_READY};
use crate::api::{Asked, Class, ColdKind, GraphPart, NodeKind, Stores, ValueWait, ValueWrite};
use crate::replay::{Proven, Scope};
use crate::trace::read::{Entry, Recording, Source};
use crate::trace::{Image, Kind, Payload, Record};
use crate::Nanos;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::rc::Rc;

const MOST_LOADS: usize = 64;
/// The newest writes that are kept; and the newest copies and memsets.
const MOST_WRITES: usize = 4096;
const MOST_HANDLES: usize = 1 << 16;
/// Streams that receive work while a call waits for their context, and threads that submit to one of them.
const MOST_FED: usize = 256;
const MOST_FEEDERS: usize = 8;
/// Streams and events that one thread may poll in turns.
const MOST_POLLED: usize = 64;

impl SnapshotBuilder {
    pub fn new<S: Source>(recording: &Recording<S>) -> Self {
        let busy = recording.streams().iter().filter_map(|stream| {
            let oldest = recording.oldest(stream)?;
            let complete_until = recording.complete_until(stream);
            Some((stream.number, Busy { context: stream.context, complete_until, oldest, ..Busy::default() }))
        });
        let mut builder = Self {
            busy: busy.collect(),
            owners: recording.strings().owners(),
            from_the_beginning: recording.lanes().iter().all(|summary| summary.overwritten == 0),
            last: last_of_tables(recording),
            ..Self::default()
        };
        for (handle, at, contents) in recording.strings().graphs.all() {
            builder.graphs.entry(handle).or_default().push((at, Rc::new(contents.clone())));
        }
        for thread in recording.threads() {
            if let Some(record) = &thread.call_in_progress {
                builder.last = builder.last.max(record.entered);
                if record.kind != Kind::Queries && !record.entry_point.class().prepares_a_query() {
                    builder.activity = builder.activity.max(record.entered);
                }
                if record.kind.is_cold() {
                    builder.load(thread.thread, record, false);
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

    pub fn outstanding(&self) -> impl Iterator<Item = (u32, Nanos)> + '_ {
        self.busy.iter().map(|(number, busy)| (*number, busy.oldest.at))
    }

    pub fn push(&mut self, entry: &Entry) {
        let record = &entry.record;
        self.last = self.last.max(record.entered).max(record.returned);
        if record.kind.is_call() {
            self.fails_or_works(entry);
        }
        match record.kind {
            Kind::Hazard | Kind::Preload | Kind::Communication => return,
            Kind::Seen | Kind::Activity => return self.seen(record),
            Kind::HostBegins | Kind::HostEnds => return self.host_function(entry),
            Kind::ColdFunction | Kind::ColdModule => {
                if record.entry_point.class() == Class::Launch && self.launched.len() < MOST_HANDLES {
                    self.contexts.insert(record.context);
                    self.launched.insert((record.context, record.function));
                }
                self.load(entry.thread, record, false);
            }
            Kind::Queries if record.result == NOT_READY || loses_work(record.result) => return self.poll(entry),
            Kind::Queries => {
                // The thread may poll other streams or events in turns; those polls continue.
                if let Some(polls) = self.polls.get_mut(&entry.thread_number) {
                    polls.retain(|poll| !poll.is_about(record));
                }
                self.succeeded(entry);
                return;
            }
            Kind::Call => self.first_launch(entry),
        }
        if let Some(polls) = self.polls.get_mut(&entry.thread_number) {
            // A failed context is asked about beside the records of the calls that give its error.
            let goes_on = |poll: &Poll| poll.asked.last > record.entered || loses_work(record.result);
            polls.retain(|poll| loses_work(poll.record.result) && goes_on(poll));
        }
        // An event may mark the progress of any other stream.
        let is_asked = || self.busy.get(&record.stream).is_some_and(|busy| busy.asked.is_some());
        let class = record.entry_point.class();
        if !class.prepares_a_query() || class == Class::EventRecord && !is_asked() {
            self.activity = self.activity.max(record.entered).max(record.returned);
        }
        // A refused call has no effect.
        if record.returned == 0 || record.result == 0 {
            self.succeeded(entry);
            self.feeds(entry);
        }
    }

    /// Notes the first error of a failed context, until a call shows that the context works.
    fn fails_or_works(&mut self, entry: &Entry) {
        let record = &entry.record;
        let class = record.entry_point.class();
        if loses_work(record.result) {
            let new = || Failure { thread: entry.thread, record: *record };
            let first = self.failures.entry(record.context).or_insert_with(new);
            if first.record.entered > record.entered {
                *first = new();
            }
        } else if record.result == 0 && record.returned != 0 && (class.answers_for_work() || record.submitted()) {
            self.failures.remove(&record.context);
        }
    }

    /// Counts a submission while a call waits for the context to be idle.
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
        let new = || Fed { since, operations: 0, launches: 0, newest: *record, by: BTreeMap::new() };
        let fed = self.fed.entry(record.stream).or_insert_with(new);
        fed.operations += 1;
        fed.launches += u64::from(record.entry_point.class() == Class::Launch);
        fed.newest = *record;
        if fed.by.len() < MOST_FEEDERS || fed.by.contains_key(&entry.thread_number) {
            let (count, newest) = fed.by.entry(entry.thread_number).or_insert((0, *record));
            *count += 1;
            *newest = *record;
        }
    }

    fn succeeded(&mut self, entry: &Entry) {
        let record = &entry.record;
        let by = Submitter { entry_point: record.entry_point, thread: entry.thread };
        let (at, stream) = (record.entered, record.stream);
        self.proves(record);
        match (record.entry_point.class(), record.payload()) {
            (class, Payload::Memory { address, bytes, word }) if class.fills() && address != 0 => {
                keep_newest(&mut self.fills, Fill { at, stream, address, bytes, word, by });
            }
            (Class::GraphLaunch, Payload::Graph(handle)) if record.submitted() => self.graph_launch(record, handle, by),
            // A captured operation is the graph's.
            (_, Payload::Write(write)) if record.submitted() => keep_newest(&mut self.writes, (write, by)),
            (_, Payload::Wait(wait)) if record.submitted() => {
                if let Some(busy) = self.busy_with(record).filter(|busy| busy.waits.len() < MOST_WAITS) {
                    busy.waits.push((wait, by.thread));
                }
            }
            (Class::StreamWaitEvent, Payload::Event(event)) => self.waits_for_event(record, event),
            _ => {}
        }
        match record.entry_point.class() {
            // The number is another stream's from now on.
            Class::StreamCreate | Class::StreamDestroy => self.launches.retain(|(on, _), _| *on != stream),
            Class::Launch if record.submitted() => self.launch(record),
            _ => {}
        }
        if let Some(busy) = self.busy_with(record).filter(|_| record.submitted()) {
            busy.takes_in(record);
        }
    }

    /// Counts the waits, writes and records of a graph's nodes as submitted with the graph.
    fn graph_launch(&mut self, record: &Record, handle: u64, by: Submitter) {
        let (at, stream) = (record.entered, record.stream);
        let told = self.graphs.get(&handle).and_then(|all| all.iter().rev().find(|(since, _)| *since <= at));
        let Some(contents) = told.map(|(_, contents)| Rc::clone(contents)) else { return };
        for part in contents.of(NodeKind::HostFunction) {
            self.graph_calls.launched(part.what, (stream, at), part.count);
        }
        if let Some(busy) = self.busy_with(record) {
            for part in contents.of(NodeKind::HostFunction).take(MOST_WAITS) {
                busy.graphs_call.entry(part.what).or_insert(at);
            }
        }
        if contents.changed {
            return;
        }
        let writes = || {
            let writes = contents.of(NodeKind::ValueWrite);
            writes.map(|part| ValueWrite { at, address: part.what, value: part.value, stream, wide: part.wide })
        };
        let waits = contents.of(NodeKind::ValueWait).map(|part| {
            let GraphPart { what: address, value, condition, wide, .. } = *part;
            ValueWait { at, address, value, flags: condition.into(), wide }
        });
        // The order of the nodes is not known: a write of the same graph may come first.
        let satisfied = |wait: &ValueWait| writes().any(|write| write.stores_for(wait) != Stores::Nothing);
        let waits: Vec<_> = waits.filter(|wait| !satisfied(wait)).collect();
        if let Some(busy) = self.busy_with(record) {
            let room = MOST_WAITS.saturating_sub(busy.waits.len());
            busy.waits.extend(waits.into_iter().take(room).map(|wait| (wait, by.thread)));
        }
        writes().for_each(|write| keep_newest(&mut self.writes, (write, by)));
        contents.of(NodeKind::EventWait).for_each(|part| self.waits_for_event(record, part.what));
        contents.of(NodeKind::EventRecord).for_each(|part| self.replay.proofs.recorded_by_graph(part.what, record));
    }

    fn launch(&mut self, record: &Record) {
        let key = (record.stream, record.function);
        if self.launches.len() < MOST_HANDLES || self.launches.contains_key(&key) {
            let has_ended = self.has_ended(record);
            let launched = self.launches.entry(key).or_default();
            launched.all += 1;
            launched.ended += u64::from(has_ended);
        }
    }

    fn proves(&mut self, record: &Record) {
        let Some(Proven { scope, until, at }) = self.replay.take_in(record) else { return };
        let concerns = |number: u32, busy: &Busy| match scope {
            Scope::Stream(stream) => stream == number,
            Scope::Context(context) => context == busy.context,
        };
        for (_, busy) in self.busy.iter_mut().filter(|(number, busy)| concerns(**number, busy)) {
            if until <= busy.confirmed {
                continue;
            }
            busy.confirmed = until;
            busy.moved = busy.moved.max(at);
        }
    }

    /// The driver's answer, or the call of a host function, proves progress of the stream.
    fn moved(&mut self, stream: u32, at: Nanos) {
        self.busy.get_mut(&stream).into_iter().for_each(|busy| busy.moved = busy.moved.max(at));
    }

    /// If no stream is named, everything submitted to the context later waits.
    fn waits_for_event(&mut self, record: &Record, event: u64) {
        let Some(recorded) = self.replay.proofs.event(event) else { return };
        let (stream, at) = (record.stream, record.entered);
        let wait = EventWaitSeen { stream, at, event, recorded_on: recorded.stream, recorded: recorded.at };
        if record.submitted() {
            if let Some(busy) = self.busy_with(record).filter(|busy| busy.event_waits.len() < MOST_WAITS) {
                busy.event_waits.push(wait);
            }
        } else if stream == 0 && self.context_waits.len() < MOST_WAITS {
            self.context_waits.push((u32::from(record.context), wait));
        }
    }

    fn load(&mut self, thread: u32, record: &Record, first_launch: bool) {
        let kind = if first_launch { Some(ColdKind::Function) } else { cold_kind(record.kind) };
        let Some(kind) = kind else { return };
        // A launch waits behind its own barrier. If it has ended and the work before it has not, there was no barrier.
        let ran = record.submitted() && record.returned != 0 && self.has_ended(record);
        if !record.is_refused() && !ran && self.loads.len() < MOST_LOADS && self.behind(record).next().is_some() {
            self.loads.push(Load { kind, thread, record: *record, first_launch });
        }
    }

    /// The first launch of a loaded function puts a barrier on the device, as its load does, where the function prints, or where the launch is
    /// the first of its context and a kernel of some module prints.
    fn first_launch(&mut self, entry: &Entry) {
        let record = &entry.record;
        let launches = record.entry_point.class() == Class::Launch && record.submitted() && record.result == 0;
        if !launches || self.launched.len() == MOST_HANDLES {
            return;
        }
        let first_of_all = self.contexts.insert(record.context);
        let first = self.launched.insert((record.context, record.function));
        let owner = self.owners.get(&record.function).copied().unwrap_or(0);
        let prints = || self.replay.images.by_owner(owner).is_some_and(Image::prints);
        let barrier = first && prints() || first_of_all && self.replay.images.any_prints();
        if barrier && self.from_the_beginning {
            self.load(entry.thread, record, true);
        }
    }

    fn poll(&mut self, entry: &Entry) {
        let record = entry.record;
        let Payload::Queries { count, .. } = record.payload() else { return };
        let asked = Asked { times: count, since: record.entered, last: record.returned };
        let is_waiting = record.result == NOT_READY;
        if !is_waiting {
            // Another error, or none before, is another poll.
            let polls = self.polls.get_mut(&entry.thread_number);
            polls.into_iter().for_each(|polls| polls.retain(|poll| poll.record.result == record.result));
        } else if let Some(busy) = self.busy.get_mut(&record.stream) {
            let before = busy.asked.filter(|before| before.last > busy.moved);
            busy.asked = Some(before.map_or(asked, |before| before.and(asked)));
        }
        let event = record.event().and_then(|event| self.replay.proofs.event(event));
        let recorded = event.filter(|r| r.stream == record.stream).map(|r| r.at);
        let polls = self.polls.entry(entry.thread_number).or_default();
        // The same query as earlier, with others in between: one poll with the earlier ones.
        if let Some(known) = polls.iter_mut().find(|poll| poll.is_about(&record)) {
            known.recorded = recorded;
            known.asked = known.asked.and(asked);
        } else if polls.len() < MOST_POLLED {
            polls.push(Poll { record, asked, recorded });
        }
    }

    fn host_function(&mut self, entry: &Entry) {
        let record = entry.record;
        self.activity = self.activity.max(record.entered);
        self.moved(record.stream, record.entered);
        if let Payload::HostCall { function, submitted: 0 } = record.payload() {
            let calls = self.busy.values_mut().filter(|busy| busy.graphs_call.contains_key(&function));
            calls.for_each(|busy| busy.moved = busy.moved.max(record.entered));
        }
        self.called.retain(|called| called.thread_number != entry.thread_number);
        self.host_threads.insert(entry.thread);
        if record.kind == Kind::HostBegins {
            let launch = match record.payload() {
                Payload::HostCall { function, submitted: 0 } => self.graph_calls.called(function, record.entered),
                _ => None,
            };
            self.called.push(Called { thread: entry.thread, thread_number: entry.thread_number, record, launch });
        }
    }

    /// Takes in an observation of the process, or an answer of the driver.
    fn seen(&mut self, record: &Record) {
        match record.payload() {
            Payload::Activity { thread, doing: Some(doing) } => {
                let known = self.doing.entry(thread).or_insert((record.entered, doing));
                if known.1 != doing {
                    *known = (record.entered, doing);
                }
            }
            // The thread has ended, or the guard no longer sees it.
            Payload::Activity { thread, doing: None } => drop(self.doing.remove(&thread)),
            Payload::Holds { address, value, own, .. } => drop(self.held.insert(address, (record.entered, value, own))),
            Payload::Computes { thread, time } => {
                if time.alone && time.is_most() {
                    self.alone_since.entry(thread).or_insert(record.entered.saturating_sub(time.within_nanos));
                } else {
                    self.alone_since.remove(&thread);
                }
                self.computes.insert(thread, (record.entered, time));
            }
            Payload::Environment(environment) => self.environment = environment,
            Payload::Resident { launch, blocks } => drop(self.resident.insert(launch, blocks)),
            Payload::StreamAnswer => {
                self.asked = true;
                match record.result {
                    0 => self.moved(record.stream, record.entered),
                    NOT_READY => {
                        let busy = self.busy.get_mut(&record.stream).into_iter();
                        busy.for_each(|busy| busy.answered_busy = busy.answered_busy.max(record.entered));
                    }
                    _ => {}
                }
            }
            Payload::EventComplete(_) => self.moved(record.stream, record.entered),
            _ => {}
        }
    }

    /// The process is alive at this time: calls in progress still are.
    pub fn alive_at(&mut self, now: Nanos) {
        self.last = self.last.max(now);
    }
}

fn keep_newest<T>(all: &mut VecDeque<T>, one: T) {
    if all.len() == MOST_WRITES {
        all.pop_front();
    }
    all.push_back(one);
}

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
    records.finish()?;
    Ok(builder.snapshot(recording, threshold, patience))
}

fn last_of_tables<S: Source>(recording: &Recording<S>) -> Nanos {
    let threads = recording.threads().iter().map(|thread| thread.born.max(thread.ended));
    let streams = recording.streams().iter().map(|stream| stream.born.max(stream.work.submissions.last));
    threads.chain(streams).fold(recording.facts().last_seen, Nanos::max)
}

#[cfg(test)]
#[path = "builder_tests.rs"]
mod tests;
