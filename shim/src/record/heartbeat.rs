//! A sign of life in the recording, and pages that are present.
//!
//! The log's thread gives the sign of life each time that it looks, and makes the next pages present, until all are.
//!
//! Must not: take part in anything that a program's thread waits for.

use super::recording::Backing;
use crate::runtime::process::Process;
use std::sync::atomic::AtomicUsize;

/// See the module.
#[derive(Default)]
pub struct Heartbeat {
    /// How far the pages are present, in bytes.
    present: AtomicUsize,
}

impl Heartbeat {
    /// What is due each time.
    pub fn beat(&self, process: &Process, backing: &Backing) {
        process.tracker.recorder().seen_alive(process.now());
        backing.make_present(&self.present);
    }
}
