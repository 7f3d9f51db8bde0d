//! All processes of what the user has named: process ids, folders of processes, of runs, of jobs.
//!
//! Must not: fail because of one process. A process that cannot be read is left out, and a line says why.

use super::process::{Depth, Followed, ProcessNow};
use crate::folder::process::guarded;
use crate::folder::runs;
use crate::folder::source::{is_process_folder, Run};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// How long a first look waits for heartbeats of processes that cannot be seen here. The guard stores one ten times a second.
const HEARTBEAT_WITHIN: Duration = Duration::from_millis(500);
const HEARTBEAT_POLL: Duration = Duration::from_millis(50);

pub(crate) struct Job {
    what: Vec<PathBuf>,
    followed: BTreeMap<PathBuf, Followed>,
    problems: Vec<String>,
}

impl Job {
    /// Without anything named, it has the guarded processes of this machine, as they come and go.
    pub fn new(what: Vec<PathBuf>) -> Self {
        Self { what, followed: BTreeMap::new(), problems: Vec::new() }
    }

    /// The state of every process now, by rank and id. The first look at a hidden process takes half a second.
    pub fn look(&mut self, depth: Depth) -> Vec<ProcessNow> {
        self.find();
        let mut all: Vec<_> = self.followed.values_mut().map(|process| process.look(depth)).collect();
        let begin = Instant::now();
        while self.followed.values().any(Followed::is_undecided) && begin.elapsed() < HEARTBEAT_WITHIN {
            thread::sleep(HEARTBEAT_POLL);
            for (process, now) in self.followed.values_mut().zip(&mut all) {
                if process.is_undecided() {
                    *now = process.look(depth);
                }
            }
        }
        let places = self.followed.keys();
        let placed = |(now, place): (Option<ProcessNow>, &PathBuf)| {
            now.map(|now| ProcessNow { folder: place.is_dir().then(|| place.clone()), ..now })
        };
        let mut all: Vec<_> = all.into_iter().zip(places).filter_map(placed).collect();
        let rank = |now: &ProcessNow| now.rank.parse::<u64>().unwrap_or(u64::MAX);
        all.sort_by(|a, b| (rank(a), &a.rank, &a.host, a.process).cmp(&(rank(b), &b.rank, &b.host, b.process)));
        all
    }

    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    fn find(&mut self) {
        self.problems.clear();
        let all = || guarded().into_iter().map(|process| PathBuf::from(process.to_string())).collect();
        let what = if self.what.is_empty() { all() } else { self.what.clone() };
        let mut found = BTreeMap::new();
        for what in what {
            match runs_of(&what, &mut self.problems) {
                Ok(runs) => found.extend(runs),
                Err(why) => self.problems.push(why),
            }
        }
        self.followed.retain(|place, _| found.contains_key(place));
        for (place, run) in found {
            if self.followed.get(&place).is_some_and(Followed::is_recorded) {
                continue;
            }
            let (process, why) = Followed::open(&run);
            self.problems.extend(why.map(|failure| failure.to_string()));
            if process.is_recorded() || !self.followed.contains_key(&place) {
                self.followed.insert(place, process);
            }
        }
    }
}

fn runs_of(what: &Path, problems: &mut Vec<String>) -> Result<Vec<(PathBuf, Run)>, String> {
    let what = runs::newest_quietly(what);
    if !what.is_dir() || is_process_folder(&what) {
        let run = Run::find_quietly(&what).map_err(|failure| failure.to_string())?;
        return Ok(vec![(run.folder.as_ref().or(run.recording.as_ref()).unwrap_or(&what).clone(), run)]);
    }
    let folders = runs::process_folders(&what, problems, |_| true).into_iter();
    let found = |folder: PathBuf| match Run::find_quietly(&folder) {
        Ok(run) => Some((folder, run)),
        Err(failure) => {
            problems.push(failure.to_string());
            None
        }
    };
    Ok(folders.filter_map(found).collect())
}
