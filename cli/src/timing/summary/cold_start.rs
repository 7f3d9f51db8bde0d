//! From the process's start to its steady state: where the time went, and what the first of each thing cost.
//!
//! The steady state begins at the end of the last event that belongs to a start, if for a second after it, or for the rest of the run,
//! no such event comes and work is submitted meanwhile: see [`Part`] and [`SteadyState`].
//!
//! Must not: count a moment twice. The parts of the time until the steady state add up to all of it.

use super::histogram::Durations;
use super::kernels::{KernelId, Kernels};
use super::part::{submits, Part, Parts};
use super::sweep::{Ended, Spent, Sweep, QUIET_NANOS, QUIET_SUBMISSIONS, QUIET_TO_THE_END_NANOS};
use lazyguard_core::api::Class;
use lazyguard_core::trace::read::{Entry, Recording, Source};
use lazyguard_core::trace::{Kind, Lane, Payload, Record, StartFacts, SLOW_NANOS};
use lazyguard_core::Nanos;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// The most kernels whose first launch is kept apart; further ones are counted.
const MOST_KERNELS: usize = 1 << 14;
/// Single things that are named because they took long.
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

/// The end of the start: a second, or the rest of the run, without start events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SteadyState {
    /// Whether reached.
    pub reached: bool,
    /// When; if never reached, the recording's end.
    pub until_ns: Nanos,
    /// If never reached: the end of the last start event.
    pub last_of_start_ns: Option<Nanos>,
    /// Submissions made after that.
    pub submissions_after: u64,
    /// The definition in a sentence.
    pub definition: String,
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

/// Loads of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Loads {
    /// `compile`, `modules` or `functions`.
    pub part: Part,
    /// How many.
    pub count: u64,
    /// Total duration, over all threads.
    pub ns: Nanos,
    /// How long the longest took.
    pub max_ns: Nanos,
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

/// Slow calls of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Slow {
    /// The call.
    pub call: &'static str,
    /// Calls of 100 microseconds or more.
    pub count: u64,
    /// Their total duration.
    pub ns: Nanos,
    /// How long the longest took.
    pub max_ns: Nanos,
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

struct Launches {
    at: Nanos,
    first: Nanos,
    count: u64,
    others: Durations,
    loaded: Option<Part>,
    known: bool,
}

/// A launch in which the guard may have loaded.
struct Newest {
    entered: Nanos,
    returned: Nanos,
    kernel: KernelId,
}

/// Makes the summary. Show it each record, and the calls in progress among them, in the order in which they were entered.
pub struct ColdStartFold {
    kernels: Kernels,
    began: Beginning,
    end: Nanos,
    sweep: Sweep,
    parts: Parts,
    launches: HashMap<KernelId, Launches>,
    left_out: u64,
    newest: HashMap<u32, Newest>,
    longest: Vec<(Step, Option<KernelId>)>,
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
    /// Nothing seen yet. `end` is when the process was last seen.
    pub fn new<S: Source>(recording: &Recording<S>, end: Nanos) -> Self {
        let facts = recording.facts();
        let lost = recording.lanes().map(|lane| lane.overwritten.saturating_add(lane.dropped));
        let missing = Missing {
            work: lost[Lane::Work as usize],
            waits: lost[Lane::Waits as usize],
            rare_events: lost[Lane::RareEvents as usize],
        };
        let began = Beginning::of(&facts.start, facts.armed_monotonic_nanos, facts.armed_unix_nanos);
        Self::of(Kernels::of(recording.strings()), began, missing, end)
    }

    fn of(kernels: Kernels, began: Beginning, missing: Missing, end: Nanos) -> Self {
        let mut sweep = Sweep::new(missing.work > 0);
        began.sweep(&mut sweep);
        Self {
            kernels,
            began,
            end,
            sweep,
            parts: Parts::default(),
            launches: HashMap::new(),
            left_out: 0,
            newest: HashMap::new(),
            longest: Vec::new(),
            loads: BTreeMap::new(),
            ahead: Ahead::default(),
            allocations: BTreeMap::new(),
            missing,
        }
    }

    /// Takes in a record.
    pub fn see(&mut self, entry: &Entry) {
        let record = &entry.record;
        self.end = self.end.max(record.entered).max(record.returned);
        let class = record.entry_point.class();
        let launch = record.kind.is_call() && class == Class::Launch;
        let kernel = launch.then(|| self.kernels.meant(record.function, record.returned)).flatten();
        let first = kernel.is_some_and(|kernel| self.is_first(kernel, record));
        let Some((part, of_start)) = self.parts.of(record, first) else { return };
        let took = self.took(record);
        if let Some(kernel) = kernel {
            self.launched(entry, kernel, took, part);
        }
        if !self.sweep.is_decided() {
            let begin = self.began.armed.saturating_add(record.entered);
            // A call that has not returned lasts past the end.
            let end = if record.returned == 0 { Nanos::MAX } else { begin.saturating_add(took) };
            self.sweep.goes_on(begin, end, part, of_start);
            if record.kind == Kind::Call && submits(class) {
                self.sweep.submits();
            }
        }
        match part {
            Part::Preload => self.preloaded(entry, took),
            Part::Compile | Part::Modules | Part::Functions => {
                let loads = self.loads.entry(part).or_insert(Loads { part, count: 0, ns: 0, max_ns: 0 });
                loads.count += 1;
                loads.ns = loads.ns.saturating_add(took);
                loads.max_ns = loads.max_ns.max(took);
            }
            Part::Allocations if took >= SLOW_NANOS => {
                let call = record.entry_point.info().base();
                let slow = Slow { call, count: 0, ns: 0, max_ns: 0, bytes: 0 };
                let slow = self.allocations.entry(record.entry_point.id()).or_insert(slow);
                slow.count += 1;
                slow.ns = slow.ns.saturating_add(took);
                slow.max_ns = slow.max_ns.max(took);
                if let (Class::Allocate | Class::AllocateAsync, Payload::Memory { bytes, .. }) =
                    (class, record.payload())
                {
                    slow.bytes = slow.bytes.saturating_add(bytes);
                }
            }
            _ => {}
        }
        if of_start {
            self.step(entry, part, took);
        }
    }

    /// How long a call took; until the end, if it has not returned.
    fn took(&self, record: &Record) -> Nanos {
        match record.returned {
            0 => self.end.saturating_sub(record.entered),
            _ => record.took(),
        }
    }

    /// Where launches are missing, only a load shows that a launch is its kernel's first.
    fn is_first(&self, kernel: KernelId, record: &Record) -> bool {
        !self.launches.contains_key(&kernel) && (self.missing.work == 0 || record.kind != Kind::Call)
    }

    fn launched(&mut self, entry: &Entry, kernel: KernelId, took: Nanos, part: Part) {
        let record = &entry.record;
        if let Some(launches) = self.launches.get_mut(&kernel) {
            launches.count += 1;
            // A second load is that of another context.
            if record.kind == Kind::Call && record.returned != 0 {
                launches.others.add(took);
            }
        } else if self.launches.len() < MOST_KERNELS {
            let launches = Launches {
                at: record.entered,
                first: took,
                count: 1,
                others: Durations::default(),
                loaded: (record.kind != Kind::Call).then_some(part),
                known: self.missing.work == 0 || record.kind != Kind::Call,
            };
            self.launches.insert(kernel, launches);
            let returned = if record.returned == 0 { Nanos::MAX } else { record.returned };
            let newest = Newest { entered: record.entered, returned, kernel };
            self.newest.insert(entry.thread_number, newest);
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
        let Some(newest) = self.newest.get(&entry.thread_number) else { return };
        if newest.entered <= record.entered && record.returned <= newest.returned {
            if let Some(launches) = self.launches.get_mut(&newest.kernel) {
                launches.first = launches.first.saturating_sub(took);
            }
        }
    }

    fn step(&mut self, entry: &Entry, part: Part, took: Nanos) {
        let record = &entry.record;
        let place = self.longest.partition_point(|(step, _)| step.took_ns >= took);
        if place >= MOST_STEPS {
            return;
        }
        let step = Step {
            part,
            at_ns: self.began.armed.saturating_add(record.entered),
            took_ns: took,
            call: record.entry_point.info().base(),
            kernel: None,
            thread: entry.thread,
            in_progress: record.returned == 0,
        };
        let kernel = (record.kind != Kind::Preload && record.function != 0)
            .then(|| self.kernels.meant(record.function, record.returned))
            .flatten();
        self.longest.insert(place, (step, kernel));
        self.longest.truncate(MOST_STEPS);
    }

    /// The summary.
    pub fn finish(self) -> ColdStart {
        let Self { kernels, began, end, sweep, launches, missing, .. } = self;
        let armed = began.armed;
        let ended = sweep.finish(armed.saturating_add(end));
        let mut first_uses: Vec<_> = launches
            .into_iter()
            .map(|(id, launches)| {
                let steady_ns = launches.others.median();
                FirstUse {
                    kernel: kernels.name(id),
                    at_ns: armed.saturating_add(launches.at),
                    first_ns: launches.first,
                    steady_ns,
                    difference_ns: steady_ns.map(|steady| launches.first.saturating_sub(steady)),
                    launches: launches.count,
                    loaded: launches.loaded,
                    first_is_known: launches.known,
                }
            })
            .collect();
        // For a kernel launched once, the whole duration counts.
        let beyond = |one: &FirstUse| one.difference_ns.unwrap_or(one.first_ns);
        first_uses
            .sort_by(|a, b| (b.first_is_known, beyond(b), &a.kernel).cmp(&(a.first_is_known, beyond(a), &b.kernel)));
        let longest =
            self.longest.into_iter().map(|(step, kernel)| Step { kernel: kernel.map(|id| kernels.name(id)), ..step });
        let mut allocations: Vec<_> = self.allocations.into_values().collect();
        allocations.sort_by_key(|slow| std::cmp::Reverse(slow.ns));
        ColdStart {
            from_process_start: began.known,
            began_unix_ns: began.armed_unix.saturating_sub(armed),
            armed_ns: armed,
            steady: steady(&ended),
            parts: parts(&ended.spent),
            longest: longest.collect(),
            loads: self.loads.into_values().collect(),
            ahead: self.ahead,
            kernels: first_uses,
            kernels_left_out: self.left_out,
            allocations,
            missing,
        }
    }
}

fn parts(spent: &Spent) -> Vec<PartSpent> {
    let all = Part::ALL.iter().zip(spent);
    all.filter(|(_, &ns)| ns > 0).map(|(&part, &ns)| PartSpent { part, ns }).collect()
}

fn steady(ended: &Ended) -> SteadyState {
    let definition = format!(
        "from the end of the last load, compilation, context creation, first launch of a kernel or slow allocation on, where none \
         follows for {} s, or for the rest of the run and at least {} ms, and {} operations or more are submitted meanwhile",
        QUIET_NANOS / 1_000_000_000,
        QUIET_TO_THE_END_NANOS / 1_000_000,
        QUIET_SUBMISSIONS
    );
    SteadyState {
        reached: ended.steady,
        until_ns: ended.until,
        last_of_start_ns: ended.last_of_start,
        submissions_after: ended.submissions,
        definition,
    }
}

#[cfg(test)]
#[path = "cold_start_tests.rs"]
mod tests;
