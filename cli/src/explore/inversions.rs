//! Orders of collectives that a passing run leaves to its timing: two threads of a rank call operations of two communicators, and a stream or an
//! event puts these into an order. If another rank has the other order, each of the two waits for the other.
//!
//! The recordings of the run say who called what, on which streams, and which events order these.
//!
//! Must not: name operations of one thread, which are in that thread's order.

use super::draw::hold;
use super::schedule::{Hold, Point, Points};
use crate::folder::source::{Opened, Run};
use crate::words::Failure;
use lazyguard_core::api::Class;
use lazyguard_core::trace::{Kind, Payload};
use lazyguard_core::Nanos;
use std::collections::{BTreeMap, BTreeSet};

/// An order that another timing inverts.
pub(super) struct Inversion {
    /// A key like that of a hazard.
    pub key: String,
    pub hold: Hold,
}

impl Inversion {
    /// Whether a schedule has this rank's two threads in the other order.
    pub fn is_in(&self, holds: &[Hold]) -> bool {
        let until = |hold: &Hold| hold.until.as_ref().map(|call| call.thread().to_owned());
        let is_it = |hold: &Hold| hold.call.thread() == self.hold.call.thread() && until(hold) == until(&self.hold);
        holds.iter().any(is_it)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Operation {
    at: Nanos,
    thread: u32,
    function: &'static str,
    /// The same in all ranks.
    communicator: u64,
    stream: u32,
}

#[derive(Default)]
struct Seen {
    operations: Vec<Operation>,
    /// Streams of which one waits for an event of the other.
    ordered: BTreeSet<(u32, u32)>,
}

pub(super) fn inversions(ranks: &[Points], budget: Nanos) -> Vec<Inversion> {
    let seen: Vec<_> = ranks.iter().map(|points| (points, see(points).unwrap_or_default())).collect();
    let has_both = |seen: &Seen, pair: [&Operation; 2]| {
        pair.iter().all(|one| seen.operations.iter().any(|of| of.communicator == one.communicator))
    };
    let mut found = BTreeMap::new();
    for (points, of_rank) in &seen {
        for pair in pairs(of_rank) {
            let [first, second] = pair.map(|operation| call(points, operation));
            let others = seen.iter().filter(|(_, other)| has_both(other, pair)).count();
            if let (Some(first), Some(second), 2..) = (first, second, others) {
                let key = format!("order|-|{}|{}", pair[0].function, pair[1].function);
                let hold = hold(points, first, Some(second), budget);
                found.entry(key.clone()).or_insert(Inversion { key, hold });
            }
        }
    }
    found.into_values().collect()
}

fn see(points: &Points) -> Option<Seen> {
    let opened = Run::find_quietly(&points.folder).and_then(|run| run.open()).ok()??;
    let (mut seen, mut recorded) = (Seen::default(), BTreeMap::new());
    let read: Result<(), Failure> = opened.each_in_order(|entry| {
        let record = &entry.record;
        match (record.entry_point.class(), record.payload()) {
            (Class::Collective | Class::PointToPoint, Payload::Communication(about))
                if record.kind == Kind::Communication && about.number != 0 =>
            {
                let (function, at, stream) = (record.entry_point.info().base(), record.entered, record.stream);
                let communicator = id_of(&opened, about.communicator);
                seen.operations.push(Operation { at, thread: entry.thread, function, communicator, stream });
            }
            (Class::EventRecord, Payload::Event(event)) => drop(recorded.insert(event, record.stream)),
            (Class::StreamWaitEvent, Payload::Event(event)) => {
                seen.ordered.extend(recorded.get(&event).map(|on| (*on, record.stream)));
            }
            _ => {}
        }
        Ok(())
    });
    read.ok().map(|()| seen)
}

fn id_of(opened: &Opened, number: u32) -> u64 {
    opened.recording.communicators().iter().find(|one| one.number == number).map_or(0, |one| one.id)
}

/// Each operation with the next one of another thread and communicator that comes behind it on the device.
fn pairs(seen: &Seen) -> Vec<[&Operation; 2]> {
    let is_behind = |first: &Operation, second: &Operation| {
        first.stream == second.stream || seen.ordered.contains(&(first.stream, second.stream))
    };
    let next = |(at, first): (usize, &'_ Operation)| {
        let rest = seen.operations.get(at + 1..).unwrap_or_default();
        rest.iter().position(|second| {
            second.thread != first.thread && second.communicator != first.communicator && is_behind(first, second)
        })
    };
    let all = seen.operations.iter().enumerate();
    all.filter_map(|(at, first)| Some([first, &seen.operations[at + 1 + next((at, first))?]])).collect()
}

fn call<'p>(points: &'p Points, operation: &Operation) -> Option<&'p Point> {
    let is_before = |point: &&Point| point.thread == operation.thread && point.at <= operation.at;
    points.calls.iter().rfind(is_before).filter(|point| point.call.function() == operation.function)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(at: Nanos, thread: u32, communicator: u64, stream: u32) -> Operation {
        Operation { at, thread, function: "ncclAllReduce", communicator, stream }
    }

    #[test]
    fn two_threads_two_communicators_and_one_order_on_the_device_make_a_pair() {
        let pairs_of = |second: Operation, ordered: &[(u32, u32)]| {
            let operations = vec![operation(1, 1, 7, 3), second];
            pairs(&Seen { operations, ordered: ordered.iter().copied().collect() }).len()
        };
        assert_eq!(pairs_of(operation(2, 2, 8, 3), &[]), 1);
        assert_eq!(pairs_of(operation(2, 2, 8, 4), &[(3, 4)]), 1, "an event");
        assert_eq!(pairs_of(operation(2, 2, 8, 4), &[(4, 3)]), 0, "an event in the other direction");
        assert_eq!(pairs_of(operation(2, 2, 8, 4), &[]), 0, "streams of their own");
        assert_eq!(pairs_of(operation(2, 1, 8, 3), &[]), 0, "one thread");
        assert_eq!(pairs_of(operation(2, 2, 7, 3), &[]), 0, "one communicator");
    }
}
