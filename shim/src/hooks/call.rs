//! The steps that every hook shares.
//!
//! [`observe`] takes a call through its steps ([`CallStep`]): it finds the thread's slot, publishes the call, passes the gate, makes the
//! real call, and folds what happened into the state. A hook says in two closures what the call is about ([`About`]) and what its success
//! means. Both run inside the door ([`crate::runtime::door`]); a panic in either disarms the guard and does nothing else.
//!
//! The real call lies outside of both, so it happens exactly once. Nothing here needs cleaning up when an exception, a cancellation or a
//! jump leads out of it. The thread's next call from further out finds that this one was abandoned.
//!
//! Must not: allocate, lock or call the system on the path of an ordinary call; a submission after launches of the fast path takes the turn
//! in which these are folded (`lazyguard_core::state`).

use super::caller::Frame;
use crate::lifecycle::arm;
use crate::lookup::driver::{Handle, LAUNCH_FAILED, SUCCESS};
use crate::preload::gate;
use crate::record::gpu_dump::{self, stays_blocked};
use crate::record::{guard, Guard};
use crate::runtime::results::{self, LATE_ERROR, REVOKED};
use crate::runtime::{door, pass_through, process, thread};
use crate::watch::revoked;
use lazyguard_core::api::result::loses_work;
use lazyguard_core::api::Class;
use lazyguard_core::api::EntryPoint;
use lazyguard_core::diagnose::Code;
use lazyguard_core::hazard::{Flags, HazardEvent, StreamClass};
use lazyguard_core::report::{PassThrough, REVOKED_RESULT};
use lazyguard_core::state::{CallStep, Caller, ColdKind, InFlight, OpenRecord, Operation, Stream, ThreadSlot};
use lazyguard_core::trace::layout::{flag, record};
use lazyguard_core::trace::{address_and_path, from_word, Kind, Lane, RawPayload, Record};
use lazyguard_core::Nanos;

/// The real call, with the program's own arguments.
pub trait Real: FnOnce() -> i32 {}

impl<F: FnOnce() -> i32> Real for F {}

/// One that a path of its own mostly makes.
pub trait Again: Real + Fn() -> i32 + Copy {}

impl<F: Fn() -> i32 + Copy> Again for F {}

#[derive(Clone, Copy)]
pub struct Entry<'f> {
    pub entry_point: EntryPoint,
    pub frame: Frame<'f>,
}

impl Entry<'_> {
    #[inline(always)]
    pub fn again(self) -> Self {
        Self { frame: self.frame.again(), ..self }
    }

    #[inline(always)]
    pub fn caller(self) -> Caller {
        self.frame.caller()
    }
}

/// The objects of a call: numbers of the state, 0 for none. The order is fixed: the compiler would read stream and function with one load if they
/// were neighbours, shortly after two stores that the processor cannot forward to one load.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct About {
    pub stream: u32,
    pub context: u32,
    /// The handle of the module or library.
    pub owner: u64,
    pub function: u32,
    pub cold: Option<ColdKind>,
    pub submits: bool,
    /// The operation's number if the stream was idle before it.
    pub first: Option<u64>,
    pub stream_entry: Option<&'static Stream>,
    /// The record's path from the program to the call, where that is more than the caller; else 0.
    pub from: u64,
    pub flags: u8,
    /// The record's payload, without the owner's handle, which is added when the record is made.
    pub raw: RawPayload,
}

#[derive(Clone, Copy)]
pub struct Call {
    pub guard: &'static Guard,
    pub slot: &'static ThreadSlot,
    pub entry_point: EntryPoint,
    pub caller: Caller,
    pub entered: Nanos,
    /// When the real call returned; 0 before.
    pub returned: Nanos,
    /// The epoch of the state, as it was when the call was entered.
    pub epoch: u32,
    pub about: About,
    /// The call is not made: see [`revoked::refuses`].
    is_refused: bool,
    open: Option<OpenRecord>,
}

/// Makes the real call with the guard around it; see the module.
#[inline(always)]
pub fn observe(entry: Entry, before: impl FnOnce(&mut Call), real: impl Real, after: impl FnOnce(&Call, i32)) -> i32 {
    // `call` is never moved, and the real call is made at one place: copying the call or its arguments costs more than all else here.
    let mut call = None;
    let ready = armed().and_then(|guard| {
        door::inside(|| {
            if let Some(call) = begin(guard, entry, &mut call) {
                before(call);
                call.publish(entry.entry_point);
            }
        })
    });
    // The class of an export is known when that is compiled, so that the others do not ask.
    let is_refused = entry.entry_point.class().may_tell_memory() && call.as_ref().is_some_and(|call| call.is_refused);
    let result = match is_refused {
        true => REVOKED_RESULT,
        false => made(entry, call.as_ref().map(|call| call.entered), real),
    };
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

/// The same, where another path mostly takes the call; one function for all exports of a family. `real` is a copy, which the compiler does not see through
/// (`black_box`): this gets its address, and the other path would have to write to memory what it is made of.
#[cold]
#[inline(never)]
pub fn observe_coldly(
    entry: Entry,
    before: impl FnOnce(&mut Call),
    real: &dyn Fn() -> i32,
    after: impl FnOnce(&Call, i32),
) -> i32 {
    observe(entry, before, real, after)
}

/// Makes the real call, which was entered at that time as far as the guard knows. Returns the result that the program gets.
#[inline(always)]
pub(super) fn made(entry: Entry, entered: Option<Nanos>, real: impl Real) -> i32 {
    let mut result = real();
    if result == LAUNCH_FAILED {
        stays_blocked();
    }
    if results::may_change() {
        result = changed(entry, entered, result);
    }
    CallStep::Call.taken();
    result
}

/// The result that the program gets, where [`results`] says that it may be another one.
#[cold]
#[inline(never)]
pub(super) fn changed(entry: Entry, entered: Option<Nanos>, result: i32) -> i32 {
    let result = match result {
        SUCCESS if results::is_set(LATE_ERROR) => gpu_dump::late_error(entry.entry_point),
        _ => result,
    };
    match results::is_set(REVOKED) {
        true => {
            let caller = entry.caller().address as u64;
            door::inside(|| revoked::result_of(entry.entry_point, caller, entered, result)).unwrap_or(result)
        }
        false => result,
    }
}

/// The guard; a call without one is counted as passed through.
#[inline(always)]
pub(super) fn armed() -> Option<&'static Guard> {
    let guard = guard();
    if guard.is_none() {
        process::note_unarmed();
    }
    guard
}

/// The call, unless the thread is inside a call already.
#[inline(always)]
pub(super) fn begin<'a>(guard: &'static Guard, entry: Entry, call: &'a mut Option<Call>) -> Option<&'a mut Call> {
    arm::begin_threads(guard, entry.entry_point, || entry.caller());
    let slot = thread::slot(guard)?;
    if !slot.enter(entry.caller()) && !recover(guard, slot, entry.caller()) {
        return None;
    }
    CallStep::Enter.taken();
    Some(call.insert(Call::new(guard, slot, entry, guard.now())))
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
    #[inline(always)]
    pub(super) fn new(guard: &'static Guard, slot: &'static ThreadSlot, entry: Entry, entered: Nanos) -> Self {
        let (entry_point, caller, epoch) = (entry.entry_point, entry.caller(), guard.tracker.epoch());
        let about = About::default();
        Self { guard, slot, entry_point, caller, entered, returned: 0, epoch, about, is_refused: false, open: None }
    }

    /// The real call has returned: completes its record, and folds what its success means.
    #[inline(always)]
    fn returned(&mut self, entry: Entry, result: i32, after: impl FnOnce(&Call, i32)) {
        self.close(entry, result);
        self.fold(self.returned, result);
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
    fn close(&mut self, entry: Entry, result: i32) {
        self.returned = self.guard.now();
        if let Some(open) = self.open {
            let class = entry.entry_point.class();
            self.open = self.slot.close(open, class, self.returned, result).then_some(open);
            if loses_work(result) {
                self.slot.asked_in_vain(open, class, self.returned, result);
            }
        }
        CallStep::Complete.taken();
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
                // The thread's earlier launches come to its streams first.
                self.slot.fold_launches();
                self.about.first = entry.submitting(self.operation(), self.guard.tracker.stream_idle_until(entry));
            }
        }
        CallStep::Submit.taken();
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

    /// Whether the call, which would submit, is not made for a revoke.
    #[cold]
    pub fn is_refused(&mut self) -> bool {
        let caller = self.caller.address as u64;
        self.is_refused = revoked::refuses(self.guard, self.entry_point, caller, self.about.stream, self.entered);
        self.is_refused
    }

    pub fn was_refused(&self) -> bool {
        self.is_refused
    }

    /// The call has succeeded: this field of its record says what it made or gave out.
    pub fn amend(&self, field: usize, value: u64) {
        self.open.iter().for_each(|open| self.slot.amend(open, field, value));
    }

    /// The call has succeeded, and given out this handle or address.
    pub fn gave_out(&self, what: u64) {
        self.amend(record::DETAIL, what);
    }

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

    pub fn hazard(&self, code: Code, flags: Flags, other: InFlight) {
        self.note_hazard(code, flags, other, self.guard.now());
    }

    pub fn note_hazard(&self, code: Code, flags: Flags, other: InFlight, noted: Nanos) {
        let About { stream, stream_entry, context, function, from, .. } = self.about;
        // A first launch may be noted before its path is found. By other calls, a runtime has as many frames as it likes.
        let is_launch = self.entry_point.class() == Class::Launch;
        let from = if from == 0 && is_launch { self.made_from(None) } else { from };
        let (caller, path) = if from == 0 { (self.caller.address as u64, 0) } else { address_and_path(from) };
        let noted = HazardEvent {
            code,
            flags,
            entry_point: self.entry_point,
            thread: self.slot.thread(),
            at: self.entered,
            noted,
            context: context.min(0xffff) as u16,
            stream,
            class: StreamClass::of(stream_entry.map(Stream::kind)),
            function,
            // No fact is known of work on destroyed streams.
            other: Some(other).filter(|other| other.stream != 0).unwrap_or_default(),
            caller,
            path,
            count: 0,
        };
        self.guard.hazards.note(self.guard, self.slot, &noted);
    }

    /// Leaves a landmark beside the call's own record.
    pub fn push(&self, record: Record) {
        self.slot.push(&Record { returned: self.guard.now(), ..record }, Lane::RareEvents);
    }

    /// Leaves a record of another thing that the call does.
    pub fn push_about(&self, about: About) {
        self.push(Self { about, ..*self }.facts(self.entry_point));
    }

    /// The call has turned out to load this function: its record says so. A call that took too little time to leave a record leaves one.
    pub fn has_loaded(&self, function: u32) {
        match &self.open {
            Some(open) => self.slot.amend_load(open, function),
            None => self.push_about(About { function, cold: Some(ColdKind::Function), ..self.about }),
        }
    }
}

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
    Call { returned: record.returned, about, ..Call::new(guard, slot, entry, record.entered) }
}

/// A call that is only published, so that it can be seen if it blocks.
pub fn published(entry: Entry, real: impl Real, before: impl FnOnce(&mut Call)) -> i32 {
    observe(entry, before, real, |_, _| {})
}

/// A call whose success alone means something.
#[inline(always)]
pub fn succeeds(entry: Entry, before: impl FnOnce(&mut Call), real: impl Real, then: impl FnOnce(&Call)) -> i32 {
    observe(entry, before, real, |call, result| {
        if result == SUCCESS {
            then(call);
        }
    })
}

/// The handle that a call which has succeeded wrote to this place; `None` for null.
pub fn written(to: Handle) -> Option<Handle> {
    // SAFETY: the driver has just filled it in.
    (!to.is_null()).then(|| unsafe { *to.cast::<Handle>() })
}
