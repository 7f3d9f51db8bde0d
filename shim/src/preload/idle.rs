//! Is anything in flight in a context? The loader asks before it loads: by one event on the whole context where the driver has that (12.5) and there is
//! no capture, which the event would invalidate; else stream by stream. The thread's capture mode is exchanged around the questions.
//!
//! Must not: be called by the watchdog, because these are driver calls.

use crate::lookup::driver::{self, Handle, SUCCESS};
use crate::lookup::proc_address::captures_may_go_unseen;
use crate::runtime::process::Process;
use lazyguard_core::api::Class;
use lazyguard_core::hazard::rules::queue_is_deep;
use lazyguard_core::map::HashMap;
use lazyguard_core::state::{InFlight, PublishedCall, StreamKind, ThreadSlot};
use lazyguard_core::sync::lock;
use lazyguard_core::Nanos;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// `CU_STREAM_CAPTURE_MODE_RELAXED`: the thread's calls concern no capture.
const RELAXED: i32 = 2;
const DISABLE_TIMING: u32 = 2;
/// With more busy streams the context counts as busy.
const MOST_STREAMS: usize = 64;
/// How long an event in an idle context may take.
const SOON_NANOS: u64 = 60_000;
/// The same in a new context, where only the machine is busy.
const SOON_AT_START_NANOS: u64 = 5_000_000;

pub struct Uncaptured {
    /// The former mode, if it was exchanged.
    mode: Option<i32>,
}

impl Uncaptured {
    pub fn new() -> Self {
        Self { mode: driver::told(RELAXED, |mode| driver::exchange_capture_mode(mode)) }
    }
}

impl Drop for Uncaptured {
    fn drop(&mut self) {
        if let Some(mode) = &mut self.mode {
            driver::exchange_capture_mode(mode);
        }
    }
}

/// How long a submission under way is waited for.
const UNDER_WAY: Duration = Duration::from_millis(2);

/// Makes a context current, until it is dropped.
pub struct Current {
    pushed: bool,
}

impl Current {
    pub fn make(context: Handle) -> Option<Self> {
        let pushed = driver::current_context() != context;
        (!pushed || driver::ctx_push(context) == Some(SUCCESS)).then_some(Self { pushed })
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        if self.pushed {
            driver::ctx_pop(&mut null_mut());
        }
    }
}

/// Waits until no other thread is in a gated call; `false` if one stays.
pub fn nothing_under_way(process: &Process, own: &ThreadSlot, context: u32) -> bool {
    let since = Instant::now();
    let under_way = || {
        let mut others = process.tracker.threads().filter(|(_, slot)| !std::ptr::eq(*slot, own));
        others.any(|(_, slot)| {
            slot.published().is_some_and(|call| {
                let class = call.record.entry_point.class();
                let here = [0, context].contains(&call.record.context.into()) || class.concerns_every_context();
                class.waits_at_gate() && here
            })
        })
    };
    while under_way() {
        if since.elapsed() > UNDER_WAY {
            return false;
        }
        std::thread::yield_now();
    }
    true
}

/// The events of the questions, by context.
#[derive(Default)]
pub struct Questions(Mutex<HashMap<u64, usize>>);

impl Questions {
    /// `None` if it cannot be asked. No capture begins while the gate is closed.
    pub fn whole_context_idle(&self, process: &Process, context: u32, entered: Nanos, at_start: bool) -> Option<bool> {
        let entry = process.tracker.context_entry(context)?;
        // A capture in another context should be safe from relaxed mode; that is not tried.
        if process.tracker.contexts().any(|(_, context)| context.capturing()) || captures_may_go_unseen() {
            return None;
        }
        let handle = entry.handle();
        let known = lock(&self.0).get(&handle).copied();
        let event = match known {
            Some(event) => event as Handle,
            None => {
                let event = driver::told(null_mut(), |event| driver::event_create(event, DISABLE_TIMING))?;
                lock(&self.0).insert(handle, event as usize);
                event
            }
        };
        let asked = process.now();
        if driver::ctx_record_event(handle as Handle, event)? != SUCCESS {
            return None;
        }
        let patience = if at_start { SOON_AT_START_NANOS } else { SOON_NANOS };
        // A first "not ready" may only mean "not yet".
        loop {
            // The last question comes after the whole span.
            let waited = process.now().saturating_sub(asked);
            match driver::event_query(event)? {
                SUCCESS => {
                    process.tracker.context_complete(context, asked.min(entered.saturating_sub(1)));
                    return Some(true);
                }
                driver::NOT_READY if waited < SOON_NANOS => std::hint::spin_loop(),
                driver::NOT_READY if waited < patience => std::thread::yield_now(),
                driver::NOT_READY => return Some(false),
                _ => return None,
            }
        }
    }

    pub fn forget(&self, context: u64) {
        lock(&self.0).remove(&context);
    }
}

static ASKING: AtomicU32 = AtomicU32::new(0);

/// Whether the probe is in a query; no thread waits for a lost one.
pub static PROBING: AtomicU32 = AtomicU32::new(0);
static PROBE_LOST: AtomicBool = AtomicBool::new(false);

/// Lasts while a thread asks.
pub struct Asking(&'static AtomicU32);

impl Asking {
    pub fn counted(count: &'static AtomicU32) -> Self {
        // SeqCst, here and in `settle`: the destroyer sees this, or this thread sees the stream gone.
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

pub fn probe_lost() -> bool {
    PROBE_LOST.load(Ordering::SeqCst)
}

pub fn give_up_probe() {
    PROBE_LOST.store(true, Ordering::SeqCst);
}

/// Between a stream's removal from the state and its destruction: waits until no thread asks about it.
pub fn settle() {
    std::sync::atomic::fence(Ordering::SeqCst);
    let since = Instant::now();
    let asked = || {
        ASKING.load(Ordering::SeqCst) > 0 || PROBING.load(Ordering::SeqCst) > 0 && !PROBE_LOST.load(Ordering::SeqCst)
    };
    while asked() && since.elapsed() < SETTLED {
        std::thread::yield_now();
    }
}

/// How long a destroying thread waits at most.
const SETTLED: Duration = Duration::from_millis(200);

/// The work in flight in the current context; the driver is asked about streams that may be busy. The gate is closed. Another thread's own default stream
/// counts as known. This thread's call was entered at `entered`, here and below.
pub fn in_flight(process: &Process, context: u32, thread: u32, entered: Nanos) -> Vec<InFlight> {
    // A stream that is destroyed meanwhile is not in the list, or waits.
    let _asking = Asking::counted(&ASKING);
    unless_idle(process.tracker.in_flight(context), |number| ask(process, number, thread, entered))
}

fn unless_idle(mut known: Vec<InFlight>, asked: impl Fn(u32) -> Option<bool>) -> Vec<InFlight> {
    if !known.is_empty() && known.len() <= MOST_STREAMS {
        let _mode = Uncaptured::new();
        known.retain(|busy| asked(busy.stream) != Some(false));
    }
    known
}

/// The same while the gate is open, in a call about the stream `own`, or 0.
pub fn in_flight_beside_others(process: &Process, context: u32, thread: u32, own: u32, at: Nanos) -> Vec<InFlight> {
    let _asking = Asking::counted(&ASKING);
    let mut known = process.tracker.in_flight(context);
    known.retain(InFlight::is_known);
    unless_idle(
        known,
        |number| if is_being_filled(process, number, own) { None } else { ask(process, number, thread, at) },
    )
}

/// `None` where the stream cannot be asked: a default stream only in the current context. `own` is the call's stream, or 0.
pub fn is_busy(process: &Process, context: u32, number: u32, thread: u32, own: u32, entered: Nanos) -> Option<bool> {
    let _asking = Asking::counted(&ASKING);
    let stream = process.tracker.stream_entry(number).filter(|s| s.alive())?;
    if is_being_filled(process, number, own) {
        return None;
    }
    if stream.context() != context && matches!(stream.kind(), StreamKind::Legacy | StreamKind::PerThread) {
        return None;
    }
    // A captured operation is no hazard.
    if captures_somewhere(process, stream.context()) {
        return None;
    }
    let _mode = Uncaptured::new();
    ask(process, number, thread, entered)
}

fn captures_somewhere(process: &Process, context: u32) -> bool {
    process.tracker.context_entry(context).is_some_and(|context| context.capturing())
}

/// Whether another thread may be about to fill a stream's queue: a query would block with it, and this thread may be the one that submits what the
/// stream waits for. The call's own stream is always queried: the call has to wait there.
fn is_being_filled(process: &Process, number: u32, own: u32) -> bool {
    let Some(stream) = process.tracker.stream_entry(number).filter(|_| number != own) else { return false };
    !process.tracker.fold_of(number)
        || queue_is_deep(stream.outstanding_count(process.tracker.stream_idle_until(stream)))
            && process.now().saturating_sub(stream.last_submitted()) < LATELY_NANOS
            && process.tracker.threads().filter(|(_, slot)| slot.in_use()).nth(1).is_some()
}

/// The least time between submissions of a thread that fills a queue.
const LATELY_NANOS: u64 = 10_000_000;

/// Whether another thread submits to a stream. With a full queue such a thread is blocked, and so is a query.
fn another_thread_submits_to(process: &Process, number: u32, thread: u32) -> bool {
    let asks = |class: Class| class.synchronizes() || matches!(class, Class::StreamQuery | Class::EventQuery);
    let mut others = process.tracker.threads().filter(|(_, slot)| slot.in_use() && slot.thread() != thread);
    let submits = |call: PublishedCall| call.record.stream == number && !asks(call.record.entry_point.class());
    others.any(|(_, slot)| slot.published().is_some_and(submits))
}

/// Asks the driver about a stream, between the marks that a destroying thread looks for. This thread's own call is not submitted yet.
fn ask(process: &Process, number: u32, thread: u32, entered: Nanos) -> Option<bool> {
    let stream = process.tracker.stream_entry(number)?;
    let others = stream.kind() == StreamKind::PerThread && stream.thread() != thread;
    if others || stream.destroyed() || stream.capturing() || another_thread_submits_to(process, number, thread) {
        return None;
    }
    let handle = stream.handle() as Handle;
    let legacy = stream.kind() == StreamKind::Legacy;
    if legacy && (captures_somewhere(process, stream.context()) || captures_may_go_unseen()) {
        // A query of the legacy stream invalidates a blocking stream's capture.
        return None;
    }
    if !legacy && driver::told(0, |capturing| driver::stream_is_capturing(handle, capturing)) != Some(0) {
        return None;
    }
    let asked = process.now();
    let idle = driver::stream_query(handle) == Some(SUCCESS);
    if idle {
        stream.complete_until(asked.min(entered.saturating_sub(1)));
    }
    Some(!idle)
}
