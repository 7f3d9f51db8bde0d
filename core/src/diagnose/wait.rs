//! Waits for values in memory, and the writes that may satisfy them.

use super::operation::StreamRef;
use crate::api::{Call, Condition, EntryPoint, Stores, ValueWait, ValueWrite};
use crate::Nanos;
use serde::{Deserialize, Serialize};

/// A wait for a value that no operation has satisfied.
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
    /// The comparison.
    pub condition: Condition,
    /// Whether it compares 64 bits, not 32.
    pub wide: bool,
    /// Submitted writes that satisfy it.
    pub satisfying_writes: Vec<WriteSeen>,
    /// Submitted writes to the address that do not.
    pub other_writes: usize,
    /// The submitting thread, or 0.
    pub thread: u32,
    /// The newest operation that writes there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newest_write: Option<NewestWrite>,
    /// Outstanding copies and memsets that write something unknown there.
    pub fills: Vec<WriteSeen>,
    /// The memory's value, where readable.
    pub holds: Option<u64>,
    /// Whether no other process has that memory.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub own: bool,
    /// Whether that value ends the wait.
    pub satisfied: bool,
    /// Whether a write that ends it ran since, and was overwritten.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overtaken: bool,
}

impl WaitSeen {
    /// Whether an executed write, one before the wait on its stream, or a value seen in memory has ended it, even if the guard has seen no completion.
    pub fn is_over(&self) -> bool {
        let has_run = |write: &WriteSeen| !write.outstanding || write.stream == self.stream.number;
        let mut writes = self.satisfying_writes.iter().chain(&self.fills);
        self.satisfied || writes.any(has_run) && self.holds.is_none()
    }
}

#[derive(Clone, Copy)]
pub(super) struct Submitter {
    pub entry_point: EntryPoint,
    pub thread: u32,
}

/// The newest write to a wait's memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewestWrite {
    /// The writing stream's number.
    pub stream: u32,
    /// When it was submitted.
    pub at: Nanos,
    /// The submitting call.
    pub call: Call,
    /// The thread that made it.
    pub thread: u32,
    /// Null for a copy or partial write.
    pub value: Option<u64>,
}

/// A stream's write of a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteSeen {
    /// The writing stream's number.
    pub stream: u32,
    /// When it was submitted.
    pub at: Nanos,
    /// 0 where it is not known.
    pub value: u64,
    /// Whether it may be pending.
    pub outstanding: bool,
}

const MOST_WRITES: usize = 16;

/// `writes` are those near the wait's address, `outstanding` says that one may be pending, `holds` is the memory's content.
pub(super) fn wait_seen(
    stream: StreamRef,
    wait: &ValueWait,
    writes: &[(ValueWrite, Submitter)],
    outstanding: &dyn Fn(&ValueWrite) -> bool,
    holds: Option<u64>,
) -> WaitSeen {
    let all = || writes.iter().filter(|(w, _)| w.stores_for(wait) != Stores::Nothing);
    let to_address = || all().map(|(write, _)| write);
    // A write behind the wait on the wait's own stream is never completed. The memory has the newest of the completed ones.
    let behind_itself = |w: &ValueWrite| w.stream == stream.number && w.at > wait.at;
    let completed = to_address().filter(|w| !behind_itself(w) && !outstanding(w));
    let newest = completed.map(|w| w.at).max();
    let counts = |w: &&ValueWrite| !behind_itself(w) && (outstanding(w) || Some(w.at) == newest);
    let seen =
        |w: &ValueWrite, value: u64| WriteSeen { stream: w.stream, at: w.at, value, outstanding: outstanding(w) };
    let satisfying = |w: &ValueWrite| match w.stores_for(wait) {
        Stores::All(value) if wait.satisfied_by(value) => Some(seen(w, value)),
        _ => None,
    };
    let is_overtaken = |w: &ValueWrite| w.at > wait.at && Some(w.at) < newest && !behind_itself(w) && !outstanding(w);
    // A write of half the compared bytes may be the missing half.
    let half = |w: &ValueWrite| (w.stores_for(wait) == Stores::Half && outstanding(w)).then(|| seen(w, 0));
    let satisfying_writes: Vec<_> = to_address().filter(counts).filter_map(satisfying).take(MOST_WRITES).collect();
    let others = to_address().filter(|w| satisfying(w).is_none() || !counts(w)).count();
    WaitSeen {
        at: wait.at,
        address: wait.address,
        value: wait.value,
        condition: wait.condition(),
        wide: wait.wide,
        other_writes: others,
        thread: 0,
        newest_write: all().max_by_key(|(w, _)| w.at).map(|(w, by)| NewestWrite {
            stream: w.stream,
            at: w.at,
            call: by.entry_point.into(),
            thread: by.thread,
            value: match w.stores_for(wait) {
                Stores::All(value) => Some(value),
                _ => None,
            },
        }),
        satisfying_writes,
        fills: to_address().filter(counts).filter_map(half).take(MOST_WRITES).collect(),
        holds,
        own: false,
        satisfied: holds.is_some_and(|value| wait.satisfied_by(value)),
        overtaken: to_address().any(|w| is_overtaken(w) && satisfying(w).is_some()),
        stream,
    }
}
