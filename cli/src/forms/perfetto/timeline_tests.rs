use super::*;
use crate::forms::perfetto::operations::ROWS;
use crate::forms::perfetto::test_read_back::{ReadBack, Slice};
use crate::recordings::{about, facts, hazard, launch, preload, submit, wait, write, Job};
use lazyguard_core::trace::Record;

const ARMED: u64 = 77_000_000_000;
const END: u64 = 1_000_000;

fn timeline(job: &Job) -> ReadBack {
    timeline_with(job, &[], &[], 0..=Nanos::MAX)
}

/// The timeline of a recording, calls in progress last, with verdicts from before the records and from after them.
fn timeline_with(job: &Job, before: &[Shown], after: &[Shown], range: RangeInclusive<Nanos>) -> ReadBack {
    let recording = Recording::open(job.bytes(END)).unwrap();
    let mut bytes = Vec::new();
    let mut timeline = Timeline::new(&recording, Symbolizer::default(), &mut bytes).unwrap();
    before.iter().for_each(|shown| timeline.judge(shown.clone()));
    recording.records().for_each(|entry| timeline.see(&entry).unwrap());
    after.iter().for_each(|shown| timeline.judge(shown.clone()));
    for thread in recording.threads() {
        let Some(record) = thread.call_in_progress else { continue };
        let lane = lazyguard_core::trace::Lane::Waits;
        let (thread_number, thread) = (thread.number, thread.thread);
        timeline.see(&Entry { thread_number, thread, lane, number: 0, record }).unwrap();
    }
    let (slices, written) = timeline.finish("was killed", &range).unwrap();
    assert_eq!(written, bytes.len() as u64);
    let read = ReadBack::of(&bytes);
    assert_eq!(read.slices.iter().filter(|slice| !slice.instant).count() as u64, slices);
    read
}

fn spans<'a>(slices: impl Iterator<Item = &'a Slice>) -> Vec<(&'a str, u64, Option<u64>)> {
    slices.map(|s| (s.name.as_str(), s.begin - ARMED, s.end.map(|end| end - ARMED))).collect()
}

#[test]
fn calls_lie_on_their_threads_and_operations_on_their_streams() {
    let job = Job::new();
    let (main, worker) = (job.thread(100, "main"), job.thread(101, "worker"));
    let (one, two) = (job.stream(0x51), job.stream(0x52));
    let (k1, k2) = (job.function("_Z2k1v"), job.function("k2"));
    job.make(main, &launch(one, k1, 100), 5, 0);
    job.make(worker, &launch(two, k2, 200), 5, 0);
    job.make(main, &launch(one, k2, 300), 5, 0);
    job.synchronize(main, one, 400, 50);
    let read = timeline(&job);
    assert_eq!(
        spans(read.of_track("main")),
        [
            ("cuLaunchKernel", 100, Some(105)),
            ("cuLaunchKernel", 300, Some(305)),
            ("cuStreamSynchronize", 400, Some(450))
        ]
    );
    assert_eq!(spans(read.of_track("worker")), [("cuLaunchKernel", 200, Some(205))]);
    assert_eq!(spans(read.of_track("stream 1 (0x51")), [("k1", 100, Some(450)), ("k2", 300, Some(450))]);
    assert_eq!(spans(read.of_track("stream 2 (0x52")), [("k2", 200, None)]);
    let first = read.of_track("stream 1").next().unwrap();
    let fact = |name: &str| first.facts.get(name).map(String::as_str);
    assert_eq!((fact("grid"), fact("block")), (Some("40x2x1"), Some("128x1x1")));
    assert_eq!(fact("submitted by thread"), Some("100"));
    assert!(read.of_track("stream 2").all(|s| s.facts.contains_key("not known to have ended")));
    let expect = [("k1", "cuStreamSynchronize"), ("k2", "cuStreamSynchronize")];
    assert_eq!(read.arrows(), expect.map(|(a, b)| (a.to_owned(), b.to_owned())));
    let last = read.slices.iter().find(|slice| slice.instant).unwrap();
    assert_eq!((last.name.as_str(), last.begin), ("last seen; was killed", ARMED + END));
}

#[test]
fn what_overlaps_lies_in_rows_and_nothing_is_cut_short_but_in_the_last() {
    let job = Job::new();
    let main = job.thread(100, "main");
    let stream = job.stream(0x51);
    let kernels: Vec<_> = (0..20).map(|n| job.function(&format!("k{n}"))).collect();
    for (n, kernel) in kernels.iter().enumerate() {
        job.make(main, &launch(stream, *kernel, 100 + 10 * n as u64), 5, 0);
    }
    job.synchronize(main, stream, 500, 100);
    job.make(main, &launch(stream, kernels[0], 700), 5, 0);
    let read = timeline(&job);
    let all: Vec<_> = read.of_track("stream 1").collect();
    assert_eq!(all.len(), 21);
    for (n, slice) in all.iter().enumerate().take(20) {
        let end = match n {
            0..8 | 19 => 600,
            // In the last row, an operation ends when the next begins.
            _ => 100 + 10 * (n as u64 + 1),
        };
        assert_eq!((slice.begin - ARMED, slice.end), (100 + 10 * n as u64, Some(ARMED + end)), "{slice:?}");
        assert_eq!(slice.facts.contains_key("gives way to the next"), end != 600, "{slice:?}");
    }
    let rows: BTreeSet<_> = all.iter().map(|slice| slice.row).collect();
    assert_eq!((rows.len(), all[20].row), (ROWS + 1, all[0].row));
}

#[test]
fn a_row_is_free_when_the_call_that_told_so_has_returned() {
    let job = Job::new();
    let (main, worker) = (job.thread(100, "main"), job.thread(101, "worker"));
    let stream = job.stream(0x51);
    let k = job.function("k");
    job.make(main, &launch(stream, k, 100), 5, 0);
    job.synchronize(main, stream, 200, 300);
    job.make(worker, &launch(stream, k, 250), 5, 0); // while the other thread waits
    job.make(worker, &launch(stream, k, 600), 5, 0);
    let read = timeline(&job);
    let all: Vec<_> = read.of_track("stream 1").collect();
    assert_eq!(spans(all.iter().copied()), [("k", 100, Some(500)), ("k", 250, None), ("k", 600, None)]);
    assert_ne!(all[0].row, all[1].row);
    assert_eq!(all[0].row, all[2].row);
}

#[test]
fn arrows_join_waits_writes_events_and_synchronizes() {
    let job = Job::new();
    let main = job.thread(100, "main");
    let (one, two) = (job.stream(0x51), job.stream(0x52));
    let event = |record: Record| about(0xe, record);
    job.make(main, &wait(one, 0xf1a6, 1, 100), 5, 0);
    job.make(main, &write(two, 0xf1a6, 7, 110), 5, 0); // does not satisfy it
    job.make(main, &write(two, 0xf1a6, 1, 120), 5, 0);
    job.make(main, &wait(one, 0xf1a6, 1, 130), 5, 0); // is satisfied by what is there
    job.make(main, &event(submit("cuEventRecord", two, 140)), 5, 0);
    job.make(main, &event(submit("cuStreamWaitEvent", one, 150)), 5, 0);
    job.make(main, &event(facts("cuEventSynchronize", 160)), 40, 0);
    job.make(main, &facts("cuCtxSynchronize", 300), 40, 0);
    let read = timeline(&job);
    let arrows: BTreeSet<_> = read.arrows().into_iter().collect();
    let expect = [
        ("cuEventRecord", "cuEventSynchronize"),
        ("cuEventRecord", "cuStreamWaitEvent"),
        ("cuStreamWaitEvent", "cuCtxSynchronize"),
        ("cuStreamWaitValue32", "cuCtxSynchronize"),
        ("cuStreamWaitValue32", "cuStreamWriteValue32"),
        ("cuStreamWriteValue32", "cuStreamWaitValue32"),
    ];
    assert_eq!(arrows, expect.map(|(a, b)| (a.to_owned(), b.to_owned())).into());
    // The event covers the stream it was recorded on up to its own record; the context covers the rest.
    let ends: Vec<_> = spans(read.of_track("stream 2")).into_iter().map(|(_, _, end)| end).collect();
    assert_eq!(ends, [Some(200); 3]);
    assert!(spans(read.of_track("stream 1")).iter().all(|(_, _, end)| *end == Some(340)));
}

#[test]
fn a_value_that_ends_no_wait_has_no_arrow() {
    let job = Job::new();
    let main = job.thread(100, "main");
    let (one, two) = (job.stream(0x51), job.stream(0x52));
    job.make(main, &write(two, 0xf1a6, 1, 100), 5, 0);
    job.make(main, &wait(one, 0xf1a6, 2, 110), 5, 0);
    job.make(main, &write(two, 0xf1a6, 3, 120), 5, 0);
    job.make(main, &write(two, 0xbeef, 2, 130), 5, 0);
    assert_eq!(timeline(&job).arrows(), []);
}

#[test]
fn an_event_that_a_graph_may_have_recorded_tells_nothing() {
    let event = |record: Record| about(0xe, record);
    for (graph, end) in [(false, Some(205)), (true, None)] {
        let job = Job::new();
        let main = job.thread(100, "main");
        let (one, two) = (job.stream(0x51), job.stream(0x52));
        job.make(main, &event(submit("cuEventRecord", one, 100)), 5, 0);
        if graph {
            job.make(main, &submit("cuGraphLaunch", two, 150), 5, 0);
        }
        job.make(main, &event(Record { stream: one, ..facts("cuEventQuery", 200) }), 5, 0);
        assert_eq!(spans(timeline(&job).of_track("stream 1")), [("cuEventRecord", 100, end)]);
    }
}

#[test]
fn only_success_tells_that_something_has_ended() {
    let job = Job::new();
    let main = job.thread(100, "main");
    let stream = job.stream(0x51);
    let k = job.function("k");
    let query = |at| Record { stream, ..facts("cuStreamQuery", at) };
    job.make(main, &launch(stream, k, 100), 5, 0);
    job.make(main, &query(200), 5, 600);
    job.make(main, &query(300), 5, 600);
    job.make(main, &query(400), 5, 0);
    job.make(main, &launch(stream, k, 500), 5, 719); // refused: nothing was submitted
    let read = timeline(&job);
    assert_eq!(spans(read.of_track("stream 1")), [("k", 100, Some(405))]);
    let queries: Vec<_> = read.of_track("main").filter(|s| s.category == "query").collect();
    let polled = queries[0].facts.get("queries").map(String::as_str);
    assert_eq!((queries.len(), polled, queries[0].end), (2, Some("2"), Some(ARMED + 305)));
    let refused = read.of_track("main").find(|s| s.facts.get("result").is_some_and(|r| r == "719"));
    assert!(refused.is_some());
}

#[test]
fn calls_in_progress_and_what_they_wait_for_have_no_end() {
    let job = Job::new();
    let main = job.thread(100, "main");
    let stream = job.stream(0x51);
    let k = job.function("spin");
    job.make(main, &launch(stream, k, 100), 5, 0);
    job.hold(main, &Record { stream, ..facts("cuStreamSynchronize", 200) });
    let read = timeline(&job);
    assert_eq!(spans(read.of_track("stream 1")), [("spin", 100, None)]);
    assert_eq!(spans(read.of_track("main"))[1], ("cuStreamSynchronize", 200, None));
    assert_eq!(read.arrows(), [("spin".to_owned(), "cuStreamSynchronize".to_owned())]);
}

/// A kernel that does not end, and a thread that waits for it.
fn hung() -> (Job, Shown) {
    let job = Job::new();
    let main = job.thread(100, "main");
    let stream = job.stream(0x51);
    let k = job.function("spin");
    job.make(main, &launch(stream, k, 50), 5, 0);
    job.make(main, &launch(stream, k, 100), 5, 0);
    job.hold(main, &Record { stream, ..facts("cuStreamSynchronize", 200) });
    let facts = [("fix", "Change it."), ("chain 1", "one"), ("chain 2", "two")];
    let shown = Shown {
        name: "LG299: blocked".to_owned(),
        from: 100,
        until: None,
        facts: facts.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
        culprits: vec![(stream, 100)],
        blocked: vec![(100, 200)],
    };
    (job, shown)
}

#[test]
fn a_verdict_has_a_track_and_arrows_to_what_it_is_about() {
    let (job, shown) = hung();
    for (before, after) in [(vec![shown.clone()], vec![]), (vec![], vec![shown.clone()])] {
        let read = timeline_with(&job, &before, &after, 0..=Nanos::MAX);
        let all: Vec<_> = read.of_track("LazyGuard verdict").collect();
        assert_eq!(spans(all.iter().copied()), [("LG299: blocked", 100, Some(END))]);
        let told: Vec<_> = all[0].facts.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(told, [("chain 1", "one"), ("chain 2", "two"), ("fix", "Change it.")]);
        assert_eq!(all[0].category, "verdict");
        let of_it = |slice: &&Slice| slice.flows.iter().any(|flow| all[0].flows.contains(flow));
        let tied: Vec<_> = read.slices.iter().filter(of_it).map(|s| (s.name.as_str(), s.begin - ARMED)).collect();
        // The second launch's operation, and not the first one's.
        assert_eq!(tied, [("spin", 100), ("LG299: blocked", 100), ("cuStreamSynchronize", 200)]);
    }
}

#[test]
fn a_verdict_about_what_is_not_recorded_has_no_arrows_and_stays() {
    let (job, shown) = hung();
    let gone = Shown { culprits: vec![(7, 100)], blocked: vec![(999, 200)], ..shown };
    let read = timeline_with(&job, std::slice::from_ref(&gone), &[], 0..=Nanos::MAX);
    let all: Vec<_> = read.of_track("LazyGuard verdict").collect();
    assert_eq!((all.len(), all[0].flows.len()), (1, 0));
}

#[test]
fn verdicts_have_rows_of_their_own_end_when_they_are_over_and_keep_to_the_range() {
    let (job, shown) = hung();
    let over = Shown { until: Some(700), ..shown.clone() };
    let read = timeline_with(&job, &[over.clone(), shown.clone()], &[], 0..=Nanos::MAX);
    let all: Vec<_> = read.of_track("LazyGuard verdict").collect();
    assert_eq!(all.iter().map(|s| s.end.unwrap() - ARMED).collect::<Vec<_>>(), [700, END]);
    assert_ne!(all[0].row, all[1].row);
    assert!(all[0].facts.contains_key("over since") && !all[1].facts.contains_key("over since"));
    for (range, expect) in [(800..=900, vec![(800, 900)]), (300..=500, vec![(300, 500); 2]), (0..=99, vec![])] {
        let read = timeline_with(&job, &[over.clone(), shown.clone()], &[], range);
        let all: Vec<_> =
            read.of_track("LazyGuard verdict").map(|s| (s.begin - ARMED, s.end.unwrap() - ARMED)).collect();
        assert_eq!(all, expect);
    }
}

#[test]
fn hazards_are_instants_and_loads_ahead_of_use_have_a_track_of_their_own() {
    let job = Job::new();
    let main = job.thread(100, "main");
    let k = job.function("spin");
    let hazard = hazard(101, 1, k, launch(1, 0, 100));
    job.note(main, &Record { returned: 101, ..hazard });
    let preload = preload(12, 3, 0, 0, facts("cuDevicePrimaryCtxRetain", 200));
    job.note(main, &Record { returned: 900, ..preload });
    let read = timeline(&job);
    let hazard = read.slices.iter().find(|slice| slice.category == "hazard").unwrap();
    assert_eq!((hazard.name.as_str(), hazard.instant), ("hazard LG101", true));
    assert_eq!(hazard.facts.get("in flight").map(String::as_str), Some("spin"));
    assert_eq!(spans(read.of_track("guard in thread 100")), [("preload", 200, Some(900))]);
}

#[test]
fn a_stream_number_used_again_begins_another_track() {
    let job = Job::new();
    let main = job.thread(100, "main");
    let k = job.function("k");
    let first = job.stream(0x51);
    job.make(main, &launch(first, k, 100), 5, 0);
    job.synchronize(main, first, 150, 10);
    job.tracker.stream_gone(lazyguard_core::state::StreamKey { handle: 0x51, context: 0, thread: 0 });
    let key = lazyguard_core::state::StreamKey { handle: 0x99, context: 0, thread: 0 };
    let kind = lazyguard_core::state::StreamKind::Blocking;
    assert_eq!(job.tracker.stream(key, job.context, kind, 200), first);
    job.make(main, &launch(first, k, 300), 5, 0);
    let read = timeline(&job);
    assert_eq!(spans(read.of_track("stream 1 (0x51, non-blocking)")), [("k", 100, Some(160))]);
    assert_eq!(spans(read.of_track("stream 1 (0x99, blocking)")), [("k", 300, None)]);
}
