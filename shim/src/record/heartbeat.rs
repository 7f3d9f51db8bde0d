//! A sign of life in the recording, and pages that are present.
//!
//! The log's thread gives the sign of life each time that it looks, and makes the next pages present, until all are.
//!
//! Must not: take part in anything that a program's thread waits for.

use super::recording::Backing;
use crate::runtime::process::Process;
use std::sync::atomic::AtomicUsize;

#[derive(Default)]
pub struct Heartbeat {
    present: AtomicUsize,
}

impl Heartbeat {
    /// What is due each time. Gives a line for the summary, at most once.
    pub fn beat(&self, process: &Process, backing: &Backing) -> Option<String> {
        let recorder = process.tracker.recorder();
        recorder.seen_alive(process.now());
        backing.make_present(&self.present, recorder)
    }

    /// No thread gives a sign of life: all pages are made present at once.
    pub fn make_all_present(&self, process: &Process, backing: &Backing) -> Option<String> {
        let recorder = process.tracker.recorder();
        while !backing.is_present(&self.present) {
            if let Some(line) = backing.make_present(&self.present, recorder) {
                return Some(line);
            }
        }
        None
    }
}
