//! The watchdog's part about a process that has stopped: it submitted regularly, does so no more, and no call of it waits (`core::stall`).
//!
//! Each look samples counters that the threads keep anyway. Once the process has stopped, and only then, the driver is asked whether work is in flight, the
//! recordings of the job's other processes are read, and the host side is looked at twice, by a thread of its own.
//!
//! Must not: say anything of a process that rests.

use super::{is_query, Watch};
use crate::record::reports::Reported;
use crate::watch::looking::{Answer, Looking};
use crate::watch::stall::Told;
use crate::watch::telling::{keep, say_that_it_is_over};
use crate::watch::{on_hang, others};
use lazyguard_core::diagnose::Status;
use lazyguard_core::evidence::Depth;
use lazyguard_core::report::HangReport;
use lazyguard_core::settings::ON_STALL;
use lazyguard_core::stall::{is_same, Outcome, Stall};
use lazyguard_core::sync::lock;
use lazyguard_core::Nanos;

const LEAST_PAUSE: Nanos = 250_000_000;
/// Between the two looks.
const APART: Nanos = 1_000_000_000;
/// The pause between looks at a process that rests or is slow, in thresholds.
const LONGEST_PAUSE: u64 = 10;

impl Watch {
    pub(super) fn look_at_the_rhythm(&mut self, now: Nanos) {
        let guard = self.guard;
        let (newest, ended) = guard.tracker.newest_submission();
        self.stalling.submitters.note(guard, now);
        if self.stalling.rhythm.look(newest, ended, self.threshold) {
            (self.stalling.looking, self.stalling.look_at, self.stalling.pause) = (None, 0, 0);
            self.is_no_stall(now);
        }
        if self.incident.is_some() {
            // Its report has taken the place of this one.
            (self.stalling.looking, self.stalling.told) = (None, None);
        } else if now >= self.stalling.look_at
            && self.stalling.rhythm.has_stopped(now, self.awake_since, self.threshold)
            && self.stalling.told.as_ref().is_none_or(|told| told.report.status != Status::Stalled)
        {
            self.look_at_the_host(now);
        }
    }

    fn look_at_the_host(&mut self, now: Nanos) {
        let guard = self.guard;
        let Some(looking) = &self.stalling.looking else {
            if self.waits_or_works() {
                return self.look_later(now);
            }
            let threads = self.stalling.submitters.threads(guard);
            let deepest = if self.stalling.abandoned { Depth::Kernel } else { Depth::Memory };
            self.stalling.looking = Some(Looking::begin(threads, APART, deepest));
            return;
        };
        let evidence = match looking.answer(now) {
            Answer::Later => return,
            Answer::None => {
                self.stalling.looking = None;
                return self.look_later(now);
            }
            Answer::Is { evidence, left } => {
                self.stalling.abandoned |= left;
                evidence
            }
        };
        self.stalling.looking = None;
        let since = self.stalling.rhythm.newest();
        let lasts = now.saturating_sub(since.max(self.awake_since));
        let told = self.stalling.told.as_ref();
        let before = told.and_then(|told| Some((&told.report.stall.as_ref()?.evidence, told.same_from)));
        let same_from = before.filter(|(before, _)| is_same(before, &evidence)).map(|(_, from)| from);
        let outcome = match Outcome::of(&evidence, lasts, same_from) {
            // A process that works on the host stands in other places in between.
            Outcome::Stalled if before.is_some() && same_from.is_none() => Outcome::Slow,
            outcome => outcome,
        };
        self.look_later(now);
        let same_from = same_from.unwrap_or(lasts);
        match outcome {
            Outcome::Rests => self.is_no_stall(now),
            Outcome::Slow if self.stalling.told.is_some() => {
                if let Some(told) = &mut self.stalling.told {
                    told.report.stall = Some(Stall { since, evidence });
                    told.same_from = same_from;
                    keep(guard, &told.report);
                }
            }
            Outcome::Slow => self.tell_of_a_stall(Status::Slow, Stall { since, evidence }, same_from),
            Outcome::Stalled => self.tell_of_a_stall(Status::Stalled, Stall { since, evidence }, same_from),
        }
    }

    /// Whether a call waits, work is in flight, or another process of the job goes on.
    fn waits_or_works(&self) -> bool {
        let guard = self.guard;
        let is_in_a_call = guard
            .tracker
            .threads()
            .filter(|(_, slot)| slot.in_use())
            .any(|(_, slot)| slot.in_nccl().is_some() || slot.published().is_some_and(|call| !is_query(&call)));
        if is_in_a_call {
            return true;
        }
        if !guard.tracker.in_flight(0).is_empty() {
            // The answers go into the state.
            let _ = self.what_is_known().and_then(|report| self.asked(&report));
        }
        !guard.tracker.in_flight(0).is_empty() || others::go_on(guard, self.stalling.rhythm.allowed(self.threshold))
    }

    fn look_later(&mut self, now: Nanos) {
        let least = (self.threshold / 2).max(LEAST_PAUSE).max(self.rest());
        let longest = self.threshold.saturating_mul(LONGEST_PAUSE).max(least);
        self.stalling.pause = self.stalling.pause.saturating_mul(2).clamp(least, longest);
        self.stalling.look_at = now + self.stalling.pause;
    }

    fn tell_of_a_stall(&mut self, status: Status, stall: Stall, same_from: Nanos) {
        let guard = self.guard;
        let Some(report) = self.what_is_known().filter(|report| report.status == Status::Well) else { return };
        let report = HangReport { status, stall: Some(stall), ..report };
        guard.tracker.recorder().seen_alive(guard.now());
        keep(guard, &report);
        {
            // From now on, an exit says that it is over.
            let mut open = lock(&guard.reports.open);
            guard.reports.write_in_a_line(&report);
            *open = Some(Reported { report: report.copied(), waiting: Vec::new() });
        }
        if status == Status::Stalled {
            on_hang::act(guard, &mut self.commands, &report, (ON_STALL, &guard.settings.on_stall));
        }
        self.stalling.told = Some(Told { report, same_from });
    }

    fn is_no_stall(&mut self, now: Nanos) {
        let Some(Told { report, .. }) = self.stalling.told.take() else { return };
        // Else an exiting thread has said so, or a hang has taken its place.
        if self.incident.is_none() && lock(&self.guard.reports.open).take().is_some() {
            say_that_it_is_over(self.guard, report, now);
        }
    }
}
