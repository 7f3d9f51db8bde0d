//! What processes have left: private folders of one that is gone, and runs beneath a folder that is another one's.
//!
//! Must not: print to standard output, which may be read by a program.

use crate::files;
use crate::output::say;
use crate::source::{started_by_header, Standing, RECORDING};
use lazyguard_core::place::{is_private_of, private_bases};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The files by which a run is known.
const OF_A_RUN: [&str; 4] = [RECORDING, "run.json", "hang.json", "log.jsonl"];

/// A folder that a process has left.
pub(crate) struct Left {
    pub path: PathBuf,
    /// When something in it was last made.
    since: SystemTime,
}

impl Left {
    fn at(path: PathBuf) -> Option<Self> {
        let since = |name| fs::symlink_metadata(path.join(name)).and_then(|about| about.modified()).ok();
        let since = OF_A_RUN.into_iter().filter_map(since).max()?;
        Some(Self { path, since })
    }
}

/// The private folders of processes with this number, the newest first.
pub(crate) fn folders_of(process: u32) -> Vec<Left> {
    among(private_bases(std::env::var_os("TMPDIR")), process)
}

fn among(bases: Vec<PathBuf>, process: u32) -> Vec<Left> {
    let entries = bases.iter().filter_map(|base| fs::read_dir(base).ok()).flatten().flatten();
    let mut found: Vec<_> = entries
        .filter(|entry| is_private_of(&entry.file_name(), process))
        .filter_map(|entry| Left::at(entry.path()))
        .collect();
    found.sort_by_key(|left| std::cmp::Reverse(left.since));
    found
}

/// The newest private folder of a process that is gone, said on standard error with the others.
pub(crate) fn by(process: u32) -> Option<PathBuf> {
    let mut found = folders_of(process).into_iter();
    let newest = found.next()?.path;
    say(format_args!("process {process} is gone; this is what it left in {}", newest.display()));
    for older in found {
        say(format_args!("an earlier process of this number left {}", older.path.display()));
    }
    Some(newest)
}

/// Says on standard error which runs there are in a folder beside its own, if it is one that several processes were given: the
/// second and later ones have a folder in it, named by the process.
pub(crate) fn say_what_else_is_in(folder: &Path) {
    let Some(own) = Left::at(folder.to_owned()) else { return };
    let others = runs_in(folder);
    let Some(newest) = others.first() else { return };
    let whose =
        process_of(folder).map(|process| format!("process {process}")).unwrap_or_else(|| "one process".to_owned());
    let count = match others.len() {
        1 => String::new(),
        more => format!("; {} other runs are in it", more),
    };
    let newer = if newest.since >= own.since { "newer" } else { "other" };
    say(format_args!(
        "several processes were given this folder; this is {whose}, the first{}. The {newer} run is {}{count}",
        standing(folder),
        newest.path.display()
    ));
}

/// Whether the process of a folder still runs, where its recording tells.
fn standing(folder: &Path) -> &'static str {
    let runs = process_of(folder).and_then(|process| Standing::of(process).started());
    match started_by_header(&folder.join(RECORDING)) {
        Ok(started) if runs == Some(started) => ", which still runs",
        _ => "",
    }
}

/// The runs in the folders that a folder has for later processes, the newest first.
fn runs_in(folder: &Path) -> Vec<Left> {
    let named_by_process = |name: &str| name.split('-').all(|part| part.parse::<u32>().is_ok());
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<_> = entries
        .filter(|entry| entry.file_name().to_str().is_some_and(named_by_process))
        .filter_map(|entry| Left::at(entry.path()))
        .collect();
    found.sort_by_key(|left| std::cmp::Reverse(left.since));
    found
}

/// Whose run a folder holds.
fn process_of(folder: &Path) -> Option<u32> {
    if let Ok(process) = crate::source::process_by_header(&folder.join(RECORDING)) {
        return Some(process);
    }
    let account = files::read_in(folder, "run.json").or_else(|_| files::read_in(folder, "hang.json")).ok()?;
    let account: Value = serde_json::from_slice(&account).ok()?;
    u32::try_from(account["process"].as_u64()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("lazyguard-left-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn run(&self, name: &str, age_seconds: u64) -> PathBuf {
            let path = self.0.join(name);
            fs::create_dir_all(&path).unwrap();
            let file = fs::File::create(path.join("log.jsonl")).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(age_seconds)).unwrap();
            path
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[test]
    fn the_newest_private_folder_of_a_process_comes_first_wherever_it_lies() {
        let (one, two) = (Scratch::new("one"), Scratch::new("two"));
        let old = one.run("lazyguard-1000-4242-00000001", 100);
        let new = two.run("lazyguard-0-4242-00000002", 10);
        one.run("lazyguard-1000-4243-00000003", 1);
        fs::create_dir(one.0.join("lazyguard-1000-4242-00000004")).unwrap();
        let found = among(vec![one.0.clone(), two.0.clone(), PathBuf::from("/nowhere")], 4242);
        assert_eq!(found.into_iter().map(|left| left.path).collect::<Vec<_>>(), [new, old]);
    }

    #[test]
    fn runs_beneath_a_run_are_those_in_folders_named_by_a_process() {
        let scratch = Scratch::new("beneath");
        let (older, newer) = (scratch.run("17", 100), scratch.run("17-2", 10));
        scratch.run("logs", 1);
        fs::create_dir(scratch.0.join("18")).unwrap();
        assert_eq!(runs_in(&scratch.0).into_iter().map(|left| left.path).collect::<Vec<_>>(), [newer, older]);
    }
}
