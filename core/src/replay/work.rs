//! The kinds of work that calls do.

use crate::api::{Class, ColdKind};
use crate::trace::{Kind, Record};

/// A thread's work in a call. `in_order`: the call only submits it, in the order of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The comment above adds to the names.
pub enum Work {
    Preload,
    Load(ColdKind),
    Context,
    Allocate { in_order: bool },
    Free { in_order: bool },
    Copy { in_order: bool },
    Graph,
    Wait,
    Submission,
    Other,
}

impl Work {
    /// Queries return at once; observations and hazards are no work, and calls of NCCL have records of the driver calls in them.
    pub const fn of(record: &Record) -> Option<Self> {
        Some(match record.kind {
            Kind::Preload => Self::Preload,
            Kind::ColdFunction => Self::Load(ColdKind::Function),
            Kind::ColdModule => Self::Load(ColdKind::Module),
            Kind::Call => Self::of_class(record.entry_point.class()),
            _ => return None,
        })
    }

    /// The work of a call that loads nothing on first use.
    pub const fn of_class(class: Class) -> Self {
        match class {
            Class::ModuleLoad | Class::LibraryLoad | Class::LibraryModule => Self::Load(ColdKind::Module),
            Class::FunctionResolve | Class::KernelResolve | Class::KernelFunction | Class::FunctionLoad => {
                Self::Load(ColdKind::Function)
            }
            Class::ContextCreate => Self::Context,
            Class::Allocate | Class::AllocateAsync => {
                Self::Allocate { in_order: matches!(class, Class::AllocateAsync) }
            }
            Class::Free | Class::FreeAsync => Self::Free { in_order: matches!(class, Class::FreeAsync) },
            Class::Copy | Class::Set => Self::Copy { in_order: false },
            Class::CopyAsync | Class::SetAsync => Self::Copy { in_order: true },
            Class::GraphInstantiate | Class::GraphUpload | Class::GraphNode => Self::Graph,
            _ if class.synchronizes() => Self::Wait,
            Class::Launch
            | Class::HostFunction
            | Class::GraphLaunch
            | Class::WriteValue
            | Class::WaitValue
            | Class::BatchMemOp
            | Class::ExternalWait
            | Class::ExternalSignal
            | Class::StreamWaitEvent
            | Class::StreamSubmit
            | Class::EventRecord => Self::Submission,
            _ => Self::Other,
        }
    }

    /// Whether such calls are documented not to wait for the work that they submit.
    pub const fn is_submitted_by(class: Class) -> bool {
        match Self::of_class(class) {
            Self::Allocate { in_order } | Self::Free { in_order } | Self::Copy { in_order } => in_order,
            Self::Submission => true,
            _ => matches!(class, Class::GraphUpload),
        }
    }
}
