//! Perfetto's trace format, as far as a timeline needs it: tracks, slices, instants and flows, in packets of one sequence.
//!
//! Names are interned: a packet carries a text at its first use, and its number from then on. Packets may come in any order of time;
//! for packets of one track and one moment, the order in the file counts.
//!
//! Why no library: the existing ones run a compiler of protocol buffers in the build and generate types for hundreds of messages. This
//! writer needs a few messages; a timeline can have millions of packets, and each is written as it comes.
//!
//! Must not: know what a slice means.

use super::protobuf::{varint, Message};
use std::collections::HashMap;
use std::io::{self, BufWriter, Write};

/// Names that are interned; more are written out where they are used.
const MOST_INTERNED: usize = 1 << 16;

const SEQUENCE: u64 = 1;
/// `BUILTIN_CLOCK_REALTIME` and `BUILTIN_CLOCK_MONOTONIC`.
const REALTIME: u64 = 1;
const MONOTONIC: u64 = 3;

// Numbers of fields, by message.
const PACKET: u32 = 1;
mod packet {
    pub const CLOCK_SNAPSHOT: u32 = 6;
    pub const TIMESTAMP: u32 = 8;
    pub const SEQUENCE_ID: u32 = 10;
    pub const TRACK_EVENT: u32 = 11;
    pub const INTERNED_DATA: u32 = 12;
    pub const SEQUENCE_FLAGS: u32 = 13;
    pub const DEFAULTS: u32 = 59;
    pub const TRACK_DESCRIPTOR: u32 = 60;
}
mod clock_snapshot {
    pub const CLOCKS: u32 = 1;
    pub const PRIMARY: u32 = 2;
    pub const CLOCK_ID: u32 = 1;
    pub const CLOCK_TIMESTAMP: u32 = 2;
}
mod defaults {
    pub const CLOCK_ID: u32 = 58;
}
mod interned {
    pub const CATEGORIES: u32 = 1;
    pub const EVENT_NAMES: u32 = 2;
    pub const ANNOTATION_NAMES: u32 = 3;
    pub const ANNOTATION_TEXTS: u32 = 29;
    pub const IID: u32 = 1;
    pub const TEXT: u32 = 2;
}
mod event {
    pub const CATEGORY_IIDS: u32 = 3;
    pub const CATEGORIES: u32 = 22;
    pub const ANNOTATIONS: u32 = 4;
    pub const TYPE: u32 = 9;
    pub const NAME_IID: u32 = 10;
    pub const TRACK: u32 = 11;
    pub const NAME: u32 = 23;
    pub const FLOWS: u32 = 47;
}
mod annotation {
    pub const NAME_IID: u32 = 1;
    pub const NAME: u32 = 10;
    pub const BOOL: u32 = 2;
    pub const UNSIGNED: u32 = 3;
    pub const SIGNED: u32 = 4;
    pub const TEXT: u32 = 6;
    pub const POINTER: u32 = 7;
    pub const TEXT_IID: u32 = 17;
}
mod track {
    pub const UUID: u32 = 1;
    pub const NAME: u32 = 2;
    pub const PROCESS: u32 = 3;
    pub const THREAD: u32 = 4;
    pub const PARENT: u32 = 5;
    pub const MERGE: u32 = 15;
    pub const MERGE_KEY: u32 = 16;
}
mod process {
    pub const ID: u32 = 1;
    pub const NAME: u32 = 6;
}
mod thread {
    pub const PROCESS: u32 = 1;
    pub const ID: u32 = 2;
    pub const NAME: u32 = 5;
}

const STATE_CLEARED: u64 = 1;
const NEEDS_STATE: u64 = 2;
const MERGE_BY_KEY: u64 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
enum What {
    Begin = 1,
    /// The newest slice of the track ends.
    End = 2,
    Instant = 3,
}

/// A fact that is shown with an event.
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
    /// The track's number.
    pub track: u64,
    /// When, in nanoseconds since the trace's beginning.
    pub at: u64,
    pub name: &'a str,
    pub category: &'static str,
    /// Arrows that begin, pass or end here: each goes from event to event in their order of time.
    pub flows: &'a [u64],
    pub facts: &'a Facts<'a>,
}

/// The facts that are shown with an event.
#[derive(Debug, Default)]
pub(super) struct Facts<'a>(Vec<(&'a str, Value<'a>)>);

impl<'a> Facts<'a> {
    pub fn add(&mut self, name: &'a str, value: Value<'a>, applies: bool) {
        self.0.extend(applies.then_some((name, value)));
    }
}

/// A track, by what it belongs to.
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

    /// Writes a text into a message; a new one is defined in `fresh`.
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
    /// Texts that the packet is the first to use.
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

    /// Adds a track; returns its number.
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

    /// A slice, which ends where that is known.
    pub fn slice(&mut self, event: &Event<'_>, end: Option<u64>) -> io::Result<()> {
        self.slices += 1;
        self.event(What::Begin, event)?;
        let Some(end) = end else { return Ok(()) };
        begin_event(&mut self.packet, self.beginning.saturating_add(end.max(event.at)));
        self.packet.message(packet::TRACK_EVENT, |message| {
            message.number(event::TYPE, What::End as u64);
            message.number(event::TRACK, event.track);
        });
        self.finish_packet()
    }

    pub fn instant(&mut self, event: &Event<'_>) -> io::Result<()> {
        self.event(What::Instant, event)
    }

    fn event(&mut self, what: What, event: &Event<'_>) -> io::Result<()> {
        let Self { packet, fresh, names, categories, fact_names, fact_texts, .. } = self;
        begin_event(packet, self.beginning.saturating_add(event.at));
        packet.message(packet::TRACK_EVENT, |message| {
            message.number(event::TYPE, what as u64);
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
            for &flow in event.flows {
                message.fixed(event::FLOWS, flow);
            }
        });
        self.finish_packet()
    }

    /// Everything has been written: how many slices there are, and bytes.
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
