//! The asynchronous calls that blocked the host: which, how long, and why.
//!
//! A call is judged once everything that overlaps it has been seen. A hazard that the guard noted in the call itself comes first; where
//! there is none, a reason that fits all that is seen is called likely.
//!
//! Must not: blame a call of another thread that began after the call it is said to have blocked.

use super::cold_start::Missing;
use super::histogram::{Decade, Decades};
use super::holders::{Holder, Holders};
use super::kernels::{KernelId, Kernels};
use super::part::submits;
use super::reason::Reason;
use lazyguard_core::api::{Class, Code};
use lazyguard_core::hazard::{Flags, HazardEvent};
use lazyguard_core::model::{queue_may_be_full, Images, Streams};
use lazyguard_core::trace::read::{Entry, Recording, Source};
use lazyguard_core::trace::{Kind, Lane, Record};
use lazyguard_core::Nanos;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// By default, a call that lasts at least this long counts as having blocked the host: a launch of a loaded kernel takes some
/// microseconds, its first one some tens.
pub const THRESHOLD_NANOS: Nanos = 100_000;

/// A thread that waits for a lock does not return before its holder; the holder's return may be seen this much later.
const SEEN_LATER_NANOS: Nanos = 100_000;

/// Codes of hazards that block the call itself.
const HOLDING: [Code; 6] = [Code::LG101, Code::LG102, Code::LG105, Code::LG106, Code::LG107, Code::LG108];
/// The most groups kept apart.
const MOST_GROUPS: usize = 4096;
/// Kernels of which it is kept that they were launched.
const MOST_KERNELS: usize = 1 << 20;

/// Asynchronous calls that blocked the host: launches, asynchronous copies and memsets, stream-ordered allocations,
/// events, memory operations.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Blocking {
    /// The least duration of a blocking call.
    pub threshold_ns: Nanos,
    /// Calls documented as asynchronous.
    pub asynchronous_calls: u64,
    /// Those that blocked.
    pub count: u64,
    /// Their total duration, over all threads.
    pub total_ns: Nanos,
    /// How long the longest did.
    pub max_ns: Nanos,
    /// By powers of ten.
    pub histogram: Vec<Decade>,
    /// By call, kernel and reason; the costliest first.
    pub groups: Vec<Group>,
    /// Calls beyond those groups.
    pub left_out: u64,
    /// Missing records.
    pub missing: Missing,
}

/// Blocking calls of one reason.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Group {
    /// The call, without its symbol's version.
    pub call: &'static str,
    /// The kernel, if any.
    pub kernel: Option<String>,
    /// The reason.
    pub reason: Reason,
    /// The same for a person.
    pub text: String,
    /// Whether a record proves the reason.
    pub certain: bool,
    /// The thread that held the context's lock or loaded.
    pub other: Option<Other>,
    /// How many.
    pub count: u64,
    /// Their total duration.
    pub total_ns: Nanos,
    /// How long the longest took.
    pub max_ns: Nanos,
    /// When the first was entered.
    pub first_at_ns: Nanos,
    /// The thread that made it.
    pub first_thread: u32,
    /// Calls that had not returned.
    pub in_progress: u64,
    /// Codes of hazards in these calls.
    pub codes: Vec<String>,
    /// By powers of ten.
    pub histogram: Vec<Decade>,
}

/// Another thread's call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Other {
    /// The thread.
    pub thread: u32,
    /// Its name.
    pub thread_name: String,
    /// The call; for preloading, the call that it ran in.
    pub call: &'static str,
    /// The kernel, if any.
    pub kernel: Option<String>,
    /// Its longest call.
    pub max_ns: Nanos,
}

/// A call that blocked the host, not yet judged.
struct Held {
    record: Record,
    thread_number: u32,
    thread: u32,
    /// Never, for one in progress.
    returned: Nanos,
    kernel: Option<KernelId>,
    outstanding: u64,
    first_of_context: bool,
    first_launch: bool,
    compiles: bool,
    hazards: Vec<Code>,
}

#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Key {
    call: &'static str,
    kernel: Option<KernelId>,
    reason: Reason,
    /// The other thread's number, its call, and the kernel of that.
    other: Option<(u32, &'static str, Option<KernelId>)>,
}

#[derive(Default)]
struct Sum {
    count: u64,
    total: Nanos,
    max: Nanos,
    first_at: Nanos,
    first_thread: u32,
    in_progress: u64,
    certain: bool,
    other_max: Nanos,
    codes: BTreeSet<Code>,
    decades: Decades,
}

/// Makes the summary. Show it each record, and the calls in progress among them, in the order in which they were entered.
pub struct BlockingFold {
    threshold: Nanos,
    end: Nanos,
    kernels: Kernels,
    threads: HashMap<u32, (u32, String)>,
    streams: Streams,
    images: Images,
    holders: Holders,
    undecided: Vec<Held>,
    /// Of each thread the hazards of the newest call with one.
    hazards: HashMap<u32, (Nanos, Vec<Code>)>,
    /// Of each thread when its newest asynchronous call was entered: one that submits several operations has several records.
    newest: HashMap<u32, Nanos>,
    launched: HashSet<KernelId>,
    contexts: HashSet<u16>,
    groups: HashMap<Key, Sum>,
    /// What the guard noted of each call and kernel.
    noted: HashMap<(&'static str, Option<KernelId>), Reason>,
    all: Sum,
    calls: u64,
    left_out: u64,
    missing: Missing,
}

impl BlockingFold {
    /// Nothing seen yet. `end` is when the process was last seen.
    pub fn new<S: Source>(recording: &Recording<S>, threshold: Nanos, end: Nanos) -> Self {
        let lost = recording.lanes().map(|lane| lane.overwritten.saturating_add(lane.dropped));
        let missing = Missing {
            work: lost[Lane::Work as usize],
            waits: lost[Lane::Waits as usize],
            rare_events: lost[Lane::RareEvents as usize],
        };
        let threads = recording.threads().iter().map(|t| (t.number, (t.thread, t.name.clone()))).collect();
        Self::of(Kernels::of(recording.strings()), threads, missing, threshold, end)
    }

    fn of(
        kernels: Kernels,
        threads: HashMap<u32, (u32, String)>,
        missing: Missing,
        threshold: Nanos,
        end: Nanos,
    ) -> Self {
        Self {
            threshold: threshold.max(1),
            end,
            kernels,
            threads,
            streams: Streams::default(),
            images: Images::default(),
            holders: Holders::default(),
            undecided: Vec::new(),
            hazards: HashMap::new(),
            newest: HashMap::new(),
            launched: HashSet::new(),
            contexts: HashSet::new(),
            groups: HashMap::new(),
            noted: HashMap::new(),
            all: Sum::default(),
            calls: 0,
            left_out: 0,
            missing,
        }
    }

    /// Takes in a record.
    pub fn see(&mut self, entry: &Entry) {
        let record = &entry.record;
        self.end = self.end.max(record.entered).max(record.returned);
        self.judge(record.entered);
        if record.kind == Kind::Hazard {
            let noted = self.hazards.entry(entry.thread_number).or_default();
            if noted.0 != record.entered {
                *noted = (record.entered, Vec::new());
            }
            // A prevented hazard did not block any thread.
            let event = HazardEvent::of(record, entry.thread);
            noted.1.extend(event.filter(|event| !event.flags.says(Flags::PREVENTED)).map(|event| event.code));
            return;
        }
        self.images.see(record);
        if let Some(holder) = Holder::of(entry) {
            let needed = self.undecided.iter().map(|held| held.record.entered).min().unwrap_or(record.entered);
            self.holders.add(holder, needed.min(record.entered));
        }
        if record.kind.is_call() && submits(record.entry_point.class()) {
            self.submits(entry);
        }
        self.streams.see(record);
    }

    fn submits(&mut self, entry: &Entry) {
        let record = &entry.record;
        self.streams.pass(record.entered);
        let class = record.entry_point.class();
        let again = self.newest.insert(entry.thread_number, record.entered) == Some(record.entered);
        self.calls += u64::from(!again);
        let (mut first_of_context, mut first_launch, mut kernel) = (false, false, None);
        if class == Class::Launch {
            kernel = self.kernels.meant(record.function, record.returned);
            first_of_context = self.contexts.insert(record.context) && self.missing.work == 0;
            if let (Some(kernel), true) = (kernel, self.launched.len() < MOST_KERNELS) {
                first_launch = self.launched.insert(kernel) && self.missing.work == 0;
            }
        }
        let returned = if record.returned == 0 { Nanos::MAX } else { record.returned };
        if returned.saturating_sub(record.entered) < self.threshold {
            return;
        }
        if again {
            self.undecided
                .retain(|held| (held.thread_number, held.record.entered) != (entry.thread_number, record.entered));
        }
        self.undecided.push(Held {
            record: *record,
            thread_number: entry.thread_number,
            thread: entry.thread,
            returned,
            kernel,
            outstanding: self.streams.outstanding(record.stream),
            first_of_context,
            first_launch,
            compiles: record.kind == Kind::ColdModule && self.images.compiles(record),
            hazards: Vec::new(),
        });
    }

    /// Judges the calls that had returned by then.
    fn judge(&mut self, now: Nanos) {
        let mut n = 0;
        while let Some(held) = self.undecided.get(n) {
            if held.returned > now {
                n += 1;
                continue;
            }
            let held = self.undecided.swap_remove(n);
            self.count(held);
        }
    }

    fn count(&mut self, mut held: Held) {
        if let Some((entered, codes)) = self.hazards.get(&held.thread_number) {
            if *entered == held.record.entered {
                held.hazards = codes.iter().copied().filter(|code| HOLDING.contains(code)).collect();
            }
        }
        let (mut reason, certain, other) = self.reason(&held);
        let which = (held.record.entry_point.info().base(), held.kernel);
        if reason == Reason::NotKnown {
            // The guard does not record each occurrence of a repeated hazard.
            reason = self.noted.get(&which).copied().unwrap_or(reason);
        } else if held.hazards.iter().any(|&code| Reason::of_hazard(code) == Some(reason))
            && self.noted.len() < MOST_GROUPS
        {
            self.noted.insert(which, reason);
        }
        let took = held.returned.min(self.end).saturating_sub(held.record.entered);
        if took < self.threshold {
            return;
        }
        let of_other = |holder: &Holder| {
            let kernel = (holder.record.kind != Kind::Preload && holder.record.function != 0)
                .then(|| self.kernels.meant(holder.record.function, holder.record.returned))
                .flatten();
            (holder.thread_number, holder.record.entry_point.info().base(), kernel)
        };
        let key = Key {
            call: held.record.entry_point.info().base(),
            kernel: held.kernel,
            reason,
            other: other.as_ref().map(of_other),
        };
        let other_took = other.map_or(0, |holder| holder.overlap(0, self.end));
        self.all.add(&held, took, certain, 0);
        if let Some(sum) = self.groups.get_mut(&key) {
            sum.add(&held, took, certain, other_took);
        } else if self.groups.len() < MOST_GROUPS {
            self.groups.entry(key).or_default().add(&held, took, certain, other_took);
        } else {
            self.left_out += 1;
        }
    }

    /// The reason, whether it is certain, and the call of another thread that caused it.
    fn reason(&self, held: &Held) -> (Reason, bool, Option<Holder>) {
        let (from, to) = (held.record.entered, held.returned);
        let half = (to - from) / 2;
        let own = |holder: &&Holder| holder.thread_number == held.thread_number;
        let guards = |holder: &&Holder| holder.record.kind == Kind::Preload;
        let overlap = |holder: &Holder| holder.overlap(from, to);
        if self.holders.iter().filter(own).filter(guards).map(overlap).fold(0, Nanos::saturating_add) > half {
            return (Reason::GuardLoads, true, None);
        }
        let here = |holder: &&Holder| {
            let (its, mine) = (holder.record.context, held.record.context);
            !own(holder) && (its == mine || its == 0 || mine == 0) && overlap(holder) > half
        };
        if let Some(holder) = self.holders.iter().filter(here).filter(guards).max_by_key(|holder| overlap(holder)) {
            return (Reason::GuardLoadsElsewhere, true, Some(*holder));
        }
        // Of several that wait for each other, the first one is the cause.
        let before =
            |holder: &&Holder| holder.entered <= from && holder.returned <= to.saturating_add(SEEN_LATER_NANOS);
        if let Some(holder) = self.holders.iter().filter(here).filter(before).min_by_key(|holder| holder.entered) {
            return (Reason::LockHeld, true, Some(*holder));
        }
        if let Some(reason) = held.hazards.iter().find_map(|&code| Reason::of_hazard(code)) {
            return (reason, true, None);
        }
        let likely = |reason| (reason, false, None);
        match (held.record.kind, held.record.entry_point.class()) {
            (Kind::ColdModule, _) if held.compiles => (Reason::Compiles, true, None),
            (Kind::ColdModule, _) => (Reason::LoadsModule, true, None),
            (Kind::ColdFunction, _) => (Reason::LoadsFunction, true, None),
            (_, Class::CopyAsync) if of_host_memory(held.record.entry_point.info().base()) => {
                likely(Reason::PageableMemory)
            }
            _ if queue_may_be_full(held.outstanding) => likely(Reason::QueueFull),
            (_, Class::AllocateAsync) => likely(Reason::PoolGrows),
            _ if held.first_of_context => likely(Reason::FirstOfContext),
            _ if held.first_launch => likely(Reason::FirstLaunch),
            _ => (Reason::NotKnown, false, None),
        }
    }

    /// The summary.
    pub fn finish(mut self) -> Blocking {
        self.judge(Nanos::MAX);
        // Two kernels of one name are one to a person.
        let mut groups: BTreeMap<_, Sum> = BTreeMap::new();
        for (key, sum) in std::mem::take(&mut self.groups) {
            let name = |id: Option<KernelId>| id.map(|id| self.kernels.name(id));
            let other = key.other.as_ref().map(|(thread, call, kernel)| (*thread, *call, name(*kernel)));
            let told = (key.call, name(key.kernel), key.reason, other);
            match groups.get_mut(&told) {
                Some(whole) => whole.merge(sum),
                None => drop(groups.insert(told, sum)),
            }
        }
        let mut groups: Vec<_> = groups
            .into_iter()
            .map(|((call, kernel, reason, other), sum)| {
                let certain = sum.certain;
                let other = other.map(|(number, call, kernel)| {
                    let (thread, thread_name) = self.threads.get(&number).cloned().unwrap_or_default();
                    Other { thread, thread_name, call, kernel, max_ns: sum.other_max }
                });
                Group {
                    call,
                    kernel,
                    reason,
                    text: in_words(reason, certain, other.as_ref()),
                    certain,
                    other,
                    count: sum.count,
                    total_ns: sum.total,
                    max_ns: sum.max,
                    first_at_ns: sum.first_at,
                    first_thread: sum.first_thread,
                    in_progress: sum.in_progress,
                    codes: sum.codes.iter().map(|code| code.name().to_owned()).collect(),
                    histogram: sum.decades.classes(),
                }
            })
            .collect();
        groups.sort_by_key(|group| (std::cmp::Reverse(group.total_ns), group.first_at_ns));
        Blocking {
            threshold_ns: self.threshold,
            asynchronous_calls: self.calls,
            count: self.all.count,
            total_ns: self.all.total,
            max_ns: self.all.max,
            histogram: self.all.decades.classes(),
            groups,
            left_out: self.left_out,
            missing: self.missing,
        }
    }
}

impl Sum {
    fn add(&mut self, held: &Held, took: Nanos, certain: bool, other_took: Nanos) {
        if self.count == 0 || held.record.entered < self.first_at {
            (self.first_at, self.first_thread) = (held.record.entered, held.thread);
        }
        self.count += 1;
        self.total = self.total.saturating_add(took);
        self.max = self.max.max(took);
        self.in_progress += u64::from(held.record.returned == 0);
        self.certain |= certain;
        self.other_max = self.other_max.max(other_took);
        self.codes.extend(held.hazards.iter().copied());
        self.decades.add(took);
    }

    fn merge(&mut self, other: Self) {
        if other.first_at < self.first_at {
            (self.first_at, self.first_thread) = (other.first_at, other.first_thread);
        }
        self.count += other.count;
        self.total = self.total.saturating_add(other.total);
        self.max = self.max.max(other.max);
        self.in_progress += other.in_progress;
        self.certain |= other.certain;
        self.other_max = self.other_max.max(other.other_max);
        self.codes.extend(other.codes);
        self.decades.merge(&other.decades);
    }
}

/// Whether the host's memory may be one side of such a copy.
fn of_host_memory(call: &str) -> bool {
    !["DtoD", "DtoA", "AtoD", "AtoA", "Peer"].iter().any(|between| call.contains(between))
}

fn in_words(reason: Reason, certain: bool, other: Option<&Other>) -> String {
    let mut text = reason.text().to_owned();
    if let Some(other) = other {
        let of = other.kernel.as_ref().map(|kernel| format!(" of {kernel}")).unwrap_or_default();
        text += &format!(": thread {} \"{}\" in {}{of}", other.thread, other.thread_name, other.call);
    }
    match (certain, reason) {
        (true, _) | (_, Reason::NotKnown) => text,
        (false, _) => format!("likely: {text}"),
    }
}

#[cfg(test)]
#[path = "blocking_tests.rs"]
mod tests;
