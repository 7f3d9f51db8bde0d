//! Recordings for tests, made with the library's own writer.

#![allow(dead_code)] // Each test takes what it needs.

use lazyguard_core::api::EntryPoint;
use lazyguard_core::state::{FunctionKind, Operation, StreamKey, StreamKind, Tracker};
use lazyguard_core::trace::layout::{flag, Shape};
use lazyguard_core::trace::read::Source;
use lazyguard_core::trace::{
    HazardNumbers, Kind, Lane, Preload, ProcessFacts, ProcessState, RawPayload, Record, Recorder, StartFacts,
};
use std::path::Path;
use std::sync::atomic::AtomicU64;

/// Room for some thousand records.
pub const SMALL: Shape =
    Shape { threads: 16, contexts: 2, streams: 8, text_bytes: 1 << 16, segments: [256, 64, 64], records: 63 };

/// A process that makes driver calls.
pub struct Job {
    pub tracker: &'static Tracker,
    pub context: u32,
}

/// A process of this machine that has ended.
pub fn ended_process() -> ProcessFacts {
    ProcessFacts {
        process: 4242,
        driver_version: 13000,
        armed_unix_nanos: 1_750_000_000_000_000_000,
        armed_monotonic_nanos: 77_000_000_000,
        start_ticks: 7_700,
        program: "train".to_owned(),
        host: std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned(),
        rank: "3".to_owned(),
        lazyguard: "0.1.0".to_owned(),
        start: StartFacts::default(),
        ..ProcessFacts::default()
    }
}

/// The facts of a call that is about nothing.
pub fn facts(call: &str, at: u64) -> Record {
    let entry_point = EntryPoint::by_symbol(call.as_bytes()).unwrap_or_else(|| panic!("{call} is not in the table"));
    let (kind, queries) = Kind::of_call(entry_point.class());
    Record { kind, raw: RawPayload::default().with_queries(queries), entered: at, ..Record::of(entry_point) }
}

/// A launch.
pub fn launch(stream: u32, function: u32, at: u64) -> Record {
    let (raw, _) = RawPayload::launch([40, 2, 1], [128, 1, 1], 0);
    let caller = 0x40_1234;
    Record { stream, function, raw, caller, flags: flag::SUBMITTED, ..facts("cuLaunchKernel", at) }
}

/// A stream writes a value.
pub fn write(stream: u32, address: u64, value: u64, at: u64) -> Record {
    let facts = facts("cuStreamWriteValue32_v2", at);
    Record { stream, raw: RawPayload::memory_operation(address, value, 0), flags: flag::SUBMITTED, ..facts }
}

/// A stream waits until memory holds a value.
pub fn wait(stream: u32, address: u64, value: u64, at: u64) -> Record {
    const EQUAL: u32 = 1;
    let facts = facts("cuStreamWaitValue32_v2", at);
    let raw = RawPayload::memory_operation(address, value, EQUAL);
    Record { stream, raw, flags: flag::SUBMITTED | flag::WAIT, ..facts }
}

/// The same call about an event, an address, a module or a library.
pub fn about(handle: u64, record: Record) -> Record {
    let (_, queries) = Kind::of_call(record.entry_point.class());
    Record { raw: RawPayload::about(handle).with_queries(queries), ..record }
}

/// A hazard beside a kernel on a stream.
pub fn hazard(code: u16, other_stream: u32, function: u32, record: Record) -> Record {
    let numbers =
        HazardNumbers { code, class: 4, other_stream, function_or_thread: function, ..HazardNumbers::default() };
    Record { kind: Kind::Hazard, result: 1, raw: RawPayload::hazard(numbers), ..record }
}

/// The guard has loaded ahead of use.
pub fn preload(loaded: u64, refused: u64, left_out: u64, owner: u64, record: Record) -> Record {
    let raw = RawPayload::preload(Preload { loaded, refused, left_out, owner });
    Record { kind: Kind::Preload, raw, ..record }
}

/// Something about a stream that submits an operation to it.
pub fn submit(call: &str, stream: u32, at: u64) -> Record {
    Record { stream, flags: flag::SUBMITTED, ..facts(call, at) }
}

impl Job {
    pub fn new() -> Self {
        Self::of(SMALL, &ended_process())
    }

    pub fn of(shape: Shape, facts: &ProcessFacts) -> Self {
        let words: &'static [AtomicU64] = (0..shape.words()).map(|_| AtomicU64::new(0)).collect::<Vec<_>>().leak();
        let recorder = Recorder::new(words, shape, facts).expect("words for the shape");
        let tracker: &'static Tracker =
            Box::leak(Box::new(Tracker::new(Box::leak(Box::new(recorder)), Box::leak(Box::default()))));
        let context = tracker.context(0xc0, 1);
        Self { tracker, context }
    }

    pub fn thread(&self, id: u32, name: &str) -> u32 {
        let number = self.tracker.begin_thread(id, 1).expect("an entry");
        self.tracker.thread(number).into_iter().for_each(|slot| slot.set_name(name));
        number
    }

    pub fn stream(&self, handle: u64) -> u32 {
        self.tracker.stream(StreamKey { handle, context: 0, thread: 0 }, self.context, StreamKind::NonBlocking, 1)
    }

    pub fn function(&self, name: &str) -> u32 {
        let handle = name.bytes().map(u64::from).sum::<u64>() << 8;
        let number = self.tracker.function(handle, FunctionKind::Kernel, 0x11);
        self.tracker.name_function(number, name);
        self.tracker.introduce_function(number, 1);
        number
    }

    /// The call is made, and returns.
    pub fn make(&self, thread: u32, facts: &Record, took: u64, result: i32) {
        let slot = self.tracker.thread(thread).expect("a thread");
        let class = facts.entry_point.class();
        let facts = &Record { context: self.context as u16, ..*facts };
        let open = slot.open(facts, class);
        slot.mark(&open);
        let returned = facts.entered + took;
        if let (true, Some(entry)) = (facts.submitted(), self.tracker.stream_entry(facts.stream)) {
            let op = Operation { at: facts.entered, entry_point: facts.entry_point.id(), function: facts.function };
            entry.submitting(op, self.tracker.stream_idle_until(entry));
            entry.submitted(returned);
        }
        if matches!(facts.entry_point.symbol(), "cuLaunchKernel") {
            slot.count_launch();
        }
        slot.close(open, class, returned, result);
        slot.unmark();
    }

    /// A synchronize with a stream, which returns.
    pub fn synchronize(&self, thread: u32, stream: u32, at: u64, took: u64) {
        self.make(thread, &Record { stream, ..facts("cuStreamSynchronize", at) }, took, 0);
        self.tracker.stream_entry(stream).into_iter().for_each(|entry| entry.complete_until(at));
    }

    /// The call is made, and does not return.
    pub fn hold(&self, thread: u32, facts: &Record) {
        let slot = self.tracker.thread(thread).expect("a thread");
        let facts = Record { context: self.context as u16, ..*facts };
        slot.mark(&slot.open(&facts, facts.entry_point.class()));
    }

    /// Something that is no call.
    pub fn note(&self, thread: u32, record: &Record) {
        self.tracker.thread(thread).expect("a thread").push(record, Lane::RareEvents);
    }

    pub fn ended(&self) {
        self.tracker.recorder().set_state(ProcessState::Ended);
    }

    /// The recording as a file holds it.
    pub fn bytes(&self, last_seen: u64) -> Vec<u8> {
        self.tracker.recorder().seen_alive(last_seen);
        // A word at a time, which takes an unoptimised test less time than a byte.
        let mut bytes = vec![0; size_of_val(self.tracker.recorder().words())];
        self.tracker.recorder().read_at(0, &mut bytes).unwrap();
        bytes
    }

    /// Puts the recording into a run folder.
    pub fn save(&self, folder: &Path, last_seen: u64) {
        std::fs::write(folder.join("trace.lgt"), self.bytes(last_seen)).expect("the recording is written");
    }
}

/// A process that hangs over a cold launch from the first second on: `k2` was loaded behind `k1`, and the main thread waits.
pub fn hanging(job: &Job) {
    let main = job.thread(100, "main");
    let (one, two) = (job.stream(0x51), job.stream(0x52));
    let (k1, k2) = (job.function("_Z2k1v"), job.function("_Z2k2v"));
    job.make(main, &Record { caller: 0x40_1111, ..launch(one, k1, 1_000_000_000) }, 5_000, 0);
    job.make(
        main,
        &Record { kind: Kind::ColdFunction, caller: 0x40_2222, ..launch(two, k2, 1_000_000_000 + 10_000) },
        5_000,
        0,
    );
    job.hold(main, &Record { caller: 0x40_3333, ..facts("cuCtxSynchronize", 1_000_000_000 + 20_000) });
    let recorder = job.tracker.recorder();
    recorder.add_setting(0, "LAZYGUARD_PRELOAD=off");
    recorder.add_file(0, 0x40_0000, 0x48_0000, 0x40_0000, "/opt/job/bin/train");
}
