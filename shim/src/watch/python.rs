//! The stacks of a Python program's threads, by the interpreter's own function for a process that has crashed.
//!
//! `_Py_DumpTracebackThreads` takes no lock and allocates nothing, but it reads what other threads may be changing. So a child runs it, made by the bare
//! system call: no handler for a fork runs, it has a copy of one moment, and its crash leaves the program alone. Its end is signalled to no process, and no
//! `wait` of the program finds it. Its output is in memory shared with the parent. The function is found in the table of exported functions, or in the
//! file's own: `dlsym` would take the dynamic linker's lock.
//!
//! Must not: in the child, do anything but system calls and that one call; in the parent, wait longer than [`PATIENCE`].

use crate::record::run_folder::PYTHON;
use crate::record::Guard;
use crate::runtime::files::{self, InFile};
use crate::runtime::own_memory::OwnMemory;
use lazyguard_core::stack::{modules, own_maps, unexported_function, Image, Module};
use std::ffi::{c_char, c_int, c_long, c_void};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// And one that every interpreter exports.
const DUMP: &str = "_Py_DumpTracebackThreads";
const INTERPRETER: &str = "Py_IsInitialized";
const ALARM_SECONDS: u32 = 2;
const PATIENCE: Duration = Duration::from_millis(2500);

/// A fork copies the tables of the process's memory, and meanwhile no thread can map anything. With more (16 GiB in small pages, half a second) none is
/// made.
const MOST_TABLE_KIB: u64 = 32 << 10;
const MOST_BYTES: usize = 256 << 10;

/// Null if all went well, else what went wrong. Without an interpreter and a thread it finds them.
type Dump = unsafe extern "C" fn(c_int, *const c_void, *const c_void) -> *const c_char;

#[repr(C)]
struct Shared {
    length: AtomicU32,
    signal: AtomicI32,
    text: [u8; MOST_BYTES],
}

/// The threads' stacks, or why there are none; `None` without an interpreter. The run folder has them too.
pub fn save(guard: &Guard) -> Option<String> {
    let text = look()?;
    if let Some(folder) = &guard.folder {
        // The report holds it too.
        let _ = folder.replace(PYTHON, &text);
    }
    Some(text)
}

pub fn look() -> Option<String> {
    Some(match found()? {
        Err(why) => why.to_owned(),
        Ok(dump) => asked(dump).unwrap_or_else(|why| format!("its threads' stacks could not be had: {why}")),
    })
}

/// The function of the interpreter, or why there is none; `None` without an interpreter.
fn found() -> Option<Result<Dump, &'static str>> {
    let memory = OwnMemory::new();
    let modules = modules(&own_maps());
    let images = modules.iter().filter_map(|module| Some((module, Image::read(&memory, module.base)?)));
    let (module, image) = images.into_iter().find(|(_, image)| image.function(&memory, INTERPRETER).is_some())?;
    let found = image.function(&memory, DUMP).or_else(|| in_its_file(module, &image));
    // Only code is called.
    let found = found.filter(|address| module.has_code_at(*address));
    // SAFETY: the address of a function of this name, whose entry point has not changed since Python 3.6.
    let dump = found.map(|found| unsafe { std::mem::transmute::<usize, Dump>(found as usize) });
    Some(dump.ok_or("this interpreter has no function that tells its threads' stacks"))
}

/// Finds the function by the symbol table in the interpreter's file, if that is still the mapped one.
fn in_its_file(module: &Module, image: &Image) -> Option<u64> {
    let file = InFile(files::open(&module.path).ok()?);
    let is_it = !image.build_id.is_empty() && Image::read(&file, 0)?.build_id == image.build_id;
    is_it.then(|| unexported_function(&file, DUMP))?.map(|address| image.bias.wrapping_add(address))
}

struct SharedMemory(*mut Shared);

impl SharedMemory {
    fn new() -> Option<Self> {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: new memory, where there is room for it.
        let at = unsafe { libc::mmap(null_mut(), size_of::<Shared>(), protection, flags, -1, 0) };
        (at != libc::MAP_FAILED).then(|| Self(at.cast()))
    }

    fn text(&self) -> (String, i32) {
        // SAFETY: the memory is mapped, all zero at first, and nothing writes to it any more.
        let shared = unsafe { &*self.0 };
        let length = (shared.length.load(Ordering::Acquire) as usize).min(MOST_BYTES);
        (String::from_utf8_lossy(&shared.text[..length]).into_owned(), shared.signal.load(Ordering::Relaxed))
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this size, and nothing refers to it.
        unsafe { libc::munmap(self.0.cast(), size_of::<Shared>()) };
    }
}

fn asked(dump: Dump) -> Result<String, String> {
    if tables_kib().is_some_and(|kib| kib > MOST_TABLE_KIB) {
        return Err("the process is too large for a copy of it to be made".to_owned());
    }
    let shared = SharedMemory::new().ok_or("there is no memory")?;
    // A fork of which the C library does not know: without flags, and no signal at its end.
    // SAFETY: the child has a copy of this thread alone, and runs nothing but `child`.
    let process =
        unsafe { libc::syscall(libc::SYS_clone, 0 as c_long, 0 as c_long, 0 as c_long, 0 as c_long, 0 as c_long) };
    match process {
        0 => child(dump, shared.0),
        1.. => {}
        _ => return Err(format!("a child cannot be made: {}", std::io::Error::last_os_error())),
    }
    let ended = ended_within_patience(process);
    if !ended {
        // A child may still write to it.
        let _ = std::mem::ManuallyDrop::new(shared);
        return Err("the child cannot be ended".to_owned());
    }
    match shared.text() {
        (text, 0) if text.trim().is_empty() => Err("it ended without a word".to_owned()),
        (text, 0) => Ok(text),
        (text, libc::SIGALRM) => Err(format!("it took too long; so far:\n{text}")),
        (text, signal) => Err(format!("it met signal {signal}; so far:\n{text}")),
    }
}

/// Kills the child when it takes too long.
fn ended_within_patience(process: c_long) -> bool {
    let begin = Instant::now();
    let mut killed = false;
    loop {
        let (status, usage): (*const c_int, *const c_void) = (null(), null());
        // SAFETY: asks after one process, and for nothing about it.
        let answer = unsafe { libc::syscall(libc::SYS_wait4, process, status, libc::WNOHANG | libc::__WALL, usage) };
        if answer != 0 {
            // It has ended, or another thread has waited for just any child.
            return true;
        }
        if begin.elapsed() > PATIENCE && !killed {
            killed = true;
            // SAFETY: takes integers; the process is a child that has not been waited for.
            unsafe { libc::syscall(libc::SYS_kill, process, libc::SIGKILL) };
        }
        if begin.elapsed() > 2 * PATIENCE {
            return false;
        }
        std::thread::sleep(Duration::from_micros(500));
    }
}

fn tables_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmPTE:")?.trim().strip_suffix(" kB")?.parse().ok())
}

/// The child's own.
static PIPE: AtomicI32 = AtomicI32::new(-1);
static PAGE: AtomicPtr<Shared> = AtomicPtr::new(null_mut());

/// The forked child makes only system calls: a thread that is not there may hold any lock.
fn child(dump: Dump, shared: *mut Shared) -> ! {
    const ENDS: [c_int; 7] =
        [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT, libc::SIGSYS, libc::SIGALRM];
    PAGE.store(shared, Ordering::Relaxed);
    let mut pipe = [-1; 2];
    // SAFETY: the structures are valid; the calls concern this child alone.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::setrlimit(libc::RLIMIT_CORE, &libc::rlimit { rlim_cur: 0, rlim_max: 0 });
        let (mut action, mut set): (libc::sigaction, libc::sigset_t) = (std::mem::zeroed(), std::mem::zeroed());
        action.sa_sigaction = gave_up as extern "C" fn(c_int) as usize;
        libc::sigemptyset(&mut set);
        for signal in ENDS {
            libc::sigaction(signal, &action, null_mut());
            libc::sigaddset(&mut set, signal);
        }
        libc::alarm(ALARM_SECONDS);
        libc::sigprocmask(libc::SIG_UNBLOCK, &set, null_mut());
        // Text beyond the pipe's capacity is lost.
        if libc::pipe2(pipe.as_mut_ptr(), libc::O_NONBLOCK | libc::O_CLOEXEC) != 0 {
            leave(0);
        }
        libc::fcntl(pipe[1], libc::F_SETPIPE_SZ, MOST_BYTES as c_int);
        PIPE.store(pipe[0], Ordering::Relaxed);
        let complaint = dump(pipe[1], null(), null());
        if !complaint.is_null() {
            libc::write(pipe[1], complaint.cast(), libc::strnlen(complaint, 1000));
        }
    }
    leave(0)
}

extern "C" fn gave_up(signal: c_int) {
    leave(signal);
}

/// Leaves the text in the shared memory.
fn leave(signal: c_int) -> ! {
    // SAFETY: the memory is mapped in the child as it was in the parent, and the child has one thread.
    unsafe {
        let shared = &mut *PAGE.load(Ordering::Relaxed);
        let mut length = 0;
        while length < MOST_BYTES {
            let read =
                libc::read(PIPE.load(Ordering::Relaxed), (&raw mut shared.text[length]).cast(), MOST_BYTES - length);
            match usize::try_from(read) {
                Ok(read) if read > 0 => length += read,
                _ => break,
            }
        }
        shared.signal.store(signal, Ordering::Relaxed);
        shared.length.store(length as u32, Ordering::Release);
        libc::syscall(libc::SYS_exit_group, 0 as c_long);
    }
    loop {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    extern "C" fn says(pipe: c_int, _: *const c_void, _: *const c_void) -> *const c_char {
        let text = b"Thread 1\n  File \"a.py\", line 2 in f\n";
        // SAFETY: the text is valid for reading.
        unsafe { libc::write(pipe, text.as_ptr().cast(), text.len()) };
        null()
    }

    extern "C" fn complains(_: c_int, _: *const c_void, _: *const c_void) -> *const c_char {
        c"unable to get the thread state".as_ptr()
    }

    extern "C" fn falls(pipe: c_int, _: *const c_void, _: *const c_void) -> *const c_char {
        says(pipe, null(), null());
        // SAFETY: it is not: the child ends here.
        unsafe { libc::raise(libc::SIGSEGV) };
        null()
    }

    extern "C" fn stays(pipe: c_int, _: *const c_void, _: *const c_void) -> *const c_char {
        says(pipe, null(), null());
        loop {
            std::hint::spin_loop();
        }
    }

    extern "C" fn floods(pipe: c_int, _: *const c_void, _: *const c_void) -> *const c_char {
        for _ in 0..100_000 {
            says(pipe, null(), null());
        }
        null()
    }

    #[test]
    fn a_child_says_it_and_whatever_happens_there_stays_there() {
        let whole = "Thread 1\n  File \"a.py\", line 2 in f\n";
        assert_eq!(asked(says).as_deref(), Ok(whole));
        assert_eq!(asked(complains).as_deref(), Ok("unable to get the thread state"));
        let fell = asked(falls).unwrap_err();
        assert!(fell.contains("signal 11") && fell.ends_with(whole), "{fell}");
        let begin = Instant::now();
        let stayed = asked(stays).unwrap_err();
        assert!(stayed.contains("too long") && stayed.ends_with(whole), "{stayed}");
        assert!(begin.elapsed() < PATIENCE + Duration::from_millis(500), "{:?}", begin.elapsed());
        let flood = asked(floods).unwrap();
        assert!((16 << 10..=MOST_BYTES).contains(&flood.len()), "{}", flood.len());
        // SAFETY: asks only.
        let children = unsafe { libc::waitpid(-1, null_mut(), libc::WNOHANG | libc::__WALL) };
        assert_eq!((children, std::io::Error::last_os_error().raw_os_error()), (-1, Some(libc::ECHILD)));
    }
}
