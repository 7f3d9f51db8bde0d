//! The kernel's line on a thread's system call: number, arguments, stack pointer, program counter. For a process on an emulator of another machine the line is
//! the emulator's, and says nothing.

use std::fs::{read_link, read_to_string};
use std::sync::OnceLock;

/// As proc_pid_syscall(5) has it.
pub(super) fn line(thread: u32) -> Option<String> {
    static EMULATED: OnceLock<bool> = OnceLock::new();
    if *EMULATED.get_or_init(|| is_emulated(std::process::id())) {
        return None;
    }
    read_to_string(format!("/proc/self/task/{thread}/syscall")).ok()
}

/// Whether the kernel knows the process by another program.
fn is_emulated(process: u32) -> bool {
    let (own, kernels) = (read_link("/proc/self/exe"), read_link(format!("/proc/self/task/{process}/exe")));
    own.ok().zip(kernels.ok()).is_some_and(|(own, kernels)| own != kernels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_that_of_a_thread_of_this_process() {
        // SAFETY: takes no arguments and cannot fail.
        let own = unsafe { libc::syscall(libc::SYS_gettid) } as u32;
        // If the kernel does not answer, there is nothing to test.
        let number = |line: &str| line.split_whitespace().next().and_then(|number| number.parse().ok());
        assert!(line(own).is_none_or(|line| line.starts_with("running") || number(&line).is_some_and(|n: i64| n >= 0)));
        assert!(line(own).is_none() || !is_emulated(std::process::id()), "an emulator's line");
        assert_eq!(line(0), None);
    }
}
