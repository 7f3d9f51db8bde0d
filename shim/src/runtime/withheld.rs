//! Signals of the guard's own writes, kept from the program: SIGXFSZ at the limit of file sizes, and SIGPIPE without a reader. Here the write is an error.
//!
//! Must not: take away a signal that was there before.

use std::mem::zeroed;
use std::ptr::null_mut;

const SIGNALS: [libc::c_int; 2] = [libc::SIGXFSZ, libc::SIGPIPE];

/// While it lives, the thread's writes raise neither.
pub struct Withheld {
    before: libc::sigset_t,
    were_pending: libc::sigset_t,
}

impl Withheld {
    pub fn new() -> Self {
        Self { were_pending: pending(), before: mask(libc::SIG_BLOCK, &of(&SIGNALS)) }
    }
}

impl Drop for Withheld {
    fn drop(&mut self) {
        let now = pending();
        let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        for signal in SIGNALS {
            // SAFETY: sets and time are valid; the signal's data is not asked for.
            unsafe {
                if libc::sigismember(&now, signal) == 1 && libc::sigismember(&self.were_pending, signal) != 1 {
                    libc::sigtimedwait(&of(&[signal]), null_mut(), &at_once);
                }
            }
        }
        mask(libc::SIG_SETMASK, &self.before);
    }
}

/// Changes the thread's mask; returns the former one.
pub fn mask(how: libc::c_int, signals: &libc::sigset_t) -> libc::sigset_t {
    // SAFETY: all-zero bytes are a valid signal set, and both are valid for the call.
    unsafe {
        let mut before = zeroed();
        libc::pthread_sigmask(how, signals, &mut before);
        before
    }
}

pub fn of(signals: &[libc::c_int]) -> libc::sigset_t {
    // SAFETY: all-zero bytes are a valid signal set, which is then emptied and filled.
    unsafe {
        let mut set = zeroed();
        libc::sigemptyset(&mut set);
        signals.iter().for_each(|signal| _ = libc::sigaddset(&mut set, *signal));
        set
    }
}

fn pending() -> libc::sigset_t {
    // SAFETY: as above; the set is valid for writing.
    unsafe {
        let mut set = of(&[]);
        libc::sigpending(&mut set);
        set
    }
}
