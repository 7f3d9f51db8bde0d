//! The only way to open files for reading: regular files, and without waiting, since others may have put a FIFO or a device there. A path of the
//! user's may be a link; a file of a run folder never is one. `clippy.toml` forbids the standard library's functions elsewhere.
//!
//! Must not: wait, except for an input that the user has named, and for a slow reader of what is written.

use super::system::{duplicate, next_signal};
use crate::words::output::AT_ONCE;
use crate::words::Failure;
use libc::{O_NOCTTY, O_NOFOLLOW, O_NONBLOCK};
use nix::sys::signal::{SigSet, Signal};
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::fs::{flock, FlockOperation};
use rustix::io::{retry_on_intr, Errno};
use serde::de::DeserializeOwned;
use std::ffi::{c_int, OsString};
use std::fs::{self, File, FileType, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

const MOST_BYTES: u64 = 1 << 28;

/// The same for the mark of a run and the report of a hang, which the command reads while the program runs.
const MOST_BYTES_OF_SHORT: u64 = 1 << 24;

pub(crate) fn open(path: impl AsRef<Path>) -> io::Result<File> {
    open_with(path.as_ref(), OpenOptions::new().read(true), 0)
}

/// The text of a file of the kernel's, whose names may be in any encoding.
pub(crate) fn read_lossy(path: impl AsRef<Path>) -> io::Result<String> {
    read(path).map(|text| String::from_utf8_lossy(&text).into_owned())
}

pub(crate) fn host_name() -> Option<String> {
    let name = read_text("/proc/sys/kernel/hostname").ok()?.trim().to_owned();
    Some(name).filter(|name| !name.is_empty())
}

/// The entries of a folder whose names are numbers, such as the processes in `/proc`.
pub(crate) fn numbered<T: FromStr>(folder: impl AsRef<Path>) -> impl Iterator<Item = T> {
    fs::read_dir(folder).into_iter().flatten().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// A file about the memory of a process (`maps`, `mem`): another thread's once the main thread has left, whose own has nothing then.
pub(crate) fn about_memory(process: u32, name: &str) -> PathBuf {
    let own = PathBuf::from(format!("/proc/{process}"));
    let has_left = fs::read_link(own.join("exe")).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    let another = || numbered::<u32>(own.join("task")).find(|thread| *thread != process);
    match has_left.then(another).flatten() {
        Some(thread) => own.join(format!("task/{thread}/{name}")),
        None => own.join(name),
    }
}

pub(crate) fn open_to_write(path: &Path) -> io::Result<File> {
    open_with(path, OpenOptions::new().write(true), 0)
}

pub(crate) fn open_in(folder: &Path, name: &str) -> io::Result<File> {
    open_unlinked(&folder.join(name))
}

pub(crate) fn open_unlinked(path: &Path) -> io::Result<File> {
    expect_no_link(fs::symlink_metadata(path)?.file_type())?;
    open_with(path, OpenOptions::new().read(true), O_NOFOLLOW)
}

fn expect_no_link(kind: FileType) -> io::Result<()> {
    match kind.is_symlink() {
        true => Err(io::Error::other("it is a symbolic link, and none is followed in a run folder")),
        false => Ok(()),
    }
}

#[allow(clippy::disallowed_methods, reason = "all other code calls this function")]
fn open_with(path: &Path, options: &mut OpenOptions, flags: i32) -> io::Result<File> {
    // Checked before, because opening a device may have effects; and after, because the file may have been replaced meanwhile.
    expect_regular(fs::metadata(path)?.file_type())?;
    let file = options.custom_flags(O_NONBLOCK | O_NOCTTY | flags).open(path)?;
    expect_regular(file.metadata()?.file_type())?;
    Ok(file)
}

fn expect_regular(kind: FileType) -> io::Result<()> {
    let what = match kind {
        kind if kind.is_file() => return Ok(()),
        kind if kind.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
        kind if kind.is_fifo() => "a FIFO",
        kind if kind.is_socket() => "a socket",
        _ => "a device",
    };
    Err(io::Error::other(format!("it is {what}, and no file")))
}

pub(crate) fn open_to_write_in(folder: &Path, name: &str) -> io::Result<File> {
    open_with(&folder.join(name), OpenOptions::new().write(true), O_NOFOLLOW)
}

pub(crate) struct Locked(File);

impl Locked {
    /// Locks a file; gives it back where another process has a lock on it, or the file system has none.
    pub fn new(file: File) -> Result<Self, (File, Errno)> {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self(file)),
            Err(error) => Err((file, error)),
        }
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // A child that has the descriptor would keep the lock.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

/// Makes a file that is not there yet. One of this name, or a link, is never opened. The mask takes bits from `mode`.
#[allow(clippy::disallowed_methods, reason = "all other code calls this function")]
pub(crate) fn create_new(path: &Path, mode: u32) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(mode).open(path)
}

/// Replaces a file as a whole, or a link to one, which it does not follow; nothing else, such as a device. The content has a hidden name until it is
/// complete; `mode` ignores the mask.
pub(crate) fn replace(path: &Path, content: &[u8], mode: Option<u32>) -> io::Result<()> {
    fs::metadata(path).map_or(Ok(()), |about| expect_regular(about.file_type()))?;
    if descriptor(path).is_some() {
        return Err(io::Error::other("it is a descriptor, and no file"));
    }
    let Some(name) = path.file_name() else { return Err(io::ErrorKind::InvalidInput.into()) };
    let mut unfinished = OsString::from(".");
    unfinished.push(name);
    unfinished.push(format!(".{}.new", std::process::id()));
    let unfinished = path.with_file_name(unfinished);
    let _ = fs::remove_file(&unfinished);
    let mut made = create_new(&unfinished, 0o666)?;
    let written = made.write_all(content).and_then(|()| {
        mode.map_or(Ok(()), |mode| made.set_permissions(Permissions::from_mode(mode)))?;
        fs::rename(&unfinished, path)
    });
    // The first error is the one to report.
    written.inspect_err(|_| drop(fs::remove_file(&unfinished)))
}

/// Makes a file of a run folder, or makes it anew: as no link, and in the place of nothing else.
#[allow(clippy::disallowed_methods, reason = "all other code calls this function")]
pub(crate) fn create_in(folder: &Path, name: &str) -> io::Result<File> {
    let path = folder.join(name);
    if let Ok(about) = fs::symlink_metadata(&path) {
        expect_no_link(about.file_type())?;
        expect_regular(about.file_type())?;
    }
    let flags = O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
    let file = OpenOptions::new().write(true).create(true).truncate(true).custom_flags(flags).open(path)?;
    expect_regular(file.metadata()?.file_type())?;
    Ok(file)
}

pub(crate) fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    all_of(open(path)?)
}

pub(crate) fn read_text(path: impl AsRef<Path>) -> io::Result<String> {
    text_of(read(path)?)
}

pub(crate) fn read_in(folder: &Path, name: &str) -> io::Result<Vec<u8>> {
    all_of(open_in(folder, name)?)
}

pub(crate) fn read_text_in(folder: &Path, name: &str) -> io::Result<String> {
    text_of(read_in(folder, name)?)
}

/// Reads an input of the user's to its end: it may be a pipe, which the command waits for.
#[allow(clippy::disallowed_methods, reason = "the user has asked for it")]
pub(crate) fn read_input(path: &Path) -> io::Result<String> {
    text_of(at_most(File::open(path)?, MOST_BYTES)?)
}

pub(crate) fn all_of(file: File) -> io::Result<Vec<u8>> {
    at_most(file, MOST_BYTES)
}

/// The whole content of an open file that is read again and again, and that another user's process may have written.
pub(crate) fn all_of_short(file: File) -> io::Result<Vec<u8>> {
    at_most(file, MOST_BYTES_OF_SHORT)
}

/// A short file of a run folder, from JSON; `None` where there is none, or it is not complete.
pub(crate) fn json_in<T: DeserializeOwned>(folder: &Path, name: &str) -> Option<T> {
    serde_json::from_slice(&open_in(folder, name).and_then(all_of_short).ok()?).ok()
}

fn at_most(file: File, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match file.take(most + 1).read_to_end(&mut bytes)? as u64 > most {
        true => Err(io::Error::other(format!("it is larger than {} MiB", most >> 20))),
        false => Ok(bytes),
    }
}

fn text_of(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is no text in UTF-8"))
}

/// The descriptor of this process that a path stands for, such as `/dev/stdout`, `/dev/fd/3` or a link to one.
pub(crate) fn descriptor(path: &Path) -> Option<c_int> {
    const MOST_LINKS: u32 = 40;
    let own = fs::canonicalize("/proc/self").ok()?;
    let mut path = Path::new(".").join(path);
    for _ in 0..MOST_LINKS {
        let folder = fs::canonicalize(path.parent()?).ok()?;
        if folder.starts_with(&own) && folder.ends_with("fd") {
            return path.file_name()?.to_str()?.parse().ok();
        }
        path = folder.join(fs::read_link(&path).ok()?);
    }
    None
}

/// Writes a file of the user's as a whole. A FIFO with a reader gets the text too, a device, and a descriptor at its position.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let made = folder.map_or(Ok(()), fs::create_dir_all);
    let written = made.and_then(|()| made_anew(path, O_NONBLOCK)).and_then(|file| write_all(&file, text.as_bytes()));
    written.map_err(|error| Failure::Input(format!("{}: cannot be written: {error}", path.display())))
}

/// Makes a file of the user's anew, or empties one, unless it is a descriptor. Without `O_NONBLOCK` in `flags` a FIFO waits for its reader.
#[allow(clippy::disallowed_methods, reason = "all other code calls this function")]
pub(crate) fn made_anew(path: &Path, flags: i32) -> io::Result<File> {
    // A second opening would cut what the program has written there, and a socket has none.
    if let Some(number) = descriptor(path) {
        return duplicate(number).map(File::from);
    }
    let mut options = OpenOptions::new();
    let opened = options.write(true).create(true).truncate(true).custom_flags(flags | O_NOCTTY).open(path);
    opened.map_err(|error| match error.raw_os_error() {
        Some(libc::ENXIO) => io::Error::other("it is a FIFO that no process reads, or a socket"),
        _ => error,
    })
}

const HEARS_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Waits for a reader that is slower, until one of the signals comes that end a command: `lazyguard run` blocks them.
fn write_all(file: &File, mut left: &[u8]) -> io::Result<()> {
    let ends: SigSet = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM].into_iter().collect();
    while !left.is_empty() {
        while retry_on_intr(|| poll(&mut [PollFd::new(file, PollFlags::OUT)], Some(&HEARS_EVERY)))? == 0 {
            if next_signal(&ends, Some(Duration::ZERO)).is_some() {
                return Err(io::Error::other("a signal came while its reader took nothing"));
            }
        }
        match rustix::io::write(file, &left[..left.len().min(AT_ONCE)]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => left = &left[written..],
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    use std::path::PathBuf;

    struct Scratch(PathBuf);

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn nothing_is_opened_but_regular_files_and_links_only_where_the_user_names_them() {
        let scratch = Scratch(std::env::temp_dir().join(format!("lazyguard-files-{}", std::process::id())));
        let at = |name: &str| scratch.0.join(name);
        fs::create_dir(&scratch.0).unwrap();
        fs::write(at("file"), "text").unwrap();
        symlink("file", at("link")).unwrap();
        symlink("fifo", at("link-to-fifo")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, at("fifo"), rustix::fs::Mode::RWXU).unwrap();
        let _socket = UnixListener::bind(at("socket")).unwrap();
        assert_eq!(
            (read_text(at("file")).unwrap(), read_text_in(&scratch.0, "file").unwrap()),
            ("text".into(), "text".into())
        );
        assert_eq!(read_text(at("link")).unwrap(), "text");
        for (name, expect) in [("link", "a symbolic link"), ("link-to-fifo", "a symbolic link"), ("fifo", "a FIFO")] {
            let error = open_in(&scratch.0, name).unwrap_err().to_string();
            assert!(error.contains(expect), "{name}: {error}");
        }
        let whole = [("fifo", "a FIFO"), ("link-to-fifo", "a FIFO"), ("socket", "a socket"), ("", "directory")];
        for (path, expect) in
            whole.map(|(name, expect)| (at(name), expect)).into_iter().chain([("/dev/zero".into(), "a device")])
        {
            let error = open(&path).unwrap_err().to_string();
            assert!(error.contains(expect), "{}: {error}", path.display());
        }
        assert_eq!(open(at("missing")).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(read_text("/proc/self/stat").is_ok_and(|text| text.contains(')')));
    }

    #[test]
    fn a_path_that_stands_for_a_descriptor_is_known() {
        let scratch = Scratch(std::env::temp_dir().join(format!("lazyguard-descriptor-{}", std::process::id())));
        fs::create_dir(&scratch.0).unwrap();
        for (name, target) in [("link", "/proc/self/fd/1"), ("second", "link"), ("itself", "itself"), ("dangles", "no")]
        {
            symlink(target, scratch.0.join(name)).unwrap();
        }
        let thread = format!("/proc/{0}/task/{0}/fd/7", std::process::id());
        for (path, expect) in [
            ("/dev/stdout", Some(1)),
            ("/dev/fd/63", Some(63)),
            ("/proc/self/fd/3", Some(3)),
            (&thread, Some(7)),
            ("link", Some(1)),
            ("second", Some(1)),
            ("/dev/fd/3/x", None),
            ("/proc/1/fd/1", None),
            ("/dev/null", None),
            ("/", None),
            ("itself", None),
            ("dangles", None),
            ("out.json", None),
        ] {
            assert_eq!(descriptor(&scratch.0.join(path)), expect, "{path}");
        }
        let refused = replace(&scratch.0.join("second"), b"", None).unwrap_err().to_string();
        assert!(refused.ends_with("and no file") && scratch.0.join("second").is_symlink(), "{refused}");
    }

    #[test]
    fn a_fifo_gets_the_whole_text_and_one_without_a_reader_is_refused_at_once() {
        let scratch = Scratch(std::env::temp_dir().join(format!("lazyguard-fifo-{}", std::process::id())));
        fs::create_dir(&scratch.0).unwrap();
        let path = scratch.0.join("fifo");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RWXU).unwrap();
        let (told, refused) = std::sync::mpsc::channel();
        let named = path.clone();
        std::thread::spawn(move || told.send(write(&named, "text").unwrap_err().to_string()));
        let refused = refused.recv_timeout(Duration::from_secs(60)).expect("it waits for a reader");
        assert!(refused.contains("fifo: cannot be written: it is a FIFO that no process reads"), "{refused}");
        // More than a pipe holds, for a reader that opens and reads late.
        let text = "0123456789".repeat(30_000);
        let open = OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(&path).unwrap();
        let reads = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(300));
            rustix::fs::fcntl_setfl(&open, rustix::fs::OFlags::empty()).unwrap();
            at_most(open, MOST_BYTES).unwrap()
        });
        write(&path, &text).unwrap();
        assert!(reads.join().unwrap() == text.as_bytes());
    }

    #[test]
    fn a_copy_replaces_a_file_and_a_link_and_leaves_what_the_link_led_to() {
        let root = std::env::temp_dir().join(format!("lazyguard-replaced-{}", std::process::id()));
        fs::create_dir(&root).unwrap();
        let (path, other) = (root.join("file"), root.join("other"));
        fs::write(&other, "other").unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        for content in ["first", "second"] {
            replace(&path, content.as_bytes(), Some(0o755)).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
        }
        assert!(fs::symlink_metadata(&path).unwrap().is_file());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o755);
        assert_eq!(fs::read_to_string(&other).unwrap(), "other");
        fs::create_dir(root.join("folder")).unwrap();
        assert!(replace(&root.join("folder"), b"", Some(0o755)).is_err(), "a folder is not replaced");
        std::os::unix::fs::symlink("/dev/null", root.join("null")).unwrap();
        assert_eq!(replace(&root.join("null"), b"", None).unwrap_err().to_string(), "it is a device, and no file");
        assert_eq!(fs::read_dir(&root).unwrap().count(), 4, "nothing unfinished stays");
        fs::remove_dir_all(&root).unwrap();
    }
}
