//! Releases that are put off until their context is idle (`LAZYGUARD_DEFER=free`). The driver releases memory, modules and libraries only in an idle
//! context, so a release beside an endless kernel blocks, and the kernel may wait for that thread. Such a call returns at once. The driver's call follows
//! when the context is idle, or when the driver has no room: in order, each once.
//!
//! Must not: put off a release that would return at once, of something unknown to the driver, or that concerns a second context; or release twice.

use crate::lookup::driver::{self, Handle, SUCCESS};
use crate::lookup::driver_queries;
use crate::runtime::process::Process;
use lazyguard_core::api::EntryPoint;
use lazyguard_core::report::PreloadSummary;
use lazyguard_core::sync::lock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

/// By context, the oldest first.
#[derive(Default)]
#[repr(C)]
pub struct Releases {
    waiting: Mutex<Vec<(u32, Release)>>,
    put_off: AtomicU64,
    made: AtomicU64,
    refused: AtomicU64,
    count: AtomicUsize,
}

impl Releases {
    /// Release: partner of the Acquire in `any`.
    fn change<R>(&self, change: impl FnOnce(&mut Vec<(u32, Release)>) -> R) -> R {
        let mut waiting = lock(&self.waiting);
        let result = change(&mut waiting);
        self.count.store(waiting.len(), Ordering::Release);
        result
    }

    fn waiting(&self) -> Option<MutexGuard<'_, Vec<(u32, Release)>>> {
        self.any().then(|| lock(&self.waiting))
    }

    #[inline]
    pub fn any(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    /// `false` if the same release waits already.
    pub fn put_off(&self, context: u32, release: Release) -> bool {
        let is_new = self.change(|waiting| {
            let is_new = !waiting.iter().any(|(_, other)| release.repeats(*other));
            waiting.extend(is_new.then_some((context, release)));
            is_new
        });
        self.put_off.fetch_add(is_new.into(), Ordering::Relaxed);
        is_new
    }

    /// For any context.
    pub fn waits(&self, release: Release) -> bool {
        self.waiting().is_some_and(|waiting| waiting.iter().any(|(_, other)| release.repeats(*other)))
    }

    /// The memory of registrations that wait.
    pub fn registrations(&self) -> Vec<u64> {
        let waiting = self.waiting();
        waiting.iter().flat_map(|waiting| waiting.iter()).filter_map(|(_, release)| release.registration()).collect()
    }

    pub fn wait_for(&self, context: u32) -> bool {
        self.waiting().is_some_and(|waiting| waiting.iter().any(|(c, _)| *c == context))
    }

    fn next(&self, context: u32) -> Option<Release> {
        self.change(|waiting| {
            let at = waiting.iter().position(|(c, _)| *c == context)?;
            Some(waiting.remove(at).1)
        })
    }

    /// The oldest for the current context; `false` where none waits.
    pub fn make_next(&self, context: u32) -> bool {
        let Some(next) = (if self.any() { self.next(context) } else { None }) else { return false };
        let count = if next.make() { &self.made } else { &self.refused };
        count.fetch_add(1, Ordering::Relaxed);
        true
    }

    pub fn context_gone(&self, context: u32) {
        self.change(|waiting| waiting.retain(|(c, _)| *c != context));
    }

    pub fn sum_up(&self, summary: &mut PreloadSummary) {
        summary.pending += self.count.load(Ordering::Relaxed) as u64;
        summary.releases_put_off = self.put_off.load(Ordering::Relaxed);
        summary.releases_made = self.made.load(Ordering::Relaxed);
        summary.releases_refused = self.refused.load(Ordering::Relaxed);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum What {
    Memory,
    HostMemory,
    Registration,
    Module,
    Library,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Release {
    what: What,
    of: u64,
}

/// The functions whose calls are put off, and the driver's answer to a second release: `CUDA_ERROR_INVALID_VALUE`,
/// `CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED` or `CUDA_ERROR_INVALID_HANDLE`.
const CALLS: [(&str, What, i32); 5] = [
    ("cuMemFree", What::Memory, 1),
    ("cuMemFreeHost", What::HostMemory, 1),
    ("cuMemHostUnregister", What::Registration, 713),
    ("cuModuleUnload", What::Module, 400),
    ("cuLibraryUnload", What::Library, 400),
];

impl Release {
    /// `None` of a call that is never put off.
    pub fn of_call(entry_point: EntryPoint, of: u64) -> Option<Self> {
        let base = entry_point.info().base();
        let (_, what, _) = CALLS.into_iter().find(|(name, ..)| *name == base && of != 0)?;
        Some(Self { what, of })
    }

    /// The driver's answer to a second release.
    pub fn repeated(self) -> i32 {
        CALLS.into_iter().find(|(_, what, _)| *what == self.what).map_or(SUCCESS, |(.., result)| result)
    }

    pub fn registration(self) -> Option<u64> {
        (self.what == What::Registration).then_some(self.of)
    }

    /// Whether both release the same object.
    pub fn repeats(self, other: Self) -> bool {
        let is_code = |release: Self| matches!(release.what, What::Module | What::Library);
        self.of == other.of && is_code(self) == is_code(other)
    }

    /// Whether the driver will carry it out, and it waits for this current context alone.
    pub fn concerns(self, process: &Process, context: u32, handle: Handle) -> bool {
        match self.what {
            What::Memory => {
                driver_queries::is_allocated_in(self.of, handle, false) && !driver_queries::is_of_a_pool(self.of)
            }
            What::HostMemory | What::Registration => driver_queries::is_allocated_in(self.of, handle, true),
            What::Module => process.tracker.present(self.of, context),
            What::Library => process.tracker.present(self.of, context) && process.tracker.contexts().nth(1).is_none(),
        }
    }

    pub fn make(self) -> bool {
        let result = match self.what {
            What::Memory => driver::mem_free(self.of),
            What::HostMemory => driver::mem_free_host(self.of as Handle),
            What::Registration => driver::mem_host_unregister(self.of as Handle),
            What::Module => driver::module_unload(self.of as Handle),
            What::Library => driver::library_unload(self.of as Handle),
        };
        result == Some(SUCCESS)
    }
}

/// `CUDA_ERROR_OUT_OF_MEMORY`, and `CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED`.
pub fn may_be_for_lack_of_releases(result: i32) -> bool {
    matches!(result, 2 | 712)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_that_releases_something_is_known_by_its_function() {
        let of = |symbol: &str, of: u64| Release::of_call(EntryPoint::by_symbol(symbol.as_bytes()).unwrap(), of);
        for (symbol, what, repeated) in [
            ("cuMemFree_v2", What::Memory, 1),
            ("cuMemFreeHost", What::HostMemory, 1),
            ("cuMemHostUnregister", What::Registration, 713),
            ("cuModuleUnload", What::Module, 400),
            ("cuLibraryUnload", What::Library, 400),
        ] {
            assert_eq!(of(symbol, 5), Some(Release { what, of: 5 }), "{symbol}");
            assert_eq!(of(symbol, 5).map(Release::repeated), Some(repeated), "{symbol}");
            assert_eq!(of(symbol, 0), None, "{symbol}: nothing is released");
        }
        let [free, unregister, unload] =
            ["cuMemFreeHost", "cuMemHostUnregister", "cuModuleUnload"].map(|symbol| of(symbol, 5).unwrap());
        assert_eq!([free, unregister, unload].map(|other| unregister.repeats(other)), [true, true, false]);
        assert!(!free.repeats(of("cuMemFreeHost", 6).unwrap()));
        assert_eq!([free, unregister, unload].map(Release::registration), [None, Some(5), None]);
        assert_eq!((of("cuArrayDestroy", 5), of("cuMemFreeAsync", 5)), (None, None));
        assert_eq!([0, 1, 2, 712].map(may_be_for_lack_of_releases), [false, false, true, true]);
    }

    #[test]
    fn releases_wait_for_their_context_in_order_and_go_with_it() {
        let entry_point = EntryPoint::by_symbol(b"cuMemFreeHost").unwrap();
        let [one, two, other] = [1, 2, 3].map(|address| Release::of_call(entry_point, address).unwrap());
        let releases = Releases::default();
        assert!(!releases.any() && !releases.make_next(1));
        let put_off = [(1, one), (2, other), (1, two), (1, one)];
        assert_eq!(put_off.map(|(context, release)| releases.put_off(context, release)), [true, true, true, false]);
        assert_eq!([1, 2, 3].map(|context| releases.wait_for(context)), [true, true, false]);
        let summary = |releases: &Releases| {
            let mut summary = PreloadSummary::default();
            releases.sum_up(&mut summary);
            (summary.pending, summary.releases_put_off, summary.releases_made, summary.releases_refused)
        };
        assert_eq!(summary(&releases), (3, 3, 0, 0));
        assert_eq!([releases.next(1), releases.next(1), releases.next(1)], [Some(one), Some(two), None]);
        assert_eq!((releases.waits(one), releases.waits(other), releases.any()), (false, true, true));
        assert!(releases.make_next(2), "there is no driver here, which refuses it");
        assert_eq!(summary(&releases), (0, 3, 0, 1));
        assert!(releases.put_off(2, other));
        releases.context_gone(2);
        assert_eq!((releases.waits(other), releases.any(), summary(&releases)), (false, false, (0, 4, 0, 1)));
    }
}
