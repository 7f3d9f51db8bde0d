//! Decides which of several paths to believe, where an operation may have ended without the guard knowing.

use super::operation::OperationSeen;
use super::path::{End, Path, Peers, Step};
use super::paths::Paths;
use super::snapshot::BlockedCall;
use super::verdict::Culprit;
use crate::api::Class;
use crate::replay::takes_time;
use crate::Nanos;

impl<'a> Paths<'a> {
    pub(super) fn ends_busy(&self, path: &Path<'a>) -> bool {
        path.culprit().is_some_and(|culprit| self.answers.is_busy(culprit.stream.number))
    }

    /// Whether the end of the path may have ended long ago, and the driver cannot be asked.
    pub(super) fn may_be_over(&self, path: &Path<'a>) -> bool {
        !path.shows_itself() && path.culprit().is_some_and(|culprit| self.answers.is_silent(culprit.stream.number))
    }

    /// Drops paths that may be over, where another one ends on a stream known to be busy.
    pub(super) fn without_doubtful(&self, mut paths: Vec<Path<'a>>) -> Vec<Path<'a>> {
        if paths.iter().any(|path| self.ends_busy(path)) {
            paths.retain(|path| !self.may_be_over(path));
        }
        paths
    }

    /// The likelier of two paths through gates of one stream, which may have come through the former gate.
    pub(super) fn likelier(&self, former: Path<'a>, later: Path<'a>) -> Path<'a> {
        // An unwritten value, a cycle or a host function explains the wait without a kernel that never ends.
        let explains = matches!(later.end, End::Unwritten(..) | End::Cycle(_) | End::Host(..));
        if explains && self.may_be_passed(&former) {
            let unless = former.barrier().zip(former.culprit().cloned()).map(Box::new);
            return Path { unless, ..later };
        }
        if self.may_be_over(&former) && self.ends_busy(&later) {
            return later;
        }
        former
    }

    /// Whether the path goes through the barrier of a returned load whose earlier work may have ended since, or ends at its own wait, which a write
    /// that was overwritten may have ended.
    pub(super) fn may_be_passed(&self, path: &Path<'a>) -> bool {
        if let (true, End::Unwritten(wait, _)) = (path.steps.is_empty(), &path.end) {
            return wait.overtaken;
        }
        let (Some(Step::Barrier(load)), End::Runs(culprit) | End::Peers(Peers { culprit, .. })) =
            (path.steps.first(), &path.end)
        else {
            return false;
        };
        let is_load = |call: &&BlockedCall| call.thread == load.thread && call.entered == load.at;
        !self.snapshot.blocked.iter().any(|call| is_load(&call)) && !self.has_not_ended(culprit)
    }

    /// Whether the operation's stream is busy, and nothing later there can keep it so.
    pub(super) fn has_not_ended(&self, culprit: &Culprit) -> bool {
        let (number, at) = (culprit.stream.number, culprit.operation.at);
        let not_ready = self.not_ready.get(&number).copied();
        let Some(busy) = self.busy.get(&number).filter(|_| self.answers.is_busy(number) || not_ready.is_some()) else {
            return false;
        };
        let bound = not_ready.unwrap_or(Nanos::MAX);
        let keeps_busy =
            |op: &OperationSeen| op.call.class().is_none_or(|c| takes_time(c) || c == Class::StreamWaitEvent);
        let is_later = |op: &&OperationSeen| op.at > at && op.at <= bound;
        (busy.lists_all() || not_ready.is_some()) && !busy.operations.iter().filter(is_later).any(keeps_busy)
    }
}
