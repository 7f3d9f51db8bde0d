//! How many operations of each stream are not known to have ended, from the records alone.

use crate::api::Class;
use crate::trace::{Kind, Record};
use std::collections::HashMap;

/// Events that are told apart.
const MOST_EVENTS: usize = 1 << 16;

#[derive(Clone, Copy, Default)]
struct Stream {
    context: u16,
    submitted: u64,
    complete: u64,
}

/// See the module.
#[derive(Default)]
pub(super) struct Queues {
    streams: HashMap<u32, Stream>,
    /// Of each event the stream that it was recorded on, and how much had been submitted there.
    events: HashMap<u64, (u32, u64)>,
}

impl Queues {
    /// Operations outstanding on a stream.
    pub fn outstanding(&self, stream: u32) -> u64 {
        self.streams.get(&stream).map_or(0, |stream| stream.submitted - stream.complete)
    }

    /// Takes in a record. Records are shown in the order in which their calls were entered, so that one that waits counts
    /// from its beginning: what is submitted meanwhile by others is taken for complete, which errs to the side of too few.
    pub fn see(&mut self, record: &Record) {
        let class = record.entry_point.class();
        if !record.kind.is_call() || record.result != 0 && record.returned != 0 {
            return;
        }
        if record.submitted() {
            let stream = self.streams.entry(record.stream).or_default();
            stream.context = record.context;
            stream.submitted += 1;
        }
        let returned = record.returned != 0;
        match class {
            Class::EventRecord if self.events.len() < MOST_EVENTS || self.events.contains_key(&record.detail) => {
                let submitted = self.streams.get(&record.stream).map_or(0, |stream| stream.submitted);
                self.events.insert(record.detail, (record.stream, submitted));
            }
            Class::EventDestroy => {
                self.events.remove(&record.detail);
            }
            Class::EventSynchronize | Class::EventQuery if returned => {
                let recorded = self.events.get(&record.detail).copied();
                if let Some((number, submitted)) = recorded {
                    self.complete(number, submitted);
                }
            }
            Class::StreamSynchronize if returned => self.complete(record.stream, u64::MAX),
            Class::StreamQuery if returned && record.kind == Kind::Queries => self.complete(record.stream, u64::MAX),
            Class::Copy | Class::Set if returned => self.complete(record.stream, u64::MAX),
            Class::ContextSynchronize if returned => {
                let here = self.streams.values_mut().filter(|stream| stream.context == record.context);
                here.for_each(|stream| stream.complete = stream.submitted);
            }
            Class::StreamDestroy | Class::StreamCreate => {
                self.streams.remove(&record.stream);
            }
            _ => {}
        }
    }

    fn complete(&mut self, stream: u32, submitted: u64) {
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.complete = stream.complete.max(submitted.min(stream.submitted));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::EntryPoint;
    use crate::trace::layout::flag;

    fn record(symbol: &str, stream: u32, event: u64) -> Record {
        let entry_point = EntryPoint::by_symbol(symbol.as_bytes()).unwrap();
        let (kind, _) = Kind::of_call(entry_point.class());
        let flags = if symbol.contains("Launch") { flag::SUBMITTED } else { 0 };
        Record { kind, stream, flags, context: 1, detail: event, entered: 5, returned: 6, ..Record::of(entry_point) }
    }

    #[test]
    fn what_is_outstanding_is_what_no_wait_or_answer_covers() {
        let mut queues = Queues::default();
        let launch = record("cuLaunchKernel", 1, 0);
        for (what, expect) in [
            (launch, 1),
            (launch, 2),
            (record("cuEventRecord", 1, 77), 2),
            (launch, 3),
            (record("cuEventSynchronize", 0, 77), 1),
            (Record { result: 600, ..record("cuStreamQuery", 1, 0) }, 1),
            (record("cuStreamQuery", 1, 0), 0),
            (launch, 1),
            (Record { returned: 0, ..record("cuCtxSynchronize", 0, 0) }, 1),
            (record("cuCtxSynchronize", 0, 0), 0),
            (launch, 1),
            (record("cuEventSynchronize", 0, 77), 1),
            (record("cuStreamSynchronize", 2, 0), 1),
            (record("cuStreamSynchronize", 1, 0), 0),
        ] {
            queues.see(&what);
            assert_eq!(queues.outstanding(1), expect, "{what:?}");
        }
    }
}
