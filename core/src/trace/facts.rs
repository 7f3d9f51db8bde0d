//! The facts about its process in a recording's header: the writer stores them, and the reader returns them.

use crate::Nanos;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProcessState {
    /// It is guarded, or was when it was killed.
    #[default]
    Guarded,
    Ended,
    SteppedAside,
    Unknown(u64),
}

impl ProcessState {
    /// In the order of their numbers, from 1.
    const KNOWN: [Self; 3] = [Self::Guarded, Self::Ended, Self::SteppedAside];

    pub fn from_number(number: u64) -> Self {
        Self::KNOWN.into_iter().find(|state| state.number() == number).unwrap_or(Self::Unknown(number))
    }

    pub fn number(self) -> u64 {
        Self::KNOWN.iter().position(|&state| state == self).map_or(0, |at| at as u64 + 1)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessFacts {
    pub process: u32,
    /// As `cuDriverGetVersion` counts.
    pub driver_version: i32,
    /// Nanoseconds since 1970.
    pub armed_unix_nanos: u64,
    pub armed_monotonic_nanos: u64,
    /// In clock ticks since the machine started.
    pub start_ticks: u64,
    pub state: ProcessState,
    pub last_seen: Nanos,
    pub program: String,
    pub host: String,
    /// As the launcher sets it, or empty.
    pub rank: String,
    pub lazyguard: String,
    /// As the header gives it.
    pub file_bytes: u64,
    pub without_entry: u64,
    pub texts_lost: u64,
    /// The calls and launches of ended threads whose entries were used again.
    pub former_calls: u64,
    pub former_launches: u64,
    pub start: StartFacts,
}

/// On `CLOCK_MONOTONIC`; 0 for what is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StartFacts {
    /// In a forked child, when it was forked.
    pub loaded: Nanos,
    /// The entry and the return of the call of `cuInit` that armed the guard.
    pub init_entered: Nanos,
    pub init_returned: Nanos,
    /// From the process's start to [`StartFacts::loaded`], 1 at least; exact to a hundredth of a second.
    pub before_loaded_micros: u32,
    /// After [`StartFacts::init_returned`].
    pub arming_micros: u32,
}

/// The remaining and the lost records of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct LaneUse {
    /// The lane.
    pub lane: super::Lane,
    /// The first segment.
    #[serde(skip)]
    pub first: u32,
    #[serde(skip)]
    pub segments: u32,
    /// Segments looked at to be taken.
    #[serde(skip)]
    pub hand: u64,
    /// Remaining records.
    pub present: u64,
    /// Overwritten records.
    pub overwritten: u64,
    /// Records lost for lack of capacity.
    pub dropped: u64,
    /// Records in segments that were released, whether or not they have been overwritten since.
    #[serde(skip)]
    pub released: u64,
}

impl LaneUse {
    /// Takes the words of the lane in a header.
    pub(super) fn of(lane: super::Lane, word: impl Fn(usize) -> u64) -> Self {
        use super::layout::lane as place;
        let segments = word(place::SEGMENTS);
        Self {
            lane,
            first: segments as u32,
            segments: (segments >> 32) as u32,
            hand: word(place::HAND),
            present: 0,
            overwritten: word(place::OVERWRITTEN),
            dropped: word(place::DROPPED),
            released: word(place::RELEASED),
        }
    }

    pub fn written(&self) -> u64 {
        self.present.saturating_add(self.overwritten)
    }
}

/// A process's rank: the one that its launcher gave it; else that in its largest communicator, where it has one rank there. `known` has its ranks, and the
/// communicators' sizes.
pub fn rank_of(given: &str, known: impl Iterator<Item = (u32, u32)>) -> String {
    let known: Vec<_> = known.filter(|(_, size)| *size > 1).collect();
    let largest = known.iter().map(|(_, size)| *size).max();
    let mut ranks = known.iter().filter(|(_, size)| Some(*size) == largest).map(|(rank, _)| rank);
    let first = ranks.next().filter(|first| given.is_empty() && ranks.all(|other| other == *first));
    first.map_or_else(|| given.to_owned(), u32::to_string)
}
