//! Finds the launch of a graph that a call of a host function belongs to. The driver does not say: the calls seen use up the launches, oldest first.
//!
//! Must not: count calls where records of launches or calls have been overwritten.

use crate::map::HashMap;
use crate::Nanos;
use std::collections::VecDeque;

/// With more launches that have not made their calls, none is known.
const MOST_LAUNCHES: usize = 1 << 16;

pub(super) type Launch = (u32, Nanos);

/// By host function: the launches with calls left, the oldest first, and how many.
#[derive(Default)]
pub(super) struct GraphCalls {
    left: HashMap<u64, VecDeque<(Launch, u32)>>,
    launches: usize,
}

impl GraphCalls {
    pub(super) fn launched(&mut self, function: u64, launch: Launch, calls: u32) {
        if self.launches >= MOST_LAUNCHES {
            self.left.clear();
            return;
        }
        self.launches += 1;
        self.left.entry(function).or_default().push_back((launch, calls));
    }

    pub(super) fn called(&mut self, function: u64, at: Nanos) -> Option<Launch> {
        let left = self.left.get_mut(&function)?;
        let (launch, calls) = left.front_mut().filter(|(launch, _)| launch.1 <= at)?;
        let made_by = *launch;
        *calls = calls.saturating_sub(1);
        if *calls == 0 {
            left.pop_front();
            self.launches -= 1;
        }
        Some(made_by)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_use_up_the_launches_the_oldest_first() {
        let mut calls = GraphCalls::default();
        assert_eq!(calls.called(0xf, 5), None);
        calls.launched(0xf, (1, 10), 2);
        calls.launched(0xf, (2, 20), 1);
        calls.launched(0xe, (3, 5), 1);
        assert_eq!(calls.called(0xf, 9), None, "before any launch");
        let made_by: Vec<_> = [15, 16, 25, 26].into_iter().map(|at| calls.called(0xf, at)).collect();
        assert_eq!(made_by, [Some((1, 10)), Some((1, 10)), Some((2, 20)), None]);
        assert_eq!(calls.called(0xe, 30), Some((3, 5)));
    }

    #[test]
    fn launches_that_have_made_their_calls_are_none_of_those_that_are_too_many() {
        let mut calls = GraphCalls::default();
        for at in 0..=2 * MOST_LAUNCHES as u64 {
            calls.launched(0xf, (1, at), 1);
            assert_eq!(calls.called(0xf, Nanos::MAX), Some((1, at)));
        }
    }

    #[test]
    fn of_too_many_launches_without_calls_none_is_known() {
        let mut calls = GraphCalls::default();
        (0..=MOST_LAUNCHES as u64).for_each(|at| calls.launched(0xf, (1, at), 1));
        assert_eq!(calls.called(0xf, Nanos::MAX), None);
        // And none from then on: the calls of the former ones are still to come.
        calls.launched(0xf, (1, 1), 1);
        assert_eq!(calls.called(0xf, Nanos::MAX), None);
    }
}
