//! The driver's answers about the busy streams during this standstill, and the streams about which it cannot be asked.
//!
//! A stream that the driver calls busy, or in which a thread is blocked, has something that has not ended. Nothing can be learnt of a stream
//! that was destroyed, or that is another thread's own default stream.
//!
//! Must not: count an answer from before this standstill.

use super::operation::BusyStream;
use super::snapshot::{BlockedCall, Snapshot};
use crate::api::{Class, StreamKind};
use crate::map::HashSet;

pub(super) struct Answers {
    busy: HashSet<u32>,
    silent: HashSet<u32>,
}

impl Answers {
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        let waiting = || snapshot.blocked.iter().filter(|call| call.past_threshold);
        let since = waiting().map(|call| call.entered).min().unwrap_or(snapshot.last_activity);
        // The legacy default stream is busy as well where it waits for the others.
        let may_say = |stream: &&BusyStream| stream.stream.kind != StreamKind::Legacy;
        let is_busy = |stream: &BusyStream| {
            let answered = stream.answered_busy >= stream.since().max(since) && stream.answered_busy != 0;
            answered || waiting().any(|call| shows_busy(call, stream))
        };
        let busy: HashSet<u32> =
            snapshot.streams.iter().filter(may_say).filter(|s| is_busy(s)).map(|s| s.stream.number).collect();
        let cannot_be_asked = |s: &&BusyStream| s.destroyed || s.stream.kind == StreamKind::PerThread;
        let silent = snapshot.streams.iter().filter(cannot_be_asked).map(|s| s.stream.number);
        let silent = silent.filter(|number| !busy.contains(number)).collect();
        Self { busy, silent }
    }

    pub(super) fn is_busy(&self, stream: u32) -> bool {
        self.busy.contains(&stream)
    }

    pub(super) fn is_silent(&self, stream: u32) -> bool {
        self.silent.contains(&stream)
    }
}

/// Whether a call would not wait if the stream had ended what was submitted to it.
fn shows_busy(call: &BlockedCall, stream: &BusyStream) -> bool {
    let is_about = call.stream.as_ref().is_some_and(|about| about.number == stream.stream.number);
    let until = match call.call.class() {
        Some(Class::StreamQuery) => call.queries.map(|_| crate::Nanos::MAX),
        Some(Class::StreamSynchronize) => Some(call.entered),
        Some(Class::EventSynchronize | Class::EventQuery) => call.event_recorded,
        _ => None,
    };
    is_about && until.is_some_and(|until| stream.since() <= until)
}
