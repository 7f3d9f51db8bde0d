//! Processes that have ended, for the mark of the run: number, start, and how each ended.
//!
//! Must not: keep a process from being reaped.

use crate::folder::{numbers, ProcessEnd, Stat};
use crate::machine::unix_now;
use rustix::process::{waitpid, Pid, WaitOptions};
use std::collections::{HashSet, VecDeque};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// The most ends remembered, the newest: a program may start hundreds of thousands of processes.
const MOST: usize = 1 << 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Identity {
    process: u32,
    start_ticks: Option<u64>,
}

impl Identity {
    /// The identity of a process that has not been reaped. In a pid namespace of its own it has another id.
    pub fn of(process: Pid) -> Self {
        let number = process.as_raw_pid();
        let status = crate::machine::files::read_text(format!("/proc/{process}/status")).unwrap_or_default();
        // The last of its ids, one for each namespace that it is in.
        let own = numbers(&status, "NSpid:").last().copied();
        Self { process: own.unwrap_or(number.unsigned_abs()), start_ticks: Stat::of(number).map(|stat| stat.started) }
    }

    pub fn process(self) -> u32 {
        self.process
    }

    fn end(self, exit_code: Option<i32>, signal: Option<i32>, ended_by_run: bool) -> ProcessEnd {
        let Self { process, start_ticks } = self;
        ProcessEnd { process, start_ticks, exit_code, signal, ended_by_run, at_unix_ns: unix_now().as_nanos() as u64 }
    }
}

#[derive(Debug, Default)]
pub(super) struct Remembered {
    ends: VecDeque<ProcessEnd>,
    told: HashSet<Identity>,
}

impl Remembered {
    pub fn told_to_end(&mut self, process: Pid) {
        self.told.insert(Identity::of(process));
    }

    pub fn ended(&mut self, who: Identity, status: ExitStatus) {
        self.add(who, status.code(), status.signal());
    }

    /// Reaps a child that is not the program, and notes how it ended.
    pub fn reap(&mut self, process: Pid) {
        let who = Identity::of(process);
        // It may have been reaped already.
        if let Ok(Some((_, status))) = waitpid(Some(process), WaitOptions::NOHANG) {
            self.add(who, status.exit_status(), status.terminating_signal());
        }
    }

    fn add(&mut self, who: Identity, exit_code: Option<i32>, signal: Option<i32>) {
        if self.ends.len() >= MOST {
            self.ends.pop_front();
        }
        self.ends.push_back(who.end(exit_code, signal, self.told.contains(&who)));
    }

    /// All ends. If another process reaped one that this command ended, its exit status is unknown.
    pub fn all(mut self) -> Vec<ProcessEnd> {
        let known: HashSet<_> = self.ends.iter().map(|end| (end.process, end.start_ticks)).collect();
        let others = self.told.iter().filter(|who| !known.contains(&(who.process, who.start_ticks)));
        self.ends.extend(others.map(|who| who.end(None, None, true)));
        self.ends.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::tree;
    use rustix::process::{waitid, Signal, WaitId, WaitIdOptions};
    use std::process::Command;

    #[test]
    fn how_a_child_ended_is_noted_and_by_whom() {
        let mut remembered = Remembered::default();
        let mut numbers = Vec::new();
        for (script, told) in [("exit 3", false), ("kill -SEGV $$", false), ("kill -40 $$", false), ("sleep 60", true)]
        {
            let mut child = Command::new("sh").args(["-c", script]).spawn().unwrap();
            let process = Pid::from_child(&child);
            if told {
                remembered.told_to_end(process);
                tree::send(process, Signal::KILL);
            }
            waitid(WaitId::Pid(process), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
            remembered.reap(process);
            assert!(child.wait().is_err(), "it has been reaped");
            numbers.push(child.id());
        }
        remembered.told.insert(Identity { process: 1 << 30, start_ticks: None });
        let all = remembered.all();
        let seen: Vec<_> = all.iter().map(|end| (end.exit_code, end.signal, end.ended_by_run)).collect();
        let expect = [
            (Some(3), None, false),
            (None, Some(11), false),
            (None, Some(40), false),
            (None, Some(9), true),
            (None, None, true),
        ];
        assert_eq!(seen, expect);
        assert_eq!(all.iter().map(|end| end.process).take(4).collect::<Vec<_>>(), numbers);
        assert!(all[..4].iter().all(|end| end.start_ticks.is_some()));
    }
}
