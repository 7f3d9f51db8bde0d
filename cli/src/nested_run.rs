//! Which folders are those of runs, and which of them lie in another run's folder because its program has started them.

use crate::files;
use lazyguard_core::run_folder::file::MARK;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// Whether a folder is that of a run.
pub(crate) fn is_run(folder: &Path) -> bool {
    folder.join(MARK).is_file()
}

/// Whether a folder is that of a run which the program of another run has started, whose folder is `around`. A run that was merely given
/// the same folder is not nested.
pub(crate) fn is_nested_in(folder: &Path, around: &Path) -> bool {
    /// The keys read from a mark.
    #[derive(Deserialize)]
    struct Told {
        around: Option<PathBuf>,
    }
    let mark = files::open_in(folder, MARK).and_then(files::all_of_short).ok();
    let mark = mark.and_then(|text| serde_json::from_slice::<Told>(&text).ok());
    mark.is_some_and(|mark| mark.around.as_deref() == Some(around))
}
