//! The profiles in the user's cache, one for each program: what `lazyguard run --profile` uses if it is given no folder.
//!
//! Must not: make a folder, which the guard does in the first process that uses CUDA, or remove what is no profile of these.

use rustix::fs::{utimensat, AtFlags, Timespec, Timestamps, CWD, UTIME_NOW};
use rustix::process::geteuid;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use twox_hash::XxHash3_64;

/// Programs that run another one, or a script, which their arguments name. Versions (`python3.12`) are cut off.
const STARTERS: &str =
    "accelerate bash dash deepspeed env ksh lazyguard mpiexec mpirun numactl pypy python sh timeout torchrun zsh";

/// The most that the cache keeps; each is bounded as well.
const MOST_PROFILES: usize = 64;

pub(crate) const NONE: &str =
    "this user has no cache: XDG_CACHE_HOME is no absolute path, and HOME is no folder of this user";

/// The folder of all these profiles. Its path is text, as settings are.
pub(crate) fn folder() -> Option<PathBuf> {
    folder_of(|name| std::env::var(name).ok(), geteuid().as_raw())
}

/// As the XDG Base Directory Specification has it: a relative path is ignored. In a home folder of another user (as under `sudo`) nothing is
/// made: that user could not write there afterwards.
fn folder_of(variable: impl Fn(&str) -> Option<String>, user: u32) -> Option<PathBuf> {
    let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let own_home = || absolute("HOME").filter(|home| fs::metadata(home).is_ok_and(|about| about.uid() == user));
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(own_home()?.join(".cache")))?;
    Some(cache.join("lazyguard/profiles"))
}

/// Notes that this profile is used, and removes those that have not been used for the longest, where the cache has too many.
pub(crate) fn uses(own: &Path) {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    // The guard makes one that is not there.
    let _ = utimensat(CWD, own, &Timestamps { last_access: now, last_modification: now }, AtFlags::SYMLINK_NOFOLLOW);
    let entries = own.parent().map(fs::read_dir).into_iter().flatten().flatten().flatten();
    let others = entries.filter(|entry| entry.path() != own && is_name(&entry.file_name().to_string_lossy()));
    let used = |entry: fs::DirEntry| {
        Some((entry.metadata().ok().filter(fs::Metadata::is_dir)?.modified().ok()?, entry.path()))
    };
    let mut others: Vec<_> = others.filter_map(used).collect();
    others.sort_unstable_by(|one, other| other.cmp(one));
    // One that cannot be removed stays.
    others.iter().skip(MOST_PROFILES - 1).for_each(|(_, path)| drop(fs::remove_dir_all(path)));
}

/// Whether [`name_of`] makes such names.
fn is_name(name: &str) -> bool {
    let hash = name.rsplit_once('-').map_or("", |(_, hash)| hash);
    hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The name of a program's folder: the name of its file, and a hash of the path that links lead to. `path_of` finds a program.
pub(crate) fn name_of(command: &[OsString], path_of: impl Fn(&OsStr) -> Option<PathBuf>) -> Option<String> {
    /// A name in a file system has 255 bytes at most.
    const MOST_CHARACTERS: usize = 100;
    let (program, arguments) = command.split_first()?;
    let path = what_it_runs(program, arguments).or_else(|| path_of(program)).unwrap_or_else(|| program.into());
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._+-".contains(c) { c } else { '_' };
    let name: String = path.file_name()?.to_string_lossy().chars().map(plain).take(MOST_CHARACTERS).collect();
    let resolved = path.canonicalize().unwrap_or(path);
    Some(format!("{name}-{:016x}", XxHash3_64::oneshot(resolved.as_os_str().as_bytes())))
}

/// The file that one of [`STARTERS`] runs: the first argument that is a file, and no option.
fn what_it_runs(program: &OsStr, arguments: &[OsString]) -> Option<PathBuf> {
    let name = Path::new(program).file_name()?.to_str()?;
    let name = name.trim_end_matches(|c: char| c == '.' || c.is_ascii_digit());
    let is_script = |word: &&OsString| !word.as_bytes().starts_with(b"-") && Path::new(word).is_file();
    STARTERS.split(' ').any(|starter| starter == name).then(|| arguments.iter().find(is_script))?.map(PathBuf::from)
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
        assert_eq!(folder(Some("/cache"), Some(home), owner), Some("/cache/lazyguard/profiles".into()));
        for relative in [None, Some(""), Some("cache"), Some("./cache")] {
            assert_eq!(folder(relative, Some(home), owner), in_home, "{relative:?}");
        }
        for no_home in [None, Some(""), Some("home"), Some("/no/such/folder")] {
            assert_eq!(folder(Some("cache"), no_home, owner), None, "{no_home:?}");
        }
        assert_eq!(folder(None, Some(home), owner + 1), None, "another user's");
        assert!(folder(Some("/cache"), None, owner).is_some(), "no home is needed");
        assert!(!scratch.0.join(".cache").exists(), "nothing is made");
    }

    #[test]
    fn the_cache_keeps_so_many_and_removes_nothing_else() {
        let scratch = Scratch::new("bounded");
        let of = |number: usize| scratch.0.join(format!("app-{number:016x}"));
        for number in 0..70 {
            scratch.file(&format!("app-{number:016x}/images/an-image"));
            let at = Timespec { tv_sec: 1000 + number as i64, tv_nsec: 0 };
            let times = Timestamps { last_access: at, last_modification: at };
            utimensat(CWD, of(number), &times, AtFlags::empty()).unwrap();
        }
        let foreign =
            ["a-folder/of-mine", "app-0000000000000000.txt/x", "app-00000000000000ff"].map(|name| scratch.file(name));
        symlink(of(0), scratch.0.join("link-00000000000000aa")).unwrap();
        uses(&of(2));
        uses(&of(2));
        let kept: Vec<_> = (0..70).filter(|number| of(*number).join("images/an-image").exists()).collect();
        assert_eq!(kept, std::iter::once(2).chain(7..70).collect::<Vec<_>>());
        assert!(foreign.iter().all(|path| Path::new(path).is_file()));
        uses(&scratch.0.join("new-00000000000000bb"));
        assert!(!scratch.0.join("new-00000000000000bb").exists());
        assert_eq!([2, 7, 8].map(|number| of(number).exists()), [true, false, true], "there is room for the new one");
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
    fn a_name_is_one_part_of_a_path() {
        let of = |file: &OsStr| name_of(&[file.to_owned()], |_| None).unwrap();
        assert!(of(OsStr::new("my app\n%p")).starts_with("my_app__p-"));
        assert!(of(OsStr::from_bytes(b"\xff\xfe")).starts_with("__-"));
        assert_eq!(of(OsStr::new(&"x".repeat(255))).len(), 100 + 1 + 16);
        assert_eq!(name_of(&[], |_| None), None);
    }
}
