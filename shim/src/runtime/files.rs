//! Files that the guard opens in the program's process: opening one never waits.
//!
//! Other users may write to a folder that the user has named, and the file at the path of a mapping may have been replaced. A FIFO in
//! its place would block a thread of the guard for good, and at the end of the process the program itself.
//!
//! Must not: open anything but regular files. What lies under /proc/self is regular.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Opens a file to read it; where the path is a link, what it leads to.
pub fn open(path: impl AsRef<Path>) -> io::Result<File> {
    open_with(path.as_ref(), OpenOptions::new().read(true), 0)
}

/// The same for a file that the guard made, which is never a link.
pub fn open_unlinked(path: &Path) -> io::Result<File> {
    open_with(path, OpenOptions::new().read(true), libc::O_NOFOLLOW)
}

/// Opens a file to write it anew, which may be there already, as no link.
fn rewrite(path: &Path, mode: u32) -> io::Result<File> {
    open_with(path, OpenOptions::new().write(true).create(true).truncate(true).mode(mode), libc::O_NOFOLLOW)
}

/// Opens a file to write at its end; makes it where it is missing. A link is not followed.
pub fn append(path: &Path) -> io::Result<File> {
    open_with(path, OpenOptions::new().append(true).create(true), libc::O_NOFOLLOW)
}

/// Opens what these options say, without waiting.
pub fn open_with(path: &Path, options: &mut OpenOptions, flags: i32) -> io::Result<File> {
    // Looked at before, since opening a device may do something to it, and again, since it may have been exchanged meanwhile.
    if fs::metadata(path).is_ok_and(|about| !about.is_file()) {
        return Err(no_file());
    }
    let file = options.custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC | flags).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(no_file()),
    }
}

/// Writes a file that no reader sees before it is whole: under another name, `fresh`, in the same folder, from which it is renamed.
pub fn replace(
    to: &Path,
    fresh: &Path,
    mode: u32,
    write: &mut dyn FnMut(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let mut file = rewrite(fresh, mode)?;
    let written = write(&mut file);
    drop(file);
    let replaced = written.and_then(|()| fs::rename(fresh, to));
    if replaced.is_err() {
        // No incomplete file is left.
        let _ = fs::remove_file(fresh);
    }
    replaced
}

/// Whether only this user or the superuser can have written a file or a folder.
pub fn is_trusted(about: &fs::Metadata) -> bool {
    // SAFETY: takes no arguments and cannot fail.
    let user = unsafe { libc::geteuid() };
    [user, 0].contains(&about.uid()) && about.mode() & 0o022 == 0
}

fn no_file() -> io::Error {
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
        rewrite(&file, 0o666).unwrap().write_all(b"text").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        assert!(open(&file).is_ok() && open(&link).is_ok() && open_unlinked(&file).is_ok());
        assert!(open("/proc/self/exe").is_ok() && open("/proc/self/maps").is_ok());
        assert!(open_unlinked(&link).is_err() && rewrite(&link, 0o666).is_err());
        for path in [&fifo, Path::new("/dev/null"), &folder] {
            assert!(
                open(path).is_err() && open_unlinked(path).is_err() && rewrite(path, 0o666).is_err(),
                "{}",
                path.display()
            );
            assert!(append(path).is_err(), "{}", path.display());
        }
        assert!(append(&link).is_err());
        for (path, expect) in [(&file, "text more"), (&folder.join("none"), " more")] {
            append(path).unwrap().write_all(b" more").unwrap();
            assert_eq!(fs::read_to_string(path).unwrap(), expect);
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
