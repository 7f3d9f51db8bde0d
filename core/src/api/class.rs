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
/// Submits work to a stream, and is documented not to wait for it.
const SUBMITS: u8 = 8;
/// Brings a whole module into the context, for which the driver waits until nothing is in flight there.
const LOADS: u8 = 16;
/// The driver carries it out only in an idle context, whatever the loading mode.
const WHOLE: u8 = 32;
const NCCL: u8 = 64;

/// A thread's work in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The comment above adds to the names.
pub enum Work {
    Preload,
    LoadFunction,
    LoadModule,
    Context,
    Allocate,
    Free,
    Copy,
    Graph,
    Wait,
    Submission,
    Other,
}

macro_rules! classes {
    ($($class:ident: $event:ident $work:ident $lane:ident $keep:ident $($fact:ident)*;)+) => {
        /// The names are the driver documentation's own groups; the last six are those of NCCL.
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

            /// The work of such a call, where it loads nothing on first use.
            pub const fn work(self) -> Work {
                match self {
                    $(Self::$class => Work::$work,)+
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
    Init: other Other RareEvents IfSlow PREPARES;
    Lookup: other Other RareEvents IfSlow PREPARES;
    Query: other Other RareEvents IfSlow PREPARES;
    ContextCreate: context Context RareEvents Always;
    ContextDestroy: context Other RareEvents Always PREPARES GATED WHOLE;
    ContextCurrent: other Other RareEvents IfSlow PREPARES;
    ContextSynchronize: synchronize Wait Waits Always ANSWERS;
    ContextWait: other Other RareEvents IfSlow WHOLE;
    ModuleLoad: load LoadModule RareEvents Always LOADS;
    ModuleUnload: unload Other RareEvents Always GATED WHOLE;
    FunctionResolve: load LoadFunction RareEvents IfSlow;
    LibraryLoad: load LoadModule RareEvents Always;
    LibraryUnload: unload Other RareEvents Always GATED WHOLE;
    LibraryModule: load LoadModule RareEvents IfSlow LOADS;
    KernelResolve: load LoadFunction RareEvents IfSlow;
    KernelFunction: load LoadFunction RareEvents IfSlow;
    FunctionLoad: load LoadFunction RareEvents IfSlow;
    Link: other Other RareEvents IfSlow;
    Launch: launch Submission Work Always GATED SUBMITS;
    HostFunction: host_function Submission Work Always GATED SUBMITS;
    GraphLaunch: graph_launch Submission Work Always GATED SUBMITS;
    GraphUpload: other Graph RareEvents Always SUBMITS;
    GraphNode: other Graph RareEvents IfSlow;
    GraphInstantiate: other Graph RareEvents Always;
    Capture: capture Other RareEvents Always GATED;
    WriteValue: memory_operation Submission RareEvents Always SUBMITS;
    WaitValue: memory_operation Submission RareEvents Always GATED SUBMITS;
    BatchMemOp: memory_operation Submission RareEvents Always GATED SUBMITS;
    ExternalWait: other Submission Work Always GATED SUBMITS;
    ExternalSignal: other Submission Work Always SUBMITS;
    StreamCreate: stream Other RareEvents Always PREPARES;
    StreamDestroy: stream Other RareEvents Always PREPARES;
    StreamSynchronize: synchronize Wait Waits Always ANSWERS;
    StreamQuery: query Other Work Folded ANSWERS;
    StreamWaitEvent: event_wait Submission Work Always GATED SUBMITS;
    StreamSubmit: other Submission Work Always SUBMITS;
    EventCreate: other Other RareEvents IfSlow PREPARES;
    EventRecord: event_record Submission Work Always SUBMITS;
    EventDestroy: other Other Work Always PREPARES;
    EventSynchronize: synchronize Wait Waits Always ANSWERS;
    EventQuery: query Other Work Folded ANSWERS;
    Allocate: allocation Allocate RareEvents IfSlow;
    Free: allocation Free RareEvents IfSlow ANSWERS WHOLE;
    AllocateAsync: allocation Allocate Work Always SUBMITS;
    FreeAsync: allocation Free Work Always SUBMITS;
    Copy: copy Copy Work Always ANSWERS;
    CopyAsync: copy Copy Work Always SUBMITS;
    Set: memset Copy Work Always ANSWERS;
    SetAsync: memset Copy Work Always SUBMITS;
    CommunicatorCreate: communication Other RareEvents Always NCCL;
    CommunicatorEnd: communication Other RareEvents Always NCCL;
    Collective: communication Other RareEvents Always NCCL;
    PointToPoint: communication Other RareEvents Always NCCL;
    CollectiveGroup: communication Other RareEvents Always NCCL;
    CommunicatorQuery: query Other Work Folded NCCL;
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

    /// Whether it asks how far work has come: a synchronization or a query.
    pub const fn asks_for_work(self) -> bool {
        self.synchronizes() || matches!(self, Self::StreamQuery | Self::EventQuery)
    }

    /// Whether it submits what may tell the program, through the host's memory alone, that work before it has ended. The entry point says it of copies.
    pub const fn may_tell_memory(self) -> bool {
        matches!(self, Self::HostFunction | Self::WriteValue | Self::BatchMemOp | Self::GraphLaunch | Self::CopyAsync)
    }

    /// Whether it gives back what the program has.
    pub const fn releases(self) -> bool {
        matches!(self, Self::Free | Self::FreeAsync | Self::StreamDestroy | Self::EventDestroy)
            || matches!(self, Self::ModuleUnload | Self::LibraryUnload | Self::ContextDestroy)
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
        matches!(self.work(), Work::Wait)
    }

    pub const fn only_submits(self) -> bool {
        self.has(SUBMITS)
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
