//! One look at the threads of a process. The kernel says where the stack and the code of a sleeping thread are (`/proc/PID/task/TID/syscall`). A look
//! stops such a thread only if its unwind tables need another register, and a running thread always.
//!
//! Must not: stop a thread that sleeps in a system call which a stop would end early with EINTR, as `epoll_wait`.

use super::seen::ThreadOutside;
use super::target::{is_of_the_driver, Target};
use super::tracer::{self, Copied, NotCopied};
use crate::folder::{refused, Stat};
use crate::stacks;
use lazyguard_core::report::{FrameSeen, StackSeen};
use lazyguard_core::stack::{walk_from, Machine, Memory, Registers, Walked};
use nix::errno::Errno;
use std::cell::Cell;

const MOST_BYTES: u64 = 256 << 10;
const MOST_FRAMES: usize = 512;

const ATTEMPTS: usize = 4;

/// System calls of x86-64 in which threads sleep: number, name, and whether the kernel goes on with it after a stop as if there had been none
/// (signal(7), "Interruption of system calls and library functions by stop signals"). Reads of sockets with a time limit, `epoll_wait`,
/// `semop` and `sigtimedwait` end with EINTR; of a driver's `ioctl` nothing is known.
const SYSTEM_CALLS: &[(i64, &str, bool)] = &[
    (0, "read", false),
    (7, "poll", true),
    (16, "ioctl", false),
    (23, "select", true),
    (35, "nanosleep", true),
    (45, "recvfrom", false),
    (47, "recvmsg", false),
    (61, "wait4", true),
    (65, "semop", false),
    (128, "rt_sigtimedwait", false),
    (202, "futex", true),
    (219, "restart_syscall", true),
    (230, "clock_nanosleep", true),
    (232, "epoll_wait", false),
    (247, "waitid", true),
    (270, "pselect6", true),
    (271, "ppoll", true),
    (281, "epoll_pwait", false),
    (441, "epoll_pwait2", false),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Runs,
    /// It sleeps in a system call of this number, or without one (-1), with this stack pointer and program counter.
    Sleeps {
        call: i64,
        stack: u64,
        address: u64,
    },
}

impl Doing {
    fn read(text: &str) -> Option<Self> {
        let mut fields = text.split_ascii_whitespace();
        let first = fields.next()?;
        if first == "running" {
            return Some(Self::Runs);
        }
        let hex = |field: &str| u64::from_str_radix(field.strip_prefix("0x")?, 16).ok();
        let (address, stack) = (hex(fields.next_back()?)?, hex(fields.next_back()?)?);
        Some(Self::Sleeps { call: first.parse().ok()?, stack, address })
    }

    fn may_be_stopped(self) -> bool {
        match self {
            Self::Runs => true,
            Self::Sleeps { call, .. } => SYSTEM_CALLS.iter().any(|(number, _, goes_on)| *number == call && *goes_on),
        }
    }

    fn in_words(self) -> String {
        match self {
            Self::Runs => "running".to_owned(),
            Self::Sleeps { call: -1, .. } => "in the kernel, in no system call".to_owned(),
            Self::Sleeps { call, .. } => match SYSTEM_CALLS.iter().find(|(number, ..)| *number == call) {
                Some((_, name, _)) => format!("asleep in {name}"),
                None => format!("asleep in system call {call}"),
            },
        }
    }
}

pub(super) struct Look {
    pub seen: ThreadOutside,
    pointers: Vec<u64>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// The driver's outermost frame below the program's, where the thread is in a driver call.
    pub call_frame: Option<CallFrame>,
    pub is_the_drivers: bool,
    pub runs_host_function: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CallFrame {
    pub function: Option<String>,
    /// The stack pointer behind the call's return: another call from the same place has the same one.
    pointer: u64,
    caller: u64,
}

pub(super) struct Looker<'a> {
    target: &'a Target,
    refused: Cell<Option<Errno>>,
}

impl<'a> Looker<'a> {
    pub fn new(target: &'a Target) -> Self {
        Self { target, refused: Cell::new(None) }
    }

    pub fn refused(&self) -> Vec<String> {
        self.refused.get().map(|error| refused::why_not_stopped(self.target.process, error)).into_iter().collect()
    }

    pub fn look_at(&self, thread: u32) -> Option<Look> {
        let name = self.target.of_thread(thread, "comm")?.trim_end_matches('\n').to_owned();
        let letter = self.target.of_thread(thread, "stat").and_then(|stat| Some(Stat::read(&stat)?.state));
        if matches!(letter, Some('Z' | 'X')) {
            return None;
        }
        let doing = || Doing::read(&self.target.of_thread(thread, "syscall")?);
        let mut state = None;
        let mut all: Vec<(Walked, bool)> = Vec::new();
        let regions = &self.target.regions;
        for _ in 0..ATTEMPTS {
            let Some(now) = doing() else { break };
            state.get_or_insert_with(|| now.in_words());
            if let Doing::Sleeps { stack, address, .. } = now {
                let copied = self.target.memory.bytes(stack, room(regions, stack));
                let walked = self.walk(Registers::of_thread(Machine::OWN, address, stack, []), &copied);
                if doing() != Some(now) {
                    continue;
                }
                all.push((walked, false));
            }
            let is_whole = |all: &[(Walked, bool)]| all.last().is_some_and(|(walked, _)| walked.is_whole);
            if is_whole(&all) || self.refused.get().is_some() || !now.may_be_stopped() {
                break;
            }
            match tracer::copy(thread, &self.target.memory, &|begin| room(regions, begin)) {
                Ok(Copied { registers, stack }) => all.push((self.walk(registers, &stack), true)),
                Err(NotCopied::Refused(error)) => self.refused.set(Some(error)),
                Err(NotCopied::Missed) => {}
            }
            if is_whole(&all) {
                break;
            }
        }
        let best = all.into_iter().max_by_key(|(walked, _)| (walked.is_whole, walked.frames.len()));
        let (walked, was_stopped) = best.unwrap_or((Walked { frames: Vec::new(), is_whole: false }, false));
        let places: Vec<_> = walked.frames.iter().map(|frame| (frame.address(), frame.call())).collect();
        let mut stack = stacks::stack(self.target.named(), thread, &places);
        if walked.frames.is_empty() {
            stack.notes.push("its stack could not be read".to_owned());
        } else if !walked.is_whole {
            stack.notes.push("the stack goes on, and cannot be followed further".to_owned());
        }
        let pointer = |frame: &FrameSeen| walked.frames.iter().find(|place| place.address() == frame.address);
        let pointers = stack.frames.iter().map(|frame| pointer(frame).map_or(0, Registers::stack)).collect();
        let stopped = (letter == Some('T')).then(|| "stopped".to_owned());
        let state = stopped.or(state).unwrap_or_else(|| "unknown".to_owned());
        let (is_whole, StackSeen { frames, notes, .. }) = (walked.is_whole, stack);
        let seen =
            ThreadOutside { thread, name, state, was_stopped, is_whole, frames, notes, ..ThreadOutside::default() };
        Some(Look { seen, pointers })
    }

    fn walk(&self, begin: Registers, copied: &[u8]) -> Walked {
        let target = self.target;
        let memory = WithStack { begin: begin.stack(), stack: copied, other: &target.memory };
        let end = begin.stack().saturating_add(copied.len() as u64);
        walk_from(&memory, &target.modules, &|number| target.image(number), begin, end, MOST_FRAMES)
    }
}

fn room(regions: &[(u64, u64)], begin: u64) -> usize {
    let behind = regions.partition_point(|(first, _)| *first <= begin);
    let region = behind.checked_sub(1).and_then(|number| regions.get(number)).filter(|(_, end)| begin < *end);
    // A stack that was mapped since then is read as far as there is something.
    region.map_or(MOST_BYTES, |(_, end)| (end - begin).min(MOST_BYTES)) as usize
}

struct WithStack<'a, M> {
    begin: u64,
    stack: &'a [u8],
    other: &'a M,
}

impl<M: Memory> Memory for WithStack<'_, M> {
    fn read(&self, address: u64, into: &mut [u8]) -> usize {
        let from = address.checked_sub(self.begin).and_then(|at| self.stack.get(usize::try_from(at).ok()?..));
        let Some(from) = from.filter(|from| !from.is_empty()) else { return self.other.read(address, into) };
        let length = from.len().min(into.len());
        into[..length].copy_from_slice(&from[..length]);
        length
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Driver,
    System,
    Program,
}

fn owner(frame: &FrameSeen) -> Owner {
    const SYSTEM: [&str; 8] =
        ["libc.so", "libc-", "libpthread", "libstdc++.so", "libgcc_s", "ld-", "[vdso]", "liblazyguard"];
    let function = frame.function.as_deref().unwrap_or_default();
    match () {
        () if is_of_the_driver(&frame.module) => Owner::Driver,
        () if SYSTEM.iter().any(|name| frame.module.starts_with(name)) => Owner::System,
        () if matches!(function, "_start" | "clone" | "clone3" | "__clone" | "start_thread") => Owner::System,
        () => Owner::Program,
    }
}

impl Look {
    pub fn place(&self) -> Place {
        let frames: Vec<_> = self.seen.frames.iter().map(|frame| (owner(frame), frame)).collect();
        let own: Vec<_> = frames.iter().map(|(owner, _)| *owner).filter(|owner| *owner != Owner::System).collect();
        let begins_in_driver = self.seen.is_whole && own.last() == Some(&Owner::Driver);
        let has_program = own.contains(&Owner::Program);
        let is_in_driver = own.first() == Some(&Owner::Driver);
        let is_the_drivers = begins_in_driver && !has_program;
        let mut place = Place { is_the_drivers, runs_host_function: begins_in_driver && has_program, call_frame: None };
        if is_in_driver && !is_the_drivers {
            let first = frames.iter().position(|(owner, _)| *owner == Owner::Driver).unwrap_or(0);
            let end = frames[first..].iter().position(|(owner, _)| *owner == Owner::Program).map(|count| first + count);
            let last = frames[..end.unwrap_or(frames.len())].iter().rposition(|(owner, _)| *owner == Owner::Driver);
            place.call_frame = last.map(|last| CallFrame {
                // If the stack could not be followed to the program, the last frame is not the one that was called.
                function: frames[last].1.function.clone().filter(|name| end.is_some() || name.starts_with("cu")),
                pointer: self.pointers.get(last + 1).copied().unwrap_or(0),
                caller: frames.get(last + 1).map_or(0, |(_, frame)| frame.address),
            });
        }
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_thread_does_is_read() {
        let asleep = Doing::read("202 0x7f 0x80 0x0 0x0 0x0 0x0 0x7ffc0010 0x7f0020\n").unwrap();
        assert_eq!(asleep, Doing::Sleeps { call: 202, stack: 0x7ffc_0010, address: 0x7f_0020 });
        assert!(asleep.may_be_stopped() && asleep.in_words() == "asleep in futex");
        assert_eq!(Doing::read("running\n"), Some(Doing::Runs));
        let faults = Doing::read("-1 0x10 0x20").unwrap();
        assert_eq!(faults, Doing::Sleeps { call: -1, stack: 0x10, address: 0x20 });
        for number in [-1, 0, 16, 232, 281, 441, 65, 128, 9999] {
            assert!(!Doing::Sleeps { call: number, stack: 1, address: 1 }.may_be_stopped(), "{number}");
        }
        assert_eq!((Doing::read(""), Doing::read("202 7 8"), Doing::read("x")), (None, None, None));
    }

    fn look(frames: &[(&str, &str)], is_whole: bool) -> Look {
        let frame = |(number, (module, function)): (usize, &(&str, &str))| FrameSeen {
            address: 100 + number as u64,
            module: (*module).to_owned(),
            function: Some((*function).to_owned()),
            ..FrameSeen::default()
        };
        let frames: Vec<_> = frames.iter().enumerate().map(frame).collect();
        let pointers = (0..frames.len() as u64).map(|number| number * 16).collect();
        Look { seen: ThreadOutside { frames, is_whole, ..ThreadOutside::default() }, pointers }
    }

    const BEGIN: (&str, &str) = ("libc.so.6", "clone3");

    #[test]
    fn the_frames_say_which_driver_function_was_called() {
        let waits = [
            ("libc.so.6", "poll"),
            ("libcuda.so.1", "inner"),
            ("libcuda.so.1", "cuStreamSynchronize"),
            ("app", "f"),
            BEGIN,
        ];
        let place = look(&waits, true).place();
        let call = place.call_frame.unwrap();
        assert_eq!((call.function.as_deref(), call.pointer, call.caller), (Some("cuStreamSynchronize"), 48, 103));
        assert!(!place.is_the_drivers && !place.runs_host_function);
        // In the program's own code.
        assert_eq!(look(&waits[3..], true).place(), Place::default());
        // A wait of the program below which there is a driver call further out: a callback of the driver.
        let called_back =
            [("libc.so.6", "futex"), ("app", "callback"), ("libcuda.so.1", "cuLaunch"), ("app", "f"), BEGIN];
        assert_eq!(look(&called_back, true).place(), Place::default());
    }

    #[test]
    fn threads_of_the_driver_are_known_by_where_they_begin() {
        let own = [("libc.so.6", "poll"), ("libcuda.so.1", "?"), BEGIN];
        assert_eq!(look(&own, true).place(), Place { is_the_drivers: true, ..Place::default() });
        let host_function = [("libc.so.6", "futex"), ("app", "callback"), ("libcuda.so.1", "?"), BEGIN];
        assert_eq!(look(&host_function, true).place(), Place { runs_host_function: true, ..Place::default() });
        let calls_driver = [("libcuda.so.1", "cuMemFree_v2"), ("app", "callback"), ("libcuda.so.1", "?"), BEGIN];
        let place = look(&calls_driver, true).place();
        assert!(place.runs_host_function && place.call_frame.unwrap().function.as_deref() == Some("cuMemFree_v2"));
        // A stack that is cut short says nothing of its begin, nor which of the driver's functions was called.
        let cut = look(&own[..2], false).place();
        assert!(!cut.is_the_drivers && cut.call_frame.unwrap().function.is_none());
    }
}
