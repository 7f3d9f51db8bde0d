//! The ranks compared: which one is behind or differs, and the words for that.
//!
//! Must not: compare.

use super::doing::{doing, Asked};
use crate::findings::hangs::ranks_in_words;
use crate::findings::process::Process;
use lazyguard_core::api::{counted, ordinal};
use lazyguard_core::order::grouped;
use serde::Serialize;

/// The most ranks that are described one by one.
const MOST_DESCRIBED: usize = 8;

/// A rank that is not where the others are.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct OddRank {
    /// The rank.
    pub rank: u64,
    /// Its process.
    pub process: u32,
    /// How many collectives it has launched; of a communicator, how many it has called on that one.
    pub launched: u64,
    /// What it has as the collective of this number: a kernel, or a call with its arguments; null where it has none.
    pub collective: Option<String>,
    /// What it does instead, as far as is known; null otherwise.
    pub doing: Option<String>,
    /// Of the first of them: the stack of its main thread where that is in no driver call, a line each.
    pub stack: Vec<String>,
}

/// A rank that has joined, and is blocked for a reason of its own: the others may wait for what it would do next.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct BlockedRank {
    /// The rank.
    pub rank: u64,
    /// Its process.
    pub process: u32,
    /// The code and the sentence of its verdict.
    pub why: String,
}

/// By what ranks are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ComparedBy {
    /// The calls of NCCL.
    Communicators,
    /// The names of kernels, in the order of their launch.
    Kernels,
}

/// A communicator, as a report names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NamedCommunicator {
    /// Its number in the report; the first is 0.
    pub number: usize,
    /// The name that the program gave it; null where it gave none.
    pub name: Option<String>,
    /// How many ranks it has; null where that is not known.
    pub size: Option<u32>,
}

/// Ranks of the communicator that are in the same state.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct RankGroup {
    /// The ranks.
    pub ranks: Vec<u64>,
    /// How many collectives each has called on the communicator.
    pub collectives: u64,
    /// The first call in which each waits for others; null where it waits in none.
    pub waits_in: Option<String>,
}

/// The ranks compared at the collective that keeps them waiting.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Ranks {
    /// Which rank is to blame, in one sentence.
    pub sentence: String,
    /// By what they are compared.
    pub compared_by: ComparedBy,
    /// The communicator; null where they are compared by kernels, or all have made the same calls.
    pub communicator: Option<NamedCommunicator>,
    /// The number of the collective among those of each rank, or of the communicator; the first is 1. Null where it is none.
    pub number: Option<u64>,
    /// Its kernel, or its call with the arguments; null where it is none.
    pub collective: Option<String>,
    /// The ranks that have not launched it, or have not called it.
    pub behind: Vec<OddRank>,
    /// The ranks that have another one of that number.
    pub different: Vec<OddRank>,
    /// The ranks that have joined.
    pub joined: Vec<u64>,
    /// Ranks that are blocked for a reason of their own, and are not behind.
    pub blocked: Vec<BlockedRank>,
    /// The communicator's ranks by their state, those that are behind first; empty where they are compared by kernels.
    pub groups: Vec<RankGroup>,
    /// The ranks that cannot be compared: without a recording, or with its oldest records overwritten.
    pub not_compared: Vec<u64>,
}

impl Ranks {
    /// Whether some rank is not where the others are, or is blocked by itself.
    pub const fn names_one(&self) -> bool {
        !self.behind.is_empty() || !self.different.is_empty() || !self.blocked.is_empty()
    }

    /// A sentence about nothing further.
    pub const fn new(sentence: String, compared_by: ComparedBy) -> Self {
        Self {
            sentence,
            compared_by,
            communicator: None,
            number: None,
            collective: None,
            behind: Vec::new(),
            different: Vec::new(),
            joined: Vec::new(),
            blocked: Vec::new(),
            groups: Vec::new(),
            not_compared: Vec::new(),
        }
    }
}

impl OddRank {
    /// A rank, with what it does instead.
    pub(super) fn of(rank: u64, process: &Process, launched: u64, collective: Option<String>, asked: &Asked) -> Self {
        let doing = doing(process, asked);
        Self { rank, process: process.process, launched, collective, doing, stack: Vec::new() }
    }
}

/// The one of several things that most ranks have; of as many, the one that comes first.
pub fn most_common<T: PartialEq + Clone>(all: impl Iterator<Item = T>) -> Option<T> {
    grouped(all, T::clone).into_iter().rev().max_by_key(|(_, same)| same.len()).map(|(one, _)| one)
}

pub fn named(odd: &[OddRank]) -> String {
    ranks_in_words(odd.iter().map(|odd| odd.rank).collect())
}

pub const fn have(ranks: usize) -> &'static str {
    if ranks == 1 {
        "has"
    } else {
        "have"
    }
}

pub const fn wait(ranks: usize) -> &'static str {
    if ranks == 1 {
        "waits"
    } else {
        "wait"
    }
}

/// `; ranks 0, 2 wait in it`.
pub fn waits_in_it(joined: &[u64]) -> String {
    match joined {
        [] => String::new(),
        _ => format!("; {} {} in it", ranks_in_words(joined.to_vec()), wait(joined.len())),
    }
}

/// `rank 1 has not launched collective 14 (K), and was ended by a signal; ranks 0, 2 wait in it.` The end says what the others do.
pub fn behind_sentence(behind: &[OddRank], done: &str, others: &str) -> String {
    let doing = match behind {
        [OddRank { doing: Some(doing), .. }] => format!(", {doing}"),
        _ => String::new(),
    };
    format!("{} {} not {done}{doing}{others}.", named(behind), have(behind.len()))
}

impl Ranks {
    /// The sentence, and the ranks one by one, those that are odd first.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![self.sentence.clone()];
        for odd in self.behind.iter().chain(&self.different).take(MOST_DESCRIBED) {
            let of_number = odd.collective.as_deref().zip(self.number);
            let collective = of_number.map(|(its, number)| format!(", the {} of them {its}", ordinal(number)));
            let doing = odd.doing.as_deref().map(|doing| format!(", {doing}"));
            lines.push(format!(
                "  rank {} (process {}): {}{}{}",
                odd.rank,
                odd.process,
                counted(odd.launched, "collective"),
                collective.unwrap_or_default(),
                doing.unwrap_or_default()
            ));
            lines.extend(odd.stack.iter().cloned());
        }
        let more = (self.behind.len() + self.different.len()).saturating_sub(MOST_DESCRIBED);
        lines.extend((more > 0).then(|| format!("  and {}", counted(more as u64, "more rank"))));
        lines.extend(self.blocked.iter().take(MOST_DESCRIBED).map(|blocked| {
            let BlockedRank { rank, process, why } = blocked;
            let joined = if self.joined.contains(rank) { "has joined and " } else { "" };
            format!("  rank {rank} (process {process}) {joined}is blocked: {why}")
        }));
        lines.extend(self.groups.iter().take(MOST_DESCRIBED).map(|group| {
            let waits_in = group.waits_in.as_deref().map(|within| format!(", waiting in {within}"));
            let (ranks, called) = (ranks_in_words(group.ranks.clone()), counted(group.collectives, "collective"));
            format!("  {ranks}: {called} called{}", waits_in.unwrap_or_default())
        }));
        let more = self.groups.len().saturating_sub(MOST_DESCRIBED);
        lines.extend((more > 0).then(|| format!("  and {} of ranks in other states", counted(more as u64, "group"))));
        if !self.not_compared.is_empty() {
            let (ranks, have) = (ranks_in_words(self.not_compared.clone()), have(self.not_compared.len()));
            lines.push(format!(
                "  {ranks} {have} left no recording or lost records, and cannot be compared: a larger LAZYGUARD_RECORD keeps more"
            ));
        }
        lines.push(match self.compared_by {
            ComparedBy::Kernels => {
                "  compared by the names of kernels in the order of their launch, which is less than by NCCL's calls: those were not seen, \
                 nor communicators, sizes and graphs"
            }
            ComparedBy::Communicators => "  compared by the calls of NCCL on each communicator",
        }.to_owned());
        lines
    }
}
