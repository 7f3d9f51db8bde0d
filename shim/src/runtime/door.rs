//! The door: the only way from a thread of the program into the guard's own code.
//!
//! [`inside`] disables the thread's cancellation, runs a part of the guard, contains a panic of it, and restores cancellation, `errno` and floating-point
//! state ([`super::floats`]). Both halves of a hook, look-ups, arming, and the ends of threads and of the process go through it. [`leaf`] is the same
//! without calls into the C library, for the fast path of a launch and the guard's own threads.
//!
//! Why cancellation: `pthread_cancel` unwinds a thread from a cancellation point, by the program's unwinder, which would meet the guard's frames, and the
//! process would end with SIGABRT. A request that arrives inside stays pending until the thread is outside again.
//!
//! A signal handler's jump (`siglongjmp`) may lead out of the guard. The thread's next visit from further out finds that by the address of the frame that
//! was left, and gives the thread its cancellation back. `pthread_exit` in a handler that interrupts the guard ends the process.
//!
//! [`inside`] has no landing pad in its frame: the part runs in a frame of its own ([`contained`], never inlined), and its result has nothing to drop. So
//! an unwinding passes through this frame as through a frame of C. `scripts/check-library` follows the calls from every export: outside the door it
//! reaches no cancellation point; inside it none that sleeps or waits for an event.
//!
//! Must not: be entered around the program's own call of the driver, or around a function of the program's.

use super::floats::Floats;
use super::process;
use super::standard_error;
use super::tls::{self, Door};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::Duration;

extern "C-unwind" {
    fn pthread_setcancelstate(state: libc::c_int, before: *mut libc::c_int) -> libc::c_int;
    fn pthread_setcanceltype(kind: libc::c_int, before: *mut libc::c_int) -> libc::c_int;
}

const DISABLE: libc::c_int = 1;
const DEFERRED: libc::c_int = 0;

/// `None` if the part panicked, and the guard has stepped aside then. The result is `Copy`: there is nothing to drop while a cancellation unwinds.
#[inline(never)]
pub fn inside<T: Copy>(part: impl FnOnce() -> T) -> Option<T> {
    let (mut state, mut kind) = (0, 0);
    let here = (&raw const state) as usize;
    // SAFETY: the thread's own variable.
    let errno = unsafe { *libc::__errno_location() };
    // Both: an asynchronous request may strike although cancellation is disabled by now, because the C library looks at the state when it sends the
    // request, and at the kind when that arrives.
    // SAFETY: the former state and kind are valid for writing.
    unsafe {
        pthread_setcancelstate(DISABLE, &mut state);
        pthread_setcanceltype(DEFERRED, &mut kind);
    }
    let outer = tls::door();
    let is_left = outer.frame != 0 && here >= outer.frame && !on_signal_stack();
    if is_left {
        // A signal handler's jump has left the thread as the guard had made it.
        (state, kind) = (outer.state, outer.kind);
    }
    let is_outermost = outer.frame == 0 || is_left;
    if is_outermost {
        tls::set_door(Door { frame: here, state, kind });
    }
    let floats = Floats::take();
    let made = contained(part);
    floats.give_back();
    if is_outermost {
        tls::set_door(Door::NONE);
    }
    // SAFETY: both are those that the thread had; the present ones are not asked for.
    unsafe {
        pthread_setcancelstate(state, std::ptr::null_mut());
        if kind != DEFERRED {
            pthread_setcanceltype(kind, std::ptr::null_mut());
        }
        *libc::__errno_location() = errno;
    }
    made
}

/// A signal handler interrupts the guard: the thread may hold a lock.
#[inline(never)]
pub fn is_interrupted() -> bool {
    let here = 0u8;
    let outer = tls::door();
    outer.frame != 0 && ((&raw const here as usize) < outer.frame || on_signal_stack())
}

/// Its addresses say nothing about the other stack.
pub fn on_signal_stack() -> bool {
    // SAFETY: all-zero bytes are a valid `stack_t`.
    let mut stack: libc::stack_t = unsafe { std::mem::zeroed() };
    // SAFETY: asks only; the structure is valid for writing.
    unsafe { libc::sigaltstack(std::ptr::null(), &mut stack) != 0 || stack.ss_flags & libc::SS_ONSTACK != 0 }
}

#[inline(never)]
fn contained<T: Copy>(part: impl FnOnce() -> T) -> Option<T> {
    leaf(part)
}

/// For parts that call nothing outside this library, and the bodies of the guard's threads.
#[inline(always)]
pub fn leaf<T: Copy>(part: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(part)) {
        Ok(value) => Some(value),
        Err(_) => {
            process::disarm();
            None
        }
    }
}

/// Sleeps by the system call itself, which is no cancellation point. A signal ends it early.
pub fn pause(span: Duration) {
    let span = libc::timespec { tv_sec: span.as_secs() as libc::time_t, tv_nsec: span.subsec_nanos() as libc::c_long };
    // SAFETY: the time is valid for reading; what remains of it is not asked for.
    unsafe { libc::syscall(libc::SYS_nanosleep, &span, std::ptr::null_mut::<libc::timespec>()) };
}

/// On a thread that exits: waits for so many pauses of two milliseconds, because the owner may be stuck.
pub fn lock_soon<T>(mutex: &Mutex<T>, pauses: u32) -> Option<MutexGuard<'_, T>> {
    for _ in 0..pauses {
        match mutex.try_lock() {
            Ok(value) => return Some(value),
            Err(TryLockError::Poisoned(value)) => return Some(value.into_inner()),
            Err(TryLockError::WouldBlock) => pause(Duration::from_millis(2)),
        }
    }
    None
}

/// 50 ms for one lock.
pub const EXIT_PAUSES: u32 = 25;

/// Faults of the guard itself. The first one is said.
static FAULTS: AtomicU64 = AtomicU64::new(0);

pub fn faults() -> u64 {
    FAULTS.load(Ordering::Relaxed)
}

/// The library has its own copy of the Rust runtime.
pub fn silence() {
    std::panic::set_hook(Box::new(|info| {
        if FAULTS.fetch_add(1, Ordering::Relaxed) == 0 {
            let place = info.location().map(|l| format!(" at {}:{}", l.file(), l.line())).unwrap_or_default();
            standard_error::line(&format!("internal fault{place}; the program goes on unguarded"));
        }
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> libc::c_int {
        let mut state = 0;
        // SAFETY: the former state is valid for writing, and put back.
        unsafe {
            pthread_setcancelstate(DISABLE, &mut state);
            pthread_setcancelstate(state, std::ptr::null_mut());
        }
        state
    }

    #[test]
    fn the_thread_is_not_cancelled_inside_and_as_before_outside() {
        assert_eq!(state(), 0);
        assert_eq!(inside(|| (state(), inside(state), is_interrupted())), Some((DISABLE, Some(DISABLE), true)));
        assert_eq!((state(), is_interrupted()), (0, false));
    }

    #[test]
    fn a_lock_that_another_thread_keeps_is_given_up() {
        let mutex = Mutex::new(1);
        assert_eq!(lock_soon(&mutex, 1).as_deref(), Some(&1));
        let kept = mutex.lock().unwrap();
        assert!(lock_soon(&mutex, 2).is_none());
        drop(kept);
        assert!(lock_soon(&mutex, 1).is_some());
    }

    #[test]
    fn what_a_jump_out_of_the_guard_has_left_behind_is_put_right_by_the_next_visit() {
        let deeper = 0u8;
        // As `inside` has made it, in a frame that is gone.
        // SAFETY: the former state is not asked for.
        unsafe { pthread_setcancelstate(DISABLE, std::ptr::null_mut()) };
        tls::set_door(Door { frame: &raw const deeper as usize - 4096, state: 0, kind: DEFERRED });
        assert!(!is_interrupted());
        assert_eq!(inside(state), Some(DISABLE));
        assert_eq!((state(), tls::door().frame), (0, 0));
    }
}
