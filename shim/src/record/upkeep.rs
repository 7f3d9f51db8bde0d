//! The log's thread: it writes the log, gives the sign of life, answers requests for a report and writes the hazards down.
//!
//! Protocol: the thread has descriptors of its own, so nothing that it opens meets what the program closes and opens.
//!
//! Must not: wait for a thread of the program's.

use super::guard::Guard;
use super::marker::{Marker, Raised};
use super::profile::Notes;
use crate::runtime::own_memory;
use crate::runtime::process::retired;
use lazyguard_core::report::HangReport;
use lazyguard_core::sync::lock;

/// The body of the thread. `report` makes the report of this moment, which a request asks for, and
/// `python` gives the stacks of a Python program.
pub fn run(guard: &'static Guard, report: fn(&'static Guard) -> Option<HangReport>, python: fn() -> Option<String>) {
    leave_descriptors();
    let folder = guard.folder.as_ref();
    guard.marker.iter().for_each(Marker::begin);
    beat(guard);
    guard.mappings.note(guard);
    while !guard.log.is_finished() && !retired() {
        std::thread::sleep(guard.log.pause());
        beat(guard);
        guard.mappings.note_if_due(guard);
        own_memory::look_for_a_filter();
        let raised = guard.marker.as_ref().map_or(Raised::default(), |marker| marker.look(guard.now()));
        if raised.answer {
            keep_recording(guard);
        }
        let asked_to_fail = guard.requests.serve(guard, folder, raised.answer, || report(guard), python);
        if asked_to_fail || raised.fails {
            guard.gpu_dump.job_fails();
        }
        guard.hazards.write_news(guard, folder);
        guard.profile.iter().for_each(Notes::write_news);
        guard.log.follow(guard, folder);
    }
}

fn beat(guard: &Guard) {
    if let Some(line) = guard.heartbeat.beat(guard, &guard.backing) {
        guard.loader.note(line);
    }
}

/// A recording in memory would be lost with the process, if the whole job is killed for the hang.
fn keep_recording(guard: &Guard) {
    let ended = lock(&guard.reports.ended);
    if let (Some(folder), false) = (&guard.folder, *ended) {
        // The answer goes into the same folder, and says as much without it.
        let _ = guard.backing.save(folder);
    }
}

/// Gives the calling thread a table of descriptors of its own, empty: what the program closes and opens on low numbers never
/// meets what this thread has open for a moment, and nothing of the program's is kept open here. Where the kernel cannot
/// (before 5.9), the thread uses the shared table.
fn leave_descriptors() {
    const CLOSE_RANGE_UNSHARE: libc::c_uint = 1 << 1;
    // SAFETY: takes integers only; the flag makes the table this thread's own before anything in it is closed.
    unsafe { libc::syscall(libc::SYS_close_range, 0, libc::c_uint::MAX, CLOSE_RANGE_UNSHARE) };
}
