//! The files of a profile's folder, which another user may not have written.

use crate::runtime::files;
use lazyguard_core::folder::entries_of;
use lazyguard_core::order;
use lazyguard_core::profile::{is_part, MOST_BYTES};
use std::fs::{self, DirBuilder};
use std::io::{self, Read as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

const MOST_PARTS: usize = 4096;

pub(super) fn is_own_folder(about: &fs::Metadata, else_: &str) -> io::Result<()> {
    match about.is_dir() {
        true => files::trusted(about, "another user can write to it"),
        false => Err(io::Error::other(else_)),
    }
}

/// The folder of images is no link: a command that removes images would remove files elsewhere.
pub(super) fn images_are_usable(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        about => is_own_folder(&about?, "it is a link, or no folder"),
    }
}

pub(super) fn make(path: &Path) -> io::Result<()> {
    match path.exists() {
        true => Ok(()),
        false => DirBuilder::new().mode(0o700).recursive(true).create(path),
    }
}

pub(super) fn has_room(bytes: u64) -> io::Result<()> {
    let full = || io::Error::other("the images of the profile have no room (lazyguard profile prune)");
    (bytes <= MOST_BYTES).then_some(()).ok_or_else(full)
}

pub(super) fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let file = files::open_unlinked(path)?;
    let about = file.metadata()?;
    files::trusted(&about, "another user can write it")?;
    if about.len() > most {
        return Err(io::Error::other("it is too large"));
    }
    let mut content = Vec::new();
    file.take(most).read_to_end(&mut content)?;
    Ok(content)
}

pub(super) fn parts_in(folder: &Path) -> Vec<PathBuf> {
    let parts = entries_of(folder).filter(|entry| is_part(&entry.name().to_string_lossy()));
    let mut parts: Vec<_> = parts.map(|entry| entry.path()).collect();
    order::sort_by_key(&mut parts, PathBuf::clone);
    parts.truncate(MOST_PARTS);
    parts
}
