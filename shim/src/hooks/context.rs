//! Contexts: initialisation, life, waiting; and everything that waits for a context as a whole.
//!
//! Must not: arm before `cuInit` has succeeded.

use super::call::{observe, published, Call, Entry};
use super::release::releases_now;
use crate::lifecycle::arm;
use crate::lookup::driver::{self, Handle, SUCCESS};
use crate::preload::idle;
use crate::preload::releases::may_be_for_lack_of_releases;
use crate::runtime::clock;
use crate::watch::driver_environment;
use lazyguard_core::trace::RawPayload;
use std::cell::Cell;

pub(super) fn init(entry: Entry, _flags: u32, real: impl FnOnce() -> i32) -> i32 {
    let entered = clock::system_nanos();
    let result = observed(entry, real);
    if result == SUCCESS && driver::ADOPTED.is_there() {
        driver_environment::read();
        arm::arm(arm::Initialised { entered, returned: clock::system_nanos() });
    }
    result
}

pub(super) fn create(entry: Entry, context: Handle, device: i32, real: impl FnOnce() -> i32) -> i32 {
    came(entry, context, device, false, real)
}

pub(super) fn retain_primary(entry: Entry, context: Handle, device: i32, real: impl FnOnce() -> i32) -> i32 {
    came(entry, context, device, true, real)
}

fn came(entry: Entry, context: Handle, device: i32, primary: bool, real: impl FnOnce() -> i32) -> i32 {
    observe(
        entry,
        |call| call.guard.before_a_context(),
        real,
        |call, result| {
            if result != SUCCESS || context.is_null() {
                return;
            }
            // SAFETY: the driver has just filled it in.
            let number = call.context_number(unsafe { *context.cast::<Handle>() });
            call.got_context(number);
            call.guard.tracker.is_context_of(device, number, primary);
            // Libraries that a runtime registered before there was a context are loaded into it now.
            match call.guard.loader.starts_on(device) {
                true => call.load_at_start(number),
                false => call.load_pending(number),
            }
        },
    )
}

pub(super) fn destroy(entry: Entry, context: Handle, real: impl FnOnce() -> i32) -> i32 {
    observe(
        entry,
        |call| {
            // Before the call, as with streams; a context that the driver refuses to destroy is learnt again.
            call.about.context = call.guard.tracker.known_context(context as u64).unwrap_or(0);
            call.waits_for_others();
            call.guard.loader.context_gone(call.about.context, context as u64);
            call.guard.profile.iter().for_each(|profile| profile.context_gone(call.about.context));
            call.guard.tracker.context_gone(context as u64);
            idle::settle();
        },
        real,
        |_, _| {},
    )
}

/// A device's primary context was released or reset; the last release and every reset destroy it.
pub(super) fn primary_gone(entry: Entry, device: i32, real: impl FnOnce() -> i32) -> i32 {
    let reset = entry.entry_point.info().base() == "cuDevicePrimaryCtxReset";
    observe(
        entry,
        |call| {
            // Whether a release is the last one, only the driver knows.
            let mut contexts = call.guard.tracker.contexts();
            if let Some((number, _)) = contexts.find(|(_, context)| reset && context.is_primary_of(device)) {
                call.about.context = number;
                call.waits_for_others();
            }
        },
        real,
        |call, result| {
            let (mut flags, mut active) = (0, 0);
            let mut stays = || driver::primary_state(device, &mut flags, &mut active) != Some(SUCCESS) || active != 0;
            if result != SUCCESS || !reset && stays() {
                return;
            }
            let tracker = &call.guard.tracker;
            let gone: Vec<_> =
                tracker.contexts().filter(|(_, c)| c.is_primary_of(device)).map(|(n, c)| (n, c.handle())).collect();
            for (number, handle) in gone {
                call.guard.loader.context_gone(number, handle);
                call.guard.profile.iter().for_each(|profile| profile.context_gone(number));
                tracker.context_gone(handle);
            }
        },
    )
}

/// The thread's current context changes. The guard asks for it only when needed.
pub(super) fn current(entry: Entry, real: impl FnOnce() -> i32) -> i32 {
    observed(entry, real)
}

pub(super) fn synchronize(entry: Entry, context: Handle, real: impl FnOnce() -> i32) -> i32 {
    observe(
        entry,
        |call| {
            let context = if context.is_null() { driver::current_context() } else { context };
            call.about.context = call.context_number(context);
        },
        real,
        |call, result| {
            if result == SUCCESS {
                call.proven();
                call.load_pending(call.about.context);
            }
        },
    )
}

/// A call that the driver may block until other work in the context, or another thread's call, has ended.
pub(super) fn waits_for_context(entry: Entry, real: impl FnOnce() -> i32) -> i32 {
    published(entry, |call| call.about.context = call.current_context(), real)
}

pub(super) fn waits_until_idle(entry: Entry, real: impl FnOnce() -> i32) -> i32 {
    waits_if(entry, true, real)
}

/// Flags of the context are set. The driver waits for the context where synchronous memory operations are asked for (the atlas of the
/// driver's functions: `testapps/simdriver/ground-truth`).
pub(super) fn sets_flags(entry: Entry, flags: u32, real: impl FnOnce() -> i32) -> i32 {
    /// `CU_CTX_SYNC_MEMOPS`.
    const SYNC_MEMOPS: u32 = 0x80;
    waits_if(entry, flags & SYNC_MEMOPS != 0, real)
}

fn waits_if(entry: Entry, waits: bool, real: impl FnOnce() -> i32) -> i32 {
    published(
        entry,
        |call| {
            call.about.context = call.current_context();
            if waits {
                call.waits_for_others();
            }
        },
        real,
    )
}

/// `CU_LIMIT_STACK_SIZE`.
const STACK_SIZE: i32 = 0;

/// A limit of the context is set, for which the driver may block as above. The stack limit sets the local memory of a kernel's threads.
pub(super) fn sets_limit(entry: Entry, limit: i32, value: usize, real: impl FnOnce() -> i32) -> i32 {
    observe(
        entry,
        |call| {
            call.about.context = call.current_context();
            // The other limits do not wait.
            if limit == STACK_SIZE {
                call.waits_for_others();
            }
        },
        real,
        |call, result| {
            let context = call.guard.tracker.context_entry(call.about.context);
            if let Some(context) = context.filter(|_| result == SUCCESS && limit == STACK_SIZE) {
                // What launches have set aside stays where the limit was that before.
                context.sets_local_memory_aside(value as u64);
            }
        },
    )
}

pub(super) fn allocates(entry: Entry, bytes: usize, memory: Handle, real: impl Fn() -> i32) -> i32 {
    let allocated = || match real() {
        result if may_be_for_lack_of_releases(result) && releases_now() => real(),
        result => result,
    };
    observe(
        entry,
        |call| {
            call.about.context = call.current_context();
            call.about.raw = RawPayload::memory(0, bytes as u64);
        },
        allocated,
        |call, result| gave_out(call, memory, result),
    )
}

/// A call that has succeeded filled in where the memory is.
pub(super) fn gave_out(call: &Call, memory: Handle, result: i32) {
    if result == SUCCESS && !memory.is_null() {
        // SAFETY: the driver has just filled it in.
        call.gave_out(unsafe { *memory.cast::<u64>() });
    }
}

pub(super) fn frees(entry: Entry, address: u64, real: impl FnOnce() -> i32) -> i32 {
    let put_off = Cell::new(None);
    published(
        entry,
        |call| {
            call.about.context = call.current_context();
            call.about.raw = RawPayload::memory(address, 0);
            put_off.set(call.puts_off(address));
            // A release of address 0 waits for nothing.
            if address != 0 && put_off.get().is_none() {
                call.releases(address);
            }
        },
        || put_off.get().unwrap_or_else(real),
    )
}

pub(super) fn observed(entry: Entry, real: impl FnOnce() -> i32) -> i32 {
    published(entry, |_| {}, real)
}
