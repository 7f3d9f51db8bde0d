//! Memory of the device for a call that finds none.
//!
//! What the guard holds there by a profile, ahead of the program, the program has not asked for: local memory that was set aside, modules and
//! libraries. Without the guard the call may have succeeded. So the guard gives back what it holds, where nothing is in flight, and makes the call
//! again; also where another thread has had that done since the call was made. To unload takes time, for which other threads are kept waiting, so what
//! does not go at once goes if the call finds no memory again. Calls that allocate, load or launch, or are about a graph, are made so, as far as they
//! are hooked.
//!
//! Must not: make a call again that has failed for another reason, without more memory than it has found, or that has written over what it was given;
//! or wait for work in flight.

use super::call::{observe, Call, Entry};
use crate::preload::local_memory::memory;
use crate::record::guard;
use crate::runtime::{door, thread};
use lazyguard_core::api::EntryPoint;
use lazyguard_core::Nanos;
use std::cell::Cell;

/// A call is made at most so often: each time, a fifth of a second of unloading has gone by, or there was less to unload.
const MOST_TIMES: u32 = 100;

/// `CUDA_ERROR_OUT_OF_MEMORY`.
const OUT_OF_MEMORY: i32 = 2;

/// Makes the real call, of a call that submits nothing; and again, as often as there was no memory and the guard has given some back.
pub(super) fn with_room(real: impl Fn() -> i32) -> i32 {
    with_room_for(Wanted { entered: Nanos::MAX, allocates: None }, real)
}

/// The same of a load with so many options for the compiler. It is made once if it has any: the driver writes into some, such as the length of a log,
/// and would read there what it has written.
pub(super) fn with_room_unless_options(count: u32, real: impl Fn() -> i32) -> i32 {
    if count == 0 {
        with_room(real)
    } else {
        real()
    }
}

/// [`observe`], of a call that may submit something: what the driver answers while room is made says nothing about that.
#[inline(always)]
pub(super) fn observe_with_room(
    entry: Entry,
    before: impl FnOnce(&mut Call),
    real: impl Fn() -> i32,
    after: impl FnOnce(&Call, i32),
) -> i32 {
    let entered = Cell::new(Nanos::MAX);
    observe(
        entry,
        |call| {
            entered.set(call.entered);
            before(call);
        },
        || with_room_for(Wanted { entered: entered.get(), allocates: None }, real),
        after,
    )
}

/// The same of a call that allocates memory, be it the host's, of which the guard has none to give.
pub(super) fn with_room_on_the_device(entry_point: EntryPoint, bytes: usize, real: impl Fn() -> i32) -> i32 {
    with_room_for(Wanted { entered: Nanos::MAX, allocates: Some((entry_point, bytes)) }, real)
}

/// A call that may find no memory.
#[derive(Clone, Copy)]
struct Wanted {
    /// When it was entered, if it may submit something.
    entered: Nanos,
    /// The call, and how many bytes it allocates.
    allocates: Option<(EntryPoint, usize)>,
}

fn with_room_for(wanted: Wanted, real: impl Fn() -> i32) -> i32 {
    let mut result = OUT_OF_MEMORY;
    // What is held is less each time, and is not loaded ahead once more. The limit is for what is not thought of here.
    for _ in 0..MOST_TIMES {
        let seen = guard().map_or(0, |guard| guard.loader.rooms());
        result = real();
        if result != OUT_OF_MEMORY || !comes_back(wanted, seen) {
            break;
        }
    }
    result
}

/// Gives back what the guard holds in the current context, and in others. Returns whether there is more memory than when the guard had done so as often
/// as this.
#[cold]
fn comes_back(wanted: Wanted, seen: u64) -> bool {
    // A call on top of the guard's own code, whose locks its thread may have.
    let Some(guard) = guard().filter(|_| !door::is_interrupted()) else { return false };
    let given_back = || {
        // Most calls that find no memory do so while nothing is held: the driver is asked nothing then.
        let is_worth_it = || guard.loader.may_make_room(seen) && wanted.may_be_found();
        let slot = thread::slot_if_any(guard).filter(|_| is_worth_it())?;
        Some(guard.loader.make_room(guard, slot, wanted.entered, seen))
    };
    door::inside(given_back).flatten() == Some(true)
}

impl Wanted {
    /// Whether the device may have it: it is not the host's, and not more than the device has at all, as a program asks for that tries how much there is.
    fn may_be_found(&self) -> bool {
        let Some((entry_point, bytes)) = self.allocates else { return true };
        !entry_point.info().base().contains("Host") && memory().is_none_or(|memory| bytes <= memory.total)
    }
}
