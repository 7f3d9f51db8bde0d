//! The wait that keeps a job from going on, in words: which ranks are behind or differ, and what the others wait in.
//!
//! Must not: find out by itself who waits for whom; `waits` has.

use super::blame::{first, Behind, Caller, First};
use super::doing::{has_ended, why_all_wait};
use super::odd_ranks::{
    behind_sentence, have, most_common, named, wait, waits_in_it, BlockedRank, ComparedBy, NamedCommunicator, OddRank,
    RankGroup, Ranks,
};
use super::waits::{In, Job, Wait};
use crate::judge::communications::{Called, Peer};
use crate::judge::hangs::ranks_in_words;
use lazyguard_core::api::ordinal;
use lazyguard_core::report::arguments_in_words;
use lazyguard_core::trace::Communication;
use lazyguard_core::Nanos;
use std::collections::BTreeMap;

fn by_calls(sentence: String) -> Ranks {
    Ranks::new(sentence, ComparedBy::Communicators)
}

impl Job<'_> {
    fn named(&self, id: u64) -> NamedCommunicator {
        let members = || self.members(id).map(|(_, member)| member);
        NamedCommunicator {
            number: self.order.iter().position(|known| *known == id).unwrap_or(0),
            name: members().find_map(|member| member.name.clone()),
            size: members().find_map(|member| member.rank).map(|(_, size)| size),
        }
    }

    fn odd(&self, rank: u64, id: u64, collective: Option<String>) -> OddRank {
        let launched = self.member(id, rank).map_or(0, |member| member.collectives);
        if let Some(process) = self.ranks.get(&rank) {
            return OddRank::of(rank, process, launched, collective, &self.asked);
        }
        let doing = Some("and has left no recording".to_owned());
        OddRank { rank, process: 0, launched, collective, doing, stack: Vec::new() }
    }

    fn blocked(&self) -> Vec<BlockedRank> {
        self.ranks.iter().filter_map(|(rank, process)| BlockedRank::of(*rank, process)).collect()
    }

    fn odd_ones(&self, ranks: &[u64], id: u64) -> Vec<OddRank> {
        ranks.iter().map(|rank| self.odd(*rank, id, None)).collect()
    }

    fn not_compared(&self) -> Vec<u64> {
        let unread = self.ranks.iter().filter(|(_, process)| !process.is_read).map(|(rank, _)| *rank);
        unread.chain(self.missing()).collect()
    }

    pub fn explain(&self, wait: &Wait, waits: &BTreeMap<u64, Wait>) -> Ranks {
        let communicator = self.named(wait.id);
        let of = communicator.in_words();
        // If a rank is waited for that does not wait itself, those that do are not to blame.
        let mut blamed: Vec<u64> = wait.on.clone();
        if !matches!(wait.within, In::Different(_)) && wait.on.iter().any(|rank| !waits.contains_key(rank)) {
            blamed.retain(|rank| !waits.contains_key(rank));
        }
        let is_this = |other: &Wait| other.id == wait.id && other.within == wait.within;
        let waiters: Vec<u64> = waits.iter().filter(|(_, other)| is_this(other)).map(|(rank, _)| *rank).collect();
        let waiter = waiters.first().copied().unwrap_or(0);
        let behind = self.odd_ones(&blamed, wait.id);
        let mut ranks = match wait.within {
            In::Collective(number) => self.explain_collective(wait.id, number, &of, behind, waits),
            In::Different(number) => self.explain_different(wait.id, number, &of, &blamed),
            In::Exchange(peer, count) => {
                let (missing, waiting) = match peer.sends {
                    true => ("ncclRecv from", "ncclSend"),
                    false => ("ncclSend to", "ncclRecv"),
                };
                let done = format!("called the {} {missing} rank {waiter} on {of}", ordinal(count));
                let sentence = behind_sentence(&behind, &done, &format!("; rank {waiter} waits in its {waiting}"));
                Ranks { joined: vec![waiter], behind, ..by_calls(sentence) }
            }
            In::Unequal(peer, count) => self.explain_unequal(wait, &of, waiter, (peer, count)),
            In::Creation | In::Split => {
                let call = if wait.within == In::Split { "ncclCommSplit of" } else { "the call that makes" };
                let sentence = behind_sentence(&behind, &format!("come to {call} {of}"), &waits_in_it(&waiters));
                Ranks { joined: waiters, behind, ..by_calls(sentence) }
            }
        };
        let odd: Vec<_> = ranks.behind.iter().chain(&ranks.different).map(|odd| odd.rank).collect();
        ranks.blocked = self.blocked();
        ranks.blocked.retain(|blocked| !odd.contains(&blocked.rank));
        ranks.not_compared = self.not_compared();
        ranks.groups = self.groups(wait.id, waits);
        ranks.communicator = Some(communicator);
        ranks
    }

    fn explain_collective(
        &self,
        id: u64,
        number: u64,
        of: &str,
        behind: Vec<OddRank>,
        waits: &BTreeMap<u64, Wait>,
    ) -> Ranks {
        let what = self.members(id).find_map(|(_, member)| member.call(number)).map(Called::in_words);
        let joined = self.members(id).filter(|(_, member)| member.collectives >= number);
        let joined: Vec<u64> = joined.map(|(rank, _)| rank).collect();
        let told = what.as_deref().map(|what| format!(" ({what})")).unwrap_or_default();
        let done = format!("called collective {number} of {of}{told}");
        let holder = joined.iter().find_map(|rank| match Caller::of(self.ranks.get(rank)?) {
            Caller::HeldBack(why) => Some((rank, why)),
            Caller::Asked => None,
        });
        let shown: Vec<Behind> = behind.iter().map(|odd| self.shows(odd.rank, waits)).collect();
        let sentence = match holder {
            Some((rank, why)) if first(&Caller::HeldBack(why.clone()), &shown) == First::Caller => {
                let others = behind_sentence(&behind, "called it", "");
                format!("rank {rank} has {done} and is blocked behind it, {why}; {others}")
            }
            _ => {
                let also = holder.map(|(rank, why)| format!("; rank {rank} would also be blocked behind it, {why}"));
                let others = format!("{}{}", waits_in_it(&joined), also.unwrap_or_default());
                // Of several that have not called it, those on their own keep the rest.
                let (own, rest): (Vec<_>, Vec<_>) =
                    behind.into_iter().zip(&shown).partition(|(_, shows)| **shows == Behind::OnItsOwn);
                let [own, rest] = [own, rest].map(|of| of.into_iter().map(|(odd, _)| odd).collect::<Vec<_>>());
                let sentence = match (&own[..], &rest[..]) {
                    ([], _) => behind_sentence(&rest, &done, &others),
                    (_, []) => behind_sentence(&own, &done, &others),
                    _ => {
                        let either = format!("; {} {} not called it either", named(&rest), have(rest.len()));
                        behind_sentence(&own, &done, &format!("{either}{others}"))
                    }
                };
                let behind = own.into_iter().chain(rest).collect();
                return Ranks { number: Some(number), collective: what, behind, joined, ..by_calls(sentence) };
            }
        };
        Ranks { number: Some(number), collective: what, behind, joined, ..by_calls(sentence) }
    }

    fn explain_different(&self, id: u64, number: u64, of: &str, blamed: &[u64]) -> Ranks {
        let called = self.members(id).filter_map(|(rank, member)| Some((rank, member.call(number)?.in_words())));
        let called: Vec<_> = called.collect();
        let usual = most_common(called.iter().map(|(_, words)| words.clone())).unwrap_or_default();
        let words = |rank: u64| called.iter().find(|(its, _)| *its == rank).map(|(_, words)| words.clone());
        let odd = |rank: u64| self.odd(rank, id, words(rank));
        let different: Vec<_> = blamed.iter().map(|rank| odd(*rank)).collect();
        let joined: Vec<_> = called.iter().map(|(rank, _)| *rank).filter(|rank| !blamed.contains(rank)).collect();
        let other = blamed.first().and_then(|rank| words(*rank)).unwrap_or_default();
        let (sentence, different, joined) = if joined.len() > different.len() {
            let (odd, have, waits) = (named(&different), have(blamed.len()), waits_in_it(&joined));
            let sentence =
                format!("{odd} {have} called {other} as collective {number} of {of}, which is {usual}{waits}.");
            (sentence, different, joined)
        } else {
            // As many have called the one as the other: which is wrong cannot be seen.
            let (some, others) = (ranks_in_words(joined), named(&different));
            let sentence = format!("as collective {number} of {of}, {some} called {usual}, and {others} {other}.");
            (sentence, called.iter().map(|(rank, _)| odd(*rank)).collect(), Vec::new())
        };
        Ranks { number: Some(number), collective: Some(usual), different, joined, ..by_calls(sentence) }
    }

    fn explain_unequal(&self, wait: &Wait, of: &str, waiter: u64, (peer, count): (Peer, u64)) -> Ranks {
        let other = wait.on.first().copied().unwrap_or(0);
        let said = |rank: u64, sends: bool| {
            let mut exchanges = self.member(wait.id, rank).into_iter().flat_map(|member| &member.exchanges);
            let own = exchanges.find(|(its, (calls, _))| its.sends == sends && *calls == count);
            let amount = own.map(|(_, (_, called))| amount_in_words(called)).unwrap_or_default();
            format!("rank {rank} {} {amount}", if sends { "sends" } else { "receives" })
        };
        let (its, others) = (said(waiter, peer.sends), said(other, !peer.sends));
        let sentence = format!("in their {} exchange on {of}, {its}, and {others}.", ordinal(count));
        Ranks { different: self.odd_ones(&[waiter, other], wait.id), ..by_calls(sentence) }
    }

    fn groups(&self, id: u64, waits: &BTreeMap<u64, Wait>) -> Vec<RankGroup> {
        let mut groups: BTreeMap<(u64, Option<String>), Vec<u64>> = BTreeMap::new();
        for (rank, member) in self.members(id) {
            let waits_in = waits.get(&rank).map(|wait| self.within_in_words(wait));
            groups.entry((member.collectives, waits_in)).or_default().push(rank);
        }
        let group = |((collectives, waits_in), ranks)| RankGroup { ranks, collectives, waits_in };
        groups.into_iter().map(group).collect()
    }

    fn within_in_words(&self, wait: &Wait) -> String {
        let of = self.named(wait.id).in_words();
        match wait.within {
            In::Collective(number) | In::Different(number) => format!("collective {number} of {of}"),
            In::Exchange(peer, _) | In::Unequal(peer, _) => {
                format!("{} of {of}", if peer.sends { "ncclSend" } else { "ncclRecv" })
            }
            In::Creation => format!("the making of {of}"),
            In::Split => format!("ncclCommSplit of {of}"),
        }
    }

    pub fn explain_circle(&self, circle: &[u64], waits: &BTreeMap<u64, Wait>) -> Ranks {
        let each = circle.iter().filter_map(|rank| {
            let wait = waits.get(rank)?;
            let on = ranks_in_words(wait.on.clone());
            Some(format!("rank {rank} waits in {} for {on}", self.within_in_words(wait)))
        });
        let of_circle: Vec<_> = circle.iter().filter_map(|rank| waits.get(rank)).collect();
        let all = |is_one: fn(&In) -> bool| of_circle.iter().all(|wait| is_one(&wait.within));
        let differ = || of_circle.iter().any(|wait| wait.id != of_circle[0].id);
        let why = if all(|within| matches!(within, In::Collective(_))) && differ() {
            " They use communicators in different orders."
        } else if all(|within| matches!(within, In::Exchange(..))) {
            " The other ends are called behind these, or not at all: call both ends in one group."
        } else {
            ""
        };
        let sentence = format!("ranks wait for each other: {}.{why}", each.collect::<Vec<_>>().join("; "));
        let odd = |rank: &u64| self.odd(*rank, waits.get(rank).map_or(0, |wait| wait.id), None);
        let different = circle.iter().map(odd).collect();
        Ranks { different, not_compared: self.not_compared(), ..by_calls(sentence) }
    }

    /// Two ranks that have called the same collectives of two communicators in different orders: on one stream each waits for the other.
    pub fn crossed(&self, stuck: &[u64]) -> Option<Ranks> {
        let pairs =
            self.order.iter().enumerate().flat_map(|(at, a)| self.order[at + 1..].iter().map(move |b| (*a, *b)));
        let (one, other, first, second) = pairs.filter_map(|pair| self.crossed_in(pair, stuck)).min()?;
        let say = |(id, number): (u64, u32)| format!("collective {number} of {}", self.named(id).in_words());
        let (a, b) = (say(first), say(second));
        let why = "on one stream each waits for the other.";
        let sentence = format!("rank {one} has called {a} before {b}, and rank {other} the other way round: {why}");
        let different = vec![self.odd(one, first.0, Some(a)), self.odd(other, second.0, Some(b))];
        Some(Ranks { different, not_compared: self.not_compared(), ..by_calls(sentence) })
    }

    /// The newest collective that all ranks have called, if it has ended on some of them and not on others.
    fn ended_on_some(&self, id: u64) -> Option<String> {
        let number = self.members(id).map(|(_, member)| member.collectives).min()?;
        let ended = self.members(id).filter_map(|(rank, member)| {
            let from = member.call(number)?.at;
            let until = member.call(number + 1).map_or(Nanos::MAX, |next| next.at);
            Some((rank, has_ended(self.ranks.get(&rank)?, from, until)?))
        });
        let what = self.members(id).find_map(|(_, member)| member.call(number)).map(Called::in_words)?;
        signal_lost(&ended.collect(), &format!("collective {number} of {} ({what})", self.named(id).in_words()))
    }

    pub fn explain_none(&self, stuck: &[u64]) -> Ranks {
        let blocked = self.blocked();
        let missing = self.missing();
        let waiting = format!("{} {}", ranks_in_words(stuck.to_vec()), wait(stuck.len()));
        let same = "every rank that could be compared has made the same calls of NCCL, and";
        let lost = self.order.iter().find_map(|id| self.ended_on_some(*id));
        let sentence = match (&blocked[..], &missing[..]) {
            ([], []) if lost.is_some() => lost.unwrap_or_default(),
            ([], []) => format!("{same} {waiting} in a collective: {}.", why_all_wait(self.ranks)),
            ([], missing) => format!(
                "{} {} left no recording; {waiting} in a collective, and all others have made the same calls of NCCL.",
                ranks_in_words(missing.to_vec()),
                have(missing.len())
            ),
            ([BlockedRank { rank, why, .. }, ..], _) => format!("{same} rank {rank} is blocked by itself: {why}."),
        };
        Ranks { blocked, not_compared: self.not_compared(), ..by_calls(sentence) }
    }
}

/// Says that a collective which all have called has ended on some ranks and not on others; `None` where that is not so.
pub(super) fn signal_lost(ended: &BTreeMap<u64, bool>, what: &str) -> Option<String> {
    let of =
        |has_ended: bool| ended.iter().filter(|(_, its)| **its == has_ended).map(|(rank, _)| *rank).collect::<Vec<_>>();
    let (over, open) = (of(true), of(false));
    (!over.is_empty() && !open.is_empty()).then(|| {
        let (over, open) = (ranks_in_words(over), ranks_in_words(open));
        format!("all have called {what}; it has ended on {over}, and not on {open}: a signal between them was lost.")
    })
}

fn amount_in_words(called: &Called) -> String {
    let about = Communication { root: None, operator: None, ..called.about };
    arguments_in_words(called.entry_point, &about)
}

impl NamedCommunicator {
    fn in_words(&self) -> String {
        let name = self.name.as_ref().map(|name| format!(" \"{name}\"")).unwrap_or_default();
        format!("communicator {}{name}", self.number)
    }
}
