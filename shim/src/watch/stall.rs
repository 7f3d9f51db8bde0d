//! The state of the look-out for a process that has stopped, and the looks at its host side ([`super::watchdog`] has the steps).

use crate::record::Guard;
use crate::runtime::{own_thread, thread};
use lazyguard_core::evidence::{Depth, Evidence, Look, Source};
use lazyguard_core::report::{HangReport, WATCHES_COLLECTIVES};
use lazyguard_core::stall::Rhythm;
use lazyguard_core::sync::lock;
use lazyguard_core::Nanos;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Between the two looks.
const APART: Duration = Duration::from_secs(1);
/// A thread that reads memory and has not come back by then is abandoned.
const ABANDONED_AFTER: Duration = Duration::from_secs(3);

#[derive(Default)]
pub struct Stalling {
    pub rhythm: Rhythm,
    pub submitters: Submitters,
    pub looking: Option<Looking>,
    /// A thread that reads memory was abandoned: no other starts.
    pub abandoned: bool,
    pub told: Option<Told>,
    pub look_at: Nanos,
    pub pause: Nanos,
}

/// Threads by slot, with the counts of their submissions and when those last changed.
#[derive(Default)]
pub struct Submitters(BTreeMap<u32, (u64, Nanos)>);

pub struct Looking {
    begun: Nanos,
    threads: Vec<u32>,
    before: Look,
    answer: Arc<Mutex<Option<Evidence>>>,
}

pub struct Told {
    pub report: HangReport,
    /// How long nothing had been submitted when the looks began to show the same.
    pub same_from: Nanos,
}

impl Submitters {
    /// Launches; of a process that makes none, all calls but those of NCCL's and PyTorch's own threads.
    pub fn note(&mut self, guard: &Guard, now: Nanos) {
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
    pub fn threads(&self, guard: &Guard) -> Vec<u32> {
        let mut all: Vec<_> = self
            .0
            .iter()
            .filter_map(|(number, (_, at))| Some((*at, guard.tracker.thread(*number)?.thread())))
            .collect();
        all.sort_unstable_by_key(|(at, thread)| (std::cmp::Reverse(*at), *thread));
        let is_the_programs = |thread: &u32| !thread::name(*thread).starts_with(WATCHES_COLLECTIVES);
        all.into_iter().map(|(_, thread)| thread).filter(is_the_programs).collect()
    }
}

impl Looking {
    pub fn begin(threads: Vec<u32>, now: Nanos, reads_memory: bool) -> Self {
        let process = std::process::id();
        let answer: Arc<Mutex<Option<Evidence>>> = Arc::default();
        if reads_memory {
            let (answer, threads) = (answer.clone(), threads.clone());
            // If no thread can be started, the watchdog's own looks have to do.
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

    /// The evidence of the two looks, and whether the thread that reads memory was abandoned.
    pub fn answer(&self, now: Nanos) -> Option<(Evidence, bool)> {
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
