//! Cycles of waits that stand even if every kernel in flight ends.
//!
//! A path stops at the first operation that may not have ended. That operation is often a finite kernel of which the guard has seen no end, and a
//! cycle lies behind it. The search repeats without the kernels: each counts as ended, unless it waits for peers or is known not to have.
//!
//! Must not: take the place of a path that ends at anything but such a kernel.

use super::operation::BusyStream;
use super::path::{End, Path};
use super::paths::Paths;
use crate::Nanos;

impl<'a> Paths<'a> {
    /// The cycle behind the kernel at which the path of a stream ends, if that kernel may have ended.
    pub(super) fn cycle_in_place_of(&self, path: &Path<'a>, stream: u32, until: Nanos) -> Option<Path<'a>> {
        let End::Runs(culprit) = &path.end else { return None };
        let waits = &self.snapshot.waits;
        if waits.is_empty() && self.snapshot.event_waits.is_empty() || path.barrier().is_some() {
            return None;
        }
        if self.has_not_ended(culprit) {
            return None;
        }
        let ways = self.ways.replace(0);
        self.cycles.alone.set(true);
        let found = self.find(stream, until, &mut Vec::new());
        self.cycles.alone.set(false);
        self.ways.set(ways);
        found.filter(|path| matches!(path.end, End::Cycle(_)))
    }

    pub(super) fn is_free_of_cycles(&self, stream: u32, until: Nanos) -> bool {
        self.cycles.alone.get() && self.cycles.free.borrow().get(&stream).is_some_and(|free| until <= *free)
    }

    /// The end of a stream at which no wait stands, in the search for cycles alone.
    pub(super) fn ends_unless_it_waits(&self, busy: &'a BusyStream, until: Nanos) -> Option<Path<'a>> {
        let stands = |path: &Path<'a>| match &path.end {
            End::Runs(culprit) => self.has_not_ended(culprit),
            _ => true,
        };
        let stands = self.runs(busy, until, true).filter(stands);
        if stands.is_none() {
            let mut free = self.cycles.free.borrow_mut();
            let free = free.entry(busy.stream.number).or_insert(until);
            *free = until.max(*free);
        }
        stands
    }
}
