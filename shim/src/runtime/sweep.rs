//! What the library takes away of private folders that are left behind, before it makes one. What may be removed, the core says.
//!
//! Must not: look at many folders, for a program is starting, or wait.

use lazyguard_core::left::{namespace, tidy, Sight};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::SystemTime;

/// Takes away what is too much of this user's private folders in the place where one is about to be made.
pub fn sweep(base: &Path, user: u32) {
    let sight = Sight {
        user,
        namespace: namespace(),
        now: SystemTime::now(),
        exists: &exists,
        open: &open,
        is_locked: &is_locked,
    };
    tidy(base, &sight);
}

/// Whether there is a process with this number, whoever may signal it.
fn exists(process: u32) -> bool {
    let Some(process) = libc::pid_t::try_from(process).ok().filter(|&process| process > 0) else { return false };
    // SAFETY: signal 0 is none: it is only asked whether one could be sent.
    unsafe { libc::kill(process, 0) == 0 || *libc::__errno_location() == libc::EPERM }
}

/// Opens a regular file. Whatever it is, opening it waits for nothing.
fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// Whether another process holds a lock on the file. What this takes meanwhile goes with the descriptor.
fn is_locked(file: &File) -> bool {
    // SAFETY: takes integers only.
    unsafe {
        libc::flock(file.as_raw_fd(), libc::LOCK_SH | libc::LOCK_NB) != 0
            && *libc::__errno_location() == libc::EWOULDBLOCK
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_is_asked_about_this_machine_is_so() {
        assert!(exists(std::process::id()) && exists(1));
        assert!(!exists(0) && !exists(4_194_999) && !exists(u32::MAX));
        let path = std::env::temp_dir().join(format!("lazyguard-sweep-{}", std::process::id()));
        fs::write(&path, "").unwrap();
        let (one, other) = (open(&path).unwrap(), open(&path).unwrap());
        assert!(!is_locked(&one));
        drop(one);
        // SAFETY: takes integers only.
        assert_eq!(unsafe { libc::flock(other.as_raw_fd(), libc::LOCK_EX) }, 0);
        assert!(is_locked(&open(&path).unwrap()));
        fs::remove_file(&path).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert!(open(&path).is_err());
        fs::remove_file(&path).unwrap();
    }
}
