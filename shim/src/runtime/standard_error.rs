//! Lines and reports on standard error. A program may have opened a file of its own as descriptor 2. So the guard remembers the descriptor's identity from
//! the beginning, and writes nothing to another file. One that has changed before arming is a daemon's new standard error, unless it is an ordinary file
//! that is open for reading too, or that is not appended to and took a number that was closed at the beginning.
//!
//! Must not: write anything but a [`Block`].

use super::withheld::Withheld;
use lazyguard_core::report::Block;
use std::sync::atomic::{AtomicU64, Ordering};

#[link_section = ".data.lazyguard_start"]
static DEVICE: AtomicU64 = AtomicU64::new(0);
#[link_section = ".data.lazyguard_start"]
static INODE: AtomicU64 = AtomicU64::new(0);

/// The system call itself: the library's own references are not bound yet.
#[link_section = ".text.lazyguard_start"]
fn about() -> Option<libc::stat> {
    // SAFETY: all-zero bytes are a valid `stat`.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the structure is valid for writing.
    let known = unsafe { libc::syscall(libc::SYS_fstat, libc::STDERR_FILENO, &raw mut stat) } == 0;
    known.then_some(stat)
}

/// The inode is kept plus one: 0 is "not remembered".
#[link_section = ".text.lazyguard_start"]
fn identity() -> Option<(u64, u64)> {
    about().map(|stat| (stat.st_dev, stat.st_ino.wrapping_add(1)))
}

fn remembered() -> (u64, u64) {
    (DEVICE.load(Ordering::Relaxed), INODE.load(Ordering::Relaxed))
}

#[inline(always)]
pub fn at_start() {
    keep(identity().unwrap_or((0, 0)));
}

pub fn when_armed() {
    let now = identity().unwrap_or((0, 0));
    // SAFETY: takes integers only.
    let how = || unsafe { libc::fcntl(libc::STDERR_FILENO, libc::F_GETFL) };
    let was_closed = remembered().1 == 0;
    let has_data = |how| how & libc::O_ACCMODE == libc::O_RDWR || was_closed && how & libc::O_APPEND == 0;
    if now != remembered() {
        keep(if is_ordinary() && has_data(how()) { (0, 0) } else { now });
    }
}

#[inline(always)]
fn keep((device, inode): (u64, u64)) {
    DEVICE.store(device, Ordering::Relaxed);
    INODE.store(inode, Ordering::Relaxed);
}

pub fn is_there() -> bool {
    let remembered = remembered();
    remembered.1 != 0 && identity() == Some(remembered)
}

/// The guard waits so long for a reader that does not read.
const PATIENCE_MILLIS: i32 = 1000;
/// A ready pipe takes so much at once.
const AT_ONCE: usize = 4096;

/// Writes if descriptor 2 is what it was, and as much as its reader takes: a stopped terminal may never read again.
pub fn write(block: &Block) {
    if !is_there() {
        return;
    }
    let _withheld = Withheld::new();
    let most = if is_ordinary() { usize::MAX } else { AT_ONCE };
    let mut rest = block.as_str().as_bytes();
    while !rest.is_empty() {
        let mut ready = libc::pollfd { fd: libc::STDERR_FILENO, events: libc::POLLOUT, revents: 0 };
        // SAFETY: one structure, valid for the call; the bytes are valid for reading.
        let written = match unsafe { libc::poll(&mut ready, 1, PATIENCE_MILLIS) } {
            0 => return,
            // SAFETY: as above.
            1.. => unsafe { libc::write(libc::STDERR_FILENO, rest.as_ptr().cast(), rest.len().min(most)) },
            _ => -1,
        };
        match usize::try_from(written) {
            Ok(n) if n > 0 => rest = &rest[n.min(rest.len())..],
            // Interrupted, or full and non-blocking: the run folder has it too.
            _ if std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted => {}
            _ => return,
        }
    }
}

/// It takes everything.
fn is_ordinary() -> bool {
    about().is_some_and(|stat| stat.st_mode & libc::S_IFMT == libc::S_IFREG)
}

pub fn line(text: &str) {
    write(&Block::marked([text]));
}
