//! What a blocked call waits for: the busy streams that the driver makes it wait for, and the wait-for path that explains it best.
//!
//! Must not: give a verdict ([`super::decide`]), or look at anything but the snapshot.

use super::graph::GraphSeen;
use super::paths::{copies_between_devices, End, Path, Paths, Peers, Unseen};
use super::snapshot::{
    BlockedCall, BusyStream, FedStream, OperationSeen, Snapshot, StreamRef, UnfollowedWork, WaitSeen,
};
use crate::api::{Class, ColdKind, ComputeTime, StreamKind};
use crate::replay::{self, queue_may_be_full};
use crate::Nanos;

pub(super) fn is_legacy(stream: &StreamRef) -> bool {
    stream.kind == StreamKind::Legacy
}

pub(super) fn loads_module(call: &BlockedCall) -> bool {
    call.cold == Some(ColdKind::Module) || call.call.class().is_some_and(Class::loads_module)
}

/// Whether a call loads code, or may do so on a first use: the only calls in which the driver compiles.
fn may_compute(call: &BlockedCall) -> bool {
    call.cold.is_some() || call.call.class().is_some_and(Class::may_compute)
}

pub(super) struct Decision<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) paths: Paths<'a>,
}

impl<'a> Decision<'a> {
    pub(super) fn new(snapshot: &'a Snapshot) -> Self {
        Self { snapshot, paths: Paths::new(snapshot) }
    }

    /// The busy streams that a call waits for, and up to when what was submitted to them.
    pub(super) fn needs(&self, call: &BlockedCall) -> Vec<(u32, Nanos)> {
        let context = |s: &&BusyStream| call.context == 0 || s.stream.context == call.context;
        let blocking = |s: &&BusyStream| s.stream.kind != StreamKind::NonBlocking;
        // A poll repeats: its later queries also ask about work submitted after the first one.
        let until = if call.queries.is_some() { Nanos::MAX } else { call.entered };
        let streams = || self.snapshot.streams.iter().filter(context);
        let all = || streams().map(|s| (s.stream.number, until)).collect();
        let own = |stream: &StreamRef, until: Nanos| {
            let mut needs = vec![(stream.number, until)];
            if is_legacy(stream) {
                needs.extend(streams().filter(blocking).map(|s| (s.stream.number, until)));
            }
            needs
        };
        match (call.call.class(), &call.stream) {
            _ if loads_module(call) || call.sets_aside => all(),
            (Some(Class::EventSynchronize | Class::EventQuery), Some(stream)) => {
                vec![(stream.number, call.event_recorded.unwrap_or(until))]
            }
            _ if copies_between_devices(&call.call) => {
                self.snapshot.streams.iter().map(|s| (s.stream.number, until)).collect()
            }
            (Some(Class::Copy | Class::Set), _) => {
                streams().filter(blocking).map(|s| (s.stream.number, until)).collect()
            }
            // Ending a context waits for the others of its device as well.
            (Some(Class::ContextDestroy), _) => {
                self.snapshot.streams.iter().map(|s| (s.stream.number, until)).collect()
            }
            (Some(class), _) if waits_for_all(class) => all(),
            (Some(Class::EventSynchronize | Class::EventQuery), None) => all(),
            (Some(Class::Launch), Some(_)) if call.no_entry => Vec::new(),
            (Some(Class::Launch), Some(stream)) if !self.queue_is_full(stream) => all(),
            (Some(class), Some(stream)) if class.synchronizes() || waits_for_its_stream(class) => own(stream, until),
            _ => Vec::new(),
        }
    }

    /// The call in which the driver is at work, as a compiler is, where nothing is outstanding in its context that it could wait for. One
    /// that waits may compute as well, by looking again and again; nothing else tells the two apart.
    pub(super) fn compiles(&self) -> Option<&'a BlockedCall> {
        let is_idle = |call: &BlockedCall| {
            let same = |s: &&BusyStream| call.context == 0 || call.context == s.stream.context;
            let outstanding = self.snapshot.streams.iter().filter(same).any(|s| s.since() < call.entered);
            !outstanding && self.unseen(call).is_none()
        };
        let computes = |call: &&BlockedCall| call.computes.is_some_and(ComputeTime::is_most);
        self.snapshot.blocked.iter().filter(computes).find(|call| may_compute(call) && is_idle(call))
    }

    pub(super) fn queue_is_full(&self, stream: &StreamRef) -> bool {
        self.snapshot.stream(stream.number).is_some_and(|busy| queue_may_be_full(busy.outstanding))
    }

    /// What a call may wait for and the guard does not follow.
    pub(super) fn unseen(&self, call: &BlockedCall) -> Option<Unseen<'a>> {
        let class = call.call.class()?;
        let asks = matches!(class, Class::StreamQuery | Class::EventQuery);
        if call.no_entry && (asks || class.synchronizes()) {
            return Some(Unseen::Stream);
        }
        let waits = match &call.stream {
            _ if loads_module(call) || call.sets_aside || waits_for_all(class) => true,
            // The default stream waits for those that were created with default flags.
            _ if matches!(class, Class::Copy | Class::Set) => true,
            Some(stream) if class == Class::StreamSynchronize => is_legacy(stream),
            Some(stream) if class == Class::Launch => !call.no_entry && !self.queue_is_full(stream),
            _ => false,
        };
        let same = |work: &&UnfollowedWork| call.context == 0 || work.context == call.context;
        let destroyed = self.snapshot.unfollowed.iter().find(same).filter(|_| waits).map(Unseen::Destroyed);
        destroyed.or_else(|| (waits_for_all(class) && self.snapshot.without_entry > 0).then_some(Unseen::Streams))
    }

    /// The same of a call that does not take long by itself: it waits for that, where nothing else is known to be in flight.
    pub(super) fn waits_for_unseen(&self, call: &BlockedCall) -> Option<Unseen<'a>> {
        let asks = |class: Class| matches!(class, Class::StreamQuery | Class::EventQuery);
        let waits = |class: Class| asks(class) || class.synchronizes() || waits_for_all(class);
        self.unseen(call).filter(|_| call.call.class().is_some_and(waits))
    }

    /// The streams that a call waits for, but for the one on which nothing is outstanding but what the call is to submit itself.
    fn needs_but_its_own(&self, call: &BlockedCall) -> impl Iterator<Item = (u32, Nanos)> + '_ {
        let own = call.stream.as_ref().filter(|_| call.queries.is_none()).map(|stream| (stream.number, call.entered));
        let is_own = move |stream: u32| own == self.snapshot.stream(stream).map(|busy| (stream, busy.since()));
        self.needs(call).into_iter().filter(move |(stream, _)| !is_own(*stream))
    }

    pub(super) fn paths_of(&self, call: &BlockedCall) -> impl Iterator<Item = Path<'a>> + '_ {
        self.needs_but_its_own(call).filter_map(|(stream, until)| self.paths.from(stream, until))
    }

    /// The submissions to the stream at the end of a path while a call waits: that stream may make progress.
    pub(super) fn fed_behind(&self, path: &Path<'a>) -> Option<&'a FedStream> {
        let (End::Runs(culprit) | End::Peers(Peers { culprit, .. })) = &path.end else { return None };
        self.snapshot.fed.iter().find(|fed| fed.stream.number == culprit.stream.number)
    }

    /// The oldest operation of the streams that a call waits for, other than what it submits itself.
    pub(super) fn oldest(&self, call: &BlockedCall) -> Option<Path<'a>> {
        let is_own = |path: &Path<'a>| path.culprit().is_some_and(|culprit| culprit.operation.at >= call.entered);
        let paths = self.needs_but_its_own(call).filter_map(|(stream, until)| self.paths.oldest(stream, until));
        let others = paths.filter(|path| call.queries.is_some() || !is_own(path)).collect();
        let others = self.paths.without_doubtful(others);
        others.into_iter().min_by_key(|path| path.culprit().map(|culprit| culprit.operation.at))
    }

    /// The path that explains a call best: the one least likely to end.
    pub(super) fn path(&self, call: &BlockedCall) -> Option<Path<'a>> {
        let paths = self.paths.without_doubtful(self.paths_of(call).collect());
        let path =
            paths.into_iter().min_by_key(|path| (path.rank(), self.fed_behind(path).is_some(), path.steps.len()))?;
        // A call, such as a copy on the default stream, that waits for the work before a barrier: the barrier blocks the work that
        // might end it.
        if path.barrier().is_none() && !loads_module(call) {
            return Some(self.behind_the_same(&path, |path| path.barrier().is_some()).unwrap_or(path));
        }
        Some(path)
    }

    /// A path to the same end through such a step, from a stream whose work that step blocks.
    pub(super) fn behind_the_same(&self, path: &Path<'a>, through: impl Fn(&Path<'a>) -> bool) -> Option<Path<'a>> {
        let (End::Runs(culprit) | End::Peers(Peers { culprit, .. })) = &path.end else { return None };
        let held_back = |s: &&BusyStream| s.stream.context == culprit.stream.context;
        let streams = self.snapshot.streams.iter().filter(held_back);
        streams
            .filter_map(|s| self.paths.from(s.stream.number, Nanos::MAX))
            .find(|p| through(p) && p.culprit() == Some(culprit))
    }
}

/// Whether a call of this class waits for all that is in flight in its context, and does nothing else that takes long.
fn waits_for_all(class: Class) -> bool {
    class.waits_for_whole_context() || class == Class::ContextSynchronize
}

/// Whether a call of this class returns only when its stream has reached it.
fn waits_for_its_stream(class: Class) -> bool {
    matches!(
        class,
        Class::StreamQuery
            | Class::CopyAsync
            | Class::SetAsync
            | Class::Launch
            | Class::GraphLaunch
            | Class::HostFunction
            | Class::StreamSubmit
    )
}

/// Whether a stream may have passed a wait unseen, because a long operation follows the wait.
pub(super) fn may_have_passed(stream: &BusyStream, wait: &WaitSeen) -> bool {
    let takes_time = |op: &OperationSeen| {
        op.extent.is_some() && op.call.class().is_none_or(replay::takes_time)
            || matches!(op.call.class(), Some(Class::GraphLaunch | Class::HostFunction))
    };
    // Of a graph with such a node the other nodes may run.
    let beside = |op: &OperationSeen| op.graph.as_ref().is_some_and(GraphSeen::runs_by_itself);
    let behind = |op: &OperationSeen| if op.at == wait.at { beside(op) } else { op.at > wait.at && takes_time(op) };
    !stream.lists_all() || stream.operations.iter().any(behind)
}
