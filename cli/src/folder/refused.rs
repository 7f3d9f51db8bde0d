//! Why the kernel does not let this command look into a process, and the setting to change: ptrace(2), "Ptrace access mode checking".
//!
//! Must not: name a user or a setting that does not forbid the look. One sentence names all rules that this command cannot tell apart.

use crate::folder::process::{exists, numbers, proc_is_mounted, Status};
use crate::machine::files;
use crate::words::Failure;
use lazyguard_core::tasks::capabilities;
use nix::errno::Errno;
use rustix::process::getuid;
use std::os::unix::fs::MetadataExt as _;
use std::{fs, io};

const SYS_PTRACE: u32 = 19;

#[derive(Clone, Copy, Default)]
struct Facts {
    own: u32,
    may_trace: bool,
    /// The owner of its files in `/proc/PID`: root for a process that may not be dumped, none for one that `/proc` hides.
    owner: Option<u32>,
    yama: u32,
}

impl Facts {
    fn of(process: u32) -> Self {
        let read = |path: &str| files::read_text(path).unwrap_or_default();
        Self {
            own: getuid().as_raw(),
            may_trace: capabilities(&read("/proc/self/status")).is_some_and(|set| set >> SYS_PTRACE & 1 == 1),
            // The folder itself belongs to the process's user in any case.
            owner: fs::metadata(format!("/proc/{process}/stat")).ok().map(|about| about.uid()),
            yama: read("/proc/sys/kernel/yama/ptrace_scope").trim().parse().unwrap_or(0),
        }
    }

    fn rule(&self) -> String {
        let asks =
            "give it CAP_SYS_PTRACE (docker run --cap-add SYS_PTRACE; Kubernetes: capabilities.add: [SYS_PTRACE])";
        let Self { own, yama, .. } = self;
        match self.owner {
            None => format!("/proc does not show it (hidepid, or another container): run this command as root, or {asks}"),
            Some(owner) if owner != *own && !self.may_trace => format!(
                "it belongs to user {owner}, and this command runs as user {own}; to user 0 also belongs what has called prctl(PR_SET_DUMPABLE, 0) or \
                 has changed its user: run this command as user {owner}, or {asks}"
            ),
            Some(_) if *yama == 3 || *yama > 0 && !self.may_trace => format!(
                "kernel.yama.ptrace_scope is {yama} (1: children alone, 2: administrators alone, 3: no process, until a restart of the machine): sudo \
                 sysctl kernel.yama.ptrace_scope=0; or {asks}"
            ),
            Some(_) => OTHERS.to_owned(),
        }
    }
}

const NO_PROC: &str =
    "runs, and cannot be looked into: /proc is not mounted here, by which alone another process can be seen: mount -t proc proc /proc";

pub(crate) const NO_MEMORY: &str = "it has no memory of its own: it is a thread of the kernel, or has ended";

const OTHERS: &str = "a seccomp filter, a user namespace or a security module forbids it: docker run --security-opt seccomp=unconfined or --cap-add \
                      SYS_PTRACE; Kubernetes: securityContext.seccompProfile.type: Unconfined; SELinux: sudo setsebool deny_ptrace off; AppArmor: \
                      the profile needs a ptrace rule";

pub(crate) fn maps_of(process: u32) -> Result<String, Failure> {
    files::read_lossy(files::about_memory(process, "maps")).map_err(|error| {
        let why = match Status::of(process) {
            Status::Gone => "there is no process with this id, and no folder of this name".to_owned(),
            _ => why(process, &error),
        };
        Failure::Input(format!("process {process}: {why}"))
    })
}

pub(crate) fn why(process: u32, error: &io::Error) -> String {
    match Status::of(process) {
        Status::Gone => return "there is no process with this id".to_owned(),
        Status::Hidden if !exists(process) => return "there is no process with this id".to_owned(),
        Status::Hidden if !proc_is_mounted() => return NO_PROC.to_owned(),
        _ => {}
    }
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound => {
            format!("runs, and cannot be looked into: {}", Facts::of(process).rule())
        }
        // A process without memory runs no program, though it has a number.
        _ if error.raw_os_error() == Some(Errno::ESRCH as i32) => NO_MEMORY.to_owned(),
        _ => format!("cannot be looked into: {error}"),
    }
}

/// Who may read its memory, as has been done before, may stop it too: but for a tracer and what a rule for this one call forbids.
pub(crate) fn why_not_stopped(process: u32, error: Errno) -> String {
    let status = files::read_text(format!("/proc/{process}/status")).unwrap_or_default();
    let why = match numbers(&status, "TracerPid:").first() {
        Some(tracer @ 1..) => format!("process {tracer} traces it already, as a debugger does"),
        _ => OTHERS.to_owned(),
    };
    format!("no thread could be stopped for its registers ({error}): stacks of running threads are missing and others may be short: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_that_forbids_it_is_named() {
        let own = Facts { own: 7, owner: Some(7), ..Facts::default() };
        let says = |facts: Facts, expect: &str| {
            let rule = facts.rule();
            assert!(rule.contains(expect), "{expect}: {rule}");
        };
        says(Facts { yama: 1, ..own }, "sysctl kernel.yama.ptrace_scope=0");
        says(Facts { yama: 3, may_trace: true, ..own }, "ptrace_scope is 3 ");
        says(Facts { owner: Some(9), yama: 1, ..own }, "belongs to user 9, and this command runs as user 7");
        says(Facts { owner: Some(0), yama: 1, ..own }, "PR_SET_DUMPABLE");
        says(Facts { owner: None, yama: 1, ..own }, "hidepid");
        for may_trace in [true, false] {
            says(Facts { may_trace, yama: u32::from(may_trace), ..own }, "seccomp filter");
        }
        says(Facts { owner: Some(9), may_trace: true, ..own }, "security module");
    }
}
