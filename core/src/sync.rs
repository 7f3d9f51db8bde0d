//! The atomics that a recording is made of: the processor's, or those of the model checker `loom` under `--cfg loom`;
//! and the one way to take a lock.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{fence, AtomicU64, Ordering};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{fence, AtomicU64, Ordering};

use std::sync::{Mutex, MutexGuard};

/// Locks, also where a thread died with the lock in hand: what a lock guards is valid after every statement.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
