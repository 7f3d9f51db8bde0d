//! The folder of a run, in which every guarded process has a folder of its own.
//!
//! | it lies | and is named by |
//! |---|---|
//! | where `--out` or `LAZYGUARD_OUT` says | its start and process; of ranks that a launcher started: their job and rank |
//! | in the folder of an outer `lazyguard run` | its process |
//! | beside the guard's private folders otherwise | its user and process; it is removed unless it holds something worth keeping |
//!
//! Must not: reuse a folder with an earlier run, or remove anything in a folder that the user named.

use crate::folder::{
    ends, exists, is_process_folder, is_run, old_runs, runs, started_by_header, ProcessEnd, Status, HAZARDS, RECORDING,
};
use crate::machine::files::{self, Locked};
use crate::words::Failure;
use chrono::DateTime;
use lazyguard_core::old_runs::{namespace, process_of, tidy};
use lazyguard_core::run_folder::file::KEPT;
use lazyguard_core::run_folder::{make_private, open_to_owner, private_bases, Private};
use lazyguard_core::settings::{expand_folder, literal_folder, FolderFacts};
use rustix::io::Errno;
use rustix::process::getuid;
use std::collections::hash_map::RandomState;
use std::collections::HashSet;
use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The name of a process's folder, as a template for the guard.
const EACH: &str = "rank%r-%p";

pub(super) use lazyguard_core::run_folder::file::MARK;

const MOST_KEPT: usize = 8;

/// The folder that the user wants, and the folder of an outer `lazyguard run`, from options and environment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Given<'a> {
    pub option: Option<&'a str>,
    pub variable: Option<&'a str>,
    pub around: Option<&'a str>,
    /// The place of that run for the folders of other users' processes.
    pub for_other_users: Option<&'a str>,
    pub job: Option<&'a str>,
}

impl<'a> Given<'a> {
    /// The template of the folder that the user wants. A template that an outer `lazyguard run` set for the guard does not count.
    pub(super) fn template(self) -> Option<&'a str> {
        let by_other = |variable: &&str| self.around.is_some_and(|around| template_in(around) == **variable);
        let variable = self.variable.filter(|variable| !by_other(variable));
        self.option.or(variable).filter(|template| !template.trim().is_empty())
    }
}

/// The job and the rank by which a folder is named that all ranks were given alike.
pub(super) fn shared<'a>(given: Given<'a>, rank: Option<&'a str>) -> Option<(&'a str, &'a str)> {
    let template = given.template()?.replace("%%", "");
    let told_apart = ["%r", "%p"].iter().any(|field| template.contains(field));
    given.job.zip(rank).filter(|_| !told_apart)
}

fn template_in(root: &str) -> String {
    format!("{}/{EACH}", literal_folder(root))
}

enum Kind {
    /// At the place that the user has named; with the folders that this run made, its own and those above it, the outermost first.
    AskedFor(Vec<PathBuf>),
    Nested,
    Private,
    /// Nowhere: none could be made, and nothing looks for one.
    Absent,
}

pub(super) struct Root {
    path: PathBuf,
    kind: Kind,
    /// The locked mark shows a sweep that the run is alive. `None` where the file system has no locks.
    _mark: Option<Locked>,
}

type NotMade = (PathBuf, io::Error);

impl Root {
    /// No folder at all: the guarded processes make none for this run, and it has no findings of them.
    pub fn nowhere() -> Self {
        // A path that does not exist.
        let path = PathBuf::from(format!("/nonexistent/lazyguard-{:016x}", random()));
        Self { path, kind: Kind::Absent, _mark: None }
    }

    pub fn is_there(&self) -> bool {
        !matches!(self.kind, Kind::Absent)
    }

    pub fn is_gone(&self) -> bool {
        self.is_there() && !self.path.exists()
    }

    /// Whether a process, or a run that the program has started, has a folder here.
    pub fn holds_anything(&self) -> bool {
        folders(&self.path).iter().any(|folder| is_run(folder) || is_process_folder(folder))
    }

    pub fn had_a_process(&self) -> bool {
        folders(&self.path).iter().any(|folder| process_with(folder).is_some())
    }

    pub fn note(&self, ends: &[ProcessEnd]) {
        let own: HashSet<u32> = folders(&self.path).iter().filter_map(|folder| process_with(folder)).collect();
        let ends: Vec<_> = ends.iter().filter(|end| own.contains(&end.process)).collect();
        // The program may have overwritten the mark.
        let mark = files::json_in::<serde_json::Value>(&self.path, MARK).filter(serde_json::Value::is_object);
        let (Some(mut mark), false) = (mark, ends.is_empty()) else { return };
        let kept = ends::with_room(&ends);
        mark[ends::KEY] = serde_json::json!(kept);
        if kept.len() < ends.len() {
            mark[ends::LEFT_OUT] = serde_json::json!(ends.len() - kept.len());
        }
        // The mark is rewritten in place: the lock is on this file, which only gets longer.
        let _ = files::open_to_write_in(&self.path, MARK)
            .and_then(|mut file| file.write_all(format!("{mark:#}\n").as_bytes()));
    }

    pub fn make(given: Given<'_>, facts: &FolderFacts<'_>, mark: &str) -> Result<Self, Failure> {
        // A process that has changed its user may be unable to look up `around`.
        let for_other_users = given.for_other_users.map(Path::new).filter(|place| place.is_dir());
        let is_there = |around: &Path| around.is_dir() || for_other_users.is_some();
        let made = match (given.template(), given.around.map(Path::new).filter(|around| is_there(around))) {
            (Some(template), _) => {
                let wanted = || Self::wanted(template, shared(given, facts.rank), facts, mark);
                // Another run of the job that has nothing to keep may remove the folder while this one moves in.
                let is_gone = |made: &Result<Self, NotMade>| {
                    made.as_ref().is_err_and(|(_, error)| error.kind() == io::ErrorKind::NotFound)
                };
                (0..20).map(|_| wanted()).find(|made| !is_gone(made)).unwrap_or_else(wanted)
            }
            (None, Some(around)) => {
                let name = |again: &str| format!("run-{}{}", facts.process, again.replace('.', "-"));
                let inside = |place: &Path| Self::new_in(place, mark, |_| Kind::Nested, name);
                // A process of the outer run that has changed its user may have started this run.
                inside(around).or_else(|error| for_other_users.map_or(Err(error), inside))
            }
            (None, None) => Self::private(facts.process, mark),
        };
        made.map_err(|(path, error)| {
            let file = path.ancestors().find(|part| part.is_file());
            let why = file.map_or_else(|| error.to_string(), |file| format!("{} is a file", file.display()));
            Failure::Input(format!("{}: no folder for the run: {why}", path.display()))
        })
    }

    fn at(path: &Path, mark: &str, kind: Kind) -> io::Result<Self> {
        if path.to_str().is_none() {
            return Err(io::Error::other("its name has to be UTF-8"));
        }
        let marked = files::create_new(&path.join(MARK), 0o666);
        let marked = marked.and_then(|mut file| file.write_all(mark.as_bytes()).map(|()| file));
        // No room for the mark, perhaps.
        let marked = marked.inspect_err(|_| drop(fs::remove_file(path.join(MARK))));
        marked.map(|file| Self { path: path.to_owned(), kind, _mark: lock(file) })
    }

    fn wanted(
        template: &str,
        shared: Option<(&str, &str)>,
        facts: &FolderFacts<'_>,
        mark: &str,
    ) -> Result<Self, NotMade> {
        let folder = PathBuf::from(expand_folder(template, facts));
        let folder = std::path::absolute(&folder).map_err(|error| (folder, error))?;
        let started = DateTime::from_timestamp(facts.start_seconds as i64, 0).unwrap_or_default();
        let name = |again: &str| match shared {
            // A rank that is there already is an earlier job's with the same name.
            Some((job, rank)) => format!("job-{job}{again}/rank{rank}"),
            None => format!("{}-{}{again}", started.format("%Y%m%d-%H%M%S"), facts.process),
        };
        Self::new_in(&folder, mark, Kind::AskedFor, name)
    }

    /// A folder for this run alone. `kind` gets the folders that are made for it; `name` what tells a further name from the first.
    fn new_in(
        folder: &Path,
        mark: &str,
        kind: fn(Vec<PathBuf>) -> Kind,
        name: impl Fn(&str) -> String,
    ) -> Result<Self, NotMade> {
        for again in 1..1000 {
            let again = if again == 1 { String::new() } else { format!(".{again}") };
            let own = folder.join(name(&again));
            let made = own.ancestors().take_while(|path| *path != folder);
            let missing = folder.ancestors().take_while(|path| !path.exists());
            let mut made: Vec<_> = made.chain(missing).map(Path::to_owned).collect();
            made.reverse();
            let made_now = fs::create_dir_all(own.parent().unwrap_or(folder))
                .and_then(|()| fs::create_dir(&own))
                .and_then(|()| open_to_owner(&own));
            if made_now.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists && own.is_dir()) {
                continue;
            }
            return made_now.and_then(|()| Self::at(&own, mark, kind(made.clone()))).map_err(|error| {
                remove_empty(&made);
                (own, error)
            });
        }
        Err((folder.to_owned(), io::Error::new(io::ErrorKind::AlreadyExists, "it is full of other runs")))
    }

    fn private(process: u32, mark: &str) -> Result<Self, NotMade> {
        let mut last = (PathBuf::new(), io::Error::other("there is no folder for temporary files"));
        for base in private_bases(std::env::var_os("TMPDIR")) {
            tidy(&base, &old_runs::sight());
            match private_folder(&base, process) {
                Err(error) => last = (base, error),
                Ok(path) => match Self::at(&path, mark, Kind::Private) {
                    Ok(made) => return Ok(made),
                    Err(error) => {
                        remove_own(&path);
                        last = (path, error);
                    }
                },
            }
        }
        Err(last)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn is_asked_for(&self) -> bool {
        matches!(self.kind, Kind::AskedFor(_))
    }

    pub fn template(&self) -> String {
        template_in(self.text())
    }

    pub fn is_nested(&self) -> bool {
        matches!(self.kind, Kind::Nested)
    }

    pub fn text(&self) -> &str {
        self.path.to_str().unwrap_or_default()
    }

    /// Removes the recordings of all but the newest processes with a good end: a program may start hundreds.
    pub fn thin_out(&self) {
        if self.is_asked_for() {
            return;
        }
        let well = |folder: &PathBuf| {
            let summary: Option<serde_json::Value> = files::json_in(folder, "run.json");
            summary.is_some_and(|summary| summary["ended"] == "exit" && summary["hangs"] == 0)
        };
        let recorded = |folder: PathBuf| {
            let recording = folder.join(RECORDING);
            Some((fs::metadata(&recording).and_then(|about| about.modified()).ok()?, recording, folder))
        };
        let mut all: Vec<_> = folders(&self.path).into_iter().filter_map(recorded).collect();
        all.sort_by_key(|(since, _, _)| std::cmp::Reverse(*since));
        for (_, recording, _) in all.iter().skip(MOST_KEPT).filter(|(_, _, folder)| well(folder)) {
            // A failure is harmless: the next call tries again.
            let _ = fs::remove_file(recording);
        }
    }

    /// A number is that of another process where the folder's was of another PID namespace: the recording says when its own began.
    pub fn living(&self) -> Vec<u32> {
        let lives = |folder: &Path| {
            let process = process_with(folder).filter(|process| exists(*process))?;
            let began = started_by_header(&folder.join(RECORDING)).ok();
            let is_another = Status::of(process).started().zip(began).is_some_and(|(now, then)| now != then);
            (!is_another).then_some(process)
        };
        folders(&self.path).iter().filter_map(|folder| lives(folder)).collect()
    }

    /// Removes the folder, unless it is to be kept; returns whether it is still there.
    pub fn finish(self, keep: bool) -> bool {
        let has_content = self.holds_anything();
        // A run that was kept, and whose path was printed.
        let is_kept = |folder: &PathBuf| is_run(folder) && folder.join(KEPT).is_file();
        let others_keep = || folders(&self.path).iter().any(is_kept) || has_living(&self.path);
        match &self.kind {
            Kind::Absent => return false,
            Kind::AskedFor(_) if has_content => return true,
            Kind::AskedFor(made) => {
                // The run's own mark; all else there belongs to others.
                let _ = fs::remove_file(self.path.join(MARK));
                remove_empty(made);
            }
            _ if has_content && (keep || others_keep()) => {
                // `lazyguard_core::old_runs` keeps it for a day.
                let _ = File::create(self.path.join(KEPT));
                return true;
            }
            Kind::Nested if self.leaves_findings() => return false,
            Kind::Nested | Kind::Private => remove_own(&self.path),
        }
        self.path.exists() && has_content
    }

    /// Leaves the findings to the outer run, without recordings: hundreds would be too big. Returns whether there are any.
    fn leaves_findings(&self) -> bool {
        let has_findings = |folder: &PathBuf| folder.join(HAZARDS).exists() || is_run(folder);
        let (found, others): (Vec<_>, Vec<_>) = folders(&self.path).into_iter().partition(has_findings);
        others.iter().for_each(|folder| old_runs::remove(folder));
        found.iter().for_each(|folder| drop(fs::remove_file(folder.join(RECORDING))));
        !found.is_empty()
    }
}

/// Makes a private folder of a run. Fails if the name exists: a folder or link of another process is never used.
pub(super) fn private_folder(base: &Path, process: u32) -> io::Result<PathBuf> {
    let private = Private { is_run: true, user: getuid().as_raw(), process, namespace: namespace() };
    let path = base.join(private.name(random() as u16));
    make_private(&path)?;
    Ok(path)
}

pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Removes a folder that this process has made, for its owner only. A folder with nothing but the mark needs no descriptor for that.
pub(super) fn remove_own(folder: &Path) {
    let _ = fs::remove_file(folder.join(MARK)).and_then(|()| fs::remove_dir(folder));
    old_runs::remove(folder);
}

fn remove_empty(made: &[PathBuf]) {
    let is_gone = |path: &PathBuf| fs::remove_dir(path).map_or_else(|e| e.kind() == io::ErrorKind::NotFound, |()| true);
    // The folders above one that stays are not empty.
    let _ = made.iter().rev().all(is_gone);
}

pub(super) fn folders(root: &Path) -> Vec<PathBuf> {
    runs::folders(root).unwrap_or_default()
}

pub(super) fn process_with(folder: &Path) -> Option<u32> {
    process_of(folder.file_name()?.to_str()?)
}

/// Whether a process of the run is alive, and so still writes into the folder.
fn has_living(root: &Path) -> bool {
    // Opening the mark never waits, whatever kind of file has its name.
    let is_supervised = |folder: &Path| files::open_in(folder, MARK).is_ok_and(|mark| Locked::new(mark).is_err());
    folders(root).iter().any(|folder| {
        // Processes of a nested run may outlive it.
        process_with(folder).is_some_and(exists) || is_run(folder) && (is_supervised(folder) || has_living(folder))
    })
}

/// The file, locked for as long as this process holds it; `None` where the file system has no locks.
fn lock(mut file: File) -> Option<Locked> {
    // A process that tests the lock holds it for a moment.
    for _ in 0..50 {
        file = match Locked::new(file) {
            Ok(locked) => return Some(locked),
            Err((file, Errno::WOULDBLOCK)) => file,
            Err(_) => return None,
        };
        std::thread::sleep(Duration::from_millis(1));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    const FACTS: FolderFacts<'_> = FolderFacts { host: "node7", process: 42, rank: None, start_seconds: 9 };

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("lazyguard-root-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn path(&self, name: &str) -> String {
            self.0.join(name).to_str().unwrap().to_owned()
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn asked(template: &str, rank: Option<&str>) -> Root {
        let given = Given { option: Some(template), job: Some("slurm-5"), ..Given::default() };
        Root::make(given, &FolderFacts { rank, ..FACTS }, "{}").unwrap()
    }

    fn process_in(root: &Root) {
        let folder = root.path().join("rank0-4194305");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("run.json"), "{}").unwrap();
    }

    /// The recording of a process that began at this tick, in the folder of this very process.
    fn recording_of_own(root: &Root, ticks: u64) {
        let folder = root.path().join(format!("rank0-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let mut header = [0; 64];
        header[48..56].copy_from_slice(&ticks.to_le_bytes());
        fs::write(folder.join(RECORDING), header).unwrap();
    }

    #[test]
    fn a_process_of_another_namespace_is_not_taken_for_the_one_that_has_its_number_here() {
        let scratch = Scratch::new("namespace");
        let root = asked(&scratch.path("out"), None);
        process_in(&root);
        assert!(root.living().is_empty(), "no process has such a number");
        let own = Status::of(std::process::id()).started().unwrap();
        recording_of_own(&root, own);
        assert_eq!(root.living(), [std::process::id()]);
        recording_of_own(&root, own + 1);
        assert!(root.living().is_empty());
    }

    #[test]
    fn a_folder_that_stays_empty_is_gone_with_all_that_was_made_for_it() {
        let scratch = Scratch::new("empty");
        assert!(!asked(&scratch.path("a/b/c"), None).finish(true));
        assert!(!scratch.0.join("a").exists());
        fs::create_dir(scratch.0.join("there")).unwrap();
        assert!(!asked(&scratch.path("there"), None).finish(true));
        assert_eq!(fs::read_dir(scratch.0.join("there")).unwrap().count(), 0);
        // A file of the user stays.
        fs::write(scratch.0.join("there/notes"), "").unwrap();
        asked(&scratch.path("there"), None).finish(false);
        assert!(scratch.0.join("there/notes").exists());
    }

    #[test]
    fn the_folder_of_an_earlier_run_is_not_taken_over() {
        let scratch = Scratch::new("earlier");
        let first = asked(&scratch.path("out"), None);
        process_in(&first);
        let second = asked(&scratch.path("out"), None);
        let third = asked(&scratch.path("out"), None);
        assert_eq!(first.path(), scratch.0.join("out/19700101-000009-42"));
        assert_eq!(second.path(), scratch.0.join("out/19700101-000009-42.2"));
        assert_eq!(third.path(), scratch.0.join("out/19700101-000009-42.3"));
        let (first_path, second_path) = (first.path().to_owned(), second.path().to_owned());
        assert!(first.finish(false) && !second.finish(false) && !third.finish(false));
        assert!(first_path.join("rank0-4194305").exists() && !second_path.exists());
    }

    #[test]
    fn ranks_share_a_folder_unless_the_template_tells_them_apart() {
        let scratch = Scratch::new("ranks");
        let (job, own) = ("job-slurm-5/rank3", "19700101-000009-42");
        for (template, expect) in [
            ("out", format!("out/{job}")),
            ("out-%r", format!("out-3/{own}")),
            ("out-%h", format!("out-node7/{job}")),
            ("%%p", format!("%p/{job}")),
        ] {
            let root = asked(&scratch.path(template), Some("3"));
            assert_eq!(root.path(), scratch.0.join(&expect), "{template}");
            assert_eq!(expand_folder(&root.template(), &FACTS), scratch.path(&format!("{expect}/rank0-42")));
            root.finish(false);
        }
        // An earlier job of the same name has this rank already.
        let (first, second) = (asked(&scratch.path("out"), Some("3")), asked(&scratch.path("out"), Some("3")));
        assert_eq!(second.path(), scratch.0.join("out/job-slurm-5.2/rank3"));
        assert!(!second.finish(false) && !first.finish(false) && !scratch.0.join("out").exists());
    }

    #[test]
    fn of_many_processes_that_ended_well_only_the_newest_keep_their_recordings() {
        let scratch = Scratch::new("many");
        let mut root = asked(&scratch.path("out"), None);
        let summary = |hangs: u32, ended: &str| format!(r#"{{"ended": "{ended}", "hangs": {hangs}}}"#);
        let runs = [summary(1, "exit"), summary(0, "running")];
        for n in 0..MOST_KEPT + 5 {
            let folder = root.path().join(format!("rank0-{n}"));
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("run.json"), runs.get(n).unwrap_or(&summary(0, "exit"))).unwrap();
            let recording = fs::File::create(folder.join("trace.lgt")).unwrap();
            recording.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(n as u64)).unwrap();
        }
        let kept = |root: &Root| -> Vec<bool> {
            (0..MOST_KEPT + 5).map(|n| root.path().join(format!("rank0-{n}/trace.lgt")).exists()).collect()
        };
        root.thin_out();
        assert!(kept(&root).iter().all(|&is_there| is_there), "the user has asked for them");
        root.kind = Kind::Private;
        root.thin_out();
        assert_eq!(kept(&root)[..6], [true, true, false, false, false, true]);
        assert!(kept(&root)[5..].iter().all(|&is_there| is_there));
    }

    #[test]
    fn a_mark_that_the_program_has_replaced_is_left_as_it_is() {
        let scratch = Scratch::new("replaced");
        let root = asked(&scratch.path("out"), None);
        fs::create_dir(root.path().join("rank0-7")).unwrap();
        let end = ProcessEnd {
            process: 7,
            start_ticks: None,
            exit_code: Some(0),
            signal: None,
            ended_by_run: false,
            stopped: false,
            at_unix_ns: 0,
            told_unix_ns: None,
        };
        for content in ["[]", "3", "\"text\"", "null"] {
            fs::write(root.path().join(MARK), content).unwrap();
            root.note(std::slice::from_ref(&end));
            assert_eq!(fs::read_to_string(root.path().join(MARK)).unwrap(), content);
        }
        fs::write(root.path().join(MARK), "{}").unwrap();
        root.note(&[end]);
        assert!(fs::read_to_string(root.path().join(MARK)).unwrap().contains(ends::KEY));
    }

    #[test]
    fn a_run_in_a_run_has_a_folder_in_the_other_ones() {
        let scratch = Scratch::new("nested");
        let outer = asked(&scratch.path("out"), None);
        let template = outer.template();
        let around = Given { variable: Some(&template), around: Some(outer.text()), ..Given::default() };
        let inner = Root::make(around, &FACTS, "{}").unwrap();
        assert_eq!(inner.path(), outer.path().join("run-42"));
        process_in(&inner);
        assert!(inner.finish(true) && outer.holds_anything());
        let inner = Root::make(around, &FolderFacts { process: 43, ..FACTS }, "{}").unwrap();
        assert!(!inner.finish(true));
        // A process in between uses another folder.
        let elsewhere = scratch.path("elsewhere");
        let own = Root::make(Given { variable: Some(&elsewhere), ..around }, &FACTS, "{}").unwrap();
        assert_eq!(own.path().parent().unwrap(), scratch.0.join("elsewhere"));
        assert!(outer.finish(false));
    }
}
