//! The activity of threads in no driver call: the kernel reports a thread's system call and arguments without disturbing it. A thread that computes or
//! sleeps may still do what others wait for; one that waits for another will not. The driver's threads have names of their own.

use super::probe::own_ranges;
use crate::runtime::thread;
use lazyguard_core::diagnose::ThreadActivity;
use lazyguard_core::folder::entries_of;
use std::cell::LazyCell;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

const MOST_THREADS: usize = 256;
/// Prefixes of the driver's and this library's threads.
const THE_DRIVERS: &str = "cuda";
const OWN: &str = "lazyguard-";

/// One that is not looked at may do anything.
pub fn threads(wanted: impl Fn(u32) -> bool) -> Vec<(u32, ThreadActivity)> {
    // A file is read for them, which may be long.
    let own = LazyCell::new(own_ranges);
    let is_thread = |id: u64| fs::exists(format!("/proc/self/task/{id}")).unwrap_or(false);
    let is_own = &|word: u64, id: u64| is_thread(id) || own.iter().any(|range| range.contains(&word));
    let seen = all().take(MOST_THREADS).filter_map(|thread| Some((thread, doing(thread, wanted(thread), is_own)?)));
    seen.chain(all().nth(MOST_THREADS).map(|thread| (thread, ThreadActivity::Running))).collect()
}

pub fn drivers() -> impl Iterator<Item = u32> {
    all().take(MOST_THREADS).filter(|thread| thread::name(*thread).starts_with(THE_DRIVERS))
}

fn all() -> impl Iterator<Item = u32> {
    entries_of(Path::new("/proc/self/task")).filter_map(|task| task.name().to_str()?.parse().ok())
}

fn doing(thread: u32, wanted: bool, is_own: impl Fn(u64, u64) -> bool) -> Option<ThreadActivity> {
    let name = thread::name(thread);
    if name.starts_with(OWN) || !wanted && name.starts_with(THE_DRIVERS) {
        return None;
    }
    in_call(&system_call(thread)?, is_own)
}

/// Reads the kernel's line: `running`, or the system call's number, its arguments, stack pointer and program counter.
fn in_call(line: &str, is_own: impl Fn(u64, u64) -> bool) -> Option<ThreadActivity> {
    /// The flag in the second argument of a futex call.
    const PRIVATE: u64 = libc::FUTEX_PRIVATE_FLAG as u64;
    let mut fields = line.split_whitespace();
    let number = match fields.next()? {
        "running" => return Some(ThreadActivity::Running),
        number => number.parse::<i64>().ok()?,
    };
    let arguments: Vec<u64> =
        fields.map_while(|field| u64::from_str_radix(field.trim_start_matches("0x"), 16).ok()).collect();
    let argument = |at: usize| arguments.get(at).copied().unwrap_or(0);
    Some(match number {
        // Without a stack: a thread that has ended, as a main thread does by `pthread_exit`, and does no more.
        -1 if arguments.iter().all(|stack_or_code| *stack_or_code == 0) => return None,
        libc::SYS_nanosleep | libc::SYS_clock_nanosleep => ThreadActivity::Sleeping,
        // The fourth argument of a futex wait is the timeout.
        libc::SYS_futex if argument(3) != 0 => ThreadActivity::Sleeping,
        // A shared one may be another process's to wake, but for the end of a thread, whose id is waited on, and in memory of this process alone.
        libc::SYS_futex if argument(1) & PRIVATE == 0 && !is_own(argument(0), argument(2)) => ThreadActivity::Expecting,
        libc::SYS_futex => ThreadActivity::Waiting,
        _ => ThreadActivity::Expecting,
    })
}

/// Whether a thread runs or waits for a processor.
pub(super) fn is_runnable(thread: u32) -> bool {
    system_call(thread).is_some_and(|line| line.starts_with("running"))
}

#[cfg(test)]
pub(super) fn is_told(thread: u32) -> bool {
    system_call(thread).is_some()
}

/// Stack pointer and program counter of a thread in a system call.
pub(super) fn asleep(thread: u32) -> Option<(u64, u64)> {
    last_two(&system_call(thread)?)
}

fn last_two(line: &str) -> Option<(u64, u64)> {
    let mut fields = line.split_whitespace().rev();
    let mut field = || u64::from_str_radix(fields.next()?.strip_prefix("0x")?, 16).ok();
    let address = field()?;
    Some((field()?, address))
}

/// The kernel's line on a thread's system call, as proc_pid_syscall(5) has it; `None` on an emulator of another machine: the line is the emulator's,
/// and says nothing.
fn system_call(thread: u32) -> Option<String> {
    static EMULATED: OnceLock<bool> = OnceLock::new();
    if *EMULATED.get_or_init(|| is_emulated(std::process::id())) {
        return None;
    }
    fs::read_to_string(format!("/proc/self/task/{thread}/syscall")).ok()
}

/// Whether the kernel knows the process by another program.
fn is_emulated(process: u32) -> bool {
    let (own, kernels) = (fs::read_link("/proc/self/exe"), fs::read_link(format!("/proc/self/task/{process}/exe")));
    own.ok().zip(kernels.ok()).is_some_and(|(own, kernels)| own != kernels)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[test]
    fn a_line_of_the_kernels_tells_what_a_thread_does() {
        let in_call = |line: &str| in_call(line, |word, id| word == 0x7f77 || id == 0x77);
        assert_eq!(in_call("running\n"), Some(ThreadActivity::Running));
        let sleep = format!("{} 0x0 0x0 0x7f 0x0 0x0 0x0 0x7f 0x7f\n", libc::SYS_clock_nanosleep);
        assert_eq!(in_call(&sleep), Some(ThreadActivity::Sleeping));
        let futex = |timeout: &str| format!("{} 0x7f01 0x189 0x0 {timeout} 0x0 0xffffffff 0x7f 0x7f", libc::SYS_futex);
        assert_eq!(in_call(&futex("0x0")), Some(ThreadActivity::Waiting));
        assert_eq!(in_call(&futex("0x7fff01")), Some(ThreadActivity::Sleeping));
        let shared = |value: &str| format!("{} 0x7f01 0x109 {value} 0x0 0x0 0xffffffff 0x7f 0x7f", libc::SYS_futex);
        assert_eq!(in_call(&shared("0x0")), Some(ThreadActivity::Expecting), "another process may post a semaphore");
        assert_eq!(in_call(&shared("0x77")), Some(ThreadActivity::Waiting), "for a thread's end");
        let own = shared("0x0").replace("0x7f01", "0x7f77");
        assert_eq!(in_call(&own), Some(ThreadActivity::Waiting), "for a value that only this process can have");
        assert_eq!(in_call(&format!("{} 0x3 0x1 0xffffffff", libc::SYS_read)), Some(ThreadActivity::Expecting));
        assert_eq!(in_call("-1 0x0 0x0\n"), None, "a thread that has ended");
        assert_eq!(in_call("-1 0x7ffd12 0x7f34\n"), Some(ThreadActivity::Expecting), "outside a system call");
        assert_eq!((in_call(""), in_call("nonsense")), (None, None));
    }

    #[test]
    fn the_stack_pointer_stands_before_the_program_counter() {
        let line = "202 0x7f01 0x189 0x0 0x0 0x0 0xffffffff 0x7ffd12 0x7f34\n";
        assert_eq!(last_two(line), Some((0x7ffd12, 0x7f34)));
        assert_eq!((last_two("running\n"), last_two("")), (None, None));
    }

    #[test]
    fn threads_of_this_process_are_told() {
        let (tell, told) = channel();
        let (release, released) = channel::<()>();
        let waits = std::thread::spawn(move || {
            // SAFETY: takes no arguments and cannot fail.
            tell.send(unsafe { libc::syscall(libc::SYS_gettid) } as u32).unwrap();
            let _ = released.recv();
        });
        let thread = told.recv().unwrap();
        let told = || threads(|_| false).into_iter().find(|(id, _)| *id == thread).map(|(_, doing)| doing);
        let soon = (0..200).any(|_| {
            std::thread::sleep(Duration::from_millis(5));
            // If the kernel does not answer, there is nothing to test.
            told().is_none_or(|doing| doing == ThreadActivity::Waiting)
        });
        assert!(soon, "{:?}", told());
        assert!(!is_runnable(thread));
        drop(release);
        waits.join().unwrap();
    }

    #[test]
    fn the_line_is_that_of_a_thread_of_this_process() {
        // SAFETY: takes no arguments and cannot fail.
        let own = unsafe { libc::syscall(libc::SYS_gettid) } as u32;
        // If the kernel does not answer, there is nothing to test.
        let number = |line: &str| line.split_whitespace().next().and_then(|number| number.parse().ok());
        assert!(system_call(own)
            .is_none_or(|line| line.starts_with("running") || number(&line).is_some_and(|n: i64| n >= 0)));
        assert!(system_call(own).is_none() || !is_emulated(std::process::id()), "an emulator's line");
        assert_eq!(system_call(0), None);
    }
}
