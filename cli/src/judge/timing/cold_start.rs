//! From the process's start to its steady state: where the time went, and what the first of each thing cost. [`SteadyState`] has the end.
//!
//! Must not: count a moment twice. The parts add up to the time until the steady state.

use super::histogram::Durations;
use super::kernels::{KernelId, Kernels};
use super::part::{Part, Parts};
use super::sweep::{SteadyState, Sweep};
use lazyguard_core::api::{Class, Work};
use lazyguard_core::replay::Fact;
use lazyguard_core::trace::read::{Entry, Recording, Source};
use lazyguard_core::trace::{Kind, Lane, Payload, Record, StartFacts, SLOW_NANOS};
use lazyguard_core::Nanos;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

/// The most kernels whose first launch is kept apart; further ones are counted.
const MOST_KERNELS: usize = 1 << 14;
const MOST_STEPS: usize = 16;

/// The start's times, since the process started or, if unknown, since the guard was armed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ColdStart {
    /// Whether times begin with the process.
    pub from_process_start: bool,
    /// When the times begin.
    pub began_unix_ns: u64,
    /// When the guard was armed.
    pub armed_ns: Nanos,
    /// The steady state.
    pub steady: SteadyState,
    /// The time by part until the steady state; the sum is `steady.until_ns`.
    pub parts: Vec<PartSpent>,
    /// The longest steps of the recording.
    pub longest: Vec<Step>,
    /// The loads of the recording.
    pub loads: Vec<Loads>,
    /// Preloaded kernels.
    pub ahead: Ahead,
    /// By extra cost of the first launch, the dearest first.
    pub kernels: Vec<FirstUse>,
    /// Kernels beyond that list.
    pub kernels_left_out: u64,
    /// Slow allocations and frees, by call.
    pub allocations: Vec<Slow>,
    /// Missing records.
    pub missing: Missing,
}

/// The time of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PartSpent {
    /// The part.
    pub part: Part,
    /// Duration.
    pub ns: Nanos,
}

/// One thing that took long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// Its part.
    pub part: Part,
    /// When its call was entered.
    pub at_ns: Nanos,
    /// Including the guard's loads.
    pub took_ns: Nanos,
    /// The call; for preloading, the call that it ran in.
    pub call: &'static str,
    /// The kernel, if any.
    pub kernel: Option<String>,
    /// The thread.
    pub thread: u32,
    /// Whether it was unended.
    pub in_progress: bool,
}

/// Calls, added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sum {
    /// How many.
    pub count: u64,
    /// Total duration, over all threads.
    pub ns: Nanos,
    /// How long the longest took.
    pub max_ns: Nanos,
}

impl Sum {
    fn add(&mut self, took: Nanos) {
        self.count += 1;
        self.ns = self.ns.saturating_add(took);
        self.max_ns = self.max_ns.max(took);
    }
}

/// Loads of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Loads {
    /// `compile`, `modules` or `functions`.
    pub part: Part,
    #[serde(flatten)]
    pub sum: Sum,
}

/// Preloading in the recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Ahead {
    /// How often it did.
    pub times: u64,
    /// Kernels loaded.
    pub kernels: u64,
    /// Kernels refused or left out.
    pub not_loaded: u64,
    /// How long that took.
    pub ns: Nanos,
}

/// A kernel's first use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FirstUse {
    /// The kernel.
    pub kernel: String,
    /// When its first launch was entered.
    pub at_ns: Nanos,
    /// The first launch's host time, without the guard's loads.
    pub first_ns: Nanos,
    /// The median of later launches.
    pub steady_ns: Option<Nanos>,
    /// The first launch's extra time.
    pub difference_ns: Option<Nanos>,
    /// Launches.
    pub launches: u64,
    /// The first launch's load.
    pub loaded: Option<Part>,
    /// Whether no earlier record was overwritten.
    pub first_is_known: bool,
}

/// Calls of one kind that took 100 microseconds or more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Slow {
    /// The call.
    pub call: &'static str,
    #[serde(flatten)]
    pub sum: Sum,
    /// Bytes that they allocated.
    pub bytes: u64,
}

/// Records missing from the recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// Launches, copies and other submissions.
    pub work: u64,
    /// Waits.
    pub waits: u64,
    /// Loads and other rare events.
    pub rare_events: u64,
}

impl Missing {
    pub(super) fn of<S: Source>(recording: &Recording<S>) -> Self {
        let lost = recording.lanes().map(|lane| lane.overwritten.saturating_add(lane.dropped));
        let [work, waits, rare_events] = [Lane::Work, Lane::Waits, Lane::RareEvents].map(|lane| lost[lane as usize]);
        Self { work, waits, rare_events }
    }
}

#[derive(Default)]
pub struct ColdStartFold {
    kernels: Kernels,
    began: Beginning,
    end: Nanos,
    sweep: Sweep,
    parts: Parts,
    launches: HashMap<KernelId, (FirstUse, Durations)>,
    left_out: u64,
    /// Each thread's newest first launch of a kernel, in which the guard may have loaded.
    newest: HashMap<u32, (Record, KernelId)>,
    longest: Vec<Step>,
    loads: BTreeMap<Part, Loads>,
    ahead: Ahead,
    allocations: BTreeMap<u16, Slow>,
    missing: Missing,
}

/// How the times of records become times since the process's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Beginning {
    pub known: bool,
    /// From the beginning until the guard was armed, which is where the times of records begin.
    pub armed: Nanos,
    pub armed_unix: u64,
    loaded: Nanos,
    init_entered: Nanos,
    init_returned: Nanos,
    ready: Nanos,
}

impl Beginning {
    pub fn of(start: &StartFacts, armed_monotonic: Nanos, armed_unix: u64) -> Self {
        let before = Nanos::from(start.before_loaded_micros) * 1000;
        let told = [start.loaded, start.init_entered, start.init_returned, armed_monotonic];
        if start.loaded <= before || before == 0 || !told.is_sorted() {
            return Self { armed_unix, ..Self::default() };
        }
        let since = |moment: Nanos| moment - (start.loaded - before);
        Self {
            known: true,
            armed: since(armed_monotonic),
            armed_unix,
            loaded: since(start.loaded),
            init_entered: since(start.init_entered),
            init_returned: since(start.init_returned),
            ready: since(start.init_returned) + Nanos::from(start.arming_micros) * 1000,
        }
    }

    fn sweep(&self, sweep: &mut Sweep) {
        if self.known {
            sweep.goes_on(0, self.loaded, Part::Loader, true);
            sweep.goes_on(self.loaded, self.init_entered, Part::Program, true);
            sweep.goes_on(self.init_entered, self.init_returned, Part::DriverInit, true);
            sweep.goes_on(self.init_returned, self.ready.max(self.armed), Part::Arming, true);
        }
    }
}

impl ColdStartFold {
    pub fn new<S: Source>(recording: &Recording<S>, end: Nanos) -> Self {
        let facts = recording.facts();
        let began = Beginning::of(&facts.start, facts.armed_monotonic_nanos, facts.armed_unix_nanos);
        Self::of(Kernels::of(recording.strings()), began, Missing::of(recording), end)
    }

    fn of(kernels: Kernels, began: Beginning, missing: Missing, end: Nanos) -> Self {
        let mut sweep = Sweep::new(missing.work > 0);
        began.sweep(&mut sweep);
        Self { kernels, began, end, sweep, missing, ..Self::default() }
    }

    pub fn see(&mut self, fact: &Fact<'_>) {
        let (entry, record) = (fact.entry, &fact.entry.record);
        self.end = self.end.max(record.entered).max(record.returned);
        let class = record.entry_point.class();
        let launches = record.kind.is_call() && class == Class::Launch;
        let kernel = self.kernels.of_record(record).filter(|_| launches);
        // If launches are missing, only a load shows that a launch is its kernel's first.
        let known = self.missing.work == 0 || record.kind != Kind::Call;
        let first = known && kernel.is_some_and(|kernel| !self.launches.contains_key(&kernel));
        let Some((part, of_start)) = self.parts.of(fact, first) else { return };
        let took = if record.returned == 0 { self.end.saturating_sub(record.entered) } else { record.took() };
        if let Some(kernel) = kernel {
            self.launched(entry, kernel, took, part, known);
        }
        let begin = self.began.armed.saturating_add(record.entered);
        if self.sweep.steady.is_none() {
            // A call that has not returned lasts past the end.
            let end = if record.returned == 0 { Nanos::MAX } else { begin.saturating_add(took) };
            self.sweep.goes_on(begin, end, part, of_start);
            if record.kind == Kind::Call && class.only_submits() {
                self.sweep.submits();
            }
        }
        match part {
            Part::Preload => self.preloaded(entry, took),
            Part::Compile | Part::Modules | Part::Functions => {
                self.loads.entry(part).or_insert(Loads { part, sum: Sum::default() }).sum.add(took);
            }
            Part::Allocations if took >= SLOW_NANOS => {
                let new = Slow { call: record.entry_point.info().base(), sum: Sum::default(), bytes: 0 };
                let slow = self.allocations.entry(record.entry_point.id()).or_insert(new);
                slow.sum.add(took);
                slow.bytes = slow.bytes.saturating_add(match (record.work(), record.payload()) {
                    (Some(Work::Allocate), Payload::Memory { bytes, .. }) => bytes,
                    _ => 0,
                });
            }
            _ => {}
        }
        let place = self.longest.partition_point(|step| step.took_ns >= took);
        if of_start && place < MOST_STEPS {
            let kernel = self.kernels.of_record(record).map(|id| self.kernels.name(id).to_string());
            let (call, thread, in_progress) = (record.entry_point.info().base(), entry.thread, record.returned == 0);
            self.longest.insert(place, Step { part, at_ns: begin, took_ns: took, call, kernel, thread, in_progress });
            self.longest.truncate(MOST_STEPS);
        }
    }

    fn launched(&mut self, entry: &Entry, kernel: KernelId, took: Nanos, part: Part, known: bool) {
        let record = &entry.record;
        if let Some((first, others)) = self.launches.get_mut(&kernel) {
            first.launches += 1;
            // A second load is that of another context.
            if record.kind == Kind::Call && record.returned != 0 {
                others.add(took);
            }
        } else if self.launches.len() < MOST_KERNELS {
            let first = FirstUse {
                kernel: self.kernels.name(kernel).to_string(),
                at_ns: self.began.armed.saturating_add(record.entered),
                first_ns: took,
                steady_ns: None,
                difference_ns: None,
                launches: 1,
                loaded: (record.kind != Kind::Call).then_some(part),
                first_is_known: known,
            };
            self.launches.insert(kernel, (first, Durations::default()));
            self.newest.insert(entry.thread_number, (*record, kernel));
        } else {
            self.left_out += 1;
        }
    }

    fn preloaded(&mut self, entry: &Entry, took: Nanos) {
        let record = &entry.record;
        self.ahead.times += 1;
        if let Payload::Preload(preload) = record.payload() {
            self.ahead.kernels += preload.loaded;
            self.ahead.not_loaded += preload.refused + preload.left_out;
        }
        self.ahead.ns = self.ahead.ns.saturating_add(took);
        // The guard also loads inside the program's calls. That time is no cost of the kernel's first launch.
        let Some((launch, kernel)) = self.newest.get(&entry.thread_number) else { return };
        if launch.entered <= record.entered && record.returned <= launch.meant_at() {
            if let Some((first, _)) = self.launches.get_mut(kernel) {
                first.first_ns = first.first_ns.saturating_sub(took);
            }
        }
    }

    pub fn finish(self) -> ColdStart {
        let Self { began, end, missing, .. } = self;
        let (steady, spent) = self.sweep.finish(began.armed.saturating_add(end));
        let with_median = |(first, others): (FirstUse, Durations)| {
            let steady_ns = others.median();
            let difference_ns = steady_ns.map(|steady| first.first_ns.saturating_sub(steady));
            FirstUse { steady_ns, difference_ns, ..first }
        };
        let mut kernels: Vec<_> = self.launches.into_values().map(with_median).collect();
        let parts = Part::all().into_iter().zip(spent).map(|(part, ns)| PartSpent { part, ns });
        // For a kernel launched once, the whole duration counts.
        let beyond = |one: &FirstUse| one.difference_ns.unwrap_or(one.first_ns);
        kernels.sort_by(|a, b| (b.first_is_known, beyond(b), &a.kernel).cmp(&(a.first_is_known, beyond(a), &b.kernel)));
        let mut allocations: Vec<_> = self.allocations.into_values().collect();
        allocations.sort_by_key(|slow| Reverse(slow.sum.ns));
        ColdStart {
            from_process_start: began.known,
            began_unix_ns: began.armed_unix.saturating_sub(began.armed),
            armed_ns: began.armed,
            steady,
            parts: parts.filter(|spent| spent.ns > 0).collect(),
            longest: self.longest,
            loads: self.loads.into_values().collect(),
            ahead: self.ahead,
            kernels,
            kernels_left_out: self.left_out,
            allocations,
            missing,
        }
    }
}

#[cfg(test)]
#[path = "cold_start_tests.rs"]
mod tests;
