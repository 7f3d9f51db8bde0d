//! The tables of threads, contexts and streams.

use super::defects::Defects;
use super::header::{each_entry, Area, Header};
use super::source::{field, high, low, word, Source};
use crate::api::{EntryPoint, Operation, StreamKind, StreamWork, Submissions};
use crate::trace::layout::{communicator, context, stream, thread};
use crate::trace::{Communication, Kind, RawPayload, Record};
use crate::Nanos;
use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ThreadState {
    Free,
    /// It runs, or did when the process ended.
    Alive,
    Ended,
    /// The number there, in a damaged file.
    #[serde(untagged)]
    Unknown(u64),
}

/// A thread of the recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ThreadSeen {
    /// The thread's number in the recording, never reused.
    pub number: u32,
    /// The system's id.
    pub thread: u32,
    /// `alive` or `ended`.
    pub state: ThreadState,
    #[serde(skip)]
    pub born: Nanos,
    #[serde(skip)]
    pub ended: Nanos,
    /// Driver calls.
    pub calls: u64,
    /// Launches among them.
    pub launches: u64,
    /// Its name.
    pub name: String,
    /// Right above the return address of the newest call.
    #[serde(skip)]
    pub stack: u64,
    /// The caller's frame pointer at that call.
    #[serde(skip)]
    pub frame: u64,
    #[serde(skip)]
    pub call_in_progress: Option<Record>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextSeen {
    /// Used again when the context is gone.
    pub number: u32,
    pub handle: u64,
    pub alive: bool,
    /// Or -1.
    pub device: i32,
    pub born: Nanos,
    pub idle_until: Nanos,
    /// Work of streams that exist no more was submitted until this.
    pub orphaned_until: Nanos,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamSeen {
    /// Used again when the stream is gone.
    pub number: u32,
    pub handle: u64,
    pub context: u32,
    /// The thread whose default stream it is, or 0.
    pub thread: u32,
    pub kind: StreamKind,
    pub alive: bool,
    pub capturing: bool,
    pub destroyed: bool,
    pub born: Nanos,
    /// No reader asks how many submissions have ended.
    pub work: StreamWork,
}

impl StreamSeen {
    /// `idle_until` is known of the whole context.
    pub fn busy(&self, idle_until: Nanos) -> bool {
        self.alive && self.work.busy(idle_until)
    }

    pub fn oldest(&self, idle_until: Nanos) -> Option<Operation> {
        self.work.oldest(idle_until).filter(|_| self.alive)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommunicatorSeen {
    /// May be used again.
    pub number: u32,
    /// 0 where the call that makes it has not succeeded.
    pub handle: u64,
    /// The same in all ranks.
    pub id: u64,
    /// The process's rank, and the number of ranks.
    pub rank: Option<(u32, u32)>,
    pub born: Nanos,
    /// When it was destroyed or aborted; 0 before.
    pub ended: Nanos,
    pub collectives: u64,
    pub last: Nanos,
    pub splits: u32,
}

pub(super) struct ThreadEntry {
    pub seen: ThreadSeen,
    pub offset: u64,
}

pub(super) fn threads<S: Source>(source: &S, header: &Header, defects: &mut Defects) -> Vec<ThreadEntry> {
    let area = &header.threads;
    each(source, area, header.length, defects, |index, entry, defects| {
        let at = |number| word(entry, number);
        let who = at(thread::WHO);
        let offset = area.place(index);
        if who == 0 {
            return None;
        }
        let state = match at(thread::STATE) {
            thread::STATE_FREE => ThreadState::Free,
            thread::STATE_ALIVE => ThreadState::Alive,
            thread::STATE_ENDED => ThreadState::Ended,
            other => {
                defects.note(offset, || format!("thread {}: state {other}", low(who)));
                ThreadState::Unknown(other)
            }
        };
        Some(ThreadEntry {
            seen: ThreadSeen {
                number: low(who),
                thread: high(who),
                state,
                born: at(thread::BORN),
                ended: at(thread::ENDED),
                calls: at(thread::CALLS),
                launches: at(thread::LAUNCHES),
                name: field(entry, &thread::NAME),
                stack: at(thread::STACK),
                frame: at(thread::FRAME),
                call_in_progress: outer_call(entry),
            },
            offset,
        })
    })
}

pub(super) fn contexts<S: Source>(source: &S, header: &Header, defects: &mut Defects) -> Vec<ContextSeen> {
    each(source, &header.contexts, header.length, defects, |index, entry, _| {
        let at = |number| word(entry, number);
        used(entry).then(|| ContextSeen {
            number: number(index),
            handle: at(context::HANDLE),
            alive: low(at(context::ALIVE)) != 0,
            device: high(at(context::ALIVE)) as i32,
            born: at(context::BORN),
            idle_until: at(context::IDLE_UNTIL),
            orphaned_until: at(context::ORPHANED_UNTIL),
        })
    })
}

pub(super) fn streams<S: Source>(source: &S, header: &Header, defects: &mut Defects) -> Vec<StreamSeen> {
    each(source, &header.streams, header.length, defects, |index, entry, _| {
        let at = |number| word(entry, number);
        if !used(entry) {
            return None;
        }
        let operation = |place: usize| operation(at(place), at(place + 1));
        let count = at(stream::SUBMITTED);
        let kept = stream::RECENT_COUNT as u64;
        let recent = count.saturating_sub(kept)..count;
        let (last, first_since_idle) = (at(stream::LAST_SUBMITTED), operation(stream::FIRST_SINCE_IDLE));
        Some(StreamSeen {
            number: number(index),
            handle: at(stream::HANDLE),
            context: low(at(stream::PLACE)),
            thread: high(at(stream::PLACE)),
            kind: StreamKind::from_number(at(stream::KIND)),
            alive: at(stream::ALIVE) != 0,
            capturing: at(stream::CAPTURING) != 0,
            destroyed: at(stream::DESTROYED) != 0,
            born: at(stream::BORN),
            work: StreamWork {
                submissions: Submissions { count, ended: 0, last, first_since_idle },
                complete_until: at(stream::COMPLETE_UNTIL),
                recent: recent.map(|n| operation(stream::RECENT + (n % kept) as usize * 2)).collect(),
            },
        })
    })
}

pub(super) fn communicators<S: Source>(source: &S, header: &Header, defects: &mut Defects) -> Vec<CommunicatorSeen> {
    each(source, &header.communicators, header.length, defects, |index, entry, defects| {
        let at = |number| word(entry, number);
        let (rank, size) = (low(at(communicator::RANK)), high(at(communicator::RANK)));
        let has_rank = rank < size && size <= communicator::MOST_RANKS;
        if !has_rank && size != 0 {
            defects.note(header.communicators.place(index), || {
                format!("rank {rank} of {size} ranks: there is no such rank")
            });
        }
        (at(communicator::HANDLE) > communicator::BEING_TAKEN).then(|| CommunicatorSeen {
            number: number(index),
            handle: Some(at(communicator::HANDLE)).filter(|&handle| handle != communicator::NO_HANDLE).unwrap_or(0),
            id: at(communicator::ID),
            rank: has_rank.then_some((rank, size)),
            born: at(communicator::BORN),
            ended: at(communicator::ENDED),
            collectives: at(communicator::COLLECTIVES),
            last: at(communicator::LAST),
            splits: low(at(communicator::OTHERS)),
        })
    })
}

fn operation(at: Nanos, what: u64) -> Operation {
    Operation { at, entry_point: what as u16, function: high(what) }
}

fn number(index: u64) -> u32 {
    u32::try_from(index + 1).unwrap_or(u32::MAX)
}

fn used(entry: &[u8]) -> bool {
    entry.iter().any(|&byte| byte != 0)
}

fn outer_call(entry: &[u8]) -> Option<Record> {
    let outer = word(entry, thread::OUTER);
    let entry_point = EntryPoint::by_id(outer as u16).filter(|_| word(entry, thread::STATE) == thread::STATE_ALIVE)?;
    let about = Communication { communicator: high(outer), ..Communication::default() };
    Some(Record {
        kind: Kind::Communication,
        entered: word(entry, thread::OUTER_ENTERED),
        raw: RawPayload::communication(about),
        ..Record::of(entry_point)
    })
}

fn each<S: Source, T>(
    source: &S,
    area: &Area,
    length: u64,
    defects: &mut Defects,
    read: impl Fn(u64, &[u8], &mut Defects) -> Option<T>,
) -> Vec<T> {
    let mut all = Vec::new();
    each_entry(source, area, length, defects, |index, entry, defects| {
        // The file may have become shorter meanwhile.
        if entry.len() as u64 == area.stride {
            all.extend(read(index, entry, defects));
        }
    });
    all
}
