//! What is known of the program's threads, contexts, streams and functions, folded from its driver calls.
//!
//! * [`Tracker`] is all of it. The shim keeps one; every method takes the time as an argument.
//! * [`ThreadSlot`] publishes the call a thread is in, so that another thread can see it without asking anybody.
//! * [`Stream`] and [`Context`] know what was submitted and what is known to be complete.
//!
//! Protocol. Facts that the watchdog reads while a thread may be stuck are atomics. The maps stand behind
//! locks that are held for a few instructions and never across a driver call; the watchdog only ever tries them. Completion is learnt passively: what was submitted before a synchronize or a successful query began is complete
//! when that call returns, and nothing else is.
//!
//! Must not: ask the driver anything, or insert work.

mod call_step;
mod context;
mod hash;
mod launch_cache;
mod load;
mod operation;
mod slab;
mod stream;
mod thread;
mod tracker;

pub use crate::api::{ColdKind, Operation, StreamKind};
pub use call_step::CallStep;
pub use context::{Context, Function, FunctionKind};
pub use launch_cache::{FastLaunch, FastOperation, Known, LaunchFacts};
pub use load::InFlight;
pub use slab::Slab;
pub use stream::Stream;
pub use thread::{Caller, OpenRecord, PublishedCall, ThreadSlot};
pub use tracker::{StreamKey, Tracker};

use std::sync::{Mutex, MutexGuard, TryLockError};

/// How often [`lock_soon`] lets other threads run before it gives up: a lock is held for a few instructions.
const TRIES: usize = 1000;

/// Locks if that is possible soon; a thread that was stopped with the lock in hand costs the caller this part only. Between two
/// tries it gives the processor to other threads and does not sleep: the callers are threads of the program.
pub(crate) fn lock_soon<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    for _ in 0..TRIES {
        match mutex.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => std::thread::yield_now(),
        }
    }
    None
}
