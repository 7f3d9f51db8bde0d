//! The classes of functions: what each does to loading and waiting, which lane of a recording its calls belong to, and which of these leave
//! a record.

use crate::Nanos;

/// Records with segments of their own: frequent ones never displace rare ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Lane {
    /// Launches, copies, fills, host functions, events, queries.
    Work = 0,
    /// Calls in which a thread waits for work.
    Waits = 1,
    /// All others, and calls that blocked.
    RareEvents = 2,
}

impl Lane {
    pub const ALL: [Self; 3] = [Self::Work, Self::Waits, Self::RareEvents];

    /// The lane of calls of a class, as long as they do not load on first use: those are rare events.
    #[inline(always)]
    pub const fn of(class: Class) -> Self {
        class.row().0
    }
}

/// From how long on a call leaves a record that leaves none when it is quick.
pub const SLOW_NANOS: Nanos = 100_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    Always,
    /// Equal ones in a row are one record with a count.
    Folded,
    /// Only if it took [`SLOW_NANOS`] or loaded something.
    IfSlow,
}

impl Keep {
    #[inline(always)]
    pub const fn of(class: Class) -> Self {
        class.row().1
    }
}

/// Submits nothing, loads nothing, takes no memory of the device and waits for nothing that was submitted.
const PREPARES: u8 = 1;
/// Stays out while functions are being preloaded: it could put work into the context that does not end by itself, begin a capture that the
/// idle question would invalidate, or take away what is being loaded.
const GATED: u8 = 2;
/// Its success says that work of the device has ended.
const ANSWERS: u8 = 4;
/// Its purpose is to wait for work: a thread blocked in it is waiting, not working.
const SYNCHRONIZES: u8 = 8;
/// Brings a whole module into the context, which the driver does only once everything in flight there has ended.
const LOADS: u8 = 16;
/// The driver carries it out only when the context's other work has ended, whatever the loading mode.
const WHOLE: u8 = 32;
/// A function of NCCL: a thread that is in it, and in no driver call, waits in NCCL's own code.
const NCCL: u8 = 64;

macro_rules! classes {
    ($($class:ident: $lane:ident $keep:ident $($fact:ident)*;)+) => {
        /// What a driver function does to loading and waiting; the hooks, the gate and the diagnosis branch on it. The names are the driver
        /// documentation's own groups; the last five are those of NCCL.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Class {
            $($class,)+
        }

        impl Class {
            #[inline(always)]
            const fn row(self) -> (Lane, Keep, u8) {
                match self {
                    $(Self::$class => (Lane::$lane, Keep::$keep, 0 $(| $fact)*),)+
                }
            }
        }
    };
}

classes! {
    Init: RareEvents IfSlow PREPARES;
    Lookup: RareEvents IfSlow PREPARES;
    Query: RareEvents IfSlow PREPARES;
    ContextCreate: RareEvents Always PREPARES;
    ContextDestroy: RareEvents Always PREPARES GATED WHOLE;
    ContextCurrent: RareEvents IfSlow PREPARES;
    ContextSynchronize: Waits Always ANSWERS SYNCHRONIZES;
    ContextWait: RareEvents IfSlow WHOLE;
    ModuleLoad: RareEvents Always LOADS;
    ModuleUnload: RareEvents Always GATED WHOLE;
    FunctionResolve: RareEvents IfSlow;
    LibraryLoad: RareEvents Always;
    LibraryUnload: RareEvents Always GATED WHOLE;
    LibraryModule: RareEvents IfSlow LOADS;
    KernelResolve: RareEvents IfSlow;
    KernelFunction: RareEvents IfSlow;
    FunctionLoad: RareEvents IfSlow;
    Launch: Work Always GATED;
    HostFunction: Work Always GATED;
    GraphLaunch: Work Always GATED;
    GraphUpload: RareEvents Always;
    GraphNode: RareEvents IfSlow;
    GraphInstantiate: RareEvents Always;
    Capture: RareEvents Always GATED;
    WriteValue: RareEvents Always;
    WaitValue: RareEvents Always GATED;
    BatchMemOp: RareEvents Always GATED;
    ExternalWait: Work Always GATED;
    ExternalSignal: Work Always;
    StreamCreate: RareEvents Always PREPARES;
    StreamDestroy: RareEvents Always PREPARES;
    StreamSynchronize: Waits Always ANSWERS SYNCHRONIZES;
    StreamQuery: Work Folded ANSWERS;
    StreamWaitEvent: Work Always GATED;
    StreamSubmit: Work Always;
    EventCreate: RareEvents IfSlow PREPARES;
    EventRecord: Work Always;
    EventDestroy: Work Always PREPARES;
    EventSynchronize: Waits Always ANSWERS SYNCHRONIZES;
    EventQuery: Work Folded ANSWERS;
    Allocate: RareEvents IfSlow;
    Free: RareEvents IfSlow ANSWERS WHOLE;
    AllocateAsync: Work Always;
    FreeAsync: Work Always;
    Copy: Work Always ANSWERS;
    CopyAsync: Work Always;
    Set: Work Always ANSWERS;
    SetAsync: Work Always;
    CommunicatorCreate: RareEvents Always NCCL;
    CommunicatorEnd: RareEvents Always NCCL;
    Collective: RareEvents Always NCCL;
    PointToPoint: RareEvents Always NCCL;
    CollectiveGroup: RareEvents Always NCCL;
}

impl Class {
    #[inline(always)]
    const fn has(self, facts: u8) -> bool {
        self.row().2 & facts != 0
    }

    /// The guard's threads begin with the first call that does more.
    pub const fn only_prepares(self) -> bool {
        self.has(PREPARES)
    }

    pub const fn waits_at_gate(self) -> bool {
        self.has(GATED)
    }

    #[inline(always)]
    pub const fn answers_for_work(self) -> bool {
        self.has(ANSWERS)
    }

    /// Whether a call of this class concerns every context, whichever is current: a library belongs to none.
    pub const fn concerns_every_context(self) -> bool {
        matches!(self, Self::ModuleUnload | Self::LibraryUnload | Self::ContextDestroy)
    }

    pub const fn synchronizes(self) -> bool {
        self.has(SYNCHRONIZES)
    }

    pub const fn loads_module(self) -> bool {
        self.has(LOADS)
    }

    /// Whether the driver may be at work in such a call for long, with nothing that it waits for: it compiles, pins or maps memory, makes or
    /// ends a context.
    pub const fn may_compute(self) -> bool {
        self.loads_module()
            || matches!(self, Self::Init | Self::ContextCreate | Self::ContextDestroy | Self::Allocate | Self::Free)
            || matches!(self, Self::LibraryLoad | Self::FunctionLoad | Self::GraphInstantiate)
    }

    /// Whether the call returns only when everything that is in flight in the context has ended, because of what it does and not
    /// because the program asked to wait.
    pub const fn needs_an_idle_context(self) -> bool {
        self.has(LOADS | WHOLE)
    }

    /// Whether the call does its work on the default stream and returns when that is done.
    pub const fn waits_on_default_stream(self) -> bool {
        matches!(self, Self::Copy | Self::Set)
    }

    pub const fn is_of_nccl(self) -> bool {
        self.has(NCCL)
    }

    pub const fn waits_for_whole_context(self) -> bool {
        self.has(WHOLE)
    }
}
