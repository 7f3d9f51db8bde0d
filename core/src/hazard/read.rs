//! The hazards of a recording.

use super::aggregator::{Aggregator, Names};
use super::event::HazardEvent;
use super::Hazard;
use crate::trace::read::{Entry, Recording, Source};
use crate::trace::Lane;

/// What a recording holds of hazards. Show it each record ([`Gathered::see`]), then take them.
#[derive(Default)]
pub struct Gathered(Aggregator);

impl Gathered {
    /// Takes in a record.
    pub fn see<S: Source>(&mut self, recording: &Recording<S>, entry: &Entry) {
        let Some(noted) = HazardEvent::of(&entry.record, entry.thread) else { return };
        let texts = recording.strings();
        let name = |number: u32| texts.function(number, noted.noted).and_then(|function| function.name);
        let class = noted.class_or(|| texts.stream(noted.stream, noted.noted).map(|stream| stream.kind));
        self.0.read(&noted, class, Names { kernel: name(noted.function), other: name(noted.other.function) });
    }

    /// The hazards, by when they arose first.
    pub fn hazards<S: Source>(&self, recording: &Recording<S>) -> Vec<Hazard> {
        let lost = |summary: &crate::trace::read::LaneUse| summary.overwritten > 0 || summary.dropped > 0;
        self.0.hazards(recording.lanes().iter().any(|summary| summary.lane == Lane::RareEvents && lost(summary)))
    }
}

/// The hazards of a recording, from its records, by when they arose first.
pub fn hazards_of<S: Source>(recording: &Recording<S>, records: impl IntoIterator<Item = Entry>) -> Vec<Hazard> {
    let mut gathered = Gathered::default();
    records.into_iter().for_each(|entry| gathered.see(recording, &entry));
    gathered.hazards(recording)
}
