//! The live state and the fold of the records agree on each stream.
//!
//! A random program runs against the state; then the test reads its recording back. Calls of several threads overlap, and the state
//! takes what each means at its return, as the hooks do. The recording's tables are the live state; the fold sees the records
//! alone.

use crate::support::random::Random;
use crate::support::written::{bytes, facts, tracker};
use lazyguard_core::api::{Class, EntryPoint, Operation};
use lazyguard_core::replay::{proves, Replay, Streams};
use lazyguard_core::state::{
    begin_fast, Caller, FastSubmission, Known, OpenRecord, StreamKey, StreamKind, SubmissionFacts, Tracker,
};
use lazyguard_core::trace::layout::{flag, Shape};
use lazyguard_core::trace::read::{Recording, StreamSeen};
use lazyguard_core::trace::{RawPayload, Record};
use std::cell::Cell;

const SHAPE: Shape =
    Shape { threads: 8, contexts: 2, streams: 8, text_bytes: 1024, segments: [64, 16, 16], records: 63 };
const THREADS: usize = 3;
const STREAMS: usize = 3;
const EVENTS: usize = 4;
const NOT_READY: i32 = 600;

/// How a call writes its record.
enum Open {
    Slow(OpenRecord),
    /// A launch on the fast path, whose stream learns of it later.
    Fast(FastSubmission),
}

/// A call that has not returned.
struct Running {
    record: Record,
    open: Open,
    /// The number that the stream gave it if it was idle.
    first: Option<u64>,
    /// Which of the stream's operations it is.
    number: u64,
    /// When its event was last recorded before the call.
    recorded: u64,
}

struct Program {
    tracker: &'static Tracker,
    random: Random,
    contexts: [u32; 2],
    threads: Vec<u32>,
    running: Vec<Option<Running>>,
    now: u64,
}

impl Program {
    fn new(seed: u64) -> Self {
        let tracker = tracker(SHAPE);
        let contexts = [tracker.context(0xc0, 0), tracker.context(0xd0, 0)];
        for n in 0..STREAMS * 2 {
            let key = StreamKey { handle: 0x100 + n as u64 * 16, context: 0, thread: 0 };
            tracker.stream(key, contexts[n % 2], StreamKind::NonBlocking, 1);
        }
        let threads = (0..THREADS).map(|n| tracker.begin_thread(100 + n as u32, 1).expect("a slot")).collect();
        let running = (0..THREADS).map(|_| None).collect();
        Self { tracker, random: Random::from_seed(seed + 1), contexts, threads, running, now: 10 }
    }

    fn tick(&mut self) -> u64 {
        self.now += 1 + self.random.below(5) as u64;
        self.now
    }

    /// What the next call is.
    fn call(&mut self) -> Record {
        let stream = 1 + self.random.below(STREAMS * 2) as u32;
        let context = self.contexts[(stream as usize - 1) % 2];
        let event = RawPayload::about(0xe000 + self.random.below(EVENTS) as u64 * 16);
        let entered = self.tick();
        let call = |symbol| Record { context: context as u16, stream, ..facts(symbol, entered) };
        let submit = |symbol| Record { flags: flag::SUBMITTED, ..call(symbol) };
        match self.random.below(40) {
            0..16 => submit("cuLaunchKernel"),
            16..19 => submit("cuMemcpyDtoHAsync_v2"),
            19..24 => Record { raw: event, ..submit("cuEventRecord") },
            24 => Record { raw: event, flags: flag::CAPTURED, ..call("cuEventRecord") },
            25 => Record { raw: event, stream: 0, ..call("cuCtxRecordEvent") },
            26..28 => Record { raw: event, ..submit("cuStreamWaitEvent") },
            28..32 => Record { raw: event, stream: 0, ..call("cuEventSynchronize") },
            32 => Record { raw: event, stream: 0, ..call("cuEventDestroy_v2") },
            33 => submit("cuGraphLaunch"),
            34 => call("cuMemcpyDtoH_v2"),
            35 => call("cuMemcpyHtoD_v2"),
            36..38 => call("cuStreamSynchronize"),
            38 => call("cuStreamQuery"),
            _ => Record { stream: 0, ..call("cuCtxSynchronize") },
        }
    }

    /// Whether two calls overlap that say something of one event. The driver's order of the two cannot be seen from outside. A
    /// graph may say something of every event.
    fn collides(&self, record: &Record) -> bool {
        let is_graph = |record: &Record| record.entry_point.class() == Class::GraphLaunch;
        let event = record.event();
        self.running.iter().flatten().any(|running| {
            let other = running.record.event();
            event.is_some() && (other == event || is_graph(&running.record)) || is_graph(record) && other.is_some()
        })
    }

    /// A thread enters its next call.
    fn enters(&mut self, thread: usize) {
        let record = self.call();
        if self.collides(&record) {
            return;
        }
        if record.entry_point.class() == Class::Launch && self.random.below(4) > 0 {
            return self.enters_fast(thread, record);
        }
        let slot = self.tracker.thread(self.threads[thread]).expect("a thread");
        let symbol = record.entry_point.info().base();
        let event = record.event().unwrap_or(0);
        if symbol == "cuEventRecord" {
            assert!(self.tracker.fold_of(record.stream));
        }
        let recorded = record.event().and_then(|event| self.tracker.recorded(event)).map_or(0, |recorded| recorded.at);
        let open = slot.open(&record, record.entry_point.class());
        slot.mark(&open);
        let (mut first, mut number) = (None, 0);
        if record.submitted() {
            slot.fold_launches();
            let entry = self.tracker.stream_entry(record.stream).expect("a stream");
            number = entry.submitted_count() + 1;
            let op = Operation { at: record.entered, entry_point: record.entry_point.id(), function: 0 };
            first = entry.submitting(op, self.tracker.stream_idle_until(entry));
        }
        match symbol {
            "cuGraphLaunch" => self.tracker.graph_launches.note(self.tracker.launches_graphs(slot), record.entered),
            "cuEventDestroy" => self.tracker.event_gone(event),
            "cuEventRecord" if record.flags & flag::CAPTURED != 0 => self.tracker.event_gone(event),
            _ => {}
        }
        self.running[thread] = Some(Running { record, open: Open::Slow(open), first, number, recorded });
    }

    fn enters_fast(&mut self, thread: usize, record: Record) {
        thread_local! {
            static NOW: Cell<u64> = const { Cell::new(0) };
        }
        let slot = self.tracker.thread(self.threads[thread]).expect("a thread");
        let (stream, context, epoch) = (u64::from(record.stream), record.context.into(), self.tracker.epoch());
        slot.remember_stream(epoch, &Known { stream, number: record.stream, context, default_stream: false });
        slot.cache_loaded_function(0xf0, context, epoch, 0);
        let entry_point = record.entry_point;
        let facts = SubmissionFacts::of(entry_point, 0xf0, stream, RawPayload::default());
        NOW.set(record.entered);
        // Where the segment is full, as before any, the launch takes the slow path.
        let Some(launch) =
            begin_fast(slot, facts, || Caller { stack: 1, ..Caller::default() }, |_| Some(0), epoch, || NOW.get())
        else {
            return;
        };
        launch.submit(true);
        self.running[thread] = Some(Running { record, open: Open::Fast(launch), first: None, number: 0, recorded: 0 });
    }

    /// A thread's call returns.
    fn returns(&mut self, thread: usize) {
        let Some(Running { record, open, first, number, recorded }) = self.running[thread].take() else { return };
        let slot = self.tracker.thread(self.threads[thread]).expect("a thread");
        let symbol = record.entry_point.info().base();
        // What is refused while its stream is busy still counts in the live state, which knows no better.
        let result = match symbol {
            "cuStreamQuery" if self.random.below(2) == 0 => NOT_READY,
            "cuStreamSynchronize" | "cuCtxSynchronize" if self.random.below(8) == 0 => 719,
            _ => 0,
        };
        let returned = self.tick();
        let open = match open {
            Open::Slow(open) => open,
            Open::Fast(launch) => {
                launch.end(returned, 0, u64::MAX);
                // Now and then, as calls of other threads do.
                if self.random.below(8) == 0 {
                    assert!(self.tracker.fold());
                }
                return;
            }
        };
        slot.close(open, record.entry_point.class(), returned, result);
        if record.submitted() {
            let entry = self.tracker.stream_entry(record.stream).expect("a stream");
            entry.submitted(returned);
            if let (Some(number), true) = (first, result != 0) {
                entry.refused(number, returned);
            }
        }
        let event = record.event().unwrap_or(0);
        match symbol {
            _ if result != 0 => {}
            "cuGraphLaunch" => self.tracker.graph_launches.note(self.tracker.launches_graphs(slot), returned),
            "cuEventRecord" | "cuCtxRecordEvent" if record.flags & flag::CAPTURED == 0 => {
                let context = record.context.into();
                _ = self.tracker.event_recorded(event, record.stream, number, context, record.entered);
            }
            "cuEventSynchronize" => {
                let on_context = |context, at| self.tracker.context_complete(context, at);
                self.tracker.event_complete_at(event, recorded, on_context)
            }
            _ => {
                let scope = proves(record.entry_point, record.stream, record.context.into());
                scope.into_iter().for_each(|scope| self.tracker.ended(scope, record.entered));
            }
        }
        slot.unmark();
    }

    /// The recording, with the live state in its tables, and the fold of its records.
    fn compare(&self, seed: u64) {
        let recording = Recording::open(bytes(self.tracker)).expect("a recording");
        assert!(self.tracker.fold());
        let folded = Recording::open(bytes(self.tracker)).expect("a recording");
        assert_eq!(recording.defects(), [], "seed {seed}");
        let (mut replay, mut streams) = (Replay::default(), Streams::default());
        recording.records().for_each(|entry| streams.see(&entry.record, replay.take_in(&entry.record)));
        streams.pass(self.now);
        for (stream, folded) in recording.streams().iter().zip(folded.streams()) {
            let context = recording.contexts().iter().find(|context| context.number == stream.context);
            let idle_until = context.map_or(0, |context| context.idle_until);
            let live = stream.oldest(idle_until);
            // The reader folds by time, the state thread by thread: the newest operations may come in another order.
            let told =
                |seen: &StreamSeen| (seen.work.submissions.count, seen.work.submissions.last, seen.oldest(idle_until));
            assert_eq!(told(stream), told(folded), "seed {seed}, stream {}: read, and folded", stream.number);
            let symbol = |op: Operation| EntryPoint::by_id(op.entry_point).map(EntryPoint::symbol);
            assert_eq!(
                streams.oldest(stream.number),
                live,
                "seed {seed}, stream {}: {:?}",
                stream.number,
                live.map(symbol)
            );
            let entry = self.tracker.stream_entry(stream.number).expect("a stream");
            // The records are folded in their order. The state learns of a launch later: it may know by then that the launch has ended, or that it
            // returned after the end of what was before it, and then counts that as well.
            let until = stream.work.complete_until.max(idle_until);
            let is_outstanding =
                |record: &Record| record.submitted() && record.stream == stream.number && record.entered > until;
            let least = recording.records().filter(|entry| is_outstanding(&entry.record)).count() as u64;
            let live = entry.outstanding_count(idle_until);
            let most = if streams.oldest(stream.number).is_none() { 0 } else { stream.work.submissions.count };
            assert!((least..=most).contains(&live), "seed {seed}, stream {}: {least} to {most}, {live}", stream.number);
        }
    }
}

#[test]
fn the_fold_of_the_records_is_the_live_state() {
    let mut busy = 0;
    for seed in 0..if cfg!(miri) { 2 } else { 100 } {
        let mut program = Program::new(seed);
        let calls = 20 + program.random.below(300);
        for _ in 0..calls {
            let thread = program.random.below(THREADS);
            match program.running[thread].is_some() {
                true => program.returns(thread),
                false => program.enters(thread),
            }
        }
        // The records of calls in progress are not among the records.
        (0..THREADS).for_each(|thread| program.returns(thread));
        program.compare(seed);
        busy += program.tracker.in_flight(0).len();
    }
    assert!(busy > 0, "no program left anything outstanding");
}
