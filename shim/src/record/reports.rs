//! The open report: the newest report of the watchdog, as long as the standstill lasts as far as the guard knows.
//!
//! Protocol: the watchdog's thread writes it, and the exiting thread takes it if the exit comes before the watchdog looks again.
//! The exiting thread only tries the locks, for a short time.
//!
//! Must not: block the exiting thread for more than 50 ms.

use super::run_folder::RunFolder;
use super::turns::Turns;
use crate::runtime::door::{self, EXIT_PAUSES};
use crate::runtime::standard_error;
use lazyguard_core::diagnose::ThreadActivity;
use lazyguard_core::report::{Block, HangReport, RevokedSeen};
use lazyguard_core::Nanos;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;

/// A call in which a thread waits, or repeated queries: the thread, and when it began.
pub type Waiting = (u32, Nanos);

pub struct Reported {
    pub report: HangReport,
    pub waiting: Vec<Waiting>,
}

#[derive(Default)]
pub struct Reports {
    pub open: Mutex<Option<Reported>>,
    /// Held while a report is written; `true` once no more are written, because the final summary is.
    pub ended: Mutex<bool>,
    /// The recorded activity of threads outside driver calls, and its time.
    pub activity: Mutex<(Nanos, BTreeMap<u32, ThreadActivity>)>,
    /// Of each call that loads code when its thread's time on a processor was read, and that.
    pub computing: Mutex<Vec<(Waiting, (Nanos, Nanos))>>,
    /// Revocations of communicators.
    pub revoked: Mutex<Vec<RevokedSeen>>,
    hangs: AtomicU64,
    /// Which rank writes, where the process is one of a job.
    turns: Option<Turns>,
}

impl Reports {
    pub fn of(folder: Option<&RunFolder>) -> Self {
        Self { turns: Turns::of(folder), ..Self::default() }
    }

    /// Writes a new report without its stacks: of a rank of a job its first lines, unless another rank has the same.
    pub fn write(&self, report: &HangReport) {
        match &self.turns {
            None => standard_error::write(&report.text()),
            Some(turns) if turns.take(report) => standard_error::write(&report.in_short()),
            Some(_) => {}
        }
    }

    /// Writes its stacks. A job's are in the folders of its ranks.
    pub fn write_stacks(&self, report: &HangReport) {
        if self.turns.is_none() {
            standard_error::write(&report.stacks_text());
        }
    }

    /// Writes lines about the newest report, if this process has written that.
    pub fn add(&self, lines: &Block) {
        if self.turns.as_ref().is_none_or(Turns::writes) {
            standard_error::write(lines);
        }
    }

    pub fn over(&self, lines: &Block) {
        self.add(lines);
        self.turns.iter().for_each(Turns::give_back);
    }

    pub fn hangs(&self) -> u64 {
        self.hangs.load(Ordering::Relaxed)
    }

    pub fn count_hang(&self) {
        self.hangs.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes the open report. Waits for the watchdog, which holds it while it writes the report's lines, but not for long.
    pub fn take_open(&self) -> Option<Reported> {
        door::lock_soon(&self.open, EXIT_PAUSES)?.take()
    }

    /// Stops the watchdog from writing into the run folder. Waits for a write in progress, but not for long.
    pub fn end(&self) {
        if let Some(mut ended) = door::lock_soon(&self.ended, EXIT_PAUSES) {
            *ended = true;
        }
    }
}
