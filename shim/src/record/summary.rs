//! The summary of a run, collected from all parts.
//!
//! Must not: wait for a lock that a stopped thread can hold.

use super::guard::Guard;
use super::profile::Notes;
use crate::lookup::proc_address::unhooked;
use crate::runtime::door::{self, EXIT_PAUSES};
use crate::runtime::{memory, pass_through};
use lazyguard_core::report::{PreloadSummary, RecordingSummary, Summary, SCHEMA};
use lazyguard_core::settings::Policy;
use lazyguard_core::trace::Lane;
use std::sync::atomic::Ordering;

impl Guard {
    pub fn summary(&self, ended: &str) -> Summary {
        let (calls, launches) = self.tracker.counts();
        let recording = self.recording_summary();
        Summary {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            process: self.id,
            program: self.program.clone(),
            driver_version: self.driver_version,
            ended: ended.to_owned(),
            nanos: self.now(),
            calls,
            launches,
            hangs: self.reports.hangs(),
            revoked: door::lock_soon(&self.reports.revoked, EXIT_PAUSES).map(|all| all.clone()).unwrap_or_default(),
            hazards: self.hazards.counts(false),
            prevented: self.hazards.counts(true),
            preload: self.preload_summary(),
            recording: recording.clone(),
            gpu_dump: self.gpu_dump.in_words(),
            unhooked: unhooked(),
            passed_through: pass_through::counts(),
            lost: vec![
                ("records that found no room".to_owned(), recording.dropped),
                (
                    "records overwritten before the log had them".to_owned(),
                    self.log.overwritten.load(Ordering::Relaxed),
                ),
                ("log lines that could not be written".to_owned(), self.log.lost.load(Ordering::Relaxed)),
                (
                    "older log lines, for which newer ones were kept".to_owned(),
                    self.log.replaced.load(Ordering::Relaxed),
                ),
                ("faults of the guard's own".to_owned(), door::faults()),
                ("times memory ran out, and the guard stepped aside".to_owned(), u64::from(memory::exhausted())),
            ],
        }
    }

    fn recording_summary(&self) -> RecordingSummary {
        let counts = Lane::ALL.map(|lane| self.tracker.recorder().counts(lane));
        RecordingSummary {
            bytes: (self.tracker.recorder().words().len() * 8) as u64,
            in_file: self.backing.in_file,
            overwritten: counts.iter().map(|c| c.overwritten).sum(),
            dropped: counts.iter().map(|c| c.dropped).sum(),
        }
    }

    pub fn preload_summary(&self) -> PreloadSummary {
        let mut summary = self.loader.summary(self.settings.preload);
        summary.notes.extend(self.log.complaint());
        summary.notes.extend(self.profile.as_ref().and_then(Notes::complaint));
        summary.notes.extend(self.profile.as_ref().and_then(Notes::avoids));
        let loads_ahead = matches!(self.settings.preload, Policy::Auto | Policy::Resolve);
        summary.notes.extend(self.profile.as_ref().filter(|_| loads_ahead).and_then(Notes::lacked));
        summary
    }
}
