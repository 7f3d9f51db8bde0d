//! The busy streams that the driver makes a blocked call wait for, and the wait-for path that explains it best.

use super::graph::GraphSeen;
use super::operation::{BusyStream, FedStream, OperationSeen, StreamRef};
use super::path::{End, Path, Peers, Unseen};
use super::paths::{copies_between_devices, Paths};
use super::snapshot::{BlockedCall, Snapshot, UnfollowedWork};
use super::wait::WaitSeen;
use crate::api::{Class, ColdKind, ComputeTime, StreamKind};
use crate::replay::{self, queue_may_be_full};
use crate::Nanos;

pub(super) fn is_legacy(stream: &StreamRef) -> bool {
    stream.kind == StreamKind::Legacy
}

pub(super) fn loads_module(call: &BlockedCall) -> bool {
    call.cold == Some(ColdKind::Module) || call.call.class().is_some_and(Class::loads_module)
}

/// Whether a call may load code: only those compile.
fn may_compute(call: &BlockedCall) -> bool {
    call.cold.is_some() || call.call.class().is_some_and(Class::may_compute)
}

/// For so many thresholds a launch has to compute alone, until it counts as one that loads no more.
const ALONE_THRESHOLDS: u64 = 10;

pub(super) struct Decision<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) paths: Paths<'a>,
}

impl<'a> Decision<'a> {
    pub(super) fn new(snapshot: &'a Snapshot) -> Self {
        Self { snapshot, paths: Paths::new(snapshot) }
    }

    pub(super) fn needs(&self, call: &BlockedCall) -> Vec<(u32, Nanos)> {
        let context = |s: &&BusyStream| call.context == 0 || s.stream.context == call.context;
        let blocking = |s: &&BusyStream| s.stream.kind != StreamKind::NonBlocking;
        // A poll repeats: its later queries also ask about work submitted after the first one.
        let until = if call.queries.is_some() { Nanos::MAX } else { call.entered };
        let streams = || self.snapshot.streams.iter().filter(context);
        let all = || streams().map(|s| (s.stream.number, until)).collect();
        let of_any_context = || self.snapshot.streams.iter().map(|s| (s.stream.number, until)).collect();
        let in_turn = || streams().filter(blocking).map(|s| (s.stream.number, until));
        let own = |stream: &StreamRef| {
            let others = is_legacy(stream).then(in_turn).into_iter().flatten();
            std::iter::once((stream.number, until)).chain(others).collect()
        };
        match (call.call.class(), &call.stream) {
            _ if loads_module(call) || call.sets_aside => all(),
            (Some(Class::EventSynchronize | Class::EventQuery), Some(stream)) => {
                vec![(stream.number, call.event_recorded.unwrap_or(until))]
            }
            _ if copies_between_devices(&call.call) => of_any_context(),
            (Some(Class::Copy | Class::Set), _) => in_turn().collect(),
            // Ending a context waits for the others of its device as well.
            (Some(Class::ContextDestroy), _) => of_any_context(),
            (Some(class), _) if waits_for_all(class) => all(),
            (Some(Class::EventSynchronize | Class::EventQuery), None) => all(),
            (Some(Class::Launch), Some(_)) if call.no_entry => Vec::new(),
            (Some(Class::Launch), Some(stream)) if !self.queue_is_full(stream) => all(),
            (Some(class), Some(stream)) if class.synchronizes() || waits_for_its_stream(class) => own(stream),
            _ => Vec::new(),
        }
    }

    /// The call in which the driver seems to compile: nothing is outstanding that it could wait for. The linker waits for no work.
    pub(super) fn compiles(&self) -> Option<&'a BlockedCall> {
        let is_idle = |call: &BlockedCall| {
            let same = |s: &&BusyStream| call.context == 0 || call.context == s.stream.context;
            let outstanding = self.snapshot.streams.iter().filter(same).any(|s| s.since() < call.entered);
            call.call.class() == Some(Class::Link) || !outstanding && self.unseen(call).is_none()
        };
        let computes =
            |call: &&BlockedCall| call.computes.is_some_and(ComputeTime::is_most) && !self.waits_for_its_kernel(call);
        self.snapshot.blocked.iter().filter(computes).find(|call| may_compute(call) && is_idle(call))
    }

    /// Whether a launch that loads waits for its own kernel, as `CUDA_LAUNCH_BLOCKING` has it: a compiler would have faulted pages by now, or had a child.
    pub(super) fn waits_for_its_kernel(&self, call: &BlockedCall) -> bool {
        let launches = matches!(call.call.class(), Some(Class::Launch | Class::GraphLaunch));
        let long = self.snapshot.threshold_nanos.saturating_mul(ALONE_THRESHOLDS);
        launches && self.snapshot.launch_blocking && call.alone_nanos >= long.max(1)
    }

    pub(super) fn queue_is_full(&self, stream: &StreamRef) -> bool {
        self.snapshot.stream(stream.number).is_some_and(|busy| queue_may_be_full(busy.outstanding))
    }

    /// The unfollowed work that a call may wait for.
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

    /// The same of a call that is quick by itself.
    pub(super) fn waits_for_unseen(&self, call: &BlockedCall) -> Option<Unseen<'a>> {
        let asks = |class: Class| matches!(class, Class::StreamQuery | Class::EventQuery);
        let waits = |class: Class| asks(class) || class.synchronizes() || waits_for_all(class);
        self.unseen(call).filter(|_| call.call.class().is_some_and(waits))
    }

    /// The needs without the stream on which nothing is outstanding but what the call is to submit itself.
    fn needs_but_its_own(&self, call: &BlockedCall) -> impl Iterator<Item = (u32, Nanos)> + '_ {
        let own = call.stream.as_ref().filter(|_| call.queries.is_none()).map(|stream| (stream.number, call.entered));
        let is_own = move |stream: u32| own == self.snapshot.stream(stream).map(|busy| (stream, busy.since()));
        self.needs(call).into_iter().filter(move |(stream, _)| !is_own(*stream))
    }

    pub(super) fn paths_of(&self, call: &BlockedCall) -> impl Iterator<Item = Path<'a>> + '_ {
        self.needs_but_its_own(call).filter_map(|(stream, until)| self.paths.from(stream, until))
    }

    /// The submissions to the stream at the end of a path while a call waits.
    pub(super) fn fed_behind(&self, path: &Path<'a>) -> Option<&'a FedStream> {
        let (End::Runs(culprit) | End::Peers(Peers { culprit, .. })) = &path.end else { return None };
        self.snapshot.fed.iter().find(|fed| fed.stream.number == culprit.stream.number)
    }

    /// The oldest operation that a call waits for, other than its own.
    pub(super) fn oldest(&self, call: &BlockedCall) -> Option<Path<'a>> {
        let is_own = |path: &Path<'a>| path.culprit().is_some_and(|culprit| culprit.operation.at >= call.entered);
        let paths = self.needs_but_its_own(call).filter_map(|(stream, until)| self.paths.oldest(stream, until));
        let others = paths.filter(|path| call.queries.is_some() || !is_own(path)).collect();
        let others = self.paths.without_doubtful(others);
        others.into_iter().min_by_key(|path| path.culprit().map(|culprit| culprit.operation.at))
    }

    /// The path that is least likely to end.
    pub(super) fn path(&self, call: &BlockedCall) -> Option<Path<'a>> {
        let paths = self.paths.without_doubtful(self.paths_of(call).collect());
        let path =
            paths.into_iter().min_by_key(|path| (path.rank(), self.fed_behind(path).is_some(), path.steps.len()))?;
        // A copy on the default stream may wait for the work before a barrier, which blocks the work that might end it.
        if path.barrier().is_none() && !loads_module(call) {
            return Some(self.behind_the_same(&path, |path| path.barrier().is_some()).unwrap_or(path));
        }
        Some(path)
    }

    /// A path to the same end from a stream whose work such a step blocks.
    pub(super) fn behind_the_same(&self, path: &Path<'a>, through: impl Fn(&Path<'a>) -> bool) -> Option<Path<'a>> {
        let (End::Runs(culprit) | End::Peers(Peers { culprit, .. })) = &path.end else { return None };
        let held_back = |s: &&BusyStream| s.stream.context == culprit.stream.context;
        let streams = self.snapshot.streams.iter().filter(held_back);
        streams
            .filter_map(|s| self.paths.from(s.stream.number, Nanos::MAX))
            .find(|p| through(p) && p.culprit() == Some(culprit))
    }
}

/// Whether such a call only waits for all that is in flight in its context.
fn waits_for_all(class: Class) -> bool {
    class.waits_for_whole_context() || class == Class::ContextSynchronize
}

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

/// Whether a stream may have passed a wait unseen: a long operation follows.
pub(super) fn may_have_passed(stream: &BusyStream, wait: &WaitSeen) -> bool {
    let takes_time = |op: &OperationSeen| {
        op.extent.is_some() && op.call.class().is_none_or(replay::takes_time)
            || matches!(op.call.class(), Some(Class::GraphLaunch | Class::HostFunction))
    };
    // The other nodes of a graph with such a node may run.
    let beside = |op: &OperationSeen| op.graph.as_ref().is_some_and(GraphSeen::runs_by_itself);
    let behind = |op: &OperationSeen| if op.at == wait.at { beside(op) } else { op.at > wait.at && takes_time(op) };
    !stream.lists_all() || stream.operations.iter().any(behind)
}
