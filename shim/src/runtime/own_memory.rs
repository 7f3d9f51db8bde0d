//! This process's memory, read by the kernel, which answers where a page is not there. A process may have forbidden system calls to itself; a thread of the
//! program must not open a file to find that out. So the log's thread looks while one wants to know.
//!
//! Must not: follow a pointer that was found in memory, or open a file other than those of `/proc/self`.

use super::clock;
use super::readable::PAGE;
use super::thread;
use lazyguard_core::stack::Memory;
use lazyguard_core::Nanos;
use std::cell::{Cell, OnceCell};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub struct OwnMemory {
    /// The system call is missing, or must not be tried.
    by_file: Cell<bool>,
    file: OnceCell<Option<File>>,
}

/// Whether the process has forbidden system calls to itself: [`SOME`] or [`NO_FILTER`]; 0 without a check.
static SEEN: AtomicU64 = AtomicU64::new(0);
const SOME: u64 = 1;
const NO_FILTER: u64 = 2;

/// The last request for a check, or 0. Checks continue so long after it.
static WANTED_AT: AtomicU64 = AtomicU64::new(0);
const WANTED: Nanos = 60_000_000_000;

fn is_wanted() -> bool {
    let at = WANTED_AT.load(Ordering::Relaxed);
    at != 0 && clock::now().saturating_sub(at) <= WANTED
}

fn has_filter() -> Option<bool> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    Some(status.lines().any(|line| line.starts_with("Seccomp:") && !line.ends_with('0')))
}

/// Looks for a filter if a thread has asked in the last minute. Only a thread with descriptors of its own calls this.
pub fn look_for_a_filter() {
    if is_wanted() {
        // A filter that cannot be ruled out counts as one.
        SEEN.store(if has_filter() == Some(false) { NO_FILTER } else { SOME }, Ordering::Relaxed);
    }
}

/// Asks the log's thread to look for a filter, before memory is read without files.
pub fn will_be_read() {
    if !is_wanted() {
        SEEN.store(0, Ordering::Relaxed);
    }
    WANTED_AT.store(clock::now().max(1), Ordering::Relaxed);
}

/// Waits until the log's thread has looked, for no longer than `limit`.
pub fn have_a_filter_looked_for(limit: Duration) {
    will_be_read();
    let since = Instant::now();
    while SEEN.load(Ordering::Relaxed) == 0 && since.elapsed() < limit {
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// The log's thread looks within a tenth of a second.
    NotYet,
    /// Not safe, or no such memory of the host's.
    Never,
}

/// Reads this process's memory in a thread of the program's.
pub fn read_without_files(address: u64, into: &mut [u8]) -> Result<(), Unread> {
    will_be_read();
    match SEEN.load(Ordering::Relaxed) {
        0 => Err(Unread::NotYet),
        NO_FILTER if by_call(address, into) == Some(into.len()) => Ok(()),
        _ => Err(Unread::Never),
    }
}

fn by_call(address: u64, into: &mut [u8]) -> Option<usize> {
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: into.len() };
    // By the thread: the process's own number has no memory once its main thread has left.
    // SAFETY: the local bytes are valid for writing; the kernel checks the others.
    let read = unsafe { libc::process_vm_readv(thread::own_number() as i32, &local, 1, &remote, 1, 0) };
    usize::try_from(read).ok()
}

impl OwnMemory {
    pub fn new() -> Self {
        // A process with a filter may end at the call; what a file needs is used everywhere.
        Self { by_file: Cell::new(has_filter().unwrap_or(false)), file: OnceCell::new() }
    }

    fn some(&self, address: u64, into: &mut [u8]) -> usize {
        if self.by_file.get() {
            return self.some_by_file(address, into);
        }
        if let Some(read) = by_call(address, into) {
            return read;
        }
        if matches!(io::Error::last_os_error().raw_os_error(), Some(libc::EPERM | libc::ENOSYS)) {
            self.by_file.set(true);
            return self.some_by_file(address, into);
        }
        0
    }

    fn some_by_file(&self, address: u64, into: &mut [u8]) -> usize {
        // A kernel before 3.17 has the process's file alone. No number names the thread: `/proc` may be that of another namespace.
        let own = || File::open("/proc/thread-self/mem").or_else(|_| File::open("/proc/self/mem"));
        let file = self.file.get_or_init(|| own().ok());
        // Offsets in the file are signed.
        let is_a_place = i64::try_from(address).is_ok();
        file.as_ref().filter(|_| is_a_place).and_then(|file| file.read_at(into, address).ok()).unwrap_or(0)
    }
}

impl Memory for OwnMemory {
    fn read(&self, address: u64, into: &mut [u8]) -> usize {
        let mut done = 0;
        while done < into.len() {
            let at = address.wrapping_add(done as u64);
            let rest = &mut into[done..];
            let mut read = self.some(at, rest);
            if read == 0 {
                // A missing page at the end must not cost those before it.
                let page = rest.len().min(PAGE - at as usize % PAGE);
                read = if page < rest.len() { self.some(at, &mut rest[..page]) } else { 0 };
            }
            if read == 0 {
                break;
            }
            done += read;
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_not_there_is_an_answer() {
        memory_is_read_as_far_as_it_is_there(false);
        memory_is_read_as_far_as_it_is_there(true);
    }

    fn memory_is_read_as_far_as_it_is_there(by_file: bool) {
        let memory = OwnMemory::new();
        memory.by_file.set(by_file);
        let own = [7u8; 100];
        let mut read = [0u8; 100];
        assert_eq!((memory.read(own.as_ptr() as u64, &mut read), read), (100, own));
        assert_eq!(memory.read(0, &mut read), 0);
        assert_eq!(memory.read(u64::MAX - 50, &mut read), 0);
        // SAFETY: takes an integer only.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        // SAFETY: two fresh pages, of which the second is given back; only the kernel looks at them.
        let begin = unsafe {
            let at = libc::mmap(
                std::ptr::null_mut(),
                2 * page,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            assert_ne!(at, libc::MAP_FAILED);
            libc::munmap(at.byte_add(page), page);
            at as u64
        };
        let mut both = vec![1; 2 * page];
        assert_eq!(memory.read(begin + 8, &mut both), page - 8, "what is there before the hole is read");
    }
}
