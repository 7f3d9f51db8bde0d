//! The recordings of the run's processes, held open: a guard tells of a hang in the header, also where its folder is full, gone or elsewhere.
//!
//! Must not: hold all descriptors of this command.

use super::hang;
use super::root::process_with;
use crate::folder::{exists, header_word, maps_of, recording_of, RECORDING};
use crate::machine::files;
use lazyguard_core::run_folder::file::HANG;
use lazyguard_core::trace::layout::{header, MAGIC};
use rustix::process::{getrlimit, Resource};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

const MOST_HELD: u64 = 256;

#[derive(Debug, Default)]
pub(super) struct Held {
    recordings: HashMap<PathBuf, File>,
    /// Whether there ever was one.
    pub any: bool,
}

impl Held {
    /// Opens those of new processes, and lets go of those that have ended without a hang.
    pub fn look(&mut self, folders: Vec<PathBuf>) {
        self.recordings.retain(|folder, file| word_of(file) != 0 || lives(folder));
        for folder in folders {
            if !self.recordings.contains_key(&folder) && self.has_room() && lives(&folder) {
                let opened = files::open_in(&folder, RECORDING);
                self.hold(folder, opened);
            }
        }
    }

    /// Opens that of a process whose folder is not in the run's; returns whether it could.
    pub fn look_into(&mut self, process: u32) -> bool {
        if !self.has_room() {
            return false;
        }
        let maps = maps_of(process).unwrap_or_default();
        let Ok(Some(recording)) = recording_of(process, &maps) else { return false };
        // A path that does not exist, named as a folder of the run.
        self.hold(PathBuf::from(format!("/nonexistent/process-{process}")), files::open(recording))
    }

    fn has_room(&self) -> bool {
        let most = getrlimit(Resource::Nofile).current.map_or(MOST_HELD, |limit| MOST_HELD.min(limit / 4));
        (self.recordings.len() as u64) < most
    }

    fn hold(&mut self, folder: PathBuf, opened: io::Result<File>) -> bool {
        let has_begun = |file: &File| header_word(file, header::MAGIC).is_ok_and(|mark| mark == MAGIC);
        let opened = opened.ok().filter(has_begun);
        let is_held = opened.is_some();
        self.recordings.extend(opened.map(|file| (folder, file)));
        self.any |= is_held;
        is_held
    }

    /// The folder of a process whose guard asks for the action, whether or not it could write its report.
    pub fn due(&self, folders: &[PathBuf]) -> Option<PathBuf> {
        let told = self.recordings.iter().find(|(_, file)| word_of(file) == header::HANG_IS_DUE);
        told.map(|(folder, _)| folder).or_else(|| folders.iter().find(|folder| is_empty(folder))).cloned()
    }

    /// The folders of the processes whose hang stands, and whose report does not say so.
    pub fn untold(&self) -> Vec<&PathBuf> {
        let stands = self.recordings.iter().filter(|(_, file)| word_of(file) != 0).map(|(folder, _)| folder);
        let mut untold: Vec<_> = stands.filter(|folder| !hang::is_told(folder)).collect();
        untold.sort();
        untold
    }
}

fn lives(folder: &Path) -> bool {
    process_with(folder).is_some_and(exists)
}

/// A guard whose recording is in memory leaves such a report where there is no room.
fn is_empty(folder: &Path) -> bool {
    fs::symlink_metadata(folder.join(HANG)).is_ok_and(|about| about.is_file() && about.len() == 0)
}

fn word_of(recording: &File) -> u64 {
    header_word(recording, header::HANG).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt as _;

    #[test]
    fn a_hang_is_known_by_the_recording_where_the_report_is_missing() {
        let root = std::env::temp_dir().join(format!("lazyguard-held-{}", std::process::id()));
        let folder = root.join(format!("rank0-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(RECORDING), [0; 4096]).unwrap();
        let file = files::open_to_write(&folder.join(RECORDING)).unwrap();
        let store = |at: usize, word: u64| file.write_all_at(&word.to_le_bytes(), at as u64 * 8).unwrap();
        let mut held = Held::default();
        held.look(vec![folder.clone()]);
        assert!(!held.any, "its guard is about to write the header");
        store(header::MAGIC, MAGIC);
        held.look(vec![folder.clone()]);
        assert!(held.any && held.untold().is_empty());
        store(header::HANG, header::HANG_STANDS);
        assert_eq!((held.untold(), held.due(&[])), (vec![&folder], None));
        fs::write(folder.join(HANG), r#"{"status": "hang"}"#).unwrap();
        assert!(held.untold().is_empty());
        fs::write(folder.join(HANG), r#"{"status": "hang", "resolved": 5}"#).unwrap();
        assert_eq!(held.untold(), [&folder], "that was an earlier one");
        fs::remove_dir_all(&root).unwrap();
        store(header::HANG, header::HANG_IS_DUE);
        held.look(Vec::new());
        assert_eq!((held.untold(), held.due(&[])), (vec![&folder], Some(folder.clone())));
        store(header::HANG, 0);
        assert_eq!((held.untold(), held.due(&[])), (vec![], None));
    }

    #[test]
    fn an_empty_report_asks_for_the_action() {
        let folder = std::env::temp_dir().join(format!("lazyguard-held-empty-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let due = || Held::default().due(std::slice::from_ref(&folder));
        fs::write(folder.join(HANG), "{").unwrap();
        assert_eq!(due(), None);
        fs::write(folder.join(HANG), "").unwrap();
        assert_eq!(due(), Some(folder.clone()));
        fs::remove_dir_all(&folder).unwrap();
    }
}
