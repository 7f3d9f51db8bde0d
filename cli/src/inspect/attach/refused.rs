//! Why the kernel does not let this command look into a process, and the setting to change: the rules of ptrace(2), "Ptrace access mode
//! checking", in its order.
//!
//! Must not: name a rule that does not forbid it; where no rule is found, say so.

use crate::folder::{exists, numbers, proc_is_mounted, Status, NO_PROC};
use crate::machine::files;
use lazyguard_core::tasks::capabilities;
use nix::errno::Errno;
use rustix::process::{getgid, getuid};
use std::os::unix::fs::MetadataExt as _;
use std::{fs, io};

const SYS_PTRACE: u32 = 19;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Facts {
    own: (u32, u32),
    may_trace: bool,
    /// The process's user ids and group ids: real, effective, saved; empty where they cannot be read.
    users: Vec<u32>,
    groups: Vec<u32>,
    /// The owner of its files in `/proc/PID`: root for a process that may not be dumped.
    owner: Option<u32>,
    tracer: u32,
    other_namespace: bool,
    yama: Option<u32>,
    filtered: bool,
    hidepid: Option<String>,
    modules: String,
    label: String,
}

impl Facts {
    fn of(process: u32) -> Self {
        let read = |path: String| files::read_text(path).unwrap_or_default();
        let (status, own) = (read(format!("/proc/{process}/status")), read("/proc/self/status".to_owned()));
        let three = |name| numbers(&status, name).into_iter().take(3).collect();
        let namespace = |who: &str| fs::read_link(format!("/proc/{who}/ns/user")).ok();
        let mounts = read("/proc/self/mountinfo".to_owned());
        Self {
            own: (getuid().as_raw(), getgid().as_raw()),
            may_trace: capabilities(&own).is_some_and(|set| set >> SYS_PTRACE & 1 == 1),
            users: three("Uid:"),
            groups: three("Gid:"),
            // The folder itself belongs to the process's user in any case.
            owner: fs::metadata(format!("/proc/{process}/stat")).ok().map(|about| about.uid()),
            tracer: numbers(&status, "TracerPid:").first().copied().unwrap_or(0),
            other_namespace: namespace(&process.to_string()).is_some_and(|other| Some(other) != namespace("self")),
            yama: read("/proc/sys/kernel/yama/ptrace_scope".to_owned()).trim().parse().ok(),
            filtered: numbers(&own, "Seccomp:") == [2],
            hidepid: hidepid(&mounts),
            modules: read("/sys/kernel/security/lsm".to_owned()).trim().to_owned(),
            label: read(format!("/proc/{process}/attr/current")).trim_end_matches(['\0', '\n']).to_owned(),
        }
    }

    fn is_own(&self) -> bool {
        let all = |ids: &[u32], own| !ids.is_empty() && ids.iter().all(|id| *id == own);
        all(&self.users, self.own.0) && all(&self.groups, self.own.1)
    }

    fn rule(&self) -> String {
        let asks = "run this command as root, or give it CAP_SYS_PTRACE (docker run --cap-add SYS_PTRACE; Kubernetes: capabilities.add: [SYS_PTRACE])";
        let user = self.users.first().or(self.owner.as_ref());
        match user {
            None => return self.hidden(),
            Some(_) if self.may_trace && self.other_namespace => {
                return "it is in another user namespace, where CAP_SYS_PTRACE of this one does not count: run this command where the process was \
                        started, or in the namespace above both"
                    .to_owned();
            }
            Some(_) if self.may_trace => return self.module(),
            Some(user) if !self.is_own() => {
                let (own_user, own_group) = self.own;
                return match *user == own_user {
                    true => format!(
                        "its user or group ids are not all those of this command (user {own_user}, group {own_group}), as those of a set-user-id \
                         program: {asks}"
                    ),
                    false => format!("it belongs to user {user}, and this command runs as user {own_user}: run it as user {user}; or {asks}"),
                };
            }
            Some(_) => {}
        }
        if self.owner.is_some_and(|owner| owner != self.own.0) {
            return format!(
                "it may not be dumped, though it is this user's: it has called prctl(PR_SET_DUMPABLE, 0), has changed its user, or its program's file \
                 cannot be read: {asks}"
            );
        }
        match self.yama {
            Some(1) => format!(
                "kernel.yama.ptrace_scope is 1: a process may look into its own children alone: sudo sysctl kernel.yama.ptrace_scope=0; or {asks}"
            ),
            Some(2) => format!("kernel.yama.ptrace_scope is 2: only an administrator may look into processes: {asks}"),
            Some(3) => "kernel.yama.ptrace_scope is 3: no process may look into another one, and only a restart of the machine changes that".to_owned(),
            _ => self.module(),
        }
    }

    fn hidden(&self) -> String {
        match &self.hidepid {
            Some(hidepid) => format!(
                "it exists, and /proc does not show it: it is mounted with {hidepid}, so that only a process's own user and root see it: run this \
                 command as that user or as root"
            ),
            None => "it exists, and /proc does not show it: is the /proc here that of another container?".to_owned(),
        }
    }

    fn module(&self) -> String {
        let mut active = vec!["selinux", "apparmor", "smack", "tomoyo", "landlock", "bpf"];
        active.retain(|name| self.modules.split(',').any(|module| module == *name));
        if active.is_empty() {
            let unknown = "no rule is known that forbids it; it may have a capability that this command has not";
            return if self.filtered { FILTER } else { unknown }.to_owned();
        }
        let label = Some(&self.label).filter(|label| !label.is_empty());
        let label = label.map(|label| format!(" (the process's label is {label:?})")).unwrap_or_default();
        let (active, of_each) =
            (active.join(", "), "SELinux: sudo setsebool deny_ptrace off; AppArmor: the profile needs a ptrace rule");
        format!("a security module forbids it, one of {active}{label}: {of_each}")
    }
}

pub(super) const NO_MEMORY: &str = "it has no memory of its own: it is a thread of the kernel, or has ended";

const FILTER: &str = "a seccomp filter is on this command, as container engines set one: docker run --security-opt seccomp=unconfined or --cap-add \
                      SYS_PTRACE; Kubernetes: securityContext.seccompProfile.type: Unconfined";

fn hidepid(mounts: &str) -> Option<String> {
    let proc = mounts.lines().rfind(|line| line.split(' ').nth(4) == Some("/proc"))?;
    let option = proc.split([' ', ',']).find(|option| option.starts_with("hidepid="))?;
    (!matches!(option, "hidepid=0" | "hidepid=off")).then(|| option.to_owned())
}

pub(super) fn why(process: u32, error: &io::Error) -> String {
    match Status::of(process) {
        Status::Gone => return "there is no process with this id".to_owned(),
        Status::Hidden if !exists(process) => return "there is no process with this id".to_owned(),
        Status::Hidden if !proc_is_mounted() => return format!("runs, and may not be looked into: {NO_PROC}"),
        _ => {}
    }
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound => {
            format!("runs, and may not be looked into: {}", Facts::of(process).rule())
        }
        // A process without memory runs no program, though it has a number.
        _ if error.raw_os_error() == Some(Errno::ESRCH as i32) => NO_MEMORY.to_owned(),
        _ => format!("cannot be looked into: {error}"),
    }
}

pub(super) fn why_not_stopped(process: u32, error: Errno) -> String {
    not_stopped(&Facts::of(process), error)
}

fn not_stopped(facts: &Facts, error: Errno) -> String {
    let why = match (error, facts.tracer) {
        (Errno::ENOSYS, _) => "this kernel, or what stands in for one, has no ptrace".to_owned(),
        (_, tracer @ 1..) => format!("process {tracer} traces it already, as a debugger does"),
        _ if facts.filtered => FILTER.to_owned(),
        _ => facts.rule(),
    };
    format!("no thread could be stopped for its registers, so stacks of running threads are missing and others may be short: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Facts {
        Facts { own: (7, 8), users: vec![7; 3], groups: vec![8; 3], owner: Some(7), ..Facts::default() }
    }

    #[test]
    fn the_rule_that_forbids_it_is_named() {
        let says = |facts: Facts, expect: &str| {
            let rule = facts.rule();
            assert!(rule.contains(expect), "{expect}: {rule}");
        };
        says(Facts { yama: Some(1), ..own() }, "sysctl kernel.yama.ptrace_scope=0");
        says(Facts { yama: Some(2), ..own() }, "ptrace_scope is 2");
        says(Facts { yama: Some(3), ..own() }, "a restart of the machine");
        says(Facts { yama: Some(0), ..own() }, "no rule is known");
        says(
            Facts { users: vec![9; 3], owner: Some(9), yama: Some(1), ..own() },
            "belongs to user 9, and this command runs as user 7",
        );
        says(Facts { users: vec![7, 0, 0], ..own() }, "set-user-id");
        says(Facts { groups: vec![8, 8, 5], ..own() }, "set-user-id");
        says(Facts { owner: Some(0), yama: Some(1), ..own() }, "PR_SET_DUMPABLE");
        says(Facts { may_trace: true, other_namespace: true, ..own() }, "user namespace");
        says(
            Facts {
                modules: "lockdown,capability,yama,apparmor".to_owned(),
                label: "docker-default".to_owned(),
                ..own()
            },
            "docker-default",
        );
        says(Facts { filtered: true, ..own() }, "seccomp");
        let hidden =
            Facts { users: vec![], groups: vec![], owner: None, hidepid: Some("hidepid=2".to_owned()), ..own() };
        says(hidden.clone(), "mounted with hidepid=2");
        says(Facts { hidepid: None, ..hidden }, "another container");
    }

    #[test]
    fn a_stop_that_is_refused_says_why() {
        let says = |facts: Facts, error, expect: &str| {
            let text = not_stopped(&facts, error);
            assert!(text.contains(expect), "{expect}: {text}");
        };
        says(Facts { tracer: 12, filtered: true, ..own() }, Errno::EPERM, "process 12 traces it");
        says(Facts { filtered: true, ..own() }, Errno::EPERM, "seccomp");
        says(own(), Errno::ENOSYS, "has no ptrace");
    }

    #[test]
    fn how_proc_is_mounted_is_read() {
        let line = |options: &str| {
            format!("22 1 0:21 / / rw - ext4 a rw\n23 22 0:22 / /proc rw,nosuid - proc proc {options}\n")
        };
        assert_eq!(hidepid(&line("rw,hidepid=2,gid=4")), Some("hidepid=2".to_owned()));
        assert_eq!(hidepid(&line("rw,hidepid=invisible")), Some("hidepid=invisible".to_owned()));
        assert_eq!((hidepid(&line("rw")), hidepid(&line("rw,hidepid=off")), hidepid("")), (None, None, None));
    }
}
