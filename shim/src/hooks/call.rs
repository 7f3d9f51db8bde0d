//! What every hook shares.
//!
//! [`observe`] is the way of a call: it finds the thread's slot, publishes the call, passes the gate, makes the real call,
//! and folds what happened into the state. A hook says what the call is about ([`About`]) before, and what its success
//! means after, in two closures that may fail without harm: a panic in either disarms the guard and nothing else.
//!
//! The real call stands outside of both, so that it happens exactly once. Nothing here has to be cleaned up when an exception,
//! a cancellation or a jump leads out of it, so nothing stands in their way; the thread's next call from further out finds
//! that this one was abandoned, and a thread that ends gives its slot back.

use crate::lookup::driver::{self, Handle};
use crate::runtime::{self, fault, gate, guard, thread, Guard};
use lazyguard_core::api::Form;
use lazyguard_core::diagnose::Code;
use lazyguard_core::state::{ColdKind, InFlight, Operation, Stream, StreamKey, StreamKind, ThreadSlot};
use lazyguard_core::trace::{Kind, Record};
use lazyguard_core::Nanos;
use std::sync::atomic::Ordering;

/// What a call is about, as far as it matters to others: numbers of the state, 0 for nothing.
#[derive(Clone, Copy, Default)]
pub struct About {
    /// The context.
    pub context: u32,
    /// The stream.
    pub stream: u32,
    /// The function.
    pub function: u32,
    /// The handle of the module or library.
    pub owner: u64,
    /// Whether the call loads on first use.
    pub cold: Option<ColdKind>,
    /// Whether it submits an operation to the stream.
    pub submits: bool,
    /// The operation's number if the stream was idle before it.
    pub first: Option<u64>,
    /// The stream's entry.
    pub stream_entry: Option<&'static Stream>,
}

/// A call in progress.
#[derive(Clone, Copy)]
pub struct Call {
    /// The guard.
    pub guard: &'static Guard,
    /// The calling thread's slot.
    pub slot: &'static ThreadSlot,
    /// The call.
    pub form: Form,
    /// When it was entered.
    pub entered: Nanos,
    /// The epoch of the state, as it was then.
    pub epoch: u32,
    /// What it is about.
    pub about: About,
}

/// Makes the real call with the guard around it; see the module.
#[inline]
pub fn observe(
    form: Form,
    before: impl FnOnce(&mut Call),
    real: impl FnOnce() -> i32,
    after: impl FnOnce(&Call, i32),
) -> i32 {
    let Some(guard) = guard() else { return real() };
    let Some(slot) = thread::slot(guard) else { return real() };
    let frame = std::ptr::from_ref(&slot) as usize;
    if !slot.enter(frame) && !fault::contained(|| recover(slot, frame)).unwrap_or(false) {
        runtime::NESTED.fetch_add(1, Ordering::Relaxed);
        return real();
    }
    let call = fault::contained(|| {
        let mut call =
            Call { guard, slot, form, entered: guard.now(), epoch: guard.world.epoch(), about: About::default() };
        before(&mut call);
        call.publish();
        call
    });
    let result = real();
    if let Some(call) = call {
        fault::contained(|| {
            let returned = guard.now();
            slot.unmark();
            call.fold(returned, result);
            after(&call, result);
            call.record(returned, result);
        });
    }
    slot.unmark();
    slot.leave();
    result
}

/// Whether the thread is not inside a call after all: it left the last one without returning from it.
#[cold]
fn recover(slot: &ThreadSlot, frame: usize) -> bool {
    if !slot.abandoned(frame) || on_signal_stack() {
        return false;
    }
    slot.unmark();
    slot.leave();
    slot.enter(frame)
}

/// Whether the thread runs a signal handler on a stack of its own, whose addresses say nothing about the other one's.
fn on_signal_stack() -> bool {
    // SAFETY: all-zero bytes are a valid `stack_t`.
    let mut stack: libc::stack_t = unsafe { std::mem::zeroed() };
    // SAFETY: asks only; the structure is valid for writing.
    unsafe { libc::sigaltstack(std::ptr::null(), &mut stack) != 0 || stack.ss_flags & libc::SS_ONSTACK != 0 }
}

impl Call {
    #[inline]
    fn publish(&mut self) {
        let About { context, stream, function, owner, cold, submits, stream_entry, .. } = self.about;
        self.slot.describe(self.entered, context, stream, function);
        if owner != 0 || cold.is_some() {
            let cold = match cold {
                None => 0,
                Some(ColdKind::Function) => 1,
                Some(ColdKind::Module) => 2,
            };
            self.slot.describe_load(owner, cold);
        }
        gate::pass(self.slot, self.form, self.form.class(), context);
        if submits {
            if let Some(entry) = stream_entry {
                self.about.first = entry.submitting(self.operation(), self.guard.world.stream_idle_until(entry));
            }
        }
    }

    /// The operation that the call submits.
    #[inline]
    pub fn operation(&self) -> Operation {
        Operation { at: self.entered, form: self.form.index() as u16, function: self.about.function }
    }

    #[inline]
    fn fold(&self, returned: Nanos, result: i32) {
        if self.about.submits {
            if let Some(entry) = self.about.stream_entry {
                entry.submitted(returned);
                if let (Some(number), true) = (self.about.first, result != driver::SUCCESS) {
                    entry.refused(number, returned);
                }
            }
        }
        if let (Some(_), true) = (self.about.cold, result == driver::SUCCESS) {
            self.loaded();
        }
    }

    /// What the call is about is loaded now.
    pub fn loaded(&self) {
        let About { context, function, owner, .. } = self.about;
        self.guard.world.set_present(owner, context);
        if let Some(entry) = self.guard.world.function_entry(function) {
            entry.set_loaded_in(context);
        }
    }

    #[inline]
    fn record(&self, returned: Nanos, result: i32) {
        let kind = match self.about.cold {
            Some(ColdKind::Function) => Kind::ColdFunction,
            Some(ColdKind::Module) => Kind::ColdModule,
            None => Kind::Call,
        };
        let log = &self.guard.log;
        if log.wants(self.form.class()) || kind != Kind::Call && log.wants_loads() {
            self.push(kind, returned, result, [self.about.owner, 0, 0]);
        }
    }

    fn push(&self, kind: Kind, returned: Nanos, result: i32, detail: [u64; 3]) {
        if let Some(ring) = self.slot.ring() {
            ring.push(&Record {
                entered: self.entered,
                returned,
                form: self.form,
                kind,
                result,
                thread: self.slot.thread(),
                context_id: self.about.context,
                stream_id: self.about.stream,
                function_id: self.about.function,
                detail,
            });
        }
    }

    /// Counts and records a hazard: what the call does while this is in flight could have been a hang.
    pub fn hazard(&self, code: Code, behind: &[InFlight]) {
        self.guard.count_hazard(code.number());
        let first = behind.first().map_or((0, 0), |f| (u64::from(f.stream), u64::from(f.oldest.function)));
        self.push(Kind::Hazard, self.guard.now(), 0, [code.number(), first.0, first.1]);
    }

    /// The number of the context that is current to the calling thread, or 0.
    pub fn current_context(&self) -> u32 {
        self.context_number(driver::current_context())
    }

    /// The number of a context. One that is seen for the first time was made by a way that is not hooked, or was there
    /// before the guard: what is loaded concerns it from now on.
    pub fn context_number(&self, context: Handle) -> u32 {
        let handle = context as u64;
        if handle == 0 {
            return 0;
        }
        if let Some(number) = self.guard.world.known_context(handle) {
            return number;
        }
        let number = self.guard.world.context(handle, self.entered);
        self.guard.loader.context_came(number);
        number
    }

    /// The number of a stream; a default stream is told by context and, where it is the thread's own, by thread.
    #[inline]
    pub fn stream_number(&self, stream: Handle) -> u32 {
        let handle = stream as u64;
        if handle > PER_THREAD {
            if let Some(number) = self.slot.cached_stream(handle, self.epoch) {
                return number;
            }
            return self.created_stream(handle);
        }
        self.default_stream(handle)
    }

    #[cold]
    fn created_stream(&self, handle: u64) -> u32 {
        let key = StreamKey { handle, context: 0, thread: 0 };
        let world = &self.guard.world;
        let number = world.known_stream(key).unwrap_or_else(|| {
            let mut context = std::ptr::null_mut();
            let context = match driver::stream_context(handle as Handle, &mut context) {
                Some(driver::SUCCESS) => self.context_number(context),
                _ => self.current_context(),
            };
            world.stream(key, context, StreamKind::Unknown, self.entered)
        });
        self.slot.cache_stream(handle, self.epoch, number);
        number
    }

    fn default_stream(&self, handle: u64) -> u32 {
        let own = handle == PER_THREAD || handle == 0 && self.form.info().per_thread;
        let context = self.current_context();
        let (epoch, world) = (self.epoch, &self.guard.world);
        // No handle of the driver's is this small, so these keys meet no other in the cache.
        let cache_key = u64::from(context) << 2 | u64::from(own);
        if let Some(number) = self.slot.cached_stream(cache_key, epoch) {
            return number;
        }
        let (handle, thread, kind) = match own {
            true => (PER_THREAD, self.slot.thread(), StreamKind::PerThread),
            false => (LEGACY, 0, StreamKind::Legacy),
        };
        let number = world.stream(StreamKey { handle, context, thread }, context, kind, self.entered);
        self.slot.cache_stream(cache_key, epoch, number);
        number
    }

    /// The call is about a stream, and its context.
    #[inline]
    pub fn on_stream(&mut self, stream: Handle) {
        self.about_stream(self.stream_number(stream));
    }

    /// The call is about the stream with this number, and its context.
    #[inline]
    pub fn about_stream(&mut self, number: u32) {
        let entry = self.guard.world.stream_entry(number);
        self.about.stream = number;
        self.about.stream_entry = entry;
        self.about.context = entry.map_or(0, Stream::context);
    }

    /// The call submits an operation to a stream. What is captured is not submitted.
    #[inline]
    pub fn submits_to(&mut self, stream: Handle) {
        self.on_stream(stream);
        self.about.submits = self.about.stream_entry.is_some_and(|s| !s.capturing() && !self.joined_capture(s));
    }

    /// Whether a stream has joined a capture that began on another one.
    #[inline]
    fn joined_capture(&self, stream: &Stream) -> bool {
        let captures = self.guard.world.context_entry(stream.context()).is_some_and(|c| c.capturing());
        let mut status = 0;
        // Asking a default stream is an error while anything is captured.
        captures
            && stream.handle() > PER_THREAD
            && driver::stream_is_capturing(stream.handle() as Handle, &mut status) == Some(driver::SUCCESS)
            && status != 0
    }

    /// A good moment to load what is pending for a context.
    pub fn load_pending(&self, context: u32) {
        if self.guard.loader.has_pending() {
            self.guard.loader.try_now(self.guard, self.slot, context, self.form);
        }
    }
}

/// `CU_STREAM_LEGACY`.
const LEGACY: u64 = 1;
/// `CU_STREAM_PER_THREAD`.
const PER_THREAD: u64 = 2;

/// A call that is only published, so that it can be seen if it blocks.
pub fn published(form: Form, before: impl FnOnce(&mut Call), real: impl FnOnce() -> i32) -> i32 {
    observe(form, before, real, |_, _| {})
}
