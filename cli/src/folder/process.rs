//! A process of this machine by its number: whether it exists, which user owns it, and which files of ours it has mapped.
//!
//! A hidden process (`hidepid`) exists. A file at a mapped path is the process's own if it names the process's start, and belongs to the
//! process's user, this user or root.
//!
//! Must not: trust a process id alone: the kernel reuses ids.

use crate::machine::files;
use crate::words::Failure;
pub(crate) use lazyguard_core::run_folder::file::TRACE as RECORDING;
use lazyguard_core::stack::{mappings, Mapping};
use lazyguard_core::trace::layout;
use rustix::io::Errno;
use rustix::process::{getuid, test_kill_process, Pid};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

pub(crate) fn started_by_header(path: &Path) -> io::Result<u64> {
    header_word(&files::open(path)?, layout::header::PROCESS_START_TICKS)
}

pub(crate) fn process_by_header(path: &Path) -> io::Result<u32> {
    // The driver's version is the other half.
    header_word(&files::open(path)?, layout::header::PROCESS).map(|word| word as u32)
}

pub(crate) fn header_word(file: &File, number: usize) -> io::Result<u64> {
    let mut word = [0; layout::WORD];
    file.read_exact_at(&mut word, (number * layout::WORD) as u64)?;
    Ok(u64::from_le_bytes(word))
}

pub(crate) fn ask_as(owner: Option<u32>) -> String {
    let known = owner.map(|owner| format!("user {owner}"));
    let (owner, them) = (known.as_deref().unwrap_or("another user"), known.as_deref().unwrap_or("that user"));
    format!(
        "it belongs to {owner}, and user {} may not look into it here; ask as {them}, or as an administrator who may read any file",
        getuid()
    )
}

pub(crate) fn denied(path: &Path, error: &io::Error) -> Option<String> {
    if error.kind() != io::ErrorKind::PermissionDenied {
        return None;
    }
    let about = path.ancestors().find_map(|path| fs::symlink_metadata(path).ok());
    Some(match about.map(|about| about.uid()) {
        Some(owner) if owner == getuid().as_raw() => {
            format!("its own user {owner} may not read it: its permissions, or a security module, forbid it ({error})")
        }
        owner => ask_as(owner),
    })
}

pub(crate) fn proc_is_mounted() -> bool {
    Status::of(std::process::id()).started().is_some()
}

pub(crate) fn numbers(status: &str, line: &str) -> Vec<u32> {
    let line = status.lines().find_map(|text| text.strip_prefix(line)).unwrap_or_default();
    line.split_ascii_whitespace().filter_map(|number| number.parse().ok()).collect()
}

fn may_be_of(file: &Path, process: u32) -> io::Result<bool> {
    let owner = fs::metadata(file)?.uid();
    let of_process =
        || numbers(&files::read_text(format!("/proc/{process}/status")).unwrap_or_default(), "Uid:").contains(&owner);
    Ok(owner == 0 || owner == getuid().as_raw() || of_process())
}

/// The recording that a process has mapped, whose header names it: not one inherited from its parent.
pub(crate) fn recording_of(process: u32, maps: &str) -> Result<Option<PathBuf>, Failure> {
    let own = PathBuf::from(format!("/proc/{process}"));
    let started = Status::of(process).started();
    let is_it = |path: &PathBuf| {
        started_by_header(path).is_ok_and(|ticks| Some(ticks) == started) && may_be_of(path, process).unwrap_or(false)
    };
    let mut lost = None;
    for mapping in mapped(maps, RECORDING) {
        let path = mapping.file().unwrap_or_default();
        let as_mapped = own.join(format!("map_files/{:x}-{:x}", mapping.begin, mapping.end));
        let in_its_root = PathBuf::from(format!("{}/root{path}", own.display()));
        match [PathBuf::from(path), in_its_root, as_mapped].into_iter().find(is_it) {
            Some(found) => return Ok(Some(found)),
            None => lost = lost.or(Some(path.to_owned())),
        }
    }
    match lost {
        None => Ok(None),
        Some(path) => Err(Failure::Input(format!(
            "process {process}: its recording is {path}, which is not there any more, cannot be read, belongs to another user than the \
             process, or is that of the process it was forked from"
        ))),
    }
}

/// The guarded processes of this machine that this user may look into and that keep a recording, by their ids.
pub(crate) fn guarded() -> Vec<u32> {
    let has_recording = |process: &u32| {
        let maps = files::read_lossy(files::about_memory(*process, "maps")).unwrap_or_default();
        recording_of(*process, &maps).is_ok_and(|recording| recording.is_some())
    };
    let mut guarded: Vec<_> = files::numbered("/proc").filter(has_recording).collect();
    guarded.sort_unstable();
    guarded
}

/// The path of a file that a process has mapped, in the process's own mount namespace.
pub(crate) fn file_of(process: u32, maps: &str, name: &str) -> Option<PathBuf> {
    let mapping = mapped(maps, name).next()?;
    let path = mapping.file()?;
    let in_its_root = PathBuf::from(format!("/proc/{process}/root{path}"));
    // The shorter path, if both lead to the same file.
    let same = |path: &Path| fs::metadata(path).map(|m| (m.dev(), m.ino())).ok();
    let path = PathBuf::from(path);
    Some(if same(&path) == same(&in_its_root) { path } else { in_its_root })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub state: char,
    pub parent: i32,
    flags: u32,
    threads: u32,
    /// The start of the process, in clock ticks since the machine's: it tells a process from a later one with the same id.
    pub started: u64,
}

impl Stat {
    pub fn of(process: i32) -> Option<Self> {
        Self::read(&files::read_text(format!("/proc/{process}/stat")).ok()?)
    }

    /// The second field is a name that may hold any character; it ends at the last bracket.
    pub fn read(stat: &str) -> Option<Self> {
        let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
        let (state, parent) = (fields.next()?.chars().next()?, fields.next()?.parse().ok()?);
        let flags = fields.nth(4)?.parse().ok()?;
        let (threads, started) = (fields.nth(10)?.parse().ok()?, fields.nth(1)?.parse().ok()?);
        Some(Self { state, parent, flags, threads, started })
    }

    /// Whether no thread of it runs any more. The state is that of the first thread, which may end before the others.
    pub fn has_ended(self) -> bool {
        matches!(self.state, 'Z' | 'X') && self.threads < 2
    }

    /// Whether its first thread is ending, and may have closed its files for that (the kernel's `PF_EXITING`).
    pub fn is_ending(self) -> bool {
        self.flags & 4 != 0
    }

    pub fn is_stopped(self) -> bool {
        matches!(self.state, 'T' | 't')
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Runs(u64),
    Stopped(u64),
    /// It exists; this user may know no more.
    Hidden,
    /// It does not exist, or has ended and was not reaped.
    Gone,
}

impl Status {
    pub fn of(process: u32) -> Self {
        let Ok(stat) = files::read_text(format!("/proc/{process}/stat")) else {
            return if exists(process) { Self::Hidden } else { Self::Gone };
        };
        match Stat::read(&stat) {
            Some(stat) if stat.has_ended() => Self::Gone,
            Some(stat) if stat.is_stopped() => Self::Stopped(stat.started),
            Some(stat) => Self::Runs(stat.started),
            None => Self::Gone,
        }
    }

    pub fn started(self) -> Option<u64> {
        match self {
            Self::Runs(since) | Self::Stopped(since) => Some(since),
            Self::Hidden | Self::Gone => None,
        }
    }
}

/// Whether a process with this number exists, of any user; one that has ended and was not reaped exists.
pub(crate) fn exists(process: u32) -> bool {
    // Zero and below mean groups.
    let process = i32::try_from(process).ok().and_then(Pid::from_raw);
    process.is_some_and(|process| matches!(test_kill_process(process), Ok(()) | Err(Errno::PERM)))
}

fn mapped<'a>(maps: &'a str, name: &'a str) -> impl Iterator<Item = Mapping<'a>> {
    let is_it = move |path: &str| path.strip_suffix(name).is_some_and(|folder| folder.ends_with('/'));
    mappings(maps).filter(move |mapping| mapping.file().is_some_and(is_it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_a_line_of_the_status_are_read() {
        let status = "Name:\tapp\nUid:\t0\t1\t2\t65534\nNSpid:\t4242\t1\nSeccomp:\t2\n";
        assert_eq!((numbers(status, "Uid:"), numbers(status, "NSpid:")), (vec![0, 1, 2, 65534], vec![4242, 1]));
        assert_eq!((numbers(status, "Pid:"), numbers("Uid:\n", "Uid:"), numbers("", "Uid:")), (vec![], vec![], vec![]));
    }

    #[test]
    fn a_recording_is_found_among_the_mappings_of_a_process() {
        let maps = "55d0c0a00000-55d0c0a01000 r--p 00000000 fe:01 131 /usr/bin/app\n\
                    7f0000000000-7f0000100000 rw-s 00000000 fe:01 4711 /tmp/run with blanks/trace.lgt\n\
                    7f0000200000-7f0000201000 rw-p 00000000 00:00 0\n";
        let all = |maps| mapped(maps, RECORDING).map(|m| (m.begin, m.file().unwrap().to_owned())).collect::<Vec<_>>();
        assert_eq!(all(maps), [(0x7f00_0000_0000, "/tmp/run with blanks/trace.lgt".to_owned())]);
        let deleted = "7f0000000000-7f0000100000 rw-s 00000000 fe:01 4711 /tmp/a/trace.lgt (deleted)\n";
        assert_eq!(all(deleted)[0].1, "/tmp/a/trace.lgt");
        assert_eq!(all("7f00-7f01 rw-s 00000000 fe:01 4711 /tmp/my-trace.lgt\n"), []);
        assert_eq!(all(""), []);
        // A forked child has its parent's as well.
        assert_eq!(all(&[maps, deleted].concat()).len(), 2);
    }

    #[test]
    fn the_stat_of_a_process_is_read_behind_a_name_that_holds_anything() {
        let read = |state: &str, threads: u32| {
            Stat::read(&format!("42 (a) b) c) {state} 7 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 {threads} 18 8888 20"))
        };
        assert_eq!(read("S", 3), Some(Stat { state: 'S', parent: 7, flags: 6, threads: 3, started: 8888 }));
        assert!(!read("S", 1).unwrap().has_ended() && read("Z", 1).unwrap().has_ended());
        assert!(!read("Z", 2).unwrap().has_ended(), "another thread runs");
        assert!(read("T", 1).unwrap().is_stopped() && read("t", 1).unwrap().is_stopped());
        assert_eq!((Stat::read("42 (cut"), Stat::read("")), (None, None));
        let own = Stat::of(i32::try_from(std::process::id()).unwrap()).unwrap();
        assert!(own.started > 0 && own.parent == std::os::unix::process::parent_id() as i32);
    }
}
