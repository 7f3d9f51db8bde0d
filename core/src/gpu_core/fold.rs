//! From threads to places: the threads of a device, counted by kernel and by where they stand. A *point* is one instruction; points of the same
//! line and meaning are one place.
//!
//! No field of a core says that a thread waits at a barrier of its block, and a warp goes on behind the barrier until it needs something that takes
//! time (`sass::is_held`). So a warp counts as waiting where nothing but such instructions lies between a barrier and its program counter, and
//! its block has other threads that are not there. Where all threads of a block are there, or one is further on in the same loop, the barrier has
//! let them go. Threads that wait for others of their warp are blocked in the convergence barrier unit, which the driver says since 575.
//!
//! Must not: keep a thread. The memory grows with the number of different points, and of sets of them.

use super::image::{Function, Image};
use super::lines::Lines;
use super::sass::Instruction;
use super::{Doing, GpuFault, GpuFrame, GpuKernel, GpuPlace, GridStatus};
use crate::demangle::demangle;
use crate::map::HashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash;
use std::ops::RangeInclusive;

/// The most points of a device. A kernel seldom has a thousand.
const MOST_POINTS: usize = 1 << 14;
const MOST_SETS: usize = 1 << 16;
const MOST_ADDRESSES: usize = 16;
const MOST_FAULTS: usize = 16;
/// The states of a thread in the convergence barrier unit, in which it is blocked (`CUDBGCbuThreadState` of `cudadebugger.h`).
const BLOCKED: RangeInclusive<u32> = 6..=24;

pub(super) struct Lane {
    pub address: u64,
    pub offset: u64,
    pub thread: [u32; 3],
    /// Whether it is among those that its warp executes.
    pub active: bool,
    /// What the convergence barrier unit says; `None` in files of drivers before 575.
    pub state: Option<u32>,
    /// Its exception, and the address of the instruction that made it.
    pub fault: Option<(u32, Option<u64>)>,
    pub callers: Vec<u64>,
}

/// What makes a point: threads of a kernel at one instruction of which the report says the same.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    kernel: usize,
    address: u64,
    blocked: bool,
    fault: Option<(u32, Option<u64>)>,
    callers: Vec<u64>,
}

struct Point {
    key: Key,
    offset: u64,
    first_block: [u32; 3],
    first_thread: [u32; 3],
}

struct Kernel {
    seen: GpuKernel,
    entry: u64,
    module: u64,
    /// The highest number of a resident block, the first being 0.
    last_block: u64,
}

/// Of a warp, a point with the number of threads there, and of those that the warp executes.
type AtPoint = (usize, u32, u32);

struct Block {
    kernel: usize,
    index: [u32; 3],
    warps: u64,
    points: BTreeSet<usize>,
}

#[derive(Default)]
pub(super) struct Fold {
    major: u32,
    kernels: Vec<Kernel>,
    by_grid: HashMap<u64, usize>,
    points: Vec<Point>,
    by_key: HashMap<Key, usize>,
    /// How many blocks have threads at just these points.
    blocks: HashMap<Vec<usize>, u64>,
    /// How many warps have so many threads at just these points.
    warps: HashMap<Vec<AtPoint>, u64>,
    block: Option<Block>,
    warps_seen: u64,
    faults: Vec<GpuFault>,
}

#[derive(Clone, Copy, Default)]
struct Standing {
    doing: Doing,
    /// The barrier at which it waits, if its block's other threads are elsewhere.
    barrier: Option<u64>,
    loop_start: Option<u64>,
}

impl Fold {
    /// Nothing yet, of a device of this compute capability.
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

    pub fn begin_block(&mut self, grid: u64, index: [u32; 3]) {
        let kernel = match self.by_grid.get(&grid) {
            Some(&kernel) => kernel,
            // A grid that the table of grids does not have.
            None if self.kernels.len() < MOST_POINTS => {
                self.add_grid(GpuKernel { grid_id: grid, ..GpuKernel::default() }, 0, 0);
                self.kernels.len() - 1
            }
            None => return,
        };
        let Kernel { seen, last_block, .. } = &mut self.kernels[kernel];
        seen.blocks_resident += 1;
        let [x, y, z] = index.map(u64::from);
        let [width, height, _] = seen.grid.map(u64::from);
        *last_block =
            (*last_block).max(z.saturating_mul(height).saturating_add(y).saturating_mul(width).saturating_add(x));
        self.block = Some(Block { kernel, index, warps: 0, points: BTreeSet::new() });
    }

    pub fn end_block(&mut self) {
        let Some(block) = self.block.take() else { return };
        let seen = &mut self.kernels[block.kernel].seen;
        let threads = seen.block.iter().fold(1, |product: u64, next| product.saturating_mul(u64::from(*next)));
        seen.warps_ended = seen.warps_ended.saturating_add(threads.div_ceil(32).saturating_sub(block.warps));
        count(&mut self.blocks, block.points.into_iter().collect());
    }

    pub fn add_warp(&mut self, lanes: Vec<Lane>) {
        let Some(block) = &mut self.block else { return };
        self.warps_seen += 1;
        block.warps += 1;
        self.kernels[block.kernel].seen.warps += 1;
        let mut here: Vec<AtPoint> = Vec::new();
        for lane in lanes {
            let blocked = lane.state.is_some_and(|state| BLOCKED.contains(&state));
            let key =
                Key { kernel: block.kernel, address: lane.address, blocked, fault: lane.fault, callers: lane.callers };
            let at = match self.by_key.get(&key) {
                Some(&at) => at,
                None if self.points.len() < MOST_POINTS => {
                    let (first_block, first_thread) = (block.index, lane.thread);
                    self.points.push(Point { key: key.clone(), offset: lane.offset, first_block, first_thread });
                    self.by_key.insert(key, self.points.len() - 1);
                    self.points.len() - 1
                }
                // The kernel's count of warps has it.
                None => continue,
            };
            match here.iter_mut().find(|(other, ..)| *other == at) {
                Some((_, threads, active)) => (*threads, *active) = (*threads + 1, *active + u32::from(lane.active)),
                None => here.push((at, 1, u32::from(lane.active))),
            }
        }
        here.sort_unstable();
        block.points.extend(here.iter().map(|(at, ..)| *at));
        count(&mut self.warps, here);
    }

    pub fn warps(&self) -> u64 {
        self.warps_seen
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

    pub fn finish(self, images: &[(u64, Image<'_>)]) -> (Vec<GpuKernel>, Vec<GpuFault>) {
        let mut code = Code { images, lines: BTreeMap::new() };
        let mut standing: Vec<_> = self.points.iter().map(|point| code.standing(&point.key, self.major)).collect();
        let kept_waiting = find_barriers(&self.blocks, &mut standing);
        code.find_lines(self.addresses().chain(standing.iter().filter_map(|standing| standing.barrier)));
        let mut kernels: Vec<GpuKernel> = Vec::new();
        for Kernel { mut seen, entry, module, last_block } in self.kernels {
            seen.symbol = code.function(entry, module).filter(|function| function.address == entry).map(Function::name);
            seen.name = seen.symbol.as_deref().map_or_else(|| format!("a kernel at {entry:#x}"), named);
            seen.blocks = seen.blocks.filter(|blocks| *blocks >= seen.blocks_resident && *blocks > last_block);
            seen.blocks_not_begun = match seen.blocks_resident {
                0 if seen.status != GridStatus::Pending => None,
                0 => seen.blocks,
                _ => seen.blocks.map(|blocks| blocks - last_block - 1),
            };
            kernels.push(seen);
        }

        // Points that read the same are one place.
        let mut places: Vec<(usize, GpuPlace)> = Vec::new();
        let mut by_words: HashMap<_, _> = HashMap::default();
        let mut place_of = Vec::new();
        for (point, standing) in self.points.iter().zip(&standing) {
            let Key { kernel, address, fault, callers, .. } = &point.key;
            let function = code.any_function(*address);
            let frames = code.frames(standing.barrier.unwrap_or(*address), callers, &kernels[*kernel].name);
            let doing = standing.doing.or_at_a_grid_barrier(&frames);
            let has_line = frames.first().is_some_and(|frame| frame.line.is_some());
            let place = standing.barrier.or(standing.loop_start).unwrap_or(*address);
            let start = if has_line { None } else { Some(place) };
            let words = (*kernel, function.map(|f| f.address), frames.clone(), doing, *fault, standing.barrier, start);
            let at = *by_words.entry(words).or_insert_with(|| {
                let seen = GpuPlace {
                    doing,
                    barrier: standing.barrier,
                    first_block: point.first_block,
                    first_thread: point.first_thread,
                    symbol: function.map(Function::name),
                    offset: function.map_or(point.offset, |f| {
                        standing.barrier.or(start).unwrap_or(*address).saturating_sub(f.address)
                    }),
                    frames,
                    fault: fault.map(|(code, address)| GpuFault::new(code, address)),
                    ..GpuPlace::default()
                };
                places.push((*kernel, seen));
                places.len() - 1
            });
            let addresses = &mut places[at].1.addresses;
            if addresses.len() < MOST_ADDRESSES {
                addresses.push(*address);
            }
            place_of.push(at);
        }
        for (points, blocks) in &self.blocks {
            for at in points.iter().map(|point| place_of[*point]).collect::<BTreeSet<_>>() {
                places[at].1.blocks += blocks;
            }
        }
        for (at, blocks) in kept_waiting {
            let place = &mut places[place_of[at]].1;
            place.blocks_kept_waiting = place.blocks.min(place.blocks_kept_waiting + blocks);
        }
        for (points, warps) in &self.warps {
            let mut here: BTreeMap<usize, (u32, u32)> = BTreeMap::new();
            for (point, threads, active) in points {
                let (all_threads, all_active) = here.entry(place_of[*point]).or_default();
                (*all_threads, *all_active) = (*all_threads + threads, *all_active + active);
            }
            for (at, (threads, active)) in here {
                let place = &mut places[at].1;
                let [fewest, most] = place.threads_of_a_warp;
                place.threads_of_a_warp =
                    [if place.warps == 0 { threads } else { fewest.min(threads) }, most.max(threads)];
                place.warps += warps;
                place.threads += warps * u64::from(threads);
                place.threads_active += warps * u64::from(active);
            }
        }
        for (kernel, mut place) in places {
            place.addresses.sort_unstable();
            kernels[kernel].places.push(place);
        }
        for kernel in &mut kernels {
            kernel.places.sort_by_key(order);
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

/// Counts one more of a kind. Of too many kinds, the parts are counted.
fn count<T: Clone + Eq + Hash>(counts: &mut HashMap<Vec<T>, u64>, parts: Vec<T>) {
    if counts.len() < MOST_SETS || counts.contains_key(&parts) {
        *counts.entry(parts).or_default() += 1;
    } else {
        parts.into_iter().for_each(|part| *counts.entry(vec![part]).or_default() += 1);
    }
}

/// Settles which points are at a barrier. Gives the points that keep others of their block waiting, with the number of blocks.
fn find_barriers(blocks: &HashMap<Vec<usize>, u64>, standing: &mut [Standing]) -> Vec<(usize, u64)> {
    let mut waiting = vec![false; standing.len()];
    let mut kept = BTreeMap::new();
    for (points, blocks) in blocks {
        let candidates: BTreeSet<_> = points.iter().filter_map(|point| standing[*point].barrier).collect();
        // The barriers that have let threads of this block go, which are further on in a loop behind it.
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
                _ => *kept.entry(point).or_default() += blocks,
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

impl Doing {
    /// What it is in the functions of cooperative groups that wait for the whole grid: a loop in them is the barrier.
    fn or_at_a_grid_barrier(self, frames: &[GpuFrame]) -> Self {
        let is_of_grid = |frame: &GpuFrame| {
            frame.function.starts_with("cooperative_groups::")
                && (frame.function.contains("sync_grids") || frame.function.ends_with("grid_group::sync"))
        };
        match self {
            Self::Loops | Self::Stands if frames.iter().any(is_of_grid) => Self::WaitsAtGridBarrier,
            other => other,
        }
    }
}

/// First faults, then what keeps a barrier waiting, then by what is done; of these, the most threads first.
fn order(place: &GpuPlace) -> impl Ord {
    (
        place.fault.is_none(),
        place.blocks_kept_waiting == 0 || place.doing == Doing::WaitsAtGridBarrier,
        place.doing,
        u64::MAX - place.threads,
        place.addresses.first().copied(),
    )
}

/// An address in the call that returns to this one.
fn call(address: &u64) -> u64 {
    address.saturating_sub(1)
}

/// A function's name as in the source. What is local to a file is in a namespace that the compiler made up.
fn named(symbol: &str) -> String {
    let name = demangle(symbol);
    match name.split_once("::") {
        Some((first, rest)) if first.starts_with("_INTERNAL_") => rest.to_owned(),
        _ => name,
    }
}

struct Code<'i, 'a> {
    images: &'i [(u64, Image<'a>)],
    lines: BTreeMap<u64, Lines>,
}

impl<'i, 'a> Code<'i, 'a> {
    fn find_lines(&mut self, addresses: impl Iterator<Item = u64>) {
        let mut of_image: Vec<Vec<u64>> = vec![Vec::new(); self.images.len()];
        for address in addresses {
            if let Some(at) = self.images.iter().position(|(_, image)| image.function(address).is_some()) {
                of_image[at].push(address);
            }
        }
        for ((_, image), mut addresses) in self.images.iter().zip(of_image) {
            addresses.sort_unstable();
            addresses.dedup();
            self.lines.append(&mut image.lines(&addresses));
        }
    }

    /// The function at an address, of a module if it has it.
    fn function(&self, address: u64, module: u64) -> Option<&'i Function<'a>> {
        let own = self.images.iter().filter(|(of, _)| *of == module);
        own.chain(self.images).find_map(|(_, image)| image.function(address))
    }

    fn any_function(&self, address: u64) -> Option<&'i Function<'a>> {
        self.images.iter().find_map(|(_, image)| image.function(address))
    }

    fn standing(&self, key: &Key, major: u32) -> Standing {
        let mut standing = Standing { doing: Doing::Stands, ..Standing::default() };
        if key.blocked {
            standing.doing = Doing::WaitsForLanes;
        }
        let Some(function) = self.any_function(key.address).filter(|_| !key.blocked) else { return standing };
        let in_loop = function.loop_start(key.address, major);
        standing.loop_start = in_loop;
        standing.doing = match function.instruction(key.address, major) {
            Instruction::WarpBarrier => Doing::WaitsForLanes,
            Instruction::ClusterBarrier => Doing::WaitsAtClusterBarrier,
            _ if in_loop.is_some() => Doing::Loops,
            Instruction::Sleep => Doing::Sleeps,
            _ => Doing::Stands,
        };
        if standing.doing != Doing::WaitsForLanes {
            standing.barrier = function.barrier_before(key.address, major);
        }
        standing
    }

    /// The functions at an address with its callers, the innermost first.
    fn frames(&self, address: u64, callers: &[u64], kernel: &str) -> Vec<GpuFrame> {
        let mut frames = Vec::new();
        for address in std::iter::once(address).chain(callers.iter().map(call)) {
            let function =
                self.any_function(address).map_or_else(|| kernel.to_owned(), |function| named(&function.name()));
            let Some(lines) = self.lines.get(&address) else {
                frames.push(GpuFrame { function, ..GpuFrame::default() });
                continue;
            };
            for line in lines {
                frames.push(GpuFrame {
                    function: line.inlined.as_deref().map_or_else(|| function.clone(), named),
                    file: Some(line.file.clone()).filter(|file| !file.is_empty()),
                    line: Some(line.line).filter(|line| *line != 0),
                    inlined: line.inlined.is_some(),
                });
            }
        }
        frames
    }
}
