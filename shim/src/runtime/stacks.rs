//! Stacks of threads that are blocked in a driver call or run a host function, without a signal, a stop or `ptrace`.
//!
//! A thread that has entered a driver call leaves in its slot where its stack was then. As long as it is inside, nothing above
//! that changes, so another thread can read it. Where the stack of a thread is that sleeps in a host function, the kernel says. That
//! the thread has not gone on is asked after the reading as well as before: of one that has, nothing is said. The outer frames are found by the tables that files carry for exceptions,
//! as they lie in memory; the stacks themselves go into the run folder, for the command to make more of them.
//!
//! All is read by the kernel, which answers where a page is not there. Must not: take a lock that the program can hold, the
//! dynamic linker's least of all; follow a pointer that was found in memory; or open a file other than those of `/proc/self` and
//! its own.

use super::{clock, thread, Guard};
use lazyguard_core::report::{FrameSeen, StackSeen};
use lazyguard_core::stack::{
    mappings, modules, walk, DumpFile, DumpModule, DumpThread, Image, Memory, Module, Stack, STACKS,
};
use lazyguard_core::state::PublishedCall;
use lazyguard_core::Nanos;
use std::cell::{Cell, OnceCell};
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The most threads whose stacks are read, and the most bytes of each that are kept.
const MOST_THREADS: usize = 64;
const MOST_BYTES: u64 = 256 << 10;

const PAGE: u64 = 4096;

/// This process's memory, read by the kernel.
pub struct OwnMemory {
    process: libc::pid_t,
    /// Whether the system call is not to be had, or must not be tried.
    by_file: Cell<bool>,
    file: OnceCell<Option<File>>,
}

/// Whether the process has forbidden system calls to itself, for threads that must not find out themselves: that takes a file,
/// and one of the log's thread is in nobody's way. It looks while somebody asks, and no longer: of most processes nobody does.
struct Filter {
    /// When it was looked at last, and in the lowest bit whether there was none; 0 for never.
    seen: AtomicU64,
    /// Since when somebody has wanted to know, and when last; 0 for never.
    wanted_since: AtomicU64,
    wanted_at: AtomicU64,
}

static FILTER: Filter =
    Filter { seen: AtomicU64::new(0), wanted_since: AtomicU64::new(0), wanted_at: AtomicU64::new(0) };

impl Filter {
    /// For how long it is looked at after somebody wanted to know.
    const WANTED: Nanos = 60_000_000_000;

    fn look(&self) {
        let none = has_filter() == Some(false);
        self.seen.store(clock::now() & !1 | u64::from(none), Ordering::Relaxed);
    }

    fn want(&self) {
        let now = clock::now().max(1);
        if !self.is_wanted() {
            self.wanted_since.store(now, Ordering::Relaxed);
        }
        self.wanted_at.store(now, Ordering::Relaxed);
    }

    fn is_wanted(&self) -> bool {
        let at = self.wanted_at.load(Ordering::Relaxed);
        at != 0 && clock::now().saturating_sub(at) <= Self::WANTED
    }

    /// Whether there was none at the last look; nothing if nobody has looked since it is wanted. What cannot be told may be there.
    fn was_none(&self) -> Option<bool> {
        let seen = self.seen.load(Ordering::Relaxed);
        (self.is_wanted() && seen > self.wanted_since.load(Ordering::Relaxed)).then_some(seen & 1 == 1)
    }
}

fn has_filter() -> Option<bool> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    Some(status.lines().any(|line| line.starts_with("Seccomp:") && !line.ends_with('0')))
}

/// Looks whether the process has forbidden system calls to itself, if somebody has wanted to know in the last minute; for a
/// thread with descriptors of its own.
pub fn look_for_a_filter() {
    if FILTER.is_wanted() {
        FILTER.look();
    }
}

/// Memory is going to be read without files: by then it has been looked.
pub fn will_be_read() {
    FILTER.want();
}

/// Has it looked for by the log's thread, and waits for that, but no longer than `limit`.
pub fn have_a_filter_looked_for(limit: Duration) {
    FILTER.want();
    let since = Instant::now();
    while FILTER.was_none().is_none() && since.elapsed() < limit {
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Why memory was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// Nobody has looked yet whether that is safe; somebody will, a tenth of a second from now.
    NotYet,
    /// It is not safe, or there is no such memory.
    Never,
}

/// A few bytes of this process's memory, for a thread of the program's: no file is opened there, whose descriptor could be the
/// one that another thread has just closed and is about to have again.
pub fn read_without_files(address: u64, into: &mut [u8]) -> Result<(), Unread> {
    FILTER.want();
    let memory = OwnMemory { process: own_process(), by_file: Cell::new(false), file: OnceCell::new() };
    match FILTER.was_none() {
        None => Err(Unread::NotYet),
        Some(true) if memory.by_call(address, into) == Some(into.len()) => Ok(()),
        Some(_) => Err(Unread::Never),
    }
}

fn own_process() -> libc::pid_t {
    // SAFETY: takes no arguments and cannot fail.
    unsafe { libc::getpid() }
}

impl OwnMemory {
    /// From here on.
    pub fn new() -> Self {
        // Who has forbidden system calls to itself may have done so at the price of its life; what a file needs is used
        // everywhere.
        let has_filter = has_filter().unwrap_or(false);
        Self { process: own_process(), by_file: Cell::new(has_filter), file: OnceCell::new() }
    }

    fn by_call(&self, address: u64, into: &mut [u8]) -> Option<usize> {
        let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
        let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: into.len() };
        // SAFETY: the local bytes are valid for writing; the others are looked at by the kernel, which checks them.
        let read = unsafe { libc::process_vm_readv(self.process, &local, 1, &remote, 1, 0) };
        usize::try_from(read).ok()
    }

    fn some(&self, address: u64, into: &mut [u8]) -> usize {
        if self.by_file.get() {
            return self.some_by_file(address, into);
        }
        if let Some(read) = self.by_call(address, into) {
            return read;
        }
        if matches!(io::Error::last_os_error().raw_os_error(), Some(libc::EPERM | libc::ENOSYS)) {
            self.by_file.set(true);
            return self.some_by_file(address, into);
        }
        0
    }

    fn some_by_file(&self, address: u64, into: &mut [u8]) -> usize {
        let file = self.file.get_or_init(|| File::open("/proc/self/mem").ok());
        // The file's places are signed.
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
                // One page at the end that is not there must not cost those before it.
                let page = rest.len().min((PAGE - at % PAGE) as usize);
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

/// The stacks of these calls' threads and of those that run host functions; they are also kept in the run folder.
pub fn save(guard: &'static Guard, calls: &[PublishedCall], running: &[u32]) -> Vec<StackSeen> {
    read(guard, calls, running, true)
}

/// The same, kept nowhere.
pub fn look(guard: &'static Guard, calls: &[PublishedCall], running: &[u32]) -> Vec<StackSeen> {
    read(guard, calls, running, false)
}

fn read(guard: &'static Guard, calls: &[PublishedCall], running: &[u32], keep: bool) -> Vec<StackSeen> {
    let maps = std::fs::read("/proc/self/maps").unwrap_or_default();
    let maps = String::from_utf8_lossy(&maps);
    let space = Space::new(&maps);
    let mut calls: Vec<_> = calls.iter().filter(|call| call.caller != 0).collect();
    calls.sort_by_key(|call| call.entered);
    let running = running.iter().filter_map(|thread| space.sleeping(*thread));
    let mut found: Vec<_> =
        running.chain(calls.into_iter().filter_map(|call| space.seen(call))).take(MOST_THREADS).collect();
    let kept = guard.folder.as_ref().filter(|_| keep && !found.is_empty()).map(|folder| {
        folder.replace_by(STACKS, &mut |file| {
            // Whatever lay on the stacks is in it: it is its owner's, as a core file is.
            file.set_permissions(Permissions::from_mode(0o600))?;
            space.write(file, guard, &found)
        })
    });
    found.retain(|found| found.stands(guard));
    let mut seen: Vec<_> = found.into_iter().map(|found| found.seen).collect();
    if let (Some(Err(error)), Some(first)) = (kept, seen.first_mut()) {
        first.notes.push(format!("the stacks could not be kept in the run folder: {error}"));
    }
    seen
}

/// In which files these addresses lie: those that calls return to, and the beginnings of functions.
pub fn places((calls, functions): (Vec<u64>, Vec<u64>)) -> Vec<FrameSeen> {
    let maps = std::fs::read("/proc/self/maps").unwrap_or_default();
    let maps = String::from_utf8_lossy(&maps);
    let space = Space::new(&maps);
    let of_functions = functions.into_iter().map(|address| {
        let inside = space.frame(address.wrapping_add(1));
        FrameSeen { address, offset: inside.offset.wrapping_sub(1), ..inside }
    });
    let known = |place: &FrameSeen| !place.module.is_empty();
    calls.into_iter().map(|address| space.frame(address)).chain(of_functions).filter(known).collect()
}

/// What is mapped where.
struct Space<'a> {
    memory: OwnMemory,
    maps: &'a str,
    modules: Vec<Module>,
    images: Vec<OnceCell<Option<Image>>>,
}

/// A stack that was read.
struct Found {
    /// The call that the thread is in; `None` of one that sleeps in a host function.
    call: Option<PublishedCall>,
    stack: Stack,
    seen: StackSeen,
}

impl Found {
    /// Whether the thread is still where it was.
    fn stands(&self, guard: &Guard) -> bool {
        match self.call {
            Some(call) => guard.tracker.threads().any(|(_, slot)| slot.published() == Some(call)),
            None => asleep(self.seen.thread) == Some((self.stack.begin, self.stack.address)),
        }
    }
}

/// The stack pointer and the program counter of a thread that sleeps in the kernel.
fn asleep(thread: u32) -> Option<(u64, u64)> {
    let text = std::fs::read_to_string(format!("/proc/self/task/{thread}/syscall")).ok()?;
    let mut fields = text.split_whitespace().rev();
    let mut field = || u64::from_str_radix(fields.next()?.strip_prefix("0x")?, 16).ok();
    let address = field()?;
    Some((field()?, address))
}

impl<'a> Space<'a> {
    fn new(maps: &'a str) -> Self {
        let modules = modules(maps);
        let images = modules.iter().map(|_| OnceCell::new()).collect();
        Self { memory: OwnMemory::new(), maps, modules, images }
    }

    fn image(&self, number: usize) -> Option<&Image> {
        let (module, image) = (self.modules.get(number)?, self.images.get(number)?);
        image.get_or_init(|| Image::read(&self.memory, module.base)).as_ref()
    }

    /// The stack of a call, if it is there as the call has left it.
    fn seen(&self, call: &PublishedCall) -> Option<Found> {
        let (address, begin) = (call.caller as u64, call.frame as u64);
        let mapping = mappings(self.maps).find(|m| m.readable && (m.begin..m.end).contains(&begin))?;
        // The return address lies right below. Where it does not, the call was left by a jump.
        if self.memory.word(begin.checked_sub(8)?)? != address {
            return None;
        }
        let stack = Stack { address, begin, end: mapping.end, frame: call.frame_register as u64 };
        Some(self.found(call.thread, Some(*call), stack))
    }

    /// The stack of a thread that sleeps in the kernel.
    fn sleeping(&self, thread: u32) -> Option<Found> {
        let (begin, address) = asleep(thread)?;
        let mapping = mappings(self.maps).find(|m| m.readable && (m.begin..m.end).contains(&begin))?;
        // What its frame pointer register holds is not known. Most functions do without.
        Some(self.found(thread, None, Stack { address, begin, end: mapping.end, frame: 0 }))
    }

    fn found(&self, thread: u32, call: Option<PublishedCall>, stack: Stack) -> Found {
        let walked = if cfg!(target_arch = "x86_64") {
            walk(&self.memory, &self.modules, &|number| self.image(number), &stack)
        } else {
            vec![stack.address]
        };
        let frames = walked.into_iter().map(|address| self.frame(address)).collect();
        Found { call, stack, seen: StackSeen { thread, frames, notes: Vec::new() } }
    }

    fn frame(&self, address: u64) -> FrameSeen {
        let number = self.modules.iter().position(|module| module.has_code_at(address.wrapping_sub(1)));
        let Some((number, module)) = number.and_then(|number| Some((number, self.modules.get(number)?))) else {
            return FrameSeen { address, ..FrameSeen::default() };
        };
        let bias = self.image(number).map_or(module.base, |image| image.bias);
        FrameSeen {
            address,
            module: module.name().to_owned(),
            offset: address.wrapping_sub(bias),
            ..FrameSeen::default()
        }
    }

    fn write(&self, file: &mut File, guard: &Guard, found: &[Found]) -> io::Result<()> {
        let mut dump = DumpFile::new(io::BufWriter::new(file))?;
        let mut threads = Vec::new();
        for Found { stack, seen, .. } in found {
            let end = stack.end.min(stack.begin.saturating_add(MOST_BYTES));
            threads.push(DumpThread {
                thread: seen.thread,
                name: thread::name(seen.thread),
                address: stack.address,
                stack: stack.begin,
                frame: stack.frame,
                memory: dump.memory(&self.memory, stack.begin, end)?,
            });
        }
        // Of a thread that went on, nothing is there that stood still.
        let stands =
            |thread: &DumpThread| found.iter().any(|found| found.seen.thread == thread.thread && found.stands(guard));
        threads.retain(stands);
        let modules: Vec<_> = self
            .modules
            .iter()
            .enumerate()
            .map(|(number, module)| {
                let build_id = self.image(number).map_or(&[][..], |image| &image.build_id);
                DumpModule { module, build_id }
            })
            .collect();
        dump.finish(guard.process, clock::unix_nanos() / 1_000_000_000, &threads, &modules, self.maps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;

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
        let page = PAGE as usize;
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

    /// The frames of the calling function, by the tables.
    #[cfg(target_arch = "x86_64")]
    #[inline(never)]
    fn frames_here() -> Vec<FrameSeen> {
        let (address, begin, frame): (u64, u64, u64);
        // SAFETY: reads registers.
        unsafe {
            std::arch::asm!(
                "lea {address}, [rip]",
                "mov {begin}, rsp",
                "mov {frame}, rbp",
                address = out(reg) address,
                begin = out(reg) begin,
                frame = out(reg) frame,
                options(nomem, nostack, preserves_flags)
            );
        }
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let space = Space::new(&maps);
        let end = mappings(&maps).find(|m| (m.begin..m.end).contains(&begin)).unwrap().end;
        let stack = Stack { address, begin, end, frame };
        let walked = walk(&space.memory, &space.modules, &|number| space.image(number), &stack);
        walked.into_iter().map(|address| space.frame(address)).collect()
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(never)]
    fn nested(depth: u32, data: &mut [u64]) -> Vec<FrameSeen> {
        let mut own = vec![u64::from(depth); 16];
        let found = if depth == 0 { black_box(frames_here()) } else { black_box(nested(depth - 1, &mut own)) };
        data[0] += own.len() as u64 + found.len() as u64;
        found
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn frames_are_found_up_to_the_threads_first() {
        let run = |depth| std::thread::spawn(move || nested(depth, &mut [0; 4])).join().unwrap();
        let (few, many) = (run(3), run(13));
        assert!(many.len() >= 15 && many.len() == few.len() + 10, "{} and {}", few.len(), many.len());
        // The outermost are the C library's start of a thread.
        assert!(many.last().unwrap().module.starts_with("libc.so"), "{many:#?}");
        assert!(many.iter().all(|frame| !frame.module.is_empty()));
    }
}
