//! First use of a function. The driver loads a function when it is first used in a context, and its module or library before that. The
//! guard knows a first use from the loads that it saw, from its own, or from the driver's answer, which functions have and kernels have
//! not.
//!
//! A first use is the last moment to load what is pending. If it stays a first use, the hook notes it with the work in flight, because the
//! load will wait for that work.
//!
//! Must not: load while anything is in flight.

use super::call::{About, Call};
use crate::lookup::driver::{self, Handle};
use crate::preload::attempt::Occasion;
use crate::preload::idle;
use lazyguard_core::api::Class;
use lazyguard_core::hazard::{rules, Flags};
use lazyguard_core::state::{ColdKind, FunctionKind};
use std::ffi::CStr;
use std::ptr::{null, null_mut};

impl Call {
    /// The call uses a function or kernel in its context: says which, and whether this is its first use.
    #[inline(always)]
    pub fn uses(&mut self, function: Handle) {
        if let Some(number) = self.slot.cached_loaded_function(self.use_key(function), self.about.context, self.epoch) {
            self.about.function = number;
            return;
        }
        // A copy, so that the caller's `Call` stays in registers on the fast path.
        let mut call = *self;
        call.uses_uncached(function);
        *self = call;
    }

    /// The cache key of a use: the first launch must not hit an entry that another use, or a launch that is captured, made.
    #[inline(always)]
    pub(super) fn use_key(&self, function: Handle) -> u64 {
        // No handle is odd.
        function as u64 | u64::from(self.entry_point.class() != Class::Launch || !self.about.submits)
    }

    #[cold]
    fn uses_uncached(&mut self, function: Handle) {
        if function.is_null() {
            return;
        }
        let number = number_of(self, function);
        self.about.function = number;
        self.about.owner = self.guard.tracker.function_entry(number).map_or(0, |f| f.owner());
        if self.guard.tracker.introduce_function(number, self.entered) {
            self.guard.mappings.called_from(self.caller.address as u64);
            if let Some(profile) = &self.guard.profile {
                profile.uses(self.about.owner, self.guard.tracker.function_name(number));
            }
        }
        let (context, is_first) = (self.about.context, self.is_first_of_the_context());
        if is_first && self.guard.loader.waits_for_this_launch(self.guard, context) {
            // It was there to be loaded at the start, but for this launch.
            self.load(context, true);
        } else if is_first || !self.is_loaded(function) {
            // With nothing in flight, loading now is safe, and the loader may load everything else that is pending.
            self.load_pending(context);
        }
        if self.is_loaded(function) {
            self.slot.cache_loaded_function(self.use_key(function), self.about.context, self.epoch, number);
            self.used_ahead();
            if self.entry_point.class() == Class::Launch && self.is_first_launch() {
                self.first_launch(function);
            }
            self.about.owner = 0;
            return;
        }
        self.first_use();
    }

    pub fn loaded(&self) {
        let About { context, function, owner, .. } = self.about;
        self.guard.tracker.set_present(owner, context, false);
        if let Some(entry) = self.guard.tracker.function_entry(function) {
            entry.set_loaded_in(context);
        }
    }

    pub fn load_pending(&self, context: u32) {
        self.load(context, false);
    }

    /// Loads what is pending for a context. `at_start`: the context has just been created, the first on its device.
    pub fn load(&self, context: u32, at_start: bool) {
        self.guard.loader.look_for_libraries(self.guard);
        if self.guard.loader.has_pending() {
            let Self { entry_point, entered, .. } = *self;
            let (caller, submits) = (self.caller.address as u64, self.about.submits);
            let occasion = Occasion { entry_point, entered, caller, submits };
            self.guard.loader.try_now(self.guard, self.slot, context, occasion, at_start);
        }
    }

    /// Whether it is a launch, and none was made in the context before. One that is captured is none.
    fn is_first_of_the_context(&self) -> bool {
        let context = || self.guard.tracker.context_entry(self.about.context);
        let is_launch = self.entry_point.class() == Class::Launch && self.about.submits;
        is_launch && context().is_some_and(|context| !context.has_launched())
    }

    /// Whether the function has not been launched in its context before; from now on it has.
    pub fn is_first_launch(&self) -> bool {
        let About { submits, function, context, .. } = self.about;
        submits && self.guard.tracker.function_entry(function).is_some_and(|entry| entry.set_launched_in(context))
    }

    fn is_loaded(&self, function: Handle) -> bool {
        self.is_loaded_as(function, self.about.function)
    }

    /// The same of a function or kernel with this number.
    pub(super) fn is_loaded_as(&self, function: Handle, number: u32) -> bool {
        let Some(entry) = self.guard.tracker.function_entry(number) else { return false };
        if entry.loaded_in(self.about.context) {
            return true;
        }
        let loaded = entry.kind() == FunctionKind::Function && driver::is_loaded(function);
        if loaded {
            entry.set_loaded_in(self.about.context);
        }
        loaded
    }

    fn first_use(&mut self) {
        let tracker = &self.guard.tracker;
        let kind = match tracker.function_entry(self.about.function).map(|f| f.kind()) {
            Some(FunctionKind::Kernel) if !tracker.present(self.about.owner, self.about.context) => ColdKind::Module,
            _ => ColdKind::Function,
        };
        self.loads(kind);
    }

    /// The call loads: a function on its first use, or a module. Notes what is in flight meanwhile, and the hazard if anything is.
    pub fn loads(&mut self, kind: ColdKind) {
        self.about.cold = Some(kind);
        self.meets(kind, Flags::default());
    }

    /// Notes the hazard that a load of this kind meets, or would have met. Returns whether anything is in flight.
    fn meets(&self, kind: ColdKind, flags: Flags) -> bool {
        let About { context, stream, .. } = self.about;
        let in_flight = idle::in_flight_beside_others(self.guard, context, self.slot.thread(), stream, self.entered);
        let Some(first) = in_flight.first() else { return false };
        let but = if stream == 0 { first.stream } else { stream };
        let others = self.guard.tracker.other_stream_exists(context, but, stream == 0);
        if let Some((code, busy)) = rules::load_meets(kind, stream, others, &in_flight) {
            self.hazard(code, flags, busy);
        }
        true
    }

    /// The call gets a module that the guard has loaded ahead: the hook notes the hazard that this prevented.
    pub fn meets_ahead(&self, module: u64) {
        self.guard.tracker.take_present_preloaded(module, self.about.context);
        if !self.guard.tracker.context_entry(self.about.context).is_some_and(|context| context.capturing()) {
            self.meets(ColdKind::Module, Flags::PREVENTED);
        }
    }

    /// The call has resolved a function, which is loaded. The driver loads it with this call, unless it was loaded before or loads eagerly.
    pub fn got_loaded(&self, number: u32) {
        let About { context, owner: module, .. } = self.about;
        let tracker = &self.guard.tracker;
        let Some(entry) = tracker.function_entry(number) else { return };
        let (known, ahead) = (entry.loaded_in(context), entry.take_preloaded(context));
        entry.set_loaded_in(context);
        let by_this = !known && tracker.present(module, context) && !self.guard.loader.driver_eager;
        if ahead || by_this {
            let mut one = *self;
            one.about.function = number;
            tracker.introduce_function(number, self.entered);
            if by_this {
                one.comes_late();
            }
            let beside_work = one.meets(ColdKind::Function, if ahead { Flags::PREVENTED } else { Flags::default() });
            // The diagnosis of a hang needs to know of the barrier.
            if by_this && beside_work {
                self.has_loaded(number);
            }
        }
    }

    /// The call uses a loaded function. If the guard preloaded it, the hook notes once the hazard that this prevented.
    fn used_ahead(&self) {
        let About { context, function, owner, .. } = self.about;
        let tracker = &self.guard.tracker;
        let Some(entry) = tracker.function_entry(function).filter(|entry| entry.take_preloaded(context)) else {
            return;
        };
        let kind = match entry.kind() {
            FunctionKind::Kernel if tracker.take_present_preloaded(owner, context) => ColdKind::Module,
            _ => ColdKind::Function,
        };
        // A prevented hazard is not worth a driver call during a capture.
        if !tracker.context_entry(context).is_some_and(|context| context.capturing()) {
            self.meets(kind, Flags::PREVENTED);
        }
    }
}

/// `CUDA_ERROR_INVALID_HANDLE`.
const INVALID_HANDLE: i32 = 400;

/// The number of a function or kernel, which is named by then. The driver says that a kernel, resolved unseen, is not a function.
pub(super) fn number_of(call: &Call, handle: Handle) -> u32 {
    let tracker = &call.guard.tracker;
    let number = tracker.known_function(handle as u64).unwrap_or_else(|| {
        let mut state = 0;
        let kernel = driver::function_is_loaded(&mut state, handle) == Some(INVALID_HANDLE);
        let kind = if kernel { FunctionKind::Kernel } else { FunctionKind::Function };
        let library = || driver::told(null_mut(), |library| driver::kernel_library(library, handle));
        tracker.function(handle as u64, kind, kernel.then(library).flatten().map_or(0, |library| library as u64))
    });
    if !tracker.is_named(number) {
        name(call, number, handle);
    }
    number
}

fn name(call: &Call, number: u32, handle: Handle) {
    let Some(entry) = call.guard.tracker.function_entry(number) else { return };
    let name = driver::told(null(), |name| match entry.kind() {
        FunctionKind::Kernel => driver::kernel_name(name, handle),
        FunctionKind::Function => driver::function_name(name, handle),
    });
    if let Some(name) = name.filter(|name| !name.is_null()) {
        // SAFETY: the driver's own terminated string, which lives as long as the function.
        let name = unsafe { CStr::from_ptr(name) };
        call.guard.tracker.name_function(number, &name.to_string_lossy());
    }
}
