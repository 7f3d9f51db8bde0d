//! The bound of a report's file: a process may have hundreds of streams, each with work in flight, deep stacks, and names of any length.

use super::json;
use super::{DumpReport, HangReport, StackSeen};
use crate::api::counted;
use crate::diagnose::OperationSeen;
use crate::evidence::Evidence;
use std::borrow::Cow;

/// The most bytes of `hang.json`, and of `dump.json`.
pub const MOST_BYTES: usize = 4 << 20;

/// The most bytes of `evidence.json`, and of `main-stack.json`.
const MOST_BYTES_OF_A_LOOK: usize = 256 << 10;
/// The most bytes of its sentence and the names in that: a control character takes six in the file.
const MOST_OF_A_SENTENCE: usize = 16 << 10;

/// The entries of a list, in steps that end with one.
const STEPS: [usize; 6] = [24, 12, 6, 3, 2, 1];

impl HangReport {
    /// The report as JSON, in [`MOST_BYTES`] at most: lists end earlier, those of a stream's operations first.
    pub fn json(&self) -> String {
        within(MOST_BYTES, self, json, Self::shortened_to)
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
        let text_of = |hang: &HangReport| json(&Self { hang: hang.clone(), ..self.clone() });
        within(MOST_BYTES, &self.hang, text_of, HangReport::shortened_to)
    }
}

impl Evidence {
    /// The evidence as JSON, in `MOST_BYTES_OF_A_LOOK` at most: the outer frames go first.
    pub fn json(&self) -> String {
        within(MOST_BYTES_OF_A_LOOK, self, json, Self::shortened_to)
    }

    fn shortened_to(&self, most: usize) -> Self {
        let mut short = self.clone();
        let mut left_out = cut(&mut short.python, 8 * most) + cut(&mut short.lacks, most);
        let texts = short.python.iter_mut().flat_map(|frame| [&mut frame.file, &mut frame.function]);
        left_out += texts.chain(&mut short.lacks).map(|text| shorten_text(text, most)).sum::<u64>();
        // A copy without names replaces the whole names in the whole sentence, so that both stay or go.
        if short.sentence.len() + short.names.iter().map(String::len).sum::<usize>() > MOST_OF_A_SENTENCE {
            left_out += 1 + cut(&mut short.names, 0);
            short.sentence = short.class.name().to_owned();
        }
        short.lacks.push(no_room_for(left_out));
        short
    }
}

impl StackSeen {
    /// The stack as JSON, in `MOST_BYTES_OF_A_LOOK` at most: the outer frames go first.
    pub fn json(&self) -> String {
        within(MOST_BYTES_OF_A_LOOK, self, json, Self::shortened_to)
    }

    fn shortened_to(&self, most: usize) -> Self {
        let mut short = self.clone();
        let mut left_out = cut(&mut short.frames, 8 * most) + cut(&mut short.notes, most);
        for frame in &mut short.frames {
            let named = [&mut frame.function, &mut frame.file].into_iter().flatten();
            left_out += named.chain([&mut frame.module]).map(|text| shorten_text(text, most)).sum::<u64>();
        }
        left_out += short.notes.iter_mut().map(|text| shorten_text(text, most)).sum::<u64>();
        short.notes.push(no_room_for(left_out));
        short
    }
}

fn no_room_for(left_out: u64) -> String {
    format!("{} had no room in this file, or not as a whole", counted(left_out, "entry"))
}

/// The text of a report, or that of the longest shortened one that keeps the bound.
fn within<T: Clone>(
    most_bytes: usize,
    report: &T,
    text_of: impl Fn(&T) -> String,
    shortened_to: impl Fn(&T, usize) -> T,
) -> String {
    let mut report = Cow::Borrowed(report);
    let mut text = text_of(&report);
    for most in STEPS {
        if text.len() <= most_bytes {
            break;
        }
        report = Cow::Owned(shortened_to(&report, most));
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
    operation.function.as_mut().map_or(0, |name| shorten_text(name, most))
}

/// Returns 1 if it is cut.
fn shorten_text(text: &mut String, most: usize) -> u64 {
    let end = text.char_indices().map(|(at, _)| at).find(|at| *at >= 128 * most);
    end.into_iter().for_each(|end| text.truncate(end));
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

    #[test]
    fn a_look_at_deep_stacks_with_long_names_has_a_bound_and_says_that_something_is_left_out() {
        use crate::evidence::{Class, PythonFrame};
        use crate::report::FrameSeen;
        let name = |byte: &str| byte.repeat(4096);
        let frame = PythonFrame { file: name("\u{1}"), line: 1, function: name("f") };
        let seen = Evidence {
            process: 1,
            class: Class::File,
            moves: false,
            sentence: format!("reads {} (nfs4 from server:/data) for 41 s", name("/")),
            of_job: false,
            peer: None,
            python: vec![frame; 256],
            lacks: vec![name("l"); 40],
            names: vec![name("/")],
        };
        assert!(json(&seen).len() > MOST_BYTES_OF_A_LOOK);
        let read: Evidence = serde_json::from_str(&seen.json()).unwrap();
        assert!(seen.json().len() <= MOST_BYTES_OF_A_LOOK && !read.python.is_empty());
        assert_eq!((&read.sentence, &read.names), (&seen.sentence, &seen.names), "they have room");
        assert!(
            read.lacks.last().unwrap().ends_with("had no room in this file, or not as a whole"),
            "{:?}",
            read.lacks
        );
        let long = Evidence { sentence: name("\u{1}").repeat(40), names: vec![name("\u{1}"); 40], ..seen.clone() };
        let read: Evidence = serde_json::from_str(&long.json()).unwrap();
        assert!(long.json().len() <= MOST_BYTES_OF_A_LOOK);
        assert_eq!((read.sentence.as_str(), read.names.len()), ("file", 0), "no part of a name stays");

        let frame = FrameSeen {
            module: name("m"),
            function: Some(name("\u{1}")),
            file: Some(name("s")),
            ..FrameSeen::default()
        };
        let stack = StackSeen { thread: 1, frames: vec![frame; 512], notes: vec![name("n"); 40] };
        assert!(json(&stack).len() > MOST_BYTES_OF_A_LOOK);
        let read: StackSeen = serde_json::from_str(&stack.json()).unwrap();
        assert!(stack.json().len() <= MOST_BYTES_OF_A_LOOK && !read.frames.is_empty());
        assert!(
            read.notes.last().unwrap().ends_with("had no room in this file, or not as a whole"),
            "{:?}",
            read.notes
        );
        let small = StackSeen { frames: vec![FrameSeen::default()], ..StackSeen::default() };
        assert_eq!(small.json(), json(&small));
    }
}
