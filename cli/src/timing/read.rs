//! Reads each recording of a run once, for all the summaries that were asked for.

use super::cards;
use super::summary::{Blocking, BlockingFold, ColdStart, ColdStartFold};
use crate::nvml::Cards;
use crate::runs::process_folders;
use crate::source::{Opened, Run, RECORDING};
use crate::Failure;
use lazyguard_core::trace::read::Entry;
use lazyguard_core::Nanos;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// What was asked.
pub(super) struct Asked {
    pub cold_start: bool,
    pub blocking: bool,
    /// From how long on a call has blocked the host.
    pub threshold: Nanos,
}

/// What is known of one process.
pub(super) struct Timed {
    pub folder: Option<PathBuf>,
    pub process: u32,
    pub program: String,
    pub rank: String,
    pub host: String,
    /// How it ended, in words.
    pub ended: String,
    pub cold_start: Option<ColdStart>,
    pub blocking: Option<Blocking>,
    /// The cards' states meanwhile, if the run recorded them.
    pub cards: Option<Result<Cards, String>>,
    /// Why some records are missing.
    pub cut_short: Option<Failure>,
}

/// The processes that are meant: one by its id or folder, or all whose folders lie under this one.
pub(super) fn processes(what: &Path) -> Result<Vec<Run>, Failure> {
    let run = Run::find(what)?;
    if run.recording.is_some() {
        return Ok(vec![run]);
    }
    let folders = process_folders(what, &mut Vec::new(), |_| true);
    let recorded = folders.iter().filter(|folder| folder.join(RECORDING).is_file());
    recorded.map(|folder| Run::find(folder)).collect()
}

impl Timed {
    /// Reads a recording.
    pub fn read(run: &Run, asked: &Asked) -> Result<Self, Failure> {
        let opened = run.must_open()?;
        let (recording, end) = (&opened.recording, end_of(&opened));
        let mut cold_start = asked.cold_start.then(|| ColdStartFold::new(recording, end));
        let mut blocking = asked.blocking.then(|| BlockingFold::new(recording, asked.threshold, end));
        each_in_order(&opened, |entry| {
            cold_start.iter_mut().for_each(|fold| fold.see(entry));
            blocking.iter_mut().for_each(|fold| fold.see(entry));
        })?;
        let facts = recording.facts();
        Ok(Self {
            folder: run.folder.clone(),
            process: facts.process,
            program: facts.program.clone(),
            rank: opened.recording.rank(),
            host: facts.host.clone(),
            ended: opened.end_in_words(),
            cold_start: cold_start.map(ColdStartFold::finish),
            blocking: blocking.map(BlockingFold::finish),
            cards: run.folder.as_deref().and_then(cards::of),
            cut_short: opened.cut_short(),
        })
    }
}

/// When the process was last seen: now, if it is there.
pub(super) fn end_of(opened: &Opened) -> Nanos {
    let facts = opened.recording.facts();
    if !opened.alive {
        return facts.last_seen;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = Nanos::try_from(now.as_nanos()).unwrap_or(Nanos::MAX);
    now.saturating_sub(facts.armed_unix_nanos).max(facts.last_seen)
}

/// Goes through all records, and the calls in progress among them, in the order in which they were entered.
pub(super) fn each_in_order(opened: &Opened, mut each: impl FnMut(&Entry)) -> Result<(), Failure> {
    let mut in_progress = opened.calls_in_progress();
    opened.each_record(|entry| {
        while in_progress.front().is_some_and(|call| call.record.entered <= entry.record.entered) {
            in_progress.pop_front().iter().for_each(&mut each);
        }
        each(entry);
        Ok(())
    })?;
    in_progress.iter().for_each(each);
    Ok(())
}
