//! The chain of a verdict: a line for each fact, and the records that show them.

use super::messages::{barrier, of, operation, operations, thread, time, unseen, MOST_NAMED};
use super::operation::{Extent, FedStream, Feeder, OperationSeen, StreamRef};
use super::path::{End, Path, Peers, SharedQueue, Step};
use super::snapshot::{EventWaitSeen, HostFunctionSeen};
use super::verdict::{Culprit, ShownRecord};
use super::wait::{NewestWrite, WaitSeen};
use crate::api::{counted, ColdKind};

pub(crate) fn wait(wait: &WaitSeen) -> String {
    let holds = wait.holds.map(|value| format!("; it held {value}")).unwrap_or_default();
    let by = if wait.thread == 0 { String::new() } else { format!(" (submitted by thread {})", wait.thread) };
    let WaitSeen { stream, address, condition, value, .. } = wait;
    format!("{stream} waits since {} for memory at {address:#x} to be {condition} {value}{by}{holds}", time(wait.at))
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
    let HostFunctionSeen { address, thread, .. } = host;
    let (at, doing) = (time(host.entered), host.doing.map(|doing| format!(", and {}", doing.words())));
    let called = format!(
        "called the host function at {address:#x} at {at}; thread {thread} is in it{}",
        doing.unwrap_or_default()
    );
    match host.or_another {
        true => format!(
            "a graph has {called}; {on} may have made that call, or another stream whose graph calls the same function"
        ),
        false => format!("{on} {called}"),
    }
}

pub(crate) fn not_ended(culprit: &Culprit) -> String {
    format!("{} was submitted at {} and is not known to have ended", culprit.operation(), time(culprit.operation.at))
}

fn step(step: &Step<'_>) -> Vec<String> {
    let line = match step {
        Step::Barrier(load) => barrier(load),
        Step::Writer(waits, by) => {
            return vec![wait(waits), format!("the operation that writes there is on stream {by}, and has not run")];
        }
        Step::Event(EventWaitSeen { stream, at, event, recorded_on, recorded }) => format!(
            "stream {stream} waits since {} for event {event:#x}, recorded on stream {recorded_on} at {}",
            time(*at),
            time(*recorded)
        ),
        Step::HostFunctions(on) => {
            format!("{on} has a host function to call, and the driver calls those of a context one at a time")
        }
        Step::Pool(one, at, other) => format!(
            "{one} allocates at {} memory of a pool that was freed in the order of {other} before, so it waits for what comes before that there",
            time(*at)
        ),
        Step::Queue(shared) => shared_queue(shared),
        Step::Room(grid) => {
            let (first, on) = (operation(grid.front()), &grid.stream);
            format!("{first} on {on} starts only when the device has room for all its blocks at once")
        }
        Step::Beside(one, of, other) => {
            let why = if of.graph.is_some() { "its graph's launch before" } else { "the work of both devices" };
            format!("{} on {one} at {} waits for {why}, and so for {other}", of.call, time(of.at))
        }
        Step::Legacy(one, other) => {
            format!("{one} waits for what was submitted to {other} before, by the rule of the legacy default stream")
        }
    };
    vec![line]
}

fn shared_queue(shared: &SharedQueue<'_>) -> String {
    let queue = match shared.is_certain() {
        true => "the one hardware queue of all streams".to_owned(),
        false => format!("one of the {} hardware queues, which more streams share", shared.queues),
    };
    let (head, ahead) = (operation(shared.head), &shared.ahead.stream);
    let (first, on) = (operation(shared.held_back), &shared.waits.stream);
    format!("{head} on {ahead} waits at the head of {queue} (CUDA_DEVICE_MAX_CONNECTIONS); {first} on {on} was submitted after it")
}

pub(super) fn path(path: &Path<'_>) -> Vec<String> {
    let mut lines: Vec<_> = path.steps.iter().flat_map(step).collect();
    lines.extend(end(path));
    let graph = path.culprit().and_then(|culprit| culprit.operation.graph.as_ref());
    lines.extend(graph.map(|graph| format!("that graph has {}: {}", counted(graph.nodes, "node"), graph.holds())));
    lines.extend(path.unless.iter().map(|unless| {
        let (load, behind) = &**unless;
        format!("{}: if {} has not ended, that is a barrier as well (LG201)", barrier(load), behind.name())
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
            let nor = |before| format!("nor is {}, which comes before it on that stream", operation(before));
            lines.extend(before.as_ref().map(nor));
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
                format!("{} is ready to start and finds no room", victim.operation()),
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
        End::Failed(Some(first)) => {
            let (thread, call) = (first.thread, &first.operation.call);
            vec![format!("thread {thread} got that error first, from {call} at {}", time(first.operation.at))]
        }
        End::Failed(None) => Vec::new(),
        End::Cycle(Some(culprit)) => vec![format!("that in turn waits for {}: a cycle", culprit.operation())],
        End::Cycle(None) => vec!["that in turn waits for the first of these: a cycle".to_owned()],
    }
}

pub(super) fn evidence(path: &Path<'_>) -> Vec<ShownRecord> {
    let evidence = ShownRecord::new;
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
        Step::HostFunctions(_) | Step::Legacy(..) | Step::Beside(..) | Step::Room(_) => None,
    };
    let mut found: Vec<_> = path.steps.iter().filter_map(of_step).collect();
    if let End::Host(host, _) = &path.end {
        found.push(evidence("a host function is called", host.entered, Some(host.thread), Some(host.stream)));
    }
    found.extend(path.culprit().map(|Culprit { stream, operation: of }| {
        ShownRecord::new(format!("{} is submitted", operation(of)), of.at, None, Some(stream.number))
    }));
    found
}

fn fed(fed: &FedStream) -> String {
    let one = |feeder: &Feeder| {
        let thread = thread(feeder.thread, &feeder.thread_name);
        format!("{thread} with {}{}", feeder.call, of(feeder.function.as_ref()))
    };
    let by: Vec<_> = fed.by.iter().take(MOST_NAMED).map(one).collect();
    let more = match fed.by.len().saturating_sub(MOST_NAMED) {
        0 => String::new(),
        more => format!(" and {}", counted(more as u64, "more thread")),
    };
    format!(
        "at least {} submitted to {} since, the newest at {}, by {}{more}",
        operations(fed.operations, ["was", "were"]),
        fed.stream,
        time(fed.newest.at),
        by.join(", ")
    )
}

fn how_far(op: &OperationSeen) -> Option<String> {
    let before = op.launches?.number.saturating_sub(1);
    let have = if before == 1 { "has" } else { "have" };
    (before > 0).then(|| format!("{} of it on this stream {have} ended", counted(before, "earlier launch")))
}
