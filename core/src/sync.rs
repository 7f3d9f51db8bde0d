//! The atomics that a recording is made of, and the turn in which its launches are folded: the processor's, or those of the model checker
//! `loom` under `--cfg loom`; and the one way to take a lock.

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
/// It knows which thread has it. A signal handler that leaves a turn by a jump leaves it taken: that thread gives it back when it enters the
/// guard again ([`Turn::give_back`]). No thread waits for a turn without end, because the one that has it may have left it so, may be stopped
/// by a debugger, or may be missing in a forked child.
///
/// The word is 0, or the number of the thread that has the turn, with a mark for each patience with which another one has waited in vain.
#[derive(Default)]
pub(crate) struct Turn(AtomicU64);

/// The number of a thread that has none. It gives no turn back that it has left by a jump.
const NO_NUMBER: u32 = u32::MAX;

/// How long a thread waits for the turn of another one, which takes microseconds where that thread runs.
#[derive(Clone, Copy)]
pub(crate) enum Patience {
    /// For an answer that may be "unknown": some hundred microseconds where there is an idle processor.
    Short,
    /// For what is lost without the turn: some milliseconds.
    Long,
}

impl Patience {
    /// How often to look again before the thread lets others run, and while it does.
    const fn looks(self) -> (u32, u32) {
        match self {
            // To the model checker, waiting once is as good as waiting often.
            _ if cfg!(loom) => (0, 1),
            Self::Short => (64, 256),
            Self::Long => (64, 4096),
        }
    }

    /// In the word: so long has been waited for this turn. Who has waited long has waited the shorter time as well.
    const fn marks(self) -> u64 {
        match self {
            Self::Short => 1 << 32,
            Self::Long => 1 << 32 | 1 << 33,
        }
    }
}

/// Gives the turn back, also where the thread panics in it.
struct Taken<'a>(&'a AtomicU64);

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        // Release: partner of the Acquire in `is_won`. What the turn was for is seen by the next one who has it. An exchange, because one who
        // waits may add its mark in the same moment.
        self.0.swap(0, Ordering::Release);
    }
}

impl Turn {
    /// Runs this when it is the turn of the thread with this number, or 0 for one without. `None`, and nothing is run, where another thread
    /// keeps the turn, or where the calling thread has it already, below a signal handler or before a jump.
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
                // Another thread has waited as long for this very turn: the program does not pay for it at each call.
                Err(taken) if taken & patience.marks() == patience.marks() => return false,
                Err(taken) if look == spins + yields => {
                    // Relaxed: the mark says nothing about what the turn guards. Where the word has changed, the turn has.
                    let _ =
                        self.0.compare_exchange(taken, taken | patience.marks(), Ordering::Relaxed, Ordering::Relaxed);
                }
                Err(_) if look < spins => std::hint::spin_loop(),
                Err(_) => yield_now(),
            }
        }
        false
    }

    /// The thread with this number is in no turn any more: if it has left this one by a jump, it gives the turn back. For that thread alone,
    /// or when it has ended.
    pub(crate) fn give_back(&self, thread: u32) {
        // Relaxed: no other thread makes the turn this thread's, or takes it from it. What was stored in it comes before, as in this thread's
        // program.
        if self.0.load(Ordering::Relaxed) as u32 == thread && thread != 0 {
            drop(Taken(&self.0));
        }
    }
}

/// Locks, also where a thread died with the lock in hand: what a lock guards is valid after every statement.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_turn_that_another_thread_keeps_is_waited_for_once() {
        let turn = Turn::default();
        assert!(turn.is_won(1, Patience::Short));
        assert_eq!(turn.take(1, Patience::Long, || ()), None, "its own, which no wait would end");
        assert_eq!(turn.0.load(Ordering::Relaxed), 1, "and so none has waited");
        assert_eq!(turn.take(2, Patience::Short, || ()), None);
        assert_eq!(turn.0.load(Ordering::Relaxed), 1 | 1 << 32, "others look once from now on");
        assert_eq!(turn.take(0, Patience::Short, || ()), None);
        assert_eq!(turn.take(2, Patience::Long, || ()), None);
        assert_eq!(turn.0.load(Ordering::Relaxed), 1 | 1 << 32 | 1 << 33);
        turn.give_back(2);
        assert_eq!(turn.take(2, Patience::Short, || ()), None, "it was not the second thread's");
        turn.give_back(1);
        assert_eq!(turn.take(2, Patience::Short, || 7), Some(7));
        assert_eq!(turn.take(0, Patience::Short, || 8), Some(8), "given back at its end");
    }

    #[test]
    fn a_turn_is_given_back_by_a_thread_that_panics_in_it() {
        let turn = Turn::default();
        let panics = std::panic::AssertUnwindSafe(|| turn.take(1, Patience::Short, || panic!("on purpose")));
        assert!(std::panic::catch_unwind(panics).is_err());
        assert_eq!(turn.take(2, Patience::Short, || 7), Some(7));
    }

    #[test]
    fn a_turn_that_ends_is_had_by_who_waits() {
        static TURN: Turn = Turn(AtomicU64::new(0));
        static TAKEN: AtomicU64 = AtomicU64::new(0);
        let add = |thread: u32| {
            (0..1000).filter(move |_| {
                let step = || TAKEN.store(TAKEN.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                TURN.take(thread, Patience::Long, step).is_some()
            })
        };
        let threads = [1, 2, 3].map(|thread| std::thread::spawn(move || add(thread).count() as u64));
        let taken: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert_eq!(taken, TAKEN.load(Ordering::Relaxed), "two had it at a time");
    }
}
