//! The signals that this process receives in the program's place.
//!
//! The program stays in the process group in which this command was started, so that pipelines, scripts and shell jobs work as they do
//! without this command. The kernel sends the terminal's signals (Ctrl-C, Ctrl-\, Ctrl-Z, a new size) to the program too, so this process
//! does not pass them on. A signal from another process is meant for the program.
//!
//! Without a spare descriptor or thread, the command polls for signals. Without a descriptor, it does not know the sender ([`Events`]).
//!
//! Must not: change a signal that is ignored here, as under `nohup`: the program inherits that. Must not fail: the program runs even if its
//! signals cannot be passed on.

use super::{inherited, terminal, tree};
use crate::system;
use crate::Failure;
use rustix::process::{getpid, getsid, Pid, Signal};
use signal_hook::iterator::exfiltrator::origin::{Origin, WithOrigin};
use signal_hook::iterator::SignalsInfo;
use signal_hook::low_level::siginfo::Cause;
use std::ffi::c_int;
use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The signals that are passed on. `SIGKILL` and `SIGSTOP` cannot be caught; faults, `SIGTTIN` and `SIGTTOU` are caused by this process
/// itself.
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

/// Caught signals, from before the program's start on, so that none is lost.
pub(super) struct Caught {
    by: By,
    /// Those that came before the program was there.
    early: Vec<Heard>,
}

enum By {
    /// With their senders.
    Pipe(SignalsInfo<WithOrigin>),
    Flags(Flags),
}

/// A mark for each signal that has come.
pub(super) struct Flags(Vec<(c_int, Arc<AtomicBool>)>);

impl Flags {
    fn new(wanted: &[c_int]) -> Self {
        let caught = |&signal: &c_int| {
            let flag = Arc::new(AtomicBool::new(false));
            // A signal that cannot be caught keeps its action.
            signal_hook::flag::register(signal, flag.clone()).ok().map(|_| (signal, flag))
        };
        Self(wanted.iter().filter_map(caught).collect())
    }

    fn take(&self) -> impl Iterator<Item = Heard> + '_ {
        let come = self.0.iter().filter(|(_, flag)| flag.swap(false, Ordering::Relaxed));
        come.map(|(signal, _)| Heard { signal: *signal, from: From::NotKnown })
    }
}

/// Descriptors that this command needs at a time: two for its signals, two for its marks, and two for the files that it reads.
const DESCRIPTORS: usize = 6;

#[allow(clippy::disallowed_methods, reason = "a folder is opened, for its descriptor alone")]
fn has_descriptors() -> bool {
    let opened: Vec<_> = (0..DESCRIPTORS).map_while(|_| File::open("/").ok()).collect();
    opened.len() == DESCRIPTORS
}

impl Caught {
    pub fn now() -> Self {
        let ignored = inherited::ignored();
        // Where SIGCHLD is ignored, the kernel reaps children, and their exit status is lost. SIGXFSZ must not end this command: only a
        // file cannot be written.
        let own = [Signal::CHILD, Signal::XFSZ].into_iter();
        let own = own.filter(|&s| s == Signal::CHILD || !has(ignored, s));
        let wanted = PASSED_ON.into_iter().filter(|&s| !has(ignored, s)).chain(own).map(Signal::as_raw);
        let wanted: Vec<_> = wanted.collect();
        let pipe = has_descriptors().then(|| SignalsInfo::new(&wanted).ok()).flatten();
        let by = pipe.map_or_else(|| By::Flags(Flags::new(&wanted)), By::Pipe);
        Self { by, early: Vec::new() }
    }

    /// What is not known without descriptors of its own.
    pub fn complaint(&self) -> Option<&'static str> {
        let why =
            "who has sent a signal is not known: descriptors are missing here (ulimit -n), or socketpair is refused";
        matches!(self.by, By::Flags(_)).then_some(why)
    }

    /// The program is about to be started. What has come so far has not reached it, the terminal's signals neither.
    pub fn program_starts(&mut self) {
        match &mut self.by {
            By::Flags(flags) => self.early.extend(flags.take()),
            By::Pipe(signals) => self.early.extend(signals.pending().map(|origin| Heard::of(&origin))),
        }
    }

    /// Starts to deliver signals, once the program has been started. Also gives those that came before, which are the program's.
    pub fn deliver(self) -> (Vec<Heard>, Events) {
        // The program has inherited the blocked signals, and may unblock them.
        system::unblock_all();
        let signals = match self.by {
            By::Flags(flags) => return (self.early, Events::Flags(flags)),
            By::Pipe(signals) => Arc::new(Mutex::new(signals)),
        };
        let (sender, receiver) = channel();
        let listened_to = signals.clone();
        let listen = move || {
            let mut signals = listened_to.lock().unwrap_or_else(PoisonError::into_inner);
            for origin in signals.forever() {
                if sender.send(Heard::of(&origin)).is_err() {
                    return;
                }
            }
        };
        let events = match std::thread::Builder::new().name("signals".to_owned()).spawn(listen) {
            Ok(_) => Events::Thread(receiver),
            // No room for a thread of this user's (ulimit -u), or no memory.
            Err(_) => Events::Polled(signals),
        };
        (self.early, events)
    }
}

/// The sender of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    Kernel,
    Process(i32),
    NotKnown,
}

/// A signal that has come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heard {
    signal: c_int,
    from: From,
}

impl Heard {
    fn of(origin: &Origin) -> Self {
        let from = match (origin.cause, origin.process) {
            (Cause::Kernel, _) => From::Kernel,
            (_, Some(sender)) => From::Process(sender.pid),
            (_, None) => From::NotKnown,
        };
        Self { signal: origin.signal, from }
    }

    /// Whether it is about this command alone: a child has changed, or a file of its own may not grow.
    pub fn is_own(&self) -> bool {
        [Signal::CHILD.as_raw(), Signal::XFSZ.as_raw()].contains(&self.signal)
    }

    /// Whether the user has pressed Ctrl-C.
    pub fn is_ctrl_c(&self) -> bool {
        self.from == From::Kernel && self.signal == Signal::INT.as_raw()
    }

    /// The signal.
    pub fn signal(&self) -> Option<Signal> {
        Signal::from_named_raw(self.signal)
    }

    /// What to pass on to the program, if anything.
    pub fn passed_on(&self, program: Pid) -> Option<Signal> {
        let signal = self.signal()?;
        let from = match self.from {
            From::Kernel => Sender::Kernel,
            From::Process(sender) if sender == program.as_raw_pid() || tree::descends(sender) => Sender::Descendant,
            From::Process(_) => Sender::Elsewhere,
            // The terminal has sent the signal to the program as well.
            From::NotKnown if terminal::is_there() && is_a_terminals(signal) => Sender::Kernel,
            From::NotKnown => Sender::Elsewhere,
        };
        let leads = getsid(None).is_ok_and(|session| session == getpid());
        is_meant_for_the_program(signal, from, leads).then_some(signal)
    }
}

/// The interval at which the command polls for signals and ended children where no event wakes it.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Where signals come in.
pub(super) enum Events {
    /// As they come.
    Thread(Receiver<Heard>),
    /// In turns: there is no thread.
    Polled(Arc<Mutex<SignalsInfo<WithOrigin>>>),
    /// In turns: there is no descriptor either.
    Flags(Flags),
}

impl Events {
    /// Waits for the next signals, at most for `limit`. Returns none on a timeout, or when it is time to check for ended children.
    pub fn wait(&self, limit: Option<Duration>) -> Result<Vec<Heard>, Failure> {
        let pause = || std::thread::sleep(limit.unwrap_or(LOOK_EVERY).min(LOOK_EVERY));
        match self {
            Self::Thread(receiver) => {
                let heard = match limit {
                    None => receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
                    Some(limit) => receiver.recv_timeout(limit),
                };
                match heard {
                    Ok(heard) => Ok(vec![heard]),
                    Err(RecvTimeoutError::Timeout) => Ok(Vec::new()),
                    Err(RecvTimeoutError::Disconnected) => {
                        Err(Failure::Input("the thread that handles signals has ended".to_owned()))
                    }
                }
            }
            Self::Polled(signals) => {
                pause();
                let mut signals = signals.lock().unwrap_or_else(PoisonError::into_inner);
                Ok(signals.pending().map(|origin| Heard::of(&origin)).collect())
            }
            Self::Flags(flags) => {
                pause();
                Ok(flags.take().collect())
            }
        }
    }
}

/// Whether a signal is in such a set.
fn has(set: u64, signal: Signal) -> bool {
    set >> (signal.as_raw() - 1) & 1 == 1
}

/// Where a signal comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sender {
    Kernel,
    Descendant,
    Elsewhere,
}

/// Whether a terminal sends it to the whole group.
fn is_a_terminals(signal: Signal) -> bool {
    matches!(signal, Signal::INT | Signal::QUIT | Signal::TSTP | Signal::WINCH)
}

fn is_meant_for_the_program(signal: Signal, from: Sender, leads_the_session: bool) -> bool {
    match from {
        Sender::Elsewhere => true,
        // If sent to the whole group, the signal has reached the program already. If sent to its parent, it is not for the program.
        Sender::Descendant => false,
        Sender::Kernel => match signal {
            _ if is_a_terminals(signal) => false,
            // The kernel reports a lost terminal to the session leader alone.
            Signal::HUP => leads_the_session,
            // A timer that was set before this command's exec: it is for the program that runs in its place.
            _ => true,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_reaches_the_program_by_itself_is_not_passed_on() {
        use Sender::{Descendant, Elsewhere, Kernel};
        for (signal, from, leads, expect) in [
            (Signal::INT, Kernel, false, false),
            (Signal::INT, Elsewhere, false, true),
            (Signal::TERM, Descendant, false, false),
            (Signal::TERM, Elsewhere, true, true),
            (Signal::HUP, Kernel, false, false),
            (Signal::HUP, Kernel, true, true),
            (Signal::ALARM, Kernel, false, true),
            (Signal::WINCH, Kernel, true, false),
            (Signal::CONT, Elsewhere, false, true),
        ] {
            assert_eq!(is_meant_for_the_program(signal, from, leads), expect, "{signal:?} {from:?} {leads}");
        }
    }
}
