//! The replay of a recording: its records go in, in the order in which their calls were entered, and facts come out.
//!
//! The live state ([`crate::state::Tracker`]) keeps the same facts in the recording's tables, by the proofs and rules of this module.
//!
//! Must not: treat as ended what may not have ended; or grow with the number of records.

mod images;
mod proofs;
mod remembered;
mod rules;
mod streams;

pub use images::Images;
pub use proofs::{proves, shows_the_end, Proofs, Proven, Recorded, Scope};
pub use remembered::Remembered;
pub use rules::{
    fills_device, in_turn, is_transfer, may_never_end, more_than_a_queue_holds, part_of_waiting, queue_may_be_full,
    takes_time, waits_for_peers,
};
pub use streams::Streams;

use crate::api::Operation;
use crate::trace::read::{Entry, Recording, Source, StreamSeen};
use crate::trace::Record;
use crate::Nanos;

#[derive(Default)]
pub struct Replay {
    pub proofs: Proofs,
    pub images: Images,
}

/// A record, with what the earlier ones add to it.
#[derive(Clone, Copy)]
pub struct Fact<'a> {
    pub entry: &'a Entry,
    pub ended: Option<Proven>,
    pub compiles: bool,
    /// The earlier record of the call's event.
    pub recorded: Option<Recorded>,
}

impl Replay {
    pub fn see<'a>(&mut self, entry: &'a Entry) -> Fact<'a> {
        let recorded = entry.record.event().and_then(|event| self.proofs.event(event));
        Fact { entry, ended: self.take_in(&entry.record), compiles: self.images.compiles(&entry.record), recorded }
    }

    /// Takes in a record, and returns what it proves to have ended. A refused call has no effect.
    pub fn take_in(&mut self, record: &Record) -> Option<Proven> {
        if record.is_refused() {
            return None;
        }
        self.images.see(record);
        self.proofs.see(record)
    }
}

/// The state of the streams when the process was last seen, from the tables.
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
        stream.work.complete_until.max(self.idle_until(stream.context))
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
