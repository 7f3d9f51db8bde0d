//! `--on-hang fail` and `revoke`: which processes are to return an error from their blocked calls, and whether they answer.

use super::hang;
use super::root::process_with;
use crate::folder::Stat;
use crate::words::on_hang::REVOKE;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A process whose blocked calls return an error on purpose.
pub(super) struct Failing {
    pub folder: PathBuf,
    until: Instant,
    /// Its calls of the driver when that was asked for, and when it had answered before.
    calls: Option<u64>,
    answered: Option<u64>,
}

impl Failing {
    fn new(folder: PathBuf, until: Instant) -> Self {
        Self { calls: hang::calls_of(&folder), answered: hang::answered_at(&folder), folder, until }
    }

    /// One that has just reported its hang: what it had answered before does not count.
    pub fn hanging(folder: PathBuf, until: Instant) -> Self {
        Self { answered: None, ..Self::new(folder, until) }
    }

    fn answers(&self) -> bool {
        let answered = hang::answered_at(&self.folder);
        answered.is_some() && answered != self.answered
    }

    /// After a revoke, a process goes on where no hang of its own stands and it has called the driver since, as far as is known.
    fn goes_on(&self, process: u32) -> bool {
        let called = || self.calls.is_none_or(|before| hang::calls_of(&self.folder).is_none_or(|now| now != before));
        !hang::stands_in(&self.folder) && !Stat::of(process as i32).is_some_and(Stat::is_stopped) && called()
    }
}

/// The processes beside the one with this folder that are to do the same, as they are before they are asked.
pub(super) fn others(folder: &Path, action: &str, places: &[PathBuf], until: Instant) -> Vec<Failing> {
    let all = match action {
        REVOKE => hang::with_communicators(places),
        _ => hang::with_contexts(places),
    };
    all.into_iter().filter(|other| other != folder).map(|other| Failing::new(other, until)).collect()
}

/// The folder of the first process that has not answered in time. Those that are gone, or go on after a revoke, are forgotten.
pub(super) fn first_late(
    failing: &mut Vec<Failing>,
    alive: &[u32],
    revokes: bool,
    gpu_dump_wait: Duration,
) -> Option<PathBuf> {
    let now = Instant::now();
    failing.retain(|known| {
        let living = process_with(&known.folder).filter(|process| alive.contains(process));
        living.is_some_and(|process| !(revokes && now >= known.until && known.goes_on(process)))
    });
    let is_late = |known: &&Failing| {
        // A new report says how the request ended; the time begins anew with it.
        now >= known.until + gpu_dump_wait || now >= known.until && !hang::waits_for_the_driver(&known.folder)
    };
    failing.iter().filter(is_late).find(|known| !known.answers()).map(|known| known.folder.clone())
}
