//! Launches that cannot start because of a launch of another stream, which comes before them in a hardware queue.
//!
//! Streams share the hardware queues of their context, as many as `CUDA_DEVICE_MAX_CONNECTIONS` says, and the driver gives the device the launches of
//! one queue in the order of their submission. A launch that waits for earlier work of its own stream stays at the head of its queue, and the launches
//! of other streams behind it wait as well. A launch that runs holds up none.
//!
//! With one queue all streams share it. With more the driver does not say which streams share one. So where more streams are in use than there are
//! queues, two streams *may*, and the verdict says so.
//!
//! Must not: take a stream for busy of which nothing is known, or say of two streams that they share a queue where they only may.

use super::messages;
use super::paths::{End, Path, Paths, Step};
use super::snapshot::{BusyStream, Extent, OperationSeen, Snapshot};
use crate::api::Class;
use crate::order;
use crate::Nanos;

/// The driver's number of queues, where `CUDA_DEVICE_MAX_CONNECTIONS` is not set.
const QUEUES_AT_FIRST: u32 = 8;

/// A launch that comes behind another stream's launch in a hardware queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SharedQueue<'a> {
    /// The stream whose first launch waits.
    pub waits: &'a BusyStream,
    /// The stream of the launch at the head of the queue, and that launch.
    pub ahead: &'a BusyStream,
    pub head: &'a OperationSeen,
    /// How many queues there are. One is shared by all streams.
    pub queues: u32,
}

impl SharedQueue<'_> {
    /// Whether both streams are known to share a queue.
    pub const fn is_certain(&self) -> bool {
        self.queues == 1
    }
}

impl Snapshot {
    /// A collective that cannot start because of a hardware queue in which the collective at the end of the path has stopped the launches, in a sentence.
    pub fn collective_behind_a_queue(&self) -> Option<String> {
        let paths = Paths::new(self);
        let collectives = self.streams.iter().filter(|stream| stream.front().waits_for_peers());
        collectives.into_iter().find_map(|stream| {
            let path = paths.from(stream.stream.number, Nanos::MAX).filter(|path| matches!(path.end, End::Peers(_)))?;
            let shared = path.shared_queue().filter(|shared| shared.waits.stream == stream.stream)?;
            Some(messages::behind_in_a_queue(&shared, &path))
        })
    }

    fn queues(&self) -> u32 {
        self.connections.unwrap_or(QUEUES_AT_FIRST)
    }

    /// Whether more streams than queues are in use, as far as the numbers of the busy ones show.
    fn has_more_streams_than_queues(&self) -> bool {
        self.streams.iter().any(|stream| stream.stream.number > self.queues())
    }
}

impl<'a> Path<'a> {
    /// The first shared queue on the path.
    pub(super) fn shared_queue(&self) -> Option<SharedQueue<'a>> {
        self.steps.iter().find_map(|step| match step {
            Step::Queue(shared) => Some(*shared),
            _ => None,
        })
    }
}

impl<'a> Paths<'a> {
    /// The path from a stream's first launch through a launch of another stream that is before it in a hardware queue and waits itself.
    pub(super) fn queued(
        &self,
        busy: &'a BusyStream,
        until: Nanos,
        on_the_way: &mut Vec<(u32, Nanos)>,
    ) -> Option<Path<'a>> {
        let (first, queues) = (busy.front(), self.snapshot.queues());
        let may_share = queues == 1 || self.snapshot.has_more_streams_than_queues();
        if !may_share || !is_launch(first) || first.at > until || !self.answers.is_busy(busy.stream.number) {
            return None;
        }
        let is_other = |s: &&BusyStream| {
            s.stream.context == busy.stream.context
                && s.stream.number != busy.stream.number
                && self.answers.is_busy(s.stream.number)
        };
        let others = self.snapshot.streams.iter().filter(is_other);
        let mut before: Vec<_> = others.flat_map(|s| launches(s).map(move |head| (s, head))).collect();
        before.retain(|(_, head)| head.at < first.at);
        order::sort_by_key(&mut before, |(_, head)| head.at);
        on_the_way.push((busy.stream.number, first.at));
        let path = before.into_iter().find_map(|(ahead, head)| {
            let path = self.find(ahead.stream.number, head.at.saturating_sub(1), on_the_way)?;
            Some(path.behind(Step::Queue(SharedQueue { waits: busy, ahead, head, queues })))
        });
        on_the_way.pop();
        path
    }
}

fn is_launch(operation: &OperationSeen) -> bool {
    operation.call.class() == Some(Class::Launch) && matches!(operation.extent, Some(Extent::Grid { .. }))
}

/// The first launch of a stream that may wait for something before it there: the second one does where the first has not ended.
fn launches(busy: &BusyStream) -> impl Iterator<Item = &OperationSeen> {
    busy.operations.iter().filter(|op| is_launch(op)).take(2)
}

#[cfg(test)]
#[path = "shared_queue_tests.rs"]
mod tests;
