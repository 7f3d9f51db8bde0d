//! Jobs from a seed: operations that all ranks of a communicator do in one order, steps of a rank in between, and now and then a fault of one rank.

use crate::campaign::Tree;
use crate::generate::{busy, plain, runner, Made};
use crate::job::Job;
use crate::program::{Program, Step};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

const KERNELS: u64 = 15;
const STREAMS: u64 = 3;
const MOST_RANKS: usize = 4;
const MOST_OPERATIONS: usize = 10;
/// No step opens it, and none raises the word.
const CLOSED_GATE: u64 = 3;
const UNWRITTEN_WORD: u64 = 7;

/// The job of this number under a seed.
///
/// # Panics
///
/// Never: the strategies reject nothing.
pub fn tree(seed: u64, number: u64) -> Tree<Job> {
    jobs().new_tree(&mut runner(seed, number)).unwrap_or_else(|reason| panic!("no job: {reason}"))
}

/// The members of a communicator do it together.
#[derive(Clone, Debug)]
struct Operation {
    comm: usize,
    what: What,
    stream: u64,
    count: u64,
    /// Steps of one rank before it.
    before: Vec<(usize, Made)>,
}

#[derive(Clone, Copy, Debug)]
enum What {
    AllReduce,
    /// The rank of one place sends to that of another.
    Send(usize, usize),
    /// Each sends to the next one and receives from the one before.
    Ring,
}

/// Of one rank, at one operation.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// It takes no part.
    Skips,
    /// It waits on the host before it.
    Stands,
    /// It ends instead.
    Leaves,
    /// It has another count.
    Counts,
    /// It does it behind the next operation.
    Swaps,
    /// Its stream waits for a value before it, and the host for the stream.
    Waits,
    /// Its stream waits for a value before it.
    HoldsBack,
    /// It comes later than the threshold.
    Late(u64),
}

#[derive(Clone, Debug)]
struct Drawn {
    ranks: usize,
    /// Of each communicator but that of all ranks: a bit for each member.
    comms: Vec<u8>,
    kinds: Vec<&'static str>,
    warm: Vec<u64>,
    operations: Vec<Operation>,
    faults: Vec<(Index, usize, Fault)>,
}

fn jobs() -> BoxedStrategy<Job> {
    let ranks = prop_oneof![1 => Just(1usize), 8 => Just(2), 5 => Just(3), 3 => Just(4)];
    let kinds = vec(prop_oneof![4 => Just("nonblocking"), 1 => Just("blocking")], STREAMS as usize);
    let faults = prop_oneof![3 => vec(fault(), 0), 7 => vec(fault(), 1), 2 => vec(fault(), 2)];
    (ranks, vec(any::<u8>(), 0..=2), kinds, vec(0..KERNELS, 0..=10), vec(operation(), 1..=MOST_OPERATIONS), faults)
        .prop_map(|(ranks, comms, kinds, warm, operations, faults)| {
            Drawn { ranks, comms, kinds, warm, operations, faults }.job()
        })
        .boxed()
}

fn fault() -> BoxedStrategy<(Index, usize, Fault)> {
    let fault = prop_oneof![
        3 => Just(Fault::Skips),
        3 => Just(Fault::Stands),
        2 => Just(Fault::Leaves),
        2 => Just(Fault::Counts),
        4 => Just(Fault::Swaps),
        2 => Just(Fault::Waits),
        2 => Just(Fault::HoldsBack),
        2 => (700..2000u64).prop_map(Fault::Late),
    ];
    (any::<Index>(), 0..MOST_RANKS, fault).boxed()
}

fn operation() -> BoxedStrategy<Operation> {
    let what = prop_oneof![
        5 => Just(What::AllReduce),
        2 => (0..MOST_RANKS, 0..MOST_RANKS).prop_map(|(from, further)| What::Send(from, further)),
        2 => Just(What::Ring),
    ];
    (0..3usize, what, 0..STREAMS, 1..100u64, vec((0..MOST_RANKS, local()), 0..4))
        .prop_map(|(comm, what, stream, count, before)| Operation { comm, what, stream, count, before })
        .boxed()
}

fn local() -> BoxedStrategy<Made> {
    let (stream, event) = (("stream", STREAMS), ("event", 3));
    let launch = (plain("launch", &[stream, ("kernel", KERNELS)]), busy()).prop_map(|((what, mut with), busy)| {
        with.extend(busy.map(|busy| ("busy", busy)));
        (what, with)
    });
    prop_oneof![
        6 => launch,
        4 => plain("synchronize", &[stream]),
        1 => plain("synchronize_context", &[]),
        3 => plain("sleep", &[("ms", 60)]),
        2 => plain("record", &[event, stream]),
        2 => plain("wait_event", &[stream, event]),
        1 => plain("memset", &[stream]),
        1 => plain("copy", &[]),
        1 => plain("allocate", &[]),
        1 => plain("free", &[("allocation", 4)]),
        2 => plain("load_module", &[]),
    ]
    .boxed()
}

impl Drawn {
    fn job(&self) -> Job {
        let all: Vec<usize> = (0..self.ranks).collect();
        let some = |bits: &u8| {
            let members: Vec<usize> = all.iter().copied().filter(|rank| bits >> rank & 1 == 1).collect();
            if members.len() < 2 {
                all.clone()
            } else {
                members
            }
        };
        let comms: Vec<_> = std::iter::once(all.clone()).chain(self.comms.iter().map(some)).collect();
        let ranks = all.iter().map(|rank| self.program(*rank, &comms)).collect();
        Job { comms, ranks }
    }

    fn program(&self, rank: usize, comms: &[Vec<usize>]) -> Program {
        let faults: Vec<_> = self.faults.iter().filter(|(_, whose, _)| whose % self.ranks == rank).collect();
        let mut steps = Vec::new();
        let mut swapped = None;
        for (at, operation) in self.operations.iter().enumerate() {
            let fault =
                faults.iter().find(|(its, ..)| its.index(self.operations.len()) == at).map(|(.., fault)| *fault);
            steps.extend(operation.before.iter().filter(|(whose, _)| *whose == rank).map(|(_, made)| made.clone()));
            let comm = operation.comm % comms.len();
            let own = operation.of(rank, (comm, &comms[comm]));
            if matches!(fault, Some(Fault::Leaves)) {
                break;
            }
            steps.extend(fault.map_or(Vec::new(), |fault| fault.before(operation.stream)));
            match fault {
                Some(Fault::Skips) => {}
                Some(Fault::Counts) => steps.extend(own.map(counts_more)),
                Some(Fault::Swaps) => swapped = own,
                _ => {
                    steps.extend(own);
                    steps.extend(swapped.take());
                }
            }
        }
        steps.extend(swapped);
        steps.push(("synchronize_context", Vec::new()));
        let steps = steps.into_iter().map(|(what, with)| Step { thread: 0, what, with }).collect();
        Program { streams: self.kinds.clone(), warm: self.warm.clone(), steps }
    }
}

impl Fault {
    /// The steps that come before the operation.
    fn before(self, stream: u64) -> Vec<Made> {
        let wait = ("wait_value", vec![("stream", stream), ("word", UNWRITTEN_WORD), ("value", 1)]);
        match self {
            Self::Stands => vec![("pass", vec![("gate", CLOSED_GATE)])],
            Self::Waits => vec![wait, ("synchronize", vec![("stream", stream)])],
            Self::HoldsBack => vec![wait],
            Self::Late(ms) => vec![("sleep", vec![("ms", ms)])],
            Self::Skips | Self::Leaves | Self::Counts | Self::Swaps => Vec::new(),
        }
    }
}

fn counts_more((what, with): Made) -> Made {
    (what, with.into_iter().map(|(name, value)| (name, value + u64::from(name == "count"))).collect())
}

impl Operation {
    /// The part of a rank, where it has one.
    fn of(&self, rank: usize, (comm, members): (usize, &[usize])) -> Option<Made> {
        let own = members.iter().position(|member| *member == rank)?;
        let (size, with) = (members.len(), vec![("comm", comm as u64), ("stream", self.stream)]);
        let member = |at: usize| members[at % size] as u64;
        let (what, more) = match self.what {
            What::Send(from, further) if size > 1 => {
                let (from, to) = (from % size, (from + 1 + further % (size - 1)) % size);
                match own {
                    own if own == from => ("send", vec![("to", member(to))]),
                    own if own == to => ("receive", vec![("from", member(from))]),
                    _ => return None,
                }
            }
            What::Ring if size > 1 => ("exchange", vec![("to", member(own + 1)), ("from", member(own + size - 1))]),
            _ => ("all_reduce", Vec::new()),
        };
        Some((what, [with, more, vec![("count", self.count)]].concat()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::strategy::ValueTree;
    use std::collections::BTreeSet;

    #[test]
    fn jobs_are_read_again_and_have_every_call_and_number_of_ranks() {
        let (mut calls, mut ranks, mut comms) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for number in 0..200 {
            let job = tree(1, number).current();
            assert_eq!(Job::parse(&job.to_string()).as_ref(), Ok(&job));
            calls.extend(
                job.ranks
                    .iter()
                    .flat_map(|rank| &rank.steps)
                    .filter(|step| step.get("comm").is_some())
                    .map(|step| step.what),
            );
            ranks.insert(job.ranks.len());
            comms.insert(job.comms.len());
        }
        assert_eq!(calls, ["all_reduce", "exchange", "receive", "send"].into());
        assert_eq!((ranks, comms), ([1, 2, 3, 4].into(), [1, 2, 3].into()));
    }
}
