//! The sentences of a verdict.

use super::graph::GraphSeen;
use super::paths::{End, Path, Peers, SharedQueue, Step, Unseen};
use super::snapshot::{
    BlockedCall, ColdLoadSeen, Extent, FedStream, Feeder, HostFunctionSeen, Launches, NewestWrite, OperationSeen,
    Snapshot, StreamRef, WaitSeen,
};
use super::verdict::{Culprit, Evidence};
use crate::api::{counted, ordinal, Class, Code, ColdKind, ThreadActivity};
use crate::demangle::demangle;
use crate::Nanos;

pub(crate) fn time(at: Nanos) -> String {
    format!("+{:.3} s", at as f64 / 1e9)
}

pub(super) fn lasted(nanos: Nanos) -> String {
    format!("{:.1} s", nanos as f64 / 1e9)
}

pub(super) fn thread(call: &BlockedCall) -> String {
    if call.thread_name.is_empty() {
        format!("thread {}", call.thread)
    } else {
        format!("thread {} \"{}\"", call.thread, call.thread_name)
    }
}

/// A stream by its number; a report lists its handle and kind once.
pub(super) fn stream(stream: &StreamRef) -> String {
    format!("stream {}", stream.number)
}

impl OperationSeen {
    /// The kernel's name, the graph, or the call that submitted the operation.
    pub fn name(&self) -> String {
        self.graph.as_ref().map_or_else(|| function(self.function.as_ref(), self.call.symbol()), GraphSeen::name)
    }
}

/// `the 14th of 20 launches of ncclDevKernel_AllReduce`, or, where it may be a later one, `one of the last 7 of 20 launches`.
fn which_launch(op: &OperationSeen, is_known: bool) -> String {
    let name = op.name();
    match op.launches {
        Some(Launches { of: 1, .. }) => format!("the only launch of {name}"),
        Some(Launches { number, of }) if is_known => format!("the {} of {of} launches of {name}", ordinal(number)),
        Some(Launches { number: 1, of }) => format!("one of {of} launches of {name}"),
        Some(Launches { number, of }) => {
            format!("one of the last {} of {of} launches of {name}", of.saturating_sub(number) + 1)
        }
        None if is_known => name,
        None => format!("one of several launches of {name}"),
    }
}

fn how_far(op: &OperationSeen) -> Option<String> {
    let before = op.launches?.number.saturating_sub(1);
    let have = if before == 1 { "has" } else { "have" };
    (before > 0).then(|| format!("{} of it on this stream {have} ended", counted(before, "earlier launch")))
}

/// `launching k1`, or for what is no kernel `calling cuMemcpyAsync`.
pub(super) fn submitting(op: &OperationSeen) -> String {
    match &op.function {
        Some(function) => format!("launching {}", demangle(function)),
        None => format!("calling {}", op.call),
    }
}

/// The operation at the end of a path, and why it does not end.
pub(super) fn waits_for(path: &Path<'_>) -> String {
    match &path.end {
        End::Runs(culprit) if path.or_later => {
            let name = culprit.operation.name();
            format!("{name} on {}, and {name} or an operation after it has not ended", stream(&culprit.stream))
        }
        End::Runs(culprit) => {
            let name = culprit.operation.name();
            format!("{name} on {}, and {name} has not ended", stream(&culprit.stream))
        }
        End::Peers(Peers { culprit, is_known, .. }) => {
            let which = which_launch(&culprit.operation, *is_known);
            format!("{which} on {}, which waits for other ranks", stream(&culprit.stream))
        }
        End::Meeting => "other ranks".to_owned(),
        End::Driver => "something inside the driver".to_owned(),
        End::Unseen(Unseen::Stream) => "a stream that the guard does not follow".to_owned(),
        End::Unseen(Unseen::Streams) => "streams that the guard does not follow".to_owned(),
        End::Unseen(Unseen::Destroyed(_)) => "destroyed streams that the guard no longer follows".to_owned(),
        End::Unwritten(wait, _) => format!("{}, which waits {}", stream(&wait.stream), unwritten(wait)),
        End::Host(host, culprit) => {
            format!("the host function at {:#x} on {}, and it has not returned", host.address, stream(&culprit.stream))
        }
        End::Filled(victim, filler) => {
            let filler = filler.operation.name();
            let victim = format!("{} on {}", victim.operation.name(), stream(&victim.stream));
            format!("{victim}, which finds no room beside {filler}, and {filler} has not ended")
        }
        End::Cycle(Some(culprit)) => {
            let name = culprit.operation.name();
            format!("{name} on {}, which in turn waits for this: a cycle", stream(&culprit.stream))
        }
        End::Cycle(None) => "streams that in turn wait for this: a cycle".to_owned(),
        End::Fed(fed, _) => {
            let mut threads: Vec<_> = fed.iter().flat_map(|fed| &fed.by).map(|feeder| feeder.thread).collect();
            threads.sort_unstable();
            threads.dedup();
            let who = match threads[..] {
                [one] => format!("thread {one} keeps"),
                [] => "other threads keep".to_owned(),
                _ => format!("{} keep", counted(threads.len() as u64, "thread")),
            };
            format!("the context to be idle, and {who} submitting to {}", streams(fed))
        }
    }
}

pub(super) fn unwritten(wait: &WaitSeen) -> String {
    let counts = |write: &&NewestWrite| write.stream != wait.stream.number || write.at < wait.at;
    let newest = wait.newest_write.as_ref().filter(counts).and_then(|write| write.value);
    let newest = newest.map(|value| format!(": the newest write there is of {value}")).unwrap_or_default();
    format!(
        "for memory at {:#x} to be {} {}, and no submitted operation writes that{newest}",
        wait.address, wait.condition, wait.value
    )
}

/// The streams of a path on which something waits, in the order of their numbers.
pub(super) fn streams_on(path: &Path<'_>) -> Vec<u32> {
    let mut numbers: Vec<_> = path
        .steps
        .iter()
        .filter_map(|step| match step {
            Step::Writer(wait, _) => Some(wait.stream.number),
            Step::Event(wait) => Some(wait.stream),
            _ => None,
        })
        .chain(path.culprit().map(|culprit| culprit.stream.number))
        .collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

pub(super) fn numbered(numbers: &[u32]) -> String {
    let numbers: Vec<_> = numbers.iter().map(ToString::to_string).collect();
    match &numbers[..] {
        [] => "a stream".to_owned(),
        [one] => format!("stream {one}"),
        [former @ .., last] => format!("streams {} and {last}", former.join(", ")),
    }
}

pub(super) fn operation(op: &OperationSeen) -> String {
    match &op.function {
        Some(function) => format!("kernel {}", demangle(function)),
        None => op.call.to_string(),
    }
}

fn function(name: Option<&String>, otherwise: &str) -> String {
    name.map_or_else(|| otherwise.to_owned(), |name| demangle(name))
}

pub(crate) fn blocked(call: &BlockedCall) -> String {
    let of = call.function.as_deref().map(|f| format!(" of {}", demangle(f))).unwrap_or_default();
    let on = call.stream.as_ref().map(|s| format!(" on {}", stream(s))).unwrap_or_default();
    match call.queries {
        Some(queries) => format!(
            "{} has polled {}{on} {} since {}, and the answer was \"not ready\" each time",
            thread(call),
            call.call,
            counted(queries, "time"),
            time(call.entered)
        ),
        None => format!("{} is in {}{of}{on} since {}", thread(call), call.call, time(call.entered)),
    }
}

pub(crate) fn waits_too(call: &BlockedCall) -> String {
    format!("{}: it waits with the first", blocked(call))
}

pub(super) fn loads(call: &BlockedCall) -> String {
    let what = match &call.function {
        Some(function) => format!("the module or library of {}", demangle(function)),
        None => "a module or library".to_owned(),
    };
    format!("that call loads {what}, and the driver loads only while the context is idle")
}

pub(super) const COMPILES: &str = "the driver has to compile its code first, which may take long by itself";

pub(super) fn compiles(call: &BlockedCall) -> String {
    let share = call.computes.map(|time| format!(" ({} % of {})", time.percent(), lasted(time.within_nanos)));
    let loads = call.cold.is_some() || call.call.class().is_some_and(Class::loads_module);
    format!(
        "{} computes in {}{}{}, and waits for nothing that is known",
        thread(call),
        call.call,
        share.unwrap_or_default(),
        if loads { ", as a compiler does" } else { "" }
    )
}

pub(super) const LAUNCH_BLOCKING: &str = "CUDA_LAUNCH_BLOCKING is set: a launch returns only when its kernel has ended";

pub(super) fn needs_idle(class: Class) -> &'static str {
    match class {
        Class::Free => "the driver releases memory only while the context is idle",
        Class::ModuleUnload | Class::LibraryUnload => "the driver unloads code only while the context is idle",
        Class::ContextDestroy => "the driver ends a context only while the device is idle",
        _ => "that call waits until the context is idle",
    }
}

pub(super) fn starved_title(code: Code) -> &'static str {
    match code {
        Code::LG202 => "a thread is blocked loading a module into a context that other threads keep busy",
        Code::LG204 => "a thread is blocked in a call that waits for a context that other threads keep busy",
        other => other.title(),
    }
}

const MOST_NAMED: usize = 4;

pub(super) fn streams(fed: &[&FedStream]) -> String {
    let mut numbers: Vec<_> = fed.iter().take(MOST_NAMED).map(|fed| fed.stream.number).collect();
    numbers.sort_unstable();
    match fed.len().saturating_sub(MOST_NAMED) {
        0 => numbered(&numbers),
        more => {
            let numbers: Vec<_> = numbers.iter().map(ToString::to_string).collect();
            format!("streams {} and {more} more", numbers.join(", "))
        }
    }
}

pub(super) fn fed_behind(fed: &FedStream) -> String {
    format!("{} submitted to {} since, so that stream may not stand still", were(fed.operations), stream(&fed.stream))
}

pub(super) fn unseen(unseen: &Unseen<'_>) -> String {
    match unseen {
        Unseen::Stream => {
            "the guard's tables had no room for that stream, so what was submitted to it is not known".to_owned()
        }
        Unseen::Streams => {
            "the guard's tables had no room for all streams and threads, so some of what was submitted may not be known"
                .to_owned()
        }
        Unseen::Destroyed(work) => format!(
            "more streams were destroyed with work outstanding than the guard follows; the work of the others was submitted until \
             {}, and may not have ended",
            time(work.until)
        ),
    }
}

pub(super) fn to_see(unseen: &Unseen<'_>) -> &'static str {
    match unseen {
        Unseen::Stream | Unseen::Streams => {
            "find out what does not end there: with a larger LAZYGUARD_RECORD the guard follows more streams"
        }
        Unseen::Destroyed(_) => {
            "find out which work on destroyed streams does not end, or synchronize with each stream before it is destroyed"
        }
    }
}

/// `1 operation was`, `2 operations were`.
fn were(operations: u64) -> String {
    format!("{} {}", counted(operations, "operation"), if operations == 1 { "was" } else { "were" })
}

fn fed(fed: &FedStream) -> String {
    let one = |feeder: &Feeder| {
        let name = if feeder.thread_name.is_empty() { String::new() } else { format!(" \"{}\"", feeder.thread_name) };
        let of = feeder.function.as_deref().map(|f| format!(" of {}", demangle(f))).unwrap_or_default();
        format!("thread {}{name} with {}{of}", feeder.thread, feeder.call)
    };
    let by: Vec<_> = fed.by.iter().take(MOST_NAMED).map(one).collect();
    let more = match fed.by.len().saturating_sub(MOST_NAMED) {
        0 => String::new(),
        more => format!(" and {}", counted(more as u64, "more thread")),
    };
    format!(
        "at least {} submitted to {} since, the newest at {}, by {}{more}",
        were(fed.operations),
        stream(&fed.stream),
        time(fed.newest.at),
        by.join(", ")
    )
}

/// That no thread waits for a stream that the driver calls busy.
pub(super) fn at_rest(on: &StreamRef, rested: Nanos) -> String {
    format!(
        "no thread waits for {} in a call; the driver says that it is busy, and nothing was submitted to it or ended there for {}",
        stream(on),
        lasted(rested)
    )
}

pub(super) fn outstanding(on: &StreamRef, oldest: &OperationSeen) -> String {
    format!("{} on {} is outstanding since {}", operation(oldest), stream(on), time(oldest.at))
}

/// That an operation runs for which no thread waits in a call. A host function behind it may wake a thread.
pub(super) fn unwatched(runs: &Culprit, calls_host: bool, at: Nanos) -> String {
    let waits = match calls_host {
        true => "no thread waits for it in a call, and a host function that the stream is to call behind it may be waited for",
        false => "no thread waits for it",
    };
    format!(
        "{} has run on {} for {}; {waits}",
        operation(&runs.operation),
        stream(&runs.stream),
        lasted(at.saturating_sub(runs.operation.at))
    )
}

/// That a function was loaded on its first use, or launched for the first time.
pub(super) fn barrier(load: &ColdLoadSeen) -> String {
    let on = load.stream.as_ref().map(|s| format!(" on {}", stream(s))).unwrap_or_default();
    let what = function(load.function.as_ref(), "a function");
    match load.first_launch {
        true => format!("{}{on} of {what} at {} was its first launch", load.call, time(load.at)),
        false => format!("{}{on} loaded {what} on its first use at {}", load.call, time(load.at)),
    }
}

pub(super) fn held_back(load: &ColdLoadSeen) -> String {
    let what = function(load.function.as_ref(), "a function");
    match (load.first_launch, &load.stream) {
        (true, _) => format!("{what} cannot start: its first launch, of a kernel that prints,"),
        (false, Some(_)) => format!("{what} cannot start: loading it on its first launch"),
        (false, None) => format!("nothing can start that was submitted after {} loaded {what}: that load", load.call),
    }
}

pub(crate) fn wait(wait: &WaitSeen) -> String {
    let holds = wait.holds.map(|value| format!("; it held {value}")).unwrap_or_default();
    let by = if wait.thread == 0 { String::new() } else { format!(" (submitted by thread {})", wait.thread) };
    format!(
        "{} waits since {} for memory at {:#x} to be {} {}{by}{holds}",
        stream(&wait.stream),
        time(wait.at),
        wait.address,
        wait.condition,
        wait.value
    )
}

fn newest_write(write: &NewestWrite) -> String {
    let NewestWrite { call, thread, stream, .. } = write;
    let what = write.value.map_or_else(String::new, |value| format!(" of {value}"));
    format!(
        "the newest write there{what} is {call} of thread {thread}, submitted to stream {stream} at {}",
        time(write.at)
    )
}

fn host_function(host: &HostFunctionSeen, on: &StreamRef) -> String {
    let doing = host.doing.map(|doing| format!(", and {}", doing.words())).unwrap_or_default();
    if host.or_another {
        return format!(
            "a graph has called the host function at {:#x} at {}; thread {} is in it{doing}; {} may have made that call, or another stream \
             whose graph calls the same function",
            host.address,
            time(host.entered),
            host.thread,
            stream(on)
        );
    }
    format!(
        "{} called the host function at {:#x} at {}; thread {} is in it{doing}",
        stream(on),
        host.address,
        time(host.entered),
        host.thread
    )
}

pub(crate) fn not_ended(culprit: &Culprit) -> String {
    format!(
        "{} on {} was submitted at {} and is not known to have ended",
        operation(&culprit.operation),
        stream(&culprit.stream),
        time(culprit.operation.at)
    )
}

fn step(snapshot: &Snapshot, step: &Step<'_>) -> Vec<String> {
    match step {
        Step::Barrier(load) => vec![barrier(load)],
        Step::Writer(waits, by) => {
            let by = snapshot.stream(*by).map_or_else(|| format!("stream {by}"), |s| stream(&s.stream));
            vec![wait(waits), format!("the operation that writes there is on {by}, and has not run")]
        }
        Step::Event(waits) => {
            let name =
                |number: u32| snapshot.stream(number).map_or_else(|| format!("stream {number}"), |s| stream(&s.stream));
            vec![format!(
                "{} waits since {} for event {:#x}, recorded on {} at {}",
                name(waits.stream),
                time(waits.at),
                waits.event,
                name(waits.recorded_on),
                time(waits.recorded)
            )]
        }
        Step::HostFunctions(on) => vec![format!(
            "{} has a host function to call, and the driver calls those of a context one at a time",
            stream(on)
        )],
        Step::Pool(one, at, other) => vec![format!(
            "{} allocates at {} memory of a pool that was freed in the order of {} before, so it waits for what comes before that there",
            stream(one),
            time(*at),
            stream(other)
        )],
        Step::Queue(shared) => vec![shared_queue(shared)],
        Step::Room(grid) => vec![format!(
            "{} on {} starts only when the device has room for all its blocks at once",
            operation(grid.front()),
            stream(&grid.stream)
        )],
        Step::Devices(one, copy, other) => vec![format!(
            "{} on {} at {} waits for the work of both devices, and so for {}",
            copy.call,
            stream(one),
            time(copy.at),
            stream(other)
        )],
        Step::Legacy(one, other) => vec![format!(
            "{} waits for what was submitted to {} before, by the rule of the legacy default stream",
            stream(one),
            stream(other)
        )],
    }
}

pub(super) fn behind_in_a_queue(shared: &SharedQueue<'_>, path: &Path<'_>) -> String {
    let SharedQueue { waits, held_back, ahead, head, .. } = *shared;
    let (cannot, is, their) = match shared.is_certain() {
        true => ("cannot start", "is", "the"),
        false => ("may not have started", "may be", "a"),
    };
    format!(
        "{} on {} {cannot}: {} on {} {is} before it in {their} hardware queue of both, and waits for {}",
        held_back.name(),
        stream(&waits.stream),
        head.name(),
        stream(&ahead.stream),
        waits_for(path)
    )
}

/// Which launch keeps another stream's from starting, and by which rule.
fn shared_queue(shared: &SharedQueue<'_>) -> String {
    let queue = match shared.is_certain() {
        true => "the one hardware queue of all streams".to_owned(),
        false => format!("one of the {} hardware queues, which more streams share", shared.queues),
    };
    let (head, ahead) = (operation(shared.head), stream(&shared.ahead.stream));
    let (first, on) = (operation(shared.held_back), stream(&shared.waits.stream));
    format!("{head} on {ahead} waits at the head of {queue} (CUDA_DEVICE_MAX_CONNECTIONS); {first} on {on} was submitted after it")
}

pub(super) fn path(snapshot: &Snapshot, path: &Path<'_>) -> Vec<String> {
    let mut lines: Vec<_> = path.steps.iter().flat_map(|s| step(snapshot, s)).collect();
    lines.extend(end(path));
    let graph = path.culprit().and_then(|culprit| culprit.operation.graph.as_ref());
    lines.extend(graph.map(|graph| format!("that graph has {}: {}", counted(graph.nodes, "node"), graph.holds())));
    lines.extend(path.unless.iter().map(|unless| {
        let (load, behind) = &**unless;
        let (before, on) = (behind.operation.name(), stream(&behind.stream));
        format!("{}: if {before} on {on} has not ended, that is a barrier as well (LG201)", barrier(load))
    }));
    lines
}

pub(super) fn end(path: &Path<'_>) -> Vec<String> {
    match &path.end {
        End::Runs(culprit) => vec![not_ended(culprit)],
        End::Meeting => vec![
            "the thread is in NCCL's own code, and in no driver call: there ranks meet, and each waits for all others"
                .to_owned(),
        ],
        End::Peers(Peers { culprit, before, .. }) => {
            let mut lines = vec![not_ended(culprit)];
            lines.extend(
                before
                    .iter()
                    .map(|before| format!("nor is {}, which comes before it on that stream", operation(before))),
            );
            lines.extend(how_far(&culprit.operation));
            lines.push("such a kernel ends when every rank of its communicator has launched its own".to_owned());
            lines
        }
        End::Unwritten(waits, _) => {
            let mut lines = vec![wait(waits)];
            if waits.other_writes > 0 {
                let reach = if waits.other_writes == 1 { "reaches" } else { "reach" };
                lines.push(format!(
                    "{} {reach} that address with another value, were overwritten, or come after the wait",
                    counted(waits.other_writes as u64, "write")
                ));
            }
            lines.extend(waits.newest_write.as_ref().map(newest_write));
            lines
        }
        End::Host(host, culprit) => vec![host_function(host, &culprit.stream)],
        End::Filled(victim, filler) => {
            let filled = match filler.operation.extent {
                Some(Extent::Grid { blocks, resident: Some(resident), .. }) => {
                    format!(" with {}, of which the device holds {resident} at once", counted(blocks, "block"))
                }
                _ => String::new(),
            };
            vec![
                format!(
                    "{} on {} is ready to start and finds no room",
                    operation(&victim.operation),
                    stream(&victim.stream)
                ),
                format!("{} fills the device{filled}", operation(&filler.operation)),
                not_ended(filler),
            ]
        }
        End::Fed(streams, _) => {
            let mut lines = vec!["what was in flight when the call was entered has ended".to_owned()];
            lines.extend(streams.iter().take(MOST_NAMED).map(|stream| fed(stream)));
            let more = streams.len().saturating_sub(MOST_NAMED);
            lines.extend(
                (more > 0).then(|| format!("threads submit to {} as well", counted(more as u64, "more stream"))),
            );
            lines
        }
        End::Unseen(of) => vec![unseen(of)],
        End::Driver => {
            vec!["nothing is known to be in flight that it could wait for, so it waits inside the driver".to_owned()]
        }
        End::Cycle(Some(culprit)) => vec![format!(
            "that in turn waits for {} on {}: a cycle",
            operation(&culprit.operation),
            stream(&culprit.stream)
        )],
        End::Cycle(None) => vec!["that in turn waits for the first of these: a cycle".to_owned()],
    }
}

pub(super) fn evidence(path: &Path<'_>) -> Vec<Evidence> {
    let evidence = |what: &str, at: Nanos, thread: Option<u32>, stream: Option<u32>| Evidence {
        what: what.to_owned(),
        at,
        thread,
        stream,
    };
    let of_step = |step: &Step<'_>| match step {
        Step::Barrier(load) => {
            let what = match load.kind {
                ColdKind::Function => "a function is loaded on first use",
                ColdKind::Module => "a module is loaded on first use",
            };
            Some(evidence(what, load.at, Some(load.thread), load.stream.as_ref().map(|s| s.number)))
        }
        Step::Writer(wait, _) => {
            Some(evidence("a wait for a value is submitted", wait.at, None, Some(wait.stream.number)))
        }
        Step::Event(wait) => Some(evidence("a wait for an event is submitted", wait.at, None, Some(wait.stream))),
        Step::Pool(one, at, _) => Some(evidence("memory of a pool is allocated", *at, None, Some(one.number))),
        Step::Queue(SharedQueue { ahead, head, .. }) => {
            let what = "a launch is submitted that stays at the head of a hardware queue";
            Some(evidence(what, head.at, None, Some(ahead.stream.number)))
        }
        Step::HostFunctions(_) | Step::Legacy(..) | Step::Devices(..) | Step::Room(_) => None,
    };
    let mut found: Vec<_> = path.steps.iter().filter_map(of_step).collect();
    if let End::Host(host, _) = &path.end {
        found.push(evidence("a host function is called", host.entered, Some(host.thread), Some(host.stream)));
    }
    found.extend(path.culprit().map(|Culprit { stream, operation: of }| {
        evidence(&format!("{} is submitted", operation(of)), of.at, None, Some(stream.number))
    }));
    found
}

pub(super) fn runnable(snapshot: &Snapshot) -> Option<String> {
    let first = snapshot.runnable.first()?;
    let more = match snapshot.runnable.len() - 1 {
        0 => String::new(),
        n => format!(" ({} as well)", counted(n as u64, "more thread")),
    };
    Some(format!(
        "thread {} {}{more}, and may still do what is waited for",
        first.thread,
        ThreadActivity::words(first.doing)
    ))
}
