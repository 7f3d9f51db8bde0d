//! `lazyguard ready`: tells guarded processes that they are ready, so that what they load from then on is LG110.

use super::dump::{process_meant, process_or_folder};
use crate::folder::{duration, newest_in, process_folders, Run};
use crate::inspect::dump::mark_ready;
use crate::words::{print, say, write_line, Failure, Outcome};
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A process, its run folder, or the folder of a run: all its processes.
    #[arg(value_name = "PID|FOLDER", value_parser = process_or_folder)]
    what: PathBuf,
    /// How long each process may take to answer: 10s, 500ms; in seconds without a unit.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "10s")]
    timeout: u64,
}

pub(crate) fn ready(arguments: &Arguments) -> Outcome {
    print(|out| {
        let mut failed = None;
        for process in processes(&arguments.what)? {
            // One that cannot answer must not keep the others from being told.
            match mark_ready(process, Duration::from_nanos(arguments.timeout)) {
                Ok(()) => write_line!(out, "process {process} is ready: what it loads from now on is LG110")?,
                Err(failure) => failed.replace(failure).into_iter().for_each(say),
            }
        }
        failed.map_or(Ok(()), Err)
    })
}

fn processes(what: &Path) -> Result<Vec<u32>, Failure> {
    let folders = if what.is_dir() { process_folders(&newest_in(what), &mut Vec::new(), |_| true) } else { Vec::new() };
    let mut found = Vec::new();
    for folder in &folders {
        found.extend(Run::find_quietly(folder)?.open()?.and_then(|opened| opened.live_process()));
    }
    match (&found[..], &folders[..]) {
        ([_, ..], _) => Ok(found),
        ([], [_, _, ..]) => Err(Failure::Input(format!("{}: no process of it runs here any more", what.display()))),
        ([], _) => Ok(vec![process_meant(what)?]),
    }
}
