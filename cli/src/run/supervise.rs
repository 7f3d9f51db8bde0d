//! Supervises the program from its start to its end: passes signals on, keeps the time, watches for hangs, reaps orphans.
//!
//! Must not: wait for any process but the program, unless it is to end all of them.

use super::hang::{self, Watch};
use super::held::Held;
use super::inherited::StandardError;
use super::remembered::{Identity, Remembered};
use super::returns::{first_late, others, Failing};
use super::root::{process_with, Root};
use super::signals::{stop_with_the_program, there_is_a_terminal, Caught, Heard};
use super::tree::{self, Tree};
use super::unguarded::{self, Unseen};
use crate::folder::{proc_is_mounted, ProcessEnd, Stat};
use crate::inspect::dump::{ask_all, Purpose};
use crate::judge::{End, Unguarded};
use crate::machine::{system, Beside};
use crate::words::on_hang::{KILL, REVOKE};
use crate::words::{output, Failure};
use rustix::process::{waitid, waitpid, Pid, Signal, WaitId, WaitIdOptions, WaitOptions, WaitStatus};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const THIN_OUT_EVERY: Duration = Duration::from_secs(2);
const LOOK_AT_THE_END_EVERY: Duration = Duration::from_millis(20);
/// The time that killed processes get to end. A process that is stuck in the kernel does not end.
const GOES_WITHIN: Duration = Duration::from_secs(5);
/// How long the processes of a run have to leave their evidence, before it ends them.
const EVIDENCE_WITHIN: Duration = Duration::from_secs(3);
const CTRL_C_IS_HEARD_WITHIN: Duration = Duration::from_millis(200);

#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub timeout: Option<Duration>,
    pub kill_after: Duration,
    pub look_every: Duration,
    /// The action at a hang. By all but [`KILL`] the guard has the blocked calls return an error, and the command ends only what does not answer.
    pub action: Option<&'static str>,
    /// Whether a process that has stalled ends the run.
    pub kills_stalled: bool,
    pub gpu_dump_wait: Duration,
    /// How long the ranks of a job wait before the first of them revokes.
    pub notice: Duration,
    pub needs_all: bool,
    pub thin_out: bool,
}

pub(super) struct Ended {
    pub end: End,
    pub interrupted: bool,
    pub processes: Vec<ProcessEnd>,
    pub unseen: Vec<String>,
    /// The names of the processes that have told of a hang, and whose folders do not.
    pub untold: Vec<String>,
    pub was_guarded: bool,
    pub unguarded: Unguarded,
}

pub(super) struct Started {
    pub program: Pid,
    pub tree: Tree,
    pub caught: Caught,
    pub standard_error: StandardError,
}

/// `places` are those in which the processes have their folders: that of the run, and that for processes which have changed their user.
pub(super) fn supervise(
    Started { program, tree, caught, standard_error }: Started,
    root: &Root,
    places: Vec<PathBuf>,
    limits: Limits,
    unguarded: Option<unguarded::Watch>,
) -> Result<Ended, Failure> {
    Supervisor {
        program,
        identity: Identity::of(program),
        remembered: Remembered::default(),
        unseen: Unseen::default(),
        unseen_looked_at: Instant::now(),
        unguarded,
        places,
        root,
        standard_error,
        tree,
        status: None,
        limits,
        started: Instant::now(),
        hang: Watch::default(),
        stall: Watch::default(),
        held: Held::default(),
        failing: Vec::new(),
        has_evidence: false,
        ending: None,
        interrupted: false,
        thin_out_at: limits.thin_out.then(|| Instant::now() + THIN_OUT_EVERY),
    }
    .run(caught)
}

fn name_of(folder: &Path) -> String {
    process_with(folder).map_or_else(|| folder.display().to_string(), |process| format!("process {process}"))
}

#[derive(Clone, Copy, Debug)]
struct Ending {
    why: End,
    kill_at: Instant,
}

struct Supervisor<'a> {
    root: &'a Root,
    places: Vec<PathBuf>,
    standard_error: StandardError,
    tree: Tree,
    program: Pid,
    identity: Identity,
    remembered: Remembered,
    unseen: Unseen,
    unseen_looked_at: Instant,
    unguarded: Option<unguarded::Watch>,
    status: Option<WaitStatus>,
    limits: Limits,
    started: Instant,
    hang: Watch,
    stall: Watch,
    held: Held,
    failing: Vec<Failing>,
    has_evidence: bool,
    ending: Option<Ending>,
    interrupted: bool,
    thin_out_at: Option<Instant>,
}

impl Supervisor<'_> {
    fn run(mut self, mut caught: Caught) -> Result<Ended, Failure> {
        let early = caught.early();
        self.interrupted |= early.iter().any(Heard::is_ctrl_c);
        let mut signals: Vec<_> = early.iter().filter(|heard| !heard.is_own()).collect();
        // The order of the signals is unknown. A program that is not stopped takes no harm from SIGCONT, but no one else may end its stop.
        signals.sort_by_key(|heard| heard.is_one_of(&[Signal::CONT]));
        signals.iter().for_each(|heard| heard.send_to(self.program));
        loop {
            self.reap()?;
            self.standard_error.look();
            match self.ending {
                None => {
                    if let Some(status) = self.status {
                        self.hear_of_ctrl_c(status, &caught);
                        return Ok(self.ended(status));
                    }
                    self.end_if_it_is_time();
                }
                Some(ending) => {
                    if self.go_on_ending(ending.kill_at) {
                        // So that no zombie is left either.
                        self.reap()?;
                        return Ok(self.finished(ending.why, false));
                    }
                }
            }
            caught.wait(self.pause()).iter().for_each(|heard| self.hear(heard));
        }
    }

    fn say(&mut self, text: impl std::fmt::Display) {
        self.standard_error.take_back();
        output::say(text);
    }

    fn pause(&self) -> Option<Duration> {
        if self.ending.is_some() {
            return Some(LOOK_AT_THE_END_EVERY);
        }
        let left = self.limits.timeout.map(|timeout| timeout.saturating_sub(self.started.elapsed()));
        let look = self.limits.needs_all.then_some(self.limits.look_every);
        let thin_out = self.thin_out_at.map(|at| at.saturating_duration_since(Instant::now()));
        let unguarded = self.unguarded.as_ref().map(unguarded::Watch::pause);
        left.into_iter().chain(look).chain(thin_out).chain(unguarded).chain(self.standard_error.pause()).min()
    }

    fn hear(&mut self, heard: &Heard) {
        if heard.is_own() || self.status.is_some() {
            return;
        }
        self.interrupted |= heard.is_ctrl_c();
        match heard.is_meant_for(self.program) {
            true if heard.is_one_of(&[Signal::CONT]) => self.pass_on_that_it_goes_on(),
            true => heard.send_to(self.program),
            false => {}
        }
    }

    /// The kernel sends Ctrl-C to the program and to this process in any order. The program's end may be known before the signal arrives.
    fn hear_of_ctrl_c(&mut self, status: WaitStatus, caught: &Caught) {
        let until = Instant::now() + CTRL_C_IS_HEARD_WITHIN;
        let may_be_it = status.terminating_signal() == Some(Signal::INT.as_raw()) && there_is_a_terminal();
        while may_be_it && !self.interrupted {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            self.interrupted = caught.wait(Some(left)).iter().any(Heard::is_ctrl_c);
        }
    }

    /// A shell continues a job as a whole: a late second SIGCONT would end the program's next stop.
    fn pass_on_that_it_goes_on(&self) {
        let again = self.notice_a_stop();
        let is_stopped = || Stat::of(self.program.as_raw_pid()).is_some_and(Stat::is_stopped);
        if !there_is_a_terminal() || (!again && is_stopped()) {
            tree::send(self.program, Signal::CONT);
        }
    }

    /// Reaps children that have ended: the program and orphans.
    fn reap(&mut self) -> Result<(), Failure> {
        loop {
            if self.status.is_none() {
                let ended = waitpid(Some(self.program), WaitOptions::NOHANG);
                let ended = ended.map_err(|error| Failure::Input(format!("lost the program: {error}")))?;
                self.status = ended.map(|(_, status)| status);
                self.status.iter().for_each(|status| self.remembered.ended(self.identity, *status));
            }
            self.notice_a_stop();
            match system::ended_child() {
                // It has ended since the check above.
                Some(process) if process == self.program && self.status.is_none() => {}
                Some(process) => self.remembered.reap(process),
                None => return Ok(()),
            }
        }
    }

    fn notice_a_stop(&self) -> bool {
        if self.status.is_some() {
            return false;
        }
        let stopped = waitid(WaitId::Pid(self.program), WaitIdOptions::STOPPED | WaitIdOptions::NOHANG).ok().flatten();
        let Some(signal) = stopped.and_then(|status| status.stopping_signal()) else { return false };
        stop_with_the_program(signal);
        true
    }

    fn ended(self, status: WaitStatus) -> Ended {
        let end = match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => End::Exited(u8::try_from(code).unwrap_or(u8::MAX)),
            (None, signal) => End::Signalled(signal.unwrap_or(0)),
        };
        let interrupted = self.interrupted && end == End::Signalled(Signal::INT.as_raw());
        self.finished(end, interrupted)
    }

    fn finished(mut self, end: End, interrupted: bool) -> Ended {
        self.standard_error.take_back();
        Ended {
            end,
            interrupted,
            processes: self.remembered.all(),
            unseen: self.unseen.found,
            untold: self.held.untold().into_iter().map(|folder| name_of(folder)).collect(),
            was_guarded: self.held.any,
            unguarded: self.unguarded.map(|watch| watch.found).unwrap_or_default(),
        }
    }

    fn end_if_it_is_time(&mut self) {
        if self.thin_out_at.is_some_and(|at| Instant::now() >= at) {
            self.root.thin_out();
            self.thin_out_at = Some(Instant::now() + THIN_OUT_EVERY);
        }
        let is_over = self.limits.timeout.filter(|timeout| self.started.elapsed() >= *timeout);
        self.look_for_the_unseen(is_over.is_some());
        if let Some(watch) = &mut self.unguarded {
            watch.look(|| self.tree.processes(), self.root.text(), &self.places);
        }
        if let Some(timeout) = is_over {
            self.begin_to_end(End::TimedOut, &format!("the {timeout:?} of --timeout are over"));
        } else if let Some(folder) = self.limits.action.and_then(|action| self.is_due(action)) {
            let process = name_of(&folder);
            match self.limits.action {
                Some(action) if action != KILL => self.calls_return(folder, &process, action),
                _ => self.begin_to_end(End::EndedOnHang, &format!("{process} hangs, and --on-hang is kill")),
            }
        } else if let Some(folder) =
            self.limits.kills_stalled.then(|| self.stall.look_for_a_stall(&self.places)).flatten()
        {
            let process = name_of(&folder);
            self.begin_to_end(End::EndedOnStall, &format!("{process} has stalled, and --on-stall is kill"));
        } else if let (Some(action), Some(folder)) = (self.limits.action, self.does_not_answer()) {
            let (process, time) = (name_of(&folder), self.limits.kill_after);
            if self.hang.is_due(&folder) {
                // It hangs anew, since the look above.
                self.calls_return(folder, &process, action);
            } else {
                let why = format!("{process} has not answered --on-hang {action} in {time:?}");
                self.begin_to_end(End::EndedOnHang, &why);
            }
        }
    }

    /// The error of another action than [`KILL`] is returned by the guard itself; whether it is answered, only a report says.
    fn is_due(&mut self, action: &str) -> Option<PathBuf> {
        let reported = self.hang.look(&self.places);
        reported.or_else(|| self.held.due(&hang::folders_of_processes(&self.places)).filter(|_| action == KILL))
    }

    /// The guard has its blocked calls return an error. All processes are to do the same, so that none waits for this one.
    fn calls_return(&mut self, folder: PathBuf, process: &str, action: &str) {
        let notice = if action == REVOKE { self.limits.notice } else { Duration::ZERO };
        let until = Instant::now() + self.limits.kill_after + notice;
        if self.failing.is_empty() {
            self.say(format!(
                "{process} hangs, and --on-hang is {action}: its blocked calls are to return an error, and those of the other processes; \
                 what has not answered in {:?} is ended",
                self.limits.kill_after
            ));
            let (hangs, others) = (process_with(&folder), others(&folder, action, &self.places, until));
            let asked = self.alive().into_iter().filter(|process| Some(*process) != hangs).collect();
            ask_all(asked, Purpose::Fail, EVIDENCE_WITHIN);
            self.failing = others;
        }
        self.failing.retain(|known| known.folder != folder);
        self.failing.push(Failing::hanging(folder, until));
    }

    fn does_not_answer(&mut self) -> Option<PathBuf> {
        if self.failing.is_empty() {
            return None;
        }
        let alive = self.alive();
        first_late(&mut self.failing, &alive, self.limits.action == Some(REVOKE), self.limits.gpu_dump_wait)
    }

    fn look_for_the_unseen(&mut self, now: bool) {
        if !self.limits.needs_all || !now && self.unseen_looked_at.elapsed() < self.limits.look_every {
            return;
        }
        self.unseen_looked_at = Instant::now();
        let folders = hang::folders_of_processes(&self.places);
        // Before it ends a run, it keeps this anyway.
        let keeps = self.limits.action != Some(KILL) && !self.has_evidence;
        if keeps && folders.iter().any(|folder| hang::is_told(folder)) {
            self.has_evidence = true;
            let living = hang::living(&self.places, &self.alive());
            // Nothing waits for it.
            drop(Beside::start("lazyguard-evidence", Duration::ZERO, move |_| hang::keep_evidence(&living)));
        }
        self.held.look(folders);
        for (process, name) in self.unseen.look(&self.tree.processes(), self.root.text(), &self.places) {
            let unseen = if self.held.look_into(process) { "a hazard" } else { "a hang or a hazard" };
            self.say(format!("{name} could make no folder that this run reads: {unseen} in it is not seen"));
        }
    }

    fn processes(&self) -> Vec<Pid> {
        match (proc_is_mounted(), self.status) {
            (true, _) => self.tree.processes(),
            (false, None) => vec![self.program],
            (false, Some(_)) => Vec::new(),
        }
    }

    fn alive(&self) -> Vec<u32> {
        self.processes().iter().map(|process| process.as_raw_pid().unsigned_abs()).collect()
    }

    /// Sends a signal to all of them, so that they end; returns whether there were any.
    fn signal(&mut self, signal: Signal) -> bool {
        let all = self.processes();
        for process in &all {
            // Before the signal: a process that is gone has no identity.
            self.remembered.told_to_end(*process);
            tree::send(*process, signal);
        }
        !all.is_empty()
    }

    /// Every guarded process leaves what it does at this moment: the one that hangs is rarely the one to blame.
    fn gather_evidence(&self) {
        let alive = self.alive();
        ask_all(alive.clone(), Purpose::End, EVIDENCE_WITHIN);
        hang::keep_main_threads(&self.places, &alive, EVIDENCE_WITHIN);
    }

    fn begin_to_end(&mut self, why: End, said: &str) {
        self.say(format!("{said}: ending the program and everything it has started"));
        self.processes().into_iter().for_each(|process| self.remembered.note_if_stopped(process));
        self.gather_evidence();
        if !proc_is_mounted() {
            self.say("/proc is not mounted: what the program has started is not known, and it is ended alone");
        }
        self.signal(Signal::TERM);
        // A stopped process does not handle SIGTERM until it is continued.
        self.signal(Signal::CONT);
        self.ending = Some(Ending { why, kill_at: Instant::now() + self.limits.kill_after });
    }

    fn go_on_ending(&mut self, kill_at: Instant) -> bool {
        if Instant::now() < kill_at {
            return self.processes().is_empty();
        }
        // Processes that have been started meanwhile are found the next time.
        let left = self.signal(Signal::KILL);
        let stay = left && kill_at.elapsed() > GOES_WITHIN;
        if stay {
            self.say("some of the program's processes do not go though they were killed, and are left behind");
        }
        !left || stay
    }
}
