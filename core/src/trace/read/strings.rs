//! Names and other long things.
//!
//! Numbers of functions and streams are used again: the time of a record decides what one means.

use super::defects::Defects;
use super::source::{append, high, low, word, Source};
use crate::api::{GraphContents, GraphPart, NodeKind, SharedMemory, StreamKind};
use crate::map::HashMap;
use crate::trace::layout::{text, WORD};
use crate::{order, Nanos};

const TEXT_STRETCH: u64 = 64 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionSeen<'a> {
    pub name: Option<&'a str>,
    pub handle: u64,
    /// Its module or library, or 0.
    pub owner: u64,
    pub kernel: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamText {
    pub context: u32,
    pub handle: u64,
    pub kind: StreamKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSeen {
    pub at: Nanos,
    pub begin: u64,
    pub end: u64,
    /// Memory address minus the file's address.
    pub bias: u64,
    pub path: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextSeen {
    pub at: Nanos,
    pub text: String,
}

#[derive(Debug, Default)]
pub struct StringTable {
    pub(crate) names: HashMap<u32, Box<str>>,
    pub(crate) functions: Timed<FunctionText>,
    pub streams: Timed<StreamText>,
    /// Their names.
    pub communicators: Timed<Box<str>>,
    /// By handle.
    pub graphs: Timed<GraphContents, u64>,
    /// Frames by number; a thousand paths at most.
    pub(crate) paths: Vec<(u16, Box<[u64]>)>,
    /// As it holds at the end: see [`SharedMemory::follows`].
    pub shared: Vec<SharedMemory>,
    pub files: Vec<FileSeen>,
    pub settings: Vec<TextSeen>,
    pub notes: Vec<TextSeen>,
    /// How many texts are of an unknown kind.
    pub unknown: u64,
    pub bytes: usize,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct FunctionText {
    name: u32,
    handle: u64,
    owner: u64,
    kernel: bool,
}

impl StringTable {
    /// See [`Timed::newest`].
    pub fn function(&self, number: u32, at: Nanos) -> Option<FunctionSeen<'_>> {
        self.functions.newest(number, at).map(|function| self.named(function))
    }

    /// The module or library of each function.
    pub fn owners(&self) -> HashMap<u32, u64> {
        self.functions().map(|(number, _, function)| (number, function.owner)).collect()
    }

    /// Number, time of making and function, in that order.
    pub fn functions(&self) -> impl Iterator<Item = (u32, Nanos, FunctionSeen<'_>)> {
        self.functions.all().map(|(number, at, function)| (number, at, self.named(function)))
    }

    /// Return addresses, the innermost first; the record has the frame outside them.
    pub fn path(&self, number: u16) -> &[u64] {
        self.paths.iter().rfind(|(known, _)| *known == number).map_or(&[], |(_, frames)| frames)
    }

    pub fn setting(&self, name: &str) -> Option<&str> {
        self.settings.iter().rev().find_map(|s| s.text.strip_prefix(name)?.strip_prefix('='))
    }

    fn named(&self, function: &FunctionText) -> FunctionSeen<'_> {
        FunctionSeen {
            name: self.names.get(&function.name).map(AsRef::as_ref),
            handle: function.handle,
            owner: function.owner,
            kernel: function.kernel,
        }
    }

    /// Takes in the texts from the area's offset on, of which so many bytes are in use; none twice.
    pub(super) fn read_on<S: Source>(&mut self, source: &S, (offset, used): (u64, u64), defects: &mut Defects) {
        let begin = offset.saturating_add(self.bytes as u64);
        let mut left = used.saturating_sub(self.bytes as u64);
        let mut unread = Vec::new();
        while (unread.len() as u64) < left {
            let (next, stretch) = (begin + unread.len() as u64, TEXT_STRETCH.min(left - unread.len() as u64));
            // A hole in the file takes no room, reads as zeros, and is in no text.
            let is_hole = source.next_data(next) >= next.saturating_add(stretch);
            if is_hole || append(source, next, stretch as usize, &mut unread, defects) == 0 {
                break;
            }
        }
        let (mut rest, mut place) = (&unread[..], begin);
        while left > 0 {
            let size = high(word(rest, 0)) as usize;
            let makes_sense = size >= 2 * WORD && size.is_multiple_of(WORD);
            let Some((entry, behind)) = rest.split_at_checked(size).filter(|_| makes_sense) else {
                defects.note(place, || format!("a text of {size} bytes, {left} before the end"));
                break;
            };
            if self.take(entry).is_none() {
                defects.note(place, || format!("a text of kind {} in {size} bytes", word(entry, 0) as u16));
            }
            self.bytes += size;
            (rest, place, left) = (behind, place + size as u64, left - size as u64);
        }
        if place > begin {
            self.functions.sort();
            self.streams.sort();
            self.communicators.sort();
            self.graphs.sort();
        }
    }

    /// `None` if the entry is too small for its content.
    fn take(&mut self, entry: &[u8]) -> Option<()> {
        let kind = word(entry, 0) as u16;
        let at = word(entry, 1);
        let content = &entry[2 * WORD..];
        let part = |number: usize| content.get(number * WORD..(number + 1) * WORD).map(|_| word(content, number));
        // A length, and that many bytes.
        let tail = |number: usize| {
            let length = usize::try_from(part(number)?).ok()?;
            Some(String::from_utf8_lossy(content.get((number + 1) * WORD..)?.get(..length)?).into_owned())
        };
        match kind {
            text::NAME => {
                self.names.insert(low(part(0)?), tail(1)?.into());
            }
            text::FUNCTION => {
                let function =
                    FunctionText { name: high(part(0)?), handle: part(1)?, owner: part(2)?, kernel: part(3)? != 0 };
                self.functions.push(low(part(0)?), at, function);
            }
            text::FILE => {
                self.files.push(FileSeen { at, begin: part(0)?, end: part(1)?, bias: part(2)?, path: tail(3)? });
            }
            text::SETTING => self.settings.push(TextSeen { at, text: tail(0)? }),
            text::NOTE => self.notes.push(TextSeen { at, text: tail(0)? }),
            text::STREAM => {
                let kind = StreamKind::from_number(part(2)?);
                self.streams.push(low(part(0)?), at, StreamText { context: high(part(0)?), handle: part(1)?, kind });
            }
            text::COMMUNICATOR => self.communicators.push(low(part(0)?), at, tail(1)?.into()),
            text::GRAPH => {
                let [counts, changed] = [part(1)?, part(2)?];
                let parts = content[text::GRAPH_HEAD * WORD..].chunks_exact(text::GRAPH_PART * WORD).map(graph_part);
                let (nodes, unseen, changed) = (low(counts), high(counts), changed & 1 != 0);
                self.graphs.push(part(0)?, at, GraphContents { nodes, unseen, changed, parts: parts.collect() });
            }
            text::PATH => {
                let number = part(0)? as u16;
                self.paths.push((number, content[WORD..].chunks_exact(WORD).map(|frame| word(frame, 0)).collect()));
            }
            text::SHARED => {
                let [address, bytes, identity, offset] = [part(0)?, part(1)?, part(2)?, part(3)?];
                SharedMemory { address, bytes, identity, offset }.follows(&mut self.shared);
            }
            _ => self.unknown += 1,
        }
        Some(())
    }
}

fn graph_part(words: &[u8]) -> GraphPart {
    let kind = word(words, 0);
    GraphPart {
        kind: NodeKind::from_number(kind as u16),
        count: high(kind),
        what: word(words, 1),
        value: word(words, 2),
        condition: (kind >> 16) as u8,
        wide: kind & text::GRAPH_PART_WIDE != 0,
    }
}

/// Entries by number or handle, several of each, each from a time on.
#[derive(Debug)]
pub struct Timed<T, K = u32> {
    entries: Vec<(K, Nanos, T)>,
}

impl<T, K> Default for Timed<T, K> {
    fn default() -> Self {
        Self { entries: Vec::new() }
    }
}

impl<T, K: Copy + Ord> Timed<T, K> {
    fn push(&mut self, number: K, at: Nanos, what: T) {
        self.entries.push((number, at, what));
    }

    /// Stable: the later in the file of two with one number and time is newer.
    fn sort(&mut self) {
        order::sort_by_key(&mut self.entries, |(number, at, _)| (*number, *at));
    }

    /// The one that had the number when a record's call returned: at `at`, which is the end of time for a call in progress.
    pub fn newest(&self, number: K, at: Nanos) -> Option<&T> {
        let after = self.entries.partition_point(|(n, t, _)| (*n, *t) <= (number, at));
        self.entries[..after].last().filter(|(n, _, _)| *n == number).map(|(_, _, what)| what)
    }

    /// Number, time from which on it counts, and the one that had the number, in that order.
    pub fn all(&self) -> impl Iterator<Item = (K, Nanos, &T)> {
        self.entries.iter().map(|(number, at, what)| (*number, *at, what))
    }
}
