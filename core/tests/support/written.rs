//! A short run, recorded by the writer.

use lazyguard_core::api::Form;
use lazyguard_core::state::{FunctionKind, StreamKey, StreamKind, World};
use lazyguard_core::trace::layout::Shape;
use lazyguard_core::trace::{Kind, ProcessFacts, Record, Recorder, StartFacts};
use std::sync::atomic::{AtomicU64, Ordering};

/// A world over a new recording of this shape.
pub fn world(shape: Shape) -> &'static World {
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
    }
}

/// A world over a new recording of this process.
pub fn world_of(shape: Shape, facts: &ProcessFacts) -> &'static World {
    let words: &'static [AtomicU64] = (0..shape.words()).map(|_| AtomicU64::new(0)).collect::<Vec<_>>().leak();
    let recorder = Recorder::new(words, shape, facts).expect("words for the shape");
    Box::leak(Box::new(World::new(Box::leak(Box::new(recorder)))))
}

/// The recording as a file.
pub fn bytes(world: &World) -> Vec<u8> {
    world.recorder().words().iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect()
}

/// The facts of a call before it is made.
pub fn facts(symbol: &str, entered: u64) -> Record {
    let form = Form::by_symbol(symbol.as_bytes()).expect("a symbol of the table");
    let (kind, extent) = Kind::of_call(form.class());
    Record { kind, extent, entered, ..Record::of(form) }
}

/// Makes a call that takes a microsecond, on the thread with this number.
pub fn make(world: &World, thread: u32, facts: &Record, result: i32) {
    let slot = world.thread(thread).expect("a thread");
    let class = facts.form.class();
    let open = slot.open(facts, class);
    slot.mark(&open);
    slot.close(open, class, facts.entered + 1000, result);
    slot.unmark();
}

/// See the module.
pub fn written() -> Vec<u8> {
    let shape = Shape { threads: 3, contexts: 2, streams: 3, text_bytes: 1024, segments: [3, 2, 2], records: 8 };
    let world = world(shape);
    let recorder = world.recorder();
    recorder.add_setting(0, "LAZYGUARD_HANG_AFTER=5s");
    recorder.add_file(0, 0x40_0000, 0x48_0000, 0, "/opt/job/bin/train");
    let main = world.begin_thread(4242, 1_000).expect("a slot");
    let worker = world.begin_thread(4243, 2_000).expect("a slot");
    let context = world.context(0x5500_1000, 3_000);
    let key = StreamKey { handle: 0x6000_0000, context: 0, thread: 0 };
    let stream = world.stream(key, context, StreamKind::NonBlocking, 4_000);
    let function = world.function(0xf001, FunctionKind::Kernel, 0xb001);
    world.name_function(function, "_Z6kernelPf");
    world.introduce_function(function, 5_000);
    let on = |record: Record| Record { context: context as u16, stream, ..record };
    make(world, main, &Record { detail: 0xb001, ..facts("cuLibraryLoadData", 6_000) }, 0);
    // More launches than there are places for them.
    for number in 0..30_u64 {
        let launch = on(facts("cuLaunchKernel", 10_000 + number * 2_000));
        make(world, main, &Record { function, caller: 0x40_1234, extent: number, ..launch }, 0);
        world.thread(main).into_iter().for_each(|slot| slot.count_launch());
    }
    for number in 0..5 {
        make(world, worker, &on(facts("cuStreamQuery", 80_000 + number * 2_000)), if number < 4 { 600 } else { 0 });
    }
    make(world, worker, &facts("cuMemAlloc_v2", 91_000), 0); // quick: leaves no record
    make(world, worker, &on(facts("cuStreamSynchronize", 92_000)), -1);
    world.end_thread(worker, 94_000);
    recorder.add_note(95_000, "loaded 12 kernels ahead of use");
    recorder.seen_alive(100_000);
    let facts = on(facts("cuStreamSynchronize", 110_000));
    let slot = world.thread(main).expect("a thread");
    slot.set_name("main");
    let open = slot.open(&facts, facts.form.class());
    slot.mark(&open);
    bytes(world)
}
