//! Threads of the guard's own. They handle no signal of the program's.

use super::door;
use super::floats::Floats;
use super::process;
use super::withheld::{self, mask};
use lazyguard_core::tasks::{self, User};
use std::ffi::{c_void, CString};
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::path::Path;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Its thread-local data is being made.
pub struct Begun {
    ready: Arc<AtomicBool>,
    since: Instant,
}

impl Begun {
    /// Waits until the libraries have made their thread-local data, for a limited time: later the program may have used up its memory, and the C library would
    /// end the process.
    pub fn wait(self) {
        while !self.ready.load(Ordering::Acquire) && self.since.elapsed() < Duration::from_millis(50) {
            door::pause(Duration::from_micros(50));
        }
    }
}

static COUNT: AtomicU32 = AtomicU32::new(0);

const STACK: usize = 512 << 10;

/// Bytes of thread-local variables: the C library, and a sanitizer's `pthread_create`, takes them out of each thread's stack.
static VARIABLES: AtomicUsize = AtomicUsize::new(0);

pub fn leave_room_for(variables: usize) {
    VARIABLES.store(variables, Ordering::Relaxed);
}

/// In a forked child, inside the handler of the fork: only a store.
pub fn forked() {
    COUNT.store(0, Ordering::Relaxed);
}

/// Whether the guard's threads are the only ones, and the main thread has left by `pthread_exit`: the C library ends a process with its last thread.
pub struct Alone {
    /// The kernel's line on the main thread, by a thread with its own descriptors.
    kept: Option<File>,
}

impl Alone {
    /// `holds`: the calling thread has descriptors of its own.
    pub fn new(holds: bool) -> Self {
        Self { kept: holds.then(Self::open).flatten() }
    }

    fn open() -> Option<File> {
        File::open(format!("/proc/self/task/{}/stat", std::process::id())).ok()
    }

    /// The status that the main thread has left with, which stays as a zombie: other than 0 if it has left by the system call.
    pub fn is_so(&self) -> Option<i32> {
        let opened = if self.kept.is_none() { Self::open() } else { None };
        let mut file = self.kept.as_ref().or(opened.as_ref())?;
        let mut line = [0; 1024];
        let read = file.rewind().and_then(|()| file.read(&mut line)).unwrap_or(0);
        let (threads, status) = left(&String::from_utf8_lossy(&line[..read]))?;
        (threads <= COUNT.load(Ordering::Relaxed)).then_some(status)
    }
}

/// Threads beside a main thread that has left, and its status.
fn left(line: &str) -> Option<(u32, i32)> {
    // Behind the name in brackets, which may hold anything: the state is the 3rd field, the number of threads the 20th, the
    // status of a wait the 52nd.
    let mut fields = line.rsplit_once(')')?.1.split_whitespace();
    fields.next().filter(|state| *state == "Z")?;
    let others = fields.nth(16)?.parse::<u32>().ok()?.checked_sub(1)?;
    let waited = fields.nth(31).and_then(|status| status.parse().ok()).unwrap_or(0);
    Some((others, libc::WEXITSTATUS(waited)))
}

pub fn start(name: &str, prepare: fn(), body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    begin(name, prepare, body).map(Begun::wait)
}

pub fn begin(name: &str, prepare: fn(), body: impl FnOnce() + Send + 'static) -> io::Result<Begun> {
    // SAFETY: all-zero bytes are a valid signal set.
    let mut all = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    unsafe { libc::sigfillset(&mut all) };
    let before = mask(libc::SIG_SETMASK, &all);
    let ready = Arc::new(AtomicBool::new(false));
    let under_way = ready.clone();
    let name = CString::new(name).unwrap_or_default();
    let started = spawn(Box::new(move || {
        // SAFETY: the name is terminated. The kernel takes its first 15 bytes.
        unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
        // It begins with the program's.
        Floats::take();
        door::leaf(prepare);
        under_way.store(true, Ordering::Release);
        door::leaf(body);
    }));
    mask(libc::SIG_SETMASK, &before);
    started.map(|()| Begun { ready, since: Instant::now() })
}

type Body = Box<dyn FnOnce() + Send>;

/// As Rust's library does it, without a look-up that takes a pending `dlerror`.
fn spawn(body: Body) -> io::Result<()> {
    COUNT.fetch_add(1, Ordering::Relaxed);
    let body = Box::into_raw(Box::new(body));
    // The second where the loader keeps room for more variables than the objects have.
    for stack in [STACK + VARIABLES.load(Ordering::Relaxed), 8 << 20] {
        // SAFETY: attributes and number are valid for the calls; the body lives until the thread takes it.
        unsafe {
            let (mut how, mut thread) = (std::mem::zeroed(), 0);
            libc::pthread_attr_init(&mut how);
            libc::pthread_attr_setstacksize(&mut how, stack);
            let failed = libc::pthread_create(&mut thread, &how, begins, body.cast());
            libc::pthread_attr_destroy(&mut how);
            match failed {
                0 => {
                    libc::pthread_detach(thread);
                    return Ok(());
                }
                libc::EINVAL => {}
                _ => break,
            }
        }
    }
    COUNT.fetch_sub(1, Ordering::Relaxed);
    // SAFETY: no thread has it.
    drop(unsafe { Box::from_raw(body) });
    Err(io::Error::other("the C library starts no thread"))
}

extern "C" fn begins(body: *mut c_void) -> *mut c_void {
    // SAFETY: made by `spawn`, for this thread.
    let body = unsafe { Box::from_raw(body.cast::<Body>()) };
    body();
    COUNT.fetch_sub(1, Ordering::Relaxed);
    null_mut()
}

pub fn unblock_signals() {
    mask(libc::SIG_SETMASK, &withheld::of(&[]));
}

/// Why there is no room for them beside the program's ([`lazyguard_core::tasks`]).
pub fn too_few() -> Option<String> {
    let enough = tasks::enough(std::thread::available_parallelism().map_or(1, usize::from));
    let left = tasks::left(Path::new("/"), user(), enough).filter(|left| left.threads < enough)?;
    Some(format!(
        "only {} more threads may be started here ({}), and they are left to the program: the guard runs without its own, and \
         reports no hang",
        left.threads, left.limit
    ))
}

fn user() -> Option<User> {
    // SAFETY: takes no arguments and cannot fail.
    let id = unsafe { libc::getuid() };
    Some(User { id, most: process::limit(libc::RLIMIT_NPROC).filter(|most| id != 0 && *most != libc::RLIM_INFINITY)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_main_thread_has_left_where_it_is_a_zombie() {
        let line = |state: &str, threads: u32| {
            format!(
                "7 (a) Z b) {state} 1 7 7 0 -1 4228100 1 0 0 0 0 0 0 0 20 0 {threads} 0 11{} 1792\n",
                " 22".repeat(29)
            )
        };
        for (line, expect) in [
            (line("Z", 3), Some((2, 7))),
            (line("Z", 1), Some((0, 7))),
            (line("Z", 1).replace(" 1792", ""), Some((0, 0))),
            (line("S", 3), None),
            (String::new(), None),
            ("7 (a) Z 1".to_owned(), None),
        ] {
            assert_eq!(left(&line), expect, "{line}");
        }
        for holds in [true, false] {
            let alone = Alone::new(holds);
            assert_eq!([alone.is_so(), alone.is_so()], [None; 2]);
        }
    }
}
