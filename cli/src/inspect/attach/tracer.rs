//! Stops one thread of another process for as long as it takes to copy its registers and its stack.
//!
//! Protocol: a thread of this command seizes the other (`PTRACE_SEIZE`), asks it to stop (`PTRACE_INTERRUPT`), waits at most [`PATIENCE`], copies,
//! and ends. The kernel lets go of all that a tracer has seized when the tracer ends. A signal that came meanwhile is passed on.
//!
//! Must not: write to the thread's memory or registers, or hold it while anything is looked up.

use lazyguard_core::stack::{Machine, Memory, Registers};
use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::wait::{waitpid, WaitPidFlag, WaitStatus};
use nix::unistd::Pid;
use std::time::{Duration, Instant};

/// How long a thread may take to stop. One that sleeps in the kernel and cannot be woken does not stop at all.
const PATIENCE: Duration = Duration::from_millis(50);
const POLL: Duration = Duration::from_micros(50);

pub(super) struct Copied {
    pub registers: Registers,
    pub stack: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotCopied {
    Refused(Errno),
    Missed,
}

/// Copies a thread's registers and stack; `room` says how many bytes of a stack are wanted that begins at an address.
pub(super) fn copy(
    thread: u32,
    memory: &(impl Memory + Sync),
    room: &(dyn Fn(u64) -> usize + Sync),
) -> Result<Copied, NotCopied> {
    let thread = Pid::from_raw(i32::try_from(thread).map_err(|_| NotCopied::Missed)?);
    let refused = |error| if error == Errno::ESRCH { NotCopied::Missed } else { NotCopied::Refused(error) };
    // The tracer is a thread, not a process: its end is what lets everything go.
    std::thread::scope(|scope| {
        let tracer = scope.spawn(|| {
            ptrace::seize(thread, ptrace::Options::empty()).map_err(refused)?;
            ptrace::interrupt(thread).map_err(refused)?;
            if !stops(thread)? {
                return Err(NotCopied::Missed);
            }
            let registers = registers(thread).map_err(refused)?;
            let stack = memory.bytes(registers.stack(), room(registers.stack()));
            Ok(Copied { registers, stack })
        });
        tracer.join().unwrap_or(Err(NotCopied::Missed))
    })
}

/// Waits until the thread stops, for whatever reason. A signal that stops it is delivered when the tracer ends.
fn stops(thread: Pid) -> Result<bool, NotCopied> {
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        match waitpid(thread, Some(WaitPidFlag::__WALL | WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) => std::thread::sleep(POLL),
            Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..)) => return Err(NotCopied::Missed),
            // A signal that the crate has no name for, as a real-time one, is EINVAL.
            Ok(_) | Err(Errno::EINVAL) => return Ok(true),
            Err(_) => return Err(NotCopied::Missed),
        }
    }
    Ok(false)
}

#[cfg(target_arch = "x86_64")]
fn registers(thread: Pid) -> nix::Result<Registers> {
    let now = ptrace::getregs(thread)?;
    // By the numbers that unwind tables have; 7 is the stack pointer.
    let first = [now.rax, now.rdx, now.rcx, now.rbx, now.rsi, now.rdi, now.rbp];
    let rest = [now.r8, now.r9, now.r10, now.r11, now.r12, now.r13, now.r14, now.r15];
    Ok(Registers::of_thread(Machine::OWN, now.rip, now.rsp, (0..).zip(first).chain((8..).zip(rest))))
}

/// The other parts of `attach` know one processor, so it has refused before.
#[cfg(not(target_arch = "x86_64"))]
fn registers(_: Pid) -> nix::Result<Registers> {
    Err(Errno::ENOSYS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};

    struct Nothing;

    impl Memory for Nothing {
        fn read(&self, _: u64, into: &mut [u8]) -> usize {
            into.len()
        }
    }

    struct Killed(Child);

    impl Drop for Killed {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn tracer_of(process: u32) -> String {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
        let mut lines =
            status.lines().filter_map(|line| line.strip_prefix("TracerPid:").or(line.strip_prefix("State:")));
        let state = lines.next().unwrap().trim().to_owned();
        format!("{state} {}", lines.next().unwrap().trim())
    }

    /// Waits until the kernel has let go: a joined thread may not have ended in full.
    fn until_let_go(process: u32, state: &str) {
        let expect = format!("{state} 0");
        (0..10_000).find(|_| {
            std::thread::sleep(Duration::from_millis(1));
            tracer_of(process) == expect
        });
        assert_eq!(tracer_of(process), expect);
    }

    #[test]
    fn a_thread_is_copied_and_let_go_whether_it_sleeps_or_is_stopped() {
        let child = Killed(Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap());
        let process = child.0.id();
        until_let_go(process, "S (sleeping)");
        let copied = copy(process, &Nothing, &|_| 16);
        let copied = match copied {
            // A container may forbid it; then there is nothing to be tried here.
            Err(NotCopied::Refused(Errno::EPERM)) => return,
            copied => copied.unwrap_or_else(|why| panic!("{why:?}")),
        };
        assert!(copied.registers.address() != 0 && copied.registers.stack() != 0 && copied.stack.len() == 16);
        until_let_go(process, "S (sleeping)");
        let stop = rustix::process::Pid::from_raw(process as i32).unwrap();
        rustix::process::kill_process(stop, rustix::process::Signal::STOP).unwrap();
        until_let_go(process, "T (stopped)");
        assert!(copy(process, &Nothing, &|_| 16).is_ok());
        until_let_go(process, "T (stopped)");
        rustix::process::kill_process(stop, rustix::process::Signal::CONT).unwrap();
        until_let_go(process, "S (sleeping)");
    }

    #[test]
    fn a_thread_that_is_gone_is_missed() {
        let mut child = Command::new("true").stdin(Stdio::null()).spawn().unwrap();
        let process = child.id();
        child.wait().unwrap();
        assert_eq!(copy(process, &Nothing, &|_| 16).err(), Some(NotCopied::Missed));
    }
}
