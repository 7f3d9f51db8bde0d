//! Makes places of threads: the threads of a device are counted by kernel and by where they stand. A *point* is one instruction; points of the same
//! line and meaning are one place.
//!
//! No field of a core says that a thread waits at a barrier of its block, and a warp goes on behind the barrier until it needs something that takes
//! time (`sass::is_held`). So a warp counts as waiting where nothing but such instructions lies between a barrier and its program counter, and
//! its block has other threads that are not there. If all threads of a block are there, or one is further on in the same loop, the barrier has
//! let them go. Threads that wait for others of their warp are blocked in the convergence barrier unit, which the driver says since 575.
//!
//! Must not: keep a thread. The memory grows with the number of different points, and of warps.

use super::image::{Function, Image};
use super::places::Places;
use super::point::{call, named, Code, Key, Point, Standing};
use super::states::Finder;
use super::sync::KNOWN_MAJOR;
use super::warps::{AtPoint, BlockSeen, Entry, Memory, WarpSeen};
use super::{Doing, GpuFault, GpuKernel, GridStatus};
use crate::map::HashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

/// The most points of a device. A kernel seldom has a thousand.
const MOST_POINTS: usize = 1 << 14;
const MOST_FAULTS: usize = 16;
/// The states of a thread in the convergence barrier unit, in which it is blocked (`CUDBGCbuThreadState` of `cudadebugger.h`).
const BLOCKED: RangeInclusive<u32> = 6..=24;

pub(super) struct Lane {
    /// Its entry, by which its registers are found.
    pub entry: Entry,
    pub address: u64,
    pub offset: u64,
    pub thread: [u32; 3],
    /// Whether it is among those that its warp executes.
    pub active: bool,
    /// Its state in the convergence barrier unit; `None` in files of drivers before 575.
    pub state: Option<u32>,
    /// Its exception, and the address of the instruction that made it.
    pub fault: Option<(u32, Option<u64>)>,
    pub callers: Vec<u64>,
}

struct Kernel {
    seen: GpuKernel,
    entry: u64,
    module: u64,
    /// The highest number of a resident block, the first being 0.
    last_block: u64,
}

#[derive(Default)]
pub(super) struct Fold {
    major: u32,
    kernels: Vec<Kernel>,
    by_grid: HashMap<u64, usize>,
    points: Vec<Point>,
    by_key: HashMap<Key, usize>,
    blocks: Vec<BlockSeen>,
    /// Whether warps or threads were left out, so that the missing ones of a barrier are unknown.
    pub incomplete: bool,
    faults: Vec<GpuFault>,
}

impl Fold {
    /// An empty fold, for a device of this compute capability.
    pub fn new(major: u32) -> Self {
        Self { major, ..Self::default() }
    }

    pub fn add_grid(&mut self, seen: GpuKernel, entry: u64, module: u64) {
        self.by_grid.entry(seen.grid_id).or_insert(self.kernels.len());
        self.kernels.push(Kernel { seen, entry, module, last_block: 0 });
    }

    pub fn add_fault(&mut self, fault: GpuFault) {
        if self.faults.len() < MOST_FAULTS && !self.faults.contains(&fault) {
            self.faults.push(fault);
        }
    }

    /// `false` of a block that is left out.
    pub fn begin_block(&mut self, grid: u64, index: [u32; 3], entry: Entry) -> bool {
        let kernel = match self.by_grid.get(&grid) {
            Some(&kernel) => kernel,
            // A grid that the table of grids does not have.
            None if self.kernels.len() < MOST_POINTS => {
                self.add_grid(GpuKernel { grid_id: grid, ..GpuKernel::default() }, 0, 0);
                self.kernels.len() - 1
            }
            None => return false,
        };
        let Kernel { seen, last_block, .. } = &mut self.kernels[kernel];
        seen.blocks_resident += 1;
        let [x, y, z] = index.map(u64::from);
        let [width, height, _] = seen.grid.map(u64::from);
        *last_block =
            (*last_block).max(z.saturating_mul(height).saturating_add(y).saturating_mul(width).saturating_add(x));
        self.blocks.push(BlockSeen { kernel, index, entry, warps: Vec::new() });
        true
    }

    /// Adds a warp of the newest block.
    pub fn add_warp(&mut self, entry: Entry, lanes: Vec<Lane>) {
        let Some(BlockSeen { kernel, index, warps, .. }) = self.blocks.last_mut() else { return };
        let (kernel, index) = (*kernel, *index);
        let seen = &mut self.kernels[kernel].seen;
        seen.warps += 1;
        let number = lanes.first().map_or(0, |lane| number_of(lane.thread, seen.block));
        let mut here: Vec<AtPoint> = Vec::new();
        for lane in lanes {
            let blocked = lane.state.is_some_and(|state| BLOCKED.contains(&state));
            let key = Key { kernel, address: lane.address, blocked, fault: lane.fault, callers: lane.callers };
            let point = match self.by_key.get(&key) {
                Some(&point) => point,
                None if self.points.len() < MOST_POINTS => {
                    let first_thread = lane.thread;
                    self.points.push(Point { key: key.clone(), offset: lane.offset, first_block: index, first_thread });
                    self.by_key.insert(key, self.points.len() - 1);
                    self.points.len() - 1
                }
                // The kernel's count of warps has it.
                None => {
                    self.incomplete = true;
                    continue;
                }
            };
            let active = u32::from(lane.active);
            match here.iter_mut().find(|other| other.point == point) {
                Some(same) => (same.threads, same.active) = (same.threads + 1, same.active + active),
                None => here.push(AtPoint { point, lane: lane.entry, threads: 1, active }),
            }
        }
        warps.push(WarpSeen { number, entry, at: here });
    }

    /// Whether the reader knows the instructions of the device, and so what warps wait for.
    pub fn knows_waits(&self) -> bool {
        self.major == KNOWN_MAJOR
    }

    pub fn modules(&self) -> BTreeSet<u64> {
        self.kernels.iter().map(|kernel| kernel.module).collect()
    }

    fn addresses(&self) -> impl Iterator<Item = u64> + '_ {
        let points = self.points.iter();
        let points =
            points.flat_map(|point| std::iter::once(point.key.address).chain(point.key.callers.iter().map(call)));
        points.chain(self.faults.iter().filter_map(|fault| fault.address))
    }

    /// Whether every address lies in a function of these images.
    pub fn is_known_to(&self, images: &[(u64, Image<'_>)]) -> bool {
        self.addresses().all(|address| images.iter().any(|(_, image)| image.function(address).is_some()))
    }

    /// The kernels with their places, and the faults. `memory`: the registers, where the waits inside the kernels are to be looked for.
    pub fn finish(
        self,
        images: &[(u64, Image<'_>)],
        memory: Option<&mut dyn Memory>,
    ) -> (Vec<GpuKernel>, Vec<GpuFault>) {
        let mut code = Code { images, lines: BTreeMap::new() };
        let mut standing: Vec<_> = self.points.iter().map(|point| code.standing(&point.key, self.major)).collect();
        let kept_waiting = find_barriers(&self.blocks, &mut standing);
        code.find_lines(self.addresses().chain(standing.iter().filter_map(|standing| standing.barrier)));
        let mut kernels: Vec<_> = self.kernels.into_iter().map(|kernel| kernel.finish(&code)).collect();
        let mut places = Places::of(&self.points, &standing, &code, &kernels);
        places.count(&self.blocks, kept_waiting);
        places.move_into(&mut kernels);
        if let Some(memory) = memory.filter(|_| !self.incomplete) {
            let waits = Finder::new(&mut code, &self.points, &kernels).waits(&self.blocks, memory);
            kernels.iter_mut().zip(waits).for_each(|(kernel, waits)| kernel.waits = waits);
        }
        let mut faults = self.faults;
        for fault in &mut faults {
            if let Some(address) = fault.address {
                fault.frames = code.frames(address, &[], "a kernel");
            }
        }
        (kernels, faults)
    }
}

impl Kernel {
    fn finish(self, code: &Code<'_, '_>) -> GpuKernel {
        let Self { mut seen, entry, module, last_block } = self;
        seen.symbol = code.function(entry, module).filter(|function| function.address == entry).map(Function::name);
        seen.name = seen.symbol.as_deref().map_or_else(|| format!("a kernel at {entry:#x}"), named);
        let threads = seen.block.iter().fold(1, |product: u64, next| product.saturating_mul(u64::from(*next)));
        seen.warps_ended = threads.div_ceil(32).saturating_mul(seen.blocks_resident).saturating_sub(seen.warps);
        seen.blocks = seen.blocks.filter(|blocks| *blocks >= seen.blocks_resident && *blocks > last_block);
        seen.blocks_not_begun = match seen.blocks_resident {
            0 if seen.status != GridStatus::Pending => None,
            0 => seen.blocks,
            _ => seen.blocks.map(|blocks| blocks - last_block - 1),
        };
        seen
    }
}

/// A warp's number in its block, from one of its threads.
fn number_of([x, y, z]: [u32; 3], [width, height, _]: [u32; 3]) -> u32 {
    z.saturating_mul(height).saturating_add(y).saturating_mul(width).saturating_add(x) / 32
}

/// Settles which points are at a barrier. Gives the points that keep others of their block waiting, with the number of blocks.
fn find_barriers(blocks: &[BlockSeen], standing: &mut [Standing]) -> Vec<(usize, u64)> {
    let mut waiting = vec![false; standing.len()];
    let mut kept = BTreeMap::new();
    for points in blocks.iter().map(BlockSeen::points) {
        let candidates: BTreeSet<_> = points.iter().filter_map(|point| standing[*point].barrier).collect();
        // Barriers that have let threads of this block go: those threads are further on in a loop behind the barrier.
        let passed = |barrier: u64| {
            let of_barrier = points.iter().filter(|point| standing[**point].barrier == Some(barrier));
            let starts: BTreeSet<_> =
                of_barrier.filter_map(|point| standing[*point].loop_start).filter(|start| *start > barrier).collect();
            points.iter().any(|point| {
                standing[*point].barrier.is_none()
                    && standing[*point].loop_start.is_some_and(|start| starts.contains(&start))
            })
        };
        let holding: BTreeSet<_> = candidates
            .into_iter()
            .filter(|barrier| {
                points.iter().any(|point| standing[*point].barrier != Some(*barrier)) && !passed(*barrier)
            })
            .collect();
        for &point in points.iter().filter(|_| !holding.is_empty()) {
            match standing[point].barrier {
                Some(barrier) if holding.contains(&barrier) => waiting[point] = true,
                _ if standing[point].doing == Doing::WaitsForLanes => {}
                _ => *kept.entry(point).or_default() += 1,
            }
        }
    }
    for (standing, waits) in standing.iter_mut().zip(waiting) {
        match waits {
            true => standing.doing = Doing::WaitsAtBarrier,
            false => standing.barrier = None,
        }
    }
    kept.into_iter().collect()
}
