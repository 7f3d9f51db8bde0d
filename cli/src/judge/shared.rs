//! The memory that a process has in common with others, and what its streams write there.
//!
//! Must not: compare processes, or keep more than a bounded number of writes.

use crate::folder::Opened;
use lazyguard_core::api::{NodeKind, SharedMemory, ValueWrite};
use lazyguard_core::trace::{Kind, Payload, Record};
use lazyguard_core::Nanos;
use std::collections::VecDeque;

/// The newest writes that are kept.
const MOST_WRITES: usize = 4096;

/// An identity, and how far behind its beginning.
pub(crate) type Place = (u64, u64);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    pub at: Nanos,
    pub stream: u32,
    pub place: Place,
    pub bytes: u64,
    /// With the offset as its address; `None` of a copy or a fill.
    pub value: Option<ValueWrite>,
}

#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub memory: Vec<SharedMemory>,
    pub writes: VecDeque<Written>,
}

impl Shared {
    pub fn place_of(&self, address: u64) -> Option<Place> {
        self.memory.iter().filter(|one| one.bytes != 0).find_map(|one| one.place_of(address))
    }

    pub fn has(&self, place: Place) -> bool {
        self.memory.iter().any(|one| one.bytes != 0 && one.has(place))
    }
}

pub(crate) struct Reader<'o> {
    opened: &'o Opened,
    found: Shared,
}

impl<'o> Reader<'o> {
    pub fn new(opened: &'o Opened) -> Option<Self> {
        let memory = opened.recording.strings().shared.clone();
        (!memory.is_empty()).then(|| Self { opened, found: Shared { memory, ..Shared::default() } })
    }

    pub fn take_in(&mut self, record: &Record) {
        if !matches!(record.kind, Kind::Call | Kind::ColdFunction | Kind::ColdModule) || record.is_refused() {
            return;
        }
        let (at, stream) = (record.entered, record.stream);
        match record.payload() {
            Payload::Graph(handle) if record.submitted() => {
                let strings = self.opened.recording.strings();
                let parts = strings.graphs.newest(handle, at).into_iter().flat_map(|graph| &graph.parts);
                for part in parts.filter(|part| part.kind == NodeKind::ValueWrite) {
                    let write = ValueWrite { at, address: part.what, value: part.value, stream, wide: part.wide };
                    self.found.add(write.address, if write.wide { 8 } else { 4 }, Some(write), (at, stream));
                }
            }
            payload => {
                let Some((address, bytes)) = record.written() else { return };
                let value = if let Payload::Write(write) = payload { Some(write) } else { None };
                self.found.add(address, bytes, value, (at, stream));
            }
        }
    }

    pub fn finish(self) -> Shared {
        self.found
    }
}

impl Shared {
    fn add(&mut self, address: u64, bytes: u64, value: Option<ValueWrite>, (at, stream): (Nanos, u32)) {
        let Some(place) = self.place_of(address) else { return };
        if self.writes.len() == MOST_WRITES {
            self.writes.pop_front();
        }
        let value = value.map(|write| ValueWrite { address: place.1, ..write });
        self.writes.push_back(Written { at, stream, place, bytes, value });
    }
}
