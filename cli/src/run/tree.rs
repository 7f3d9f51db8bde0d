//! The processes that the program has started, and their children, however far away they have moved.
//!
//! This process is their reaper: whoever loses its parent becomes a child of this one, also a daemon in a session of its own.
//! So what descends from here is all that the program has started, and nothing else is.
//!
//! Must not: touch a process that does not descend from this one.

use nix::errno::Errno;
use nix::sys::signal::{kill, Signal};
use nix::unistd::{getpid, Pid};
use std::collections::{HashMap, HashSet};
use std::fs;

/// What `/proc/PID/stat` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    state: char,
    parent: i32,
}

impl Seen {
    fn of(process: i32) -> Option<Self> {
        Self::read(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
    }

    /// The second field is a name that may hold anything; it ends at the last bracket.
    fn read(stat: &str) -> Option<Self> {
        let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
        Some(Self { state: fields.next()?.chars().next()?, parent: fields.next()?.parse().ok()? })
    }

    fn has_ended(self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

/// Everybody who descends from this process and has not ended.
pub(super) fn descendants() -> Vec<Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let seen: HashMap<i32, Seen> = processes.filter_map(|process| Some((process, Seen::of(process)?))).collect();
    let mut ours = HashSet::from([getpid().as_raw()]);
    // A generation a round.
    loop {
        let before = ours.len();
        let children = seen.iter().filter(|(_, seen)| ours.contains(&seen.parent)).map(|(process, _)| *process);
        let children: Vec<_> = children.collect();
        ours.extend(children);
        if ours.len() == before {
            break;
        }
    }
    let others = ours.into_iter().filter(|process| *process != getpid().as_raw());
    others.filter(|process| seen.get(process).is_some_and(|seen| !seen.has_ended())).map(Pid::from_raw).collect()
}

/// Whether a process descends from this one. One that is gone is nobody's.
pub(super) fn descends(mut process: i32) -> bool {
    let own = getpid().as_raw();
    while process > 1 {
        let Some(seen) = Seen::of(process) else { return false };
        if seen.parent == own {
            return true;
        }
        process = seen.parent;
    }
    false
}

/// Sends a signal to everybody; returns whether there was anybody.
pub(super) fn signal_all(signal: Signal) -> bool {
    let all = descendants();
    for process in &all {
        send(*process, signal);
    }
    !all.is_empty()
}

/// Sends a signal. Whoever has gone meanwhile needs none, and whoever belongs to another user cannot be helped.
pub(super) fn send(process: Pid, signal: Signal) {
    let _: Result<(), Errno> = kill(process, signal);
}

/// The children that have ended and wait to be noticed, by looking at everybody.
pub(super) fn ended_children() -> Vec<Pid> {
    let own = getpid().as_raw();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let ended = |process: &i32| Seen::of(*process).is_some_and(|seen| seen.parent == own && seen.has_ended());
    processes.filter(ended).map(Pid::from_raw).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_grandchild_descends_and_a_stranger_does_not() {
        let mut child = Command::new("sh").args(["-c", "sleep 30 & wait"]).spawn().unwrap();
        let child_pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
        let grandchild = loop {
            let found = descendants()
                .into_iter()
                .find(|p| Seen::of(p.as_raw()).is_some_and(|s| s.parent == child_pid.as_raw()));
            if let Some(found) = found {
                break found;
            }
        };
        assert!(descends(child_pid.as_raw()) && descends(grandchild.as_raw()));
        assert!(!descends(getpid().as_raw()) && !descends(1) && !descends(0));
        send(grandchild, Signal::SIGKILL);
        child.wait().unwrap();
        assert!(!descends(child_pid.as_raw()));
    }

    #[test]
    fn the_parent_is_read_behind_a_name_that_holds_anything() {
        assert_eq!(Seen::read("42 (a) b) Z 7 42 42 0 -1"), Some(Seen { state: 'Z', parent: 7 }));
        assert_eq!(Seen::read("42 (cut"), None);
        assert_eq!(Seen::read(""), None);
    }
}
