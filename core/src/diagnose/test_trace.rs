//! A process as a list of calls, each folded into the state and recorded as the hooks do it; for tests.

use super::{diagnose, links_of, snapshot_at, Code, Diagnosis, Party, Snapshot, Status, ThreadActivity};
use crate::api::result::loses_work;
use crate::api::{Class, ComputeTime, EntryPoint};
use crate::state::{FunctionKind, Operation, StreamKey, StreamKind, Tracker};
use crate::trace::layout::{flag, WORD};
use crate::trace::read::{Recording, Source};
use crate::trace::{Environment, Kind, Lane, RawPayload, Record};

pub(super) const SECOND: u64 = 1_000_000_000;
pub(super) const NOW: u64 = 10 * SECOND;
/// The queries of a poll after its first.
pub(super) const QUERIES: u64 = 40;
pub(super) const THRESHOLD: u64 = 2 * SECOND;
const NOT_READY: i32 = 600;

pub(super) struct TestTrace {
    pub tracker: Tracker,
    pub context: u32,
    pub streams: [u32; 3],
    thread: u32,
    patience: u64,
}

impl TestTrace {
    pub fn new() -> Self {
        Self::of(StreamKind::NonBlocking)
    }

    pub fn of(kind: StreamKind) -> Self {
        let tracker = Tracker::default();
        let context = tracker.context(0xc0, 1);
        let streams = [0x51, 0x52, 0x53]
            .map(|handle| tracker.stream(StreamKey { handle, context: 0, thread: 0 }, context, kind, 1));
        let thread = Self::begin_thread(&tracker, 100);
        let story = Self { tracker, context, streams, thread, patience: 3 * THRESHOLD };
        // A context's first launch is a special case.
        story.launch(2, 2, "first").synchronize(2, 4);
        story
    }

    /// Sets the patience.
    pub fn patient(mut self, patience: u64) -> Self {
        self.patience = patience;
        self
    }

    pub fn begin_thread(tracker: &Tracker, id: u32) -> u32 {
        let number = tracker.begin_thread(id, 1).unwrap();
        tracker.thread(number).unwrap().set_name(&format!("t{id}"));
        number
    }

    pub fn function(&self, name: &str) -> u32 {
        let handle = name.bytes().map(u64::from).sum::<u64>() << 8;
        let number = self.tracker.function(handle, FunctionKind::Kernel, 0x11);
        self.tracker.name_function(number, name);
        self.tracker.introduce_function(number, 2);
        number
    }

    pub fn facts(&self, call: &str, at: u64, stream: Option<usize>) -> Record {
        let entry_point = EntryPoint::by_symbol(call.as_bytes()).unwrap();
        let stream = stream.map_or(0, |s| self.streams[s]);
        let (kind, queries) = Kind::of_call(entry_point.class());
        let raw = RawPayload::default().with_queries(queries);
        Record { kind, raw, stream, context: self.context as u16, entered: at, ..Record::of(entry_point) }
    }

    /// The call is made and returns after a nanosecond, with this answer.
    pub fn call(&self, facts: &Record, result: i32) -> &Self {
        self.call_of(facts, 1, result)
    }

    /// The call takes so many nanoseconds.
    pub fn call_of(&self, facts: &Record, took: u64, result: i32) -> &Self {
        let (class, returned) = (facts.entry_point.class(), facts.entered + took);
        let slot = self.tracker.thread(self.thread).unwrap();
        let open = slot.open(facts, class);
        slot.mark(&open);
        if let (true, Some(entry)) = (facts.submitted(), self.tracker.stream_entry(facts.stream)) {
            let op = Operation { at: facts.entered, entry_point: facts.entry_point.id(), function: facts.function };
            let first = entry.submitting(op, self.tracker.stream_idle_until(entry));
            entry.submitted(returned);
            if let (Some(number), true) = (first, result != 0) {
                entry.refused(number, returned);
            }
        }
        slot.close(open, class, returned, result);
        slot.unmark();
        self
    }

    pub fn submit(&self, stream: usize, at: u64, call: &str) -> Record {
        Record { flags: flag::SUBMITTED, ..self.facts(call, at, Some(stream)) }
    }

    pub fn launch(&self, stream: usize, at: u64, name: &str) -> &Self {
        self.launch_of(stream, at, name, 1)
    }

    pub fn launch_of(&self, stream: usize, at: u64, name: &str, blocks: u32) -> &Self {
        let function = self.function(name);
        let (raw, _) = RawPayload::launch([blocks, 1, 1], [64, 1, 1], 0);
        self.call(&Record { function, raw, ..self.submit(stream, at, "cuLaunchKernel") }, 0)
    }

    pub fn cold(&self, stream: usize, at: u64, name: &str) -> &Self {
        let function = self.function(name);
        let facts = Record { function, kind: Kind::ColdFunction, ..self.submit(stream, at, "cuLaunchKernel") };
        self.call(&facts, 0)
    }

    pub fn wait(&self, stream: usize, at: u64, address: u64, value: u64) -> &Self {
        self.wait_of(stream, at, address, value, 1)
    }

    /// A wait whose submission takes so many nanoseconds.
    pub fn wait_of(&self, stream: usize, at: u64, address: u64, value: u64, took: u64) -> &Self {
        let facts = self.submit(stream, at, "cuStreamWaitValue32_v2");
        let flags = facts.flags | flag::WAIT;
        self.call_of(&Record { flags, raw: RawPayload::memory_operation(address, value, 1), ..facts }, took, 0)
    }

    pub fn write(&self, stream: usize, at: u64, address: u64, value: u64) -> &Self {
        let facts = self.submit(stream, at, "cuStreamWriteValue32_v2");
        self.call(&Record { raw: RawPayload::memory_operation(address, value, 0), ..facts }, 0)
    }

    /// Something about an event or an address.
    pub fn about(&self, stream: usize, at: u64, call: &str, detail: u64, extent: u64) -> &Self {
        self.call(&Record { raw: RawPayload::memory(detail, extent), ..self.submit(stream, at, call) }, 0)
    }

    pub fn synchronize(&self, stream: usize, at: u64) -> &Self {
        self.call(&self.facts("cuStreamSynchronize", at, Some(stream)), 0);
        self.idle(stream, at)
    }

    /// The driver has said that the stream is idle, in a call that was entered then.
    pub fn idle(&self, stream: usize, at: u64) -> &Self {
        self.tracker.stream_entry(self.streams[stream]).unwrap().complete_until(at);
        self
    }

    pub fn blocked(&self, id: u32, at: u64, call: &str, stream: Option<usize>, kind: Kind, name: &str) -> &Self {
        let function = if name.is_empty() { 0 } else { self.function(name) };
        self.blocked_in(id, &Record { kind, function, ..self.facts(call, at, stream) })
    }

    pub fn blocked_in(&self, id: u32, facts: &Record) -> &Self {
        let slot = self.tracker.thread(Self::begin_thread(&self.tracker, id)).unwrap();
        slot.mark(&slot.open(facts, facts.entry_point.class()));
        self
    }

    /// A thread waits in a call of no special kind.
    pub fn waits(&self, id: u32, at: u64, call: &str, stream: Option<usize>) -> &Self {
        self.blocked(id, at, call, stream, Kind::Call, "")
    }

    /// A thread polls.
    pub fn polls(&self, id: u32, from: u64, to: u64, call: &str, stream: usize, event: u64) -> &Self {
        self.polls_until(id, [from, to], call, stream, event, None)
    }

    /// A thread polls the first stream, and each query gives this error.
    pub fn fails(&self, id: u32, [from, to]: [u64; 2], error: i32) -> &Self {
        self.fails_in(id, [from, to], "cuStreamQuery", error)
    }

    /// The same by other calls.
    pub fn fails_in(&self, id: u32, [from, to]: [u64; 2], call: &str, error: i32) -> &Self {
        self.answered(id, [from, to], (call, 0, 0), error, None)
    }

    /// The trace's own thread asks once for a stream, by an event where one is named.
    pub fn asks(&self, at: u64, stream: usize, event: u64) -> &Self {
        let call = if event == 0 { "cuStreamQuery" } else { "cuEventQuery" };
        self.call(
            &Record { raw: RawPayload::about(event).with_queries(1), ..self.facts(call, at, Some(stream)) },
            NOT_READY,
        )
    }

    /// A thread polls, and the newest query may be in progress since a time.
    pub fn polls_until(
        &self,
        id: u32,
        [from, to]: [u64; 2],
        call: &str,
        stream: usize,
        event: u64,
        in_progress: Option<u64>,
    ) -> &Self {
        self.answered(id, [from, to], (call, stream, event), NOT_READY, in_progress)
    }

    fn answered(
        &self,
        id: u32,
        [from, to]: [u64; 2],
        (call, stream, event): (&str, usize, u64),
        answer: i32,
        in_progress: Option<u64>,
    ) -> &Self {
        let slot = self.tracker.thread(Self::begin_thread(&self.tracker, id)).unwrap();
        let enter = |at| {
            let facts = self.facts(call, at, Some(stream));
            let (_, queries) = Kind::of_call(facts.entry_point.class());
            let facts = Record { raw: RawPayload::about(event).with_queries(queries), ..facts };
            let open = slot.open(&facts, facts.entry_point.class());
            slot.mark(&open);
            (open, facts.entry_point.class())
        };
        for part in 0..=QUERIES {
            let at = from + (to - from) / QUERIES * part;
            let (open, class) = enter(at);
            slot.close(open, class, at + 1, answer);
            if loses_work(answer) {
                slot.asked_in_vain(open, class, at + 1, answer);
            }
            slot.unmark();
        }
        in_progress.map(enter);
        self
    }

    /// A stream has called a host function, which was submitted then, and perhaps it has returned.
    pub fn host_function(
        &self,
        stream: usize,
        submitted: u64,
        called: u64,
        thread: u32,
        returned: Option<u64>,
    ) -> &Self {
        self.call(&self.submit(stream, submitted, "cuLaunchHostFunc"), 0);
        let slot = self.tracker.thread(Self::begin_thread(&self.tracker, thread)).unwrap();
        let facts = self.facts("cuLaunchHostFunc", called, Some(stream));
        let raw = RawPayload::host_call(0xf00, submitted);
        let facts = Record { kind: Kind::HostBegins, raw, returned: called, ..facts };
        slot.push(&facts, Lane::Waits);
        self.tracker.stream_entry(facts.stream).unwrap().complete_until(submitted - 1);
        if let Some(at) = returned {
            slot.push(&Record { kind: Kind::HostEnds, entered: at, returned: at, ..facts }, Lane::Waits);
            self.tracker.stream_entry(facts.stream).unwrap().complete_until(submitted);
        }
        self
    }

    /// An observation during a standstill.
    pub fn seen(&self, record: Record) -> &Self {
        self.seen_at(NOW - SECOND, record)
    }

    fn seen_at(&self, at: u64, record: Record) -> &Self {
        let record = Record { entered: at, returned: at, ..record };
        self.tracker.thread(self.thread).unwrap().push(&record, Lane::RareEvents);
        self
    }

    /// `CUDA_LAUNCH_BLOCKING` is set, as the guard notes at a hang.
    pub fn launch_blocking(&self) -> &Self {
        self.environment(Environment { launch_blocking: true, connections: 0 })
    }

    pub fn environment(&self, environment: Environment) -> &Self {
        let facts = self.facts("cuCtxCreate_v2", NOW, None);
        let record = Record { kind: Kind::Seen, raw: RawPayload::environment(environment), ..facts };
        self.tracker.thread(self.thread).unwrap().push(&record, Lane::RareEvents);
        self
    }

    pub fn memory_holds(&self, address: u64, value: u64) -> &Self {
        self.holds(RawPayload::memory(address, value))
    }

    /// No other process can have it.
    pub fn own_memory_holds(&self, address: u64, value: u64) -> &Self {
        self.holds(RawPayload::memory_operation(address, value, 1))
    }

    fn holds(&self, raw: RawPayload) -> &Self {
        self.seen(Record { kind: Kind::Seen, raw, ..Record::of(EntryPoint::of_class(Class::WaitValue)) })
    }

    pub fn thread_does(&self, thread: u32, doing: ThreadActivity) -> &Self {
        self.thread_does_since(NOW - SECOND, thread, doing)
    }

    pub fn thread_does_since(&self, at: u64, thread: u32, doing: ThreadActivity) -> &Self {
        let raw = RawPayload::activity(thread, Some(doing));
        self.seen_at(at, Record { kind: Kind::Activity, raw, ..Record::of(EntryPoint::of_class(Class::Init)) })
    }

    /// The guard reads how much of a second a thread computed.
    pub fn computed(&self, thread: u32, nanos: u64) -> &Self {
        self.computed_at(NOW - SECOND, thread, ComputeTime { nanos, within_nanos: SECOND, alone: false })
    }

    pub fn computed_at(&self, at: u64, thread: u32, time: ComputeTime) -> &Self {
        let raw = RawPayload::computes(thread, time);
        self.seen_at(at, Record { kind: Kind::Seen, raw, ..Record::of(EntryPoint::of_class(Class::ModuleLoad)) })
    }

    pub fn recording(&self) -> Recording<Vec<u8>> {
        let recorder = self.tracker.recorder();
        recorder.seen_alive(NOW);
        // A word at a time: most of the time of these tests is spent here.
        let mut bytes = vec![0; recorder.words().len() * WORD];
        recorder.read_at(0, &mut bytes).unwrap();
        let recording = Recording::open(bytes).unwrap();
        assert_eq!(recording.defects(), []);
        recording
    }

    pub fn snapshot(&self) -> Snapshot {
        snapshot_at(&self.recording(), 0, THRESHOLD, self.patience).unwrap()
    }

    pub fn diagnosis(&self) -> Diagnosis {
        diagnose(&self.snapshot())
    }

    /// The verdicts are these, each with its first culprit.
    pub fn check(&self, expect: &[(Code, &str)]) {
        let diagnosis = self.diagnosis();
        let got: Vec<_> = diagnosis
            .verdicts
            .iter()
            .map(|v| {
                let first = v.culprits.first().map(|c| &c.operation);
                (v.code, first.map_or("", |op| op.function.as_deref().unwrap_or(op.call.symbol())))
            })
            .collect();
        assert_eq!(got, expect, "{diagnosis:#?}\n{:#?}", self.snapshot());
        assert!(diagnosis.verdicts.iter().all(|v| !v.chain.is_empty() && !v.fix.is_empty() && !v.evidence.is_empty()));
        let snapshot = self.snapshot();
        for verdict in &diagnosis.verdicts {
            let links = links_of(&snapshot, verdict);
            let waits = |thread: u32| links.iter().any(|link| link.from == Party::Thread(thread));
            assert!(verdict.threads.iter().all(|thread| waits(*thread)), "{verdict:#?}");
        }
    }

    /// The same of streams that no thread waits for, from which no thread leads to the end.
    pub fn check_verdicts_of_streams(&self, expect: &[(Code, &str)]) {
        self.check(expect);
        assert!(self.diagnosis().verdicts.iter().all(|verdict| verdict.threads.is_empty()));
    }

    /// The driver is asked about a stream, and calls it busy.
    pub fn driver_says_busy(&self, stream: usize) -> &Self {
        self.driver_says_busy_at(stream, NOW - 2)
    }

    pub fn driver_says_busy_at(&self, stream: usize, at: u64) -> &Self {
        let facts = Record { kind: Kind::Seen, result: NOT_READY, ..self.facts("cuStreamQuery", at, Some(stream)) };
        self.tracker.thread(self.thread).unwrap().push(&Record { returned: at, ..facts }, Lane::RareEvents);
        self
    }

    /// It is slow, and one of the sentences says so.
    pub fn check_slow(&self, sentence: &str) {
        let diagnosis = self.diagnosis();
        assert_eq!((diagnosis.status, diagnosis.verdicts.len()), (Status::Slow, 0), "{diagnosis:#?}");
        assert!(diagnosis.slow.iter().any(|s| s.contains(sentence)), "{sentence}: {:#?}", diagnosis.slow);
    }

    /// A call does not return, and nothing that is known explains it.
    pub fn check_unexplained(&self) {
        self.check(&[(Code::LG299, "")]);
        let sentence = &self.diagnosis().verdicts[0].sentence;
        assert!(sentence.contains("nothing is known to be in flight"), "{sentence}");
    }

    pub fn check_well(&self) {
        assert_eq!(self.diagnosis(), Diagnosis::default());
    }
}
