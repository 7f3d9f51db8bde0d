//! The ranks of a job compared: which rank is behind, and what it does instead. The process that hangs is rarely the one to blame.
//!
//! Must not: guess. A rank whose records are missing is not compared, and is named.

mod blame;
mod clusters;
mod doing;
mod explain;
mod kernels;
mod memory;
mod odd_ranks;
mod orders;
mod waits;

pub(crate) use doing::when_they_were_ended;
#[cfg(test)]
pub(crate) use odd_ranks::ComparedBy;
pub(crate) use odd_ranks::{OddRank, Ranks};

use super::process::Process;
use std::collections::BTreeMap;

/// The process that counts for each rank: the newest one with collectives, among those that began before this time.
fn by_rank(processes: &[Process], before: u64) -> BTreeMap<u64, &Process> {
    let place = |process: &Process| {
        (process.communications.is_some() || process.collectives.is_some(), process.armed_unix_nanos)
    };
    let mut ranks: BTreeMap<u64, &Process> = BTreeMap::new();
    for process in processes.iter().filter(|process| process.armed_unix_nanos < before) {
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

/// Compares the ranks of these processes: of the newest attempt of the job in which one waits for others. `None` where there is none.
pub(crate) fn compare(processes: &[Process]) -> Option<Ranks> {
    let mut before = u64::MAX;
    loop {
        let ranks = by_rank(processes, before);
        if ranks.is_empty() {
            return None;
        }
        // A rank that left nothing may be the one that the only other one waits for.
        let names_a_missing_one = |found: &Ranks| found.odd().any(|odd| !ranks.contains_key(&odd.rank));
        if let Some(found) = compare_attempt(&ranks).filter(|found| ranks.len() > 1 || names_a_missing_one(found)) {
            return Some(found);
        }
        // A launcher starts the ranks again when all of them have ended.
        before = ranks.values().map(|process| process.armed_unix_nanos).min()?;
    }
}

fn compare_attempt(ranks: &BTreeMap<u64, &Process>) -> Option<Ranks> {
    let by_calls = waits::compare(ranks);
    // Collectives in graphs are no calls. All others are, and kernels say less of them: ranks of several communicators, or of sends, launch different ones.
    let names_none = by_calls.as_ref().is_none_or(|ranks| !ranks.names_one());
    let by_kernels = names_none.then(|| kernels::compare(ranks)).flatten();
    let says_more = |of_kernels: &Ranks| by_calls.is_none() || of_kernels.names_one() && of_kernels.is_of_a_graph();
    let compared = by_kernels.filter(says_more).or(by_calls);
    let all_have_joined = |compared: &Ranks| compared.odd().next().is_none();
    let others = compared.as_ref().is_none_or(all_have_joined).then(|| {
        let by_orders = || orders::compare(ranks, compared.as_ref()?.compared_by);
        memory::compare(ranks).or_else(by_orders)
    });
    Some(with_stack(others.flatten().or(compared)?, ranks))
}

/// Adds where the other ranks wait, and the stack of the first rank that is odd. As a rule the others do the same, and a stack takes a tenth of a second to name.
fn with_stack(mut found: Ranks, ranks: &BTreeMap<u64, &Process>) -> Ranks {
    found.clusters = clusters::clusters(&found, ranks);
    let asked = doing::Asked::of(ranks);
    let odd = found.behind.iter_mut().chain(&mut found.different).next();
    if let Some((odd, process)) = odd.and_then(|odd| ranks.get(&odd.rank).map(|process| (odd, process))) {
        odd.stack = doing::stack(process, &asked);
        odd.python = doing::python(process, &asked);
    }
    found
}
