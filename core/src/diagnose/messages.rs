//! The sentences of a verdict.

use super::paths::{End, Path, Step};
use super::snapshot::{
    BlockedCall, ColdLoadSeen, Extent, FedStream, Feeder, HostFunctionSeen, OperationSeen, Snapshot, StreamRef,
    WaitSeen,
};
use super::verdict::{Culprit, Evidence};
use crate::api::{Class, Code, ColdKind, ThreadActivity};
use crate::demangle::demangle;
use crate::Nanos;

pub(super) fn time(at: Nanos) -> String {
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

pub(super) fn stream(stream: &StreamRef) -> String {
    format!("stream {} ({:#x}, {})", stream.number, stream.handle, stream.kind)
}

pub(super) fn operation(op: &OperationSeen) -> String {
    match &op.function {
        Some(function) => format!("kernel {}", demangle(function)),
        None => op.call.clone(),
    }
}

fn function(name: Option<&String>, otherwise: &str) -> String {
    name.map_or_else(|| otherwise.to_owned(), |name| demangle(name))
}

/// What a thread does, since when.
pub(super) fn blocked(call: &BlockedCall) -> String {
    let of = call.function.as_deref().map(|f| format!(" of {}", demangle(f))).unwrap_or_default();
    let on = call.stream.as_ref().map(|s| format!(" on {}", stream(s))).unwrap_or_default();
    match call.queries {
        Some(queries) => format!(
            "{} has asked {}{on} {queries} times since {} and was told \"not ready\" each time",
            thread(call),
            call.call,
            time(call.entered)
        ),
        None => format!("{} is in {}{of}{on} since {}", thread(call), call.call, time(call.entered)),
    }
}

/// What a load on first use does to the calling thread, or to the device.
pub(super) fn loads(call: &BlockedCall) -> String {
    let what = match &call.function {
        Some(function) => format!("the module or library of {}", demangle(function)),
        None => "a module or library".to_owned(),
    };
    format!("that brings {what} into the context, which the driver does only once everything in flight there has ended")
}

/// Why a call of this class waits for the whole context.
pub(super) fn needs_idle(class: Class) -> &'static str {
    match class {
        Class::Free => "that releases memory only once everything in flight in the context has ended",
        Class::ModuleUnload | Class::LibraryUnload => {
            "that unloads code only once everything in flight in the context has ended"
        }
        Class::ContextDestroy => "that ends a context only once everything in flight on the device has ended",
        _ => "that waits until everything in flight in the context has ended",
    }
}

/// What the code means of a call for which the context is never idle.
pub(super) fn starved_title(code: Code) -> &'static str {
    match code {
        Code::LG202 => "a thread is blocked loading a module into a context that other threads keep busy",
        Code::LG204 => "a thread is blocked in a call that waits for a context that other threads keep busy",
        other => other.title(),
    }
}

/// Streams that are named in one sentence.
const MOST_NAMED: usize = 4;

/// Several streams by their numbers.
pub(super) fn streams(fed: &[&FedStream]) -> String {
    let mut numbers: Vec<_> = fed.iter().take(MOST_NAMED).map(|fed| fed.stream.number).collect();
    numbers.sort_unstable();
    let numbers: Vec<_> = numbers.iter().map(ToString::to_string).collect();
    match (&numbers[..], fed.len().saturating_sub(MOST_NAMED)) {
        ([one], 0) => format!("stream {one}"),
        ([former @ .., last], 0) => format!("streams {} and {last}", former.join(", ")),
        (_, more) => format!("streams {} and {more} more", numbers.join(", ")),
    }
}

/// That a stream may be going on, although something on it is not known to have ended.
pub(super) fn fed_behind(fed: &FedStream) -> String {
    format!(
        "{} operations were submitted to {} since: that stream may be going on, and the context be busy whenever it is looked at",
        fed.operations,
        stream(&fed.stream)
    )
}

/// What is submitted to a stream while a call waits, and by which threads.
fn fed(fed: &FedStream) -> String {
    let one = |feeder: &Feeder| {
        let name = if feeder.thread_name.is_empty() { String::new() } else { format!(" \"{}\"", feeder.thread_name) };
        let of = feeder.function.as_deref().map(|f| format!(" of {}", demangle(f))).unwrap_or_default();
        format!("thread {}{name} with {}{of}", feeder.thread, feeder.call)
    };
    let by: Vec<_> = fed.by.iter().take(MOST_NAMED).map(one).collect();
    let more = match fed.by.len().saturating_sub(MOST_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more threads"),
    };
    format!(
        "at least {} operations were submitted to {} since, the newest at {}, by {}{more}",
        fed.operations,
        stream(&fed.stream),
        time(fed.newest.at),
        by.join(", ")
    )
}

pub(super) fn barrier(load: &ColdLoadSeen) -> [String; 2] {
    let on = load.stream.as_ref().map(|s| format!(" on {}", stream(s))).unwrap_or_default();
    let what = function(load.function.as_ref(), "a function");
    if load.first_launch {
        return [
            format!(
                "{}{on} of {what} at {} was its first launch, while other work was in flight",
                load.call,
                time(load.at)
            ),
            "the first launch of a kernel that prints, and the first of a context one of whose modules prints, returns at once, \
             but nothing submitted after it starts before everything earlier has ended"
                .to_owned(),
        ];
    }
    [
        format!(
            "{}{on} loaded {what} on its first use at {}, while other work was in flight",
            load.call,
            time(load.at)
        ),
        "the load returned at once, but nothing submitted to the context after it starts before everything earlier has \
         ended"
            .to_owned(),
    ]
}

pub(super) fn wait(wait: &WaitSeen) -> String {
    let holds = wait.holds.map(|value| format!("; it held {value} when it was looked at")).unwrap_or_default();
    format!(
        "{} waits since {} for memory at {:#x} to be {} {}{holds}",
        stream(&wait.stream),
        time(wait.at),
        wait.address,
        wait.condition,
        wait.value
    )
}

fn host_function(host: &HostFunctionSeen, on: &StreamRef) -> String {
    let doing = host.doing.map(|doing| format!(", and {}", doing.words())).unwrap_or_default();
    format!(
        "{} called the host function at {:#x} at {}, which has not returned: thread {} is in it{doing}",
        stream(on),
        host.address,
        time(host.entered),
        host.thread
    )
}

fn not_ended(culprit: &Culprit) -> String {
    format!(
        "{} on {} was submitted at {} and is not known to have ended",
        operation(&culprit.operation),
        stream(&culprit.stream),
        time(culprit.operation.at)
    )
}

fn step(snapshot: &Snapshot, step: &Step<'_>) -> Vec<String> {
    match step {
        Step::Barrier(load) => barrier(load).into(),
        Step::Writer(waits, by) => {
            let by = snapshot.stream(*by).map_or_else(|| format!("stream {by}"), |s| stream(&s.stream));
            vec![wait(waits), format!("what writes there was submitted to {by}, and has not come to its turn")]
        }
        Step::Event(waits) => {
            let name = |number: u32| {
                snapshot.stream(number).map_or_else(|| format!("stream {number}"), |s| stream(&s.stream))
            };
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
            "{} has a host function to call, and host functions of a context are called one at a time",
            stream(on)
        )],
        Step::Legacy(one, other) => vec![format!(
            "what was submitted to {} waits for what was submitted to {} before: that is the order of the legacy default \
             stream",
            stream(one),
            stream(other)
        )],
    }
}

/// The whole way, down to what does not end.
pub(super) fn path(snapshot: &Snapshot, path: &Path<'_>) -> Vec<String> {
    let mut lines: Vec<_> = path.steps.iter().flat_map(|s| step(snapshot, s)).collect();
    lines.extend(end(path));
    lines
}

/// What does not end.
pub(super) fn end(path: &Path<'_>) -> Vec<String> {
    match &path.end {
        End::Runs(culprit) => vec![not_ended(culprit)],
        End::Unwritten(waits, _) => {
            let others = match waits.other_writes {
                0 => String::new(),
                n => format!(
                    " ({n} to that address carry another value, were overwritten, or stand behind the wait itself)"
                ),
            };
            vec![wait(waits), format!("nothing that was submitted to any stream will satisfy it{others}")]
        }
        End::Host(host, culprit) => vec![host_function(host, &culprit.stream)],
        End::Filled(victim, filler) => {
            let filled = match filler.operation.extent {
                Some(Extent::Grid { blocks, resident: Some(resident), .. }) => {
                    format!(" with {blocks} blocks, of which the device holds {resident} at once")
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
            let mut lines =
                vec!["what was in flight when the call was entered has ended, and each time more is submitted before the context is idle"
                    .to_owned()];
            lines.extend(streams.iter().take(MOST_NAMED).map(|stream| fed(stream)));
            let more = streams.len().saturating_sub(MOST_NAMED);
            lines.extend((more > 0).then(|| format!("{more} more streams were submitted to as well")));
            lines
        }
        End::Cycle(Some(culprit)) => vec![format!(
            "that in turn waits for {} on {}: a circle",
            operation(&culprit.operation),
            stream(&culprit.stream)
        )],
        End::Cycle(None) => vec!["that in turn waits for the first of these: a circle".to_owned()],
    }
}

/// Where the record shows a path.
pub(super) fn evidence(path: &Path<'_>) -> Vec<Evidence> {
    let at_load = |load: &ColdLoadSeen| Evidence {
        what: match load.kind {
            ColdKind::Function => "a function is loaded on first use".to_owned(),
            ColdKind::Module => "a module is loaded on first use".to_owned(),
        },
        at: load.at,
        thread: Some(load.thread),
        stream: load.stream.as_ref().map(|s| s.number),
    };
    let at_wait = |wait: &WaitSeen| Evidence {
        what: "a wait for a value is submitted".to_owned(),
        at: wait.at,
        thread: None,
        stream: Some(wait.stream.number),
    };
    let mut found: Vec<_> = path
        .steps
        .iter()
        .filter_map(|step| match step {
            Step::Barrier(load) => Some(at_load(load)),
            Step::Writer(wait, _) => Some(at_wait(wait)),
            Step::Event(wait) => Some(Evidence {
                what: "a wait for an event is submitted".to_owned(),
                at: wait.at,
                thread: None,
                stream: Some(wait.stream),
            }),
            Step::HostFunctions(_) | Step::Legacy(..) => None,
        })
        .collect();
    if let End::Host(host, _) = &path.end {
        found.push(Evidence {
            what: "a host function is called".to_owned(),
            at: host.entered,
            thread: Some(host.thread),
            stream: Some(host.stream),
        });
    }
    found.extend(path.culprit().map(|culprit| Evidence {
        what: format!("{} is submitted", operation(&culprit.operation)),
        at: culprit.operation.at,
        thread: None,
        stream: Some(culprit.stream.number),
    }));
    found
}

/// Who may still do something about it.
pub(super) fn runnable(snapshot: &Snapshot) -> Option<String> {
    let first = snapshot.runnable.first()?;
    let more = match snapshot.runnable.len() - 1 {
        0 => String::new(),
        n => format!(", and {n} more"),
    };
    Some(format!(
        "thread {} {}{more}: it may still do what is waited for",
        first.thread,
        ThreadActivity::words(first.doing)
    ))
}
