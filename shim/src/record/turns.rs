//! Which rank of a job writes a report on standard error: the ranks hang together, and their lines end in one log. Under `lazyguard run`, the first rank
//! that reports a cause writes a few lines; the run compares all reports at its end.
//!
//! Protocol: a rank makes an empty file for the cause before it writes, and removes it when its wait is over. A rank that finds the file writes nothing.
//!
//! Must not: withhold a report where no file can be made, or lock during a file operation: an exiting thread takes the lock.

use super::run_folder::{self, RunFolder};
use lazyguard_core::diagnose::Status;
use lazyguard_core::report::HangReport;
use lazyguard_core::run_folder::file::REPORTED;
use lazyguard_core::sync::lock;
use std::fs::{self, OpenOptions};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::Mutex;

/// Most causes of a job's hangs, and as many of its slow waits, that are written.
const MOST_CAUSES: usize = 2;

pub struct Turns {
    place: PathBuf,
    run: PathBuf,
    own: Mutex<Own>,
}

#[derive(Default)]
struct Own {
    files: Vec<PathBuf>,
    writes: bool,
}

impl Turns {
    /// `None` where the process is no rank of a run: it writes its own reports.
    pub fn of(folder: Option<&RunFolder>) -> Option<Self> {
        run_folder::rank()?;
        let (folder, run) = folder.and_then(|folder| Some((folder, folder.of_run()?)))?;
        Some(Self::at(folder.shared.clone().unwrap_or_else(|| run.clone()), run))
    }

    fn at(place: PathBuf, run: PathBuf) -> Self {
        Self { place, run, own: Mutex::default() }
    }

    /// The folder of the run, which has the reports of all ranks.
    pub fn run(&self) -> String {
        self.run.display().to_string()
    }

    /// Whether this process writes the report.
    pub fn take(&self, report: &HangReport) -> bool {
        let status = match report.status {
            Status::Hang => "hang",
            Status::Stalled => "stalled",
            Status::Slow | Status::Well => "slow",
        };
        let kind = format!("{REPORTED}-{status}-");
        let mut cause = DefaultHasher::new();
        report.cause().hash(&mut cause);
        let path = self.place.join(format!("{kind}{:016x}", cause.finish()));
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let names = fs::read_dir(&self.place).into_iter().flatten().flatten().map(|entry| entry.file_name());
        let causes = names.filter(|name| name.to_string_lossy().starts_with(&kind)).count();
        let mut own = lock(&self.own);
        own.files.extend(made.is_ok().then_some(path));
        own.writes = made.map_or_else(|error| error.kind() != ErrorKind::AlreadyExists, |_| causes <= MOST_CAUSES);
        own.writes
    }

    pub fn writes(&self) -> bool {
        lock(&self.own).writes
    }

    /// A file that cannot be removed keeps later reports of its cause in their folders.
    pub fn give_back(&self) {
        let files = std::mem::take(&mut lock(&self.own).files);
        files.iter().for_each(|file| drop(fs::remove_file(file)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazyguard_core::diagnose::Snapshot;
    use lazyguard_core::report::PreloadSummary;

    fn report(status: Status) -> HangReport {
        HangReport { status, ..HangReport::new(1, "p", None, Snapshot::default(), PreloadSummary::default()) }
    }

    #[test]
    fn of_the_ranks_with_one_cause_the_first_writes_until_its_wait_is_over() {
        let place = std::env::temp_dir().join(format!("lazyguard-turns-{}", std::process::id()));
        fs::create_dir_all(&place).unwrap();
        let [first, second] = [(); 2].map(|()| Turns::at(place.clone(), place.clone()));
        assert!(first.take(&report(Status::Slow)) && !second.take(&report(Status::Slow)));
        assert!(second.take(&report(Status::Hang)) && !first.take(&report(Status::Hang)));
        assert!(second.writes() && !first.writes());
        second.give_back();
        assert!(first.take(&report(Status::Hang)), "a later hang is reported again");
        for other in 0..MOST_CAUSES {
            fs::write(place.join(format!("{REPORTED}-hang-{other}")), "").unwrap();
        }
        first.give_back();
        assert!(!first.take(&report(Status::Hang)), "a job has as many causes as it has ranks");
        fs::remove_dir_all(&place).unwrap();
        assert!(first.take(&report(Status::Hang)), "where no file can be made, each rank writes its own");
    }
}
