//! Lines and reports on standard error. A program may have closed descriptor 2 and opened a file of its own there. So the guard remembers
//! the descriptor's identity when the process begins, and writes nothing once it is another file. If it has changed when the guard is
//! armed, it is the program's new standard error, as a daemon makes one, unless it is an ordinary file opened for reading as well, as
//! programs open their data.
//!
//! Must not: write anything but a [`Block`]. A name from the program must not make a line there.

use super::withheld::Withheld;
use lazyguard_core::report::Block;
use std::sync::atomic::{AtomicU64, Ordering};

#[link_section = ".data.lazyguard_start"]
static DEVICE: AtomicU64 = AtomicU64::new(0);
#[link_section = ".data.lazyguard_start"]
static INODE: AtomicU64 = AtomicU64::new(0);

/// The system call itself, since this runs before the library's own references are bound.
#[link_section = ".text.lazyguard_start"]
fn about() -> Option<libc::stat> {
    // SAFETY: all-zero bytes are a valid `stat`.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the structure is valid for writing.
    let known = unsafe { libc::syscall(libc::SYS_fstat, libc::STDERR_FILENO, &raw mut stat) } == 0;
    known.then_some(stat)
}

/// The inode is kept plus one, so that 0 is free to mean "not remembered".
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
    if now != remembered() {
        keep(if is_data() { (0, 0) } else { now });
    }
}

#[inline(always)]
fn keep((device, inode): (u64, u64)) {
    DEVICE.store(device, Ordering::Relaxed);
    INODE.store(inode, Ordering::Relaxed);
}

/// Whether descriptor 2 is an ordinary file that is open for reading and writing.
fn is_data() -> bool {
    // SAFETY: takes integers only.
    is_ordinary() && unsafe { libc::fcntl(libc::STDERR_FILENO, libc::F_GETFL) } & libc::O_ACCMODE == libc::O_RDWR
}

pub fn is_there() -> bool {
    let remembered = remembered();
    remembered.1 != 0 && identity() == Some(remembered)
}

/// How long to wait for a reader that does not read.
const PATIENCE_MILLIS: i32 = 1000;
/// A pipe that is ready takes so much without a wait.
const AT_ONCE: usize = 4096;

/// Writes a block of lines, if descriptor 2 is what it was, as far as it is taken: the reader of a pipe, or a terminal that was
/// stopped, may never read again. A reader that has gone costs the lines and nothing else.
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
            // Interrupted, or full and non-blocking: what cannot be said is also in the run folder.
            _ if std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted => {}
            _ => return,
        }
    }
}

/// Whether descriptor 2 is an ordinary file, which takes everything.
fn is_ordinary() -> bool {
    about().is_some_and(|stat| stat.st_mode & libc::S_IFMT == libc::S_IFREG)
}

pub fn line(text: &str) {
    write(&Block::marked([text]));
}
