//! Launches that the table of streams lacks, from the current segments of the threads. The records are read before the table: where a living
//! process folds some in between, both are read again.

use super::cursors;
use super::header::Header;
use super::source::{low, words, Source, BEFORE_RECORDS, RECORD_BYTES};
use super::tables::{ContextSeen, StreamSeen, ThreadEntry, ThreadState};
use crate::map::HashSet;
use crate::order;
use crate::trace::layout::{segment, thread};
use crate::trace::{Lane, Submission, WORDS};

#[derive(Default)]
pub(super) struct Unfolded {
    submissions: Vec<Submission>,
    /// Read segments: in a damaged file several threads may claim one.
    segments: HashSet<u64>,
    /// Heads of segments with unfolded launches, from before their records were read.
    heads: Vec<(u64, [u64; segment::RECORDS])>,
}

impl Unfolded {
    /// `in_progress`: the words of the thread's call, in progress or just returned.
    pub(super) fn read<S: Source>(
        &mut self,
        source: &S,
        header: &Header,
        entry: &ThreadEntry,
        in_progress: Option<&[u64; WORDS]>,
    ) {
        let segments = header.segments;
        let writing = cursors::of_entry(header, &words::<_, { thread::WORDS }>(source, entry.offset));
        let Some(writing) = writing.filter(|_| entry.seen.state == ThreadState::Alive) else { return };
        let place = segments.area.place(writing.segment);
        let head = || words::<_, { segment::RECORDS }>(source, place);
        let before = head();
        let is_its_own = low(before[segment::WHO]) == entry.seen.number
            && u64::from(low(before[segment::STATE])) == segment::CURRENT
            && u64::from(low(before[segment::LANE])) == Lane::Work as u64;
        if !is_its_own || !self.segments.insert(writing.segment) {
            return;
        }
        let there = header.length.saturating_sub(place + BEFORE_RECORDS) / RECORD_BYTES;
        let length = writing.length.min(segments.records).min(there);
        let read = |number: u64| words::<_, WORDS>(source, place + BEFORE_RECORDS + number * RECORD_BYTES);
        let records: Vec<_> = (before[segment::FOLDED]..length).map(read).collect();
        // A thread that has left the segment has folded it.
        if head()[segment::STATE] == before[segment::STATE] {
            self.submissions
                .extend(records.iter().chain(in_progress).filter_map(|words| Submission::of_words(|word| words[word])));
            self.heads.push((place, before));
        }
    }

    /// Whether nothing read has been folded since.
    pub(super) fn is_unfolded<S: Source>(&self, source: &S) -> bool {
        let is_as_before = |(place, before): &(u64, [u64; segment::RECORDS])| {
            let now = words::<_, { segment::RECORDS }>(source, *place);
            [segment::STATE, segment::FOLDED].iter().all(|&word| now[word] == before[word])
        };
        self.heads.iter().all(is_as_before)
    }

    pub(super) fn fold(mut self, contexts: &[ContextSeen], streams: &mut [StreamSeen]) {
        order::sort_by_key(&mut self.submissions, |submission| submission.operation.at);
        for Submission { stream, context, operation, returned } in self.submissions {
            let Ok(index) = streams.binary_search_by_key(&stream, |seen| seen.number) else { continue };
            let seen = &mut streams[index];
            if !seen.alive || seen.born > operation.at || seen.work.recent.contains(&operation) {
                continue;
            }
            let context = contexts.binary_search_by_key(&context, |seen| seen.number);
            let idle_until = context.map_or(0, |index| contexts[index].idle_until);
            seen.work.learn(operation, returned.max(operation.at), idle_until);
        }
    }
}
