//! Calls that passed, and would not have with another timing: the questions by which a hook finds that out. The hook asks the driver only
//! where the guard's own knowledge shows a hazard, and only what the driver answers at any time. `core::hazard::rules` decides by numbers.
//!
//! Must not: cost an ordinary launch anything, or report what the driver contradicts.

use super::call::{About, Call};
use crate::lookup::driver::{Handle, SUCCESS};
use crate::lookup::driver_queries;
use crate::preload::idle;
use crate::record::hazards::Filler;
use crate::record::ready;
use crate::runtime::own_memory::{self, Unread};
use lazyguard_core::api::{Class, Code, ValueWait, ValueWrite};
use lazyguard_core::diagnose::resident_blocks;
use lazyguard_core::hazard::rules::{self, WaitsFor};
use lazyguard_core::hazard::{Flags, HazardEvent, Outstanding, StreamClass};
use lazyguard_core::replay;
use lazyguard_core::state::{ColdKind, Context, FunctionKind, InFlight, Operation, Stream, StreamKind};

const MOST_WAITS: usize = 8;

impl Call {
    /// Whether the driver says that a stream is busy; `None` if it cannot be asked. After a lost probe the stream counts as idle: nothing is
    /// reported.
    fn asked(&self, stream: u32) -> Option<bool> {
        if idle::probe_lost() {
            return Some(false);
        }
        idle::is_busy(self.guard, self.current_context(), stream, self.slot.thread(), self.about.stream, self.entered)
    }

    // --- LG103: a wait before its write ---

    /// The waits of other streams that a write satisfies, which is about to be submitted.
    pub fn waits_met(&self, write: &ValueWrite) -> Vec<Outstanding> {
        let hazards = &self.guard.hazards;
        if !self.about.submits || !hazards.has_waits() {
            return Vec::new();
        }
        let mut met = hazards.with_waits(self.guard, |waits| waits.satisfied_by(write));
        met.retain(|wait| self.asked(wait.stream) != Some(false) && self.stands(wait));
        met
    }

    /// Whether memory does not satisfy a wait. While it is unknown whether reading is safe, the hook reports nothing.
    fn stands(&self, wait: &Outstanding) -> bool {
        match driver_queries::host_memory(wait.wait.address, wait.wait.wide) {
            Ok(value) => !wait.wait.satisfied_by(value),
            Err(Unread::NotYet) => false,
            Err(Unread::Never) => true,
        }
    }

    pub fn written(&self, write: &ValueWrite, met: &[Outstanding]) {
        if !self.about.submits {
            return;
        }
        let (entry_point, at) = (self.entry_point.id(), self.entered);
        let other = InFlight { stream: self.about.stream, operation: Operation { at, entry_point, function: 0 } };
        for wait in met {
            let noted = HazardEvent {
                code: Code::LG103,
                flags: Flags::default(),
                entry_point: wait.entry_point,
                thread: wait.thread,
                at: wait.wait.at,
                noted: self.guard.now(),
                context: wait.context.min(0xffff) as u16,
                stream: wait.stream,
                class: wait.class,
                function: 0,
                other,
                caller: wait.caller,
                path: 0,
                count: 0,
            };
            self.guard.hazards.note(self.guard, self.slot, &noted);
        }
        let hazards = &self.guard.hazards;
        hazards.written(self.guard, hazards.writes.reserve(), write);
    }

    pub fn waited(&self, wait: ValueWait) {
        let About { submits: true, stream, context, stream_entry, .. } = self.about else { return };
        let wait = Outstanding {
            wait,
            stream,
            context,
            class: StreamClass::of(stream_entry.map(Stream::kind)),
            entry_point: self.entry_point,
            thread: self.slot.thread(),
            caller: self.caller.address as u64,
        };
        // Zeroed memory does not satisfy most waits: then the content need not be read.
        let may_hold = wait.wait.satisfied_by(0);
        let held = || driver_queries::host_memory(wait.wait.address, wait.wait.wide).ok();
        let holds = if may_hold { held() } else { None };
        // A later hazard may need the content.
        own_memory::will_be_read();
        self.guard.hazards.waited(self.guard, wait, holds);
    }

    // --- LG104: a call that waits for others ---

    /// The call may wait for work that it is not about. Asked before it is made.
    pub fn waits_for_others(&self) {
        self.waits_unless(|| false);
    }

    /// The call releases memory. The driver waits for nothing where that is of a pool (the atlas of the driver's functions).
    pub fn releases(&self, address: u64) {
        self.waits_unless(|| driver_queries::is_of_a_pool(address));
    }

    fn waits_unless(&self, returns: impl FnOnce() -> bool) {
        let About { context, stream_entry, .. } = self.about;
        let Some(waits_for) = rules::waits_for(self.entry_point.class(), stream_entry.map(Stream::kind)) else {
            return;
        };
        if context == 0 {
            return;
        }
        let found = self.stands_in_a_wait(waits_for).or_else(|| match waits_for {
            WaitsFor::Context => self.long_in_flight().map(|busy| (Flags::default(), busy)),
            WaitsFor::Blocking => None,
        });
        if let Some((flags, other)) = found.filter(|_| !returns()) {
            self.note_hazard(Code::LG104, flags, other, self.guard.now());
        }
    }

    /// A stream wait that blocks the call, and that no submitted operation satisfies.
    fn stands_in_a_wait(&self, waits_for: WaitsFor) -> Option<(Flags, InFlight)> {
        let (hazards, tracker) = (&self.guard.hazards, &self.guard.tracker);
        if !hazards.has_waits() {
            return None;
        }
        let concerns = |wait: &Outstanding| {
            let stream = tracker.stream_entry(wait.stream);
            wait.context == self.about.context && stream.is_some_and(|s| waits_for.concerns(s.kind()))
        };
        let waits = hazards.with_waits(self.guard, |waits| waits.of(concerns));
        let stands = |wait: &&Outstanding| {
            self.asked(wait.stream) == Some(true) && self.stands(wait) && self.nobody_else_may_satisfy(wait)
        };
        let wait = waits.iter().take(MOST_WAITS).find(stands)?;
        let (entry_point, at) = (wait.entry_point.id(), wait.wait.at);
        Some((
            Flags::UNSATISFIED,
            InFlight { stream: wait.stream, operation: Operation { at, entry_point, function: 0 } },
        ))
    }

    /// Whether no other stream has work that could satisfy a wait: kernels, copies, fills and graphs do not say where they write.
    fn nobody_else_may_satisfy(&self, wait: &Outstanding) -> bool {
        let tracker = &self.guard.tracker;
        if !tracker.fold() {
            return false;
        }
        let idle = |number: u32, stream: &Stream| {
            !stream.busy(tracker.stream_idle_until(stream)) || self.asked(number) == Some(false)
        };
        tracker.streams().all(|(number, stream)| {
            number == wait.stream || stream.last_submitted() <= wait.wait.at && idle(number, stream)
        })
    }

    fn long_in_flight(&self) -> Option<InFlight> {
        let tracker = &self.guard.tracker;
        // Without the fold, unfolded launches go unreported.
        let _ = tracker.fold();
        for (number, stream) in tracker.streams().filter(|(_, stream)| stream.context() == self.about.context) {
            let long = rules::long_in_flight(stream.last_submitted(), self.entered);
            if long && stream.busy(tracker.stream_idle_until(stream)) && self.asked(number) == Some(true) {
                let operation = stream.oldest(tracker.stream_idle_until(stream))?;
                return Some(InFlight { stream: number, operation });
            }
        }
        None
    }

    // --- LG105: a copy that blocked the host ---

    /// A copy is about to be submitted. A big copy is slow on an idle stream too, as is every copy of a thread that is not scheduled: so the
    /// driver is asked before whether the stream is busy. Copies of page-locked memory need no query.
    pub fn copies(&self, bytes: u64, host: [u64; 2]) {
        let About { submits: true, stream_entry: Some(entry), stream, .. } = self.about else { return };
        let tracker = &self.guard.tracker;
        let is_busy = || entry.busy(tracker.stream_idle_until(entry));
        // A fold may find work, and ends none: it changes nothing about a stream that is busy. A stream whose launches cannot be folded counts as busy.
        if !is_busy() && tracker.fold_of(stream) && !is_busy() {
            return;
        }
        if bytes >= rules::BIG_COPY_BYTES || host.iter().any(|&address| driver_queries::is_pageable(address)) {
            // The query stores its answer in the state.
            let _ = self.asked(stream);
        }
    }

    #[inline(always)]
    pub fn copied(&self, result: i32, host: [u64; 2]) {
        if rules::held(self.entered, self.returned) && result == SUCCESS {
            self.held_by_copy(host);
        }
    }

    #[cold]
    fn held_by_copy(&self, host: [u64; 2]) {
        let About { submits, first, .. } = self.about;
        let to_a_busy_stream = submits && first.is_none();
        if to_a_busy_stream
            && !idle::probe_lost()
            && host.iter().any(|&address| driver_queries::is_pageable(address))
            && !self.explained()
        {
            self.held_behind(Code::LG105, Flags::PAGEABLE);
        }
    }

    fn explained(&self) -> bool {
        self.guard.loader.is_busy()
            || self.guard.loader.has_loaded_since(self.entered)
            || self.guard.hazards.loaded_since(self.guard, self.entered, self.slot)
    }

    fn held_behind(&self, code: Code, flags: Flags) {
        let About { stream, stream_entry, .. } = self.about;
        let Some(entry) = stream_entry else { return };
        let _ = self.guard.tracker.fold_of(stream);
        let oldest = entry.oldest(self.guard.tracker.stream_idle_until(entry)).filter(|op| op.at < self.entered);
        self.note_hazard(code, flags, InFlight { stream, operation: oldest.unwrap_or_default() }, self.returned);
    }

    // --- LG106: a launch that blocked the host ---

    #[inline(always)]
    pub fn launched(&self, function: Handle, result: i32) {
        if result != SUCCESS {
            return;
        }
        if self.about.submits {
            // Only now: after one that the driver refuses, the context's first launch is still to come.
            self.guard.tracker.context_entry(self.about.context).into_iter().for_each(Context::set_launched);
        }
        match self.about.cold {
            // The launch has loaded its function, whose attributes can be queried only now.
            Some(_) if self.is_first_launch() => _ = self.sets_local_memory_aside(function),
            None if rules::held(self.entered, self.returned) => self.held_by_launch(),
            _ => {}
        }
    }

    #[cold]
    pub fn held_by_launch(&self) {
        // Not by `first`: other threads' launches may have been folded since, and a queue with one operation is not deep.
        let About { submits: true, stream_entry: Some(entry), stream, .. } = self.about else { return };
        let _ = self.guard.tracker.fold_of(stream);
        if rules::held(self.entered, self.returned)
            && rules::queue_is_deep(entry.outstanding_count(self.guard.tracker.stream_idle_until(entry)))
            && !self.explained()
            && self.asked(stream) == Some(true)
        {
            self.held_behind(Code::LG106, Flags::default());
        }
    }

    // --- LG107: local memory that grows ---

    /// A loaded function is about to be launched, for the first time in its context.
    pub fn first_launch(&self, function: Handle) {
        let About { context, stream, submits, .. } = self.about;
        let (true, Some((needs, before))) = (submits, self.sets_local_memory_aside(function)) else { return };
        let capturing = self.guard.tracker.context_entry(context).is_some_and(|context| context.capturing());
        if !rules::grows_local_memory(needs, before) || capturing {
            return;
        }
        self.comes_late();
        let in_flight = idle::in_flight_beside_others(self.guard, context, self.slot.thread(), stream, self.entered);
        if let Some(busy) = in_flight.iter().find(|busy| busy.stream != stream) {
            self.hazard(Code::LG107, Flags::default(), *busy);
        }
    }

    /// The bytes of local memory that a loaded function needs, and those that its context was known to have set aside before.
    pub fn sets_local_memory_aside(&self, function: Handle) -> Option<(u64, u64)> {
        let tracker = &self.guard.tracker;
        let context = tracker.context_entry(self.about.context)?;
        let kernel = tracker.function_entry(self.about.function)?.kind() == FunctionKind::Kernel;
        let needs = driver_queries::local_bytes(function, kernel, context.device().max(0))?;
        Some((needs, context.sets_local_memory_aside(needs)))
    }

    /// The call has set so much local memory aside, without a launch. A launch may have set more aside before: the larger amount stays.
    pub fn has_set_aside(&self, bytes: u64) {
        if let Some(context) = self.guard.tracker.context_entry(self.about.context).filter(|_| bytes > 0) {
            if rules::grows_local_memory(bytes, context.sets_local_memory_aside(bytes)) {
                self.comes_late();
            }
        }
    }

    // --- LG108: code that is compiled ---

    pub fn loads_code(&self) {
        if self.about.raw.loaded_image().needs_compiler() {
            // The queries store their answers in the state.
            let _ = idle::in_flight_beside_others(self.guard, self.about.context, self.slot.thread(), 0, self.entered);
        }
    }

    #[cold]
    pub fn load_returned(&self, result: i32) {
        let hazards = &self.guard.hazards;
        hazards.load_ended(self.returned);
        let compiles = match self.entry_point.class() {
            Class::ModuleLoad => self.about.raw.loaded_image().needs_compiler(),
            _ => self.about.cold == Some(ColdKind::Module) && hazards.has_to_be_compiled(self.about.owner),
        };
        if compiles && result == SUCCESS {
            self.compiled();
        }
        if result == SUCCESS {
            self.comes_late();
        }
    }

    // --- LG110: a load when the program was ready ---

    #[cold]
    pub fn comes_late(&self) {
        if ready::is_ready(self.guard) {
            self.note_hazard(
                Code::LG110,
                Flags::default(),
                self.in_flight_before().unwrap_or_default(),
                self.guard.now(),
            );
        }
    }

    /// The known work that was in flight in the context before the call.
    fn in_flight_before(&self) -> Option<InFlight> {
        let mut in_flight = self.guard.tracker.in_flight(self.about.context).into_iter();
        in_flight.find(|busy| busy.is_known() && busy.operation.at < self.entered)
    }

    pub fn compiled(&self) {
        let launched_before = self.guard.tracker.counts().1 > u64::from(self.entry_point.class() == Class::Launch);
        let in_flight = self.in_flight_before();
        let flags = rules::compiled(self.returned.saturating_sub(self.entered), in_flight.is_some(), launched_before);
        if let Some(flags) = flags.filter(|_| !self.guard.loader.has_loaded_since(self.entered)) {
            self.note_hazard(Code::LG108, flags, in_flight.unwrap_or_default(), self.returned);
        }
    }

    // --- LG109: a grid that fills the device ---

    pub fn launched_together(&self, function: Handle, blocks: u64, threads: u32, shared_bytes: u32) {
        let About { submits: true, stream, context, function: number, .. } = self.about else { return };
        let tracker = &self.guard.tracker;
        let (Some(entry), Some(of)) = (tracker.function_entry(number), tracker.context_entry(context)) else { return };
        let (device, kernel) = (of.device().max(0), entry.kind() == FunctionKind::Kernel);
        let key = (function as u64 ^ (device as u64) << 56, threads, shared_bytes);
        let resident = self.guard.hazards.resident(self.epoch, key, || {
            let needs = driver_queries::needs(function, kernel, device, threads, shared_bytes.into())?;
            resident_blocks(driver_queries::limits(device), needs)
        });
        if resident.is_some_and(|resident| replay::fills_device(blocks, resident)) {
            let filler = Filler { stream, context, launch: self.operation(), behind: Default::default() };
            self.guard.hazards.fills(self.guard, filler);
        }
    }

    #[cold]
    pub fn waits_for_event(&self, event: Handle) {
        let About { submits: true, stream, .. } = self.about else { return };
        if let Some(recorded) = self.guard.tracker.recorded(event as u64) {
            self.guard.hazards.waits_for_event(stream, recorded.stream, recorded.at, self.entered);
        }
    }

    #[cold]
    pub fn beside_fillers(&self) {
        let About { submits, stream, context, .. } = self.about;
        let tracker = &self.guard.tracker;
        let kind = |number: u32| tracker.stream_entry(number).map_or(StreamKind::Unknown, Stream::kind);
        // The grid cannot wait for work that follows it in stream order.
        let in_turn = |filler: &Filler| filler.is_before(stream) || replay::in_turn(kind(filler.stream), kind(stream));
        let others = |filler: &Filler| filler.context == context && filler.stream != stream && !in_turn(filler);
        for filler in self.guard.hazards.fillers(self.guard) {
            // On its own stream the grid delays no other work: the hook queries only now and then.
            if filler.stream == stream && !self.guard.hazards.asks_again() {
                continue;
            }
            // The query also finds the end of the grid, after which launches take the fast path again.
            let busy = self.asked(filler.stream);
            if submits && others(&filler) && busy == Some(true) {
                let Filler { stream, launch, .. } = filler;
                self.hazard(Code::LG109, Flags::default(), InFlight { stream, operation: launch });
                return;
            }
        }
    }
}
