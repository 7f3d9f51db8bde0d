//! Streams and their submissions.

use crate::Nanos;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::fmt;

/// A stream's kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StreamKind {
    /// Synchronizes with the legacy default stream.
    #[serde(rename = "blocking")]
    Blocking,
    /// Created with `CU_STREAM_NON_BLOCKING`.
    #[serde(rename = "non-blocking")]
    NonBlocking,
    /// A context's legacy default stream.
    #[serde(rename = "legacy default")]
    Legacy,
    /// A thread's default stream.
    #[serde(rename = "per-thread default")]
    PerThread,
    /// Its creation was not seen.
    #[serde(rename = "unknown", other)]
    Unknown,
}

impl StreamKind {
    /// In the order of their numbers in recordings.
    const ALL: [Self; 5] = [Self::Unknown, Self::Blocking, Self::NonBlocking, Self::Legacy, Self::PerThread];

    pub fn number(self) -> u64 {
        Self::ALL.iter().position(|&k| k == self).unwrap_or(0) as u64
    }

    pub fn from_number(number: u64) -> Self {
        usize::try_from(number).ok().and_then(|n| Self::ALL.get(n).copied()).unwrap_or(Self::Unknown)
    }
}

impl fmt::Display for StreamKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(out)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operation {
    pub at: Nanos,
    pub entry_point: u16,
    pub function: u32,
}

/// A stream's submissions, without the list of the newest ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Submissions {
    pub count: u64,
    /// How many of them, the first ones, are known to have ended.
    pub ended: u64,
    /// When the newest submitting call was entered or, if it has returned, returned.
    pub last: Nanos,
    /// The first one since the stream was last known to be idle.
    pub first_since_idle: Operation,
}

impl Submissions {
    /// Takes in an operation, perhaps after later ones. Its call returned, or was entered and is in progress, at `returned`. Everything
    /// submitted before `until` is complete.
    #[inline(always)]
    pub fn learn(&mut self, operation: Operation, returned: Nanos, until: Nanos) {
        if self.last <= until {
            self.first_since_idle = operation;
            self.ended = self.count;
        } else if returned <= until {
            self.ended = self.ended.saturating_add(1);
        } else if operation.at > until && operation.at < self.first_since_idle.at {
            self.first_since_idle = operation;
        }
        self.count = self.count.saturating_add(1);
        self.last = self.last.max(returned);
    }

    /// The same as [`Submissions::learn`] of each of `count` operations that the same thread submitted right after the last one.
    #[inline(always)]
    pub fn learn_later(&mut self, count: u64, returned: Nanos) {
        self.count = self.count.saturating_add(count);
        self.last = self.last.max(returned);
    }
}

/// The work of a stream, as far as it is known. `idle_until` is known of its whole context.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamWork {
    pub submissions: Submissions,
    /// Everything that was submitted before this is complete.
    pub complete_until: Nanos,
    /// The newest operations, the newest last.
    pub recent: VecDeque<Operation>,
}

impl StreamWork {
    /// As many newest operations as a recording's table has.
    pub const RECENT: usize = 32;

    /// See [`Submissions::learn`].
    pub fn learn(&mut self, operation: Operation, returned: Nanos, idle_until: Nanos) {
        self.submissions.learn(operation, returned, self.complete_until.max(idle_until));
        if self.recent.len() == Self::RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(operation);
    }

    pub fn busy(&self, idle_until: Nanos) -> bool {
        self.submissions.last > self.complete_until.max(idle_until)
    }

    pub fn oldest(&self, idle_until: Nanos) -> Option<Operation> {
        let (first, recent) = (self.submissions.first_since_idle, self.recent.iter().copied());
        self.busy(idle_until).then(|| oldest_outstanding(first, recent, self.complete_until.max(idle_until)))?
    }
}

/// The oldest operation after `until`; everything before that is complete.
///
/// `first` is the first one since the stream was last known to be idle, `recent` the newest ones in any order. If a synchronize overlapped
/// the last submission, the last one is outstanding.
pub fn oldest_outstanding(
    first: Operation,
    recent: impl Iterator<Item = Operation> + Clone,
    until: Nanos,
) -> Option<Operation> {
    if first.at > until {
        return Some(first);
    }
    recent.clone().filter(|op| op.at > until).min_by_key(|op| op.at).or_else(|| recent.max_by_key(|op| op.at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_submission_that_is_learnt_late_is_where_it_belongs() {
        let op = |at: Nanos| Operation { at, entry_point: 1, function: 0 };
        let none = Submissions { count: 4, ended: 0, last: 9, first_since_idle: op(1) };
        let learnt = |all: &[(Nanos, Nanos)], until: Nanos| {
            let mut of = none;
            all.iter().for_each(|&(at, returned)| of.learn(op(at), returned, until));
            (of.count, of.ended, of.last, of.first_since_idle.at)
        };
        assert_eq!(learnt(&[(11, 12)], 10), (5, 4, 12, 11), "the stream was idle");
        assert_eq!(learnt(&[(11, 12), (20, 21)], 10), (6, 4, 21, 11));
        assert_eq!(learnt(&[(20, 21), (11, 12)], 10), (6, 4, 21, 11), "another thread's, which was earlier");
        assert_eq!(learnt(&[(20, 21), (8, 10)], 10), (6, 5, 21, 20), "it has ended");
        assert_eq!(
            learnt(&[(20, 21), (8, 11)], 10),
            (6, 4, 21, 20),
            "it may be in flight, but nobody knows since when"
        );
        assert_eq!(learnt(&[(8, 10)], 10), (5, 4, 10, 8), "the stream is still idle: 10 is the last and the end");
    }

    #[test]
    fn operations_behind_one_that_is_not_complete_may_be_learnt_at_once() {
        let op = |at: Nanos| Operation { at, entry_point: 1, function: 0 };
        // All that differs in a fold: what was there before, and up to when everything is complete.
        for (ended, last, first, until) in
            [(0, 9, 1, 10), (2, 30, 12, 10), (2, 30, 25, 10), (0, 5, 5, 5), (0, 9, 1, 0), (1, 100, 40, 30)]
        {
            let known = Submissions { count: 4, ended, last, first_since_idle: op(first) };
            for from in [1, 8, 11, 29, 31, 50] {
                let all: Vec<_> = (0..6).map(|n| (from + n * 3, from + n * 3 + 2)).collect();
                let (mut each, mut at_once) = (known, known);
                all.iter().for_each(|&(at, returned)| each.learn(op(at), returned, until));
                let open = all.iter().position(|&(at, _)| at > until);
                let (one_by_one, later) = all.split_at(open.map_or(all.len(), |open| open + 1));
                one_by_one.iter().for_each(|&(at, returned)| at_once.learn(op(at), returned, until));
                later.last().into_iter().for_each(|last| at_once.learn_later(later.len() as u64, last.1));
                assert_eq!(at_once, each, "{known:?} until {until}, from {from}");
            }
        }
    }

    #[test]
    fn a_kind_is_written_as_a_report_names_it() {
        for kind in StreamKind::ALL {
            let json = serde_json::to_value(kind).unwrap();
            assert_eq!(json, kind.to_string());
            assert_eq!(serde_json::from_value::<StreamKind>(json).unwrap(), kind);
        }
        assert_eq!(serde_json::from_str::<StreamKind>("\"one to come\"").unwrap(), StreamKind::Unknown);
    }
}
