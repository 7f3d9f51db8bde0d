//! The word by which the log, the records and their filters call a call; part of the output's format.

use crate::api::Class;
use crate::trace::Kind;

/// Every word that [`event_of`] and [`event_of_record`] can give.
pub fn events() -> impl Iterator<Item = &'static str> {
    "launch graph_launch synchronize memory_operation context unload load hazard preload \
     query copy memset allocation event_record event_wait host_function stream capture communication other"
        .split_ascii_whitespace()
}

pub const fn event_of(class: Class) -> &'static str {
    match class {
        Class::Launch => "launch",
        Class::GraphLaunch => "graph_launch",
        Class::ContextSynchronize | Class::StreamSynchronize | Class::EventSynchronize => "synchronize",
        Class::WaitValue | Class::WriteValue | Class::BatchMemOp => "memory_operation",
        Class::ContextCreate | Class::ContextDestroy => "context",
        Class::ModuleUnload | Class::LibraryUnload => "unload",
        Class::ModuleLoad
        | Class::LibraryLoad
        | Class::LibraryModule
        | Class::FunctionLoad
        | Class::KernelFunction
        | Class::FunctionResolve
        | Class::KernelResolve => "load",
        Class::StreamQuery | Class::EventQuery => "query",
        Class::Copy | Class::CopyAsync => "copy",
        Class::Set | Class::SetAsync => "memset",
        Class::Allocate | Class::Free | Class::AllocateAsync | Class::FreeAsync => "allocation",
        Class::EventRecord => "event_record",
        Class::StreamWaitEvent => "event_wait",
        Class::HostFunction => "host_function",
        Class::StreamCreate | Class::StreamDestroy => "stream",
        Class::Capture => "capture",
        Class::CommunicatorCreate
        | Class::CommunicatorEnd
        | Class::Collective
        | Class::PointToPoint
        | Class::CollectiveGroup => "communication",
        Class::Init
        | Class::Lookup
        | Class::Query
        | Class::ContextCurrent
        | Class::ContextWait
        | Class::GraphUpload
        | Class::GraphNode
        | Class::GraphInstantiate
        | Class::ExternalWait
        | Class::ExternalSignal
        | Class::StreamSubmit
        | Class::EventCreate
        | Class::EventDestroy => "other",
    }
}

/// A call that loaded on first use is a load, whatever else it did.
pub const fn event_of_record(kind: Kind, class: Class) -> &'static str {
    match kind {
        Kind::Call | Kind::Queries => event_of(class),
        Kind::ColdFunction | Kind::ColdModule => "load",
        Kind::Hazard => "hazard",
        Kind::Preload => "preload",
        Kind::HostBegins => "host_function_begins",
        Kind::HostEnds => "host_function_ends",
        Kind::Communication => "communication",
        Kind::Seen | Kind::Activity => "seen",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::ENTRY_POINTS;
    use std::collections::BTreeSet;

    #[test]
    fn the_list_holds_every_word_once_and_no_other() {
        let mut given: BTreeSet<_> = ENTRY_POINTS.iter().map(|form| event_of(form.class)).collect();
        for kind in [Kind::ColdFunction, Kind::ColdModule, Kind::Hazard, Kind::Preload, Kind::Queries] {
            given.extend(ENTRY_POINTS.iter().map(|form| event_of_record(kind, form.class)));
        }
        assert_eq!(events().collect::<BTreeSet<_>>(), given);
        assert_eq!(events().count(), given.len());
    }

    #[test]
    fn a_cold_launch_is_a_load_and_a_warm_one_a_launch() {
        assert_eq!(event_of_record(Kind::ColdFunction, Class::Launch), "load");
        assert_eq!(event_of_record(Kind::Call, Class::Launch), "launch");
        assert_eq!(event_of_record(Kind::Queries, Class::EventQuery), "query");
    }
}
