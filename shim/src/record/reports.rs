//! The open report: the watchdog's newest, as long as the standstill lasts. An exiting thread takes it, by trying the locks for 50 ms at most.

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

/// The thread, and when its call or repeated queries began.
pub type Waiting = (u32, Nanos);

pub struct Reported {
    pub report: HangReport,
    pub waiting: Vec<Waiting>,
}

/// A look at the processor time of a thread in a call that loads.
#[derive(Clone, Copy)]
pub struct Computing {
    pub at: Nanos,
    /// The time of the thread and of the driver's threads.
    pub nanos: Nanos,
    pub is_runnable: bool,
    /// Their page faults, where the kernel says.
    pub faults: Option<u64>,
}

#[derive(Default)]
pub struct Reports {
    pub open: Mutex<Option<Reported>>,
    /// Held while a report is written; `true` once the final summary is.
    pub ended: Mutex<bool>,
    /// The recorded activity of threads outside driver calls, after the time since which every thread was recorded anew.
    pub activity: Mutex<(Nanos, BTreeMap<u32, ThreadActivity>)>,
    /// For each loading call, what its thread had done when it was last looked at.
    pub computing: Mutex<BTreeMap<Waiting, Computing>>,
    pub revoked: Mutex<Vec<RevokedSeen>>,
    hangs: AtomicU64,
    turns: Option<Turns>,
}

impl Reports {
    pub fn of(folder: Option<&RunFolder>) -> Self {
        Self { turns: Turns::of(folder), ..Self::default() }
    }

    /// Writes the report without its stacks, and without the lines that it had when its wait was `slow`; for a rank its first lines, unless another rank has
    /// the same.
    pub fn write(&self, report: &HangReport, slow: Option<&HangReport>) {
        match &self.turns {
            None => standard_error::write(&report.text_after(slow)),
            Some(turns) if turns.take(report) => standard_error::write(&report.in_short(&turns.run())),
            Some(_) => {}
        }
    }

    /// Writes its first line, unless another rank has the same.
    pub fn write_in_a_line(&self, report: &HangReport) {
        if self.turns.as_ref().is_none_or(|turns| turns.take(report)) {
            standard_error::write(&Block::marked(report.head(None)));
        }
    }

    /// A job's are in the folders of its ranks.
    pub fn write_stacks(&self, report: &HangReport, slow: Option<&HangReport>) {
        if self.turns.is_none() {
            standard_error::write(&report.stacks_text(slow));
        }
    }

    /// Writes more lines, if this process has written the newest report.
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

    /// Waits for the watchdog, which holds it while it writes lines, but not for long.
    pub fn take_open(&self) -> Option<Reported> {
        door::lock_soon(&self.open, EXIT_PAUSES)?.take()
    }

    /// The watchdog writes no more. Waits for a write in progress, but not for long.
    pub fn end(&self) {
        if let Some(mut ended) = door::lock_soon(&self.ended, EXIT_PAUSES) {
            *ended = true;
        }
    }
}
