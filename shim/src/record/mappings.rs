//! Which files' code lies where, so that the command can translate a return address into a line of the program; and the threads'
//! names.
//!
//! Both are read from `/proc/self`: the files when the log's thread starts, when a function is used for the first time from code
//! that is in none of them, when a hang is reported, and at an orderly end if that thread has not come to it; the names at a hang.
//! Otherwise nothing is opened here: a program may have forbidden that to itself since.
//!
//! Must not: take the dynamic linker's lock, which a forked child could find taken, or take part in anything that a program's
//! thread waits for.

use crate::runtime::process::Process;
use crate::runtime::{door, files, thread};
use lazyguard_core::sync::lock;
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;
use std::time::Duration;

/// See the module.
#[derive(Default)]
pub struct Mappings {
    /// Files are to be looked at again.
    wanted: AtomicBool,
    /// What has been noted, in no order.
    noted: Mutex<Vec<(u64, u64)>>,
}

impl Mappings {
    /// Notes files, if that has become due.
    pub fn note_if_due(&self, process: &Process) {
        if self.wanted.swap(false, Ordering::Relaxed) {
            self.note(process);
        }
    }

    /// What is due when a hang is reported.
    pub fn at_a_hang(&self, process: &Process) {
        for (_, slot) in process.tracker.threads().filter(|(_, slot)| slot.in_use()) {
            // One that has just ended has no name to be read, and keeps the one it had.
            Some(thread::name(slot.thread()))
                .filter(|name| !name.is_empty())
                .iter()
                .for_each(|name| slot.set_name(name));
        }
        self.note(process);
    }

    /// What is due at an orderly end: of a process that is over soon, the log's thread may not have come to looking at the files.
    pub fn at_the_end(&self, process: &Process) {
        // Where that thread is just looking, what it finds is waited for, but not for long.
        let nothing_is_noted = (0..10).find_map(|_| match self.noted.try_lock() {
            Ok(noted) => Some(noted.is_empty()),
            Err(_) => {
                door::pause(Duration::from_millis(2));
                None
            }
        });
        if nothing_is_noted.is_some_and(|nothing| nothing || self.wanted.swap(false, Ordering::Relaxed)) {
            self.note(process);
        }
    }

    /// A function is used for the first time, from this address.
    pub fn called_from(&self, address: u64) {
        // The thread that looks at the files just now knows of this one soon.
        let Ok(noted) = self.noted.try_lock() else { return };
        // Nothing is noted yet where the log's thread has not started; it begins by looking.
        if address != 0 && !noted.is_empty() && !noted.iter().any(|(begin, end)| (*begin..*end).contains(&address)) {
            self.wanted.store(true, Ordering::Relaxed);
        }
    }

    /// Notes the files whose code is mapped and that are not noted yet.
    pub fn note(&self, process: &Process) {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let mut noted = lock(&self.noted);
        for file in files_with_code(&maps) {
            if !noted.contains(&(file.begin, file.end)) {
                noted.push((file.begin, file.end));
                let bias = if is_fixed(file.path) { 0 } else { file.base };
                process.tracker.recorder().add_file(process.now(), file.begin, file.end, bias, file.path);
            }
        }
    }
}

/// A part of a file that is mapped as code.
#[derive(Debug, PartialEq, Eq)]
struct Code<'a> {
    begin: u64,
    end: u64,
    /// Where the file's first byte lies.
    base: u64,
    path: &'a str,
}

/// The files whose code is mapped.
fn files_with_code(maps: &str) -> Vec<Code<'_>> {
    let mut base = ("", 0);
    maps.lines()
        .filter_map(|line| {
            // address-address permissions offset device inode path; the path may have blanks in it.
            let mut fields = line.splitn(6, ' ');
            let (begin, end) = fields.next()?.split_once('-')?;
            let (permissions, offset) = (fields.next()?, fields.next()?);
            let path = fields.nth(2)?.trim_start();
            let number = |text: &str| u64::from_str_radix(text, 16).ok();
            let (begin, end, offset) = (number(begin)?, number(end)?, number(offset)?);
            if !path.starts_with('/') {
                return None;
            }
            if offset == 0 {
                base = (path, begin);
            }
            let base = if base.0 == path { base.1 } else { begin.saturating_sub(offset) };
            permissions.contains('x').then_some(Code { begin, end, base, path })
        })
        .collect()
}

/// The file whose code lies at this address.
pub fn file_of(maps: &str, address: u64) -> Option<&str> {
    files_with_code(maps).into_iter().find(|code| (code.begin..code.end).contains(&address)).map(|code| code.path)
}

/// Whether a file is a program that lies where it says, and not where there was room.
fn is_fixed(path: &str) -> bool {
    /// Where the type stands in an ELF file, and the type of such a program.
    const TYPE: usize = 16;
    const FIXED: u16 = 2;
    let mut head = [0u8; TYPE + 2];
    let read = files::open(path).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && u16::from_le_bytes([head[TYPE], head[TYPE + 1]]) == FIXED
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_found_with_the_place_of_its_files_first_byte() {
        let maps = "\
55d0a000-55d0b000 r--p 00000000 fe:00 11 /opt/my programs/app
55d0b000-55d0d000 r-xp 00001000 fe:00 11 /opt/my programs/app
55d0d000-55d0e000 rw-p 00003000 fe:00 11 /opt/my programs/app
7f00a000-7f00c000 rw-p 00000000 00:00 0 
7f00c000-7f00d000 r-xp 00000000 fe:00 12 /lib/libone.so
7f00e000-7f00f000 r-xp 00001000 fe:00 13                     /lib/libtwo.so
7fff0000-7fff1000 r-xp 00000000 00:00 0 [vdso]
nonsense
";
        let code = |begin, end, base, path| Code { begin, end, base, path };
        assert_eq!(
            files_with_code(maps),
            [
                code(0x55d0_b000, 0x55d0_d000, 0x55d0_a000, "/opt/my programs/app"),
                code(0x7f00_c000, 0x7f00_d000, 0x7f00_c000, "/lib/libone.so"),
                code(0x7f00_e000, 0x7f00_f000, 0x7f00_d000, "/lib/libtwo.so"),
            ]
        );
        assert!(files_with_code(&std::fs::read_to_string("/proc/self/maps").unwrap()).len() > 1);
    }

    #[test]
    fn this_test_lies_where_there_was_room() {
        assert!(!is_fixed("/proc/self/exe"));
        assert!(!is_fixed("/nowhere"));
    }
}
