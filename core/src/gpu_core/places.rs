//! The places at which threads stand: points that read the same are one, with the blocks and warps that have threads there.

use super::image::Function;
use super::point::{Code, Key, Point, Standing};
use super::warps::{AtPoint, BlockSeen};
use super::{Doing, GpuFault, GpuFrame, GpuKernel, GpuPlace};
use crate::map::HashMap;
use std::collections::{BTreeMap, BTreeSet};

const MOST_ADDRESSES: usize = 16;

pub(super) struct Places {
    /// Each with the number of its kernel.
    all: Vec<(usize, GpuPlace)>,
    of_point: Vec<usize>,
}

impl Places {
    pub fn of(points: &[Point], standing: &[Standing], code: &Code<'_, '_>, kernels: &[GpuKernel]) -> Self {
        let mut places = Self { all: Vec::new(), of_point: Vec::new() };
        let mut by_words: HashMap<_, _> = HashMap::default();
        for (point, standing) in points.iter().zip(standing) {
            let Key { kernel, address, fault, callers, .. } = &point.key;
            let function = code.any_function(*address);
            let frames = code.frames(standing.barrier.unwrap_or(*address), callers, &kernels[*kernel].name);
            let doing = standing.doing.or_at_a_grid_barrier(&frames);
            let has_line = frames.first().is_some_and(|frame| frame.line.is_some());
            let place = standing.barrier.or(standing.loop_start).unwrap_or(*address);
            let start = if has_line { None } else { Some(place) };
            let words = (*kernel, function.map(|f| f.address), frames.clone(), doing, *fault, standing.barrier, start);
            let begin = standing.barrier.or(start).unwrap_or(*address);
            let at = *by_words.entry(words).or_insert_with(|| {
                let seen = GpuPlace {
                    doing,
                    barrier: standing.barrier,
                    first_block: point.first_block,
                    first_thread: point.first_thread,
                    symbol: function.map(Function::name),
                    offset: function.map_or(point.offset, |function| begin.saturating_sub(function.address)),
                    frames,
                    fault: fault.map(|(code, address)| GpuFault::new(code, address)),
                    ..GpuPlace::default()
                };
                places.all.push((*kernel, seen));
                places.all.len() - 1
            });
            let addresses = &mut places.all[at].1.addresses;
            if addresses.len() < MOST_ADDRESSES {
                addresses.push(*address);
            }
            places.of_point.push(at);
        }
        places
    }

    /// `kept_waiting`: the points that keep other threads of so many blocks waiting.
    pub fn count(&mut self, blocks: &[BlockSeen], kept_waiting: Vec<(usize, u64)>) {
        for block in blocks {
            for at in block.points().into_iter().map(|point| self.of_point[point]).collect::<BTreeSet<_>>() {
                self.all[at].1.blocks += 1;
            }
            block.warps.iter().for_each(|warp| self.count_warp(&warp.at));
        }
        for (at, blocks) in kept_waiting {
            let place = &mut self.all[self.of_point[at]].1;
            place.blocks_kept_waiting = place.blocks.min(place.blocks_kept_waiting + blocks);
        }
    }

    fn count_warp(&mut self, points: &[AtPoint]) {
        let mut here: BTreeMap<usize, (u32, u32)> = BTreeMap::new();
        for AtPoint { point, threads, active, .. } in points {
            let (all_threads, all_active) = here.entry(self.of_point[*point]).or_default();
            (*all_threads, *all_active) = (*all_threads + threads, *all_active + active);
        }
        for (at, (threads, active)) in here {
            let place = &mut self.all[at].1;
            let [fewest, most] = place.threads_of_a_warp;
            place.threads_of_a_warp = [if place.warps == 0 { threads } else { fewest.min(threads) }, most.max(threads)];
            place.warps += 1;
            place.threads += u64::from(threads);
            place.threads_active += u64::from(active);
        }
    }

    /// Moves the places into their kernels, in their order.
    pub fn move_into(self, kernels: &mut [GpuKernel]) {
        for (kernel, mut place) in self.all {
            place.addresses.sort_unstable();
            kernels[kernel].places.push(place);
        }
        kernels.iter_mut().for_each(|kernel| kernel.places.sort_by_key(order));
    }
}

impl Doing {
    /// In a function of cooperative groups that waits for the whole grid, a loop is the grid's barrier.
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
