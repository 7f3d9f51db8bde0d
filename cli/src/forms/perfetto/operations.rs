//! The operations of each stream as slices, and arrows between them.
//!
//! An operation lasts from its submission to the return of the call that first proves its end. The oldest outstanding operations of a stream have
//! a row each; later ones share the last row, where each ends when the next begins.
//!
//! Must not: keep more than a bounded number of operations.

use super::writer::{Event, Facts, Trace, Track, Value};
use crate::forms::record_line::Line;
use crate::words::names::Names;
use lazyguard_core::api::{Class, StreamKind, ValueWait, ValueWrite};
use lazyguard_core::replay::{Proven, Recorded, Remembered, Scope};
use lazyguard_core::report::event_of_record;
use lazyguard_core::trace::read::{ContextSeen, Entry, Recording, Source, StreamSeen, StringTable};
use lazyguard_core::trace::{Kind, Payload, Record};
use lazyguard_core::Nanos;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

pub(super) const ROWS: usize = 8;
const MOST_ARROWS: usize = 16;
const MOST_WAITS: usize = 16;

/// An operation from which an arrow may go later; `arrow` begins there once it has been written.
#[derive(Clone, Copy)]
struct Origin {
    stream: u32,
    serial: u64,
    arrow: u64,
}

struct Operation {
    serial: u64,
    entry: Entry,
    arrows: Vec<u64>,
}

struct Row {
    track: u64,
    free_from: Nanos,
    open: Option<Operation>,
}

struct Stream {
    handle: u64,
    context: u32,
    name: String,
    key: String,
    rows: Vec<Row>,
}

pub(super) struct Operations<'a> {
    strings: &'a StringTable,
    streams_seen: &'a [StreamSeen],
    contexts: &'a [ContextSeen],
    pub trace: Trace<'a>,
    pub names: Names<'a>,
    pub process_track: u64,
    arrows: u64,
    streams: BTreeMap<u32, Stream>,
    busy: BTreeSet<u32>,
    records_of_events: Remembered<(u32, Nanos), Origin>,
    /// The newest write, and the waits, by the eight bytes that they are about.
    writes: Remembered<u64, (ValueWrite, Origin)>,
    waits: Remembered<u64, Vec<(ValueWait, Origin)>>,
    count: u64,
}

/// The aligned eight bytes that hold an address: no wait compares more.
const fn word_of(address: u64) -> u64 {
    address >> 3
}

impl<'a> Operations<'a> {
    pub fn new<S: Source>(recording: &'a Recording<S>, trace: Trace<'a>, process_track: u64) -> Self {
        Self {
            strings: recording.strings(),
            streams_seen: recording.streams(),
            contexts: recording.contexts(),
            trace,
            names: Names::new(recording.strings()),
            process_track,
            arrows: 0,
            streams: BTreeMap::new(),
            busy: BTreeSet::new(),
            records_of_events: Remembered::default(),
            writes: Remembered::default(),
            waits: Remembered::default(),
            count: 0,
        }
    }

    pub fn arrow(&mut self) -> u64 {
        self.arrows += 1;
        self.arrows
    }

    pub fn track_below(&mut self, name: &str, key: &str) -> io::Result<u64> {
        self.trace.track(Track::Below { parent: self.process_track, name, key })
    }

    fn open(&mut self, stream: u32) -> impl Iterator<Item = &mut Operation> {
        let rows = self.streams.get_mut(&stream).map(|s| s.rows.as_mut_slice()).unwrap_or_default();
        rows.iter_mut().filter_map(|row| row.open.as_mut())
    }

    /// Ends an arrow at the operation that was submitted at `at`. Returns whether that operation is still open.
    pub fn point_at(&mut self, stream: u32, at: Nanos, arrow: u64) -> bool {
        let found = self.open(stream).find(|operation| operation.entry.record.entered == at);
        found.map(|operation| operation.arrows.push(arrow)).is_some()
    }

    fn covered(&self, scope: Scope) -> Vec<u32> {
        let is_covered = |number: &u32| match scope {
            Scope::Stream(stream) => *number == stream,
            Scope::Context(context) => self.streams.get(number).is_some_and(|s| s.context == context),
        };
        self.busy.iter().copied().filter(is_covered).collect()
    }

    /// Opens the stream of a record, and completes an earlier stream that had its number.
    fn open_stream(&mut self, record: &Record) -> io::Result<()> {
        let number = record.stream;
        let named = self.strings.streams.newest(number, record.meant_at());
        let known = named.map(|named| (named.handle, named.context, named.kind)).or_else(|| {
            let known = self.streams_seen.iter().find(|s| s.number == number)?;
            Some((known.handle, known.context, known.kind))
        });
        let (handle, context, kind) = known.unwrap_or((0, record.context.into(), StreamKind::Unknown));
        if self.streams.get(&number).is_some_and(|s| s.handle == handle && s.context == context) {
            return Ok(());
        }
        let (until, at) = (record.entered, record.entered);
        self.complete(&Proven { scope: Scope::Stream(number), until, at })?;
        let name = format!("stream {number} ({handle:#x}, {kind})");
        self.count += 1;
        let key = format!("stream {number} of operation {}", self.count);
        self.streams.insert(number, Stream { handle, context, name, key, rows: Vec::new() });
        Ok(())
    }

    /// The call has submitted an operation to a stream. `arrows` end or begin at it; `recorded` is the record of the call's event.
    pub fn submitted(&mut self, entry: &Entry, recorded: Option<Recorded>, mut arrows: Vec<u64>) -> io::Result<()> {
        let record = &entry.record;
        if record.stream == 0 {
            return Ok(());
        }
        self.open_stream(record)?;
        self.count += 1;
        let (stream, serial) = (record.stream, self.count);
        let class = record.entry_point.class();
        let payload = record.payload();
        if class == Class::EventRecord || matches!(payload, Payload::Wait(_) | Payload::Write(_)) {
            let arrow = self.arrow();
            arrows.push(arrow);
            let origin = Origin { stream, serial, arrow };
            match payload {
                _ if class == Class::EventRecord => {
                    self.records_of_events.insert((stream, record.entered), origin);
                }
                Payload::Wait(wait) => arrows.extend(self.value_wait(wait, origin)),
                Payload::Write(write) => arrows.extend(self.value_write(write, origin)),
                _ => {}
            }
        } else if class == Class::StreamWaitEvent {
            arrows.extend(self.arrow_from_event(recorded));
        }
        self.place(Operation { serial, entry: *entry, arrows })
    }

    pub fn arrow_from_event(&mut self, recorded: Option<Recorded>) -> Option<u64> {
        let Recorded { stream, at, .. } = recorded?;
        Some(self.arrow_from(*self.records_of_events.get(&(stream, at))?))
    }

    fn value_wait(&mut self, wait: ValueWait, origin: Origin) -> Option<u64> {
        let word = word_of(wait.address);
        let write = self.writes.get(&word).copied().filter(|(write, _)| write.ends(&wait));
        if write.is_none() {
            let mut waits = self.waits.remove(&word).unwrap_or_default();
            waits.extend((waits.len() < MOST_WAITS).then_some((wait, origin)));
            self.waits.insert(word, waits);
        }
        write.map(|(_, from)| self.arrow_from(from))
    }

    fn value_write(&mut self, write: ValueWrite, origin: Origin) -> Vec<u64> {
        let word = word_of(write.address);
        self.writes.insert(word, (write, origin));
        let waits = self.waits.remove(&word).unwrap_or_default();
        let (ended, left): (Vec<_>, Vec<_>) = waits.into_iter().partition(|(wait, _)| write.ends(wait));
        if !left.is_empty() {
            self.waits.insert(word, left);
        }
        ended.into_iter().map(|(_, from)| self.arrow_from(from)).collect()
    }

    /// An arrow from an operation: a new one while the operation is open and has fewer than [`MOST_ARROWS`].
    fn arrow_from(&mut self, origin: Origin) -> u64 {
        let arrow = self.arrow();
        let begin = self.open(origin.stream).find(|operation| operation.serial == origin.serial);
        let begin = begin.filter(|operation| operation.arrows.len() < MOST_ARROWS);
        begin.map(|operation| operation.arrows.push(arrow)).map_or(origin.arrow, |()| arrow)
    }

    /// Arrows to a synchronize from what it waits for: of each stream the oldest and the newest operation.
    pub fn arrows_to(&mut self, scope: Scope, entered: Nanos) -> Vec<u64> {
        let mut arrows = Vec::new();
        for stream in self.covered(scope) {
            let open = self.open(stream).filter(|o| o.entry.record.entered <= entered).map(|o| o.serial);
            let open: BTreeSet<_> = open.collect();
            let ends = BTreeSet::from_iter(open.first().into_iter().chain(open.last()));
            arrows.extend(ends.into_iter().map(|&serial| self.arrow_from(Origin { stream, serial, arrow: 0 })));
        }
        arrows
    }

    fn place(&mut self, operation: Operation) -> io::Result<()> {
        let (number, at) = (operation.entry.record.stream, operation.entry.record.entered);
        let Some(mut stream) = self.streams.remove(&number) else { return Ok(()) };
        self.busy.insert(number);
        let free = stream.rows.iter().take(ROWS).position(|row| row.open.is_none() && row.free_from <= at);
        let index = free.unwrap_or(stream.rows.len().min(ROWS));
        if index == stream.rows.len() {
            let track = self.track_below(&stream.name, &stream.key)?;
            stream.rows.push(Row { track, free_from: 0, open: None });
        }
        let row = &mut stream.rows[index];
        if let Some(before) = row.open.replace(operation) {
            // In the last row, an operation ends when the next begins.
            let end = at.max(before.entry.record.entered).max(row.free_from);
            self.write(row, &before, Some(end), true)?;
            row.free_from = end;
        }
        self.streams.insert(number, stream);
        Ok(())
    }

    pub fn complete(&mut self, proven: &Proven) -> io::Result<()> {
        for number in self.covered(proven.scope) {
            let Some(mut stream) = self.streams.remove(&number) else { continue };
            for row in &mut stream.rows {
                let ended = row.open.take_if(|operation| operation.entry.record.entered <= proven.until);
                let Some(operation) = ended else { continue };
                let end = row.free_from.max(proven.at).max(operation.entry.record.entered);
                self.write(row, &operation, Some(end), false)?;
                row.free_from = end;
            }
            if stream.rows.iter().all(|row| row.open.is_none()) {
                self.busy.remove(&number);
            }
            self.streams.insert(number, stream);
        }
        Ok(())
    }

    /// Writes an operation that lies in this row. Its slice ends where a call shows that it has ended, or where it gives way to the next.
    fn write(&mut self, row: &Row, operation: &Operation, end: Option<Nanos>, gives_way: bool) -> io::Result<()> {
        let record = &operation.entry.record;
        let at = record.entered.max(row.free_from);
        let line = Line::of(&operation.entry);
        let grid = line.grid.map(|[x, y, z]| format!("{x}x{y}x{z}"));
        let block = line.block.map(|[x, y, z]| format!("{x}x{y}x{z}"));
        let condition = line.condition.map(|condition| condition.to_string());
        let mut facts = Facts::default();
        facts.some("shared bytes", line.shared_bytes.filter(|&bytes| bytes != 0).map(Value::Unsigned));
        facts.some("grid", grid.as_deref().map(Value::Text));
        facts.some("block", block.as_deref().map(Value::Text));
        facts.some("address", line.address.map(Value::Pointer));
        facts.some("value", line.value.map(Value::Unsigned));
        facts.some("waits until it is", condition.as_deref().map(Value::Text));
        facts.some("bytes", line.bytes.map(Value::Unsigned));
        facts.add("submitted by thread", Value::Unsigned(line.thread.into()), true);
        facts.add("gives way to the next", Value::Bool(true), gives_way);
        facts.add("not known to have ended", Value::Bool(true), end.is_none());
        let category = event_of_record(Kind::Call, record.entry_point.class());
        let name = self.names.function_of(record).unwrap_or(record.entry_point.info().base());
        self.trace.slice(&Event { track: row.track, at, name, category, flows: &operation.arrows, facts: &facts }, end)
    }

    pub fn finish(&mut self) -> io::Result<()> {
        for number in std::mem::take(&mut self.busy) {
            let Some(mut stream) = self.streams.remove(&number) else { continue };
            // Operations without a proving call: the table has the time until which the stream is complete.
            let until = self.complete_until(&stream, number);
            for row in &mut stream.rows {
                if let Some(operation) = row.open.take() {
                    self.write(row, &operation, (operation.entry.record.entered <= until).then_some(until), false)?;
                }
            }
        }
        Ok(())
    }

    fn complete_until(&self, stream: &Stream, number: u32) -> Nanos {
        let Some(known) = self.streams_seen.iter().find(|s| s.number == number) else { return 0 };
        let context = self.contexts.iter().find(|c| c.number == stream.context);
        // If a later stream has this number, all work of this one had ended when the later one was created.
        let own = if stream.handle == known.handle { known.work.complete_until } else { known.born };
        own.max(context.map_or(0, |c| c.idle_until))
    }
}
