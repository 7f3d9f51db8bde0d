//! Whether a process runs: by its number where it can be seen, else by its heartbeat, which the guard stores ten times a second.
//!
//! Must not: trust a process id alone, or compare clocks of two machines: a heartbeat counts when it moves.

use crate::folder::process::Status;
use lazyguard_core::trace::{ProcessFacts, ProcessState};
use lazyguard_core::Nanos;
use rustix::time::{clock_gettime, ClockId};
use std::time::{Duration, Instant};

/// A heartbeat is missing when it has not moved for so long. The processors of a virtual machine stand still for seconds at times.
const MISSING_AFTER: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Life {
    Runs,
    Stopped,
    /// It is there, and its heartbeat has been missing for so long: it is frozen, or the machine stands still.
    Frozen(Nanos),
    Unguarded,
    Ended,
    Gone,
    /// It keeps no recording in a file; whether it runs is not known.
    #[default]
    Unrecorded,
}

impl Life {
    pub const WORDS: [&'static str; 7] = ["running", "stopped", "frozen", "unguarded", "ended", "killed", "unrecorded"];

    pub fn word(self) -> &'static str {
        Self::WORDS[match self {
            Self::Runs => 0,
            Self::Stopped => 1,
            Self::Frozen(_) => 2,
            Self::Unguarded => 3,
            Self::Ended => 4,
            Self::Gone => 5,
            Self::Unrecorded => 6,
        }]
    }

    pub fn is_there(self) -> bool {
        matches!(self, Self::Runs | Self::Stopped | Self::Frozen(_) | Self::Unguarded)
    }
}

#[derive(Debug, Default)]
pub(super) struct Heartbeat {
    last_seen: Option<Nanos>,
    moved: Option<Instant>,
}

impl Heartbeat {
    pub fn see(&mut self, last_seen: Nanos) {
        if self.last_seen.replace(last_seen).is_some_and(|before| before != last_seen) {
            self.moved = Some(Instant::now());
        }
    }

    pub fn is_undecided(&self, facts: &ProcessFacts, status: Status) -> bool {
        self.moved.is_none() && matches!(self.life(facts, status), Life::Frozen(_) | Life::Gone)
    }

    pub fn life(&self, facts: &ProcessFacts, status: Status) -> Life {
        life(facts, status, self.moved.is_some_and(|at| at.elapsed() < MISSING_AFTER), age_by_clock(facts))
    }
}

/// The age of the newest heartbeat by this machine's monotonic clock, where that makes sense.
fn age_by_clock(facts: &ProcessFacts) -> Option<Nanos> {
    let now = Duration::try_from(clock_gettime(ClockId::Monotonic)).ok()?;
    u64::try_from(now.as_nanos()).ok()?.checked_sub(facts.armed_monotonic_nanos.checked_add(facts.last_seen)?)
}

fn life(facts: &ProcessFacts, status: Status, moves: bool, age: Option<Nanos>) -> Life {
    if facts.state == ProcessState::Ended {
        return Life::Ended;
    }
    let is_it = status.started() == Some(facts.start_ticks);
    match status {
        Status::Stopped(_) if is_it => Life::Stopped,
        _ if is_it && facts.state == ProcessState::SteppedAside => Life::Unguarded,
        _ if moves && facts.state == ProcessState::SteppedAside => Life::Unguarded,
        _ if moves => Life::Runs,
        Status::Runs(_) if is_it => match age {
            // The heartbeat begins with the first call that submits, loads or waits.
            Some(age) if facts.last_seen > 0 && u128::from(age) >= MISSING_AFTER.as_nanos() => Life::Frozen(age),
            _ => Life::Runs,
        },
        _ => Life::Gone,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recordings::Job;
    use lazyguard_core::trace::read::Recording;
    use std::sync::atomic::Ordering;

    fn facts(state: ProcessState) -> ProcessFacts {
        let job = Job::new();
        let words = job.tracker.recorder().words().iter();
        let bytes: Vec<u8> = words.flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect();
        ProcessFacts { state, last_seen: 1, ..Recording::open(bytes).unwrap().facts().clone() }
    }

    #[test]
    fn a_process_lives_by_its_number_or_by_its_heartbeat() {
        let guarded = facts(ProcessState::Guarded);
        let ticks = guarded.start_ticks;
        let of = |status, moves, age| life(&guarded, status, moves, age);
        assert_eq!(of(Status::Runs(ticks), false, Some(100_000_000)), Life::Runs);
        assert_eq!(of(Status::Runs(ticks), false, None), Life::Runs);
        assert_eq!(of(Status::Runs(ticks), false, Some(11_000_000_000)), Life::Frozen(11_000_000_000));
        let not_begun = ProcessFacts { last_seen: 0, ..guarded.clone() };
        assert_eq!(life(&not_begun, Status::Runs(ticks), false, Some(11_000_000_000)), Life::Runs);
        assert_eq!(of(Status::Stopped(ticks), true, Some(0)), Life::Stopped);
        // Its number is another process's now, and in another container's numbers it means nothing.
        for status in [Status::Runs(ticks + 1), Status::Stopped(ticks + 1), Status::Gone, Status::Hidden] {
            assert_eq!(of(status, false, Some(0)), Life::Gone, "{status:?}");
            assert_eq!(of(status, true, None), Life::Runs, "{status:?}");
        }
        assert_eq!(life(&facts(ProcessState::Ended), Status::Gone, true, Some(0)), Life::Ended);
        let aside = facts(ProcessState::SteppedAside);
        assert_eq!(life(&aside, Status::Runs(ticks), false, Some(0)), Life::Unguarded);
        assert_eq!(life(&aside, Status::Gone, false, Some(0)), Life::Gone);
    }

    #[test]
    fn a_heartbeat_counts_when_it_moves() {
        let mut heartbeat = Heartbeat::default();
        let facts = facts(ProcessState::Guarded);
        heartbeat.see(5);
        assert!(heartbeat.is_undecided(&facts, Status::Gone));
        heartbeat.see(5);
        assert_eq!(heartbeat.life(&facts, Status::Gone), Life::Gone);
        heartbeat.see(6);
        assert!(!heartbeat.is_undecided(&facts, Status::Gone));
        assert_eq!(heartbeat.life(&facts, Status::Gone), Life::Runs);
    }
}
