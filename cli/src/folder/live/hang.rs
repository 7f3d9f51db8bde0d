//! The report of a hang, which the process's own watchdog writes and replaces as a whole, and files that are replaced so.
//!
//! Must not: fail on a file that is not complete, or take what is over for a hang.

use crate::machine::files;
use lazyguard_core::diagnose::Status;
use lazyguard_core::evidence::Class;
use lazyguard_core::report::HangReport;
use lazyguard_core::stall::Stall;
use lazyguard_core::Nanos;
use serde::de::DeserializeOwned;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HangNow {
    /// Whether it is a hang; else it is slow, and may still end.
    pub is_hang: bool,
    /// Whether the process submits no more, and nothing of it is in flight.
    pub is_stalled: bool,
    /// Why a process does not go on, on the host, where that is known.
    pub class: Option<Class>,
    pub code: &'static str,
    pub sentence: String,
    pub call: String,
    pub since: Nanos,
}

impl HangNow {
    pub(super) fn of(report: &HangReport) -> Option<Self> {
        if report.resolved.is_some() || report.status == Status::Well {
            return None;
        }
        let call = report.waited_in().min_by_key(|call| call.entered);
        let verdict = report.verdicts.first();
        Some(Self {
            is_hang: report.status == Status::Hang,
            is_stalled: report.status == Status::Stalled,
            class: report.stall.as_ref().map(|stall| stall.evidence.class),
            code: verdict
                .map_or(if report.status == Status::Stalled { "stalled" } else { "" }, |verdict| verdict.code.name()),
            sentence: match verdict {
                None if report.stall.is_some() => report.stall.as_ref().map(Stall::in_words).unwrap_or_default(),
                Some(verdict) if verdict.sentence.is_empty() => verdict.title.clone(),
                Some(verdict) => verdict.sentence.clone(),
                None => report.slow.first().cloned().unwrap_or_default(),
            },
            call: call.map(|call| call.call.to_string()).unwrap_or_default(),
            since: match &report.stall {
                Some(stall) => stall.since,
                None => call.map_or(report.snapshot.at, |call| call.entered),
            },
        })
    }
}

/// A file of a folder that its process replaces as a whole, read when it is another one.
#[derive(Debug)]
pub(crate) struct Replaced<T> {
    /// The file's number, and when it was written.
    version: Option<(u64, i64, i64)>,
    pub newest: Option<T>,
}

impl<T> Default for Replaced<T> {
    fn default() -> Self {
        Self { version: None, newest: None }
    }
}

impl<T: DeserializeOwned> Replaced<T> {
    /// A file that cannot be read now is read the next time.
    pub fn look(&mut self, folder: &Path, name: &str) -> Option<&T> {
        let file = files::open_in(folder, name).ok()?;
        let about = file.metadata().ok()?;
        let version = Some((about.ino(), about.mtime(), about.mtime_nsec()));
        if self.version == version {
            return None;
        }
        let newest = serde_json::from_slice(&files::all_of_short(file).ok()?).ok()?;
        self.version = version;
        Some(self.newest.insert(newest))
    }
}
