//! Who waits for whom inside a kernel, from where its warps stand, their registers, and shared memory.
//!
//! A warp waits where its next instruction needs what says that a barrier lets it go, and the barrier's state is that it does not. All else counts as
//! running, also what is not understood. A block, or a cluster of blocks, is *stuck* where each of its warps waits or has ended: only they can end
//! each other's waits, for the bytes of bulk copies that were on their way have come when a core is written. A warp that reads memory again and again
//! can be let go by anybody: such blocks are reported only where no block of the kernel runs, and are not called stuck.
//!
//! Must not: report a wait of a block in which, or for which, anything may run.

use super::flow::{Flow, Register, IN_BLOCK};
use super::mbarrier::Mbarrier;
use super::parties::{self, Arrival};
use super::point::{Code, Point};
use super::sass::BYTES;
use super::sites::{self, Site, Source};
use super::sync::{Load, Operand, SharedAddress, RZ, URZ};
use super::wait::{GpuWait, WaitFor};
use super::warps::{BlockSeen, Entry, Memory, WarpSeen, Warps};
use super::{GpuFrame, GpuKernel};
use crate::map::HashMap;
use std::collections::{BTreeMap, BTreeSet};

/// The most waits of a kernel.
const MOST_WAITS: usize = 256;

/// What is known of a warp's wait. Equal ones of two blocks are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Wait {
    Mbarrier { offset: u32, parity: u32, state: Mbarrier },
    Barrier { number: u32, expected: u32, there: u32 },
    Cluster,
    Memory { shared: bool },
}

/// A warp's state. The point is the number of the place at which it waits, so that places of one line are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum State {
    Waits(Wait, usize),
    Spins(Wait, usize),
    Runs,
}

/// What a block's warps do, by their numbers; warps that have ended have none.
pub(super) type States = BTreeMap<u32, State>;

/// A block that is looked at, with the points at which its warps stand and what they read.
pub(super) struct Block<'w> {
    pub seen: &'w BlockSeen,
    pub states: States,
    pub points: HashMap<u32, usize>,
    reads: HashMap<u32, Read>,
}

/// An address, and what was there.
#[derive(Clone, Copy, Default)]
struct Read {
    address: Option<u64>,
    value: Option<u64>,
}

/// What a warp was found at, with its point and what it reads.
type Found = (State, usize, Read);

pub(super) struct Finder<'f, 'i, 'a> {
    pub code: &'f mut Code<'i, 'a>,
    pub points: &'f [Point],
    pub kernels: &'f [GpuKernel],
    pub flows: HashMap<u64, Flow>,
    sites: HashMap<usize, Site>,
    /// The lines at which warps wait, and their numbers.
    lines: Vec<Vec<GpuFrame>>,
    by_line: HashMap<Vec<GpuFrame>, usize>,
    /// The arrivals in each function's code, by its address.
    pub arrivals: HashMap<u64, Vec<Arrival>>,
}

impl<'f, 'i, 'a> Finder<'f, 'i, 'a> {
    pub fn new(code: &'f mut Code<'i, 'a>, points: &'f [Point], kernels: &'f [GpuKernel]) -> Self {
        Self {
            code,
            points,
            kernels,
            flows: HashMap::default(),
            sites: HashMap::default(),
            lines: Vec::new(),
            by_line: HashMap::default(),
            arrivals: HashMap::default(),
        }
    }

    /// The waits of each kernel.
    pub fn waits(mut self, warps: &Warps, memory: &mut dyn Memory) -> Vec<Vec<GpuWait>> {
        let mut of_kernels = vec![Vec::new(); self.kernels.len()];
        if warps.incomplete {
            return of_kernels;
        }
        let mut clusters: BTreeMap<(usize, [u32; 3]), Vec<Block<'_>>> = BTreeMap::new();
        for seen in &warps.blocks {
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
        let runs = |blocks: &[Block<'_>]| states(blocks).any(|state| matches!(state, State::Runs));
        let spins = |blocks: &[Block<'_>]| states(blocks).any(|state| matches!(state, State::Spins(..)));
        let any_runs = clusters.iter().any(|blocks| runs(blocks));
        // Equal clusters are one, with the number of them.
        let mut equal: BTreeMap<Vec<&States>, (u64, &[Block<'_>])> = BTreeMap::new();
        for blocks in clusters.iter().filter(|blocks| !runs(blocks) && !(any_runs && spins(blocks))) {
            let key = blocks.iter().map(|block| &block.states).collect();
            equal.entry(key).or_insert((0, blocks)).0 += 1;
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
        // First what explains the rest, and of that the most blocks.
        waits.sort_by_key(|wait| (wait.wait != WaitFor::Memory, !wait.stuck, u64::MAX - wait.blocks, wait.wait));
        waits
    }

    fn of_block(&mut self, kernel: usize, block: &Block<'_>, cluster: &[Block<'_>], count: u64) -> Vec<GpuWait> {
        let stuck = states(cluster).all(|state| matches!(state, State::Waits(..)));
        let all: BTreeSet<_> = block.states.values().copied().collect();
        let live = block.states.len() as u32 * 32;
        let mut waits = Vec::new();
        for state in &all {
            let (State::Waits(wait, line) | State::Spins(wait, line)) = *state else { continue };
            // Where other warps keep the whole block waiting, their wait says it.
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
                frames: self.frames_of(line),
                address,
                value,
                ..described(wait)
            };
            parties::find(self, kernel, block, cluster, &mut found);
            waits.push(found);
        }
        waits
    }

    fn block<'w>(&mut self, seen: &'w BlockSeen, memory: &mut dyn Memory) -> Block<'w> {
        let mut block = Block { seen, states: States::new(), points: HashMap::default(), reads: HashMap::default() };
        for warp in &seen.warps {
            let (state, point, read) = self.warp(seen, warp, memory);
            block.states.insert(warp.number, state);
            block.points.insert(warp.number, point);
            block.reads.insert(warp.number, read);
        }
        count_at_barriers(&mut block.states);
        block
    }

    /// The state of a warp, with the point that decides it.
    fn warp(&mut self, block: &BlockSeen, warp: &WarpSeen, memory: &mut dyn Memory) -> Found {
        let mut decided: Option<Found> = None;
        for &(point, lane) in &warp.at {
            let found = match self.site(point) {
                // Its other lanes decide.
                Site::Lanes => continue,
                site => self.evaluate(site, block, warp.entry, lane, memory),
            };
            let Some((wait, at, read)) = found else { return (State::Runs, point, Read::default()) };
            let line = self.line(at, point);
            let state = match wait {
                Wait::Memory { .. } => State::Spins(wait, line),
                _ => State::Waits(wait, line),
            };
            // One that spins decides over one that waits: it may be let go.
            if !matches!(decided, Some((State::Spins(..), ..))) {
                decided = Some((state, point, read));
            }
        }
        decided.unwrap_or((State::Runs, warp.at.first().map_or(0, |(point, _)| *point), Read::default()))
    }

    fn site(&mut self, point: usize) -> Site {
        if let Some(site) = self.sites.get(&point) {
            return *site;
        }
        let key = &self.points[point].key;
        let site = match self.flow(key.address) {
            _ if key.blocked => Site::Lanes,
            Some((flow, at)) => sites::of(flow, at),
            None => Site::Runs,
        };
        self.sites.insert(point, site);
        site
    }

    /// The flow of the function at an address, and the number of its instruction there.
    pub fn flow(&mut self, address: u64) -> Option<(&Flow, usize)> {
        let function = self.code.any_function(address)?;
        let at = usize::try_from((address - function.address) / BYTES).ok()?;
        let flow = self.flows.entry(function.address).or_insert_with(|| Flow::new(function.words()));
        (at < flow.words().len()).then_some((&*flow, at))
    }

    fn line(&mut self, at: usize, point: usize) -> usize {
        let key = &self.points[point].key;
        let start = self.code.any_function(key.address).map_or(0, |function| function.address);
        let frames = self.frames(start + at as u64 * BYTES, &key.callers, key.kernel);
        let next = self.lines.len();
        let line = *self.by_line.entry(frames.clone()).or_insert(next);
        if line == next {
            self.lines.push(frames);
        }
        line
    }

    /// The frames with the number of a state.
    pub fn frames_of(&self, line: usize) -> Vec<GpuFrame> {
        self.lines[line].clone()
    }

    pub fn frames(&mut self, address: u64, callers: &[u64], kernel: usize) -> Vec<GpuFrame> {
        if !self.code.lines.contains_key(&address) {
            self.code.find_lines(std::iter::once(address));
        }
        self.code.frames(address, callers, &self.kernels[kernel].name)
    }

    /// The wait at a site, if the barrier's state is that it lets nobody go: the number of the instruction, and what is read.
    fn evaluate(
        &self,
        site: Site,
        block: &BlockSeen,
        warp: Entry,
        lane: Entry,
        memory: &mut dyn Memory,
    ) -> Option<(Wait, usize, Read)> {
        let mut operand = |operand| match operand {
            Operand::Constant(value) => Some(value),
            Operand::Bits { register, shift, mask } => Some(memory.register(lane, register)? >> shift & mask),
        };
        match site {
            Site::Runs | Site::Lanes => None,
            Site::Cluster { at } => Some((Wait::Cluster, at, Read::default())),
            Site::Block { number, threads, at } => {
                let (number, expected) = (operand(number)?, operand(threads)?);
                Some((Wait::Barrier { number, expected, there: 0 }, at, Read::default()))
            }
            Site::Check { barrier, phase, at } => {
                let offset = shared_address(barrier, warp, lane, memory)? & IN_BLOCK;
                let parity = own(phase, lane, memory)? >> 31;
                let state = Mbarrier::of(memory.shared(block.entry, offset)?)?;
                let wait = Wait::Mbarrier { offset, parity, state };
                let read = Read { address: Some(offset.into()), value: None };
                state.holds(parity).then_some((wait, at, read))
            }
            Site::Spin { load, source, has_value, at } => {
                let low = own(load.into, lane, memory).filter(|_| has_value);
                let high = if load.bytes == 8 { own(load.into.wrapping_add(1), lane, memory) } else { Some(0) };
                let value = low.zip(high).map(|(low, high)| u64::from(high) << 32 | u64::from(low));
                let address = read_address(load, source, warp, lane, memory);
                Some((Wait::Memory { shared: load.shared }, at, Read { address, value }))
            }
        }
    }
}

fn own(register: u8, lane: Entry, memory: &mut dyn Memory) -> Option<u32> {
    if register == RZ {
        Some(0)
    } else {
        memory.register(lane, register)
    }
}

fn of_warp(register: u8, warp: Entry, memory: &mut dyn Memory) -> Option<u32> {
    if register == URZ {
        Some(0)
    } else {
        memory.uniform(warp, register)
    }
}

fn shared_address(at: SharedAddress, warp: Entry, lane: Entry, memory: &mut dyn Memory) -> Option<u32> {
    let register = own(at.register, lane, memory)?;
    Some(register.wrapping_add(of_warp(at.uniform, warp, memory)?).wrapping_add(at.offset))
}

/// The address that a loop reads, where its registers have it.
fn read_address(load: Load, source: Source, warp: Entry, lane: Entry, memory: &mut dyn Memory) -> Option<u64> {
    let mut half = |number: u8| match source {
        Source::In(Register::Own(RZ)) => Some(0),
        Source::In(Register::Own(register)) => own(register.saturating_add(number), lane, memory),
        Source::In(Register::Uniform(register)) => of_warp(register.saturating_add(number), warp, memory),
        Source::Lost | Source::Moves => None,
    };
    let low = half(0)?;
    if load.shared {
        let added = of_warp(load.uniform, warp, memory)?;
        return Some(u64::from(low.wrapping_add(added).wrapping_add(load.offset as u32) & IN_BLOCK));
    }
    let high = half(1)?;
    Some((u64::from(high) << 32 | u64::from(low)).wrapping_add_signed(load.offset))
}

fn states<'b>(blocks: &'b [Block<'_>]) -> impl Iterator<Item = State> + 'b {
    blocks.iter().flat_map(|block| block.states.values().copied())
}

/// Which cluster a block is in. Without clusters each block is one.
fn cluster_of(kernel: &GpuKernel, index: [u32; 3]) -> [u32; 3] {
    let size = kernel.cluster.unwrap_or([1; 3]);
    std::array::from_fn(|axis| index[axis] / size[axis].max(1))
}

/// A barrier at which enough threads are lets them go: such warps run.
fn count_at_barriers(states: &mut States) {
    let live = states.len() as u32 * 32;
    let mut there: HashMap<u32, u32> = HashMap::default();
    for state in states.values() {
        if let State::Waits(Wait::Barrier { number, .. }, _) = state {
            *there.entry(*number).or_default() += 32;
        }
    }
    for state in states.values_mut() {
        if let State::Waits(Wait::Barrier { number, expected, there: seen }, _) = state {
            *seen = there[number];
            *expected = if *expected == 0 { live } else { *expected };
            if *seen >= *expected {
                *state = State::Runs;
            }
        }
    }
}

/// The same of a cluster's barrier, at which all live threads of its blocks are.
fn release_clusters(blocks: &mut [Block<'_>]) {
    let is_there = |state: &State| matches!(state, State::Waits(Wait::Cluster, _));
    if blocks.iter().flat_map(|block| block.states.values()).all(is_there) {
        blocks.iter_mut().flat_map(|block| block.states.values_mut()).for_each(|state| *state = State::Runs);
    }
}

fn described(wait: Wait) -> GpuWait {
    match wait {
        Wait::Mbarrier { parity, state, .. } => GpuWait {
            wait: WaitFor::Mbarrier,
            phase: Some(parity),
            arrivals_missing: Some(state.arrivals_pending),
            arrivals_expected: Some(state.arrivals_expected),
            bytes_missing: Some(state.bytes_pending),
            ..GpuWait::default()
        },
        Wait::Barrier { number, expected, there } => GpuWait {
            wait: WaitFor::Barrier,
            barrier: Some(number),
            threads_expected: Some(expected),
            threads_there: Some(there),
            ..GpuWait::default()
        },
        Wait::Cluster => GpuWait { wait: WaitFor::Cluster, ..GpuWait::default() },
        Wait::Memory { shared } => {
            GpuWait { wait: if shared { WaitFor::SharedMemory } else { WaitFor::Memory }, ..GpuWait::default() }
        }
    }
}
