//! Links each waiter to what it waits for, from the blocked threads to what does not end: a finding's path as data. Only the command asks.
//!
//! Must not: say anything that the sentences of [`super::messages`] do not say.

use super::finding::Finding;
use super::needs::{loads_module, Decision};
use super::operation::StreamRef;
use super::path::{End, Path, SharedQueue, Step};
use super::snapshot::{BlockedCall, Snapshot};
use super::verdict::{Culprit, Verdict};
use crate::api::Code;
use crate::Nanos;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Party {
    Thread(u32),
    /// By the time at which the call that submitted it was entered.
    Operation {
        stream: u32,
        at: Nanos,
    },
    Stream(u32),
    /// To this address, by no submitted operation.
    Write(u64),
    Ranks,
    Unseen,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    pub from: Party,
    pub to: Party,
    pub how: &'static str,
}

/// Empty where another build has made the verdict, and this one decides otherwise.
pub fn links_of(snapshot: &Snapshot, verdict: &Verdict) -> Vec<Link> {
    let findings = Decision::new(snapshot).findings();
    let same = |finding: &&Finding<'_>| {
        finding.code == verdict.code && finding.calls.iter().map(|call| call.thread).eq(verdict.threads.iter().copied())
    };
    findings.iter().find(same).map(links).unwrap_or_default()
}

/// A cycle's last link leads back to an earlier party.
fn links(finding: &Finding<'_>) -> Vec<Link> {
    let mut links = Links(Vec::new());
    let path = &finding.path;
    let (chain, ends) = along(path);
    let is_fed = matches!(path.end, End::Fed(..));
    let first = chain.first().or(ends.first());
    for call in &finding.calls {
        let thread = Party::Thread(call.thread);
        match is_fed {
            true => ends.iter().for_each(|(party, _)| links.add(&thread, party, FED)),
            false => first.iter().for_each(|(party, _)| links.add(&thread, party, how(finding, call))),
        }
    }
    for (number, (from, how)) in chain.iter().enumerate() {
        chain.get(number + 1).or(ends.first()).iter().for_each(|(to, _)| links.add(from, to, how));
    }
    if is_fed {
        return links.0;
    }
    // From the end of the path to what it waits for.
    ends.windows(2).for_each(|pair| links.add(&pair[0].0, &pair[1].0, pair[1].1));
    // The load of a module waits for everything in flight.
    if let (Code::LG202, Some(call)) = (finding.code, finding.calls.first()) {
        for at in finding.culprits.iter().map(operation) {
            if !links.0.iter().any(|link| link.to == at) {
                links.add(&Party::Thread(call.thread), &at, IDLE);
            }
        }
    }
    links.0
}

const IDLE: &str = "loading needs an idle context";
const FED: &str = "needs an idle context, and work is submitted there without a pause";

struct Links(Vec<Link>);

impl Links {
    fn add(&mut self, from: &Party, to: &Party, how: &'static str) {
        let known = self.0.iter().any(|link| (&link.from, &link.to) == (from, to));
        if from != to && !known {
            self.0.push(Link { from: from.clone(), to: to.clone(), how });
        }
    }
}

fn how(finding: &Finding<'_>, call: &BlockedCall) -> &'static str {
    match finding.code {
        _ if call.queries.is_some() => "asks again and again whether it has ended",
        _ if loads_module(call) => IDLE,
        Code::LG204 => "needs an idle context",
        Code::LG205 => "the stream's queue is full",
        _ => "waits until it has ended",
    }
}

type Parties = Vec<(Party, &'static str)>;

/// The parties of the steps, and those at the end of the path.
fn along(path: &Path<'_>) -> (Parties, Parties) {
    let operation_at = |stream, at, how| Some((Party::Operation { stream, at }, how));
    let on = |stream: &StreamRef, how| Some((Party::Stream(stream.number), how));
    let party = |step: &Step<'_>| match step {
        Step::Barrier(load) => {
            let how = "its load is a barrier: it starts after what was in flight";
            operation_at(load.stream.as_ref()?.number, load.at, how)
        }
        Step::Writer(wait, _) => {
            operation_at(wait.stream.number, wait.at, "waits for a value that is written behind this")
        }
        Step::Event(wait) => operation_at(wait.stream, wait.at, "waits for an event that is recorded behind this"),
        Step::HostFunctions(stream) => on(stream, "host functions of a context run one at a time"),
        Step::Pool(one, at, _) => operation_at(one.number, *at, "gets memory of a pool that is freed behind this"),
        Step::Queue(SharedQueue { waits, held_back, .. }) => {
            let how = "comes in a hardware queue after what waits for this";
            operation_at(waits.stream.number, held_back.at, how)
        }
        Step::Room(grid) => {
            operation_at(grid.stream.number, grid.front().at, "needs places of the device that this has")
        }
        Step::Beside(one, of, _) => {
            let graph = of.graph.as_ref().map(|_| "waits for the launch before of its graph");
            operation_at(one.number, of.at, graph.unwrap_or("waits for the work of both devices"))
        }
        Step::Legacy(one, _) => on(one, "the order that the default stream makes"),
    };
    let chain: Parties = path.steps.iter().filter_map(party).collect();
    let ends = match &path.end {
        End::Runs(culprit) => vec![(operation(culprit), "")],
        End::Peers(peers) => vec![(operation(&peers.culprit), ""), (Party::Ranks, "waits for other ranks")],
        End::Meeting => vec![(Party::Ranks, "")],
        End::Unseen(_) | End::Driver | End::Failed(_) => vec![(Party::Unseen, "")],
        End::Unwritten(wait, _) => vec![
            (Party::Operation { stream: wait.stream.number, at: wait.at }, ""),
            (Party::Write(wait.address), "waits for a value that no submitted operation writes"),
        ],
        End::Host(host, culprit) => {
            let thread = Party::Thread(host.thread);
            vec![(operation(culprit), ""), (thread, "its host function has not returned")]
        }
        End::Filled(victim, filler) => {
            vec![(operation(victim), ""), (operation(filler), "finds no room on the device beside it")]
        }
        End::Fed(streams, _) => streams.iter().map(|fed| (Party::Stream(fed.stream.number), "")).collect(),
        End::Cycle(_) => {
            let on = path.steps.last().and_then(leads_to);
            let back = chain.iter().find(|(party, _)| on.is_some() && stream_of(party) == on).or_else(|| chain.first());
            back.map(|(party, _)| (party.clone(), "")).into_iter().collect()
        }
    };
    (chain, ends)
}

fn leads_to(step: &Step<'_>) -> Option<u32> {
    match step {
        Step::Writer(_, by) => Some(*by),
        Step::Event(wait) => Some(wait.recorded_on),
        Step::Legacy(_, other) | Step::Pool(_, _, other) | Step::Beside(_, _, other) => Some(other.number),
        Step::Queue(shared) => Some(shared.ahead.stream.number),
        Step::Barrier(_) | Step::HostFunctions(_) | Step::Room(_) => None,
    }
}

fn stream_of(party: &Party) -> Option<u32> {
    match party {
        Party::Operation { stream, .. } | Party::Stream(stream) => Some(*stream),
        _ => None,
    }
}

fn operation(culprit: &Culprit) -> Party {
    Party::Operation { stream: culprit.stream.number, at: culprit.operation.at }
}

#[cfg(test)]
#[path = "links_tests.rs"]
mod tests;
