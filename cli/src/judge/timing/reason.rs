//! Why a call that is documented as asynchronous blocked the host.

use lazyguard_core::api::Code;
use serde::Serialize;

/// The reason for blocking in an asynchronous call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The guard preloaded for more than half of the call.
    GuardLoads,
    /// Another thread's preloading held submissions back for more than half of the call.
    GuardLoadsElsewhere,
    /// Another thread's load, unload, allocation, free or limit change in the context took more than half of the call.
    LockHeld,
    /// The load compiled.
    Compiles,
    /// The first use of a module or library.
    LoadsModule,
    /// The first use of a function.
    LoadsFunction,
    /// Possibly pageable memory; certain with LG105.
    PageableMemory,
    /// 900 operations or more in the stream; certain with LG106.
    QueueFull,
    /// Local memory grew: LG107.
    LocalMemory,
    /// The pool of a stream-ordered allocation grew.
    PoolGrows,
    /// The context's first launch.
    FirstOfContext,
    /// A loaded kernel's first launch.
    FirstLaunch,
    /// None of these.
    #[default]
    NotKnown,
}

/// The words of each reason, and what to do.
const TABLE: [(&str, &str); 13] = [
    ("the guard preloaded in this call", BOUNDED),
    ("the guard preloaded in another thread, and let nothing be submitted meanwhile", BOUNDED),
    (
        "the context's lock was held by another thread's call",
        "load, allocate and free before the time that matters, or in the same thread",
    ),
    (
        "code was compiled at run time, on first use",
        "ship machine code for this card, or keep the compiler's cache (CUDA_CACHE_PATH)",
    ),
    ("the module or library was loaded, on first use", LOAD_BEFORE),
    ("the function was loaded, on first use", LOAD_BEFORE),
    (
        "pageable memory: the driver copies it in steps and, on a busy stream, waits for the stream",
        "allocate the host's side with cuMemHostAlloc, or register it once",
    ),
    (
        "the stream's queue was full: the call waited until an operation had ended",
        "submit fewer and larger operations, or use a graph",
    ),
    (
        "local memory had to grow, for which the driver waits for the whole context",
        "launch it once before, or set CU_LIMIT_STACK_SIZE",
    ),
    ("the memory pool had to grow", "raise the pool's CU_MEMPOOL_ATTR_RELEASE_THRESHOLD"),
    ("the context's first launch: the driver set up what launches need", LAUNCH_BEFORE),
    ("the kernel's first launch: what it needs was set up (local memory, the buffer it prints to)", LAUNCH_BEFORE),
    ("not known", ""),
];

const BOUNDED: &str = "LAZYGUARD_PRELOAD_TIME bounds it";
const LOAD_BEFORE: &str = "load before the time that matters: LAZYGUARD_PRELOAD=auto, or launch once";
const LAUNCH_BEFORE: &str = "launch once before the time that matters";

impl Reason {
    pub const fn text(self) -> &'static str {
        TABLE[self as usize].0
    }

    pub const fn advice(self) -> &'static str {
        TABLE[self as usize].1
    }

    pub(super) const fn of_hazard(code: Code) -> Option<Self> {
        Some(match code {
            Code::LG105 => Self::PageableMemory,
            Code::LG106 => Self::QueueFull,
            Code::LG107 => Self::LocalMemory,
            Code::LG108 => Self::Compiles,
            _ => return None,
        })
    }
}
