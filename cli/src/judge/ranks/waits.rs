//! Which rank waits for which, by the calls of NCCL on each communicator.
//!
//! | a rank has called | and waits for the ranks that |
//! |---|---|
//! | collective K of a communicator | have called fewer than K on it, or another one as that number |
//! | a send or receive, the Kth to or from that rank | have called its other end fewer than K times, or with another size as the Kth |
//! | the call that makes a communicator | have not come to that call |
//!
//! The first such call of a rank counts. The waits lead from the ranks that hang to ranks that wait for none, which are behind, or in a cycle:
//! ranks have used two communicators in different orders. `blame` says when a rank that is blocked behind a collective of its own comes before those.
//!
//! Must not: compare the clocks of two processes.

use super::blame::{self, Ahead, Behind, First};
use super::doing::{culprit, in_flight, in_words, standing, Asked};
use super::odd_ranks::{most_common, Ranks};
use crate::judge::communications::{Called, Communications, Member, Peer};
use crate::judge::process::Process;
use lazyguard_core::api::Class;
use lazyguard_core::Nanos;
use std::collections::{BTreeMap, BTreeSet, HashMap};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum In {
    Collective(u64),
    /// The collective of this number, which others have called differently.
    Different(u64),
    /// This send to, or receive from, a rank of the communicator.
    Exchange(Peer, u64),
    /// The same, and the other end has another size or type.
    Unequal(Peer, u64),
    Creation,
    Split,
}

#[derive(Clone, Debug)]
pub(crate) struct Wait {
    /// When the rank has called what it waits in, on its own clock.
    pub at: Nanos,
    pub id: u64,
    pub within: In,
    pub on: Vec<u64>,
}

/// Two ranks, and the collective that each has called first, by communicator and number.
pub(crate) type Crossing = (u64, u64, (u64, u32), (u64, u32));

pub(crate) struct Job<'a> {
    pub ranks: &'a BTreeMap<u64, &'a Process>,
    members: BTreeMap<u64, BTreeMap<u64, &'a Member>>,
    /// The communicators' ids in the order of their making on the lowest rank that has them.
    pub order: Vec<u64>,
    ranks_in: BTreeMap<(u64, u32), u64>,
    /// For each communicator, the first collective that its ranks have called differently, and the ranks that differ from most.
    differences: BTreeMap<u64, (u64, Vec<u64>)>,
    pub asked: Asked,
}

fn calls(process: &Process) -> Option<&Communications> {
    process.communications.as_ref().filter(|_| process.is_read)
}

/// A rank that is blocked behind a collective that it has called itself, by a call that the program did not mean to wait in.
pub(crate) struct Holder {
    pub rank: u64,
    pub why: String,
    /// Whether it is named before the ranks that have not called it.
    pub first: bool,
}

pub(crate) fn compare(ranks: &BTreeMap<u64, &Process>) -> Option<Ranks> {
    let job = Job::of(ranks);
    // A wait for ranks that are late has no verdict.
    let hangs = |process: &Process| {
        standing(process).is_some_and(|report| !report.verdicts.is_empty()) || process.waits_for_late_ranks().is_some()
    };
    let stuck: Vec<u64> = ranks.iter().filter(|(_, process)| hangs(process)).map(|(rank, _)| *rank).collect();
    if job.members.is_empty() || stuck.is_empty() {
        return None;
    }
    let waits: BTreeMap<u64, Wait> = ranks.keys().filter_map(|rank| Some((*rank, job.first_wait(*rank)?))).collect();
    let mut reached: BTreeSet<u64> = BTreeSet::new();
    let mut next = stuck.clone();
    while let Some(rank) = next.pop() {
        if reached.insert(rank) {
            next.extend(waits.get(&rank).iter().flat_map(|wait| &wait.on));
        }
    }
    let of_reached = || waits.iter().filter(|(rank, _)| reached.contains(rank));
    let of_collectives = of_reached().filter(|(_, wait)| matches!(wait.within, In::Collective(_)));
    let mut holders =
        of_collectives.filter_map(|(rank, wait)| Some((wait, job.holder(*rank, &waits)?))).collect::<Vec<_>>();
    holders.sort_by_key(|(_, holder)| !holder.first);
    let holds_up = holders.first().filter(|(_, holder)| holder.first).map(|(wait, _)| *wait);
    // A collective that was called differently is the cause of everything behind it.
    let differs = of_reached().find(|(_, wait)| matches!(wait.within, In::Different(_) | In::Unequal(..)));
    // The wait that is nearest to the rank that waits for none.
    let is_first = |rank: &u64| !waits.contains_key(rank);
    let nearest = of_reached().find(|(_, wait)| wait.on.iter().all(is_first));
    let is_behind = nearest.or_else(|| of_reached().find(|(_, wait)| wait.on.iter().any(is_first)));
    let first = differs.map(|(_, wait)| wait).or(holds_up);
    // A collective that has ended on some ranks alone is the cause of everything behind it.
    if let Some(found) = job.explain_lost(&stuck).filter(|_| first.is_none()) {
        return Some(found);
    }
    // A rank that waits in what all have called has not come to the next collective, and is not behind, if another rank is blocked by itself.
    let keep = is_behind.filter(|_| first.is_none()).map_or(&[][..], |(_, wait)| &wait.on);
    let keep: Vec<u64> = keep.iter().copied().filter(is_first).collect();
    let one_is_blocked = || ranks.values().any(|process| blame::stands_by_itself(process));
    let are_met = !keep.is_empty() && keep.iter().all(|rank| job.is_met(*rank)) && one_is_blocked();
    let wait = first.or(is_behind.map(|(_, wait)| wait));
    if let Some(wait) = wait.filter(|_| !are_met) {
        let holders: Vec<_> = holders.into_iter().map(|(_, holder)| holder).collect();
        return Some(job.explain(wait, &waits, &holders));
    }
    let held_back = ranks.keys().filter_map(|rank| Some((*rank, job.held_back(*rank)?))).collect();
    let those = if are_met { &keep } else { &stuck };
    if let Some((circle, waits)) = [&waits, &held_back].into_iter().find_map(|of| Some((circle(those, of)?, of))) {
        return Some(job.explain_circle(&circle, waits));
    }
    job.crossed(&stuck).or_else(|| Some(job.explain_none(those, are_met)))
}

fn circle(stuck: &[u64], waits: &BTreeMap<u64, Wait>) -> Option<Vec<u64>> {
    let mut way = vec![*stuck.iter().find(|rank| waits.contains_key(rank))?];
    loop {
        let next = *waits.get(way.last()?)?.on.first()?;
        if let Some(begin) = way.iter().position(|rank| *rank == next) {
            return Some(way.split_off(begin));
        }
        way.push(next);
    }
}

impl<'a> Job<'a> {
    fn of(ranks: &'a BTreeMap<u64, &'a Process>) -> Self {
        let mut members: BTreeMap<u64, BTreeMap<u64, &Member>> = BTreeMap::new();
        let mut order = Vec::new();
        for (&rank, process) in ranks {
            let Some(calls) = calls(process) else { continue };
            let mut known: Vec<_> = calls.members.iter().filter(|member| member.id != 0).collect();
            known.sort_by_key(|member| member.born);
            for member in known {
                members.entry(member.id).or_insert_with(|| {
                    order.push(member.id);
                    BTreeMap::new()
                });
                members.entry(member.id).or_default().insert(rank, member);
            }
        }
        let each = || members.iter().flat_map(|(id, of)| of.iter().map(|(rank, member)| (*id, *rank, *member)));
        let ranks_in = each().filter_map(|(id, rank, member)| Some(((id, member.rank?.0), rank))).rev().collect();
        let differences = members.iter().filter_map(|(id, of)| Some((*id, first_difference(of)?))).collect();
        Self { ranks, members, order, ranks_in, differences, asked: Asked::of(ranks) }
    }

    pub fn members(&self, id: u64) -> impl Iterator<Item = (u64, &'a Member)> + '_ {
        self.members.get(&id).into_iter().flatten().map(|(rank, member)| (*rank, *member))
    }

    pub fn member(&self, id: u64, rank: u64) -> Option<&'a Member> {
        self.members.get(&id)?.get(&rank).copied()
    }

    /// Why a rank is blocked behind a collective of its own, and whether that keeps those waiting that have not called it.
    fn holder(&self, rank: u64, waits: &BTreeMap<u64, Wait>) -> Option<Holder> {
        let (ahead, verdict) = blame::ahead(self.ranks.get(&rank)?).filter(|(ahead, _)| *ahead != Ahead::AsAsked)?;
        let mut next: Vec<u64> = waits.get(&rank)?.on.clone();
        let mut reached = BTreeSet::new();
        let mut behind = Behind::NotSeen;
        while let Some(other) = next.pop() {
            if other == rank {
                behind = Behind::WaitsForRank;
            } else if reached.insert(other) {
                match waits.get(&other) {
                    Some(wait) => next.extend(&wait.on),
                    None => behind = behind.max(blame::behind(self.ranks.get(&other).copied(), &self.asked)),
                }
            }
        }
        let first = blame::named_first(ahead, behind) == First::Ahead;
        Some(Holder { rank, why: in_words(verdict), first })
    }

    /// Whether a rank without a wait stands in a kernel of NCCL's: all other ends of it have been called. One that is slow has no verdict yet.
    fn is_met(&self, rank: u64) -> bool {
        let stands = |process: &Process| culprit(process).is_some() || process.waits_for_late_ranks().is_some();
        let process = self.ranks.get(&rank).filter(|process| stands(process));
        process.and_then(|process| calls(process)).is_some_and(|calls| calls.complete)
    }

    fn first_wait(&self, rank: u64) -> Option<Wait> {
        let calls = calls(self.ranks.get(&rank)?)?;
        let of_members = calls.members.iter().filter(|member| member.id != 0).flat_map(|own| {
            let collective = self.behind(rank, own).into_iter().chain(self.different(own));
            collective.chain(self.exchanges(rank, own, false))
        });
        of_members.chain(self.meeting(rank, calls)).min_by_key(|wait| wait.at)
    }

    fn behind(&self, rank: u64, own: &Member) -> Option<Wait> {
        let others = || self.members(own.id).filter(move |(other, _)| *other != rank);
        let fewest = others().map(|(_, member)| member.collectives).min()?;
        if fewest >= own.collectives {
            return None;
        }
        let number = fewest + 1;
        let on = others().filter(|(_, member)| member.collectives < number).map(|(other, _)| other).collect();
        // A collective whose record is gone was called before all others that are there.
        let at = own.call(number).map_or(own.born, |called| called.at);
        Some(Wait { at, id: own.id, within: In::Collective(number), on })
    }

    /// The first collective that ranks have called differently, if this one has called it.
    fn different(&self, own: &Member) -> Option<Wait> {
        let (number, on) = self.differences.get(&own.id).filter(|(number, _)| *number <= own.collectives)?;
        let at = own.call(*number).map_or(own.born, |called| called.at);
        Some(Wait { at, id: own.id, within: In::Different(*number), on: on.clone() })
    }

    /// The first send or receive whose other end has been called too, behind another one that waits itself.
    fn held_back(&self, rank: u64) -> Option<Wait> {
        let own = calls(self.ranks.get(&rank)?)?.members.iter().filter(|member| member.id != 0);
        own.filter_map(|own| self.exchanges(rank, own, true)).min_by_key(|wait| wait.at)
    }

    /// Whether its kernel, one of its own communicator, comes behind that of an earlier send or receive: they are in no group.
    fn is_behind(&self, rank: u64, member: &Member, called: &Called) -> bool {
        let Some(all) = self.ranks.get(&rank).and_then(|process| in_flight(process)) else { return false };
        member.exchanges.values().any(|(_, before)| {
            let mut operations = all.stream(before.stream).into_iter().flat_map(|stream| &stream.operations);
            operations.any(|op| op.waits_for_peers() && (before.at..called.at).contains(&op.at))
        })
    }

    fn exchanges(&self, rank: u64, own: &Member, held_back: bool) -> Option<Wait> {
        let is_complete = |rank| self.ranks.get(&rank).and_then(|one| calls(one)).is_some_and(|calls| calls.complete);
        let (own_rank, _) = own.rank.filter(|_| is_complete(rank))?;
        let unmet = own.exchanges.iter().filter_map(|(peer, (count, newest))| {
            let other = *self.ranks_in.get(&(own.id, peer.rank.into()))?;
            let member = self.member(own.id, other)?;
            let back = Peer { rank: u16::try_from(own_rank).ok()?, sends: !peer.sends };
            let its = member.exchanges.get(&back);
            let met = its.map_or(0, |(count, _)| *count);
            let is_unequal = met == *count && its.is_some_and(|(_, its)| amount(its) != amount(newest));
            let within = match is_unequal {
                true => In::Unequal(*peer, *count),
                false if met < *count => In::Exchange(*peer, met + 1),
                false if held_back && !self.is_behind(rank, own, newest) && self.is_behind(other, member, &its?.1) => {
                    In::Exchange(*peer, *count)
                }
                false => return None,
            };
            is_complete(other).then(|| Wait { at: newest.at, id: own.id, within, on: vec![other] })
        });
        unmet.min_by_key(|wait| wait.at)
    }

    fn meeting(&self, rank: u64, calls: &Communications) -> Option<Wait> {
        let meeting = calls.meeting?;
        let at = meeting.since;
        let wait = |id, within, on: Vec<u64>| (!on.is_empty()).then_some(Wait { at, id, within, on });
        if meeting.entry_point.class() != Class::CommunicatorCreate {
            return None;
        }
        if meeting.entry_point.symbol() == "ncclCommSplit" {
            // All ranks of the parent take part. It is the one that the rank has split more often than others have.
            return calls.members.iter().filter(|own| own.id != 0).find_map(|own| {
                let others = self.members(own.id).filter(|(other, _)| *other != rank);
                let on = others.filter(|(_, member)| member.splits < own.splits).map(|(other, _)| other).collect();
                wait(own.id, In::Split, on)
            });
        }
        let (_, size) = calls.member(meeting.id)?.rank?;
        // A communicator of as many ranks as the job has: its ranks are the job's, as far as those that have come show.
        let came: BTreeMap<u64, &Member> = self.members(meeting.id).collect();
        let is_the_jobs =
            |(rank, member): (&u64, &&Member)| member.rank.is_some_and(|(its, _)| u64::from(its) == *rank);
        let are_the_jobs = came.iter().all(is_the_jobs);
        let missing = (0..u64::from(size)).filter(|rank| are_the_jobs && !came.contains_key(rank));
        wait(meeting.id, In::Creation, missing.collect())
    }

    /// The first two ranks that have called collectives of these communicators in different orders, and what each called first.
    pub fn crossed_in(&self, (a, b): (u64, u64), stuck: &[u64]) -> Option<Crossing> {
        let shared = || {
            let of_both = stuck.iter().filter_map(|rank| Some((*rank, self.member(a, *rank)?, self.member(b, *rank)?)));
            of_both.filter(|(_, in_a, in_b)| !in_a.calls.is_empty() && !in_b.calls.is_empty())
        };
        let from = |first: fn(&Member) -> Option<u32>| {
            let firsts = shared().map(move |(_, in_a, in_b)| (first(in_a), first(in_b)));
            firsts.fold((None, None), |most, one| (most.0.max(one.0), most.1.max(one.1)))
        };
        let (from_a, from_b) = from(|member| member.calls.front().map(|called| called.about.number));
        let sequence = |in_a: &Member, in_b: &Member| {
            let of = |member: &Member, from: Option<u32>| {
                let calls = member.calls.iter().map(|called| (called.at, member.id, called.about.number));
                calls.filter(|(.., number)| Some(*number) >= from).collect::<Vec<_>>()
            };
            let mut all = [of(in_a, from_a), of(in_b, from_b)].concat();
            all.sort_unstable();
            all.into_iter().map(|(_, id, number)| (id, number)).collect::<Vec<_>>()
        };
        let mut sequences = shared().map(|(rank, in_a, in_b)| (rank, sequence(in_a, in_b)));
        let (one, own) = sequences.next()?;
        sequences.find_map(|(other, its)| {
            let (first, second) = own.iter().zip(&its).find(|(own, its)| own != its)?;
            (first.0 != second.0).then_some((one, other, *first, *second))
        })
    }

    pub fn missing(&self) -> Vec<u64> {
        let size = |id: &u64| self.members(*id).find_map(|(_, member)| member.rank).map_or(0, |(_, size)| size);
        let Some(largest) = self.order.iter().copied().max_by_key(size) else { return Vec::new() };
        let there: BTreeSet<u64> =
            self.members(largest).filter_map(|(_, member)| Some(u64::from(member.rank?.0))).collect();
        (0..u64::from(size(&largest))).filter(|rank| !there.contains(rank) && !self.ranks.contains_key(rank)).collect()
    }
}

fn amount(called: &Called) -> (u64, u16) {
    (called.about.count, called.about.data_type)
}

fn first_difference(members: &BTreeMap<u64, &Member>) -> Option<(u64, Vec<u64>)> {
    let mut known: HashMap<u32, &Called> = HashMap::new();
    let all = members.values().flat_map(|member| &member.calls);
    let differ = all.filter(|called| !known.entry(called.about.number).or_insert(called).is_like(called));
    let number = u64::from(differ.map(|called| called.about.number).min()?);
    let called = || members.iter().filter_map(|(rank, member)| Some((*rank, member.call(number)?)));
    let usual = most_common(called().map(|(_, called)| called.key()))?;
    Some((number, called().filter(|(_, called)| called.key() != usual).map(|(rank, _)| rank).collect()))
}

#[cfg(test)]
#[path = "waits_tests.rs"]
mod tests;
