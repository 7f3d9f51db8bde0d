//! Records processes that have ended, for the mark of the run: number, start, and how each ended.
//!
//! Must not: keep a process from being reaped. An unreadable fact is left out.

use super::tree;
use crate::ends::ProcessEnd;
use rustix::process::{waitpid, Pid, WaitOptions};
use std::collections::{HashSet, VecDeque};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{SystemTime, UNIX_EPOCH};

/// The most ends remembered, the newest: a program may start hundreds of thousands of processes.
const MOST: usize = 1 << 16;

/// Identifies a process, by its id in its own namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Identity {
    process: u32,
    start_ticks: Option<u64>,
}

impl Identity {
    /// The identity of a process that has not been reaped. In a pid namespace of its own it has another id.
    pub fn of(process: Pid) -> Self {
        let number = || process.as_raw_pid().unsigned_abs();
        let status = crate::files::read_text(format!("/proc/{process}/status")).unwrap_or_default();
        Self { process: own_number(&status).unwrap_or_else(number), start_ticks: tree::start_of(process) }
    }

    pub fn process(self) -> u32 {
        self.process
    }

    fn ended(self, exit_code: Option<i32>, signal: Option<i32>, ended_by_run: bool) -> ProcessEnd {
        let Self { process, start_ticks } = self;
        ProcessEnd { process, start_ticks, exit_code, signal, ended_by_run, at_unix_ns: now() }
    }
}

/// The last of a process's ids, one for each namespace that it is in.
fn own_number(status: &str) -> Option<u32> {
    status.lines().find_map(|line| line.strip_prefix("NSpid:"))?.split_whitespace().last()?.parse().ok()
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Remembered {
    ends: VecDeque<ProcessEnd>,
    /// Those that this command has asked to end, or killed.
    told: HashSet<Identity>,
}

impl Remembered {
    /// Notes that this command asks the process to end, or kills it.
    pub fn told_to_end(&mut self, process: Pid) {
        self.told.insert(Identity::of(process));
    }

    /// The program has ended, and has been reaped.
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
        self.ends.push_back(who.ended(exit_code, signal, self.told.contains(&who)));
    }

    /// All ends. If another process reaped one that this command ended, its exit status is unknown.
    pub fn all(self) -> Vec<ProcessEnd> {
        let is_known = |who: &&Identity| {
            self.ends.iter().any(|end| end.process == who.process && end.start_ticks == who.start_ticks)
        };
        let others = self.told.iter().filter(|who| !is_known(who)).map(|who| who.ended(None, None, true));
        let others: Vec<_> = others.collect();
        self.ends.into_iter().chain(others).collect()
    }
}

fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{waitid, Signal, WaitId, WaitIdOptions};
    use std::process::Command;

    #[test]
    fn the_number_is_the_one_that_the_process_has_itself() {
        assert_eq!(own_number("Name:\tsh\nNSpid:\t4242\t1\n"), Some(1));
        assert_eq!((own_number("NSpid:\t7\n"), own_number("Pid:\t7\n")), (Some(7), None));
    }

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
