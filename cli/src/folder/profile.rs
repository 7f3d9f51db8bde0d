//! A profile on disk, as the command reads it and keeps it small.
//!
//! Must not: change a part that it cannot read, or remove an image that a part names.

use crate::machine::files;
use crate::words::{say, Failure};
use lazyguard_core::profile::{is_part, ImageId, Profile, IMAGES, PART};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{fs, io};

#[derive(Default)]
pub(crate) struct Folder {
    pub path: PathBuf,
    pub known: Profile,
    pub parts: Vec<PathBuf>,
    pub damaged: Vec<String>,
    /// The parts among them, but for those of another version.
    pub unreadable: Vec<PathBuf>,
}

impl Folder {
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure::at(path, error);
        let mut found = Self { path: path.to_owned(), ..Self::default() };
        if found.has_a_link() {
            found.damaged.push(format!("{}: it is a symbolic link, and none is followed", path.join(IMAGES).display()));
        }
        for entry in fs::read_dir(path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let (part, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            if !is_part(&name) {
                continue;
            }
            let content = files::read_in(path, &name);
            let is_another = content.as_ref().is_ok_and(|content| Profile::is_of_another_version(content));
            match found.known.take_part(content) {
                Ok(true) => found.parts.push(part),
                Ok(false) => {}
                Err(error) => {
                    found.damaged.push(format!("{}: not a part of a profile: {error}", part.display()));
                    found.unreadable.extend((!is_another).then_some(part));
                }
            }
        }
        Ok(found)
    }

    pub fn image(&self, id: ImageId) -> PathBuf {
        self.path.join(IMAGES).join(id.to_string())
    }

    /// Whether a link is in the place of the folder of images: that is not used, and no file behind it is removed.
    pub fn has_a_link(&self) -> bool {
        fs::symlink_metadata(self.path.join(IMAGES)).is_ok_and(|about| about.is_symlink())
    }

    /// The images in the folder; of a file with another name `None` with its path.
    pub fn images(&self) -> Vec<(Option<ImageId>, PathBuf)> {
        if self.has_a_link() {
            return Vec::new();
        }
        let entries = fs::read_dir(self.path.join(IMAGES)).into_iter().flatten().flatten();
        let all = entries
            .map(|entry| entry.path())
            .filter(|path| !path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.')));
        let id = |path: &PathBuf| path.file_name().and_then(|name| name.to_str()?.parse().ok());
        let mut all: Vec<_> = all.map(|path| (id(&path), path)).collect();
        all.sort_unstable();
        all
    }

    pub fn kept(&self) -> HashSet<ImageId> {
        self.images().into_iter().filter_map(|(id, _)| id).collect()
    }

    pub fn make_one_part(&self) -> io::Result<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let one = self.path.join(format!("merged-{}-{now}{PART}", std::process::id()));
        files::replace(&one, self.known.text().as_bytes(), Some(0o600))?;
        self.parts.iter().try_for_each(fs::remove_file)
    }

    /// Makes one part of all, and removes the oldest images beyond `most` bytes and those that no part names: how many, and their bytes. A file with
    /// another name is the user's.
    pub fn prune(&mut self, most: u64) -> io::Result<(usize, u64)> {
        self.known.prune(most);
        self.make_one_part()?;
        let (mut removed, mut bytes) = (0, 0);
        for (id, path) in self.images() {
            if id.is_some_and(|id| !self.known.images.contains_key(&id)) {
                bytes += fs::symlink_metadata(&path).map_or(0, |about| about.len());
                fs::remove_file(&path)?;
                removed += 1;
            }
        }
        Ok((removed, bytes))
    }

    pub fn say_what_is_damaged(&self) {
        self.damaged.iter().for_each(say);
    }
}

pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    files::open_unlinked(path).and_then(files::all_of)
}
