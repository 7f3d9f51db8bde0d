//! The atomics that a recording is made of, and the lock under which its launches are folded: the processor's, or those of the model checker
//! `loom` under `--cfg loom`; and the one way to take another lock.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{fence, AtomicU64, Ordering};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{fence, AtomicU64, Ordering};

use std::sync::{Mutex, MutexGuard};

/// A turn that one thread at a time has, under which recorded words may change.
#[derive(Default)]
pub(crate) struct Turn(#[cfg(not(loom))] Mutex<()>, #[cfg(loom)] loom::sync::Mutex<()>);

impl Turn {
    /// Runs this when it is the thread's turn, also where a thread died in its own.
    pub(crate) fn take<R>(&self, run: impl FnOnce() -> R) -> R {
        let _turn = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        run()
    }
}

/// Locks, also where a thread died with the lock in hand: what a lock guards is valid after every statement.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
