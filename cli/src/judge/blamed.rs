//! The rank to blame in a job that lives: the processes of [`Job`], with the comparison of their run on the process that is behind.
//!
//! Must not: compare while no rank hangs, or again and again: a comparison reads the recordings of all ranks.

use super::collect;
use super::ranks::compare;
use crate::folder::is_run;
use crate::folder::live::{BlamedNow, Depth, Job, ProcessNow};
use lazyguard_core::Nanos;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The rank that is behind may answer later, or move.
const STAYS: Duration = Duration::from_secs(10);

struct Compared {
    hangs: Vec<(u32, Nanos)>,
    at: Instant,
    blamed: Option<BlamedNow>,
}

pub(crate) struct Watched {
    job: Job,
    compared: BTreeMap<PathBuf, Compared>,
}

impl Watched {
    pub fn new(what: Vec<PathBuf>) -> Self {
        Self { job: Job::new(what), compared: BTreeMap::new() }
    }

    pub fn problems(&self) -> &[String] {
        self.job.problems()
    }

    pub fn look(&mut self, depth: Depth) -> Vec<ProcessNow> {
        let mut all = self.job.look(depth);
        let mut runs: BTreeMap<PathBuf, Vec<(u32, Nanos)>> = BTreeMap::new();
        for now in all.iter().filter(|now| now.hangs()) {
            if let (Some(run), Some(hang)) = (run_of(now), &now.hang) {
                runs.entry(run).or_default().push((now.process, hang.since));
            }
        }
        self.compared.retain(|run, _| runs.contains_key(run));
        for (run, hangs) in runs {
            let is_new = |known: &Compared| known.hangs != hangs || known.at.elapsed() > STAYS;
            if self.compared.get(&run).is_none_or(is_new) {
                let blamed = blamed(&run);
                self.compared.insert(run.clone(), Compared { hangs, at: Instant::now(), blamed });
            }
            let known = self.compared.get(&run).and_then(|known| known.blamed.clone());
            for now in all.iter_mut().filter(|now| run_of(now).as_ref() == Some(&run)) {
                now.blamed.clone_from(&known);
            }
        }
        all
    }
}

/// The folder of the run around a rank's.
fn run_of(now: &ProcessNow) -> Option<PathBuf> {
    let run = now.folder.as_deref()?.parent().filter(|run| !now.rank.is_empty() && is_run(run))?;
    Some(run.to_owned())
}

fn blamed(run: &Path) -> Option<BlamedNow> {
    let (processes, _) = collect::under(run);
    let ranks = compare(&processes)?;
    let code = processes.iter().find_map(|process| process.hang()?.verdicts.first().map(|verdict| verdict.code.name()));
    let rank = ranks.odd().map(|odd| odd.rank).chain(ranks.blocked.iter().map(|blocked| blocked.rank)).next();
    let behind = processes.iter().filter(|process| rank.is_some() && process.rank.parse().ok() == rank);
    let class = behind.filter_map(|process| process.evidence.as_ref()).map(|evidence| evidence.class).next();
    Some(BlamedNow { rank, code: code.unwrap_or(""), class, sentence: ranks.sentence })
}
