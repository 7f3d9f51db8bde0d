//! Reads each recording of a run once, for all the summaries that were asked for.

use super::cards::{self, CardsOfStart};
use crate::folder::{duration, process_folders, Opened, Run, RECORDING};
use crate::judge::timing::{Blocking, BlockingFold, ColdStart, ColdStartFold, THRESHOLD_NANOS};
use crate::words::Failure;
use lazyguard_core::replay::{Fact, Replay};
use lazyguard_core::Nanos;
use serde::Serialize;
use std::path::{Path, PathBuf};

#[derive(clap::Args, Clone, Debug)]
// No group: it is part of arguments whose group has the same name, which clap refuses in a build with debug assertions.
#[group(skip)]
pub(crate) struct Arguments {
    /// How the time from the process's start to its steady state was spent.
    #[arg(long)]
    pub cold_start: bool,
    /// The calls documented as asynchronous that blocked the host, how long, and why.
    #[arg(long)]
    pub blocking: bool,
    /// Only the calls of --blocking that took at least so long. [default: 100us]
    #[arg(long, value_name = "DURATION", value_parser = duration, requires = "blocking")]
    pub slower_than: Option<Nanos>,
}

impl Arguments {
    pub fn wanted(&self) -> bool {
        self.cold_start || self.blocking
    }
}

/// The times of a process.
#[derive(Serialize)]
pub(super) struct ProcessTimes {
    /// Its run folder.
    folder: Option<PathBuf>,
    /// The process id.
    pub process: u32,
    /// The program's file name.
    pub program: String,
    /// The rank in the job, or empty.
    pub rank: String,
    /// The machine.
    pub host: String,
    /// How it ended, in words.
    pub ended: String,
    /// The time of the start; null without `--cold-start`.
    pub cold_start: Option<ColdStart>,
    /// The cards; null without `--cold-start`.
    pub card: Option<CardsOfStart>,
    /// The asynchronous calls that blocked the host; null without `--blocking`.
    pub blocking: Option<Blocking>,
    /// Why some records are missing.
    #[serde(skip)]
    pub cut_short: Option<Failure>,
}

/// The processes that are meant: one by its id or folder, or all whose folders lie under this one.
pub(super) fn processes(what: &Path) -> Result<Vec<Run>, Failure> {
    let run = Run::find(what)?;
    if run.recording.is_some() {
        return Ok(vec![run]);
    }
    let folders = process_folders(what, &mut Vec::new(), |_| true);
    folders.iter().filter(|folder| folder.join(RECORDING).is_file()).map(|folder| Run::find(folder)).collect()
}

impl ProcessTimes {
    pub fn read(run: &Run, asked: &Arguments) -> Result<Self, Failure> {
        let opened = run.must_open()?;
        let (recording, end) = (&opened.recording, opened.last_seen());
        let least = asked.slower_than.unwrap_or(THRESHOLD_NANOS);
        let mut cold_start = asked.cold_start.then(|| ColdStartFold::new(recording, end));
        let mut blocking = asked.blocking.then(|| BlockingFold::new(recording, least, end));
        replay(&opened, |fact| {
            cold_start.iter_mut().for_each(|fold| fold.see(fact));
            blocking.iter_mut().for_each(|fold| fold.see(fact));
        })?;
        let facts = recording.facts();
        let cold_start = cold_start.map(ColdStartFold::finish);
        Ok(Self {
            folder: run.folder.clone(),
            process: facts.process,
            program: facts.program.clone(),
            rank: recording.rank(),
            host: facts.host.clone(),
            ended: opened.end_in_words(),
            card: cold_start.as_ref().map(|summary| cards::of_start(run.folder.as_deref(), summary)),
            cold_start,
            blocking: blocking.map(BlockingFold::finish),
            cut_short: opened.cut_short(),
        })
    }
}

pub(crate) fn cold_start_of(opened: &Opened) -> Result<ColdStart, Failure> {
    let mut fold = ColdStartFold::new(&opened.recording, opened.last_seen());
    replay(opened, |fact| fold.see(fact))?;
    Ok(fold.finish())
}

fn replay(opened: &Opened, mut visit: impl FnMut(&Fact<'_>)) -> Result<(), Failure> {
    let mut replay = Replay::default();
    opened.each_in_order(|entry| {
        visit(&replay.see(entry));
        Ok(())
    })
}
