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

impl Reason {
    pub const fn text(self) -> &'static str {
        match self {
            Self::GuardLoads => "the guard preloaded in this call",
            Self::GuardLoadsElsewhere => {
                "the guard preloaded in another thread, and let nothing be submitted meanwhile"
            }
            Self::LockHeld => "the context's lock was held by another thread's call",
            Self::Compiles => "code was compiled at run time, on first use",
            Self::LoadsModule => "the module or library was loaded, on first use",
            Self::LoadsFunction => "the function was loaded, on first use",
            Self::PageableMemory => {
                "pageable memory: the driver copies it in steps and, on a busy stream, waits for the stream"
            }
            Self::QueueFull => "the stream's queue was full: the call waited until an operation had ended",
            Self::LocalMemory => "local memory had to grow, for which the driver waits for the whole context",
            Self::PoolGrows => "the memory pool had to grow",
            Self::FirstOfContext => "the context's first launch: the driver set up what launches need",
            Self::FirstLaunch => {
                "the kernel's first launch: what it needs was set up (local memory, the buffer it prints to)"
            }
            Self::NotKnown => "not known",
        }
    }

    pub const fn advice(self) -> &'static str {
        match self {
            Self::GuardLoads | Self::GuardLoadsElsewhere => "LAZYGUARD_PRELOAD_TIME bounds it",
            Self::LockHeld => "load, allocate and free before the time that matters, or in the same thread",
            Self::Compiles => "ship machine code for this card, or keep the compiler's cache (CUDA_CACHE_PATH)",
            Self::LoadsModule | Self::LoadsFunction => {
                "load before the time that matters: LAZYGUARD_PRELOAD=auto, or launch once"
            }
            Self::PageableMemory => "allocate the host's side with cuMemHostAlloc, or register it once",
            Self::QueueFull => "submit fewer and larger operations, or use a graph",
            Self::LocalMemory => "launch it once before, or set CU_LIMIT_STACK_SIZE",
            Self::PoolGrows => "raise the pool's CU_MEMPOOL_ATTR_RELEASE_THRESHOLD",
            Self::FirstOfContext | Self::FirstLaunch => "launch once before the time that matters",
            Self::NotKnown => "",
        }
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
