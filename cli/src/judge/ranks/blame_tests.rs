use super::{named_first, Ahead, Behind, First};
use crate::judge::communications::{Called, Communications, Member, Peer};
use crate::judge::process::Process;
use crate::judge::ranks::compare;
use crate::judge::stood::{Course, Stood};
use crate::judge::test_samples::hanging_in;
use lazyguard_core::api::{EntryPoint, StreamKind};
use lazyguard_core::diagnose::{Code, Culprit, OperationSeen, StreamRef};
use lazyguard_core::evidence::{Class as Host, Evidence};
use lazyguard_core::report::{DumpReport, FrameSeen, HangReport, StackSeen};
use lazyguard_core::stack::PythonFrame;
use lazyguard_core::trace::Communication;
use serde_json::{from_value, json};
use std::sync::OnceLock;

const WORLD: u64 = 0x77;

fn called(symbol: &str, number: u32) -> Called {
    let entry_point = EntryPoint::by_symbol(symbol.as_bytes()).unwrap();
    let about = Communication { communicator: 1, number, count: 64, data_type: 7, operator: None, root: None };
    Called { at: u64::from(number) * 10, stream: 1, entry_point, about }
}

/// A rank that has called so many collectives of the job's communicator.
fn rank(number: u64, of: u64, collectives: u32) -> Process {
    let member = Member {
        id: WORLD,
        rank: Some((number as u32, of as u32)),
        born: 1,
        collectives: collectives.into(),
        calls: (1..=collectives).map(|number| called("ncclAllReduce", number)).collect(),
        ..Member::default()
    };
    let communications = Some(Communications { members: vec![member], meeting: None, complete: true });
    let process = 4000 + number as u32;
    Process { rank: number.to_string(), process, communications, is_read: true, ..Process::default() }
}

/// The same, whose thread stands in this call behind a collective.
fn stands(process: Process, code: Code, call: &str, queries: Option<u64>) -> Process {
    let operation: OperationSeen = from_value(
        json!({ "at": 20, "call": "cuLaunchKernelEx", "function": "ncclDevKernel_AllReduce_Sum_f32_RING_LL" }),
    )
    .unwrap();
    let stream = StreamRef { number: 1, handle: 1, kind: StreamKind::NonBlocking, context: 1 };
    let blocked = json!({
        "thread": 1, "thread_name": "main", "call": call, "entered": 30, "blocked_nanos": 9, "past_threshold": true, "context": 1,
        "stream": stream, "function": null, "cold": null, "queries": queries, "event_recorded": null, "no_entry": false,
        "compiles": false, "sets_aside": false,
    });
    let mut report = hang();
    let verdict = &mut report.verdicts[0];
    (verdict.code, verdict.culprits) = (code, vec![Culprit { stream, operation }]);
    report.snapshot.blocked = vec![from_value(blocked).unwrap()];
    Process { stood: Some(Stood::Hang(report)), ..process }
}

/// A hang without a cause. Its recording takes time to make.
fn hang() -> HangReport {
    static HANG: OnceLock<HangReport> = OnceLock::new();
    let made = || hanging_in(Process::default(), Code::LG208, Vec::new()).hang().unwrap().clone();
    HANG.get_or_init(made).clone()
}

fn with_evidence(process: Process, class: Host) -> Process {
    let sentence = format!("is seen: {class}");
    let evidence: Evidence =
        from_value(json!({ "process": process.process, "class": class, "moves": false, "sentence": sentence }))
            .unwrap();
    Process { evidence: Some(evidence), ..process }
}

/// It waits at a connection, for its job, or for this process.
fn at_a_connection(process: Process, of_job: bool, peer: Option<u32>) -> Process {
    let process = with_evidence(process, Host::Peer);
    Process { evidence: process.evidence.map(|evidence| Evidence { of_job, peer, ..evidence }), ..process }
}

/// Evidence of this class, and the main thread's Python frames in it.
fn with_frames(process: Process, class: Host, files: &[&str]) -> Process {
    let frame = |file: &&str| PythonFrame { file: (*file).to_owned(), line: 7, function: "f".to_owned() };
    let process = with_evidence(process, class);
    let python = files.iter().map(frame).collect();
    Process { evidence: process.evidence.map(|evidence| Evidence { python, ..evidence }), ..process }
}

/// Evidence of this class, and its main thread's native frame when it was asked for a report.
fn in_native(process: Process, class: Host, module: &str) -> Process {
    let process = in_python(with_evidence(process, class), &[TRAINING]);
    let thread = process.process;
    let mut dump = process.dump.unwrap();
    let frames = vec![FrameSeen { module: module.to_owned(), ..FrameSeen::default() }];
    dump.hang.stacks = vec![StackSeen { thread, frames, notes: Vec::new() }];
    Process { dump: Some(dump), ..process }
}

/// A rank that was asked for a report, and whose main thread has these Python frames, the innermost first.
fn in_python(process: Process, files: &[&str]) -> Process {
    let mut hang = hang();
    hang.snapshot.blocked.clear();
    let frames: String = files.iter().map(|file| format!("  File \"{file}\", line 7 in f\n")).collect();
    hang.python = Some(format!("Thread 0x00007f2b (most recent call first):\n{frames}"));
    Process { dump: Some(DumpReport::new(1, 1, (0, 0), hang)), course: Course::Killed, ..process }
}

/// The call in which a rank stands behind its own collective, with the code of its verdict.
const STANDS: [(Ahead, Code, &str, Option<u64>); 12] = [
    (Ahead::AsAsked, Code::LG208, "cuStreamSynchronize", None),
    (Ahead::AsAsked, Code::LG208, "cuEventSynchronize", None),
    (Ahead::AsAsked, Code::LG208, "cuEventQuery", Some(9)),
    (Ahead::AsAsked, Code::LG208, "cuMemcpyDtoHAsync_v2", None),
    (Ahead::AsAsked, Code::LG204, "cuMemcpyHtoD_v2", None),
    (Ahead::AsAsked, Code::LG204, "cuStreamSynchronize", None),
    (Ahead::Loads, Code::LG202, "cuModuleLoadData", None),
    (Ahead::Loads, Code::LG201, "cuStreamSynchronize", None),
    (Ahead::Blocked, Code::LG204, "cuMemFree_v2", None),
    (Ahead::Blocked, Code::LG205, "cuLaunchKernel", None),
    (Ahead::Blocked, Code::LG206, "cuStreamSynchronize", None),
    (Ahead::Blocked, Code::LG208, "cuLaunchKernel", None),
];

const TRAINING: &str = "/srv/job/train.py";
const LOADER: &str = "/opt/venv/lib/python3.12/site-packages/torch/utils/data/dataloader.py";
const SOCKET: &str = "/usr/lib/python3.12/socket.py";
const CLIENT: &str = "/usr/lib/python3.12/http/client.py";
const GROUP: &str = "/opt/venv/lib/python3.12/site-packages/torch/distributed/distributed_c10d.py";

/// The activity of a rank that has not called the collective.
type Does = fn(Process) -> Process;
const DOES: [(Behind, Does); 22] = [
    (Behind::NotSeen, |process| process),
    (Behind::NotSeen, |process| with_evidence(process, Host::Waits)),
    (Behind::NotSeen, |process| in_python(process, &[TRAINING])),
    (Behind::DoesOther, |process| with_evidence(process, Host::File)),
    (Behind::DoesOther, |process| with_evidence(process, Host::Child)),
    (Behind::DoesOther, |process| with_evidence(process, Host::Computes)),
    (Behind::DoesOther, |process| in_python(process, &["/usr/lib/python3.12/selectors.py", LOADER, TRAINING])),
    (Behind::DoesOther, |process| Process { course: Course::Signalled(9), ..process }),
    (Behind::DoesOther, |process| hanging_in(process, Code::LG203, Vec::new())),
    (Behind::NotSeen, |process| in_python(process, &[SOCKET, TRAINING])),
    (Behind::DoesOther, |process| at_a_connection(process, false, None)),
    (Behind::DoesOther, |process| at_a_connection(process, false, Some(7))),
    (Behind::DoesOther, |process| {
        let own = process.process;
        at_a_connection(process, false, Some(own))
    }),
    (Behind::DoesOther, |process| with_frames(process, Host::Peer, &[SOCKET, CLIENT, TRAINING])),
    (Behind::DoesOther, |process| in_python(process, &[SOCKET, CLIENT, TRAINING])),
    (Behind::WaitsForRank, |process| at_a_connection(process, true, None)),
    (Behind::WaitsForRank, |process| at_a_connection(process, false, Some(4000))),
    (Behind::WaitsForRank, |process| with_frames(process, Host::Lock, &[GROUP, TRAINING])),
    (Behind::WaitsForRank, |process| in_native(process, Host::Computes, "libmpi.so.40")),
    (Behind::WaitsForRank, |process| in_native(process, Host::Peer, "libucp.so.0")),
    (Behind::WaitsForRank, |process| in_python(process, &[GROUP, TRAINING])),
    (Behind::WaitsForRank, RECEIVES),
];
/// The first receive from rank 0, which has not sent.
const RECEIVES: Does = |mut process| {
    let member = &mut process.communications.as_mut().unwrap().members[0];
    member.exchanges = [(Peer { rank: 0, sends: false }, (1, called("ncclRecv", 1)))].into();
    process
};

/// A line of the table each, for jobs of 2, 3 and 8 ranks.
#[test]
fn each_line_of_the_table_names_its_rank_first() {
    for (ranks, (ahead, code, call, queries), (behind, does)) in
        [2, 3, 8].into_iter().flat_map(|n| STANDS.iter().flat_map(move |s| DOES.iter().map(move |d| (n, *s, *d))))
    {
        let last = ranks - 1;
        let mut job = vec![stands(rank(0, ranks, 5), code, call, queries), does(rank(last, ranks, 4))];
        job.extend((1..last).map(|one| stands(rank(one, ranks, 5), Code::LG208, "cuStreamSynchronize", None)));
        let compared = compare(&job).unwrap();
        let case = format!("{ranks} ranks, {code} in {call}, {behind:?}: {}", compared.sentence);
        let waits_in_nccl = std::ptr::fn_addr_eq(does, RECEIVES);
        let collective = "called collective 5 of communicator 0 (AllReduce of 64 float32)";
        match named_first(ahead, behind) {
            First::Ahead => {
                assert!(compared.sentence.starts_with(&format!("rank 0 has {collective} and is blocked behind it, {code}: it waits; rank {last} has not called it")), "{case}");
            }
            // By the calls alone each waits for the other, as the program asked.
            First::Behind if waits_in_nccl => {
                assert!(
                    compared.sentence.starts_with("ranks wait for each other: rank 0 waits in collective 5"),
                    "{case}"
                );
                continue;
            }
            First::Behind => {
                assert!(compared.sentence.starts_with(&format!("rank {last} has not {collective}")), "{case}");
                let would = format!("rank 0 would also hang if rank {last} waited for it, {code}: it waits.");
                assert_eq!(compared.sentence.ends_with(&would), ahead != Ahead::AsAsked, "{case}");
            }
        }
        assert_eq!(compared.behind.iter().map(|odd| odd.rank).collect::<Vec<_>>(), [last], "{case}");
        let innocent = compared.blocked.iter().all(|blocked| blocked.rank != 0);
        assert!(innocent || ahead != Ahead::AsAsked, "{case}");
    }
}

#[test]
fn the_table_has_a_case_of_each_kind() {
    let lines = [
        (Ahead::AsAsked, Behind::NotSeen, First::Behind),
        (Ahead::AsAsked, Behind::DoesOther, First::Behind),
        (Ahead::AsAsked, Behind::WaitsForRank, First::Behind),
        (Ahead::Blocked, Behind::NotSeen, First::Behind),
        (Ahead::Blocked, Behind::DoesOther, First::Behind),
        (Ahead::Blocked, Behind::WaitsForRank, First::Ahead),
        (Ahead::Loads, Behind::NotSeen, First::Ahead),
        (Ahead::Loads, Behind::DoesOther, First::Behind),
        (Ahead::Loads, Behind::WaitsForRank, First::Ahead),
    ];
    for (ahead, behind, first) in lines {
        assert_eq!(named_first(ahead, behind), first, "{ahead:?} {behind:?}");
        assert!(STANDS.iter().any(|(its, ..)| *its == ahead) && DOES.iter().any(|(its, _)| *its == behind));
    }
}

/// A barrier of the host's keeps the others from calling it.
#[test]
fn of_several_that_have_not_called_it_one_that_does_something_else_is_named() {
    for (code, call) in [(Code::LG208, "cuStreamSynchronize"), (Code::LG202, "cuModuleLoadData")] {
        let mut job = vec![stands(rank(0, 8, 5), code, call, None), with_evidence(rank(7, 8, 4), Host::File)];
        job.extend((1..7).map(|one| at_a_connection(rank(one, 8, 4), true, None)));
        let compared = compare(&job).unwrap();
        let told = compared.sentence;
        assert!(told.starts_with("rank 7 has not called collective 5 of communicator 0"), "{told}");
        assert!(
            told.contains("and its main thread is seen: file; ranks 1-6 have not called it either; rank 0 waits in it"),
            "{told}"
        );
        assert_eq!(
            told.contains("rank 0 would also hang if rank 7 waited for it, LG202"),
            code == Code::LG202,
            "{told}"
        );
        assert_eq!(compared.behind.iter().map(|odd| odd.rank).collect::<Vec<_>>(), [7, 1, 2, 3, 4, 5, 6]);
    }
}

#[test]
fn evidence_of_the_rank_that_is_behind_is_said() {
    let job =
        [stands(rank(0, 2, 5), Code::LG208, "cuStreamSynchronize", None), with_evidence(rank(1, 2, 4), Host::File)];
    assert_eq!(
        compare(&job).unwrap().sentence,
        "rank 1 has not called collective 5 of communicator 0 (AllReduce of 64 float32), and its main thread is seen: file; rank 0 waits in it."
    );
}

/// Rank 1 waits for rank 2, which waits for the one that loads.
#[test]
fn a_rank_in_between_leads_to_the_one_that_is_blocked() {
    let receives = |number: u64, from: u16| {
        let mut process = rank(number, 3, 4);
        let member = &mut process.communications.as_mut().unwrap().members[0];
        member.exchanges = [(Peer { rank: from, sends: false }, (1, called("ncclRecv", 1)))].into();
        process
    };
    let loads = || stands(rank(0, 3, 5), Code::LG202, "cuModuleLoadData", None);
    let told = compare(&[loads(), receives(1, 2), receives(2, 0)]).unwrap().sentence;
    assert!(told.starts_with("rank 0 has called collective 5 of communicator 0"), "{told}");
    // Rank 2 does something else.
    let told = compare(&[loads(), receives(1, 2), with_evidence(rank(2, 3, 4), Host::File)]).unwrap().sentence;
    assert!(told.starts_with("rank 2 has not called"), "{told}");
}

/// As after a revocation: it has not called the collective that was given up, and has gone on since.
#[test]
fn a_rank_that_ends_after_the_hang_does_not_count_as_gone() {
    let loads = stands(rank(0, 2, 5), Code::LG202, "cuModuleLoadData", None);
    let hang = loads.hang().map(|report| report.armed_unix_nanos + report.snapshot.at).unwrap();
    let ended = |at: u64| Process {
        has_ended: true,
        course: Course::Well,
        ended: "ended".to_owned(),
        armed_unix_nanos: 5,
        nanos: at - 5,
        ..rank(1, 2, 4)
    };
    let told = |at: u64| {
        let loads = stands(rank(0, 2, 5), Code::LG202, "cuModuleLoadData", None);
        compare(&[loads, ended(at)]).unwrap().sentence
    };
    assert!(told(hang + 1).starts_with("rank 0 has called"), "{}", told(hang + 1));
    assert!(told(hang).starts_with("rank 1 has not called"), "{}", told(hang));
}
