//! How many more threads may be started, and whether that leaves room for the program's.
//!
//! Two limits count threads: that of a user (`RLIMIT_NPROC`, `ulimit -u`), over all the user's processes, and that of a control
//! group (`pids.max`). The guard takes two threads from a program that may need all that are left. A thread that the program cannot
//! start is a hang or a failure that it does not have without the guard. So the guard starts its own only where there are
//! [`enough`] for both.
//!
//! Must not: ask the system except through a [`Machine`], so that a test can play one.

use crate::folder::entries_of;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

pub trait Machine {
    /// The text of a file, by its absolute path.
    fn text(&self, path: &str) -> Option<String>;

    fn processes_of(&self, user: u32) -> Vec<u32>;
}

/// A machine whose files lie beneath a folder, `/` for this one.
pub struct Files(pub PathBuf);

impl Files {
    fn at(&self, path: &str) -> PathBuf {
        self.0.join(path.trim_start_matches('/'))
    }
}

impl Machine for Files {
    fn text(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.at(path)).ok()
    }

    fn processes_of(&self, user: u32) -> Vec<u32> {
        let entries = entries_of(&self.at("/proc"));
        let numbered = entries.filter_map(|entry| Some((entry.name().to_str()?.parse().ok()?, entry)));
        numbered.filter(|(_, entry)| entry.metadata().is_ok_and(|about| about.uid() == user)).map(|(n, _)| n).collect()
    }
}

#[derive(Clone, Copy, Debug)]
pub struct User {
    pub id: u32,
    /// The soft limit.
    pub most: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Left {
    /// Threads that may still be started; of a user at least so many.
    pub threads: u64,
    /// Which limit that is, as a person sets it.
    pub limit: &'static str,
}

/// Threads that the guard starts with: the watchdog's and the log's.
const OWN: u64 = 2;

/// How many threads must be left for the guard to start its own, on a machine of so many processors. Those of the program
/// come on top: it makes thread pools by the number of processors, several of them, and the driver has some threads for each
/// device.
pub fn enough(processors: usize) -> u64 {
    OWN + 64 + 4 * processors as u64
}

/// What is left, `None` where nothing limits it. `enough` threads are enough: the user's processes, of which there may
/// be thousands, are counted only where the number of all threads of the machine leaves fewer.
pub fn left(machine: &dyn Machine, user: Option<User>, enough: u64) -> Option<Left> {
    let group = of_groups(machine).map(|threads| Left { threads, limit: "pids.max of the control group" });
    let user = user.filter(|_| !is_privileged(machine));
    let user = user.map(|user| Left { threads: of_user(machine, user, enough), limit: "ulimit -u" });
    group.into_iter().chain(user).min()
}

/// The least that this process's control groups leave, in both versions of them.
fn of_groups(machine: &dyn Machine) -> Option<u64> {
    let number = |path: String| machine.text(&path)?.trim().parse::<u64>().ok();
    let text = machine.text("/proc/self/cgroup")?;
    let folders = text.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        match controllers {
            "" => Some(("/sys/fs/cgroup", path)),
            controllers => controllers.split(',').any(|c| c == "pids").then_some(("/sys/fs/cgroup/pids", path)),
        }
    });
    // Each group above it has a limit of its own. In a container the path may be that of the host, of which only the root is there.
    let with_those_above = folders.flat_map(|(root, path)| {
        let above =
            std::iter::successors(Some(path.trim_end_matches('/')), |path| path.rsplit_once('/').map(|(up, _)| up));
        above.map(move |path| format!("{root}{path}"))
    });
    let left = with_those_above.filter_map(|folder| {
        Some(number(format!("{folder}/pids.max"))?.saturating_sub(number(format!("{folder}/pids.current"))?))
    });
    left.min()
}

/// Whether this process may go beyond the user's limit.
fn is_privileged(machine: &dyn Machine) -> bool {
    let status = machine.text("/proc/self/status").unwrap_or_default();
    let either = 1 << capability::SYS_ADMIN | 1 << capability::SYS_RESOURCE;
    capabilities(&status).is_some_and(|set| set & either != 0)
}

/// Capabilities, by their bits in a set, as `linux/capability.h` numbers them.
pub mod capability {
    pub const SETUID: u32 = 7;
    pub const SYS_ADMIN: u32 = 21;
    pub const SYS_RESOURCE: u32 = 24;
}

/// The effective capabilities in the text of `/proc/PID/status`; `None` where it names none.
pub fn capabilities(status: &str) -> Option<u64> {
    let set = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(set.trim(), 16).ok()
}

fn of_user(machine: &dyn Machine, user: User, enough: u64) -> u64 {
    let after = |threads: u64| user.most.saturating_sub(threads);
    let at_least = all_threads(machine).map(after).filter(|&left| left >= enough);
    at_least.unwrap_or_else(|| {
        let of = |process: &u32| field(&machine.text(&format!("/proc/{process}/status"))?, "Threads:");
        after(machine.processes_of(user.id).iter().filter_map(of).sum())
    })
}

/// The threads of all users, from `/proc/loadavg`: `0.20 0.18 0.12 1/80 11206`.
fn all_threads(machine: &dyn Machine) -> Option<u64> {
    let text = machine.text("/proc/loadavg")?;
    text.split_whitespace().nth(3)?.split_once('/')?.1.parse().ok()
}

/// The number behind a name in `/proc/PID/status`.
pub fn field(status: &str, name: &str) -> Option<u64> {
    status.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::HashMap;

    #[derive(Default)]
    struct Played(HashMap<String, String>, Vec<u32>);

    impl Played {
        fn with(mut self, path: &str, text: &str) -> Self {
            self.0.insert(path.to_owned(), text.to_owned());
            self
        }
    }

    impl Machine for Played {
        fn text(&self, path: &str) -> Option<String> {
            self.0.get(path).cloned()
        }

        fn processes_of(&self, user: u32) -> Vec<u32> {
            assert_eq!(user, 1000);
            self.1.clone()
        }
    }

    const USER: Option<User> = Some(User { id: 1000, most: 100 });

    #[test]
    fn nothing_is_left_out_of_nothing_known() {
        assert_eq!(left(&Played::default(), None, 64), None);
    }

    #[test]
    fn a_user_s_threads_are_counted_only_where_those_of_all_are_too_many() {
        let machine = Played::default().with("/proc/loadavg", "0.20 0.18 0.12 1/30 11206\n");
        assert_eq!(left(&machine, USER, 64), Some(Left { threads: 70, limit: "ulimit -u" }));
        let busy = Played(HashMap::default(), vec![7, 8, 9])
            .with("/proc/loadavg", "0.20 0.18 0.12 1/37 11206\n")
            .with("/proc/7/status", "Name:\tx\nThreads:\t12\n")
            .with("/proc/8/status", "Name:\ty\nThreads:\t3\n");
        assert_eq!(left(&busy, USER, 64), Some(Left { threads: 85, limit: "ulimit -u" }));
        let full = busy.with("/proc/9/status", "Threads:\t200\n");
        assert_eq!(left(&full, USER, 64), Some(Left { threads: 0, limit: "ulimit -u" }));
    }

    #[test]
    fn privileges_go_beyond_a_user_s_limit() {
        for (bits, limited) in [("0000000000000000", true), ("0000000001000000", false), ("0000000000200000", false)] {
            let machine = Played::default().with("/proc/self/status", &format!("CapInh:\t0\nCapEff:\t{bits}\n"));
            assert_eq!(left(&machine, USER, 64).is_some(), limited, "{bits}");
        }
    }

    #[test]
    fn each_control_group_above_has_a_limit() {
        let machine = Played::default()
            .with("/proc/self/cgroup", "0::/a/b\n")
            .with("/sys/fs/cgroup/a/b/pids.max", "max\n")
            .with("/sys/fs/cgroup/a/b/pids.current", "5\n")
            .with("/sys/fs/cgroup/a/pids.max", "50\n")
            .with("/sys/fs/cgroup/a/pids.current", "45\n");
        assert_eq!(left(&machine, None, 64).map(|left| left.threads), Some(5));
        let in_a_container = Played::default()
            .with("/proc/self/cgroup", "0::/../x\n")
            .with("/sys/fs/cgroup/pids.max", "7\n")
            .with("/sys/fs/cgroup/pids.current", "3\n");
        assert_eq!(left(&in_a_container, None, 64).map(|left| left.threads), Some(4));
        let first_version = Played::default()
            .with("/proc/self/cgroup", "8:cpu,pids:/docker/x\n1:name=systemd:/\n")
            .with("/sys/fs/cgroup/pids/pids.max", "9\n")
            .with("/sys/fs/cgroup/pids/pids.current", "10\n");
        assert_eq!(
            left(&first_version, USER, 64),
            Some(Left { threads: 0, limit: "pids.max of the control group" }),
            "the lesser of the two"
        );
    }

    #[test]
    fn a_bigger_machine_s_programs_start_more_threads() {
        assert_eq!((enough(2), enough(192)), (74, 834));
    }
}
