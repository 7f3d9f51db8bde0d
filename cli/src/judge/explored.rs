//! The findings of `lazyguard explore` on a program, for the reports of its last run.

use crate::machine::files;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The result of `lazyguard explore`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Explored {
    /// The order that hangs.
    pub sentence: Option<String>,
    /// Its schedule.
    pub schedule: Option<PathBuf>,
    /// Their number.
    pub runs: u64,
    /// The schedules' seed.
    pub seed: u64,
    /// The hazards of all runs.
    pub hazards: Vec<HazardExplored>,
    /// Runs that ended otherwise than the first, without a hang.
    pub otherwise: Vec<EndedOtherwise>,
}

/// Runs of `lazyguard explore` that ended alike.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct EndedOtherwise {
    /// In words: `ended with exit code 5`.
    pub how: String,
    /// Their number.
    pub runs: u64,
}

/// A hazard of a run of `lazyguard explore`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct HazardExplored {
    /// The hazard's.
    pub key: String,
    /// `provoked` or not.
    pub explored: String,
}

impl Explored {
    /// Nothing where the file is none that `lazyguard explore` wrote.
    pub fn read(path: &Path) -> Option<Self> {
        serde_json::from_str(&files::read_text(path).ok()?).ok()
    }

    pub fn of(&self, key: &str) -> Option<String> {
        self.hazards.iter().find(|hazard| hazard.key == key).map(|hazard| hazard.explored.clone())
    }
}
