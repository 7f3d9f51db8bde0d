//! The entries of a folder, by system calls. The C library's `opendir` takes memory from the program's allocator, which the interrupted thread
//! may have locked.

use rustix::fs::{open, Mode, OFlags, RawDir};
use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub struct Entry {
    folder: PathBuf,
    name: OsString,
}

impl Entry {
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    pub fn path(&self) -> PathBuf {
        self.folder.join(&self.name)
    }

    /// A link's metadata are its own.
    pub fn metadata(&self) -> io::Result<Metadata> {
        fs::symlink_metadata(self.path())
    }
}

pub fn list(folder: &Path) -> io::Result<Vec<Entry>> {
    const AT_ONCE: usize = 16 << 10;
    let opened = open(folder, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let mut names = Vec::with_capacity(AT_ONCE);
    let mut names = RawDir::new(opened, names.spare_capacity_mut());
    let mut entries = Vec::new();
    while let Some(entry) = names.next() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            entries.push(Entry { folder: folder.to_owned(), name: OsStr::from_bytes(name).to_owned() });
        }
    }
    Ok(entries)
}

pub fn entries_of(folder: &Path) -> impl Iterator<Item = Entry> {
    list(folder).unwrap_or_default().into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_s_entries_are_those_that_the_c_library_finds() {
        let folder = std::env::temp_dir().join(format!("lazyguard-folder-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        // More than one call gives.
        (0..1000).for_each(|n| fs::write(folder.join(format!("{n:040}")), b"").unwrap());
        let mut found: Vec<_> = entries_of(&folder).map(|entry| (entry.path(), entry.name().to_owned())).collect();
        let of = |entry: fs::DirEntry| (entry.path(), entry.file_name());
        let mut expected: Vec<_> = fs::read_dir(&folder).unwrap().flatten().map(of).collect();
        found.sort();
        expected.sort();
        assert!(found == expected && found.len() == 1000, "{found:?}");
        assert!(entries_of(&folder).next().unwrap().metadata().unwrap().is_file());
        fs::remove_dir_all(&folder).unwrap();
        assert!(list(&folder).is_err() && entries_of(&folder).next().is_none());
    }
}
