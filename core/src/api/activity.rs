//! The activity of a thread outside driver calls.

use crate::Nanos;
use serde::{Deserialize, Serialize};

/// A thread's processor time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComputeTime {
    /// Its time on a processor or runnable.
    pub nanos: Nanos,
    /// The time span.
    pub within_nanos: Nanos,
    /// Whether it, and the driver's threads, faulted no page and it had no child in that span: no compiler computes so.
    #[serde(default)]
    pub alone: bool,
}

impl ComputeTime {
    pub fn is_most(self) -> bool {
        self.nanos >= self.within_nanos / 2
    }

    pub fn percent(self) -> u64 {
        (self.nanos.saturating_mul(100) / self.within_nanos.max(1)).min(100)
    }
}

/// Queries that all answered "not ready".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// How many.
    pub times: u64,
    /// When the first was made.
    pub since: Nanos,
    /// When the newest was answered.
    pub last: Nanos,
}

impl Asked {
    pub fn and(self, later: Self) -> Self {
        Self { times: self.times.saturating_add(later.times), since: self.since, last: self.last.max(later.last) }
    }

    /// How long a poll has no query until it is over.
    pub fn pause(threshold: Nanos) -> Nanos {
        threshold.max(1_000_000_000)
    }

    /// Whether they are so frequent that such a pause is their end.
    pub fn is_poll(&self, threshold: Nanos) -> bool {
        self.times > 1 && self.last.saturating_sub(self.since) / (self.times - 1) <= Self::pause(threshold) / 2
    }
}

/// The activity of a thread outside driver calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ThreadActivity {
    /// Running.
    Running,
    /// For a time.
    Sleeping,
    /// For input, output or a time.
    Expecting,
    /// For another thread, without limit.
    Waiting,
}

impl ThreadActivity {
    /// In the order of their numbers in recordings.
    const ALL: [Self; 4] = [Self::Running, Self::Sleeping, Self::Expecting, Self::Waiting];

    pub fn number(self) -> u64 {
        Self::ALL.iter().position(|&d| d == self).map_or(0, |n| n as u64 + 1)
    }

    pub fn from_number(number: u64) -> Option<Self> {
        Self::ALL.get(usize::try_from(number.checked_sub(1)?).ok()?).copied()
    }

    /// Whether the thread is runnable, or becomes so without another thread.
    pub fn goes_on(self) -> bool {
        self != Self::Waiting
    }

    pub fn words(self) -> &'static str {
        match self {
            Self::Running => "is running",
            Self::Sleeping => "is sleeping for a time",
            Self::Expecting => "is waiting for input or a time",
            Self::Waiting => "is waiting for another thread",
        }
    }
}
