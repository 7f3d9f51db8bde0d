//! The ranks of a job compared: which rank is behind, and what it does instead. The process that hangs is rarely the one to blame.
//!
//! | file | |
//! |---|---|
//! | `communicators` | the calls of NCCL of one process, by communicator |
//! | `waits` | which rank waits for which, by those calls, and the rank at the end |
//! | `launched`, `kernels` | the launches of collective kernels, and the ranks compared by them, where there are no such calls |
//! | `doing` | what a rank does instead |
//!
//! Must not: guess. What is not recorded is not compared, and is named.

mod communicators;
mod doing;
mod kernels;
mod launched;
mod waits;

pub(super) use communicators::Communications;
pub(super) use doing::when_it_was_ended;
pub(super) use launched::Collectives;

use super::collect::{Process, Stood};
use super::hangs::ranks_in_words;
use lazyguard_core::api::{counted, ordinal};
use lazyguard_core::diagnose::Culprit;
use lazyguard_core::report::HangReport;
use serde::Serialize;
use std::collections::BTreeMap;

/// The most ranks that are described one by one.
const MOST_DESCRIBED: usize = 8;

/// A rank that is not where the others are.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct OddRank {
    /// The rank.
    rank: u64,
    /// Its process.
    process: u32,
    /// How many collectives it has launched; of a communicator, how many it has called on that one.
    launched: u64,
    /// What it has as the collective of this number: a kernel, or a call with its arguments; null where it has none.
    collective: Option<String>,
    /// What it does instead, as far as is known; null otherwise.
    doing: Option<String>,
}

/// A rank that has joined, and is blocked for a reason of its own: the others may wait for what it would do next.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct BlockedRank {
    /// The rank.
    rank: u64,
    /// Its process.
    process: u32,
    /// The code and the sentence of its verdict.
    why: String,
}

/// By what ranks are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ComparedBy {
    /// The calls of NCCL.
    Communicators,
    /// The names of kernels, in the order of their launch.
    Kernels,
}

/// A communicator, as a report names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct NamedCommunicator {
    /// Its number in the report; the first is 0.
    number: usize,
    /// The name that the program gave it; null where it gave none.
    name: Option<String>,
    /// How many ranks it has; null where that is not known.
    size: Option<u32>,
}

/// Ranks of the communicator that are in the same state.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct RankGroup {
    /// The ranks.
    ranks: Vec<u64>,
    /// How many collectives each has called on the communicator.
    collectives: u64,
    /// The first call in which each waits for others; null where it waits in none.
    waits_in: Option<String>,
}

/// The ranks compared at the collective that keeps them waiting.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Ranks {
    /// Which rank is to blame, in one sentence.
    pub sentence: String,
    /// By what they are compared.
    compared_by: ComparedBy,
    /// The communicator; null where they are compared by kernels, or all have made the same calls.
    communicator: Option<NamedCommunicator>,
    /// The number of the collective among those of each rank, or of the communicator; the first is 1. Null where it is none.
    number: Option<u64>,
    /// Its kernel, or its call with the arguments; null where it is none.
    collective: Option<String>,
    /// The ranks that have not launched it, or have not called it.
    behind: Vec<OddRank>,
    /// The ranks that have another one of that number.
    different: Vec<OddRank>,
    /// The ranks that have joined.
    joined: Vec<u64>,
    /// Ranks that are blocked for a reason of their own, and are not behind.
    blocked: Vec<BlockedRank>,
    /// The communicator's ranks by their state, those that are behind first; empty where they are compared by kernels.
    groups: Vec<RankGroup>,
    /// The ranks that cannot be compared: without a recording, or with its oldest records overwritten.
    not_compared: Vec<u64>,
}

impl Ranks {
    const fn new(sentence: String, compared_by: ComparedBy) -> Self {
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

/// The hang of a process that has not ended by itself.
fn standing(process: &Process) -> Option<&HangReport> {
    match &process.stood {
        Some(Stood::Suspected(report)) => Some(report),
        _ => process.hang(),
    }
}

/// What a process hangs in, if that is a collective.
fn culprit(process: &Process) -> Option<&Culprit> {
    let culprits = standing(process)?.verdicts.iter().flat_map(|verdict| &verdict.culprits);
    culprits.into_iter().find(|culprit| culprit.operation.waits_for_peers())
}

/// Of each rank the process that counts: the newest one with collectives.
fn by_rank(processes: &[Process]) -> BTreeMap<u64, &Process> {
    let place = |process: &Process| {
        (process.communications.is_some() || process.collectives.is_some(), process.armed_unix_nanos)
    };
    let mut ranks: BTreeMap<u64, &Process> = BTreeMap::new();
    for process in processes {
        let Some(rank) = number_of(process) else { continue };
        let known = ranks.entry(rank).or_insert(process);
        if place(process) > place(known) {
            *known = process;
        }
    }
    ranks
}

/// A process's rank in the job: as its launcher tells it; else that in its largest communicator.
fn number_of(process: &Process) -> Option<u64> {
    process.rank.parse().ok().or_else(|| process.communications.as_ref()?.rank_in_the_largest())
}

/// Compares the ranks of these processes. `None` where there are no two, or where none waits for others.
pub(super) fn compare(processes: &[Process]) -> Option<Ranks> {
    let ranks = by_rank(processes);
    if ranks.len() < 2 {
        return None;
    }
    waits::compare(&ranks).or_else(|| kernels::compare(&ranks))
}

fn named(odd: &[OddRank]) -> String {
    ranks_in_words(odd.iter().map(|odd| odd.rank).collect())
}

const fn have(ranks: usize) -> &'static str {
    if ranks == 1 {
        "has"
    } else {
        "have"
    }
}

/// `; ranks 0, 2 wait in it`.
fn waits_in_it(joined: &[u64]) -> String {
    match joined.len() {
        0 => String::new(),
        1 => format!("; {} waits in it", ranks_in_words(joined.to_vec())),
        _ => format!("; {} wait in it", ranks_in_words(joined.to_vec())),
    }
}

/// `rank 1 has not launched collective 14 (K), and was ended by a signal; ranks 0, 2 wait in it.`
fn behind_sentence(behind: &[OddRank], done: &str, joined: &[u64]) -> String {
    let doing = match behind {
        [OddRank { doing: Some(doing), .. }] => format!(", {doing}"),
        _ => String::new(),
    };
    format!("{} {} not {done}{doing}{}.", named(behind), have(behind.len()), waits_in_it(joined))
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
