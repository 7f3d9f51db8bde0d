//! The sums of a process's records: loads, and the time for which threads were blocked.
//!
//! Must not: count a call twice that was first seen in progress, and then has its record.

use lazyguard_core::api::{Class, Work};
use lazyguard_core::trace::{Kind, Payload, Record, SLOW_NANOS};
use lazyguard_core::Nanos;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The program asked to wait for a context, a stream or an event.
    Synchronize,
    Load,
    Allocation,
    Copy,
    /// A call that only submits took 100 us or more.
    Submit,
    /// Any other call that took 100 us or more.
    Other,
}

pub(crate) const CAUSES: [&str; 6] = ["synchronize", "load", "allocation", "copy", "submit", "other"];

impl Cause {
    pub fn of(record: &Record, took: Nanos) -> Option<Self> {
        let in_order = record.entry_point.class().only_submits();
        Some(match record.work()? {
            // It has the time of the call in which the guard preloads.
            Work::Preload => return None,
            Work::LoadFunction | Work::LoadModule => Self::Load,
            Work::Wait => Self::Synchronize,
            Work::Copy if !in_order => Self::Copy,
            Work::Allocate | Work::Free if !in_order || took >= SLOW_NANOS => Self::Allocation,
            _ if took < SLOW_NANOS => return None,
            Work::Copy | Work::Submission => Self::Submit,
            _ => Self::Other,
        })
    }
}

/// The kinds of [`Tally::loads`], in its order: by a call or on first use, and kernels that the guard has loaded ahead.
pub(crate) const LOADS: [&str; 3] = ["function", "module", "ahead"];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub blocked: [Nanos; CAUSES.len()],
    pub loads: [u64; LOADS.len()],
}

impl Tally {
    pub fn see(&mut self, record: &Record) {
        self.blocked_for(record, record.took());
        let (kind, count) = match (record.kind, record.entry_point.class(), record.payload()) {
            (Kind::ColdFunction, ..) | (Kind::Call, Class::FunctionLoad, _) => (0, 1),
            (Kind::ColdModule, ..) | (Kind::Call, Class::ModuleLoad | Class::LibraryLoad, _) => (1, 1),
            (Kind::Preload, _, Payload::Preload(preload)) => (2, preload.loaded),
            _ => return,
        };
        if record.result == 0 {
            self.loads[kind] += count;
        }
    }

    pub fn blocked_for(&mut self, record: &Record, nanos: Nanos) {
        if let Some(cause) = Cause::of(record, nanos) {
            let sum = &mut self.blocked[cause as usize];
            *sum = sum.saturating_add(nanos);
        }
    }

    /// None of the sums less than before: what is in progress is read a moment before the records.
    pub fn at_least(&mut self, before: &Self) {
        self.blocked.iter_mut().zip(before.blocked).for_each(|(sum, before)| *sum = before.max(*sum));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recordings::{facts, launch, preload, submit};

    fn after(record: Record, took: Nanos) -> Record {
        Record { returned: record.entered + took, ..record }
    }

    #[test]
    fn each_blocked_call_has_one_cause_and_a_quick_launch_none() {
        for (record, took, expect) in [
            (facts("cuStreamSynchronize", 5), 7, Some(Cause::Synchronize)),
            (facts("cuModuleLoadData", 5), 7, Some(Cause::Load)),
            (Record { kind: Kind::ColdFunction, ..launch(1, 1, 5) }, 7, Some(Cause::Load)),
            (facts("cuMemAlloc_v2", 5), 200_000, Some(Cause::Allocation)),
            (facts("cuMemcpyHtoD_v2", 5), 7, Some(Cause::Copy)),
            (submit("cuMemcpyHtoDAsync_v2", 1, 5), 99_999, None),
            (submit("cuMemcpyHtoDAsync_v2", 1, 5), 100_000, Some(Cause::Submit)),
            (launch(1, 1, 5), 7, None),
            (facts("cuModuleUnload", 5), 100_000, Some(Cause::Other)),
            (facts("cuEventQuery", 5), 1_000_000, None),
            (preload(3, 0, 0, 0, facts("cuLaunchKernel", 5)), 1_000_000, None),
        ] {
            assert_eq!(Cause::of(&record, took), expect, "{record:?} {took}");
            let mut tally = Tally::default();
            tally.see(&after(record, took));
            let mut sums = [0; CAUSES.len()];
            expect.into_iter().for_each(|cause| sums[cause as usize] = took);
            assert_eq!(tally.blocked, sums, "{record:?}");
        }
    }

    #[test]
    fn loads_are_counted_by_what_was_loaded_and_only_if_they_succeeded() {
        let mut tally = Tally::default();
        for record in [
            Record { kind: Kind::ColdFunction, ..launch(1, 1, 5) },
            Record { kind: Kind::ColdModule, ..launch(1, 1, 5) },
            facts("cuModuleLoadData", 5),
            facts("cuLibraryLoadData", 5),
            Record { result: 200, ..facts("cuModuleLoadData", 5) },
            preload(3, 1, 0, 0, facts("cuLaunchKernel", 5)),
            launch(1, 1, 5),
        ] {
            tally.see(&after(record, 10));
        }
        assert_eq!(tally.loads, [1, 3, 3]);
    }

    #[test]
    fn a_sum_is_never_less_than_before() {
        let (mut one, mut other) = (Tally::default(), Tally::default());
        one.blocked_for(&facts("cuCtxSynchronize", 5), 50);
        other.blocked_for(&facts("cuCtxSynchronize", 5), 40);
        other.at_least(&one);
        assert_eq!(other.blocked[0], 50);
    }
}
