//! Finds what each warp of a kernel waits for, from its place, its registers and the barrier's state together.
//!
//! Must not: call a warp waiting that a barrier would let go. A warp that is not understood counts as running.

use super::flow::{Flow, Register, IN_BLOCK};
use super::mbarrier::Mbarrier;
use super::point::{Code, Point};
use super::sass::BYTES;
use super::sites::{self, Site, Source};
use super::sync::{Load, Operand, SharedAddress};
use super::warps::{AtPoint, BlockSeen, Entry, Memory, WarpSeen};
use super::{GpuFrame, GpuKernel, WaitFor};
use crate::map::HashMap;
use std::collections::BTreeMap;

/// A warp's wait, as far as it is known. Equal waits of two blocks are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Wait {
    Mbarrier { offset: u32, parity: u32, state: Mbarrier },
    Barrier { number: u32, expected: u32, there: u32 },
    Cluster,
    Memory { shared: bool },
}

impl Wait {
    pub fn what(self) -> WaitFor {
        match self {
            Self::Mbarrier { .. } => WaitFor::Mbarrier,
            Self::Barrier { .. } => WaitFor::Barrier,
            Self::Cluster => WaitFor::Cluster,
            Self::Memory { shared: true } => WaitFor::SharedMemory,
            Self::Memory { shared: false } => WaitFor::Memory,
        }
    }

    /// Whether it reads memory again and again, which any thread may write.
    pub fn spins(self) -> bool {
        matches!(self, Self::Memory { .. })
    }
}

/// A warp's wait, and the number of the line at which it waits, so that places of one line are one; `None` of a warp that runs.
pub(super) type State = Option<(Wait, usize)>;

/// The states of a block's warps, by their numbers; warps that have ended have none.
pub(super) type States = BTreeMap<u32, State>;

/// A block that is looked at, with the points at which its warps stand and what they read.
pub(super) struct Block<'w> {
    pub seen: &'w BlockSeen,
    pub states: States,
    pub points: HashMap<u32, usize>,
    pub reads: HashMap<u32, Read>,
}

#[derive(Clone, Copy, Default)]
pub(super) struct Read {
    pub address: Option<u64>,
    pub value: Option<u64>,
}

/// A warp's state, its point, and what it reads.
type Found = (State, usize, Read);

pub(super) struct Finder<'f, 'i, 'a> {
    pub code: &'f mut Code<'i, 'a>,
    pub points: &'f [Point],
    pub kernels: &'f [GpuKernel],
    flows: HashMap<u64, Flow>,
    sites: HashMap<usize, Site>,
    /// The lines at which warps wait, and their numbers.
    pub lines: Vec<Vec<GpuFrame>>,
    by_line: HashMap<Vec<GpuFrame>, usize>,
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
        }
    }

    pub fn block<'w>(&mut self, seen: &'w BlockSeen, memory: &mut dyn Memory) -> Block<'w> {
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
        for &AtPoint { point, lane, .. } in &warp.at {
            let found = match self.site(point) {
                // The warp's other lanes decide.
                Site::Lanes => continue,
                site => self.evaluate(site, block, warp.entry, lane, memory),
            };
            let Some((wait, at, read)) = found else { return (None, point, Read::default()) };
            let line = self.line(at, point);
            // A spinning lane decides over a waiting one: it may be let go.
            if !decided.is_some_and(|(state, ..)| state.is_some_and(|(wait, _)| wait.spins())) {
                decided = Some((Some((wait, line)), point, read));
            }
        }
        decided.unwrap_or((None, warp.at.first().map_or(0, |at| at.point), Read::default()))
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
        let at = function.number_at(address)?;
        let flow = self.flows.entry(function.address).or_insert_with(|| Flow::new(function.words()));
        (at < flow.words.len()).then_some((&*flow, at))
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

    pub fn frames(&mut self, address: u64, callers: &[u64], kernel: usize) -> Vec<GpuFrame> {
        if !self.code.lines.contains_key(&address) {
            self.code.find_lines(std::iter::once(address));
        }
        self.code.frames(address, callers, &self.kernels[kernel].name)
    }

    /// The wait at a site whose barrier lets no warp go: the number of its instruction, and the state that was read.
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
                let parity = memory.register(lane, phase)? >> 31;
                let state = Mbarrier::of(memory.shared(block.entry, offset)?)?;
                let wait = Wait::Mbarrier { offset, parity, state };
                state.holds(parity).then_some((wait, at, Read { address: Some(offset.into()), value: None }))
            }
            Site::Spin { load, source, has_value, at } => {
                let low = memory.register(lane, load.into).filter(|_| has_value);
                let high = if load.bytes == 8 { memory.register(lane, load.into.wrapping_add(1)) } else { Some(0) };
                let value = low.zip(high).map(|(low, high)| u64::from(high) << 32 | u64::from(low));
                let address = read_address(load, source, warp, lane, memory);
                Some((Wait::Memory { shared: load.shared }, at, Read { address, value }))
            }
        }
    }
}

fn shared_address(at: SharedAddress, warp: Entry, lane: Entry, memory: &mut dyn Memory) -> Option<u32> {
    let (own, uniform) = (memory.register(lane, at.register)?, memory.uniform(warp, at.uniform)?);
    Some(own.wrapping_add(uniform).wrapping_add(at.offset))
}

/// The address that a loop reads, where its registers have it.
fn read_address(load: Load, source: Source, warp: Entry, lane: Entry, memory: &mut dyn Memory) -> Option<u64> {
    let Source::In(source) = source else { return None };
    let mut half = |register| match register {
        Register::Own(register) => memory.register(lane, register),
        Register::Uniform(register) => memory.uniform(warp, register),
    };
    let low = half(source)?;
    if load.shared {
        let added = memory.uniform(warp, load.uniform)?;
        return Some(u64::from(low.wrapping_add(added).wrapping_add(load.offset as u32) & IN_BLOCK));
    }
    Some((u64::from(half(source.next())?) << 32 | u64::from(low)).wrapping_add_signed(load.offset))
}

/// A barrier at which enough threads are lets them go: such warps run.
fn count_at_barriers(states: &mut States) {
    let live = states.len() as u32 * 32;
    let mut there: HashMap<u32, u32> = HashMap::default();
    for (wait, _) in states.values().flatten() {
        if let Wait::Barrier { number, .. } = wait {
            *there.entry(*number).or_default() += 32;
        }
    }
    for state in states.values_mut() {
        if let Some((Wait::Barrier { number, expected, there: seen }, _)) = state {
            *seen = there[number];
            *expected = if *expected == 0 { live } else { *expected };
            if *seen >= *expected {
                *state = None;
            }
        }
    }
}
