//! Requests for a report, by `lazyguard dump`.
//!
//! Protocol: the command writes the request's number into the header of the recording's file (`docs/TRACE_FORMAT.md`). Without that file, the run folder
//! holds an empty one whose time of modification, in nanoseconds since 1970, is the number; a mapping of it shows the folder. The answer is `dump.txt`, and
//! then `dump.json` with the number. The log's thread looks and answers.
//!
//! Must not: stop or signal a thread, call the driver, or take a lock that a stuck thread can hold.

use super::ready::lazyguard_ready;
use super::recording::Backing;
use super::run_folder::{RunFolder, DUMP, DUMP_TEXT, REQUEST};
use crate::runtime::door::{self, EXIT_PAUSES};
use crate::runtime::process::Process;
use lazyguard_core::report::{fails, is_last, marks_ready, DumpReport, HangReport};
use lazyguard_core::sync::lock;
use lazyguard_core::Nanos;
use std::fs::{self, OpenOptions};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;

pub struct Requests {
    /// The file for requests if the recording is in memory.
    file: Option<RequestFile>,
    answered: AtomicU64,
    answers: Mutex<Answers>,
}

/// Held while a request is answered.
#[derive(Default)]
struct Answers {
    /// Whether the process has come to its end, and answers no more.
    ended: bool,
    /// When the run last asked before it fails calls or ends the process.
    told_at: Option<Nanos>,
}

impl Requests {
    pub fn new(folder: Option<&RunFolder>, backing: &Backing) -> Self {
        let file = folder.filter(|_| !backing.in_file).and_then(RequestFile::make);
        let answered = AtomicU64::new(file.as_ref().and_then(RequestFile::number).unwrap_or(0));
        Self { file, answered, answers: Mutex::default() }
    }

    /// Answers a new request by `report`; without one, as the last one, where another process of the job hangs (`for_a_hang`).
    ///
    /// The last request before the process is ended is answered at once, and again with what `python` says, which may take seconds. Returns whether the
    /// process takes part in a failure on purpose.
    pub fn serve(
        &self,
        process: &Process,
        folder: Option<&RunFolder>,
        for_a_hang: bool,
        report: impl FnOnce() -> Option<HangReport>,
        python: fn() -> Option<String>,
    ) -> bool {
        let mut answers = lock(&self.answers);
        let Some(folder) = folder.filter(|_| !answers.ended) else { return false };
        let recorder = process.tracker.recorder();
        // A recording in memory gets its requests by a file.
        let asked = self.file.as_ref().map_or_else(|| Some(recorder.asked()), RequestFile::number);
        let answered = self.answered.load(Ordering::Relaxed);
        let asked = asked.filter(|&number| number != answered);
        if asked.is_none() && !for_a_hang {
            return false;
        }
        if asked.is_some_and(marks_ready) {
            lazyguard_ready();
        }
        let Some(report) = report() else { return false };
        let (number, threshold) = (asked.unwrap_or(answered), process.settings.hang_after_nanos);
        if asked.is_some_and(is_last) {
            answers.told_at = Some(report.snapshot.at);
        }
        let mut dump = DumpReport::new(number, threshold, process.tracker.counts(), report);
        dump.told_at = answers.told_at;
        // Without a retry, the command finds no answer.
        let write = |dump: &DumpReport| {
            let _ = folder.replace(DUMP_TEXT, dump.text().as_str()).and_then(|()| folder.replace(DUMP, &dump.json()));
        };
        write(&dump);
        if for_a_hang || asked.is_some_and(is_last) {
            dump.hang.python = python();
            write(&dump);
        }
        if let Some(asked) = asked {
            self.answered.store(asked, Ordering::Relaxed);
            recorder.answered(asked);
        }
        asked.is_some_and(fails)
    }

    /// Removes what is of use only while the process lives. Waits for an answer in progress, but not for long.
    pub fn end(&self) {
        let Some(mut answers) = door::lock_soon(&self.answers, EXIT_PAUSES) else { return };
        if !std::mem::replace(&mut answers.ended, true) {
            self.file.iter().for_each(RequestFile::remove);
        }
    }
}

struct RequestFile {
    path: PathBuf,
    place: usize,
}

impl RequestFile {
    /// Nothing is read or written there.
    const BYTES: usize = 4096;

    fn make(folder: &RunFolder) -> Option<Self> {
        let path = folder.path().join(REQUEST);
        let mut new = OpenOptions::new();
        let file = new.read(true).write(true).create_new(true).mode(0o600).open(&path).ok()?;
        // SAFETY: a new mapping, wherever the kernel has room; it cannot be accessed.
        let place =
            unsafe { libc::mmap(null_mut(), Self::BYTES, libc::PROT_NONE, libc::MAP_PRIVATE, file.as_raw_fd(), 0) };
        if place == libc::MAP_FAILED {
            let _ = fs::remove_file(&path);
            return None;
        }
        // SAFETY: the mapping was made above. A forked child is another process, and has no such file.
        unsafe { libc::madvise(place, Self::BYTES, libc::MADV_DONTFORK) };
        Some(Self { path, place: place as usize })
    }

    fn number(&self) -> Option<u64> {
        let about = fs::metadata(&self.path).ok()?;
        let (seconds, nanos) = (u64::try_from(about.mtime()).ok()?, u64::try_from(about.mtime_nsec()).ok()?);
        seconds.checked_mul(1_000_000_000)?.checked_add(nanos)
    }

    fn remove(&self) {
        // SAFETY: the mapping that `make` made; nothing refers to it, and it is taken away once.
        unsafe { libc::munmap(self.place as *mut libc::c_void, Self::BYTES) };
        let _ = fs::remove_file(&self.path);
    }
}
