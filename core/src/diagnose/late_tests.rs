//! The wait for a rank that is late, by where its path ends and by what the job says.

use super::test_trace::{TestTrace, NOW, SECOND, THRESHOLD};
use super::{diagnose, waits_for_ranks, Diagnosis, LateRank, LateSeen, Status};
use crate::evidence::Class;

const ALL_REDUCE: &str = "ncclDevKernel_AllReduce_Sum_f32_RING_LL";

fn rank(number: u32) -> LateRank {
    let (process, sentence) = (4240 + number, "computes".to_owned());
    LateRank {
        rank: number.to_string(),
        host: "node7".to_owned(),
        process,
        class: Class::Computes,
        sentence,
        stood_nanos: 0,
    }
}

fn with(story: &TestTrace, ranks: Vec<LateRank>, most_nanos: u64) -> Diagnosis {
    let mut snapshot = story.snapshot();
    snapshot.late = Some(LateSeen { most_nanos, ranks });
    diagnose(&snapshot)
}

/// A thread waits for a kernel since the beginning, in this call.
fn waits(kernel: &str, call: &str, stream: Option<usize>) -> TestTrace {
    let story = TestTrace::new();
    story.launch(0, 10, kernel);
    story.waits(1, 30, call, stream);
    story
}

#[test]
fn a_wait_for_a_rank_that_moves_is_slow_until_the_most_is_over() {
    let story = waits(ALL_REDUCE, "cuStreamSynchronize", Some(0));
    assert!(waits_for_ranks(&story.snapshot()));
    assert_eq!(story.diagnosis().status, Status::Hang);
    let slow = with(&story, vec![rank(1)], NOW);
    assert_eq!((slow.status, slow.verdicts.len()), (Status::Slow, 0));
    let said = &slow.slow[0];
    assert!(said.ends_with("for other ranks: rank 1 (process 4241) computes; that is late, and no hang while it goes on, for 10 s in all."), "{said}");
    let asked = with(&story, vec![], NOW);
    assert!(asked.status == Status::Slow && asked.slow[0].ends_with("the others are asked what they do."), "{asked:?}");
    let many = with(&story, (1..=4).map(rank).collect(), NOW).slow[0].clone();
    assert!(many.contains("rank 2 (process 4242) computes; 2 more move as well; that is late"), "{many}");
    assert_eq!(with(&story, vec![rank(1)], NOW - SECOND).status, Status::Hang, "the most is over");
}

#[test]
fn a_rank_that_stands_still_is_named_behind_the_wait_for_it() {
    let story = waits(ALL_REDUCE, "cuStreamSynchronize", Some(0));
    let mut snapshot = story.snapshot();
    snapshot.standing = vec![LateRank { sentence: "opens /data/x".to_owned(), stood_nanos: 5 * SECOND, ..rank(1) }];
    let summary = crate::report::PreloadSummary::default();
    let head = crate::report::HangReport::new(7, "train", None, snapshot, summary).head(None);
    assert!(head[0].starts_with("HANG ") && head[1].starts_with("LG208 (likely): "), "{head:#?}");
    assert_eq!(head[2], "  rank 1 (process 4241) opens /data/x, and has stood still for 5.0 s");
    assert!(head[3].starts_with("  fix: "), "{head:#?}");
}

#[test]
fn all_that_stands_behind_such_a_wait_is_slow_and_no_other_wait_is() {
    for (call, stream) in [("cuCtxSynchronize", None), ("cuMemFree_v2", None), ("cuModuleLoadData", None)] {
        let story = waits(ALL_REDUCE, call, stream);
        assert!(waits_for_ranks(&story.snapshot()), "{call}");
        assert_eq!(story.diagnosis().status, Status::Hang, "{call}");
        assert_eq!(with(&story, vec![rank(1)], NOW).status, Status::Slow, "{call}");
    }
    let story = waits("k1", "cuStreamSynchronize", Some(0));
    assert!(!waits_for_ranks(&story.snapshot()));
    assert_eq!(with(&story, vec![rank(1)], NOW).status, Status::Hang);
}

#[test]
fn a_call_of_nccl_that_meets_the_other_ranks_waits_for_them() {
    let story = TestTrace::new();
    story.waits(1, 30, "ncclCommInitRank", None);
    assert!(waits_for_ranks(&story.snapshot()));
    assert_eq!(with(&story, vec![rank(1)], NOW).status, Status::Slow);
}

#[test]
fn a_wait_below_the_threshold_asks_nobody() {
    let story = TestTrace::new();
    story.launch(0, 10, ALL_REDUCE);
    story.waits(1, NOW - THRESHOLD / 2, "cuStreamSynchronize", Some(0));
    assert!(!waits_for_ranks(&story.snapshot()));
}
