use crate::judge::collectives::Collectives;
use crate::judge::communications::{Called, Communications, Meeting, Member, Peer};
use crate::judge::process::Process;
use crate::judge::ranks::compare;
use crate::judge::stood::{Course, Stood};
use crate::judge::test_samples::hanging_in;
use lazyguard_core::api::{EntryPoint, StreamKind};
use lazyguard_core::diagnose::{Code, Culprit, LateSeen, OperationSeen, StreamRef};
use lazyguard_core::report::DumpReport;
use lazyguard_core::trace::Communication;
use serde_json::json;

const WORLD: u64 = 0x77;
const HALF: u64 = 0x88;

fn call(symbol: &str, number: u32, count: u64) -> Called {
    let entry_point = EntryPoint::by_symbol(symbol.as_bytes()).unwrap();
    let about = Communication { communicator: 1, number, count, data_type: 7, operator: None, root: None };
    Called { at: u64::from(number) * 10, stream: 1, entry_point, about }
}

/// A member of a communicator that has called so many all-gathers.
fn member(id: u64, rank: u32, size: u32, collectives: u32) -> Member {
    Member {
        id,
        rank: Some((rank, size)),
        born: id,
        collectives: collectives.into(),
        calls: (1..=collectives).map(|number| call("ncclAllGather", number, 1024)).collect(),
        ..Member::default()
    }
}

fn rank(number: u64, members: Vec<Member>) -> Process {
    let process = 4000 + u32::try_from(number).unwrap();
    let communications = Some(Communications { members, meeting: None, complete: true });
    Process { rank: number.to_string(), process, communications, is_read: true, ..Process::default() }
}

/// The same, with a hang of this code.
fn hangs(process: Process, code: Code) -> Process {
    hanging_in(process, code, Vec::new())
}

fn waits(process: Process) -> Process {
    hangs(process, Code::LG208)
}

fn sentence(processes: &[Process]) -> String {
    compare(processes).unwrap().sentence
}

#[test]
fn the_rank_that_has_called_fewer_is_behind_and_ranks_in_the_same_state_are_one_line() {
    let of = |number: u64, collectives| rank(number, vec![member(WORLD, number as u32, 8, collectives)]);
    let ranks: Vec<_> = (0..8).map(|number| if number == 1 { of(1, 13) } else { waits(of(number, 20)) }).collect();
    assert_eq!(
        sentence(&ranks),
        "rank 1 has not called collective 14 of communicator 0 (AllGather of 1,024 float32); ranks 0, 2-7 wait in it."
    );
    let lines = compare(&ranks).unwrap().lines(lazyguard_core::report::Detail::Short).join("\n");
    assert!(
        lines.contains("\n  rank 1 (process 4001): 13 collectives\n  ranks 0, 2-7: 20 collectives called\n"),
        "{lines}"
    );
}

#[test]
fn an_attempt_that_hung_is_told_beside_the_one_that_completed() {
    let of = |number: u64, collectives, at| Process {
        armed_unix_nanos: at + number,
        ..rank(number, vec![member(WORLD + at, number as u32, 2, collectives)])
    };
    let first = || [waits(of(0, 14, 100)), of(1, 13, 100)];
    let told = |second: [Process; 2]| sentence(&first().into_iter().chain(second).collect::<Vec<_>>());
    let of_first = told([of(0, 20, 500), of(1, 20, 500)]);
    assert!(of_first.starts_with("rank 1 has not called collective 14 of communicator 0"), "{of_first}");
    let of_second = told([of(0, 6, 500), waits(of(1, 7, 500))]);
    assert!(of_second.starts_with("rank 0 has not called collective 7 of communicator 0"), "{of_second}");
    assert!(compare(&[of(0, 20, 500), of(1, 20, 500)]).is_none());
}

#[test]
fn a_count_is_enough_where_the_records_are_gone() {
    let mut ahead = member(WORLD, 0, 2, 5000);
    ahead.calls.clear();
    let ranks = [waits(rank(0, vec![ahead])), rank(1, vec![member(WORLD, 1, 2, 7)])];
    assert_eq!(sentence(&ranks), "rank 1 has not called collective 8 of communicator 0; rank 0 waits in it.");
}

/// Rank 3 keeps rank 2 waiting in their own communicator, and rank 2 so keeps all others waiting.
#[test]
fn waits_are_followed_to_the_rank_that_waits_for_none() {
    let ranks = [
        waits(rank(0, vec![member(WORLD, 0, 4, 3)])),
        waits(rank(1, vec![member(WORLD, 1, 4, 3)])),
        waits(rank(2, vec![member(WORLD, 2, 4, 2), member(HALF, 0, 2, 1)])),
        rank(3, vec![member(WORLD, 3, 4, 2), member(HALF, 1, 2, 0)]),
    ];
    let told = sentence(&ranks);
    assert!(
        told.starts_with("rank 3 has not called collective 1 of communicator 1 (AllGather of 1,024 float32)"),
        "{told}"
    );
}

#[test]
fn of_three_the_one_that_differs_is_named_and_of_two_both() {
    let of = |number: u64| rank(number, vec![member(WORLD, number as u32, 3, 2)]);
    let mut odd = of(0);
    odd.communications.as_mut().unwrap().members[0].calls[1] = call("ncclAllGather", 2, 512);
    let ranks = [waits(odd), waits(of(1)), waits(of(2))];
    assert_eq!(
        sentence(&ranks),
        "rank 0 has called AllGather of 512 float32 as collective 2 of communicator 0, which is AllGather of 1,024 float32; \
         ranks 1-2 wait in it."
    );
    assert_eq!(
        sentence(&ranks[..2]),
        "as collective 2 of communicator 0, rank 0 called AllGather of 512 float32, and rank 1 AllGather of 1,024 float32."
    );
}

#[test]
fn two_names_of_one_call_do_not_differ() {
    let of = |number: u64, symbol| {
        let mut one = member(WORLD, number as u32, 2, 1);
        one.calls = [call(symbol, 1, 8)].into();
        waits(rank(number, vec![one]))
    };
    let told = sentence(&[of(0, "ncclBcast"), of(1, "ncclBroadcast")]);
    assert!(told.starts_with("every rank that could be compared has made the same calls of NCCL"), "{told}");
}

#[test]
fn a_send_without_its_receive_is_told_unless_records_are_gone() {
    let of = |number: u64, peer: u16, sends: bool, count: u64| {
        let symbol = if sends { "ncclSend" } else { "ncclRecv" };
        let exchanges = [(Peer { rank: peer, sends }, (count, call(symbol, 1, 64)))].into();
        rank(number, vec![Member { exchanges, ..member(WORLD, number as u32, 2, 0) }])
    };
    let mut ranks = [waits(of(0, 1, true, 3)), of(1, 0, false, 2)];
    assert_eq!(
        sentence(&ranks),
        "rank 1 has not called the 3rd ncclRecv from rank 0 on communicator 0; rank 0 waits in its ncclSend."
    );
    let mut unequal = [waits(of(0, 1, true, 2)), waits(of(1, 0, false, 2))];
    for (_, newest) in unequal[1].communications.as_mut().unwrap().members[0].exchanges.values_mut() {
        newest.about.count = 32;
    }
    assert_eq!(
        sentence(&unequal),
        "in their 2nd exchange on communicator 0, rank 0 sends 64 float32, and rank 1 receives 32 float32."
    );
    ranks[1].communications.as_mut().unwrap().complete = false;
    assert!(sentence(&ranks).starts_with("every rank that could be compared"), "{}", sentence(&ranks));
}

/// Each rank sends to the next and receives from the one before, and its kernels come at these times.
fn exchange_in_a_ring(ranks: u64, kernels: &[u64], receives_first: bool) -> Vec<Process> {
    let of = |number: u64| {
        let (next, before) = ((number + 1) % ranks, (number + ranks - 1) % ranks);
        let exchange = |sends: bool, peer: u64| {
            let symbol = if sends { "ncclSend" } else { "ncclRecv" };
            let number = if sends == receives_first { 2 } else { 1 };
            (Peer { rank: peer as u16, sends }, (3, call(symbol, number, 64)))
        };
        let exchanges = [exchange(true, next), exchange(false, before)].into();
        let process = rank(number, vec![Member { exchanges, ..member(WORLD, number as u32, ranks as u32, 0) }]);
        let launched = |at: &u64| json!({ "at": at, "call": "cuLaunchKernelEx", "function": "ncclDevKernel_SendRecv" });
        let operations: Vec<_> = kernels.iter().map(launched).collect();
        let stream = StreamRef { number: 1, handle: 1, kind: StreamKind::NonBlocking, context: 1 };
        let busy = json!({
            "stream": stream, "oldest": operations[0], "operations": operations, "last_submitted": 99, "submitted": 2,
            "outstanding": 2, "timed": 2, "all_recorded": true, "moved": 0, "answered_busy": 0, "destroyed": false,
        });
        let mut process = waits(process);
        if let Some(Stood::Hang(report)) = &mut process.stood {
            report.snapshot.streams = vec![serde_json::from_value(busy).unwrap()];
            report.snapshot.asked = true;
        }
        process
    };
    (0..ranks).map(of).collect()
}

#[test]
fn ranks_that_all_send_or_all_receive_outside_a_group_wait_for_each_other() {
    let told = sentence(&exchange_in_a_ring(2, &[15, 25], false));
    assert_eq!(
        told,
        "ranks wait for each other: rank 0 waits in ncclSend of communicator 0 for rank 1; rank 1 waits in ncclSend of communicator 0 for \
         rank 0. The other ends are called behind these, or not at all: call both ends in one group."
    );
    assert!(sentence(&exchange_in_a_ring(3, &[15, 25], true))
        .contains("rank 0 waits in ncclRecv of communicator 0 for rank 2"));
    // In one group they have one kernel.
    let grouped = sentence(&exchange_in_a_ring(2, &[5, 25], false));
    assert!(grouped.starts_with("every rank that could be compared has made the same calls"), "{grouped}");
    // One sends first, and the other receives first.
    let mut fit = exchange_in_a_ring(2, &[15, 25], false);
    fit[1] = exchange_in_a_ring(2, &[15, 25], true).remove(1);
    let fit = sentence(&fit);
    assert!(fit.starts_with("every rank that could be compared has made the same calls"), "{fit}");
}

#[test]
fn a_rank_that_has_not_come_to_the_communicators_making_is_behind() {
    let mut came: Vec<_> = [0, 2].map(|number| waits(rank(number, vec![member(WORLD, number as u32, 3, 0)]))).into();
    for process in &mut came {
        let entry_point = EntryPoint::by_symbol(b"ncclCommInitRank").unwrap();
        process.communications.as_mut().unwrap().meeting = Some(Meeting { entry_point, since: 5, id: WORLD });
    }
    came.push(Process { communications: None, ..rank(1, Vec::new()) });
    assert_eq!(sentence(&came), "rank 1 has not come to the call that makes communicator 0; ranks 0, 2 wait in it.");
    // It was killed at its start.
    came.pop();
    let left = "and has left no recording";
    assert_eq!(
        sentence(&came),
        format!("rank 1 has not come to the call that makes communicator 0, {left}; ranks 0, 2 wait in it.")
    );
    came.pop();
    assert_eq!(sentence(&came), "ranks 1-2 have not come to the call that makes communicator 0; rank 0 waits in it.");
    came[0].communications.as_mut().unwrap().meeting = None;
    assert!(compare(&came).is_none(), "it is not known to wait for them");
}

#[test]
fn communicators_in_different_orders_are_told_whether_ranks_stop_or_not() {
    let both = |number: u64, world: u32, half: u32| {
        vec![member(WORLD, number as u32, 2, world), member(HALF, number as u32, 2, half)]
    };
    let told = sentence(&[waits(rank(0, both(0, 1, 0))), waits(rank(1, both(1, 0, 1)))]);
    assert!(
        told.starts_with(
            "ranks wait for each other: rank 0 waits in collective 1 of communicator 0 for rank 1; rank 1 waits"
        ),
        "{told}"
    );
    // Both have called both: the order shows by the times.
    let (mut one, mut other) = (both(0, 1, 1), both(1, 1, 1));
    (one[1].calls[0].at, other[0].calls[0].at) = (20, 20);
    let blocked = sentence(&[hangs(rank(0, one.clone()), Code::LG203), waits(rank(1, other.clone()))]);
    assert!(blocked.contains("and rank 0 is blocked by itself: LG203"), "it is not for the order: {blocked}");
    let told = sentence(&[waits(rank(0, one)), waits(rank(1, other))]);
    assert!(
        told.starts_with("rank 0 has called collective 1 of communicator 0 before collective 1 of communicator 1, and rank 1 the other way round"),
        "{told}"
    );
}

#[test]
fn a_rank_that_is_blocked_by_itself_or_has_left_nothing_is_named_where_none_is_behind() {
    let of = |number: u64, size| rank(number, vec![member(WORLD, number as u32, size, 4)]);
    let blocked = [waits(of(0, 2)), hangs(of(1, 2), Code::LG203)];
    assert_eq!(
        sentence(&blocked),
        "every rank that could be compared has made the same calls of NCCL, and rank 1 is blocked by itself: LG203: it waits."
    );
    let missing = [waits(of(0, 3)), waits(of(2, 3))];
    assert_eq!(
        sentence(&missing),
        "rank 1 has left no recording; ranks 0, 2 wait in a collective, and all others have made the same calls of NCCL."
    );
}

#[test]
fn ranks_without_a_launcher_are_known_by_their_largest_communicator() {
    let of = |number: u64, collectives| {
        let one = rank(number, vec![member(HALF, 0, 1, 0), member(WORLD, number as u32, 2, collectives)]);
        Process { rank: String::new(), ..one }
    };
    let told = sentence(&[of(0, 1), waits(of(1, 2))]);
    assert!(told.starts_with("rank 0 has not called collective 2 of communicator"), "{told}");
}

/// A rank that has called two collectives of the job, the second one at 20, and has launched these kernels. It stands in the second one, or was asked.
fn launched(number: u64, kernels: &[u64], stands: bool) -> Process {
    let launches = kernels.iter().map(|at| (*at, 0)).collect();
    let kernel = "ncclDevKernel_AllGather_RING_LL".to_owned();
    let collectives = Some(Collectives { kernels: vec![kernel.clone()], launches, complete: true });
    let process = Process { collectives, ..rank(number, vec![member(WORLD, number as u32, 2, 2)]) };
    let operation: OperationSeen =
        serde_json::from_value(json!({ "at": 25, "call": "cuLaunchKernelEx", "function": kernel })).unwrap();
    let stream = StreamRef { number: 1, handle: 1, kind: StreamKind::NonBlocking, context: 1 };
    let mut process = hanging_in(process, Code::LG208, vec![Culprit { stream: stream.clone(), operation }]);
    if let Some(Stood::Hang(mut hang)) = process.stood.take() {
        let operation = json!({ "at": 25, "call": "cuLaunchKernelEx", "function": kernel });
        let busy = json!({
            "stream": stream, "oldest": operation, "operations": [operation], "last_submitted": 26, "submitted": 2,
            "outstanding": 1, "timed": 1, "all_recorded": true, "moved": 0, "answered_busy": 0, "destroyed": false,
        });
        hang.snapshot.streams = if stands { vec![serde_json::from_value(busy).unwrap()] } else { Vec::new() };
        hang.snapshot.blocked.clear();
        match stands {
            true => process.stood = Some(Stood::Hang(hang)),
            false => process.dump = Some(DumpReport::new(1, 1, (0, 0), hang)),
        }
    }
    process
}

#[test]
fn a_collective_that_all_have_called_has_lost_a_signal_where_it_has_ended_on_some() {
    let told = sentence(&[launched(0, &[15, 25], false), launched(1, &[15, 25], true)]);
    assert_eq!(
        told,
        "rank 0's collective 2 of communicator 0 (AllGather of 1,024 float32) has ended, rank 1's has not: a signal between them was lost."
    );
    // On both it stands.
    let told = sentence(&[launched(0, &[15, 25], true), launched(1, &[15, 25], true)]);
    assert!(told.starts_with("every rank that could be compared has made the same calls of NCCL"), "{told}");
}

#[test]
fn a_rank_that_has_called_a_collective_and_not_launched_it_is_behind() {
    let compared = compare(&[launched(0, &[15], false), launched(1, &[15, 25], true)]).unwrap();
    let told = &compared.sentence;
    assert!(
        told.starts_with(
            "rank 0 has not launched collective 2 of communicator 0 (AllGather of 1,024 float32), which it has called"
        ),
        "{told}"
    );
    assert_eq!((compared.behind[0].rank, &compared.joined[..]), (0, &[1][..]));
}

/// Each communicator keeps its newest calls, and each rank others: the oldest have been overwritten.
#[test]
fn ranks_that_have_lost_different_records_are_not_taken_to_have_crossed() {
    let of = |number: u64, lost: [usize; 2]| {
        let mut members = [WORLD, HALF].map(|id| member(id, number as u32, 2, 20));
        for (member, lost) in members.iter_mut().zip(lost) {
            member.calls.drain(..lost);
        }
        waits(rank(number, members.into()))
    };
    let told = sentence(&[of(0, [3, 9]), of(1, [8, 2])]);
    assert!(told.starts_with("every rank that could be compared has made the same calls of NCCL"), "{told}");
}

/// Each rank sends to another one, on its own communicator.
#[test]
fn kernels_that_differ_say_nothing_where_all_calls_are_the_same_but_a_graph_that_is_missing_does() {
    let with = |number: u64, kernels: &[&str]| {
        let mut process = launched(number, &[25], true);
        let launches = (0..kernels.len()).map(|at| (25 + at as u64, at as u16)).collect();
        let kernels = kernels.iter().map(|name| (*name).to_owned()).collect();
        process.collectives = Some(Collectives { kernels, launches, complete: true });
        process
    };
    let (reduce, exchange) = ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", "ncclDevKernel_SendRecv");
    let told = sentence(&[with(0, &[reduce, exchange]), with(1, &[reduce])]);
    assert!(told.starts_with("every rank that could be compared has made the same calls of NCCL"), "{told}");
    let graph = format!("a graph with {reduce}");
    let told = sentence(&[with(0, &[reduce, &graph]), with(1, &[reduce])]);
    assert!(told.starts_with(&format!("rank 1 has not launched collective 2 ({graph})")), "{told}");
}

#[test]
fn where_all_calls_are_the_same_a_wait_for_a_value_that_nothing_writes_is_told_and_a_rank_that_has_ended_keeps_no_device_busy(
) {
    let stands = |waits: serde_json::Value| {
        let mut process = launched(0, &[25], true);
        let Some(Stood::Hang(hang)) = &mut process.stood else { panic!("it stands") };
        hang.snapshot.waits = serde_json::from_value(waits).unwrap();
        hang.snapshot.asked = true;
        // The first of two may have ended.
        let operations = &mut hang.snapshot.streams[0].operations;
        operations.push(OperationSeen { at: 27, ..operations[0].clone() });
        process
    };
    let ended = Process { stood: None, has_ended: true, course: Course::Well, ..launched(1, &[25], false) };
    let wait = json!([{
        "stream": { "number": 1, "handle": 1, "kind": "non-blocking", "context": 1 }, "at": 26, "address": 16, "value": 1, "condition": ">=",
        "wide": false, "satisfying_writes": [], "other_writes": 0, "thread": 1, "fills": [], "holds": null, "satisfied": false,
    }]);
    let told = sentence(&[stands(wait), ended]);
    let cause =
        ": on rank 0 stream 1 waits for memory at 0x10 to be >= 1, and no submitted operation writes that (LG203).";
    assert!(told.ends_with(cause), "{told}");
    let ended = Process { stood: None, has_ended: true, course: Course::Well, ..launched(1, &[25], false) };
    let told = sentence(&[stands(json!([])), ended]);
    assert!(told.ends_with(": look at the network and the devices."), "{told}");
}

#[test]
fn a_rank_that_waits_in_a_collective_which_all_have_called_is_not_behind_in_the_next_one() {
    let called = |number: u64, collectives| vec![member(WORLD, number as u32, 3, collectives)];
    let stands = |number: u64, collectives| {
        let mut process = launched(number, &[25], true);
        process.communications = rank(number, called(number, collectives)).communications;
        // The kernels of both collectives are in flight.
        let Some(Stood::Hang(hang)) = &mut process.stood else { panic!("it stands") };
        let operations = &mut hang.snapshot.streams[0].operations;
        operations.insert(0, OperationSeen { at: 15, ..operations[0].clone() });
        process
    };
    let slow = |number: u64, collectives| {
        let mut process = stands(number, collectives);
        let Some(Stood::Hang(hang)) = process.stood.take() else { panic!("it stands") };
        let mut report = hang.clone();
        (report.verdicts, report.snapshot.late) = (Vec::new(), Some(LateSeen { most_nanos: 1, ranks: Vec::new() }));
        process.stood = Some(Stood::Slow(report));
        process
    };
    let all = "all its ranks have called the collective or transfer in which rank 1 waits, and";
    for one in [stands(1, 1), slow(1, 1)] {
        let blocked = hangs(rank(0, called(0, 2)), Code::LG203);
        let told = sentence(&[blocked, one, stands(2, 2)]);
        assert!(told.starts_with(&format!("{all} rank 0 is blocked by itself: LG203")), "{told}");
    }
    // No other reason is known.
    let behind = "rank 1 has not called collective 2 of communicator 0";
    let told = sentence(&[stands(0, 2), stands(1, 1), stands(2, 2)]);
    assert!(told.starts_with(behind), "{told}");
    // It hangs in something else.
    let told = sentence(&[stands(0, 2), hangs(rank(1, called(1, 1)), Code::LG203), stands(2, 2)]);
    assert!(told.starts_with(behind), "{told}");
}
