use crate::judge::process::Process;
use crate::judge::ranks::compare;
use crate::judge::shared::{Shared, Written};
use crate::judge::stood::Stood;
use crate::judge::test_samples::hanging_in;
use lazyguard_core::api::{Condition, SharedMemory, StreamKind, ValueWrite};
use lazyguard_core::diagnose::{BusyStream, Code, StreamRef, WaitSeen, WriteSeen};
use lazyguard_core::report::DumpReport;
use serde_json::json;

const RING: u64 = 77;

/// A place of the ring, which each rank has at another address.
fn address(rank: u64, place: u64) -> u64 {
    0x10_0000 * (rank + 1) + place
}

fn stream(number: u32) -> StreamRef {
    StreamRef { number, handle: number.into(), kind: StreamKind::NonBlocking, context: 1 }
}

fn wait(rank: u64, on: u32, place: u64, at: u64) -> WaitSeen {
    WaitSeen {
        stream: stream(on),
        at,
        address: address(rank, place),
        value: 5,
        condition: Condition::AtLeast,
        wide: false,
        satisfying_writes: Vec::new(),
        other_writes: 0,
        thread: 1,
        newest_write: None,
        fills: Vec::new(),
        holds: None,
        own: false,
        satisfied: false,
        overtaken: false,
    }
}

fn write(on: u32, place: u64, value: u64, at: u64) -> Written {
    let write = ValueWrite { at, address: place, value, stream: on, wide: false };
    Written { at, stream: on, place: (RING, place), bytes: 4, value: Some(write) }
}

fn busy(on: u32, since: u64) -> BusyStream {
    let operation = json!({ "at": since, "call": "cuLaunchKernel", "function": "spin" });
    serde_json::from_value(json!({
        "stream": stream(on), "oldest": operation, "operations": [operation], "last_submitted": 99, "submitted": 2,
        "outstanding": 2, "timed": 2, "all_recorded": true, "moved": 0, "answered_busy": 0, "destroyed": false,
    }))
    .unwrap()
}

/// A rank with the ring, which hangs in these waits; its streams are busy since 10.
fn rank(number: u64, waits: Vec<WaitSeen>, writes: &[Written]) -> Process {
    let memory = vec![SharedMemory { address: address(number, 0), bytes: 0x1000, identity: RING, offset: 0 }];
    let shared = Some(Shared { memory, writes: writes.iter().copied().collect() });
    let process = 4000 + u32::try_from(number).unwrap();
    let process = Process { rank: number.to_string(), process, shared, is_read: true, ..Process::default() };
    let mut process = hanging_in(process, Code::LG203, Vec::new());
    if let Some(Stood::Hang(report)) = &mut process.stood {
        report.snapshot.waits = waits;
        report.snapshot.streams = vec![busy(1, 10), busy(2, 10)];
        report.snapshot.blocked.clear();
    }
    process
}

/// The same of a rank that was asked, and does not hang.
fn asked(mut process: Process) -> Process {
    if let Some(Stood::Hang(hang)) = process.stood.take() {
        process.dump = Some(DumpReport::new(1, 1, (0, 0), hang));
    }
    process
}

fn sentence(processes: &[Process]) -> String {
    compare(processes).map(|ranks| ranks.sentence).unwrap_or_default()
}

#[test]
fn waits_behind_which_each_rank_writes_for_the_next_are_a_cycle_from_the_lowest_rank() {
    let of =
        |number: u64| rank(number, vec![wait(number, 1, number * 8, 20)], &[write(1, (number + 1) % 3 * 8, 5, 30)]);
    let ranks = [of(2), of(0), of(1)];
    let each = [(0, 2), (2, 1), (1, 0)].map(|(waits, writes)| {
        format!("rank {waits}'s stream 1 waits for a value that rank {writes}'s stream 1 writes behind its own wait")
    });
    let told = compare(&ranks).unwrap();
    assert_eq!(
        told.sentence,
        format!(
            "ranks wait for each other: {}. Submit each write before the wait, or on another stream.",
            each.join("; ")
        )
    );
    assert_eq!(told.different.iter().map(|odd| odd.rank).collect::<Vec<_>>(), [0, 1, 2]);
    let lines = told.lines(lazyguard_core::report::Detail::Short).join("\n");
    assert!(lines.contains("\n  rank 1 (process 4001): is blocked: LG203: it waits\n"), "{lines}");
}

#[test]
fn a_write_on_another_stream_or_before_the_wait_makes_no_cycle() {
    let waits = || rank(0, vec![wait(0, 1, 0, 20)], &[]);
    let other = |on, at| rank(1, vec![wait(1, 1, 8, 20)], &[write(on, 0, 5, at)]);
    for writes in [other(2, 30), other(1, 15)] {
        let told = sentence(&[waits(), writes]);
        assert!(told.starts_with("rank 1 writes the value that rank 0's stream 1 waits for in memory that both have behind spin on its stream"), "{told}");
    }
}

#[test]
fn a_value_that_does_not_end_the_wait_a_write_that_has_ended_and_another_word_are_no_write() {
    let waits = || rank(0, vec![wait(0, 1, 0, 20)], &[]);
    let expect =
        "rank 1 has not submitted a write of the value that rank 0's stream 1 waits for in memory that both have, \
                  and is blocked: LG203: it waits.";
    for others in [&[][..], &[write(1, 0, 4, 30)], &[write(1, 0, 5, 9)], &[write(1, 4, 5, 30)]] {
        assert_eq!(sentence(&[waits(), rank(1, Vec::new(), others)]), expect, "{others:?}");
    }
    // A copy or a fill may write anything.
    let copy = Written { bytes: 64, value: None, ..write(2, 0, 0, 30) };
    assert!(sentence(&[waits(), rank(1, Vec::new(), &[copy])]).contains(" behind spin on its stream 2"));
}

#[test]
fn a_rank_that_was_only_asked_is_part_of_a_cycle() {
    let of = |number: u64| rank(number, vec![wait(number, 1, number * 8, 20)], &[write(1, (1 - number) * 8, 5, 30)]);
    assert!(sentence(&[asked(of(0)), of(1)]).starts_with("ranks wait for each other: rank 0's stream 1"));
    assert_eq!(sentence(&[asked(of(0)), asked(of(1))]), "", "none hangs");
}

#[test]
fn what_another_machine_has_under_the_same_number_is_other_memory() {
    let waits = rank(0, vec![wait(0, 1, 0, 20)], &[]);
    let elsewhere = Process { host: "elsewhere".to_owned(), ..rank(1, Vec::new(), &[]) };
    assert_eq!(sentence(&[waits, elsewhere]), "");
}

#[test]
fn a_wait_that_the_rank_may_end_itself_or_that_has_ended_is_no_others() {
    let written = WriteSeen { stream: 2, at: 30, value: 5, outstanding: true };
    for own in [
        WaitSeen { satisfied: true, ..wait(0, 1, 0, 20) },
        WaitSeen { satisfying_writes: vec![written.clone()], ..wait(0, 1, 0, 20) },
        WaitSeen { fills: vec![written], ..wait(0, 1, 0, 20) },
        wait(0, 1, 0x2000, 20),
    ] {
        assert_eq!(sentence(&[rank(0, vec![own], &[]), rank(1, Vec::new(), &[])]), "");
    }
    // A stream stands at its first wait.
    let two = vec![WaitSeen { fills: vec![], ..wait(0, 1, 0x2000, 20) }, wait(0, 1, 0, 25)];
    assert_eq!(sentence(&[rank(0, two, &[]), rank(1, Vec::new(), &[])]), "");
}
