//! Guarded processes that have no folder in this run's: under another root (`chroot`), or as a user without a place. `--fail-on` needs them.
//!
//! Must not: count a process that was given another folder or none, or in which the guard is not armed.

use super::remembered::Identity;
use super::root::{folders, process_with};
use crate::machine::files;
use lazyguard_core::settings::RUN_ROOT;
use rustix::process::Pid;
use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;

/// The thread that the guard has in every armed process.
const THREAD: &str = "lazyguard-log";

#[derive(Debug, Default)]
pub(super) struct Unseen {
    known: HashSet<Identity>,
    pub found: Vec<String>,
}

impl Unseen {
    /// Checks the processes; returns a line for each new one without a folder.
    pub fn look(&mut self, processes: &[Pid], root: &str, places: &[PathBuf]) -> Vec<String> {
        let mut with_folder = None;
        let mut lines = Vec::new();
        for process in processes {
            let who = Identity::of(*process);
            // To read an environment takes a lock of the process; few are armed.
            if self.known.contains(&who) || !is_armed(*process) || !is_given(*process, root) {
                continue;
            }
            self.known.insert(who);
            // Read once, after the process was seen to be armed: it made its folder before it was armed.
            if !with_folder.get_or_insert_with(|| processes_in(places)).contains(&who.process()) {
                lines.push(in_words(*process));
            }
        }
        self.found.extend_from_slice(&lines);
        lines
    }
}

pub(super) fn in_words(process: Pid) -> String {
    let name = files::read_text(format!("/proc/{process}/comm")).unwrap_or_default();
    format!("process {process} ({})", name.trim_end())
}

pub(super) fn is_given(process: Pid, root: &str) -> bool {
    let given = format!("{RUN_ROOT}={root}");
    !root.is_empty() && environment_has(process, |entry| entry == given.as_bytes())
}

/// Whether the process began with a folder of its own for its recording, outside this run's.
pub(super) fn records_elsewhere(process: Pid, root: &str) -> bool {
    environment_has(process, |entry| {
        let own = entry.strip_prefix(b"LAZYGUARD_OUT=").unwrap_or_default();
        !own.is_empty() && !own.starts_with(root.as_bytes()) && !root.as_bytes().starts_with(own)
    })
}

fn environment_has(process: Pid, is_it: impl Fn(&[u8]) -> bool) -> bool {
    let environment = files::read(format!("/proc/{process}/environ")).unwrap_or_default();
    environment.split(|&b| b == 0).any(is_it)
}

fn is_armed(process: Pid) -> bool {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let names = threads.map(|thread| files::read_text(thread.path().join("comm")).unwrap_or_default());
    names.into_iter().any(|name| name.trim_end() == THREAD)
}

pub(super) fn processes_in(places: &[PathBuf]) -> HashSet<u32> {
    places.iter().flat_map(|place| folders(place)).filter_map(|folder| process_with(&folder)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn what_is_armed_for_this_run_and_has_no_folder_in_it_is_found_once() {
        let root = std::env::temp_dir().join(format!("lazyguard-unseen-{}", std::process::id()));
        fs::create_dir_all(&root).unwrap();
        let text = root.to_str().unwrap();
        // The one thread of a process bears the name that is written there.
        let start = |run: &str, name: &str| {
            let script = format!("echo {name} > /proc/$$/comm; echo; read line");
            let mut child = Command::new("bash")
                .args(["-c", &script])
                .env(RUN_ROOT, run)
                .stdin(std::process::Stdio::piped())
                .stdout(std::process::Stdio::piped())
                .spawn()
                .unwrap();
            let mut said = [0];
            std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut said).unwrap();
            child
        };
        let mut all = [start(text, THREAD), start(text, THREAD), start(text, "other"), start("/elsewhere", THREAD)];
        let numbers: Vec<_> = all.iter().map(Pid::from_child).collect();
        fs::create_dir(root.join(format!("rank0-{}.2", numbers[0]))).unwrap();
        let mut unseen = Unseen::default();
        let expect = vec![format!("process {} ({THREAD})", numbers[1])];
        assert_eq!(unseen.look(&numbers, text, std::slice::from_ref(&root)), expect);
        assert_eq!(unseen.look(&numbers, text, std::slice::from_ref(&root)), Vec::<String>::new());
        assert_eq!(unseen.found, expect);
        all.iter_mut().for_each(|child| {
            drop(child.stdin.take());
            child.wait().unwrap();
        });
        fs::remove_dir_all(&root).unwrap();
    }
}
