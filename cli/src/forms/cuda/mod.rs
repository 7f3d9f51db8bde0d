//! The reproducer of a hang: a small CUDA program with the calls of the wait-for path, in their order, and spinning kernels in the place of
//! the program's.
//!
//! | file | holds |
//! |---|---|
//! | here | which calls of the recording belong to the hang, and the program around them |
//! | `calls` | the statement for a call |
//! | `objects` | the streams, events, kernels and memory that the statements use |
//! | `head.cu`, `library.cu`, `graph.cu`, `contexts.cu` | the program's functions |
//!
//! Must not: decide what hangs; the snapshot and its verdicts say that.

mod calls;
mod objects;

use crate::folder::source::Opened;
use crate::words::Failure;
use calls::Calls;
use lazyguard_core::api::result::NOT_READY;
use lazyguard_core::api::{Class, Code};
use lazyguard_core::diagnose::{BusyStream, Culprit, Snapshot, Verdict};
use lazyguard_core::report::one_line;
use lazyguard_core::trace::read::Entry;
use lazyguard_core::trace::{Kind, Payload};
use lazyguard_core::Nanos;
use std::collections::{BTreeMap, BTreeSet};

const MOST_LINES: usize = 150;

/// Calls, and how often each comes.
type Entries = Vec<(Entry, u64)>;

/// The end of a main thread that is in a call that does not return.
const ENDS: &str = "std::fputs(\"it does not hang here: the call has returned\\n\", stderr), std::_Exit(1);\n";

/// The program, or in words why there is none.
pub(crate) fn reproducer(opened: &Opened, snapshot: &Snapshot, verdicts: &[Verdict]) -> Result<String, Failure> {
    let first =
        verdicts.first().ok_or_else(|| Failure::Input("no hang is in it: there is nothing to reproduce".into()))?;
    let unmade = |why: String| Failure::Input(format!("no reproducer of this {} can be made: {why}", first.code));
    if first.code == Code::LG201 && snapshot.loads.iter().any(|load| load.first_launch) {
        return Err(unmade("its barrier is that of a kernel that prints".to_owned()));
    }
    if !first.fed.is_empty() {
        return Err(unmade("threads feed its streams without a pause".to_owned()));
    }
    let mut lines = 0;
    // Entries further back on a stream matter only by their number, which fills a queue.
    for most in [usize::MAX, 16, 4] {
        let entries = entries_of(opened, snapshot, verdicts, most)?;
        let lacks = |culprit: &Culprit| entries.iter().all(|(entry, _)| entry.record.entered != culprit.operation.at);
        let cut = first.code == Code::LG205 && snapshot.streams.iter().any(|busy| !busy.all_recorded);
        if cut || first.culprits.iter().any(lacks) || first.culprits.is_empty() && snapshot.streams.is_empty() {
            return Err(unmade("the recording does not have all the work that it waits for".to_owned()));
        }
        let mut calls = Calls::new(opened, snapshot, verdicts, &entries);
        let steps = steps(&mut calls, &entries, snapshot.at).map_err(unmade)?;
        let end = end(opened.recording.facts().process, snapshot, first, &mut calls);
        let program = program(opened, snapshot, first, &calls, &steps) + &end + "}\n";
        lines = program.lines().count();
        if lines <= MOST_LINES {
            return Ok(program);
        }
    }
    Err(unmade(format!("it would have {lines} lines, and a reproducer has {MOST_LINES} at most")))
}

/// The calls as statements; equal ones of a thread in a row are one.
fn steps(calls: &mut Calls<'_>, entries: &[(Entry, u64)], until: Nanos) -> Result<Vec<Step>, String> {
    let mut steps = Vec::<Step>::new();
    for (number, (entry, times)) in entries.iter().enumerate() {
        let statement = calls.statement(entry)?;
        // Another thread's call came before this one returned.
        let overtaken = entries.get(number + 1).is_some_and(|(next, _)| next.record.entered < entry.record.returned);
        let returns = (1..=until).contains(&entry.record.returned) && entry.record.kind != Kind::Queries && !overtaken;
        let context = calls.objects.context(u32::from(entry.record.context));
        match steps.last_mut() {
            Some(last) if (last.thread, &last.statement, last.returns) == (entry.thread, &statement, true) => {
                (last.times, last.returns) = (last.times + times, returns);
            }
            _ => steps.push(Step { thread: entry.thread, context, statement, times: *times, returns }),
        }
    }
    let ends = !calls.stand.is_empty() && calls.stand.len() == calls.culprits.len();
    (!ends).then_some(steps).ok_or("a copy seems not to end, and no kernel is behind it".to_owned())
}

struct Step {
    thread: u32,
    context: String,
    statement: String,
    times: u64,
    returns: bool,
}

impl Step {
    fn text(&self, number: usize) -> String {
        let Self { context, statement, times, returns, .. } = self;
        let call = match times {
            1 => format!("return {statement};"),
            _ => format!("for (int i = 1; i < {times}; ++i) CK({statement}); return {statement};"),
        };
        format!("in_turn({number}, {context}, {returns}, [&] {{ {call} }});\n")
    }
}

/// The calls that the hang is made of, in their order: what is in flight, what blocks, what was loaded behind work, and what wrote to the
/// memory that a stream waits for. The last of `most` calls of a class in flight on a stream stands for those behind it.
fn entries_of(opened: &Opened, snapshot: &Snapshot, verdicts: &[Verdict], most: usize) -> Result<Entries, Failure> {
    // A stream stands at the operation that does not end.
    let culprit = |stream: u32| {
        let culprits = verdicts.iter().flat_map(|verdict| &verdict.culprits);
        culprits.filter(|culprit| culprit.stream.number == stream).map(|culprit| culprit.operation.at).min()
    };
    let first = |busy: &BusyStream| busy.operations.first().map_or(busy.oldest.at, |op| op.at.min(busy.oldest.at));
    let since = |busy: &BusyStream| culprit(busy.stream.number).unwrap_or_else(|| first(busy));
    let since: BTreeMap<u32, Nanos> = snapshot.streams.iter().map(|busy| (busy.stream.number, since(busy))).collect();
    let is_near = |stream: u32, at: Nanos| {
        snapshot.stream(stream).is_some_and(|busy| busy.operations.iter().take(most).any(|op| op.at == at))
    };
    let waits = snapshot.event_waits.iter().filter(|wait| is_near(wait.stream, wait.at));
    let waits = waits.flat_map(|wait| [wait.recorded, wait.at]);
    let blocked = snapshot.blocked.iter().flat_map(|call| [call.entered, call.event_recorded.unwrap_or(call.entered)]);
    let at: BTreeSet<Nanos> = waits.chain(blocked).chain(snapshot.loads.iter().map(|load| load.at)).collect();
    let written =
        |at: Nanos| snapshot.waits.iter().any(|wait| wait.newest_write.as_ref().is_some_and(|write| write.at == at));
    let context_waits = |event: u64| snapshot.event_waits.iter().any(|wait| wait.event == event);
    let (mut entries, mut of_stream) = (Entries::new(), BTreeMap::<(u32, u8), (usize, usize)>::new());
    opened.each_in_order(|entry| {
        let record = &entry.record;
        let is_call = match record.kind {
            _ if record.entered > snapshot.at => false,
            Kind::Call | Kind::ColdFunction | Kind::ColdModule => record.returned == 0 || record.result == 0,
            Kind::Queries => record.result == NOT_READY || record.returned == 0,
            _ => false,
        };
        let class = record.entry_point.class();
        let in_flight = is_call
            && (record.submitted() || class == Class::StreamDestroy)
            && since.get(&record.stream).is_some_and(|since| record.entered >= *since);
        let concerns = match record.payload() {
            Payload::Write(write) => written(write.at),
            // A whole context waits.
            Payload::Event(event) if record.stream == 0 && class != Class::EventDestroy => context_waits(event),
            _ => false,
        };
        let wanted = concerns || at.contains(&record.entered);
        let (count, newest) = of_stream.entry((record.stream, class as u8)).or_default();
        match entries.get_mut(*newest) {
            Some((_, times)) if in_flight && !wanted && *count >= most => *times += 1,
            _ if is_call && (in_flight || wanted) => {
                if in_flight && record.returned != 0 {
                    (*count, *newest) = (*count + 1, entries.len());
                }
                entries.push((*entry, 1));
            }
            _ => {}
        }
        Ok(())
    })?;
    // The record of a batch's first operation comes last.
    let of_one =
        |(a, _): &(Entry, u64), (b, _): &(Entry, u64)| (a.thread, a.record.entered) == (b.thread, b.record.entered);
    entries.chunk_by_mut(of_one).for_each(|operations| operations.rotate_right(1));
    Ok(entries)
}

fn program(opened: &Opened, snapshot: &Snapshot, verdict: &Verdict, calls: &Calls<'_>, steps: &[Step]) -> String {
    let main = opened.recording.facts().process;
    let (setup, objects) = (calls.objects.text(), &calls.objects);
    let mut text = format!(
        "// {}: {}\n// nvcc -std=c++17 -o reproducer THIS.cu -lcuda; lazyguard run --preload off -- ./reproducer\n{}",
        verdict.code,
        one_line(&verdict.sentence.replace('\\', " ")),
        include_str!("head.cu")
    );
    text += if objects.libraries.is_empty() { "" } else { include_str!("library.cu") };
    text += if objects.has_graph { include_str!("graph.cu") } else { "" };
    text += if objects.contexts.len() > 1 { include_str!("contexts.cu") } else { "" };
    text += "\nint main() {\n";
    let mut line = |depth: usize, line: &str| text += &format!("{}{line}", "  ".repeat(depth));
    if snapshot.launch_blocking {
        line(1, "setenv(\"CUDA_LAUNCH_BLOCKING\", \"1\", 1);\n");
    }
    let of_queues = verdict.code == Code::LG211;
    if of_queues {
        line(1, "// Which streams share one of several hardware queues is not known: here, all share one.\n");
    }
    if let Some(queues) = if of_queues { Some(1) } else { snapshot.connections } {
        line(1, &format!("setenv(\"CUDA_DEVICE_MAX_CONNECTIONS\", \"{queues}\", 1);\n"));
    }
    setup.lines().for_each(|text| line(1, &format!("{text}\n")));
    let threads: BTreeSet<u32> = steps.iter().map(|step| step.thread).filter(|thread| *thread != main).collect();
    let of_thread = |line: &mut dyn FnMut(usize, &str), thread: u32, depth: usize| {
        let own = steps.iter().enumerate().filter(|(_, step)| step.thread == thread);
        own.for_each(|(number, step)| line(depth, &step.text(number + 1)));
    };
    for thread in threads {
        line(1, "std::thread([&] {\n");
        of_thread(&mut line, thread, 2);
        line(1, &format!("}}).detach();  // thread {thread}\n"));
    }
    of_thread(&mut line, main, 1);
    text
}

/// The last statement of the main thread. A program that waits behind a call that returns after all looks like one that hangs.
fn end(main: u32, snapshot: &Snapshot, verdict: &Verdict, calls: &mut Calls<'_>) -> String {
    let is_asked_for = |stream: &&BusyStream| stream.asked.is_some() && snapshot.stands_at_rest(stream);
    match snapshot.streams.iter().find(is_asked_for) {
        _ if verdict.threads.contains(&main) => format!("  {ENDS}"),
        Some(asked) if verdict.threads.is_empty() => format!("  CK({});\n  {ENDS}", calls.asks_for(asked, snapshot.at)),
        _ => "  waits_for_ever(nullptr);\n".to_owned(),
    }
}
