//! Writes the copy with the library's own writer, in the smallest shape that holds it.

use super::kept::Kept;
use super::pseudonyms::{rank, setting, version, Pseudonyms};
use crate::api::{Operation, SharedMemory, StreamWork, Submissions};
use crate::map::HashMap;
use crate::sync::{AtomicU64, Ordering};
use crate::trace::layout::{communicator, context, header, lane, stream, thread, Shape, LANES, WORD};
use crate::trace::read::{
    CommunicatorSeen, ContextSeen, Entry, Recording, Source, StreamSeen, StringTable, ThreadSeen, ThreadState,
};
use crate::trace::{put_record, put_text, Kind, Owner, Payload, ProcessFacts, Recorder, SegmentWriter};

/// Records in a segment: few, because each thread has a segment of its own in each lane, and the last one is rarely full.
const RECORDS: usize = 15;

/// Texts are at most so much larger than they were: a pseudonym may be longer than the name, and the writer keeps room for names.
const GROWTH: usize = 4;

pub(super) fn written<S: Source>(recording: &Recording<S>, kept: &Kept, pseudonyms: &mut Pseudonyms) -> Vec<u8> {
    let facts = facts(recording.facts(), pseudonyms);
    let texts = texts(recording, kept, pseudonyms, &facts);
    // A record has 16 bits for the number of its context.
    let contexts = || recording.contexts().iter().filter(|context| context.number <= u16::MAX.into());
    let mut shape = Shape {
        threads: recording.threads().len(),
        contexts: contexts().map(|context| context.number as usize).max().unwrap_or(0),
        streams: kept.streams.len(),
        text_bytes: texts.words.len() * WORD,
        segments: [0; LANES],
        records: RECORDS,
    };
    groups(kept).for_each(|group| shape.segments[group[0].lane as usize] += group.len().div_ceil(RECORDS));
    let words = zeros(shape.words());
    let Some(recorder) = Recorder::new(&words, shape, &facts) else { return Vec::new() };
    copy(&words[shape.texts_at()..], &texts.words);
    set(&words, header::TEXTS_USED, (texts.words.len() * WORD) as u64);
    set(&words, header::TEXTS_LOST, texts.lost);
    for (index, seen) in recording.threads().iter().enumerate() {
        recorder.thread_entry(index).into_iter().for_each(|entry| thread_entry(entry, seen, kept, pseudonyms));
    }
    for seen in contexts() {
        recorder.context_entry(seen.number as usize - 1).into_iter().for_each(|entry| context_entry(entry, seen));
    }
    for (index, seen) in recording.streams().iter().filter(|seen| kept.streams.contains(&seen.number)).enumerate() {
        recorder.stream_entry(index).into_iter().for_each(|entry| stream_entry(entry, seen));
    }
    for seen in recording.communicators() {
        let entry = recorder.communicator_entry(seen.number as usize - 1);
        entry.into_iter().for_each(|entry| communicator_entry(entry, seen));
    }
    groups(kept).for_each(|group| records(&recorder, group, kept));
    for (of, older) in recording.lanes().iter().zip(kept.older) {
        let at = header::LANES + of.lane as usize * header::LANE_WORDS;
        set(&words, at + lane::OVERWRITTEN, of.overwritten.saturating_add(older));
        set(&words, at + lane::RELEASED, of.released);
        set(&words, at + lane::DROPPED, of.dropped);
    }
    words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect()
}

fn zeros(count: usize) -> Vec<AtomicU64> {
    (0..count).map(|_| AtomicU64::new(0)).collect()
}

fn set(words: &[AtomicU64], at: usize, value: u64) {
    words[at].store(value, Ordering::Relaxed);
}

fn copy(to: &[AtomicU64], from: &[u64]) {
    to.iter().zip(from).for_each(|(to, from)| to.store(*from, Ordering::Relaxed));
}

fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

fn facts(seen: &ProcessFacts, pseudonyms: &mut Pseudonyms) -> ProcessFacts {
    let mut facts = seen.clone();
    // No `..` here and below: a new fact does not compile before it has a rule.
    let ProcessFacts {
        process: _,
        driver_version: _,
        armed_unix_nanos: _,
        armed_monotonic_nanos: _,
        start_ticks: _,
        state: _,
        last_seen: _,
        program,
        host,
        rank: told,
        lazyguard,
        file_bytes: _,
        without_entry: _,
        texts_lost: _,
        former_calls: _,
        former_launches: _,
        start: _,
    } = &mut facts;
    (*program, *host) = (pseudonyms.of("program", program), pseudonyms.of("host", host));
    (*told, *lazyguard) = (rank(told), version(lazyguard));
    facts
}

struct Texts {
    words: Vec<u64>,
    lost: u64,
}

fn texts<S: Source>(recording: &Recording<S>, kept: &Kept, pseudonyms: &mut Pseudonyms, facts: &ProcessFacts) -> Texts {
    let room = recording.strings().bytes * GROWTH;
    let shape = Shape { threads: 0, contexts: 0, streams: 0, text_bytes: room, segments: [0; LANES], records: RECORDS };
    let words = zeros(shape.words());
    let Some(recorder) = Recorder::new(&words, shape, facts) else { return Texts { words: Vec::new(), lost: 0 } };
    let strings = recording.strings();
    // No `..`: a new kind of text does not compile before it has a rule. Notes are free text, on which nothing depends.
    let StringTable {
        names: _,
        functions: _,
        streams: _,
        communicators: _,
        graphs: _,
        paths,
        shared,
        files,
        settings,
        notes: _,
        unknown: _,
        bytes: _,
    } = strings;
    let mut names: HashMap<String, u32> = HashMap::default();
    // Functions and streams that nothing kept is about are left out.
    for (number, at, seen) in strings.functions().filter(|(number, ..)| kept.functions.contains(number)) {
        let name = seen.name.map_or(0, |name| {
            let next = names.len() as u32 + 1;
            *names.entry(pseudonyms.kernel(name)).or_insert_with_key(|name| {
                recorder.add_name(at, next, name);
                next
            })
        });
        recorder.add_function(at, number, name, seen.handle, seen.owner, seen.kernel);
    }
    for (number, at, seen) in strings.streams.all().filter(|(number, ..)| kept.stream(*number) != 0) {
        recorder.add_stream(at, kept.stream(number), seen.context, seen.handle, seen.kind.number());
    }
    for (number, at, name) in strings.communicators.all() {
        recorder.add_communicator(at, number, &pseudonyms.of("group", name));
    }
    strings.graphs.all().for_each(|(handle, at, contents)| recorder.add_graph(at, handle, contents));
    paths.iter().for_each(|(number, frames)| recorder.add_path(0, *number, frames));
    for seen in shared {
        let identity = pseudonyms.number("memory", &seen.identity.to_string()) as u64;
        recorder.add_shared(0, &SharedMemory { identity, ..*seen });
    }
    for seen in files.iter().filter(|seen| kept.callers.range(seen.begin..seen.end.max(seen.begin)).next().is_some()) {
        // No path at which a reader could take another file for this one.
        recorder.add_file(seen.at, seen.begin, seen.end, seen.bias, &pseudonyms.of("file", &seen.path));
    }
    for seen in settings {
        setting(&seen.text).into_iter().for_each(|kept| recorder.add_setting(seen.at, kept));
    }
    let word = |at: usize| words[at].load(Ordering::Relaxed);
    let used = word(header::TEXTS_USED) as usize / WORD;
    let area = shape.texts_at()..shape.texts_at() + used;
    Texts { words: area.map(word).collect(), lost: word(header::TEXTS_LOST) }
}

fn thread_entry(entry: &[AtomicU64], seen: &ThreadSeen, kept: &Kept, pseudonyms: &mut Pseudonyms) {
    // The place of the thread's stack says nothing to a reader.
    let ThreadSeen {
        number,
        thread: id,
        state,
        born,
        ended,
        calls,
        launches,
        name,
        stack: _,
        frame: _,
        call_in_progress,
    } = seen;
    let state = match state {
        ThreadState::Free | ThreadState::Unknown(_) => thread::STATE_FREE,
        ThreadState::Alive => thread::STATE_ALIVE,
        ThreadState::Ended => thread::STATE_ENDED,
    };
    set(entry, thread::WHO, pair(*number, *id));
    set(entry, thread::STATE, state);
    set(entry, thread::CALLS, *calls);
    set(entry, thread::LAUNCHES, *launches);
    set(entry, thread::BORN, *born);
    set(entry, thread::ENDED, *ended);
    put_text(&entry[thread::NAME], &pseudonyms.of("thread", name));
    let Some(record) = call_in_progress.map(|record| kept.renumbered(&record)) else { return };
    let form = u64::from(record.entry_point.id());
    match record.payload() {
        // A call of NCCL has no place for a record.
        Payload::Communication(about) if record.kind == Kind::Communication => {
            set(entry, thread::OUTER, form | u64::from(about.communicator) << 32);
            set(entry, thread::OUTER_ENTERED, record.entered);
        }
        _ => {
            // The place for a call that has found no segment.
            set(entry, thread::MARK, form | thread::MARK_SPARE << 16);
            copy(&entry[thread::SPARE..], &record.to_words());
        }
    }
}

fn context_entry(entry: &[AtomicU64], seen: &ContextSeen) {
    let ContextSeen { number: _, handle, alive, device, born, idle_until, orphaned_until } = *seen;
    set(entry, context::HANDLE, handle);
    set(entry, context::ALIVE, pair(alive.into(), device as u32));
    set(entry, context::BORN, born);
    set(entry, context::IDLE_UNTIL, idle_until);
    set(entry, context::ORPHANED_UNTIL, orphaned_until);
}

fn stream_entry(entry: &[AtomicU64], seen: &StreamSeen) {
    let StreamSeen { number: _, handle, context, thread, kind, alive, capturing, destroyed, born, work } = seen;
    let StreamWork { submissions: Submissions { count, ended: _, last, first_since_idle }, complete_until, recent } =
        work;
    set(entry, stream::HANDLE, *handle);
    set(entry, stream::PLACE, pair(*context, *thread));
    set(entry, stream::KIND, kind.number());
    set(entry, stream::ALIVE, (*alive).into());
    set(entry, stream::CAPTURING, (*capturing).into());
    set(entry, stream::DESTROYED, (*destroyed).into());
    set(entry, stream::BORN, *born);
    set(entry, stream::SUBMITTED, *count);
    set(entry, stream::LAST_SUBMITTED, *last);
    set(entry, stream::COMPLETE_UNTIL, *complete_until);
    operation(&entry[stream::FIRST_SINCE_IDLE..], first_since_idle);
    let first = count.saturating_sub(recent.len() as u64);
    for (at, recent) in recent.iter().enumerate() {
        let place = (first.wrapping_add(at as u64) % stream::RECENT_COUNT as u64) as usize;
        operation(&entry[stream::RECENT + place * 2..], recent);
    }
}

fn operation(entry: &[AtomicU64], of: &Operation) {
    let Operation { at, entry_point, function } = *of;
    copy(entry, &[at, pair(entry_point.into(), function)]);
}

fn communicator_entry(entry: &[AtomicU64], seen: &CommunicatorSeen) {
    let CommunicatorSeen { number: _, handle, id, rank, born, ended, collectives, last, splits } = *seen;
    let (rank, size) = rank.unwrap_or_default();
    set(entry, communicator::HANDLE, if handle == 0 { communicator::NO_HANDLE } else { handle });
    set(entry, communicator::ID, id);
    set(entry, communicator::RANK, pair(rank, size));
    set(entry, communicator::BORN, born);
    set(entry, communicator::ENDED, ended);
    set(entry, communicator::COLLECTIVES, collectives);
    set(entry, communicator::LAST, last);
    set(entry, communicator::OTHERS, splits.into());
}

fn groups(kept: &Kept) -> impl Iterator<Item = &[Entry]> {
    kept.entries.chunk_by(|a, b| (a.thread_number, a.thread, a.lane) == (b.thread_number, b.thread, b.lane))
}

fn records(recorder: &Recorder<'_>, group: &[Entry], kept: &Kept) {
    let writer = SegmentWriter::default();
    for entry in group {
        let owner = Owner { number: entry.thread_number, thread: entry.thread };
        let next = || recorder.place_in_next(&writer, owner, entry.lane, entry.record.entered);
        let Some(place) = recorder.place(&writer).or_else(next) else { continue };
        put_record(place, &kept.renumbered(&entry.record));
        recorder.complete(&writer);
    }
}
