//! Where the dynamic linker finds a library.
//!
//! The search order is that of ld.so(8): the folders that the asking file names, `LD_LIBRARY_PATH`, the cache, the default folders.
//! Libraries for another machine are skipped, as the linker skips them.
//!
//! Must not: load anything.

use super::machine::Machine;
use crate::elf::{machine_name, machine_of, Elf};
use crate::files;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Folders that the linker looks into last; which of them are there depends on the system.
const DEFAULTS: [&str; 6] =
    ["/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"];

/// How a library was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Path,
    Rpath,
    LibraryPath,
    Runpath,
    Cache,
    Default,
}

impl By {
    pub fn name(self) -> &'static str {
        match self {
            Self::Path => "its path",
            Self::Rpath => "an RPATH",
            Self::LibraryPath => "LD_LIBRARY_PATH",
            Self::Runpath => "a RUNPATH",
            Self::Cache => "the linker's cache",
            Self::Default => "the linker's default folders",
        }
    }
}

/// A library that was found.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub path: PathBuf,
    pub by: By,
}

/// See the module.
pub(super) struct Linker<'a> {
    machine: &'a Machine,
    /// The machine that libraries have to be for.
    wanted: u16,
    library_path: Vec<PathBuf>,
    cache: HashMap<String, Vec<PathBuf>>,
}

impl<'a> Linker<'a> {
    pub fn new(machine: &'a Machine, wanted: u16) -> Self {
        let library_path = machine.variable("LD_LIBRARY_PATH").unwrap_or_default().as_bytes();
        let library_path = library_path.split(|b| matches!(b, b':' | b';')).filter(|folder| !folder.is_empty());
        let cache = files::read(machine.at("/etc/ld.so.cache")).unwrap_or_default();
        Self {
            machine,
            wanted,
            library_path: library_path.map(|folder| PathBuf::from(OsStr::from_bytes(folder))).collect(),
            cache: in_cache(&cache),
        }
    }

    /// What machine it looks for.
    pub fn machine_name(&self) -> String {
        machine_name(self.wanted)
    }

    fn fits(&self, path: &Path) -> bool {
        machine_of(path) == Some(self.wanted)
    }

    /// The library of this name, without a particular file asking for it.
    pub fn find(&self, name: &str) -> Option<Place> {
        self.look(name, &[], &[])
    }

    /// The library of this name, for a file. An RPATH of the file that needed that one counts as well.
    pub fn find_for(&self, name: &str, asks: &Elf, inherited: &[PathBuf]) -> Option<Place> {
        let origin = asks.path.canonicalize().unwrap_or_else(|_| asks.path.clone());
        let origin = origin.parent().unwrap_or(Path::new("/"));
        let expanded = |folders: &[String]| folders.iter().map(|folder| expand(folder, origin)).collect::<Vec<_>>();
        let mut rpath = if asks.runpath.is_empty() { expanded(&asks.rpath) } else { Vec::new() };
        if asks.runpath.is_empty() {
            rpath.extend_from_slice(inherited);
        }
        self.look(name, &rpath, &expanded(&asks.runpath))
    }

    fn look(&self, name: &str, rpath: &[PathBuf], runpath: &[PathBuf]) -> Option<Place> {
        if name.contains('/') {
            return Some(Place { path: PathBuf::from(name), by: By::Path }).filter(|place| self.fits(&place.path));
        }
        let in_folders = |folders: &[PathBuf], by| {
            let mut candidates = folders.iter().map(|folder| folder.join(name));
            candidates.find(|path| self.fits(path)).map(|path| Place { path, by })
        };
        let defaults: Vec<_> = DEFAULTS.iter().map(|folder| self.machine.at(folder)).collect();
        in_folders(rpath, By::Rpath)
            .or_else(|| in_folders(&self.library_path, By::LibraryPath))
            .or_else(|| in_folders(runpath, By::Runpath))
            .or_else(|| {
                let mut cached = self.cache.get(name)?.iter().map(|path| self.machine.at(path));
                cached.find(|path| self.fits(path)).map(|path| Place { path, by: By::Cache })
            })
            .or_else(|| in_folders(&defaults, By::Default))
    }
}

/// The RPATH that the libraries of a file inherit.
pub(super) fn handed_on(elf: &Elf, inherited: &[PathBuf]) -> Vec<PathBuf> {
    if !elf.runpath.is_empty() {
        return inherited.to_vec();
    }
    let origin = elf.path.canonicalize().unwrap_or_else(|_| elf.path.clone());
    let origin = origin.parent().unwrap_or(Path::new("/"));
    elf.rpath.iter().map(|folder| expand(folder, origin)).chain(inherited.iter().cloned()).collect()
}

fn expand(folder: &str, origin: &Path) -> PathBuf {
    let origin = origin.to_string_lossy();
    PathBuf::from(folder.replace("$ORIGIN", &origin).replace("${ORIGIN}", &origin))
}

/// The libraries in `ld.so.cache`, by name, in the order in which the linker prefers them. The format is that of glibc 2.2 and
/// newer: a header of 48 bytes, entries of 24 bytes, and texts, whose places count from the header.
fn in_cache(bytes: &[u8]) -> HashMap<String, Vec<PathBuf>> {
    const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
    const HEADER: usize = 48;
    const ENTRY: usize = 24;
    let mut found: HashMap<String, Vec<PathBuf>> = HashMap::new();
    let Some(start) = bytes.windows(MAGIC.len()).position(|at| at == MAGIC) else { return found };
    let bytes = &bytes[start..];
    let word = |at: usize| bytes.get(at..at + 4).and_then(|four| four.try_into().ok()).map(u32::from_le_bytes);
    let text = |at: u32| {
        let from = bytes.get(usize::try_from(at).ok()?..)?;
        let end = from.iter().position(|&b| b == 0)?;
        Some(from[..end].to_vec())
    };
    let count = word(MAGIC.len()).unwrap_or(0) as usize;
    for entry in 0..count {
        let at = HEADER + entry * ENTRY;
        let Some((name, path)) = word(at + 4).and_then(text).zip(word(at + 8).and_then(text)) else { break };
        let path = PathBuf::from(OsStr::from_bytes(&path));
        found.entry(String::from_utf8_lossy(&name).into_owned()).or_default().push(path);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(libraries: &[(&str, &str)]) -> Vec<u8> {
        let mut texts = Vec::new();
        let mut entries = Vec::new();
        let base = 48 + 24 * libraries.len();
        for (name, path) in libraries {
            let mut place = |text: &str| {
                let at = u32::try_from(base + texts.len()).unwrap();
                texts.extend_from_slice(text.as_bytes());
                texts.push(0);
                at.to_le_bytes()
            };
            entries.extend_from_slice(&0x0303_u32.to_le_bytes());
            entries.extend_from_slice(&place(name));
            entries.extend_from_slice(&place(path));
            entries.extend_from_slice(&[0; 12]);
        }
        let mut bytes = b"ld.so-1.7.0 whatever an older linker reads".to_vec();
        bytes.extend_from_slice(b"glibc-ld.so.cache1.1");
        bytes.extend_from_slice(&u32::try_from(libraries.len()).unwrap().to_le_bytes());
        bytes.resize(bytes.len() + 24, 0);
        [bytes, entries, texts].concat()
    }

    #[test]
    fn the_cache_is_read_in_its_order_and_a_torn_one_gives_what_it_has() {
        let bytes = cache(&[("libcuda.so.1", "/a/libcuda.so.1"), ("libc.so.6", "/c"), ("libcuda.so.1", "/b")]);
        let found = in_cache(&bytes);
        assert_eq!(found["libcuda.so.1"], [PathBuf::from("/a/libcuda.so.1"), PathBuf::from("/b")]);
        assert_eq!(found["libc.so.6"], [PathBuf::from("/c")]);
        for end in 0..bytes.len() {
            in_cache(&bytes[..end]);
        }
        assert!(in_cache(b"").is_empty());
    }

    #[test]
    fn the_c_library_of_this_machine_is_found() {
        let machine = Machine::this();
        let place = Linker::new(&machine, crate::elf::own_machine()).find("libc.so.6").unwrap();
        assert!(place.path.is_file(), "{place:?}");
    }

    #[test]
    fn an_rpath_comes_before_the_environment_and_a_runpath_behind_it() {
        let root = std::env::temp_dir().join(format!("lazyguard-doctor-linker-{}", std::process::id()));
        let own = std::fs::read("/proc/self/exe").unwrap();
        for folder in ["environment", "named"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
            // The linker reads only the head before it takes a library.
            std::fs::write(root.join(folder).join("libx.so"), &own[..64]).unwrap();
        }
        std::fs::write(root.join("named/libonly.so"), &own[..64]).unwrap();
        std::fs::write(root.join("environment/libonly.so"), "for another machine").unwrap();
        let environment = root.join("environment").display().to_string();
        let machine = Machine::played(&root, &[("LD_LIBRARY_PATH", &environment)]);
        let linker = Linker::new(&machine, crate::elf::own_machine());
        let mut asks = Elf::read(Path::new("/proc/self/exe")).unwrap();
        (asks.rpath, asks.runpath) = (vec![root.join("named").display().to_string()], Vec::new());
        let by = |asks: &Elf, name: &str, inherited: &[PathBuf]| {
            linker.find_for(name, asks, inherited).map(|place| place.by)
        };
        assert_eq!(by(&asks, "libx.so", &[]), Some(By::Rpath));
        assert_eq!(handed_on(&asks, &[]), [root.join("named")]);
        (asks.runpath, asks.rpath) = (asks.rpath, Vec::new());
        assert_eq!(by(&asks, "libx.so", &[]), Some(By::LibraryPath));
        assert_eq!(by(&asks, "libonly.so", &[]), Some(By::Runpath));
        // For a file with a RUNPATH, the linker ignores the parent's RPATH.
        assert_eq!(by(&asks, "libx.so", &[root.join("named")]), Some(By::LibraryPath));
        assert_eq!(by(&asks, "libnone.so", &[]), None);
        std::fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn the_origin_is_the_folder_of_the_file() {
        assert_eq!(expand("$ORIGIN/../lib", Path::new("/opt/bin")), Path::new("/opt/bin/../lib"));
        assert_eq!(expand("${ORIGIN}", Path::new("/opt/bin")), Path::new("/opt/bin"));
    }
}
