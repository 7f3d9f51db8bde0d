//! A snapshot from a recording: what stood still when the process was last seen.
//!
//! The tables tell which streams have work outstanding and which calls are in progress. The records add what the tables do
//! not hold: the waits that those streams have not passed, the writes to their addresses, and the loads that came while the
//! work was in flight.
//!
//! Must not: keep more than a bounded number of records, whatever the recording's size; or hold anything against a stream
//! that was done by another one under the same number.

use super::snapshot::wait_seen;
use super::{BlockedCall, BusyStream, ColdLoadSeen, OperationSeen, Snapshot, StreamRef, WaitSeen};
use crate::api::{Class, Form};
use crate::state::{ColdKind, Operation, ValueWait, ValueWrite};
use crate::trace::layout::flag;
use crate::trace::read::{Entry, Recording, Source, StreamSeen, Texts};
use crate::trace::{Kind, Record};
use crate::Nanos;
use std::collections::{BTreeMap, VecDeque};
use std::io;

/// Waits kept of one stream. The first ones are kept: they are what the stream stands at.
const MOST_WAITS: usize = 512;
/// Loads kept, again the first ones.
const MOST_LOADS: usize = 64;
/// Writes kept, the newest.
const MOST_WRITES: usize = 4096;

/// A stream with work outstanding, as far as records are held against it.
struct Busy {
    context: u32,
    complete_until: Nanos,
    oldest: Operation,
    waits: Vec<ValueWait>,
}

/// What a snapshot needs of the records. Show it each one ([`Gathering::see`]), then take the snapshot.
pub struct Gathering {
    busy: BTreeMap<u32, Busy>,
    writes: VecDeque<ValueWrite>,
    loads: Vec<(u32, Record)>,
    last: Nanos,
}

impl Gathering {
    /// Nothing seen yet.
    pub fn new<S: Source>(recording: &Recording<S>) -> Self {
        let busy = recording.streams().iter().filter_map(|stream| {
            let idle_until = idle_until(recording, stream.context);
            let oldest = stream.oldest(idle_until)?;
            let complete_until = stream.complete_until.max(idle_until);
            // A stream is complete up to its birth: what came before was done by another one under the same number.
            Some((stream.number, Busy { context: stream.context, complete_until, oldest, waits: Vec::new() }))
        });
        let mut gathering =
            Self { busy: busy.collect(), writes: VecDeque::new(), loads: Vec::new(), last: last_of_tables(recording) };
        for thread in recording.threads() {
            if let Some(record) = &thread.call_in_progress {
                gathering.take(thread.thread, record);
            }
        }
        gathering
    }

    /// What is outstanding the longest on each busy stream: the stream's number, and when the submitting call was entered.
    pub fn outstanding(&self) -> impl Iterator<Item = (u32, Nanos)> + '_ {
        self.busy.iter().map(|(number, busy)| (*number, busy.oldest.at))
    }

    /// Takes in a record.
    pub fn see(&mut self, entry: &Entry) {
        self.take(entry.thread, &entry.record);
    }

    fn take(&mut self, thread: u32, record: &Record) {
        self.last = self.last.max(record.entered).max(record.returned);
        // What the driver refused did not happen.
        let refused = record.returned != 0 && record.result != 0;
        match record.kind {
            Kind::ColdFunction | Kind::ColdModule => self.load(thread, record),
            _ if refused || !record.submitted() => {}
            _ => match record.form.class() {
                Class::WaitValue | Class::WriteValue | Class::BatchMemOp => self.memory_operation(record),
                _ => {}
            },
        }
    }

    fn memory_operation(&mut self, record: &Record) {
        let (at, address, value) = (record.entered, record.detail, record.extent);
        if record.flags & flag::WAIT == 0 {
            if self.writes.len() == MOST_WRITES {
                self.writes.pop_front();
            }
            self.writes.push_back(ValueWrite { at, address, value, stream: record.stream });
            return;
        }
        let Some(busy) = self.busy.get_mut(&record.stream) else { return };
        if at > busy.complete_until && busy.waits.len() < MOST_WAITS {
            let wide = record.flags & flag::WIDE != 0;
            busy.waits.push(ValueWait { at, address, value, flags: u32::from(record.block()[0]), wide });
        }
    }

    fn load(&mut self, thread: u32, record: &Record) {
        if self.loads.len() < MOST_LOADS && self.behind(record).next().is_some() {
            self.loads.push((thread, *record));
        }
    }

    /// The streams of the load's context whose oldest outstanding operation was submitted before the load.
    fn behind<'a>(&'a self, record: &'a Record) -> impl Iterator<Item = u32> + 'a {
        let earlier = |busy: &Busy| busy.context == u32::from(record.context) && busy.oldest.at < record.entered;
        self.busy.iter().filter(move |(_, busy)| earlier(busy)).map(|(number, _)| *number)
    }

    /// The process is alive at this moment, whatever the recording knows of: what stood still stands still yet.
    pub fn alive_at(&mut self, now: Nanos) {
        self.last = self.last.max(now);
    }

    /// The snapshot, at the last moment that the recording knows of. A `threshold` of 0 is never passed.
    pub fn snapshot<S: Source>(&self, recording: &Recording<S>, threshold: Nanos) -> Snapshot {
        let view = View { recording, gathering: self };
        let mut streams: Vec<_> = self.busy.keys().filter_map(|number| view.busy_stream(*number)).collect();
        streams.sort_by_key(|stream| stream.oldest.at);
        Snapshot {
            at: self.last,
            threshold_nanos: threshold,
            blocked: view.blocked(threshold),
            streams,
            waits: view.waits(),
            loads: view.loads(),
        }
    }
}

/// The snapshot of a recording, of all of its records. See [`Gathering::snapshot`].
pub fn snapshot_of<S: Source>(recording: &Recording<S>, threshold: Nanos) -> io::Result<Snapshot> {
    let mut gathering = Gathering::new(recording);
    let mut records = recording.records();
    records.by_ref().for_each(|entry| gathering.see(&entry));
    match records.error() {
        Some(error) => Err(io::Error::new(error.kind(), error.to_string())),
        None => Ok(gathering.snapshot(recording, threshold)),
    }
}

fn idle_until<S: Source>(recording: &Recording<S>, context: u32) -> Nanos {
    recording.contexts().iter().find(|c| c.number == context).map_or(0, |c| c.idle_until)
}

/// The last moment that the header and the tables know of.
fn last_of_tables<S: Source>(recording: &Recording<S>) -> Nanos {
    let threads = recording.threads().iter().map(|thread| thread.born.max(thread.ended));
    let streams = recording.streams().iter().map(|stream| stream.born.max(stream.last_submitted));
    threads.chain(streams).fold(recording.facts().last_seen, Nanos::max)
}

/// The name of a function, as a record means it whose call returned then; its handle, if it has none.
fn function_name(texts: &Texts, number: u32, returned: Nanos) -> Option<String> {
    if number == 0 {
        return None;
    }
    let function = texts.function(number, returned)?;
    Some(function.name.map_or_else(|| format!("function {:#x}", function.handle), str::to_owned))
}

/// When a record's call returned, for the question what its numbers mean: a call in progress means what is newest.
fn meant_at(record: &Record) -> Nanos {
    if record.returned == 0 {
        Nanos::MAX
    } else {
        record.returned
    }
}

/// A recording, seen through numbers.
struct View<'a, S> {
    recording: &'a Recording<S>,
    gathering: &'a Gathering,
}

impl<S: Source> View<'_, S> {
    fn context_handle(&self, number: u32) -> u64 {
        self.recording.contexts().iter().find(|c| c.number == number).map_or(0, |c| c.handle)
    }

    fn stream(&self, number: u32) -> Option<&StreamSeen> {
        self.recording.streams().iter().find(|s| s.number == number)
    }

    /// The stream that has the number now.
    fn stream_ref(&self, number: u32) -> Option<StreamRef> {
        let stream = self.stream(number)?;
        let kind = stream.kind.name().to_owned();
        Some(StreamRef { number, handle: stream.handle, kind, context: self.context_handle(stream.context) })
    }

    /// The stream that had the number then.
    fn stream_ref_then(&self, number: u32, at: Nanos) -> Option<StreamRef> {
        match self.recording.texts().stream(number, at) {
            Some(stream) => Some(StreamRef {
                number,
                handle: stream.handle,
                kind: stream.kind.name().to_owned(),
                context: self.context_handle(stream.context),
            }),
            None => self.stream_ref(number),
        }
    }

    fn busy_stream(&self, number: u32) -> Option<BusyStream> {
        let oldest = self.gathering.busy.get(&number)?.oldest;
        let stream = self.stream(number)?;
        Some(BusyStream {
            stream: self.stream_ref(number)?,
            oldest: OperationSeen {
                at: oldest.at,
                call: Form::by_id(oldest.form).map_or("?", Form::symbol).to_owned(),
                function: function_name(self.recording.texts(), oldest.function, Nanos::MAX),
            },
            last_submitted: stream.last_submitted,
            submitted: stream.submitted,
        })
    }

    fn blocked(&self, threshold: Nanos) -> Vec<BlockedCall> {
        let calls = self.recording.threads().iter().filter_map(|t| Some((t, t.call_in_progress.as_ref()?)));
        let mut blocked: Vec<_> = calls
            .map(|(thread, call)| {
                let blocked_nanos = self.gathering.last.saturating_sub(call.entered);
                BlockedCall {
                    thread: thread.thread,
                    thread_name: thread.name.clone(),
                    call: call.form.symbol().to_owned(),
                    entered: call.entered,
                    blocked_nanos,
                    past_threshold: threshold != 0 && blocked_nanos >= threshold,
                    context: self.context_handle(u32::from(call.context)),
                    stream: self.stream_ref(call.stream),
                    function: function_name(self.recording.texts(), call.function, Nanos::MAX),
                    cold: cold_kind(call.kind),
                }
            })
            .collect();
        blocked.sort_by_key(|call| call.entered);
        blocked
    }

    fn waits(&self) -> Vec<WaitSeen> {
        let busy = &self.gathering.busy;
        let writes: Vec<_> = self.gathering.writes.iter().copied().collect();
        let outstanding = |w: &ValueWrite| busy.get(&w.stream).is_some_and(|s| s.oldest.at <= w.at);
        let mut waits: Vec<_> = busy
            .iter()
            .filter_map(|(number, stream)| Some((self.stream_ref(*number)?, stream)))
            .flat_map(|(name, stream)| stream.waits.iter().map(move |wait| (name.clone(), wait)))
            .map(|(name, wait)| wait_seen(name, wait, &writes, &outstanding))
            .collect();
        waits.sort_by_key(|wait| wait.at);
        waits
    }

    fn loads(&self) -> Vec<ColdLoadSeen> {
        let mut loads: Vec<_> = self
            .gathering
            .loads
            .iter()
            .filter_map(|(thread, record)| {
                Some(ColdLoadSeen {
                    at: record.entered,
                    call: record.form.symbol().to_owned(),
                    kind: cold_kind(record.kind)?,
                    context: self.context_handle(u32::from(record.context)),
                    function: function_name(self.recording.texts(), record.function, meant_at(record)),
                    stream: self.stream_ref_then(record.stream, meant_at(record)),
                    thread: *thread,
                    behind: self.gathering.behind(record).filter_map(|number| self.busy_stream(number)).collect(),
                })
            })
            .collect();
        loads.sort_by_key(|load| load.at);
        loads
    }
}

fn cold_kind(kind: Kind) -> Option<ColdKind> {
    match kind {
        Kind::ColdFunction => Some(ColdKind::Function),
        Kind::ColdModule => Some(ColdKind::Module),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose::diagnose;
    use crate::state::{ColdLoad, FunctionKind, StreamKey, StreamKind, World};

    const SECOND: u64 = 1_000_000_000;
    const NOW: u64 = 10 * SECOND;

    /// A process told as calls, each folded into the state and recorded as the hooks do it.
    struct Story {
        world: World,
        context: u32,
        streams: [u32; 3],
        thread: u32,
    }

    impl Story {
        fn new() -> Self {
            let world = World::default();
            let context = world.context(0xc0, 1);
            let streams = [0x51, 0x52, 0x53].map(|handle| {
                world.stream(StreamKey { handle, context: 0, thread: 0 }, context, StreamKind::NonBlocking, 1)
            });
            let thread = Self::begin_thread(&world, 100);
            Self { world, context, streams, thread }
        }

        fn begin_thread(world: &World, id: u32) -> u32 {
            let number = world.begin_thread(id, 1).unwrap();
            world.thread(number).unwrap().set_name(&format!("t{id}"));
            number
        }

        fn function(&self, name: &str) -> u32 {
            let handle = name.bytes().map(u64::from).sum::<u64>() << 8;
            let number = self.world.function(handle, FunctionKind::Kernel, 0x11);
            self.world.name_function(number, name);
            self.world.introduce_function(number, 2);
            number
        }

        fn facts(&self, call: &str, at: u64, stream: Option<usize>) -> Record {
            let form = Form::by_symbol(call.as_bytes()).unwrap();
            let stream = stream.map_or(0, |s| self.streams[s]);
            Record { stream, context: self.context as u16, entered: at, ..Record::of(form) }
        }

        /// The call is made and returns after a nanosecond, with this answer.
        fn call(&self, facts: &Record, result: i32) -> &Self {
            let class = facts.form.class();
            let slot = self.world.thread(self.thread).unwrap();
            let open = slot.open(facts, class);
            slot.mark(&open);
            if let (true, Some(entry)) = (facts.submitted(), self.world.stream_entry(facts.stream)) {
                let op = Operation { at: facts.entered, form: facts.form.id(), function: facts.function };
                let first = entry.submitting(op, self.world.stream_idle_until(entry));
                entry.submitted(facts.entered + 1);
                if let (Some(number), true) = (first, result != 0) {
                    entry.refused(number, facts.entered + 1);
                }
            }
            slot.close(open, class, facts.entered + 1, result);
            slot.unmark();
            self
        }

        fn submit(&self, stream: usize, at: u64, call: &str) -> Record {
            Record { flags: flag::SUBMITTED, ..self.facts(call, at, Some(stream)) }
        }

        fn launch(&self, stream: usize, at: u64, name: &str) -> &Self {
            let function = self.function(name);
            self.call(&Record { function, ..self.submit(stream, at, "cuLaunchKernel") }, 0)
        }

        fn cold(&self, stream: usize, at: u64, name: &str) -> &Self {
            let function = self.function(name);
            let facts = Record { function, kind: Kind::ColdFunction, ..self.submit(stream, at, "cuLaunchKernel") };
            self.world.cold_load(ColdLoad {
                at,
                form: facts.form,
                kind: ColdKind::Function,
                context: self.context,
                function,
                stream: facts.stream,
                thread: 100,
                in_flight: self.world.in_flight(self.context),
            });
            self.call(&facts, 0)
        }

        fn wait(&self, stream: usize, at: u64, address: u64, value: u64) -> &Self {
            let facts = self.submit(stream, at, "cuStreamWaitValue32_v2");
            let flags = facts.flags | flag::WAIT;
            let wait = ValueWait { at, address, value, flags: 1, wide: false };
            self.world.stream_entry(facts.stream).unwrap().waits_for(wait);
            self.call(&Record { flags, three: 1, extent: value, detail: address, ..facts }, 0)
        }

        fn write(&self, stream: usize, at: u64, address: u64, value: u64) -> &Self {
            let facts = self.submit(stream, at, "cuStreamWriteValue32_v2");
            self.world.value_written(ValueWrite { at, address, value, stream: facts.stream });
            self.call(&Record { extent: value, detail: address, ..facts }, 0)
        }

        fn synchronize(&self, stream: usize, at: u64) -> &Self {
            self.call(&self.facts("cuStreamSynchronize", at, Some(stream)), 0);
            self.world.stream_entry(self.streams[stream]).unwrap().complete_until(at);
            self
        }

        fn blocked(&self, id: u32, at: u64, call: &str, stream: Option<usize>, kind: Kind, name: &str) -> &Self {
            let slot = self.world.thread(Self::begin_thread(&self.world, id)).unwrap();
            let function = if name.is_empty() { 0 } else { self.function(name) };
            let facts = Record { kind, function, ..self.facts(call, at, stream) };
            slot.mark(&slot.open(&facts, facts.form.class()));
            self
        }

        fn live(&self) -> Snapshot {
            Snapshot::take(&self.world, NOW, 2 * SECOND, &|thread| format!("t{thread}"))
        }

        fn recording(&self) -> Recording<Vec<u8>> {
            let recorder = self.world.recorder();
            recorder.seen_alive(NOW);
            let words = recorder.words().iter();
            let bytes = words.flat_map(|word| word.load(std::sync::atomic::Ordering::Relaxed).to_le_bytes()).collect();
            let recording = Recording::open(bytes).unwrap();
            assert_eq!(recording.defects(), []);
            recording
        }

        fn recorded(&self) -> Snapshot {
            snapshot_of(&self.recording(), 2 * SECOND).unwrap()
        }

        /// The recording tells what the live state does, and tells something.
        fn check(&self) {
            let live = self.live();
            assert!(!diagnose(&live).is_empty(), "{live:#?}");
            assert_eq!(self.recorded(), live);
        }
    }

    #[test]
    fn a_recording_tells_of_a_barrier_what_the_live_state_does() {
        let story = Story::new();
        story.launch(0, 10, "k1").cold(1, 20, "k2").blocked(1, 30, "cuCtxSynchronize", None, Kind::Call, "");
        story.check();
        assert_eq!(story.recorded().loads[0].behind[0].oldest.function.as_deref(), Some("k1"));
    }

    #[test]
    fn a_recording_tells_of_a_blocked_load_what_the_live_state_does() {
        let story = Story::new();
        story.launch(0, 10, "spin");
        story.blocked(2, 20, "cuLaunchKernel", Some(1), Kind::ColdModule, "k2");
        story.blocked(3, 30, "cuStreamSynchronize", Some(0), Kind::Call, "");
        let (live, mut recorded) = (story.live(), story.recorded());
        // The load itself is still in progress, and the live state has it among the loads when its hook has noted it.
        assert_eq!(recorded.loads.len(), 1);
        recorded.loads.clear();
        assert_eq!(recorded, live);
        assert_eq!(diagnose(&recorded), diagnose(&live));
    }

    #[test]
    fn a_recording_tells_of_waits_and_writes_what_the_live_state_does() {
        for (written, behind) in [(7, 0), (7, 1), (1, 0), (1, 1)] {
            let story = Story::new();
            story.write(2, 5, 0xf1a6, 1).write(2, 6, 0xf1a6, 0).synchronize(2, 8);
            story.wait(0, 10, 0xf1a6, 1).launch(1, 11, "spin").write(behind, 12, 0xf1a6, written);
            story.blocked(1, 30, "cuStreamSynchronize", Some(0), Kind::Call, "");
            story.check();
        }
    }

    #[test]
    fn what_a_stream_has_passed_is_over() {
        let story = Story::new();
        story.wait(0, 10, 0xf1a6, 1).launch(0, 12, "k").synchronize(0, 20);
        story.launch(0, 30, "k").cold(1, 40, "k2").synchronize(0, 50).launch(0, 60, "spin");
        story.blocked(1, 70, "cuStreamSynchronize", Some(0), Kind::Call, "");
        story.check();
        let snapshot = story.recorded();
        assert!(snapshot.waits.is_empty() && snapshot.loads.is_empty(), "{snapshot:#?}");
        assert_eq!(snapshot.streams[1].oldest.at, 60);
    }

    #[test]
    fn what_the_driver_refused_holds_nothing_up() {
        let story = Story::new();
        let refused = Record {
            flags: flag::SUBMITTED | flag::WAIT,
            three: 1,
            detail: 0xf1a6,
            ..story.submit(0, 10, "cuStreamWaitValue32_v2")
        };
        story.launch(0, 5, "spin").call(&refused, 1);
        story.blocked(1, 30, "cuStreamSynchronize", Some(0), Kind::Call, "");
        story.check();
        assert!(story.recorded().waits.is_empty());
    }

    #[test]
    fn a_stream_under_a_number_used_again_is_not_held_responsible() {
        let story = Story::new();
        story.wait(0, 10, 0xf1a6, 1);
        story.call(&story.facts("cuCtxSynchronize", 20, None), 0);
        story.world.context_complete(story.context, 20);
        story.world.stream_gone(StreamKey { handle: 0x51, context: 0, thread: 0 });
        let key = StreamKey { handle: 0x99, context: 0, thread: 0 };
        let again = story.world.stream(key, story.context, StreamKind::Blocking, 25);
        assert_eq!(again, story.streams[0]);
        story.launch(0, 30, "spin").blocked(1, 40, "cuStreamSynchronize", Some(0), Kind::Call, "");
        story.check();
        assert_eq!(story.recorded().streams[0].stream.handle, 0x99);
    }

    #[test]
    fn the_first_waits_and_loads_are_kept_of_however_many() {
        let story = Story::new();
        for n in 0..MOST_WAITS as u64 + 10 {
            story.wait(0, 10 + 2 * n, 0xf1a6, n);
        }
        let snapshot = story.recorded();
        assert_eq!((snapshot.waits.len(), snapshot.waits[0].at), (MOST_WAITS, 10));
        for n in 0..MOST_LOADS as u64 + 10 {
            story.cold(1, 10_000 + 2 * n, "k");
        }
        let snapshot = story.recorded();
        assert_eq!((snapshot.loads.len(), snapshot.loads[0].at), (MOST_LOADS, 10_000));
    }

    #[test]
    fn without_a_threshold_nothing_is_past_it() {
        let story = Story::new();
        story.launch(0, 10, "spin").blocked(1, 30, "cuCtxSynchronize", None, Kind::Call, "");
        let snapshot = snapshot_of(&story.recording(), 0).unwrap();
        assert_eq!((snapshot.blocked.len(), snapshot.blocked[0].past_threshold), (1, false));
        assert_eq!(snapshot.at, NOW);
    }
}
