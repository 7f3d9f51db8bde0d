//! A process that has stopped: it submitted work regularly, does so no more, and nothing of it is in flight.
//!
//! [`Rhythm`] follows the submissions and says from when on a process counts as stopped; [`Outcome::of`] tells a stall from rest, by what the threads that
//! submitted wait for.
//!
//! Must not: look at a clock, or at the process.

use crate::evidence::{Class, Evidence, PythonFrame};
use crate::Nanos;
use serde::{Deserialize, Serialize};

/// Periods, each with a wait of the host, after which submissions count as regular.
const PERIODS: u32 = 20;
/// Without waits of the host, looks with submissions that span this time.
const LONG_NANOS: Nanos = 60_000_000_000;
/// A process has stopped after so many thresholds, and so many of its longest pauses.
const THRESHOLDS: u64 = 3;
const PAUSES: u64 = 10;
/// A process that computes has stopped where it shows the same for so many times as long.
const TIMES_AS_LONG: u64 = 10;
const MOST_FRAMES: usize = 8;

/// The submissions of a process, by looks at it a few times a second.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rhythm {
    /// The first and the newest submission; 0 before there is one.
    first: Nanos,
    newest: Nanos,
    /// The newest work that the host knows to have ended.
    ended: Nanos,
    /// Looks with a submission since the one before, and those with a wait of the host as well.
    looks: u32,
    periods: u32,
    longest_pause: Nanos,
}

impl Rhythm {
    /// Notes when the newest submission was made, and up to when work is known to have ended. Returns whether the process has submitted since the last look.
    pub fn look(&mut self, newest: Nanos, ended: Nanos, threshold: Nanos) -> bool {
        if newest <= self.newest {
            return false;
        }
        let pause = if self.newest == 0 { 0 } else { newest - self.newest };
        // A start with a long pause, as for the data behind the model, is no part of the rhythm.
        if self.first == 0 || !self.is_regular() && pause > self.allowed(threshold) {
            *self = Self { first: newest, newest, ended, ..Self::default() };
            return true;
        }
        self.longest_pause = self.longest_pause.max(pause);
        self.looks = self.looks.saturating_add(1);
        if ended > self.ended {
            self.periods = self.periods.saturating_add(1);
        }
        (self.newest, self.ended) = (newest, ended.max(self.ended));
        true
    }

    pub fn newest(&self) -> Nanos {
        self.newest
    }

    /// Whether the process has stopped: nothing was submitted for three thresholds and ten times its longest pause. `awake_since`: time before it was lost to
    /// all of its threads.
    pub fn has_stopped(&self, now: Nanos, awake_since: Nanos, threshold: Nanos) -> bool {
        self.is_regular() && now.saturating_sub(self.newest.max(awake_since)) >= self.allowed(threshold)
    }

    fn is_regular(&self) -> bool {
        self.periods >= PERIODS || self.looks >= PERIODS && self.newest - self.first >= LONG_NANOS
    }

    /// How long a process that goes on may submit nothing.
    pub fn allowed(&self, threshold: Nanos) -> Nanos {
        threshold.saturating_mul(THRESHOLDS).max(self.longest_pause.saturating_mul(PAUSES))
    }
}

/// A process that submits no more, as `hang.json` holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stall {
    /// When the newest submission was made.
    pub since: Nanos,
    /// The activity on the host of the threads that submitted.
    pub evidence: Evidence,
}

impl Stall {
    pub fn in_words(&self) -> String {
        format!("it {} (class {})", self.evidence.sentence, self.evidence.class)
    }

    /// The facts behind the first line of a report.
    pub fn lines(&self) -> Vec<String> {
        let Evidence { python, lacks, .. } = &self.evidence;
        let frame = |frame: &PythonFrame| format!("  at {} ({}:{})", frame.function, frame.file, frame.line);
        let lacks = lacks.iter().map(|lack| format!("  {lack}"));
        python.iter().take(MOST_FRAMES).map(frame).chain(lacks).collect()
    }
}

/// The kinds of a process that has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It waits for a request, a timer or a user: no line.
    Rests,
    /// It works on the host, and may go on.
    Slow,
    Stalled,
}

impl Outcome {
    /// `lasts`: how long nothing was submitted; `same_from`: for how long when the first of the looks that show the same began, or `None` at the first look.
    pub fn of(evidence: &Evidence, lasts: Nanos, same_from: Option<Nanos>) -> Self {
        let is_endless = same_from.is_some_and(|from| lasts >= from.saturating_mul(TIMES_AS_LONG));
        match evidence.class {
            // The process that looks is not stopped itself: a debugger has stopped threads of it.
            Class::Rests | Class::Stopped => Self::Rests,
            // Without its line, it is not known to be at the same.
            Class::Computes | Class::Collects if !is_endless || evidence.python.is_empty() => Self::Slow,
            Class::Compiles | Class::Ends if !is_endless => Self::Slow,
            Class::Child if evidence.moves && !is_endless => Self::Slow,
            Class::File | Class::Peer | Class::Starved if evidence.moves => Self::Slow,
            // It may rest, for all that is known.
            Class::Waits => Self::Slow,
            _ => Self::Stalled,
        }
    }
}

/// Whether two looks show the same: the class, and the line of Python.
pub fn is_same(one: &Evidence, other: &Evidence) -> bool {
    let line = |evidence: &Evidence| evidence.python.first().cloned();
    one.class == other.class && line(one) == line(other)
}

#[cfg(test)]
#[path = "stall_tests.rs"]
mod tests;
