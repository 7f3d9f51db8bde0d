//! The proofs in the success of a call: everything submitted to a stream or context up to some time has ended.
//!
//! A graph may hold nodes that record events again when it runs, and no call shows that. So after any launch of a graph an event that was
//! recorded before proves nothing. It still says which stream a wait for it most likely waits for.
//!
//! Must not: believe a call that has not returned, or one that failed.

use super::remembered::Remembered;
use crate::api::result::REVOKED_RESULT;
use crate::api::{Class, EntryPoint};
use crate::trace::layout::flag;
use crate::trace::{Kind, Payload, Record};
use crate::Nanos;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Stream(u32),
    Context(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proven {
    pub scope: Scope,
    pub until: Nanos,
    pub at: Nanos,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Its number, or 0 for the whole context.
    pub stream: u32,
    pub context: u32,
    pub at: Nanos,
    /// When that call returned; without a return a later one may have come first.
    pub returned: Nanos,
}

/// Whether the result shows that the call's work has ended: success, or the error in its place after a revoke.
pub fn shows_the_end(result: i32) -> bool {
    [0, REVOKED_RESULT].contains(&result)
}

/// The stream or context whose earlier work a successful call, or query, proves to have ended.
pub fn proves(entry_point: EntryPoint, stream: u32, context: u32) -> Option<Scope> {
    let scope = match entry_point.class() {
        Class::StreamSynchronize | Class::StreamQuery => Scope::Stream(stream),
        Class::ContextSynchronize => Scope::Context(context),
        // Only a copy to the host returns after everything before it on its stream; a small one from pageable memory is staged, others are
        // submitted.
        Class::Copy if matches!(entry_point.info().base(), "cuMemcpyDtoH" | "cuMemcpyAtoH") => Scope::Stream(stream),
        _ => return None,
    };
    (!matches!(scope, Scope::Stream(0) | Scope::Context(0))).then_some(scope)
}

/// Show it the records in the order of entry.
#[derive(Default)]
pub struct Proofs {
    events: Remembered<u64, Recorded>,
    graph_launched: Nanos,
}

impl Proofs {
    pub fn see(&mut self, record: &Record) -> Option<Proven> {
        let (context, stream) = (u32::from(record.context), record.stream);
        if let Payload::HostCall { submitted, .. } = record.payload() {
            // The function itself is outstanding until it has returned.
            let until = submitted.saturating_sub(u64::from(record.kind == Kind::HostBegins));
            return (stream != 0).then_some(Proven { scope: Scope::Stream(stream), until, at: record.entered });
        }
        if !record.kind.is_call() {
            return None;
        }
        let class = record.entry_point.class();
        let returned = record.returned != 0 && record.flags & flag::LEFT == 0;
        let succeeded = record.result == 0 && record.flags & flag::LEFT == 0;
        match (class, record.event()) {
            (Class::GraphLaunch, _) => {
                self.graph_launched = self.graph_launched.max(record.entered).max(record.returned);
            }
            (Class::EventDestroy, Some(event)) => drop(self.events.remove(&event)),
            // An event recorded in a capture is part of the graph, not of the stream.
            (Class::EventRecord, Some(event)) if record.flags & flag::CAPTURED != 0 => drop(self.events.remove(&event)),
            (Class::EventRecord, Some(event)) if succeeded => {
                let returned = if record.returned == 0 { Nanos::MAX } else { record.returned };
                self.events.insert(event, Recorded { stream, context, at: record.entered, returned });
            }
            _ => {}
        }
        if !returned || !shows_the_end(record.result) {
            return None;
        }
        // The first of several queries showed it.
        let at = match record.payload() {
            Payload::Queries { count: 2.., .. } => record.entered,
            _ => record.returned,
        };
        let (scope, until) = match (class, record.event()) {
            (Class::EventSynchronize | Class::EventQuery, Some(event)) => {
                let recorded = self.events.get(&event).copied();
                let recorded = recorded.filter(|r| r.returned <= record.entered && self.graph_launched < r.at)?;
                let scope = match recorded.stream {
                    0 => Scope::Context(recorded.context),
                    stream => Scope::Stream(stream),
                };
                (scope, recorded.at)
            }
            (Class::ContextDestroy, _) if context != 0 => (Scope::Context(context), record.returned),
            _ => (proves(record.entry_point, stream, context)?, record.entered),
        };
        Some(Proven { scope, until, at })
    }

    /// From now on a wait for the event waits for the graph; its completion proves nothing.
    pub fn recorded_by_graph(&mut self, event: u64, launch: &Record) {
        let (context, stream, at) = (u32::from(launch.context), launch.stream, launch.entered);
        self.events.insert(event, Recorded { stream, context, at, returned: Nanos::MAX });
    }

    /// The stream that a wait for the event most likely waits for.
    pub fn event(&self, event: u64) -> Option<Recorded> {
        self.events.get(&event).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::RawPayload;

    fn call(symbol: &str, at: Nanos, stream: u32) -> Record {
        let entry_point = EntryPoint::by_symbol(symbol.as_bytes()).unwrap();
        let (kind, _) = Kind::of_call(entry_point.class());
        let raw = RawPayload::about(0xe);
        Record { kind, raw, stream, context: 1, entered: at, returned: at + 5, ..Record::of(entry_point) }
    }

    fn see(proofs: &mut Proofs, records: &[Record]) -> Option<(Scope, Nanos)> {
        records.iter().map(|record| proofs.see(record)).last().flatten().map(|proven| (proven.scope, proven.until))
    }

    #[test]
    fn an_event_proves_what_came_before_its_record() {
        let (record, query) = (|at| call("cuEventRecord", at, 3), |at| call("cuEventQuery", at, 3));
        let on_stream = |at| Some((Scope::Stream(3), at));
        for (between, expect) in [
            (vec![], on_stream(10)),
            // A graph may have recorded the event anew, on any stream.
            (vec![call("cuGraphLaunch", 20, 4)], None),
            (vec![call("cuGraphLaunch", 20, 4), record(30)], on_stream(30)),
            (vec![call("cuGraphLaunch", 5, 4)], None),
            (vec![Record { flags: flag::CAPTURED, ..record(20) }], None),
            (vec![Record { result: 400, ..record(20) }], on_stream(10)),
            (vec![call("cuEventDestroy_v2", 20, 0)], None),
            (vec![Record { stream: 0, ..record(20) }], Some((Scope::Context(1), 20))),
            (vec![Record { returned: 51, ..record(20) }], None),
        ] {
            let mut all = vec![record(10)];
            all.extend(between);
            all.push(query(50));
            assert_eq!(see(&mut Proofs::default(), &all), expect, "{all:?}");
        }
        let asked_before = [record(10), Record { returned: 90, ..query(8) }];
        assert_eq!(see(&mut Proofs::default(), &asked_before), None);
    }

    #[test]
    fn success_proves_also_behind_a_revoke_and_only_up_to_when_the_call_was_entered() {
        let mut proofs = Proofs::default();
        for (record, expect) in [
            (call("cuStreamSynchronize", 10, 3), Some((Scope::Stream(3), 10))),
            (call("cuStreamQuery", 10, 3), Some((Scope::Stream(3), 10))),
            (call("cuCtxSynchronize", 10, 0), Some((Scope::Context(1), 10))),
            (call("cuMemcpyDtoH_v2", 10, 3), Some((Scope::Stream(3), 10))),
            (call("cuMemcpyHtoD_v2", 10, 3), None),
            (call("cuMemcpyDtoD_v2", 10, 3), None),
            (call("cuMemsetD8_v2", 10, 3), None),
            (call("cuStreamSynchronize", 10, 0), None),
            (Record { result: 600, ..call("cuStreamQuery", 10, 3) }, None),
            (Record { result: 719, ..call("cuCtxSynchronize", 10, 0) }, None),
            (Record { result: REVOKED_RESULT, ..call("cuStreamSynchronize", 10, 3) }, Some((Scope::Stream(3), 10))),
            (Record { returned: 0, ..call("cuCtxSynchronize", 10, 0) }, None),
            (Record { flags: flag::LEFT, ..call("cuCtxSynchronize", 10, 0) }, None),
            (Record { kind: Kind::Hazard, ..call("cuCtxSynchronize", 10, 0) }, None),
        ] {
            assert_eq!(see(&mut proofs, &[record]), expect, "{record:?}");
        }
    }

    #[test]
    fn a_host_function_that_is_called_proves_what_came_before_it() {
        let mut proofs = Proofs::default();
        let raw = RawPayload::host_call(0xf00, 20);
        let begins = Record { kind: Kind::HostBegins, raw, ..call("cuLaunchHostFunc", 30, 3) };
        assert_eq!(see(&mut proofs, &[begins]), Some((Scope::Stream(3), 19)));
        assert_eq!(see(&mut proofs, &[Record { kind: Kind::HostEnds, ..begins }]), Some((Scope::Stream(3), 20)));
    }
}
