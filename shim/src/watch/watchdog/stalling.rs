//! The watchdog's part about a process that has stopped: it submitted regularly, does so no more, and no call of it waits (`core::stall`).
//!
//! Each look samples counters that the threads keep anyway. Once the process has stopped, and only then, the driver is asked whether work is in flight, the
//! recordings of the job's other processes are read, and the host side is looked at twice: by the watchdog as far as no lock of the process can delay it, and
//! by a thread of its own, which also reads memory and is abandoned if it does not come back.
//!
//! Must not: say anything of a process that rests.

use super::{is_query, Watch};
use crate::record::reports::Reported;
use crate::record::Guard;
use crate::runtime::own_thread;
use crate::watch::telling::{keep, say_that_it_is_over};
use crate::watch::{on_hang, others};
use lazyguard_core::diagnose::Status;
use lazyguard_core::evidence::{Depth, Evidence, Look, Source};
use lazyguard_core::report::{HangReport, WATCHES_COLLECTIVES};
use lazyguard_core::settings::ON_STALL;
use lazyguard_core::stall::{is_same, Outcome, Rhythm, Stall};
use lazyguard_core::sync::lock;
use lazyguard_core::Nanos;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Between the two looks.
const APART: Duration = Duration::from_secs(1);
/// A thread that reads memory and has not come back by then is abandoned.
const ABANDONED_AFTER: Duration = Duration::from_secs(3);
const LEAST_PAUSE: Nanos = 250_000_000;
/// The pause between looks at a process that rests or is slow, in thresholds.
const LONGEST_PAUSE: u64 = 10;

#[derive(Default)]
pub(super) struct Stalling {
    rhythm: Rhythm,
    submitters: Submitters,
    looking: Option<Looking>,
    /// A thread that reads memory was abandoned: no other starts.
    abandoned: bool,
    told: Option<Told>,
    look_at: Nanos,
    pause: Nanos,
}

/// Threads by slot, with the counts of their submissions and when those last changed.
#[derive(Default)]
struct Submitters(BTreeMap<u32, (u64, Nanos)>);

struct Looking {
    begun: Nanos,
    threads: Vec<u32>,
    before: Look,
    answer: Arc<Mutex<Option<Evidence>>>,
}

struct Told {
    report: HangReport,
    /// How long nothing had been submitted when the looks began to show the same.
    same_from: Nanos,
}

impl Submitters {
    /// Launches; of a process that makes none, all calls but those of NCCL's and PyTorch's own threads.
    fn note(&mut self, guard: &Guard, now: Nanos) {
        let in_use = || guard.tracker.threads().filter(|(_, slot)| slot.in_use());
        let none_launches = in_use().all(|(_, slot)| slot.counts().1 == 0);
        let mut seen = BTreeMap::new();
        for (number, slot) in in_use() {
            let (calls, launches) = slot.counts();
            let count = if none_launches { calls } else { launches };
            let before = self.0.get(&number).filter(|(before, _)| *before == count);
            if count > 0 {
                seen.insert(number, (count, before.map_or(now, |(_, since)| *since)));
            }
        }
        self.0 = seen;
    }

    /// The system's ids, the newest submitter first.
    fn threads(&self, guard: &Guard) -> Vec<u32> {
        let mut all: Vec<_> = self
            .0
            .iter()
            .filter_map(|(number, (_, at))| Some((*at, guard.tracker.thread(*number)?.thread())))
            .collect();
        all.sort_unstable_by_key(|(at, thread)| (std::cmp::Reverse(*at), *thread));
        let is_the_programs = |thread: &u32| !crate::runtime::thread::name(*thread).starts_with(WATCHES_COLLECTIVES);
        all.into_iter().map(|(_, thread)| thread).filter(is_the_programs).collect()
    }
}

impl Looking {
    fn begin(threads: Vec<u32>, now: Nanos, reads_memory: bool) -> Self {
        let process = std::process::id();
        let answer: Arc<Mutex<Option<Evidence>>> = Arc::default();
        if reads_memory {
            let (answer, threads) = (answer.clone(), threads.clone());
            // Where no thread can be started, the watchdog's own looks have to do.
            let _ = own_thread::begin(
                "lazyguard-looks",
                || (),
                move || {
                    let look = || Look::take(&Source::machine(), process, &threads, Depth::Memory);
                    let before = look();
                    std::thread::sleep(APART);
                    *lock(&answer) = Some(Evidence::of(&before, &look(), APART.as_nanos() as u64));
                },
            );
        }
        let before = Look::take(&Source::machine(), process, &threads, Depth::Kernel);
        Self { begun: now, threads, before, answer }
    }

    /// What the two looks show, and whether the thread that reads memory was abandoned.
    fn answer(&self, now: Nanos) -> Option<(Evidence, bool)> {
        let lasts = now.saturating_sub(self.begun);
        if let Some(evidence) = lock(&self.answer).take() {
            return Some((evidence, false));
        }
        (lasts >= ABANDONED_AFTER.as_nanos() as u64).then(|| {
            let after = Look::take(&Source::machine(), std::process::id(), &self.threads, Depth::Kernel);
            (Evidence::of(&self.before, &after, lasts), true)
        })
    }
}

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
            self.stalling.looking = Some(Looking::begin(threads, now, !self.stalling.abandoned));
            return;
        };
        let Some((evidence, is_abandoned)) = looking.answer(now) else { return };
        (self.stalling.looking, self.stalling.abandoned) = (None, self.stalling.abandoned || is_abandoned);
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
            *open = Some(Reported { report: report.clone(), waiting: Vec::new() });
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
