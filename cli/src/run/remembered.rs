//! Processes that have ended, for the mark of the run: number, start, and how each ended.
//!
//! Must not: keep a process from being reaped.

use crate::folder::{numbers, ProcessEnd, Stat};
use crate::machine::unix_now;
use rustix::process::{waitpid, Pid, WaitOptions, WaitStatus};
use std::collections::{HashMap, HashSet, VecDeque};

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
}

#[derive(Debug, Default)]
pub(super) struct Remembered {
    ends: VecDeque<ProcessEnd>,
    /// When, in nanoseconds since 1970.
    told: HashMap<Identity, u64>,
    stopped: HashSet<Identity>,
}

impl Remembered {
    /// Before the run or a launcher continues or kills it.
    pub fn note_if_stopped(&mut self, process: Pid) {
        if Stat::of(process.as_raw_pid()).is_some_and(Stat::is_stopped) {
            self.stopped.insert(Identity::of(process));
        }
    }

    pub fn told_to_end(&mut self, process: Pid) {
        self.told.entry(Identity::of(process)).or_insert_with(now);
    }

    pub fn ended(&mut self, who: Identity, status: WaitStatus) {
        if self.ends.len() >= MOST {
            self.ends.pop_front();
        }
        self.ends.push_back(self.end(who, status.exit_status(), status.terminating_signal()));
    }

    /// Reaps a child that is not the program, and notes how it ended.
    pub fn reap(&mut self, process: Pid) {
        let who = Identity::of(process);
        // It may have been reaped already.
        if let Ok(Some((_, status))) = waitpid(Some(process), WaitOptions::NOHANG) {
            self.ended(who, status);
        }
    }

    fn end(&self, who: Identity, exit_code: Option<i32>, signal: Option<i32>) -> ProcessEnd {
        let (told_unix_ns, stopped) = (self.told.get(&who).copied(), self.stopped.contains(&who));
        let (Identity { process, start_ticks }, ended_by_run) = (who, told_unix_ns.is_some());
        ProcessEnd { process, start_ticks, exit_code, signal, ended_by_run, stopped, at_unix_ns: now(), told_unix_ns }
    }

    /// All ends. If another process reaped one that this command ended or saw stopped, its exit status is unknown.
    pub fn all(self) -> Vec<ProcessEnd> {
        let known: HashSet<_> = self.ends.iter().map(|end| (end.process, end.start_ticks)).collect();
        let noted: HashSet<_> = self.told.keys().chain(&self.stopped).collect();
        let others = noted.into_iter().filter(|who| !known.contains(&(who.process, who.start_ticks)));
        self.ends.iter().copied().chain(others.map(|who| self.end(*who, None, None))).collect()
    }
}

fn now() -> u64 {
    u64::try_from(unix_now().as_nanos()).unwrap_or(u64::MAX)
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
        remembered.told.insert(Identity { process: 1 << 30, start_ticks: None }, 1);
        remembered.stopped.insert(Identity { process: 1 << 29, start_ticks: None });
        let all = remembered.all();
        let seen: Vec<_> = all.iter().map(|end| (end.exit_code, end.signal, end.ended_by_run)).collect();
        let expect = [(Some(3), None, false), (None, Some(11), false), (None, Some(40), false), (None, Some(9), true)];
        assert_eq!(seen[..4], expect);
        let mut others: Vec<_> = all[4..].iter().map(|end| (end.process, end.ended_by_run, end.stopped)).collect();
        others.sort_unstable();
        assert_eq!(others, [(1 << 29, false, true), (1 << 30, true, false)], "another process has reaped them");
        assert_eq!(all.iter().map(|end| end.process).take(4).collect::<Vec<_>>(), numbers);
        assert!(all[..4].iter().all(|end| end.start_ticks.is_some() && !end.stopped));
    }

    #[test]
    fn a_process_that_was_stopped_is_noted_so_though_it_was_continued_since() {
        let mut remembered = Remembered::default();
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let process = Pid::from_child(&child);
        let until = |event| waitid(WaitId::Pid(process), event | WaitIdOptions::NOWAIT).unwrap();
        tree::send(process, Signal::STOP);
        until(WaitIdOptions::STOPPED);
        remembered.note_if_stopped(process);
        [Signal::CONT, Signal::KILL].iter().for_each(|signal| tree::send(process, *signal));
        remembered.told_to_end(process);
        until(WaitIdOptions::EXITED);
        remembered.reap(process);
        assert!(child.wait().is_err(), "it has been reaped");
        let seen: Vec<_> = remembered.all().iter().map(|end| (end.signal, end.ended_by_run, end.stopped)).collect();
        assert_eq!(seen, [(Some(9), true, true)]);
    }
}
