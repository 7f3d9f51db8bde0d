use super::*;
use crate::judge::communications::{Called, Communications, Member};
use crate::judge::process::Process;
use crate::judge::ranks::compare;
use crate::judge::test_samples::hanging_in;
use lazyguard_core::api::{Call, EntryPoint, StreamKind};
use lazyguard_core::diagnose::{Culprit, OperationSeen, StreamRef};
use lazyguard_core::evidence::{Class as HostClass, Evidence};
use lazyguard_core::trace::Communication;

const REDUCE: &str = "ncclDevKernel_AllReduce_Sum_f32_RING_LL";

fn rank(number: u32, of: u32, collectives: u32) -> Process {
    let entry_point = EntryPoint::by_symbol(b"ncclAllReduce").unwrap();
    let called = |number: u32| {
        let about = Communication { communicator: 1, number, count: 8, data_type: 7, operator: Some(0), root: None };
        Called { at: u64::from(number) * 10, stream: 1, entry_point, about }
    };
    let member = Member {
        id: 7,
        rank: Some((number, of)),
        collectives: collectives.into(),
        calls: (1..=collectives).map(called).collect(),
        ..Member::default()
    };
    let communications = Some(Communications { members: vec![member], meeting: None, complete: true });
    Process { rank: number.to_string(), process: 4000 + number, communications, is_read: true, ..Process::default() }
}

/// It has called its fourth collective, and hangs behind that with this code.
fn caller(number: u32, of: u32, code: Code) -> Process {
    let operation: OperationSeen = serde_json::from_value(serde_json::json!({
        "at": 41, "call": Call::from("cuLaunchKernel".to_owned()), "function": REDUCE,
    }))
    .unwrap();
    let stream = StreamRef { number: 5, handle: 5, kind: StreamKind::NonBlocking, context: 1 };
    hanging_in(rank(number, of, 4), code, vec![Culprit { stream, operation }])
}

/// It has called three, and a look from outside showed this.
fn behind(number: u32, of: u32, seen: Option<HostClass>) -> Process {
    let process = rank(number, of, 3);
    let evidence = seen.map(|class| Evidence {
        process: process.process,
        class,
        moves: false,
        sentence: format!("its main thread {class}"),
        python: Vec::new(),
        lacks: Vec::new(),
        names: Default::default(),
    });
    Process { evidence, ..process }
}

/// The jobs of 2, 3 and 8 ranks of which the last one has not called what the others have.
fn jobs(code: Code, seen: Option<HostClass>) -> Vec<(u32, String)> {
    let job = |of: u32| {
        let ranks: Vec<_> =
            (0..of - 1).map(|number| caller(number, of, code)).chain([behind(of - 1, of, seen)]).collect();
        (of - 1, compare(&ranks).unwrap().sentence)
    };
    [2, 3, 8].map(job).into()
}

const OWN: [HostClass; 10] = [
    HostClass::File,
    HostClass::Child,
    HostClass::Lock,
    HostClass::Computes,
    HostClass::Compiles,
    HostClass::Collects,
    HostClass::Stopped,
    HostClass::Starved,
    HostClass::Gone,
    HostClass::Ends,
];

#[test]
fn a_rank_in_a_wait_that_the_program_asked_for_is_never_to_blame() {
    let all = OWN.into_iter().chain([HostClass::Peer, HostClass::Rests, HostClass::Waits]).map(Some).chain([None]);
    for seen in all {
        for (last, said) in jobs(Code::LG208, seen) {
            assert!(said.starts_with(&format!("rank {last} has not called collective 4 of communicator 0 ")), "{said}");
            assert!(!said.contains("LG2"), "{said}");
        }
    }
}

#[test]
fn a_rank_that_the_driver_holds_back_is_to_blame_where_the_other_waits_for_a_rank_or_shows_nothing() {
    for code in [Code::LG201, Code::LG202, Code::LG205, Code::LG206] {
        for seen in [Some(HostClass::Peer), Some(HostClass::Waits), None] {
            for (last, said) in jobs(code, seen) {
                assert!(said.starts_with("rank 0 has called collective 4 of communicator 0 "), "{said}");
                assert!(said.contains(&format!(" and is blocked behind it, {code}: ")), "{said}");
                assert!(said.contains(&format!("; rank {last} has not called it")), "{said}");
            }
        }
    }
}

#[test]
fn a_rank_that_is_late_by_itself_comes_before_one_that_the_driver_holds_back() {
    for code in [Code::LG201, Code::LG202, Code::LG205, Code::LG206] {
        for seen in OWN {
            for (last, said) in jobs(code, Some(seen)) {
                let begin = format!("rank {last} has not called collective 4 of communicator 0 ");
                assert!(said.starts_with(&begin) && said.contains(&format!("and its main thread {seen}; ")), "{said}");
                assert!(said.contains(&format!("; rank 0 would also be blocked behind it, {code}: ")), "{said}");
            }
        }
    }
}

#[test]
fn of_several_that_have_not_called_it_those_on_their_own_are_named() {
    let waits = [1, 2, 3, 4, 5, 6].map(|number| behind(number, 8, Some(HostClass::Peer)));
    for code in [Code::LG208, Code::LG202] {
        let mut ranks = vec![caller(0, 8, code), behind(7, 8, Some(HostClass::File))];
        ranks.extend(waits.iter().map(|waits| behind(waits.process - 4000, 8, Some(HostClass::Peer))));
        let said = compare(&ranks).unwrap().sentence;
        assert!(said.starts_with("rank 7 has not called collective 4 of communicator 0 "), "{said}");
        assert!(
            said.contains("and its main thread file; ranks 1-6 have not called it either; rank 0 waits in it"),
            "{said}"
        );
        assert_eq!(said.contains("rank 0 would also be blocked behind it, LG202"), code == Code::LG202, "{said}");
    }
}

#[test]
fn a_frame_of_a_library_of_communication_is_a_wait_for_a_rank() {
    let frame = |module: &str, function: Option<&str>| FrameSeen {
        module: module.to_owned(),
        function: function.map(str::to_owned),
        ..FrameSeen::default()
    };
    assert!(communicates(&frame("libtorch_cpu.so", Some("c10d::TCPStore::wait(std::vector<std::string>)"))));
    assert!(communicates(&frame("libmpi.so.40", None)) && communicates(&frame("train", Some("MPI_Barrier"))));
    assert!(
        !communicates(&frame("libtorch_cpu.so", Some("at::native::copy_")))
            && !communicates(&frame("libc.so.6", Some("poll")))
    );
}
