//! Grids that start as a whole beside a collective.

use super::super::test_trace::TestTrace;
use crate::api::Code;
use crate::trace::layout::flag;
use crate::trace::{Kind, LaunchKey, RawPayload, Record};

const BLOCKS: u32 = 132;

/// A kernel runs on one stream, then a grid is launched on another, of as many blocks as the device holds or of fewer, and waited for.
fn grid_behind(kernel: &str, at_once: bool, resident: u64) -> TestTrace {
    let story = TestTrace::new();
    story.launch(0, 10, kernel);
    let function = story.function("dispatch");
    let (raw, _) = RawPayload::launch([BLOCKS, 1, 1], [64, 1, 1], 0);
    let launch = story.submit(1, 20, "cuLaunchCooperativeKernel");
    let flags = launch.flags | if at_once { flag::AT_ONCE } else { 0 };
    story.call(&Record { function, raw, flags, ..launch }, 0).waits(1, 30, "cuStreamSynchronize", Some(1));
    let (function, raw) =
        (function, RawPayload::resident(LaunchKey { function, block: [64, 1, 1], shared_or_owner: 0 }, resident));
    story.seen(Record { kind: Kind::Seen, function, raw, ..story.facts("cuLaunchKernel", 0, None) });
    story
}

#[test]
fn a_grid_that_needs_the_whole_device_at_once_waits_for_the_collective_that_runs() {
    let story = grid_behind("ncclDevKernel_AllReduce_Sum", true, BLOCKS.into());
    story.check(&[(Code::LG208, "ncclDevKernel_AllReduce_Sum")]);
    let chain = story.diagnosis().verdicts[0].chain.join("\n");
    assert!(
        chain.contains("kernel dispatch on stream 2 starts only when the device has room for all its blocks at once"),
        "{chain}"
    );
}

#[test]
fn a_smaller_grid_and_one_that_may_start_in_part_wait_for_no_other_kernel() {
    grid_behind("ncclDevKernel_AllReduce_Sum", true, 264).check(&[(Code::LG299, "dispatch")]);
    grid_behind("ncclDevKernel_AllReduce_Sum", false, BLOCKS.into()).check(&[(Code::LG299, "dispatch")]);
    grid_behind("spin", true, BLOCKS.into()).check(&[(Code::LG299, "dispatch")]);
}
