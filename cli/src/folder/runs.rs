//! The folders of runs and of processes, and how they lie in each other.
//!
//! | folder | holds |
//! |---|---|
//! | that `--out` names | the folders of its runs, one each |
//! | of a run | the folders of its processes, and those of the runs that its program has started |
//! | of a job whose ranks each have a `lazyguard run` | the folders of those runs, one for each rank |
//! | of a job under the library alone | the folders of its processes, beside the job's marker |
//! | above folders that `--out` named | those folders: of several jobs, or of the machines of one job |
//!
//! A command reads the newest of several runs, and says so: ranks are compared within one run alone.

use crate::folder::process::denied;
use crate::folder::source::{is_process_folder, Run};
use crate::machine::files;
use crate::words::{first_of, print, say, Failure, Outcome};
use chrono::DateTime;
use lazyguard_core::api::counted;
use lazyguard_core::run_folder::file::{MARK, OF_A_JOB};
use serde::Deserialize;
use std::fs::{self, DirEntry};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// The deepest nesting: the folder that `--out` names, a job's, a rank's run in it, a run that its program has started, and one in that.
const MOST_RUNS: usize = 5;
/// The runs of one job start within this time, in nanoseconds.
const START_WITHIN: u64 = 600_000_000_000;
const MOST_NAMED: usize = 8;

#[derive(Default, Deserialize)]
struct Mark {
    around: Option<PathBuf>,
    job: Option<String>,
    #[serde(default)]
    host: String,
    rank: Option<String>,
    #[serde(default)]
    started_unix_ns: u64,
    #[serde(default)]
    command: Vec<String>,
}

impl Mark {
    fn of(folder: &Path) -> Option<Self> {
        files::json_in(folder, MARK)
    }
}

pub(crate) fn is_run(folder: &Path) -> bool {
    folder.join(MARK).is_file()
}

/// Whether the program of the run in `around` has started this run, which was not merely given the same folder.
pub(crate) fn is_nested_in(folder: &Path, around: &Path) -> bool {
    Mark::of(folder).is_some_and(|mark| mark.around.as_deref() == Some(around))
}

/// The folders in a folder, by their names; links are left out, which may lead out of it or back into it.
pub(crate) fn folders(root: &Path) -> std::io::Result<Vec<PathBuf>> {
    let is_folder = |entry: &DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    let mut folders: Vec<_> = fs::read_dir(root)?.flatten().filter(is_folder).map(|entry| entry.path()).collect();
    folders.sort();
    Ok(folders)
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OneRun {
    folders: Vec<PathBuf>,
    started_unix_ns: u64,
    command: Vec<String>,
    /// The machine and the rank of each run; empty where no run has left a mark.
    who: Vec<(String, Option<String>)>,
    /// How many ranks of a job have a run there; 0 without a job.
    ranks: usize,
}

impl OneRun {
    fn of(folder: &Path) -> Option<Self> {
        let of_a_job = !is_run(folder);
        // The program may have overwritten the mark, or a full disk have cut it.
        let marks = if of_a_job { marks_of_ranks(folder) } else { vec![Mark::of(folder).unwrap_or_default()] };
        let ranks = if of_a_job { marks.len() } else { 0 };
        let who = marks.iter().map(|mark| (mark.host.clone(), mark.rank.clone())).collect();
        let newest = marks.into_iter().max_by_key(|mark| mark.started_unix_ns);
        let written = if of_a_job { marker_of_job(folder) } else { Some(folder.join(MARK)) };
        let started = newest.as_ref().map(|mark| mark.started_unix_ns).filter(|started| *started != 0);
        let started_unix_ns = started.or_else(|| written.as_deref().map(written_at))?;
        let command = newest.map(|mark| mark.command).unwrap_or_default();
        Some(Self { folders: vec![folder.to_owned()], started_unix_ns, command, who, ranks })
    }

    /// Takes in the run of another machine or rank of the same job, in a folder beside this one's; else returns it.
    fn join(&mut self, other: Self) -> Option<Self> {
        let job = |run: &Self| (run.ranks > 0).then(|| run.folders[0].file_name().map(ToOwned::to_owned));
        let apart = self.folders.iter().all(|own| own.parent() != other.folders[0].parent());
        let same = (job(self), &self.command) == (job(&other), &other.command) && !other.who.is_empty();
        let new = other.who.iter().all(|who| !self.who.contains(who));
        if !(apart && same && new && self.started_unix_ns.abs_diff(other.started_unix_ns) <= START_WITHIN) {
            return Some(other);
        }
        self.folders.extend(other.folders);
        self.who.extend(other.who);
        self.ranks += other.ranks;
        None
    }

    fn line(&self) -> String {
        let started = i64::try_from(self.started_unix_ns).map(DateTime::from_timestamp_nanos).unwrap_or_default();
        let ranks = match self.ranks {
            0 => String::new(),
            1 => " (1 rank)".to_owned(),
            count => format!(" ({count} ranks)"),
        };
        let started = started.format("%Y-%m-%d %H:%M:%SZ");
        format!("{started}  {}{ranks}  {}", self.place(), self.command.join(" "))
    }

    fn folder_within(&self, what: &Path) -> PathBuf {
        if let [only] = &self.folders[..] { only } else { what }.to_owned()
    }

    fn place(&self) -> String {
        self.folders.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(", ")
    }
}

fn written_at(file: &Path) -> u64 {
    let since = fs::metadata(file).and_then(|about| about.modified()).ok();
    u64::try_from(since.and_then(|at| at.duration_since(UNIX_EPOCH).ok()).unwrap_or_default().as_nanos()).unwrap_or(0)
}

fn marks_of_ranks(folder: &Path) -> Vec<Mark> {
    let marks = folders(folder).unwrap_or_default();
    marks.iter().filter_map(|rank| Mark::of(rank)).filter(|mark| mark.job.is_some()).collect()
}

/// The marker by which the processes of a job under the library alone tell each other of a hang.
fn marker_of_job(folder: &Path) -> Option<PathBuf> {
    let mut entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.find(|entry| entry.file_name().to_string_lossy().starts_with(OF_A_JOB)).map(|entry| entry.path())
}

/// The runs in a folder that `--out` named, or one folder deeper, the newest first; none in a run's, job's or process's own.
fn runs_in(folder: &Path) -> Vec<OneRun> {
    let is_one = |folder: &Path| is_run(folder) || is_process_folder(folder) || !marks_of_ranks(folder).is_empty();
    if is_one(folder) {
        return Vec::new();
    }
    let is_one = |folder: &PathBuf| is_one(folder) || marker_of_job(folder).is_some();
    let (ones, above): (Vec<_>, Vec<_>) = self::folders(folder).unwrap_or_default().into_iter().partition(is_one);
    let deeper = above.iter().flat_map(|above| folders(above).unwrap_or_default());
    let mut found: Vec<_> = ones.into_iter().chain(deeper).filter_map(|run| OneRun::of(&run)).collect();
    found.sort_by(|a, b| (b.started_unix_ns, &b.folders).cmp(&(a.started_unix_ns, &a.folders)));
    let mut runs: Vec<OneRun> = Vec::new();
    for run in found {
        let other = runs.iter_mut().try_fold(run, |run, known| known.join(run));
        runs.extend(other);
    }
    runs
}

/// The newest of several runs in the folder that the user has named; a line says so.
pub(crate) fn newest_in(what: &Path) -> PathBuf {
    let runs = runs_in(what);
    let Some(newest) = runs.first() else { return what.to_owned() };
    if runs.len() > 1 {
        let (count, place, what) = (runs.len(), newest.place(), what.display());
        say(format_args!("the newest of {count} runs: {place}; lazyguard report --list {what} lists them"));
    }
    let of_processes = folders(what).unwrap_or_default().iter().filter(|folder| is_process_folder(folder)).count();
    if of_processes > 0 {
        say(format_args!("not read: what {} left beside it, outside any run", counted(of_processes as u64, "process")));
    }
    newest.folder_within(what)
}

pub(crate) fn newest_quietly(what: &Path) -> PathBuf {
    runs_in(what).first().map_or_else(|| what.to_owned(), |newest| newest.folder_within(what))
}

pub(crate) fn list(what: &Path) -> Outcome {
    let runs = runs_in(what);
    if runs.is_empty() {
        return Err(Failure::Input(format!("{}: holds no folders of runs", what.display())));
    }
    print(|out| Ok(out.lines(runs.iter().map(OneRun::line))?))
}

pub(crate) fn one_process(what: &Path) -> Result<Run, Failure> {
    let what = newest_in(what);
    if is_process_folder(&what) {
        return Run::find(&what);
    }
    match &process_folders(&what, &mut Vec::new(), |_| true)[..] {
        [] => Run::find(&what),
        [one] => Run::find(one),
        several => {
            let named = several.iter().map(|folder| folder.display().to_string());
            let named = first_of(named, MOST_NAMED, ", ", |more| format!("and {more} more"));
            let count = several.len();
            Err(Failure::at(&what, format!("holds {count} processes; name the folder of one of them: {named}")))
        }
    }
}

/// The folders of all processes under a root. Below its folders only those of runs and jobs are searched, of several the newest.
pub(crate) fn process_folders(root: &Path, problems: &mut Vec<String>, takes: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut within = vec![(root.to_owned(), 0)];
    let older: Vec<_> = runs_in(root).into_iter().skip(1).flat_map(|run| run.folders).collect();
    let is_job = |folder: &Path| !marks_of_ranks(folder).is_empty() || marker_of_job(folder).is_some();
    while let Some((above, depth)) = within.pop() {
        let mut here = folders(&above).unwrap_or_else(|error| {
            if error.kind() != ErrorKind::NotFound {
                let why = denied(&above, &error).unwrap_or_else(|| error.to_string());
                problems.push(format!("{}: {why}", above.display()));
            }
            Vec::new()
        });
        here.retain(|folder| takes(folder) && !older.contains(folder));
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
        assert_eq!(runs.iter().flat_map(|run| run.folders.clone()).collect::<Vec<_>>(), [new.clone(), old.clone()]);
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
        assert_eq!((runs.len(), &runs[0].folders[0], runs[0].ranks, runs[0].started_unix_ns), (2, &job, 2, 7));
        assert!(runs_in(&job).is_empty() && newest_in(&job) == job);
        let both = ranks.map(|rank| rank.join("rank0-7"));
        assert_eq!(scratch.processes("out/job-1"), both);
        let failure = one_process(&job).unwrap_err().to_string();
        assert!(failure.contains("holds 2 processes") && failure.contains("job-1/rank1/rank0-7"), "{failure}");
        // Under a folder for each machine, all ranks of the newest job count.
        assert_eq!(scratch.processes(""), both);
    }

    /// A run's mark, beside the folder of a process.
    fn marked(scratch: &Scratch, name: &str, started: u64, more: serde_json::Value) -> PathBuf {
        let folder = scratch.run(name, started, None);
        let mut mark = serde_json::json!({ "started_unix_ns": started, "command": ["app"] });
        mark.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        fs::write(folder.join(MARK), mark.to_string()).unwrap();
        folder.join("rank0-7")
    }

    #[test]
    fn of_the_jobs_in_folders_beside_each_other_the_newest_is_read_alone() {
        let scratch = Scratch::new("beside");
        let rank = |rank: u64| serde_json::json!({ "job": "j", "host": "n", "rank": rank.to_string() });
        marked(&scratch, "slurm/job-j/rank0", 5, rank(0));
        marked(&scratch, "slurm/job-j/rank1", 5, rank(1));
        marked(&scratch, "torch/run-1", 4, serde_json::json!({ "host": "n" }));
        // The same name of another job: the launchers of both have the same parent.
        let newest = [0, 1].map(|number| marked(&scratch, &format!("mpi/job-j/rank{number}"), 6, rank(number)));
        assert_eq!(runs_in(&scratch.0).len(), 3);
        assert_eq!((newest_in(&scratch.0), scratch.processes("")), (scratch.0.join("mpi/job-j"), newest.to_vec()));
        // Under the library alone, the marker of a job says that its folder is one.
        for job in ["alone1", "alone2"] {
            fs::create_dir_all(scratch.0.join(job).join("rank0-9")).unwrap();
            fs::write(scratch.0.join(job).join("rank0-9/run.json"), "{}").unwrap();
            fs::write(scratch.0.join(job).join(OF_A_JOB), "").unwrap();
        }
        assert_eq!((runs_in(&scratch.0).len(), scratch.processes("").len()), (5, 1));
    }

    #[test]
    fn the_machines_of_a_job_are_one_run_whose_folders_are_read_together() {
        let scratch = Scratch::new("machines");
        let of = |host: &str| serde_json::json!({ "host": host });
        let newest = ["a", "b"].map(|host| marked(&scratch, &format!("{host}/run-2"), 2 * START_WITHIN, of(host)));
        marked(&scratch, "a/run-1", 2 * START_WITHIN - 9, of("a"));
        // Another time, and another program.
        marked(&scratch, "c/run-1", 1, of("c"));
        let other =
            marked(&scratch, "d/run-1", 2 * START_WITHIN - 5, serde_json::json!({"host": "d", "command": ["x"]}));
        assert_eq!((newest_in(&scratch.0), scratch.processes("")), (scratch.0.clone(), newest.to_vec()));
        assert_eq!((runs_in(&scratch.0).len(), scratch.processes("d")), (4, vec![other]));
    }
}
