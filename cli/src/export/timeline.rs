//! From records to tracks: the calls of each thread, the operations of each stream, and arrows for what waits for what.
//!
//! Verdicts lie on a track of their own, with arrows to the operations and calls that they are about.
//!
//! Must not: keep more than a bounded number of records, whatever the recording's size.

use super::drawing::{Drawing, Facts};
use super::judged::Shown;
use super::operations::Operations;
use super::perfetto::{Beginning, Event, Trace, Track, Value, What};
use crate::names::Names;
use crate::symbolize::Symbolizer;
use lazyguard_core::api::{Class, Code};
use lazyguard_core::hazard::{Flags, HazardEvent};
use lazyguard_core::replay::{proves, Proofs};
use lazyguard_core::report::event_of_record;
use lazyguard_core::trace::layout::flag;
use lazyguard_core::trace::read::{Entry, Recording, Source};
use lazyguard_core::trace::{Kind, Payload};
use lazyguard_core::Nanos;
use std::collections::{BTreeSet, HashMap};
use std::io::{self, Write};
use std::ops::RangeInclusive;

/// A thread's tracks.
struct Thread {
    calls: u64,
    /// The track of the guard's work in the thread; created at the first use.
    guard: Option<u64>,
}

/// A verdict, and the arrows that may begin or end at it.
struct Judgement {
    shown: Shown,
    arrows: Vec<u64>,
}

/// See the module.
pub(super) struct Timeline<'a, S, W> {
    drawing: Drawing<'a, S, W>,
    callers: Symbolizer,
    threads: HashMap<u32, Thread>,
    operations: Operations,
    proofs: Proofs,
    judgements: Vec<Judgement>,
    /// Arrows of verdicts to operations, by stream and submission, and to calls, by thread and entry.
    to_operations: HashMap<(u32, Nanos), Vec<u64>>,
    to_calls: HashMap<(u32, Nanos), Vec<u64>>,
    /// Arrows whose target has been written.
    met: BTreeSet<u64>,
    last: Nanos,
}

impl<'a, S: Source, W: Write> Timeline<'a, S, W> {
    pub fn new(recording: &'a Recording<S>, callers: Symbolizer, out: W) -> io::Result<Self> {
        let facts = recording.facts();
        let beginning = Beginning { monotonic: facts.armed_monotonic_nanos, unix: facts.armed_unix_nanos };
        let mut trace = Trace::new(out, beginning)?;
        let process = trace.track(Track::Process { id: facts.process, name: &facts.program })?;
        Ok(Self {
            drawing: Drawing::new(recording, Names::new(recording.strings()), trace, process),
            callers,
            threads: HashMap::new(),
            operations: Operations::default(),
            proofs: Proofs::default(),
            judgements: Vec::new(),
            to_operations: HashMap::new(),
            to_calls: HashMap::new(),
            met: BTreeSet::new(),
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
            // Not an action of the program, or one that is shown by the driver calls in it.
            Kind::Seen | Kind::Activity | Kind::Communication => return Ok(()),
            Kind::HostBegins | Kind::HostEnds => return self.ended(entry),
            Kind::Call | Kind::ColdFunction | Kind::ColdModule | Kind::Queries => {}
        }
        let class = record.entry_point.class();
        let recorded = record.event().and_then(|event| self.proofs.event(event));
        let mut arrows = Vec::new();
        if class == Class::EventSynchronize {
            arrows.extend(self.operations.arrow_from_event(&mut self.drawing, recorded));
        } else if class.synchronizes() {
            let scope = proves(record.entry_point, record.stream, record.context.into());
            arrows = scope.map_or_else(Vec::new, |s| self.operations.arrows_to(&mut self.drawing, s, record.entered));
        }
        if let Some(of_verdicts) = self.to_calls.get(&(entry.thread, record.entered)) {
            arrows.extend(of_verdicts);
            self.met.extend(of_verdicts);
        }
        self.call(entry, &arrows)?;
        if record.submitted() && record.result == 0 {
            let of_verdicts = self.to_operations.get(&(record.stream, record.entered)).cloned().unwrap_or_default();
            self.met.extend(&of_verdicts);
            self.operations.submitted(&mut self.drawing, entry, recorded, of_verdicts)?;
        }
        self.ended(entry)
    }

    /// What the record proves to have ended.
    fn ended(&mut self, entry: &Entry) -> io::Result<()> {
        match self.proofs.see(&entry.record) {
            Some(proven) => self.operations.complete(&mut self.drawing, &proven),
            None => Ok(()),
        }
    }

    /// Takes in a verdict, before or after the records that it is about, but before the calls in progress.
    pub fn judge(&mut self, shown: Shown) {
        let mut arrows = Vec::new();
        let mut arrow = || {
            let arrow = self.drawing.arrow();
            arrows.push(arrow);
            arrow
        };
        for &call in &shown.blocked {
            self.to_calls.entry(call).or_default().push(arrow());
        }
        for &(stream, at) in &shown.culprits {
            let arrow = arrow();
            self.to_operations.entry((stream, at)).or_default().push(arrow);
            if self.operations.point_at(stream, at, arrow) {
                self.met.insert(arrow);
            }
        }
        self.judgements.push(Judgement { shown, arrows });
    }

    /// Ends all verdicts so far at this time.
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
            let track = self.drawing.trace.track(Track::Below {
                parent: self.drawing.process,
                name: "LazyGuard verdict",
                key,
            })?;
            let mut facts: Vec<_> = shown.facts.iter().map(|(n, v)| (n.as_str(), Value::Text(v))).collect();
            if shown.until.is_some() {
                facts.push(("over since", Value::Bool(true)));
            }
            let flows: Vec<_> = arrows.into_iter().filter(|arrow| self.met.contains(arrow)).collect();
            let at = shown.from.max(*range.start());
            let event = Event { track, at, name: &shown.name, category: "verdict", flows: &flows, facts: &facts };
            self.drawing.trace.event(What::Begin, &event)?;
            self.drawing.slices += 1;
            self.drawing.trace.end(track, end.min(*range.end()).max(at))?;
        }
        Ok(())
    }

    /// Writes what is still open, the verdicts as far as they lie in the range, and the last moment. Returns how many slices
    /// there are, and bytes.
    pub fn finish(mut self, how_it_ended: &str, range: &RangeInclusive<Nanos>) -> io::Result<(u64, u64)> {
        self.operations.finish(&mut self.drawing)?;
        self.write_judgements(range)?;
        let name = format!("last seen; {how_it_ended}");
        let last = Event {
            track: self.drawing.process,
            at: self.last,
            name: &name,
            category: "other",
            flows: &[],
            facts: &[],
        };
        self.drawing.trace.event(What::Instant, &last)?;
        let written = self.drawing.trace.written();
        self.drawing.trace.finish()?;
        Ok((self.drawing.slices, written))
    }

    // --- threads ---

    fn thread(&mut self, entry: &Entry) -> io::Result<&mut Thread> {
        use std::collections::hash_map::Entry as Place;
        match self.threads.entry(entry.thread_number) {
            Place::Occupied(place) => Ok(place.into_mut()),
            Place::Vacant(place) => {
                let known = self.drawing.recording.threads().iter().find(|t| t.number == entry.thread_number);
                let name = known.map_or("", |thread| thread.name.as_str());
                let process = self.drawing.recording.facts().process;
                let calls = self.drawing.trace.track(Track::Thread { process, id: entry.thread, name })?;
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
        if let Some(function) = self.drawing.names.function_of(record) {
            facts.add("function", Value::Text(function), true);
        }
        match record.kind {
            Kind::ColdFunction => facts.add("loads", Value::Text("function"), true),
            Kind::ColdModule => facts.add("loads", Value::Text("module"), true),
            _ => {}
        }
        if let Payload::Queries { count, .. } = record.payload() {
            facts.add("queries", Value::Unsigned(count), true);
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
        self.drawing.trace.event(What::Begin, &event)?;
        self.drawing.slices += 1;
        if record.returned != 0 {
            self.drawing.trace.end(track, record.returned.max(record.entered))?;
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
        let in_flight = self.drawing.names.function(other.function, record.meant_at());
        if let Some(function) = in_flight {
            facts.add("in flight", Value::Text(function), true);
        }
        let count = noted.map_or(0, |noted| noted.count);
        facts.add("times so far", Value::Unsigned(count.into()), count != 0);
        facts.add("prevented", Value::Bool(true), noted.is_some_and(|noted| noted.flags.says(Flags::PREVENTED)));
        let category = event_of_record(record.kind, record.entry_point.class());
        let event = Event { track, at: record.entered, name: &name, category, flows: &[], facts: facts.all() };
        self.drawing.trace.event(What::Instant, &event)
    }

    fn preload(&mut self, entry: &Entry) -> io::Result<()> {
        let Thread { guard, .. } = *self.thread(entry)?;
        let track = match guard {
            Some(track) => track,
            None => {
                let name = format!("guard in thread {}", entry.thread);
                let key = format!("guard {}", entry.thread_number);
                let track =
                    self.drawing.trace.track(Track::Below { parent: self.drawing.process, name: &name, key: &key })?;
                self.thread(entry)?.guard = Some(track);
                track
            }
        };
        let record = &entry.record;
        let mut facts = Facts::new();
        if let Payload::Preload(preload) = record.payload() {
            facts.add("loaded", Value::Unsigned(preload.loaded), true);
            facts.add("refused", Value::Unsigned(preload.refused), true);
            facts.add("left out", Value::Unsigned(preload.left_out), true);
        }
        facts.add("in call", Value::Text(record.entry_point.symbol()), true);
        let category = event_of_record(record.kind, record.entry_point.class());
        let name = "preload";
        let event = Event { track, at: record.entered, name, category, flows: &[], facts: facts.all() };
        self.drawing.trace.event(What::Begin, &event)?;
        self.drawing.slices += 1;
        self.drawing.trace.end(track, record.returned.max(record.entered))
    }
}

#[cfg(test)]
#[path = "timeline_tests.rs"]
mod tests;
