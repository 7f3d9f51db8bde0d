//! The reader of recordings: any bytes give records, and defects where they do not make sense.
//!
//! Must not: panic, loop or allocate more than in proportion to the bytes that are there; or use a number as a place without a check.
//!
//! A living process writes meanwhile. A record that is overwritten before it can be read is skipped and counted, never returned in part.

mod calls;
mod cursors;
mod defects;
mod header;
mod live;
mod records;
mod segments;
mod source;
mod strings;
mod tables;
mod unfolded;

pub use defects::{Defect, Unreadable};
pub use live::LiveRecording;
pub use records::{Entry, Records};
pub use source::Source;
pub use strings::{FileSeen, FunctionSeen, StreamText, StringTable, TextSeen, Timed};
pub use tables::{CommunicatorSeen, ContextSeen, StreamSeen, ThreadSeen, ThreadState};

use super::facts::{rank_of, LaneUse, ProcessFacts};
use super::layout::LANES;
use super::Record;
use defects::Defects;
use header::Header;
use segments::Index;
use unfolded::Unfolded;

/// All but the records is in memory.
pub struct Recording<S> {
    source: S,
    header: Header,
    threads: Vec<ThreadSeen>,
    contexts: Vec<ContextSeen>,
    streams: Vec<StreamSeen>,
    communicators: Vec<CommunicatorSeen>,
    strings: StringTable,
    index: Index,
    defects: Defects,
}

impl<S: Source> Recording<S> {
    pub fn open(source: S) -> Result<Self, Unreadable> {
        let mut recording = Self::tables_of(source)?;
        recording.index = Index::read(&recording.source, &mut recording.header, &mut recording.defects);
        Ok(recording)
    }

    /// Reads the tables alone: without segments such a recording has no records.
    fn tables_of(source: S) -> Result<Self, Unreadable> {
        let mut defects = Defects::default();
        let mut recording = Self {
            header: Header::read(&source, &mut defects)?,
            source,
            threads: Vec::new(),
            contexts: Vec::new(),
            streams: Vec::new(),
            communicators: Vec::new(),
            strings: StringTable::default(),
            index: Index::default(),
            defects,
        };
        recording.read_tables();
        Ok(recording)
    }

    fn refresh_tables(&mut self) -> Result<(), Unreadable> {
        self.defects = Defects::default();
        self.header = Header::read(&self.source, &mut self.defects)?;
        self.read_tables();
        Ok(())
    }

    fn read_tables(&mut self) {
        /// Threads of a living process may fold again and again.
        const TIMES: u32 = 4;
        let before = self.defects.clone();
        for time in 1..=TIMES {
            self.defects = before.clone();
            let unfolded = self.read_tables_once();
            if time == TIMES || unfolded.is_unfolded(&self.source) {
                unfolded.fold(&self.contexts, &mut self.streams);
                break;
            }
        }
        self.strings.read_on(&self.source, self.header.strings, &mut self.defects);
    }

    /// Returns the launches that the table of streams lacks.
    fn read_tables_once(&mut self) -> Unfolded {
        let Self { source, header, defects, .. } = self;
        let entries = tables::threads(source, header, defects);
        let mut unfolded = Unfolded::default();
        let threads = entries.into_iter().map(|entry| {
            let words = calls::in_progress(source, header, &entry, defects);
            unfolded.read(source, header, &entry, words.as_ref());
            // A driver call, or the call of NCCL around it.
            let call = words.and_then(|words| Record::from_words(&words)).filter(|call| call.returned == 0);
            ThreadSeen { call_in_progress: call.or(entry.seen.call_in_progress), ..entry.seen }
        });
        self.threads = threads.collect();
        self.contexts = tables::contexts(source, header, defects);
        self.streams = tables::streams(source, header, defects);
        self.communicators = tables::communicators(source, header, defects);
        unfolded
    }

    pub fn facts(&self) -> &ProcessFacts {
        &self.header.facts
    }

    pub fn threads(&self) -> &[ThreadSeen] {
        &self.threads
    }

    /// The newest context of each number.
    pub fn contexts(&self) -> &[ContextSeen] {
        &self.contexts
    }

    /// The newest stream of each number.
    pub fn streams(&self) -> &[StreamSeen] {
        &self.streams
    }

    /// The rank that the launcher set; else the rank in the largest communicator, where the process has one rank there.
    pub fn rank(&self) -> String {
        rank_of(&self.header.facts.rank, self.communicators.iter().filter_map(|one| one.rank))
    }

    /// The newest communicator of each number.
    pub fn communicators(&self) -> &[CommunicatorSeen] {
        &self.communicators
    }

    pub fn strings(&self) -> &StringTable {
        &self.strings
    }

    pub fn lanes(&self) -> [LaneUse; LANES] {
        self.header.lanes
    }

    /// The records in the order in which their calls were entered; those of one moment by thread, lane and number.
    pub fn records(&self) -> Records<'_, S> {
        Records::new(&self.source, &self.header, &self.index)
    }

    pub fn missing_bytes(&self) -> u64 {
        header::missing(&self.header.facts, self.header.length)
    }

    /// How many records are of unknown calls or kinds: counted as present, and left out by [`Recording::records`].
    pub fn unknown_records(&self) -> u64 {
        self.index.unknown
    }

    pub fn defects(&self) -> &[Defect] {
        &self.defects.kept
    }

    pub fn defect_count(&self) -> u64 {
        self.defects.count
    }
}
