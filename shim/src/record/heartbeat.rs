//! What a recording needs besides records: a sign of life, pages that are present, and which files' code lies where, so that a
//! return address can be told as a line of the program.
//!
//! The sign of life is given by the log's thread each time that it looks; the pages are made present by it once. The files are
//! read from `/proc/self/maps` when that thread starts, when a function is used for the first time from code that is in none of
//! them, when a hang is reported, and at an orderly end if that thread has not come to it. The threads' names too are read again
//! at a hang. Otherwise nothing is opened here: a program may have forbidden that to itself since.
//!
//! Must not: take the dynamic linker's lock, which a forked child could find taken, or take part in anything a program's
//! thread waits for.

use crate::runtime::thread;
use crate::runtime::Guard;
use lazyguard_core::stack::{modules, own_maps};
use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Mutex;
use std::time::Duration;

/// See the module.
#[derive(Default)]
pub struct Heartbeat {
    present: AtomicUsize,
    /// Files are to be looked at again.
    wanted: AtomicBool,
    /// What has been noted, in no order.
    noted: Mutex<Vec<(u64, u64)>>,
}

impl Heartbeat {
    /// What is due each time.
    pub fn look_after(&self, guard: &Guard) {
        guard.tracker.recorder().seen_alive(guard.now());
        guard.backing.make_present(&self.present);
        if self.wanted.swap(false, Ordering::Relaxed) {
            self.note_files(guard);
        }
    }

    /// What is due at the start of the log's thread.
    pub fn start(&self, guard: &Guard) {
        self.look_after(guard);
        self.note_files(guard);
    }

    /// What is due when a hang is reported.
    pub fn at_a_hang(&self, guard: &Guard) {
        for (_, slot) in guard.tracker.threads().filter(|(_, slot)| slot.in_use()) {
            // One that has just ended has no name to be read, and keeps the one it had.
            Some(thread::name(slot.thread()))
                .filter(|name| !name.is_empty())
                .iter()
                .for_each(|name| slot.set_name(name));
        }
        self.note_files(guard);
    }

    /// What is due at an orderly end: of a process that is over soon, the log's thread may not have come to looking at the files.
    pub fn at_the_end(&self, guard: &Guard) {
        // Where that thread is just looking, what it finds is waited for, but not for long.
        let nothing_is_noted = (0..10).find_map(|_| match self.noted.try_lock() {
            Ok(noted) => Some(noted.is_empty()),
            Err(_) => {
                crate::runtime::door::pause(Duration::from_millis(2));
                None
            }
        });
        if nothing_is_noted.is_some_and(|nothing| nothing || self.wanted.swap(false, Ordering::Relaxed)) {
            self.note_files(guard);
        }
    }

    /// A function is used for the first time, from this address.
    pub fn called_from(&self, address: u64) {
        // Who looks at the files just now knows of this one soon.
        let Ok(noted) = self.noted.try_lock() else { return };
        // Nothing is noted yet where the log's thread has not started; it begins by looking.
        if address != 0 && !noted.is_empty() && !noted.iter().any(|(begin, end)| (*begin..*end).contains(&address)) {
            self.wanted.store(true, Ordering::Relaxed);
        }
    }

    fn note_files(&self, guard: &Guard) {
        let files = modules(&own_maps());
        let mut noted = self.noted.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        for file in files {
            let new: Vec<_> = file.code.iter().filter(|range| !noted.contains(range)).copied().collect();
            let bias = if new.is_empty() || is_fixed(&file.path) { 0 } else { file.base };
            for (begin, end) in new {
                noted.push((begin, end));
                guard.tracker.recorder().add_file(guard.now(), begin, end, bias, &file.path);
            }
        }
    }
}

/// Whether a file is a program that lies where it says, and not where there was room.
fn is_fixed(path: &str) -> bool {
    /// Where the type stands in an ELF file, and the type of such a program.
    const TYPE: usize = 16;
    const FIXED: u16 = 2;
    let mut head = [0u8; TYPE + 2];
    let read = crate::runtime::files::open(path).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && u16::from_le_bytes([head[TYPE], head[TYPE + 1]]) == FIXED
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
