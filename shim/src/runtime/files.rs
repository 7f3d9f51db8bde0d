//! Files that the guard opens without waiting. Other users may write to a folder that the user has named: a FIFO there would block a thread of the guard for
//! good, and the process at its end.
//!
//! Must not: open anything but regular files. Files under /proc/self are regular.

use lazyguard_core::run_folder::FileSystem;
use lazyguard_core::stack::Memory;
use std::ffi::{CStr, OsStr};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

pub const PROGRAM: &str = "/proc/self/exe";

/// The program's file; without `/proc`, the name that it was started with.
pub fn program() -> Option<PathBuf> {
    fs::read_link(PROGRAM).ok().or_else(|| {
        // SAFETY: takes a number. The kernel has put the text into the process's memory for good.
        let name = unsafe { libc::getauxval(libc::AT_EXECFN) } as *const libc::c_char;
        // SAFETY: as above; it is terminated.
        (!name.is_null()).then(|| OsStr::from_bytes(unsafe { CStr::from_ptr(name) }.to_bytes()).into())
    })
}

pub fn open(path: impl AsRef<Path>) -> io::Result<File> {
    open_with(path.as_ref(), OpenOptions::new().read(true), 0)
}

/// Opens a file of the guard's own, through no link.
pub fn open_unlinked(path: &Path) -> io::Result<File> {
    open_with(path, OpenOptions::new().read(true), libc::O_NOFOLLOW)
}

/// Opens what these options say, without waiting.
pub fn open_with(path: &Path, options: &mut OpenOptions, flags: i32) -> io::Result<File> {
    // Before, since opening a device may do something to it, and again, since it may have been exchanged.
    if fs::metadata(path).is_ok_and(|about| !about.is_file()) {
        return Err(no_file());
    }
    let file = options.custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC | flags).open(path)?;
    file.metadata()?.is_file().then_some(file).ok_or_else(no_file)
}

/// The file system that the file lies on.
pub fn file_system(file: &File) -> io::Result<FileSystem> {
    // SAFETY: all-zero bytes are a valid `statfs`.
    let mut about: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open and the structure valid for writing.
    if unsafe { libc::fstatfs(file.as_raw_fd(), &mut about) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let bytes = |blocks: u64| blocks.saturating_mul(u64::try_from(about.f_bsize).unwrap_or(0));
    let (room, capacity) = (bytes(about.f_bavail as u64), bytes(about.f_blocks as u64));
    Ok(FileSystem { kind: about.f_type as u64, room, capacity })
}

/// A file's bytes, by their offsets.
pub struct InFile(pub File);

impl Memory for InFile {
    fn read(&self, address: u64, into: &mut [u8]) -> usize {
        self.0.read_at(into, address).unwrap_or(0)
    }
}

/// Writes the file under another name, `fresh`, in the same folder: no reader sees it before it is whole.
pub fn replace(
    to: &Path,
    fresh: &Path,
    mode: u32,
    write: &mut dyn FnMut(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = open_with(fresh, options.write(true).create(true).truncate(true).mode(mode), libc::O_NOFOLLOW)?;
    let written = write(&mut file);
    drop(file);
    let replaced = written.and_then(|()| fs::rename(fresh, to));
    if replaced.is_err() {
        // No incomplete file is left.
        let _ = fs::remove_file(fresh);
    }
    replaced
}

/// An error unless only this user or the superuser can write it.
pub fn trusted(about: &fs::Metadata, why: &'static str) -> io::Result<()> {
    // SAFETY: takes no arguments and cannot fail.
    let user = unsafe { libc::geteuid() };
    let is_trusted = [user, 0].contains(&about.uid()) && about.mode() & 0o022 == 0;
    is_trusted.then_some(()).ok_or_else(|| io::Error::other(why))
}

pub fn no_file() -> io::Error {
    io::Error::other("something that is no file is in the way")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn nothing_is_opened_that_could_wait() {
        let folder = std::env::temp_dir().join(format!("lazyguard-shim-files-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let (file, fifo, link) = (folder.join("file"), folder.join("fifo"), folder.join("link"));
        let replaced_by = |fresh: &Path| replace(&file, fresh, 0o666, &mut |file| file.write_all(b"text"));
        replaced_by(&folder.join("fresh")).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        assert!(open(&file).is_ok() && open(&link).is_ok() && open_unlinked(&file).is_ok());
        assert!(open("/proc/self/exe").is_ok() && open("/proc/self/maps").is_ok());
        assert!(open_unlinked(&link).is_err() && replaced_by(&link).is_err());
        for path in [&fifo, Path::new("/dev/null"), &folder] {
            assert!(
                open(path).is_err() && open_unlinked(path).is_err() && replaced_by(path).is_err(),
                "{}",
                path.display()
            );
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
