//! The replay of a recording: its records go in, in the order in which their calls were entered, and facts come out.
//!
//! Each reader of a recording is a visitor of these facts, and keeps only what its own answer needs:
//!
//! | visitor | its answer | takes from here |
//! |---|---|---|
//! | `diagnose` (`SnapshotBuilder`) | what stands still, and why | proofs, events, images |
//! | `timing` of the command | where a start went; calls that blocked the host | work, images, outstanding operations |
//! | `export` of the command | operations of streams as slices | proofs, events |
//! | `live` of the command | time blocked, loads | work |
//! | `hazard` | deadlocks of another timing | rules |
//!
//! The live state ([`crate::state::Tracker`]) keeps the same facts in the recording's tables, by the proofs and rules of this module.
//!
//! Must not: treat as ended what may not have ended; or grow with the number of records.

mod images;
mod proofs;
mod remembered;
mod rules;
mod streams;
mod tables;
mod work;

pub use images::Images;
pub use proofs::{proves, shows_the_end, Proofs, Proven, Recorded, Scope};
pub use remembered::Remembered;
pub use rules::{
    fills_device, in_turn, more_than_a_queue_holds, part_of_waiting, queue_may_be_full, takes_time, waits_for_peers,
};
pub use streams::Streams;
pub use work::Work;

use crate::trace::read::Entry;
use crate::trace::Record;

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
        let ended = self.take_in(&entry.record);
        Fact { entry, ended, compiles: self.images.compiles(&entry.record), recorded }
    }

    /// What the record proves to have ended. A refused call has no effect.
    pub fn take_in(&mut self, record: &Record) -> Option<Proven> {
        if record.returned != 0 && record.result != 0 {
            return None;
        }
        self.images.see(record);
        self.proofs.see(record)
    }
}
