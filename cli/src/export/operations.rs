//! The operations of each stream, as slices in its rows, and arrows between them.
//!
//! A stream's operation lasts from its submission to the return of the call that first shows it to have ended. So operations overlap, and
//! a stream has several rows. The oldest outstanding operations have a row each, over their full length. Later ones share the last row,
//! where each ends when the next begins.
//!
//! Must not: keep more than a bounded number of operations. An operation is written when it has ended.

use super::drawing::{Drawing, Facts};
use super::perfetto::{Event, Track, Value, What};
use lazyguard_core::api::{Class, StreamKind, ValueWait, ValueWrite};
use lazyguard_core::replay::{Proven, Recorded, Remembered, Scope};
use lazyguard_core::report::event_of_record;
use lazyguard_core::trace::read::{Entry, Recording, Source};
use lazyguard_core::trace::{Kind, Payload, Record};
use lazyguard_core::Nanos;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, Write};

/// Rows of a stream in which operations lie in their full length.
pub(super) const ROWS: usize = 8;
/// Arrows from one operation.
const MOST_ARROWS: usize = 16;
/// Waits for one address.
const MOST_WAITS: usize = 16;
/// Shapes of grids and blocks that are kept as text.
const MOST_SHAPES: usize = 1 << 15;

/// An operation from which an arrow may go later: to which stream it was submitted, which one it was, and an arrow that
/// begins there for when it has been written.
#[derive(Clone, Copy)]
struct Origin {
    stream: u32,
    serial: u64,
    arrow: u64,
}

/// An operation that is not known to have ended.
struct Operation {
    serial: u64,
    thread: u32,
    record: Record,
    arrows: Vec<u64>,
}

struct Row {
    track: u64,
    /// When its last operation ended.
    free_from: Nanos,
    open: Option<Operation>,
}

/// A stream's rows.
struct Stream {
    handle: u64,
    context: u32,
    name: String,
    /// What its tracks share.
    key: String,
    rows: Vec<Row>,
}

/// How an operation's slice ends.
#[derive(Clone, Copy)]
enum End {
    /// The operation is known to have ended since.
    Known(Nanos),
    /// The row is the last one, and the next operation begins.
    GivesWay(Nanos),
    /// No end: no call shows that the operation has ended.
    Never,
}

/// See the module.
#[derive(Default)]
pub(super) struct Operations {
    streams: BTreeMap<u32, Stream>,
    /// Streams with operations that are not known to have ended.
    busy: BTreeSet<u32>,
    /// The operations that recorded events, by stream and submission.
    records_of_events: Remembered<(u32, Nanos), Origin>,
    /// The newest write, and the waits, by the eight bytes that they are about.
    writes: Remembered<u64, (ValueWrite, Origin)>,
    waits: Remembered<u64, Vec<(ValueWait, Origin)>>,
    shapes: HashMap<[u32; 3], Box<str>>,
    count: u64,
}

/// The aligned eight bytes that hold an address: no wait compares more.
const fn word_of(address: u64) -> u64 {
    address >> 3
}

impl Operations {
    /// Opens the stream of a record, and completes an earlier stream that had its number.
    fn stream<S: Source, W: Write>(&mut self, on: &mut Drawing<'_, S, W>, record: &Record) -> io::Result<()> {
        let number = record.stream;
        let named = on.recording.strings().stream(number, record.meant_at());
        let known = on.recording.streams().iter().find(|s| s.number == number);
        let (handle, context, kind) = match (named, known) {
            (Some(named), _) => (named.handle, named.context, named.kind),
            (None, Some(known)) => (known.handle, known.context, known.kind),
            (None, None) => (0, u32::from(record.context), StreamKind::Unknown),
        };
        if self.streams.get(&number).is_some_and(|s| s.handle == handle && s.context == context) {
            return Ok(());
        }
        let (until, at) = (record.entered, record.entered);
        self.complete(on, &Proven { scope: Scope::Stream(number), until, at })?;
        let name = format!("stream {number} ({handle:#x}, {kind})");
        self.count += 1;
        let key = format!("stream {number} of operation {}", self.count);
        self.streams.insert(number, Stream { handle, context, name, key, rows: Vec::new() });
        Ok(())
    }

    /// The call has submitted an operation to a stream. `arrows` end or begin at it; `recorded` is the record of the call's event.
    pub fn submitted<S: Source, W: Write>(
        &mut self,
        on: &mut Drawing<'_, S, W>,
        entry: &Entry,
        recorded: Option<Recorded>,
        mut arrows: Vec<u64>,
    ) -> io::Result<()> {
        let record = &entry.record;
        if record.stream == 0 {
            return Ok(());
        }
        self.stream(on, record)?;
        self.count += 1;
        let (stream, serial) = (record.stream, self.count);
        let mut origin = || {
            let arrow = on.arrow();
            arrows.push(arrow);
            Origin { stream, serial, arrow }
        };
        match (record.entry_point.class(), record.payload()) {
            (Class::EventRecord, _) => self.records_of_events.insert((stream, record.entered), origin()),
            (Class::StreamWaitEvent, _) => arrows.extend(self.arrow_from_event(on, recorded)),
            (_, Payload::Wait(wait)) => {
                let origin = origin();
                self.waits(on, wait, origin, &mut arrows);
            }
            (_, Payload::Write(write)) => {
                let origin = origin();
                self.writes(on, write, origin, &mut arrows);
            }
            _ => {}
        }
        self.place(on, Operation { serial, thread: entry.thread, record: *record, arrows })
    }

    /// An arrow from the operation that recorded an event.
    pub fn arrow_from_event<S, W: Write>(
        &mut self,
        on: &mut Drawing<'_, S, W>,
        recorded: Option<Recorded>,
    ) -> Option<u64> {
        let Recorded { stream, at, .. } = recorded?;
        let from = *self.records_of_events.get(&(stream, at))?;
        Some(self.arrow_from(on, from))
    }

    /// An arrow to the wait from the write that ends it, if the write was submitted first.
    fn waits<S, W: Write>(
        &mut self,
        on: &mut Drawing<'_, S, W>,
        wait: ValueWait,
        origin: Origin,
        arrows: &mut Vec<u64>,
    ) {
        match self.writes.get(&word_of(wait.address)).copied().filter(|(write, _)| write.ends(&wait)) {
            Some((_, from)) => arrows.push(self.arrow_from(on, from)),
            None => {
                let mut waits = self.waits.remove(&word_of(wait.address)).unwrap_or_default();
                if waits.len() < MOST_WAITS {
                    waits.push((wait, origin));
                }
                self.waits.insert(word_of(wait.address), waits);
            }
        }
    }

    /// Arrows to the write from the waits that it ends.
    fn writes<S, W: Write>(
        &mut self,
        on: &mut Drawing<'_, S, W>,
        write: ValueWrite,
        origin: Origin,
        arrows: &mut Vec<u64>,
    ) {
        let word = word_of(write.address);
        self.writes.insert(word, (write, origin));
        let Some(waits) = self.waits.remove(&word) else { return };
        let (ended, left): (Vec<_>, Vec<_>) = waits.into_iter().partition(|(wait, _)| write.ends(wait));
        if !left.is_empty() {
            self.waits.insert(word, left);
        }
        arrows.extend(ended.into_iter().map(|(_, from)| self.arrow_from(on, from)));
    }

    /// An arrow from an operation: a new one while the operation is open and has fewer than [`MOST_ARROWS`].
    fn arrow_from<S, W: Write>(&mut self, on: &mut Drawing<'_, S, W>, origin: Origin) -> u64 {
        let rows = self.streams.get_mut(&origin.stream).map(|s| s.rows.as_mut_slice()).unwrap_or_default();
        let mut open = rows.iter_mut().filter_map(|row| row.open.as_mut());
        match open.find(|operation| operation.serial == origin.serial) {
            Some(operation) if operation.arrows.len() < MOST_ARROWS => {
                let arrow = on.arrow();
                operation.arrows.push(arrow);
                arrow
            }
            _ => origin.arrow,
        }
    }

    /// Arrows to a synchronize from what it waits for: of each stream the oldest and the newest operation.
    pub fn arrows_to<S, W: Write>(&mut self, on: &mut Drawing<'_, S, W>, scope: Scope, entered: Nanos) -> Vec<u64> {
        let mut arrows = Vec::new();
        for number in self.covered(scope) {
            let Some(stream) = self.streams.get(&number) else { continue };
            let open = || {
                let operations = stream.rows.iter().filter_map(|row| row.open.as_ref());
                operations.filter(|o| o.record.entered <= entered).map(|o| o.serial)
            };
            let ends: BTreeSet<_> = open().min().into_iter().chain(open().max()).collect();
            for serial in ends {
                arrows.push(self.arrow_from(on, Origin { stream: number, serial, arrow: 0 }));
            }
        }
        arrows
    }

    fn covered(&self, scope: Scope) -> Vec<u32> {
        match scope {
            Scope::Stream(number) => self.busy.get(&number).copied().into_iter().collect(),
            Scope::Context(context) => {
                let of_context = |number: &u32| self.streams.get(number).is_some_and(|s| s.context == context);
                self.busy.iter().copied().filter(of_context).collect()
            }
        }
    }

    /// Ends an arrow at the operation that was submitted at `at`. Returns whether that operation is still open.
    pub fn point_at(&mut self, stream: u32, at: Nanos, arrow: u64) -> bool {
        let rows = self.streams.get_mut(&stream).map(|s| s.rows.as_mut_slice()).unwrap_or_default();
        let mut open = rows.iter_mut().filter_map(|row| row.open.as_mut());
        let found = open.find(|operation| operation.record.entered == at);
        found.map(|operation| operation.arrows.push(arrow)).is_some()
    }

    /// Finds a row for an operation.
    fn place<S: Source, W: Write>(&mut self, on: &mut Drawing<'_, S, W>, operation: Operation) -> io::Result<()> {
        let number = operation.record.stream;
        let at = operation.record.entered;
        let Some(stream) = self.streams.get_mut(&number) else { return Ok(()) };
        self.busy.insert(number);
        let free = stream.rows.iter().take(ROWS).position(|row| row.open.is_none() && row.free_from <= at);
        let index = match free {
            Some(index) => index,
            None if stream.rows.len() <= ROWS => {
                let below = Track::Below { parent: on.process, name: &stream.name, key: &stream.key };
                let track = on.trace.track(below)?;
                stream.rows.push(Row { track, free_from: 0, open: None });
                stream.rows.len() - 1
            }
            None => ROWS,
        };
        let row = &mut stream.rows[index];
        let (track, free_from) = (row.track, row.free_from);
        if let Some(before) = row.open.replace(operation) {
            // In the last row, an operation ends when the next begins.
            let end = at.max(before.record.entered).max(free_from);
            row.free_from = end;
            self.write(on, track, free_from, &before, End::GivesWay(end))?;
        }
        Ok(())
    }

    /// Ends the operations that a call proves to have ended, at the time of the proof.
    pub fn complete<S: Source, W: Write>(&mut self, on: &mut Drawing<'_, S, W>, proven: &Proven) -> io::Result<()> {
        let &Proven { scope, until, at, .. } = proven;
        for number in self.covered(scope) {
            let Some(mut stream) = self.streams.remove(&number) else { continue };
            let mut still_busy = false;
            for row in &mut stream.rows {
                let Some(operation) = row.open.take_if(|operation| operation.record.entered <= until) else {
                    still_busy |= row.open.is_some();
                    continue;
                };
                let free_from = row.free_from;
                row.free_from = free_from.max(at).max(operation.record.entered);
                self.write(on, row.track, free_from, &operation, End::Known(row.free_from))?;
            }
            if !still_busy {
                self.busy.remove(&number);
            }
            self.streams.insert(number, stream);
        }
        Ok(())
    }

    /// Writes an operation that lies in a row which was taken until `free_from`.
    fn write<S: Source, W: Write>(
        &mut self,
        on: &mut Drawing<'_, S, W>,
        track: u64,
        free_from: Nanos,
        operation: &Operation,
        end: End,
    ) -> io::Result<()> {
        let record = &operation.record;
        let class = record.entry_point.class();
        let at = record.entered.max(free_from);
        let mut facts = Facts::new();
        match record.payload() {
            Payload::Launch(launch) => {
                let (grid, block) = (launch.grid, launch.block.map(u32::from));
                for shape in [grid, block] {
                    if self.shapes.len() < MOST_SHAPES && !self.shapes.contains_key(&shape) {
                        let [x, y, z] = shape;
                        self.shapes.insert(shape, format!("{x}x{y}x{z}").into());
                    }
                }
                if let (Some(grid), Some(block)) = (self.shapes.get(&grid), self.shapes.get(&block)) {
                    facts.add("grid", Value::Text(grid), true);
                    facts.add("block", Value::Text(block), true);
                }
                let shared = launch.shared_bytes.unwrap_or(0);
                facts.add("shared bytes", Value::Unsigned(shared), shared != 0);
            }
            Payload::Wait(wait) => {
                facts.add("address", Value::Pointer(wait.address), true);
                facts.add("value", Value::Unsigned(wait.value), true);
                facts.add("waits until it is", Value::Text(wait.condition().name()), true);
            }
            Payload::Write(write) => {
                facts.add("address", Value::Pointer(write.address), true);
                facts.add("value", Value::Unsigned(write.value), true);
            }
            Payload::Memory { bytes, .. } if matches!(class, Class::CopyAsync | Class::AllocateAsync) => {
                facts.add("bytes", Value::Unsigned(bytes), bytes != 0);
            }
            _ => {}
        }
        facts.add("submitted by thread", Value::Unsigned(u64::from(operation.thread)), true);
        facts.add("gives way to the next", Value::Bool(true), matches!(end, End::GivesWay(_)));
        facts.add("not known to have ended", Value::Bool(true), matches!(end, End::Never));
        let category = event_of_record(Kind::Call, class);
        let base = record.entry_point.info().base();
        let name = on.names.function_of(record).unwrap_or(base);
        let event = Event { track, at, name, category, flows: &operation.arrows, facts: facts.all() };
        on.trace.event(What::Begin, &event)?;
        on.slices += 1;
        match end {
            End::Known(end) | End::GivesWay(end) => on.trace.end(track, end.max(at)),
            End::Never => Ok(()),
        }
    }

    /// Writes what is still open.
    pub fn finish<S: Source, W: Write>(&mut self, on: &mut Drawing<'_, S, W>) -> io::Result<()> {
        for number in std::mem::take(&mut self.busy) {
            // Operations without a proving call: the table has the time until which the stream is complete.
            let until = self.complete_until(on.recording, number);
            let Some(mut stream) = self.streams.remove(&number) else { continue };
            for row in &mut stream.rows {
                if let Some(operation) = row.open.take() {
                    let end = if operation.record.entered <= until { End::Known(until) } else { End::Never };
                    self.write(on, row.track, row.free_from, &operation, end)?;
                }
            }
        }
        Ok(())
    }

    fn complete_until<S: Source>(&self, recording: &Recording<S>, number: u32) -> Nanos {
        let (Some(stream), Some(known)) =
            (self.streams.get(&number), recording.streams().iter().find(|s| s.number == number))
        else {
            return 0;
        };
        let context = recording.contexts().iter().find(|c| c.number == stream.context);
        let idle_until = context.map_or(0, |c| c.idle_until);
        // If a later stream has this number, all work of this one had ended when the later one was created.
        if stream.handle == known.handle {
            known.complete_until.max(idle_until)
        } else {
            known.born.max(idle_until)
        }
    }
}
