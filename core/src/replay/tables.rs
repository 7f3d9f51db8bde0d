//! The state of the streams when the process was last seen, from the recording's tables.

use crate::api::Operation;
use crate::trace::read::{Recording, Source, StreamSeen};
use crate::Nanos;

impl<S: Source> Recording<S> {
    pub fn stream(&self, number: u32) -> Option<&StreamSeen> {
        // In the order of their numbers.
        let streams = self.streams();
        streams.binary_search_by_key(&number, |stream| stream.number).ok().and_then(|at| streams.get(at))
    }

    pub fn idle_until(&self, context: u32) -> Nanos {
        self.contexts().iter().find(|c| c.number == context).map_or(0, |c| c.idle_until)
    }

    pub fn complete_until(&self, stream: &StreamSeen) -> Nanos {
        stream.complete_until.max(self.idle_until(stream.context))
    }

    pub fn oldest(&self, stream: &StreamSeen) -> Option<Operation> {
        stream.oldest(self.idle_until(stream.context))
    }

    pub fn calls_and_launches(&self) -> (u64, u64) {
        let facts = self.facts();
        self.threads().iter().fold((facts.former_calls, facts.former_launches), |(calls, launches), thread| {
            (calls.saturating_add(thread.calls), launches.saturating_add(thread.launches))
        })
    }
}
