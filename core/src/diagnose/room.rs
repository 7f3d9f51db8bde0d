//! Kernels that cannot start because the device has no room for them: beside a grid of another stream that fills the device, or, for a grid
//! whose blocks must all be resident, beside any kernel that runs.
//!
//! Must not: take for running what stands behind something itself.

use super::operation::{BusyStream, Extent, OperationSeen};
use super::path::{culprit, End, Path, Peers, Step};
use super::paths::{Paths, Way};
use crate::replay::fills_device;
use crate::Nanos;

impl<'a> Paths<'a> {
    /// A kernel that has no room beside a running one.
    pub(super) fn filled(&self, busy: &'a BusyStream, until: Nanos, way: &mut Way) -> Option<Path<'a>> {
        let first = busy.front();
        let is_launch = first.at <= until && matches!(first.extent, Some(Extent::Grid { .. }));
        let mut fillers = self.before(busy).filter(|other| is_launch && other.front().fills_device());
        let filler = fillers.find(|filler| self.running(filler, way).is_some())?;
        Some(Path::to(End::Filled(culprit(busy, first), culprit(filler, filler.front()))))
    }

    /// A grid that starts as a whole or not at all, beside a running collective. Beside another kernel both may have room.
    pub(super) fn without_room_at_once(&self, busy: &'a BusyStream, until: Nanos, way: &mut Way) -> Option<Path<'a>> {
        let grid = busy.front();
        let needs_all = grid.at <= until && grid.at_once && grid.fills_device();
        let mut collectives = self.before(busy).filter(|other| needs_all && other.front().waits_for_peers());
        let path = collectives.find_map(|other| self.running(other, way))?;
        Some(path.behind(Step::Room(busy)))
    }

    fn before(&self, busy: &'a BusyStream) -> impl Iterator<Item = &'a BusyStream> {
        let is_before = move |other: &&BusyStream| {
            !other.destroyed
                && other.stream.context == busy.stream.context
                && other.stream.number != busy.stream.number
                && other.front().at < busy.front().at
        };
        self.snapshot.streams.iter().filter(is_before)
    }

    /// The path from a stream's first operation, if that runs.
    fn running(&self, busy: &'a BusyStream, way: &mut Way) -> Option<Path<'a>> {
        let front = busy.front().at;
        let path = self.find(busy.stream.number, front, way)?;
        let (End::Runs(culprit) | End::Peers(Peers { culprit, .. })) = &path.end else { return None };
        (culprit.stream.number == busy.stream.number && culprit.operation.at == front).then_some(path)
    }
}

impl OperationSeen {
    /// Whether the grid has as many blocks as the device holds at once, as far as the driver was asked.
    pub fn fills_device(&self) -> bool {
        matches!(self.extent, Some(Extent::Grid { blocks, resident: Some(resident), .. }) if fills_device(blocks, resident))
    }
}

#[cfg(test)]
#[path = "room_tests.rs"]
mod tests;
