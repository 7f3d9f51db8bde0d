//! The door: the only way from a thread of the program into the guard's own code.
//!
//! [`inside`] disables the thread's cancellation, runs a part of the guard, contains a panic of that part, and restores the
//! thread's cancellation. Everything that the guard does on a thread of the program goes through it: both halves of a hook, the
//! look-ups, arming, the end of a thread, the end of the process. [`leaf`] is the same without the two calls into the C
//! library; it is for the fast path of a launch alone.
//!
//! Why cancellation: `pthread_cancel` unwinds a thread from inside a cancellation point, such as a sleep or a write to a file. The
//! program's own unwinder does that. It would meet the frames of the guard, which catch panics and have an unwinder of their
//! own, and the process would end with SIGABRT. The program's call of the driver lies outside the door, so it is
//! cancelled exactly where it is cancelled without the guard; a request that arrives inside stays pending until the thread is
//! outside again.
//!
//! What keeps this true:
//!
//! * [`inside`] has no landing pad in its frame: the part runs in a frame of its own ([`contained`], never inlined), and what the
//!   part gives back has nothing to drop. So a thread with asynchronous cancellation, which is unwound where the
//!   C library restores its state, passes through this frame as through a frame of C.
//! * `scripts/check-library` follows the calls of the built library from every export. Outside the door it reaches none of the
//!   C library's cancellation points; inside it reaches none that sleeps or waits for an event.
//!
//! Must not: be entered around the program's own call of the driver, or around a function of the program's.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::time::Duration;

extern "C-unwind" {
    fn pthread_setcancelstate(state: libc::c_int, before: *mut libc::c_int) -> libc::c_int;
}

/// `PTHREAD_CANCEL_DISABLE`.
const DISABLE: libc::c_int = 1;

/// Runs a part of the guard on a thread of the program; `None` if it panicked, and the guard has stepped aside then.
///
/// What the part gives back is `Copy`, so that there is nothing to drop while a cancellation unwinds.
#[inline(never)]
pub fn inside<T: Copy>(part: impl FnOnce() -> T) -> Option<T> {
    let mut before = 0;
    // SAFETY: the former state is valid for writing. The C library has the function in every version this library runs with.
    unsafe { pthread_setcancelstate(DISABLE, &mut before) };
    let made = contained(part);
    // SAFETY: the state is the one that the thread had; the present one is not asked for.
    unsafe { pthread_setcancelstate(before, std::ptr::null_mut()) };
    made
}

/// Runs a part that reaches no function outside this library: there is nothing in it that a cancellation could strike.
#[inline(always)]
pub fn leaf<T: Copy>(part: impl FnOnce() -> T) -> Option<T> {
    catch(part)
}

/// Runs a body of a thread of the guard's own, which the program cannot cancel.
pub fn own_thread<T: Copy>(body: impl FnOnce() -> T) -> Option<T> {
    catch(body)
}

#[inline(never)]
fn contained<T: Copy>(part: impl FnOnce() -> T) -> Option<T> {
    catch(part)
}

#[inline(always)]
fn catch<T: Copy>(part: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(part)) {
        Ok(value) => Some(value),
        Err(_) => {
            super::lifecycle::disarm();
            None
        }
    }
}

/// Sleeps, on a thread of the program, by the system call itself, which is no cancellation point. A signal ends it early.
pub fn pause(span: Duration) {
    let span = libc::timespec { tv_sec: span.as_secs() as libc::time_t, tv_nsec: span.subsec_nanos() as libc::c_long };
    // SAFETY: the time is valid for reading; what remains of it is not asked for.
    unsafe { libc::syscall(libc::SYS_nanosleep, &span, std::ptr::null_mut::<libc::timespec>()) };
}
