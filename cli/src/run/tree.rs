//! The processes that the program has started, and all their descendants: this process is their reaper, so all descend from it.
//!
//! Must not: touch a process that does not descend from this one.

use crate::folder::Stat;
use crate::machine::files;
use rustix::process::{getpid, kill_process, Pid, Signal};
use std::collections::{HashMap, HashSet};
use std::time::Duration;

const LOOK_EVERY: Duration = Duration::from_millis(20);
const LOOKS_BEFORE_KILL: u32 = 50;
/// A process that is stuck in the kernel does not end.
const MOST_LOOKS: u32 = 300;

fn all() -> HashMap<i32, Stat> {
    files::numbered("/proc").filter_map(|process| Some((process, Stat::of(process)?))).collect()
}

/// A shell that replaced itself by this command (`exec`) may have left children, such as `tee`, that are not the program's.
pub(crate) struct Tree {
    strangers: Vec<(i32, u64)>,
}

impl Tree {
    /// A process that already descends from this one is a stranger: the program has not been started yet.
    pub fn before_the_program() -> Self {
        let seen = all();
        let strangers = Self { strangers: Vec::new() }.among(&seen).into_iter();
        Self { strangers: strangers.filter_map(|process| Some((process, seen.get(&process)?.started))).collect() }
    }

    pub fn processes(&self) -> Vec<Pid> {
        let seen = all();
        let runs = |process: &i32| seen.get(process).is_some_and(|seen| !seen.has_ended());
        self.among(&seen).into_iter().filter(runs).filter_map(Pid::from_raw).collect()
    }

    /// Ends them all: by SIGTERM, and after a second by SIGKILL.
    pub fn end(&self) {
        for look in 0..MOST_LOOKS {
            let left = self.processes();
            if left.is_empty() {
                return;
            }
            if look == 0 || look >= LOOKS_BEFORE_KILL {
                let signal = if look == 0 { Signal::TERM } else { Signal::KILL };
                left.iter().for_each(|process| send(*process, signal));
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn among(&self, seen: &HashMap<i32, Stat>) -> HashSet<i32> {
        let own = getpid().as_raw_pid();
        let mut found = HashSet::new();
        let mut generation = HashSet::from([own]);
        while !generation.is_empty() {
            let children = seen.iter().filter(|(process, seen)| {
                generation.contains(&seen.parent) && !self.strangers.contains(&(**process, seen.started))
            });
            generation = children.map(|(process, _)| *process).filter(|process| !found.contains(process)).collect();
            found.extend(&generation);
        }
        found
    }
}

pub(super) fn descends(mut process: i32) -> bool {
    let own = getpid().as_raw_pid();
    while process > 1 {
        let Some(seen) = Stat::of(process) else { return false };
        if seen.parent == own {
            return true;
        }
        process = seen.parent;
    }
    false
}

/// Sends a signal. Errors are ignored: the process is gone, or belongs to another user.
pub(super) fn send(process: Pid, signal: Signal) {
    let _ = kill_process(process, signal);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_grandchild_is_the_programs_and_a_child_from_before_is_not() {
        let start = || Command::new("sh").args(["-c", "sleep 30 & wait"]).spawn().unwrap();
        let id = Pid::from_child;
        let child_of = |parent: Pid| loop {
            let is_it = |(_, seen): &(&i32, &Stat)| seen.parent == parent.as_raw_pid();
            if let Some((found, _)) = all().iter().find(is_it) {
                return Pid::from_raw(*found).unwrap();
            }
        };
        let mut before = start();
        let before_it = child_of(id(&before));
        let tree = Tree::before_the_program();
        let mut program = start();
        let grandchild = child_of(id(&program));
        let all = tree.processes();
        assert!(all.contains(&id(&program)) && all.contains(&grandchild), "{all:?}");
        assert!(!all.contains(&id(&before)) && !all.contains(&before_it), "{all:?}");
        assert!(descends(grandchild.as_raw_pid()) && descends(id(&program).as_raw_pid()));
        assert!(!descends(getpid().as_raw_pid()) && !descends(1) && !descends(0));
        [grandchild, before_it].iter().for_each(|process| send(*process, Signal::KILL));
        program.wait().unwrap();
        before.wait().unwrap();
        assert!(!descends(id(&program).as_raw_pid()));
        let mut stays = Command::new("sh").args(["-c", "trap '' TERM; sleep 30 & wait; wait"]).spawn().unwrap();
        child_of(id(&stays));
        tree.end();
        assert!(tree.processes().is_empty());
        stays.wait().unwrap();
    }
}
