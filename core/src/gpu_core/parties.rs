//! Finds who would end a wait: the arrivals at an mbarrier in the kernel's code, and what the block's other warps do.
//!
//! Must not: take an arrival for one at this mbarrier that the code does not show to be.

use super::flow::{Flow, Place};
use super::sass::BYTES;
use super::states::{Block, Finder, State, States, Wait};
use super::wait::{GpuParty, GpuWait, WaitFor};
use super::GpuFrame;
use std::collections::{BTreeMap, BTreeSet};

/// The start of static shared memory on sm_90: no barrier lies below, and the part that moves is known to be small then.
const FIRST_BARRIER: u32 = 0x400;
/// The bytes of a barrier.
const WORD: u32 = 8;
const MOST_LINES: usize = 8;

pub(super) fn find(
    finder: &mut Finder<'_, '_, '_>,
    kernel: usize,
    block: &Block<'_>,
    cluster: &[Block<'_>],
    wait: &mut GpuWait,
) {
    // Any thread may write to memory.
    if matches!(wait.wait, WaitFor::Memory | WaitFor::SharedMemory) {
        return;
    }
    let Some(point) = wait.warps.first().and_then(|warp| block.points.get(warp)).copied() else { return };
    let address = finder.points[point].key.address;
    let (mut wanted, mut remote) = (BTreeSet::new(), false);
    if wait.wait == WaitFor::Mbarrier {
        let Some((flow, at)) = finder.flow(address) else { return };
        let start = address - at as u64 * BYTES;
        let (found, certain) = arrivals_at(flow, wait);
        remote = flow.arrivals().iter().any(|arrival| arrival.remote && found.contains(&arrival.at));
        wait.arrivals_certain = certain;
        for at in &found {
            let mut frames: Vec<GpuFrame> = finder.frames(start + *at as u64 * BYTES, &[], kernel);
            // The kernel's own line.
            let Some(frame) = frames.pop() else { continue };
            if wait.arrivals.len() < MOST_LINES && !wait.arrivals.contains(&frame) {
                wait.arrivals.push(frame);
            }
        }
        wanted = found;
    }
    let own: BTreeSet<_> = wait.warps.iter().copied().collect();
    let mut parties: Vec<_> = exited(finder, kernel, &block.states).into_iter().collect();
    parties.extend(others(finder, block, &own, &wanted));
    let of_cluster = cluster.iter().filter(|other| other.seen.index != block.seen.index);
    for other in of_cluster.filter(|_| remote || wait.wait == WaitFor::Cluster) {
        for mut party in others(finder, other, &BTreeSet::new(), &wanted) {
            let counts =
                if remote { party.leads_to_arrival == Some(true) } else { party.wait != Some(WaitFor::Cluster) };
            party.in_other_block = true;
            if counts && !parties.contains(&party) {
                parties.push(party);
            }
        }
    }
    wait.parties = parties;
}

/// The instructions of a function that arrive at a wait's barrier, or copy to it, and `true`; else all that arrive, and `false`.
fn arrivals_at(flow: &Flow, wait: &GpuWait) -> (BTreeSet<usize>, bool) {
    let address = wait.address.unwrap_or(0) as u32;
    // If only bytes are missing, the arrivals are the copies.
    let bytes_only = wait.arrivals_missing == Some(0);
    let all: Vec<_> = flow.arrivals().iter().filter(|arrival| arrival.copies == bytes_only).collect();
    let of = |wanted: &dyn Fn(Place) -> bool| -> BTreeSet<usize> {
        all.iter().filter(|arrival| wanted(arrival.place)).map(|arrival| arrival.at).collect()
    };
    let exact = of(&|place| place == Place { base: address, moves: false });
    if !exact.is_empty() {
        return (exact, true);
    }
    // Barriers that lie in rings belong to the ring that begins last before them. A wait or an arrival says where a ring begins.
    let in_ring = |place: Place| {
        place.moves && (FIRST_BARRIER..=address).contains(&place.base) && (address - place.base).is_multiple_of(WORD)
    };
    let begins = flow.arrivals().iter().map(|arrival| arrival.place).filter(|place| in_ring(*place));
    let last = begins.map(|place| place.base).max();
    let of_ring = of(&|place| in_ring(place) && Some(place.base) == last);
    if !of_ring.is_empty() {
        return (of_ring, true);
    }
    (all.iter().map(|arrival| arrival.at).collect(), false)
}

fn exited(finder: &Finder<'_, '_, '_>, kernel: usize, states: &States) -> Option<GpuParty> {
    let threads = finder.kernels[kernel].block.iter().fold(1_u32, |product, next| product.saturating_mul(*next));
    let ended: Vec<_> = (0..threads.div_ceil(32).min(64)).filter(|warp| !states.contains_key(warp)).collect();
    (!ended.is_empty()).then(|| GpuParty { warps: ended, ..GpuParty::default() })
}

/// The other warps of a block, those in equal states together.
fn others(
    finder: &mut Finder<'_, '_, '_>,
    block: &Block<'_>,
    own: &BTreeSet<u32>,
    wanted: &BTreeSet<usize>,
) -> Vec<GpuParty> {
    let mut by_state: BTreeMap<(State, Option<bool>), Vec<u32>> = BTreeMap::new();
    let mut known: BTreeMap<usize, bool> = BTreeMap::new();
    for (warp, state) in block.states.iter().filter(|(warp, _)| !own.contains(warp)) {
        let point = block.points.get(warp).copied().unwrap_or_default();
        let leads = (!wanted.is_empty()).then(|| {
            *known.entry(point).or_insert_with(|| {
                let address = finder.points.get(point).map_or(0, |point| point.key.address);
                finder.flow(address).is_none_or(|(flow, at)| flow.reaches(at, wanted))
            })
        });
        by_state.entry((*state, leads)).or_default().push(*warp);
    }
    by_state.into_iter().filter_map(|((state, leads), warps)| party(finder, state, leads, warps)).collect()
}

fn party(
    finder: &Finder<'_, '_, '_>,
    state: State,
    leads_to_arrival: Option<bool>,
    warps: Vec<u32>,
) -> Option<GpuParty> {
    // Running warps are no party.
    let (wait, line) = state?;
    let address = match wait {
        Wait::Mbarrier { offset, .. } => Some(offset.into()),
        _ => None,
    };
    let frames = finder.lines[line].clone();
    Some(GpuParty { warps, in_other_block: false, wait: Some(wait.what()), address, leads_to_arrival, frames })
}
