//! Gathered facts with names in the place of numbers.

use super::gathered::{Called, Failure, Fed, Fill, Poll, SnapshotBuilder};
use super::graph::GraphSeen;
use super::graph_calls::Launch;
use super::operation::{BusyStream, Extent, FedStream, Feeder, Launches, OperationSeen, Origin, StreamRef};
use super::snapshot::{
    BlockedCall, ColdLoadSeen, EventWaitSeen, FailureSeen, HostFunctionSeen, RunnableThread, Snapshot, UnfollowedWork,
};
use super::wait::{wait_seen, NewestWrite, Submitter, WaitSeen, WriteSeen};
use crate::api::result::loses_work;
use crate::api::{Asked, Call, Class, ColdKind, EntryPoint, ValueWrite};
use crate::map::{HashMap, HashSet};
use crate::trace::read::{Recording, Source, StringTable, ThreadSeen};
use crate::trace::{Kind, Payload, Record};
use crate::{order, Nanos};

const MOST_WAITS_IN_ALL: usize = 4096;
const MOST_FILLS: usize = 16;
const MOST_BEHIND: usize = 256;

/// The name of the function that had the number when a record's call returned; its handle, if it has no name.
fn function_name(texts: &StringTable, number: u32, returned: Nanos) -> Option<String> {
    let function = texts.function(number, returned).filter(|_| number != 0)?;
    Some(function.name.map_or_else(|| format!("function {:#x}", function.handle), str::to_owned))
}

impl SnapshotBuilder {
    /// The snapshot at the recording's last time. A `threshold` of 0 is never passed.
    pub fn snapshot<S: Source>(&self, recording: &Recording<S>, threshold: Nanos, patience: Nanos) -> Snapshot {
        let view = View { recording, builder: self };
        let mut streams: Vec<_> = self.busy.keys().filter_map(|number| view.busy_stream(*number)).collect();
        order::sort_by_key(&mut streams, |stream| stream.oldest.at);
        let mut event_waits: Vec<_> = self.busy.values().flat_map(|busy| busy.event_waits.iter().cloned()).collect();
        for (context, wait) in &self.context_waits {
            let held = self.busy.iter().filter(|(_, busy)| busy.context == *context);
            event_waits.extend(held.filter_map(|(&stream, busy)| {
                let first = busy.operations.iter().find(|op| op.entered > wait.at)?;
                Some(EventWaitSeen { stream, at: first.entered, ..wait.clone() })
            }));
        }
        event_waits.retain(|wait| self.busy.get(&wait.recorded_on).is_some_and(|on| wait.recorded > on.complete_until));
        order::sort_by_key(&mut event_waits, |wait| wait.at);
        let blocked = view.blocked(threshold);
        // A thread that waits is not runnable. The driver's own threads do not count as runnable.
        let busy_elsewhere: HashSet<u32> =
            blocked.iter().map(|call| call.thread).chain(self.host_threads.iter().copied()).collect();
        let elsewhere = self.doing.iter().filter(|(thread, _)| !busy_elsewhere.contains(thread));
        let elsewhere = elsewhere.map(|(&thread, &(since, doing))| (since, RunnableThread { thread, doing }));
        let (runnable, waiting): (Vec<_>, Vec<_>) = elsewhere.partition(|(_, thread)| thread.doing.goes_on());
        Snapshot {
            at: self.last,
            threshold_nanos: threshold,
            patience_nanos: patience,
            awake_since: 0,
            streams,
            fed: view.fed(),
            unfollowed: view.unfollowed(),
            without_entry: recording.facts().without_entry,
            waits: view.waits(),
            event_waits,
            failures: view.failures(),
            host_functions: self.called.iter().flat_map(|called| self.host_functions_seen(called)).collect(),
            loads: view.loads(),
            runnable: runnable.into_iter().map(|(_, thread)| thread).collect(),
            waiting_since: waiting.iter().map(|(since, _)| *since).max().unwrap_or(0),
            waiting: waiting.into_iter().map(|(_, waits)| waits.thread).collect(),
            blocked,
            late: None,
            standing: Vec::new(),
            last_activity: self.activity,
            asked: self.asked,
            launch_blocking: self.environment.launch_blocking,
            connections: Some(self.environment.connections).filter(|queues| *queues != 0),
        }
    }

    /// The launches of graphs that may have called a host function then, the likeliest first.
    fn graphs_that_call(&self, function: u64, called: &Called) -> Vec<Launch> {
        let at = called.record.entered;
        let launches = self.busy.iter().filter_map(|(stream, busy)| Some((*stream, *busy.graphs_call.get(&function)?)));
        let mut launches: Vec<_> = launches.filter(|(_, launched)| *launched <= at).collect();
        let made_by = called.launch.filter(|_| self.from_the_beginning);
        order::sort_by_key(&mut launches, |(on, launched)| (made_by.is_none_or(|(by, _)| by != *on), *launched));
        launches
    }

    /// A call of a host function, once for each stream whose graph may have made it.
    fn host_functions_seen(&self, called: &Called) -> Vec<HostFunctionSeen> {
        let Record { stream, entered, .. } = called.record;
        let Payload::HostCall { function: address, submitted } = called.record.payload() else { return Vec::new() };
        let launches = if submitted == 0 { self.graphs_that_call(address, called) } else { vec![(stream, submitted)] };
        let (thread, doing) = (called.thread, self.doing.get(&called.thread).map(|(_, doing)| *doing));
        // A host function does not block a stream that has completed it.
        let blocks =
            |(stream, submitted): &Launch| self.busy.get(stream).is_some_and(|on| *submitted > on.complete_until);
        let launches = launches.into_iter().filter(blocks).enumerate();
        let seen = |(rank, (stream, at))| {
            let or_another = rank > 0;
            HostFunctionSeen { stream, at, entered, address, thread, doing, or_another }
        };
        launches.map(seen).collect()
    }
}

pub(super) struct View<'a, S> {
    pub recording: &'a Recording<S>,
    pub builder: &'a SnapshotBuilder,
}

impl<S: Source> View<'_, S> {
    fn context_handle(&self, number: u32) -> u64 {
        self.recording.contexts().iter().find(|c| c.number == number).map_or(0, |c| c.handle)
    }

    fn stream_ref(&self, number: u32) -> Option<StreamRef> {
        let stream = self.recording.stream(number)?;
        let context = self.context_handle(stream.context);
        Some(StreamRef { number, handle: stream.handle, kind: stream.kind, context })
    }

    fn stream_ref_then(&self, number: u32, at: Nanos) -> Option<StreamRef> {
        let Some(stream) = self.recording.strings().streams.newest(number, at) else { return self.stream_ref(number) };
        let context = self.context_handle(stream.context);
        Some(StreamRef { number, handle: stream.handle, kind: stream.kind, context })
    }

    fn origin(&self, record: &Record) -> Origin {
        let path = self.recording.strings().path(record.path);
        let mut addresses = path.iter().copied().chain([record.caller]);
        Origin { caller: addresses.next().unwrap_or(0), outer: addresses.collect() }
    }

    fn operation(&self, record: &Record) -> OperationSeen {
        let class = record.entry_point.class();
        let extent = match record.payload() {
            Payload::Launch(launch) => Some(Extent::Grid {
                blocks: launch.blocks(),
                threads: launch.threads(),
                resident: self.builder.resident.get(&record.launch_key()).copied(),
            }),
            Payload::Memory { address, bytes, .. } if class.fills() || is_of_a_pool(class) => {
                Some(Extent::Memory { address, bytes })
            }
            _ => None,
        };
        OperationSeen {
            at: record.entered,
            call: record.entry_point.into(),
            function: function_name(self.recording.strings(), record.function, record.meant_at()),
            launch: matches!(extent, Some(Extent::Grid { .. })).then(|| record.launch_key()),
            at_once: record.at_once(),
            extent,
            launches: None,
            graph: self.graph(record),
            host_function: if let Payload::HostFunction(address) = record.payload() { Some(address) } else { None },
            origin: self.origin(record),
        }
    }

    fn graph(&self, record: &Record) -> Option<GraphSeen> {
        let Payload::Graph(handle) = record.payload() else { return None };
        let texts = self.recording.strings();
        let contents = texts.graphs.newest(handle, record.entered)?;
        Some(GraphSeen::of(handle, contents, |number| function_name(texts, number, record.meant_at())))
    }

    /// Finds which launch of its function on its stream it is; `before` counts earlier outstanding ones.
    fn launches(&self, record: &Record, before: &mut u64) -> Option<Launches> {
        if record.entry_point.class() != Class::Launch || !self.builder.from_the_beginning {
            return None;
        }
        let counted = self.builder.launches.get(&(record.stream, record.function))?;
        *before += 1;
        let number = counted.ended + *before;
        // A handle that was counted anew.
        (number <= counted.all).then_some(Launches { number, of: counted.all })
    }

    /// The stream without its operations, which the snapshot's list of streams has.
    fn front(&self, number: u32) -> Option<BusyStream> {
        Some(BusyStream { operations: Vec::new(), ..self.busy_stream(number)? })
    }

    pub fn busy_stream(&self, number: u32) -> Option<BusyStream> {
        let busy = self.builder.busy.get(&number)?;
        let stream = self.recording.stream(number)?;
        let mut launched: HashMap<_, _> = HashMap::default();
        let operations = busy.operations.iter().map(|record| {
            let launches = self.launches(record, launched.entry(record.function).or_insert(0));
            OperationSeen { launches, ..self.operation(record) }
        });
        let operations: Vec<_> = operations.collect();
        let oldest = operations.iter().find(|op| op.at == busy.oldest.at).cloned();
        Some(BusyStream {
            stream: self.stream_ref(number)?,
            oldest: oldest.unwrap_or_else(|| {
                let call = EntryPoint::by_id(busy.oldest.entry_point);
                let call = call.map_or_else(|| Call::Unknown("?".to_owned()), Call::Known);
                let function = function_name(self.recording.strings(), busy.oldest.function, Nanos::MAX);
                OperationSeen::new(busy.oldest.at, call, function, Origin::default())
            }),
            last_submitted: stream.work.submissions.last,
            submitted: stream.work.submissions.count,
            operations,
            outstanding: busy.outstanding.max(1),
            timed: busy.timed,
            all_recorded: self.builder.from_the_beginning,
            moved: busy.moved,
            answered_busy: busy.answered_busy,
            asked: busy.asked,
            destroyed: stream.destroyed,
        })
    }

    fn failures(&self) -> Vec<FailureSeen> {
        let seen = |failure: &Failure| FailureSeen {
            thread: failure.thread,
            result: failure.record.result,
            stream: self.stream_ref(failure.record.stream),
            operation: self.operation(&failure.record),
        };
        let mut failures: Vec<_> = self.builder.failures.values().map(seen).collect();
        order::sort_by_key(&mut failures, |failure| failure.operation.at);
        failures
    }

    pub fn unfollowed(&self) -> Vec<UnfollowedWork> {
        let contexts = self.recording.contexts().iter();
        let may_run = contexts.filter(|context| context.alive && context.orphaned_until > context.idle_until);
        may_run.map(|c| UnfollowedWork { context: c.handle, until: c.orphaned_until }).collect()
    }

    pub fn fed(&self) -> Vec<FedStream> {
        let fed = self.builder.fed.iter().filter_map(|(number, fed)| {
            let by = fed.by.iter().map(|(thread, (count, newest))| self.feeder(*thread, *count, newest));
            let mut by: Vec<_> = by.collect();
            order::sort_by_key(&mut by, |feeder| std::cmp::Reverse(feeder.operations));
            let (stream, newest) = (self.stream_ref(*number)?, self.operation(&fed.newest));
            let Fed { since, operations, launches, .. } = *fed;
            Some(FedStream { stream, since, operations, launches, newest, by })
        });
        let mut fed: Vec<_> = fed.collect();
        order::sort_by_key(&mut fed, |fed| std::cmp::Reverse(fed.operations));
        fed
    }

    fn feeder(&self, number: u32, operations: u64, newest: &Record) -> Feeder {
        let thread = self.recording.threads().iter().find(|thread| thread.number == number);
        Feeder {
            thread: thread.map_or(0, |thread| thread.thread),
            thread_name: thread.map(|thread| thread.name.clone()).unwrap_or_default(),
            operations,
            call: newest.entry_point.into(),
            function: function_name(self.recording.strings(), newest.function, newest.meant_at()),
            origin: self.origin(newest),
        }
    }

    pub fn blocked(&self, threshold: Nanos) -> Vec<BlockedCall> {
        let last = self.builder.last;
        let recently = |at: Nanos| last.saturating_sub(at) <= Asked::pause(threshold);
        let mut blocked = Vec::new();
        for thread in self.recording.threads() {
            let call = thread.call_in_progress.as_ref();
            // A query in progress, or another call in a failed context, is the next one of a poll, unless it blocks itself.
            let may_poll = |poll: &Poll| {
                let is_next = |call: &Record| call.kind == Kind::Queries || loses_work(poll.record.result);
                call.is_none_or(|call| is_next(call) && recently(call.entered))
            };
            // A few calls that fail, one after the other, are no loop.
            let goes_on = |poll: &Poll| {
                let lasted = poll.asked.last.saturating_sub(poll.asked.since);
                !loses_work(poll.record.result) || lasted >= threshold / 2
            };
            let asks = |poll: &&Poll| {
                may_poll(poll) && poll.asked.is_poll(threshold) && goes_on(poll) && recently(poll.asked.last)
            };
            let polls: Vec<_> = self.builder.polls.get(&thread.number).into_iter().flatten().filter(asks).collect();
            if polls.is_empty() {
                blocked.extend(call.map(|call| self.blocked_call(thread, call, threshold)));
            }
            blocked.extend(polls.into_iter().map(|poll| {
                let call = self.blocked_call(thread, &poll.record, threshold);
                let event_recorded = poll.recorded.or(call.event_recorded);
                BlockedCall { queries: Some(poll.asked.times), event_recorded, ..call }
            }));
        }
        order::sort_by_key(&mut blocked, |call| (call.entered, call.thread));
        blocked
    }

    fn blocked_call(&self, thread: &ThreadSeen, call: &Record, threshold: Nanos) -> BlockedCall {
        let blocked_nanos = self.builder.last.saturating_sub(call.entered);
        let event = call.event().filter(|_| waits_for_event(call.entry_point.class()));
        // A graph may have recorded it since, on another stream.
        let recorded = event.and_then(|event| self.builder.replay.proofs.event(event));
        let recorded = recorded.filter(|recorded| recorded.stream == call.stream);
        let computes = self.builder.computes.get(&thread.thread).filter(|(at, _)| *at > call.entered);
        let alone = self.builder.alone_since.get(&thread.thread).filter(|_| computes.is_some());
        BlockedCall {
            thread: thread.thread,
            thread_name: thread.name.clone(),
            call: call.entry_point.into(),
            entered: call.entered,
            blocked_nanos,
            past_threshold: threshold != 0 && blocked_nanos >= threshold,
            context: self.context_handle(u32::from(call.context)),
            stream: self.stream_ref(call.stream).or_else(|| self.stream_ref_then(call.stream, call.entered)),
            function: function_name(self.recording.strings(), call.function, Nanos::MAX),
            cold: cold_kind(call.kind),
            queries: None,
            event_recorded: recorded.map(|recorded| recorded.at),
            no_entry: call.stream != 0 && self.recording.stream(call.stream).is_none(),
            compiles: call.kind == Kind::ColdModule && self.builder.replay.images.compiles(call),
            computes: computes.map(|(_, time)| *time),
            alone_nanos: alone.map_or(0, |since| self.builder.last.saturating_sub(*since.max(&call.entered))),
            error: Some(call.result).filter(|result| call.kind == Kind::Queries && loses_work(*result)),
            sets_aside: call.sets_aside(),
            is_guards: call.kind == Kind::Preload,
            origin: self.origin(call),
        }
    }

    pub fn waits(&self) -> Vec<WaitSeen> {
        let SnapshotBuilder { busy, writes, fills, held, .. } = self.builder;
        // The writes by the eight bytes in which they are: no wait compares more.
        let mut near: HashMap<u64, Vec<(ValueWrite, Submitter)>> = HashMap::default();
        writes.iter().for_each(|w| near.entry(w.0.address >> 3).or_default().push(*w));
        let not_done = |stream: u32, at: Nanos| busy.get(&stream).is_some_and(|s| s.since() <= at);
        let outstanding = |w: &ValueWrite| not_done(w.stream, w.at);
        // The first ones of each stream are kept: the stream stands at one of those.
        let mut all = Vec::new();
        for (number, stream) in busy {
            all.extend(stream.waits.iter().enumerate().map(|(rank, wait)| (rank, *number, wait)));
        }
        order::sort_by_key(&mut all, |(rank, ..)| *rank);
        let waits = all.into_iter().take(MOST_WAITS_IN_ALL).filter_map(|(_, number, (wait, thread))| {
            let name = self.stream_ref(number)?;
            let held = held.get(&wait.address).filter(|(at, ..)| *at > wait.at);
            let holds = held.map(|(_, value, _)| *value);
            let mut writes = near.get(&(wait.address >> 3)).cloned().unwrap_or_default();
            writes.extend(fills.iter().filter_map(|fill| Some((fill.as_write(wait)?, fill.by))));
            let mut seen = WaitSeen {
                thread: *thread,
                own: held.is_some_and(|(.., own)| *own),
                ..wait_seen(name, wait, &writes, &outstanding, holds)
            };
            let there = |f: &&Fill| {
                f.address <= wait.address && wait.address - f.address < f.bytes && f.as_write(wait).is_none()
            };
            // A stream that stands at its last operation stands at the wait: nothing that came before it on the stream has ended the wait.
            let is_last = !busy.get(&number).is_some_and(|on| on.runs_after(wait.at));
            let too_early_or_late = |f: &Fill| f.stream == number && (f.at > wait.at || is_last);
            // A fill that was done before the wait was submitted is part of the content that the wait found.
            let counts = |f: &&Fill| !too_early_or_late(f) && (f.at > wait.at || not_done(f.stream, f.at));
            let fill = fills.iter().filter(there).max_by_key(|f| f.at);
            let newest = fill.filter(|f| seen.newest_write.as_ref().is_none_or(|write| write.at < f.at));
            seen.newest_write = newest.map(filled).or(seen.newest_write);
            let fills = fills.iter().filter(there).filter(counts).take(MOST_FILLS);
            seen.fills.extend(fills.map(|f| {
                let outstanding = not_done(f.stream, f.at);
                WriteSeen { stream: f.stream, at: f.at, value: 0, outstanding }
            }));
            Some(seen)
        });
        let mut waits: Vec<_> = waits.collect();
        order::sort_by_key(&mut waits, |wait| wait.at);
        waits
    }

    pub fn loads(&self) -> Vec<ColdLoadSeen> {
        let loads = self.builder.loads.iter().map(|load| {
            let record = &load.record;
            let behind = self.builder.behind(record).take(MOST_BEHIND);
            ColdLoadSeen {
                at: record.entered,
                call: record.entry_point.into(),
                kind: load.kind,
                context: self.context_handle(u32::from(record.context)),
                function: function_name(self.recording.strings(), record.function, record.meant_at()),
                stream: self.stream_ref_then(record.stream, record.meant_at()),
                thread: load.thread,
                origin: self.origin(record),
                first_launch: load.first_launch,
                behind: behind.filter_map(|number| self.front(number)).collect(),
            }
        });
        let mut loads: Vec<_> = loads.collect();
        order::sort_by_key(&mut loads, |load| load.at);
        loads
    }
}

fn filled(fill: &Fill) -> NewestWrite {
    let Submitter { entry_point, thread } = fill.by;
    NewestWrite { stream: fill.stream, at: fill.at, call: entry_point.into(), thread, value: None }
}

pub(super) fn cold_kind(kind: Kind) -> Option<ColdKind> {
    match kind {
        Kind::ColdFunction => Some(ColdKind::Function),
        Kind::ColdModule => Some(ColdKind::Module),
        _ => None,
    }
}

pub(super) const fn is_of_a_pool(class: Class) -> bool {
    matches!(class, Class::AllocateAsync | Class::FreeAsync)
}

const fn waits_for_event(class: Class) -> bool {
    matches!(class, Class::EventSynchronize | Class::EventQuery)
}
