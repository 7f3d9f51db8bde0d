//! The file that `lazyguard run --metrics` and `lazyguard metrics --output` replace every few seconds.
//!
//! A reader finds a whole file: it is written under another name in the same folder, and renamed.
//!
//! Must not: disturb the run. A file that cannot be written is one line on standard error, and the thread goes on.

use super::families;
use crate::files;
use crate::live::{Depth, Job};
use crate::output::say;
use crate::Failure;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

/// How often the file of a run is written. Prometheus scrapes every 15 seconds or less often.
const EVERY: Duration = Duration::from_secs(2);
/// How long the end of a run waits for the last file: the file system may not answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Writes the metrics of a run while it lasts.
pub(crate) struct Writer {
    stop: Sender<()>,
    ended: Receiver<()>,
}

impl Writer {
    /// Begins to write. The thread inherits the signal mask of this one.
    pub fn start(root: &Path, file: PathBuf) -> Self {
        let (stop, stopped) = channel();
        let (end, ended) = channel();
        let root = root.to_owned();
        let started = thread::Builder::new().name("metrics".to_owned()).spawn(move || {
            let wait = || !matches!(stopped.recv_timeout(EVERY), Err(RecvTimeoutError::Timeout));
            let problems =
                |_: &Job, failed: Option<Failure>| failed.map(|why| format!("--metrics: {why}")).unwrap_or_default();
            write_again(&mut Job::new(vec![root]), &file, wait, problems);
            // The receiver may have stopped waiting.
            let _ = end.send(());
        });
        if let Err(error) = started {
            say(format_args!("--metrics: there is no thread for it: {error}"));
        }
        Self { stop, ended }
    }

    /// Writes the file for the last time.
    pub fn stop(self) {
        let _ = self.stop.send(());
        let _ = self.ended.recv_timeout(PATIENCE);
    }
}

/// Writes the file after each wait, up to the one that says that it was the last. A new problem is a line.
pub(super) fn write_again(
    job: &mut Job,
    file: &Path,
    mut wait: impl FnMut() -> bool,
    problems: impl Fn(&Job, Option<Failure>) -> String,
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
pub(super) fn replace(file: &Path, text: &str) -> Result<(), Failure> {
    put(file, text).map_err(|error| Failure::Input(format!("{}: cannot be written: {error}", file.display())))
}

fn put(file: &Path, text: &str) -> io::Result<()> {
    let Some(name) = file.file_name() else { return Err(io::ErrorKind::InvalidInput.into()) };
    // The collector reads what ends with `.prom`. The number keeps two writers apart.
    let mut new = OsString::from(".");
    new.push(name);
    new.push(format!(".{}.new", std::process::id()));
    let new = file.with_file_name(new);
    let _ = fs::remove_file(&new);
    let mut made = files::create_new(&new)?;
    let written = made.write_all(text.as_bytes()).and_then(|()| {
        made.set_permissions(fs::Permissions::from_mode(0o644))?;
        fs::rename(&new, file)
    });
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

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
