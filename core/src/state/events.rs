//! Events, and what executable graphs do.

use super::tracker::{EventState, Tracker};
use crate::api::{GraphContents, GraphPart};
use crate::sync::lock;
use crate::Nanos;
use std::sync::atomic::Ordering;

/// Executable graphs whose nodes are kept; one more is not listed.
const MOST_GRAPHS: usize = 4096;

impl Tracker {
    /// An event was recorded: on a stream, as the operation of this number, or (stream 0) on a whole context.
    pub fn event_recorded(&self, event: u64, stream: u32, number: u64, context: u32, entered: Nanos) {
        self.events.insert(event, EventState { stream, context, recorded: entered, number });
    }

    /// The event is known to have completed, and with it what was submitted before it was recorded. `entered` is when the call that
    /// showed it began: a record that came later is not what completed.
    pub fn event_complete(&self, event: u64, entered: Nanos) {
        let recorded_last =
            |e: &EventState| e.recorded < entered && self.graph_launched.load(Ordering::Relaxed) < e.recorded;
        let Some(state) = self.events.get(&event).map(|e| *e).filter(recorded_last) else { return };
        if state.stream == 0 {
            self.context_complete(state.context, state.recorded);
        } else if let Some(stream) = self.streams.get(state.stream).filter(|s| s.alive()) {
            stream.complete_until(state.recorded);
            stream.passed(state.number);
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

    /// A graph was launched. It may hold nodes that record events, so an earlier record of an event proves nothing.
    pub fn graph_launched(&self, at: Nanos) {
        self.graph_launched.fetch_max(at, Ordering::Relaxed);
    }

    pub fn event_place(&self, event: u64) -> Option<(u32, u32)> {
        self.events.get(&event).map(|e| (e.stream, e.context))
    }

    /// The stream an event was recorded on last, or 0 where that was a whole context, and when, if that was seen.
    pub fn event_recorded_at(&self, event: u64) -> Option<(u32, Nanos)> {
        self.events.get(&event).map(|e| (e.stream, e.recorded))
    }

    /// The events that were recorded on a stream and are believed to mean it still, with the time; the newest last.
    pub fn events_on(&self, stream: u32) -> Vec<(u64, Nanos)> {
        let believed = self.graph_launched.load(Ordering::Relaxed);
        let on_it = |e: &EventState| e.stream == stream && e.recorded > believed;
        let mut events: Vec<_> =
            self.events.iter().filter(|e| on_it(e.value())).map(|e| (*e.key(), e.recorded)).collect();
        events.sort_unstable_by_key(|(_, recorded)| *recorded);
        events
    }

    pub fn event_is(&self, event: u64, stream: u32, recorded: Nanos) -> bool {
        self.events.get(&event).is_some_and(|e| e.stream == stream && e.recorded == recorded)
    }

    pub fn event_gone(&self, event: u64) {
        self.events.remove(&event);
    }
}
