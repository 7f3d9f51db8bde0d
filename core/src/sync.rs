//! The atomics of a recording and the turn of its folds, the processor's or `loom`'s (`--cfg loom`); and the one way to take a lock.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{fence, AtomicU64, Ordering};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{fence, AtomicU64, Ordering};

#[cfg(loom)]
use loom::thread::yield_now;
use std::sync::{Mutex, MutexGuard};
#[cfg(not(loom))]
use std::thread::yield_now;

/// A turn that one thread at a time has, under which recorded words may change.
///
/// A signal handler may leave a turn by a jump: its thread gives it back when it enters the guard again ([`Turn::give_back`]). The thread with the
/// turn may also be stopped, or missing in a forked child, so no thread waits without end.
///
/// The word is 0, or the number of the turn's thread, with a mark for each patience that has run out on it.
#[derive(Default)]
pub(crate) struct Turn(AtomicU64);

/// Stands for a thread without a number, which gives no turn back after a jump.
const NO_NUMBER: u32 = u32::MAX;

/// How long a thread waits for a turn, which takes microseconds.
#[derive(Clone, Copy)]
pub(crate) enum Patience {
    /// Some hundred microseconds, for an answer that may be "unknown".
    Short,
    /// Some milliseconds, for what is lost without the turn.
    Long,
}

impl Patience {
    /// How often the thread looks before it yields, and how often while it yields.
    const fn looks(self) -> (u32, u32) {
        match self {
            // To the model checker, waiting once is as good as waiting often.
            _ if cfg!(loom) => (0, 1),
            Self::Short => (64, 256),
            Self::Long => (64, 4096),
        }
    }

    /// The marks of this patience and of the shorter ones.
    const fn marks(self) -> u64 {
        match self {
            Self::Short => 1 << 32,
            Self::Long => 1 << 32 | 1 << 33,
        }
    }
}

/// Gives the turn back, also in a panic.
struct Taken<'a>(&'a AtomicU64);

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        // Release: partner of the Acquire in `is_won`. An exchange, because a waiter may add its mark at the same moment.
        self.0.swap(0, Ordering::Release);
    }
}

impl Turn {
    /// Runs this in the turn of the thread with this number, 0 for none. `None` where another thread keeps the turn, or the caller has it already.
    pub(crate) fn take<R>(&self, thread: u32, patience: Patience, run: impl FnOnce() -> R) -> Option<R> {
        self.is_won(thread, patience).then(|| {
            let _taken = Taken(&self.0);
            run()
        })
    }

    pub(crate) fn is_won(&self, thread: u32, patience: Patience) -> bool {
        let own = if thread == 0 { NO_NUMBER } else { thread };
        let (spins, yields) = patience.looks();
        for look in 0..=spins + yields {
            // Acquire: partner of the Release with which a turn is given back.
            match self.0.compare_exchange(0, own.into(), Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(taken) if taken as u32 == own && own != NO_NUMBER => return false,
                // Another thread has waited as long without success: the program does not pay at each call.
                Err(taken) if taken & patience.marks() == patience.marks() => return false,
                Err(taken) if look == spins + yields => {
                    // Relaxed: the mark says nothing about what the turn guards.
                    let _ =
                        self.0.compare_exchange(taken, taken | patience.marks(), Ordering::Relaxed, Ordering::Relaxed);
                }
                Err(_) if look < spins => std::hint::spin_loop(),
                Err(_) => yield_now(),
            }
        }
        false
    }

    /// Gives a turn back that the thread with this number left by a jump. For that thread alone, or when it has ended.
    pub(crate) fn give_back(&self, thread: u32) {
        // Relaxed: no other thread makes the turn this thread's, or takes it from it.
        if self.0.load(Ordering::Relaxed) as u32 == thread && thread != 0 {
            drop(Taken(&self.0));
        }
    }
}

/// Takes a lock also where a thread died with it: the guarded data is valid after every statement.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(all(test, not(loom)))]
#[path = "sync_tests.rs"]
mod tests;
