//! Ranks that are late for a collective, and what they do, as data and in words.

use crate::api::lasted;
use crate::evidence::Class;
use crate::Nanos;
use serde::{Deserialize, Serialize};

/// A rank that has not come to a collective yet, and what it does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LateRank {
    /// The rank in the job, or empty.
    pub rank: String,
    /// Its machine.
    pub host: String,
    /// The process id.
    pub process: u32,
    /// The class of what it does.
    pub class: Class,
    /// Its activity, after its name: "computes".
    pub sentence: String,
    /// The time in which looks have seen it stand still; 0 where it moves.
    #[serde(default)]
    pub stood_nanos: Nanos,
}

/// Why a wait for other ranks is no hang.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LateSeen {
    /// How long such a wait is no hang at most.
    pub most_nanos: Nanos,
    /// The ranks that move; empty while they are asked.
    pub ranks: Vec<LateRank>,
}

const MOST_NAMED: usize = 2;

impl LateRank {
    pub fn in_words(&self) -> String {
        let stands = match self.stood_nanos {
            0 => String::new(),
            nanos => format!(", and has stood still for {}", lasted(nanos)),
        };
        match self.rank.as_str() {
            "" => format!("process {} {}{stands}", self.process, self.sentence),
            rank => format!("rank {rank} (process {}) {}{stands}", self.process, self.sentence),
        }
    }
}

impl LateSeen {
    pub(super) fn in_words(&self) -> String {
        if self.ranks.is_empty() {
            return "a rank may only be late, and the others are asked what they do".to_owned();
        }
        let mut ranks: Vec<_> = self.ranks.iter().take(MOST_NAMED).map(LateRank::in_words).collect();
        if let Some(more) = self.ranks.len().checked_sub(MOST_NAMED).filter(|more| *more > 0) {
            ranks.push(format!("{more} more move as well"));
        }
        let most = lasted(self.most_nanos);
        format!("{}; that is late, and no hang while it goes on, for {most} in all", ranks.join("; "))
    }
}
