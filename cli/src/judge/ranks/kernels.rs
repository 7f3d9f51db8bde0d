//! Ranks compared by their launches of collective kernels, where NCCL's own calls are not seen. The first launch that not all ranks have made,
//! or that differs, names the rank.
//!
//! Must not: guess. A rank whose oldest records have been overwritten is not compared, and is named.

use super::doing::{culprit, has_ended, lost_signal, why_all_wait, Asked};
use super::odd_ranks::{
    behind_sentence, have, most_common, named, waits_in_it, BlockedRank, ComparedBy, OddRank, Ranks,
};
use crate::judge::process::Process;
use lazyguard_core::Nanos;
use std::collections::BTreeMap;

pub(crate) fn compare(ranks: &BTreeMap<u64, &Process>) -> Option<Ranks> {
    let can_be_compared =
        |process: &Process| process.is_read && process.collectives.as_ref().is_none_or(|all| all.complete);
    let complete = || ranks.values().copied().filter(|process| can_be_compared(process));
    let hangs_in = |process: &&Process| process.collectives.as_ref()?.index_at(culprit(process)?.operation.at);
    // Collectives before this one have ended. The first from here on that not all ranks have launched names the rank.
    let first = complete().filter_map(|process| hangs_in(&process)).min()?;
    let at = |index: usize| complete().map(move |process| process.collectives.as_ref()?.name(index));
    let agree = |index: usize| at(index).all(|its| its.is_some() && its == at(index).next().flatten());
    // Ranks of a pipeline, for one, run different collectives.
    if (0..first).any(|index| !agree(index)) {
        return None;
    }
    let most = complete().filter_map(|process| Some(process.collectives.as_ref()?.launches.len())).max()?;
    let kernel_at = |index: usize| most_common(at(index).flatten()).map(str::to_owned);
    if let Some((sentence, kernel)) = agree(first).then(|| lost(ranks, first, kernel_at(first)?)).flatten() {
        let (number, joined) = (Some(first as u64 + 1), ranks.keys().copied().collect());
        return Some(Ranks { number, collective: Some(kernel), joined, ..Ranks::new(sentence, ComparedBy::Kernels) });
    }
    let index = (first..most).find(|index| !agree(*index)).unwrap_or(first);
    let kernel = kernel_at(index)?;
    let asked = Asked::of(ranks);
    let (mut behind, mut different, mut joined) = (Vec::new(), Vec::new(), Vec::new());
    let (mut blocked, mut not_compared) = (Vec::new(), Vec::new());
    for (&rank, process) in ranks {
        let all = process.collectives.as_ref();
        let launched = all.map_or(0, |all| all.launches.len());
        let its = all.and_then(|all| all.name(index)).map(str::to_owned);
        let odd = |collective| OddRank::of(rank, process, launched as u64, collective, &asked);
        match its {
            _ if !can_be_compared(process) => not_compared.push(rank),
            None => behind.push(odd(None)),
            Some(its) if its != kernel => different.push(odd(Some(its))),
            Some(_) => {
                joined.push(rank);
                blocked.extend(BlockedRank::of(rank, process));
            }
        }
    }
    let what = format!("collective {} ({kernel})", index + 1);
    let sentence = match (&behind[..], &different[..]) {
        ([], []) => format!(
            "every rank that could be compared has launched the same collectives as far as {what} and beyond, and they have not ended: \
             {}.",
            why_all_wait(ranks)
        ),
        ([], [first, ..]) => {
            let other = first.collective.as_deref().unwrap_or_default();
            let (odd, have, waits) = (named(&different), have(different.len()), waits_in_it(&joined));
            format!("{odd} {have} launched {other} as collective {}, which is {kernel}{waits}.", index + 1)
        }
        _ => behind_sentence(&behind, &format!("launched {what}"), &waits_in_it(&joined)),
    };
    Some(Ranks {
        number: Some(index as u64 + 1),
        collective: Some(kernel),
        behind,
        different,
        joined,
        blocked,
        not_compared,
        ..Ranks::new(sentence, ComparedBy::Kernels)
    })
}

/// The sentence that a collective which all have launched has ended on some ranks alone; and its kernel.
fn lost(ranks: &BTreeMap<u64, &Process>, index: usize, kernel: String) -> Option<(String, String)> {
    let ended = ranks.iter().filter_map(|(rank, process)| {
        let launches = &process.collectives.as_ref()?.launches;
        let until = launches.get(index + 1).map_or(Nanos::MAX, |(next, _)| *next);
        Some((*rank, has_ended(process, launches.get(index)?.0, until)))
    });
    Some((lost_signal(&ended.collect(), &format!("collective {} ({kernel})", index + 1))?, kernel))
}

#[cfg(test)]
#[path = "kernels_tests.rs"]
mod tests;
