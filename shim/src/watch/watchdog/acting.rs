//! The watchdog's steps after the report of a hang: the user's action, this process's part in another one's, and a look at what a program does with calls
//! that have failed on purpose.

use super::{Incident, Watch};
use crate::watch::telling::{keep, say_that_it_is_due, take_gpu_dump};
use crate::watch::{on_hang, revoke};
use lazyguard_core::diagnose::{Confidence, Status};
use lazyguard_core::report::Block;
use lazyguard_core::settings::{OnHang, ON_HANG};
use lazyguard_core::Nanos;

/// The time for other ranks to come to a communicator that is made again after a revoke, in thresholds.
const LATECOMERS_PATIENCE: u64 = 10;

impl Watch {
    /// The user's action on a hang: at once if the verdict is certain, else after the patience. It cannot be undone.
    pub(super) fn act(&mut self, now: Nanos) {
        let is_due = self.incident.as_ref().is_some_and(|i| !i.report.acts && i.report.status == Status::Hang);
        // Asked last: it looks at every thread.
        if !is_due || revoke::was_lately(self.guard, now) || !self.lasts() {
            return;
        }
        let (awake_since, threshold) = (self.awake_since, self.threshold);
        let mut patience = self.guard.settings.patience_nanos();
        let Some(incident) = self.incident.as_mut() else { return };
        let mut certain = incident.report.verdicts.iter().any(|verdict| verdict.confidence == Confidence::Certain);
        if revoke::waits_for_latecomers(&incident.report) {
            (certain, patience) = (false, threshold.saturating_mul(LATECOMERS_PATIENCE));
        }
        let since = incident.waiting.iter().map(|(_, entered)| *entered).min();
        // If no thread is in a call, the patience was over before the report.
        let lasted = since.is_none_or(|since| now.saturating_sub(since.max(awake_since)) >= patience);
        if certain || lasted {
            let is_revoked = revoke::revoke_for(self.guard, incident.acts());
            // The program may have given its communicators up meanwhile.
            let lasts = self.lasts();
            let Some(incident) = self.incident.as_mut().filter(|_| is_revoked || lasts) else { return };
            if !is_revoked {
                take_gpu_dump(self.guard, Some(&mut incident.report));
                say_that_it_is_due(self.guard, &incident.report);
                if let (true, Some(marker)) = (self.guard.settings.on_hang.ends_waits(), &self.guard.marker) {
                    marker.raise(self.guard.id, &self.guard.rank, true);
                }
            }
            on_hang::act(self.guard, &mut self.commands, &incident.report, (ON_HANG, &self.guard.settings.on_hang));
            self.forget_what_was_revoked();
        } else if !incident.announced && self.guard.settings.on_hang != OnHang::Report {
            incident.announced = true;
            let seconds = patience as f64 / 1e9;
            self.guard.reports.add(&Block::marked([format!(
                "the guard carries out LAZYGUARD_ON_HANG once this hang has lasted {seconds:.1} s in all"
            )]));
        }
    }

    /// Another process of the job fails its calls.
    pub(super) fn take_part_in_a_failure(&mut self) {
        let guard = self.guard;
        if guard.gpu_dump.takes_part_in_a_failure(guard) {
            if guard.settings.on_hang == OnHang::Revoke {
                return self.take_part_in_a_revoke();
            }
            guard.reports.add(&Block::marked([
                "another process of the job hangs, and LAZYGUARD_ON_HANG=fail is for all of them",
            ]));
            take_gpu_dump(guard, self.incident.as_mut().map(Incident::acts));
        }
    }

    fn take_part_in_a_revoke(&mut self) {
        let was_over = self.was_over;
        let mut lasts = self.incident.as_mut().filter(|incident| !incident.report.acts && !was_over);
        let took_part = revoke::take_part(self.guard, lasts.as_mut().map(|incident| &mut incident.report));
        if let (Some(is_whole), Some(incident)) = (took_part, lasts) {
            if !is_whole {
                take_gpu_dump(self.guard, Some(&mut incident.report));
            }
        }
        self.forget_what_was_revoked();
    }

    /// The driver is asked again about streams that a revoke has ended.
    fn forget_what_was_revoked(&self) {
        if self.incident.as_ref().is_some_and(|incident| incident.report.revoked.is_some()) {
            let _ = self.what_is_known().and_then(|report| self.asked(&report));
        }
    }

    /// Such a program may go on as if nothing had happened.
    pub(super) fn look_at_the_failed(&mut self, now: Nanos) {
        let launches = self.guard.tracker.counts().1;
        let Some(failed) = self.failed.as_mut().filter(|failed| now >= failed.handles_until) else { return };
        if *failed.launches.get_or_insert(launches) != launches {
            failed.report.gpu_dump.iter_mut().for_each(|dump| dump.ignored = true);
            keep(self.guard, &failed.report);
            self.failed = None;
        }
    }
}
