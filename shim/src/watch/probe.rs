//! The driver's own answers during a standstill.
//!
//! In every blocked call that was tried, the driver still answered some questions, which show what has ended without a query. Drivers do not promise this.
//! So a thread that may block for good asks, after the report is written.
//!
//! Protocol: the watchdog lists the questions, starts the thread, waits for a short time, and folds the answers into the state and the recording. The thread
//! says which question it is at; if it does not come back, no other is started. It asks between the marks that a thread looks for before it destroys
//! something ([`Asking`]).
//!
//! The questions were answered without a current context during every blocked call that was tried on an H200 (`testapps/simdriver/ground-truth`):
//! `questions-during-blocked-calls.tsv`, and `calls-during-further-blocked-calls.tsv` for `cuKernelGetAttribute`.
//!
//! | question | asked, and why |
//! |---|---|
//! | `cuStreamQuery` | whether the stream is done; `cuStreamIsCapturing` is asked before |
//! | `cuStreamQuery` of the legacy default stream | between `cuCtxPushCurrent` and `cuCtxPopCurrent`: its handle means a stream only with a context |
//! | `cuStreamQuery` of a stream that a thread is blocked submitting to | never: with its queue full, the driver holds that stream's lock, and the question blocks |
//! | `cuStreamQuery` of a destroyed stream, or of another thread's own default stream | never: the handle means nothing, or another stream |
//! | `cuEventQuery` | how far a busy stream has come. Never during a capture: a query of an event that is part of one ends it |
//! | `cuFuncIsLoaded` | whether a load that is under way has been done |
//! | `cuFuncGetAttribute`, `cuKernelGetAttribute`, `cuDeviceGetAttribute` | what a kernel needs and the device has: `core::diagnose::occupancy` computes how many blocks fit |
//! | `cuOccupancyMaxActiveBlocksPerMultiprocessor` | never: it blocks during a load or a release |
//! | `cuPointerGetAttribute` | whether a word that is waited for is in memory of the host, which the kernel then reads. Managed memory is left alone: a look moves it |
//! | limits, and every call that allocates or submits | never: they block during most of these calls |
//!
//! Must not: ask anything else.

use crate::lookup::driver::{self, Handle, SUCCESS};
use crate::lookup::{driver_queries, forks};
use crate::preload::idle::{self, Asking, Uncaptured, PROBING};
use crate::record::{log, Guard};
use crate::runtime::{own_memory, own_thread};
use lazyguard_core::api::{Class, EntryPoint};
use lazyguard_core::diagnose::{resident_blocks, BusyStream, Extent, Snapshot};
use lazyguard_core::report::ProbeSeen;
use lazyguard_core::stack::{mappings, own_maps};
use lazyguard_core::state::{FunctionKind, StreamKind, ThreadSlot};
use lazyguard_core::trace::layout::flag;
use lazyguard_core::trace::{Kind, Lane, LaunchKey, RawPayload, Record};
use lazyguard_core::Nanos;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_millis(300);
/// Limits of the questions.
const MOST_STREAMS: usize = 4096;
const MOST_EVENTS: usize = 12;
const MOST_ADDRESSES: usize = 4096;
/// Each costs a look through all events.
const MOST_WITH_EVENTS: usize = 64;
const MOST_LAUNCHES: usize = 16;

enum Question {
    Stream { number: u32, handle: u64, context: u64, created: bool },
    Events { stream: u32, events: Vec<(u64, Nanos)> },
    Loaded { function: u32, handle: u64 },
    Memory { address: u64, wide: bool },
    Resident { key: LaunchKey, handle: u64, kernel: bool, threads: u32, shared_bytes: u64, device: i32 },
}

impl Question {
    fn name(&self) -> String {
        match self {
            Self::Stream { number, .. } => format!("cuStreamQuery of stream {number}"),
            Self::Events { stream, .. } => format!("cuEventQuery of an event on stream {stream}"),
            Self::Loaded { .. } => "cuFuncIsLoaded".to_owned(),
            Self::Memory { address, .. } => format!("cuPointerGetAttribute of {address:#x}"),
            Self::Resident { .. } => "cuFuncGetAttribute".to_owned(),
        }
    }
}

/// `ended` is the newest event that has ended, and when it was recorded.
enum Answer {
    Stream { number: u32, result: i32 },
    Events { stream: u32, questions: usize, ended: Option<(u64, Nanos)> },
    NotLoaded { function: u32 },
    Holds { address: u64, wide: bool, value: u64 },
    Resident { key: LaunchKey, blocks: u64 },
}

struct Session {
    questions: Vec<Question>,
    /// The question that the thread is at; their number at the end.
    at: AtomicUsize,
    /// Each with a time before its question: the program may have submitted more since, of which the answer says nothing.
    answers: Mutex<Vec<(Nanos, Answer)>>,
}

/// The answers go into the state and, through this slot, the recording.
pub fn ask(guard: &'static Guard, slot: &ThreadSlot, snapshot: &Snapshot) -> ProbeSeen {
    let mut seen = ProbeSeen::default();
    if idle::probe_lost() {
        seen.unanswered = Some("an earlier question".to_owned());
        return seen;
    }
    let questions = questions(guard, snapshot, &mut seen.left_out);
    if questions.iter().any(|question| matches!(question, Question::Memory { .. })) {
        own_memory::have_a_filter_looked_for(SOON);
    }
    let session = Arc::new(Session { questions, at: AtomicUsize::new(0), answers: Mutex::default() });
    let asked = session.clone();
    let started = own_thread::start("lazyguard-probe", log::warm_up, move || asked.run(guard));
    if let Err(error) = started {
        guard.loader.note(format!("the thread lazyguard-probe could not be started: {error}"));
    }
    let since = Instant::now();
    while session.asks().is_some() && since.elapsed() < SOON {
        std::thread::sleep(Duration::from_millis(1));
    }
    if let Some(question) = session.asks() {
        idle::give_up_probe();
        seen.unanswered = Some(question.name());
    }
    // Held only between two questions.
    let answers = session.answers.lock().map(|mut answers| std::mem::take(&mut *answers)).unwrap_or_default();
    let looked = answers.iter().any(|(_, answer)| matches!(answer, Answer::Holds { .. }));
    let own = if looked { own_ranges() } else { Vec::new() };
    answers.iter().for_each(|answer| fold(guard, slot, answer, &own, &mut seen));
    seen
}

/// Memory that no other process can have.
pub(super) fn own_ranges() -> Vec<Range<u64>> {
    let forked = forks::was_any();
    mappings(&own_maps()).filter(|mapping| mapping.is_own(forked)).map(|mapping| mapping.begin..mapping.end).collect()
}

/// The most certain to be answered first.
fn questions(guard: &Guard, snapshot: &Snapshot, left_out: &mut Vec<String>) -> Vec<Question> {
    let tracker = &guard.tracker;
    let submitting = |number: u32| {
        snapshot.blocked.iter().any(|call| {
            let waits = call.call.class().is_some_and(Class::synchronizes);
            !waits && call.queries.is_none() && call.stream.as_ref().is_some_and(|s| s.number == number)
        })
    };
    let waits = snapshot.waits.iter().take(MOST_ADDRESSES);
    let mut questions: Vec<_> = waits.map(|wait| Question::Memory { address: wait.address, wide: wait.wide }).collect();
    for busy in snapshot.streams.iter().take(MOST_STREAMS) {
        let (number, context) = (busy.stream.number, busy.stream.context);
        let Some(stream) = tracker.stream_entry(number).filter(|s| s.alive()) else { continue };
        let reason = match stream.kind() {
            _ if stream.destroyed() => "it was destroyed",
            _ if stream.capturing() || tracker.contexts().any(|(n, c)| n == stream.context() && c.capturing()) => {
                "there is a capture in its context"
            }
            StreamKind::PerThread => "it is another thread's own default stream",
            _ if submitting(number) => "a thread is blocked submitting to it",
            kind => {
                let (handle, created) = (stream.handle(), kind != StreamKind::Legacy);
                questions.push(Question::Stream { number, handle, context, created });
                continue;
            }
        };
        left_out.push(format!("stream {number}: {reason}"));
    }
    // Asking about an event that was recorded again in a capture would end that.
    let capture = tracker.contexts().any(|(_, context)| context.capturing());
    if capture && !snapshot.streams.is_empty() {
        left_out.push("events: there is a capture".to_owned());
    }
    for busy in snapshot.streams.iter().take(if capture { 0 } else { MOST_WITH_EVENTS }) {
        let stream = busy.stream.number;
        let events = newest(tracker.events_on(stream), MOST_EVENTS);
        if !events.is_empty() {
            questions.push(Question::Events { stream, events });
        }
    }
    for slot in tracker.threads().filter_map(|(_, slot)| slot.published()).filter(|call| call.record.kind.is_cold()) {
        if let Some(entry) = tracker.function_entry(slot.record.function).filter(|f| f.kind() == FunctionKind::Function)
        {
            questions.push(Question::Loaded { function: slot.record.function, handle: entry.handle() });
        }
    }
    // Whether a grid fills the device matters only beside another stream's work.
    if snapshot.streams.len() > 1 {
        questions.extend(snapshot.streams.iter().filter_map(|busy| resident(guard, busy)).take(MOST_LAUNCHES));
    }
    questions
}

fn newest<T>(mut all: Vec<T>, count: usize) -> Vec<T> {
    all.drain(..all.len().saturating_sub(count));
    all
}

fn resident(guard: &Guard, busy: &BusyStream) -> Option<Question> {
    let (key, Some(Extent::Grid { blocks, threads, resident: None })) = (busy.front().launch?, busy.front().extent)
    else {
        return None;
    };
    let entry = guard.tracker.function_entry(key.function)?;
    let context = guard.tracker.stream_entry(busy.stream.number).and_then(|s| guard.tracker.context_entry(s.context()));
    // A grid of few blocks fills no device.
    (blocks > 1).then(|| Question::Resident {
        key,
        handle: entry.handle(),
        kernel: entry.kind() == FunctionKind::Kernel,
        threads,
        // A launch that loaded its function has the library's handle there.
        shared_bytes: if key.shared_or_owner == entry.owner() { 0 } else { key.shared_or_owner },
        device: context.map_or(0, |c| c.device().max(0)),
    })
}

impl Session {
    /// Acquire: partner of the Release at the end.
    fn asks(&self) -> Option<&Question> {
        self.questions.get(self.at.load(Ordering::Acquire))
    }

    fn run(&self, guard: &'static Guard) {
        let _mode = Uncaptured::new();
        for (at, question) in self.questions.iter().enumerate() {
            self.at.store(at, Ordering::Relaxed);
            let asked = guard.now();
            let answer = put(guard, question);
            match self.answers.lock() {
                Ok(mut all) => all.extend(answer.map(|answer| (asked, answer))),
                Err(_) => break,
            }
        }
        self.at.store(self.questions.len(), Ordering::Release);
    }
}

fn put(guard: &'static Guard, question: &Question) -> Option<Answer> {
    let _asking = (!matches!(question, Question::Memory { .. })).then(|| Asking::counted(&PROBING));
    match *question {
        Question::Stream { number, handle, context, created } => stream(guard, number, handle, context, created),
        Question::Events { stream, ref events } => Some(ask_events(guard, stream, events)),
        Question::Loaded { function, handle } => {
            let told = || driver::told(0, |state| driver::function_is_loaded(state, handle as Handle));
            let state = is_still(guard, function, handle).then(told).flatten();
            (state == Some(0)).then_some(Answer::NotLoaded { function })
        }
        Question::Memory { address, wide } => {
            driver_queries::host_memory(address, wide).ok().map(|value| Answer::Holds { address, wide, value })
        }
        Question::Resident { key, handle, kernel, threads, shared_bytes, device } => {
            let needs = || driver_queries::needs(handle as Handle, kernel, device, threads, shared_bytes);
            let needs = is_still(guard, key.function, handle).then(needs).flatten();
            let blocks = needs.and_then(|needs| resident_blocks(driver_queries::limits(device), needs));
            blocks.map(|blocks| Answer::Resident { key, blocks })
        }
    }
}

/// Events on one stream end in their order.
fn ask_events(guard: &Guard, stream: u32, events: &[(u64, Nanos)]) -> Answer {
    let (mut low, mut high, mut questions, mut ended) = (0, events.len(), 0, None);
    while low < high {
        let middle = low + (high - low) / 2;
        let (event, recorded) = events[middle];
        // Gone, or recorded again, since the list was made.
        let there = guard.tracker.stream_entry(stream).is_some_and(|s| s.alive());
        let same =
            there && guard.tracker.recorded(event).is_some_and(|last| (last.stream, last.at) == (stream, recorded));
        questions += 1;
        if same && driver::event_query(event as Handle) == Some(SUCCESS) {
            ended = Some((event, recorded));
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Answer::Events { stream, questions, ended }
}

/// Since the list was made.
fn is_still(guard: &Guard, function: u32, handle: u64) -> bool {
    guard.tracker.function_entry(function).is_some_and(|f| f.alive() && f.handle() == handle)
}

fn stream(guard: &'static Guard, number: u32, handle: u64, context: u64, created: bool) -> Option<Answer> {
    // Destroyed since the list was made.
    guard.tracker.stream_entry(number).filter(|s| s.alive() && s.handle() == handle && !s.destroyed())?;
    if created {
        if driver::told(0, |capturing| driver::stream_is_capturing(handle as Handle, capturing)) != Some(0) {
            return None;
        }
    } else if driver::ctx_push(context as Handle) != Some(SUCCESS) {
        return None;
    }
    let answer = driver::stream_query(handle as Handle);
    if !created {
        driver::ctx_pop(&mut std::ptr::null_mut());
    }
    answer.map(|result| Answer::Stream { number, result })
}

fn fold(guard: &Guard, slot: &ThreadSlot, (asked, answer): &(Nanos, Answer), own: &[Range<u64>], seen: &mut ProbeSeen) {
    let asked = *asked;
    let push = |class: Class, with: &dyn Fn(&mut Record)| {
        let of = Record::of(EntryPoint::of_class(class));
        let mut record = Record { kind: Kind::Seen, entered: asked, returned: asked, ..of };
        with(&mut record);
        slot.push(&record, Lane::RareEvents);
    };
    match *answer {
        Answer::Stream { number, result: SUCCESS } => {
            guard.tracker.stream_entry(number).into_iter().for_each(|s| s.complete_until(asked));
            push(Class::StreamQuery, &|record| record.stream = number);
            seen.idle.push(number);
        }
        Answer::Stream { number, result: driver::NOT_READY } => {
            push(Class::StreamQuery, &|record| (record.stream, record.result) = (number, driver::NOT_READY));
            seen.busy.push(number);
        }
        Answer::Stream { number, result } => seen.failed.push((number, result)),
        Answer::Events { stream, questions, ended } => {
            seen.events_asked += questions;
            let Some((event, recorded)) = ended else { return };
            let _ = guard.tracker.fold_of(stream);
            let entry = guard.tracker.stream_entry(stream);
            // No news if the end was known before.
            let news =
                entry.is_some_and(|s| s.oldest(guard.tracker.stream_idle_until(s)).is_some_and(|o| o.at < recorded));
            let on_context = |context, at| guard.tracker.context_complete(context, at);
            guard.tracker.event_complete_at(event, recorded, on_context);
            if news {
                push(Class::EventQuery, &|record| (record.stream, record.raw) = (stream, RawPayload::about(event)));
            }
            seen.events_complete += 1;
        }
        Answer::NotLoaded { function } => {
            let name = guard.tracker.function_name(function);
            let name = name.map_or_else(|| format!("function {function}"), str::to_owned);
            seen.not_loaded.push(lazyguard_core::report::demangle(&name));
        }
        Answer::Holds { address, wide, value } => push(Class::WaitValue, &|record| {
            record.flags = if wide { flag::WIDE } else { 0 };
            let is_own = own.iter().any(|range| range.contains(&address));
            record.raw = RawPayload::memory_operation(address, value, u32::from(is_own));
        }),
        Answer::Resident { key, blocks } => push(Class::Launch, &|record| {
            (record.function, record.raw) = (key.function, RawPayload::resident(key, blocks));
        }),
    }
}
