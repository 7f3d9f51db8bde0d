//! `lazyguard clean`: removes the private folders that this user's ended processes and runs have left.
//!
//! Must not: decide what may be removed (the core does), or look at a folder that the user named with `--out` or `LAZYGUARD_OUT`.

use crate::folder::duration;
use crate::folder::old_runs::sight;
use crate::words::{size, write_line, Failure, Outcome, Output};
use lazyguard_core::api::counted;
use lazyguard_core::old_runs::{all_in, Left, State};
use lazyguard_core::run_folder::private_bases;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only list what would be removed.
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Also failures of the last day, and folders of other containers and hosts without a heartbeat for a minute, as of
    /// a paused process.
    #[arg(long)]
    all: bool,
    /// Only folders that have not changed for so long: 12h, 30m.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    older_than: Option<u64>,
}

pub(crate) fn clean(arguments: &Arguments) -> Outcome {
    clean_in(&private_bases(std::env::var_os("TMPDIR")), arguments, &mut Output::standard())
}

fn clean_in(bases: &[PathBuf], arguments: &Arguments, out: &mut Output<'_>) -> Outcome {
    let sight = sight();
    let all: Vec<_> = bases.iter().flat_map(|base| all_in(base, &sight)).collect();
    let mut kept = [
        (0_u64, "of processes that run"),
        (
            0,
            "of processes in other containers or on other hosts, which cannot be seen from here (--all takes those that are silent)",
        ),
        (0, "of failures, younger than a day (--all takes them)"),
        (0, "in which something has changed lately (--older-than)"),
    ];
    let (mut removed, mut bytes, mut failed) = (0_u64, 0_u64, Vec::new());
    for left in &all {
        let why = match left.state {
            State::Lives => Some(0),
            State::Silent if !arguments.all => Some(1),
            _ if left.is_fresh_evidence(sight.now) && !arguments.all => Some(2),
            _ if left.age(sight.now) < Duration::from_nanos(arguments.older_than.unwrap_or(0)) => Some(3),
            _ => None,
        };
        if let Some((count, _)) = why.and_then(|why: usize| kept.get_mut(why)) {
            *count += 1;
            continue;
        }
        match remove(left, arguments.dry_run, sight.entries) {
            Ok(freed) => {
                let verb = if arguments.dry_run { "would remove" } else { "removed" };
                write_line!(out, "{verb} {} ({}, {})", left.path.display(), whose(left), size(freed))?;
                (removed, bytes) = (removed + 1, bytes.saturating_add(freed));
            }
            Err(error) => failed.push(format!("{}: cannot be removed: {error}", left.path.display())),
        }
    }
    let (verb, freed) = if arguments.dry_run { ("would be removed", "would be freed") } else { ("removed", "freed") };
    write_line!(out, "{} {verb}, {} {freed}", counted(removed, "folder"), size(bytes))?;
    for (count, why) in kept.into_iter().filter(|(count, _)| *count > 0) {
        write_line!(out, "{} kept: {why}", counted(count, "folder"))?;
    }
    out.flush()?;
    let last = failed.pop();
    failed.iter().for_each(crate::words::output::say);
    last.map_or(Ok(ExitCode::SUCCESS), |last| Err(Failure::Input(last)))
}

fn remove(left: &Left, dry_run: bool, mut entries: usize) -> std::io::Result<u64> {
    match dry_run {
        true => left.removable().map(|()| left.bytes),
        false => left.remove(&mut entries),
    }
}

fn whose(left: &Left) -> String {
    let what = if left.private.is_run { "run" } else { "process" };
    // The user may have asked to keep a run's folder.
    let kept = match (left.is_evidence, left.private.is_run) {
        (true, true) => ", kept",
        (true, false) => ", of a failure",
        (false, _) => "",
    };
    format!("{what} {}{kept}", left.private.process)
}
