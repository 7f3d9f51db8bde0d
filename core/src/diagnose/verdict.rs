//! The decision: which patterns a snapshot shows, who is to blame, and what to change.
//!
//! Order matters: a thread that is blocked loading a module holds everybody else back, so it is looked for first; then
//! the barrier of a function load, which shows as an innocent synchronize; then a wait that nobody will satisfy, which
//! is only the cause when neither of the others keeps its writer from being submitted.

use super::code::Code;
use super::snapshot::{BlockedCall, BusyStream, ColdLoadSeen, OperationSeen, Snapshot, StreamRef, WaitSeen};
use crate::api::{Class, Form};
use crate::report::demangle;
use crate::state::ColdKind;
use serde::{Deserialize, Serialize};

/// What does not end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Culprit {
    /// The stream it is on.
    pub stream: StreamRef,
    /// The operation.
    pub operation: OperationSeen,
}

/// A cause, with its chain and its remedy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The code.
    pub code: Code,
    /// What the code means.
    pub title: String,
    /// The blocked threads it explains.
    pub threads: Vec<u32>,
    /// Who waits for whom, down to what does not end; one sentence each.
    pub chain: Vec<String>,
    /// What does not end.
    pub culprits: Vec<Culprit>,
    /// What to change, in the imperative.
    pub fix: String,
}

impl Verdict {
    fn new(code: Code, explains: &[&BlockedCall]) -> Self {
        Self {
            code,
            title: code.title().to_owned(),
            threads: explains.iter().map(|c| c.thread).collect(),
            chain: Vec::new(),
            culprits: Vec::new(),
            fix: String::new(),
        }
    }

    fn blame(&mut self, streams: &[BusyStream]) {
        for busy in streams {
            self.chain.push(format!(
                "{} on {} was submitted at {} and is not known to have ended",
                operation(&busy.oldest),
                stream(&busy.stream),
                time(busy.oldest.at)
            ));
            self.culprits.push(Culprit { stream: busy.stream.clone(), operation: busy.oldest.clone() });
        }
    }
}

/// Every pattern the snapshot shows, the root cause first. Empty when nothing is blocked past the threshold, or when
/// nothing is in flight that a blocked call could be waiting for: it is slow then, not stuck.
pub fn diagnose(snapshot: &Snapshot) -> Vec<Verdict> {
    let past: Vec<&BlockedCall> = snapshot.blocked.iter().filter(|c| c.past_threshold).collect();
    if past.is_empty() || snapshot.streams.is_empty() {
        return Vec::new();
    }
    let mut verdicts: Vec<Verdict> =
        [module_load(snapshot, &past), function_load(snapshot, &past)].into_iter().flatten().collect();
    if verdicts.is_empty() {
        verdicts.extend(unwritten_value(snapshot, &past));
    }
    let rest: Vec<_> =
        past.into_iter().filter(|call| !verdicts.iter().any(|v| v.threads.contains(&call.thread))).collect();
    if !rest.is_empty() {
        verdicts.extend(unexplained(snapshot, &rest));
    }
    verdicts
}

/// LG202: a thread loads a module into a context in which something does not end.
fn module_load(snapshot: &Snapshot, past: &[&BlockedCall]) -> Option<Verdict> {
    let loads = |c: &&&BlockedCall| c.cold == Some(ColdKind::Module) || class(&c.call).is_some_and(Class::loads_module);
    let loader = past.iter().find(loads)?;
    // The oldest operation of each stream that was busy before the load began; the load waits for all of them.
    let behind: Vec<_> =
        in_context(snapshot, loader.context).filter(|s| s.oldest.at < loader.entered).cloned().collect();
    if behind.is_empty() {
        return None;
    }
    let others: Vec<_> =
        past.iter().filter(|c| c.thread != loader.thread && same_context(c, loader)).copied().collect();
    let mut explains = vec![*loader];
    explains.extend(&others);
    let mut verdict = Verdict::new(Code::LG202, &explains);
    verdict.chain.push(format!(
        "{} is in {}{} since {}, which brings {} into the context",
        thread(loader),
        loader.call,
        about(loader),
        time(loader.entered),
        match &loader.function {
            Some(function) => format!("the module or library of {}", demangle(function)),
            None => "a module or library".to_owned(),
        }
    ));
    verdict.chain.push("the driver does that only once everything in flight in the context has ended".to_owned());
    verdict.blame(&behind);
    for other in others {
        verdict.chain.push(format!(
            "{} is in {} since {} and waits with it",
            thread(other),
            other.call,
            time(other.entered)
        ));
    }
    verdict.chain.extend(waits_in(snapshot, &behind));
    verdict.fix = match (&loader.function, class(&loader.call)) {
        (_, Some(Class::ModuleLoad)) => {
            format!("Call {} before the work that does not end is submitted.", loader.call)
        }
        (Some(function), _) => format!(
            "Load {0} before {1} is submitted: launch it once, or call cudaFuncGetAttributes or cuKernelGetFunction on it; \
             LAZYGUARD_PRELOAD=auto does this for libraries that are registered by then.",
            demangle(function),
            operation(&behind[0].oldest)
        ),
        _ => "Use the library once before the work that does not end is submitted; LAZYGUARD_PRELOAD=auto does this for \
              libraries that are registered by then."
            .to_owned(),
    };
    Some(verdict)
}

/// LG201: a function load put a barrier behind something that does not end, and what was submitted later is waited for.
fn function_load(snapshot: &Snapshot, past: &[&BlockedCall]) -> Option<Verdict> {
    let waits_for_later_work = |load: &ColdLoadSeen, call: &BlockedCall| {
        let later = |s: &BusyStream| {
            s.last_submitted >= load.at && load.behind.iter().any(|b| b.stream.number != s.stream.number)
        };
        match (&call.stream, class(&call.call)) {
            (Some(_), Some(class)) if class.waits_on_default_stream() => in_context(snapshot, load.context).any(later),
            // A synchronize on the stream that does not end would block without the load as well.
            (Some(stream), _) => {
                in_context(snapshot, load.context).any(|s| s.stream.number == stream.number && later(s))
            }
            (None, Some(class)) if class.synchronizes() || class.waits_for_whole_context() => {
                in_context(snapshot, load.context).any(later)
            }
            _ => false,
        }
    };
    let load = snapshot
        .loads
        .iter()
        .find(|load| load.kind == ColdKind::Function && past.iter().any(|call| waits_for_later_work(load, call)))?;
    let explains: Vec<_> = past.iter().filter(|call| waits_for_later_work(load, call)).copied().collect();
    let function = load.function.as_deref().map_or_else(|| "a function".to_owned(), demangle);
    let mut verdict = Verdict::new(Code::LG201, &explains);
    for call in &explains {
        verdict.chain.push(format!("{} is in {}{} since {}", thread(call), call.call, about(call), time(call.entered)));
    }
    verdict.chain.push(format!(
        "{}{} loaded {function} on its first use at {}, while other work was in flight",
        load.call,
        load.stream.as_ref().map(|s| format!(" on {}", stream(s))).unwrap_or_default(),
        time(load.at),
    ));
    verdict.chain.push(
        "the load returned at once, but nothing submitted to the context after it starts before everything earlier has ended"
            .to_owned(),
    );
    verdict.blame(&load.behind);
    verdict.chain.extend(waits_in(snapshot, &load.behind));
    verdict.fix = format!(
        "Load {function} before {} is submitted: call cudaFuncGetAttributes or cuFuncLoad on it, or launch it once; \
         LAZYGUARD_PRELOAD=auto does this.",
        operation(&load.behind[0].oldest)
    );
    Some(verdict)
}

/// LG203: a stream waits for a value that no submitted operation writes.
fn unwritten_value(snapshot: &Snapshot, past: &[&BlockedCall]) -> Option<Verdict> {
    let concerns = |wait: &WaitSeen, call: &BlockedCall| match &call.stream {
        Some(stream) => stream.number == wait.stream.number,
        None => call.context == 0 || call.context == wait.stream.context,
    };
    let wait =
        snapshot.waits.iter().find(|w| w.satisfying_writes.is_empty() && past.iter().any(|call| concerns(w, call)))?;
    let explains: Vec<_> = past.iter().filter(|call| concerns(wait, call)).copied().collect();
    let mut verdict = Verdict::new(Code::LG203, &explains);
    for call in &explains {
        verdict.chain.push(format!("{} is in {}{} since {}", thread(call), call.call, about(call), time(call.entered)));
    }
    verdict.chain.push(wait_sentence(wait));
    let others = match wait.other_writes {
        0 => String::new(),
        n => format!(" ({n} to that address carry another value, were overwritten, or stand behind the wait itself)"),
    };
    verdict.chain.push(format!("no cuStreamWriteValue that was submitted to any stream will satisfy it{others}"));
    let on_stream = snapshot.streams.iter().find(|s| s.stream.number == wait.stream.number);
    verdict.culprits.extend(on_stream.map(|s| Culprit { stream: s.stream.clone(), operation: s.oldest.clone() }));
    verdict.fix = format!(
        "Submit the operation that writes {} to {:#x} before, or from a thread that does not depend on, the call that \
         waits for it; a kernel or the host may write it too.",
        wait.value, wait.address
    );
    Some(verdict)
}

/// LG299: the oldest operation of each busy stream, and since when.
fn unexplained(snapshot: &Snapshot, past: &[&BlockedCall]) -> Option<Verdict> {
    let contexts: Vec<u64> = past.iter().map(|c| c.context).collect();
    let busy: Vec<_> = snapshot
        .streams
        .iter()
        .filter(|s| contexts.iter().any(|&c| c == 0 || c == s.stream.context))
        .cloned()
        .collect();
    if busy.is_empty() {
        return None;
    }
    // What a blocked call names comes first.
    let mut busy = busy;
    busy.sort_by_key(|s| !past.iter().any(|c| c.stream.as_ref().is_some_and(|n| n.number == s.stream.number)));
    let mut verdict = Verdict::new(Code::LG299, past);
    for call in past {
        verdict.chain.push(format!("{} is in {}{} since {}", thread(call), call.call, about(call), time(call.entered)));
    }
    verdict.blame(&busy);
    verdict.chain.extend(waits_in(snapshot, &busy));
    verdict.fix = format!("Find out why {} does not end.", operation(&busy[0].oldest));
    Some(verdict)
}

fn class(call: &str) -> Option<Class> {
    Snapshot::form(call).map(Form::class)
}

fn in_context(snapshot: &Snapshot, context: u64) -> impl Iterator<Item = &BusyStream> {
    snapshot.streams.iter().filter(move |s| context == 0 || s.stream.context == context)
}

fn same_context(a: &BlockedCall, b: &BlockedCall) -> bool {
    a.context == 0 || b.context == 0 || a.context == b.context
}

fn waits_in(snapshot: &Snapshot, streams: &[BusyStream]) -> Vec<String> {
    snapshot
        .waits
        .iter()
        .filter(|w| streams.iter().any(|s| s.stream.number == w.stream.number))
        .map(wait_sentence)
        .collect()
}

fn wait_sentence(wait: &WaitSeen) -> String {
    format!(
        "{} waits since {} for memory at {:#x} to be {} {}",
        stream(&wait.stream),
        time(wait.at),
        wait.address,
        wait.condition,
        wait.value
    )
}

fn thread(call: &BlockedCall) -> String {
    format!("thread {} \"{}\"", call.thread, call.thread_name)
}

fn about(call: &BlockedCall) -> String {
    let function = call.function.as_deref().map(|f| format!(" of {}", demangle(f))).unwrap_or_default();
    let on = call.stream.as_ref().map(|s| format!(" on {}", stream(s))).unwrap_or_default();
    function + &on
}

fn operation(op: &OperationSeen) -> String {
    match &op.function {
        Some(function) => format!("kernel {}", demangle(function)),
        None => op.call.clone(),
    }
}

fn stream(stream: &StreamRef) -> String {
    format!("stream {} ({:#x}, {})", stream.number, stream.handle, stream.kind)
}

fn time(at: crate::Nanos) -> String {
    format!("+{:.3} s", at as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{ColdLoad, FunctionKind, Operation, StreamKey, StreamKind, ValueWait, ValueWrite, World};
    use crate::trace::{Kind, Record};

    const SECOND: u64 = 1_000_000_000;

    /// A process told as events, as the hooks would fold them.
    struct Story {
        world: World,
        context: u32,
        streams: [u32; 3],
    }

    impl Story {
        fn new() -> Self {
            let world = World::default();
            let context = world.context(0xc0, 1);
            let streams = [0x51, 0x52, 0x53].map(|handle| {
                world.stream(StreamKey { handle, context: 0, thread: 0 }, context, StreamKind::Blocking, 1)
            });
            Self { world, context, streams }
        }

        fn form(call: &str) -> Form {
            Form::by_symbol(call.as_bytes()).unwrap()
        }

        fn function(&self, name: &str) -> u32 {
            let handle = name.bytes().map(u64::from).sum::<u64>() << 8;
            let number = self.world.function(handle, FunctionKind::Kernel, 0x11);
            self.world.name_function(number, name);
            number
        }

        fn submit(&self, stream: usize, at: u64, call: &str, function: u32) -> &Self {
            let entry = self.world.stream_entry(self.streams[stream]).unwrap();
            entry.submitting(Operation { at, form: Self::form(call).id(), function }, 0);
            entry.submitted(at + 1);
            self
        }

        fn launch(&self, stream: usize, at: u64, name: &str) -> &Self {
            self.submit(stream, at, "cuLaunchKernel", self.function(name))
        }

        fn cold(&self, stream: usize, at: u64, name: &str) -> &Self {
            self.world.cold_load(ColdLoad {
                at,
                form: Self::form("cuLaunchKernel"),
                kind: ColdKind::Function,
                context: self.context,
                function: self.function(name),
                stream: self.streams[stream],
                thread: 1,
                in_flight: self.world.in_flight(self.context),
            });
            self.launch(stream, at, name)
        }

        fn wait(&self, stream: usize, at: u64, address: u64, value: u64) -> &Self {
            self.submit(stream, at, "cuStreamWaitValue32_v2", 0);
            let wait = ValueWait { at, address, value, flags: 1, wide: false };
            self.world.stream_entry(self.streams[stream]).unwrap().waits_for(wait);
            self
        }

        fn write(&self, stream: usize, at: u64, address: u64, value: u64) -> &Self {
            self.submit(stream, at, "cuStreamWriteValue32_v2", 0);
            self.world.value_written(ValueWrite { at, address, value, stream: self.streams[stream] });
            self
        }

        fn blocked(&self, thread: u32, at: u64, call: &str, stream: Option<usize>, cold: u32, function: u32) -> &Self {
            let slot = self.world.thread(self.world.begin_thread(thread, 2).unwrap()).unwrap();
            let form = Self::form(call);
            let kind = [Kind::Call, Kind::ColdFunction, Kind::ColdModule][cold as usize];
            let stream = stream.map_or(0, |s| self.streams[s]);
            let facts =
                Record { kind, stream, function, context: self.context as u16, entered: at, ..Record::of(form) };
            slot.mark(&slot.open(&facts, form.class()));
            self
        }

        fn verdicts(&self, now: u64) -> Vec<Verdict> {
            diagnose(&Snapshot::take(&self.world, now, 2 * SECOND, &|t| format!("t{t}")))
        }

        fn check(&self, expect: &[(Code, &str)]) {
            let verdicts = self.verdicts(10 * SECOND);
            let got: Vec<_> = verdicts
                .iter()
                .map(|v| {
                    let first = v.culprits.first().map(|c| &c.operation);
                    (v.code, first.map_or("", |op| op.function.as_deref().unwrap_or(&op.call)))
                })
                .collect();
            assert_eq!(got, expect, "{verdicts:#?}");
        }
    }

    #[test]
    fn the_barrier_of_a_cold_function_is_blamed_on_what_it_stands_behind() {
        let story = Story::new();
        story.launch(0, 10, "k1").cold(1, 20, "k2").blocked(1, 30, "cuCtxSynchronize", None, 0, 0);
        story.check(&[(Code::LG201, "k1")]);
        let fix = &story.verdicts(10 * SECOND)[0].fix;
        assert!(fix.contains("k2") && fix.contains("kernel k1"), "{fix}");
    }

    #[test]
    fn an_innocent_stream_synchronized_after_a_cold_load_is_explained() {
        let story = Story::new();
        story.launch(0, 10, "spin").cold(1, 20, "k2").launch(2, 25, "warm");
        story.blocked(1, 30, "cuStreamSynchronize", Some(2), 0, 0);
        story.check(&[(Code::LG201, "spin")]);
    }

    #[test]
    fn waiting_for_the_spinning_stream_itself_is_not_the_barriers_fault() {
        let story = Story::new();
        story.launch(0, 10, "spin").cold(1, 20, "k2");
        story.blocked(1, 30, "cuStreamSynchronize", Some(0), 0, 0);
        assert_eq!(story.verdicts(10 * SECOND)[0].code, Code::LG299);
    }

    #[test]
    fn a_thread_blocked_in_a_cold_launch_explains_those_behind_it() {
        let story = Story::new();
        story.wait(0, 10, 0xf1a6, 1);
        let trivial = story.function("trivial");
        story.blocked(2, 20, "cuLaunchKernel", Some(1), 2, trivial);
        story.blocked(1, 30, "cuLaunchKernel", Some(0), 0, trivial);
        story.check(&[(Code::LG202, "cuStreamWaitValue32_v2")]);
        let verdict = &story.verdicts(10 * SECOND)[0];
        assert_eq!(verdict.threads, [2, 1]);
        assert!(verdict.chain.iter().any(|c| c.contains("0xf1a6")), "{verdict:#?}");
    }

    #[test]
    fn a_module_load_alone_is_only_slow() {
        let story = Story::new();
        story.blocked(1, 30, "cuModuleLoadData", None, 2, 0);
        story.check(&[]);
    }

    #[test]
    fn a_value_nobody_writes_is_told_from_one_whose_writer_is_stuck() {
        let story = Story::new();
        story.wait(0, 10, 0xf1a6, 1).write(1, 12, 0xf1a6, 7).blocked(1, 30, "cuStreamSynchronize", Some(0), 0, 0);
        story.check(&[(Code::LG203, "cuStreamWaitValue32_v2")]);

        let story = Story::new();
        story.wait(0, 10, 0xf1a6, 1).launch(1, 11, "spin").write(1, 12, 0xf1a6, 1);
        story.blocked(1, 30, "cuStreamSynchronize", Some(0), 0, 0);
        story.check(&[(Code::LG299, "cuStreamWaitValue32_v2")]);
    }

    #[test]
    fn nothing_is_said_before_the_threshold_or_when_nothing_is_in_flight() {
        let story = Story::new();
        story.launch(0, 10, "k1").blocked(1, 30, "cuCtxSynchronize", None, 0, 0);
        assert!(story.verdicts(SECOND).is_empty());
        assert_eq!(story.verdicts(10 * SECOND)[0].code, Code::LG299);
        let idle = Story::new();
        idle.blocked(1, 30, "cuCtxSynchronize", None, 0, 0);
        assert!(idle.verdicts(10 * SECOND).is_empty());
    }

    #[test]
    fn a_hang_in_one_context_does_not_blame_another() {
        let story = Story::new();
        let other = story.world.context(0xd0, 1);
        let key = StreamKey { handle: 0x99, context: 0, thread: 0 };
        let far = story.world.stream(key, other, StreamKind::Blocking, 1);
        let entry = story.world.stream_entry(far).unwrap();
        entry.submitting(Operation { at: 5, form: Story::form("cuLaunchKernel").index() as u16, function: 0 }, 0);
        entry.submitted(6);
        story.launch(0, 10, "k1").blocked(1, 30, "cuCtxSynchronize", None, 0, 0);
        let verdict = &story.verdicts(10 * SECOND)[0];
        assert!(verdict.culprits.iter().all(|c| c.stream.context == 0xc0), "{verdict:#?}");
    }
}
