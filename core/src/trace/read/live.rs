//! A recording that is read again and again while its process writes it: the tables as they are now, and the records that are new.
//!
//! Protocol: the hand of a lane says which segments may have been taken since the last look; those, and the ones that may still grow, are
//! looked at. A segment counts only if the same thread still has it after its records were read. What is overwritten before it was
//! read is lost to this reader, and counted.
//!
//! Must not: read what it has read before, but the tables; or hand out a record twice or in part.

use super::cursors;
use super::header::Header;
use super::records::Entry;
use super::source::{fill, high, low, word, Source, BEFORE_RECORDS};
use super::{Recording, Unreadable};
use crate::map::HashMap;
use crate::trace::layout::{segment, LANES, WORD};
use crate::trace::{Lane, Record, WORDS};

pub struct LiveRecording<S> {
    recording: Recording<S>,
    lanes: [News; LANES],
}

#[derive(Default)]
struct News {
    hand: u64,
    progress: HashMap<u64, Progress>,
    /// Segments that may still grow, or be taken at any time: the hand moves before a segment is taken.
    watched: Vec<u64>,
    read: u64,
    growing: u64,
}

#[derive(Clone, Copy, Default)]
struct Progress {
    /// How often it had been taken.
    taken: u32,
    read: u64,
    /// Whether the hand has come by since that use.
    awaited: bool,
}

impl<S: Source> LiveRecording<S> {
    /// Opens a recording. It has read the tables, and no record.
    pub fn open(source: S) -> Result<Self, Unreadable> {
        Ok(Self { recording: Recording::tables_of(source)?, lanes: Default::default() })
    }

    /// The tables as they were at the last [`Self::refresh`]. It holds no records, and [`Recording::lanes`] counts none as present.
    pub fn tables(&self) -> &Recording<S> {
        &self.recording
    }

    pub fn refresh(&mut self) -> Result<(), Unreadable> {
        self.recording.refresh_tables()
    }

    /// Hands out every record of a lane that has become complete since the last time, of at most `most` segments: the newest. Of those
    /// handed out at once, one thread's are in order.
    pub fn news(&mut self, lane: Lane, most: u64, each: &mut dyn FnMut(&Recording<S>, &Entry)) {
        let Recording { source, header, .. } = &self.recording;
        let news = &mut self.lanes[lane as usize];
        let (first, count) = header.segments_of(lane);
        let hand = header.hands[lane as usize];
        if count == 0 {
            return;
        }
        // A hand that is behind the last one is nonsense, and so is a file that another process has begun anew.
        let begin = news.hand.min(hand).max(hand.saturating_sub(count.min(most.max(1))));
        for ticket in begin..hand {
            let place = ticket % count;
            let progress = news.progress.entry(place).or_default();
            if !std::mem::replace(&mut progress.awaited, true) {
                news.watched.push(place);
            }
        }
        news.hand = hand;
        news.watched.sort_unstable();
        news.watched.dedup();
        let mut looks: Vec<_> =
            news.watched.iter().filter_map(|&place| Look::of(source, header, first + place, place)).collect();
        looks.sort_unstable_by_key(|look| (low(look.who), look.first));
        news.growing = 0;
        let mut settled = Vec::new();
        for look in &looks {
            let mut progress = news.progress.get(&look.place).copied().unwrap_or_default();
            if look.taken != progress.taken {
                progress = Progress { taken: look.taken, ..Progress::default() };
            }
            if let Some(words) = look.records_from(source, header, progress.read) {
                for words in words.chunks_exact(WORDS) {
                    let number = look.first.wrapping_add(progress.read);
                    progress.read += 1;
                    news.read += 1;
                    let record = <&[u64; WORDS]>::try_from(words).ok().and_then(Record::from_words);
                    if let Some(record) = record {
                        let entry =
                            Entry { thread_number: low(look.who), thread: high(look.who), lane, number, record };
                        each(&self.recording, &entry);
                    }
                }
            }
            if look.is_current {
                news.growing += progress.read;
            } else if !progress.awaited && progress.read >= look.length {
                settled.push(look.place);
            }
            news.progress.insert(look.place, progress);
        }
        settled.sort_unstable();
        news.watched.retain(|place| settled.binary_search(place).is_err());
    }

    /// How many complete records of a lane were never handed out. While the process runs, a few may count for a moment that come with the
    /// next look.
    pub fn lost(&self, lane: Lane) -> u64 {
        let news = &self.lanes[lane as usize];
        self.recording.header.lanes[lane as usize].released.saturating_sub(news.read.saturating_sub(news.growing))
    }
}

struct Look {
    place: u64,
    offset: u64,
    taken: u32,
    is_current: bool,
    who: u64,
    first: u64,
    length: u64,
}

impl Look {
    /// `None` in between two owners, where it shows nothing, and of what was never used.
    fn of<S: Source>(source: &S, header: &Header, index: u64, place: u64) -> Option<Self> {
        let offset = header.segments.area.place(index);
        let mut head = [0; segment::RECORDS * WORD];
        let there = fill(source, offset, &mut head).ok()?;
        let head = &head[..there];
        let state = word(head, segment::STATE);
        if !matches!(u64::from(low(state)), segment::CURRENT | segment::RELEASED) {
            return None;
        }
        Some(Self {
            place,
            offset,
            taken: high(state),
            is_current: u64::from(low(state)) == segment::CURRENT,
            who: word(head, segment::WHO),
            first: word(head, segment::FIRST),
            length: cursors::length(source, header, index, head).min(header.segments.records),
        })
    }

    /// The words of the records from this one on; `None` where there are none, or another thread has taken the segment meanwhile.
    fn records_from<S: Source>(&self, source: &S, header: &Header, from: u64) -> Option<Vec<u64>> {
        let count = self.length.checked_sub(from).filter(|&count| count > 0)?;
        let record_bytes = header.segments.record_bytes;
        let mut bytes = vec![0; usize::try_from(count * record_bytes).ok()?];
        let there = fill(source, self.offset + BEFORE_RECORDS + from * record_bytes, &mut bytes).ok()?;
        if there < bytes.len() {
            return None;
        }
        let mut after = [0; WORD];
        fill(source, self.offset, &mut after).ok()?;
        if !cursors::is_same_use(self.taken, word(&after, segment::STATE)) {
            return None;
        }
        let record_words = usize::try_from(record_bytes).ok()? / WORD;
        let records = bytes.chunks_exact(record_words * WORD);
        Some(records.flat_map(|record| (0..WORDS).map(|number| word(record, number))).collect())
    }
}
