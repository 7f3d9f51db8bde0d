//! Limits of this process, which a program that is started from here has as well.

use super::finding::{About, Findings};
use super::machine::Machine;
use crate::files;
use lazyguard_core::settings::{OnHang, Settings};
use rustix::process::{getrlimit, Resource};
use std::os::unix::fs::MetadataExt as _;

/// Threads that the guard has at most: of the log, the watchdog, its questions, and what it starts on a hang; and what the driver
/// starts for each device.
const THREADS: u64 = 16;

/// What is known of them.
struct Limits {
    /// Of threads, what is left.
    threads_left: Option<(u64, &'static str)>,
    core_bytes: Option<u64>,
    address_space: Option<u64>,
    /// Core files go to a program.
    core_is_piped: bool,
    first_of_container: bool,
    system_calls_filtered: bool,
}

/// Looks at them.
pub(super) fn look(machine: &Machine, settings: &Settings, found: &mut Findings) {
    judge(&Limits::of(machine), settings, found);
}

fn judge(limits: &Limits, settings: &Settings, found: &mut Findings) {
    let mut all_well = true;
    let mut note = |what: String, todo: &str| {
        all_well = false;
        found.note(About::Limits, what, todo);
    };
    if let Some((left, which)) = limits.threads_left.filter(|(left, _)| *left < THREADS) {
        note(
            format!("only {left} more threads may be started ({which}): without its threads the guard sees no hang"),
            "raise the limit, or end what else runs here",
        );
    }
    if let Some(bytes) = limits.address_space {
        note(
            format!(
                "the address space is limited to {} MiB (ulimit -v): CUDA reserves many times the device's memory",
                bytes >> 20
            ),
            "ulimit -v unlimited",
        );
    }
    if matches!(settings.on_hang, OnHang::Abort) {
        if limits.core_bytes == Some(0) && !limits.core_is_piped {
            note(
                "LAZYGUARD_ON_HANG=abort leaves no core file here (ulimit -c is 0)".to_owned(),
                "ulimit -c unlimited; the report does not need one",
            );
        }
        if limits.first_of_container {
            note(
                "the first process of a container cannot be ended by its own signal: LAZYGUARD_ON_HANG=abort ends it with status 134"
                    .to_owned(),
                "start the container with an init process (docker run --init) for a core file",
            );
        }
    }
    if limits.system_calls_filtered {
        note(
            "system calls are filtered here (seccomp), as in a container".to_owned(),
            "none as long as a report has stacks; else allow process_vm_readv",
        );
    }
    if all_well {
        found.ok(About::Limits, "no limit of this process stands in the guard's way");
    }
}

impl Limits {
    fn of(machine: &Machine) -> Self {
        let status = machine.text("/proc/self/status").unwrap_or_default();
        let pattern = machine.text("/proc/sys/kernel/core_pattern").unwrap_or_default();
        Self {
            threads_left: threads_left(machine),
            core_bytes: getrlimit(Resource::Core).current,
            address_space: getrlimit(Resource::As).current,
            core_is_piped: pattern.starts_with('|'),
            first_of_container: std::process::id() == 1,
            system_calls_filtered: field(&status, "Seccomp:") == Some(2),
        }
    }
}

/// The number behind a name in `/proc/PID/status`.
fn field(status: &str, name: &str) -> Option<u64> {
    status.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()
}

/// How many more threads may be started, by the limit that leaves the fewest.
fn threads_left(machine: &Machine) -> Option<(u64, &'static str)> {
    let number = |path: String| machine.text(&path)?.trim().parse::<u64>().ok();
    let group = machine.text("/proc/self/cgroup").and_then(|text| {
        text.lines().find_map(|line| line.strip_prefix("0::")).map(|group| format!("/sys/fs/cgroup{group}"))
    });
    let by_group = group.and_then(|group| {
        let most = number(format!("{group}/pids.max"))?;
        Some((most.saturating_sub(number(format!("{group}/pids.current"))?), "pids.max of the control group"))
    });
    // The superuser is not limited by their number.
    let user = rustix::process::getuid();
    let by_user = getrlimit(Resource::Nproc)
        .current
        .filter(|_| !user.is_root())
        .map(|most| (most.saturating_sub(threads_of(machine, user.as_raw())), "ulimit -u"));
    by_group.into_iter().chain(by_user).min()
}

/// The threads that a user has.
fn threads_of(machine: &Machine, user: u32) -> u64 {
    let entries = std::fs::read_dir(machine.at("/proc")).into_iter().flatten().flatten();
    let own = entries
        .filter(|entry| entry.file_name().to_str().is_some_and(|name| name.parse::<u32>().is_ok()))
        .filter(|entry| entry.metadata().is_ok_and(|about| about.uid() == user));
    own.filter_map(|entry| field(&files::read_text(entry.path().join("status")).ok()?, "Threads:")).sum()
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    fn notes(limits: &Limits, on_hang: OnHang) -> Vec<String> {
        let mut found = Findings::default();
        judge(limits, &Settings { on_hang, ..Settings::default() }, &mut found);
        let all = found.all().iter();
        all.filter(|finding| finding.level == Level::Note).map(|finding| finding.what.clone()).collect()
    }

    #[test]
    fn limits_count_where_they_matter() {
        let none = || Limits {
            threads_left: Some((1000, "ulimit -u")),
            core_bytes: Some(0),
            address_space: None,
            core_is_piped: false,
            first_of_container: false,
            system_calls_filtered: false,
        };
        assert_eq!(notes(&none(), OnHang::Report), Vec::<String>::new());
        assert!(notes(&none(), OnHang::Abort)[0].contains("no core file"));
        assert_eq!(notes(&Limits { core_is_piped: true, ..none() }, OnHang::Abort), Vec::<String>::new());
        assert_eq!(notes(&Limits { core_bytes: None, ..none() }, OnHang::Abort), Vec::<String>::new());
        let few = Limits { threads_left: Some((3, "ulimit -u")), ..none() };
        assert!(notes(&few, OnHang::Report)[0].starts_with("only 3 more threads"));
        assert!(notes(&Limits { address_space: Some(1 << 30), ..none() }, OnHang::Report)[0].contains("1024 MiB"));
        assert!(notes(&Limits { system_calls_filtered: true, ..none() }, OnHang::Report)[0].contains("seccomp"));
        let first = Limits { first_of_container: true, core_bytes: None, ..none() };
        assert!(notes(&first, OnHang::Abort)[0].contains("134") && notes(&first, OnHang::Report).is_empty());
    }

    #[test]
    fn the_status_of_a_process_is_read() {
        let status = "Name:\tx\nThreads:\t12\nSeccomp:\t2\nSeccomp_filters:\t1\n";
        assert_eq!(
            (field(status, "Threads:"), field(status, "Seccomp:"), field(status, "None:")),
            (Some(12), Some(2), None)
        );
    }
}
