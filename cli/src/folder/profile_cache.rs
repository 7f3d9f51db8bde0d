//! The profiles in the user's cache, one for each program: what `lazyguard run` uses if it is given no folder.
//!
//! Must not: make a folder but for `--retry`, as the guard does in the first process that uses CUDA, or remove what is no profile of these.

use super::profile::Folder;
use lazyguard_core::profile::IMAGES;
use rustix::fs::{access, utimensat, Access, AtFlags, Timespec, Timestamps, CWD, UTIME_NOW};
use rustix::process::geteuid;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use twox_hash::XxHash3_64;

/// Programs that run another one, or a script, which their arguments name. Versions (`python3.12`) are cut off.
const STARTERS: &str =
    "accelerate bash dash deepspeed env ksh lazyguard mpiexec mpirun numactl pypy python sh timeout torchrun zsh";

/// The most profiles that the cache keeps, and the most bytes of all. The guard loads no more images ahead than one profile may have here.
const MOST_PROFILES: usize = 64;
const MOST_BYTES: u64 = 1 << 30;
const MOST_IMAGE_BYTES_OF_ONE: u64 = 256 << 20;
const MANY_PARTS: usize = 32;

pub(crate) const NONE: &str =
    "this user has no cache: XDG_CACHE_HOME is no absolute path, or HOME is no folder of this user";

pub(crate) fn folder() -> Option<PathBuf> {
    folder_of(|name| std::env::var(name).ok(), geteuid().as_raw())
}

/// The cache's folder by the XDG Base Directory Specification. Nothing is made in a folder of another user (as under `sudo`).
fn folder_of(variable: impl Fn(&str) -> Option<String>, user: u32) -> Option<PathBuf> {
    let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let is_of = |path: &Path, owner: u32| fs::metadata(path).map(|about| about.uid() == owner);
    let cache = match absolute("XDG_CACHE_HOME") {
        // Other users may share theirs on purpose; the superuser can write also to those that are not shared.
        Some(cache) if user == 0 => {
            cache.ancestors().find_map(|path| is_of(path, 0).ok()).unwrap_or(true).then_some(cache)
        }
        Some(cache) => Some(cache),
        None => absolute("HOME").filter(|home| is_of(home, user).unwrap_or(false)).map(|home| home.join(".cache")),
    };
    cache.map(|cache| cache.join("lazyguard/profiles"))
}

pub(crate) struct Own {
    pub folder: PathBuf,
    before: Option<SystemTime>,
}

impl Own {
    /// Notes that it is used. The guard makes one that is not there.
    pub fn used(folder: PathBuf) -> Self {
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let times = Timestamps { last_access: now, last_modification: now };
        let _ = utimensat(CWD, &folder, &times, AtFlags::SYMLINK_NOFOLLOW);
        Self { before: changed(&folder), folder }
    }

    /// Makes the folder, for a run whose next attempt needs it; whether it is there, and this user can write it.
    pub fn is_made(&self) -> bool {
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder);
        made.is_ok() && access(&self.folder, Access::WRITE_OK).is_ok()
    }

    /// Removes the oldest images and profiles after a run that has added to the folder, as far as there are too many.
    pub fn keep_small(&self) {
        if changed(&self.folder) == self.before {
            return;
        }
        let Ok(mut own) = Folder::read(&self.folder) else { return };
        // They would stay, and be read at each start.
        own.unreadable.iter().for_each(|part| drop(fs::remove_file(part)));
        if own.parts.len() > MANY_PARTS || bytes_in(&self.folder.join(IMAGES)) > MOST_IMAGE_BYTES_OF_ONE {
            let _ = own.prune(MOST_IMAGE_BYTES_OF_ONE);
        }
        let entries = self.folder.parent().map(fs::read_dir).into_iter().flatten().flatten().flatten();
        let profiles = entries.filter(|entry| is_name(&entry.file_name().to_string_lossy()));
        let by_age = |entry: fs::DirEntry| {
            Some((entry.metadata().ok().filter(fs::Metadata::is_dir)?.modified().ok()?, entry.path()))
        };
        let mut profiles: Vec<_> = profiles.filter_map(by_age).collect();
        profiles.sort_unstable_by_key(|(at, path)| (*path == self.folder, *at));
        let mut bytes = 0;
        for (number, (_, path)) in profiles.iter().rev().enumerate() {
            bytes += bytes_in(path);
            if number >= MOST_PROFILES || bytes > MOST_BYTES {
                let _ = fs::remove_dir_all(path);
            }
        }
    }
}

fn changed(folder: &Path) -> Option<SystemTime> {
    fs::symlink_metadata(folder).and_then(|about| about.modified()).ok()
}

fn bytes_in(folder: &Path) -> u64 {
    let of = |entry: fs::DirEntry| match entry.metadata() {
        Ok(about) if about.is_dir() => bytes_in(&entry.path()),
        about => about.map_or(0, |about| about.len()),
    };
    fs::read_dir(folder).into_iter().flatten().flatten().map(of).sum()
}

fn is_name(name: &str) -> bool {
    let hash = name.rsplit_once('-').map_or("", |(_, hash)| hash);
    hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The name of its file, and a hash of the path that links lead to and, of one of [`STARTERS`] without a file, its arguments.
pub(crate) fn name_of(command: &[OsString], path_of: impl Fn(&OsStr) -> Option<PathBuf>) -> Option<String> {
    /// A name in a file system has 255 bytes at most.
    const MOST_CHARACTERS: usize = 100;
    let (program, arguments) = command.split_first()?;
    let starts_another = is_starter(program);
    let is_script = |word: &&OsString| !word.as_bytes().starts_with(b"-") && Path::new(word).is_file();
    let script = arguments.iter().find(is_script).filter(|_| starts_another).map(PathBuf::from);
    let more = if starts_another && script.is_none() { arguments } else { &[] };
    let up_to_module = more.iter().position(|word| word == "-m").map_or(more.len(), |at| more.len().min(at + 2));
    let path = script.or_else(|| path_of(program)).unwrap_or_else(|| program.into());
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._+-".contains(c) { c } else { '_' };
    let name: String = path.file_name()?.to_string_lossy().chars().map(plain).take(MOST_CHARACTERS).collect();
    let resolved = path.canonicalize().unwrap_or(path).into_os_string();
    let words: Vec<_> = [&resolved].into_iter().chain(&more[..up_to_module]).map(|word| word.as_bytes()).collect();
    Some(format!("{name}-{:016x}", XxHash3_64::oneshot(&words.join(&0))))
}

fn is_starter(program: &OsStr) -> bool {
    let name = Path::new(program).file_name().and_then(OsStr::to_str).unwrap_or_default();
    let name = name.trim_end_matches(|c: char| c == '.' || c.is_ascii_digit());
    STARTERS.split(' ').any(|starter| starter == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("lazyguard-cache-{name}-{}", std::process::id()));
            fs::create_dir(&path).unwrap();
            Self(path)
        }

        /// Makes a file, and returns its path.
        fn file(&self, name: &str) -> String {
            let path = self.0.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
            path.to_str().unwrap().to_owned()
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn name(command: &[&str]) -> String {
        let command: Vec<_> = command.iter().map(OsString::from).collect();
        name_of(&command, |name| Some(Path::new("/usr/bin").join(name))).unwrap()
    }

    /// The name of the file in it.
    fn of(command: &[&str]) -> String {
        let name = name(command);
        let (file, hash) = name.rsplit_once('-').unwrap();
        assert!(hash.len() == 16 && hash.bytes().all(|b| b.is_ascii_hexdigit()), "{name}");
        file.to_owned()
    }

    #[test]
    fn the_cache_is_the_one_of_the_xdg_specification() {
        let scratch = Scratch::new("xdg");
        let home = scratch.0.to_str().unwrap();
        let owner = geteuid().as_raw();
        let folder = |xdg: Option<&str>, home: Option<&str>, user| {
            let value = |name: &str| if name == "HOME" { home } else { xdg.filter(|_| name == "XDG_CACHE_HOME") };
            folder_of(|name| value(name).map(str::to_owned), user)
        };
        let in_home = Some(scratch.0.join(".cache/lazyguard/profiles"));
        assert_eq!(folder(Some("/cache"), Some(home), 1), Some("/cache/lazyguard/profiles".into()));
        for relative in [None, Some(""), Some("cache"), Some("./cache")] {
            assert_eq!(folder(relative, Some(home), owner), in_home, "{relative:?}");
        }
        for no_home in [None, Some(""), Some("home"), Some("/no/such/folder")] {
            assert_eq!(folder(Some("cache"), no_home, owner), None, "{no_home:?}");
        }
        assert_eq!(folder(None, Some(home), owner + 1), None, "another user's");
        assert!(folder(Some("/cache"), None, owner + 1).is_some(), "no home is needed");
        assert_eq!(folder(Some(home), None, 0).is_some(), owner == 0, "the superuser in another user's");
        assert!(!scratch.0.join(".cache").exists(), "nothing is made");
    }

    /// Sets the time of a folder's last change.
    fn changed_at(folder: &Path, second: i64) {
        let at = Timespec { tv_sec: second, tv_nsec: 0 };
        utimensat(CWD, folder, &Timestamps { last_access: at, last_modification: at }, AtFlags::empty()).unwrap();
    }

    #[test]
    fn the_cache_keeps_so_many_and_removes_nothing_else() {
        let scratch = Scratch::new("bounded");
        let of = |number: usize| scratch.0.join(format!("app-{number:016x}"));
        for number in 0..70 {
            scratch.file(&format!("app-{number:016x}/images/an-image"));
            changed_at(&of(number), 1000 + number as i64);
        }
        let foreign =
            ["a-folder/of-mine", "app-0000000000000000.txt/x", "app-00000000000000ff"].map(|name| scratch.file(name));
        symlink(of(0), scratch.0.join("link-00000000000000aa")).unwrap();
        let kept = || (0..70).filter(|number| of(*number).join("images/an-image").exists()).collect::<Vec<_>>();
        Own::used(of(2)).keep_small();
        assert_eq!(kept().len(), 70, "a run that has learned nothing removes nothing");
        let own = Own::used(of(2));
        changed_at(&of(2), 2000);
        own.keep_small();
        assert_eq!(kept(), std::iter::once(2).chain(7..70).collect::<Vec<_>>());
        assert!(foreign.iter().all(|path| Path::new(path).is_file()));
        let new = scratch.0.join("new-00000000000000bb");
        let own = Own::used(new.clone());
        own.keep_small();
        assert!(!new.exists() && kept().len() == 64, "no process has used CUDA");
        fs::create_dir(&new).unwrap();
        own.keep_small();
        assert_eq!([2, 7, 8].map(|number| of(number).exists()), [true, false, true], "the new one counts");
    }

    #[test]
    fn the_cache_keeps_so_many_bytes_and_the_profiles_used_longest_ago_go_first() {
        let scratch = Scratch::new("bytes");
        let of = |number: usize| scratch.0.join(format!("app-{number:016x}"));
        let sized = |number: usize, name: &str, bytes: u64| {
            let path = scratch.file(&format!("app-{number:016x}/{name}"));
            fs::OpenOptions::new().write(true).open(path).unwrap().set_len(bytes).unwrap();
        };
        let image = format!("images/{:032x}-1", 7);
        for number in 0..4 {
            sized(number, &image, MOST_BYTES / 4 + 1);
            changed_at(&of(number), 1000 + number as i64);
        }
        let own = Own::used(of(0));
        changed_at(&of(0), 500);
        own.keep_small();
        // An image that no part names goes with those beyond the bound.
        assert_eq!([0, 1, 2, 3].map(|number| of(number).exists()), [true; 4]);
        assert!(!of(0).join(&image).exists());
        sized(0, "left-over", MOST_BYTES / 2);
        own.keep_small();
        assert_eq!([0, 1, 2, 3].map(|number| of(number).exists()), [true, false, false, true]);
        let whole = lazyguard_core::profile::Profile::default().text();
        for (name, text) in [("cut", &whole[..20]), ("whole", &whole), ("newer", "lazyguard profile 99\nend")] {
            fs::write(of(0).join(format!("{name}.profile")), text).unwrap();
        }
        own.keep_small();
        let left = ["cut", "whole", "newer"].map(|name| of(0).join(format!("{name}.profile")).exists());
        assert_eq!(left, [false, true, true], "a damaged part costs itself alone");
    }

    #[test]
    fn a_program_has_one_name_by_whatever_path_and_twins_have_two() {
        let scratch = Scratch::new("twins");
        let (one, twin) = (scratch.file("one/app"), scratch.file("twin/app"));
        symlink("one", scratch.0.join("link")).unwrap();
        let linked = scratch.0.join("link/../one/./app");
        assert_eq!(name(&[&one, "--its-own", "options"]), name(&[linked.to_str().unwrap()]));
        assert!(of(&[&one]) == "app" && of(&[&twin]) == "app" && name(&[&one]) != name(&[&twin]));
        assert_eq!(name(&["no-such-program"]), name(&["no-such-program"]), "also of one that is not there");
    }

    #[test]
    fn a_script_has_the_profile_and_not_what_runs_it() {
        let scratch = Scratch::new("scripts");
        let (script, data) = (scratch.file("train.py"), scratch.file("data.bin"));
        for before in [
            &["python"][..],
            &["/usr/bin/python3.12", "-u", "-W", "ignore"],
            &["torchrun", "--nproc-per-node", "8"],
            &["sh"],
            &["timeout", "60", "python3"],
            &["lazyguard", "run", "--out", "logs", "--"],
        ] {
            assert_eq!(name(&[before, &[&script, &data]].concat()), name(&[&script]), "{before:?}");
        }
        for (command, expect) in [
            (&["python3", "-c", "print()"][..], "python3"),
            (&["python3", "-m", "train"], "python3"),
            (&["sh", "-c", "exit 3"], "sh"),
            (&["app", &script], "app"),
            (&["python-config", &script], "python-config"),
        ] {
            assert_eq!(of(command), expect, "{command:?}");
        }
    }

    #[test]
    fn without_a_script_a_module_or_a_command_line_has_the_profile() {
        let module = |arguments: &[&str]| name(&[&["python3", "-m", "train"], arguments].concat());
        assert_eq!(module(&[]), module(&["--rate", "0.1"]));
        let others = [&["python3", "-m", "serve"][..], &["python3", "-c", "print()"], &["python3"]].map(name);
        assert!(
            others.iter().enumerate().all(|(n, one)| !others[..n].contains(one) && *one != module(&[])),
            "{others:?}"
        );
        assert_eq!(name(&["app"]), name(&["app", "--seed", "1"]));
    }

    #[test]
    fn a_name_is_one_part_of_a_path() {
        let of = |file: &OsStr| name_of(&[file.to_owned()], |_| None).unwrap();
        assert!(of(OsStr::new("my app\n%p")).starts_with("my_app__p-"));
        assert!(of(OsStr::from_bytes(b"\xff\xfe")).starts_with("__-"));
        assert_eq!(of(OsStr::new(&"x".repeat(255))).len(), 100 + 1 + 16);
        assert_eq!(name_of(&[], |_| None), None);
    }
}
