//! `LAZYGUARD_ON_HANG` and `LAZYGUARD_ON_STALL`. At an end no handler of the program runs, and the guard waits for no lock of the program; it completes its own files before.
//!
//! Must not: use the C library's ways to end a process or to handle signals, which a program may have replaced.

use super::command::Commands;
use crate::record::run_folder::RUN;
use crate::record::statements::Statements;
use crate::record::Guard;
use crate::runtime::standard_error;
use lazyguard_core::report::{json, HangReport};
use lazyguard_core::settings::OnHang;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

/// Returns only if the process continues.
pub fn act(guard: &'static Guard, commands: &mut Commands, report: &HangReport, (setting, action): (&str, &OnHang)) {
    match action {
        // The blocked calls have returned, or cannot be made to.
        OnHang::Report | OnHang::Fail | OnHang::Revoke => {}
        OnHang::Abort => {
            complete(guard, &format!("{setting}=abort"));
            abort();
        }
        OnHang::Exit(status) => {
            complete(guard, &format!("{setting}=exit:{status}"));
            leave(c_int::from(*status));
        }
        OnHang::Command(command) => commands.start(guard, (setting, command), report),
    }
}

fn complete(guard: &'static Guard, how: &str) {
    guard.log.finish(guard, guard.folder.as_ref());
    guard.tracker.recorder().seen_alive(guard.now());
    let summary = guard.summary(&format!("ended by {how}"));
    guard.statements.iter().for_each(Statements::end);
    guard.hazards.end();
    guard.hazards.finish(guard, guard.folder.as_ref());
    if let Some(folder) = &guard.folder {
        folder.say_unless("summary", folder.replace(RUN, &json(&summary)).and_then(|()| guard.backing.save(folder)));
        guard.requests.end();
        guard.gpu_dump.end();
    }
    if guard.settings.summary {
        [summary.lines(), guard.hazards.lines()].concat().iter().for_each(|line| standard_error::line(line));
    }
    standard_error::line(&format!("ending the process, as {how} says"));
}

/// Ends the process with a core file, where the system writes one.
fn abort() -> ! {
    /// The kernel's own form of a signal's default action.
    const DEFAULT: [u64; 4] = [0; 4];
    let set: u64 = 1 << (libc::SIGABRT - 1);
    let none = null_mut::<c_void>();
    // SAFETY: the action is as large as the kernel's at most, and the set as large as said.
    unsafe {
        libc::syscall(libc::SYS_rt_sigaction, libc::SIGABRT, DEFAULT.as_ptr(), none, size_of_val(&set));
        libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_UNBLOCK, &raw const set, none, size_of_val(&set));
        let (process, thread) = (libc::syscall(libc::SYS_getpid), libc::syscall(libc::SYS_gettid));
        libc::syscall(libc::SYS_tgkill, process, thread, libc::SIGABRT);
    }
    // A container's first process is not ended by its own signal.
    leave(128 + libc::SIGABRT);
}

fn leave(status: c_int) -> ! {
    loop {
        // SAFETY: takes an integer, and does not return.
        unsafe { libc::syscall(libc::SYS_exit_group, status) };
    }
}
