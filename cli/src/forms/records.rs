//! The records of a recording, one a line.
//!
//! Must not: allocate for each record; a recording may hold tens of millions.

use super::record_line::{Address, Line};
use crate::folder::Opened;
use crate::stacks::Symbolizer;
use crate::words::names::Names;
use crate::words::{write_line, Format, Output, Took};
use lazyguard_core::api::{Class, Quantity};
use lazyguard_core::diagnose::{Confidence, GraphSeen};
use lazyguard_core::hazard::HazardEvent;
use lazyguard_core::trace::read::Entry;
use lazyguard_core::trace::{Kind, Record};
use std::collections::HashMap;
use std::{fmt, io};

/// The one call of its class that makes no executable graph.
const DESTROYS: &str = "cuGraphExecDestroy";

/// The lines of records, with the names of what they are about.
pub(crate) struct Lines<'a> {
    opened: &'a Opened,
    pub names: Names<'a>,
    in_flight: Names<'a>,
    threads: HashMap<u32, &'a str>,
}

impl<'a> Lines<'a> {
    pub fn new(opened: &'a Opened) -> Self {
        let texts = opened.recording.strings();
        let threads = opened.recording.threads().iter().filter(|t| !t.name.is_empty());
        let threads = threads.map(|t| (t.number, t.name.as_str())).collect();
        Self { opened, names: Names::new(texts), in_flight: Names::new(texts), threads }
    }

    fn holds(&self, graph: u64, record: &Record) -> Option<String> {
        let makes = record.entry_point.class() == Class::GraphInstantiate && record.entry_point.symbol() != DESTROYS;
        let texts = self.opened.recording.strings();
        let contents = texts.graphs.newest(graph, record.meant_at()).filter(|_| makes)?;
        let name = |number: u32| Some(texts.function(number, record.meant_at())?.name?.to_owned());
        Some(GraphSeen::of(graph, contents, name).holds())
    }

    pub(super) fn of(&mut self, entry: &Entry) -> Line<'_> {
        let record = &entry.record;
        let mut line = Line::of(entry);
        line.thread_name = self.threads.get(&entry.thread_number).copied();
        let stream =
            line.stream.and_then(|number| self.opened.recording.strings().streams.newest(number, record.meant_at()));
        line.handle = stream.map(|stream| stream.handle);
        line.holds = line.graph.and_then(|graph| self.holds(graph, record));
        line.function = self.names.function_of(record);
        if let Some(noted) = HazardEvent::of(record, entry.thread) {
            line.in_flight = self.in_flight.function(noted.other.operation.function, record.meant_at());
        }
        line
    }
}

pub(crate) struct Printer<'a, 'o> {
    pub lines: Lines<'a>,
    format: Format,
    out: &'a mut Output<'o>,
    callers: Symbolizer,
}

impl<'a, 'o> Printer<'a, 'o> {
    pub fn new(opened: &'a Opened, format: Format, out: &'a mut Output<'o>) -> Self {
        Self { lines: Lines::new(opened), format, out, callers: opened.callers() }
    }

    /// Prints a record, behind something else on its line if it is text.
    pub fn print_after(&mut self, before: &str, entry: &Entry) -> io::Result<()> {
        let record = &entry.record;
        let so_far = self.lines.opened.recording.facts().last_seen.saturating_sub(record.entered);
        let texts = self.lines.opened.recording.strings();
        let line = self.lines.of(entry);
        match self.format {
            Format::Json => {
                let mut out = self.out.raw();
                serde_json::to_writer(&mut out, &line).map_err(io::Error::from)?;
                out.write_all(b"\n")
            }
            Format::Text => {
                let caller = self.callers.caller(record, texts);
                let (kind, so_far, caller) = (record.kind, Took(so_far), self.callers.name(caller));
                write_line!(self.out, "{before}{}", Text { line: &line, kind, so_far, caller })
            }
        }
    }
}

struct Text<'a> {
    line: &'a Line<'a>,
    kind: Kind,
    so_far: Took,
    caller: Option<&'a str>,
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, kind, so_far, caller } = self;
        write!(out, "+{:.6} thread {}", line.at_ns as f64 / 1e9, line.thread)?;
        behind(out, " ", line.thread_name.map(|name| format!("\"{name}\"")))?;
        out.write_str(": ")?;
        line.write_call(*kind, out)?;
        match line.took_ns {
            _ if line.in_progress => write!(out, ", in progress for {so_far}")?,
            Some(took) if *kind != Kind::Hazard => write!(out, ", {}", Took(took))?,
            _ => {}
        }
        line.write_end(out)?;
        match caller {
            Some(name) => write!(out, ", from {name}"),
            None => behind(out, ", from ", line.caller),
        }
    }
}

impl Line<'_> {
    /// The call and what it is about, without thread, times and caller.
    pub fn in_words(&self, kind: Kind) -> String {
        let mut text = String::new();
        // A `String` takes everything.
        let _ = self.write_call(kind, &mut text).and_then(|()| self.write_end(&mut text));
        text
    }

    fn write_call(&self, kind: Kind, out: &mut impl fmt::Write) -> fmt::Result {
        match kind {
            Kind::Hazard => {
                let word = match (self.prevented, self.confidence) {
                    (true, _) => "prevented ",
                    (false, Some(Confidence::Possible)) => "possible ",
                    _ => "",
                };
                write!(out, "{word}hazard {} in {}", self.code.unwrap_or("of an unknown code"), self.call)?;
            }
            Kind::Preload => {
                let kernels = Quantity(self.loaded.unwrap_or(0), "kernel");
                write!(out, "loaded {kernels} ahead of use in {}", self.call)?;
                for (count, what) in [(self.refused, "refused"), (self.left_out, "left out")] {
                    behind(out, ", ", count.filter(|&count| count > 0).map(|count| format!("{count} {what}")))?;
                }
            }
            Kind::HostBegins | Kind::HostEnds => {
                let what = if kind == Kind::HostBegins { "is called" } else { "has returned" };
                write!(out, "the host function at {:#x} {what}", self.host_function.unwrap_or(0))?;
            }
            Kind::Seen | Kind::Activity => {
                write!(out, "the guard looked: {}", self.seen.as_deref().unwrap_or("something"))?
            }
            _ => out.write_str(self.call)?,
        }
        behind(out, " of ", self.function)?;
        if let (Some([x, y, z]), Some([bx, by, bz])) = (self.grid, self.block) {
            write!(out, " <<<{x}x{y}x{z}, {bx}x{by}x{bz}, {}>>>", self.shared_bytes.unwrap_or(0))?;
        }
        behind(out, " of ", self.about.as_ref())?;
        behind(out, " on communicator ", self.communicator)?;
        behind(out, ", number ", self.sequence)?;
        if let (Some(address), Some(value)) = (self.address, self.value) {
            match self.condition {
                Some(condition) => write!(out, " until memory at {address:#x} {condition} {value}")?,
                None => write!(out, " of {value} to {address:#x}")?,
            }
        } else {
            behind(out, " at ", self.address.map(Address))?;
        }
        behind(out, " of ", self.bytes.map(|bytes| format!("{bytes} bytes")))?;
        behind(out, " event ", self.event_handle.map(Address))?;
        behind(out, " graph ", self.graph.map(Address))?;
        behind(out, " of ", self.holds.as_ref())?;
        behind(out, " on stream ", self.stream)?;
        behind(out, " ", self.handle.map(|handle| format!("({handle:#x})")))?;
        if kind == Kind::Hazard {
            write!(out, " beside {}", self.in_flight.unwrap_or("work"))?;
            behind(out, " on stream ", self.in_flight_on)?;
        }
        behind(out, ", ", self.count.map(|count| Quantity(count, "time")))?;
        behind(out, ", loaded the ", self.cold.map(|cold| format!("{cold} on first use")))
    }

    fn write_end(&self, out: &mut impl fmt::Write) -> fmt::Result {
        if self.left {
            out.write_str(", left without returning")?;
        } else if let Some(result) = self.result.filter(|&result| result != 0) {
            write!(out, ", result {result}")?;
        }
        out.write_str(if self.captured { ", captured" } else { "" })
    }
}

fn behind(out: &mut impl fmt::Write, words: &str, fact: Option<impl fmt::Display>) -> fmt::Result {
    fact.map_or(Ok(()), |fact| write!(out, "{words}{fact}"))
}
