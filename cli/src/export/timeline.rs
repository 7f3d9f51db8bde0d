//! From records to tracks: the calls of each thread, the operations of each stream, and arrows for what waits for what.
//!
//! A stream's operation lasts from its submission to the return of the call from which it is first known to have ended: a
//! synchronize or a successful query that covers it. So operations overlap, and a stream has several rows: the oldest
//! outstanding operations lie in the first ones, each in its full length, and what is submitted behind them shares the last
//! one, where an operation gives way to the next.
//!
//! Verdicts lie on a track of their own, with arrows to the operations and calls that they are about.
//!
//! Must not: keep more than a bounded number of records, whatever the recording's size. An operation is written when it has
//! ended, and waits, writes and recorded events are remembered in two generations, of which the older one goes.

use super::judged::Shown;
use super::perfetto::{Beginning, Event, Trace, Track, Value, What};
use crate::names::{condition, meant_at, Names};
use crate::symbolize::Symbolizer;
use lazyguard_core::api::Class;
use lazyguard_core::diagnose::Code;
use lazyguard_core::diagnose::ValueWait;
use lazyguard_core::hazard::{Flags, HazardEvent};
use lazyguard_core::report::event_of_record;
use lazyguard_core::trace::layout::flag;
use lazyguard_core::trace::read::{Entry, Recording, Source};
use lazyguard_core::trace::{Kind, Record};
use lazyguard_core::Nanos;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;
use std::io::{self, Write};
use std::ops::RangeInclusive;

/// Rows of a stream in which operations lie in their full length.
const ROWS: usize = 8;
/// Arrows from one operation.
const MOST_ARROWS: usize = 16;
/// Waits for one address.
const MOST_WAITS: usize = 16;
/// Facts shown with one event.
const MOST_FACTS: usize = 12;
/// Things in a generation of what is remembered.
const GENERATION: usize = 1 << 15;

/// The newest things by key: at least [`GENERATION`] of them, and at most twice as many.
struct Remembered<K, V> {
    newer: HashMap<K, V>,
    older: HashMap<K, V>,
}

impl<K: Hash + Eq, V> Remembered<K, V> {
    fn new() -> Self {
        Self { newer: HashMap::new(), older: HashMap::new() }
    }

    fn insert(&mut self, key: K, value: V) {
        if self.newer.len() >= GENERATION {
            self.older = std::mem::take(&mut self.newer);
        }
        self.newer.insert(key, value);
    }

    fn get(&self, key: &K) -> Option<&V> {
        self.newer.get(key).or_else(|| self.older.get(key))
    }

    fn remove(&mut self, key: &K) -> Option<V> {
        let newer = self.newer.remove(key);
        let older = self.older.remove(key);
        newer.or(older)
    }
}

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
    /// It does not: nothing tells that the operation has ended.
    Never,
}

/// What was recorded in an event.
#[derive(Clone, Copy)]
struct Recorded {
    at: Nanos,
    stream: u32,
    context: u32,
    origin: Option<Origin>,
}

/// What a call's success shows to be complete.
#[derive(Clone, Copy)]
enum Covers {
    Stream(u32),
    Context(u32),
}

/// A thread's tracks.
struct Thread {
    calls: u64,
    /// What the guard does in the thread; made when it does something.
    guard: Option<u64>,
}

/// A verdict, and the arrows that may begin or end at it.
struct Judgement {
    shown: Shown,
    arrows: Vec<u64>,
}

/// See the module.
pub(super) struct Timeline<'a, S, W> {
    recording: &'a Recording<S>,
    trace: Trace<W>,
    names: Names<'a>,
    callers: Symbolizer,
    shapes: HashMap<[u32; 3], Box<str>>,
    process: u64,
    threads: HashMap<u32, Thread>,
    streams: BTreeMap<u32, Stream>,
    /// Streams with operations that are not known to have ended.
    busy: BTreeSet<u32>,
    events: Remembered<u64, Recorded>,
    writes: Remembered<u64, (u64, Origin)>,
    waits: Remembered<u64, Vec<(ValueWait, Origin)>>,
    graph_launched: Nanos,
    judgements: Vec<Judgement>,
    /// Arrows of verdicts to operations, by stream and submission, and to calls, by thread and entry.
    to_operations: HashMap<(u32, Nanos), Vec<u64>>,
    to_calls: HashMap<(u32, Nanos), Vec<u64>>,
    /// Those of them that have met what they go to.
    met: BTreeSet<u64>,
    operations: u64,
    arrows: u64,
    slices: u64,
    last: Nanos,
}

impl<'a, S: Source, W: Write> Timeline<'a, S, W> {
    pub fn new(recording: &'a Recording<S>, callers: Symbolizer, out: W) -> io::Result<Self> {
        let facts = recording.facts();
        let beginning = Beginning { monotonic: facts.armed_monotonic_nanos, unix: facts.armed_unix_nanos };
        let mut trace = Trace::new(out, beginning)?;
        let process = trace.track(Track::Process { id: facts.process, name: &facts.program })?;
        Ok(Self {
            recording,
            trace,
            names: Names::new(recording.strings()),
            callers,
            shapes: HashMap::new(),
            process,
            threads: HashMap::new(),
            streams: BTreeMap::new(),
            busy: BTreeSet::new(),
            events: Remembered::new(),
            writes: Remembered::new(),
            waits: Remembered::new(),
            graph_launched: 0,
            judgements: Vec::new(),
            to_operations: HashMap::new(),
            to_calls: HashMap::new(),
            met: BTreeSet::new(),
            operations: 0,
            arrows: 0,
            slices: 0,
            last: facts.last_seen,
        })
    }

    /// Takes in a record, or a call in progress; they come in the order in which they were entered.
    pub fn see(&mut self, entry: &Entry) -> io::Result<()> {
        let record = &entry.record;
        self.last = self.last.max(record.entered).max(record.returned);
        match record.kind {
            Kind::Hazard => return self.hazard(entry),
            Kind::Preload => return self.preload(entry),
            // What the guard saw is no part of what the program did.
            Kind::HostBegins | Kind::HostEnds | Kind::Seen => return Ok(()),
            Kind::Call | Kind::ColdFunction | Kind::ColdModule | Kind::Queries => {}
        }
        let succeeded = record.returned != 0 && record.result == 0;
        let class = record.entry_point.class();
        let mut arrows = Vec::new();
        if class.synchronizes() {
            self.arrows_to_synchronize(record, &mut arrows);
        }
        if let Some(of_verdicts) = self.to_calls.get(&(entry.thread, record.entered)) {
            arrows.extend(of_verdicts);
            self.met.extend(of_verdicts);
        }
        self.call(entry, &arrows)?;
        if record.submitted() && (succeeded || record.returned == 0) {
            self.submitted(entry)?;
        }
        if !succeeded {
            return Ok(());
        }
        match class {
            Class::ContextSynchronize => {
                self.complete(Covers::Context(u32::from(record.context)), record.entered, record.returned)
            }
            Class::StreamSynchronize | Class::StreamQuery => {
                self.complete(Covers::Stream(record.stream), record.entered, record.returned)
            }
            Class::EventSynchronize | Class::EventQuery => self.event_complete(record),
            Class::EventRecord if record.stream == 0 => {
                let context = u32::from(record.context);
                let recorded = Recorded { at: record.entered, stream: 0, context, origin: None };
                self.events.insert(record.detail, recorded);
                Ok(())
            }
            Class::ContextDestroy if record.context != 0 => {
                self.complete(Covers::Context(u32::from(record.context)), record.returned, record.returned)
            }
            Class::GraphLaunch => {
                self.graph_launched = self.graph_launched.max(record.returned);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Takes in a verdict, before or after the records that it is about, but before the calls in progress.
    pub fn judge(&mut self, shown: Shown) {
        let mut arrows = Vec::new();
        let mut arrow = || {
            self.arrows += 1;
            arrows.push(self.arrows);
            self.arrows
        };
        for &call in &shown.blocked {
            self.to_calls.entry(call).or_default().push(arrow());
        }
        for &(stream, at) in &shown.culprits {
            let arrow = arrow();
            self.to_operations.entry((stream, at)).or_default().push(arrow);
            let rows = self.streams.get_mut(&stream).map(|s| s.rows.as_mut_slice()).unwrap_or_default();
            let mut open = rows.iter_mut().filter_map(|row| row.open.as_mut());
            if let Some(operation) = open.find(|operation| operation.record.entered == at) {
                operation.arrows.push(arrow);
                self.met.insert(arrow);
            }
        }
        self.judgements.push(Judgement { shown, arrows });
    }

    /// The verdicts that were taken in so far are over since this moment.
    pub fn judged_until(&mut self, over: Nanos) {
        self.judgements.iter_mut().for_each(|judgement| judgement.shown.until = Some(over));
    }

    /// Writes the verdicts, as far as they lie in the range. Each has a row of its own: they overlap.
    fn write_judgements(&mut self, range: &RangeInclusive<Nanos>) -> io::Result<()> {
        for Judgement { shown, arrows } in std::mem::take(&mut self.judgements) {
            let end = shown.until.unwrap_or(self.last).max(shown.from);
            if shown.from > *range.end() || end < *range.start() {
                continue;
            }
            let key = "verdict";
            let track = self.trace.track(Track::Below { parent: self.process, name: "LazyGuard verdict", key })?;
            let mut facts: Vec<_> = shown.facts.iter().map(|(n, v)| (n.as_str(), Value::Text(v))).collect();
            if shown.until.is_some() {
                facts.push(("over since", Value::Bool(true)));
            }
            let flows: Vec<_> = arrows.into_iter().filter(|arrow| self.met.contains(arrow)).collect();
            let at = shown.from.max(*range.start());
            let event = Event { track, at, name: &shown.name, category: "verdict", flows: &flows, facts: &facts };
            self.trace.event(What::Begin, &event)?;
            self.slices += 1;
            self.trace.end(track, end.min(*range.end()).max(at))?;
        }
        Ok(())
    }

    /// Writes what is still open, the verdicts as far as they lie in the range, and the last moment. Returns how many slices
    /// there are, and bytes.
    pub fn finish(mut self, how_it_ended: &str, range: &RangeInclusive<Nanos>) -> io::Result<(u64, u64)> {
        for number in std::mem::take(&mut self.busy) {
            // What ended unseen ended before the moment up to which the table knows the stream to be complete.
            let until = self.complete_until(number);
            let Some(mut stream) = self.streams.remove(&number) else { continue };
            for row in &mut stream.rows {
                if let Some(operation) = row.open.take() {
                    let end = if operation.record.entered <= until { End::Known(until) } else { End::Never };
                    self.write_operation(row.track, row.free_from, &operation, end)?;
                }
            }
        }
        self.write_judgements(range)?;
        let name = format!("last seen; {how_it_ended}");
        let last = Event { track: self.process, at: self.last, name: &name, category: "other", flows: &[], facts: &[] };
        self.trace.event(What::Instant, &last)?;
        let written = self.trace.written();
        self.trace.finish()?;
        Ok((self.slices, written))
    }

    fn complete_until(&self, number: u32) -> Nanos {
        let (Some(stream), Some(known)) =
            (self.streams.get(&number), self.recording.streams().iter().find(|s| s.number == number))
        else {
            return 0;
        };
        let context = self.recording.contexts().iter().find(|c| c.number == stream.context);
        let idle_until = context.map_or(0, |c| c.idle_until);
        // Where the number has come to mean another stream, that one's birth says that this one's work is done.
        if stream.handle == known.handle {
            known.complete_until.max(idle_until)
        } else {
            known.born.max(idle_until)
        }
    }

    // --- threads ---

    fn thread(&mut self, entry: &Entry) -> io::Result<&mut Thread> {
        use std::collections::hash_map::Entry as Place;
        match self.threads.entry(entry.thread_number) {
            Place::Occupied(place) => Ok(place.into_mut()),
            Place::Vacant(place) => {
                let known = self.recording.threads().iter().find(|t| t.number == entry.thread_number);
                let name = known.map_or("", |thread| thread.name.as_str());
                let process = self.recording.facts().process;
                let calls = self.trace.track(Track::Thread { process, id: entry.thread, name })?;
                Ok(place.insert(Thread { calls, guard: None }))
            }
        }
    }

    fn call(&mut self, entry: &Entry, arrows: &[u64]) -> io::Result<()> {
        let track = self.thread(entry)?.calls;
        let record = &entry.record;
        let category = event_of_record(record.kind, record.entry_point.class());
        let mut facts = Facts::new();
        facts.add("stream", Value::Unsigned(u64::from(record.stream)), record.stream != 0);
        if let Some(function) = self.names.function_of(record) {
            facts.add("function", Value::Text(function), true);
        }
        match record.kind {
            Kind::ColdFunction => facts.add("loads", Value::Text("function"), true),
            Kind::ColdModule => facts.add("loads", Value::Text("module"), true),
            Kind::Queries => facts.add("queries", Value::Unsigned(record.extent), true),
            _ => {}
        }
        facts.add("result", Value::Signed(i64::from(record.result)), record.result != 0);
        facts.add("captured", Value::Bool(true), record.flags & flag::CAPTURED != 0);
        facts.add("left without returning", Value::Bool(true), record.flags & flag::LEFT != 0);
        match self.callers.name(record.caller) {
            Some(name) => facts.add("called from", Value::Text(name), true),
            None => facts.add("called from", Value::Pointer(record.caller), record.caller != 0),
        }
        facts.add("in progress", Value::Bool(true), record.returned == 0);
        let name = record.entry_point.symbol();
        let event = Event { track, at: record.entered, name, category, flows: arrows, facts: facts.all() };
        self.trace.event(What::Begin, &event)?;
        self.slices += 1;
        if record.returned != 0 {
            self.trace.end(track, record.returned.max(record.entered))?;
        }
        Ok(())
    }

    fn hazard(&mut self, entry: &Entry) -> io::Result<()> {
        let track = self.thread(entry)?.calls;
        let record = &entry.record;
        let noted = HazardEvent::of(record, entry.thread);
        let code = noted.map(|noted| noted.code);
        let other = noted.map(|noted| noted.other).unwrap_or_default();
        let name = code.map_or_else(|| "hazard".to_owned(), |code| format!("hazard {code}"));
        let mut facts = Facts::new();
        facts.add("what", Value::Text(code.map_or("", Code::title)), code.is_some());
        facts.add("call", Value::Text(record.entry_point.symbol()), true);
        facts.add("in flight on stream", Value::Unsigned(other.stream.into()), other.stream != 0);
        let in_flight = self.names.function(other.function, meant_at(record));
        if let Some(function) = in_flight {
            facts.add("in flight", Value::Text(function), true);
        }
        let count = noted.map_or(0, |noted| noted.count);
        facts.add("times so far", Value::Unsigned(count.into()), count != 0);
        facts.add("prevented", Value::Bool(true), noted.is_some_and(|noted| noted.flags.says(Flags::PREVENTED)));
        let category = event_of_record(record.kind, record.entry_point.class());
        let event = Event { track, at: record.entered, name: &name, category, flows: &[], facts: facts.all() };
        self.trace.event(What::Instant, &event)
    }

    fn preload(&mut self, entry: &Entry) -> io::Result<()> {
        let Thread { guard, .. } = *self.thread(entry)?;
        let track = match guard {
            Some(track) => track,
            None => {
                let name = format!("guard in thread {}", entry.thread);
                let key = format!("guard {}", entry.thread_number);
                let track = self.trace.track(Track::Below { parent: self.process, name: &name, key: &key })?;
                self.thread(entry)?.guard = Some(track);
                track
            }
        };
        let record = &entry.record;
        let mut facts = Facts::new();
        facts.add("loaded", Value::Unsigned(record.extent & 0xffff_ffff), true);
        facts.add("refused", Value::Unsigned(record.extent >> 32 & 0xffff), true);
        facts.add("left out", Value::Unsigned(record.extent >> 48), true);
        facts.add("in call", Value::Text(record.entry_point.symbol()), true);
        let category = event_of_record(record.kind, record.entry_point.class());
        let name = "preload";
        let event = Event { track, at: record.entered, name, category, flows: &[], facts: facts.all() };
        self.trace.event(What::Begin, &event)?;
        self.slices += 1;
        self.trace.end(track, record.returned.max(record.entered))
    }

    // --- streams ---

    /// The stream that a record means; makes it known, and takes leave of the one that had its number before.
    fn stream(&mut self, record: &Record) -> io::Result<()> {
        let number = record.stream;
        let named = self.recording.strings().stream(number, meant_at(record));
        let known = self.recording.streams().iter().find(|s| s.number == number);
        let (handle, context, kind) = match (named, known) {
            (Some(named), _) => (named.handle, named.context, named.kind.name()),
            (None, Some(known)) => (known.handle, known.context, known.kind.name()),
            (None, None) => (0, u32::from(record.context), "unknown"),
        };
        if self.streams.get(&number).is_some_and(|s| s.handle == handle && s.context == context) {
            return Ok(());
        }
        self.complete(Covers::Stream(number), record.entered, record.entered)?;
        let name = format!("stream {number} ({handle:#x}, {kind})");
        self.operations += 1;
        let key = format!("stream {number} of operation {}", self.operations);
        self.streams.insert(number, Stream { handle, context, name, key, rows: Vec::new() });
        Ok(())
    }

    fn submitted(&mut self, entry: &Entry) -> io::Result<()> {
        let record = &entry.record;
        if record.stream == 0 {
            return Ok(());
        }
        self.stream(record)?;
        self.operations += 1;
        let (stream, serial) = (record.stream, self.operations);
        let mut arrows = Vec::new();
        let mut origin = || {
            self.arrows += 1;
            arrows.push(self.arrows);
            Origin { stream, serial, arrow: self.arrows }
        };
        match record.entry_point.class() {
            Class::EventRecord => {
                let (at, context) = (record.entered, u32::from(record.context));
                let recorded = Recorded { at, stream, context, origin: Some(origin()) };
                self.events.insert(record.detail, recorded);
            }
            Class::StreamWaitEvent => {
                if let Some(from) = self.events.get(&record.detail).and_then(|recorded| recorded.origin) {
                    arrows.push(self.arrow_from(from));
                }
            }
            Class::WaitValue | Class::WriteValue | Class::BatchMemOp if record.detail != 0 => {
                let origin = origin();
                self.memory_operation(record, origin, &mut arrows);
            }
            _ => {}
        }
        if let Some(of_verdicts) = self.to_operations.get(&(stream, record.entered)) {
            arrows.extend(of_verdicts);
            self.met.extend(of_verdicts);
        }
        self.place(Operation { serial, thread: entry.thread, record: *record, arrows })
    }

    /// Arrows between a wait for a value and the write that ends it, whichever came first.
    fn memory_operation(&mut self, record: &Record, origin: Origin, arrows: &mut Vec<u64>) {
        let (address, value) = (record.detail, record.extent);
        if record.flags & flag::WAIT != 0 {
            let flags = u32::from(record.block()[0]);
            let wide = record.flags & flag::WIDE != 0;
            let wait = ValueWait { at: record.entered, address, value, flags, wide };
            match self.writes.get(&address).copied().filter(|(written, _)| wait.satisfied_by(*written)) {
                Some((_, from)) => arrows.push(self.arrow_from(from)),
                None => {
                    let mut waits = self.waits.remove(&address).unwrap_or_default();
                    if waits.len() < MOST_WAITS {
                        waits.push((wait, origin));
                    }
                    self.waits.insert(address, waits);
                }
            }
            return;
        }
        self.writes.insert(address, (value, origin));
        let Some(mut waits) = self.waits.remove(&address) else { return };
        let mut ended = Vec::new();
        waits.retain(|(wait, from)| {
            let ends = wait.satisfied_by(value);
            if ends {
                ended.push(*from);
            }
            !ends
        });
        if !waits.is_empty() {
            self.waits.insert(address, waits);
        }
        arrows.extend(ended.into_iter().map(|from| self.arrow_from(from)));
    }

    /// An arrow from an operation: one of its own as long as the operation can still be given one.
    fn arrow_from(&mut self, origin: Origin) -> u64 {
        let rows = self.streams.get_mut(&origin.stream).map(|s| s.rows.as_mut_slice()).unwrap_or_default();
        let mut open = rows.iter_mut().filter_map(|row| row.open.as_mut());
        match open.find(|operation| operation.serial == origin.serial) {
            Some(operation) if operation.arrows.len() < MOST_ARROWS => {
                self.arrows += 1;
                operation.arrows.push(self.arrows);
                self.arrows
            }
            _ => origin.arrow,
        }
    }

    /// Arrows to a synchronize from what it waits for: of each stream the oldest and the newest operation.
    fn arrows_to_synchronize(&mut self, record: &Record, arrows: &mut Vec<u64>) {
        let covered = match record.entry_point.class() {
            Class::EventSynchronize => {
                if let Some(from) = self.events.get(&record.detail).and_then(|recorded| recorded.origin) {
                    arrows.push(self.arrow_from(from));
                }
                return;
            }
            Class::StreamSynchronize => self.covered(Covers::Stream(record.stream)),
            _ => self.covered(Covers::Context(u32::from(record.context))),
        };
        for number in covered {
            let Some(stream) = self.streams.get(&number) else { continue };
            let open = || {
                let operations = stream.rows.iter().filter_map(|row| row.open.as_ref());
                operations.filter(|o| o.record.entered <= record.entered).map(|o| o.serial)
            };
            let ends: BTreeSet<_> = open().min().into_iter().chain(open().max()).collect();
            for serial in ends {
                arrows.push(self.arrow_from(Origin { stream: number, serial, arrow: 0 }));
            }
        }
    }

    fn covered(&self, what: Covers) -> Vec<u32> {
        match what {
            Covers::Stream(number) => self.busy.get(&number).copied().into_iter().collect(),
            Covers::Context(context) => {
                let of_context = |number: &u32| self.streams.get(number).is_some_and(|s| s.context == context);
                self.busy.iter().copied().filter(of_context).collect()
            }
        }
    }

    /// Finds a row for an operation.
    fn place(&mut self, operation: Operation) -> io::Result<()> {
        let number = operation.record.stream;
        let at = operation.record.entered;
        let Some(stream) = self.streams.get_mut(&number) else { return Ok(()) };
        self.busy.insert(number);
        let free = stream.rows.iter().take(ROWS).position(|row| row.open.is_none() && row.free_from <= at);
        let index = match free {
            Some(index) => index,
            None if stream.rows.len() <= ROWS => {
                let below = Track::Below { parent: self.process, name: &stream.name, key: &stream.key };
                let track = self.trace.track(below)?;
                stream.rows.push(Row { track, free_from: 0, open: None });
                stream.rows.len() - 1
            }
            None => ROWS,
        };
        let row = &mut stream.rows[index];
        let (track, free_from) = (row.track, row.free_from);
        if let Some(before) = row.open.replace(operation) {
            // The last row: an operation gives way to the next.
            let end = at.max(before.record.entered).max(free_from);
            row.free_from = end;
            self.write_operation(track, free_from, &before, End::GivesWay(end))?;
        }
        Ok(())
    }

    /// What was submitted up to `until` is known to be complete since `at`.
    fn complete(&mut self, what: Covers, until: Nanos, at: Nanos) -> io::Result<()> {
        for number in self.covered(what) {
            let Some(mut stream) = self.streams.remove(&number) else { continue };
            let mut still_busy = false;
            for row in &mut stream.rows {
                let Some(operation) = row.open.take_if(|operation| operation.record.entered <= until) else {
                    still_busy |= row.open.is_some();
                    continue;
                };
                let free_from = row.free_from;
                row.free_from = free_from.max(at).max(operation.record.entered);
                self.write_operation(row.track, free_from, &operation, End::Known(row.free_from))?;
            }
            if !still_busy {
                self.busy.remove(&number);
            }
            self.streams.insert(number, stream);
        }
        Ok(())
    }

    fn event_complete(&mut self, record: &Record) -> io::Result<()> {
        let Some(recorded) = self.events.get(&record.detail).copied() else { return Ok(()) };
        // A graph may have recorded the event anew.
        if self.graph_launched >= recorded.at {
            return Ok(());
        }
        let what =
            if recorded.stream == 0 { Covers::Context(recorded.context) } else { Covers::Stream(recorded.stream) };
        self.complete(what, recorded.at, record.returned)
    }

    /// Writes an operation that lies in a row which was taken until `free_from`.
    fn write_operation(&mut self, track: u64, free_from: Nanos, operation: &Operation, end: End) -> io::Result<()> {
        let record = &operation.record;
        let class = record.entry_point.class();
        let at = record.entered.max(free_from);
        let base = record.entry_point.info().base;
        let (grid, block) = (record.grid(), record.block().map(u32::from));
        let mut facts = Facts::new();
        if class == Class::Launch {
            for shape in [grid, block] {
                if self.shapes.len() < GENERATION && !self.shapes.contains_key(&shape) {
                    let [x, y, z] = shape;
                    self.shapes.insert(shape, format!("{x}x{y}x{z}").into());
                }
            }
            if let (Some(grid), Some(block)) = (self.shapes.get(&grid), self.shapes.get(&block)) {
                facts.add("grid", Value::Text(grid), true);
                facts.add("block", Value::Text(block), true);
            }
            // Where a launch loads, this word names what it loaded from.
            let shared = record.kind == Kind::Call && record.detail != 0;
            facts.add("shared bytes", Value::Unsigned(record.detail), shared);
        }
        let memory_operation = matches!(class, Class::WaitValue | Class::WriteValue | Class::BatchMemOp);
        if memory_operation {
            facts.add("address", Value::Pointer(record.detail), true);
            facts.add("value", Value::Unsigned(record.extent), true);
            facts.add("waits until it is", Value::Text(condition(record)), record.flags & flag::WAIT != 0);
        }
        let moves_bytes = matches!(class, Class::CopyAsync | Class::AllocateAsync) && record.extent != 0;
        facts.add("bytes", Value::Unsigned(record.extent), moves_bytes);
        facts.add("submitted by thread", Value::Unsigned(u64::from(operation.thread)), true);
        facts.add("gives way to the next", Value::Bool(true), matches!(end, End::GivesWay(_)));
        facts.add("not known to have ended", Value::Bool(true), matches!(end, End::Never));
        let category = event_of_record(Kind::Call, class);
        let name = self.names.function_of(record).unwrap_or(base);
        let event = Event { track, at, name, category, flows: &operation.arrows, facts: facts.all() };
        self.trace.event(What::Begin, &event)?;
        self.slices += 1;
        match end {
            End::Known(end) | End::GivesWay(end) => self.trace.end(track, end.max(at)),
            End::Never => Ok(()),
        }
    }
}

/// Facts of an event, in place.
struct Facts<'a> {
    all: [(&'a str, Value<'a>); MOST_FACTS],
    used: usize,
}

impl<'a> Facts<'a> {
    fn new() -> Self {
        Self { all: [("", Value::Bool(false)); MOST_FACTS], used: 0 }
    }

    /// Adds a fact if it applies.
    fn add(&mut self, name: &'static str, value: Value<'a>, applies: bool) {
        if let Some(place) = self.all.get_mut(self.used).filter(|_| applies) {
            *place = (name, value);
            self.used += 1;
        }
    }

    fn all(&self) -> &[(&'a str, Value<'a>)] {
        &self.all[..self.used]
    }
}

#[cfg(test)]
mod tests {
    use super::super::read_back::{ReadBack, Slice};
    use super::*;
    use crate::recordings::{facts, launch, submit, wait, write, Job};

    const ARMED: u64 = 77_000_000_000;
    const END: u64 = 1_000_000;

    fn timeline(job: &Job) -> ReadBack {
        timeline_with(job, &[], &[], 0..=Nanos::MAX)
    }

    /// The timeline of a recording, calls in progress last; with verdicts that were known before, and that come to be known.
    fn timeline_with(job: &Job, before: &[Shown], after: &[Shown], range: RangeInclusive<Nanos>) -> ReadBack {
        let recording = Recording::open(job.bytes(END)).unwrap();
        let mut bytes = Vec::new();
        let mut timeline = Timeline::new(&recording, Symbolizer::default(), &mut bytes).unwrap();
        before.iter().for_each(|shown| timeline.judge(shown.clone()));
        recording.records().for_each(|entry| timeline.see(&entry).unwrap());
        after.iter().for_each(|shown| timeline.judge(shown.clone()));
        for thread in recording.threads() {
            let Some(record) = thread.call_in_progress else { continue };
            let lane = lazyguard_core::trace::Lane::Waits;
            let (thread_number, thread) = (thread.number, thread.thread);
            timeline.see(&Entry { thread_number, thread, lane, number: 0, record }).unwrap();
        }
        let (slices, written) = timeline.finish("was killed", &range).unwrap();
        assert_eq!(written, bytes.len() as u64);
        let read = ReadBack::of(&bytes);
        assert_eq!(read.slices.iter().filter(|slice| !slice.instant).count() as u64, slices);
        read
    }

    fn spans<'a>(slices: impl Iterator<Item = &'a Slice>) -> Vec<(&'a str, u64, Option<u64>)> {
        slices.map(|s| (s.name.as_str(), s.begin - ARMED, s.end.map(|end| end - ARMED))).collect()
    }

    #[test]
    fn calls_lie_on_their_threads_and_operations_on_their_streams() {
        let job = Job::new();
        let (main, worker) = (job.thread(100, "main"), job.thread(101, "worker"));
        let (one, two) = (job.stream(0x51), job.stream(0x52));
        let (k1, k2) = (job.function("_Z2k1v"), job.function("k2"));
        job.make(main, &launch(one, k1, 100), 5, 0);
        job.make(worker, &launch(two, k2, 200), 5, 0);
        job.make(main, &launch(one, k2, 300), 5, 0);
        job.synchronize(main, one, 400, 50);
        let read = timeline(&job);
        assert_eq!(
            spans(read.of_track("main")),
            [
                ("cuLaunchKernel", 100, Some(105)),
                ("cuLaunchKernel", 300, Some(305)),
                ("cuStreamSynchronize", 400, Some(450))
            ]
        );
        assert_eq!(spans(read.of_track("worker")), [("cuLaunchKernel", 200, Some(205))]);
        assert_eq!(spans(read.of_track("stream 1 (0x51")), [("k1", 100, Some(450)), ("k2", 300, Some(450))]);
        assert_eq!(spans(read.of_track("stream 2 (0x52")), [("k2", 200, None)]);
        let first = read.of_track("stream 1").next().unwrap();
        let fact = |name: &str| first.facts.get(name).map(String::as_str);
        assert_eq!((fact("grid"), fact("block")), (Some("40x2x1"), Some("128x1x1")));
        assert_eq!(fact("submitted by thread"), Some("100"));
        assert!(read.of_track("stream 2").all(|s| s.facts.contains_key("not known to have ended")));
        let expect = [("k1", "cuStreamSynchronize"), ("k2", "cuStreamSynchronize")];
        assert_eq!(read.arrows(), expect.map(|(a, b)| (a.to_owned(), b.to_owned())));
        let last = read.slices.iter().find(|slice| slice.instant).unwrap();
        assert_eq!((last.name.as_str(), last.begin), ("last seen; was killed", ARMED + END));
    }

    #[test]
    fn what_overlaps_lies_in_rows_and_nothing_is_cut_short_but_in_the_last() {
        let job = Job::new();
        let main = job.thread(100, "main");
        let stream = job.stream(0x51);
        let kernels: Vec<_> = (0..20).map(|n| job.function(&format!("k{n}"))).collect();
        for (n, kernel) in kernels.iter().enumerate() {
            job.make(main, &launch(stream, *kernel, 100 + 10 * n as u64), 5, 0);
        }
        job.synchronize(main, stream, 500, 100);
        job.make(main, &launch(stream, kernels[0], 700), 5, 0);
        let read = timeline(&job);
        let all: Vec<_> = read.of_track("stream 1").collect();
        assert_eq!(all.len(), 21);
        for (n, slice) in all.iter().enumerate().take(20) {
            let end = match n {
                0..8 | 19 => 600,
                // In the last row an operation gives way to the next.
                _ => 100 + 10 * (n as u64 + 1),
            };
            assert_eq!((slice.begin - ARMED, slice.end), (100 + 10 * n as u64, Some(ARMED + end)), "{slice:?}");
            assert_eq!(slice.facts.contains_key("gives way to the next"), end != 600, "{slice:?}");
        }
        let rows: BTreeSet<_> = all.iter().map(|slice| slice.row).collect();
        assert_eq!((rows.len(), all[20].row), (ROWS + 1, all[0].row));
    }

    #[test]
    fn a_row_is_free_when_the_call_that_told_so_has_returned() {
        let job = Job::new();
        let (main, worker) = (job.thread(100, "main"), job.thread(101, "worker"));
        let stream = job.stream(0x51);
        let k = job.function("k");
        job.make(main, &launch(stream, k, 100), 5, 0);
        job.synchronize(main, stream, 200, 300);
        job.make(worker, &launch(stream, k, 250), 5, 0); // while the other thread waits
        job.make(worker, &launch(stream, k, 600), 5, 0);
        let read = timeline(&job);
        let all: Vec<_> = read.of_track("stream 1").collect();
        assert_eq!(spans(all.iter().copied()), [("k", 100, Some(500)), ("k", 250, None), ("k", 600, None)]);
        assert_ne!(all[0].row, all[1].row);
        assert_eq!(all[0].row, all[2].row);
    }

    #[test]
    fn arrows_join_waits_writes_events_and_synchronizes() {
        let job = Job::new();
        let main = job.thread(100, "main");
        let (one, two) = (job.stream(0x51), job.stream(0x52));
        let event = |record: Record| Record { detail: 0xe, ..record };
        job.make(main, &wait(one, 0xf1a6, 1, 100), 5, 0);
        job.make(main, &write(two, 0xf1a6, 7, 110), 5, 0); // does not satisfy it
        job.make(main, &write(two, 0xf1a6, 1, 120), 5, 0);
        job.make(main, &wait(one, 0xf1a6, 1, 130), 5, 0); // is satisfied by what is there
        job.make(main, &event(submit("cuEventRecord", two, 140)), 5, 0);
        job.make(main, &event(submit("cuStreamWaitEvent", one, 150)), 5, 0);
        job.make(main, &event(facts("cuEventSynchronize", 160)), 40, 0);
        job.make(main, &facts("cuCtxSynchronize", 300), 40, 0);
        let read = timeline(&job);
        let arrows: BTreeSet<_> = read.arrows().into_iter().collect();
        let expect = [
            ("cuEventRecord", "cuEventSynchronize"),
            ("cuEventRecord", "cuStreamWaitEvent"),
            ("cuStreamWaitEvent", "cuCtxSynchronize"),
            ("cuStreamWaitValue32", "cuCtxSynchronize"),
            ("cuStreamWaitValue32", "cuStreamWriteValue32"),
            ("cuStreamWriteValue32", "cuStreamWaitValue32"),
        ];
        assert_eq!(arrows, expect.map(|(a, b)| (a.to_owned(), b.to_owned())).into());
        // The event tells of the stream it was recorded on up to its own record, and the context of the rest.
        let ends: Vec<_> = spans(read.of_track("stream 2")).into_iter().map(|(_, _, end)| end).collect();
        assert_eq!(ends, [Some(200); 3]);
        assert!(spans(read.of_track("stream 1")).iter().all(|(_, _, end)| *end == Some(340)));
    }

    #[test]
    fn a_value_that_ends_no_wait_has_no_arrow() {
        let job = Job::new();
        let main = job.thread(100, "main");
        let (one, two) = (job.stream(0x51), job.stream(0x52));
        job.make(main, &write(two, 0xf1a6, 1, 100), 5, 0);
        job.make(main, &wait(one, 0xf1a6, 2, 110), 5, 0);
        job.make(main, &write(two, 0xf1a6, 3, 120), 5, 0);
        job.make(main, &write(two, 0xbeef, 2, 130), 5, 0);
        assert_eq!(timeline(&job).arrows(), []);
    }

    #[test]
    fn an_event_that_a_graph_may_have_recorded_tells_nothing() {
        let event = |record: Record| Record { detail: 0xe, ..record };
        for (graph, end) in [(false, Some(205)), (true, None)] {
            let job = Job::new();
            let main = job.thread(100, "main");
            let (one, two) = (job.stream(0x51), job.stream(0x52));
            job.make(main, &event(submit("cuEventRecord", one, 100)), 5, 0);
            if graph {
                job.make(main, &submit("cuGraphLaunch", two, 150), 5, 0);
            }
            job.make(main, &event(Record { stream: one, ..facts("cuEventQuery", 200) }), 5, 0);
            assert_eq!(spans(timeline(&job).of_track("stream 1")), [("cuEventRecord", 100, end)]);
        }
    }

    #[test]
    fn only_success_tells_that_something_has_ended() {
        let job = Job::new();
        let main = job.thread(100, "main");
        let stream = job.stream(0x51);
        let k = job.function("k");
        let query = |at| Record { stream, ..facts("cuStreamQuery", at) };
        job.make(main, &launch(stream, k, 100), 5, 0);
        job.make(main, &query(200), 5, 600);
        job.make(main, &query(300), 5, 600);
        job.make(main, &query(400), 5, 0);
        job.make(main, &launch(stream, k, 500), 5, 719); // refused: nothing was submitted
        let read = timeline(&job);
        assert_eq!(spans(read.of_track("stream 1")), [("k", 100, Some(405))]);
        let queries: Vec<_> = read.of_track("main").filter(|s| s.category == "query").collect();
        let polled = queries[0].facts.get("queries").map(String::as_str);
        assert_eq!((queries.len(), polled, queries[0].end), (2, Some("2"), Some(ARMED + 305)));
        let refused = read.of_track("main").find(|s| s.facts.get("result").is_some_and(|r| r == "719"));
        assert!(refused.is_some());
    }

    #[test]
    fn calls_in_progress_and_what_they_wait_for_have_no_end() {
        let job = Job::new();
        let main = job.thread(100, "main");
        let stream = job.stream(0x51);
        let k = job.function("spin");
        job.make(main, &launch(stream, k, 100), 5, 0);
        job.hold(main, &Record { stream, ..facts("cuStreamSynchronize", 200) });
        let read = timeline(&job);
        assert_eq!(spans(read.of_track("stream 1")), [("spin", 100, None)]);
        assert_eq!(spans(read.of_track("main"))[1], ("cuStreamSynchronize", 200, None));
        assert_eq!(read.arrows(), [("spin".to_owned(), "cuStreamSynchronize".to_owned())]);
    }

    /// A kernel that does not end, and a thread that waits for it.
    fn hung() -> (Job, Shown) {
        let job = Job::new();
        let main = job.thread(100, "main");
        let stream = job.stream(0x51);
        let k = job.function("spin");
        job.make(main, &launch(stream, k, 50), 5, 0);
        job.make(main, &launch(stream, k, 100), 5, 0);
        job.hold(main, &Record { stream, ..facts("cuStreamSynchronize", 200) });
        let facts = [("fix", "Change it."), ("chain 1", "one"), ("chain 2", "two")];
        let shown = Shown {
            name: "LG299: blocked".to_owned(),
            from: 100,
            until: None,
            facts: facts.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
            culprits: vec![(stream, 100)],
            blocked: vec![(100, 200)],
        };
        (job, shown)
    }

    #[test]
    fn a_verdict_has_a_track_and_arrows_to_what_it_is_about() {
        let (job, shown) = hung();
        for (before, after) in [(vec![shown.clone()], vec![]), (vec![], vec![shown.clone()])] {
            let read = timeline_with(&job, &before, &after, 0..=Nanos::MAX);
            let all: Vec<_> = read.of_track("LazyGuard verdict").collect();
            assert_eq!(spans(all.iter().copied()), [("LG299: blocked", 100, Some(END))]);
            let told: Vec<_> = all[0].facts.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            assert_eq!(told, [("chain 1", "one"), ("chain 2", "two"), ("fix", "Change it.")]);
            assert_eq!(all[0].category, "verdict");
            let of_it = |slice: &&Slice| slice.flows.iter().any(|flow| all[0].flows.contains(flow));
            let tied: Vec<_> = read.slices.iter().filter(of_it).map(|s| (s.name.as_str(), s.begin - ARMED)).collect();
            // The second launch's operation, and not the first one's.
            assert_eq!(tied, [("spin", 100), ("LG299: blocked", 100), ("cuStreamSynchronize", 200)]);
        }
    }

    #[test]
    fn a_verdict_about_what_is_not_recorded_has_no_arrows_and_stays() {
        let (job, shown) = hung();
        let gone = Shown { culprits: vec![(7, 100)], blocked: vec![(999, 200)], ..shown };
        let read = timeline_with(&job, std::slice::from_ref(&gone), &[], 0..=Nanos::MAX);
        let all: Vec<_> = read.of_track("LazyGuard verdict").collect();
        assert_eq!((all.len(), all[0].flows.len()), (1, 0));
    }

    #[test]
    fn verdicts_have_rows_of_their_own_end_when_they_are_over_and_keep_to_the_range() {
        let (job, shown) = hung();
        let over = Shown { until: Some(700), ..shown.clone() };
        let read = timeline_with(&job, &[over.clone(), shown.clone()], &[], 0..=Nanos::MAX);
        let all: Vec<_> = read.of_track("LazyGuard verdict").collect();
        assert_eq!(all.iter().map(|s| s.end.unwrap() - ARMED).collect::<Vec<_>>(), [700, END]);
        assert_ne!(all[0].row, all[1].row);
        assert!(all[0].facts.contains_key("over since") && !all[1].facts.contains_key("over since"));
        for (range, expect) in [(800..=900, vec![(800, 900)]), (300..=500, vec![(300, 500); 2]), (0..=99, vec![])] {
            let read = timeline_with(&job, &[over.clone(), shown.clone()], &[], range);
            let all: Vec<_> =
                read.of_track("LazyGuard verdict").map(|s| (s.begin - ARMED, s.end.unwrap() - ARMED)).collect();
            assert_eq!(all, expect);
        }
    }

    #[test]
    fn hazards_are_instants_and_loads_ahead_of_use_have_a_track_of_their_own() {
        let job = Job::new();
        let main = job.thread(100, "main");
        let k = job.function("spin");
        let hazard = Record { kind: Kind::Hazard, extent: 101, detail: 1 | u64::from(k) << 32, ..launch(1, 0, 100) };
        job.note(main, &Record { returned: 101, ..hazard });
        let preload = Record { kind: Kind::Preload, extent: 12 | 3 << 32, ..facts("cuDevicePrimaryCtxRetain", 200) };
        job.note(main, &Record { returned: 900, ..preload });
        let read = timeline(&job);
        let hazard = read.slices.iter().find(|slice| slice.category == "hazard").unwrap();
        assert_eq!((hazard.name.as_str(), hazard.instant), ("hazard LG101", true));
        assert_eq!(hazard.facts.get("in flight").map(String::as_str), Some("spin"));
        assert_eq!(spans(read.of_track("guard in thread 100")), [("preload", 200, Some(900))]);
    }

    #[test]
    fn a_stream_number_used_again_begins_another_track() {
        let job = Job::new();
        let main = job.thread(100, "main");
        let k = job.function("k");
        let first = job.stream(0x51);
        job.make(main, &launch(first, k, 100), 5, 0);
        job.synchronize(main, first, 150, 10);
        job.tracker.stream_gone(lazyguard_core::state::StreamKey { handle: 0x51, context: 0, thread: 0 });
        let key = lazyguard_core::state::StreamKey { handle: 0x99, context: 0, thread: 0 };
        let kind = lazyguard_core::state::StreamKind::Blocking;
        assert_eq!(job.tracker.stream(key, job.context, kind, 200), first);
        job.make(main, &launch(first, k, 300), 5, 0);
        let read = timeline(&job);
        assert_eq!(spans(read.of_track("stream 1 (0x51, non-blocking)")), [("k", 100, Some(160))]);
        assert_eq!(spans(read.of_track("stream 1 (0x99, blocking)")), [("k", 300, None)]);
    }

    #[test]
    fn what_is_remembered_has_a_bound() {
        let mut remembered = Remembered::new();
        for n in 0..10 * GENERATION {
            remembered.insert(n, n);
        }
        assert!(remembered.newer.len() + remembered.older.len() <= 2 * GENERATION);
        assert_eq!(remembered.get(&0), None);
        assert!((9 * GENERATION..10 * GENERATION).all(|n| remembered.get(&n) == Some(&n)));
        assert_eq!(remembered.remove(&(10 * GENERATION - 1)), Some(10 * GENERATION - 1));
    }
}
