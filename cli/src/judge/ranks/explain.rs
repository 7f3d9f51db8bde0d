//! The wait that keeps a job from going on, in words: which ranks are behind or differ, and what the others wait in.
//!
//! Must not: find out by itself who waits for whom; `waits` has.

use super::blame::{self, Behind};
use super::doing::{culprit, has_ended, lost_signal, why_all_wait};
use super::odd_ranks::{
    behind_sentence, have, most_common, named, wait, waits_in_it, BlockedRank, ComparedBy, NamedCommunicator, OddRank,
    RankGroup, Ranks,
};
use super::waits::{Holder, In, Job, Wait};
use crate::judge::communications::{Called, Member, Peer};
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
        let (stack, python) = (Vec::new(), Vec::new());
        OddRank { rank, process: 0, launched, collective, doing, quiet_nanos: None, stack, python }
    }

    fn blocked(&self) -> Vec<BlockedRank> {
        // Those that hang behind no collective are the first.
        let mut blocked: Vec<_> = self.ranks.iter().collect();
        blocked.sort_by_key(|(_, process)| !blame::stands_by_itself(process));
        blocked.into_iter().filter_map(|(rank, process)| BlockedRank::of(*rank, process)).collect()
    }

    fn odd_ones(&self, ranks: &[u64], id: u64) -> Vec<OddRank> {
        ranks.iter().map(|rank| self.odd(*rank, id, None)).collect()
    }

    fn not_compared(&self) -> Vec<u64> {
        let unread = self.ranks.iter().filter(|(_, process)| !process.is_read).map(|(rank, _)| *rank);
        unread.chain(self.missing()).collect()
    }

    pub fn explain(&self, wait: &Wait, waits: &BTreeMap<u64, Wait>, holders: &[Holder]) -> Ranks {
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
            In::Collective(number) => self.explain_collective((wait.id, number), &of, behind, holders),
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
        let odd: Vec<_> = ranks.odd().map(|odd| odd.rank).collect();
        ranks.blocked = self.blocked();
        ranks.blocked.retain(|blocked| !odd.contains(&blocked.rank));
        ranks.not_compared = self.not_compared();
        ranks.groups = self.groups(wait.id, waits);
        ranks.communicator = Some(communicator);
        ranks
    }

    fn explain_collective(
        &self,
        (id, number): (u64, u64),
        of: &str,
        behind: Vec<OddRank>,
        holders: &[Holder],
    ) -> Ranks {
        let what = self.members(id).find_map(|(_, member)| member.call(number)).map(Called::in_words);
        let joined = self.members(id).filter(|(_, member)| member.collectives >= number);
        let joined: Vec<u64> = joined.map(|(rank, _)| rank).collect();
        let told = what.as_deref().map(|what| format!(" ({what})")).unwrap_or_default();
        let done = format!("called collective {number} of {of}{told}");
        let holder = holders.iter().find(|holder| joined.contains(&holder.rank));
        if let Some(Holder { rank, why, first: true }) = holder {
            let others = behind_sentence(&behind, "called it", "");
            let sentence = format!("rank {rank} has {done} and is blocked behind it, {why}; {others}");
            return Ranks { number: Some(number), collective: what, behind, joined, ..by_calls(sentence) };
        }
        let does_other =
            |odd: &OddRank| blame::behind(self.ranks.get(&odd.rank).copied(), &self.asked) == Behind::DoesOther;
        let (mut behind, mut others): (Vec<_>, Vec<_>) = behind.into_iter().partition(does_other);
        if behind.is_empty() {
            std::mem::swap(&mut behind, &mut others);
        }
        // Those may wait for the first.
        let either = || format!("; {} {} not called it either", named(&others), have(others.len()));
        let either = (!others.is_empty()).then(either).unwrap_or_default();
        let would = |Holder { rank, why, .. }: &Holder| {
            format!("; rank {rank} would also hang if {} waited for it, {why}", named(&behind))
        };
        let would = holder.map(would).unwrap_or_default();
        let sentence = behind_sentence(&behind, &done, &format!("{either}{}{would}", waits_in_it(&joined)));
        behind.extend(others);
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

    /// Two ranks that have called the same collectives of two communicators in different orders: on one stream each waits for the other, unless one of them has not
    /// come to a collective.
    pub fn crossed(&self, stuck: &[u64]) -> Option<Ranks> {
        let pairs =
            self.order.iter().enumerate().flat_map(|(at, a)| self.order[at + 1..].iter().map(move |b| (*a, *b)));
        let (one, other, first, second) = pairs.filter_map(|pair| self.crossed_in(pair, stuck)).min()?;
        let say = |(id, number): (u64, u32)| format!("collective {number} of {}", self.named(id).in_words());
        let (a, b) = (say(first), say(second));
        let is_blocked = |rank: u64| self.ranks.get(&rank).is_some_and(|process| blame::stands_by_itself(process));
        if is_blocked(one) || is_blocked(other) {
            return None;
        }
        let why = "on one stream each waits for the other.";
        let sentence = format!("rank {one} has called {a} before {b}, and rank {other} the other way round: {why}");
        let different = vec![self.odd(one, first.0, Some(a)), self.odd(other, second.0, Some(b))];
        Some(Ranks { different, not_compared: self.not_compared(), ..by_calls(sentence) })
    }

    /// The collective that a rank stands in, which all have called: by communicator and number.
    fn stands_in(&self, rank: u64) -> Option<(u64, u64)> {
        let kernel = culprit(self.ranks.get(&rank)?).filter(|kernel| !kernel.operation.is_transfer())?;
        let of_member = |id: &u64| {
            let calls = self.member(*id, rank)?.calls.iter().rev();
            let mut before = calls.filter(|called| called.at <= kernel.operation.at);
            let called = before.find(|called| called.stream == kernel.stream.number)?;
            Some((called.at, *id, u64::from(called.about.number)))
        };
        self.order.iter().filter_map(of_member).max().map(|(_, id, number)| (id, number))
    }

    /// Whether the rank has launched a collective's kernel since then. `None` where not all of its launches are known.
    fn has_launched_since(&self, rank: u64, at: Nanos) -> Option<bool> {
        let all = self.ranks.get(&rank)?.collectives.as_ref().filter(|all| all.complete)?;
        Some(all.launches.last().is_some_and(|(newest, _)| *newest >= at))
    }

    /// The collectives that ranks stand in and all ranks of the communicator have called: communicator, number, and words.
    fn called_by_all(&self, stuck: &[u64]) -> impl Iterator<Item = (u64, u64, String)> + '_ {
        let stands: Vec<_> = stuck.iter().filter_map(|rank| self.stands_in(*rank)).collect();
        stands.into_iter().filter_map(|(id, number)| {
            let size = self.named(id).size?;
            let called = self.members(id).filter(|(_, member)| member.collectives >= number).count();
            let words = self.members(id).find_map(|(_, member)| member.call(number)).map(Called::in_words)?;
            (called == size as usize).then_some((id, number, words))
        })
    }

    /// A collective that all have called, and that has ended on some of them alone.
    pub fn explain_lost(&self, stuck: &[u64]) -> Option<Ranks> {
        self.called_by_all(stuck).find_map(|(id, number, words)| {
            let ended = self.members(id).map(|(rank, member)| {
                let until = member.call(number + 1).map_or(Nanos::MAX, |next| next.at);
                let called = member.call(number).filter(|its| self.has_launched_since(rank, its.at) == Some(true));
                let process = self.ranks.get(&rank).zip(called);
                (rank, process.and_then(|(process, called)| has_ended(process, called.at, until)))
            });
            let of = self.named(id).in_words();
            let sentence = lost_signal(&ended.collect(), &format!("collective {number} of {of} ({words})"))?;
            let joined = self.members(id).map(|(rank, _)| rank).collect();
            Some(self.with_number((number, words), Ranks { joined, ..by_calls(sentence) }))
        })
    }

    /// A collective that all have called, and that not all have launched.
    fn explain_not_launched(&self, stuck: &[u64]) -> Option<Ranks> {
        self.called_by_all(stuck).find_map(|(id, number, words)| {
            let has_not = |(rank, member): &(u64, &Member)| {
                member.call(number).is_some_and(|called| self.has_launched_since(*rank, called.at) == Some(false))
            };
            let not_launched: Vec<u64> = self.members(id).filter(has_not).map(|(rank, _)| rank).collect();
            let ranks = self.members(id).map(|(rank, _)| rank);
            let joined: Vec<u64> = ranks.filter(|rank| !not_launched.contains(rank)).collect();
            if not_launched.is_empty() || joined.is_empty() {
                return None;
            }
            let behind = self.odd_ones(&not_launched, id);
            let (of, have) = (self.named(id).in_words(), have_it(not_launched.len()));
            let done = format!("launched collective {number} of {of} ({words}), which {have} called");
            let sentence = behind_sentence(&behind, &done, &waits_in_it(&joined));
            Some(self.with_number((number, words), Ranks { behind, joined, ..by_calls(sentence) }))
        })
    }

    fn with_number(&self, (number, words): (u64, String), ranks: Ranks) -> Ranks {
        Ranks { number: Some(number), collective: Some(words), not_compared: self.not_compared(), ..ranks }
    }

    /// These ranks wait in a collective that all have called; `others_wait` if there are calls behind it that not all have made, and a rank is blocked by itself.
    pub fn explain_none(&self, stuck: &[u64], others_wait: bool) -> Ranks {
        let blocked = self.blocked();
        let missing = self.missing();
        if let Some(found) = self.explain_not_launched(stuck).filter(|_| blocked.is_empty()) {
            return found;
        }
        let waiting = format!("{} {}", ranks_in_words(stuck.to_vec()), wait(stuck.len()));
        let same = match others_wait {
            true => format!("all its ranks have called the collective or transfer in which {waiting}, and"),
            false => "every rank that could be compared has made the same calls of NCCL, and".to_owned(),
        };
        let sentence = match (&blocked[..], &missing[..]) {
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

fn have_it(ranks: usize) -> &'static str {
    ["they have", "it has"][usize::from(ranks == 1)]
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
