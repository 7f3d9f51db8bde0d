//! The state of the look-out for a process that has stopped ([`super::watchdog`] has the steps).

use super::looking::Looking;
use crate::record::Guard;
use crate::runtime::thread;
use lazyguard_core::report::{HangReport, WATCHES_COLLECTIVES};
use lazyguard_core::stall::Rhythm;
use lazyguard_core::Nanos;
use std::collections::BTreeMap;

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
