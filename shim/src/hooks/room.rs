//! Memory of the device for a call that finds none.
//!
//! What the guard holds there by a profile, ahead of the program, the program has not asked for: local memory that was set aside, modules and
//! libraries. Without the guard the call may have succeeded. So the guard gives back what it holds, where nothing is in flight, and makes the call
//! once more; also where another thread has had that done since the call was made. Calls that allocate, load or launch are made so, as far as they are hooked.
//!
//! Must not: make a call again that has failed for another reason, or more than once; or wait for work in flight.

use crate::record::guard;
use crate::runtime::{door, thread};
use lazyguard_core::Nanos;

/// `CUDA_ERROR_OUT_OF_MEMORY`.
const OUT_OF_MEMORY: i32 = 2;

/// Makes the real call, of a call that submits nothing; and once more, if there was no memory and the guard has given some back.
pub(super) fn with_room(real: impl Fn() -> i32) -> i32 {
    with_room_since(Nanos::MAX, real)
}

/// The same of a call that was entered at this time, and that may submit something: an answer of the driver says nothing about that.
pub(super) fn with_room_since(entered: Nanos, real: impl Fn() -> i32) -> i32 {
    let seen = guard().map_or(0, |guard| guard.loader.rooms());
    match real() {
        OUT_OF_MEMORY if comes_back(entered, seen) => real(),
        result => result,
    }
}

/// Gives back what the guard holds in the current context, and in others. Returns whether there is more memory than when the guard had done so as often
/// as this.
#[cold]
fn comes_back(entered: Nanos, seen: u64) -> bool {
    let Some(guard) = guard() else { return false };
    let given_back = || Some(guard.loader.make_room(guard, thread::slot_if_any(guard)?, entered, seen));
    door::inside(given_back).flatten() == Some(true)
}
