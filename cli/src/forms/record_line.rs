//! The JSON object that `lazyguard log` prints of one record.

use crate::words::names::lane_name;
use crate::words::Took;
use lazyguard_core::api::{Class, Condition};
use lazyguard_core::diagnose::{Confidence, ThreadActivity};
use lazyguard_core::hazard::{Flags, HazardEvent};
use lazyguard_core::report::{arguments_in_words, event_of_record};
use lazyguard_core::trace::layout::flag;
use lazyguard_core::trace::read::Entry;
use lazyguard_core::trace::{Environment, Kind, Payload, Record};
use lazyguard_core::Nanos;
use serde::Serialize;
use std::fmt;

/// A record as a JSON line; what does not apply is left out.
#[derive(Default, Serialize)]
pub(super) struct Line<'a> {
    /// When the call was entered.
    pub at_ns: Nanos,
    /// Its duration; queries that share a record: from first to last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub took_ns: Option<Nanos>,
    /// A word of the list above.
    pub event: &'static str,
    /// The driver function.
    pub call: &'static str,
    /// The driver's result; 0 is success.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<i32>,
    /// The thread's id.
    pub thread: u32,
    /// The thread's number in the recording, never reused.
    pub thread_number: u32,
    /// The thread's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_name: Option<&'a str>,
    /// `work`, `waits` or `rare_events`.
    pub lane: &'static str,
    /// The record's number in its thread and lane; a gap means overwritten records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// The number of the context.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<u16>,
    /// The number of the stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<u32>,
    /// The stream's handle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handle: Option<u64>,
    /// The kernel or function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<&'a str>,
    /// The first use that loaded: `function`, or `module` for a whole module or library.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cold: Option<&'static str>,
    /// Blocks of a launch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grid: Option<[u32; 3]>,
    /// Threads of a block.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block: Option<[u16; 3]>,
    /// Dynamic shared memory of a launch that loaded nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared_bytes: Option<u64>,
    /// Queries in this record; or the occurrence of a hazard (the 1st, 2nd, 4th, 8th and so on are recorded).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// The device address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<u64>,
    /// A memory operation's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<u64>,
    /// Whether a memory operation waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<bool>,
    /// A wait's comparison.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition: Option<Condition>,
    /// For a copy or an allocation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// The event's handle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_handle: Option<u64>,
    /// The executable graph's handle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub graph: Option<u64>,
    /// The nodes of a new or updated graph.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holds: Option<String>,
    /// The handle of the module or library.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<u64>,
    /// A hazard's code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
    /// A hazard's stream in flight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_flight_on: Option<u32>,
    /// Whether the guard prevented the hazard.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub prevented: bool,
    /// A hazard's confidence, as far as the process knew then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Confidence>,
    /// A hazard's kernel in flight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<&'a str>,
    /// Kernels that the guard preloaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loaded: Option<u64>,
    /// Kernels that the driver refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<u64>,
    /// Kernels that preloading left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<u64>,
    /// The address of a host function that begins or returns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_function: Option<u64>,
    /// NCCL: the communicator's number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub communicator: Option<u32>,
    /// NCCL: the call's number among the communicator's collectives, or among its sends and receives; the first is 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u32>,
    /// NCCL: the call's arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// The guard's observation, or the driver's answer, during a blocked call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen: Option<String>,
    /// The stream was being captured.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub captured: bool,
    /// Whether an exception, a jump or a cancellation left the call.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub left: bool,
    /// The return address, as `0x...`; behind a CUDA runtime the outermost known one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller: Option<Address>,
    /// The call had not returned.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub in_progress: bool,
}

#[derive(Clone, Copy)]
pub(super) struct Address(pub u64);

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
    pub fn of(entry: &Entry) -> Self {
        let record = &entry.record;
        let class = record.entry_point.class();
        let is_call = record.kind.is_call() || record.kind == Kind::Communication;
        let returned = record.returned != 0;
        let in_progress = is_call && !returned;
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
            confidence: noted.map(|noted| noted.confidence()),
            prevented: noted.is_some_and(|noted| noted.flags.says(Flags::PREVENTED)),
            count: noted.map(|noted| u64::from(noted.count)),
            captured: record.flags & flag::CAPTURED != 0,
            left: record.flags & flag::LEFT != 0,
            caller: (record.caller != 0).then_some(Address(record.caller)),
            in_progress,
            ..Self::default()
        };
        line.take_payload(record);
        line
    }

    fn take_payload(&mut self, record: &Record) {
        let class = record.entry_point.class();
        match record.payload() {
            Payload::Launch(launch) => {
                (self.grid, self.block) = (Some(launch.grid), Some(launch.block));
                self.shared_bytes = launch.shared_bytes;
            }
            Payload::Wait(wait) => {
                (self.address, self.value, self.wait) = (Some(wait.address), Some(wait.value), Some(true));
                self.condition = Some(wait.condition());
            }
            Payload::Write(write) => {
                (self.address, self.value, self.wait) = (Some(write.address), Some(write.value), Some(false));
            }
            Payload::Memory { address, bytes, .. } => {
                let allocation =
                    matches!(class, Class::Allocate | Class::Free | Class::AllocateAsync | Class::FreeAsync);
                let moves_bytes = allocation || matches!(class, Class::Copy | Class::CopyAsync);
                self.address = Some(address).filter(|&address| allocation && address != 0);
                self.bytes = Some(bytes).filter(|&bytes| moves_bytes && bytes != 0);
            }
            Payload::Queries { count, .. } => self.count = Some(count),
            Payload::Preload(preload) => {
                self.loaded = Some(preload.loaded);
                (self.refused, self.left_out) = (Some(preload.refused), Some(preload.left_out));
            }
            Payload::Graph(graph) => self.graph = Some(graph),
            Payload::HostCall { function, .. } => self.host_function = Some(function),
            Payload::Communication(about) => {
                self.communicator = Some(about.communicator).filter(|&number| number != 0);
                self.sequence = Some(about.number).filter(|&number| number != 0);
                let has_arguments = matches!(class, Class::Collective | Class::PointToPoint);
                self.about = has_arguments.then(|| arguments_in_words(record.entry_point, &about));
            }
            _ => self.seen = seen(record),
        }
    }
}

/// Says what the guard saw, or the driver answered, at a hang.
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
            let alone = if time.alone { ", without a page fault or a child" } else { "" };
            format!("thread {thread} computed for {} % of {}{alone}", time.percent(), Took(time.within_nanos))
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
