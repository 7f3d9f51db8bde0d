//! The other processes of the job, by the recordings in the folders beside this one's. They are read where this process has stopped, and only on this machine.

use crate::record::run_folder;
use crate::record::Guard;
use crate::runtime::{clock, files};
use lazyguard_core::folder::entries_of;
use lazyguard_core::run_folder::file::TRACE;
use lazyguard_core::trace::read::{LiveRecording, Source};
use lazyguard_core::Nanos;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// Most folders that are read.
const MOST_PROCESSES: usize = 64;

/// Whether another process of the job has submitted within this time, or has work in flight, for which it waits.
pub fn go_on(guard: &Guard, within: Nanos) -> bool {
    let Some(own) = &guard.folder else { return false };
    let Some(place) = own.shared.clone().or_else(|| own.of_run()) else { return false };
    let folders = entries_of(&place).map(|entry| place.join(entry.name())).filter(|folder| folder != own.path());
    folders.take(MOST_PROCESSES).any(|folder| goes_on(&folder, within).unwrap_or(false))
}

fn goes_on(folder: &Path, within: Nanos) -> Option<bool> {
    let file = files::open_with(&folder.join(TRACE), OpenOptions::new().read(true), libc::O_NOFOLLOW).ok()?;
    let recording = LiveRecording::open(FileSource(file)).ok()?.tables;
    let facts = recording.facts();
    let is_there = || std::fs::exists(format!("/proc/{}", facts.process)).unwrap_or(false);
    if facts.host != run_folder::host_name() || !is_there() {
        return None;
    }
    let idle_until = |context: u32| {
        let contexts = recording.contexts().iter();
        contexts.filter(|seen| seen.number == context).map(|seen| seen.idle_until).max().unwrap_or(0)
    };
    let now = clock::unix_nanos() + clock::now();
    let since = now.saturating_sub(within).saturating_sub(facts.armed_unix_nanos);
    let streams = recording.streams();
    Some(streams.iter().any(|stream| stream.work.submissions.last > since || stream.busy(idle_until(stream.context))))
}

struct FileSource(File);

impl Source for FileSource {
    fn size(&self) -> io::Result<u64> {
        self.0.metadata().map(|about| about.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }
}
