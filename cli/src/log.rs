//! `lazyguard log`: the records of a recording, one a line.
//!
//! Must not: allocate for each record; a recording may hold tens of millions.

use crate::format::{Format, Took};
use crate::names::{lane_name, Names};
use crate::output::{say, write_line, Output};
use crate::runs::one_process;
use crate::source::{duration, Opened};
use crate::symbolize::Symbolizer;
use crate::Outcome;
use lazyguard_core::api::{Class, Quantity};
use lazyguard_core::diagnose::{GraphSeen, ThreadActivity};
use lazyguard_core::hazard::{Flags, HazardEvent};
use lazyguard_core::report::{arguments_in_words, event_of, event_of_record, events};
use lazyguard_core::trace::layout::flag;
use lazyguard_core::trace::read::Entry;
use lazyguard_core::trace::{Environment, Kind, Lane, Payload, Record};
use lazyguard_core::Nanos;
use serde::Serialize;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

/// What to print.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A process, or a run folder.
    #[arg(value_name = "PID|FOLDER")]
    what: PathBuf,
    /// A line a record, for a person; or a JSON object a line, for a program.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// Only calls of this thread, by its id or its name.
    #[arg(long, value_name = "N|NAME")]
    thread: Option<String>,
    /// Only calls about the stream with this number.
    #[arg(long, value_name = "N")]
    stream: Option<u32>,
    /// Only calls about functions with this in their name.
    #[arg(long, value_name = "TEXT")]
    function: Option<String>,
    /// Only driver calls with this in their name.
    #[arg(long, value_name = "TEXT")]
    call: Option<String>,
    /// Only records of this lane: what is submitted, and queries; calls in which a thread waits; loads, memory operations, what blocked, and whatever
    /// else is rare.
    #[arg(long, value_parser = clap::builder::PossibleValuesParser::new(["work", "waits", "rare-events"]))]
    lane: Option<String>,
    /// Only records of this event; a launch that loaded on first use is both a launch and a load.
    #[arg(long, value_name = "EVENT", value_parser = clap::builder::PossibleValuesParser::new(events()))]
    event: Option<String>,
    /// Only calls entered at this time or later: 1.5, 250ms; in seconds since the guard was armed, without a unit.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    since: Option<u64>,
    /// Only calls entered up to this time.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    until: Option<u64>,
    /// Only calls that took longer, or have been in progress for longer: 250us, 1.5s.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    slower_than: Option<u64>,
    /// Only the last N of those.
    #[arg(long, value_name = "N")]
    last: Option<usize>,
}

pub(crate) fn log(arguments: &Arguments) -> Outcome {
    let opened = one_process(&arguments.what)?.must_open()?;
    let mut out = Output::standard();
    let mut printer = Printer::new(&opened, arguments.format, &mut out);
    let filter = Filter::new(arguments, &opened);
    let mut last = arguments.last.map(|count| (count, VecDeque::new()));
    let (mut seen, mut matched) = (0_u64, 0_u64);
    opened.each_in_order(|entry| {
        seen += 1;
        if !filter.lets_pass(entry, &mut printer.names) {
            return Ok(());
        }
        matched += 1;
        let Some((count, newest)) = &mut last else { return Ok(printer.print_after("", entry)?) };
        if newest.len() == *count {
            newest.pop_front();
        }
        if *count > 0 {
            newest.push_back(*entry);
        }
        Ok(())
    })?;
    for entry in last.into_iter().flat_map(|(_, newest)| newest) {
        printer.print_after("", &entry)?;
    }
    out.flush()?;
    match (seen, matched) {
        (0, _) => say("the recording holds no record"),
        (seen, 0) => say(format_args!(
            "none of the {seen} records that were looked at matches; without a filter, all are printed"
        )),
        _ => {}
    }
    opened.cut_short().map_or(Ok(ExitCode::SUCCESS), Err)
}

struct Filter<'a> {
    asked: &'a Arguments,
    thread: Option<u32>,
    /// Numbers of the threads that have the name that was asked for.
    named: Vec<u32>,
    lane: Option<Lane>,
    end: Nanos,
}

impl<'a> Filter<'a> {
    fn new(asked: &'a Arguments, opened: &Opened) -> Self {
        let name = asked.thread.as_deref();
        let threads = opened.recording.threads().iter();
        Self {
            asked,
            thread: name.and_then(|name| name.parse().ok()),
            named: threads.filter(|t| Some(t.name.as_str()) == name).map(|t| t.number).collect(),
            lane: Lane::ALL
                .into_iter()
                .find(|lane| asked.lane.as_ref().is_some_and(|asked| lane_name(*lane).replace('_', "-") == *asked)),
            end: opened.recording.facts().last_seen,
        }
    }

    fn lets_pass(&self, entry: &Entry, names: &mut Names<'_>) -> bool {
        let Entry { record, .. } = entry;
        let class = record.entry_point.class();
        let took = if record.returned == 0 { self.end.saturating_sub(record.entered) } else { record.took() };
        let asked = self.asked;
        asked.since.is_none_or(|since| record.entered >= since)
            && asked.until.is_none_or(|until| record.entered <= until)
            && self.lane.is_none_or(|lane| lane == entry.lane)
            && asked.stream.is_none_or(|stream| record.stream == stream)
            && asked.slower_than.is_none_or(|least| took > least)
            && (asked.thread.is_none()
                || self.thread == Some(entry.thread)
                || self.named.contains(&entry.thread_number))
            && asked.event.as_deref().is_none_or(|event| {
                event == event_of_record(record.kind, class) || record.kind.is_call() && event == event_of(class)
            })
            && asked.call.as_deref().is_none_or(|call| record.entry_point.symbol().contains(call))
            && asked
                .function
                .as_deref()
                .is_none_or(|text| names.function_of(record).is_some_and(|name| name.contains(text)))
    }
}

/// A record as a JSON line; what does not apply is left out.
#[derive(Default, Serialize)]
struct Line<'a> {
    /// When the call was entered.
    at_ns: Nanos,
    /// Its duration; queries that share a record: from first to last.
    #[serde(skip_serializing_if = "Option::is_none")]
    took_ns: Option<Nanos>,
    /// A word of the list above.
    event: &'static str,
    /// The driver function.
    call: &'static str,
    /// The driver's result; 0 is success.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<i32>,
    /// The thread's id.
    thread: u32,
    /// The thread's number in the recording, never reused.
    thread_number: u32,
    /// The thread's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    thread_name: Option<&'a str>,
    /// `work`, `waits` or `rare_events`.
    lane: &'static str,
    /// The record's number in its thread and lane; a gap means overwritten records.
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<u64>,
    /// The number of the context.
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<u16>,
    /// The number of the stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<u32>,
    /// The stream's handle.
    #[serde(skip_serializing_if = "Option::is_none")]
    handle: Option<u64>,
    /// The kernel or function.
    #[serde(skip_serializing_if = "Option::is_none")]
    function: Option<&'a str>,
    /// The first use that loaded: `function`, or `module` for a whole module or library.
    #[serde(skip_serializing_if = "Option::is_none")]
    cold: Option<&'static str>,
    /// Blocks of a launch.
    #[serde(skip_serializing_if = "Option::is_none")]
    grid: Option<[u32; 3]>,
    /// Threads of a block.
    #[serde(skip_serializing_if = "Option::is_none")]
    block: Option<[u16; 3]>,
    /// Dynamic shared memory of a launch that loaded nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    shared_bytes: Option<u64>,
    /// Queries in this record; or the occurrence of a hazard (the 1st, 2nd, 4th, 8th and so on are recorded).
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
    /// The device address.
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<u64>,
    /// A memory operation's.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<u64>,
    /// Whether a memory operation waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    wait: Option<bool>,
    /// A wait's comparison: `>=`, `==`, `&` or `nor`.
    #[serde(skip_serializing_if = "Option::is_none")]
    condition: Option<&'static str>,
    /// For a copy or an allocation.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    /// The event's handle.
    #[serde(skip_serializing_if = "Option::is_none")]
    event_handle: Option<u64>,
    /// The executable graph's handle.
    #[serde(skip_serializing_if = "Option::is_none")]
    graph: Option<u64>,
    /// The nodes of a new or updated graph.
    #[serde(skip_serializing_if = "Option::is_none")]
    holds: Option<String>,
    /// The handle of the module or library.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<u64>,
    /// A hazard's code.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
    /// A hazard's stream in flight.
    #[serde(skip_serializing_if = "Option::is_none")]
    in_flight_on: Option<u32>,
    /// Whether the guard prevented the hazard.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    prevented: bool,
    /// A hazard's kernel in flight.
    #[serde(skip_serializing_if = "Option::is_none")]
    in_flight: Option<&'a str>,
    /// Kernels that the guard preloaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    loaded: Option<u64>,
    /// Kernels that the driver refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<u64>,
    /// Kernels that preloading left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<u64>,
    /// The address of a host function that begins or returns.
    #[serde(skip_serializing_if = "Option::is_none")]
    host_function: Option<u64>,
    /// NCCL: the communicator's number.
    #[serde(skip_serializing_if = "Option::is_none")]
    communicator: Option<u32>,
    /// NCCL: the call's number among the communicator's collectives, or among its sends and receives; the first is 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    sequence: Option<u32>,
    /// NCCL: the call's arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    about: Option<String>,
    /// The guard's observation, or the driver's answer, during a blocked call.
    #[serde(skip_serializing_if = "Option::is_none")]
    seen: Option<String>,
    /// The stream was being captured.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    captured: bool,
    /// Whether an exception, a jump or a cancellation left the call.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    left: bool,
    /// The return address, as `0x...`; behind a CUDA runtime the outermost known one.
    #[serde(skip_serializing_if = "Option::is_none")]
    caller: Option<Address>,
    /// The call had not returned.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    in_progress: bool,
}

/// An address in the form that other tools take.
#[derive(Clone, Copy)]
struct Address(u64);

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:#x}", self.0)
    }
}

impl Serialize for Address {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'a> Line<'a> {
    /// What a record says by itself; names come later.
    fn of(entry: &Entry) -> Self {
        let record = &entry.record;
        let class = record.entry_point.class();
        let is_call = record.kind.is_call() || record.kind == Kind::Communication;
        let returned = record.returned != 0;
        let in_progress = is_call && !returned;
        let payload = record.payload();
        let cold = match record.kind {
            Kind::ColdFunction => Some("function"),
            Kind::ColdModule => Some("module"),
            _ => None,
        };
        let noted = HazardEvent::of(record, entry.thread);
        let mut line = Self {
            at_ns: record.entered,
            // A call of NCCL is recorded when it is made.
            took_ns: (returned && record.kind != Kind::Communication).then(|| record.took()),
            event: event_of_record(record.kind, class),
            call: record.entry_point.symbol(),
            result: (is_call && returned).then_some(record.result),
            thread: entry.thread,
            thread_number: entry.thread_number,
            lane: lane_name(entry.lane),
            number: (!in_progress).then_some(entry.number),
            context: Some(record.context).filter(|&n| n != 0),
            stream: Some(record.stream).filter(|&n| n != 0),
            cold,
            event_handle: record.event(),
            owner: record.owner().filter(|&owner| owner != 0),
            code: noted.map(|noted| noted.code.name()),
            in_flight_on: noted.map(|noted| noted.other.stream).filter(|&n| n != 0),
            prevented: noted.is_some_and(|noted| noted.flags.says(Flags::PREVENTED)),
            count: noted.map(|noted| u64::from(noted.count)),
            captured: record.flags & flag::CAPTURED != 0,
            left: record.flags & flag::LEFT != 0,
            caller: (record.caller != 0).then_some(Address(record.caller)),
            in_progress,
            ..Self::default()
        };
        match payload {
            Payload::Launch(launch) => {
                (line.grid, line.block) = (Some(launch.grid), Some(launch.block));
                line.shared_bytes = launch.shared_bytes;
            }
            Payload::Wait(wait) => {
                (line.address, line.value, line.wait) = (Some(wait.address), Some(wait.value), Some(true));
                line.condition = Some(wait.condition().name());
            }
            Payload::Write(write) => {
                (line.address, line.value, line.wait) = (Some(write.address), Some(write.value), Some(false));
            }
            Payload::Memory { address, bytes } => {
                let allocation =
                    matches!(class, Class::Allocate | Class::Free | Class::AllocateAsync | Class::FreeAsync);
                let moves_bytes = allocation || matches!(class, Class::Copy | Class::CopyAsync);
                line.address = Some(address).filter(|&address| allocation && address != 0);
                line.bytes = Some(bytes).filter(|&bytes| moves_bytes && bytes != 0);
            }
            Payload::Queries { count, .. } => line.count = Some(count),
            Payload::Preload(preload) => {
                line.loaded = Some(preload.loaded);
                (line.refused, line.left_out) = (Some(preload.refused), Some(preload.left_out));
            }
            Payload::Graph(graph) => line.graph = Some(graph),
            Payload::HostCall { function, .. } => line.host_function = Some(function),
            Payload::Communication(about) => {
                line.communicator = Some(about.communicator).filter(|&number| number != 0);
                line.sequence = Some(about.number).filter(|&number| number != 0);
                let has_arguments = matches!(class, Class::Collective | Class::PointToPoint);
                line.about = has_arguments.then(|| arguments_in_words(record.entry_point, &about));
            }
            _ => line.seen = seen(record),
        }
        line
    }
}

/// Of the calls about an executable graph, the one that does not say what it does.
const DESTROYS: &str = "cuGraphExecDestroy";

pub(crate) struct Printer<'a, 'o> {
    opened: &'a Opened,
    format: Format,
    out: &'a mut Output<'o>,
    names: Names<'a>,
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

    /// What the nodes of the graph do that a call has made executable.
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

/// What the guard saw, or the driver answered, at a hang.
fn seen(record: &Record) -> Option<String> {
    Some(match record.payload() {
        Payload::Activity { thread, doing } => {
            let doing = doing.map_or("is no longer seen", ThreadActivity::words);
            format!("thread {thread} {doing}")
        }
        Payload::StreamAnswer if record.result == 0 => "the driver says that the stream is idle".to_owned(),
        Payload::StreamAnswer => "the driver says that the stream is busy".to_owned(),
        Payload::EventComplete(event) => format!("the driver says that event {event:#x} is complete"),
        Payload::Holds { address, value, .. } => format!("memory at {address:#x} holds {value}"),
        Payload::Computes { thread, time } => {
            format!("thread {thread} computed for {} % of {}", time.percent(), Took(time.within_nanos))
        }
        Payload::Environment(Environment { launch_blocking, connections }) => format!(
            "CUDA_LAUNCH_BLOCKING is {}, CUDA_DEVICE_MAX_CONNECTIONS {}",
            if launch_blocking { "set" } else { "not set" },
            if connections == 0 { "not set".to_owned() } else { connections.to_string() }
        ),
        Payload::Resident { blocks, .. } => format!("the device holds {blocks} blocks of this kernel at once"),
        _ if record.kind == Kind::Seen => "something".to_owned(),
        _ => return None,
    })
}

/// A line for a person: time, thread, call, object, duration, and further facts.
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
        if kind == Kind::Hazard {
            write!(out, " beside {}", line.in_flight.unwrap_or("work"))?;
            behind(out, " on stream ", line.in_flight_on)?;
        }
        behind(out, ", ", line.count.map(|count| Quantity(count, "time")))?;
        behind(out, ", loaded the ", line.cold.map(|cold| format!("{cold} on first use")))?;
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

/// A fact behind its words, where it applies.
fn behind(out: &mut fmt::Formatter<'_>, words: &str, fact: Option<impl fmt::Display>) -> fmt::Result {
    fact.map_or(Ok(()), |fact| write!(out, "{words}{fact}"))
}
