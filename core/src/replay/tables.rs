//! The state of the streams beside the records: a recording's tables have it as it was when the process was last seen.

use crate::api::Operation;
use crate::trace::read::{Recording, Source, StreamSeen};
use crate::Nanos;

impl<S: Source> Recording<S> {
    /// The stream that has this number now.
    pub fn stream(&self, number: u32) -> Option<&StreamSeen> {
        // They are in the order of their numbers, as in the table.
        let streams = self.streams();
        streams.binary_search_by_key(&number, |stream| stream.number).ok().and_then(|at| streams.get(at))
    }

    /// The time until which everything in a context is known to have ended.
    pub fn idle_until(&self, context: u32) -> Nanos {
        self.contexts().iter().find(|c| c.number == context).map_or(0, |c| c.idle_until)
    }

    /// The time until which everything on a stream is known to have ended.
    pub fn complete_until(&self, stream: &StreamSeen) -> Nanos {
        stream.complete_until.max(self.idle_until(stream.context))
    }

    /// The oldest operation of a stream that is not known to have ended, if there is one.
    pub fn oldest(&self, stream: &StreamSeen) -> Option<Operation> {
        stream.oldest(self.idle_until(stream.context))
    }

    /// The driver calls made, and the launches among them.
    pub fn calls_and_launches(&self) -> (u64, u64) {
        let facts = self.facts();
        self.threads().iter().fold((facts.former_calls, facts.former_launches), |(calls, launches), thread| {
            (calls.saturating_add(thread.calls), launches.saturating_add(thread.launches))
        })
    }
}
