//! Which private folders of earlier processes the library removes before it makes one. The core says what may be removed.
//!
//! Must not: examine many folders, because a program is starting, or wait.

use crate::runtime::files;
use lazyguard_core::old_runs::{namespace, tidy, Sight};
use std::path::Path;
use std::time::SystemTime;

pub fn run(base: &Path, user: u32) {
    let sight = Sight {
        user,
        namespace: namespace(),
        // More than a failed run of a large job leaves. Later processes and `lazyguard clean` remove the rest.
        entries: 4096,
        now: SystemTime::now(),
        exists: &exists,
        open: &files::open_unlinked,
        // The library asks for no lock on a thread of the program: it leaves runs to `lazyguard run` and `clean`.
        is_locked: &|_| Some(true),
    };
    tidy(base, &sight);
}

/// Whether there is a process with this number, also one that this user may not signal.
fn exists(process: u32) -> bool {
    let Some(process) = libc::pid_t::try_from(process).ok().filter(|&process| process > 0) else { return false };
    // SAFETY: signal 0 is none: it is only asked whether one could be sent.
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
