//! Which files' code lies where, so that the command can name a return address; and the threads' names.
//!
//! Both are read from `/proc/self`: the program's file at arming, the others when the log's thread starts, when a function is first used from unknown code,
//! at a hang, and at an orderly end. At no other moment is a file opened: a program may have forbidden that to itself since. For a user who keeps no
//! files, all are read at arming, and later at a hang alone.
//!
//! Must not: take the dynamic linker's lock, which a forked child could find taken.

use crate::runtime::process::Process;
use crate::runtime::{door, files, thread};
use lazyguard_core::stack::{first_of_own_maps, has_fixed_addresses, mappings, modules, own_maps, Module, HEAD_BYTES};
use lazyguard_core::sync::lock;
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;

#[derive(Default)]
pub struct Mappings {
    /// No file is there that is wanted and was not read.
    none_wanted: AtomicBool,
    /// All that was there is noted.
    is_noted: AtomicBool,
    noted: Mutex<Vec<(u64, u64)>>,
}

impl Mappings {
    /// The program's own file, for calls before an early kill: to read all takes longer. For a user who keeps no files all is read.
    pub fn note_program(&self, process: &Process) {
        match process.settings.keeps_files() {
            true => self.note_those(process, modules(&first_of_own_maps()).into_iter().take(1)),
            false => self.note(process),
        }
    }

    pub fn note_if_due(&self, process: &Process) {
        if process.settings.keeps_files() && !self.none_wanted.swap(true, Ordering::Relaxed) {
            self.note(process);
        }
    }

    pub fn at_a_hang(&self, process: &Process) {
        for (_, slot) in process.tracker.threads().filter(|(_, slot)| slot.in_use()) {
            // The last name of a thread that has just ended.
            let name = thread::name(slot.thread());
            if !name.is_empty() {
                slot.set_name(&name);
            }
        }
        self.note(process);
        self.shared(process);
    }

    /// The process's memory that others have mapped too.
    pub fn shared(&self, process: &Process) {
        process.tracker.has_mapped(mappings(&own_maps()).filter_map(|mapping| mapping.shared()), process.now());
    }

    /// In a short process, the log's thread may not have read them yet.
    pub fn at_the_end(&self, process: &Process) {
        // The exiting thread waits for the log's, but not for long. Then both note them.
        let is_free = door::lock_soon(&self.noted, 10).is_some();
        if is_free && (!self.none_wanted.swap(true, Ordering::Relaxed) || !self.is_noted.load(Ordering::Relaxed)) {
            self.note(process);
        }
    }

    /// Asks for a look at the mappings, if a first use is called from an address in none that was noted.
    pub fn called_from(&self, address: u64) {
        // The thread with the lock will find this file.
        let Ok(noted) = self.noted.try_lock() else { return };
        if address != 0 && !noted.iter().any(|(begin, end)| (*begin..*end).contains(&address)) {
            self.none_wanted.store(false, Ordering::Relaxed);
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
    files::open(path).and_then(|mut file| file.read_exact(&mut head)).is_ok() && has_fixed_addresses(&head)
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
