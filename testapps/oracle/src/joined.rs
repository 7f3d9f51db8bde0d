//! The truth of a job, joined from what each rank has written: whether it can still move, who waits for whom across ranks, and which ranks are to blame.
//!
//! A collective waits, once its kernel runs, for that of each other rank of its communicator with the same number, and ends if all of these run or have ended and
//! are the same. A send waits for as many bytes to be received as were sent, and a receive the other way round.

use crate::job::Job;
use crate::program::{Program, Step};
use crate::truth::{Stuck, Truth, Who};
use std::collections::{BTreeMap, BTreeSet};

/// Something of a job that waits or is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Node {
    /// A thread or an operation of a rank.
    Of(usize, Who),
    /// A rank that has ended, or whose program never calls the other end.
    Never(usize),
}

impl Node {
    /// Its rank.
    pub fn rank(self) -> usize {
        match self {
            Self::Of(rank, _) | Self::Never(rank) => rank,
        }
    }
}

/// How far a call of NCCL has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Came {
    /// It is the step that the rank's thread is at.
    Called,
    /// Its kernel is in flight, behind other work.
    Behind(u64),
    Runs(u64),
    Ended,
}

/// One call of a rank.
#[derive(Clone, Copy, Debug)]
struct Call<'j> {
    step: &'j Step,
    came: Came,
}

/// What all ranks have written.
#[derive(Debug)]
pub struct Joined<'j> {
    job: &'j Job,
    ranks: Vec<Truth>,
    edges: BTreeMap<Node, BTreeSet<Node>>,
}

/// The two ends of what goes from a rank to another.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Sends,
    Receives,
}

impl<'j> Joined<'j> {
    /// None where a rank moves, or can be moved by another one, or has not been still at the same time as the others.
    pub fn of(job: &'j Job, ranks: Vec<Truth>) -> Option<Self> {
        let stuck = || ranks.iter().filter_map(stuck_of);
        let since = stuck().map(|stuck| stuck.since).max()?;
        let until = stuck().map(|stuck| stuck.until).min()?;
        (ranks.len() == job.ranks.len() && since < until).then_some(())?;
        let mut joined = Self { job, ranks, edges: BTreeMap::new() };
        joined.connect().then_some(joined)
    }

    /// What a rank that has not ended has written.
    pub fn stuck(&self, rank: usize) -> Option<&Stuck> {
        self.ranks.get(rank).and_then(stuck_of)
    }

    /// The ranks that have not ended.
    fn standing(&self) -> impl Iterator<Item = (usize, &Stuck)> + '_ {
        self.ranks.iter().enumerate().filter_map(|(rank, truth)| Some((rank, stuck_of(truth)?)))
    }

    /// False where a collective can end.
    fn connect(&mut self) -> bool {
        let mut found = Vec::new();
        for (rank, stuck) in self.standing() {
            found.extend(stuck.edges().map(|(from, to)| (Node::Of(rank, from), Node::Of(rank, to))));
            for (id, op) in stuck.ops.iter().filter(|(_, op)| op.is_kernel && op.state == 2) {
                let step = self.job.ranks[rank].step_of_line(op.line).filter(|step| is_of_nccl(step));
                let Some(step) = step else { continue };
                let waits = self.waits_of(rank, step);
                if waits.is_empty() {
                    return false;
                }
                found.extend(waits.into_iter().map(|on| (Node::Of(rank, Who::Op(*id)), on)));
            }
        }
        for (from, to) in found {
            self.edges.entry(from).or_default().insert(to);
        }
        true
    }

    /// What a rank has called, in its order.
    fn calls(&self, rank: usize) -> Vec<Call<'j>> {
        let program = &self.job.ranks[rank];
        let lines = (0..program.steps.len()).map(|at| (program.line_of(at), &program.steps[at]));
        let Some(stuck) = self.stuck(rank) else {
            return lines.map(|(_, step)| Call { step, came: Came::Ended }).collect();
        };
        let at = stuck.threads.first().map(|thread| thread.line);
        let came = |line: u64| {
            let kernel = stuck.ops.iter().find(|(_, op)| op.line == line && op.is_kernel);
            match kernel {
                Some((id, op)) if op.state == 2 => Came::Runs(*id),
                Some((id, _)) => Came::Behind(*id),
                None if at == Some(line) => Came::Called,
                None => Came::Ended,
            }
        };
        let called = lines.take_while(|(line, _)| at.is_none_or(|at| *line <= at));
        called.map(|(line, step)| Call { step, came: came(line) }).collect()
    }

    /// What the running kernel of a step waits for; nothing where it can end.
    fn waits_of(&self, rank: usize, step: &Step) -> BTreeSet<Node> {
        let comm = step.get("comm").unwrap_or_default();
        if step.what == "all_reduce" {
            let peers = self.job.peers(comm as usize, rank);
            return peers.flat_map(|peer| self.waits_for_collective(rank, step, peer)).collect();
        }
        let ends = [(End::Sends, step.get("to")), (End::Receives, step.get("from"))];
        let ends = ends.into_iter().filter_map(|(end, peer)| Some((end, peer? as usize)));
        ends.flat_map(|(end, peer)| self.waits_for_transfer(rank, step, end, peer)).collect()
    }

    fn waits_for_collective(&self, rank: usize, step: &Step, peer: usize) -> Vec<Node> {
        let is_one = |other: &Step| other.what == "all_reduce" && other.get("comm") == step.get("comm");
        let own = self.job.ranks[rank].steps.iter().filter(|other| is_one(other));
        let number = own.take_while(|other| !std::ptr::eq(*other, step)).count();
        let called = self.calls(peer).into_iter().filter(|call| is_one(call.step)).nth(number);
        let is_same = called.is_some_and(|call| call.step.get("count") == step.get("count"));
        match called.map(|call| call.came) {
            Some(Came::Runs(_) | Came::Ended) if is_same => Vec::new(),
            Some(Came::Runs(op) | Came::Behind(op)) => vec![Node::Of(peer, Who::Op(op))],
            Some(Came::Called) => self.thread(peer),
            Some(Came::Ended) | None => {
                let calls_it = self.job.ranks[peer].steps.iter().filter(|other| is_one(other)).count() > number;
                self.not_called(peer, calls_it)
            }
        }
    }

    fn waits_for_transfer(&self, rank: usize, step: &Step, end: End, peer: usize) -> Vec<Node> {
        let comm = step.get("comm");
        let (own, back) = match end {
            End::Sends => ("to", "from"),
            End::Receives => ("from", "to"),
        };
        let is_one = |other: &Step, with: &str, whom: usize| {
            is_of_nccl(other) && other.get("comm") == comm && other.get(with) == Some(whom as u64)
        };
        let floats = |other: &Step| other.get("count").unwrap_or_default();
        let before = self.job.ranks[rank].steps.iter().take_while(|other| !std::ptr::eq(*other, step));
        let mut open = floats(step) + before.filter(|other| is_one(other, own, peer)).map(floats).sum::<u64>();
        for call in self.calls(peer).into_iter().filter(|call| is_one(call.step, back, rank)) {
            match call.came {
                Came::Runs(_) | Came::Ended => open = open.saturating_sub(floats(call.step)),
                Came::Behind(_) | Came::Called if open == 0 => {}
                Came::Behind(op) => return vec![Node::Of(peer, Who::Op(op))],
                Came::Called => return self.thread(peer),
            }
        }
        if open == 0 {
            return Vec::new();
        }
        let to_come: u64 = to_come(&self.job.ranks[peer], self.stuck(peer))
            .filter(|other| is_one(other, back, rank))
            .map(floats)
            .sum();
        self.not_called(peer, to_come >= open)
    }

    fn thread(&self, rank: usize) -> Vec<Node> {
        let thread = self.stuck(rank).and_then(|stuck| stuck.threads.first());
        vec![thread.map_or(Node::Never(rank), |thread| Node::Of(rank, Who::Thread(thread.tid)))]
    }

    fn not_called(&self, rank: usize, calls_it: bool) -> Vec<Node> {
        let mut on = self.thread(rank);
        on.extend((!calls_it).then_some(Node::Never(rank)));
        on
    }

    fn behind(&self, node: Node) -> BTreeSet<Node> {
        let mut seen = BTreeSet::from([node]);
        let mut next = vec![node];
        while let Some(at) = next.pop() {
            next.extend(self.edges.get(&at).into_iter().flatten().filter(|on| seen.insert(**on)));
        }
        seen
    }

    /// Whether two of the nodes wait for each other.
    fn is_circle(&self, one: Node, other: Node) -> bool {
        self.behind(one).contains(&other) && self.behind(other).contains(&one)
    }

    /// The waits that hold each other or are held by nothing, of all ranks.
    pub fn minimal(&self) -> BTreeSet<Node> {
        let threads = self
            .standing()
            .flat_map(|(rank, stuck)| stuck.threads.iter().map(move |thread| Node::Of(rank, Who::Thread(thread.tid))));
        let reached: BTreeSet<Node> = threads.flat_map(|thread| self.behind(thread)).collect();
        let in_a_circle = |node: Node| self.edges.get(&node).into_iter().flatten().any(|on| self.is_circle(node, *on));
        let is_last = |node: Node| self.behind(node).into_iter().all(|on| on == node || self.is_circle(node, on));
        reached.into_iter().filter(|node| is_last(*node) || in_a_circle(*node)).collect()
    }

    /// The ranks that a report may name. Those of the minimal set, where most ranks have called a collective alike without those; both ends of a transfer that are
    /// not of one size. And a rank that loads code behind
    /// its own collective: which rank is named first for such a load is a rule of the report (docs/READING.md), and no truth.
    pub fn blamed(&self) -> BTreeSet<usize> {
        let of_minimal = self.minimal().into_iter().filter(|node| !self.is_usual(*node)).map(Node::rank);
        let loads =
            self.standing().filter(|(rank, stuck)| self.loads_behind_its_own(*rank, stuck)).map(|(rank, _)| rank);
        of_minimal.chain(loads).chain(self.of_unequal_transfers()).collect()
    }

    fn of_unequal_transfers(&self) -> Vec<usize> {
        let mut found = Vec::new();
        for (rank, program) in self.job.ranks.iter().enumerate() {
            for step in program.steps.iter() {
                let (Some(comm), Some(to)) = (step.get("comm"), step.get("to").map(|to| to as usize)) else { continue };
                let sent = self.counts(rank, comm, "to", to);
                let received = self.counts(to, comm, "from", rank);
                if sent.iter().zip(&received).any(|(sent, received)| sent != received) {
                    found.extend([rank, to]);
                }
            }
        }
        found
    }

    /// The counts of what a rank has called to or from another one.
    fn counts(&self, rank: usize, comm: u64, with: &str, whom: usize) -> Vec<Option<u64>> {
        let calls = self.calls(rank).into_iter().map(|call| call.step);
        calls
            .filter(|step| step.get("comm") == Some(comm) && step.get(with) == Some(whom as u64))
            .map(|step| step.get("count"))
            .collect()
    }

    fn step_of(&self, node: Node) -> Option<&'j Step> {
        match node {
            Node::Of(rank, Who::Op(id)) => self.job.ranks[rank].step_of_line(self.stuck(rank)?.ops.get(&id)?.line),
            Node::Of(..) | Node::Never(_) => None,
        }
    }

    /// Whether it is a collective that waits only for another one of that number, which fewer ranks have called so.
    fn is_usual(&self, node: Node) -> bool {
        let Some(step) = self.step_of(node).filter(|step| step.what == "all_reduce") else { return false };
        let on = self.edges.get(&node).into_iter().flatten();
        let others: Option<Vec<&Step>> =
            on.map(|on| self.step_of(*on).filter(|other| other.what == "all_reduce")).collect();
        let comm = step.get("comm").unwrap_or_default() as usize;
        let size = self.job.comms.get(comm).map_or(0, Vec::len);
        others.is_some_and(|others| {
            let differ = others
                .iter()
                .filter(|other| other.get("comm") == step.get("comm") && other.get("count") != step.get("count"))
                .count();
            differ == others.len() && 2 * differ < size
        })
    }

    /// Whether a step loads: a module, or the kernel that it launches first. NCCL has one kernel for all-reduces and one for transfers.
    fn is_load(&self, rank: usize, step: &Step) -> bool {
        let program = &self.job.ranks[rank];
        let kernel = |step: &Step| match step.get("kernel") {
            None if is_of_nccl(step) => Some(if step.what == "all_reduce" { u64::MAX } else { u64::MAX - 1 }),
            kernel => kernel,
        };
        let mut before = program.steps.iter().take_while(|other| !std::ptr::eq(*other, step));
        let is_cold = |its: u64| !program.warm.contains(&its) && before.all(|other| kernel(other) != Some(its));
        step.what == "load_module" || kernel(step).is_some_and(is_cold)
    }

    /// In the call, or on the device, where a kernel that is loaded waits for what was submitted before.
    fn loads_behind_its_own(&self, rank: usize, stuck: &Stuck) -> bool {
        let program = &self.job.ranks[rank];
        let calls = stuck
            .threads
            .iter()
            .filter(|thread| thread.at == "call")
            .map(|thread| (thread.line, Who::Thread(thread.tid)));
        let kernels =
            stuck.ops.iter().filter(|(_, op)| op.is_kernel && op.state == 0).map(|(id, op)| (op.line, Who::Op(*id)));
        let mut loads = calls
            .chain(kernels)
            .filter(|(line, _)| program.step_of_line(*line).is_some_and(|step| self.is_load(rank, step)));
        loads.any(|(_, who)| {
            let on = self.behind(Node::Of(rank, who));
            on.into_iter().any(|node| {
                node != Node::Of(rank, who) && node.rank() == rank && self.step_of(node).is_some_and(is_of_nccl)
            })
        })
    }

    /// Whether a thread of any rank stands in a driver call.
    pub fn in_a_call(&self) -> bool {
        self.standing().any(|(_, stuck)| stuck.in_a_call())
    }

    /// Whether a rank that stands in a call waits for another rank.
    pub fn waits_across(&self) -> bool {
        let mut in_calls = self.standing().flat_map(|(rank, stuck)| {
            stuck
                .threads
                .iter()
                .filter(|thread| thread.at == "call")
                .map(move |thread| Node::Of(rank, Who::Thread(thread.tid)))
        });
        in_calls.any(|thread| self.behind(thread).iter().any(|on| on.rank() != thread.rank()))
    }

    /// The waits across ranks and the minimal set, a line each, for people.
    pub fn in_words(&self) -> String {
        let say = |node: Node| match (node, self.step_of(node)) {
            (_, Some(step)) => format!("rank {}: {step}", node.rank()),
            (Node::Of(rank, Who::Thread(tid)), _) => {
                let of = self.stuck(rank);
                let thread = of.and_then(|stuck| stuck.threads.iter().find(|thread| thread.tid == tid));
                let step = thread.and_then(|thread| self.job.ranks[rank].step_of_line(thread.line));
                format!("rank {rank}'s thread at {}", step.map(ToString::to_string).unwrap_or_default())
            }
            (Node::Of(rank, Who::Op(_)), None) => format!("rank {rank}: a call's own work"),
            (Node::Never(rank), _) => format!("rank {rank} never"),
        };
        let across = self.edges.iter().flat_map(|(from, all)| all.iter().map(move |on| (*from, *on)));
        let across = across
            .filter(|(from, on)| from.rank() != on.rank())
            .map(|(from, on)| format!("{} waits for {}", say(from), say(on)));
        let minimal = self.minimal().into_iter().map(|node| format!("minimal: {}", say(node)));
        across.chain(minimal).chain([format!("to blame: {:?}", self.blamed())]).collect::<Vec<_>>().join("\n")
    }
}

fn stuck_of(truth: &Truth) -> Option<&Stuck> {
    match truth {
        Truth::Stuck(stuck) => Some(stuck),
        Truth::Completed { .. } => None,
    }
}

/// Whether a step calls NCCL.
pub fn is_of_nccl(step: &Step) -> bool {
    step.get("comm").is_some()
}

/// The steps that a rank has before it.
fn to_come<'p>(program: &'p Program, stuck: Option<&Stuck>) -> impl Iterator<Item = &'p Step> {
    let at = stuck.and_then(|stuck| stuck.threads.first()).map_or(u64::MAX, |thread| thread.line);
    program.steps.iter().enumerate().filter(move |(index, _)| program.line_of(*index) > at).map(|(_, step)| step)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAM: &str = "rank\nstream nonblocking\n0 all_reduce comm=0 stream=0 count=8\n0 synchronize_context\n";
    /// Its kernel runs, and its thread waits for it.
    const IN_ITS_COLLECTIVE: &str =
        "stuck 5\nuntil 9\nthread 0 100 call 3 -1\nop 1 2 2 1\nop 9 3 0 0\nwaits 9 1\ndriver 100 1 9 0 0 0 0\nend\n";

    fn joined<'j>(job: &'j Job, texts: &[&str]) -> Option<Joined<'j>> {
        let read = |(rank, text): (usize, &&str)| Truth::parse(text, &job.ranks[rank]);
        Joined::of(job, texts.iter().enumerate().map(read).collect::<Option<_>>()?)
    }

    #[test]
    fn a_rank_that_stands_before_its_collective_is_to_blame_and_one_that_waits_in_it_is_not() {
        let stands = PROGRAM.replace("0 all", "0 pass gate=3\n0 all");
        let job = Job::parse(&format!("comm 0 1\n{PROGRAM}{stands}")).unwrap();
        let at_gate = "stuck 6\nuntil 9\nthread 0 200 gate 2 3\nend\n";
        let found = joined(&job, &[IN_ITS_COLLECTIVE, at_gate]).unwrap();
        assert_eq!(found.minimal(), [Node::Of(1, Who::Thread(200))].into());
        assert_eq!(found.blamed(), [1].into());
        assert!(found.waits_across() && found.in_a_call());
        // They were not still at the same time.
        assert!(joined(&job, &[IN_ITS_COLLECTIVE, &at_gate.replace("stuck 6", "stuck 9")]).is_none());
    }

    #[test]
    fn a_rank_that_ended_without_its_collective_is_to_blame() {
        let ends = PROGRAM.replace("0 all_reduce comm=0 stream=0 count=8\n", "");
        let job = Job::parse(&format!("comm 0 1\n{PROGRAM}{ends}")).unwrap();
        let found = joined(&job, &[IN_ITS_COLLECTIVE, "completed\nlongest 3\nend\n"]).unwrap();
        assert_eq!(found.minimal(), [Node::Never(1)].into());
    }

    #[test]
    fn collectives_that_run_on_all_ranks_can_end_and_those_that_differ_cannot() {
        let job = Job::parse(&format!("comm 0 1\n{PROGRAM}{PROGRAM}")).unwrap();
        assert!(joined(&job, &[IN_ITS_COLLECTIVE; 2]).is_none());
        let other = PROGRAM.replace("count=8", "count=9");
        let two = Job::parse(&format!("comm 0 1\n{PROGRAM}{other}")).unwrap();
        assert_eq!(joined(&two, &[IN_ITS_COLLECTIVE; 2]).unwrap().blamed(), [0, 1].into());
        let three = Job::parse(&format!("comm 0 1 2\n{PROGRAM}{other}{PROGRAM}")).unwrap();
        assert_eq!(joined(&three, &[IN_ITS_COLLECTIVE; 3]).unwrap().blamed(), [1].into());
    }

    #[test]
    fn a_send_waits_for_as_many_floats_as_are_received() {
        let sends = PROGRAM.replace("all_reduce comm=0", "send to=1 comm=0");
        let receives = PROGRAM.replace("all_reduce comm=0", "receive from=0 comm=0");
        let job = Job::parse(&format!("comm 0 1\n{sends}{receives}")).unwrap();
        assert!(joined(&job, &[IN_ITS_COLLECTIVE; 2]).is_none());
        let job = Job::parse(&format!("comm 0 1\n{sends}{}", receives.replace("count=8", "count=7"))).unwrap();
        // The receive can end: it gets more than it takes.
        assert!(joined(&job, &[IN_ITS_COLLECTIVE; 2]).is_none());
        let found = joined(&job, &[IN_ITS_COLLECTIVE, "completed\nlongest 3\nend\n"]).unwrap();
        assert_eq!(found.blamed(), [0, 1].into());
    }
}
