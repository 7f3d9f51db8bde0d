//! The fast paths: of submissions that repeat, about the same object and stream as an earlier one of the thread
//! (`lazyguard_core::state::begin_fast`), and of waits and queries ([`lightly`]). Each family says in closures what the call is about, and what it means.
//!
//! Must not: cost a call an allocation, a lock or a system call.

use super::call::{changed, made, observe_coldly, seen_again, Again, Call, Entry};
use super::objects::PER_THREAD;
use crate::lookup::driver::{Handle, LAUNCH_FAILED, SUCCESS};
use crate::preload::gate;
use crate::record::gpu_dump::stays_blocked;
use crate::record::{guard, Guard};
use crate::runtime::hot::HOT;
use crate::runtime::results::{self, REVOKED};
use crate::runtime::{clock, door, thread, tls};
use lazyguard_core::api::result::loses_work;
use lazyguard_core::api::Class;
use lazyguard_core::hazard::rules;
use lazyguard_core::replay::shows_the_end;
use lazyguard_core::state::{
    begin_fast, object_key, CallStep, FastSubmission, Known, OpenRecord, SubmissionFacts, ThreadSlot,
};
use lazyguard_core::trace::{from_word, Keep, Kind, RawPayload, Record};
use lazyguard_core::Nanos;
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A submission by the fast path, where `begin` finds it there, and its success means `then` beside the record; else by the slow one, which has closures
/// as any hook ([`super::call::observe`]).
#[inline(always)]
pub(super) fn submission(
    entry: Entry,
    begin: impl FnOnce() -> Begun,
    real: impl Again,
    then: impl FnOnce(&'static Guard, FastSubmission, Nanos),
    (before, after): (impl FnOnce(&mut Call), impl FnOnce(&Call, i32)),
) -> i32 {
    let Some(Some((guard, fast))) = begin() else {
        return observe_coldly(entry.again(), before, &black_box(real), after);
    };
    let result = real();
    if result != SUCCESS {
        refused(guard, entry.again(), fast, result);
        return result;
    }
    fetch(fast.next_place());
    CallStep::Call.taken();
    // The time first: a signal handler on top of this may fork, and the less is done between the check and the end, the less often in between.
    let returned = now_after(fast);
    // See `observe`.
    if guard.is_armed() {
        then(guard, fast, returned);
        if fast.end(returned, result, rules::BLOCKED_NANOS) {
            return stood_out(guard, entry.again(), fast, result);
        }
    }
    result
}

/// A submission up to its real call, where that is by the fast path, as [`door::leaf`] gives it.
pub(super) type Begun = Option<Option<(&'static Guard, FastSubmission)>>;

/// The object, the arguments and the stream of a submission.
#[derive(Clone, Copy)]
pub(super) struct Subject {
    pub facts: SubmissionFacts,
    pub stream: Handle,
}

impl Subject {
    /// The subject of a call other than a launch, about an object by its handle, or about none.
    #[inline(always)]
    pub fn of(entry: Entry, handle: u64, stream: Handle, raw: RawPayload) -> Self {
        let object = object_key(entry.entry_point, handle);
        Self { facts: SubmissionFacts::of(entry.entry_point, object, key(entry, stream), raw), stream }
    }
}

/// The first half of a submission, unless something sends it to the slow path.
#[inline(always)]
pub(super) fn begin(
    entry: Entry,
    facts: SubmissionFacts,
    from: impl Fn(&'static Guard, &AtomicUsize) -> Option<u64>,
    is_valid: impl FnOnce(&'static Guard, &FastSubmission) -> bool,
) -> Begun {
    door::leaf(|| {
        let guard = guard()?;
        let own = tls::own(&**guard)?;
        // SAFETY: for `begin_fast` alone.
        let hand = unsafe { own.at_hand() };
        // Acquire: see `Tracker::epoch`, which this is of the armed process.
        let epoch = HOT.epoch.load(Ordering::Acquire);
        let fast = begin_fast(hand, facts, || entry.caller(), |kept| from(guard, kept), epoch, clock::now_when_armed)?;
        if !gate::is_open() || !is_valid(guard, &fast) {
            fast.cancel();
            return None;
        }
        CallStep::Gate.taken();
        fast.submit(facts.is_launch);
        Some((guard, fast))
    })
}

/// The word for the caller of a call other than a launch: its record has no path.
#[inline(always)]
pub(super) fn from_caller(entry: Entry) -> u64 {
    from_word(entry.caller().address as u64, 0)
}

/// A submission whose record says no more than its subject. `begin` is its first half by the fast path, `then` is for the success of that, and the closures
/// are for the slow path.
#[inline(always)]
pub(super) fn repeats(
    entry: Entry,
    Subject { facts, stream }: Subject,
    real: impl Again,
    (begin, then): (impl FnOnce() -> Begun, impl FnOnce(&'static Guard, FastSubmission)),
    (before, after): (impl FnOnce(&mut Call), impl FnOnce(&Call, i32)),
) -> i32 {
    let before = move |call: &mut Call| {
        call.submits_to(stream);
        call.about.raw = facts.raw;
        before(call);
    };
    let after = move |call: &Call, result| {
        after(call, result);
        call.repeats(entry, (facts.object, 0), stream, result);
    };
    submission(entry, begin, real, |guard, fast, _| then(guard, fast), (before, after))
}

/// The first half where a count of those that took the fast path, and the guard, may send it to the slow one. It is one function for the exports of a
/// family, of which there are many.
#[inline(never)]
pub(super) fn begin_out_of_line(
    entry: Entry,
    facts: &SubmissionFacts,
    may: impl Fn(&'static Guard, &AtomicUsize) -> bool,
) -> Begun {
    let from = |guard, kept: &_| may(guard, kept).then(|| from_caller(entry));
    begin(entry, *facts, from, |_, _| true)
}

/// A submission about memory, or about no known object: the thread's next one by this call on the stream takes the fast path; not after a revoke: a copy to
/// the host may wait for the stream, and its result change.
#[inline(always)]
pub(super) fn in_order(entry: Entry, stream: Handle, raw: RawPayload, real: impl Again) -> i32 {
    let subject = Subject::of(entry, 0, stream, raw);
    let begin = move || begin_out_of_line(entry, &subject.facts, |_, _| !results::is_set(REVOKED));
    repeats(entry, subject, real, (begin, |_, _| {}), (|_| {}, |_, _| {}))
}

/// A call that submits nothing, for which the thread has all at hand ([`super::call::observe`]). `at_hand` says in a record what the call is about, or `None` if that takes a
/// look-up: then `before` does. `then` is for the success of a call that was entered at that time. This is no visit behind the door: neither closure leaves the
/// library ([`door::leaf`]) but through the door.
#[inline(always)]
pub fn lightly(
    entry: Entry,
    at_hand: impl FnOnce(&'static Guard, &'static ThreadSlot, Record) -> Option<Record>,
    before: impl FnOnce(&mut Call),
    real: impl Again,
    then: impl Fn(&'static Guard, Nanos),
) -> i32 {
    // By value everywhere: what is asked of the class is then known when an export is compiled.
    let class = entry.entry_point.class();
    let succeeds = move |result| result == SUCCESS || class.answers_for_work() && shows_the_end(result);
    let begun = door::leaf(move || {
        let guard = guard()?;
        let slot = thread::slot_if_any(guard)?;
        if !slot.enter(entry.caller()) {
            return None;
        }
        CallStep::Enter.taken();
        let (kind, queries) = Kind::of_call(class);
        let caller = entry.caller().address as u64;
        let record = at_hand(guard, slot, Record { kind, caller, ..Record::of(entry.entry_point) });
        let timed = |record: Record| Record { entered: guard.now(), raw: record.raw.with_queries(queries), ..record };
        let Some((open, record)) =
            record.map(timed).and_then(|record| Some((slot.open_at_hand(&record, class)?, record)))
        else {
            slot.leave();
            return None;
        };
        CallStep::Write.taken();
        slot.mark(&open);
        [CallStep::Mark, CallStep::Gate, CallStep::Submit].into_iter().for_each(CallStep::taken);
        Some((guard, slot, open, record.entered, record.context))
    });
    let Some(Some((guard, slot, open, entered, context))) = begun else {
        let after = move |call: &Call, result| {
            if succeeds(result) {
                then(call.guard, call.entered);
                if class.answers_for_work() {
                    call.load_pending(call.about.context);
                }
            }
        };
        return observe_coldly(entry.again(), before, &black_box(real), after);
    };
    let result = made(entry, Some(entered), real);
    if !guard.is_armed() {
        return result;
    }
    door::leaf(move || {
        // A query like the one before adds only a count and its time to that one's record.
        if Keep::of(class) != Keep::Folded || !slot.fold_query(open, entered, result) {
            slot.close(open, class, guard.now(), result);
        }
    });
    CallStep::Complete.taken();
    CallStep::Settle.taken();
    slot.unmark();
    CallStep::Unmark.taken();
    if result != SUCCESS && loses_work(result) {
        asked_in_vain(guard, slot, open, (class, result));
    }
    if succeeds(result) {
        then(guard, entered);
        if class.answers_for_work() && guard.loader.may_have_pending() {
            load_pending(guard, slot, entry.again(), context);
        }
    }
    slot.leave();
    CallStep::Leave.taken();
    result
}

#[cold]
#[inline(never)]
fn load_pending(guard: &'static Guard, slot: &'static ThreadSlot, entry: Entry, context: u16) {
    door::inside(|| Call::new(guard, slot, entry, guard.now()).load_pending(context.into()));
}

#[cold]
#[inline(never)]
fn asked_in_vain(guard: &'static Guard, slot: &'static ThreadSlot, open: OpenRecord, (class, result): (Class, i32)) {
    door::inside(|| slot.asked_in_vain(open, class, guard.now(), result));
}

/// Lets the processor fetch memory that is written to soon. A recording is gone through once in a long time, so the line comes from far, and the driver's
/// next launch would wait for it: it orders its own stores behind those before them.
#[inline(always)]
fn fetch(memory: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, of an address that need not be one of memory.
    unsafe {
        std::arch::asm!("prefetchw byte ptr [{}]", in(reg) memory, options(nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = memory;
}

/// The rest of a refused submission. Returns nothing, so that the export's frame, to which the entry points, stays beneath this one's.
#[cold]
#[inline(never)]
fn refused(guard: &'static Guard, entry: Entry, fast: FastSubmission, result: i32) {
    if result == LAUNCH_FAILED {
        stays_blocked();
    }
    CallStep::Call.taken();
    let returned = clock::now();
    if guard.is_armed() {
        fast.end(returned, result, rules::BLOCKED_NANOS);
        stood_out(guard, entry, fast, result);
    }
}

/// The time after a submission. The reading takes 22 ns on a virtual Xeon, a fifth to a third of all that the guard adds there. It says whether the call
/// blocked the host, and which queries of other threads came after the submission. A library that measures its cost (`scripts/build --one-reading`) has the
/// time of entry instead.
#[inline(always)]
fn now_after(fast: FastSubmission) -> Nanos {
    if cfg!(lazyguard_one_reading) {
        fast.entered()
    } else {
        clock::now_when_armed()
    }
}

/// A submission was refused, or blocked the host. Returns the result that the program gets.
#[cold]
#[inline(never)]
fn stood_out(guard: &'static Guard, entry: Entry, fast: FastSubmission, result: i32) -> i32 {
    let Some(record) = fast.record() else { return result };
    // A launch alone has a function. Most slow ones are not due to a full queue.
    let is_of_interest = result != SUCCESS
        || record.function != 0 && rules::queue_is_deep(guard.tracker.outstanding_at_most(record.stream));
    if is_of_interest {
        door::inside(|| {
            let Some(slot) = thread::slot_if_any(guard) else { return };
            if !slot.enter(entry.caller()) {
                return;
            }
            match result {
                SUCCESS => seen_again(guard, slot, entry, &record).held_by_launch(),
                _ => {
                    guard.tracker.launch_refused(record.stream, record.entered, record.returned);
                    slot.has_failed(&record);
                }
            }
            slot.leave();
        });
    }
    match results::may_change() {
        true => changed(entry, Some(record.entered), result),
        false => result,
    }
}

/// The stream's handle, made different where a default stream is the calling thread's own.
#[inline(always)]
pub(super) fn key(entry: Entry, stream: Handle) -> u64 {
    let handle = stream as u64;
    // No handle of the driver's is this small.
    if handle <= PER_THREAD && entry.entry_point.info().per_thread {
        handle + PER_THREAD + 1
    } else {
        handle
    }
}

impl Call {
    /// If the call has succeeded, later ones of its kind on this stream take the fast path: launches of any function (`object` is 0), other calls about
    /// this object ([`SubmissionFacts::object`]), which the fast path gets the number of.
    pub(super) fn repeats(&self, entry: Entry, (object, number): (u64, u32), stream: Handle, result: i32) {
        let (default_stream, context) = (stream as u64 <= PER_THREAD, self.about.context);
        // With a schedule such calls are among the points at which a thread is held.
        let may_be_fast = self.guard.schedule.is_none() && self.guard.tracker.fast_launches(default_stream);
        if result != SUCCESS || !self.about.submits || !may_be_fast {
            return;
        }
        // A function that is cached already keeps the path of its launches.
        if object != 0 && self.slot.cached_loaded_function(object, context, self.epoch) != Some(number) {
            self.slot.cache_loaded_function(object, context, self.epoch, number);
        }
        let known = Known { stream: key(entry, stream), number: self.about.stream, context, default_stream };
        self.slot.remember_stream(self.epoch, &known);
        self.slot.make_room(self.returned);
        thread::know_launches();
    }
}

#[cfg(debug_assertions)]
#[cfg(test)]
mod tests {
    use super::super::caller::Frame;
    use super::super::launch::{kernel, Extent};
    use super::*;
    use crate::preload::loader::Loader;
    use crate::record::gpu_dump::GpuDump;
    use crate::record::hazards::Hazards;
    use crate::record::log::Log;
    use crate::record::mappings::Mappings;
    use crate::record::path;
    use crate::record::path::Paths;
    use crate::record::recording::Backing;
    use crate::record::reports::Reports;
    use crate::record::requests::Requests;
    use crate::runtime::process::{self, Process};
    use lazyguard_core::api::EntryPoint;
    use lazyguard_core::settings::Settings;
    use lazyguard_core::state::{Caller, FunctionKind, StreamKey, StreamKind, Tracker};
    use lazyguard_core::trace::{Follower, Lane, ProcessFacts, Record, Recorder};
    use std::cell::Cell;

    const STREAM: StreamKey = StreamKey { handle: 0x2000, context: 0, thread: 0 };
    const FUNCTION: u64 = 0x3000;
    const REFUSED: i32 = 719;

    /// A guard without a folder, a driver or threads, which knows a context, a stream, and a function that is loaded.
    fn armed() -> &'static Guard {
        let backing = Backing::make(None, 0).unwrap();
        let recorder = Recorder::new(backing.words, backing.shape, &ProcessFacts::default()).unwrap();
        let settings = Settings::default();
        let guard: &'static Guard = Box::leak(Box::new(Guard {
            loader: Loader::default(),
            folder: None,
            requests: Requests::new(None, &backing),
            marker: None,
            statements: None,
            backing,
            mappings: Mappings::default(),
            log: Log::new(settings.log),
            gpu_dump: GpuDump::default(),
            reports: Reports::default(),
            hazards: Hazards::default(),
            paths: Paths::default(),
            profile: None,
            schedule: None,
            of_graphs: std::sync::Mutex::default(),
            process: Process {
                settings,
                tracker: Tracker::new(Box::leak(Box::new(recorder)), &HOT.epoch),
                id: std::process::id(),
                program: String::new(),
                rank: String::new(),
                driver_version: 13_000,
            },
        }));
        let tracker = &guard.tracker;
        let context = tracker.context(0x1000, 1);
        tracker.stream(STREAM, context, StreamKind::Unknown, 1);
        let function = tracker.function(FUNCTION, FunctionKind::Kernel, 0x4000);
        tracker.function_entry(function).unwrap().set_loaded_in(context);
        guard.arm();
        guard
    }

    /// All that a launch leaves, but for its times.
    #[derive(Debug, PartialEq)]
    struct Left {
        steps: Vec<CallStep>,
        /// The call as another thread sees it while it is made: the entry point, the stream, the function and the context; and
        /// whether the stream is busy then.
        inside: (EntryPoint, u32, u32, u32, bool),
        record: Record,
        /// Calls and launches that it is counted as.
        counts: (u64, u64),
        outstanding: u64,
        is_published: bool,
    }

    fn launched(guard: &'static Guard, follower: &mut Follower, result: i32) -> Left {
        let slot = thread::slot(guard).unwrap();
        let stream = guard.tracker.stream_entry(guard.tracker.known_stream(STREAM).unwrap()).unwrap();
        let outstanding = || {
            assert!(guard.tracker.fold());
            stream.outstanding_count(guard.tracker.stream_idle_until(stream))
        };
        let is_busy = || {
            assert!(guard.tracker.fold());
            stream.busy(guard.tracker.stream_idle_until(stream))
        };
        stream.complete_until(guard.now());
        assert_eq!(outstanding(), 0);
        let before = guard.tracker.counts();
        CallStep::take_all();
        let inside = Cell::new(None);
        let here = 0;
        let entry = Entry { entry_point: EntryPoint::by_symbol(b"cuLaunchKernel").unwrap(), frame: Frame::of(&here) };
        let (function, to) = (FUNCTION as Handle, STREAM.handle as Handle);
        let size = Extent { grid: [7, 2, 1], block: [64, 1, 1], shared_bytes: 48 };
        let returned = kernel(entry, function, to, size, || {
            let call = slot.published().expect("a call is published while it is made");
            inside.set(Some((
                call.record.entry_point,
                call.record.stream,
                call.record.function,
                call.record.context.into(),
                is_busy(),
            )));
            result
        });
        assert_eq!(returned, result);
        let after = guard.tracker.counts();
        let mut records = Vec::new();
        follower.follow(guard.tracker.recorder(), Lane::Work, &mut |followed| records.push(followed.record));
        assert_eq!(records.len(), 1, "a launch leaves one record: {records:?}");
        Left {
            steps: CallStep::take_all(),
            inside: inside.get().unwrap(),
            record: Record { entered: 0, returned: 0, ..records[0] },
            counts: (after.0 - before.0, after.1 - before.1),
            outstanding: outstanding(),
            is_published: slot.published().is_some(),
        }
    }

    /// Whether the next launch of the kind takes the fast path.
    fn is_fast(guard: &'static Guard) -> bool {
        let slot = thread::slot(guard).unwrap();
        let here = 0u8;
        let caller = Caller { address: 0x77, stack: std::ptr::from_ref(&here) as usize, frame: 0 };
        let call = EntryPoint::by_symbol(b"cuLaunchKernel").unwrap();
        let facts = SubmissionFacts::of(call, FUNCTION, STREAM.handle, RawPayload::default());
        let from = |kept: &_| path::from(kept, caller);
        let begun = begin_fast(slot, facts, || caller, from, guard.tracker.epoch(), clock::now);
        begun.map(FastSubmission::cancel).is_some()
    }

    #[test]
    fn both_paths_of_a_launch_take_the_same_steps_and_leave_the_same() {
        let guard = armed();
        let mut follower = Follower::default();
        launched(guard, &mut follower, SUCCESS);
        for result in [SUCCESS, REFUSED] {
            // From one place in the code: the record has the return address.
            let [fast, slow] = [false, true].map(|slow_path| {
                guard.tracker.set_slow_path(slow_path);
                while !slow_path && !is_fast(guard) {
                    launched(guard, &mut follower, SUCCESS);
                }
                assert_eq!(is_fast(guard), !slow_path);
                launched(guard, &mut follower, result)
            });
            assert_eq!(fast, slow);
            assert_eq!(fast.steps, CallStep::ALL);
            assert_eq!((fast.counts, fast.inside.4, fast.is_published), ((1, 1), true, false));
            assert_eq!(fast.outstanding, u64::from(result == SUCCESS));
        }
        process::retire();
    }
}
