//! The records of a recording, one a line.
//!
//! Must not: allocate for each record; a recording may hold tens of millions.

use super::record_line::{Address, Line};
use crate::folder::Opened;
use crate::stacks::Symbolizer;
use crate::words::names::Names;
use crate::words::{write_line, Format, Output, Took};
use lazyguard_core::api::{Class, Quantity};
use lazyguard_core::diagnose::GraphSeen;
use lazyguard_core::hazard::HazardEvent;
use lazyguard_core::trace::read::Entry;
use lazyguard_core::trace::{Kind, Record};
use std::collections::HashMap;
use std::{fmt, io};

/// The one call of its class that makes no executable graph.
const DESTROYS: &str = "cuGraphExecDestroy";

pub(crate) struct Printer<'a, 'o> {
    opened: &'a Opened,
    format: Format,
    out: &'a mut Output<'o>,
    pub names: Names<'a>,
    in_flight: Names<'a>,
    callers: Symbolizer,
    threads: HashMap<u32, &'a str>,
}

impl<'a, 'o> Printer<'a, 'o> {
    pub fn new(opened: &'a Opened, format: Format, out: &'a mut Output<'o>) -> Self {
        let texts = opened.recording.strings();
        let threads = opened.recording.threads().iter().filter(|t| !t.name.is_empty());
        Self {
            opened,
            format,
            out,
            names: Names::new(texts),
            in_flight: Names::new(texts),
            callers: opened.callers(),
            threads: threads.map(|t| (t.number, t.name.as_str())).collect(),
        }
    }

    fn holds(&self, graph: u64, record: &Record) -> Option<String> {
        let makes = record.entry_point.class() == Class::GraphInstantiate && record.entry_point.symbol() != DESTROYS;
        let texts = self.opened.recording.strings();
        let contents = texts.graph(graph, record.meant_at()).filter(|_| makes)?;
        let name = |number: u32| Some(texts.function(number, record.meant_at())?.name?.to_owned());
        Some(GraphSeen::of(graph, contents, name).holds())
    }

    /// Prints a record, behind something else on its line if it is text.
    pub fn print_after(&mut self, before: &str, entry: &Entry) -> io::Result<()> {
        let record = &entry.record;
        let mut line = Line::of(entry);
        line.thread_name = self.threads.get(&entry.thread_number).copied();
        let stream = line.stream.and_then(|number| self.opened.recording.strings().stream(number, record.meant_at()));
        line.handle = stream.map(|stream| stream.handle);
        line.holds = line.graph.and_then(|graph| self.holds(graph, record));
        line.function = self.names.function_of(record);
        if let Some(noted) = HazardEvent::of(record, entry.thread) {
            line.in_flight = self.in_flight.function(noted.other.function, record.meant_at());
        }
        match self.format {
            Format::Json => {
                let mut out = self.out.raw();
                serde_json::to_writer(&mut out, &line).map_err(io::Error::from)?;
                out.write_all(b"\n")
            }
            Format::Text => {
                let so_far = self.opened.recording.facts().last_seen.saturating_sub(record.entered);
                let text = Text {
                    line: &line,
                    kind: record.kind,
                    so_far: Took(so_far),
                    caller: self.callers.name(record.caller),
                };
                write_line!(self.out, "{before}{text}")
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
        let kind = *kind;
        write!(out, "+{:.6} thread {}", line.at_ns as f64 / 1e9, line.thread)?;
        behind(out, " ", line.thread_name.map(|name| format!("\"{name}\"")))?;
        match kind {
            Kind::Hazard => {
                let prevented = if line.prevented { "prevented " } else { "" };
                write!(out, ": {prevented}hazard {} in {}", line.code.unwrap_or("of an unknown code"), line.call)?;
            }
            Kind::Preload => {
                let kernels = Quantity(line.loaded.unwrap_or(0), "kernel");
                write!(out, ": loaded {kernels} ahead of use in {}", line.call)?;
                for (count, what) in [(line.refused, "refused"), (line.left_out, "left out")] {
                    behind(out, ", ", count.filter(|&count| count > 0).map(|count| format!("{count} {what}")))?;
                }
            }
            Kind::HostBegins | Kind::HostEnds => {
                let what = if kind == Kind::HostBegins { "is called" } else { "has returned" };
                write!(out, ": the host function at {:#x} {what}", line.host_function.unwrap_or(0))?;
            }
            Kind::Seen | Kind::Activity => {
                write!(out, ": the guard looked: {}", line.seen.as_deref().unwrap_or("something"))?
            }
            _ => write!(out, ": {}", line.call)?,
        }
        self.write_objects(out)?;
        match line.took_ns {
            _ if line.in_progress => write!(out, ", in progress for {so_far}")?,
            Some(took) if kind != Kind::Hazard => write!(out, ", {}", Took(took))?,
            _ => {}
        }
        if line.left {
            out.write_str(", left without returning")?;
        } else if let Some(result) = line.result.filter(|&result| result != 0) {
            write!(out, ", result {result}")?;
        }
        if line.captured {
            out.write_str(", captured")?;
        }
        match caller {
            Some(name) => write!(out, ", from {name}"),
            None => behind(out, ", from ", line.caller),
        }
    }
}

impl Text<'_> {
    fn write_objects(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = self.line;
        behind(out, " of ", line.function)?;
        if let (Some([x, y, z]), Some([bx, by, bz])) = (line.grid, line.block) {
            write!(out, " <<<{x}x{y}x{z}, {bx}x{by}x{bz}, {}>>>", line.shared_bytes.unwrap_or(0))?;
        }
        behind(out, " of ", line.about.as_ref())?;
        behind(out, " on communicator ", line.communicator)?;
        behind(out, ", number ", line.sequence)?;
        if let (Some(address), Some(value)) = (line.address, line.value) {
            match line.condition {
                Some(condition) => write!(out, " until memory at {address:#x} {condition} {value}")?,
                None => write!(out, " of {value} to {address:#x}")?,
            }
        } else {
            behind(out, " at ", line.address.map(Address))?;
        }
        behind(out, " of ", line.bytes.map(|bytes| format!("{bytes} bytes")))?;
        behind(out, " event ", line.event_handle.map(Address))?;
        behind(out, " graph ", line.graph.map(Address))?;
        behind(out, " of ", line.holds.as_ref())?;
        behind(out, " on stream ", line.stream)?;
        behind(out, " ", line.handle.map(|handle| format!("({handle:#x})")))?;
        if self.kind == Kind::Hazard {
            write!(out, " beside {}", line.in_flight.unwrap_or("work"))?;
            behind(out, " on stream ", line.in_flight_on)?;
        }
        behind(out, ", ", line.count.map(|count| Quantity(count, "time")))?;
        behind(out, ", loaded the ", line.cold.map(|cold| format!("{cold} on first use")))?;
        Ok(())
    }
}

fn behind(out: &mut fmt::Formatter<'_>, words: &str, fact: Option<impl fmt::Display>) -> fmt::Result {
    fact.map_or(Ok(()), |fact| write!(out, "{words}{fact}"))
}
