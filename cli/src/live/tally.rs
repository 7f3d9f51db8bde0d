//! What the records of a process add up to: loads, and the time for which threads were blocked.
//!
//! Must not: count a call twice that was first seen in progress, and then has its record.

use lazyguard_core::api::Class;
use lazyguard_core::trace::{Kind, Payload, Record, SLOW_NANOS};
use lazyguard_core::Nanos;
use std::collections::BTreeMap;

/// Why a thread was blocked in the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cause {
    /// The program asked to wait for a context, a stream or an event.
    Synchronize,
    /// Code was loaded, by a call for that or on first use.
    Load,
    /// Memory was allocated or freed.
    Allocation,
    /// Memory was copied or set by a call that returns when that is done.
    Copy,
    /// A call that only submits took 100 us or more.
    Submit,
    /// Any other call that took 100 us or more.
    Other,
}

impl Cause {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Synchronize, Self::Load, Self::Allocation, Self::Copy, Self::Submit, Self::Other];

    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Synchronize => "synchronize",
            Self::Load => "load",
            Self::Allocation => "allocation",
            Self::Copy => "copy",
            Self::Submit => "submit",
            Self::Other => "other",
        }
    }

    /// Of a call that took so long; `None` if that does not count as blocked.
    pub fn of(record: &Record, took: Nanos) -> Option<Self> {
        let cause = match (record.kind, record.entry_point.class()) {
            (Kind::ColdFunction | Kind::ColdModule, _) => Self::Load,
            (Kind::Call, class) => match class {
                Class::ContextSynchronize | Class::StreamSynchronize | Class::EventSynchronize => Self::Synchronize,
                Class::ModuleLoad
                | Class::LibraryLoad
                | Class::LibraryModule
                | Class::FunctionLoad
                | Class::KernelFunction
                | Class::FunctionResolve
                | Class::KernelResolve => Self::Load,
                Class::Allocate | Class::Free => Self::Allocation,
                Class::Copy | Class::Set => Self::Copy,
                _ if took < SLOW_NANOS => return None,
                Class::AllocateAsync | Class::FreeAsync => Self::Allocation,
                Class::Launch
                | Class::HostFunction
                | Class::GraphLaunch
                | Class::StreamSubmit
                | Class::StreamWaitEvent
                | Class::ExternalWait
                | Class::ExternalSignal
                | Class::EventRecord
                | Class::WaitValue
                | Class::WriteValue
                | Class::BatchMemOp
                | Class::CopyAsync
                | Class::SetAsync => Self::Submit,
                _ => Self::Other,
            },
            // Queries return at once; the others are no calls of the driver, or say more of one that has its own record.
            _ => return None,
        };
        Some(cause)
    }
}

/// What was loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LoadKind {
    /// A function, on first use or by a call for that.
    Function,
    /// A module or library.
    Module,
    /// Kernels that the guard has loaded ahead of use.
    Ahead,
}

impl LoadKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Function, Self::Module, Self::Ahead];

    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Function => "function",
            Self::Module => "module",
            Self::Ahead => "ahead",
        }
    }
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    blocked: BTreeMap<Cause, Nanos>,
    loads: BTreeMap<LoadKind, u64>,
}

impl Tally {
    /// Takes in a record.
    pub fn see(&mut self, record: &Record) {
        self.blocked_for(record, record.took());
        let load = match (record.kind, record.entry_point.class(), record.payload()) {
            (Kind::Preload, _, Payload::Preload(preload)) => (LoadKind::Ahead, preload.loaded),
            (Kind::ColdFunction, ..) | (Kind::Call, Class::FunctionLoad, _) => (LoadKind::Function, 1),
            (Kind::ColdModule, ..) | (Kind::Call, Class::ModuleLoad | Class::LibraryLoad, _) => (LoadKind::Module, 1),
            _ => return,
        };
        if record.result == 0 {
            *self.loads.entry(load.0).or_default() += load.1;
        }
    }

    /// Takes in a call that has lasted for so long.
    pub fn blocked_for(&mut self, record: &Record, nanos: Nanos) {
        if let Some(cause) = Cause::of(record, nanos) {
            let sum = self.blocked.entry(cause).or_default();
            *sum = sum.saturating_add(nanos);
        }
    }

    /// For how long threads were blocked by this cause, one after the other.
    pub fn blocked(&self, cause: Cause) -> Nanos {
        self.blocked.get(&cause).copied().unwrap_or(0)
    }

    /// How much was loaded.
    pub fn loads(&self, kind: LoadKind) -> u64 {
        self.loads.get(&kind).copied().unwrap_or(0)
    }

    /// None of the sums less than before: what is in progress is read a moment before the records.
    pub fn at_least(&mut self, before: &Self) {
        for (cause, nanos) in &before.blocked {
            let sum = self.blocked.entry(*cause).or_default();
            *sum = (*sum).max(*nanos);
        }
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
            let sums = Cause::ALL.map(|cause| (cause, tally.blocked(cause)));
            let expect = Cause::ALL.map(|cause| (cause, if expect == Some(cause) { took } else { 0 }));
            assert_eq!(sums, expect, "{record:?}");
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
        assert_eq!(LoadKind::ALL.map(|kind| tally.loads(kind)), [1, 3, 3]);
    }

    #[test]
    fn a_sum_is_never_less_than_before() {
        let (mut one, mut other) = (Tally::default(), Tally::default());
        one.blocked_for(&facts("cuCtxSynchronize", 5), 50);
        other.blocked_for(&facts("cuCtxSynchronize", 5), 40);
        other.at_least(&one);
        assert_eq!(other.blocked(Cause::Synchronize), 50);
    }
}
