//! A place for the folders of processes that have changed their user (`gosu`, `su`, `setpriv`): they may not write into the run's folder.
//!
//! The place has a secret name in an unlisted folder beside the private folders. The program gets the name in its environment. At the end, the
//! command moves the contents into the run's folder.
//!
//! Must not: follow a link, wait for anything but a regular file, or trust the contents.

use super::root::{private_folder, process_with, random, remove_own, MARK};
use crate::folder::{exists, numbers};
use crate::machine::files::{self, Locked};
use lazyguard_core::old_runs::process_of;
use lazyguard_core::run_folder::private_bases;
use lazyguard_core::tasks::{capabilities, capability};
use rustix::fs::{openat, Dir, FileType, Mode, OFlags};
use rustix::process::geteuid;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

const MOST_FOLDERS: usize = 4096;
const MOST_FILES: usize = 64;
const MOST_BYTES: u64 = 256 << 20;

pub(super) struct OtherUsers {
    outer: PathBuf,
    place: PathBuf,
    /// The mark, locked: the lock shows a sweep that the run is alive.
    _mark: Option<Locked>,
}

impl OtherUsers {
    /// Makes the place, if the program can change its user. `None` where it cannot be made: such a process then says that it cannot write.
    pub fn make(process: u32) -> Option<Self> {
        if !can_change_user() {
            return None;
        }
        let bases = private_bases(std::env::var_os("TMPDIR")).into_iter().filter(|base| everybody_gets_to(base));
        bases.into_iter().find_map(|base| Self::make_in(&base, process).ok())
    }

    fn make_in(base: &Path, process: u32) -> io::Result<Self> {
        let outer = private_folder(base, process)?;
        let place = outer.join(format!("{:016x}{:016x}", random(), random()));
        let made = Self::fill(&outer, &place);
        if made.is_err() {
            remove_own(&outer);
        }
        made.map(|mark| Self { outer, place, _mark: mark })
    }

    fn fill(outer: &Path, place: &Path) -> io::Result<Option<Locked>> {
        DirBuilder::new().mode(0o700).create(place)?;
        // The mark shows the sweep that the folders in here are those of processes.
        mark_at(place)?;
        let mark = mark_at(outer)?;
        fs::set_permissions(place, Permissions::from_mode(0o1777))?;
        fs::set_permissions(outer, Permissions::from_mode(0o711))?;
        Ok(Locked::new(mark).ok())
    }

    pub fn path(&self) -> &Path {
        &self.place
    }

    /// Moves every folder into the run's; of a living process it copies the contents so far.
    pub fn bring_into(&self, root: &Path) -> Vec<String> {
        let entries = fs::read_dir(&self.place).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let names = names.filter(|name| process_of(name).is_some()).take(MOST_FOLDERS);
        let mut room = MOST_BYTES;
        let mut bring = |name: String| self.bring(&name, root, &mut room).err().map(|error| format!("{name}: {error}"));
        names.filter_map(&mut bring).collect()
    }

    fn bring(&self, name: &str, root: &Path, room: &mut u64) -> io::Result<()> {
        let from = self.place.join(name);
        if !fs::symlink_metadata(&from)?.is_dir() {
            return Ok(());
        }
        let names = std::iter::once(name.to_owned()).chain((2..100).map(|n| format!("{name}.{n}")));
        let to = names.map(|name| root.join(name)).find(|to: &PathBuf| fs::symlink_metadata(to).is_err());
        let to = to.ok_or_else(|| io::Error::from(io::ErrorKind::AlreadyExists))?;
        if !lives(&from) && fs::rename(&from, &to).is_ok() {
            // It may have become a link since the check.
            return if fs::symlink_metadata(&to)?.is_dir() { Ok(()) } else { fs::remove_file(&to) };
        }
        copy(&from, &to, room)
    }
}

impl Drop for OtherUsers {
    fn drop(&mut self) {
        let mut left = fs::read_dir(&self.place).into_iter().flatten().flatten();
        // A live process needs the place; a later run sweeps it.
        if !left.any(|entry| lives(&entry.path())) {
            [&self.place, &self.outer].into_iter().for_each(|folder| remove_own(folder));
        }
    }
}

/// Whether a process with its number and, as far as that can be known, its owner exists.
fn lives(folder: &Path) -> bool {
    let Some(process) = process_with(folder).filter(|process| exists(*process)) else { return false };
    // The last of the four ids is the one for files.
    let status = files::read_text(format!("/proc/{process}/status")).unwrap_or_default();
    let user = numbers(&status, "Uid:").last().copied();
    let owner = fs::symlink_metadata(folder).map(|about| about.uid()).ok();
    user.is_none() || user == owner
}

fn mark_at(folder: &Path) -> io::Result<File> {
    // A user who can open a file can lock it.
    files::create_new(&folder.join(MARK), 0o600)
}

fn can_change_user() -> bool {
    let status = files::read_text("/proc/self/status").unwrap_or_default();
    capabilities(&status).map_or(geteuid().is_root(), |set| set >> capability::SETUID & 1 == 1)
}

fn everybody_gets_to(folder: &Path) -> bool {
    let Ok(folder) = folder.canonicalize() else { return false };
    folder.ancestors().all(|above| fs::metadata(above).is_ok_and(|about| about.mode() & 0o001 != 0))
}

/// Copies that user's own files without other hard links, readable for this user alone; `room` is the number of bytes left.
fn copy(from: &Path, to: &Path, room: &mut u64) -> io::Result<()> {
    let nofollow = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let folder = rustix::fs::open(from, nofollow | OFlags::DIRECTORY | OFlags::RDONLY, Mode::empty())?;
    let owner = rustix::fs::fstat(&folder)?.st_uid;
    DirBuilder::new().mode(0o700).create(to)?;
    let mut left_out = Ok(());
    for entry in Dir::read_from(&folder)?.flatten().take(MOST_FILES) {
        if entry.file_type() != FileType::RegularFile {
            continue;
        }
        let Ok(name) = entry.file_name().to_str() else { continue };
        let file = File::from(openat(&folder, entry.file_name(), nofollow | OFlags::RDONLY, Mode::empty())?);
        let about = file.metadata()?;
        if !about.is_file() || about.uid() != owner || about.nlink() != 1 {
            continue;
        }
        if about.len() > *room {
            let why = format!("{name} is not copied: of such processes {} MiB are, all in all", MOST_BYTES >> 20);
            left_out = left_out.and(Err(io::Error::other(why)));
            continue;
        }
        let mut copy = files::create_new(&to.join(name), 0o600)?;
        *room -= io::copy(&mut file.take(*room), &mut copy)?;
    }
    left_out
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("lazyguard-others-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_place_is_open_to_who_knows_it_and_to_nobody_else() {
        let scratch = Scratch::new("open");
        let others = OtherUsers::make_in(&scratch.0, 42).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
        assert_eq!((mode(&others.outer), mode(others.path())), (0o711, 0o1777));
        assert_eq!(others.path().file_name().unwrap().len(), 32);
        assert_eq!((mode(&others.outer.join(MARK)), mode(&others.path().join(MARK))), (0o600, 0o600));
        let outer = others.outer.clone();
        drop(others);
        assert!(!outer.exists());
    }

    #[test]
    fn folders_are_brought_in_and_nothing_else_is_followed_or_waited_for() {
        let scratch = Scratch::new("bring");
        let root = scratch.0.join("root");
        fs::create_dir_all(root.join("rank0-4194998")).unwrap();
        let others = OtherUsers::make_in(&scratch.0, 42).unwrap();
        let place = others.path().to_owned();
        let folder = |name: &str| {
            fs::create_dir(place.join(name)).unwrap();
            fs::write(place.join(name).join("hang.json"), name).unwrap();
        };
        // No process has these ids: they are above the kernel's limit. This process is alive.
        let own = format!("rank1-{}", std::process::id());
        ["rank0-4194998", "rank0-4194999", "notes", &own].into_iter().for_each(folder);
        let secret = scratch.0.join("secret");
        fs::write(&secret, "secret").unwrap();
        std::os::unix::fs::symlink(&secret, place.join(&own).join("run.json")).unwrap();
        std::os::unix::fs::symlink(&scratch.0, place.join("rank0-4194997")).unwrap();
        let pipe = place.join(&own).join("trace.lgt");
        assert!(std::process::Command::new("mkfifo").arg(pipe).status().unwrap().success());
        assert_eq!(others.bring_into(&root), Vec::<String>::new());
        let said = |name: &str| fs::read_to_string(root.join(name).join("hang.json")).ok();
        assert_eq!(said("rank0-4194998"), None, "it was there before");
        assert_eq!(said("rank0-4194998.2").as_deref(), Some("rank0-4194998"));
        assert_eq!(said("rank0-4194999").as_deref(), Some("rank0-4194999"));
        assert_eq!(said(&own).as_deref(), Some(own.as_str()));
        assert!(!root.join("notes").exists() && !root.join("rank0-4194997").exists());
        assert_eq!(fs::read_dir(root.join(&own)).unwrap().count(), 1, "neither the link nor the pipe");
        let outer = others.outer.clone();
        // No process has this number.
        let elsewhere = place.join("rank0-4194999");
        fs::create_dir(&elsewhere).unwrap();
        assert!(lives(&place.join(&own)) && !lives(&elsewhere) && !lives(&place.join("notes")));
        if geteuid().is_root() {
            // The folder is another user's: its process had this number in another namespace.
            std::os::unix::fs::chown(place.join(&own), Some(65534), None).unwrap();
            assert!(!lives(&place.join(&own)));
            std::os::unix::fs::chown(place.join(&own), Some(rustix::process::getuid().as_raw()), None).unwrap();
        }
        drop(others);
        assert!(place.join(&own).is_dir(), "its process goes on");
        fs::remove_dir_all(outer).unwrap();
    }

    #[test]
    fn what_is_copied_is_for_its_owner_alone_and_has_its_limits() {
        let scratch = Scratch::new("copy");
        let (from, to) = (scratch.0.join("from"), scratch.0.join("to"));
        fs::create_dir(&from).unwrap();
        fs::write(from.join("hang.json"), "report").unwrap();
        File::create(from.join("trace.lgt")).unwrap().set_len(MOST_BYTES + 1).unwrap();
        fs::write(scratch.0.join("secret"), "secret").unwrap();
        fs::hard_link(scratch.0.join("secret"), from.join("run.json")).unwrap();
        let mut room = MOST_BYTES;
        let error = copy(&from, &to, &mut room).unwrap_err().to_string();
        assert_eq!(error, "trace.lgt is not copied: of such processes 256 MiB are, all in all");
        assert_eq!((room, fs::read_dir(&to).unwrap().count()), (MOST_BYTES - 6, 1));
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
        assert_eq!((mode(&to), mode(&to.join("hang.json"))), (0o700, 0o600));
        if geteuid().is_root() {
            // The file belongs to another user than the folder.
            std::os::unix::fs::chown(from.join("hang.json"), Some(65534), None).unwrap();
            assert!(copy(&from, &scratch.0.join("again"), &mut 0).is_err());
            assert_eq!(fs::read_dir(scratch.0.join("again")).unwrap().count(), 0);
        }
    }

    #[test]
    fn a_folder_that_only_its_owner_gets_to_is_none_for_others() {
        let scratch = Scratch::new("reach");
        let (open, closed) = (scratch.0.join("open"), scratch.0.join("closed"));
        [&open, &closed].iter().for_each(|path| fs::create_dir(path).unwrap());
        fs::set_permissions(&open, Permissions::from_mode(0o711)).unwrap();
        fs::set_permissions(&closed, Permissions::from_mode(0o700)).unwrap();
        let above = everybody_gets_to(&std::env::temp_dir());
        assert_eq!((everybody_gets_to(&open), everybody_gets_to(&closed)), (above, false));
        assert!(!everybody_gets_to(&closed.join("nowhere")));
    }
}
