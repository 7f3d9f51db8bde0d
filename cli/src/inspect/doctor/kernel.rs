//! The system calls and the parts of `/proc` that the kernel lacks, or a container engine's filter refuses.
//!
//! Must not: try a call that could change anything.

use super::finding::Findings;
use crate::folder::proc_is_mounted;
use crate::machine::system;
use nix::sched::{unshare, CloneFlags};
use nix::sys::uio::{process_vm_readv, RemoteIoVec};
use rustix::thread::{membarrier_query, MembarrierQuery};
use std::io::IoSliceMut;

/// Whether `/proc` is there, and the calls for memory, for barriers and for descriptors of one's own are allowed.
type Allowed = [bool; 4];

pub(super) fn look(found: &mut Findings) {
    let has_barriers = membarrier_query().contains(MembarrierQuery::PRIVATE_EXPEDITED);
    let has_own_descriptors = system::has_close_range() || gets_own_descriptors();
    judge([proc_is_mounted(), reads_memory(), has_barriers, has_own_descriptors], found);
}

fn judge([proc, memory, membarrier, own_descriptors]: Allowed, found: &mut Findings) {
    const OR_A_FILTER: &str =
        "or, in a container, a newer engine, or a seccomp profile that allows it (docker run --security-opt \
                               seccomp=FILE; Kubernetes: securityContext.seccompProfile)";
    let table = [
        (
            proc,
            "/proc is not mounted: a hang is prevented and reported as elsewhere, but without stacks, without Python's, and without what other \
             threads do; report PID, top and --timeout's end of what the program has started need it as well",
            "mount -t proc proc /proc (bwrap --proc /proc; chroot: mount it before)".to_owned(),
        ),
        (
            memory,
            "process_vm_readv is refused: stacks are read by /proc/self/mem, and what the host's memory holds where a stream waits for a value \
             is not looked at",
            "in a container: docker run --cap-add SYS_PTRACE; Kubernetes: capabilities.add: [SYS_PTRACE]; or a seccomp profile that allows it"
                .to_owned(),
        ),
        (
            membarrier,
            "membarrier is refused: nothing is lost, and each launch takes some nanoseconds more",
            format!("Linux 4.14 or newer, {OR_A_FILTER}"),
        ),
        (
            own_descriptors,
            "close_range and unshare are refused: the guard's log shares the program's descriptor numbers, each for the moment of a write",
            format!("Linux 5.9 or newer, {OR_A_FILTER}"),
        ),
    ];
    let refused: Vec<_> = table.iter().filter(|(allowed, ..)| !allowed).collect();
    if refused.is_empty() {
        found.ok("it has what the guard uses, and /proc is mounted");
    }
    refused.into_iter().for_each(|(_, what, todo)| found.note(*what, todo));
}

/// Whether a process may read its own memory by the system call.
fn reads_memory() -> bool {
    let (own, mut read) = ([7u8; 8], [0u8; 8]);
    let from = RemoteIoVec { base: own.as_ptr() as usize, len: own.len() };
    process_vm_readv(nix::unistd::getpid(), &mut [IoSliceMut::new(&mut read)], &[from]) == Ok(own.len()) && read == own
}

/// Whether a thread gets a table of descriptors of its own, which an old kernel makes otherwise.
fn gets_own_descriptors() -> bool {
    let tries = std::thread::Builder::new().spawn(|| unshare(CloneFlags::CLONE_FILES).is_ok());
    tries.is_ok_and(|tries| tries.join().unwrap_or(false))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspect::doctor::finding::Level;

    #[test]
    fn each_refusal_is_a_note_of_its_own() {
        let all: Allowed = [true; 4];
        let said = |allowed| {
            let mut found = Findings::default();
            judge(allowed, &mut found);
            found.all().iter().map(|finding| (finding.level, finding.what.clone())).collect::<Vec<_>>()
        };
        assert_eq!(said(all).iter().map(|(level, _)| *level).collect::<Vec<_>>(), [Level::Ok]);
        let each = [
            "/proc is not mounted",
            "process_vm_readv is refused",
            "membarrier is refused",
            "close_range and unshare are refused",
        ];
        for (refused, first) in each.into_iter().enumerate() {
            let said = said(std::array::from_fn(|at| at != refused));
            assert!(said.len() == 1 && said[0].0 == Level::Note && said[0].1.starts_with(first), "{said:?}");
        }
    }
}
