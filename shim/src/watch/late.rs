//! A rank that is late is no hang: what the watchdog of a rank that waits asks the others of its job, and what they answer (`lazyguard_core::late`).
//!
//! [`Peers`] is the watchdog's side: it asks by the job's marker, and puts the answers into the report, from which the diagnosis follows. [`Speaker`] is
//! that of the log's thread, in a process that has been asked: it looks at the process's own threads in `/proc`, and says whether they move.
//!
//! Must not: look at anything before a rank asks, or take a lock that a stuck thread can hold.

use super::live_report::what_is_known;
use super::looking::{Answer, Looking};
use crate::record::marker::Marker;
use crate::record::run_folder;
use crate::record::statements::Statements;
use crate::record::Guard;
use crate::runtime::thread;
use lazyguard_core::diagnose::{diagnose, waits_for_ranks, LateRank, LateSeen, Status};
use lazyguard_core::evidence::{lacked, Class, Depth, Evidence, Look, Looks, Source};
use lazyguard_core::late::{asked_for, pause, Others, Statement};
use lazyguard_core::report::{HangReport, WATCHES_COLLECTIVES};
use lazyguard_core::state::{PublishedCall, ThreadSlot};
use lazyguard_core::Nanos;
use std::sync::atomic::Ordering;

const MOST_THREADS: usize = 64;

fn of_process(guard: &Guard) -> Statement {
    let rank = guard.tracker.communicators().rank(&guard.rank);
    Statement::of(&Source::machine(), rank, run_folder::host_name(), guard.id)
}

#[derive(Default)]
pub(super) struct Peers {
    others: Others,
    own: Option<Statement>,
    next: Nanos,
    /// No rank is late any more, or the most is over.
    are_over: bool,
}

impl Peers {
    /// Asks where the process waits for its peers. While one of them moves, or may not have answered yet, that wait is slow.
    pub fn ask(&mut self, guard: &'static Guard, mut report: HangReport, awake_since: Nanos) -> HangReport {
        let belongs = guard.statements.is_some() && guard.marker.as_ref().is_some_and(Marker::has_begun);
        if !belongs || report.status == Status::Well || !waits_for_ranks(&report.snapshot) {
            return report;
        }
        if self.own.is_none() {
            self.own = Some(of_process(guard));
            self.others.ask(guard.now());
            self.ask_again(guard, guard.now());
        }
        let ranks = self.late(guard, awake_since);
        report.snapshot.standing = self.standing(guard);
        report.snapshot.late = ranks.map(|ranks| LateSeen { most_nanos: guard.settings.max_late_nanos, ranks });
        report.diagnosed_anew()
    }

    /// Repeats the question while the wait lasts, and reads the answers. A snapshot may cost too much to be taken as often.
    /// Returns whether it has.
    pub fn ask_again(&mut self, guard: &Guard, now: Nanos) -> bool {
        let Some(own) = self.own.as_mut().filter(|_| now >= self.next) else { return false };
        let Some((marker, statements)) = guard.marker.as_ref().zip(guard.statements.as_ref()) else { return false };
        self.next = now + self.others.asks_again_in(now, guard.settings.hang_after_nanos);
        statements.waits.store(true, Ordering::Relaxed);
        own.waits();
        statements.write(own);
        marker.ask(guard.id, &guard.rank);
        self.others.lacks(lacked(&Source::machine()));
        statements.others().into_iter().for_each(|(file, says)| self.others.hear(&file, says, now));
        true
    }

    fn late(&self, guard: &Guard, awake_since: Nanos) -> Option<Vec<LateRank>> {
        self.others.late(guard.now(), guard.settings.hang_after_nanos, awake_since)
    }

    fn standing(&self, guard: &Guard) -> Vec<LateRank> {
        self.others.standing(guard.now(), guard.settings.hang_after_nanos)
    }

    /// Whether that wait is no longer one for late ranks; once.
    pub fn are_over(&mut self, guard: &Guard, since: Nanos, awake_since: Nanos) -> bool {
        let lasted = guard.now().saturating_sub(since.max(awake_since));
        let are_over = self.late(guard, awake_since).is_none() || lasted >= guard.settings.max_late_nanos;
        let were_over = std::mem::replace(&mut self.are_over, are_over);
        are_over && !were_over
    }

    /// Takes what the other ranks do into the report of a slow wait. Whether it names one that it did not name; `None` where nothing is new.
    pub fn name_in(&self, told: &mut HangReport, guard: &Guard, awake_since: Nanos) -> Option<bool> {
        let seen = told.snapshot.late.as_mut().filter(|_| told.status == Status::Slow)?;
        let (ranks, standing) = (self.late(guard, awake_since)?, self.standing(guard));
        let all: Vec<_> = ranks.iter().chain(&standing).collect();
        let before: Vec<_> = seen.ranks.iter().chain(&told.snapshot.standing).collect();
        let same = |one: &LateRank, other: &LateRank| (&one.host, one.process) == (&other.host, other.process);
        let says_same = |(one, other): (&&LateRank, &&LateRank)| {
            same(one, other) && one.class == other.class && (one.stood_nanos == 0) == (other.stood_nanos == 0)
        };
        if all.is_empty() || all.len() == before.len() && all.iter().zip(&before).all(says_same) {
            return None;
        }
        let is_new = !all.iter().all(|one| before.iter().any(|other| same(one, other)));
        (seen.ranks, told.snapshot.standing) = (ranks, standing);
        told.slow = diagnose(&told.snapshot).slow;
        Some(is_new)
    }

    /// The wait is over.
    pub fn over(&mut self, guard: &Guard) {
        if self.own.is_some() {
            *self = Self::default();
            guard.statements.iter().for_each(Statements::end_of_a_wait);
        }
    }
}

/// Looks at its own process while a rank of the job asks.
#[derive(Default)]
pub struct Speaker {
    asked_until: Nanos,
    looks: Looks,
    /// The earliest time of the next look.
    next: Nanos,
    calls: u64,
    says: Option<Statement>,
    words: Words,
    /// When the driver call was entered that a thread is in, and whether that waits for peers.
    waits_in: Option<(Nanos, bool)>,
}

/// The reason why the process stands, with the paths and the Python frames that lie in its memory.
#[derive(Default)]
struct Words {
    looking: Option<Looking>,
    found: Option<Evidence>,
    begun: Nanos,
    /// A thread was left behind in the memory: no other starts.
    left: bool,
}

/// A process that stands and moves by turns is looked into again after this time.
const LOOKS_INTO_EVERY: Nanos = 5_000_000_000;

impl Speaker {
    /// `asks`: a rank has asked since the last round. `leave` gives the thread descriptors of its own.
    pub fn round(&mut self, guard: &'static Guard, asks: bool, leave: impl FnOnce()) {
        let Some(statements) = &guard.statements else { return };
        let (now, threshold) = (guard.now(), guard.settings.hang_after_nanos);
        if asks {
            self.asked_until = now + asked_for(threshold);
        }
        if self.asked_until == 0 {
            return;
        }
        let waits = statements.waits.load(Ordering::Relaxed);
        if waits || now >= self.asked_until {
            // The watchdog says that it waits; else no rank does any more.
            if !waits {
                statements.remove();
            }
            let words = Words { left: self.words.left, ..Words::default() };
            *self = Self { asked_until: if waits { self.asked_until } else { 0 }, words, ..Self::default() };
            return;
        }
        if now < self.next {
            return;
        }
        leave();
        let threads = threads(guard);
        self.words.begin(&threads, now, pause(threshold, 0));
        let look = Look::take(&Source::machine(), guard.id, &threads, Depth::Kernel);
        let at = guard.now();
        self.next = at + pause(threshold, at.saturating_sub(now));
        let (then, submitted) = (self.looks.newest(), std::mem::replace(&mut self.calls, calls(guard)) != self.calls);
        let (Some((evidence, between)), Some(then)) = (self.looks.add(look, at), then) else { return };
        let moves = evidence.moves || submitted;
        let (evidence, is_whole) = self.words.of(evidence, moves, at);
        let tells_more = |call: &PublishedCall| call.thread == guard.id || evidence.class == Class::Waits;
        let call = call_since(guard, then).filter(|call| !moves && tells_more(call)).map(|call| call.record);
        let waits = match &call {
            // A snapshot for each call is enough.
            Some(call) => self.waits_in.filter(|(known, _)| *known == call.entered).map(|(_, waits)| waits),
            None => (!moves).then_some(false),
        };
        let waits = waits.unwrap_or_else(|| waits_since(guard, then));
        self.waits_in = call.as_ref().map(|call| (call.entered, waits));
        let says = self.says.get_or_insert_with(|| of_process(guard));
        match call {
            _ if waits => says.waits(),
            Some(call) => {
                let sentence = format!("is in {}", call.entry_point.symbol());
                says.looked(&Evidence { class: Class::Waits, sentence, ..evidence }, false, between);
            }
            _ => says.looked(&evidence, submitted, between),
        }
        // The watchdog may have found meanwhile that it waits.
        if is_whole && !statements.waits.load(Ordering::Relaxed) {
            statements.write(says);
        }
    }
}

impl Words {
    fn begin(&mut self, threads: &[u32], now: Nanos, apart: Nanos) {
        let is_due = self.begun == 0 || now >= self.begun + LOOKS_INTO_EVERY;
        if is_due && !self.left && self.looking.is_none() && self.found.is_none() {
            self.looking = Some(Looking::begin(threads.to_vec(), apart, Depth::Memory));
            self.begun = now;
        }
    }

    /// The process's activity, with these words where it stands; and whether they are all that there are to come.
    fn of(&mut self, seen: Evidence, moves: bool, now: Nanos) -> (Evidence, bool) {
        match self.looking.as_ref().map(|looking| looking.answer(now)) {
            Some(Answer::Is { evidence, left }) => {
                self.left |= left;
                (self.looking, self.found) = (None, Some(evidence));
            }
            Some(Answer::None) => self.looking = None,
            Some(Answer::Later) | None => {}
        }
        if moves {
            self.found = None;
            return (seen, true);
        }
        match &self.found {
            Some(found) if !found.moves => {
                let Evidence { class, sentence, python, .. } = found.clone();
                (Evidence { class, sentence, python, ..seen }, true)
            }
            _ => (seen, self.looking.is_none()),
        }
    }
}

/// The driver call that a thread has been in since then, the main thread's if there are several.
fn call_since(guard: &Guard, then: Nanos) -> Option<PublishedCall> {
    let calls = guard.tracker.threads().filter_map(|(_, slot)| slot.published());
    calls.filter(|call| call.record.entered <= then).max_by_key(|call| call.thread == guard.id)
}

/// The main thread, and those that submit; PyTorch's own poll.
fn threads(guard: &Guard) -> Vec<u32> {
    let submits = guard.tracker.threads().filter(|(_, slot)| slot.in_use() && slot.counts().1 > 0);
    let submits = submits.map(|(_, slot)| slot.thread()).filter(|thread| *thread != guard.id);
    let counts = submits.filter(|thread| !thread::name(*thread).starts_with(WATCHES_COLLECTIVES));
    std::iter::once(guard.id).chain(counts.take(MOST_THREADS)).collect()
}

/// How many calls the threads have made, but those that watch collectives or poll.
fn calls(guard: &Guard) -> u64 {
    let polls = |slot: &ThreadSlot| slot.asking().is_some_and(|asked| asked.is_poll(guard.settings.hang_after_nanos));
    let in_use = guard.tracker.threads().map(|(_, slot)| slot).filter(|slot| slot.in_use());
    let left_out = in_use.filter(|slot| polls(slot) || thread::name(slot.thread()).starts_with(WATCHES_COLLECTIVES));
    let left_out: u64 = left_out.map(|slot| slot.counts().0).sum();
    guard.tracker.counts().0.wrapping_sub(left_out)
}

/// Whether a call that was entered before then waits for peers: the process computes in that wait.
fn waits_since(guard: &'static Guard, then: Nanos) -> bool {
    let is_old = |entered: Nanos| entered <= then;
    let mut slots = guard.tracker.threads().map(|(_, slot)| slot).filter(|slot| slot.in_use());
    let is_in_a_call = slots.any(|slot| {
        slot.published().is_some_and(|call| is_old(call.record.entered))
            || slot.in_nccl().is_some_and(|(.., entered)| is_old(entered))
            || slot.asking().is_some_and(|asked| is_old(asked.since))
    });
    let threshold = guard.now().saturating_sub(then).max(1);
    is_in_a_call && what_is_known(guard, threshold, 0).is_some_and(|report| waits_for_ranks(&report.snapshot))
}
