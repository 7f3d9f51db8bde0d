//! The classes of functions: what each does to loading and waiting, and in which lane it leaves a record.

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

    /// Calls that load on first use are rare events instead.
    #[inline(always)]
    pub const fn of(class: Class) -> Self {
        class.row().0
    }
}

/// The least duration of a call that leaves a record only if it is slow.
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

/// Makes no context, submits and loads nothing, takes no device memory, and waits for nothing that was submitted.
const PREPARES: u8 = 1;
/// Waits at the gate: it could submit endless work, begin a capture, or take away what is being loaded.
const GATED: u8 = 2;
/// Its success says that work of the device has ended.
const ANSWERS: u8 = 4;
const SYNCHRONIZES: u8 = 8;
/// Brings a whole module into the context, for which the driver waits until nothing is in flight there.
const LOADS: u8 = 16;
/// The driver carries it out only in an idle context, whatever the loading mode.
const WHOLE: u8 = 32;
const NCCL: u8 = 64;

macro_rules! classes {
    ($($class:ident: $event:ident $lane:ident $keep:ident $($fact:ident)*;)+) => {
        /// The names are the driver documentation's own groups; the last five are those of NCCL.
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

            /// The word by which the log, the records and their filters call such a call.
            pub const fn event(self) -> &'static str {
                match self {
                    $(Self::$class => stringify!($event),)+
                }
            }
        }
    };
}

classes! {
    Init: other RareEvents IfSlow PREPARES;
    Lookup: other RareEvents IfSlow PREPARES;
    Query: other RareEvents IfSlow PREPARES;
    ContextCreate: context RareEvents Always;
    ContextDestroy: context RareEvents Always PREPARES GATED WHOLE;
    ContextCurrent: other RareEvents IfSlow PREPARES;
    ContextSynchronize: synchronize Waits Always ANSWERS SYNCHRONIZES;
    ContextWait: other RareEvents IfSlow WHOLE;
    ModuleLoad: load RareEvents Always LOADS;
    ModuleUnload: unload RareEvents Always GATED WHOLE;
    FunctionResolve: load RareEvents IfSlow;
    LibraryLoad: load RareEvents Always;
    LibraryUnload: unload RareEvents Always GATED WHOLE;
    LibraryModule: load RareEvents IfSlow LOADS;
    KernelResolve: load RareEvents IfSlow;
    KernelFunction: load RareEvents IfSlow;
    FunctionLoad: load RareEvents IfSlow;
    Link: other RareEvents IfSlow;
    Launch: launch Work Always GATED;
    HostFunction: host_function Work Always GATED;
    GraphLaunch: graph_launch Work Always GATED;
    GraphUpload: other RareEvents Always;
    GraphNode: other RareEvents IfSlow;
    GraphInstantiate: other RareEvents Always;
    Capture: capture RareEvents Always GATED;
    WriteValue: memory_operation RareEvents Always;
    WaitValue: memory_operation RareEvents Always GATED;
    BatchMemOp: memory_operation RareEvents Always GATED;
    ExternalWait: other Work Always GATED;
    ExternalSignal: other Work Always;
    StreamCreate: stream RareEvents Always PREPARES;
    StreamDestroy: stream RareEvents Always PREPARES;
    StreamSynchronize: synchronize Waits Always ANSWERS SYNCHRONIZES;
    StreamQuery: query Work Folded ANSWERS;
    StreamWaitEvent: event_wait Work Always GATED;
    StreamSubmit: other Work Always;
    EventCreate: other RareEvents IfSlow PREPARES;
    EventRecord: event_record Work Always;
    EventDestroy: other Work Always PREPARES;
    EventSynchronize: synchronize Waits Always ANSWERS SYNCHRONIZES;
    EventQuery: query Work Folded ANSWERS;
    Allocate: allocation RareEvents IfSlow;
    Free: allocation RareEvents IfSlow ANSWERS WHOLE;
    AllocateAsync: allocation Work Always;
    FreeAsync: allocation Work Always;
    Copy: copy Work Always ANSWERS;
    CopyAsync: copy Work Always;
    Set: memset Work Always ANSWERS;
    SetAsync: memset Work Always;
    CommunicatorCreate: communication RareEvents Always NCCL;
    CommunicatorEnd: communication RareEvents Always NCCL;
    Collective: communication RareEvents Always NCCL;
    PointToPoint: communication RareEvents Always NCCL;
    CollectiveGroup: communication RareEvents Always NCCL;
}

impl Class {
    /// Whether it writes to memory that its caller names: a copy or a fill.
    pub const fn fills(self) -> bool {
        matches!(self, Self::Copy | Self::CopyAsync | Self::Set | Self::SetAsync)
    }

    #[inline(always)]
    const fn has(self, facts: u8) -> bool {
        self.row().2 & facts != 0
    }

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

    /// A library belongs to no context.
    pub const fn concerns_every_context(self) -> bool {
        matches!(self, Self::ModuleUnload | Self::LibraryUnload | Self::ContextDestroy)
    }

    /// A poll may make an event for each query, and do so by a new thread.
    pub const fn prepares_a_query(self) -> bool {
        matches!(self, Self::EventCreate | Self::EventRecord | Self::EventDestroy | Self::ContextCurrent)
    }

    pub const fn synchronizes(self) -> bool {
        self.has(SYNCHRONIZES)
    }

    pub const fn loads_module(self) -> bool {
        self.has(LOADS)
    }

    /// Whether the driver may be at work in such a call for long without waiting: it compiles, pins or maps memory, makes or ends a context.
    pub const fn may_compute(self) -> bool {
        self.loads_module()
            || matches!(self, Self::Init | Self::ContextCreate | Self::ContextDestroy | Self::Allocate | Self::Free)
            || matches!(self, Self::LibraryLoad | Self::FunctionLoad | Self::Link | Self::GraphInstantiate)
    }

    /// Whether the call returns only when the context is idle, although the program did not ask to wait.
    pub const fn needs_an_idle_context(self) -> bool {
        self.has(LOADS | WHOLE)
    }

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

/// The two lazy loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ColdKind {
    /// A function's first use: returns at once and puts a barrier on the device.
    Function,
    /// A module's or library's first use in the context: blocks the thread until the context is idle.
    Module,
}
