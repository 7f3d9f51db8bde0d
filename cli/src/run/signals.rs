//! The signals that this process receives in the program's place.
//!
//! The kernel sends the terminal's signals to the whole process group, so to the program too: this process does not pass them on. A signal of
//! another process is meant for the program. Every thread blocks these signals, and one asks the kernel for them, without handler or descriptor.
//!
//! Must not: change an ignored signal, which the program inherits (`nohup`). Stop where no shell would continue this command.

use super::{inherited, tree};
use crate::machine::system;
use nix::sys::signal::SigSet;
use rustix::process::{getpid, getsid, Pid, Signal};
use signal_hook::low_level::raise;
use std::ffi::c_int;
use std::fs::File;
use std::time::Duration;

/// Faults, `SIGTTIN` and `SIGTTOU` are caused by this process itself.
const PASSED_ON: [Signal; 15] = [
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
];

pub(crate) struct Caught {
    wanted: SigSet,
    early: Vec<Heard>,
}

impl Caught {
    pub fn now() -> Self {
        // SIGXFSZ must not end this command: only a file cannot be written.
        let wanted =
            PASSED_ON.into_iter().chain([Signal::XFSZ]).filter(|&signal| !inherited::signals().ignores(signal));
        // While SIGCHLD is ignored, the kernel reaps children, and their exit status is lost.
        system::do_not_ignore(Signal::CHILD);
        let wanted = wanted.chain([Signal::CHILD]).filter_map(|signal| signal.as_raw().try_into().ok()).collect();
        Self { wanted: system::blocked(wanted), early: Vec::new() }
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
        first.into_iter().chain(others).map(|(signal, from)| Heard { signal, from }).collect()
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    signal: c_int,
    /// The process that has sent it; `None` for the kernel.
    from: Option<i32>,
}

impl Heard {
    /// Whether it is about this command alone: a child has changed, or a file of its own may not grow.
    pub fn is_own(&self) -> bool {
        [Signal::CHILD.as_raw(), Signal::XFSZ.as_raw()].contains(&self.signal)
    }

    pub fn is_ctrl_c(&self) -> bool {
        self.from.is_none() && self.signal == Signal::INT.as_raw()
    }

    pub fn signal(&self) -> Option<Signal> {
        Signal::from_named_raw(self.signal)
    }

    pub fn passed_on(&self, program: Pid) -> Option<Signal> {
        self.meant_for(program, getsid(None).is_ok_and(|session| session == getpid()))
    }

    fn meant_for(&self, program: Pid, leads_the_session: bool) -> Option<Signal> {
        let signal = self.signal()?;
        let is_meant = match (self.from, signal) {
            // If sent to the whole group, the signal has reached the program already. If sent to its parent, it is not for the program.
            (Some(sender), _) => sender != program.as_raw_pid() && !tree::descends(sender),
            // The terminal has sent it to the whole group.
            (None, Signal::INT | Signal::QUIT | Signal::TSTP | Signal::WINCH) => false,
            // The kernel reports a lost terminal to the session leader alone.
            (None, Signal::HUP) => leads_the_session,
            // A timer that was set before this command's exec: it is for the program that runs in its place.
            (None, _) => true,
        };
        is_meant.then_some(signal)
    }
}

/// Stops this process along with the program, if the terminal's user has stopped the program. Returns when it is continued.
pub(super) fn stop_with_the_program(by: Signal) {
    let by_the_user = matches!(by, Signal::TSTP | Signal::TTIN | Signal::TTOU);
    if by_the_user && there_is_a_terminal() {
        let _ = raise(Signal::STOP.as_raw());
    }
}

#[allow(clippy::disallowed_methods, reason = "it is a device, and opening it waits for nothing")]
pub(super) fn there_is_a_terminal() -> bool {
    File::open("/dev/tty").is_ok()
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
            let heard = Heard { signal: signal.as_raw(), from };
            let expect = expect.then_some(signal);
            assert_eq!(heard.meant_for(program, leads), expect, "{signal:?} {from:?} {leads}");
        }
    }
}
