//! Calls of the C library that neither the standard library nor `rustix` has, and that need `unsafe`; and the start of a program, which
//! `std::process::Command` starts with another environment, with other descriptors and with other signals than it would have without this
//! command.
//!
//! `nix` has neither the status of a child that a signal without a name has ended, nor the attributes of a file, nor `close_range`.
//!
//! Must not: decide anything.

#![allow(unsafe_code)]

use rustix::process::Pid;
use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::io;
use std::ptr::null_mut;

/// Unblocks all signals in this thread, and in those that it starts from now on.
pub(crate) fn unblock_all() {
    // SAFETY: a set is numbers alone, and `sigfillset` writes it before it is read; the old one is not asked for.
    unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &all, null_mut());
    }
}

/// A child that has ended, which stays to be reaped.
pub(crate) fn ended_child() -> Option<Pid> {
    const LOOK: libc::c_int = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: the call fills in numbers, of which a child's id is one where it has found a child; else it leaves zeros.
    let process = unsafe {
        let mut about: libc::siginfo_t = std::mem::zeroed();
        (libc::waitid(libc::P_ALL, 0, &mut about, LOOK) == 0).then(|| about.si_pid())
    };
    process.and_then(Pid::from_raw)
}

/// Whether the kernel has `close_range`, and lets it be called.
pub(crate) fn has_close_range() -> bool {
    // SAFETY: takes integers only. A range that ends before it begins is an error, and nothing is closed.
    let refused = unsafe { libc::syscall(libc::SYS_close_range, 1, 0, 0) } != 0;
    refused && std::io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL)
}

/// The last signal's number.
const LAST_SIGNAL: c_int = 64;

/// The signals that this process ignores: bit 0 is that of signal 1.
pub(crate) fn ignored_signals() -> u64 {
    let ignores = |signal: &c_int| {
        // SAFETY: without a new action, the call only fills in the old one.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            libc::sigaction(*signal, std::ptr::null(), &mut action) == 0 && action.sa_sigaction == libc::SIG_IGN
        }
    };
    (1..=LAST_SIGNAL).filter(ignores).fold(0, |set, signal| set | 1 << (signal - 1))
}

/// The flags of a descriptor: 0 where an exec leaves it open; `None` where it is closed.
pub(crate) fn descriptor_flags(descriptor: c_int) -> Option<c_int> {
    // SAFETY: takes integers only.
    let flags = unsafe { libc::fcntl(descriptor, libc::F_GETFD) };
    (flags >= 0).then_some(flags)
}

/// This process's environment, entry for entry: also those without a `=`, without a name, and those whose name occurs twice.
pub(crate) fn environment() -> Vec<CString> {
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    let mut entries = Vec::new();
    // SAFETY: the C library keeps a list of texts there that ends with a null pointer. Nothing in this command changes it.
    unsafe {
        let mut entry = environ;
        while !entry.is_null() && !(*entry).is_null() {
            entries.push(CStr::from_ptr(*entry).to_owned());
            entry = entry.add(1);
        }
    }
    entries
}

/// All that a program starts with.
pub(crate) struct Exec {
    /// Its path, or a name to be looked up on the search path.
    pub file: CString,
    pub arguments: Vec<CString>,
    pub environment: Vec<CString>,
    /// The signals that it ignores, as in [`ignored_signals`]. All others have their default action.
    pub ignored: u64,
}

impl Exec {
    /// Replaces this process by the program. Returns only where that fails.
    pub fn in_this_process(&self) -> io::Error {
        let mut prepared = Prepared::of(self);
        prepared.exec();
        io::Error::from_raw_os_error(prepared.error)
    }

    /// Starts the program in a child. This thread stands still until the child has the program or has ended. So the child can use this
    /// process's memory, and an exec that fails leaves its error there: no descriptor is needed for that.
    pub fn in_a_child(&self) -> io::Result<Pid> {
        let mut prepared = Prepared::of(self);
        // The C library's look-up has the arguments and the search path there.
        let path = std::env::var_os("PATH").map_or(0, |path| path.len());
        let mut stack = vec![0_u128; (1 << 12) + self.arguments.len() + path / 8];
        // SAFETY: `begin` gets the pointer to `Prepared` that it expects, and a stack of its own; both outlive it. All signals are blocked until
        // the child has no handler left, because a handler of this process's would run in its memory.
        let (child, error) = unsafe {
            let mut all = std::mem::zeroed();
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, null_mut());
            let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
            let child = libc::clone(begin, stack.as_mut_ptr_range().end.cast(), flags, (&raw mut prepared).cast());
            let error = io::Error::last_os_error();
            libc::pthread_sigmask(libc::SIG_SETMASK, &prepared.blocked, null_mut());
            (Pid::from_raw(child.max(0)), error)
        };
        let child = child.ok_or(error)?;
        if prepared.error == 0 {
            return Ok(child);
        }
        // It has ended.
        let _ = rustix::process::waitpid(Some(child), rustix::process::WaitOptions::empty());
        Err(io::Error::from_raw_os_error(prepared.error))
    }
}

/// The child of [`Exec::in_a_child`]. It must not allocate or lock: another thread of this process may hold the lock.
extern "C" fn begin(prepared: *mut c_void) -> c_int {
    // SAFETY: it is the pointer that was given to `clone`, and the thread that has given it stands still.
    unsafe { (*prepared.cast::<Prepared<'_>>()).exec() };
    127
}

/// The same with lists of pointers, each of which ends with a null pointer.
struct Prepared<'a> {
    exec: &'a Exec,
    arguments: Vec<*const c_char>,
    environment: Vec<*const c_char>,
    blocked: libc::sigset_t,
    error: c_int,
}

impl<'a> Prepared<'a> {
    fn of(exec: &'a Exec) -> Self {
        let ended = |texts: &[CString]| texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect();
        // SAFETY: a set is numbers alone; without a new one, the call only fills in the old one.
        let blocked = unsafe {
            let mut blocked = std::mem::zeroed();
            libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &mut blocked);
            blocked
        };
        Self { exec, arguments: ended(&exec.arguments), environment: ended(&exec.environment), blocked, error: 0 }
    }

    /// Returns only where the exec fails, with the error.
    fn exec(&mut self) {
        // SAFETY: the pointers are those of texts that `exec` keeps, and each list has its end. A set and an action are numbers alone.
        unsafe {
            for signal in 1..=LAST_SIGNAL {
                let mut action: libc::sigaction = std::mem::zeroed();
                let is_ignored = self.exec.ignored >> (signal - 1) & 1 == 1;
                action.sa_sigaction = if is_ignored { libc::SIG_IGN } else { libc::SIG_DFL };
                libc::sigaction(signal, &action, null_mut());
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &self.blocked, null_mut());
            libc::execvpe(self.exec.file.as_ptr(), self.arguments.as_ptr(), self.environment.as_ptr());
        }
        self.error = io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL);
    }
}
