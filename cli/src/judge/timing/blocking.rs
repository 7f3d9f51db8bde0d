//! The asynchronous calls that blocked the host: which, how long, and why. A call is judged once all that overlaps it has been seen; a hazard
//! that the guard noted in the call comes first.
//!
//! Must not: blame a call of another thread that began after the call it is said to have blocked.

use super::cold_start::Missing;
use super::histogram::{Decade, Decades};
use super::holders::{overlap, Holders};
use super::kernels::{KernelId, Kernels};
use super::reason::Reason;
use lazyguard_core::api::{Class, Code};
use lazyguard_core::hazard::{Flags, HazardEvent};
use lazyguard_core::replay::{queue_may_be_full, Fact, Streams};
use lazyguard_core::trace::read::{Entry, Recording, Source};
use lazyguard_core::trace::{Kind, Record};
use lazyguard_core::Nanos;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;

/// The default threshold: a launch of a loaded kernel takes some microseconds, its first one some tens.
pub const THRESHOLD_NANOS: Nanos = 100_000;

/// A thread that waits for a lock does not return before its holder; the holder's return may be seen this much later.
const SEEN_LATER_NANOS: Nanos = 100_000;

const HOLDING: [Code; 6] = [Code::LG101, Code::LG102, Code::LG105, Code::LG106, Code::LG107, Code::LG108];
const MOST_GROUPS: usize = 4096;
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
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
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
    pub codes: BTreeSet<Code>,
    /// By powers of ten.
    pub histogram: Vec<Decade>,
    #[serde(skip)]
    decades: Decades,
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

struct Held {
    entry: Entry,
    kernel: Option<KernelId>,
    /// The reason where no other thread's call and no hazard explains it, and whether it is certain.
    otherwise: (Reason, bool),
}

/// The facts that the calls of a group share: the call, its kernel, the reason, and the other thread's number, its call and the kernel of that.
type Key = (&'static str, Option<Rc<str>>, Reason, Option<(u32, &'static str, Option<Rc<str>>)>);

/// Makes the summary. Show it each fact, and the calls in progress among them.
#[derive(Default)]
pub struct BlockingFold {
    threshold: Nanos,
    end: Nanos,
    kernels: Kernels,
    threads: HashMap<u32, String>,
    streams: Streams,
    holders: Holders,
    undecided: Vec<Held>,
    hazards: HashMap<u32, (Nanos, BTreeSet<Code>)>,
    /// When each thread entered its newest asynchronous call: one that submits several operations has several records.
    newest: HashMap<u32, Nanos>,
    launched: HashSet<KernelId>,
    contexts: HashSet<u16>,
    groups: HashMap<Key, Group>,
    noted: HashMap<(&'static str, Option<KernelId>), Reason>,
    all: Group,
    calls: u64,
    left_out: u64,
    missing: Missing,
}

impl BlockingFold {
    pub fn new<S: Source>(recording: &Recording<S>, threshold: Nanos, end: Nanos) -> Self {
        Self {
            threshold: threshold.max(1),
            end,
            kernels: Kernels::of(recording.strings()),
            threads: recording.threads().iter().map(|t| (t.number, t.name.clone())).collect(),
            missing: Missing::of(recording),
            ..Self::default()
        }
    }

    pub fn see(&mut self, fact: &Fact<'_>) {
        let (entry, record) = (fact.entry, &fact.entry.record);
        self.end = self.end.max(record.entered).max(record.returned);
        self.judge(record.entered);
        if record.kind == Kind::Hazard {
            let noted = self.hazards.entry(entry.thread_number).or_default();
            if noted.0 != record.entered {
                *noted = (record.entered, BTreeSet::new());
            }
            // A prevented hazard did not block any thread.
            let event = HazardEvent::of(record, entry.thread).filter(|event| !event.flags.says(Flags::PREVENTED));
            noted.1.extend(event.map(|event| event.code).filter(|code| HOLDING.contains(code)));
            return;
        }
        let needed = self.undecided.iter().map(|held| held.entry.record.entered).min().unwrap_or(record.entered);
        self.holders.see(entry, needed.min(record.entered));
        if record.kind.is_call() && record.entry_point.class().only_submits() {
            self.submits(fact);
        }
        self.streams.see(record, fact.ended);
    }

    fn submits(&mut self, fact: &Fact<'_>) {
        let (entry, record) = (*fact.entry, &fact.entry.record);
        self.streams.pass(record.entered);
        let again = self.newest.insert(entry.thread_number, record.entered) == Some(record.entered);
        self.calls += u64::from(!again);
        let (mut first_of_context, mut first_launch, mut kernel) = (false, false, None);
        if record.entry_point.class() == Class::Launch {
            kernel = self.kernels.of_record(record);
            first_of_context = self.contexts.insert(record.context) && self.missing.work == 0;
            if let (Some(kernel), true) = (kernel, self.launched.len() < MOST_KERNELS) {
                first_launch = self.launched.insert(kernel) && self.missing.work == 0;
            }
        }
        if record.meant_at().saturating_sub(record.entered) < self.threshold {
            return;
        }
        if again {
            let is_this =
                |held: &Entry| (held.thread_number, held.record.entered) == (entry.thread_number, record.entered);
            self.undecided.retain(|held| !is_this(&held.entry));
        }
        let otherwise = match (record.kind, record.entry_point.class()) {
            (Kind::ColdModule, _) if fact.compiles => (Reason::Compiles, true),
            (Kind::ColdModule, _) => (Reason::LoadsModule, true),
            (Kind::ColdFunction, _) => (Reason::LoadsFunction, true),
            (_, Class::CopyAsync) if may_be_of_host(record) => (Reason::PageableMemory, false),
            _ if queue_may_be_full(self.streams.outstanding(record.stream)) => (Reason::QueueFull, false),
            (_, Class::AllocateAsync) => (Reason::PoolGrows, false),
            _ if first_of_context => (Reason::FirstOfContext, false),
            _ if first_launch => (Reason::FirstLaunch, false),
            _ => (Reason::NotKnown, false),
        };
        self.undecided.push(Held { entry, kernel, otherwise });
    }

    fn judge(&mut self, now: Nanos) {
        let returned: Vec<_> = self.undecided.extract_if(.., |held| held.entry.record.meant_at() <= now).collect();
        returned.iter().for_each(|held| self.count(held));
    }

    fn count(&mut self, held: &Held) {
        let record = &held.entry.record;
        let own = self.hazards.get(&held.entry.thread_number).filter(|(entered, _)| *entered == record.entered);
        let codes = own.map(|(_, codes)| codes.clone()).unwrap_or_default();
        let (mut reason, certain, other) = self.reason(held, &codes);
        let call = record.entry_point.info().base();
        if reason == Reason::NotKnown {
            // The guard does not record each occurrence of a repeated hazard.
            reason = self.noted.get(&(call, held.kernel)).copied().unwrap_or(reason);
        } else if codes.iter().any(|&code| Reason::of_hazard(code) == Some(reason)) && self.noted.len() < MOST_GROUPS {
            self.noted.insert((call, held.kernel), reason);
        }
        let took = record.meant_at().min(self.end).saturating_sub(record.entered);
        if took < self.threshold {
            return;
        }
        let name = |id: Option<KernelId>| id.map(|id| self.kernels.name(id));
        let of_other = other.as_ref().map(|other| {
            (other.thread_number, other.record.entry_point.info().base(), name(self.kernels.of_record(&other.record)))
        });
        let key = (call, name(held.kernel), reason, of_other);
        let one = Group {
            call,
            reason,
            certain,
            other: other.zip(key.3.as_ref()).map(|(other, (number, call, kernel))| Other {
                thread: other.thread,
                thread_name: self.threads.get(number).cloned().unwrap_or_default(),
                call,
                kernel: kernel.as_deref().map(str::to_owned),
                max_ns: overlap(&other, 0, self.end),
            }),
            kernel: key.1.as_deref().map(str::to_owned),
            count: 1,
            total_ns: took,
            max_ns: took,
            first_at_ns: record.entered,
            first_thread: held.entry.thread,
            in_progress: u64::from(record.returned == 0),
            codes,
            decades: Decades::of(took),
            ..Group::default()
        };
        self.all.add(&one);
        if self.groups.len() < MOST_GROUPS || self.groups.contains_key(&key) {
            self.groups.entry(key).and_modify(|group| group.add(&one)).or_insert(one);
        } else {
            self.left_out += 1;
        }
    }

    fn reason(&self, held: &Held, codes: &BTreeSet<Code>) -> (Reason, bool, Option<Entry>) {
        let (record, number) = (&held.entry.record, held.entry.thread_number);
        let (from, to) = (record.entered, record.meant_at());
        let half = (to - from) / 2;
        let guards = |holder: &&Entry| holder.record.kind == Kind::Preload;
        let overlap = |holder: &Entry| overlap(holder, from, to);
        let own = self.holders.iter().filter(|holder| holder.thread_number == number).filter(guards);
        if own.map(overlap).fold(0, Nanos::saturating_add) > half {
            return (Reason::GuardLoads, true, None);
        }
        let here = |holder: &&Entry| {
            let (its, mine) = (holder.record.context, record.context);
            holder.thread_number != number && (its == mine || its == 0 || mine == 0) && overlap(holder) > half
        };
        if let Some(holder) = self.holders.iter().filter(here).filter(guards).max_by_key(|holder| overlap(holder)) {
            return (Reason::GuardLoadsElsewhere, true, Some(*holder));
        }
        // The first of several calls that wait for each other is the cause.
        let latest = to.saturating_add(SEEN_LATER_NANOS);
        let before = |holder: &&Entry| holder.record.entered <= from && holder.record.meant_at() <= latest;
        let holders = self.holders.iter().filter(here).filter(before);
        if let Some(holder) = holders.min_by_key(|holder| holder.record.entered) {
            return (Reason::LockHeld, true, Some(*holder));
        }
        let by_hazard = codes.iter().find_map(|&code| Reason::of_hazard(code)).map(|reason| (reason, true));
        let (reason, certain) = by_hazard.unwrap_or(held.otherwise);
        (reason, certain, None)
    }

    pub fn finish(mut self) -> Blocking {
        self.judge(Nanos::MAX);
        let mut groups: Vec<_> = self.groups.into_values().collect();
        for group in &mut groups {
            group.text = in_words(group.reason, group.certain, group.other.as_ref());
            group.histogram = group.decades.classes();
        }
        groups.sort_by_key(|group| (Reverse(group.total_ns), group.first_at_ns));
        Blocking {
            threshold_ns: self.threshold,
            asynchronous_calls: self.calls,
            count: self.all.count,
            total_ns: self.all.total_ns,
            max_ns: self.all.max_ns,
            histogram: self.all.decades.classes(),
            groups,
            left_out: self.left_out,
            missing: self.missing,
        }
    }
}

impl Group {
    fn add(&mut self, one: &Self) {
        if self.count == 0 || one.first_at_ns < self.first_at_ns {
            (self.first_at_ns, self.first_thread) = (one.first_at_ns, one.first_thread);
        }
        self.count += one.count;
        self.total_ns = self.total_ns.saturating_add(one.total_ns);
        self.max_ns = self.max_ns.max(one.max_ns);
        self.in_progress += one.in_progress;
        self.certain |= one.certain;
        self.codes.extend(&one.codes);
        self.decades.merge(&one.decades);
        if let (Some(other), Some(its)) = (&mut self.other, &one.other) {
            other.max_ns = other.max_ns.max(its.max_ns);
        }
    }
}

/// Whether the host's memory may be one side of such a copy.
fn may_be_of_host(record: &Record) -> bool {
    let call = record.entry_point.info().base();
    !["DtoD", "DtoA", "AtoD", "AtoA", "Peer"].iter().any(|between| call.contains(between))
}

fn in_words(reason: Reason, certain: bool, other: Option<&Other>) -> String {
    let mut text = reason.text().to_owned();
    if let Some(other) = other {
        let of = other.kernel.as_ref().map(|kernel| format!(" of {kernel}")).unwrap_or_default();
        text += &format!(": thread {} \"{}\" in {}{of}", other.thread, other.thread_name, other.call);
    }
    match certain || reason == Reason::NotKnown {
        true => text,
        false => format!("likely: {text}"),
    }
}

#[cfg(test)]
#[path = "blocking_tests.rs"]
mod tests;
