//! Sweeps once through time with all that is open at each moment: what the time went into, and when the last event of the start ended.
//!
//! Must not: keep what has ended.

use super::part::Part;
use lazyguard_core::Nanos;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A start is over when the program does nothing that belongs to it for this long.
const QUIET_NANOS: Nanos = 1_000_000_000;
const QUIET_TO_THE_END_NANOS: Nanos = 20_000_000;
/// The program must also make this many submissions meanwhile: a program that does nothing is not steady.
const QUIET_SUBMISSIONS: u64 = 20;

pub(super) type Spent = [Nanos; Part::COUNT];

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

/// A time after which no event of a start has come so far.
#[derive(Clone, Copy, Default)]
pub struct Reached {
    at: Nanos,
    spent: Spent,
    submissions: u64,
}

#[derive(Default)]
pub(super) struct Sweep {
    now: Nanos,
    open: [u32; Part::COUNT],
    ends: BinaryHeap<Reverse<(Nanos, Part, bool)>>,
    of_start: u32,
    spent: Spent,
    since: Reached,
    pub steady: Option<Reached>,
    /// Records of submissions are missing, so that their number says nothing.
    missing: bool,
    begun: bool,
}

impl Sweep {
    /// If records of submissions are missing, a load before the quiet time replaces their count.
    pub fn new(missing: bool) -> Self {
        Self { missing, ..Self::default() }
    }

    /// An event from `begin` to `end`. Events come in the order of their beginnings; one that began earlier counts from now.
    pub fn goes_on(&mut self, begin: Nanos, end: Nanos, part: Part, of_start: bool) {
        if self.steady.is_some() {
            return;
        }
        self.advance(begin);
        if of_start {
            if self.is_quiet(begin, QUIET_NANOS) {
                self.steady = Some(self.since);
                return;
            }
            self.of_start += 1;
            self.begun |= part > Part::Context || part == Part::Preload;
        }
        self.open[part as usize] += 1;
        self.ends.push(Reverse((end.max(begin), part, of_start)));
    }

    pub fn submits(&mut self) {
        self.since.submissions += u64::from(self.of_start == 0);
    }

    pub fn finish(mut self, end: Nanos) -> (SteadyState, Spent) {
        if self.steady.is_none() {
            self.advance(end);
            self.steady = self.is_quiet(end, QUIET_TO_THE_END_NANOS).then_some(self.since);
        }
        let now = Reached { at: self.now, spent: self.spent, submissions: self.since.submissions };
        let Reached { at, spent, submissions } = self.steady.unwrap_or(now);
        let steady = SteadyState {
            reached: self.steady.is_some(),
            until_ns: at,
            last_of_start_ns: (self.of_start == 0).then_some(self.since.at),
            submissions_after: submissions,
            definition: format!(
                "from the end of the last load, compilation, context creation, first launch of a kernel or slow allocation on, \
                 where none follows for {} s, or for the rest of the run and at least {} ms, and {QUIET_SUBMISSIONS} operations or \
                 more are submitted meanwhile",
                QUIET_NANOS / 1_000_000_000,
                QUIET_TO_THE_END_NANOS / 1_000_000,
            ),
        };
        (steady, spent)
    }

    fn is_quiet(&self, until: Nanos, long: Nanos) -> bool {
        self.of_start == 0
            && until.saturating_sub(self.since.at) >= long
            && (self.since.submissions >= QUIET_SUBMISSIONS || self.missing && self.begun)
    }

    fn advance(&mut self, to: Nanos) {
        while let Some(&Reverse((end, part, of_start))) = self.ends.peek() {
            if end > to {
                break;
            }
            self.ends.pop();
            self.pass(end);
            self.open[part as usize] -= 1;
            if of_start {
                self.of_start -= 1;
                if self.of_start == 0 {
                    self.since = Reached { at: self.now, spent: self.spent, submissions: 0 };
                }
            }
        }
        self.pass(to);
    }

    /// Time passes, and counts for the first part that is open.
    fn pass(&mut self, to: Nanos) {
        let part = self.open.iter().position(|&open| open > 0).unwrap_or(Part::Host as usize);
        self.spent[part] += to.saturating_sub(self.now);
        self.now = self.now.max(to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    /// Begin, end, part, whether of the start; then the end of the recording, submissions that are quick and evenly spread, and
    /// when the steady state is reached.
    fn check(what: &[(Nanos, Nanos, Part, bool)], end: Nanos, each: Nanos, expect: Option<Nanos>) -> Spent {
        let mut all: Vec<_> = what.to_vec();
        all.extend(
            (0..end / MS)
                .step_by((each / MS).max(1) as usize)
                .map(|at| (at * MS, at * MS + 5, Part::Submissions, false)),
        );
        all.sort_by_key(|one| one.0);
        let mut sweep = Sweep::new(false);
        for (begin, end, part, of_start) in all {
            sweep.goes_on(begin, end, part, of_start);
            if part == Part::Submissions {
                sweep.submits();
            }
        }
        let (steady, spent) = sweep.finish(end);
        assert_eq!(spent.iter().sum::<Nanos>(), steady.until_ns, "the parts are the whole: {spent:?}");
        assert_eq!(steady.reached.then_some(steady.until_ns), expect);
        assert!(steady.reached || steady.until_ns == end);
        spent
    }

    #[test]
    fn the_steady_state_begins_where_the_last_of_the_start_ends() {
        let spent = check(
            &[(5 * MS, 15 * MS, Part::Modules, true), (15 * MS, 40 * MS, Part::Waits, false)],
            60 * MS,
            MS,
            Some(15 * MS),
        );
        assert_eq!(spent[Part::Modules as usize], 10 * MS);
        assert_eq!(spent[Part::Waits as usize], 0, "what comes after the start is not of it");
    }

    #[test]
    fn of_what_goes_on_at_a_time_the_first_part_counts() {
        let spent = check(
            &[
                (0, 30 * MS, Part::Waits, false),
                (10 * MS, 20 * MS, Part::Modules, true),
                (12 * MS, 14 * MS, Part::Preload, true),
                (15 * MS, 25 * MS, Part::Modules, true),
            ],
            100 * MS,
            200 * MS,
            None,
        );
        assert_eq!(spent[Part::Preload as usize], 2 * MS);
        assert_eq!(spent[Part::Modules as usize], 13 * MS);
        assert_eq!(spent[Part::Waits as usize], 15 * MS - 5);
        assert_eq!(spent[Part::Host as usize], 70 * MS);
    }

    #[test]
    fn one_load_long_after_does_not_move_the_steady_state() {
        let late = 3000 * MS;
        check(&[(0, MS, Part::Modules, true), (late, late + MS, Part::Modules, true)], 4000 * MS, MS, Some(MS));
        // Shorter than that the program was not quiet in between.
        let late = 900 * MS;
        check(&[(0, MS, Part::Modules, true), (late, late + MS, Part::Modules, true)], 4000 * MS, MS, Some(late + MS));
    }

    #[test]
    fn a_run_that_ends_too_soon_or_does_nothing_does_not_reach_it() {
        check(&[(0, 10 * MS, Part::Modules, true)], 29 * MS, MS, None);
        check(&[(0, 10 * MS, Part::Modules, true)], 31 * MS, MS, Some(10 * MS));
        check(&[(0, 10 * MS, Part::Modules, true)], 5000 * MS, 1000 * MS, None);
        check(&[(0, 10 * MS, Part::Modules, true), (50 * MS, Nanos::MAX, Part::Compile, true)], 5000 * MS, MS, None);
    }

    #[test]
    fn where_submissions_are_missing_a_load_has_to_be_seen_first() {
        let reached = |part| {
            let mut sweep = Sweep::new(true);
            sweep.goes_on(0, 10 * MS, part, true);
            let (steady, _) = sweep.finish(5000 * MS);
            steady.reached.then_some(steady.until_ns)
        };
        assert_eq!((reached(Part::Arming), reached(Part::Functions)), (None, Some(10 * MS)));
    }

    #[test]
    fn what_is_shown_late_begins_now_and_the_parts_still_are_the_whole() {
        let mut sweep = Sweep::new(true);
        sweep.goes_on(10, 50, Part::Context, true);
        sweep.goes_on(30, 40, Part::Calls, false);
        sweep.goes_on(20, 90, Part::Waits, false);
        let (steady, spent) = sweep.finish(100);
        assert_eq!((spent.iter().sum::<Nanos>(), steady.reached, steady.last_of_start_ns), (100, false, Some(50)));
        assert_eq!(spent[Part::Waits as usize], 40);
    }
}
