use crate::judge::collectives::Collectives;
use crate::judge::process::Process;
use crate::judge::ranks::compare;
use crate::judge::stood::{Course, Stood};
use crate::judge::test_samples::hanging_in;
use lazyguard_core::api::{Call, StreamKind};
use lazyguard_core::diagnose::{Code, Culprit, OperationSeen, StreamRef};
use lazyguard_core::Nanos;

const REDUCE: &str = "ncclDevKernel_AllReduce_Sum_f32_RING_LL";
const GATHER: &str = "ncclDevKernel_AllGather_RING_LL";

fn rank(number: u64, kernels: &[&str]) -> Process {
    let names = [REDUCE, GATHER];
    let which = |kernel: &&str| names.iter().position(|name| name == kernel).unwrap() as u16;
    let launches = kernels.iter().enumerate().map(|(n, kernel)| (at(n), which(kernel))).collect();
    let collectives = Collectives { kernels: names.map(str::to_owned).to_vec(), launches, complete: true };
    let process = 4000 + u32::try_from(number).unwrap();
    Process { rank: number.to_string(), process, collectives: Some(collectives), is_read: true, ..Process::default() }
}

fn at(index: usize) -> Nanos {
    1000 + index as u64 * 10
}

/// The same, hanging in its collective of this number.
fn hangs(number: u64, kernels: &[&str], in_collective: usize, code: Code) -> Process {
    let process = rank(number, kernels);
    let call = Call::from("cuLaunchKernel".to_owned());
    let name = kernels.get(in_collective - 1).map_or("spin", |name| name).to_owned();
    let operation: OperationSeen = serde_json::from_value(serde_json::json!({
        "at": at(in_collective - 1), "call": call, "function": name,
    }))
    .unwrap();
    let stream = StreamRef { number: 1, handle: 1, kind: StreamKind::Legacy, context: 1 };
    hanging_in(process, code, vec![Culprit { stream, operation }])
}

fn said(processes: &[Process]) -> String {
    compare(processes).unwrap().lines(lazyguard_core::report::Detail::Short).join("\n")
}

#[test]
fn the_rank_that_has_not_launched_it_is_named_with_what_it_does() {
    let fourteen = [REDUCE; 14];
    let mut all = vec![hangs(0, &fourteen, 14, Code::LG208), rank(1, &fourteen[..13]), rank(2, &[REDUCE; 20])];
    assert_eq!(
        compare(&all).unwrap().sentence,
        format!("rank 1 has not launched collective 14 ({REDUCE}); ranks 0, 2 wait in it.")
    );
    all[1].course = Course::Signalled(9);
    all[1].ended = "was ended by signal 9 (SIGKILL)".to_owned();
    let told = said(&all);
    assert!(
        told.starts_with(&format!(
            "rank 1 has not launched collective 14 ({REDUCE}), and was ended by signal 9 (SIGKILL); "
        )),
        "{told}"
    );
    assert!(told.contains("\n  rank 1 (process 4001): 13 collectives\n"), "{told}");
    // Blocked behind that very collective.
    all[1] = hangs(1, &fourteen[..13], 14, Code::LG202);
    let told = said(&all);
    assert!(told.contains("rank 1 has not launched collective 14"), "{told}");
    assert!(told.contains("LG202: it waits; ranks 0, 2 wait in it."), "{told}");
}

#[test]
fn a_rank_that_is_blocked_behind_the_collective_itself_is_named_too() {
    let told = said(&[hangs(0, &[REDUCE], 1, Code::LG202), rank(1, &[])]);
    assert!(told.starts_with("rank 1 has not launched collective 1 "), "{told}");
    assert!(told.contains("\n  rank 0 (process 4000) has joined and is blocked: LG202: it waits\n"), "{told}");
}

#[test]
fn a_rank_without_any_collective_is_behind() {
    let none = Process { collectives: None, ..rank(3, &[]) };
    let told = said(&[hangs(0, &[REDUCE], 1, Code::LG208), none]);
    assert!(told.starts_with("rank 3 has not launched collective 1 "), "{told}");
}

#[test]
fn the_first_collective_that_not_all_have_is_the_one_whichever_of_several_is_known_to_hang() {
    let told = said(&[hangs(0, &[REDUCE; 20], 1, Code::LG208), rank(1, &[REDUCE; 13]), rank(2, &[REDUCE; 20])]);
    assert!(
        told.starts_with(&format!("rank 1 has not launched collective 14 ({REDUCE}); ranks 0, 2 wait in it.")),
        "{told}"
    );
}

#[test]
fn a_rank_that_launched_another_kernel_differs() {
    let ranks = [hangs(0, &[REDUCE, REDUCE], 2, Code::LG208), hangs(1, &[REDUCE, GATHER], 2, Code::LG208)];
    let told = said(&ranks);
    assert!(
        told.starts_with(&format!(
            "rank 1 has launched {GATHER} as collective 2, which is {REDUCE}; rank 0 waits in it."
        )),
        "{told}"
    );
    assert!(told.contains(&format!("rank 1 (process 4001): 2 collectives, the 2nd of them {GATHER}")), "{told}");
}

#[test]
fn where_all_have_joined_no_rank_is_blamed() {
    let told = said(&[hangs(0, &[REDUCE], 1, Code::LG208), hangs(1, &[REDUCE], 1, Code::LG208)]);
    assert!(
        told.starts_with("every rank that could be compared has launched the same collectives as far as collective 1 "),
        "{told}"
    );
}

#[test]
fn a_rank_that_lost_records_is_not_compared() {
    let mut lost = rank(1, &[REDUCE; 3]);
    lost.collectives.as_mut().unwrap().complete = false;
    let ranks = [hangs(0, &[REDUCE; 14], 14, Code::LG208), lost, rank(2, &[REDUCE; 13])];
    let told = said(&ranks);
    assert!(told.starts_with("rank 2 has not launched collective 14 "), "{told}");
    assert!(told.contains("rank 1 has left no recording or lost records"), "{told}");
}

#[test]
fn one_process_or_none_in_a_collective_is_not_compared() {
    assert_eq!(compare(&[hangs(0, &[REDUCE], 1, Code::LG208)]), None);
    assert_eq!(compare(&[rank(0, &[REDUCE]), rank(1, &[])]), None);
    let data_loader = Process { collectives: None, ..rank(0, &[]) };
    let told = said(&[data_loader, hangs(0, &[REDUCE], 1, Code::LG208), rank(1, &[])]);
    assert!(
        told.starts_with("rank 1 has not launched collective 1 "),
        "a process without collectives beside the rank's: {told}"
    );
}

#[test]
fn ranks_that_run_different_collectives_are_not_compared() {
    let ranks = [hangs(0, &[REDUCE, GATHER, REDUCE], 3, Code::LG208), rank(1, &[GATHER, REDUCE])];
    assert_eq!(compare(&ranks), None);
}

#[test]
fn a_hang_that_has_ended_by_itself_blames_no_rank() {
    let mut resolved = hangs(0, &[REDUCE], 1, Code::LG208);
    let Some(Stood::Hang(mut report)) = resolved.stood.take() else { unreachable!() };
    report.resolved = Some(1);
    resolved.stood = Some(Stood::Over(report));
    assert_eq!(compare(&[resolved, rank(1, &[])]), None);
}

#[test]
fn a_rank_without_a_recording_is_not_blamed() {
    let unread = Process { is_read: false, collectives: None, ..rank(1, &[]) };
    let told = said(&[hangs(0, &[REDUCE], 1, Code::LG208), unread, rank(2, &[])]);
    assert!(told.starts_with("rank 2 has not launched collective 1 "), "{told}");
    assert!(told.contains("rank 1 has left no recording"), "{told}");
}
