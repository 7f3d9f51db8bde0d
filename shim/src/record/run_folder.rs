//! The run folder. With `LAZYGUARD_OUT` it stays. Else it is a new folder under `/dev/shm` or `TMPDIR`, for its owner only, which a clean exit without a
//! hang removes; that of a killed process stays as evidence ([`lazyguard_core::old_runs`]).
//!
//! Under `lazyguard run` it lies in the folder of the run. That of a process that has changed its user lies in [`RUN_OTHER_USERS`], or is a private one,
//! which `lazyguard run` does not read.
//!
//! Must not: hold a file open, since a program may close foreign descriptors; or use a folder or link of another process.

use crate::runtime::{environment, files, standard_error};
use lazyguard_core::old_runs::{namespace, tidy, Sight};
pub use lazyguard_core::run_folder::file::{
    DUMP, DUMP_TEXT, GPU_CORE, GPU_PIPE, HANG, HAZARDS, LOG, OLDER_LOG, PYTHON, REQUEST, RUN, TRACE,
};
use lazyguard_core::run_folder::{file, make_private, open_to_owner, private_bases, Private};
use lazyguard_core::settings::{self, expand_folder, FolderFacts, PRIVATE_RUN, RUN_OTHER_USERS, RUN_ROOT};
use std::ffi::CStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

pub fn rank() -> Option<String> {
    settings::rank(environment::present_text)
}

pub struct RunFolder {
    path: PathBuf,
    /// The process does not remove it.
    stays: bool,
    pub asked_for: bool,
    /// The folder of all processes of the job.
    pub shared: Option<PathBuf>,
}

impl RunFolder {
    /// Says in a line why the folder that was asked for could not be made.
    pub fn make(template: Option<&str>) -> Option<Self> {
        let process = std::process::id();
        // A process may outlive its run. A folder that this user may not read exists.
        let is_gone = |root: &str| fs::metadata(root).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        let is_over = || environment::get(RUN_ROOT).is_some_and(|root| is_gone(&root));
        match template.filter(|_| !(is_for_a_run_alone() && is_over())) {
            None => Self::private(process),
            Some(template) => match Self::wanted(template, process) {
                Ok(path) => {
                    let asked_for = !is_for_a_run_alone();
                    let shared = if asked_for { shared_folder(template) } else { None };
                    Some(Self { path, stays: true, asked_for, shared })
                }
                Err(error) => Self::instead_of(template, process, &error),
            },
        }
    }

    fn instead_of(template: &str, process: u32, error: &io::Error) -> Option<Self> {
        let complain =
            |then: &str| standard_error::line(&format!("LAZYGUARD_OUT={template:?} cannot be used: {error}; {then}"));
        let run = environment::get(RUN_ROOT).map(|root| settings::literal_folder(&root));
        let Some(own) = run.as_deref().and_then(|run| template.strip_prefix(run)) else {
            complain("keeping no files");
            return None;
        };
        let for_others = environment::get(RUN_OTHER_USERS).filter(|place| !place.is_empty());
        let there = for_others.map(|place| Self::wanted(&(settings::literal_folder(&place) + own), process));
        if let Some(Ok(path)) = there {
            return Some(Self { path, stays: true, asked_for: !is_for_a_run_alone(), shared: None });
        }
        complain("`lazyguard run` sees nothing of this process");
        Self::private(process)
    }

    fn wanted(template: &str, process: u32) -> io::Result<PathBuf> {
        let host = host_name();
        let rank = rank();
        let start_seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        let facts = FolderFacts { host: &host, process, rank: rank.as_deref(), start_seconds };
        let folder = std::path::absolute(expand_folder(template, &facts))?;
        if Self::take(&folder)? {
            return Ok(folder);
        }
        // Another process of the job has the same folder, or this one before an exec.
        let places = [RUN_ROOT, RUN_OTHER_USERS].into_iter().filter_map(environment::get);
        let in_a_run = places.into_iter().any(|place| folder.parent() == Some(Path::new(&place)));
        let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos());
        for again in 1..200 {
            // A hundred execs, or containers whose first process is 1: the time tells the others.
            let again = if again < 100 { again } else { nanos + again };
            let own = match again {
                // All processes of a run have folders beside each other.
                _ if in_a_run => PathBuf::from(format!("{}.{}", folder.display(), again + 1)),
                1 => folder.join(process.to_string()),
                _ => folder.join(format!("{process}-{again}")),
            };
            if Self::take(&own)? {
                return Ok(own);
            }
        }
        Err(io::Error::new(io::ErrorKind::AlreadyExists, "it is full of other runs"))
    }

    /// Takes a folder by making its log; `false` if another process has, or has had it.
    fn take(folder: &Path) -> io::Result<bool> {
        if !folder.is_dir() {
            fs::create_dir_all(folder)?;
            open_to_owner(folder)?;
        }
        if [RUN, TRACE].iter().any(|name| folder.join(name).exists()) {
            return Ok(false);
        }
        match OpenOptions::new().append(true).create_new(true).open(folder.join(LOG)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            made => made.map(|_| true),
        }
    }

    fn private(process: u32) -> Option<Self> {
        // Job systems name folders that are not there.
        let path =
            private_bases(environment::present("TMPDIR")).iter().find_map(|base| Self::private_in(base, process))?;
        Some(Self { path, stays: false, asked_for: false, shared: None })
    }

    fn private_in(base: &Path, process: u32) -> Option<PathBuf> {
        // SAFETY: takes no arguments and cannot fail.
        let user = unsafe { libc::getuid() };
        clean_up(base, user);
        let namespace = namespace();
        let mut seed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.subsec_nanos());
        (0..8).find_map(|_| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let path = base.join(Private { is_run: false, user, process, namespace }.name((seed >> 16) as u16));
            // A folder or link of another process is never used.
            make_private(&path).ok().map(|()| path)
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn replace(&self, name: &str, content: &str) -> io::Result<()> {
        self.replace_by(name, &mut |file| file.write_all(content.as_bytes()))
    }

    pub fn replace_by(&self, name: &str, write: &mut dyn FnMut(&mut File) -> io::Result<()>) -> io::Result<()> {
        files::replace(&self.path.join(name), &self.path.join(format!(".{name}.new")), 0o666, write)
    }

    /// Leaves an empty file, which needs no room.
    pub fn leave_empty(&self, name: &str) {
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(true);
        let _ = files::open_with(&self.path.join(name), options, libc::O_NOFOLLOW);
    }

    /// Says in a line what could not be kept here.
    pub fn say_unless(&self, what: &str, kept: io::Result<()>) {
        if let Err(error) = kept {
            standard_error::line(&format!("the {what} could not be kept in {}: {error}", self.path.display()));
        }
    }

    /// The folder of the `lazyguard run` around this process.
    pub fn of_run(&self) -> Option<PathBuf> {
        let run = environment::get(RUN_ROOT).filter(|run| !run.is_empty())?;
        let folder = PathBuf::from(settings::literal_folder(&run));
        self.path.starts_with(&folder).then_some(folder)
    }

    pub fn remove_unless_asked_for(&self) {
        if !self.stays {
            Self::remove(&self.path);
        }
    }

    pub fn remove(path: &Path) {
        for name in file::OF_A_PROCESS {
            let _ = fs::remove_file(path.join(name));
        }
        // Fails, and rightly, if anything else is in it.
        let _ = fs::remove_dir(path);
    }
}

/// A private folder of `lazyguard run`: the user has not asked for files.
pub fn is_for_a_run_alone() -> bool {
    let root = environment::get(RUN_ROOT).unwrap_or_default();
    let out = environment::get(OUT).unwrap_or_default();
    let private = Path::new(&root).iter().any(|part| part.to_string_lossy().starts_with(PRIVATE_RUN));
    private && out.starts_with(&settings::literal_folder(&root))
}

/// A job's, by the template. A `lazyguard run` of each rank has one named by the rank.
fn shared_folder(template: &str) -> Option<PathBuf> {
    let folder = std::path::absolute(Path::new(".").join(settings::common_folder(template))).ok()?;
    let is_named =
        |path: &Path, prefix| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix));
    let is_of_a_run = environment::get(RUN_ROOT).is_some_and(|root| folder == Path::new(&root));
    match folder.parent() {
        Some(job) if is_of_a_run && is_named(&folder, "rank") && is_named(job, "job-") => Some(job.to_owned()),
        _ => Some(folder),
    }
}

const OUT: &str = "LAZYGUARD_OUT";

pub fn host_name() -> String {
    let mut name = [0u8; 256];
    // SAFETY: the buffer is valid for writing; its last byte stays zero.
    let failed = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) } != 0;
    let name = CStr::from_bytes_until_nul(&name).ok().filter(|name| !failed && !name.is_empty());
    // A slash would lead elsewhere.
    name.unwrap_or(c"host").to_string_lossy().replace('/', "_")
}

/// Removes earlier processes' private folders. A program is starting: it looks at few, and does not wait.
fn clean_up(base: &Path, user: u32) {
    let sight = Sight {
        user,
        namespace: namespace(),
        // Later processes and `lazyguard clean` remove the rest.
        entries: 4096,
        now: SystemTime::now(),
        exists: &exists,
        open: &files::open_unlinked,
        // It leaves runs to `lazyguard run` and `clean`.
        is_locked: &|_| Some(true),
    };
    tidy(base, &sight);
}

/// Whether a process exists, also one that this user may not signal.
fn exists(process: u32) -> bool {
    let Some(process) = libc::pid_t::try_from(process).ok().filter(|&process| process > 0) else { return false };
    // SAFETY: signal 0 only asks.
    unsafe { libc::kill(process, 0) == 0 || *libc::__errno_location() == libc::EPERM }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_number_may_come_again_however_often() {
        let base = std::env::temp_dir().join(format!("lazyguard-again-{}", std::process::id()));
        let template = base.join("run").to_string_lossy().into_owned();
        let made: std::collections::BTreeSet<_> = (0..250).map(|_| RunFolder::wanted(&template, 1).unwrap()).collect();
        assert_eq!(made.len(), 250, "each has one of its own");
        fs::remove_dir_all(base).unwrap();
    }

    #[test]
    fn a_process_is_there_whoever_may_signal_it() {
        assert!(exists(std::process::id()) && exists(1));
        assert!(!exists(0) && !exists(4_194_999) && !exists(u32::MAX));
    }
}
