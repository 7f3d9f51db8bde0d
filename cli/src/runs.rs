//! The folders of runs and of processes, and how they lie in each other.
//!
//! | folder | holds |
//! |---|---|
//! | that `--out` names | the folders of its runs, one each |
//! | of a run | the folders of its processes, and those of the runs that its program has started |
//! | of a job whose ranks each have a `lazyguard run` | the folders of those runs, one for each rank |
//!
//! A command that reads is given any of them. Of several runs it reads the newest, and says so.
//!
//! Must not: read what processes have left, beyond its names.

use crate::files;
use crate::output::{say, write_line, Output};
use crate::process::denied;
use crate::source::{is_process_folder, Run};
use crate::{Failure, Outcome};
use chrono::DateTime;
use lazyguard_core::api::counted;
use lazyguard_core::run_folder::file::MARK;
use serde::Deserialize;
use std::fs::{self, DirEntry};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::UNIX_EPOCH;

/// The deepest nesting: the folder that `--out` names, a job's, a rank's run in it, a run that its program has started, and one in that.
const MOST_RUNS: usize = 5;
/// The most processes that are named where one has to be chosen.
const MOST_NAMED: usize = 8;

/// The keys read from the mark of a run.
#[derive(Default, Deserialize)]
struct Mark {
    /// The folder of the run whose program has started this one.
    around: Option<PathBuf>,
    /// The job that this run is a rank of.
    job: Option<String>,
    #[serde(default)]
    started_unix_ns: u64,
    #[serde(default)]
    command: Vec<String>,
}

impl Mark {
    fn of(folder: &Path) -> Option<Self> {
        let text = files::open_in(folder, MARK).and_then(files::all_of_short).ok()?;
        serde_json::from_slice(&text).ok()
    }
}

/// Whether a folder is that of a run.
pub(crate) fn is_run(folder: &Path) -> bool {
    folder.join(MARK).is_file()
}

/// Whether a folder is that of a run which the program of another run has started, whose folder is `around`. A run that was merely given
/// the same folder is not nested.
pub(crate) fn is_nested_in(folder: &Path, around: &Path) -> bool {
    Mark::of(folder).is_some_and(|mark| mark.around.as_deref() == Some(around))
}

/// The folders in a folder, by their names; links are left out, which may lead out of it or back into it.
fn folders(root: &Path) -> std::io::Result<Vec<PathBuf>> {
    let is_folder = |entry: &DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    let mut folders: Vec<_> = fs::read_dir(root)?.flatten().filter(is_folder).map(|entry| entry.path()).collect();
    folders.sort();
    Ok(folders)
}

/// A run, or the runs of all ranks of a job.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OneRun {
    pub folder: PathBuf,
    started_unix_ns: u64,
    command: Vec<String>,
    /// Of a job: how many of its ranks have a run there.
    ranks: usize,
}

impl OneRun {
    fn of(folder: &Path) -> Option<Self> {
        if is_run(folder) {
            // The program may have overwritten the mark, or a full disk have cut it.
            let Mark { started_unix_ns, command, .. } = Mark::of(folder).unwrap_or_default();
            let started_unix_ns = if started_unix_ns == 0 { written_at(&folder.join(MARK)) } else { started_unix_ns };
            return Some(Self { folder: folder.to_owned(), started_unix_ns, command, ranks: 0 });
        }
        let ranks = marks_of_ranks(folder);
        let newest = ranks.iter().max_by_key(|mark| mark.started_unix_ns)?;
        let (started_unix_ns, command) = (newest.started_unix_ns, newest.command.clone());
        Some(Self { folder: folder.to_owned(), started_unix_ns, command, ranks: ranks.len() })
    }

    fn line(&self) -> String {
        let started = i64::try_from(self.started_unix_ns).map(DateTime::from_timestamp_nanos).unwrap_or_default();
        let ranks = match self.ranks {
            0 => String::new(),
            1 => " (1 rank)".to_owned(),
            count => format!(" ({count} ranks)"),
        };
        let started = started.format("%Y-%m-%d %H:%M:%SZ");
        format!("{started}  {}{ranks}  {}", self.folder.display(), self.command.join(" "))
    }
}

/// When a file was written, in nanoseconds since 1970.
fn written_at(file: &Path) -> u64 {
    let since = fs::metadata(file).and_then(|about| about.modified()).ok();
    let since = since.and_then(|at| at.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(0)
}

/// The marks of the ranks' runs in a job's folder; none in any other folder.
fn marks_of_ranks(folder: &Path) -> Vec<Mark> {
    let marks = folders(folder).unwrap_or_default();
    marks.iter().filter_map(|rank| Mark::of(rank)).filter(|mark| mark.job.is_some()).collect()
}

fn is_job(folder: &Path) -> bool {
    folders(folder).unwrap_or_default().iter().any(|rank| Mark::of(rank).is_some_and(|mark| mark.job.is_some()))
}

/// The runs in a folder that `--out` named, the newest first. A run's own folder, a job's and a process's hold none.
fn runs_in(folder: &Path) -> Vec<OneRun> {
    if is_run(folder) || is_process_folder(folder) || is_job(folder) {
        return Vec::new();
    }
    let mut runs: Vec<_> = folders(folder).unwrap_or_default().iter().filter_map(|run| OneRun::of(run)).collect();
    runs.sort_by(|a, b| (b.started_unix_ns, &b.folder).cmp(&(a.started_unix_ns, &a.folder)));
    runs
}

/// The folder that a command is to read: of several runs in the one that the user has named, the newest. A line says so.
pub(crate) fn newest_in(what: &Path) -> PathBuf {
    let runs = runs_in(what);
    let Some(newest) = runs.first() else { return what.to_owned() };
    if runs.len() > 1 {
        say(format_args!(
            "the newest of {} runs: {}; lazyguard report --list {} lists them",
            runs.len(),
            newest.folder.display(),
            what.display()
        ));
    }
    let of_processes = folders(what).unwrap_or_default().iter().filter(|folder| is_process_folder(folder)).count();
    if of_processes > 0 {
        say(format_args!("not read: what {} left beside it, outside any run", counted(of_processes as u64, "process")));
    }
    newest.folder.clone()
}

/// The same without a line, for what looks again and again.
pub(crate) fn newest_quietly(what: &Path) -> PathBuf {
    runs_in(what).into_iter().next().map_or_else(|| what.to_owned(), |newest| newest.folder)
}

/// Prints a line for each run in a folder, the newest first.
pub(crate) fn list(what: &Path) -> Outcome {
    let runs = runs_in(what);
    if runs.is_empty() {
        return Err(Failure::Input(format!("{}: holds no folders of runs", what.display())));
    }
    let mut out = Output::standard();
    runs.iter().try_for_each(|run| write_line!(out, "{}", run.line()))?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// The one process that a command is to read: the one that the user has named, or the only one of a run.
pub(crate) fn one_process(what: &Path) -> Result<Run, Failure> {
    let what = newest_in(what);
    if is_process_folder(&what) {
        return Run::find(&what);
    }
    let found = process_folders(&what, &mut Vec::new(), |_| true);
    match &found[..] {
        [] => Run::find(&what),
        [one] => Run::find(one),
        several => {
            let named = several.iter().take(MOST_NAMED).map(|folder| folder.display().to_string());
            let more = several.len().saturating_sub(MOST_NAMED);
            let more = (more > 0).then(|| format!("and {more} more"));
            let named: Vec<_> = named.chain(more).collect();
            Err(Failure::Input(format!(
                "{}: holds {} processes; name the folder of one of them: {}",
                what.display(),
                several.len(),
                named.join(", ")
            )))
        }
    }
}

/// The folders of all processes under a root: directly, in the folder of another process, or in the folders of runs. Below a folder's
/// own folders only those of runs and jobs are searched: others may belong to any program. Of several runs in a folder below the root,
/// as where each machine has a folder, the newest counts.
pub(crate) fn process_folders(root: &Path, problems: &mut Vec<String>, takes: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut within = vec![(root.to_owned(), 0)];
    while let Some((above, depth)) = within.pop() {
        let mut here = folders(&above).unwrap_or_else(|error| {
            if error.kind() != ErrorKind::NotFound {
                let why = denied(&above, &error).unwrap_or_else(|| error.to_string());
                problems.push(format!("{}: {why}", above.display()));
            }
            Vec::new()
        });
        here.retain(|folder| takes(folder));
        if depth > 0 && here.iter().any(|folder| !is_process_folder(folder)) {
            let older: Vec<_> = runs_in(&above).into_iter().skip(1).map(|run| run.folder).collect();
            here.retain(|folder| !older.contains(folder));
        }
        for folder in here {
            if depth == 0 || depth < MOST_RUNS && (is_run(&folder) || is_job(&folder)) {
                within.push((folder.clone(), depth + 1));
            }
            if is_process_folder(&folder) {
                found.push(folder);
            }
        }
    }
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("lazyguard-runs-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn run(&self, name: &str, started: u64, job: Option<&str>) -> PathBuf {
            let folder = self.0.join(name);
            let process = folder.join("rank0-7");
            fs::create_dir_all(&process).unwrap();
            fs::write(process.join("run.json"), "{}").unwrap();
            let mark = serde_json::json!({ "job": job, "started_unix_ns": started, "command": ["app", "--x"] });
            fs::write(folder.join(MARK), mark.to_string()).unwrap();
            folder
        }

        fn processes(&self, of: &str) -> Vec<PathBuf> {
            process_folders(&self.0.join(of), &mut Vec::new(), |_| true)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[test]
    fn of_several_runs_the_newest_is_read() {
        let scratch = Scratch::new("newest");
        let old = scratch.run("out/b", 1_750_000_000_000_000_000, None);
        let new = scratch.run("out/a", 1_750_000_001_000_000_000, None);
        let out = scratch.0.join("out");
        let runs = runs_in(&out);
        assert_eq!(runs.iter().map(|run| run.folder.clone()).collect::<Vec<_>>(), [new.clone(), old.clone()]);
        assert_eq!(runs[1].line(), format!("2025-06-15 15:06:40Z  {}  app --x", old.display()));
        assert_eq!(newest_in(&out), new);
        assert_eq!((newest_in(&old), newest_in(&old.join("rank0-7"))), (old.clone(), old.join("rank0-7")));
        assert_eq!(one_process(&out).unwrap().folder, Some(new.join("rank0-7")));
        // A mark that cannot be read does not hide a run.
        fs::write(old.join(MARK), "cut").unwrap();
        assert_eq!(newest_in(&out), old, "it was written to after the other one had started");
        fs::write(old.join(MARK), "{\"started_unix_ns\": 5}").unwrap();
        // A folder for each machine, in which several runs are.
        assert_eq!(scratch.processes(""), [new.join("rank0-7")]);
    }

    #[test]
    fn the_ranks_of_a_job_are_one_run() {
        let scratch = Scratch::new("job");
        scratch.run("out/alone", 5, None);
        let ranks = [scratch.run("out/job-1/rank0", 7, Some("1")), scratch.run("out/job-1/rank1", 6, Some("1"))];
        let job = scratch.0.join("out/job-1");
        let runs = runs_in(&scratch.0.join("out"));
        assert_eq!((runs.len(), &runs[0].folder, runs[0].ranks, runs[0].started_unix_ns), (2, &job, 2, 7));
        assert!(runs_in(&job).is_empty() && newest_in(&job) == job);
        let both = ranks.map(|rank| rank.join("rank0-7"));
        assert_eq!(scratch.processes("out/job-1"), both);
        let failure = one_process(&job).unwrap_err().to_string();
        assert!(failure.contains("holds 2 processes") && failure.contains("job-1/rank1/rank0-7"), "{failure}");
        // Under a folder for each machine, all ranks of the newest job count.
        assert_eq!(scratch.processes(""), both);
    }
}
