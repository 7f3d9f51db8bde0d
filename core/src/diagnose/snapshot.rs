//! What stood still, as plain data.

use crate::api::Form;
use crate::state::{ColdKind, Operation, ValueWait, ValueWrite, World};
use crate::Nanos;
use serde::{Deserialize, Serialize};

/// A stream, as a report names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamRef {
    /// The number that ties the parts of a report together.
    pub number: u32,
    /// The program's handle.
    pub handle: u64,
    /// What kind it is: `blocking`, `non-blocking`, `legacy default`, `per-thread default` or `unknown`.
    pub kind: String,
    /// The context's handle.
    pub context: u64,
}

/// An operation that was submitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationSeen {
    /// When the submitting call was entered.
    pub at: Nanos,
    /// The submitting driver call.
    pub call: String,
    /// The kernel, where it is one and its name is known.
    pub function: Option<String>,
}

/// A driver call that has not returned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockedCall {
    /// The thread's id.
    pub thread: u32,
    /// The thread's name.
    pub thread_name: String,
    /// The driver call.
    pub call: String,
    /// When it was entered.
    pub entered: Nanos,
    /// For how long it has been blocked.
    pub blocked_nanos: Nanos,
    /// Whether that is past the threshold.
    pub past_threshold: bool,
    /// The context's handle, or 0.
    pub context: u64,
    /// The stream it is about.
    pub stream: Option<StreamRef>,
    /// The kernel it is about.
    pub function: Option<String>,
    /// Whether the call loads on first use, and what.
    pub cold: Option<ColdKind>,
}

/// A stream with work that is not known to be complete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BusyStream {
    /// Which.
    pub stream: StreamRef,
    /// The oldest operation that is not known to be complete.
    pub oldest: OperationSeen,
    /// When the newest submission returned.
    pub last_submitted: Nanos,
    /// Operations submitted since the stream was first seen.
    pub submitted: u64,
}

/// A wait for a value that is not known to be satisfied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitSeen {
    /// The waiting stream.
    pub stream: StreamRef,
    /// When it was submitted.
    pub at: Nanos,
    /// The device address.
    pub address: u64,
    /// The value.
    pub value: u64,
    /// The comparison, as the driver's documentation writes it.
    pub condition: String,
    /// Submitted writes that would satisfy it.
    pub satisfying_writes: Vec<WriteSeen>,
    /// How many writes to the address were submitted that would not.
    pub other_writes: usize,
}

/// A write of a value by a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteSeen {
    /// The writing stream's number.
    pub stream: u32,
    /// When it was submitted.
    pub at: Nanos,
    /// The value.
    pub value: u64,
}

/// A load on first use, with what was in flight then and still is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColdLoadSeen {
    /// When the call that loads was entered.
    pub at: Nanos,
    /// The call.
    pub call: String,
    /// Which of the two loads.
    pub kind: ColdKind,
    /// The context's handle.
    pub context: u64,
    /// The kernel, where its name is known.
    pub function: Option<String>,
    /// The stream the call submitted to.
    pub stream: Option<StreamRef>,
    /// The calling thread.
    pub thread: u32,
    /// What was in flight at the load and is not known to have ended since.
    pub behind: Vec<BusyStream>,
}

/// Everything a diagnosis needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// When it was taken.
    pub at: Nanos,
    /// The threshold after which a call counts as blocked.
    pub threshold_nanos: Nanos,
    /// Calls that have not returned, the longest blocked first.
    pub blocked: Vec<BlockedCall>,
    /// Streams with work outstanding, oldest first.
    pub streams: Vec<BusyStream>,
    /// Unsatisfied waits, oldest first.
    pub waits: Vec<WaitSeen>,
    /// Loads on first use behind something that still has not ended, oldest first.
    pub loads: Vec<ColdLoadSeen>,
}

impl Snapshot {
    /// Takes a snapshot of live state. Calls the driver never and waits for nobody; `thread_name` is asked for the name of
    /// each thread that is in a call.
    pub fn take(world: &World, now: Nanos, threshold: Nanos, thread_name: &dyn Fn(u32) -> String) -> Self {
        let view = View { world };
        let streams: Vec<_> =
            world.in_flight(0).into_iter().filter_map(|f| view.busy_stream(f.stream, f.oldest)).collect();
        let mut blocked: Vec<_> = world
            .threads()
            .filter_map(|(_, slot)| slot.published())
            .map(|call| {
                let blocked_nanos = now.saturating_sub(call.entered);
                BlockedCall {
                    thread: call.thread,
                    thread_name: thread_name(call.thread),
                    call: call.form.symbol().to_owned(),
                    entered: call.entered,
                    blocked_nanos,
                    past_threshold: threshold != 0 && blocked_nanos >= threshold,
                    context: view.context_handle(call.context),
                    stream: view.stream_ref(call.stream),
                    function: view.function_name(call.function),
                    cold: match call.cold {
                        0 => None,
                        1 => Some(ColdKind::Function),
                        _ => Some(ColdKind::Module),
                    },
                }
            })
            .collect();
        blocked.sort_by_key(|call| call.entered);
        Self { at: now, threshold_nanos: threshold, blocked, waits: view.waits(), loads: view.loads(), streams }
    }

    /// The class of a call of the snapshot, if this build knows it.
    pub(super) fn form(call: &str) -> Option<Form> {
        Form::by_symbol(call.as_bytes())
    }
}

/// A wait, with the submitted writes that would satisfy it; `outstanding` says of a write that it is not known to have been
/// carried out.
pub(super) fn wait_seen(
    stream: StreamRef,
    wait: &ValueWait,
    writes: &[ValueWrite],
    outstanding: &dyn Fn(&ValueWrite) -> bool,
) -> WaitSeen {
    let to_address = || writes.iter().filter(|w| w.address == wait.address);
    let newest = to_address().map(|w| w.at).max();
    // A write that has been carried out counts only while no other has come after it; one behind the wait on the wait's own
    // stream never is.
    let counts = |w: &&ValueWrite| {
        let behind_itself = w.stream == stream.number && w.at > wait.at;
        !behind_itself && (outstanding(w) || Some(w.at) == newest)
    };
    let satisfying_writes: Vec<_> = to_address()
        .filter(counts)
        .filter(|w| wait.satisfied_by(w.value))
        .map(|w| WriteSeen { stream: w.stream, at: w.at, value: w.value })
        .collect();
    WaitSeen {
        at: wait.at,
        address: wait.address,
        value: wait.value,
        condition: wait.condition().to_owned(),
        other_writes: to_address().count() - satisfying_writes.len(),
        satisfying_writes,
        stream,
    }
}

/// Live state, seen through numbers.
struct View<'a> {
    world: &'a World,
}

impl View<'_> {
    fn context_handle(&self, number: u32) -> u64 {
        self.world.context_entry(number).map_or(0, |c| c.handle())
    }

    fn function_name(&self, number: u32) -> Option<String> {
        let function = self.world.function_entry(number)?;
        Some(match self.world.function_name(number) {
            Some(name) => name.to_owned(),
            None => format!("function {:#x}", function.handle()),
        })
    }

    fn stream_ref(&self, number: u32) -> Option<StreamRef> {
        let stream = self.world.stream_entry(number)?;
        let context = self.context_handle(stream.context());
        Some(StreamRef { number, handle: stream.handle(), kind: stream.kind().name().to_owned(), context })
    }

    fn operation(&self, op: Operation) -> OperationSeen {
        let call = Form::by_id(op.form).map_or("?", Form::symbol).to_owned();
        OperationSeen { at: op.at, call, function: self.function_name(op.function) }
    }

    fn busy_stream(&self, number: u32, oldest: Operation) -> Option<BusyStream> {
        let entry = self.world.stream_entry(number)?;
        Some(BusyStream {
            stream: self.stream_ref(number)?,
            oldest: self.operation(oldest),
            last_submitted: entry.last_submitted(),
            submitted: entry.submitted_count(),
        })
    }

    fn waits(&self) -> Vec<WaitSeen> {
        let writes = self.world.value_writes();
        let mut waits = Vec::new();
        for (number, stream) in self.world.streams() {
            for wait in stream.unsatisfied(self.world.stream_idle_until(stream)) {
                let Some(stream) = self.stream_ref(number) else { continue };
                let outstanding = |w: &ValueWrite| {
                    self.world.stream_entry(w.stream).is_some_and(|s| {
                        s.oldest(self.world.stream_idle_until(s)).is_some_and(|oldest| oldest.at <= w.at)
                    })
                };
                waits.push(wait_seen(stream, &wait, &writes, &outstanding));
            }
        }
        waits.sort_by_key(|w| w.at);
        waits
    }

    fn loads(&self) -> Vec<ColdLoadSeen> {
        let now_in_flight = self.world.in_flight(0);
        let still =
            |number: u32, op: Operation| now_in_flight.iter().any(|f| f.stream == number && f.oldest.at <= op.at);
        self.world
            .cold_loads()
            .into_iter()
            .filter_map(|load| {
                let behind: Vec<_> = load
                    .in_flight
                    .iter()
                    .filter(|f| still(f.stream, f.oldest))
                    .filter_map(|f| self.busy_stream(f.stream, f.oldest))
                    .collect();
                (!behind.is_empty()).then(|| ColdLoadSeen {
                    at: load.at,
                    call: load.form.symbol().to_owned(),
                    kind: load.kind,
                    context: self.context_handle(load.context),
                    function: self.function_name(load.function),
                    stream: self.stream_ref(load.stream),
                    thread: load.thread,
                    behind,
                })
            })
            .collect()
    }
}
