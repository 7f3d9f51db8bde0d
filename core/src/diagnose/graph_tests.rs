//! Launches of graphs: what their nodes wait for, the stream waits for.

use super::test_trace::{TestTrace, SECOND};
use super::{Code, Confidence, ThreadActivity};
use crate::api::{GraphContents, GraphPart, NodeKind};
use crate::trace::{Kind, Lane, RawPayload, Record};

const GRAPH: u64 = 0x6a00;
const WORD: u64 = 0xf1a8;
const ALL_REDUCE: &str = "ncclDevKernel_AllReduce_Sum_f32_RING_LL";

impl TestTrace {
    /// An executable graph does this from then on.
    fn graph(&self, at: u64, parts: &[GraphPart]) -> &Self {
        let mut contents = GraphContents { nodes: parts.len() as u32, ..GraphContents::default() };
        parts.iter().for_each(|part| contents.add(*part));
        self.tracker.graph_is(GRAPH, contents, at);
        self
    }

    fn launch_graph(&self, stream: usize, at: u64) -> &Self {
        self.about(stream, at, "cuGraphLaunch", GRAPH, 0)
    }

    fn kernel(&self, name: &str) -> GraphPart {
        GraphPart::about(NodeKind::Kernel, self.function(name).into())
    }

    fn chain(&self) -> Vec<String> {
        self.diagnosis().verdicts.first().map(|verdict| verdict.chain.clone()).unwrap_or_default()
    }
}

fn value(kind: NodeKind, value: u64) -> GraphPart {
    GraphPart { value, ..GraphPart::about(kind, WORD) }
}

#[test]
fn a_graph_that_runs_is_told_with_what_it_holds() {
    let story = TestTrace::new();
    let parts = [story.kernel("k1"), story.kernel("k2"), GraphPart::of(NodeKind::Copy)];
    story.graph(5, &parts).launch_graph(0, 10).waits(1, 20, "cuStreamSynchronize", Some(0));
    story.check(&[(Code::LG299, "cuGraphLaunch")]);
    let chain = story.chain();
    assert!(chain.iter().any(|line| line == "that graph has 3 nodes: 2 kernels (k1, k2), 1 copy"), "{chain:#?}");
}

#[test]
fn a_conditional_node_is_named_with_what_ends_it() {
    let story = TestTrace::new();
    let parts = [story.kernel("k1"), GraphPart::of(NodeKind::Conditional)];
    story.graph(5, &parts).launch_graph(0, 10).waits(1, 20, "cuStreamSynchronize", Some(0));
    story.check(&[(Code::LG299, "cuGraphLaunch")]);
    let verdict = &story.diagnosis().verdicts[0];
    let named = "it waits for the graph of 2 nodes with a conditional node on stream 1";
    assert!(verdict.sentence.contains(named), "{verdict:#?}");
    assert!(verdict.fix.contains("cudaGraphSetConditional"), "{verdict:#?}");
}

#[test]
fn a_collective_in_a_graph_waits_for_other_ranks() {
    let story = TestTrace::new();
    let parts = [story.kernel("k1"), story.kernel(ALL_REDUCE)];
    story.launch(0, 8, "k0").graph(9, &parts).launch_graph(0, 10).waits(1, 20, "cuStreamSynchronize", Some(0));
    story.check(&[(Code::LG208, "cuGraphLaunch")]);
    let verdict = &story.diagnosis().verdicts[0];
    assert!(
        verdict.sentence.contains(&format!("it waits for the graph with {ALL_REDUCE} on stream 1")),
        "{verdict:#?}"
    );
    assert!(verdict.fix.contains(&format!("has not launched this {ALL_REDUCE}")), "{verdict:#?}");
}

#[test]
fn the_newest_list_under_a_handle_counts_that_is_older_than_the_launch() {
    let story = TestTrace::new();
    let (collective, plain) = ([story.kernel(ALL_REDUCE)], [story.kernel("k1")]);
    story.graph(5, &collective).graph(7, &plain).launch_graph(0, 10).graph(12, &collective);
    story.waits(1, 20, "cuStreamSynchronize", Some(0)).check(&[(Code::LG299, "cuGraphLaunch")]);
}

#[test]
fn a_node_that_waits_for_a_value_waits_for_its_writer() {
    let waits = [value(NodeKind::ValueWait, 1)];
    let story = TestTrace::new();
    story.graph(5, &waits).launch_graph(0, 10).waits(1, 20, "cuStreamSynchronize", Some(0));
    story.check(&[(Code::LG203, "cuGraphLaunch")]);
    // The graph may also be at a kernel of its own.
    let story = TestTrace::new();
    let waits_and_runs = [waits[0], story.kernel("k1")];
    story.graph(5, &waits_and_runs).launch_graph(0, 7 * SECOND).waits(
        1,
        7 * SECOND + 5,
        "cuStreamSynchronize",
        Some(0),
    );
    story.check_slow("be at what comes behind it");
    // A node of another graph writes it, behind a kernel.
    let story = TestTrace::new();
    story.graph(5, &waits).launch_graph(0, 10).graph(15, &[value(NodeKind::ValueWrite, 1)]);
    story.launch(1, 18, "spin").launch_graph(1, 20).waits(1, 30, "cuStreamSynchronize", Some(0));
    story.check(&[(Code::LG299, "spin")]);
    // The same graph writes it: in which order is not known.
    let story = TestTrace::new();
    let both = [waits[0], value(NodeKind::ValueWrite, 1)];
    story.graph(5, &both).launch_graph(0, 10).waits(1, 20, "cuStreamSynchronize", Some(0));
    story.check(&[(Code::LG299, "cuGraphLaunch")]);
}

#[test]
fn a_node_that_waits_for_an_event_waits_for_what_comes_before_it() {
    let story = TestTrace::new();
    story.wait(0, 10, WORD, 1).about(0, 12, "cuEventRecord", 0xe, 0);
    story.graph(15, &[GraphPart::about(NodeKind::EventWait, 0xe)]).launch_graph(1, 20);
    story.waits(1, 30, "cuStreamSynchronize", Some(1)).check(&[(Code::LG203, "cuStreamWaitValue32_v2")]);
}

#[test]
fn a_wait_for_an_event_that_a_graph_records_is_a_wait_for_the_graph() {
    let story = TestTrace::new();
    story.wait(0, 10, WORD, 1).about(0, 12, "cuEventRecord", 0xe, 0);
    let parts = [story.kernel("spin"), GraphPart::about(NodeKind::EventRecord, 0xe)];
    story.graph(15, &parts).launch_graph(1, 20).about(2, 25, "cuStreamWaitEvent", 0xe, 0);
    story.launch(2, 28, "k").waits(1, 30, "cuStreamSynchronize", Some(2));
    story.check(&[(Code::LG299, "cuGraphLaunch")]);
}

#[test]
fn a_launch_of_a_graph_waits_for_its_launch_before_on_another_stream() {
    let story = TestTrace::new();
    story.graph(5, &[story.kernel("k1")]).launch(0, 8, "spin").launch_graph(0, 10).launch_graph(1, 20);
    story.waits(1, 30, "cuStreamSynchronize", Some(1)).check(&[(Code::LG299, "spin")]);
    let chain = story.chain().join("\n");
    assert!(
        chain.contains("cuGraphLaunch on stream 2 at ") && chain.contains("waits for its graph's launch before"),
        "{chain}"
    );
    // The earlier launch has ended, another waits for nothing, and a later one holds up none.
    let story = TestTrace::new();
    story.graph(5, &[story.kernel("k1")]).launch_graph(0, 10).idle(0, 12).launch_graph(1, 20);
    story.launch(0, 22, "spin").launch_graph(0, 25);
    story.waits(1, 30, "cuStreamSynchronize", Some(1)).check(&[(Code::LG299, "cuGraphLaunch")]);
    assert!(!story.chain().join("\n").contains("launch before"), "{:#?}", story.chain());
}

#[test]
fn after_a_single_change_the_waits_of_a_graph_are_not_known() {
    let story = TestTrace::new();
    story.graph(5, &[value(NodeKind::ValueWait, 1)]);
    story.tracker.graph_node_is(GRAPH, GraphPart::of(NodeKind::Other), 7);
    story.launch_graph(0, 10).waits(1, 20, "cuStreamSynchronize", Some(0));
    story.check(&[(Code::LG299, "cuGraphLaunch")]);
    assert!(story.chain().iter().any(|line| line.contains("single nodes of it were changed")), "{:#?}", story.chain());
}

#[test]
fn a_host_function_that_a_graph_has_called_holds_up_the_graphs_stream() {
    let story = TestTrace::new();
    let parts = [story.kernel("k1"), GraphPart::about(NodeKind::HostFunction, 0xf00)];
    story.graph(5, &parts).launch_graph(0, 10).waits(1, 20, "cuStreamSynchronize", Some(0));
    let driver = story.tracker.thread(TestTrace::begin_thread(&story.tracker, 9)).unwrap();
    let call = |kind, at| Record {
        kind,
        raw: RawPayload::host_call(0xf00, 0),
        returned: at,
        ..story.facts("cuGraphAddHostNode", at, None)
    };
    // The first call has returned.
    driver.push(&call(Kind::HostBegins, 15), Lane::Waits);
    driver.push(&call(Kind::HostEnds, 16), Lane::Waits);
    story.check(&[(Code::LG299, "cuGraphLaunch")]);
    driver.push(&call(Kind::HostBegins, 18), Lane::Waits);
    story.thread_does(9, ThreadActivity::Waiting).check(&[(Code::LG207, "cuGraphLaunch")]);
}

/// Graphs on two streams, launched one after the other, which call one host function; it has been called at these times, and has returned from
/// all calls but the last.
fn two_graphs(calls: &[u64], waits_on: usize) -> TestTrace {
    let story = TestTrace::new();
    let parts = [story.kernel("k1"), GraphPart::about(NodeKind::HostFunction, 0xf00)];
    story.graph(5, &parts).launch_graph(0, 10).launch_graph(1, 12);
    let driver = story.tracker.thread(TestTrace::begin_thread(&story.tracker, 9)).unwrap();
    let call = |kind, at| Record {
        kind,
        raw: RawPayload::host_call(0xf00, 0),
        returned: at,
        ..story.facts("cuGraphAddHostNode", at, None)
    };
    for (number, at) in calls.iter().enumerate() {
        driver.push(&call(Kind::HostBegins, *at), Lane::Waits);
        if number + 1 < calls.len() {
            driver.push(&call(Kind::HostEnds, *at + 1), Lane::Waits);
        }
    }
    story.waits(1, 30, "cuStreamSynchronize", Some(waits_on)).thread_does(9, ThreadActivity::Waiting);
    story
}

#[test]
fn a_call_of_a_function_in_two_graphs_is_the_one_that_is_still_to_come() {
    let named = |story: &TestTrace| {
        story.check(&[(Code::LG207, "cuGraphLaunch")]);
        let verdict = story.diagnosis().verdicts.remove(0);
        (verdict.culprits[0].stream.number, verdict.confidence)
    };
    // The first call is the first graph's, the second the other one's.
    for (calls, is_first) in [(&[15][..], true), (&[15, 20], false)] {
        let (first, second) = (two_graphs(calls, 0), two_graphs(calls, 1));
        let likely = |is_likely: bool| if is_likely { Confidence::Likely } else { Confidence::Possible };
        assert_eq!(named(&first), (first.streams[0], likely(is_first)));
        assert_eq!(named(&second), (second.streams[1], likely(!is_first)));
    }
    let chain = two_graphs(&[15, 20], 0).chain();
    assert!(
        chain.iter().any(|line| line.contains("or another stream whose graph calls the same function")),
        "{chain:#?}"
    );
    let chain = two_graphs(&[15, 20], 1).chain();
    assert!(chain.iter().any(|line| line.starts_with("stream 2 called the host function")), "{chain:#?}");
}

#[test]
fn a_call_that_may_be_another_graphs_is_no_hang_before_the_patience_is_over() {
    let story = two_graphs(&[15, 20], 0).patient(20 * SECOND);
    story.check_slow("may have made that call");
    let story = two_graphs(&[15, 20], 1).patient(20 * SECOND);
    story.check(&[(Code::LG207, "cuGraphLaunch")]);
}
