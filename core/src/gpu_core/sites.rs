//! Finds what a warp waits for at an instruction, from the code around it.
//!
//! Must not: call a loop a wait that does anything else.

use super::flow::{Flow, Register};
use super::sass::{self, Instruction};
use super::sync::{Load, Operand, SharedAddress, Sync, KNOWN_MAJOR, RZ};
use std::ops::RangeInclusive;

/// The longest loops: of one that asks an mbarrier, and of one that reads memory. A lock of Triton's has forty instructions.
const MOST_OF_A_CHECK: usize = 16;
const MOST_OF_A_SPIN: usize = 96;
/// How many moves one behind the other.
const DEEPEST: usize = 4;
/// How far behind the question the instruction is that needs its answer.
const MOST_BEHIND_A_CHECK: usize = 8;

/// A wait, with the number of the instruction that says so. The operands are as registers have them now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Site {
    Runs,
    /// It waits for its warp's other lanes.
    Lanes,
    Check {
        barrier: SharedAddress,
        phase: u8,
        at: usize,
    },
    Block {
        number: Operand,
        threads: Operand,
        at: usize,
    },
    Cluster {
        at: usize,
    },
    Spin {
        load: Load,
        source: Source,
        has_value: bool,
        at: usize,
    },
}

/// The holder of an address, or of its lower half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// A register, from this one on.
    In(Register),
    /// It stays the same, and no register has it.
    Lost,
    /// It may change from one read to the next.
    Moves,
}

pub(super) fn of(flow: &Flow, at: usize) -> Site {
    match sass::decode(flow.words[at], KNOWN_MAJOR) {
        Instruction::WarpBarrier => Site::Lanes,
        Instruction::ClusterBarrier => Site::Cluster { at },
        _ => check(flow, at).or_else(|| spin(flow, at)).or_else(|| block_barrier(flow, at)).unwrap_or(Site::Runs),
    }
}

fn site_of_check(flow: &Flow, at: usize) -> Option<Site> {
    match flow.words[at].sync() {
        Sync::Check { at: barrier, phase } => Some(Site::Check { barrier, phase, at }),
        _ => None,
    }
}

/// A question after a phase: the instruction itself, the one that needs the answer, or a loop of nothing else.
fn check(flow: &Flow, at: usize) -> Option<Site> {
    let words = &flow.words;
    let mut before = (at.saturating_sub(MOST_BEHIND_A_CHECK)..=at).rev();
    if let Some((before, site)) = before.find_map(|before| Some((before, site_of_check(flow, before)?))) {
        let needed_before = words[before + 1..at.max(before + 1)].iter().any(|word| word.waits_for(words[before]));
        if at == before || words[at].waits_for(words[before]) && !needed_before {
            return Some(site);
        }
    }
    let around = flow.innermost_loop(at, MOST_OF_A_CHECK)?;
    if around.clone().any(|at: usize| words[at].is_work() && site_of_check(flow, at).is_none()) {
        return None;
    }
    around.rev().find_map(|at| site_of_check(flow, at))
}

/// A loop that reads memory at addresses which it does not change.
fn spin(flow: &Flow, at: usize) -> Option<Site> {
    let words = &flow.words;
    let around = flow.innermost_loop(at, MOST_OF_A_SPIN)?;
    if around.clone().any(|at| words[at].is_work()) {
        return None;
    }
    let loads = around.clone().filter_map(|at| match words[at].sync() {
        Sync::Load(load) => Some((at, load)),
        _ => None,
    });
    let found: Vec<_> = loads.map(|(at, load)| (at, load, source(flow, load, at, &around))).collect();
    // A load whose address moves may read another word each time.
    let moves = found.iter().any(|(_, load, source)| !load.shared && *source == Source::Moves);
    let first = found.iter().find(|(_, load, _)| !load.shared).or_else(|| found.first());
    let &(load_at, load, source) = first.filter(|(.., source)| !moves && *source != Source::Moves)?;
    // Its register may have something else by now.
    let is_load = |by: &Option<usize>| by.is_some_and(|by| words[by].sync() == Sync::Load(load));
    let has_value = flow.written_by(Register::Own(load.into), at).iter().all(is_load);
    Some(Site::Spin { load, source, has_value, at: load_at })
}

/// The holder of a load's address while its loop goes on.
fn source(flow: &Flow, load: Load, at: usize, around: &RangeInclusive<usize>) -> Source {
    let low = origin(flow, Register::Own(load.register), at, around, DEEPEST);
    if load.shared || load.register == RZ {
        return low;
    }
    match (low, origin(flow, Register::Own(load.register).next(), at, around, DEEPEST)) {
        (Source::Moves, _) | (_, Source::Moves) => Source::Moves,
        (Source::In(one), Source::In(other)) if other == one.next() => low,
        _ => Source::Lost,
    }
}

/// The register that has had a register's value since before the loop, or has it again in each turn.
fn origin(flow: &Flow, register: Register, at: usize, around: &RangeInclusive<usize>, left: usize) -> Source {
    let words = &flow.words;
    let mut writers = around.clone().filter(|at| words[*at].writes(register));
    let Some(only) = writers.next() else { return Source::In(register) };
    let alone = writers.next().is_none();
    let by = flow.written_by(register, at);
    let &[Some(by)] = by.as_slice() else { return Source::Moves };
    let (word, left) = (words[by], left.saturating_sub(1));
    let uniform = Register::Uniform(word.bits(32, 6) as u8);
    let from = match word.bits(0, 12) {
        0x202 => Register::Own(word.second()),
        0x224 if word.first() == RZ => Register::Own(word.third()),
        0xc02 => uniform,
        0xe24 if word.first() == RZ => uniform,
        // ULDC, LDC: a kernel's parameter.
        0xab9 => return if alone && by == only { Source::In(register) } else { Source::Lost },
        0xb82 if word.first() == RZ => return if alone && by == only { Source::In(register) } else { Source::Lost },
        _ => return Source::Moves,
    };
    if left == 0 {
        Source::Moves
    } else {
        origin(flow, from, by, around, left)
    }
}

/// The block's barrier at which a warp stands: no instruction between the two would hold the warp.
fn block_barrier(flow: &Flow, at: usize) -> Option<Site> {
    let words = &flow.words;
    let barrier = sass::barrier_before(|at| words.get(at).copied(), at, KNOWN_MAJOR)?;
    // A warp that waits stands before an instruction of the uniform data path, too.
    let stands = barrier == at || sass::is_held(words[at]) || words[at].is_uniform();
    match words[barrier].sync() {
        Sync::Block { number, threads } if stands => Some(Site::Block { number, threads, at: barrier }),
        _ => None,
    }
}
