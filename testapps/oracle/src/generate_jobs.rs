//! Jobs from a seed: operations that all ranks of a communicator do in one order, steps of a rank in between, and now and then a fault of one rank.

use crate::generate::{plain, runner, Made};
use crate::job::Job;
use crate::program::{Program, Step};
use proptest::collection::vec;
use proptest::prelude::*;

const KERNELS: u64 = 15;
const MOST_OPERATIONS: usize = 8;

/// A job, and the smaller ones that it can become.
pub type Tree = crate::campaign::Tree<Job>;

/// The job of this number under a seed.
///
/// # Panics
///
/// Never: the strategies reject nothing.
pub fn tree(seed: u64, number: u64) -> Tree {
    jobs().new_tree(&mut runner(seed, number)).unwrap_or_else(|reason| panic!("no job: {reason}"))
}

/// What some ranks do together.
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
}

/// Of one rank, at one operation.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// It does not take part.
    Skips,
}

fn jobs() -> BoxedStrategy<Job> {
    let fault =
        prop_oneof![1 => Just(None), 2 => (any::<prop::sample::Index>(), 0..2usize, Just(Fault::Skips)).prop_map(Some)];
    (vec(operation(), 1..=MOST_OPERATIONS), vec(0..KERNELS, 0..=8), fault)
        .prop_map(|(operations, warm, fault)| job(&operations, &warm, fault))
        .boxed()
}

fn operation() -> BoxedStrategy<Operation> {
    let local = prop_oneof![
        3 => plain("launch", &[("stream", 2), ("kernel", KERNELS)]),
        2 => plain("synchronize", &[("stream", 2)]),
        2 => plain("sleep", &[("ms", 60)]),
    ];
    (0..2u64, 1..100u64, vec((0..2usize, local), 0..3))
        .prop_map(|(stream, count, before)| Operation { comm: 0, what: What::AllReduce, stream, count, before })
        .boxed()
}

fn job(operations: &[Operation], warm: &[u64], fault: Option<(prop::sample::Index, usize, Fault)>) -> Job {
    let fault = fault.map(|(at, rank, fault)| (at.index(operations.len()), rank, fault));
    let ranks = (0..2).map(|rank| {
        let mut steps = Vec::new();
        for (at, operation) in operations.iter().enumerate() {
            let faulty = fault.filter(|(its, whose, _)| (*its, *whose) == (at, rank)).map(|(.., fault)| fault);
            steps.extend(operation.before.iter().filter(|(whose, _)| *whose == rank).map(|(_, made)| made.clone()));
            match faulty {
                Some(Fault::Skips) => {}
                None => steps.extend(operation.of(rank)),
            }
        }
        steps.push(("synchronize_context", Vec::new()));
        let steps = steps.into_iter().map(|(what, with)| Step { thread: 0, what, with }).collect();
        Program { streams: vec!["nonblocking"; 2], warm: warm.to_vec(), steps }
    });
    Job { comms: vec![vec![0, 1]], ranks: ranks.collect() }
}

impl Operation {
    fn of(&self, _rank: usize) -> Option<Made> {
        match self.what {
            What::AllReduce => {
                Some(("all_reduce", vec![("comm", self.comm as u64), ("stream", self.stream), ("count", self.count)]))
            }
        }
    }
}
