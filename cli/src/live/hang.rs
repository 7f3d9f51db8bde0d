//! The report of a hang, which the process's own watchdog writes and replaces as a whole: read when it changes.
//!
//! Must not: fail on a report that is not complete, or take what is over for a hang.

use crate::files;
use lazyguard_core::diagnose::Status;
use lazyguard_core::report::HangReport;
use lazyguard_core::run_folder::file::HANG;
use lazyguard_core::Nanos;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// A standstill that lasts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HangNow {
    /// Whether it is a hang; else it is slow, and may still end.
    pub is_hang: bool,
    /// The code of a hang, or nothing.
    pub code: &'static str,
    /// What is waited for, in a sentence.
    pub sentence: String,
    /// The call that waits, or nothing.
    pub call: String,
    /// When that was entered.
    pub since: Nanos,
}

impl HangNow {
    fn of(report: &HangReport) -> Option<Self> {
        if report.resolved.is_some() || report.status == Status::Well {
            return None;
        }
        let call = report.waited_in().min_by_key(|call| call.entered);
        let verdict = report.verdicts.first();
        Some(Self {
            is_hang: report.status == Status::Hang,
            code: verdict.map_or("", |verdict| verdict.code.name()),
            sentence: match verdict {
                Some(verdict) if verdict.sentence.is_empty() => verdict.title.clone(),
                Some(verdict) => verdict.sentence.clone(),
                None => report.slow.first().cloned().unwrap_or_default(),
            },
            call: call.map(|call| call.call.to_string()).unwrap_or_default(),
            since: call.map_or(report.snapshot.at, |call| call.entered),
        })
    }
}

/// A file that is replaced as a whole, by its number and when it was written.
type Version = (u64, i64, i64);

/// The newest report in a folder.
#[derive(Debug, Default)]
pub(super) struct Watch {
    version: Option<Version>,
    /// The process that wrote it.
    process: u32,
    now: Option<HangNow>,
}

impl Watch {
    /// Looks whether there is a new one.
    pub fn look(&mut self, folder: &Path) {
        let Ok(file) = files::open_in(folder, HANG) else { return };
        let Ok(about) = file.metadata() else { return };
        let version = Some((about.ino(), about.mtime(), about.mtime_nsec()));
        if self.version == version {
            return;
        }
        let Ok(text) = files::all_of_short(file) else { return };
        if let Ok(report) = serde_json::from_slice::<HangReport>(&text) {
            (self.version, self.process, self.now) = (version, report.process, HangNow::of(&report));
        }
    }

    /// What lasts, if something does.
    pub fn now(&self) -> Option<&HangNow> {
        self.now.as_ref()
    }

    /// The process that wrote a report, if there is one.
    pub fn process(&self) -> Option<u32> {
        self.version.map(|_| self.process)
    }
}
