//! How many more threads may be started, and whether that leaves room for the program's.
//!
//! A user's limit (`RLIMIT_NPROC`, `ulimit -u`) and a control group's (`pids.max`) count threads. A thread that the program cannot start is a
//! failure that it does not have without the guard. So the guard starts its own two only where there are [`enough`].
//!
//! Must not: ask the system except for files beneath a root, which is another folder in a test.

use crate::folder::{entries_of, Entry};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

fn text(root: &Path, path: &str) -> Option<String> {
    fs::read_to_string(root.join(path.trim_start_matches('/'))).ok()
}

#[derive(Clone, Copy, Debug)]
pub struct User {
    pub id: u32,
    pub most: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Left {
    /// Threads that may still be started, at least.
    pub threads: u64,
    pub limit: &'static str,
}

/// The watchdog and the log.
const OWN: u64 = 2;

/// Threads that must be left for the guard to start its own: programs make several thread pools by the number of processors, and the driver has
/// some for each device.
pub fn enough(processors: usize) -> u64 {
    OWN + 64 + 4 * processors as u64
}

/// `None` where nothing limits it. A user's processes, perhaps thousands, are counted only where all threads leave fewer than `enough`.
pub fn left(root: &Path, user: Option<User>, enough: u64) -> Option<Left> {
    let group = of_groups(root).map(|threads| Left { threads, limit: "pids.max of the control group" });
    let user = user.filter(|_| !is_privileged(root));
    group.into_iter().chain(user.map(|user| Left { threads: of_user(root, user, enough), limit: "ulimit -u" })).min()
}

/// The least that this process's control groups leave.
fn of_groups(root: &Path) -> Option<u64> {
    let number = |path: String| text(root, &path)?.trim().parse::<u64>().ok();
    let groups = text(root, "/proc/self/cgroup")?;
    let folders = groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        match controllers {
            "" => Some(("/sys/fs/cgroup", path)),
            controllers => controllers.split(',').any(|c| c == "pids").then_some(("/sys/fs/cgroup/pids", path)),
        }
    });
    // Each group above has a limit too. In a container the path may be the host's, of which only the root is there.
    let with_those_above = folders.flat_map(|(mount, path)| {
        let above =
            std::iter::successors(Some(path.trim_end_matches('/')), |path| path.rsplit_once('/').map(|(up, _)| up));
        above.map(move |path| format!("{mount}{path}"))
    });
    let left = with_those_above.filter_map(|folder| {
        Some(number(format!("{folder}/pids.max"))?.saturating_sub(number(format!("{folder}/pids.current"))?))
    });
    left.min()
}

fn is_privileged(root: &Path) -> bool {
    let status = text(root, "/proc/self/status").unwrap_or_default();
    let either = 1 << capability::SYS_ADMIN | 1 << capability::SYS_RESOURCE;
    capabilities(&status).is_some_and(|set| set & either != 0)
}

/// The bits of capabilities, as in `linux/capability.h`.
pub mod capability {
    pub const SETUID: u32 = 7;
    pub const SYS_ADMIN: u32 = 21;
    pub const SYS_RESOURCE: u32 = 24;
}

/// The effective ones in `/proc/PID/status`.
pub fn capabilities(status: &str) -> Option<u64> {
    u64::from_str_radix(status.lines().find_map(|line| line.strip_prefix("CapEff:"))?.trim(), 16).ok()
}

fn of_user(root: &Path, user: User, enough: u64) -> u64 {
    let after = |threads: u64| user.most.saturating_sub(threads);
    all_threads(root).map(after).filter(|&left| left >= enough).unwrap_or_else(|| {
        let processes = entries_of(&root.join("proc")).filter(|entry| {
            let is_process = entry.name().to_str().is_some_and(|name| name.parse::<u32>().is_ok());
            is_process && entry.metadata().is_ok_and(|about| about.uid() == user.id)
        });
        let of = |process: Entry| field(&fs::read_to_string(process.path().join("status")).ok()?, "Threads:");
        after(processes.filter_map(of).sum())
    })
}

/// The threads of all users, by `/proc/loadavg`: `0.20 0.18 0.12 1/80 11206`.
fn all_threads(root: &Path) -> Option<u64> {
    text(root, "/proc/loadavg")?.split_whitespace().nth(3)?.split_once('/')?.1.parse().ok()
}

pub fn field(status: &str, name: &str) -> Option<u64> {
    status.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicU32, Ordering};

    struct Played(PathBuf);

    impl Default for Played {
        fn default() -> Self {
            static NUMBER: AtomicU32 = AtomicU32::new(0);
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let root = std::env::temp_dir().join(format!("lazyguard-tasks-{}-{number}", std::process::id()));
            fs::create_dir_all(&root).unwrap();
            Self(root)
        }
    }

    impl Drop for Played {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    impl Played {
        fn with(self, path: &str, text: &str) -> Self {
            let path = self.0.join(path.trim_start_matches('/'));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
            self
        }

        /// The threads left to the owner of the files, who may have 100.
        fn left_to_user(&self) -> Option<Left> {
            left(&self.0, Some(User { id: fs::metadata(&self.0).unwrap().uid(), most: 100 }), 64)
        }
    }

    #[test]
    fn nothing_is_left_out_of_nothing_known() {
        assert_eq!(left(&Played::default().0, None, 64), None);
    }

    #[test]
    fn a_user_s_threads_are_counted_only_where_those_of_all_are_too_many() {
        let machine = Played::default().with("/proc/loadavg", "0.20 0.18 0.12 1/30 11206\n");
        assert_eq!(machine.left_to_user(), Some(Left { threads: 70, limit: "ulimit -u" }));
        let busy = Played::default()
            .with("/proc/9/stat", "")
            .with("/proc/loadavg", "0.20 0.18 0.12 1/37 11206\n")
            .with("/proc/7/status", "Name:\tx\nThreads:\t12\n")
            .with("/proc/8/status", "Name:\ty\nThreads:\t3\n");
        assert_eq!(busy.left_to_user(), Some(Left { threads: 85, limit: "ulimit -u" }));
        let full = busy.with("/proc/9/status", "Threads:\t200\n");
        assert_eq!(full.left_to_user(), Some(Left { threads: 0, limit: "ulimit -u" }));
    }

    #[test]
    fn privileges_go_beyond_a_user_s_limit() {
        for (bits, limited) in [("0000000000000000", true), ("0000000001000000", false), ("0000000000200000", false)] {
            let machine = Played::default().with("/proc/self/status", &format!("CapInh:\t0\nCapEff:\t{bits}\n"));
            assert_eq!(machine.left_to_user().is_some(), limited, "{bits}");
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
        assert_eq!(left(&machine.0, None, 64).map(|left| left.threads), Some(5));
        let in_a_container = Played::default()
            .with("/proc/self/cgroup", "0::/../x\n")
            .with("/sys/fs/cgroup/pids.max", "7\n")
            .with("/sys/fs/cgroup/pids.current", "3\n");
        assert_eq!(left(&in_a_container.0, None, 64).map(|left| left.threads), Some(4));
        let first_version = Played::default()
            .with("/proc/self/cgroup", "8:cpu,pids:/docker/x\n1:name=systemd:/\n")
            .with("/sys/fs/cgroup/pids/pids.max", "9\n")
            .with("/sys/fs/cgroup/pids/pids.current", "10\n");
        assert_eq!(
            first_version.left_to_user(),
            Some(Left { threads: 0, limit: "pids.max of the control group" }),
            "the lesser of the two"
        );
    }

    #[test]
    fn a_bigger_machine_s_programs_start_more_threads() {
        assert_eq!((enough(2), enough(192)), (74, 834));
    }
}
