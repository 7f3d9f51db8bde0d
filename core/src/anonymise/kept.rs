//! Keeps of a recording the newest records of each lane, and the streams and functions that they, and calls in progress, are about. The
//! streams are numbered anew: a program may make hundreds and use two.

use crate::api::{Class, NodeKind};
use crate::map::{HashMap, HashSet};
use crate::trace::layout::LANES;
use crate::trace::read::{Entry, Recording, Source, StreamSeen};
use crate::trace::{HazardNumbers, Payload, RawPayload, Record};
use std::collections::{BTreeSet, VecDeque};
use std::io;

#[derive(Debug, Default)]
pub(super) struct Kept {
    pub entries: Vec<Entry>,
    pub older: [u64; LANES],
    pub passed_over: u64,
    pub streams: Vec<u32>,
    numbers: HashMap<u32, u32>,
    pub functions: HashSet<u32>,
    pub callers: BTreeSet<u64>,
}

impl Kept {
    pub fn of<S: Source>(recording: &Recording<S>, most: usize) -> io::Result<Self> {
        let mut lanes: [VecDeque<Entry>; LANES] = Default::default();
        let mut older = [0; LANES];
        let mut records = recording.records();
        for entry in &mut records {
            let lane = &mut lanes[entry.lane as usize];
            lane.push_back(entry);
            if lane.len() > most {
                lane.pop_front();
                older[entry.lane as usize] += 1;
            }
        }
        let passed_over = records.passed_over;
        records.finish()?;
        let mut entries: Vec<_> = lanes.into_iter().flatten().collect();
        entries.sort_by_key(|entry| (entry.thread_number, entry.thread, entry.lane, entry.number));

        let in_progress: Vec<_> = recording.threads().iter().filter_map(|thread| thread.call_in_progress).collect();
        let mut kept = Self { older, passed_over, ..Self::default() };
        let records = entries.iter().map(|entry| &entry.record).chain(&in_progress);
        kept.take_streams(recording.streams(), records.clone());
        kept.take_functions(recording, records.clone());
        kept.callers = records.map(|record| record.caller).collect();
        kept.callers.extend(recording.strings().paths.iter().flat_map(|(_, frames)| frames));
        kept.entries = entries;
        Ok(kept)
    }

    fn take_streams<'r>(&mut self, table: &[StreamSeen], records: impl Iterator<Item = &'r Record> + Clone) {
        let named: BTreeSet<u32> =
            records.clone().flat_map(subjects).map(|(stream, _)| stream).filter(|number| *number != 0).collect();
        // The record is all there is to say of a stream that was made and never used.
        let is_made = |record: &&Record| record.entry_point.class() == Class::StreamCreate;
        let used: HashSet<u32> =
            records.filter(|record| !is_made(record)).flat_map(subjects).map(|(stream, _)| stream).collect();
        let has_entry =
            |s: &&StreamSeen| s.work.submissions.count != 0 || s.capturing || s.destroyed || used.contains(&s.number);
        self.streams = table.iter().filter(has_entry).map(|stream| stream.number).collect();
        let without = named.iter().filter(|number| !self.streams.contains(number));
        self.numbers = self.streams.iter().chain(without).copied().zip(1..).collect();
    }

    fn take_functions<'r, S: Source>(&mut self, recording: &Recording<S>, records: impl Iterator<Item = &'r Record>) {
        self.functions.extend(records.flat_map(subjects).map(|(_, function)| function));
        for stream in recording.streams() {
            let operations = stream.work.recent.iter().chain([&stream.work.submissions.first_since_idle]);
            self.functions.extend(operations.map(|operation| operation.function));
        }
        for (.., contents) in recording.strings().graphs.all() {
            self.functions.extend(contents.of(NodeKind::Kernel).map(|part| part.what as u32));
        }
    }

    /// 0 where nothing kept names the stream.
    pub fn stream(&self, number: u32) -> u32 {
        self.numbers.get(&number).copied().unwrap_or(0)
    }

    pub fn renumbered(&self, record: &Record) -> Record {
        let raw = match record.payload() {
            Payload::Hazard(of) => {
                RawPayload::hazard(HazardNumbers { other_stream: self.stream(of.other_stream), ..of })
            }
            _ => record.raw,
        };
        Record { stream: self.stream(record.stream), raw, ..*record }
    }
}

/// The streams and functions that a record is about.
fn subjects(record: &Record) -> [(u32, u32); 2] {
    let other = match record.payload() {
        Payload::Hazard(numbers) => (numbers.other_stream, numbers.function_or_thread),
        _ => (0, 0),
    };
    [(record.stream, record.function), other]
}
