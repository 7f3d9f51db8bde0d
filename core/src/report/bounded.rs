//! The bound of a report's file: a process may have hundreds of streams, each with work in flight, and names of any length.

use super::json;
use super::{DumpReport, HangReport};
use crate::diagnose::OperationSeen;
use std::borrow::Cow;

/// The most bytes of `hang.json`, and of `dump.json`.
pub const MOST_BYTES: usize = 4 << 20;

/// The entries of a list, in steps that end with one.
const STEPS: [usize; 6] = [24, 12, 6, 3, 2, 1];

impl HangReport {
    /// The report as JSON, in [`MOST_BYTES`] at most: lists end earlier, those of a stream's operations first.
    pub fn json(&self) -> String {
        within(self, json)
    }

    /// The same with lists of that length, a few times of it where one has an entry for a stream or a thread.
    fn shortened_to(&self, most: usize) -> Self {
        let mut short = self.clone();
        let (snapshot, mut left_out) = (&mut short.snapshot, self.shortened.unwrap_or(0));
        let streams = snapshot.streams.iter_mut().chain(snapshot.loads.iter_mut().flat_map(|load| &mut load.behind));
        for stream in streams {
            left_out += cut(&mut stream.operations, most);
            let operations = stream.operations.iter_mut().chain([&mut stream.oldest]);
            left_out += operations.map(|operation| shorten(operation, most)).sum::<u64>();
        }
        for verdict in &mut short.verdicts {
            left_out += cut(&mut verdict.culprits, most);
            left_out += verdict.culprits.iter_mut().map(|culprit| shorten(&mut culprit.operation, most)).sum::<u64>();
        }
        left_out += cut(&mut snapshot.streams, 32 * most)
            + cut(&mut snapshot.blocked, 16 * most)
            + cut(&mut snapshot.waits, 16 * most)
            + cut(&mut snapshot.event_waits, 16 * most)
            + cut(&mut snapshot.loads, 2 * most)
            + cut(&mut snapshot.fed, 4 * most)
            + cut(&mut snapshot.host_functions, 16 * most)
            + cut(&mut snapshot.runnable, 16 * most)
            + cut(&mut snapshot.waiting, 64 * most)
            + cut(&mut short.verdicts, 4 * most)
            + cut(&mut short.slow, 4 * most)
            + cut(&mut short.ends, 16 * most)
            + cut(&mut short.stacks, 4 * most)
            + cut(&mut short.places, 16 * most);
        short.shortened = Some(left_out);
        short
    }
}

impl DumpReport {
    /// The answer as JSON, with a report that leaves room for the rest.
    pub fn json(&self) -> String {
        within(&self.hang, |hang| json(&Self { hang: hang.clone(), ..self.clone() }))
    }
}

fn within(report: &HangReport, text_of: impl Fn(&HangReport) -> String) -> String {
    let mut report = Cow::Borrowed(report);
    let mut text = text_of(&report);
    for most in STEPS {
        if text.len() <= MOST_BYTES {
            break;
        }
        report = Cow::Owned(report.shortened_to(most));
        text = text_of(&report);
    }
    text
}

/// Returns how many entries are left out.
fn cut<T>(list: &mut Vec<T>, most: usize) -> u64 {
    let more = list.len().saturating_sub(most);
    list.truncate(most);
    more as u64
}

/// A name keeps its beginning, by which kernels are recognised. Returns how many are cut.
fn shorten(operation: &mut OperationSeen, most: usize) -> u64 {
    let Some(name) = &mut operation.function else { return 0 };
    let end = name.char_indices().map(|(at, _)| at).find(|at| *at >= 128 * most);
    end.into_iter().for_each(|end| name.truncate(end));
    u64::from(end.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Call, EntryPoint};
    use crate::diagnose::{Origin, Snapshot, StreamRef};
    use crate::report::PreloadSummary;

    fn report(streams: u32, operations: u64, name: usize) -> HangReport {
        let call = Call::Known(EntryPoint::named("cuLaunchKernel"));
        let operation = |at| OperationSeen::new(at, call.clone(), Some("n".repeat(name)), Origin::default());
        let stream = |number| crate::diagnose::BusyStream {
            stream: StreamRef { number, handle: 7, kind: crate::api::StreamKind::Blocking, context: 1 },
            oldest: operation(1),
            last_submitted: 1,
            submitted: operations,
            operations: (1..=operations).map(operation).collect(),
            outstanding: operations,
            timed: operations,
            all_recorded: true,
            moved: 0,
            answered_busy: 0,
            asked: None,
            destroyed: false,
        };
        let snapshot = Snapshot { streams: (1..=streams).map(stream).collect(), ..Snapshot::default() };
        HangReport { snapshot, ..HangReport::new(1, "p", None, Snapshot::default(), PreloadSummary::default()) }
    }

    #[test]
    fn a_report_of_all_streams_with_long_names_has_a_bound_and_says_what_is_left_out() {
        for (streams, operations, name) in [(512, 48, 1), (40, 24, 8192)] {
            let whole = report(streams, operations, name);
            assert!(json(&whole).len() > MOST_BYTES);
            let dump = DumpReport::new(1, 1, (1, 1), whole.clone());
            assert!(dump.json().len() <= MOST_BYTES);
            let text = whole.json();
            assert!(text.len() <= MOST_BYTES, "{}", text.len());
            let read: HangReport = serde_json::from_str(&text).unwrap();
            let kept: usize = read.snapshot.streams.iter().map(|stream| stream.operations.len()).sum();
            assert!(read.snapshot.streams.len() == streams as usize && kept > 0, "{kept}");
            let shortened = read.shortened.unwrap();
            assert!(shortened >= u64::from(streams) * operations - kept as u64 && shortened > 0);
            assert_eq!(read.snapshot.streams[0].operations[0].at, 1, "the oldest stay");
            assert!(read.lines(None, crate::report::Detail::Short).iter().any(|line| line.contains("entries")));
        }
        let small = report(4, 4, 8);
        assert_eq!((small.json(), small.shortened), (json(&small), None));
    }
}
