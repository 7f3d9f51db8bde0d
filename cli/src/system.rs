//! Three calls of the C library that neither the standard library nor `rustix` has, and that need `unsafe`.
//!
//! `nix` has neither the status of a child that a signal without a name has ended, nor the attributes of a file, nor `close_range`.
//!
//! Must not: do more than the one call each.

#![allow(unsafe_code)]

use rustix::process::Pid;

/// Unblocks all signals in this thread, and in those that it starts from now on.
pub(crate) fn unblock_all() {
    // SAFETY: a set is numbers alone, and `sigfillset` writes it before it is read; the old one is not asked for.
    unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &all, std::ptr::null_mut());
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
