//! Threads of the guard's own.
//!
//! Must not: handle a signal of the program's, or let the program continue before the libraries have made their thread-local data.

use super::door;
use std::io;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A thread that was begun, and has its thread-local data to make.
pub struct Begun {
    ready: Arc<AtomicBool>,
    since: Instant,
}

impl Begun {
    /// The libraries' thread-local data is made before the program continues, not when it may have used up its memory: the C library
    /// ends a process in which that fails. It takes a few hundred microseconds; the wait has a limit.
    pub fn wait(self) {
        while !self.ready.load(Ordering::Acquire) && self.since.elapsed() < Duration::from_millis(50) {
            door::pause(Duration::from_micros(50));
        }
    }
}

/// Starts a thread in which no signal of the program's is handled. `prepare` runs first in it.
pub fn start(name: &str, prepare: fn(), body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    begin(name, prepare, body).map(Begun::wait)
}

/// The same, without the wait for `prepare`.
pub fn begin(name: &str, prepare: fn(), body: impl FnOnce() + Send + 'static) -> io::Result<Begun> {
    // SAFETY: all-zero bytes are a valid signal set, and both are valid for the calls.
    let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    // SAFETY: as above; the calling thread's mask is restored below.
    unsafe {
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
    }
    let ready = Arc::new(AtomicBool::new(false));
    let under_way = ready.clone();
    let started = std::thread::Builder::new().name(name.to_owned()).stack_size(512 << 10).spawn(move || {
        door::leaf(prepare);
        under_way.store(true, Ordering::Release);
        door::leaf(body);
    });
    // SAFETY: `before` was filled in above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, null_mut()) };
    started.map(|_| Begun { ready, since: Instant::now() })
}
