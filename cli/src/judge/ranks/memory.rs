//! Which rank waits for which, by values in memory that both have: mapped from one file, or opened by a handle of the driver.
//!
//! | a rank's stream waits for a value, and another rank of the machine that has the memory | then |
//! |---|---|
//! | has submitted a write that ends the wait, behind a wait of its own | the waits are followed: back at a wait, they are a cycle of ranks |
//! | has submitted it behind something else that has not ended | that rank is behind |
//! | has submitted none | that rank is behind; or its own wait is followed, where its host waits for that |
//!
//! Must not: compare the clocks of two processes, or say of a kernel what it writes.

use super::doing::{in_flight, standing, Asked};
use super::odd_ranks::{behind_sentence, ComparedBy, OddRank, Ranks};
use crate::judge::hangs::ranks_in_words;
use crate::judge::process::Process;
use crate::judge::shared::{Place, Written};
use lazyguard_core::api::ValueWait;
use lazyguard_core::diagnose::{BlockedCall, BusyStream, WaitSeen};
use lazyguard_core::Nanos;
use std::collections::{BTreeMap, BTreeSet};

/// How another rank keeps a wait from ending.
#[derive(Clone, Copy)]
enum Held<'a> {
    /// Its write comes behind this wait of its own, on the same stream.
    BehindItsWait(&'a WaitSeen),
    Behind(&'a BusyStream),
    /// It has submitted no write that ends the wait.
    NotSubmitted,
}

struct Wait<'a> {
    rank: u64,
    seen: &'a WaitSeen,
    held: Held<'a>,
    on: Vec<u64>,
}

struct Job<'a> {
    ranks: &'a BTreeMap<u64, &'a Process>,
    waits: Vec<Wait<'a>>,
}

pub(crate) fn compare(ranks: &BTreeMap<u64, &Process>) -> Option<Ranks> {
    let waits = ranks.iter().flat_map(|(rank, process)| waits_of(*rank, process, ranks)).collect();
    let job = Job { ranks, waits };
    let hangs = |rank: u64| ranks.get(&rank).is_some_and(|process| hangs(process));
    let mut ends = job.waits.iter().filter(|wait| hangs(wait.rank)).map(|first| job.followed(first));
    let first = ends.next()?;
    // A rank that none of the cycles has waits for one of them; a rank that is behind keeps all others waiting.
    let end = std::iter::once(first).chain(ends).min_by_key(|way| !matches!(way, Way::Circle(_)))?;
    Some(match end {
        Way::Circle(circle) => job.explain_circle(&circle),
        Way::End(wait) => job.explain(wait),
    })
}

fn hangs(process: &Process) -> bool {
    standing(process).is_some_and(|report| !report.verdicts.is_empty())
}

/// Whether a call of the process's own stands behind this wait.
fn is_waited_for(process: &Process, wait: &WaitSeen) -> bool {
    let is_behind = |call: &BlockedCall| call.stream.as_ref().is_none_or(|on| on.number == wait.stream.number);
    in_flight(process).is_some_and(|all| all.blocked.iter().any(is_behind))
}

/// The waits at which the rank's streams stand, and that only another rank can end.
fn waits_of<'a>(
    rank: u64,
    process: &'a Process,
    ranks: &'a BTreeMap<u64, &'a Process>,
) -> impl Iterator<Item = Wait<'a>> {
    let seen = in_flight(process).map(|snapshot| &snapshot.waits[..]).unwrap_or_default();
    let mut streams = BTreeSet::new();
    let mut stands_at = move |wait: &&WaitSeen| !wait.satisfied && streams.insert(wait.stream.number);
    let only_others = |wait: &&WaitSeen| wait.satisfying_writes.is_empty() && wait.fills.is_empty();
    let first = seen.iter().filter(move |wait| stands_at(wait)).filter(only_others);
    first.filter_map(move |seen| {
        let place = process.shared.as_ref()?.place_of(seen.address)?;
        let is_other = |other: u64, its: &Process| other != rank && its.is_read && its.host == process.host;
        let has_it = |its: &Process| its.shared.as_ref().is_some_and(|shared| shared.has(place));
        let others = ranks.iter().filter(|(other, its)| is_other(**other, its) && has_it(its));
        let others: Vec<_> = others.map(|(other, its)| (*other, *its)).collect();
        if let Some((other, held)) = others.iter().find_map(|(other, its)| Some((*other, held_by(its, place, seen)?))) {
            return Some(Wait { rank, seen, held, on: vec![other] });
        }
        let on: Vec<_> = others.iter().map(|(other, _)| *other).collect();
        (!on.is_empty()).then_some(Wait { rank, seen, held: Held::NotSubmitted, on })
    })
}

/// The operation that holds up the process's write that ends the wait, where it has submitted one that may not have ended.
fn held_by<'a>(process: &'a Process, place: Place, wait: &WaitSeen) -> Option<Held<'a>> {
    let all = in_flight(process)?;
    let may_be_outstanding = |write: &Written| {
        let since =
            |busy: &BusyStream| busy.operations.first().map_or(busy.oldest.at, |first| first.at.min(busy.oldest.at));
        all.stream(write.stream).filter(|busy| since(busy) <= write.at)
    };
    let writes = process.shared.as_ref()?.writes.iter().filter(|write| ends(write, place, wait));
    let held = |(at, busy): (Nanos, &'a BusyStream)| {
        let mut own = all.waits.iter().filter(|own| own.stream.number == busy.stream.number && own.at < at);
        own.find(|own| !own.satisfied).map_or(Held::Behind(busy), Held::BehindItsWait)
    };
    writes.filter_map(|write| Some((write.at, may_be_outstanding(write)?))).map(held).next()
}

fn ends(write: &Written, (identity, offset): Place, wait: &WaitSeen) -> bool {
    let WaitSeen { at, value, condition, wide, .. } = *wait;
    let of_place = ValueWait { at, address: offset, value, flags: condition as u32, wide };
    let is_there = |write: &Written| offset.checked_sub(write.place.1).is_some_and(|within| within < write.bytes);
    write.place.0 == identity && write.value.map_or_else(|| is_there(write), |value| value.ends(&of_place))
}

/// The waits that lead from one of them.
enum Way<'a> {
    Circle(Vec<&'a Wait<'a>>),
    /// For a rank that waits for none.
    End(&'a Wait<'a>),
}

impl<'a> Job<'a> {
    fn followed(&'a self, first: &'a Wait<'a>) -> Way<'a> {
        let mut way = vec![first];
        loop {
            let last = way[way.len() - 1];
            let Some(next) = self.next(last) else { return Way::End(last) };
            if let Some(begin) = way.iter().position(|wait| std::ptr::eq(*wait, next)) {
                let mut circle = way.split_off(begin);
                let lowest = circle.iter().enumerate().min_by_key(|(_, wait)| wait.rank).map_or(0, |(at, _)| at);
                circle.rotate_left(lowest);
                return Way::Circle(circle);
            }
            way.push(next);
        }
    }

    fn next(&self, wait: &Wait<'_>) -> Option<&Wait<'a>> {
        let of_rank = |rank: u64| self.waits.iter().filter(move |wait| wait.rank == rank);
        match wait.held {
            Held::BehindItsWait(own) => of_rank(*wait.on.first()?).find(|next| std::ptr::eq(next.seen, own)),
            // A rank whose host waits behind such a wait stands before the call that would submit the write.
            Held::NotSubmitted => {
                let next = |rank: &u64| of_rank(*rank).find(|next| is_waited_for(self.ranks[rank], next.seen));
                wait.on.iter().map(next).collect::<Option<Vec<_>>>()?.first().copied()
            }
            Held::Behind(_) => None,
        }
    }

    fn odd(&self, ranks: impl IntoIterator<Item = u64>) -> Vec<OddRank> {
        let asked = Asked::of(self.ranks);
        ranks.into_iter().map(|rank| OddRank::of(rank, self.ranks[&rank], 0, None, &asked)).collect()
    }

    fn not_compared(&self) -> Vec<u64> {
        self.ranks.iter().filter(|(_, process)| !process.is_read).map(|(rank, _)| *rank).collect()
    }

    fn explain_circle(&self, circle: &[&Wait<'_>]) -> Ranks {
        let each = circle.iter().map(|wait| match wait.held {
            Held::BehindItsWait(own) => format!(
                "{} that rank {}'s stream {} writes behind its own wait",
                waits(wait),
                wait.on[0],
                own.stream.number
            ),
            _ => format!("{}, of which {} has submitted no write", waits(wait), ranks_in_words(wait.on.clone())),
        });
        let each: Vec<_> = each.collect();
        let sentence = format!(
            "ranks wait for each other: {}. Submit each write before the wait, or on another stream.",
            each.join("; ")
        );
        let ranks: BTreeSet<u64> = circle.iter().map(|wait| wait.rank).collect();
        let different = self.odd(ranks);
        Ranks { different, not_compared: self.not_compared(), ..Ranks::new(sentence, ComparedBy::Memory) }
    }

    fn explain(&self, wait: &Wait<'_>) -> Ranks {
        let behind = self.odd(wait.on.iter().copied());
        let of = format!("{} {}", stream(wait), "waits for in memory that both have");
        let sentence = match wait.held {
            Held::NotSubmitted => behind_sentence(&behind, &format!("submitted a write of the value that {of}"), ""),
            Held::BehindItsWait(own) => held_sentence(&behind, own.stream.number, &of, "its own wait for a value"),
            Held::Behind(busy) => held_sentence(&behind, busy.stream.number, &of, &busy.front().name()),
        };
        let joined = vec![wait.rank];
        Ranks { behind, joined, not_compared: self.not_compared(), ..Ranks::new(sentence, ComparedBy::Memory) }
    }
}

fn stream(wait: &Wait<'_>) -> String {
    format!("rank {}'s stream {}", wait.rank, wait.seen.stream.number)
}

fn waits(wait: &Wait<'_>) -> String {
    format!("{} waits for a value", stream(wait))
}

fn held_sentence(behind: &[OddRank], on: u32, of: &str, front: &str) -> String {
    let doing = if let [OddRank { doing: Some(doing), .. }] = behind { format!(", {doing}") } else { String::new() };
    let rank = behind.first().map_or(0, |odd| odd.rank);
    format!("rank {rank} writes the value that {of} behind {front} on its stream {on}, which has not ended{doing}.")
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
