//! A short run, recorded by the writer.

use lazyguard_core::api::EntryPoint;
use lazyguard_core::state::{
    begin_fast, Caller, FastSubmission, FunctionKind, Known, StreamKey, StreamKind, SubmissionFacts, Tracker,
};
use lazyguard_core::trace::layout::Shape;
use lazyguard_core::trace::read::Source;
use lazyguard_core::trace::{Communication, Kind, Lane, ProcessFacts, RawPayload, Record, Recorder, StartFacts};
use std::sync::atomic::AtomicU64;

/// A tracker over a new recording of this shape.
pub fn tracker(shape: Shape) -> &'static Tracker {
    world_of(shape, &process_facts())
}

/// The facts of a process.
pub fn process_facts() -> ProcessFacts {
    ProcessFacts {
        process: 4242,
        driver_version: 13000,
        armed_unix_nanos: 1_750_000_000_000_000_000,
        armed_monotonic_nanos: 77_000_000_000,
        start_ticks: 7_700,
        program: "train".to_owned(),
        host: "node-7".to_owned(),
        rank: "3".to_owned(),
        lazyguard: "0.1.0".to_owned(),
        start: StartFacts::default(),
        ..ProcessFacts::default()
    }
}

/// A tracker over a new recording of this process.
pub fn world_of(shape: Shape, facts: &ProcessFacts) -> &'static Tracker {
    let words: &'static [AtomicU64] = (0..shape.words()).map(|_| AtomicU64::new(0)).collect::<Vec<_>>().leak();
    let recorder = Recorder::new(words, shape, facts).expect("words for the shape");
    Box::leak(Box::new(Tracker::new(Box::leak(Box::new(recorder)), Box::leak(Box::default()))))
}

/// The recording as a file.
pub fn bytes(tracker: &Tracker) -> Vec<u8> {
    // A word at a time, which takes an unoptimised test less time than a byte.
    let mut bytes = vec![0; size_of_val(tracker.recorder().words())];
    tracker.recorder().read_at(0, &mut bytes).expect("words can be read");
    bytes
}

/// The facts of a call before it is made.
pub fn facts(symbol: &str, entered: u64) -> Record {
    let entry_point = EntryPoint::by_symbol(symbol.as_bytes()).expect("a symbol of the table");
    let (kind, queries) = Kind::of_call(entry_point.class());
    Record { kind, raw: RawPayload::default().with_queries(queries), entered, ..Record::of(entry_point) }
}

/// Makes a call that takes a microsecond, on the thread with this number.
pub fn make(tracker: &Tracker, thread: u32, facts: &Record, result: i32) {
    let slot = tracker.thread(thread).expect("a thread");
    let class = facts.entry_point.class();
    let open = slot.open(facts, class);
    slot.mark(&open);
    slot.close(open, class, facts.entered + 1000, result);
    slot.unmark();
}

/// Launches on the fast path, on the thread with this number: the record alone says so until it is folded. The thread has a segment.
fn launch(tracker: &Tracker, thread: u32, stream: u32, context: u32) {
    let launch = begin_launch(tracker, thread, stream, context);
    launch.end(96_500, 0, u64::MAX);
}

/// The first half of it.
fn begin_launch(tracker: &Tracker, thread: u32, stream: u32, context: u32) -> FastSubmission {
    let slot = tracker.thread(thread).expect("a thread");
    let epoch = tracker.epoch();
    slot.remember_stream(epoch, &Known { stream: 0x6000_0000, number: stream, context, default_stream: false });
    slot.cache_loaded_function(0xf001, context, epoch, 1);
    let entry_point = EntryPoint::by_symbol(b"cuLaunchKernel").expect("a symbol of the table");
    let stream = 0x6000_0000;
    let facts = SubmissionFacts::of(entry_point, 0xf001, stream, RawPayload::default());
    let launch = begin_fast(slot, facts, || Caller { stack: 1, ..Caller::default() }, |_| Some(0), epoch, || 96_000)
        .expect("a place");
    launch.submit(true);
    launch
}

/// See the module.
pub fn written() -> Vec<u8> {
    let shape = Shape { threads: 3, contexts: 2, streams: 3, text_bytes: 1024, segments: [4, 2, 2], records: 8 };
    let tracker = tracker(shape);
    let recorder = tracker.recorder();
    recorder.add_setting(0, "LAZYGUARD_HANG_AFTER=5s");
    recorder.add_file(0, 0x40_0000, 0x48_0000, 0, "/opt/job/bin/train");
    let main = tracker.begin_thread(4242, 1_000).expect("a slot");
    let worker = tracker.begin_thread(4243, 2_000).expect("a slot");
    let caller = tracker.begin_thread(4244, 2_500).expect("a slot");
    let context = tracker.context(0x5500_1000, 3_000);
    let key = StreamKey { handle: 0x6000_0000, context: 0, thread: 0 };
    let stream = tracker.stream(key, context, StreamKind::NonBlocking, 4_000);
    let function = tracker.function(0xf001, FunctionKind::Kernel, 0xb001);
    tracker.name_function(function, "_Z6kernelPf");
    tracker.introduce_function(function, 5_000);
    let on = |record: Record| Record { context: context as u16, stream, ..record };
    make(tracker, main, &Record { raw: RawPayload::about(0xb001), ..facts("cuLibraryLoadData", 6_000) }, 0);
    // More launches than there are places for them.
    for number in 0..30_u64 {
        let launch = on(facts("cuLaunchKernel", 10_000 + number * 2_000));
        make(tracker, main, &Record { function, caller: 0x40_1234, raw: RawPayload::memory(0, number), ..launch }, 0);
        tracker.thread(main).into_iter().for_each(|slot| slot.count_launch());
    }
    for number in 0..5 {
        make(tracker, worker, &on(facts("cuStreamQuery", 80_000 + number * 2_000)), if number < 4 { 600 } else { 0 });
    }
    make(tracker, worker, &facts("cuMemAlloc_v2", 91_000), 0); // quick: leaves no record
    make(tracker, worker, &on(facts("cuStreamSynchronize", 92_000)), -1);
    tracker.end_thread(worker, 94_000);
    let communicator = tracker.communicators().begin(0xfeed_f00d, 94_100).expect("an entry");
    tracker.communicators().made(communicator, 0x7000_0010, 94_150);
    communicator.set_rank(3, 8);
    recorder.add_communicator(94_100, communicator.number, "data_parallel");
    let entry_point = EntryPoint::by_symbol(b"ncclAllReduce").expect("a symbol of the table");
    let about = Communication {
        communicator: communicator.number,
        number: communicator.count_collective(94_300),
        count: 1 << 20,
        data_type: 7,
        operator: Some(0),
        root: None,
    };
    let slot = tracker.thread(caller).expect("a thread");
    let raw = RawPayload::communication(about);
    let kind = Kind::Communication;
    let called = Record { kind, raw, stream, entered: 94_300, returned: 94_310, ..Record::of(entry_point) };
    slot.push(&called, Lane::Work);
    assert!(slot.enter_outer(entry_point, communicator.number, Caller::default(), 94_300));
    recorder.add_note(95_000, "loaded 12 kernels ahead of use");
    recorder.seen_alive(100_000);
    launch(tracker, main, stream, context);
    let facts = on(facts("cuStreamSynchronize", 110_000));
    let slot = tracker.thread(main).expect("a thread");
    slot.set_name("main");
    let open = slot.open(&facts, facts.entry_point.class());
    slot.mark(&open);
    bytes(tracker)
}

/// A process that was killed when a launch of the fast path had returned, before its record was complete. Nothing was launched before.
pub fn killed_as_a_launch_returns() -> Vec<u8> {
    let tracker =
        tracker(Shape { threads: 1, contexts: 1, streams: 1, text_bytes: 1024, segments: [2, 1, 1], records: 8 });
    let main = tracker.begin_thread(4242, 1_000).expect("a slot");
    let context = tracker.context(0x5500_1000, 3_000);
    let key = StreamKey { handle: 0x6000_0000, context: 0, thread: 0 };
    let stream = tracker.stream(key, context, StreamKind::NonBlocking, 4_000);
    make(tracker, main, &Record { context: context as u16, ..facts("cuMemcpyHtoDAsync_v2", 5_000) }, 0);
    begin_launch(tracker, main, stream, context);
    let mut file = bytes(tracker);
    let entered = file.windows(8).position(|word| word == 96_000_u64.to_le_bytes()).expect("the record");
    file[entered + 8..entered + 16].copy_from_slice(&96_500_u64.to_le_bytes());
    file
}
