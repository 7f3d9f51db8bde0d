//! Keeps forks and visits of the loaded objects apart. `dl_iterate_phdr` holds a lock that the C library does not make anew in a forked child: a child
//! forked while another thread visits would wait for ever at its first `dlopen`.
//!
//! Protocol: each side says that it begins, and then looks at the other ([`VISITS`], [`FORKS`], all `SeqCst`). A fork waits until no visit is in
//! progress; a visit that finds a fork stands back. A visit in a visit, or in the handler of a fork, goes on at once.
//!
//! Must not: allocate, lock, or wait for longer than [`MOST_PAUSES`]: a thread may be stopped in a visit or a fork.

use crate::runtime::{door, tls};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

#[link_section = ".data.lazyguard_start"]
static VISITS: AtomicU32 = AtomicU32::new(0);

#[link_section = ".data.lazyguard_start"]
static FORKS: AtomicU32 = AtomicU32::new(0);

/// A thread binds the slots of new objects ([`super::slots`]); not so in a forked child.
pub static BINDS: AtomicBool = AtomicBool::new(false);

/// A fork has waited in vain: a signal handler's jump leaves a visit counted, and no later fork waits for that.
#[link_section = ".data.lazyguard_start"]
static IN_VAIN: AtomicBool = AtomicBool::new(false);

const LOOKS: u32 = 200;
const PAUSE: Duration = Duration::from_micros(50);
/// Half a second and more: a visit may copy a library's code.
const MOST_PAUSES: u32 = 5000;

/// The C library's handlers run in the reverse order before a fork.
#[inline(always)]
pub fn register() {
    // SAFETY: functions of this library, which is never unloaded.
    unsafe { libc::pthread_atfork(Some(before), Some(after), Some(in_child)) };
}

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

/// After a fork, successful or not.
#[link_section = ".text.lazyguard_start"]
extern "C" fn after() {
    FORKS.fetch_sub(1, Ordering::SeqCst);
    tls::set_visits(tls::visits().saturating_sub(1));
}

/// In the child's only thread. Only stores.
#[link_section = ".text.lazyguard_start"]
extern "C" fn in_child() {
    let depth = tls::visits().saturating_sub(1);
    tls::set_visits(depth);
    VISITS.store(u32::from(depth > 0), Ordering::Relaxed);
    FORKS.store(0, Ordering::Relaxed);
    BINDS.store(false, Ordering::Relaxed);
}
