//! The signals that this process receives in the program's place.
//!
//! The kernel sends the terminal's signals to the whole process group, so to the program too: this process does not pass them on. A signal of
//! another process is meant for the program. Every thread blocks these signals, and one asks the kernel for them, without handler or descriptor.
//!
//! Must not: change an ignored signal, which the program inherits (`nohup`). Stop where no shell would continue this command.

use super::{inherited, tree};
use crate::folder::Stat;
use crate::machine::system::{self, Received};
use nix::sys::signal::SigSet;
use rustix::process::{getpgid, getpgrp, getpid, getppid, getsid, Pid, Signal};
use rustix::termios::tcgetpgrp;
use std::ffi::c_int;
use std::fs::{read_link, File};
use std::time::Duration;

/// And the real-time ones. The kernel ends this process by a fault of its own though the signal is blocked. It sends `SIGTTIN` and `SIGTTOU` to
/// the whole group, and names this process as the sender of a `SIGPIPE` of its own.
const PASSED_ON: [Signal; 24] = [
    Signal::HUP,
    Signal::INT,
    Signal::QUIT,
    Signal::TERM,
    Signal::USR1,
    Signal::USR2,
    Signal::ALARM,
    Signal::VTALARM,
    Signal::PROF,
    Signal::TSTP,
    Signal::CONT,
    Signal::WINCH,
    Signal::XCPU,
    Signal::IO,
    Signal::POWER,
    Signal::ABORT,
    Signal::ILL,
    Signal::TRAP,
    Signal::BUS,
    Signal::FPE,
    Signal::SEGV,
    Signal::STKFLT,
    Signal::SYS,
    Signal::URG,
];

pub(crate) struct Caught {
    wanted: SigSet,
    early: Vec<Heard>,
}

impl Caught {
    pub fn now() -> Self {
        // SIGXFSZ must not end this command: only a file cannot be written.
        let named = PASSED_ON.into_iter().chain([Signal::XFSZ]).map(Signal::as_raw);
        let wanted =
            named.chain(libc::SIGRTMIN()..=libc::SIGRTMAX()).filter(|&signal| !inherited::signals().ignores(signal));
        // While SIGCHLD is ignored, the kernel reaps children, and their exit status is lost.
        system::do_not_ignore(Signal::CHILD);
        Self { wanted: system::blocked(wanted.chain([Signal::CHILD.as_raw()])), early: Vec::new() }
    }

    /// The program is about to be started. No signal that has come so far has reached it, not even the terminal's.
    pub fn program_starts(&mut self) {
        self.early.extend(self.wait(Some(Duration::ZERO)));
    }

    pub fn early(&mut self) -> Vec<Heard> {
        std::mem::take(&mut self.early)
    }

    pub fn wait(&self, limit: Option<Duration>) -> Vec<Heard> {
        let first = system::next_signal(&self.wanted, limit);
        let others = std::iter::from_fn(|| system::next_signal(&self.wanted, Some(Duration::ZERO)));
        first.into_iter().chain(others).map(Heard).collect()
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Heard(Received);

impl Heard {
    /// Whether it is about this command alone: a child has changed, or a file of its own may not grow.
    pub fn is_own(&self) -> bool {
        self.is_one_of(&[Signal::CHILD, Signal::XFSZ])
    }

    pub fn is_ctrl_c(&self) -> bool {
        self.0.sender().is_none() && self.is_one_of(&[Signal::INT])
    }

    pub fn is_one_of(&self, signals: &[Signal]) -> bool {
        signals.iter().any(|signal| signal.as_raw() == self.0.signal())
    }

    pub fn is_meant_for(&self, program: Pid) -> bool {
        let leads_the_session = getsid(None).is_ok_and(|session| session == getpid());
        is_meant(self.0.signal(), self.0.sender(), program, leads_the_session)
    }

    pub fn send_to(&self, program: Pid) {
        self.0.send_to(program);
    }
}

fn is_meant(signal: c_int, from: Option<i32>, program: Pid, leads_the_session: bool) -> bool {
    match (from, Signal::from_named_raw(signal)) {
        // If sent to the whole group, the signal has reached the program already. If sent to its parent, it is not for the program.
        (Some(sender), _) => sender != program.as_raw_pid() && !tree::descends(sender),
        // The terminal has sent it to the whole group.
        (None, Some(Signal::INT | Signal::QUIT | Signal::TSTP | Signal::WINCH)) => false,
        // The kernel reports a lost terminal to the session leader alone.
        (None, Some(Signal::HUP)) => leads_the_session,
        // A timer that was set before this command's exec: it is for the program that runs in its place.
        (None, _) => true,
    }
}

/// Stops this process along with the program, by the same signal, if a shell then takes the terminal. Returns when it is continued.
pub(super) fn stop_with_the_program(by: c_int) {
    let Some(by) = Signal::from_named_raw(by) else { return };
    let is_followed = match by {
        Signal::TSTP | Signal::TTIN | Signal::TTOU => there_is_a_terminal(),
        // `kill -CONT` with the program's process id leaves this process stopped. Only a shell that waits for it continues it too.
        Signal::STOP => is_in_the_foreground() && a_shell_waits(),
        _ => false,
    };
    if is_followed {
        system::stop_by(by);
    }
}

#[allow(clippy::disallowed_methods, reason = "it is a device, and opening it waits for nothing")]
fn terminal() -> Option<File> {
    File::open("/dev/tty").ok()
}

pub(super) fn there_is_a_terminal() -> bool {
    terminal().is_some()
}

fn is_in_the_foreground() -> bool {
    terminal().and_then(|terminal| tcgetpgrp(terminal).ok()) == Some(getpgrp())
}

/// Whether a shell with job control has started this command, or the command like it that has started this one. A script's shell has none.
fn a_shell_waits() -> bool {
    let program_of = |process: Pid| read_link(format!("/proc/{process}/exe")).ok();
    let mut parent = getppid();
    while let Some(process) = parent {
        match (getsid(Some(process)) == getsid(None), getpgid(Some(process)) == Ok(getpgrp())) {
            (false, _) => return false,
            (true, false) => return true,
            (true, true) if program_of(process) != program_of(getpid()) => return false,
            (true, true) => parent = Stat::of(process.as_raw_pid()).and_then(|seen| Pid::from_raw(seen.parent)),
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_reaches_the_program_by_itself_is_not_passed_on() {
        let program = getpid();
        let (kernel, descendant, elsewhere) = (None, Some(program.as_raw_pid()), Some(1));
        for (signal, from, leads, expect) in [
            (Signal::INT, kernel, false, false),
            (Signal::INT, elsewhere, false, true),
            (Signal::TERM, descendant, false, false),
            (Signal::TERM, elsewhere, true, true),
            (Signal::HUP, kernel, false, false),
            (Signal::HUP, kernel, true, true),
            (Signal::ALARM, kernel, false, true),
            (Signal::WINCH, kernel, true, false),
            (Signal::CONT, elsewhere, false, true),
        ] {
            assert_eq!(is_meant(signal.as_raw(), from, program, leads), expect, "{signal:?} {from:?} {leads}");
        }
    }
}
