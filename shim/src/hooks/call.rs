//! What every hook shares.
//!
//! [`observe`] takes a call through its steps ([`CallStep`]): it finds the thread's slot, publishes the call, passes the gate,
//! makes the real call, and folds what happened into the state. A hook says what the call is about ([`About`]) before, and what its
//! success means after, in two closures that may fail without harm: a panic in either disarms the guard and does nothing else. Both
//! run inside the door ([`crate::runtime::door`]).
//!
//! The real call lies outside of both, so it happens exactly once. Nothing here needs cleaning up when an exception, a cancellation
//! or a jump leads out of it, so the guard stops none of them. The thread's next call from further out finds that this one was
//! abandoned. A thread that ends gives its slot back.
//!
//! Must not: allocate, lock or call the system on the path of an ordinary call; a submission after launches of the fast path takes the turn in which
//! these are folded (`lazyguard_core::state`).

use super::caller::Frame;
use crate::lifecycle::arm;
use crate::lookup::driver::{self, Handle, LAUNCH_FAILED, SUCCESS};
use crate::preload::gate;
use crate::preload::loader::Occasion;
use crate::record::gpu_dump::{self, stays_blocked};
use crate::record::{guard, path, Guard};
use crate::runtime::{door, pass_through, process, thread};
use lazyguard_core::api::{Class, EntryPoint};
use lazyguard_core::diagnose::Code;
use lazyguard_core::hazard::{ConflictingOperation, Flags, HazardEvent, StreamClass};
use lazyguard_core::replay::proves;
use lazyguard_core::report::PassThrough;
use lazyguard_core::state::{
    CallStep, Caller, ColdKind, InFlight, OpenRecord, Operation, Stream, StreamKey, StreamKind, ThreadSlot,
};
use lazyguard_core::trace::layout::flag;
use lazyguard_core::trace::{address_and_path, from_word, Kind, Lane, RawPayload, Record};
use lazyguard_core::Nanos;
use std::sync::atomic::AtomicUsize;

/// A driver call as it reaches its hook.
#[derive(Clone, Copy)]
pub struct Entry<'f> {
    /// Which one.
    pub entry_point: EntryPoint,
    /// Its frame.
    pub frame: Frame<'f>,
}

impl Entry<'_> {
    /// See [`Frame::again`].
    #[inline(always)]
    pub fn again(self) -> Self {
        Self { frame: self.frame.again(), ..self }
    }

    /// From where it was made.
    #[inline(always)]
    pub fn caller(self) -> Caller {
        self.frame.caller()
    }
}

/// The objects of a call: numbers of the state, 0 for none.
///
/// The order is fixed: the stream and the function must not be neighbours. The compiler would read both with one load shortly after two
/// stores, and the processor cannot forward two stores to one load.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct About {
    /// The stream.
    pub stream: u32,
    /// The context.
    pub context: u32,
    /// The handle of the module or library.
    pub owner: u64,
    /// The function.
    pub function: u32,
    /// Whether the call loads on first use.
    pub cold: Option<ColdKind>,
    /// Whether it submits an operation to the stream.
    pub submits: bool,
    /// The operation's number if the stream was idle before it.
    pub first: Option<u64>,
    /// The stream's entry.
    pub stream_entry: Option<&'static Stream>,
    /// For the record: from where the program came to it, where that is more than the caller; else 0.
    pub from: u64,
    /// For the record: its flags.
    pub flags: u8,
    /// For the record: what else it says; of what has an owner the owner's handle is put in.
    pub raw: RawPayload,
}

/// A call in progress.
#[derive(Clone, Copy)]
pub struct Call {
    /// The guard.
    pub guard: &'static Guard,
    /// The calling thread's slot.
    pub slot: &'static ThreadSlot,
    /// The call.
    pub entry_point: EntryPoint,
    /// From where it was made.
    pub caller: Caller,
    /// When it was entered.
    pub entered: Nanos,
    /// When the real call returned; 0 before.
    pub returned: Nanos,
    /// The epoch of the state, as it was when the call was entered.
    pub epoch: u32,
    /// What it is about.
    pub about: About,
    /// Its record; after the call, only if it leaves one.
    open: Option<OpenRecord>,
}

/// Makes the real call with the guard around it; see the module.
#[inline(always)]
pub fn observe(
    entry: Entry,
    before: impl FnOnce(&mut Call),
    real: impl FnOnce() -> i32,
    after: impl FnOnce(&Call, i32),
) -> i32 {
    // `call` is never moved, and the real call is made at one place: copying the call or its arguments costs more than all
    // else here.
    let mut call = None;
    let ready = armed().and_then(|guard| {
        door::inside(|| {
            if let Some(call) = begin(guard, entry, &mut call) {
                before(call);
                call.publish(entry.entry_point);
            }
        })
    });
    let mut result = real();
    if result == LAUNCH_FAILED {
        stays_blocked();
    }
    if result == SUCCESS && gpu_dump::error_may_come_late() {
        result = gpu_dump::late_error(entry.entry_point);
    }
    CallStep::Call.taken();
    let Some(call) = &mut call else { return result };
    // In a child that was forked inside the call, the recording is the parent's.
    if call.guard.is_armed() {
        if ready.is_some() {
            door::inside(|| call.returned(entry, result, after));
        }
        call.slot.unmark();
        call.slot.leave();
    } else {
        process::note_unarmed();
    }
    CallStep::Leave.taken();
    result
}

/// Makes a call of NCCL with the guard around it. The driver calls that NCCL makes in it are observed as any other. `before` says
/// whether to publish the call; one that NCCL makes in another is not published. `after` runs where `wanted` says so of the result.
#[inline(always)]
pub fn around(
    entry: Entry,
    before: impl FnOnce(&mut Call) -> bool,
    real: impl FnOnce() -> i32,
    wanted: impl FnOnce(i32) -> bool,
    after: impl FnOnce(&Call, i32),
) -> i32 {
    let mut call = None;
    let armed = armed();
    let published = armed.and_then(|guard| {
        door::inside(|| {
            begin(guard, entry, &mut call).is_some_and(|call| {
                let published = before(call);
                call.slot.leave();
                published
            })
        })
    });
    let result = real();
    if let (Some(true), Some(call)) = (published, &call) {
        if call.guard.is_armed() {
            call.slot.leave_outer();
        }
    }
    if published == Some(false) || !wanted(result) {
        return result;
    }
    door::inside(|| {
        let inside = match &mut call {
            Some(call) => (call.guard.is_armed() && call.slot.enter(entry.caller())).then_some(call),
            // NCCL itself has initialised the driver, and so armed the guard.
            None if armed.is_none() => guard().and_then(|guard| begin(guard, entry, &mut call)),
            None => None,
        };
        if let Some(call) = inside {
            call.returned = call.guard.now();
            after(call, result);
            call.slot.leave();
        }
    });
    result
}

/// The guard; a call without one is counted as passed through.
#[inline(always)]
fn armed() -> Option<&'static Guard> {
    let guard = guard();
    if guard.is_none() {
        process::note_unarmed();
    }
    guard
}

/// The call, unless the thread is inside a call already.
#[inline(always)]
fn begin<'a>(guard: &'static Guard, entry: Entry, call: &'a mut Option<Call>) -> Option<&'a mut Call> {
    arm::begin_threads(guard, entry.entry_point.class());
    let slot = thread::slot(guard)?;
    if !slot.enter(entry.caller()) && !recover(guard, slot, entry.caller()) {
        return None;
    }
    CallStep::Enter.taken();
    Some(call.insert(Call {
        guard,
        slot,
        entry_point: entry.entry_point,
        caller: entry.caller(),
        entered: guard.now(),
        returned: 0,
        epoch: guard.tracker.epoch(),
        about: About::default(),
        open: None,
    }))
}

/// Whether the thread left its last call without returning (exception, jump, cancellation), and so is not inside a call.
#[cold]
fn recover(guard: &Guard, slot: &ThreadSlot, caller: Caller) -> bool {
    let abandoned = slot.abandoned(caller);
    if !abandoned || door::on_signal_stack() {
        pass_through::note(if abandoned { PassThrough::SignalHandler } else { PassThrough::Nested });
        return false;
    }
    guard.tracker.abandon(slot, guard.now());
    slot.enter(caller)
}

impl Call {
    /// The real call has returned: completes its record, and folds what its success means.
    #[inline(always)]
    fn returned(&mut self, entry: Entry, result: i32, after: impl FnOnce(&Call, i32)) {
        let returned = self.guard.now();
        self.returned = returned;
        self.close(entry.entry_point.class(), returned, result);
        CallStep::Complete.taken();
        self.fold(returned, result);
        CallStep::Settle.taken();
        self.slot.unmark();
        CallStep::Unmark.taken();
        // After the record is closed: a hazard's record cannot go into a lane with an open record.
        if self.about.cold.is_some() {
            self.load_returned(result);
        }
        after(self, result);
    }

    #[inline(always)]
    fn publish(&mut self, entry_point: EntryPoint) {
        let About { context, submits, stream_entry, .. } = self.about;
        let class = entry_point.class();
        let open = self.slot.open(&self.facts(entry_point), class);
        CallStep::Write.taken();
        gate::pass(self.slot, open, class, context);
        self.open = Some(open);
        if submits {
            if let Some(entry) = stream_entry {
                // What the thread has launched before is on its streams first.
                self.slot.fold_launches();
                self.about.first = entry.submitting(self.operation(), self.guard.tracker.stream_idle_until(entry));
            }
        }
        CallStep::Submit.taken();
    }

    /// From where the program came to a launch, by what is kept of the path of an earlier one.
    pub fn made_from(&self, kept: Option<&AtomicUsize>) -> u64 {
        let known = kept.and_then(|kept| path::from(kept, self.caller));
        known.unwrap_or_else(|| self.guard.paths.find(self.guard, kept, self.caller))
    }

    /// The record of the call before it is made.
    #[inline(always)]
    fn facts(&self, entry_point: EntryPoint) -> Record {
        let about = &self.about;
        let (kind, queries) = match about.cold {
            None => Kind::of_call(entry_point.class()),
            Some(ColdKind::Function) => (Kind::ColdFunction, 0),
            Some(ColdKind::Module) => (Kind::ColdModule, 0),
        };
        let from = if about.from == 0 { from_word(self.caller.address as u64, 0) } else { about.from };
        let (caller, path) = address_and_path(from);
        Record {
            kind,
            flags: about.flags | if about.submits { flag::SUBMITTED } else { 0 },
            entered: self.entered,
            stream: about.stream,
            function: about.function,
            context: about.context.min(0xffff) as u16,
            caller,
            path,
            raw: about.raw.with_queries(queries).with_owner(about.owner),
            ..Record::of(entry_point)
        }
    }

    #[inline(always)]
    fn close(&mut self, class: Class, returned: Nanos, result: i32) {
        if let Some(open) = self.open {
            if !self.slot.close(open, class, returned, result) {
                self.open = None;
            }
        }
    }

    /// A call that has succeeded made this stream: its record says so.
    pub fn made_stream(&self, stream: u32) {
        if let Some(open) = &self.open {
            self.slot.amend_stream(open, stream);
        }
    }

    /// A call that has succeeded made this context, or got it: its record says so.
    pub fn got_context(&self, context: u32) {
        if let Some(open) = &self.open {
            self.slot.amend_context(open, context);
        }
    }

    /// A call that has succeeded gave out this handle or address: its record says so.
    pub fn gave_out(&self, what: u64) {
        if let Some(open) = &self.open {
            self.slot.amend_detail(open, what);
        }
    }

    /// The operation that the call submits.
    #[inline]
    pub fn operation(&self) -> Operation {
        Operation { at: self.entered, entry_point: self.entry_point.id(), function: self.about.function }
    }

    #[inline(always)]
    fn fold(&self, returned: Nanos, result: i32) {
        if self.about.submits {
            if let Some(entry) = self.about.stream_entry {
                entry.submitted(returned);
                if let (Some(number), true) = (self.about.first, result != SUCCESS) {
                    self.guard.tracker.submission_refused(self.about.stream, number, returned);
                }
            }
        }
        if self.about.cold.is_some() && result == SUCCESS {
            self.loaded();
        }
    }

    /// What the call is about is loaded now.
    pub fn loaded(&self) {
        let About { context, function, owner, .. } = self.about;
        self.guard.tracker.set_present(owner, context);
        if let Some(entry) = self.guard.tracker.function_entry(function) {
            entry.set_loaded_in(context);
        }
    }

    /// The call has succeeded: what that proves to have ended is known from now on.
    pub fn proven(&self) {
        let About { stream, context, .. } = self.about;
        if let Some(scope) = proves(self.entry_point, stream, context) {
            self.guard.tracker.ended(scope, self.entered);
        }
    }

    /// Notes a hazard: with another timing, the call could have hung behind this work.
    pub fn hazard(&self, code: Code, flags: Flags, behind: &InFlight) {
        self.note_hazard(code, flags, other(*behind), self.guard.now());
    }

    /// The same, noted at this time.
    pub fn note_hazard(&self, code: Code, flags: Flags, other: ConflictingOperation, noted: Nanos) {
        let About { stream, stream_entry, context, function, .. } = self.about;
        let noted = HazardEvent {
            code,
            flags,
            entry_point: self.entry_point,
            thread: self.slot.thread(),
            at: self.entered,
            noted,
            context: context.min(0xffff) as u16,
            stream,
            class: Some(StreamClass::of(stream_entry.map(Stream::kind))),
            function,
            other,
            caller: self.caller.address as u64,
            count: 0,
        };
        self.guard.hazards.note(self.guard, self.slot, &noted);
    }

    /// Whether the guard itself has loaded something since.
    pub fn guard_loaded_since(&self, entered: Nanos) -> bool {
        self.guard.loader.last_loaded() >= entered
    }

    /// Leaves a landmark beside the call's own record.
    pub fn push(&self, record: Record) {
        self.slot.push(&Record { returned: self.guard.now(), ..record }, Lane::RareEvents);
    }

    /// Leaves a record of one of several memory operations that the call submits.
    pub fn push_operation(&self, flags: u8, driver_flags: u32, address: u64, value: u64) {
        let about = About { flags, raw: RawPayload::memory_operation(address, value, driver_flags), ..self.about };
        let one = Call { about, ..*self };
        self.push(one.facts(self.entry_point));
    }

    /// The call has turned out to load this function: its record says so. A call that took too little time to leave a record leaves one.
    pub fn has_loaded(&self, function: u32) {
        if let Some(open) = &self.open {
            return self.slot.amend_load(open, function);
        }
        let about = About { function, cold: Some(ColdKind::Function), ..self.about };
        let one = Call { about, ..*self };
        self.push(one.facts(self.entry_point));
    }

    /// The number of the context that is current to the calling thread, or 0.
    pub fn current_context(&self) -> u32 {
        self.context_number(driver::current_context())
    }

    /// The number of a context. One that is seen for the first time was made by a call that is not hooked, or was there before the
    /// guard: what is loaded concerns it from now on.
    pub fn context_number(&self, context: Handle) -> u32 {
        let handle = context as u64;
        if handle == 0 {
            return 0;
        }
        // In the cache of streams: no stream's handle is odd, but for those of the default streams.
        if let Some(number) = self.slot.cached_stream(handle | 1, self.epoch) {
            return number;
        }
        let number = self.guard.tracker.known_context(handle).unwrap_or_else(|| {
            let number = self.guard.tracker.context(handle, self.entered);
            self.guard.loader.context_came(number);
            number
        });
        self.slot.cache_stream(handle | 1, self.epoch, number);
        number
    }

    /// Whether a stream's handle is one of a default stream.
    pub fn is_default(&self, stream: Handle) -> bool {
        stream as u64 <= PER_THREAD
    }

    /// The number of a stream. A context identifies a default stream, and the thread as well where it is the thread's own.
    #[inline(always)]
    pub fn stream_number(&self, stream: Handle) -> u32 {
        let handle = stream as u64;
        if handle > PER_THREAD {
            if let Some(number) = self.slot.cached_stream(handle, self.epoch) {
                return number;
            }
        }
        // A copy, so that the caller's `Call` stays in registers on the fast path.
        let call = *self;
        if handle > PER_THREAD {
            call.created_stream(handle)
        } else {
            call.default_stream(handle)
        }
    }

    #[cold]
    fn created_stream(&self, handle: u64) -> u32 {
        let key = StreamKey { handle, context: 0, thread: 0 };
        let tracker = &self.guard.tracker;
        let number = tracker.known_stream(key).unwrap_or_else(|| {
            let mut context = std::ptr::null_mut();
            let context = match driver::stream_context(handle as Handle, &mut context) {
                Some(SUCCESS) => self.context_number(context),
                _ => self.current_context(),
            };
            tracker.stream(key, context, StreamKind::Unknown, self.entered)
        });
        self.slot.cache_stream(handle, self.epoch, number);
        number
    }

    fn default_stream(&self, handle: u64) -> u32 {
        let own = handle == PER_THREAD || handle == 0 && self.entry_point.info().per_thread;
        let context = self.current_context();
        let (epoch, tracker) = (self.epoch, &self.guard.tracker);
        // No handle of the driver's is this small, so these keys meet no other in the cache.
        let cache_key = u64::from(context) << 2 | u64::from(own);
        if let Some(number) = self.slot.cached_stream(cache_key, epoch) {
            return number;
        }
        let (handle, thread, kind) = match own {
            true => (PER_THREAD, self.slot.thread(), StreamKind::PerThread),
            false => (LEGACY, 0, StreamKind::Legacy),
        };
        let number = tracker.stream(StreamKey { handle, context, thread }, context, kind, self.entered);
        self.slot.cache_stream(cache_key, epoch, number);
        number
    }

    /// The call is about a stream, and its context.
    #[inline(always)]
    pub fn on_stream(&mut self, stream: Handle) {
        self.about_stream(self.stream_number(stream));
    }

    /// The call is about the stream with this number, and its context.
    #[inline(always)]
    pub fn about_stream(&mut self, number: u32) {
        let entry = self.guard.tracker.stream_entry(number);
        self.about.stream = number;
        self.about.stream_entry = entry;
        self.about.context = entry.map_or(0, Stream::context);
    }

    /// The call submits an operation to a stream. What is captured is not submitted.
    #[inline(always)]
    pub fn submits_to(&mut self, stream: Handle) {
        self.on_stream(stream);
        if let Some(stream) = self.about.stream_entry {
            let captured = stream.capturing() || joined_capture(self.guard, stream);
            self.about.submits = !captured;
            self.about.flags |= if captured { flag::CAPTURED } else { 0 };
        }
    }

    /// Whether the driver says that what is submitted to the stream now is carried out once, and not captured. The hook asks even
    /// where it knows of no capture: one may have begun unseen.
    pub fn is_carried_out_once(&self) -> bool {
        let submits_to = self.about.stream_entry.filter(|_| self.about.submits);
        submits_to.is_some_and(|stream| stream.handle() == LEGACY || !is_captured(stream))
    }

    /// A good moment to load what is pending for a context.
    pub fn load_pending(&self, context: u32) {
        self.load_what_is_pending(context, false);
    }

    /// The moment to load what is pending for a context that has come just now, the first on its device.
    pub fn load_at_start(&self, context: u32) {
        self.load_what_is_pending(context, true);
    }

    fn load_what_is_pending(&self, context: u32, at_start: bool) {
        self.guard.loader.look_for_libraries(self.guard);
        if self.guard.loader.has_pending() {
            let occasion =
                Occasion { entry_point: self.entry_point, entered: self.entered, submits: self.about.submits };
            self.guard.loader.try_now(self.guard, self.slot, context, occasion, at_start);
        }
    }
}

/// Whether a stream has joined a capture that began on another one.
#[inline(always)]
fn joined_capture(guard: &Guard, stream: &Stream) -> bool {
    guard.tracker.context_entry(stream.context()).is_some_and(|c| c.capturing()) && is_captured(stream)
}

#[cold]
fn is_captured(stream: &Stream) -> bool {
    let mut status = 0;
    // Asking the legacy default stream, which is never captured, is an error while anything is. A thread's own default stream
    // may have joined a capture as any other.
    stream.handle() >= PER_THREAD
        && driver::stream_is_capturing(stream.handle() as Handle, &mut status) == Some(SUCCESS)
        && status != 0
}

/// `CU_STREAM_LEGACY`.
const LEGACY: u64 = 1;
/// `CU_STREAM_PER_THREAD`.
pub const PER_THREAD: u64 = 2;

/// A call about which the hook kept nothing while it was made, for another look after it.
pub fn seen_again(guard: &'static Guard, slot: &'static ThreadSlot, entry: Entry, record: &Record) -> Call {
    let about = About {
        stream: record.stream,
        context: record.context.into(),
        function: record.function,
        submits: record.submitted(),
        stream_entry: guard.tracker.stream_entry(record.stream),
        ..About::default()
    };
    Call {
        guard,
        slot,
        entry_point: entry.entry_point,
        caller: entry.caller(),
        entered: record.entered,
        returned: record.returned,
        epoch: guard.tracker.epoch(),
        about,
        open: None,
    }
}

/// A call that is only published, so that it can be seen if it blocks.
pub fn published(entry: Entry, before: impl FnOnce(&mut Call), real: impl FnOnce() -> i32) -> i32 {
    observe(entry, before, real, |_, _| {})
}

/// What was in flight, as a hazard's record holds it.
pub fn other(busy: InFlight) -> ConflictingOperation {
    match busy.stream {
        // Work of destroyed streams: no further facts.
        0 => ConflictingOperation::default(),
        stream => ConflictingOperation {
            stream,
            function: busy.oldest.function,
            entry_point: busy.oldest.entry_point,
            at: busy.oldest.at,
        },
    }
}
