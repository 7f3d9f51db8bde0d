//! Calls of the C library that need `unsafe`; and the start of a program with environment, descriptors and signals as without this command.
//!
//! `nix` has neither the status of a child that a signal without a name has ended, nor the attributes of a file, nor `close_range`.
//!
//! Must not: decide anything.

#![allow(unsafe_code)]

use nix::sys::signal::{SigSet, SigmaskHow};
use nix::sys::time::TimeSpec;
use rustix::process::{Pid, Signal};
use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::ptr::{null, null_mut};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Blocks these signals in this thread, and in those that it starts from now on.
pub(crate) fn blocked(signals: impl Iterator<Item = c_int>) -> SigSet {
    // `nix` knows no real-time signals. SAFETY: the calls change the set alone, and refuse a number that is none.
    let signals = unsafe {
        let mut set = *SigSet::empty().as_ref();
        signals.for_each(|signal| _ = libc::sigaddset(&mut set, signal));
        SigSet::from_sigset_t_unchecked(set)
    };
    // It cannot fail for a set that exists.
    let _ = signals.thread_block();
    signals
}

/// Has the command's process begin with the signals blocked that this one was started with.
pub(crate) fn begins_with(command: &mut Command, signals: Signals) {
    // SAFETY: the closure runs in the child of a fork, and makes one call that is async-signal-safe.
    unsafe { command.pre_exec(move || signals.blocked.thread_set_mask().map_err(io::Error::from)) };
}

/// All that the kernel says of a signal: also the value that its sender has queued it with.
#[derive(Clone, Copy)]
pub(crate) struct Received(libc::siginfo_t);

impl Received {
    pub fn signal(self) -> c_int {
        self.0.si_signo
    }

    /// `None` where it is the kernel.
    pub fn sender(self) -> Option<i32> {
        // SAFETY: with a code that is not positive, it names a process.
        (self.0.si_code <= 0).then(|| unsafe { self.0.si_pid() })
    }

    /// Errors are ignored: the process is gone, or belongs to another user.
    pub fn send_to(self, process: Pid) {
        let (process, signal) = (process.as_raw_pid(), self.0.si_signo);
        // SAFETY: takes integers, and an address that the kernel reads.
        unsafe {
            if self.0.si_code == libc::SI_QUEUE {
                libc::syscall(libc::SYS_rt_sigqueueinfo, process, signal, &raw const self.0);
            } else {
                libc::kill(process, signal);
            }
        }
    }
}

/// The next of these signals, which every thread has blocked.
pub(crate) fn next_signal(of: &SigSet, limit: Option<Duration>) -> Option<Received> {
    let limit = limit.map(TimeSpec::from_duration);
    // SAFETY: set and limit outlive the call, which fills in `about`.
    unsafe {
        let mut about: libc::siginfo_t = std::mem::zeroed();
        let limit = limit.as_ref().map_or(null(), |limit| std::ptr::from_ref(limit.as_ref()));
        let signal = libc::sigtimedwait(of.as_ref(), &mut about, limit);
        (signal > 0).then_some(Received(about))
    }
}

/// Stops this process by the signal's default action. For all but `SIGSTOP`, the kernel leaves it alone where no shell could continue it.
pub(crate) fn stop_by(signal: Signal) {
    // SAFETY: the default action runs no code of this process. The actions and sets are numbers alone, and each call has the place it fills in.
    unsafe {
        let (mut action, mut unblocked): (libc::sigaction, libc::sigset_t) = (std::mem::zeroed(), std::mem::zeroed());
        let mut before = unblocked;
        let is_changed = libc::sigaction(signal.as_raw(), null(), &mut action) == 0
            && libc::signal(signal.as_raw(), libc::SIG_DFL) != libc::SIG_ERR;
        // Raised while blocked: an earlier one that waits is unblocked along with it, and SIGCONT takes both away.
        libc::raise(signal.as_raw());
        libc::sigaddset(&mut unblocked, signal.as_raw());
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &unblocked, &mut before);
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, null_mut());
        if is_changed {
            libc::sigaction(signal.as_raw(), &action, null_mut());
        }
    }
}

pub(crate) fn do_not_ignore(signal: Signal) {
    // SAFETY: the default action runs no code of this process.
    unsafe { libc::signal(signal.as_raw(), libc::SIG_DFL) };
}

pub(crate) fn unix_now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
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

const LAST_SIGNAL: c_int = 64;

#[derive(Clone, Copy)]
pub(crate) struct Signals {
    /// Those that are ignored: bit 0 is that of signal 1. All others have their default action.
    ignored: u64,
    blocked: SigSet,
}

impl Signals {
    pub fn now() -> Self {
        let ignores = |signal: &c_int| {
            // SAFETY: without a new action, the call only fills in the old one.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                libc::sigaction(*signal, null(), &mut action) == 0 && action.sa_sigaction == libc::SIG_IGN
            }
        };
        let ignored = (1..=LAST_SIGNAL).filter(ignores).fold(0, |set, signal| set | 1 << (signal - 1));
        Self { ignored, blocked: SigSet::thread_get_mask().unwrap_or(SigSet::empty()) }
    }

    pub fn ignores(self, signal: c_int) -> bool {
        self.ignored >> (signal - 1) & 1 == 1
    }
}

/// The flags of a descriptor: 0 where an exec leaves it open; `None` where it is closed.
pub(crate) fn descriptor_flags(descriptor: c_int) -> Option<c_int> {
    // SAFETY: takes integers only.
    let flags = unsafe { libc::fcntl(descriptor, libc::F_GETFD) };
    (flags >= 0).then_some(flags)
}

pub(crate) fn is_written_by(descriptor: c_int) -> bool {
    // SAFETY: takes integers only.
    let flags = unsafe { libc::fcntl(descriptor, libc::F_GETFL) };
    flags >= 0 && flags & libc::O_ACCMODE != libc::O_RDONLY
}

/// Another descriptor of the same opening, which no exec leaves open.
pub(crate) fn duplicate(descriptor: c_int) -> io::Result<OwnedFd> {
    // SAFETY: the call takes integers only; the descriptor that it makes has no other owner.
    unsafe {
        match libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, 3) {
            number if number >= 0 => Ok(OwnedFd::from_raw_fd(number)),
            _ => Err(io::Error::last_os_error()),
        }
    }
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

pub(crate) struct Exec {
    pub file: CString,
    pub arguments: Vec<CString>,
    pub environment: Vec<CString>,
    pub signals: Signals,
}

impl Exec {
    /// Replaces this process by the program. Returns only where that fails.
    pub fn in_this_process(&self) -> io::Result<Pid> {
        let mut prepared = Prepared::of(self);
        prepared.exec();
        Err(io::Error::from_raw_os_error(prepared.error))
    }

    /// Starts the program in a child that uses this process's memory until its exec, where it leaves its error. No descriptor is needed.
    pub fn in_a_child(&self) -> io::Result<Pid> {
        let mut prepared = Prepared::of(self);
        // The C library's look-up has the arguments and the search path there.
        let path = std::env::var_os("PATH").map_or(0, |path| path.len());
        let mut stack = vec![0_u128; (1 << 12) + self.arguments.len() + path / 8];
        // SAFETY: `begin` gets the pointer to `Prepared` that it expects, and a stack of its own; both outlive it. All signals are blocked until
        // the child has no handler left, because a handler of this process's would run in its memory.
        let (child, error) = unsafe {
            let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK).unwrap_or(self.signals.blocked);
            let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
            let child = libc::clone(begin, stack.as_mut_ptr_range().end.cast(), flags, (&raw mut prepared).cast());
            let error = io::Error::last_os_error();
            // It cannot fail for a set that exists.
            let _ = before.thread_set_mask();
            (Pid::from_raw(child.max(0)), error)
        };
        let child = child.ok_or(error)?;
        if prepared.error == 0 {
            return Ok(child);
        }
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

struct Prepared<'a> {
    exec: &'a Exec,
    arguments: Vec<*const c_char>,
    environment: Vec<*const c_char>,
    error: c_int,
}

impl<'a> Prepared<'a> {
    fn of(exec: &'a Exec) -> Self {
        let ended = |texts: &[CString]| texts.iter().map(|text| text.as_ptr()).chain([null()]).collect();
        Self { exec, arguments: ended(&exec.arguments), environment: ended(&exec.environment), error: 0 }
    }

    fn exec(&mut self) {
        // SAFETY: the pointers are those of texts that `exec` keeps, and each list has its end. A set and an action are numbers alone.
        unsafe {
            for signal in 1..=LAST_SIGNAL {
                let mut action: libc::sigaction = std::mem::zeroed();
                let is_ignored = self.exec.signals.ignores(signal);
                action.sa_sigaction = if is_ignored { libc::SIG_IGN } else { libc::SIG_DFL };
                libc::sigaction(signal, &action, null_mut());
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, self.exec.signals.blocked.as_ref(), null_mut());
            libc::execvpe(self.exec.file.as_ptr(), self.arguments.as_ptr(), self.environment.as_ptr());
        }
        self.error = io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL);
    }
}
