//! The schedules that a run of `lazyguard explore` tries, by the calls that earlier runs made.
//!
//! | schedule | holds |
//! |---|---|
//! | aim | a hazard's call until the other operation has come, and what could end that behind the call |
//! | turn | one call until another thread's has come that came later; the more either waits for or blocks, the more likely it is drawn |
//! | priorities | every call until those of threads of higher priority have come. Priorities are random, and at d-1 random calls the thread that makes it gets the lowest |
//!
//! The last is probabilistic concurrency testing (Burckhardt and others, ASPLOS 2010): with n threads and k calls, one schedule finds a
//! hang that needs d orders with a probability of at least 1/(n k^(d-1)), as far as no hold is cut short by its bound.
//!
//! Must not: draw another schedule for the same seed, number and calls.

use super::schedule::{CallName, Hold, Point, Points};
use lazyguard_core::api::Class;
use lazyguard_core::Nanos;
use std::collections::BTreeSet;

/// Numbers from a seed (SplitMix64).
pub(super) struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    /// One of them, with a probability by its weight.
    fn pick<'a, T>(&mut self, of: &'a [(u64, T)]) -> Option<&'a T> {
        let mut left = self.below(of.iter().map(|(weight, _)| weight).sum());
        let at = of.iter().position(|(weight, _)| {
            let is_it = left < *weight;
            left = left.saturating_sub(*weight);
            is_it
        });
        at.map(|at| &of[at].1)
    }
}

pub(super) fn draw(run: u64, ranks: &[Points], budget: Nanos, random: &mut Random) -> Vec<Hold> {
    match run % 4 {
        0 => ranks.iter().flat_map(|points| priorities(points, budget, random)).collect(),
        2 if ranks.len() > 1 => late(ranks, budget, random),
        _ => turn(ranks, budget, random),
    }
}

pub(super) fn hold(points: &Points, call: &Point, until: Option<&Point>, most: Nanos) -> Hold {
    Hold { rank: points.rank.clone(), call: call.call.clone(), until: until.map(|until| until.call.clone()), most }
}

/// How much the order of a call matters: it waits, lets others wait, or is waited for.
fn weight(call: &CallName) -> u64 {
    let Some(class) = call.class() else { return 1 };
    match class {
        Class::WaitValue | Class::WriteValue | Class::BatchMemOp | Class::HostFunction | Class::GraphLaunch => 8,
        Class::Launch | Class::FunctionLoad => 8,
        Class::Collective | Class::PointToPoint | Class::CollectiveGroup => 8,
        Class::StreamWaitEvent | Class::EventRecord => 3,
        _ if class.needs_an_idle_context() || class.waits_on_default_stream() || class.synchronizes() => 8,
        _ => 1,
    }
}

/// The calls of other threads behind a call that it may be held for: the further, the longer it takes.
const MOST_LATER: usize = 64;

/// Pairs of calls of different threads in the order in which they came, with their weights.
fn pairs(points: &Points) -> Vec<(u64, (&Point, &Point))> {
    let calls = &points.calls;
    let weights: Vec<_> = calls.iter().map(|point| weight(&point.call)).collect();
    let mut pairs = Vec::new();
    let mut begun = BTreeSet::new();
    for (n, early) in calls.iter().enumerate() {
        begun.insert(early.thread);
        let later = calls.iter().enumerate().skip(n + 1).filter(|(_, late)| late.thread != early.thread);
        for (m, late) in later.take(MOST_LATER) {
            // A thread that has not begun was perhaps begun by the other one, later.
            let factor = if begun.contains(&late.thread) { 8 } else { 1 };
            let weight = weights[n] * weights[m] * factor;
            pairs.push((weight, (early, late)));
        }
    }
    pairs
}

/// One call is held until a later one has come; of several ranks, in some.
fn turn(ranks: &[Points], budget: Nanos, random: &mut Random) -> Vec<Hold> {
    let all: Vec<_> = ranks.iter().flat_map(pairs).collect();
    let Some(&(early, late)) = random.pick(&all) else { return Vec::new() };
    let makes_both = |points: &&Points| [early, late].iter().all(|one| points.find(&one.call).is_some());
    let able: Vec<_> = ranks.iter().filter(makes_both).collect();
    let chosen = random.below(able.len() as u64);
    let mut is_chosen = |n: usize| n as u64 == chosen || able.len() > 2 && random.below(4) == 0;
    let chosen: Vec<_> = able.iter().enumerate().filter(|(n, _)| is_chosen(*n)).collect();
    chosen.into_iter().map(|(_, points)| hold(points, early, Some(late), budget)).collect()
}

/// Calls of a rank come late, whatever others do.
fn late(ranks: &[Points], budget: Nanos, random: &mut Random) -> Vec<Hold> {
    let of = &ranks[random.below(ranks.len() as u64) as usize];
    let weighted: Vec<_> = of.calls.iter().map(|point| (weight(&point.call), point)).collect();
    random.pick(&weighted).map(|point| hold(of, point, None, budget)).into_iter().collect()
}

fn priorities(points: &Points, budget: Nanos, random: &mut Random) -> Vec<Hold> {
    let threads = points.threads();
    let calls_of = |&thread: &u32| points.calls.iter().filter(move |point| point.thread == thread).collect();
    let calls: Vec<Vec<&Point>> = threads.iter().map(calls_of).collect();
    // A thread was perhaps begun by what the first one called before.
    let begins = |of: &Vec<&Point>| calls[0].iter().filter(|point| of[0].at > point.at).count();
    let begins: Vec<usize> = calls.iter().map(begins).collect();
    let mut made = vec![0; threads.len()];
    let mut order: Vec<(u64, usize)> = (0..threads.len()).map(|n| (random.next() | 1 << 63, n)).collect();
    let changes: Vec<u64> = (0..random.below(3)).map(|_| random.below(points.calls.len() as u64)).collect();
    let (mut holds, mut last) = (Vec::new(), None::<&Point>);
    for number in 0..points.calls.len() as u64 {
        order.sort_unstable_by(|a, b| b.cmp(a));
        let runs = |&(_, n): &(u64, usize)| made[n] < calls[n].len() && (made[n] > 0 || made[0] >= begins[n]);
        let Some(at) = order.iter().position(runs) else { break };
        let thread = order[at].1;
        let next = calls[thread][made[thread]];
        made[thread] += 1;
        if let Some(last) = last.filter(|last| last.thread != next.thread) {
            holds.push(hold(points, next, Some(last), budget / 2));
        }
        last = Some(next);
        if changes.contains(&number) {
            order[at].0 = number;
        }
    }
    holds
}

/// The schedule in which a hazard's call meets what it met at `other_at`, and nothing that came behind that has come yet.
pub(super) fn aim(points: &Points, thread: u32, [at, other_at]: [Nanos; 2], budget: Nanos) -> Vec<Hold> {
    let before = |time: Nanos, point: &&Point| point.at <= time;
    let call = points.calls.iter().filter(|point| point.thread == thread).rfind(|point| before(at, point));
    let Some(call) = call else { return Vec::new() };
    let other = points.calls.iter().rfind(|point| other_at != 0 && before(other_at, point));
    let mut holds = Vec::new();
    if let Some(other) = other.filter(|other| other.thread != thread) {
        holds.push(hold(points, call, Some(other), budget));
    }
    for other_thread in points.threads().into_iter().filter(|other| *other != thread) {
        let next = points.calls.iter().find(|point| point.thread == other_thread && point.at > other_at.max(1));
        holds.extend(next.map(|next| hold(points, next, Some(call), budget)));
    }
    holds
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points() -> Points {
        let point = |at: u64, thread, name: &str| Point {
            came: at,
            at,
            thread,
            call: CallName(format!("{name}@{at:03x}%t{thread}#1")),
            held: false,
        };
        let calls = vec![
            point(10, 1, "cuModuleLoadData"),
            point(20, 2, "cuEventRecord"),
            point(30, 2, "cuMemFree"),
            point(40, 1, "cuStreamWaitValue32"),
            point(50, 1, "cuStreamSynchronize"),
        ];
        Points { calls, ..Points::default() }
    }

    fn drawn(seed: u64) -> Vec<Vec<Hold>> {
        (1..=30).map(|run| draw(run, &[points()], 100, &mut Random(seed ^ run << 8))).collect()
    }

    #[test]
    fn the_same_seed_draws_the_same_schedules_and_others_draw_others() {
        assert_eq!(drawn(7), drawn(7));
        assert_ne!(drawn(7), drawn(8));
    }

    #[test]
    fn thirty_runs_of_any_seed_have_the_one_order_that_matters() {
        let held = |holds: &Vec<Hold>| {
            let of = |hold: &&Hold| hold.call.function() == "cuMemFree" && hold.rank.is_empty();
            let until = |hold: &Hold| hold.until.as_ref().is_some_and(|until| until.function() != "cuModuleLoadData");
            holds.iter().find(of).is_some_and(until)
        };
        for seed in 0..200 {
            assert!(drawn(seed).iter().any(held), "{seed}");
        }
    }

    #[test]
    fn ranks_are_held_apart() {
        let ranks: Vec<_> = (0..3).map(|n| Points { rank: n.to_string(), ..points() }).collect();
        let drawn: Vec<_> = (1..=8).map(|run| draw(run, &ranks, 100, &mut Random(run))).collect();
        assert!(drawn.iter().flatten().all(|hold| ["0", "1", "2"].contains(&hold.rank.as_str())));
        assert!(drawn.iter().any(|holds| holds.len() == 1 && holds[0].until.is_none()), "a late call: {drawn:?}");
    }

    #[test]
    fn a_hazard_is_aimed_at_by_holding_what_came_behind_its_other_operation() {
        let holds = aim(&points(), 2, [31, 0], 100);
        let said: Vec<_> =
            holds.iter().map(|hold| (hold.call.function(), hold.until.as_ref().unwrap().function())).collect();
        assert_eq!(said, [("cuModuleLoadData", "cuMemFree")]);
        let holds = aim(&points(), 1, [51, 21], 100);
        let said: Vec<_> =
            holds.iter().map(|hold| (hold.call.function(), hold.until.as_ref().unwrap().function())).collect();
        assert_eq!(said, [("cuStreamSynchronize", "cuEventRecord"), ("cuMemFree", "cuStreamSynchronize")]);
    }
}
