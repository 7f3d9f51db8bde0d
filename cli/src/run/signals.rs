//! The signals that this process gets in the program's stead.
//!
//! The program stays in the process group that this command was started in, so that a pipeline, a script and a shell's job are
//! what they are without this command. What the terminal says to the foreground group (Ctrl-C, Ctrl-\, Ctrl-Z, a new size) the
//! kernel tells the program as well, so it is not passed on. What another process sends to this one is meant for the program.
//!
//! Must not: change a signal that is ignored here, as under `nohup`: the program has that from this process.

use super::tree;
use crate::files;
use crate::Failure;
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{getpid, getsid, Pid};
use signal_hook::iterator::exfiltrator::origin::{Origin, WithOrigin};
use signal_hook::iterator::SignalsInfo;
use signal_hook::low_level::siginfo::Cause;
use std::sync::mpsc::{channel, Receiver};
use std::sync::OnceLock;

/// What is passed on. `SIGKILL` and `SIGSTOP` cannot be; faults are this process's own; `SIGTTIN` and `SIGTTOU` say that it
/// has used the terminal itself.
const PASSED_ON: [Signal; 15] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGALRM,
    Signal::SIGVTALRM,
    Signal::SIGPROF,
    Signal::SIGTSTP,
    Signal::SIGCONT,
    Signal::SIGWINCH,
    Signal::SIGXCPU,
    Signal::SIGIO,
    Signal::SIGPWR,
];

/// Catches them from now on; nothing is lost that comes before the program is there.
pub(super) struct Caught {
    signals: SignalsInfo<WithOrigin>,
    ignored: u64,
}

impl Caught {
    pub fn now() -> Result<Self, Failure> {
        let ignored = ignored();
        // Of a child's end nothing would be heard where that is ignored, not even how it ended.
        let wanted = PASSED_ON.into_iter().filter(|&s| !has(ignored, s)).chain([Signal::SIGCHLD]).map(|s| s as i32);
        let signals =
            SignalsInfo::new(wanted).map_err(|error| Failure::Input(format!("cannot handle signals: {error}")))?;
        Ok(Self { signals, ignored })
    }

    /// What the program is to ignore and does not have from this process, which did so until it began to catch or to ignore it for
    /// itself.
    pub fn to_ignore(&self) -> Vec<Signal> {
        // Rust's runtime ignores writes to a closed pipe, and gives them their default action in what is started.
        let pipes = IGNORED_AT_START.get().is_some_and(|&set| has(set, Signal::SIGPIPE));
        let children = has(self.ignored, Signal::SIGCHLD);
        [(children, Signal::SIGCHLD), (pipes, Signal::SIGPIPE)]
            .into_iter()
            .filter(|(is, _)| *is)
            .map(|(_, s)| s)
            .collect()
    }

    /// The program has been started, with what it has from this process: what is left can be seen to now.
    pub fn deliver(mut self) -> Result<Receiver<Origin>, Failure> {
        let failure = |error: std::io::Error| Failure::Input(format!("cannot handle signals: {error}"));
        // What is blocked here is blocked in the program as well, which may unblock it.
        SigSet::all().thread_unblock().map_err(|error| failure(error.into()))?;
        let (sender, receiver) = channel();
        let listen = move || {
            for origin in self.signals.forever() {
                if sender.send(origin).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("signals".to_owned()).spawn(listen).map_err(failure)?;
        Ok(receiver)
    }
}

/// The signals that were ignored before the runtime of this process ignored one more.
static IGNORED_AT_START: OnceLock<u64> = OnceLock::new();

// Before `main`, which is too late to see it. It reads a file, and relies on nothing that the runtime makes.
#[allow(unsafe_code)]
#[ctor::ctor(unsafe)]
fn at_the_start() {
    let _ = IGNORED_AT_START.set(ignored());
}

/// Whether a signal is in such a set.
pub(super) fn has(set: u64, signal: Signal) -> bool {
    set >> (signal as i32 - 1) & 1 == 1
}

/// The signals that are ignored in this process.
fn ignored() -> u64 {
    ignored_in(&files::read_text("/proc/self/status").unwrap_or_default())
}

/// The signals that a process's status says are ignored.
pub(super) fn ignored_in(status: &str) -> u64 {
    let set = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0)
}

/// Where a signal comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sender {
    Kernel,
    Descendant,
    Elsewhere,
}

/// What to pass on to the program, if anything.
pub(super) fn to_pass_on(origin: &Origin, program: Pid) -> Option<Signal> {
    let signal = Signal::try_from(origin.signal).ok()?;
    let from = match (origin.cause, origin.process) {
        (Cause::Kernel, _) => Sender::Kernel,
        (_, Some(sender)) if sender.pid == program.as_raw() || tree::descends(sender.pid) => Sender::Descendant,
        _ => Sender::Elsewhere,
    };
    let leads = getsid(None).is_ok_and(|session| session == getpid());
    is_meant_for_the_program(signal, from, leads).then_some(signal)
}

fn is_meant_for_the_program(signal: Signal, from: Sender, leads_the_session: bool) -> bool {
    match from {
        Sender::Elsewhere => true,
        // Sent to the whole group, it has come there by itself; sent to its parent, it is not for the program.
        Sender::Descendant => false,
        Sender::Kernel => match signal {
            Signal::SIGINT | Signal::SIGQUIT | Signal::SIGTSTP | Signal::SIGWINCH => false,
            // A terminal that is gone is told to the leader of the session alone.
            Signal::SIGHUP => leads_the_session,
            // A timer that was set before this command came: for whoever runs in this place.
            _ => true,
        },
    }
}

/// Whether the terminal has said this.
pub(super) fn is_the_terminals(origin: &Origin) -> bool {
    origin.cause == Cause::Kernel
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_reaches_the_program_by_itself_is_not_passed_on() {
        use Sender::{Descendant, Elsewhere, Kernel};
        for (signal, from, leads, expect) in [
            (Signal::SIGINT, Kernel, false, false),
            (Signal::SIGINT, Elsewhere, false, true),
            (Signal::SIGTERM, Descendant, false, false),
            (Signal::SIGTERM, Elsewhere, true, true),
            (Signal::SIGHUP, Kernel, false, false),
            (Signal::SIGHUP, Kernel, true, true),
            (Signal::SIGALRM, Kernel, false, true),
            (Signal::SIGWINCH, Kernel, true, false),
            (Signal::SIGCONT, Elsewhere, false, true),
        ] {
            assert_eq!(is_meant_for_the_program(signal, from, leads), expect, "{signal} {from:?} {leads}");
        }
    }
}
