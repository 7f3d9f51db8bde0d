//! The removal of earlier processes' private folders, before the library makes one. A program is starting: it looks at few, and does not wait.

use crate::runtime::files;
use lazyguard_core::old_runs::{namespace, tidy, Sight};
use std::path::Path;
use std::time::SystemTime;

pub fn run(base: &Path, user: u32) {
    let sight = Sight {
        user,
        namespace: namespace(),
        // Later processes and `lazyguard clean` remove the rest.
        entries: 4096,
        now: SystemTime::now(),
        exists: &exists,
        open: &files::open_unlinked,
        // It leaves runs to `lazyguard run` and `clean`.
        is_locked: &|_| Some(true),
    };
    tidy(base, &sight);
}

/// Also one that this user may not signal.
fn exists(process: u32) -> bool {
    let Some(process) = libc::pid_t::try_from(process).ok().filter(|&process| process > 0) else { return false };
    // SAFETY: signal 0 only asks.
    unsafe { libc::kill(process, 0) == 0 || *libc::__errno_location() == libc::EPERM }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_there_whoever_may_signal_it() {
        assert!(exists(std::process::id()) && exists(1));
        assert!(!exists(0) && !exists(4_194_999) && !exists(u32::MAX));
    }
}
