//! Adds texts to a recording: names, and what is too long for a record. On cold paths, under a lock.

use super::layout::{self, header, text};
use super::recorder::{put_text, Recorder};
use crate::api::{GraphContents, SharedMemory};
use crate::sync::{lock, Ordering};
use crate::Nanos;

impl Recorder<'_> {
    /// Adds words, and a text behind its length. An entry that finds no room is counted.
    fn add_text(&self, kind: u16, now: Nanos, content: &[u64], tail: Option<&str>) {
        let size = (2 + content.len() + tail.map_or(0, |t| 1 + t.len().div_ceil(layout::WORD))) * layout::WORD;
        let _one_at_a_time = lock(&self.texts);
        let used = self.words[header::TEXTS_USED].load(Ordering::Relaxed) as usize;
        if used + size > self.shape.text_bytes || u32::try_from(size).is_err() {
            self.count_lost_text();
            return;
        }
        let at = self.shape.texts_at() + used / layout::WORD;
        let entry = &self.words[at..at + size / layout::WORD];
        entry[0].store(u64::from(kind) | (size as u64) << 32, Ordering::Relaxed);
        entry[1].store(now, Ordering::Relaxed);
        entry[2..].iter().zip(content).for_each(|(to, word)| to.store(*word, Ordering::Relaxed));
        if let Some(tail) = tail {
            entry[2 + content.len()].store(tail.len() as u64, Ordering::Relaxed);
            put_text(&entry[3 + content.len()..], tail);
        }
        // Release: the entry counts only when all of it is there.
        self.words[header::TEXTS_USED].store((used + size) as u64, Ordering::Release);
    }

    pub fn add_name(&self, now: Nanos, number: u32, name: &str) {
        self.add_text(text::NAME, now, &[u64::from(number)], Some(name));
    }

    pub fn add_function(&self, now: Nanos, number: u32, name: u32, handle: u64, owner: u64, kernel: bool) {
        let ids = u64::from(number) | u64::from(name) << 32;
        self.add_text(text::FUNCTION, now, &[ids, handle, owner, u64::from(kernel)], None);
    }

    /// `bias` makes an address of the file one in memory.
    pub fn add_file(&self, now: Nanos, begin: u64, end: u64, bias: u64, path: &str) {
        self.add_text(text::FILE, now, &[begin, end, bias], Some(path));
    }

    pub fn add_setting(&self, now: Nanos, setting: &str) {
        self.add_text(text::SETTING, now, &[], Some(setting));
    }

    pub fn add_note(&self, now: Nanos, note: &str) {
        self.add_text(text::NOTE, now, &[], Some(note));
    }

    pub fn count_lost_text(&self) {
        self.words[header::TEXTS_LOST].fetch_add(1, Ordering::Relaxed);
    }

    /// Programs that make streams, or share memory, without end are not to take the room of the names.
    fn is_half_full(&self) -> bool {
        let is_it = self.words[header::TEXTS_USED].load(Ordering::Relaxed) > self.shape.text_bytes as u64 / 2;
        if is_it {
            self.count_lost_text();
        }
        is_it
    }

    pub fn add_stream(&self, now: Nanos, number: u32, context: u32, handle: u64, kind: u64) {
        if self.is_half_full() {
            return;
        }
        self.add_text(text::STREAM, now, &[u64::from(number) | u64::from(context) << 32, handle, kind], None);
    }

    pub fn add_communicator(&self, now: Nanos, number: u32, name: &str) {
        self.add_text(text::COMMUNICATOR, now, &[u64::from(number)], Some(name));
    }

    pub fn add_graph(&self, now: Nanos, handle: u64, contents: &GraphContents) {
        let GraphContents { nodes, unseen, changed, parts } = contents;
        let used = self.words[header::TEXTS_USED].load(Ordering::Relaxed);
        let room = self.shape.text_bytes as u64;
        if used > room / 4 * 3 {
            self.count_lost_text();
            return;
        }
        // Above half, the parts leave their room to names. The entry stays: without it an earlier graph with the handle would be taken for this one.
        let (unseen, parts) = if used > room / 2 { (nodes, &[][..]) } else { (unseen, &parts[..]) };
        let mut words = vec![handle, u64::from(*nodes) | u64::from(*unseen) << 32, u64::from(*changed)];
        for part in parts {
            let wide = if part.wide { text::GRAPH_PART_WIDE } else { 0 };
            let kind = u64::from(part.kind.number()) | u64::from(part.condition) << 16 | wide;
            words.extend([kind | u64::from(part.count) << 32, part.what, part.value]);
        }
        self.add_text(text::GRAPH, now, &words, None);
    }

    pub fn add_shared(&self, now: Nanos, memory: &SharedMemory) {
        let SharedMemory { address, bytes, identity, offset } = *memory;
        if self.is_half_full() {
            return;
        }
        self.add_text(text::SHARED, now, &[address, bytes, identity, offset], None);
    }

    /// Return addresses, the innermost first.
    pub fn add_path(&self, now: Nanos, number: u16, frames: &[u64]) {
        let words: Vec<_> = std::iter::once(u64::from(number)).chain(frames.iter().copied()).collect();
        self.add_text(text::PATH, now, &words, None);
    }
}
