//! What a warp waits for at an instruction, from the code around it.
//!
//! Must not: call a loop a wait that does anything else.

use super::flow::Flow;
use super::sass;
use super::sync::{Load, Operand, SharedAddress, Sync, Word, RZ};
use std::ops::RangeInclusive;

/// The longest loops: of one that asks an mbarrier, and of one that reads memory. A lock of Triton's has forty instructions.
const MOST_OF_A_CHECK: usize = 16;
const MOST_OF_A_SPIN: usize = 96;
/// How far behind the question the instruction is that needs its answer.
const MOST_BEHIND_A_CHECK: usize = 8;
/// How far a warp goes on behind a barrier; see [`sass::is_held`].
const MOST_BEHIND_A_BARRIER: usize = 256;

/// A wait, with the number of the instruction that says so. The operands are as registers have them now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Site {
    Runs,
    /// It waits for its warp's other lanes.
    Lanes,
    Check { barrier: SharedAddress, phase: u8, at: usize },
    Block { number: Operand, threads: Operand, at: usize },
    Cluster { at: usize },
    Spin { load: Load, source: Source, at: usize },
}

/// The registers that have an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The thread's, from this one on.
    Own(u8),
    /// The warp's.
    Uniform(u8),
    /// It stays the same, and no register has it.
    Lost,
    /// It may change from one read to the next.
    Moves,
}

pub(super) fn of(flow: &Flow, at: usize) -> Site {
    let words = flow.words();
    if matches!(words[at].operation(), 0x141 | 0x148) {
        return Site::Lanes;
    }
    if words[at].sync() == Sync::Cluster {
        return Site::Cluster { at };
    }
    check(flow, at).or_else(|| spin(flow, at)).or_else(|| block_barrier(flow, at)).unwrap_or(Site::Runs)
}

fn site_of_check(flow: &Flow, at: usize) -> Option<Site> {
    match flow.words()[at].sync() {
        Sync::Check { at: barrier, phase } => Some(Site::Check { barrier, phase, at }),
        _ => None,
    }
}

/// A question after a phase: the instruction itself, the one that needs the answer, or a loop of nothing else.
fn check(flow: &Flow, at: usize) -> Option<Site> {
    let words = flow.words();
    for before in (at.saturating_sub(MOST_BEHIND_A_CHECK)..=at).rev() {
        if let Some(site) = site_of_check(flow, before) {
            let needed_before = words[before + 1..at.max(before + 1)].iter().any(|word| word.waits_for(words[before]));
            if at == before || words[at].waits_for(words[before]) && !needed_before {
                return Some(site);
            }
            break;
        }
    }
    let around = flow.innermost_loop(at, MOST_OF_A_CHECK)?;
    let is_work = |at: usize| words[at].is_work() && site_of_check(flow, at).is_none();
    if around.clone().any(is_work) {
        return None;
    }
    around.rev().find_map(|at| site_of_check(flow, at))
}

/// A loop that reads memory at addresses which it does not change.
fn spin(flow: &Flow, at: usize) -> Option<Site> {
    let words = flow.words();
    let around = flow.innermost_loop(at, MOST_OF_A_SPIN)?;
    if around.clone().any(|at| words[at].is_work()) {
        return None;
    }
    let loads = around.clone().filter_map(|at| match words[at].sync() {
        Sync::Load(load) => Some((at, load)),
        _ => None,
    });
    let found: Vec<_> = loads.map(|(at, load)| (at, load, source(flow, load, &around))).collect();
    // What is read at an address that moves may be the next one each time.
    let moves = found.iter().any(|(_, load, source)| !load.shared && *source == Source::Moves);
    let first = found.iter().find(|(_, load, _)| !load.shared).or_else(|| found.first());
    let &(at, load, source) = first.filter(|(.., source)| !moves && *source != Source::Moves)?;
    Some(Site::Spin { load, source, at })
}

/// Where a load's address is while its loop goes on.
fn source(flow: &Flow, load: Load, around: &RangeInclusive<usize>) -> Source {
    let words = flow.words();
    let within = || around.clone().map(|at| words[at]);
    let low = load.register;
    let high = if load.shared || low == RZ { low } else { low.saturating_add(1) };
    let moved = |register: u8| {
        // What the load itself has overwritten comes from a move.
        let mut writers = within().filter(|word| word.writes_own(register) && !is_own_result(*word, load));
        let source = match writers.next() {
            None if within().any(|word| word.writes_own(register)) => Source::Moves,
            None => Source::Own(register),
            Some(word) => match word.bits(0, 12) {
                0x202 => Source::Own(word.second()),
                0x224 if word.first() == RZ => Source::Own(word.third()),
                0xc02 => Source::Uniform(word.bits(32, 6) as u8),
                0xe24 if word.first() == RZ => Source::Uniform(word.bits(32, 6) as u8),
                // LDC, of a kernel's parameter.
                0xb82 if word.first() == RZ => Source::Lost,
                _ => Source::Moves,
            },
        };
        let still = match source {
            Source::Own(from) => from == register || !within().any(|word| word.writes_own(from)),
            Source::Uniform(from) => !within().any(|word| word.writes_uniform(from)),
            other => return other,
        };
        if still && writers.next().is_none() { source } else { Source::Moves }
    };
    match (moved(low), moved(high)) {
        (Source::Moves, _) | (_, Source::Moves) => Source::Moves,
        (one, other) if load.shared || low == RZ || one.next() == other => one,
        _ => Source::Lost,
    }
}

fn is_own_result(word: Word, load: Load) -> bool {
    word.sync() == Sync::Load(load)
}

impl Source {
    /// The register behind it, of an address's upper half.
    fn next(self) -> Self {
        match self {
            Self::Own(register) => Self::Own(register.saturating_add(1)),
            Self::Uniform(register) => Self::Uniform(register.saturating_add(1)),
            other => other,
        }
    }
}

/// A barrier of the block, behind which there is nothing that a warp which waits there stands at.
fn block_barrier(flow: &Flow, at: usize) -> Option<Site> {
    let words = flow.words();
    let is_held = |at: usize| sass::is_held(words[at].0.to_le_bytes());
    let site = |at: usize| match words[at].sync() {
        Sync::Block { number, threads } => Some(Site::Block { number, threads, at }),
        _ => None,
    };
    for before in (at.saturating_sub(MOST_BEHIND_A_BARRIER)..at).rev() {
        match site(before) {
            Some(site) if is_held(at) => return Some(site),
            Some(_) => break,
            None if is_held(before) => break,
            None => {}
        }
    }
    // One that does not defer holds its warp itself.
    site(at).filter(|_| words[at].bits(80, 1) == 0)
}
