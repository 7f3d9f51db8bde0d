//! Finds who waits for whom inside a kernel, from where its warps stand, their registers, and shared memory.
//!
//! A warp waits where its next instruction needs a barrier to let it go, and the barrier's state shows that it does not. All else counts as running,
//! also code that is not understood. A block, or a cluster of blocks, is *stuck* where each of its warps waits or has ended: only they can end
//! each other's waits, for the bytes of bulk copies have come when a core is written. A warp that reads memory again and again waits for a write.
//! Any thread may write that memory: such blocks are reported only where no block of the kernel runs, and are not called stuck.
//!
//! Must not: report a wait of a block in which, or for which, anything may run.

use super::parties;
use super::states::{Block, Finder, State, States, Wait};
use super::wait::{GpuWait, WaitFor};
use super::warps::{BlockSeen, Memory};
use super::GpuKernel;
use std::collections::{BTreeMap, BTreeSet};

/// The most waits of a kernel.
const MOST_WAITS: usize = 256;

impl Finder<'_, '_, '_> {
    pub fn waits(mut self, blocks: &[BlockSeen], memory: &mut dyn Memory) -> Vec<Vec<GpuWait>> {
        let mut of_kernels = vec![Vec::new(); self.kernels.len()];
        let mut clusters: BTreeMap<(usize, [u32; 3]), Vec<Block<'_>>> = BTreeMap::new();
        for seen in blocks {
            let cluster = cluster_of(&self.kernels[seen.kernel], seen.index);
            let block = self.block(seen, memory);
            clusters.entry((seen.kernel, cluster)).or_default().push(block);
        }
        clusters.values_mut().for_each(|blocks| release_clusters(blocks));
        for (kernel, waits) in of_kernels.iter_mut().enumerate() {
            let own = clusters.range((kernel, [0; 3])..=(kernel, [u32::MAX; 3]));
            *waits = self.of_kernel(kernel, &own.map(|(_, blocks)| blocks).collect::<Vec<_>>());
        }
        of_kernels
    }

    fn of_kernel(&mut self, kernel: usize, clusters: &[&Vec<Block<'_>>]) -> Vec<GpuWait> {
        let runs = |blocks: &[Block<'_>]| states(blocks).any(|state| state.is_none());
        let spins = |blocks: &[Block<'_>]| states(blocks).flatten().any(|(wait, _)| wait.spins());
        let any_runs = clusters.iter().any(|blocks| runs(blocks));
        // Equal clusters are one, with the number of them.
        let mut equal: BTreeMap<Vec<&States>, (u64, &[Block<'_>])> = BTreeMap::new();
        for blocks in clusters.iter().filter(|blocks| !(runs(blocks) || any_runs && spins(blocks))) {
            equal.entry(blocks.iter().map(|block| &block.states).collect()).or_insert((0, blocks)).0 += 1;
        }
        let mut waits: Vec<GpuWait> = Vec::new();
        for (count, blocks) in equal.into_values() {
            for block in blocks {
                for wait in self.of_block(kernel, block, blocks, count) {
                    let same = |other: &GpuWait| {
                        let GpuWait { blocks, first_block, address, value, .. } = wait;
                        GpuWait { blocks, first_block, address, value, ..other.clone() } == wait
                    };
                    match waits.iter().position(same) {
                        Some(other) => waits[other].blocks += wait.blocks,
                        None if waits.len() < MOST_WAITS => waits.push(wait),
                        None => {}
                    }
                }
            }
        }
        // Waits that explain the others come first, and among them those of the most blocks.
        waits.sort_by_key(|wait| (wait.wait != WaitFor::Memory, !wait.stuck, u64::MAX - wait.blocks, wait.wait));
        waits
    }

    fn of_block(&mut self, kernel: usize, block: &Block<'_>, cluster: &[Block<'_>], count: u64) -> Vec<GpuWait> {
        let stuck = states(cluster).all(|state| state.is_some_and(|(wait, _)| !wait.spins()));
        let all: BTreeSet<_> = block.states.values().copied().collect();
        let live = block.states.len() as u32 * 32;
        let mut waits = Vec::new();
        for state in &all {
            let Some((wait, line)) = *state else { continue };
            // If other warps keep the whole block waiting, their wait says so.
            if all.len() > 1 && matches!(wait, Wait::Barrier { expected, .. } if expected >= live) {
                continue;
            }
            let warps: Vec<u32> = block.states.iter().filter(|(_, of)| *of == state).map(|(warp, _)| *warp).collect();
            let reads = || warps.iter().filter_map(|warp| block.reads.get(warp));
            let (address, value) = (reads().find_map(|read| read.address), reads().find_map(|read| read.value));
            let mut found = GpuWait {
                stuck,
                blocks: count,
                first_block: block.seen.index,
                warps,
                frames: self.lines[line].clone(),
                address,
                value,
                ..described(wait)
            };
            parties::find(self, kernel, block, cluster, &mut found);
            waits.push(found);
        }
        waits
    }
}

fn states<'b>(blocks: &'b [Block<'_>]) -> impl Iterator<Item = State> + 'b {
    blocks.iter().flat_map(|block| block.states.values().copied())
}

/// Which cluster a block is in. Without clusters each block is one.
fn cluster_of(kernel: &GpuKernel, index: [u32; 3]) -> [u32; 3] {
    let size = kernel.cluster.unwrap_or([1; 3]);
    std::array::from_fn(|axis| index[axis] / size[axis].max(1))
}

/// The same of a cluster's barrier, at which all live threads of its blocks are.
fn release_clusters(blocks: &mut [Block<'_>]) {
    let is_there = |state: &State| matches!(state, Some((Wait::Cluster, _)));
    if blocks.iter().flat_map(|block| block.states.values()).all(is_there) {
        blocks.iter_mut().flat_map(|block| block.states.values_mut()).for_each(|state| *state = None);
    }
}

fn described(wait: Wait) -> GpuWait {
    let described = GpuWait { wait: wait.what(), ..GpuWait::default() };
    match wait {
        Wait::Mbarrier { parity, state, .. } => GpuWait {
            phase: Some(parity),
            arrivals_missing: Some(state.arrivals_pending),
            arrivals_expected: Some(state.arrivals_expected),
            bytes_missing: Some(state.bytes_pending),
            ..described
        },
        Wait::Barrier { number, expected, there } => {
            GpuWait { barrier: Some(number), threads_expected: Some(expected), threads_there: Some(there), ..described }
        }
        Wait::Cluster | Wait::Memory { .. } => described,
    }
}
