//! Which files' code lies where, so that the command can translate a return address into a line of the program; and the threads' names.
//!
//! Both are read from `/proc/self`: the program's own file when the guard is armed, the others when the log's thread starts, when a
//! function is first used from code in none of them, at a hang, and at an orderly end. At no other moment is a file opened: a program may
//! have forbidden that to itself since. For a user who keeps no files, all are read when the guard is armed, and later at a hang alone.
//!
//! Must not: take the dynamic linker's lock, which a forked child could find taken, or take part in anything that a program's thread waits
//! for.

use crate::runtime::process::Process;
use crate::runtime::{door, files, thread};
use lazyguard_core::stack::{first_of_own_maps, has_fixed_addresses, modules, own_maps, Module, HEAD_BYTES};
use lazyguard_core::sync::lock;
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;

pub struct Mappings {
    wanted: AtomicBool,
    /// They have been looked at, and all that was there is noted.
    is_noted: AtomicBool,
    noted: Mutex<Vec<(u64, u64)>>,
}

impl Default for Mappings {
    fn default() -> Self {
        Self { wanted: AtomicBool::new(true), is_noted: AtomicBool::new(false), noted: Mutex::default() }
    }
}

impl Mappings {
    /// Notes the program's own file, which the kernel names first: its calls have their lines if the process is killed early. To read all takes
    /// longer than arming may; for a user who keeps no files it is done all the same.
    pub fn note_program(&self, process: &Process) {
        match process.settings.keeps_files() {
            true => self.note_those(process, modules(&first_of_own_maps()).into_iter().take(1)),
            false => self.note(process),
        }
    }

    pub fn note_if_due(&self, process: &Process) {
        if process.settings.keeps_files() && self.wanted.swap(false, Ordering::Relaxed) {
            self.note(process);
        }
    }

    pub fn at_a_hang(&self, process: &Process) {
        for (_, slot) in process.tracker.threads().filter(|(_, slot)| slot.in_use()) {
            // A thread that has just ended keeps its last name.
            Some(thread::name(slot.thread()))
                .filter(|name| !name.is_empty())
                .iter()
                .for_each(|name| slot.set_name(name));
        }
        self.note(process);
    }

    /// For an orderly end: in a short process, the log's thread may not have read the mappings yet.
    pub fn at_the_end(&self, process: &Process) {
        // If the log's thread is noting them now, the exiting thread waits for it, but not for long. If that thread is still reading them, both note
        // them: it may not live to do so.
        let is_free = door::lock_soon(&self.noted, 10).is_some();
        if is_free && (self.wanted.swap(false, Ordering::Relaxed) || !self.is_noted.load(Ordering::Relaxed)) {
            self.note(process);
        }
    }

    /// A function is used for the first time, from this address.
    pub fn called_from(&self, address: u64) {
        // The thread that holds the lock is reading the mappings, and will find this file.
        let Ok(noted) = self.noted.try_lock() else { return };
        if address != 0 && !noted.iter().any(|(begin, end)| (*begin..*end).contains(&address)) {
            self.wanted.store(true, Ordering::Relaxed);
        }
    }

    fn note(&self, process: &Process) {
        self.note_those(process, modules(&own_maps()).into_iter());
        self.is_noted.store(true, Ordering::Relaxed);
    }

    fn note_those(&self, process: &Process, files: impl Iterator<Item = Module>) {
        let mut noted = lock(&self.noted);
        for file in files {
            let new: Vec<_> = file.code.iter().filter(|range| !noted.contains(range)).copied().collect();
            let bias = if new.is_empty() || is_fixed(&file.path) { 0 } else { file.base };
            for (begin, end) in new {
                noted.push((begin, end));
                process.tracker.recorder().add_file(process.now(), begin, end, bias, &file.path);
            }
        }
    }
}

fn is_fixed(path: &str) -> bool {
    let mut head = [0; HEAD_BYTES];
    let read = files::open(path).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && has_fixed_addresses(&head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_test_lies_where_there_was_room() {
        assert!(!is_fixed("/proc/self/exe"));
        assert!(!is_fixed("/nowhere"));
    }
}
