use super::super::test_trace::TestTrace;
use super::{links_of, Party};

const SYNC: &str = "cuStreamSynchronize";

/// The links of the first verdict: `thread 1 -> k2 on 1 -> k1 on 0` as pairs of short names.
fn links(story: &TestTrace) -> Vec<String> {
    let name = |party: &Party| match party {
        Party::Thread(thread) => format!("thread {thread}"),
        Party::Operation { stream, at } => {
            format!("{at} on {}", story.streams.iter().position(|s| s == stream).unwrap())
        }
        Party::Stream(stream) => format!("stream {}", story.streams.iter().position(|s| s == stream).unwrap()),
        Party::Write(address) => format!("write {address:#x}"),
        Party::Unseen => "unseen".to_owned(),
        Party::Ranks => "ranks".to_owned(),
    };
    let links = links_of(&story.snapshot(), &story.diagnosis().verdicts[0]);
    links.iter().map(|link| format!("{} -> {}", name(&link.from), name(&link.to))).collect()
}

#[test]
fn a_barrier_lies_between_the_thread_and_what_does_not_end() {
    let story = TestTrace::new();
    story.launch(0, 10, "k1").cold(1, 20, "k2").waits(1, 30, "cuCtxSynchronize", None);
    assert_eq!(links(&story), ["thread 1 -> 20 on 1", "20 on 1 -> 10 on 0"]);
}

#[test]
fn of_a_cycle_the_last_link_leads_back() {
    let story = TestTrace::new();
    story.wait(0, 10, 0xa, 1).write(0, 11, 0xb, 1).wait(1, 12, 0xb, 1).write(1, 13, 0xa, 1);
    story.waits(1, 30, SYNC, Some(0));
    assert_eq!(links(&story), ["thread 1 -> 10 on 0", "10 on 0 -> 12 on 1", "12 on 1 -> 10 on 0"]);
}

#[test]
fn events_lead_to_the_value_that_no_operation_writes() {
    let story = TestTrace::new();
    story.wait(0, 10, 0xa, 1).about(0, 11, "cuEventRecord", 0xe1, 0);
    story.about(1, 12, "cuStreamWaitEvent", 0xe1, 0).waits(1, 30, SYNC, Some(1));
    assert_eq!(links(&story), ["thread 1 -> 12 on 1", "12 on 1 -> 10 on 0", "10 on 0 -> write 0xa"]);
}

#[test]
fn threads_that_wait_with_the_first_wait_for_the_same() {
    let story = TestTrace::new().patient(0);
    story.launch(0, 10, "spin").waits(1, 30, SYNC, Some(0)).waits(2, 31, SYNC, Some(0));
    assert_eq!(links(&story), ["thread 1 -> 10 on 0", "thread 2 -> 10 on 0"]);
    let story = TestTrace::new().patient(0);
    story.launch(0, 10, "ncclDevKernel_AllReduce_Sum_f32_RING_LL").waits(1, 30, SYNC, Some(0));
    assert_eq!(links(&story), ["thread 1 -> 10 on 0", "10 on 0 -> ranks"]);
}
