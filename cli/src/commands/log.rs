//! `lazyguard log`: the records of a recording, one a line.
//!
//! Must not: allocate for each record; a recording may hold tens of millions.

use crate::folder::{duration, one_process, Opened};
use crate::forms::records::Printer;
use crate::words::names::{lane_name, Names};
use crate::words::{say, Format, Outcome, Output};
use lazyguard_core::report::{event_of_record, events};
use lazyguard_core::trace::read::Entry;
use lazyguard_core::trace::Lane;
use lazyguard_core::Nanos;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::process::ExitCode;

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
    /// Only records of this lane: what is submitted, and queries; calls in which a thread waits; loads, memory operations that are not repeated,
    /// what blocked, and whatever else is rare.
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
        if !filter.lets_pass(entry, &mut printer.lines.names) {
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
        (seen, 0) => {
            say(format_args!(
                "none of the {seen} records that were looked at matches; without a filter, all are printed"
            ));
        }
        _ => {}
    }
    opened.cut_short().map_or(Ok(ExitCode::SUCCESS), Err)
}

struct Filter<'a> {
    asked: &'a Arguments,
    thread: Option<u32>,
    named: Vec<u32>,
    lane: Option<Lane>,
    end: Nanos,
}

impl<'a> Filter<'a> {
    fn new(asked: &'a Arguments, opened: &Opened) -> Self {
        let name = asked.thread.as_deref();
        let threads = opened.recording.threads().iter();
        let is_lane =
            |lane: &Lane| asked.lane.as_ref().is_some_and(|asked| lane_name(*lane).replace('_', "-") == *asked);
        Self {
            asked,
            thread: name.and_then(|name| name.parse().ok()),
            named: threads.filter(|t| Some(t.name.as_str()) == name).map(|t| t.number).collect(),
            lane: Lane::ALL.into_iter().find(is_lane),
            end: opened.recording.facts().last_seen,
        }
    }

    fn lets_pass(&self, entry: &Entry, names: &mut Names<'_>) -> bool {
        let Entry { record, .. } = entry;
        let class = record.entry_point.class();
        let took = if record.returned == 0 { self.end.saturating_sub(record.entered) } else { record.took() };
        let asked = self.asked;
        let of_event = |event: &str| {
            event == event_of_record(record.kind, class) || record.kind.is_call() && event == class.event()
        };
        let is_thread = || self.thread == Some(entry.thread) || self.named.contains(&entry.thread_number);
        let has_name = |text: &str| names.function_of(record).is_some_and(|name| name.contains(text));
        asked.since.is_none_or(|since| record.entered >= since)
            && asked.until.is_none_or(|until| record.entered <= until)
            && self.lane.is_none_or(|lane| lane == entry.lane)
            && asked.stream.is_none_or(|stream| record.stream == stream)
            && asked.slower_than.is_none_or(|least| took > least)
            && (asked.thread.is_none() || is_thread())
            && asked.event.as_deref().is_none_or(of_event)
            && asked.call.as_deref().is_none_or(|call| record.entry_point.symbol().contains(call))
            && asked.function.as_deref().is_none_or(has_name)
    }
}
