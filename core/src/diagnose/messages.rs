//! The sentences of a verdict.

use super::graph::GraphSeen;
use super::operation::{FedStream, Launches, OperationSeen, StreamRef};
use super::path::{End, Path, Peers, SharedQueue, Step, Unseen};
use super::snapshot::{BlockedCall, ColdLoadSeen, FailureSeen, HostFunctionSeen, Snapshot};
use super::verdict::Culprit;
use super::wait::{NewestWrite, WaitSeen};
use crate::api::result::error_in_words;
use crate::api::{counted, ordinal, Asked, Class, Code, ThreadActivity};
use crate::demangle::demangle;
use crate::Nanos;
use std::fmt;

pub(crate) fn time(at: Nanos) -> String {
    format!("+{:.3} s", at as f64 / 1e9)
}

pub(super) fn lasted(nanos: Nanos) -> String {
    format!("{:.1} s", nanos as f64 / 1e9)
}

pub(crate) fn thread(number: u32, name: &str) -> String {
    let name = if name.is_empty() { String::new() } else { format!(" \"{name}\"") };
    format!("thread {number}{name}")
}

impl fmt::Display for StreamRef {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "stream {}", self.number)
    }
}

impl Culprit {
    pub(super) fn name(&self) -> String {
        format!("{} on {}", self.operation.name(), self.stream)
    }

    pub(super) fn operation(&self) -> String {
        format!("{} on {}", operation(&self.operation), self.stream)
    }
}

fn on(stream: Option<&StreamRef>) -> String {
    stream.map(|stream| format!(" on {stream}")).unwrap_or_default()
}

pub(crate) fn of(function: Option<&String>) -> String {
    function.map(|function| format!(" of {}", demangle(function))).unwrap_or_default()
}

impl OperationSeen {
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

pub(super) fn submitting(culprit: Option<&Culprit>) -> String {
    match culprit.map(|culprit| (&culprit.operation.function, &culprit.operation.call)) {
        Some((Some(function), _)) => format!("launching {}", demangle(function)),
        Some((None, call)) => format!("calling {call}"),
        None => "that".to_owned(),
    }
}

/// The operation at the end of a path.
pub(super) fn waits_for(path: &Path<'_>) -> String {
    match &path.end {
        End::Runs(culprit) if path.or_later => {
            format!("{}, and {} or an operation after it has not ended", culprit.name(), culprit.operation.name())
        }
        End::Runs(culprit) => format!("{}, and {} has not ended", culprit.name(), culprit.operation.name()),
        End::Peers(Peers { culprit, is_known, .. }) => {
            let which = which_launch(&culprit.operation, *is_known);
            format!("{which} on {}, which waits for other ranks", culprit.stream)
        }
        End::Meeting => "other ranks".to_owned(),
        End::Driver => "something inside the driver".to_owned(),
        End::Failed(_) => "a context that has failed".to_owned(),
        End::Unseen(Unseen::Stream) => "a stream that the guard does not follow".to_owned(),
        End::Unseen(Unseen::Streams) => "streams that the guard does not follow".to_owned(),
        End::Unseen(Unseen::Destroyed(_)) => "destroyed streams that the guard no longer follows".to_owned(),
        End::Unwritten(wait, _) => format!("{}, which waits {}", wait.stream, unwritten(wait)),
        End::Host(host, culprit) => {
            format!("the host function at {:#x} on {}, and it has not returned", host.address, culprit.stream)
        }
        End::Filled(victim, filler) => {
            let filler = filler.operation.name();
            format!("{}, which finds no room beside {filler}, and {filler} has not ended", victim.name())
        }
        End::Cycle(Some(culprit)) => format!("{}, which in turn waits for this: a cycle", culprit.name()),
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

pub(super) fn sentence_by_its_end(calls: &[&BlockedCall], path: &Path<'_>) -> String {
    match &path.end {
        End::Unwritten(wait, _) => format!("{} cannot go on: it waits {}", wait.stream, unwritten(wait)),
        End::Cycle(_) => {
            let streams = numbered(&streams_on(path));
            format!("{streams} cannot go on: they wait for each other, each behind its own wait")
        }
        End::Host(host, culprit) => {
            let (on, address) = (&culprit.stream, host.address);
            format!("{on} cannot go on: its host function at {address:#x} has not returned")
        }
        End::Filled(victim, filler) => {
            let (victim, filler) = (victim.name(), filler.name());
            format!("{victim} cannot start: {filler} fills the device and has not ended")
        }
        End::Driver => {
            let call = calls.first().map_or_else(|| "a call".to_owned(), |call| call.call.to_string());
            format!("{call} has not returned, and nothing is known to be in flight that it could wait for")
        }
        End::Failed(first) => failed(*first, calls.first().copied()),
        End::Runs(_) | End::Peers(..) | End::Meeting | End::Fed(..) | End::Unseen(_) => match calls.first() {
            Some(call) if call.queries.is_some() => {
                format!("{} goes on answering \"not ready\": it waits for {}", call.call, waits_for(path))
            }
            Some(call) => format!("{} cannot return: it waits for {}", call.call, waits_for(path)),
            None => format!("submitted work waits for {}", waits_for(path)),
        },
    }
}

const FAILED_FIX: &str =
    "stop at the first error other than \"not ready\": no later call of this context succeeds, until the \
                          process ends or the device is reset; compute-sanitizer finds the kernel's fault";

fn failed(first: Option<&FailureSeen>, call: Option<&BlockedCall>) -> String {
    let error = call.and_then(|call| call.error).map(error_in_words).unwrap_or_default();
    let first = first.map(|first| {
        let (call, at) = (&first.operation.call, time(first.operation.at));
        format!(" at {call} of thread {} at {at}", first.thread)
    });
    let asks = call.map(|call| format!(" by {}", call.call)).unwrap_or_default();
    format!("the context has failed with {error}{}, and the program goes on asking{asks}", first.unwrap_or_default())
}

/// The words for the run's folder in [`REPORTS`], where its path is not known.
pub const OF_THE_RUN: &str = "`lazyguard report` on the folder of the whole run";
const REPORTS: &str = "`lazyguard report` on the folder of the whole run compares the ranks";

/// The change, by the operation at the end of a path.
pub(super) fn fix_by_its_end(path: &Path<'_>) -> String {
    match &path.end {
        End::Unwritten(WaitSeen { value, address, condition, .. }, _) => format!(
            "submit the operation that writes {value} to {address:#x} before the call that waits for it, or from another thread; \
             check the wait's address, value and condition ({condition})"
        ),
        End::Cycle(_) => {
            "submit the write that each of these streams waits for before that stream's own wait, not behind it".to_owned()
        }
        End::Host(HostFunctionSeen { address, .. }, _) => format!(
            "let the host function at {address:#x} return: it must not wait for what its stream, or a thread that waits for its \
             stream, has still to do"
        ),
        End::Filled(victim, filler) => {
            let (victim, filler) = (victim.operation.name(), filler.operation.name());
            format!("launch {filler} with fewer blocks, so that {victim} finds room beside it, or launch {victim} first")
        }
        End::Fed(..) => String::new(),
        End::Failed(_) => FAILED_FIX.to_owned(),
        End::Unseen(unseen) => to_see(unseen).to_owned(),
        End::Driver => {
            "see the stack of that thread, and what the driver and the kernel's log (dmesg) say of the device".to_owned()
        }
        End::Meeting => format!("find the rank that has not made this call and what it does instead: {REPORTS}"),
        End::Peers(Peers { culprit, .. }) => {
            let kernel = culprit.operation.peers_kernel().map(demangle).unwrap_or_default();
            format!("find the rank that has not launched this {kernel} and what it does instead: {REPORTS}")
        }
        End::Runs(culprit) => {
            let name = culprit.operation.name();
            let condition = match culprit.operation.graph.as_ref().is_some_and(GraphSeen::has_condition) {
                true => "; a while node goes on until a kernel of its body sets its handle to 0 (cudaGraphSetConditional)",
                false => "",
            };
            format!("find out why {name} does not end: with --gpu-dump=full, the report says where its threads stand{condition}")
        }
    }
}

impl WaitSeen {
    /// `stream 1 waits for memory at 0x10 to be >= 1, and no submitted operation writes that`. `None` where one does, or it is over.
    pub fn unwritten(&self) -> Option<String> {
        let is_open = !self.is_over() && self.satisfying_writes.is_empty() && self.fills.is_empty();
        is_open.then(|| format!("{} waits {}", self.stream, unwritten(self)))
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

pub(super) fn streams_on(path: &Path<'_>) -> Vec<u32> {
    let waits = path.steps.iter().filter_map(|step| match step {
        Step::Writer(wait, _) => Some(wait.stream.number),
        Step::Event(wait) => Some(wait.stream),
        Step::Legacy(on, _) => Some(on.number),
        _ => None,
    });
    let mut numbers: Vec<_> = waits.chain(path.culprit().map(|culprit| culprit.stream.number)).collect();
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
    let (thread, since) = (thread(call.thread, &call.thread_name), time(call.entered));
    let (call, queries, error, of, on) =
        (&call.call, call.queries, call.error, of(call.function.as_ref()), on(call.stream.as_ref()));
    match queries.map(|queries| counted(queries, "time")) {
        Some(times) => {
            let answer = error.map_or_else(|| "\"not ready\"".to_owned(), error_in_words);
            format!("{thread} has polled {call}{on} {times} since {since}, and the answer was {answer} each time")
        }
        None => format!("{thread} is in {call}{of}{on} since {since}"),
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

/// `None` of a call of the program's.
pub(super) fn is_guards(call: &BlockedCall) -> Option<String> {
    let loads_code = call.call.class().is_some_and(|c| matches!(c, Class::ModuleLoad | Class::LibraryLoad));
    let (what, setting) = match (&call.function, loads_code) {
        (Some(function), _) => (demangle(function), "LAZYGUARD_PRELOAD"),
        (None, true) => ("code that an earlier run has loaded".to_owned(), "LAZYGUARD_PROFILE"),
        (None, false) => ("code ahead of its use".to_owned(), "LAZYGUARD_PRELOAD"),
    };
    call.is_guards.then(|| format!("it is the guard's own load of {what}; {setting}=off avoids it"))
}

pub(super) const COMPILES: &str = "the driver has to compile its code first, which may take long by itself";

pub(super) fn compiles(call: &BlockedCall) -> String {
    let share = call.computes.map(|time| format!(" ({} % of {})", time.percent(), lasted(time.within_nanos)));
    let loads = call.cold.is_some() || call.call.class().is_some_and(|c| c.loads_module() || c == Class::Link);
    format!(
        "{} computes in {}{}{}, and waits for nothing that is known",
        thread(call.thread, &call.thread_name),
        call.call,
        share.unwrap_or_default(),
        if loads { ", as a compiler does" } else { "" }
    )
}

pub(super) const LAUNCH_BLOCKING: &str = "CUDA_LAUNCH_BLOCKING is set: a launch returns only when its kernel has ended";

pub fn needs_idle(class: Class) -> &'static str {
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

pub(super) const MOST_NAMED: usize = 4;

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
    let were = operations(fed.operations, ["was", "were"]);
    format!("{were} submitted to {} since, so that stream may not stand still", fed.stream)
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

pub(super) fn operations(count: u64, [of_one, of_more]: [&str; 2]) -> String {
    format!("{} {}", counted(count, "operation"), if count == 1 { of_one } else { of_more })
}

pub(super) fn at_rest(on: &StreamRef, rested: Nanos) -> String {
    format!(
        "no thread waits for {on} in a call; the driver says that it is busy, and nothing has ended there for {}",
        lasted(rested)
    )
}

/// The sentence and the fix where every thread waits, and a host function behind a kernel may wake one.
pub(super) fn awaits(function: u64, on: &StreamRef, kernel: &Culprit) -> (String, String) {
    let (name, kernel, called) =
        (kernel.operation.name(), kernel.name(), format!("the host function at {function:#x}"));
    let sentence = format!(
        "every thread waits for another, and only {called} is known to wake one: {on} calls it behind {kernel}, and {name} has not ended"
    );
    let fix =
        format!("do what {name} waits for before the thread waits for {called}, or find out why {name} does not end");
    (sentence, fix)
}

pub(super) fn asked(asked: &Asked) -> String {
    let (times, since) = (counted(asked.times, "time"), time(asked.since));
    format!("the program has asked for its state {times} since {since}, and the answer was \"not ready\" each time")
}

pub(super) fn outstanding(on: &StreamRef, oldest: &OperationSeen) -> String {
    format!("{} on {on} is outstanding since {}", operation(oldest), time(oldest.at))
}

pub(super) fn barrier(load: &ColdLoadSeen) -> String {
    let what = function(load.function.as_ref(), "a function");
    let (call, on, at) = (&load.call, on(load.stream.as_ref()), time(load.at));
    match load.first_launch {
        true => format!("{call}{on} of {what} at {at} was its first launch"),
        false => format!("{call}{on} loaded {what} on its first use at {at}"),
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

pub(super) fn behind_in_a_queue(shared: &SharedQueue<'_>, path: &Path<'_>) -> String {
    let SharedQueue { waits, held_back, ahead, head, .. } = *shared;
    let (cannot, is, their) = match shared.is_certain() {
        true => ("cannot start", "is", "the"),
        false => ("may not have started", "may be", "a"),
    };
    let (first, on, head, ahead) = (held_back.name(), &waits.stream, head.name(), &ahead.stream);
    let waits = waits_for(path);
    format!("{first} on {on} {cannot}: {head} on {ahead} {is} before it in {their} hardware queue of both, and waits for {waits}")
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
