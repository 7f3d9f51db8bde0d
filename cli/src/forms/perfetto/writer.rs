//! Perfetto's trace format, as far as a timeline needs it: packets of one sequence. A packet carries a text at its first use, and its number
//! from then on. Existing libraries compile hundreds of messages; a timeline needs a few, millions of times.
//!
//! Must not: know what a slice means.

use super::protobuf::{varint, Message};
use std::collections::HashMap;
use std::io::{self, BufWriter, Write};

const MOST_INTERNED: usize = 1 << 16;

const SEQUENCE: u64 = 1;
/// `BUILTIN_CLOCK_REALTIME` and `BUILTIN_CLOCK_MONOTONIC`.
const REALTIME: u64 = 1;
const MONOTONIC: u64 = 3;

const PACKET: u32 = 1;

macro_rules! fields {
    ($($message:ident { $($name:ident = $number:literal),* })*) => {
        $(mod $message { $(pub const $name: u32 = $number;)* })*
    };
}

fields! {
    packet { CLOCK_SNAPSHOT = 6, TIMESTAMP = 8, SEQUENCE_ID = 10, TRACK_EVENT = 11, INTERNED_DATA = 12, SEQUENCE_FLAGS = 13,
             DEFAULTS = 59, TRACK_DESCRIPTOR = 60 }
    clock_snapshot { CLOCKS = 1, PRIMARY = 2, CLOCK_ID = 1, CLOCK_TIMESTAMP = 2 }
    defaults { CLOCK_ID = 58 }
    interned { CATEGORIES = 1, EVENT_NAMES = 2, ANNOTATION_NAMES = 3, ANNOTATION_TEXTS = 29, IID = 1, TEXT = 2 }
    event { CATEGORY_IIDS = 3, CATEGORIES = 22, ANNOTATIONS = 4, TYPE = 9, NAME_IID = 10, TRACK = 11, NAME = 23, FLOWS = 47 }
    annotation { NAME_IID = 1, NAME = 10, BOOL = 2, UNSIGNED = 3, SIGNED = 4, TEXT = 6, POINTER = 7, TEXT_IID = 17 }
    track { UUID = 1, NAME = 2, PROCESS = 3, THREAD = 4, PARENT = 5, MERGE = 15, MERGE_KEY = 16 }
    process { ID = 1, NAME = 6 }
    thread { PROCESS = 1, ID = 2, NAME = 5 }
}

const STATE_CLEARED: u64 = 1;
const NEEDS_STATE: u64 = 2;
const MERGE_BY_KEY: u64 = 3;

const BEGIN: u64 = 1;
const END: u64 = 2;
const INSTANT: u64 = 3;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value<'a> {
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Pointer(u64),
    Text(&'a str),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Event<'a> {
    pub track: u64,
    pub at: u64,
    pub name: &'a str,
    pub category: &'static str,
    /// Arrows that begin, pass or end here: each goes from event to event in their order of time.
    pub flows: &'a [u64],
    pub facts: &'a Facts<'a>,
}

#[derive(Debug, Default)]
pub(super) struct Facts<'a>(Vec<(&'a str, Value<'a>)>);

impl<'a> Facts<'a> {
    pub fn add(&mut self, name: &'a str, value: Value<'a>, applies: bool) {
        self.some(name, Some(value).filter(|_| applies));
    }

    pub fn some(&mut self, name: &'a str, value: Option<Value<'a>>) {
        self.0.extend(value.map(|value| (name, value)));
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Track<'a> {
    Process {
        id: u32,
        name: &'a str,
    },
    Thread {
        process: u32,
        id: u32,
        name: &'a str,
    },
    /// Below another track. Those that share a key are shown as one track with several rows.
    Below {
        parent: u64,
        name: &'a str,
        key: &'a str,
    },
}

/// Texts of one kind, by number; and the fields that define such a text, refer to it by its number, and hold it where there are too many.
struct Interned {
    numbers: HashMap<Box<str>, u64>,
    fields: [u32; 3],
}

impl Interned {
    fn of(fields: [u32; 3]) -> Self {
        Self { numbers: HashMap::new(), fields }
    }

    fn write(&mut self, text: &str, message: &mut Message, fresh: &mut Message) {
        let [defines, by_number, by_text] = self.fields;
        let known = self.numbers.get(text).copied();
        if known.is_none() && self.numbers.len() == MOST_INTERNED {
            return message.text(by_text, text);
        }
        let number = known.unwrap_or_else(|| {
            let number = self.numbers.len() as u64 + 1;
            self.numbers.insert(text.into(), number);
            fresh.message(defines, |entry| {
                entry.number(interned::IID, number);
                entry.text(interned::TEXT, text);
            });
            number
        });
        message.number(by_number, number);
    }
}

pub(super) struct Trace<'o> {
    out: BufWriter<&'o mut dyn Write>,
    written: u64,
    slices: u64,
    beginning: u64,
    packet: Message,
    fresh: Message,
    names: Interned,
    categories: Interned,
    fact_names: Interned,
    fact_texts: Interned,
    tracks: u64,
}

impl<'o> Trace<'o> {
    /// The times of the trace begin at this moment: on `CLOCK_MONOTONIC`, and in nanoseconds since 1970.
    pub fn new(out: &'o mut dyn Write, monotonic: u64, unix: u64) -> io::Result<Self> {
        let mut trace = Self {
            out: BufWriter::with_capacity(1 << 20, out),
            written: 0,
            slices: 0,
            beginning: monotonic,
            packet: Message::default(),
            fresh: Message::default(),
            names: Interned::of([interned::EVENT_NAMES, event::NAME_IID, event::NAME]),
            categories: Interned::of([interned::CATEGORIES, event::CATEGORY_IIDS, event::CATEGORIES]),
            fact_names: Interned::of([interned::ANNOTATION_NAMES, annotation::NAME_IID, annotation::NAME]),
            fact_texts: Interned::of([interned::ANNOTATION_TEXTS, annotation::TEXT_IID, annotation::TEXT]),
            tracks: 0,
        };
        trace.packet.number(packet::SEQUENCE_ID, SEQUENCE);
        trace.packet.number(packet::SEQUENCE_FLAGS, STATE_CLEARED);
        trace.packet.message(packet::DEFAULTS, |d| d.number(defaults::CLOCK_ID, MONOTONIC));
        trace.packet.message(packet::CLOCK_SNAPSHOT, |snapshot| {
            use clock_snapshot::{CLOCKS, CLOCK_ID, CLOCK_TIMESTAMP, PRIMARY};
            for (clock, time) in [(MONOTONIC, monotonic), (REALTIME, unix)] {
                snapshot.message(CLOCKS, |entry| {
                    entry.number(CLOCK_ID, clock);
                    entry.number(CLOCK_TIMESTAMP, time);
                });
            }
            snapshot.number(PRIMARY, MONOTONIC);
        });
        trace.finish_packet()?;
        Ok(trace)
    }

    pub fn track(&mut self, track: Track<'_>) -> io::Result<u64> {
        self.tracks += 1;
        let uuid = self.tracks;
        self.packet.number(packet::SEQUENCE_ID, SEQUENCE);
        self.packet.message(packet::TRACK_DESCRIPTOR, |descriptor| {
            descriptor.number(track::UUID, uuid);
            match track {
                Track::Process { id, name } => descriptor.message(track::PROCESS, |process| {
                    process.number(process::ID, u64::from(id));
                    process.text(process::NAME, name);
                }),
                Track::Thread { process, id, name } => descriptor.message(track::THREAD, |thread| {
                    thread.number(thread::PROCESS, u64::from(process));
                    thread.number(thread::ID, u64::from(id));
                    thread.text(thread::NAME, name);
                }),
                Track::Below { parent, name, key } => {
                    descriptor.number(track::PARENT, parent);
                    descriptor.text(track::NAME, name);
                    descriptor.number(track::MERGE, MERGE_BY_KEY);
                    descriptor.text(track::MERGE_KEY, key);
                }
            }
        });
        self.finish_packet()?;
        Ok(uuid)
    }

    pub fn slice(&mut self, event: &Event<'_>, end: Option<u64>) -> io::Result<()> {
        self.slices += 1;
        self.event(BEGIN, event)?;
        let Some(end) = end else { return Ok(()) };
        begin_event(&mut self.packet, self.beginning.saturating_add(end.max(event.at)));
        self.packet.message(packet::TRACK_EVENT, |message| {
            message.number(event::TYPE, END);
            message.number(event::TRACK, event.track);
        });
        self.finish_packet()
    }

    pub fn instant(&mut self, event: &Event<'_>) -> io::Result<()> {
        self.event(INSTANT, event)
    }

    fn event(&mut self, what: u64, event: &Event<'_>) -> io::Result<()> {
        let Self { packet, fresh, names, categories, fact_names, fact_texts, .. } = self;
        begin_event(packet, self.beginning.saturating_add(event.at));
        packet.message(packet::TRACK_EVENT, |message| {
            message.number(event::TYPE, what);
            message.number(event::TRACK, event.track);
            names.write(event.name, message, fresh);
            categories.write(event.category, message, fresh);
            for (name, value) in &event.facts.0 {
                message.message(event::ANNOTATIONS, |fact| {
                    fact_names.write(name, fact, fresh);
                    match *value {
                        Value::Bool(value) => fact.number(annotation::BOOL, u64::from(value)),
                        Value::Unsigned(value) => fact.number(annotation::UNSIGNED, value),
                        Value::Signed(value) => fact.number(annotation::SIGNED, value as u64),
                        Value::Pointer(value) => fact.number(annotation::POINTER, value),
                        Value::Text(text) => fact_texts.write(text, fact, fresh),
                    }
                });
            }
            event.flows.iter().for_each(|&flow| message.fixed(event::FLOWS, flow));
        });
        self.finish_packet()
    }

    pub fn finish(mut self) -> io::Result<(u64, u64)> {
        self.out.flush()?;
        Ok((self.slices, self.written))
    }

    fn finish_packet(&mut self) -> io::Result<()> {
        if !self.fresh.bytes().is_empty() {
            let Self { packet, fresh, .. } = self;
            packet.message(packet::INTERNED_DATA, |data| data.append(fresh));
            fresh.clear();
        }
        let mut head = [(PACKET as u8) << 3 | 2; 11];
        let (length, used) = varint(self.packet.bytes().len() as u64);
        head[1..=used].copy_from_slice(&length[..used]);
        self.out.write_all(&head[..=used])?;
        self.out.write_all(self.packet.bytes())?;
        self.written += (used + 1 + self.packet.bytes().len()) as u64;
        self.packet.clear();
        Ok(())
    }
}

fn begin_event(packet: &mut Message, at: u64) {
    packet.number(packet::TIMESTAMP, at);
    packet.number(packet::SEQUENCE_ID, SEQUENCE);
    packet.number(packet::SEQUENCE_FLAGS, NEEDS_STATE);
}
