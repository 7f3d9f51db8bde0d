//! Launches that cannot start because of a launch of another stream, which comes before them in a hardware queue.
//!
//! Streams share the hardware queues of their context (`CUDA_DEVICE_MAX_CONNECTIONS`). A launch that waits for earlier work of its own stream
//! stays at the head of its queue, and launches of other streams behind it wait as well. The driver does not say which streams share a queue:
//! where more streams are in use than there are queues, two streams *may*, and the verdict says so.
//!
//! Must not: take a stream for busy without knowing that it is.

use super::operation::{BusyStream, Extent, OperationSeen};
use super::path::{End, Path, SharedQueue, Step};
use super::paths::{Paths, Way};
use crate::api::Class;
use crate::{order, Nanos};

/// The driver's number of queues, where `CUDA_DEVICE_MAX_CONNECTIONS` is not set.
const QUEUES_AT_FIRST: u32 = 8;

impl<'a> Paths<'a> {
    /// The path through a launch that is before this stream's in a hardware queue and waits itself. A path has one such step.
    pub(super) fn queued(&self, busy: &'a BusyStream, until: Nanos, way: &mut Way) -> Option<Path<'a>> {
        let queues = self.snapshot.connections.unwrap_or(QUEUES_AT_FIRST);
        // More streams than queues are in use, as far as the numbers of the busy ones show.
        let may_share = queues == 1 || self.snapshot.streams.iter().any(|s| s.stream.number > queues);
        if !may_share || !self.answers.is_busy(busy.stream.number) || self.in_queue.replace(true) {
            return None;
        }
        let own = || launches(busy).filter(|op| op.at <= until);
        let is_other = |s: &&BusyStream| {
            s.stream.context == busy.stream.context
                && s.stream.number != busy.stream.number
                && self.answers.is_busy(s.stream.number)
        };
        let others = self.snapshot.streams.iter().filter(is_other);
        // The last launch of a stream waits for everything that the others before it wait for.
        let last = own().last().map_or(0, |op| op.at);
        let heads = others.filter_map(|s| Some((s, launches(s).filter(|head| head.at < last).last()?)));
        let mut heads: Vec<_> = heads.collect();
        order::sort_by_key(&mut heads, |(_, head)| head.at);
        let paths = heads.into_iter().filter_map(|(ahead, head)| {
            let held_back = own().find(|op| op.at > head.at)?;
            way.push((busy.stream.number, held_back.at));
            let path = self.find(ahead.stream.number, head.at.saturating_sub(1), way);
            way.pop();
            let shared = SharedQueue { waits: busy, held_back, ahead, head, queues };
            path.filter(|path| self.is_believable(path, &shared)).map(|path| path.behind(Step::Queue(shared)))
        });
        let path = paths.min_by_key(Path::rank);
        self.in_queue.set(false);
        path
    }

    /// Whether the path explains the wait better than an endless launch. A kernel at its end may have ended, and then holds up no queue.
    fn is_believable(&self, path: &Path<'a>, shared: &SharedQueue<'a>) -> bool {
        let (certain, is_collective) = (shared.is_certain(), shared.held_back.waits_for_peers());
        let is_first = shared.waits.front().at == shared.held_back.at;
        match &path.end {
            End::Runs(culprit) => certain && is_first && !is_collective || self.has_not_ended(culprit),
            End::Peers(_) => certain || is_collective,
            _ => true,
        }
    }
}

fn launches(busy: &BusyStream) -> impl Iterator<Item = &OperationSeen> {
    let is_launch = |op: &&OperationSeen| matches!(op.extent, Some(Extent::Grid { .. }));
    busy.operations.iter().filter(|op| op.call.class() == Some(Class::Launch)).filter(is_launch)
}

#[cfg(test)]
#[path = "shared_queue_tests.rs"]
mod tests;
