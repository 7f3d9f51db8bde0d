//! Hazards of recordings by what the records prove of the work in flight.

use super::collect;
use super::judged::{Judged, Rules};
use super::test_samples::Scratch;
use crate::recordings::{ended_process, facts, hazard, launch, submit, wait, Job, SMALL};
use lazyguard_core::diagnose::Confidence;
use lazyguard_core::trace::{Kind, ProcessFacts, RawPayload, Record};

const MS: u64 = 1_000_000;
const BEGIN: u64 = 1_000 * MS;

struct Story {
    job: Job,
    main: u32,
    streams: [u32; 2],
}

impl Story {
    fn new() -> Self {
        Self::of_rank("")
    }

    fn of_rank(rank: &str) -> Self {
        let job = Job::of(SMALL, &ProcessFacts { rank: rank.to_owned(), ..ended_process() });
        let main = job.thread(100, "main");
        let streams = [job.stream(0x51), job.stream(0x52)];
        Self { job, main, streams }
    }

    fn launch(&self, stream: usize, name: &str, at: u64) -> &Self {
        let function = self.job.function(name);
        self.job.make(self.main, &launch(self.streams[stream], function, BEGIN + at), 1_000, 0);
        self
    }

    /// A first use on the second stream, beside work on the first.
    fn first_use(&self, name: &str, at: u64) -> &Self {
        let function = self.job.function(name);
        let call = launch(self.streams[1], function, BEGIN + at);
        let context = self.job.context as u16;
        let noted = Record { context, ..hazard(101, self.streams[0], 0, Record { kind: Kind::Hazard, ..call }) };
        self.job.note(self.main, &Record { function, returned: BEGIN + at + 500, ..noted });
        self.job.make(self.main, &Record { kind: Kind::ColdFunction, ..call }, 1_000, 0);
        self
    }

    /// A thread that may act, since it stands in no call.
    fn beside_another_thread(&self) -> u32 {
        let function = self.job.function("earlier");
        let other = self.job.thread(101, "other");
        self.job.make(other, &launch(self.job.stream(0x53), function, BEGIN - MS), 1_000, 0);
        other
    }

    fn synchronize(&self, stream: usize, at: u64, took: u64) -> &Self {
        self.job.synchronize(self.main, self.streams[stream], BEGIN + at, took);
        self
    }

    fn judged(&self) -> Judged {
        let scratch = Scratch::new("weighed");
        self.job.ended();
        scratch.file("root/rank0-1/trace.lgt", self.job.bytes(100 * BEGIN));
        let (processes, unreadable) = collect::under(&scratch.path("root"));
        assert_eq!(unreadable, [""; 0]);
        assert!(processes.iter().all(|process| process.problems.is_empty()), "{:?}", processes[0].problems);
        Rules { fail_on: "hazard".parse().unwrap(), ..Rules::default() }.judge(&processes)
    }

    /// The confidence of its one hazard, and the reason; nothing where it is refuted.
    fn weighed(&self) -> Option<(Confidence, String)> {
        let judged = self.judged();
        assert!(judged.hazards.len() <= 1);
        let finding = judged.hazards.first()?;
        assert_eq!(finding.fails, finding.hazard.confidence >= Confidence::Likely);
        Some((finding.hazard.confidence, finding.hazard.because.clone()))
    }
}

fn likely(because: &str) -> Option<(Confidence, String)> {
    Some((Confidence::Likely, because.to_owned()))
}

#[test]
fn beside_a_kernel_of_which_nothing_is_known_it_is_possible_and_fails_nothing() {
    let story = Story::new();
    story.launch(0, "elementwise", 0).first_use("k", MS).launch(0, "other", 2 * MS);
    story.synchronize(0, 3 * MS, MS).synchronize(1, 5 * MS, MS);
    assert_eq!(story.weighed(), Some((Confidence::Possible, String::new())));
    assert_eq!(story.judged().possible(), (1, 0));
    assert!(story.judged().by_cause().is_empty());
}

#[test]
fn work_that_ended_before_the_next_submission_refutes_it() {
    for (next, expect) in [(4, None), (2, Some((Confidence::Possible, String::new())))] {
        let story = Story::new();
        story.launch(0, "elementwise", 0).first_use("k", MS);
        if next == 2 {
            story.launch(1, "other", 2 * MS);
        }
        story.synchronize(0, 3 * MS, MS / 2);
        if next == 4 {
            story.launch(1, "other", 4 * MS);
        }
        assert_eq!(story.weighed(), expect, "{next}");
    }
}

#[test]
fn work_that_lasts_makes_it_likely_also_under_the_same_name_elsewhere() {
    let story = Story::new();
    story.beside_another_thread();
    story.launch(0, "spin", 0).first_use("k", MS).synchronize(0, 2 * MS, 400 * MS);
    assert_eq!(story.weighed(), likely("kernel spin was waited for 400 ms"));
    // As long, but many kernels.
    let story = Story::new();
    (0..10).for_each(|n| _ = story.launch(0, "spin", n * 1_000));
    story.first_use("k", MS).launch(1, "other", 2 * MS).synchronize(0, 3 * MS, 400 * MS);
    assert_eq!(story.weighed(), Some((Confidence::Possible, String::new())));
    let story = Story::new();
    story.beside_another_thread();
    story.launch(0, "spin", 0).synchronize(0, MS, 400 * MS);
    story.launch(0, "spin", 500 * MS).first_use("k", 501 * MS).launch(1, "other", 502 * MS).synchronize(
        0,
        503 * MS,
        MS,
    );
    assert_eq!(story.weighed(), likely("spin lasted 100 ms or longer elsewhere in this run"));
}

#[test]
fn work_that_lasts_and_ends_while_every_thread_stands_is_possible() {
    let story = Story::new();
    story.launch(0, "spin", 0).first_use("k", MS).synchronize(0, 2 * MS, 400 * MS);
    assert_eq!(story.weighed(), Some((Confidence::Possible, String::new())));
    // The same name elsewhere, where nothing was submitted behind it, says no more.
    let story = Story::new();
    story.launch(0, "spin", 0).synchronize(0, MS, 400 * MS);
    story.launch(0, "spin", 500 * MS).first_use("k", 501 * MS).launch(1, "other", 502 * MS);
    story.synchronize(0, 503 * MS, MS);
    assert_eq!(story.weighed(), Some((Confidence::Possible, String::new())));
    // A thread that has ended acts no more.
    let story = Story::new();
    story.job.tracker.end_thread(story.beside_another_thread(), BEGIN);
    story.launch(0, "spin", 0).first_use("k", MS).synchronize(0, 2 * MS, 400 * MS);
    assert_eq!(story.weighed(), Some((Confidence::Possible, String::new())));
    // Another rank may have ended it.
    let story = Story::of_rank("3");
    story.launch(0, "spin", 0).first_use("k", MS).synchronize(0, 2 * MS, 400 * MS);
    assert_eq!(story.weighed(), likely("kernel spin was waited for 400 ms"));
    // A thread acts, so that it may have ended it.
    let story = Story::new();
    story.launch(0, "spin", 0).first_use("k", MS).synchronize(0, 2 * MS, 400 * MS);
    let other = story.job.thread(101, "other");
    story.job.make(other, &submit("cuEventRecord", story.job.stream(0x53), BEGIN + 350 * MS), 1_000, 0);
    assert_eq!(story.weighed().map(|(confidence, _)| confidence), Some(Confidence::Likely));
}

#[test]
fn work_that_a_submission_ended_after_a_silence_makes_it_likely() {
    for (ended, expect) in [(41, likely("spin stood for 38 ms, and ended when cuLaunchKernel was called")), (60, None)]
    {
        let story = Story::new();
        story.launch(0, "spin", 0).first_use("k", MS);
        let other = story.job.thread(101, "other");
        story.synchronize(0, 2 * MS, (ended - 2) * MS);
        let function = story.job.function("release");
        story.job.make(other, &launch(story.streams[1], function, BEGIN + 40 * MS), 1_000, 0);
        assert_eq!(story.weighed().filter(|(confidence, _)| *confidence == Confidence::Likely), expect, "{ended}");
    }
}

#[test]
fn a_wait_for_a_value_makes_it_likely_unless_it_is_satisfied() {
    for (is_written, expect) in [
        (false, likely("cuStreamWaitValue32 on stream 1 waits for a value that nothing submitted by then writes")),
        (true, Some((Confidence::Possible, String::new()))),
    ] {
        let story = Story::new();
        let [waiting, writing] = story.streams;
        if is_written {
            let raw = RawPayload::memory_operation(0x100, 7, 0);
            let write = Record { raw, ..submit("cuStreamWriteValue32_v2", writing, BEGIN) };
            story.job.make(story.main, &write, 100, 0);
        }
        story.job.make(story.main, &wait(waiting, 0x100, 7, BEGIN + MS), 100, 0);
        story.first_use("k", 2 * MS).launch(1, "other", 3 * MS);
        assert_eq!(story.weighed(), expect, "{is_written}");
    }
}

#[test]
fn a_wait_that_ended_beside_a_first_use_waited_for_no_later_work() {
    for (writes_later, expect) in [(false, Confidence::Possible), (true, Confidence::Likely)] {
        let story = Story::new();
        let [waiting, writing] = story.streams;
        story.job.make(story.main, &wait(waiting, 0x100, 7, BEGIN + MS), 100, 0);
        story.first_use("k", 2 * MS).launch(1, "other", 3 * MS);
        if writes_later {
            let raw = RawPayload::memory_operation(0x100, 7, 0);
            let write = Record { raw, ..submit("cuStreamWriteValue32_v2", writing, BEGIN + 4 * MS) };
            story.job.make(story.main, &write, 100, 0);
        }
        story.synchronize(0, 5 * MS, MS).synchronize(1, 7 * MS, MS);
        assert_eq!(story.weighed().map(|(confidence, _)| confidence), Some(expect), "{writes_later}");
    }
}

#[test]
fn many_first_uses_beside_a_collective_are_one_cause() {
    let story = Story::new();
    story.launch(0, "ncclDevKernel_AllReduce_Sum_f32", 0);
    (0..20).for_each(|n| _ = story.first_use(&format!("k{n}"), MS + n * 10_000));
    let judged = story.judged();
    let causes = judged.by_cause();
    assert_eq!((judged.hazards.len(), causes.len()), (20, 1));
    let line = crate::forms::text::of_cause(&causes[0]);
    assert_eq!(
        line[0],
        "hazard LG101: 20 first uses beside ncclDevKernel_AllReduce_Sum_f32, 20 times: a cold function was loaded while other \
         work was in flight"
    );
    let keys = line.iter().filter(|line| line.starts_with("    - LG101|k")).count();
    assert_eq!(keys, 20, "{line:#?}");
    assert!(causes[0].iter().all(|finding| finding.fails));
}

#[test]
fn a_collective_on_the_only_communicator_of_a_process_is_no_reason_whatever_ranks_of_it_are_there() {
    for (ids, expect) in [
        (&[7][..], Confidence::Possible),
        (&[7, 7], Confidence::Possible),
        (&[7, 8], Confidence::Likely),
        (&[0, 0], Confidence::Likely),
    ] {
        let story = Story::new();
        let communicators = story.job.tracker.communicators();
        for (rank, id) in (0..).zip(ids) {
            let one = communicators.begin(*id, 1).unwrap();
            one.set_rank(rank, 2);
            communicators.made(one, 0x100 + u64::from(rank), 2);
        }
        story.launch(0, "ncclDevKernel_Broadcast_RING_LL", 0).first_use("k", MS);
        assert_eq!(story.weighed().map(|(confidence, _)| confidence), Some(expect), "{ids:?}");
    }
}

#[test]
fn an_event_wait_behind_a_collective_can_wait_as_it_can() {
    let story = Story::new();
    let [one, two] = story.streams;
    let own = story.job.stream(0x53);
    story.launch(0, "ncclDevKernel_AllReduce_Sum_f32", 0);
    let event = |call: &str, stream, at| {
        let record = Record { stream, ..submit(call, stream, BEGIN + at) };
        crate::recordings::about(0xe, record)
    };
    story.job.make(story.main, &event("cuEventRecord", one, 1_000), 100, 0);
    story.job.make(story.main, &event("cuStreamWaitEvent", two, 2_000), 100, 0);
    let copy = Record { stream: two, ..facts("cuMemcpyDtoHAsync_v2", BEGIN + MS) };
    let noted = Record { context: story.job.context as u16, ..hazard(105, two, 0, copy) };
    story.job.note(story.main, &Record { returned: BEGIN + 3 * MS, ..noted });
    story.job.make(story.job.thread(101, "other"), &launch(own, story.job.function("k"), BEGIN + 2 * MS), 100, 0);
    assert_eq!(story.weighed(), likely("kernel ncclDevKernel_AllReduce_Sum_f32 on stream 1 waits for its peers"));
}
