//! The file that `lazyguard run --metrics` and `lazyguard metrics --output` replace every few seconds.
//!
//! Must not: disturb the run. A file that cannot be written is one line on standard error, and the thread goes on.

use super::families;
use crate::folder::live::Depth;
use crate::judge::Watched;
use crate::machine::{files, Beside};
use crate::words::{say, Failure};
use std::path::{Path, PathBuf};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

/// How often the file of a run is written. Prometheus scrapes every 15 seconds or less often.
const EVERY: Duration = Duration::from_secs(2);
/// How long the end of a run waits for the last file: the file system may not answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Writes the file of a run until the drop.
pub(crate) fn start(root: &Path, file: PathBuf) -> Option<Beside> {
    let root = root.to_owned();
    let started = Beside::start("metrics", PATIENCE, move |stopped| {
        let wait = || !matches!(stopped.recv_timeout(EVERY), Err(RecvTimeoutError::Timeout));
        let problems =
            |_: &Watched, failed: Option<Failure>| failed.map(|why| format!("--metrics: {why}")).unwrap_or_default();
        write_again(&mut Watched::new(vec![root]), &file, wait, problems);
    });
    started.inspect_err(|error| say(format_args!("--metrics: there is no thread for it: {error}"))).ok()
}

/// Writes the file after each wait, up to the one that says that it was the last. A new problem is a line.
pub(crate) fn write_again(
    job: &mut Watched,
    file: &Path,
    mut wait: impl FnMut() -> bool,
    problems: impl Fn(&Watched, Option<Failure>) -> String,
) {
    let mut complained = String::new();
    loop {
        let last = wait();
        let written = replace(file, &families::text(&job.look(Depth::Records)));
        let problems = problems(job, written.err());
        if !problems.is_empty() && problems != complained {
            say(&problems);
        }
        complained = problems;
        if last {
            return;
        }
    }
}

/// Replaces a file as a whole. Other users may read it, as node_exporter does, which is one.
pub(crate) fn replace(file: &Path, text: &str) -> Result<(), Failure> {
    // The collector reads what ends with `.prom`, as a file that is not complete yet does not.
    let written = files::replace(file, text.as_bytes(), Some(0o644));
    written.map_err(|error| Failure::at(file, format!("cannot be written: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_file_is_replaced_as_a_whole_and_nothing_is_left_beside_it() {
        let folder = std::env::temp_dir().join(format!("lazyguard-metrics-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("job.prom");
        for text in ["one\n", "two\n"] {
            replace(&file, text).unwrap();
            assert_eq!(fs::read_to_string(&file).unwrap(), text);
        }
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o644);
        // A folder is in the way.
        fs::create_dir(folder.join("taken")).unwrap();
        fs::write(folder.join("taken/file"), "").unwrap();
        let failure = replace(&folder.join("taken"), "x").unwrap_err().to_string();
        assert!(failure.contains("taken: cannot be written"), "{failure}");
        let mut left: Vec<_> = fs::read_dir(&folder).unwrap().map(|e| e.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["job.prom", "taken"]);
        fs::remove_dir_all(&folder).unwrap();
    }
}
