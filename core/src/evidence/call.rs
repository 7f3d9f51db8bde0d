//! The system calls in which a thread can stay, by their kind.
//!
//! Must not: name a call by a number of another processor.

use crate::stack::Machine;

/// A kind of call. The argument of each that is a descriptor is the first, except where its comment says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// On a descriptor: the verb of a sentence about a file.
    On(&'static str),
    /// On a path, which is the argument of this number.
    Path(&'static str, usize),
    /// On a socket.
    Receives,
    Sends,
    Connects,
    Accepts,
    /// Descriptors in an array, their number, and a time limit in milliseconds; or the limit lies in memory.
    Poll,
    PollUntil,
    Select,
    Epoll,
    Futex,
    Sleeps,
    /// For a child: the number of the argument that is its id, or all its children.
    WaitPid,
    WaitId,
    FileLock,
    /// A file lock only with some commands.
    Control,
    Device,
    Signal,
    /// A semaphore or queue that processes share.
    Shared,
    /// Mapping, unmapping, and advice on memory.
    Map,
}

use Kind::{
    Accepts, Connects, Control, Device, Epoll, FileLock, Futex, Map, On, Path, Poll, PollUntil, Receives, Select,
    Sends, Shared, Signal, Sleeps, WaitId, WaitPid,
};

/// Numbers on x86-64 and AArch64, or -1.
const CALLS: &[(i64, i64, Kind)] = &[
    (0, 63, On("reads")),
    (17, 67, On("reads")),
    (19, 65, On("reads")),
    (295, 69, On("reads")),
    (327, 286, On("reads")),
    (217, 61, On("lists")),
    (78, -1, On("lists")),
    (1, 64, On("writes")),
    (18, 68, On("writes")),
    (20, 66, On("writes")),
    (296, 70, On("writes")),
    (328, 287, On("writes")),
    (40, 71, On("writes")),
    (285, 47, On("extends")),
    (77, 46, On("cuts")),
    (74, 82, On("writes back")),
    (75, 83, On("writes back")),
    (277, 84, On("writes back")),
    (306, 267, On("writes back")),
    (3, 57, On("closes")),
    (5, 80, On("examines")),
    (8, 62, On("seeks in")),
    (187, 213, On("reads ahead in")),
    (2, -1, Path("opens", 0)),
    (257, 56, Path("opens", 1)),
    (437, 437, Path("opens", 1)),
    (85, -1, Path("opens", 0)),
    (4, -1, Path("examines", 0)),
    (6, -1, Path("examines", 0)),
    (21, -1, Path("examines", 0)),
    (89, -1, Path("examines", 0)),
    (262, 79, Path("examines", 1)),
    (332, 291, Path("examines", 1)),
    (269, 48, Path("examines", 1)),
    (439, 439, Path("examines", 1)),
    (267, 78, Path("examines", 1)),
    (137, 43, Path("examines", 0)),
    (82, -1, Path("renames", 0)),
    (264, 38, Path("renames", 1)),
    (316, 276, Path("renames", 1)),
    (87, -1, Path("removes", 0)),
    (84, -1, Path("removes", 0)),
    (263, 35, Path("removes", 1)),
    (83, -1, Path("makes", 0)),
    (258, 34, Path("makes", 1)),
    (45, 207, Receives),
    (47, 212, Receives),
    (299, 243, Receives),
    (44, 206, Sends),
    (46, 211, Sends),
    (307, 269, Sends),
    (42, 203, Connects),
    (43, 202, Accepts),
    (288, 242, Accepts),
    (7, -1, Poll),
    (271, 73, PollUntil),
    (23, -1, Select),
    (270, 72, Select),
    (232, -1, Epoll),
    (281, 22, Epoll),
    (441, 441, Epoll),
    (202, 98, Futex),
    (35, 101, Sleeps),
    (230, 115, Sleeps),
    (61, 260, WaitPid),
    (247, 95, WaitId),
    (73, 32, FileLock),
    (72, 25, Control),
    (16, 29, Device),
    (34, -1, Signal),
    (128, 137, Signal),
    (130, 133, Signal),
    (65, 193, Shared),
    (220, 192, Shared),
    (70, 188, Shared),
    (69, 189, Shared),
    (243, 183, Shared),
    (9, 222, Map),
    (10, 226, Map),
    (11, 215, Map),
    (12, 214, Map),
    (25, 216, Map),
    (26, 227, Map),
    (28, 233, Map),
];

/// A line of `syscall`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum InKernel {
    Runs,
    /// Blocked in a call, or outside of one (a page fault).
    Call {
        number: i64,
        arguments: [u64; 6],
    },
    Outside,
}

impl InKernel {
    pub fn read(text: &str) -> Option<Self> {
        let mut fields = text.split_ascii_whitespace();
        let first = fields.next()?;
        if first == "running" {
            return Some(Self::Runs);
        }
        let number = first.parse().ok()?;
        if number < 0 {
            return Some(Self::Outside);
        }
        let mut arguments = [0; 6];
        for (into, field) in arguments.iter_mut().zip(fields) {
            *into = u64::from_str_radix(field.strip_prefix("0x")?, 16).ok()?;
        }
        Some(Self::Call { number, arguments })
    }
}

/// The stack pointer and the program counter, of a thread that sleeps in a system call.
pub(super) fn place(text: &str) -> Option<(u64, u64)> {
    let mut fields = text.split_ascii_whitespace();
    fields.next().filter(|first| *first != "running" && !first.starts_with('-'))?;
    let hex = |field: &str| u64::from_str_radix(field.strip_prefix("0x")?, 16).ok();
    let (address, stack) = (hex(fields.next_back()?)?, hex(fields.next_back()?)?);
    Some((stack, address))
}

pub(super) fn kind(machine: Machine, wanted: i64) -> Option<Kind> {
    let number = |row: &&(i64, i64, Kind)| match machine {
        Machine::X86_64 => row.0,
        Machine::Aarch64 => row.1,
    };
    CALLS.iter().find(|row| wanted >= 0 && number(row) == wanted).map(|row| row.2)
}

/// A kind by the kernel's function in which the thread sleeps: where the call itself may not be read.
pub(super) fn by_function(function: &str) -> Option<Kind> {
    const FUNCTIONS: &[(&str, Kind)] = &[
        ("wait_for_partner", Path("opens", usize::MAX)),
        ("fifo_open", Path("opens", usize::MAX)),
        ("pipe_write", On("writes")),
        ("anon_pipe_write", On("writes")),
        ("pipe_", On("reads")),
        ("anon_pipe_read", On("reads")),
        ("do_wait", WaitPid),
        ("futex_", Futex),
        ("hrtimer_nanosleep", Sleeps),
        ("do_nanosleep", Sleeps),
        ("poll_schedule_timeout", Poll),
        ("do_sys_poll", Poll),
        ("do_select", Select),
        ("ep_poll", Epoll),
        ("do_epoll_wait", Epoll),
        ("inet_csk_accept", Accepts),
        ("__skb_wait_for_more_packets", Receives),
        ("sk_wait_data", Receives),
        ("wait_woken", Receives),
        ("unix_stream_", Receives),
        ("inet_stream_connect", Connects),
        ("sk_stream_wait_memory", Sends),
        ("locks_lock_inode_wait", FileLock),
        ("flock_", FileLock),
        ("do_sigtimedwait", Signal),
        ("sigsuspend", Signal),
    ];
    FUNCTIONS.iter().find(|(begin, _)| function.starts_with(begin)).map(|(_, kind)| *kind)
}

/// Whether the kernel's function is one of storage: of a page that is read, or of a file system over a network or a program.
pub(super) fn is_of_storage(function: &str) -> bool {
    const PARTS: [&str; 22] = [
        "folio_wait",
        "wait_on_page",
        "page_bit",
        "filemap",
        "io_schedule",
        "bit_wait_io",
        "nfs",
        "rpc_",
        "fuse",
        "request_wait_answer",
        "ceph",
        "lustre",
        "ll_",
        "cl_",
        "gpfs",
        "cifs",
        "smb",
        "p9_client",
        "jbd2",
        "xfs_",
        "ext4_",
        "blk_",
    ];
    PARTS.iter().any(|part| function.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_processor() {
        let both = |number| (kind(Machine::X86_64, number), kind(Machine::Aarch64, number));
        assert_eq!(both(202), (Some(Futex), Some(Accepts)));
        assert_eq!(both(98), (None, Some(Futex)));
        assert_eq!(both(0), (Some(On("reads")), None));
        assert_eq!(both(63), (None, Some(On("reads"))));
        assert_eq!(both(7), (Some(Poll), None));
        assert_eq!(both(-1), (None, None), "a row without a number on one processor is no call there");
        for (row, (x86, arm, _)) in CALLS.iter().enumerate() {
            let again =
                |(other, o): (usize, &(i64, i64, Kind))| other != row && (o.0 == *x86 || o.1 == *arm && *arm >= 0);
            assert!(!CALLS.iter().enumerate().any(again), "{x86} or {arm} is there twice");
        }
    }

    #[test]
    fn a_line_of_the_kernel_is_read() {
        let line = "257 0xffffff9c 0x7f48 0x80000 0x0 0x0 0x0 0x7ffd 0x7f4b\n";
        let arguments = [0xffff_ff9c, 0x7f48, 0x8_0000, 0, 0, 0];
        assert_eq!(InKernel::read(line), Some(InKernel::Call { number: 257, arguments }));
        assert_eq!(place(line), Some((0x7ffd, 0x7f4b)));
        assert_eq!(["running\n", "-1 0x7ffd 0x7f4b", "", "1 none"].map(place), [None; 4]);
        assert_eq!(InKernel::read("running\n"), Some(InKernel::Runs));
        assert_eq!(InKernel::read("-1 0x7ffd 0x7f4b"), Some(InKernel::Outside));
        assert_eq!(InKernel::read(""), None);
        assert_eq!(InKernel::read("1 none"), None);
    }
}
