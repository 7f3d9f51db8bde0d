//! Processes of the program that have mapped the CUDA driver and not the guard. A process that ended between two looks is missed.
//!
//! Must not: look often. The kernel locks a process's memory map while it lists the mappings.

use super::remembered::Identity;
use super::unseen::{in_words, is_given, processes_in, records_elsewhere};
use crate::judge::Unguarded;
use crate::machine::files;
use lazyguard_core::stack::mappings;
use rustix::process::Pid;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The pause after the first look; each further one is twice as long. What uses CUDA takes a tenth of a second to start.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

const DRIVER: &str = "libcuda.so";

#[derive(Debug)]
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
            let maps = files::read(format!("/proc/{process}/maps")).unwrap_or_default();
            let loaded = Loaded::of(&String::from_utf8_lossy(&maps), &self.library);
            if !loaded.driver {
                continue;
            }
            let line = in_words(process);
            if !loaded.guard {
                self.known.insert(who);
                self.found.without_guard.push(line);
            } else if self.found.expected.is_none() && is_given(process, root) && !records_elsewhere(process, root) {
                // It may yet initialise CUDA, and have a folder from then on.
                self.found.expected = Some(format!("{line} loaded the CUDA driver"));
            }
        }
        self.pause = (self.pause * 2).min(self.longest_pause);
        self.next = Instant::now() + self.pause;
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Loaded {
    driver: bool,
    guard: bool,
}

impl Loaded {
    fn of(maps: &str, library: &str) -> Self {
        let mut loaded = Self::default();
        for mapping in mappings(maps) {
            let name = mapping.file().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
            loaded.driver |= name.starts_with(DRIVER);
            loaded.guard |= name == library;
        }
        loaded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_has_loaded_is_in_its_mappings() {
        let line = |path: &str| format!("7f0000000000-7f0000001000 r--p 00000000 fe:01 131 {path}\n");
        let loaded =
            |paths: &[&str]| Loaded::of(&paths.iter().map(|path| line(path)).collect::<String>(), "liblazyguard.so");
        assert_eq!(loaded(&["/usr/bin/app", "/usr/lib/libc.so.6", "/lib/libcudart.so.12"]), Loaded::default());
        let driver = "/usr/lib/x86_64-linux-gnu/libcuda.so.570.86";
        assert_eq!(loaded(&[driver]), Loaded { driver: true, guard: false });
        assert_eq!(loaded(&[driver, "/opt/lazyguard/liblazyguard.so"]), Loaded { driver: true, guard: true });
        assert_eq!(loaded(&["/lib/libcuda.so.1 (deleted)"]), Loaded { driver: true, guard: false });
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
