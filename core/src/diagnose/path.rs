//! A wait-for path: its steps, and what it ends at.

use super::operation::{BusyStream, FedStream, OperationSeen, StreamRef};
use super::snapshot::{ColdLoadSeen, EventWaitSeen, FailureSeen, HostFunctionSeen, UnfollowedWork};
use super::verdict::Culprit;
use super::wait::WaitSeen;
use crate::api::Code;
use crate::Nanos;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SharedQueue<'a> {
    pub waits: &'a BusyStream,
    pub held_back: &'a OperationSeen,
    pub ahead: &'a BusyStream,
    pub head: &'a OperationSeen,
    pub queues: u32,
}

impl SharedQueue<'_> {
    pub const fn is_certain(&self) -> bool {
        self.queues == 1
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step<'a> {
    Barrier(&'a ColdLoadSeen),
    /// A value that an operation of this other stream writes.
    Writer(&'a WaitSeen, u32),
    Event(&'a EventWaitSeen),
    /// This stream's host function has not been called: host functions run one at a time.
    HostFunctions(&'a StreamRef),
    /// This stream waits for that one by the order of the legacy default stream.
    Legacy(&'a StreamRef, &'a StreamRef),
    /// This stream's copy between two devices, or graph that is launched there as well, also waits for that stream.
    Beside(&'a StreamRef, &'a OperationSeen, &'a StreamRef),
    /// A pool reused for this stream memory that was freed in the order of that one.
    Pool(&'a StreamRef, Nanos, &'a StreamRef),
    /// A launch that waits comes before this stream's in a hardware queue.
    Queue(SharedQueue<'a>),
    /// A grid that needs all its blocks resident finds no room.
    Room(&'a BusyStream),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End<'a> {
    Runs(Culprit),
    Peers(Peers),
    /// NCCL's own code: the call meets the other ranks.
    Meeting,
    /// The call itself: nothing in flight explains it.
    Driver,
    Unwritten(&'a WaitSeen, Culprit),
    Host(&'a HostFunctionSeen, Culprit),
    Filled(Culprit, Culprit),
    /// More is submitted to these streams without a pause; with the newest operation of the first.
    Fed(Vec<&'a FedStream>, Culprit),
    Unseen(Unseen<'a>),
    /// The context has failed, with the first call that gave its error.
    Failed(Option<&'a FailureSeen>),
    /// With the wait in the cycle, once the path has passed a wait.
    Cycle(Option<Culprit>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unseen<'a> {
    Stream,
    Streams,
    /// More streams were destroyed with work outstanding than are followed one by one.
    Destroyed(&'a UnfollowedWork),
}

impl End<'_> {
    /// How likely it is not to end, the likeliest first; and the code of a finding whose path ends there.
    pub fn rank_and_code(&self) -> (u8, Code) {
        match self {
            End::Failed(_) => (0, Code::LG212),
            End::Unwritten(..) | End::Cycle(_) => (1, Code::LG203),
            End::Host(..) => (2, Code::LG207),
            End::Filled(..) => (3, Code::LG206),
            End::Peers(..) | End::Meeting => (4, Code::LG208),
            // For a call that waits for an idle context, the end of the path is no explanation.
            End::Runs(_) => (5, Code::LG299),
            End::Fed(..) => (6, Code::LG299),
            End::Unseen(_) | End::Driver => (7, Code::LG299),
        }
    }
}

/// A kernel of a communication library, which waits for its peers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Peers {
    pub culprit: Culprit,
    /// Whether no later kernel of that kind may be the one that runs.
    pub is_known: bool,
    /// An earlier operation of its stream that may not have ended either.
    pub before: Option<OperationSeen>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Path<'a> {
    pub steps: Vec<Step<'a>>,
    pub end: End<'a>,
    /// Whether a later operation of the stream may be the one that does not end.
    pub or_later: bool,
    /// A load whose barrier would hold the stream as well, if this operation has not ended.
    pub unless: Option<Box<(&'a ColdLoadSeen, Culprit)>>,
}

impl<'a> Path<'a> {
    pub(super) fn to(end: End<'a>) -> Self {
        Self { steps: Vec::new(), end, or_later: false, unless: None }
    }

    pub(super) fn behind(mut self, step: Step<'a>) -> Self {
        self.steps.insert(0, step);
        self
    }

    pub fn culprit(&self) -> Option<&Culprit> {
        match &self.end {
            End::Runs(culprit)
            | End::Peers(Peers { culprit, .. })
            | End::Unwritten(_, culprit)
            | End::Host(_, culprit)
            | End::Filled(_, culprit)
            | End::Fed(_, culprit) => Some(culprit),
            End::Cycle(culprit) => culprit.as_ref(),
            End::Meeting | End::Driver | End::Unseen(_) | End::Failed(_) => None,
        }
    }

    pub fn culprits(&self) -> Vec<Culprit> {
        self.culprit().cloned().into_iter().collect()
    }

    /// The number of the stream at which it begins.
    pub fn begins_on(&self) -> Option<u32> {
        match self.steps.first() {
            Some(Step::Barrier(load)) => load.stream.as_ref().map(|stream| stream.number),
            Some(Step::Writer(wait, _)) => Some(wait.stream.number),
            Some(Step::Event(wait)) => Some(wait.stream),
            Some(Step::HostFunctions(on) | Step::Legacy(on, _) | Step::Beside(on, ..) | Step::Pool(on, ..)) => {
                Some(on.number)
            }
            Some(Step::Queue(shared)) => Some(shared.waits.stream.number),
            Some(Step::Room(on)) => Some(on.stream.number),
            None => self.culprit().map(|culprit| culprit.stream.number),
        }
    }

    /// Whether the other ranks of a job end the wait.
    pub fn ends_at_ranks(&self) -> bool {
        matches!(self.end, End::Peers(_) | End::Meeting)
    }

    pub fn barrier(&self) -> Option<&'a ColdLoadSeen> {
        self.steps.iter().find_map(|step| if let Step::Barrier(load) = step { Some(*load) } else { None })
    }

    pub fn shared_queue(&self) -> Option<SharedQueue<'a>> {
        self.steps.iter().find_map(|step| if let Step::Queue(shared) = step { Some(*shared) } else { None })
    }

    /// The waits for values of which the path takes the writers' streams.
    pub fn waits(&self) -> impl Iterator<Item = &'a WaitSeen> + '_ {
        self.steps.iter().filter_map(|step| if let Step::Writer(wait, _) = step { Some(*wait) } else { None })
    }

    /// Whether a store of the host to one of its waits' memory lets the streams go on.
    pub fn may_be_armed(&self) -> bool {
        self.waits().any(|wait| wait.holds.is_some())
    }

    /// Whether a program that goes on may mean it: a server's kernel, or streams that wait for a later store of the host.
    pub fn may_be_meant(&self) -> bool {
        match &self.end {
            End::Unwritten(wait, _) => wait.holds.is_some(),
            End::Cycle(_) => self.may_be_armed(),
            end => matches!(end, End::Runs(_) | End::Peers(_)),
        }
    }

    /// A cycle, a called host function and a looked-at value are known not to have ended.
    pub fn shows_itself(&self) -> bool {
        match &self.end {
            End::Runs(_) | End::Peers(_) | End::Filled(..) | End::Unseen(_) => false,
            End::Unwritten(wait, _) => wait.holds.is_some(),
            End::Host(host, _) => !host.or_another,
            End::Cycle(_) | End::Fed(..) | End::Meeting | End::Driver | End::Failed(_) => true,
        }
    }

    pub fn rank(&self) -> u8 {
        if self.barrier().is_some() {
            0
        } else {
            self.end.rank_and_code().0
        }
    }
}

pub(super) fn culprit(busy: &BusyStream, operation: &OperationSeen) -> Culprit {
    Culprit { stream: busy.stream.clone(), operation: operation.clone() }
}
