//! From facts to tracks: the calls of each thread, the operations of each stream, the verdicts, and arrows for what waits for what.
//!
//! Must not: keep more than a bounded number of records.

use super::judged::Shown;
use super::operations::Operations;
use super::writer::{Event, Facts, Trace, Track, Value};
use crate::forms::record_line::Line;
use crate::stacks::Symbolizer;
use lazyguard_core::api::{Class, Code};
use lazyguard_core::hazard::{Flags, HazardEvent};
use lazyguard_core::replay::{proves, Replay};
use lazyguard_core::report::event_of_record;
use lazyguard_core::trace::read::{Entry, Recording, Source, StringTable, ThreadSeen};
use lazyguard_core::trace::Kind;
use lazyguard_core::Nanos;
use std::collections::{BTreeSet, HashMap};
use std::io::{self, Write};
use std::ops::RangeInclusive;

pub(crate) struct Timeline<'a> {
    threads_seen: &'a [ThreadSeen],
    texts: &'a StringTable,
    callers: Symbolizer,
    replay: Replay,
    operations: Operations<'a>,
    process: u32,
    calls: HashMap<u32, u64>,
    guards: HashMap<u32, u64>,
    judgements: Vec<(Shown, Vec<u64>)>,
    to_operations: HashMap<(u32, Nanos), Vec<u64>>,
    to_calls: HashMap<(u32, Nanos), Vec<u64>>,
    met: BTreeSet<u64>,
    last: Nanos,
}

impl<'a> Timeline<'a> {
    pub fn new<S: Source>(
        recording: &'a Recording<S>,
        callers: Symbolizer,
        out: &'a mut dyn Write,
    ) -> io::Result<Self> {
        let facts = recording.facts();
        let mut trace = Trace::new(out, facts.armed_monotonic_nanos, facts.armed_unix_nanos)?;
        let process_track = trace.track(Track::Process { id: facts.process, name: &facts.program })?;
        Ok(Self {
            threads_seen: recording.threads(),
            texts: recording.strings(),
            callers,
            replay: Replay::default(),
            operations: Operations::new(recording, trace, process_track),
            process: facts.process,
            calls: HashMap::new(),
            guards: HashMap::new(),
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
        let fact = self.replay.see(entry);
        match record.kind {
            Kind::Hazard => return self.hazard(entry),
            Kind::Preload => return self.preload(entry),
            // Not an action of the program, or one that is shown by the driver calls in it.
            Kind::Seen | Kind::Activity | Kind::Communication => return Ok(()),
            Kind::HostBegins | Kind::HostEnds => {}
            Kind::Call | Kind::ColdFunction | Kind::ColdModule | Kind::Queries => {
                let class = record.entry_point.class();
                let mut arrows = Vec::new();
                if class == Class::EventSynchronize {
                    arrows.extend(self.operations.arrow_from_event(fact.recorded));
                } else if class.synchronizes() {
                    let scope = proves(record.entry_point, record.stream, record.context.into());
                    arrows = scope.map_or_else(Vec::new, |scope| self.operations.arrows_to(scope, record.entered));
                }
                if let Some(of_verdicts) = self.to_calls.get(&(entry.thread, record.entered)) {
                    arrows.extend(of_verdicts);
                    self.met.extend(of_verdicts);
                }
                self.call(entry, &arrows)?;
                if record.submitted() && record.result == 0 {
                    let key = (record.stream, record.entered);
                    let of_verdicts = self.to_operations.get(&key).cloned().unwrap_or_default();
                    self.met.extend(&of_verdicts);
                    self.operations.submitted(entry, fact.recorded, of_verdicts)?;
                }
            }
        }
        fact.ended.map_or(Ok(()), |proven| self.operations.complete(&proven))
    }

    /// Takes in a verdict, before or after the records that it is about, but before the calls in progress.
    pub fn judge(&mut self, shown: Shown) {
        let arrows: Vec<_> = shown.blocked.iter().chain(&shown.culprits).map(|_| self.operations.arrow()).collect();
        let (to_calls, to_operations) = arrows.split_at(shown.blocked.len());
        for (call, &arrow) in shown.blocked.iter().zip(to_calls) {
            self.to_calls.entry(*call).or_default().push(arrow);
        }
        for (&(stream, at), &arrow) in shown.culprits.iter().zip(to_operations) {
            self.to_operations.entry((stream, at)).or_default().push(arrow);
            if self.operations.point_at(stream, at, arrow) {
                self.met.insert(arrow);
            }
        }
        self.judgements.push((shown, arrows));
    }

    pub fn judged_until(&mut self, over: Nanos) {
        self.judgements.iter_mut().for_each(|(shown, _)| shown.until = Some(over));
    }

    /// Writes the verdicts, as far as they lie in the range. Each has a row of its own: they overlap.
    fn write_judgements(&mut self, range: &RangeInclusive<Nanos>) -> io::Result<()> {
        for (shown, arrows) in std::mem::take(&mut self.judgements) {
            let end = shown.until.unwrap_or(self.last).max(shown.from);
            if shown.from > *range.end() || end < *range.start() {
                continue;
            }
            let track = self.operations.track_below("LazyGuard verdict", "verdict")?;
            let mut facts = Facts::default();
            shown.facts.iter().for_each(|(name, value)| facts.add(name, Value::Text(value), true));
            facts.add("over since", Value::Bool(true), shown.until.is_some());
            let flows: Vec<_> = arrows.into_iter().filter(|arrow| self.met.contains(arrow)).collect();
            let at = shown.from.max(*range.start());
            let event = Event { track, at, name: &shown.name, category: "verdict", flows: &flows, facts: &facts };
            self.operations.trace.slice(&event, Some(end.min(*range.end())))?;
        }
        Ok(())
    }

    /// Writes what is open, the verdicts in the range, and the last moment. Returns the counts of slices and bytes.
    pub fn finish(mut self, how_it_ended: &str, range: &RangeInclusive<Nanos>) -> io::Result<(u64, u64)> {
        self.operations.finish()?;
        self.write_judgements(range)?;
        let (track, at, name) = (self.operations.process_track, self.last, &*format!("last seen; {how_it_ended}"));
        let facts = &Facts::default();
        self.operations.trace.instant(&Event { track, at, name, category: "other", flows: &[], facts })?;
        self.operations.trace.finish()
    }

    fn thread(&mut self, entry: &Entry) -> io::Result<u64> {
        if let Some(track) = self.calls.get(&entry.thread_number) {
            return Ok(*track);
        }
        let known = self.threads_seen.iter().find(|t| t.number == entry.thread_number);
        let name = known.map_or("", |thread| thread.name.as_str());
        let track = self.operations.trace.track(Track::Thread { process: self.process, id: entry.thread, name })?;
        self.calls.insert(entry.thread_number, track);
        Ok(track)
    }

    fn call(&mut self, entry: &Entry, arrows: &[u64]) -> io::Result<()> {
        let track = self.thread(entry)?;
        let (record, line) = (&entry.record, Line::of(entry));
        let mut facts = Facts::default();
        facts.some("stream", line.stream.map(|stream| Value::Unsigned(stream.into())));
        facts.some("function", self.operations.names.function_of(record).map(Value::Text));
        facts.some("loads", line.cold.map(Value::Text));
        facts.some("queries", line.count.map(Value::Unsigned));
        facts.some("result", line.result.filter(|&result| result != 0).map(|result| Value::Signed(result.into())));
        facts.add("captured", Value::Bool(true), line.captured);
        facts.add("left without returning", Value::Bool(true), line.left);
        let caller = self.callers.caller(record, self.texts);
        match self.callers.name(caller) {
            Some(name) => facts.add("called from", Value::Text(name), true),
            None => facts.add("called from", Value::Pointer(caller), caller != 0),
        }
        facts.add("in progress", Value::Bool(true), line.in_progress);
        let event =
            Event { track, at: line.at_ns, name: line.call, category: line.event, flows: arrows, facts: &facts };
        self.operations.trace.slice(&event, Some(record.returned).filter(|&returned| returned != 0))
    }

    fn hazard(&mut self, entry: &Entry) -> io::Result<()> {
        let track = self.thread(entry)?;
        let record = &entry.record;
        let noted = HazardEvent::of(record, entry.thread);
        let code = noted.map(|noted| noted.code);
        let other = noted.map(|noted| noted.other).unwrap_or_default();
        let name = code.map_or_else(|| "hazard".to_owned(), |code| format!("hazard {code}"));
        let mut facts = Facts::default();
        facts.add("what", Value::Text(code.map_or("", Code::title)), code.is_some());
        facts.add("call", Value::Text(record.entry_point.symbol()), true);
        facts.add("in flight on stream", Value::Unsigned(other.stream.into()), other.stream != 0);
        let in_flight = self.operations.names.function(other.operation.function, record.meant_at());
        facts.some("in flight", in_flight.map(Value::Text));
        let count = noted.map_or(0, |noted| noted.count);
        facts.add("times so far", Value::Unsigned(count.into()), count != 0);
        facts.add("prevented", Value::Bool(true), noted.is_some_and(|noted| noted.flags.says(Flags::PREVENTED)));
        let category = event_of_record(record.kind, record.entry_point.class());
        let event = Event { track, at: record.entered, name: &name, category, flows: &[], facts: &facts };
        self.operations.trace.instant(&event)
    }

    fn preload(&mut self, entry: &Entry) -> io::Result<()> {
        let number = entry.thread_number;
        let known = self.guards.get(&number).map(|track| Ok(*track));
        let (name, key) = (format!("guard in thread {}", entry.thread), format!("guard {number}"));
        let track = known.unwrap_or_else(|| self.operations.track_below(&name, &key))?;
        self.guards.insert(number, track);
        let line = Line::of(entry);
        let mut facts = Facts::default();
        facts.some("loaded", line.loaded.map(Value::Unsigned));
        facts.some("refused", line.refused.map(Value::Unsigned));
        facts.some("left out", line.left_out.map(Value::Unsigned));
        facts.add("in call", Value::Text(line.call), true);
        let event = Event { track, at: line.at_ns, name: "preload", category: line.event, flows: &[], facts: &facts };
        self.operations.trace.slice(&event, Some(entry.record.returned))
    }
}

#[cfg(test)]
#[path = "timeline_tests.rs"]
mod tests;
