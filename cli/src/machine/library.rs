//! The guard's library, which is preloaded: its path, whether the file there is that library, and of which build it is.
//!
//! Must not: load it.

use crate::machine::elf::{self, machine_name, own_machine, Elf};
use crate::words::Failure;
use lazyguard_core::build_note::{self, Build};
use rustix::fs::{access, Access};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

pub(crate) const LIBRARY: &str = "liblazyguard.so";

/// The path of this command; without `/proc`, from its argument 0.
pub(crate) fn own_command() -> io::Result<PathBuf> {
    std::env::current_exe().or_else(|error| {
        let name = std::env::args_os().next().filter(|name| !name.is_empty());
        let found = name.and_then(|name| of_search_path(&name, &std::env::var_os("PATH").unwrap_or_default()));
        found.map_or(Err(error), |path| path.canonicalize())
    })
}

/// A program as a shell finds it: what has a slash is a path, else the first file of the search path that can be run, else the first.
pub(crate) fn of_search_path(name: &OsStr, path: &OsStr) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(name));
    }
    let files = || std::env::split_paths(path).map(|folder| folder.join(name)).filter(|path| path.is_file());
    files().find(|path| access(path, Access::EXEC_OK).is_ok()).or_else(|| files().next())
}

/// Seen from the command's prefix: as in the archive, in a distribution's package, beside the `bin` of `pip install --target`.
const FOLDERS: [&str; 3] = ["lib", "lib/lazyguard", "lazyguard"];

/// The library beside the command; else the first of its version in [`FOLDERS`] or the prefix's Python packages, else the first.
fn of_command(command: &Path) -> PathBuf {
    let beside = command.with_file_name(LIBRARY);
    let Some(prefix) = command.parent().and_then(Path::parent).filter(|_| !beside.exists()) else { return beside };
    let own = FOLDERS.iter().map(|folder| prefix.join(folder));
    let places = own.chain(python_packages(prefix)).map(|folder| folder.join(LIBRARY));
    let found: Vec<_> = places.filter(|path| path.exists()).collect();
    let is_own = |path: &&PathBuf| build_of(path).is_some_and(|build| build.version == env!("CARGO_PKG_VERSION"));
    found.iter().find(is_own).or(found.first()).cloned().unwrap_or(beside)
}

/// The folders `lazyguard` among the Python packages of a prefix, those of the newest Python first.
fn python_packages(prefix: &Path) -> Vec<PathBuf> {
    let minor = |folder: &PathBuf| {
        Some(folder.file_name()?.to_str()?.strip_prefix("python3")?.trim_start_matches('.').parse::<u32>().unwrap_or(0))
    };
    let listed = ["lib", "lib64"].into_iter().filter_map(|lib| prefix.join(lib).read_dir().ok()).flatten();
    let mut pythons: Vec<_> =
        listed.filter_map(|entry| Some(entry.ok()?.path())).filter(|folder| minor(folder).is_some()).collect();
    pythons.sort_by_key(|folder| std::cmp::Reverse(minor(folder)));
    let kinds = ["site-packages/lazyguard", "dist-packages/lazyguard"];
    pythons.iter().flat_map(|python| kinds.map(|kind| python.join(kind))).collect()
}

pub(crate) fn find(named: Option<PathBuf>) -> Result<PathBuf, Failure> {
    let unknown = |error| Failure::Input(format!("cannot tell where this command is: {error}"));
    let path = named.map_or_else(|| own_command().map(|own| of_command(&own)).map_err(unknown), Ok)?;
    // The dynamic linker looks a name without a slash up in its own places, and splits at colons and blanks.
    let path = path.canonicalize().map_err(|error| Failure::at(&path, error))?;
    if path.to_string_lossy().contains([':', ' ']) {
        let why =
            "the dynamic linker cannot preload a path with a colon or a blank in it; use a copy or a link elsewhere";
        return Err(Failure::at(path, why));
    }
    Ok(path)
}

pub(crate) fn look_into(path: &Path) -> Result<Elf, String> {
    let elf = Elf::read(path).map_err(|error| format!("{} {error}", path.display()))?;
    if elf.machine != own_machine() {
        let (its, own) = (machine_name(elf.machine), machine_name(own_machine()));
        return Err(format!("{} is for {its}, and this is {own}", path.display()));
    }
    match build_of(path).is_some() && elf.exports("dlsym") {
        true => Ok(elf),
        false => Err(format!("{} is not LazyGuard's library", path.display())),
    }
}

/// The build of a library; `None` where its file does not name one.
pub(crate) fn build_of(path: &Path) -> Option<Build> {
    Build::read(&elf::section(path, build_note::SECTION)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_library_is_found_in_each_layout_and_the_nearest_wins() {
        let root = std::env::temp_dir().join(format!("lazyguard-layouts-{}", std::process::id()));
        let command = root.join("bin/lazyguard");
        fs::create_dir_all(root.join("bin")).unwrap();
        assert_eq!(of_command(&command), root.join("bin/liblazyguard.so"), "the path of the error");
        let layouts = [
            "lib64/python3.9/site-packages/lazyguard",
            "lib/python3.10/dist-packages/lazyguard",
            "lib/python3.11/site-packages/lazyguard",
            "lazyguard",
            "lib/lazyguard",
            "lib",
            "bin",
        ];
        for folder in layouts {
            fs::create_dir_all(root.join(folder)).unwrap();
            let library = root.join(folder).join(LIBRARY);
            fs::write(&library, "").unwrap();
            assert_eq!(of_command(&command), library);
        }
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn a_file_without_the_note_is_of_no_known_build() {
        for file in ["/proc/self/exe", "/proc/self/stat", "/no/such/file"] {
            assert_eq!(build_of(Path::new(file)), None, "{file}");
        }
    }
}
