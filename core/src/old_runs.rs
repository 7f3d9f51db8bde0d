//! Private folders left behind by earlier processes: what they are, which of them are removed, and how.
//!
//! One rule: a folder of this user's whose process has ended goes once it is older than [`DAY`], or while the newer ones take more than
//! [`MOST_BYTES`], the oldest first. A failure that is younger than a day loses only its recordings to the size. The library enforces the rule on
//! the folders of processes when it makes one, and `lazyguard run` on all when it makes one.
//!
//! A folder is never removed while its process lives. For a process of the same host and namespace, the kernel says whether it lives. Containers
//! (`--ipc=host`) and hosts that share a file system see each other's folders and not each other's processes: there a lock shows that a run is
//! alive, and the stamp in its recording that a process is. A process that was stopped for longer than [`SILENT`] counts as gone. Folders of an
//! earlier boot are treated in the same way.
//!
//! A sweep runs on a thread of the program, whose stack may be small, and any user may write to root's place for other users. So a sweep looks at
//! [`Sight::entries`] at most, and goes no deeper than LazyGuard nests folders.
//!
//! Must not: follow a link, remove anything of another user outside a folder of this one, or wait.

mod remove;

use crate::folder::{entries_of, Entry};
use crate::order;
use crate::profile::{ImageId, PART};
use crate::run_folder::file::{HANG, KEPT, LATE, MARK, OF_A_JOB, OF_A_PROCESS, REPORTED, TRACE};
use crate::run_folder::Private;
use crate::trace::layout::{header, HEADER_BYTES, WORD};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use remove::{remove_folder, DEEPEST};

pub const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Bytes of all folders in one place: sixteen recordings of the usual size. The newest stays in any case.
pub const MOST_BYTES: u64 = 256 << 20;
pub const MOST_FOLDERS: usize = 128;
/// How long a live process may leave its recording unstamped.
pub const SILENT: Duration = Duration::from_secs(60);

/// Most folders looked at while a program starts.
const MOST_LOOKED_AT: usize = 256;

pub struct Sight<'a> {
    pub user: u32,
    pub namespace: u16,
    /// Most entries looked at in one private folder, and most that one sweep removes.
    pub entries: usize,
    pub now: SystemTime,
    pub exists: &'a dyn Fn(u32) -> bool,
    /// Opens a file without following a link or waiting.
    pub open: &'a dyn Fn(&Path) -> io::Result<File>,
    /// Whether another process holds a lock (flock(2)); `None` where the file system has no locks. Without locks asked for, it does.
    pub is_locked: &'a dyn Fn(&File) -> Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It exists, or may exist.
    Lives,
    Gone,
    /// It is of another namespace or host, and has given no sign of life for [`SILENT`].
    Silent,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    pub path: PathBuf,
    pub private: Private,
    pub since: SystemTime,
    pub bytes: u64,
    pub state: State,
    /// It has the report of a hang, or its path was printed.
    pub is_evidence: bool,
    pub foreign: Option<String>,
}

/// A hash of the process namespace and of this boot, since the first namespace has the same number on every host. 0 where unknown.
pub fn namespace() -> u16 {
    let told = |name: &str| fs::read_to_string(Path::new("/proc/sys/kernel").join(name)).ok();
    let boot = told("random/boot_id").or_else(|| told("hostname"));
    namespace_by(boot.as_deref(), fs::read_link("/proc/self/ns/pid").ok().as_deref().and_then(Path::to_str))
}

fn namespace_by(boot: Option<&str>, link: Option<&str>) -> u16 {
    let told = |text: Option<&str>| text.map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned);
    let (Some(boot), Some(link)) = (told(boot), told(link)) else { return 0 };
    // FNV-1a: every version and build has to come to the same.
    let bytes = boot.bytes().chain(link.bytes());
    let hash = bytes.fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    ((hash >> 16) as u16 ^ hash as u16).max(1)
}

/// This user's private folders in a place, without links.
pub fn all_in(base: &Path, sight: &Sight<'_>) -> Vec<Left> {
    some_in(base, sight, usize::MAX)
}

pub fn tidy(base: &Path, sight: &Sight<'_>) {
    let left = some_in(base, sight, MOST_LOOKED_AT);
    let mut entries = sight.entries;
    // If this fails, the next process tries again.
    for (left, surplus) in surplus(&left, sight.now) {
        match surplus {
            Surplus::Recordings => left.remove_recordings(),
            Surplus::All => drop(left.remove(&mut entries)),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Surplus {
    Recordings,
    All,
}

/// The oldest first; none whose process lives.
fn surplus(left: &[Left], now: SystemTime) -> Vec<(&Left, Surplus)> {
    let mut dead: Vec<_> = left.iter().filter(|left| left.state != State::Lives).collect();
    order::sort_by_key(&mut dead, |left| std::cmp::Reverse(left.since));
    let mut bytes = 0_u64;
    let surplus = dead.into_iter().enumerate().filter_map(|(number, left)| {
        bytes = bytes.saturating_add(left.bytes);
        let is_old = left.age(now) > DAY || number >= MOST_FOLDERS;
        match number > 0 && bytes > MOST_BYTES {
            true if left.is_evidence && !is_old => Some((left, Surplus::Recordings)),
            is_much => (is_old || is_much).then_some((left, Surplus::All)),
        }
    });
    let mut surplus: Vec<_> = surplus.collect();
    surplus.reverse();
    surplus
}

fn some_in(base: &Path, sight: &Sight<'_>, most: usize) -> Vec<Left> {
    let named = entries_of(base).filter_map(|entry| Some((Private::by_name(entry.name())?, entry)));
    let own = named.filter(|(private, _)| private.user == sight.user).take(most);
    own.filter_map(|(private, entry)| Left::at(private, &entry, sight)).collect()
}

impl Left {
    fn at(private: Private, entry: &Entry, sight: &Sight<'_>) -> Option<Self> {
        // Any user may put an entry of such a name here. For a link, the metadata is the link's own.
        let about = entry.metadata().ok().filter(|about| about.is_dir() && about.uid() == sight.user)?;
        let (path, since) = (entry.path(), about.modified().ok()?);
        let is_ours = if private.is_run { is_ours_in_run } else { is_ours };
        let mut entries = sight.entries;
        let known = sight.namespace != 0 && private.namespace == sight.namespace;
        let lives = |folder: &Path| private.is_run && lives_in_run(&path, folder, known, since, sight);
        let seen = look_through(&path, DEEPEST, &mut entries, private.is_run, &Look { is_ours, lives: &lives });
        let state = match private.is_run {
            _ if (sight.exists)(private.process) => State::Lives,
            true if seen.lives || lives(&path) => State::Lives,
            // The number of the process says nothing here. Without a recording in a file, the folder may be a day old.
            false if !known && is_stamped(&path, sight).unwrap_or_else(|| is_recent(since, sight)) => State::Lives,
            _ if known => State::Gone,
            _ => State::Silent,
        };
        let is_evidence = seen.is_evidence || !private.is_run && is_there(&path, HANG);
        Some(Self { bytes: seen.bytes, path, private, since, state, is_evidence, foreign: seen.foreign })
    }

    /// A user may still be looking for it.
    pub fn is_fresh_evidence(&self, now: SystemTime) -> bool {
        self.is_evidence && self.age(now) <= DAY
    }

    pub fn age(&self, now: SystemTime) -> Duration {
        now.duration_since(self.since).unwrap_or_default()
    }

    /// Removes its recordings, and keeps its age.
    fn remove_recordings(&self) {
        let folders = entries_of(&self.path).filter(|entry| entry.metadata().is_ok_and(|about| about.is_dir()));
        let folders: Vec<_> = folders.map(|entry| entry.path()).chain([self.path.clone()]).collect();
        folders.iter().for_each(|folder| drop(fs::remove_file(folder.join(TRACE))));
        let _ = File::open(&self.path).and_then(|folder| folder.set_modified(self.since));
    }

    /// An error if it holds something that is not LazyGuard's.
    pub fn removable(&self) -> io::Result<()> {
        let refused = |name| Err(io::Error::other(format!("it holds something that is not LazyGuard's: {name}")));
        self.foreign.as_ref().map_or(Ok(()), refused)
    }

    /// Removes the folder, and counts the removed entries down; returns the bytes that this releases. A folder with anything that is not
    /// LazyGuard's stays.
    pub fn remove(&self, entries: &mut usize) -> io::Result<u64> {
        self.removable()?;
        remove_folder(&self.path, entries).map(|()| self.bytes)
    }
}

fn is_recent(since: SystemTime, sight: &Sight<'_>) -> bool {
    sight.now.duration_since(since).map_or(true, |age| age <= DAY)
}

/// Whether the run `root`, or a process or run in `folder` of it, still runs. Namespaces of two hosts may have one number, so a lock counts in
/// each.
fn lives_in_run(root: &Path, folder: &Path, known: bool, since: SystemTime, sight: &Sight<'_>) -> bool {
    let is_locked = || {
        let mark = (sight.open)(&folder.join(MARK));
        mark.is_ok_and(|mark| (sight.is_locked)(&mark).unwrap_or(!known && is_recent(since, sight)))
    };
    if root == folder {
        return is_locked();
    }
    let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    // For a run that has ended, the numbers are enough: it waited for the processes it started, or released them.
    let is_stamped = || (!known || !is_there(root, KEPT)) && is_stamped(folder, sight) == Some(true);
    process_of(&name).is_some_and(|process| (sight.exists)(process)) || is_stamped() || is_locked()
}

/// The process of a folder in a run, by its name: `rankR-PID`, with a dot and a number after an exec, or `run-PID`, with a number if that was taken.
pub fn process_of(name: &str) -> Option<u32> {
    let process = match name.strip_prefix("run-") {
        Some(rest) => rest.split('-').next(),
        None => name.rsplit_once('-').and_then(|(_, process)| process.split('.').next()),
    };
    process?.parse().ok()
}

/// Whether a process has stamped its recording lately; `None` without a recording in a file.
fn is_stamped(folder: &Path, sight: &Sight<'_>) -> Option<bool> {
    let mut bytes = [0; HEADER_BYTES];
    let trace = folder.join(TRACE);
    if fs::symlink_metadata(&trace).is_ok_and(|about| !about.is_file()) {
        // The library makes regular files only, so it is no recording.
        return Some(false);
    }
    (sight.open)(&trace).and_then(|file| file.read_exact_at(&mut bytes, 0)).ok()?;
    let word = |number: usize| bytes[number * WORD..][..WORD].try_into().map_or(0, u64::from_le_bytes);
    let stamped = word(header::ARMED_UNIX_NANOS).saturating_add(word(header::LAST_SEEN));
    let now = sight.now.duration_since(UNIX_EPOCH).unwrap_or_default();
    Some(now.saturating_sub(Duration::from_nanos(stamped)) <= SILENT)
}

#[derive(Default)]
struct Seen {
    bytes: u64,
    foreign: Option<String>,
    /// A process of a run still runs; or there are too many entries.
    lives: bool,
    /// The run's path was printed, or a process in it has left the report of a hang; or there are too many entries.
    is_evidence: bool,
}

struct Look<'a> {
    is_ours: fn(&Entry) -> bool,
    lives: &'a dyn Fn(&Path) -> bool,
}

/// `is_run`: its folders are those of processes and runs.
fn look_through(folder: &Path, depth: usize, entries: &mut usize, is_run: bool, look: &Look<'_>) -> Seen {
    let mut seen = Seen { is_evidence: is_run && is_there(folder, KEPT), ..Seen::default() };
    for entry in entries_of(folder) {
        let Some(rest) = entries.checked_sub(1) else {
            (seen.lives, seen.is_evidence) = (seen.lives || is_run, seen.is_evidence || is_run);
            break;
        };
        *entries = rest;
        if seen.foreign.is_none() && !(look.is_ours)(&entry) {
            seen.foreign = Some(name_of(&entry));
        }
        let Ok(about) = entry.metadata() else { continue };
        // Blocks are of 512 bytes, whatever the file system counts in.
        seen.bytes = seen.bytes.saturating_add(about.blocks().saturating_mul(512));
        if !about.is_dir() {
            continue;
        }
        let path = entry.path();
        seen.lives = seen.lives || is_run && (look.lives)(&path);
        seen.is_evidence = seen.is_evidence || is_run && is_there(&path, HANG);
        if depth > 0 {
            let within = look_through(&path, depth - 1, entries, is_run && is_there(&path, MARK), look);
            seen.bytes = seen.bytes.saturating_add(within.bytes);
            seen.lives |= within.lives;
            seen.is_evidence |= within.is_evidence;
            seen.foreign = seen.foreign.or_else(|| Some(format!("{}/{}", name_of(&entry), within.foreign?)));
        }
    }
    seen
}

/// Whether an entry of a process's folder is LazyGuard's own, or the beginning of one.
fn is_ours(entry: &Entry) -> bool {
    let name = name_of(entry);
    let whole = name.strip_prefix('.').and_then(|name| name.strip_suffix(".new")).unwrap_or(&name);
    // A file with the name of one of LazyGuard's own is removed with it.
    OF_A_PROCESS.contains(&whole) && !entry.metadata().is_ok_and(|about| about.is_dir())
}

/// The same of a run's folder and the folders in it, which have many names.
fn is_ours_in_run(entry: &Entry) -> bool {
    let name = name_of(entry);
    let of_a_job = || [OF_A_JOB, LATE, REPORTED].iter().any(|prefix| name.starts_with(prefix));
    let is_runs = || [MARK, KEPT].contains(&name.as_str()) || of_a_job();
    // The profile of a run that was made again.
    let whole = name.strip_prefix('.').and_then(|name| name.strip_suffix(".new")).unwrap_or(&name);
    let is_of_profile = || whole.ends_with(PART) || whole.parse::<ImageId>().is_ok();
    entry.metadata().is_ok_and(|about| about.is_dir()) || is_ours(entry) || is_runs() || is_of_profile()
}

fn name_of(entry: &Entry) -> String {
    entry.name().to_string_lossy().into_owned()
}

fn is_there(folder: &Path, name: impl AsRef<OsStr>) -> bool {
    fs::symlink_metadata(folder.join(Path::new(name.as_ref()))).is_ok()
}

#[cfg(test)]
#[path = "old_runs_tests.rs"]
mod tests;
