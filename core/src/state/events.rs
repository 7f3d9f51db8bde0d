//! Events, and the contents of executable graphs.

use super::event::Event;
use super::event::Recorded;
use super::thread::ThreadSlot;
use super::tracker::Tracker;
use crate::api::{GraphContents, GraphPart};
use crate::sync::lock;
use crate::Nanos;
use std::sync::atomic::Ordering;

/// Executable graphs whose nodes are kept; one more is not listed.
const MOST_GRAPHS: usize = 4096;

impl Tracker {
    /// The event with this number, if it is still the one with this handle.
    #[inline]
    pub fn event_at(&self, number: u32, handle: u64) -> Option<&Event> {
        self.events.get(number).filter(|event| event.is_of(handle))
    }

    /// The number of an event that was recorded, or 0.
    pub fn known_event(&self, handle: u64) -> u32 {
        self.event_numbers.get(&handle).map_or(0, |number| *number)
    }

    /// An event was recorded ([`Event::record`]). Returns its number.
    pub fn event_recorded(&self, handle: u64, stream: u32, operations: u64, context: u32, at: Nanos) -> u32 {
        let new = || {
            let number = self.events.take();
            self.events.get(number).into_iter().for_each(|event| event.handle.store(handle, Ordering::Relaxed));
            number
        };
        let number = match self.known_event(handle) {
            0 => *self.event_numbers.entry(handle).or_insert_with(new),
            number => number,
        };
        self.event_at(number, handle).into_iter().for_each(|event| event.record(stream, operations, context, at));
        number
    }

    /// The event with this handle and its latest record, if it was recorded.
    pub fn event_as_recorded(&self, handle: u64) -> Option<(&Event, Recorded)> {
        let event = self.event_at(self.known_event(handle), handle)?;
        Some((event, event.recorded()?))
    }

    pub fn recorded(&self, handle: u64) -> Option<Recorded> {
        Some(self.event_as_recorded(handle)?.1)
    }

    /// This event of that handle is known to have completed as it was recorded then, and with it what was submitted before. It proves nothing where the
    /// event was recorded again since.
    /// `on_context` gets the proof of a record on a whole context: it takes a lock.
    #[inline]
    pub fn event_complete(
        &self,
        event: &Event,
        handle: u64,
        as_recorded: Recorded,
        on_context: impl FnOnce(u32, Nanos),
    ) {
        let at = as_recorded.at;
        if !event.is_still(handle, at) || self.graph_launches.newest() >= at {
            return;
        }
        if as_recorded.stream == 0 {
            on_context(as_recorded.context, at);
        } else if let Some(stream) = self.streams.get(as_recorded.stream).filter(|s| s.alive()) {
            stream.complete_until(at);
            stream.passed(as_recorded.operations);
        }
    }

    /// The same of the event with this handle, as it was recorded at this time.
    pub fn event_complete_at(&self, handle: u64, at: Nanos, on_context: impl FnOnce(u32, Nanos)) {
        if let Some((event, recorded)) = self.event_as_recorded(handle).filter(|(_, recorded)| recorded.at == at) {
            self.event_complete(event, handle, recorded, on_context);
        }
    }

    pub fn graph_is(&self, handle: u64, contents: GraphContents, now: Nanos) {
        let mut graphs = lock(&self.graphs);
        if graphs.get(&handle).map_or(graphs.len() < MOST_GRAPHS, |known| *known != contents) {
            self.recorder.add_graph(now, handle, &contents);
            graphs.insert(handle, contents);
        }
    }

    pub fn graph_node_is(&self, handle: u64, part: GraphPart, now: Nanos) {
        let mut graphs = lock(&self.graphs);
        if let Some(contents) = graphs.get_mut(&handle) {
            if contents.change(part) {
                self.recorder.add_graph(now, handle, contents);
            }
        }
    }

    /// A thread launches graphs; returns the word that a note of such a launch wants.
    pub fn launches_graphs(&self, by: &ThreadSlot) -> u32 {
        self.graph_launches.word_of(by.number)
    }

    /// The events that were recorded on a stream and are believed to mean it still, with the time; the newest last.
    pub fn events_on(&self, stream: u32) -> Vec<(u64, Nanos)> {
        let believed = self.graph_launches.newest();
        let on_it = |e: &Recorded| e.stream == stream && e.at > believed;
        let with_handle = |event: &Event| {
            let recorded = event.recorded().filter(on_it)?;
            Some((event.handle.load(Ordering::Relaxed), recorded.at)).filter(|(handle, _)| *handle != 0)
        };
        let mut events: Vec<_> = self.events.iter().filter_map(|(_, event)| with_handle(event)).collect();
        events.sort_unstable_by_key(|(_, recorded)| *recorded);
        events
    }

    pub fn event_gone(&self, event: u64) {
        if let Some((_, number)) = self.event_numbers.remove(&event) {
            if let Some(gone) = self.events.get(number) {
                gone.handle.store(0, Ordering::Relaxed);
                gone.record(0, 0, 0, 0);
                self.events.give_back(number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_found_by_number_while_it_has_its_handle() {
        let tracker = Tracker::default();
        let number = tracker.event_recorded(0xe, 3, 7, 1, 1_000);
        assert!(tracker.event_at(number, 0xe).is_some());
        assert_eq!(tracker.events_on(3), [(0xe, 1_000)]);
        tracker.event_gone(0xe);
        assert!(tracker.event_at(number, 0xe).is_none() && tracker.recorded(0xe).is_none());
        assert!(tracker.events_on(3).is_empty());
        assert_eq!(tracker.event_recorded(0xf, 3, 1, 1, 2_000), number, "the entry is used again");
        assert!(tracker.event_at(number, 0xe).is_none());
    }
}
