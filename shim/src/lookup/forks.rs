//! Keeps forks and visits of the loaded objects apart. `dl_iterate_phdr` holds the lock of the dynamic linker's list, which the C library
//! does not make anew in a forked child. A child that was forked while another thread visited would wait for ever at its first `dlopen`.
//!
//! Protocol: each side says that it begins, and then looks at the other ([`VISITS`], [`FORKS`], all `SeqCst`), so that one at least sees
//! the other. A fork waits until no visit is in progress; a visit that finds a fork stands back until it is over. A visit in a visit, or in
//! the handler of a fork, goes on at once.
//!
//! Must not: allocate, lock, or wait for longer than [`MOST_PAUSES`]: a thread may be stopped in a visit, and another one in a fork.

use crate::runtime::{door, tls};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

#[link_section = ".data.lazyguard_start"]
static VISITS: AtomicU32 = AtomicU32::new(0);

#[link_section = ".data.lazyguard_start"]
static FORKS: AtomicU32 = AtomicU32::new(0);

/// A thread binds the slots of new objects ([`super::slots`]). A forked child has none of its parent's threads, which may have been binding.
pub static BINDS: AtomicBool = AtomicBool::new(false);

/// Whether a fork has waited in vain. A signal handler that leaves a visit by a jump leaves it counted, and no later fork waits for that one.
#[link_section = ".data.lazyguard_start"]
static IN_VAIN: AtomicBool = AtomicBool::new(false);

/// Most visits take less than a pause.
const LOOKS: u32 = 200;
const PAUSE: Duration = Duration::from_micros(50);
/// Half a second and more: a visit may copy a library's code.
const MOST_PAUSES: u32 = 5000;

/// Has the C library call this at each fork. Its handlers that were registered later run earlier before a fork, and later after it.
#[inline(always)]
pub fn register() {
    // SAFETY: functions of this library, which is never unloaded.
    unsafe { libc::pthread_atfork(Some(before), Some(after), Some(in_child)) };
}

/// Makes a visit between two forks.
#[inline(always)]
pub fn visit(visits: impl FnOnce()) {
    let depth = tls::visits();
    tls::set_visits(depth + 1);
    if depth == 0 {
        VISITS.fetch_add(1, Ordering::SeqCst);
        if FORKS.load(Ordering::SeqCst) > 0 {
            stand_back();
        }
    }
    visits();
    if depth == 0 {
        VISITS.fetch_sub(1, Ordering::SeqCst);
    }
    tls::set_visits(depth);
}

#[cold]
#[inline(never)]
fn stand_back() {
    for _ in 0..MOST_PAUSES {
        VISITS.fetch_sub(1, Ordering::SeqCst);
        door::pause(PAUSE);
        VISITS.fetch_add(1, Ordering::SeqCst);
        if FORKS.load(Ordering::SeqCst) == 0 {
            return;
        }
    }
}

#[link_section = ".text.lazyguard_start"]
extern "C" fn before() {
    let depth = tls::visits();
    tls::set_visits(depth + 1);
    FORKS.fetch_add(1, Ordering::SeqCst);
    if depth == 0 && VISITS.load(Ordering::SeqCst) > 0 {
        wait();
    }
}

#[cold]
#[inline(never)]
fn wait() {
    let pauses = if IN_VAIN.load(Ordering::Relaxed) { 0 } else { MOST_PAUSES };
    for look in 0..LOOKS + pauses {
        if VISITS.load(Ordering::SeqCst) == 0 {
            return;
        }
        match look < LOOKS {
            true => std::hint::spin_loop(),
            false => door::pause(PAUSE),
        }
    }
    IN_VAIN.store(true, Ordering::Relaxed);
}

/// It has forked, or could not.
#[link_section = ".text.lazyguard_start"]
extern "C" fn after() {
    FORKS.fetch_sub(1, Ordering::SeqCst);
    tls::set_visits(tls::visits().saturating_sub(1));
}

/// In the child, which has no other thread. Only stores.
#[link_section = ".text.lazyguard_start"]
extern "C" fn in_child() {
    let depth = tls::visits().saturating_sub(1);
    tls::set_visits(depth);
    VISITS.store(u32::from(depth > 0), Ordering::Relaxed);
    FORKS.store(0, Ordering::Relaxed);
    BINDS.store(false, Ordering::Relaxed);
}
