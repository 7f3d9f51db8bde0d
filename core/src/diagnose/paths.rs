//! The operation at which a stream stands, and the wait-for path from there to what does not end.
//!
//! A wait for a value waits for the operation that writes it; a wait for an event, and an operation on or beside the legacy default stream, for
//! other streams; an operation behind a first-use load for everything submitted before that load. The guard learns of completion passively. So a
//! stream is taken to stand at its first operation that *waits*, and at its oldest operation only where none waits.
//!
//! Must not: say of a kernel that it will never end.

use super::answers::Answers;
use super::operation::{BusyStream, Extent, OperationSeen};
use super::path::{culprit, End, Path, Peers, Step};
use super::snapshot::{ColdLoadSeen, EventWaitSeen, HostFunctionSeen, Snapshot};
use super::verdict::Culprit;
use super::wait::WaitSeen;
use crate::api::{Call, Class, ColdKind};
use crate::map::{HashMap, HashSet};
use crate::replay::{in_turn, may_never_end, takes_time};
use crate::{order, Nanos};
use std::cell::{Cell, RefCell};

#[derive(Clone, Copy)]
enum Gate<'a> {
    Wait(&'a WaitSeen),
    /// A host function that has not returned: the stream's own or, for one that has not been called, another stream's.
    Host(&'a HostFunctionSeen),
    Barrier(&'a ColdLoadSeen),
    /// The work that the stream of this number has taken in until then, by this step.
    Other(u32, Nanos, Step<'a>),
}

/// The streams that led to one, each with the submission time of the operation by which the path left it.
pub(super) type Way = Vec<(u32, Nanos)>;

/// Most paths followed in one snapshot.
const MOST_WAYS: u32 = 20_000;

/// Most streams on one path. Each costs stack of the thread that follows it, which has little in the program's process.
const MOST_DEEP: usize = 48;

/// The search for cycles alone (`cycles.rs`).
#[derive(Default)]
pub(super) struct Cycles {
    /// Whether the search is for cycles alone.
    pub alone: Cell<bool>,
    /// By stream: what it has taken in until then leads to no cycle, and to nothing else that stands.
    pub free: RefCell<HashMap<u32, Nanos>>,
}

pub(super) struct Paths<'a> {
    pub snapshot: &'a Snapshot,
    pub busy: HashMap<u32, &'a BusyStream>,
    /// By stream: the time of the record of the earliest polled event that is not complete.
    pub not_ready: HashMap<u32, Nanos>,
    /// The stream and time of each wait for a value.
    waits: HashSet<(u32, Nanos)>,
    /// By stream: its first launch of a graph that was launched before on another stream.
    again: HashMap<u32, (Nanos, Gate<'a>)>,
    pub answers: Answers,
    pub(super) ways: Cell<u32>,
    /// Whether the path being followed has come through a hardware queue.
    pub(super) in_queue: Cell<bool>,
    pub(super) cycles: Cycles,
}

impl<'a> Paths<'a> {
    pub fn new(snapshot: &'a Snapshot) -> Self {
        let busy: HashMap<u32, &BusyStream> = snapshot.streams.iter().map(|s| (s.stream.number, s)).collect();
        let mut not_ready = HashMap::default();
        for call in snapshot.blocked.iter().filter(|call| call.queries.is_some()) {
            let is_outstanding = |stream: u32, at: Nanos| busy.get(&stream).is_some_and(|busy| busy.since() <= at);
            let recorded =
                call.event_recorded.filter(|at| call.stream.as_ref().is_some_and(|s| is_outstanding(s.number, *at)));
            if let (Some(stream), Some(recorded)) = (&call.stream, recorded) {
                let first = not_ready.entry(stream.number).or_insert(recorded);
                *first = recorded.min(*first);
            }
        }
        let waits = snapshot.waits.iter().map(|wait| (wait.stream.number, wait.at)).collect();
        let (answers, ways, in_queue, cycles) =
            (Answers::of(snapshot), Cell::new(0), Cell::new(false), Cycles::default());
        Self { snapshot, busy, not_ready, waits, again: launched_again(snapshot), answers, ways, in_queue, cycles }
    }

    /// The path from the operations of a stream that were submitted until then; `None` if they are known to be complete.
    pub fn from(&self, stream: u32, until: Nanos) -> Option<Path<'a>> {
        let path = self.find(stream, until, &mut Vec::new())?;
        Some(self.cycle_in_place_of(&path, stream, until).unwrap_or(path))
    }

    pub(super) fn find(&self, stream: u32, until: Nanos, way: &mut Way) -> Option<Path<'a>> {
        let busy = self.busy.get(&stream).copied().filter(|busy| busy.since() <= until)?;
        if self.snapshot.has_passed(stream, until) || self.is_free_of_cycles(stream, until) {
            return None;
        }
        // Back at the waiting operation, or at one after it: a cycle. An earlier operation of the stream makes none.
        if way.iter().any(|(number, left)| *number == stream && until >= *left) {
            return Some(Path::to(End::Cycle(None)));
        }
        self.ways.set(self.ways.get() + 1);
        if self.ways.get() > MOST_WAYS || way.len() >= MOST_DEEP {
            return Some(Path::to(End::Runs(culprit(busy, &busy.oldest))));
        }
        way.push((stream, 0));
        let mut gates = self.gates(busy, until);
        order::sort_by_key(&mut gates, |(at, _)| *at);
        let mut found: Option<Path<'a>> = None;
        for (at, gate) in gates {
            way.iter_mut().next_back().into_iter().for_each(|(_, left)| *left = at);
            let path = self.through(busy, at, gate, way);
            found = match (found, path) {
                (Some(former), Some(later)) => Some(self.likelier(former, later)),
                (former, later) => former.or(later),
            };
            if found.as_ref().is_some_and(|path| !self.may_be_over(path) && !self.may_be_passed(path)) {
                break;
            }
        }
        way.pop();
        if self.cycles.alone.get() {
            return found.or_else(|| self.ends_unless_it_waits(busy, until));
        }
        // The work that an event waits for may have ended. A collective of this stream is likelier not to have.
        let is_first = way.is_empty();
        let own = || self.runs(busy, until, is_first);
        let is_likelier = |path: &Path<'a>| {
            let may_have_ended = matches!(path.end, End::Runs(_)) && path.barrier().is_none();
            !may_have_ended || !own().is_some_and(|own| matches!(own.end, End::Peers(_)))
        };
        let found = found.filter(is_likelier);
        // A path over other streams back to an earlier operation of this one says no more than that operation.
        let found = found.map(|path| match &path.end {
            End::Runs(culprit) | End::Peers(Peers { culprit, .. })
                if culprit.stream.number == stream && path.barrier().is_none() =>
            {
                Path { steps: Vec::new(), ..path }
            }
            _ => path,
        });
        let found = found.or_else(|| self.filled(busy, until, way));
        let found = found.or_else(|| self.without_room_at_once(busy, until, way));
        let found = found.or_else(|| self.queued(busy, until, way));
        found.or_else(own)
    }

    /// The operation that may still run, of those submitted until then; `None` where each is done or ends by itself. A call shows that something has not
    /// ended (`is_waited_for`); another stream's wait for an event may be satisfied by now.
    pub(super) fn runs(&self, busy: &'a BusyStream, until: Nanos, is_waited_for: bool) -> Option<Path<'a>> {
        // Something before the first event that is not complete has not ended.
        let not_ready = self.not_ready.get(&busy.stream.number).copied().unwrap_or(Nanos::MAX);
        let number = busy.stream.number;
        // The path came through each wait for a value: it is satisfied.
        let is_wait = |op: &OperationSeen| op.graph.is_none() && self.waits.contains(&(number, op.at));
        let timed = |until: Nanos| busy.timed().filter(move |op| op.at <= until && !is_wait(op));
        let until = until.min(not_ready);
        // A kernel that computes ends by itself. One that waits for peers does not, so it is the likelier one.
        if let Some(kernel) = timed(until).find(|op| op.waits_for_peers()) {
            let bound = if is_waited_for { until } else { not_ready };
            let is_the_only_one = timed(bound).filter(|op| op.waits_for_peers()).count() == 1;
            let is_known = is_the_only_one && (busy.lists_all() || bound < Nanos::MAX);
            let before = timed(until).next().filter(|first| first.at < kernel.at).cloned();
            return Some(Path::to(End::Peers(Peers { culprit: culprit(busy, kernel), is_known, before })));
        }
        // The oldest operation stands for the rest of a list that was cut off.
        let oldest = || Some(&busy.oldest).filter(|op| !busy.lists_all() && op.call.class().is_none_or(takes_time));
        let may_stand = || timed(until).filter(|op| op.call.class().is_none_or(may_never_end));
        let Some(first) = may_stand().next().or_else(oldest) else {
            let copies = timed(until).map(|op| culprit(busy, op));
            return copies.last().filter(|copy| self.has_not_ended(copy)).map(|copy| Path::to(End::Runs(copy)));
        };
        let runs = culprit(busy, first);
        let or_later = may_stand().any(|op| op.at > runs.operation.at);
        Some(Path { or_later, ..Path::to(End::Runs(runs)) })
    }

    /// The oldest operation, where none is known to run.
    pub fn oldest(&self, stream: u32, until: Nanos) -> Option<Path<'a>> {
        let busy =
            self.busy.get(&stream).filter(|busy| busy.since() <= until && !self.snapshot.has_passed(stream, until))?;
        Some(Path::to(End::Runs(culprit(busy, &busy.oldest))))
    }

    /// The operations that may wait for something else.
    fn gates(&self, busy: &'a BusyStream, until: Nanos) -> Vec<(Nanos, Gate<'a>)> {
        let Snapshot { waits, event_waits, host_functions, loads, streams, .. } = self.snapshot;
        let number = busy.stream.number;
        let mut gates: Vec<(Nanos, Gate<'a>)> = Vec::new();
        gates.extend(waits.iter().filter(|w| w.stream.number == number).map(|w| (w.at, Gate::Wait(w))));
        let for_event = |w: &'a EventWaitSeen| (w.at, Gate::Other(w.recorded_on, w.recorded, Step::Event(w)));
        gates.extend(event_waits.iter().filter(|w| w.stream == number).map(for_event));
        gates.extend(host_functions.iter().filter(|h| h.stream == number).map(|h| (h.at, Gate::Host(h))));
        let is_called = |op: &OperationSeen| host_functions.iter().any(|h| h.stream == number && h.at == op.at);
        let not_called =
            busy.operations.iter().find(|op| op.call.class() == Some(Class::HostFunction) && !is_called(op));
        let runs = |h: &&HostFunctionSeen| {
            h.stream != number
                && self.snapshot.stream(h.stream).is_some_and(|on| on.stream.context == busy.stream.context)
        };
        gates.extend(not_called.and_then(|op| Some((op.at, Gate::Host(host_functions.iter().find(runs)?)))));
        let barriers = loads.iter().filter_map(|load| barrier_for(load, busy));
        // The first one is enough: a later one waits for it.
        gates.extend(barriers.min_by_key(|(at, _)| *at).map(|(at, load)| (at, Gate::Barrier(load))));
        let others = streams.iter().filter(|s| s.stream.context == busy.stream.context && s.stream.number != number);
        let ordered = others.filter(|other| in_turn(busy.stream.kind, other.stream.kind));
        gates.extend(ordered.filter_map(|other| {
            let (at, step) = (first_after(busy, other.since())?, Step::Legacy(&busy.stream, &other.stream));
            // Only work submitted before this stream's operation.
            Some((at, Gate::Other(other.stream.number, at.saturating_sub(1), step)))
        }));
        gates.extend(self.by_copies(busy).chain(self.again.get(&number).copied()).chain(self.reused(busy)));
        gates.retain(|(at, _)| *at <= until);
        gates
    }

    fn by_copies(&self, busy: &'a BusyStream) -> impl Iterator<Item = (Nanos, Gate<'a>)> + use<'a> {
        let streams = &self.snapshot.streams;
        let copies = busy.operations.iter().filter(|op| copies_between_devices(&op.call));
        copies.flat_map(move |copy| {
            let others = streams.iter().filter(|s| s.stream.context != busy.stream.context && s.since() < copy.at);
            others.map(move |other| (copy.at, beside(busy, copy, other, copy.at.saturating_sub(1))))
        })
    }

    /// Allocations that may have got memory that another stream has yet to free.
    fn reused(&self, busy: &'a BusyStream) -> impl Iterator<Item = (Nanos, Gate<'a>)> + use<'a> {
        let streams = self.snapshot.streams.iter();
        let others =
            streams.filter(|s| s.stream.context == busy.stream.context && s.stream.number != busy.stream.number);
        let releases = others.flat_map(|s| of_class(s, Class::FreeAsync).map(move |(at, from, _)| (s, at, from)));
        let releases: Vec<_> = releases.collect();
        of_class(busy, Class::AllocateAsync).filter_map(move |(at, from, bytes)| {
            let same = |(_, freed, address): &&(&BusyStream, Nanos, u64)| {
                *freed < at && (from..from.saturating_add(bytes.max(1))).contains(address)
            };
            let (other, freed, _) = *releases.iter().rfind(same)?;
            Some((at, Gate::Other(other.stream.number, freed, Step::Pool(&busy.stream, at, &other.stream))))
        })
    }

    fn through(&self, busy: &'a BusyStream, at: Nanos, gate: Gate<'a>, way: &mut Way) -> Option<Path<'a>> {
        match gate {
            Gate::Wait(wait) => self.through_wait(busy, wait, way),
            Gate::Host(host) => {
                let on = self.snapshot.stream(host.stream)?;
                let path = Path::to(End::Host(host, culprit(on, &operation_at(on, host.at))));
                Some(if host.stream == busy.stream.number {
                    path
                } else {
                    path.behind(Step::HostFunctions(&busy.stream))
                })
            }
            Gate::Barrier(load) => {
                let behind = load.behind.iter().filter(|b| b.stream.number != busy.stream.number);
                let paths = behind.filter_map(|b| self.find(b.stream.number, load.at, way)).collect();
                let paths = self.without_doubtful(paths);
                Some(paths.into_iter().min_by_key(Path::rank)?.behind(Step::Barrier(load)))
            }
            Gate::Other(stream, until, step) => {
                let path = self.find(stream, until, way)?.behind(step);
                let is_wait = matches!(step, Step::Event(_));
                Some(if is_wait { closed(path, || culprit(busy, &operation_at(busy, at))) } else { path })
            }
        }
    }

    fn through_wait(&self, busy: &'a BusyStream, wait: &'a WaitSeen, way: &mut Way) -> Option<Path<'a>> {
        let writes = || wait.satisfying_writes.iter().chain(&wait.fills);
        if wait.is_over() {
            return None;
        }
        let itself = || culprit(busy, &operation_at(busy, wait.at));
        // The writer most likely to run decides: one is enough. One that nothing holds back has run, unless memory shows otherwise.
        let mut paths = Vec::new();
        for writer in writes().filter(|w| w.outstanding) {
            let stands = wait.holds.is_some() && !self.cycles.alone.get();
            let unseen = || self.oldest(writer.stream, writer.at).filter(|_| stands);
            let path = self.find(writer.stream, writer.at, way).or_else(unseen)?;
            paths.push(path.behind(Step::Writer(wait, writer.stream)));
        }
        match paths.into_iter().max_by_key(Path::rank) {
            Some(path) => Some(closed(path, itself)),
            None => Some(Path::to(End::Unwritten(wait, itself()))),
        }
    }
}

/// The driver runs a graph once at a time. A later graph may have the handle of an earlier one, with other nodes.
fn launched_again(snapshot: &Snapshot) -> HashMap<u32, (Nanos, Gate<'_>)> {
    let launches = snapshot.streams.iter().flat_map(|on| on.operations.iter().map(move |op| (on, op)));
    let mut launches: Vec<_> = launches.filter(|(_, op)| op.graph.is_some()).collect();
    order::sort_by_key(&mut launches, |(_, op)| op.at);
    let mut newest: HashMap<Option<u64>, (&BusyStream, &OperationSeen)> = HashMap::default();
    let mut again = HashMap::default();
    for (on, op) in launches {
        let before = newest.insert(op.graph.as_ref().map(|graph| graph.handle), (on, op));
        if let Some((other, before)) = before.filter(|(other, of)| !std::ptr::eq(*other, on) && of.graph == op.graph) {
            again.entry(on.stream.number).or_insert((op.at, beside(on, op, other, before.at)));
        }
    }
    again
}

/// An operation that also waits for what another stream has taken in until then.
fn beside<'a>(on: &'a BusyStream, op: &'a OperationSeen, other: &'a BusyStream, until: Nanos) -> Gate<'a> {
    Gate::Other(other.stream.number, until, Step::Beside(&on.stream, op, &other.stream))
}

/// A cycle is reported by the wait that closes it.
fn closed<'a>(mut path: Path<'a>, wait: impl FnOnce() -> Culprit) -> Path<'a> {
    if let End::Cycle(culprit @ None) = &mut path.end {
        *culprit = Some(wait());
    }
    path
}

/// The oldest one where its record is gone.
fn operation_at(busy: &BusyStream, at: Nanos) -> OperationSeen {
    busy.operations.iter().find(|op| op.at == at).unwrap_or(&busy.oldest).clone()
}

/// The submission time of the first outstanding operation at or after `at`.
fn first_after(busy: &BusyStream, at: Nanos) -> Option<Nanos> {
    // Behind the last one of a list that was cut off there may be others.
    let is_listed = busy.lists_all() || busy.timed().last().is_some_and(|last| last.at >= at);
    let known = busy.operations.iter().map(|op| op.at).filter(|op| *op >= at && is_listed).min();
    known.or_else(|| (busy.last_submitted >= at).then(|| busy.oldest.at.max(at)))
}

fn barrier_for<'a>(load: &'a ColdLoadSeen, busy: &BusyStream) -> Option<(Nanos, &'a ColdLoadSeen)> {
    let applies = load.kind == ColdKind::Function
        && load.context == busy.stream.context
        && load.behind.iter().any(|b| b.stream.number != busy.stream.number);
    Some((first_after(busy, load.at).filter(|_| applies)?, load))
}

/// Submission time, address and bytes of the operations of a class.
fn of_class(busy: &BusyStream, class: Class) -> impl Iterator<Item = (Nanos, u64, u64)> + '_ {
    busy.operations.iter().filter(move |op| op.call.class() == Some(class)).filter_map(|op| match op.extent {
        Some(Extent::Memory { address, bytes }) if address != 0 => Some((op.at, address, bytes)),
        _ => None,
    })
}

pub(super) fn copies_between_devices(call: &Call) -> bool {
    matches!(call, Call::Known(entry_point) if matches!(entry_point.info().base(), "cuMemcpyPeer" | "cuMemcpy3DPeer"))
}
