//! Removes a folder with its content, as far as that has LazyGuard's shape. The thread may have a small stack, and another user may change
//! the folder meanwhile.
//!
//! Must not: follow a link, go deeper than [`DEEPEST`], or remove more entries than it may.

use rustix::fs::{openat, unlinkat, AtFlags, Dir, FileType, Mode, OFlags, CWD};
use rustix::io::Errno;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

/// A run, a run in it, a process in that.
pub const DEEPEST: usize = 4;

const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Removes a folder with what is in it, and counts `entries` down. Every name is looked up in an open folder, so a folder that another user
/// exchanges for a link leads nowhere. The error is the first one; the rest is removed as far as it can be.
pub fn remove_folder(path: &Path, entries: &mut usize) -> io::Result<()> {
    let folder = openat(CWD, path, FOLDER, Mode::empty())?;
    let emptied = empty(folder.as_fd(), DEEPEST, entries);
    drop(folder);
    emptied?;
    Ok(unlinkat(CWD, path, AtFlags::REMOVEDIR)?)
}

fn empty(folder: BorrowedFd<'_>, depth: usize, entries: &mut usize) -> io::Result<()> {
    let mut result = Ok(());
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let Some(rest) = entries.checked_sub(1) else {
            return result
                .and(Err(io::Error::other("it holds more entries than are removed at a time: the rest stays")));
        };
        *entries = rest;
        let removed = match entry.file_type() {
            FileType::Directory => remove_in(folder, name, depth, entries),
            // The kind may be unknown, or another one by now.
            _ => match unlinkat(folder, name, AtFlags::empty()) {
                Err(Errno::ISDIR | Errno::PERM) => remove_in(folder, name, depth, entries),
                removed => removed.map_err(io::Error::from),
            },
        };
        result = result.and(removed);
    }
    result
}

fn remove_in(folder: BorrowedFd<'_>, name: &CStr, depth: usize, entries: &mut usize) -> io::Result<()> {
    let remove = || unlinkat(folder, name, AtFlags::REMOVEDIR);
    let Some(depth) = depth.checked_sub(1) else {
        return match remove() {
            Err(Errno::NOTEMPTY | Errno::EXIST) => {
                Err(io::Error::other("folders lie deeper in each other in it than LazyGuard makes them"))
            }
            removed => removed.map_err(io::Error::from),
        };
    };
    let inner = openat(folder, name, FOLDER, Mode::empty())?;
    empty(inner.as_fd(), depth, entries)?;
    drop(inner);
    Ok(remove()?)
}
