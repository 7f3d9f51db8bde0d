//! Contexts: initialisation, life, waiting; and everything that waits for a context as a whole.
//!
//! Must not: arm before `cuInit` has succeeded.

use super::call::{observe, published, succeeds, written, Again, Call, Entry, Real};
use super::fast::lightly;
use super::release::{releases_now, unless_put_off};
use crate::lifecycle::arm;
use crate::lookup::driver::{self, Handle, SUCCESS};
use crate::preload::idle;
use crate::preload::releases::may_be_for_lack_of_releases;
use crate::runtime::clock;
use crate::watch::driver_environment;
use lazyguard_core::replay::shows_the_end;
use lazyguard_core::trace::layout::record;
use lazyguard_core::trace::RawPayload;
use std::cell::Cell;

pub(super) fn init(entry: Entry, real: impl Real) -> i32 {
    let entered = clock::system_nanos();
    let result = observed(entry, real);
    if result == SUCCESS && driver::ADOPTED.is_there() {
        driver_environment::read();
        arm::arm(arm::Initialised { entered, returned: clock::system_nanos() });
    }
    result
}

/// A context is created, and current to the thread; or a device's primary one is retained, and created unless it is there.
pub(super) fn comes(entry: Entry, context: Handle, device: i32, primary: bool, real: impl Real) -> i32 {
    let before = |call: &mut Call| call.guard.before_a_context();
    succeeds(entry, before, real, |call| {
        let Some(context) = written(context) else { return };
        let number = call.context_number(context);
        call.amend(record::PLACE, number.min(0xffff).into());
        call.guard.tracker.is_context_of(device, number, primary);
        // Libraries that a runtime registered before there was a context are loaded into it now.
        call.load(number, call.guard.loader.starts_on(device));
    })
}

pub(super) fn destroy(entry: Entry, context: Handle, real: impl Real) -> i32 {
    let ends = Cell::new(None);
    let before = |call: &mut Call| {
        // Before the call, as with streams; a context that the driver refuses to destroy is learnt again.
        call.about.context = call.guard.tracker.known_context(context as u64).unwrap_or(0);
        call.waits_for_others();
        forgotten(call, call.about.context, context as u64);
        ends.set(call.guard.tracker.context_ends(context as u64));
        idle::settle();
    };
    // The call waits for the context's work, which a report names until then.
    observe(entry, before, real, |call, _| {
        ends.get().into_iter().for_each(|number| call.guard.tracker.context_ended(number));
    })
}

fn forgotten(call: &Call, context: u32, handle: u64) {
    call.guard.loader.context_gone(context, handle);
    call.guard.profile.iter().for_each(|profile| profile.context_gone(context));
}

/// A device's primary context was released or reset; the last release and every reset destroy it.
pub(super) fn primary_gone(entry: Entry, device: i32, real: impl Real) -> i32 {
    let reset = entry.entry_point.info().base() == "cuDevicePrimaryCtxReset";
    let before = |call: &mut Call| {
        // Whether a release is the last one, only the driver knows.
        let mut contexts = call.guard.tracker.contexts();
        if let Some((number, _)) = contexts.find(|(_, context)| reset && context.is_primary_of(device)) {
            call.about.context = number;
            call.waits_for_others();
        }
    };
    succeeds(entry, before, real, |call| {
        let state = || driver::told((0, 0), |(flags, active)| driver::primary_state(device, flags, active));
        if !reset && state().is_none_or(|(_, active)| active != 0) {
            return;
        }
        let of_device = call.guard.tracker.contexts().filter(|(_, context)| context.is_primary_of(device));
        let of_device: Vec<_> = of_device.map(|(number, context)| (number, context.handle())).collect();
        for (number, handle) in of_device {
            forgotten(call, number, handle);
            call.guard.tracker.context_gone(handle);
        }
    })
}

pub(super) fn synchronize(entry: Entry, context: Handle, real: impl Real) -> i32 {
    let before = |call: &mut Call| {
        let context = if context.is_null() { driver::current_context() } else { context };
        call.about.context = call.context_number(context);
    };
    observe(entry, before, real, |call, result| {
        if shows_the_end(result) {
            call.proven();
            call.load_pending(call.about.context);
        }
    })
}

/// A call that the driver may block until other work in the context, or another thread's call, has ended; where it waits, until everything has that is in
/// flight in the context.
pub(super) fn waits_if(entry: Entry, waits: bool, real: impl Real) -> i32 {
    published(entry, real, |call| {
        call.about.context = call.current_context();
        if waits {
            call.waits_for_others();
        }
    })
}

/// Flags of the context are set. The driver waits for the context where synchronous memory operations are asked for (measured).
pub(super) fn sets_flags(entry: Entry, flags: u32, real: impl Real) -> i32 {
    /// `CU_CTX_SYNC_MEMOPS`.
    const SYNC_MEMOPS: u32 = 0x80;
    waits_if(entry, flags & SYNC_MEMOPS != 0, real)
}

/// A limit of the context is set. The stack limit sets the local memory of a kernel's threads, and waits as above; the other limits do not wait.
pub(super) fn sets_limit(entry: Entry, limit: i32, value: usize, real: impl Real) -> i32 {
    /// `CU_LIMIT_STACK_SIZE`.
    const STACK_SIZE: i32 = 0;
    let before = |call: &mut Call| {
        call.about.context = call.current_context();
        if limit == STACK_SIZE {
            call.waits_for_others();
        }
    };
    succeeds(entry, before, real, |call| {
        if limit == STACK_SIZE {
            call.has_set_aside(value as u64);
        }
    })
}

pub(super) fn allocates(entry: Entry, bytes: usize, memory: Handle, real: impl Fn() -> i32) -> i32 {
    let allocated = || match real() {
        result if may_be_for_lack_of_releases(result) && releases_now() => real(),
        result => result,
    };
    let before = |call: &mut Call| {
        call.about.context = call.current_context();
        call.about.raw = RawPayload::memory(0, bytes as u64);
    };
    succeeds(entry, before, allocated, |call| gave_out(call, memory))
}

/// A call that has succeeded filled in where the memory is.
pub(super) fn gave_out(call: &Call, memory: Handle) {
    written(memory).into_iter().for_each(|memory| call.gave_out(memory as u64));
}

/// Memory or an array is released, for which the driver waits until everything in flight in the context has ended.
pub(super) fn frees(entry: Entry, address: u64, real: impl Real) -> i32 {
    let before = |call: &mut Call| {
        call.about.context = call.current_context();
        call.about.raw = RawPayload::memory(address, 0);
        let put_off = call.puts_off(address);
        // A release of address 0 waits for nothing.
        if address != 0 && put_off.is_none() {
            call.releases(address);
        }
        put_off
    };
    unless_put_off(entry, real, before, |call| call.guard.tracker.shares_no_more(address, call.returned))
}

pub(super) fn observed(entry: Entry, real: impl Real) -> i32 {
    published(entry, real, |_| {})
}

/// Code is linked and compiled, which is no load: but a request waits for it.
pub(super) fn links(entry: Entry, real: impl Real) -> i32 {
    succeeds(entry, |call: &mut Call| call.about.context = call.current_context(), real, |call| call.comes_late())
}

/// A context becomes the thread's current one, or is it no more.
#[inline(always)]
pub(super) fn current(entry: Entry, real: impl Again) -> i32 {
    lightly(entry, |_, _, record| Some(record), |_| {}, real, |_, _| {})
}
