//! The remains of ended processes: their private folders, and runs beneath a folder that belongs to another run.
//!
//! Must not: print to standard output, which a program may read.

use crate::folder::process::{ask_as, exists, process_by_header, started_by_header, Status, RECORDING};
use crate::machine::files;
use crate::words::say;
use lazyguard_core::old_runs::{namespace, remove_folder, Sight};
use lazyguard_core::run_folder::file::{HANG, LOG, RUN};
use lazyguard_core::run_folder::{private_bases, Private};
use rustix::fs::{flock, FlockOperation};
use rustix::io::Errno;
use rustix::process::getuid;
use serde_json::Value;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

const OF_A_RUN: [&str; 4] = [RECORDING, RUN, HANG, LOG];

const MOST_ENTRIES: usize = 1 << 20;

/// Removes a private folder as [`lazyguard_core::old_runs::remove_folder`] does. A later sweep removes what remains.
pub(crate) fn remove(folder: &Path) {
    let _ = remove_folder(folder, &mut MOST_ENTRIES.clone());
}

pub(crate) struct Left {
    pub path: PathBuf,
    since: SystemTime,
    owner: u32,
}

impl Left {
    fn at(path: PathBuf, owner: u32) -> Option<Self> {
        let since = |name| fs::symlink_metadata(path.join(name)).and_then(|about| about.modified()).ok();
        let since = OF_A_RUN.into_iter().filter_map(since).max()?;
        Some(Self { path, since, owner })
    }
}

pub(crate) fn sight() -> Sight<'static> {
    Sight {
        user: getuid().as_raw(),
        namespace: namespace(),
        entries: MOST_ENTRIES,
        now: SystemTime::now(),
        exists: &exists,
        open: &|path| files::open_unlinked(path),
        is_locked: &|file| match flock(file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => flock(file, FlockOperation::Unlock).ok().map(|()| false),
            Err(Errno::WOULDBLOCK) => Some(true),
            Err(_) => None,
        },
    }
}

#[derive(Default)]
pub(crate) struct Found {
    /// The folders that are this user's to read and to trust, the newest first.
    pub own: Vec<Left>,
    others: Vec<(PathBuf, u32)>,
}

pub(crate) fn folders_of(process: u32) -> Found {
    among(private_bases(std::env::var_os("TMPDIR")), process, getuid().as_raw())
}

/// Any user can make such a folder: it counts if its owner is the user in its name, and is trusted if that is this user or root.
fn among(bases: Vec<PathBuf>, process: u32, user: u32) -> Found {
    let mut found = Found::default();
    for entry in bases.iter().filter_map(|base| fs::read_dir(base).ok()).flatten().flatten() {
        let private = Private::by_name(&entry.file_name());
        let Some(private) = private.filter(|private| !private.is_run && private.process == process) else { continue };
        let Ok(about) = entry.metadata() else { continue };
        let owner = about.uid();
        if !about.is_dir() || private.user != owner {
            continue;
        }
        let path = entry.path();
        let is_denied = fs::read_dir(&path).is_err_and(|error| error.kind() == ErrorKind::PermissionDenied);
        if is_denied || ![user, 0].contains(&owner) && user != 0 {
            found.others.push((path, owner));
        } else {
            found.own.extend(Left::at(path, owner));
        }
    }
    found.own.sort_by_key(|left| std::cmp::Reverse(left.since));
    found
}

/// The newest private folder of an ended process; standard error lists it and the others. An error says why a folder is not read.
pub(crate) fn by(process: u32) -> Result<Option<PathBuf>, String> {
    let found = folders_of(process);
    let whose = |owner: u32| if owner == getuid().as_raw() { String::new() } else { format!(" of user {owner}") };
    let mut own = found.own.into_iter();
    let Some(newest) = own.next() else {
        return match found.others.first() {
            None => Ok(None),
            Some((path, owner)) => Err(format!(
                "there is no process with this id; one of user {owner} has left {}, which is not read: {}",
                path.display(),
                ask_as(Some(*owner))
            )),
        };
    };
    let (of, path) = (whose(newest.owner), newest.path.display());
    say(format_args!("process {process}{of} is gone; this is what it left in {path}"));
    for older in own {
        say(format_args!("an earlier process of this number{} left {}", whose(older.owner), older.path.display()));
    }
    Ok(Some(newest.path))
}

/// Names on standard error the other runs in a folder that several processes were given.
pub(crate) fn say_what_else_is_in(folder: &Path) {
    let Some(own) = Left::at(folder.to_owned(), 0) else { return };
    let others = runs_in(folder);
    let Some(newest) = others.first() else { return };
    let whose = process_of(folder).map_or_else(|| "one process".to_owned(), |process| format!("process {process}"));
    let count = if others.len() == 1 { String::new() } else { format!("; {} other runs are in it", others.len()) };
    let newer = if newest.since >= own.since { "newer" } else { "other" };
    say(format_args!(
        "several processes were given this folder; this is {whose}, the first{}. The {newer} run is {}{count}",
        status(folder),
        newest.path.display()
    ));
}

fn status(folder: &Path) -> &'static str {
    let runs = process_of(folder).and_then(|process| Status::of(process).started());
    let recorded = started_by_header(&folder.join(RECORDING)).ok();
    [", which still runs", ""][usize::from(recorded.is_none() || runs != recorded)]
}

fn runs_in(folder: &Path) -> Vec<Left> {
    let named_by_process = |name: &str| name.split('-').all(|part| part.parse::<u32>().is_ok());
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().to_str().is_some_and(named_by_process));
    let mut found: Vec<_> = named.filter_map(|entry| Left::at(entry.path(), 0)).collect();
    found.sort_by_key(|left| std::cmp::Reverse(left.since));
    found
}

fn process_of(folder: &Path) -> Option<u32> {
    let by_form = || {
        let form: Value = [RUN, HANG].into_iter().find_map(|name| files::json_in(folder, name))?;
        u32::try_from(form["process"].as_u64()?).ok()
    };
    process_by_header(&folder.join(RECORDING)).ok().or_else(by_form)
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

    fn user() -> u32 {
        getuid().as_raw()
    }

    #[test]
    fn the_newest_private_folder_of_a_process_comes_first_wherever_it_lies() {
        let (one, two) = (Scratch::new("one"), Scratch::new("two"));
        let old = one.run(&format!("lazyguard-{}-4242-00000001", user()), 100);
        let new = two.run(&format!("lazyguard-{}-4242-00000002", user()), 10);
        one.run(&format!("lazyguard-{}-4243-00000003", user()), 1);
        fs::create_dir(one.0.join(format!("lazyguard-{}-4242-00000004", user()))).unwrap();
        let found = among(vec![one.0.clone(), two.0.clone(), PathBuf::from("/nowhere")], 4242, user());
        assert_eq!(found.own.into_iter().map(|left| left.path).collect::<Vec<_>>(), [new, old]);
        assert!(found.others.is_empty());
    }

    #[test]
    fn what_another_user_has_made_is_not_taken_for_what_a_process_has_left() {
        let scratch = Scratch::new("others");
        let own = scratch.run(&format!("lazyguard-{}-4242-00000001", user()), 100);
        // Its name has another user than its owner, or it is a link.
        scratch.run(&format!("lazyguard-{}-4242-00000002", user() + 1), 1);
        std::os::unix::fs::symlink(&own, scratch.0.join(format!("lazyguard-{}-4242-00000003", user()))).unwrap();
        let found = |user| among(vec![scratch.0.clone()], 4242, user);
        assert_eq!(found(user()).own.into_iter().map(|left| left.path).collect::<Vec<_>>(), std::slice::from_ref(&own));
        assert!(found(user()).others.is_empty());
        // For a different user, the folder is another user's, unless that user is root.
        let (own_seen, others_seen) = (found(user() + 7).own.len(), found(user() + 7).others);
        match user() {
            0 => assert_eq!((own_seen, others_seen.len()), (1, 0)),
            owner => assert_eq!((own_seen, others_seen), (0, vec![(own, owner)])),
        }
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
