//! From the program's start to its end: signals go to it, time is kept, hangs are watched for, orphans are reaped.
//!
//! Must not: wait for anything but the program, unless everything is to be ended; what it leaves running in the background when it
//! ends is left running.

use super::hang::Watch;
use super::root::Root;
use super::signals::{self, Caught};
use super::tree::{self, Tree};
use super::{say, terminal};
use crate::findings::End;
use crate::Failure;
use nix::sys::signal::Signal;
use nix::sys::wait::{waitid, waitpid, Id, WaitPidFlag, WaitStatus};
use nix::unistd::Pid;
use signal_hook::iterator::exfiltrator::origin::Origin;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How often the recordings of processes that have ended are thinned out.
const THIN_OUT_EVERY: Duration = Duration::from_secs(2);
/// How often it is looked whether everything has ended that is to end.
const LOOK_AT_THE_END_EVERY: Duration = Duration::from_millis(20);
/// How long what was killed may take to go. A process that is stuck in the kernel does not go.
const GOES_WITHIN: Duration = Duration::from_secs(5);
/// How long Ctrl-C is waited for where it may have ended the program.
const CTRL_C_IS_HEARD_WITHIN: Duration = Duration::from_millis(200);

/// What ends the program before its time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub timeout: Option<Duration>,
    pub kill_after: Duration,
    /// How often hangs are looked for that are to be ended, if they are.
    pub look_for_hangs_every: Option<Duration>,
    /// Whether no more recordings are kept than a few.
    pub thin_out: bool,
}

/// How it went.
#[derive(Debug)]
pub(super) struct Ended {
    pub end: End,
    /// Whether that was by Ctrl-C.
    pub interrupted: bool,
}

/// Sees the program to its end.
pub(super) fn supervise(
    child: Child,
    tree: Tree,
    caught: Caught,
    root: &Root,
    limits: Limits,
) -> Result<Ended, Failure> {
    let events = caught.deliver()?;
    Supervisor {
        program: Pid::from_raw(child.id().cast_signed()),
        child,
        tree,
        status: None,
        limits,
        started: Instant::now(),
        hang: limits.look_for_hangs_every.map(|_| Watch::default()),
        ending: None,
        interrupted: false,
        thin_out_at: limits.thin_out.then(|| Instant::now() + THIN_OUT_EVERY),
    }
    .run(&events, root)
}

/// Everything is to end, and how far that is.
#[derive(Clone, Copy, Debug)]
struct Ending {
    why: End,
    kill_at: Instant,
    /// When it was first killed.
    killed: Option<Instant>,
}

struct Supervisor {
    child: Child,
    tree: Tree,
    program: Pid,
    status: Option<ExitStatus>,
    limits: Limits,
    started: Instant,
    hang: Option<Watch>,
    ending: Option<Ending>,
    /// Whether Ctrl-C was pressed.
    interrupted: bool,
    thin_out_at: Option<Instant>,
}

impl Supervisor {
    fn run(mut self, events: &Receiver<Origin>, root: &Root) -> Result<Ended, Failure> {
        loop {
            self.reap()?;
            match self.ending {
                None => {
                    if let Some(status) = self.status {
                        self.hear_of_ctrl_c(status, events);
                        return Ok(self.ended(status));
                    }
                    self.end_if_it_is_time(root);
                }
                Some(ending) => {
                    if self.go_on_ending(ending) {
                        // Whoever looks finds nobody, not even one who waits to be noticed.
                        self.reap()?;
                        return Ok(Ended { end: ending.why, interrupted: false });
                    }
                }
            }
            match self.pause().map(|pause| events.recv_timeout(pause)) {
                Some(Ok(origin)) => self.hear(&origin),
                Some(Err(RecvTimeoutError::Timeout)) => {}
                Some(Err(RecvTimeoutError::Disconnected)) => return Err(deaf()),
                None => self.hear(&events.recv().map_err(|_| deaf())?),
            }
        }
    }

    /// How long nothing has to be looked at; `None` until something is heard.
    fn pause(&self) -> Option<Duration> {
        if self.ending.is_some() {
            return Some(LOOK_AT_THE_END_EVERY);
        }
        let left = self.limits.timeout.map(|timeout| timeout.saturating_sub(self.started.elapsed()));
        let look = self.limits.look_for_hangs_every;
        let thin_out = self.thin_out_at.map(|at| at.saturating_duration_since(Instant::now()));
        left.into_iter().chain(look).chain(thin_out).min()
    }

    fn hear(&mut self, origin: &Origin) {
        if origin.signal == Signal::SIGCHLD as i32 || self.status.is_some() {
            return;
        }
        self.interrupted |= is_ctrl_c(origin);
        match signals::to_pass_on(origin, self.program) {
            Some(Signal::SIGCONT) => self.pass_on_that_it_goes_on(),
            Some(signal) => tree::send(self.program, signal),
            None => {}
        }
    }

    /// Ctrl-C goes to the program and to this process, in any order: of one that it has ended, the end may be known first.
    fn hear_of_ctrl_c(&mut self, status: ExitStatus, events: &Receiver<Origin>) {
        let until = Instant::now() + CTRL_C_IS_HEARD_WITHIN;
        let may_be_it = status.signal() == Some(Signal::SIGINT as i32) && terminal::is_there();
        while may_be_it && !self.interrupted {
            match events.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(origin) => self.interrupted = is_ctrl_c(&origin),
                Err(_) => return,
            }
        }
    }

    /// A shell continues a job as a whole, the program included. Told a second time, and late, it would be continued from the
    /// next stop, which the user has asked for meanwhile. So at a terminal, only who still is in the stop that has been noticed
    /// is continued.
    fn pass_on_that_it_goes_on(&self) {
        let again = self.notice_a_stop();
        if !terminal::is_there() || (!again && tree::is_stopped(self.program)) {
            tree::send(self.program, Signal::SIGCONT);
        }
    }

    // --- children ---

    /// Takes note of children that have ended: the program, and whoever has lost its parent.
    fn reap(&mut self) -> Result<(), Failure> {
        loop {
            if self.status.is_none() {
                // With the signal's number as it is: the wait below knows those that have a name.
                self.status =
                    self.child.try_wait().map_err(|error| Failure::Input(format!("lost the program: {error}")))?;
            }
            self.notice_a_stop();
            let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
            match waitid(Id::All, look).map(|status| status.pid()) {
                // It has ended since it was looked at above.
                Ok(Some(process)) if process == self.program && self.status.is_none() => {}
                Ok(Some(process)) => forget(process),
                Ok(None) => return Ok(()),
                // Ended by a signal without a name.
                Err(nix::errno::Errno::EINVAL) => {
                    let ended = tree::ended_children().into_iter().filter(|child| *child != self.program);
                    if ended.map(forget).count() == 0 {
                        return Ok(());
                    }
                }
                Err(_) => return Ok(()),
            }
        }
    }

    /// Returns whether it has been stopped since that was last asked.
    fn notice_a_stop(&self) -> bool {
        if self.status.is_some() {
            return false;
        }
        match waitid(Id::Pid(self.program), WaitPidFlag::WSTOPPED | WaitPidFlag::WNOHANG) {
            Ok(WaitStatus::Stopped(_, signal)) => {
                terminal::stop_with_the_program(signal);
                true
            }
            _ => false,
        }
    }

    // --- the end ---

    fn ended(&self, status: ExitStatus) -> Ended {
        let end = match (status.code(), status.signal()) {
            (Some(code), _) => End::Exited(u8::try_from(code).unwrap_or(u8::MAX)),
            (None, signal) => End::Signalled(signal.unwrap_or(0)),
        };
        let interrupted = self.interrupted && end == End::Signalled(Signal::SIGINT as i32);
        Ended { end, interrupted }
    }

    fn end_if_it_is_time(&mut self, root: &Root) {
        if self.thin_out_at.is_some_and(|at| Instant::now() >= at) {
            root.thin_out();
            self.thin_out_at = Some(Instant::now() + THIN_OUT_EVERY);
        }
        if let Some(timeout) = self.limits.timeout.filter(|timeout| self.started.elapsed() >= *timeout) {
            say(&format!("the {timeout:?} of --timeout are over: ending the program and everything it has started"));
            self.begin_to_end(End::TimedOut);
        } else if let Some(folder) = self.look_for_a_hang(root) {
            let process = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            say(&format!("{process} hangs, and --on-hang is kill: ending the program and everything it has started"));
            self.begin_to_end(End::EndedOnHang);
        }
    }

    fn look_for_a_hang(&mut self, root: &Root) -> Option<PathBuf> {
        self.hang.as_mut()?.look(root.path())
    }

    fn begin_to_end(&mut self, why: End) {
        self.tree.signal(Signal::SIGTERM);
        // Whoever is stopped hears nothing.
        self.tree.signal(Signal::SIGCONT);
        self.ending = Some(Ending { why, kill_at: Instant::now() + self.limits.kill_after, killed: None });
    }

    /// Returns whether nobody is left, or nobody who would go.
    fn go_on_ending(&mut self, ending: Ending) -> bool {
        let left = if Instant::now() >= ending.kill_at {
            // Whoever has been started meanwhile is found the next time.
            let left = self.tree.signal(Signal::SIGKILL);
            let killed = ending.killed.unwrap_or_else(Instant::now);
            self.ending = Some(Ending { killed: Some(killed), ..ending });
            if left && killed.elapsed() > GOES_WITHIN {
                say("some of the program's processes do not go though they were killed, and are left behind");
                return true;
            }
            left
        } else {
            !self.tree.processes().is_empty()
        };
        !left
    }
}

fn is_ctrl_c(origin: &Origin) -> bool {
    signals::is_the_terminals(origin) && origin.signal == Signal::SIGINT as i32
}

/// Reaps a child that is not the program: how it ended is nobody's business here.
fn forget(process: Pid) {
    let _ = waitpid(process, Some(WaitPidFlag::WNOHANG));
}

fn deaf() -> Failure {
    Failure::Input("the thread that handles signals has ended".to_owned())
}
