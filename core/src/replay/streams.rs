//! Follows what each stream is busy with, from records alone.
//!
//! Calls overlap. The fold sees a record at its call's entry, and counts what its success proves from its return on.

use super::{Proven, Remembered, Scope};
use crate::api::{Class, Operation, StreamWork};
use crate::map::HashMap;
use crate::trace::Record;
use crate::Nanos;

#[derive(Default)]
struct Stream {
    context: u32,
    work: StreamWork,
}

/// Show it the records in the order of entry.
#[derive(Default)]
pub struct Streams {
    streams: HashMap<u32, Stream>,
    /// By stream and time of an event's record: how many operations the stream had by then.
    counts: Remembered<(u32, Nanos), u64>,
    /// By context: everything until then is complete.
    idle_until: HashMap<u32, Nanos>,
    /// Calls that have not returned: their proofs, and the streams to which they submit.
    pending: Vec<Proven>,
    submitting: Vec<(Nanos, u32)>,
    now: Nanos,
}

impl Streams {
    pub fn see(&mut self, record: &Record, ended: Option<Proven>) {
        self.pass(record.entered);
        if record.kind.is_call() && (record.result == 0 || record.returned == 0) {
            let class = record.entry_point.class();
            match class {
                Class::StreamCreate | Class::StreamDestroy => drop(self.streams.remove(&record.stream)),
                _ if record.submitted() => self.submitted(record),
                _ => {}
            }
            if let (Class::EventRecord, Some(stream)) = (class, self.streams.get(&record.stream)) {
                self.counts.insert((record.stream, record.entered), stream.work.submissions.count);
            }
        }
        self.pending.extend(ended);
    }

    /// Advances time: what is known by then counts.
    pub fn pass(&mut self, to: Nanos) {
        self.now = self.now.max(to);
        let now = self.now;
        let known: Vec<_> = self.pending.extract_if(.., |proven| proven.at <= now).collect();
        known.iter().for_each(|proven| self.ended(proven));
        for (returned, number) in self.submitting.extract_if(.., |(returned, _)| *returned <= now) {
            if let Some(stream) = self.streams.get_mut(&number) {
                let last = &mut stream.work.submissions.last;
                *last = returned.max(*last);
            }
        }
    }

    fn submitted(&mut self, record: &Record) {
        let op = Operation { at: record.entered, entry_point: record.entry_point.id(), function: record.function };
        let context = u32::from(record.context);
        let idle_until = self.idle_until.get(&context).copied().unwrap_or(0);
        let stream = self.streams.entry(record.stream).or_insert_with(|| Stream { context, ..Stream::default() });
        stream.work.learn(op, op.at, idle_until);
        if record.returned != 0 {
            self.submitting.push((record.returned, record.stream));
        }
    }

    fn ended(&mut self, proven: &Proven) {
        match proven.scope {
            Scope::Stream(number) => {
                if let Some(Stream { work, .. }) = self.streams.get_mut(&number) {
                    work.complete_until = work.complete_until.max(proven.until);
                    let counted = self.counts.get(&(number, proven.until)).copied().unwrap_or(0);
                    work.submissions.ended = work.submissions.ended.max(counted).min(work.submissions.count);
                }
            }
            Scope::Context(number) => {
                let idle_until = self.idle_until.entry(number).or_default();
                *idle_until = proven.until.max(*idle_until);
            }
        }
    }

    fn work(&self, number: u32) -> Option<(&StreamWork, Nanos)> {
        let stream = self.streams.get(&number)?;
        Some((&stream.work, self.idle_until.get(&stream.context).copied().unwrap_or(0)))
    }

    pub fn oldest(&self, stream: u32) -> Option<Operation> {
        let (work, idle_until) = self.work(stream)?;
        work.oldest(idle_until)
    }

    pub fn outstanding(&self, stream: u32) -> u64 {
        let busy = self.work(stream).filter(|(work, idle_until)| work.busy(*idle_until));
        busy.map_or(0, |(work, _)| work.submissions.count - work.submissions.ended)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Replay;
    use super::*;
    use crate::api::EntryPoint;
    use crate::trace::layout::flag;
    use crate::trace::{Kind, RawPayload};

    fn record(symbol: &str, stream: u32, at: Nanos, took: Nanos) -> Record {
        let entry_point = EntryPoint::by_symbol(symbol.as_bytes()).unwrap();
        let (kind, _) = Kind::of_call(entry_point.class());
        let flags = if symbol.contains("Launch") { flag::SUBMITTED } else { 0 };
        let raw = RawPayload::about(77);
        Record { kind, raw, stream, flags, context: 1, entered: at, returned: at + took, ..Record::of(entry_point) }
    }

    /// Shows a record to the replay, and to the streams behind it.
    fn see(replay: &mut Replay, streams: &mut Streams, record: &Record) {
        let ended = replay.take_in(record);
        streams.see(record, ended);
    }

    #[test]
    fn what_is_outstanding_is_what_no_wait_or_answer_covers() {
        let (mut replay, mut streams) = (Replay::default(), Streams::default());
        let launch = |at| record("cuLaunchKernel", 1, at, 1);
        for (what, outstanding, oldest) in [
            (launch(10), 1, Some(10)),
            (launch(20), 2, Some(10)),
            (record("cuEventRecord", 1, 25, 1), 2, Some(10)),
            (launch(30), 3, Some(10)),
            (record("cuEventSynchronize", 0, 40, 5), 1, Some(30)),
            (Record { result: 600, ..record("cuStreamQuery", 1, 50, 1) }, 1, Some(30)),
            (record("cuStreamQuery", 1, 60, 1), 0, None),
            (launch(70), 1, Some(70)),
            (Record { returned: 0, ..record("cuCtxSynchronize", 0, 80, 0) }, 1, Some(70)),
            (record("cuCtxSynchronize", 0, 90, 1), 0, None),
            (launch(100), 1, Some(100)),
            (record("cuEventSynchronize", 0, 110, 1), 1, Some(100)), // recorded before that
            (record("cuStreamSynchronize", 2, 120, 1), 1, Some(100)),
            (record("cuStreamSynchronize", 1, 130, 1), 0, None),
        ] {
            see(&mut replay, &mut streams, &what);
            streams.pass(what.returned);
            assert_eq!(streams.outstanding(1), outstanding, "{what:?}");
            assert_eq!(streams.oldest(1).map(|op| op.at), oldest, "{what:?}");
        }
    }

    #[test]
    fn a_synchronize_counts_when_it_has_returned() {
        let (mut replay, mut streams) = (Replay::default(), Streams::default());
        see(&mut replay, &mut streams, &record("cuLaunchKernel", 1, 10, 1));
        see(&mut replay, &mut streams, &record("cuStreamSynchronize", 1, 20, 100));
        // Another thread launches meanwhile.
        see(&mut replay, &mut streams, &record("cuLaunchKernel", 1, 30, 1));
        assert_eq!(streams.outstanding(1), 2);
        streams.pass(120);
        assert_eq!(streams.oldest(1).map(|op| op.at), Some(30));
    }
}
