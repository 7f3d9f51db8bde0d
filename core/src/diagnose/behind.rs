//! The work behind collectives that are about to be revoked: the streams whose results mean nothing afterwards, and those of them that no driver call can
//! say so of.

use super::operation::{BusyStream, OperationSeen};
use super::snapshot::{BlockedCall, Snapshot};
use crate::api::{Call, Class, NodeKind, StreamKind};
use crate::Nanos;

/// A stream with work behind collectives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Behind {
    pub stream: u32,
    /// A bit for each communicator.
    pub communicators: u64,
    /// Work submitted from then on may be behind.
    pub since: Nanos,
}

/// The streams of unended work behind collectives of communicators. `of_stream` has the bits of the communicators that were used on a stream, `all` those of all.
///
/// A stream counts with all communicators where the recording does not say what it waits for.
pub fn behind(snapshot: &Snapshot, all: u64, of_stream: impl Fn(u32) -> u64) -> Vec<Behind> {
    let seed = |busy: &BusyStream| {
        let collective = busy.operations.iter().find(|op| op.waits_for_peers());
        let (communicators, since) = match (of_stream(busy.stream.number), collective) {
            (0, None) if busy.lists_its_oldest() => return None,
            (0, found) => (all, found.map_or(busy.since(), |op| op.at)),
            (used, found) => (used, found.map_or(busy.since(), |op| op.at)),
        };
        Some(Behind { stream: busy.stream.number, communicators, since })
    };
    let mut found: Vec<_> = snapshot.streams.iter().filter_map(seed).collect();
    // Each round adds a communicator to a stream, or ends.
    while joins(snapshot, &mut found) {}
    found
}

/// Adds the streams that wait for one of those; whether there is a new one.
fn joins(snapshot: &Snapshot, found: &mut Vec<Behind>) -> bool {
    let mut new = Vec::new();
    for one in &*found {
        let waits = snapshot.event_waits.iter().filter(|wait| {
            // An event of stream 0 stands for a whole context.
            [0, one.stream].contains(&wait.recorded_on) && wait.recorded >= one.since
        });
        new.extend(waits.map(|wait| Behind { stream: wait.stream, since: wait.at, ..*one }));
        let Some(own) = snapshot.stream(one.stream) else { continue };
        for other in snapshot.streams.iter().filter(|other| other.waits_by_default_for(own)) {
            let later = other.operations.iter().find(|op| op.at > one.since);
            new.extend(later.map(|op| Behind { stream: other.stream.number, since: op.at, ..*one }));
        }
    }
    new.into_iter().fold(false, |any, one| any | join(found, one))
}

fn join(found: &mut Vec<Behind>, one: Behind) -> bool {
    let Some(known) = found.iter_mut().find(|known| known.stream == one.stream) else {
        found.push(one);
        return true;
    };
    let is_new = one.communicators & !known.communicators != 0 || one.since < known.since;
    known.communicators |= one.communicators;
    known.since = known.since.min(one.since);
    is_new
}

impl BusyStream {
    /// Whether nothing that the stream waits for can be missing from the list.
    fn lists_its_oldest(&self) -> bool {
        self.all_recorded || self.operations.iter().any(|op| op.at == self.oldest.at)
    }

    /// Whether its work waits for the other's earlier work, as a legacy default stream and the blocking streams do.
    fn waits_by_default_for(&self, other: &Self) -> bool {
        let (one, two) = (&self.stream, &other.stream);
        one.number != two.number && one.context == two.context && waits_by_default(one.kind, two.kind)
    }
}

/// Whether work of streams of these kinds runs in the order of its submission.
pub fn waits_by_default(one: StreamKind, other: StreamKind) -> bool {
    let is_legacy = |kind| kind == StreamKind::Legacy;
    let is_blocking = |kind| !matches!(kind, StreamKind::NonBlocking | StreamKind::Legacy);
    is_legacy(one) && is_blocking(other) || is_blocking(one) && is_legacy(other)
}

/// A bit for each communicator of the streams on which collectives are behind those, beside the first one of a stream; `of_stream` has the bits of all that
/// have used a stream. All of them behind a graph's, whose streams are not known.
pub fn chained(snapshot: &Snapshot, behind: &[Behind], of_stream: impl Fn(u32) -> u64) -> u64 {
    let on_stream = |one: &Behind| {
        let Some(busy) = snapshot.stream(one.stream) else { return 0 };
        let used = of_stream(one.stream);
        let collectives = || busy.operations.iter().filter(|op| op.at >= one.since && op.waits_for_peers());
        if collectives().any(|op| op.graph.is_some()) {
            return u64::MAX;
        }
        // The first is one of theirs, on a stream that these have used.
        let theirs = usize::from(used & one.communicators != 0);
        if collectives().count() > theirs || !busy.lists_all() {
            used
        } else {
            0
        }
    };
    behind.iter().fold(0, |all, one| all | on_stream(one))
}

/// Why no driver call could say that a revoke has made this work meaningless. `is_own` knows the callers in NCCL, `is_told` the blocked calls whose error
/// reaches the program.
pub fn untold(
    snapshot: &Snapshot,
    behind: &[Behind],
    is_told: impl Fn(&BlockedCall) -> bool,
    is_own: impl Fn(u64) -> bool,
) -> Option<String> {
    let told: Vec<_> = snapshot.blocked.iter().filter(|call| !is_release(call) && is_told(call)).collect();
    behind.iter().find_map(|one| {
        let busy = snapshot.stream(one.stream)?;
        let later = busy.operations.iter().filter(|op| op.at >= one.since && !is_own(op.origin.caller));
        let waits = told.iter().any(|call| waits_for(call, one, behind));
        let what = later.filter_map(|op| tells_memory(op, waits)).next()?;
        Some(format!(
            "{what} behind the collective on stream {} would run as if that had ended, and no driver call can say otherwise",
            one.stream
        ))
    })
}

fn is_release(call: &BlockedCall) -> bool {
    call.call.class().is_some_and(Class::releases)
}

/// Whether the thread in this call learns of the stream's collectives: it waits for the stream, for one that is behind the same, or for the whole context.
fn waits_for(call: &BlockedCall, one: &Behind, behind: &[Behind]) -> bool {
    let is_of_context = call.cold.is_some() || call.call.class().is_some_and(Class::needs_an_idle_context);
    let Some(stream) = call.stream.as_ref().filter(|_| !is_of_context) else { return true };
    let is_behind = |waited: &Behind| waited.stream == stream.number && one.communicators & !waited.communicators == 0;
    behind.iter().any(is_behind)
}

/// The words that an operation stores in the host's memory.
fn tells_memory(operation: &OperationSeen, waits: bool) -> Option<&'static str> {
    let part = |kind| operation.graph.iter().flat_map(|graph| &graph.parts).any(|part| part.kind == kind);
    match operation.call.class()? {
        Class::HostFunction => Some("a host function"),
        Class::WriteValue | Class::BatchMemOp => Some("a write of a value"),
        Class::GraphLaunch if part(NodeKind::HostFunction) => Some("a graph's host function"),
        Class::GraphLaunch if part(NodeKind::ValueWrite) => Some("a graph's write of a value"),
        Class::CopyAsync if !waits && copies_to_the_host(&operation.call) => {
            Some("a copy to the host, for which no thread waits in a driver call,")
        }
        _ => None,
    }
}

fn copies_to_the_host(call: &Call) -> bool {
    matches!(call, Call::Known(entry_point) if entry_point.may_copy_to_the_host())
}

#[cfg(test)]
mod tests {
    use super::super::test_trace::TestTrace;
    use super::*;

    const COLLECTIVE: &str = "ncclDevKernel_AllReduce_Sum_f32_RING_LL";
    const ONE: u64 = 2;
    const BOTH: u64 = 6;

    /// The streams behind, by their place in the story, with the communicators. The first stream is the first communicator's.
    fn found(story: &TestTrace) -> Vec<(usize, u64, Nanos)> {
        let [first, second, _] = story.streams;
        let of_stream = |number| {
            if number == first {
                ONE
            } else if number == second {
                BOTH & !ONE
            } else {
                0
            }
        };
        let place = |number| story.streams.iter().position(|one| *one == number).unwrap();
        let mut found: Vec<_> = behind(&story.snapshot(), BOTH, of_stream)
            .into_iter()
            .map(|one| (place(one.stream), one.communicators, one.since))
            .collect();
        found.sort_unstable();
        found
    }

    #[test]
    fn a_stream_is_behind_its_own_collective_and_another_one_if_it_waits_for_a_later_event() {
        let story = TestTrace::new();
        story.launch(0, 10, "k").about(0, 12, "cuEventRecord", 0xe0, 0).launch(0, 14, COLLECTIVE);
        story.about(2, 16, "cuStreamWaitEvent", 0xe0, 0).launch(2, 18, "k");
        assert_eq!(found(&story), [(0, ONE, 14)], "the event was recorded before the collective");
        story.about(0, 20, "cuEventRecord", 0xe1, 0).about(2, 22, "cuStreamWaitEvent", 0xe1, 0);
        assert_eq!(found(&story), [(0, ONE, 14), (2, ONE, 22)]);
        story.launch(1, 24, COLLECTIVE).about(1, 26, "cuEventRecord", 0xe2, 0);
        story.about(2, 28, "cuStreamWaitEvent", 0xe2, 0);
        assert_eq!(found(&story), [(0, ONE, 14), (1, BOTH & !ONE, 24), (2, BOTH, 22)]);
    }

    #[test]
    fn work_on_the_default_stream_is_behind_earlier_work_of_blocking_streams() {
        for kind in [StreamKind::Blocking, StreamKind::NonBlocking] {
            assert!(waits_by_default(kind, StreamKind::Legacy) == (kind == StreamKind::Blocking));
            assert!(!waits_by_default(kind, kind) && !waits_by_default(StreamKind::Legacy, StreamKind::Legacy));
        }
    }

    #[test]
    fn a_collective_on_a_stream_of_no_known_communicator_counts_for_all() {
        let story = TestTrace::new();
        story.launch(2, 10, COLLECTIVE);
        assert_eq!(found(&story), [(2, BOTH, 10)]);
        let mut snapshot = story.snapshot();
        snapshot.streams[0].operations.clear();
        assert_eq!(behind(&snapshot, BOTH, |_| 0), [], "everything was recorded");
        snapshot.streams[0].all_recorded = false;
        assert_eq!(behind(&snapshot, BOTH, |_| 0).len(), 1, "its oldest operation is not known");
    }

    #[test]
    fn host_functions_writes_and_copies_that_no_thread_waits_for_are_not_told_of() {
        let why = |call: &str, at: u64, waits: Option<(usize, &str)>| {
            let story = TestTrace::new();
            story.launch(0, 10, COLLECTIVE).call(&story.submit(0, at, call), 0);
            story.launch(1, 12, COLLECTIVE);
            waits.into_iter().for_each(|(stream, call)| _ = story.waits(77, 30, call, Some(stream)));
            let snapshot = story.snapshot();
            let [first, second, _] = story.streams;
            let bits = |stream| {
                [(first, ONE), (second, BOTH & !ONE)]
                    .iter()
                    .find(|(one, _)| *one == stream)
                    .map_or(0, |(_, bits)| *bits)
            };
            let behind = behind(&snapshot, BOTH, bits);
            assert_eq!(untold(&snapshot, &behind, |_| true, |_| true), None, "they are NCCL's own");
            untold(&snapshot, &behind, |_| true, |_| false)
        };
        let waits = Some((0, "cuStreamSynchronize"));
        let said = why("cuLaunchHostFunc", 20, waits).unwrap();
        assert!(said.starts_with("a host function behind the collective on stream 1 would run"), "{said}");
        assert!(why("cuStreamWriteValue32_v2", 20, waits).is_some());
        assert_eq!(why("cuLaunchHostFunc", 5, waits), None, "it comes before the collective");
        assert_eq!(why("cuMemcpyDtoHAsync_v2", 20, waits), None);
        for other in [None, Some((1, "cuStreamSynchronize")), Some((0, "cuMemFree_v2"))] {
            let said = why("cuMemcpyDtoHAsync_v2", 20, other);
            assert!(said.is_some_and(|said| said.contains("no thread waits")), "{other:?}");
        }
        assert_eq!(why("cuMemcpyHtoDAsync_v2", 20, None), None);
    }

    #[test]
    fn a_collective_behind_another_communicators_is_found_on_its_stream_and_on_one_that_waits() {
        let story = TestTrace::new();
        let [first, second, third] = story.streams;
        let of = |pairs: &[(u32, u64)], stream| {
            pairs.iter().filter(|(one, _)| *one == stream).fold(0, |all, (_, bits)| all | bits)
        };
        let (meant, used) = ([(first, ONE)], [(first, BOTH), (second, BOTH & !ONE), (third, BOTH & !ONE)]);
        let found = |story: &TestTrace| {
            let snapshot = story.snapshot();
            chained(&snapshot, &behind(&snapshot, ONE, |stream| of(&meant, stream)), |stream| of(&used, stream)) & !ONE
        };
        story.launch(0, 10, COLLECTIVE).launch(1, 11, "k");
        assert_eq!(found(&story), 0, "the other communicator has used the stream before");
        story.about(0, 12, "cuEventRecord", 0xe0, 0).about(2, 14, "cuStreamWaitEvent", 0xe0, 0).launch(2, 16, "k");
        assert_eq!(found(&story), 0);
        story.launch(2, 18, COLLECTIVE);
        assert_eq!(found(&story), BOTH & !ONE, "on a stream that waits");
        let story = TestTrace::new();
        story.launch(0, 10, COLLECTIVE).launch(0, 12, COLLECTIVE);
        let [first, ..] = story.streams;
        let snapshot = story.snapshot();
        let behind = behind(&snapshot, ONE, |stream| if stream == first { ONE } else { 0 });
        assert_eq!(chained(&snapshot, &behind, |_| BOTH) & !ONE, BOTH & !ONE, "on its stream");
    }
}
