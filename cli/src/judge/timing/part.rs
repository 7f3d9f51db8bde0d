//! The parts that the time of a start is divided into.

use lazyguard_core::api::Work;
use lazyguard_core::replay::Fact;
use lazyguard_core::trace::{Record, SLOW_NANOS};
use serde::Serialize;
use std::collections::HashMap;

/// A part of a start. Overlapping time counts for the part that the list names first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// From the process's start, as the system counts it to 10 ms, until the guard was loaded.
    Loader,
    /// From there until `cuInit`.
    Program,
    /// `cuInit`.
    DriverInit,
    /// The guard made itself ready.
    Arming,
    /// The guard preloaded.
    Preload,
    /// A context was created.
    Context,
    /// Code without machine code for the device was compiled.
    Compile,
    /// Modules and libraries were loaded.
    Modules,
    /// Functions were loaded.
    Functions,
    /// Slow allocations and frees, until a call was slow 64 times.
    Allocations,
    /// Graphs were instantiated and uploaded.
    Graphs,
    /// First launches of loaded kernels.
    FirstLaunches,
    /// Work was submitted.
    Submissions,
    /// Memory was copied or set.
    Copies,
    /// Other calls of the driver.
    Calls,
    /// A thread waited for work, and no thread made another call.
    Waits,
    /// No thread was in a recorded driver call.
    Host,
}

impl Part {
    const TABLE: [(Self, &'static str); 17] = [
        (Self::Loader, "process start: system and dynamic linker"),
        (Self::Program, "the program's own, before the driver"),
        (Self::DriverInit, "driver initialisation (cuInit)"),
        (Self::Arming, "the guard made itself ready"),
        (Self::Preload, "the guard preloaded"),
        (Self::Context, "context creation"),
        (Self::Compile, "run-time compilation"),
        (Self::Modules, "module and library loads"),
        (Self::Functions, "function loads"),
        (Self::Allocations, "slow allocations and frees"),
        (Self::Graphs, "graphs made ready"),
        (Self::FirstLaunches, "first launches of loaded kernels"),
        (Self::Submissions, "other submissions"),
        (Self::Copies, "copies and memsets"),
        (Self::Calls, "other driver calls"),
        (Self::Waits, "waiting for work to end"),
        (Self::Host, "the rest: the program on the host"),
    ];

    pub const COUNT: usize = Self::TABLE.len();

    pub fn all() -> [Self; Self::COUNT] {
        Self::TABLE.map(|(part, _)| part)
    }

    pub const fn text(self) -> &'static str {
        Self::TABLE[self as usize].1
    }
}

/// How often a call may be slow before that counts as a habit of the program's, and no longer as part of its start.
const HABIT: u32 = 64;

#[derive(Default)]
pub(super) struct Parts {
    slow: HashMap<u16, u32>,
}

impl Parts {
    /// The part of a record, and whether it delays the steady state. `first` says that the record is its kernel's first launch.
    pub fn of(&mut self, fact: &Fact<'_>, first: bool) -> Option<(Part, bool)> {
        let record = &fact.entry.record;
        let slow = record.took() >= SLOW_NANOS || record.returned == 0;
        let waits = slow || !record.entry_point.class().only_submits();
        Some(match record.work()? {
            Work::Preload => (Part::Preload, true),
            Work::LoadFunction => (Part::Functions, true),
            Work::LoadModule if fact.compiles => (Part::Compile, true),
            Work::LoadModule => (Part::Modules, true),
            // Getting a context that is there is quick.
            Work::Context => (Part::Context, slow),
            Work::Allocate if waits => (Part::Allocations, self.is_no_habit(record)),
            Work::Free if waits => (Part::Allocations, false),
            Work::Graph => (Part::Graphs, slow && self.is_no_habit(record)),
            Work::Copy => (Part::Copies, false),
            Work::Wait => (Part::Waits, false),
            Work::Submission if first => (Part::FirstLaunches, true),
            Work::Submission | Work::Allocate | Work::Free => (Part::Submissions, false),
            Work::Other => (Part::Calls, false),
        })
    }

    fn is_no_habit(&mut self, record: &Record) -> bool {
        let count = self.slow.entry(record.entry_point.id()).or_default();
        *count = count.saturating_add(1);
        *count <= HABIT
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazyguard_core::api::EntryPoint;
    use lazyguard_core::replay::Replay;
    use lazyguard_core::trace::layout::image;
    use lazyguard_core::trace::read::Entry;
    use lazyguard_core::trace::{Image, Kind, Lane, RawPayload};

    fn record(symbol: &str, kind: Kind, took: u64) -> Record {
        let entry_point = EntryPoint::by_symbol(symbol.as_bytes()).unwrap();
        Record { kind, entered: 10, returned: 10 + took, ..Record::of(entry_point) }
    }

    fn part(replay: &mut Replay, parts: &mut Parts, record: Record, first: bool) -> Option<(Part, bool)> {
        let entry = Entry { thread_number: 1, thread: 1, lane: Lane::Work, number: 0, record };
        parts.of(&replay.see(&entry), first)
    }

    #[test]
    fn each_record_belongs_to_one_part() {
        const SLOW: u64 = SLOW_NANOS;
        for (symbol, kind, took, first, expect) in [
            ("cuLaunchKernel", Kind::Call, 5, false, Some((Part::Submissions, false))),
            ("cuLaunchKernel", Kind::Call, 5, true, Some((Part::FirstLaunches, true))),
            ("cuLaunchKernel", Kind::ColdFunction, 5, true, Some((Part::Functions, true))),
            ("cuLaunchKernel", Kind::ColdModule, 5, true, Some((Part::Modules, true))),
            ("cuLaunchKernel", Kind::Preload, 5, false, Some((Part::Preload, true))),
            ("cuLaunchKernel", Kind::Hazard, 5, false, None),
            ("cuCtxSynchronize", Kind::Call, SLOW, false, Some((Part::Waits, false))),
            ("cuEventQuery", Kind::Queries, SLOW, false, None),
            ("cuDevicePrimaryCtxRetain", Kind::Call, SLOW, false, Some((Part::Context, true))),
            ("cuDevicePrimaryCtxRetain", Kind::Call, 5, false, Some((Part::Context, false))),
            ("cuLibraryLoadData", Kind::Call, 5, false, Some((Part::Modules, true))),
            ("cuModuleGetFunction", Kind::Call, SLOW, false, Some((Part::Functions, true))),
            ("cuMemAlloc_v2", Kind::Call, SLOW, false, Some((Part::Allocations, true))),
            ("cuMemFree_v2", Kind::Call, SLOW, false, Some((Part::Allocations, false))),
            ("cuMemAllocAsync", Kind::Call, 5, false, Some((Part::Submissions, false))),
            ("cuMemAllocAsync", Kind::Call, SLOW, false, Some((Part::Allocations, true))),
            ("cuGraphInstantiate", Kind::Call, SLOW, false, Some((Part::Graphs, true))),
            ("cuMemcpyHtoD_v2", Kind::Call, SLOW, false, Some((Part::Copies, false))),
            ("cuStreamCreate", Kind::Call, SLOW, false, Some((Part::Calls, false))),
        ] {
            let got = part(&mut Replay::default(), &mut Parts::default(), record(symbol, kind, took), first);
            assert_eq!(got, expect, "{symbol} {kind:?} {took}");
        }
    }

    #[test]
    fn what_has_no_machine_code_is_compiled_when_it_is_first_used() {
        let (mut replay, mut parts) = (Replay::default(), Parts::default());
        let load = |symbol, kind, owner, bits| {
            let raw = RawPayload::image(Image::of(bits)).with_owner(owner);
            Record { raw, ..record(symbol, kind, 5) }
        };
        let use_of = |owner| Record { raw: RawPayload::about(owner), ..record("cuLaunchKernel", Kind::ColdModule, 5) };
        for (record, expect) in [
            (load("cuModuleLoadData", Kind::ColdModule, 1, image::PTX), Part::Compile),
            (load("cuModuleLoadData", Kind::ColdModule, 2, image::MACHINE_CODE), Part::Modules),
            (load("cuLibraryLoadData", Kind::Call, 3, image::FAT_BINARY_OF_PTX), Part::Modules),
            (use_of(3), Part::Compile),
            (use_of(2), Part::Modules),
            (use_of(4), Part::Modules),
        ] {
            assert_eq!(part(&mut replay, &mut parts, record, false), Some((expect, true)), "{record:?}");
        }
    }

    #[test]
    fn who_allocates_slowly_again_and_again_does_so_as_a_habit() {
        let (mut replay, mut parts) = (Replay::default(), Parts::default());
        let slow = record("cuMemAlloc_v2", Kind::Call, SLOW_NANOS);
        let noted =
            (0..100).filter(|_| part(&mut replay, &mut parts, slow, false) == Some((Part::Allocations, true))).count();
        assert_eq!(noted, HABIT as usize);
        let other = record("cuMemHostAlloc", Kind::Call, SLOW_NANOS);
        assert_eq!(
            part(&mut replay, &mut parts, other, false),
            Some((Part::Allocations, true)),
            "another call has a habit of its own"
        );
    }

    #[test]
    fn all_parts_stand_in_their_order() {
        assert!(Part::all().is_sorted());
        assert!(Part::all().iter().enumerate().all(|(n, part)| *part as usize == n));
    }
}
