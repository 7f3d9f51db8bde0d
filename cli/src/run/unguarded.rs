//! Processes of the program that the run learns nothing of: what has mapped the CUDA driver and not the guard, and guarded processes without a
//! folder in this run's (under another root, as after `chroot`, or as a user without a place). A process that ended between two looks is missed.
//!
//! Must not: look often, since the kernel locks a process's memory map while it lists the mappings; or count a process that was given another
//! folder or none, or in which the guard is not armed.

use super::remembered::Identity;
use super::root::{folders, process_with};
use crate::judge::Unguarded;
use crate::machine::files;
use lazyguard_core::settings::RUN_ROOT;
use lazyguard_core::stack::mappings;
use rustix::process::Pid;
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The pause after the first look; each further one is twice as long. A process that uses CUDA takes a tenth of a second to start.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

const DRIVER: &str = "libcuda.so";

pub(super) struct Watch {
    next: Instant,
    pause: Duration,
    longest_pause: Duration,
    library: String,
    known: HashSet<Identity>,
    pub found: Unguarded,
}

impl Watch {
    pub fn new(longest_pause: Duration, library: &Path) -> Self {
        Self {
            next: Instant::now() + FIRST_PAUSE,
            pause: FIRST_PAUSE,
            longest_pause,
            library: library.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
            known: HashSet::new(),
            found: Unguarded::default(),
        }
    }

    pub fn pause(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }

    pub fn look(&mut self, processes: impl FnOnce() -> Vec<Pid>, root: &str, places: &[PathBuf]) {
        if Instant::now() < self.next {
            return;
        }
        let with_folder = processes_in(places);
        for process in processes() {
            let who = Identity::of(process);
            if self.known.contains(&who) || with_folder.contains(&who.process()) {
                continue;
            }
            let maps = files::read_lossy(files::about_memory(who.process(), "maps")).unwrap_or_default();
            let (has_driver, has_guard) = loaded(&maps, &self.library);
            if !has_driver {
                continue;
            }
            let line = in_words(process);
            if !has_guard {
                self.known.insert(who);
                self.found.without_guard.push(line);
            } else if (self.found.expected.is_none() || is_armed(process))
                && is_given(process, root)
                && !records_elsewhere(process, root)
            {
                // It may yet initialise CUDA, and have a folder from then on.
                self.found.expected = Some(match is_armed(process) {
                    true => {
                        format!("nothing is known of {line}: it is guarded, and has no folder that this run can read")
                    }
                    false => nothing_although(&format!("{line} loaded the CUDA driver")),
                });
            }
        }
        self.pause = (self.pause * 2).min(self.longest_pause);
        self.next = Instant::now() + self.pause;
    }
}

pub(super) fn nothing_although(why: &str) -> String {
    format!("nothing was recorded, although {why}: CUDA was not initialised, or not under the guard")
}

/// Whether the driver, and whether the guard's library, is among the mappings.
fn loaded(maps: &str, library: &str) -> (bool, bool) {
    mappings(maps).fold((false, false), |(driver, guard), mapping| {
        let name = mapping.file().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
        (driver || name.starts_with(DRIVER), guard || name == library)
    })
}

/// The thread that the guard has in every armed process.
const THREAD: &str = "lazyguard-log";

#[derive(Debug, Default)]
pub(super) struct Unseen {
    known: HashSet<Identity>,
    pub found: Vec<String>,
}

impl Unseen {
    /// Checks the processes; returns the number and the name of each new one without a folder.
    pub fn look(&mut self, processes: &[Pid], root: &str, places: &[PathBuf]) -> Vec<(u32, String)> {
        let mut with_folder = None;
        let mut new = Vec::new();
        for process in processes {
            let who = Identity::of(*process);
            // To read an environment takes a lock of the process; few are armed.
            if self.known.contains(&who) || !is_armed(*process) || !is_given(*process, root) {
                continue;
            }
            self.known.insert(who);
            // Read once, after the process was seen to be armed: it made its folder before it was armed.
            if !with_folder.get_or_insert_with(|| processes_in(places)).contains(&who.process()) {
                new.push((who.process(), in_words(*process)));
            }
        }
        self.found.extend(new.iter().map(|(_, name)| name.clone()));
        new
    }
}

fn in_words(process: Pid) -> String {
    format!("process {process} ({})", files::read_text(format!("/proc/{process}/comm")).unwrap_or_default().trim_end())
}

fn is_given(process: Pid, root: &str) -> bool {
    let given = format!("{RUN_ROOT}={root}");
    !root.is_empty() && environment_has(process, |entry| entry == given.as_bytes())
}

/// Whether the process began with a folder of its own for its recording, outside this run's.
fn records_elsewhere(process: Pid, root: &str) -> bool {
    environment_has(process, |entry| {
        let own = entry.strip_prefix(b"LAZYGUARD_OUT=").unwrap_or_default();
        !own.is_empty() && !own.starts_with(root.as_bytes()) && !root.as_bytes().starts_with(own)
    })
}

fn environment_has(process: Pid, is_it: impl Fn(&[u8]) -> bool) -> bool {
    files::read(format!("/proc/{process}/environ")).unwrap_or_default().split(|&b| b == 0).any(is_it)
}

fn is_armed(process: Pid) -> bool {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let names = threads.map(|thread| files::read_text(thread.path().join("comm")).unwrap_or_default());
    names.into_iter().any(|name| name.trim_end() == THREAD)
}

fn processes_in(places: &[PathBuf]) -> HashSet<u32> {
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
        let name = format!("process {} ({THREAD})", numbers[1]);
        let expect = vec![(all[1].id(), name.clone())];
        assert_eq!(unseen.look(&numbers, text, std::slice::from_ref(&root)), expect);
        assert_eq!(unseen.look(&numbers, text, std::slice::from_ref(&root)), []);
        assert_eq!(unseen.found, [name]);
        all.iter_mut().for_each(|child| {
            drop(child.stdin.take());
            child.wait().unwrap();
        });
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn what_a_process_has_loaded_is_in_its_mappings() {
        let line = |path: &str| format!("7f0000000000-7f0000001000 r--p 00000000 fe:01 131 {path}\n");
        let loaded =
            |paths: &[&str]| super::loaded(&paths.iter().map(|path| line(path)).collect::<String>(), "liblazyguard.so");
        assert_eq!(loaded(&["/usr/bin/app", "/usr/lib/libc.so.6", "/lib/libcudart.so.12"]), (false, false));
        let driver = "/usr/lib/x86_64-linux-gnu/libcuda.so.570.86";
        assert_eq!(loaded(&[driver]), (true, false));
        assert_eq!(loaded(&[driver, "/opt/lazyguard/liblazyguard.so"]), (true, true));
        assert_eq!(loaded(&["/lib/libcuda.so.1 (deleted)"]), (true, false));
    }

    #[test]
    fn pauses_double_up_to_the_longest() {
        let mut watch = Watch::new(FIRST_PAUSE * 3, Path::new("/opt/liblazyguard.so"));
        watch.look(|| panic!("it is not time yet"), "", &[]);
        for expect in [2, 3, 3] {
            watch.next = Instant::now();
            watch.look(Vec::new, "", &[]);
            assert_eq!(watch.pause, FIRST_PAUSE * expect);
        }
        assert_eq!(watch.found, Unguarded::default());
    }
}
