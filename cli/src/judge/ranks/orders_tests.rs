use super::*;
use crate::judge::collectives::Collectives;
use crate::judge::stood::Stood;
use crate::judge::test_samples::hanging_in;
use lazyguard_core::api::StreamKind;
use lazyguard_core::diagnose::{Code, Culprit, StreamRef};
use serde_json::json;

const REDUCE: &str = "ncclDevKernel_AllReduce_Sum_f32_RING_LL";
const GRID: &str = "dispatch";

fn stream(number: u32) -> StreamRef {
    StreamRef { number, handle: number.into(), kind: StreamKind::NonBlocking, context: 1 }
}

fn operation(at: u64, function: &str, blocks: u64) -> OperationSeen {
    let extent = json!({ "grid": { "blocks": blocks, "threads": 256, "resident": 132 } });
    serde_json::from_value(json!({ "at": at, "call": "cuLaunchKernel", "function": function, "extent": extent }))
        .unwrap()
}

fn busy(number: u32, first: OperationSeen) -> BusyStream {
    serde_json::from_value(json!({
        "stream": stream(number), "oldest": first, "operations": [first], "last_submitted": first.at, "submitted": 1,
        "outstanding": 1, "timed": 1, "all_recorded": true, "moved": 0, "answered_busy": 0, "destroyed": false,
    }))
    .unwrap()
}

/// A rank that hangs with a collective and a grid of so many blocks in flight.
fn rank(number: u64, collective_at: u64, grid_at: u64, blocks: u64) -> Process {
    let launches = vec![(collective_at, 0)];
    let collectives = Collectives { kernels: vec![REDUCE.to_owned()], launches, complete: true };
    let process = 4000 + u32::try_from(number).unwrap();
    let rank = number.to_string();
    let process = Process { rank, process, collectives: Some(collectives), is_read: true, ..Process::default() };
    let culprit = Culprit { stream: stream(1), operation: operation(collective_at, REDUCE, 24) };
    let mut process = hanging_in(process, Code::LG208, vec![culprit]);
    if let Some(Stood::Hang(report)) = &mut process.stood {
        report.snapshot.streams =
            vec![busy(1, operation(collective_at, REDUCE, 24)), busy(2, operation(grid_at, GRID, blocks))];
        report.snapshot.asked = true;
    }
    process
}

fn said(processes: &[Process]) -> String {
    super::super::compare(processes).unwrap().lines(lazyguard_core::report::Detail::Short).join("\n")
}

#[test]
fn a_collective_and_a_grid_that_fills_the_device_in_different_orders_are_named_with_both_orders() {
    let told = said(&[rank(0, 10, 20, 132), rank(1, 20, 10, 132)]);
    let sentence = format!(
        "rank 1 has launched {GRID}, which fills the device, before {REDUCE}, and rank 0 the other way round: on rank 1 the collective finds no \
         room, and on rank 0 {GRID} does not."
    );
    assert!(told.starts_with(&sentence), "{told}");
    assert!(
        told.contains("\n  rank 0 (process 4000): 1 collective\n  rank 1 (process 4001): 1 collective\n"),
        "{told}"
    );
}

#[test]
fn ranks_with_one_order_or_with_a_smaller_grid_do_not_differ() {
    for ranks in [[rank(0, 10, 20, 132), rank(1, 10, 20, 132)], [rank(0, 10, 20, 64), rank(1, 20, 10, 64)]] {
        let told = said(&ranks);
        assert!(told.starts_with("every rank that could be compared has launched the same collectives"), "{told}");
        assert!(told.contains("look at the network and the devices"), "{told}");
    }
}

/// The network is named only where the device of each rank was looked at.
#[test]
fn a_rank_whose_device_was_not_looked_at_is_named() {
    let mut ranks = [rank(0, 10, 20, 64), rank(1, 20, 10, 64)];
    if let Some(Stood::Hang(report)) = &mut ranks[1].stood {
        report.snapshot.asked = false;
    }
    let told = said(&ranks);
    assert!(told.contains("have not ended: what keeps the device of rank 1 busy is not known"), "{told}");
}
