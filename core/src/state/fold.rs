//! Brings launches of the fast path into their streams' entries, after the fact.
//!
//! A launch on the fast path writes its record alone, flagged `FOLDED_LATER`: the lines of its stream's entry are not on its path. The fold reads
//! such records in their order, and counts them in the segment's head. Every question about what streams are busy with folds first
//! ([`super::Tracker::fold`]). A thread folds its own records before it submits on the slow path, and before it leaves its segment.
//!
//! Protocol. One thread at a time folds a slot's records, in the slot's turn; the slot's thread takes its next segment in that turn as well. The
//! owner adds records meanwhile. A fold counts a record after the stream's entry has it: a process killed in between leaves one launch counted
//! twice, and none missing. The reader of a file folds the rest by the same rule ([`Submission`]). A launch in progress counts as submitted, and is
//! folded when it has returned.
//!
//! A turn takes a microsecond, but its thread may have lost its processor, be stopped by a debugger, have left the fold by a jump, or be missing in
//! a forked child. No thread waits longer than some milliseconds, and once for each such turn ([`Patience`]). The answer is then unknown: what may
//! be in flight counts as in flight, and a report says less. A thread that needs a new segment meanwhile drops its records, which is counted, and
//! launches on the slow path. A thread that ends keeps its slot and segments until another one begins and finds the turn free. A thread that has
//! left a fold by a jump gives the turn back when it next enters the guard from further out, or ends ([`super::Tracker::abandon`]).
//!
//! Must not: allocate, call the system but to let the turn's thread run, or take a turn of longer than a segment's records take.

use super::stream::Stream;
use super::thread::{ThreadSlot, NUMBER_AT};
use crate::sync::{fence, AtomicU64, Ordering, Patience};
use crate::trace::layout::{context as context_place, record, segment, stream as place};
use crate::trace::{Current, Lane, Recorder, Submission};
use crate::Nanos;
use std::ops::Range;

/// How often another thread looks again while the owner goes from launch to launch.
const LOOKS: u32 = 4;

/// The entry of a submission's stream, unless it is another stream's by now; and until when everything in the context is complete.
fn entry_of(recorder: &Recorder<'static>, submission: &Submission) -> Option<(Stream, Nanos)> {
    let entry = Stream::over(recorder.stream_entry((submission.stream as usize).checked_sub(1)?)?);
    let there = entry.alive() && entry.born() <= submission.operation.at;
    let context = (submission.context as usize).checked_sub(1).and_then(|index| recorder.context_entry(index));
    let idle_until = context.map_or(0, |words| words[context_place::IDLE_UNTIL].load(Ordering::Relaxed));
    there.then_some((entry, idle_until))
}

impl ThreadSlot {
    /// Folds the launches that the slot's thread has made since; for that thread, outside of a launch. If another thread keeps the turn, a later fold
    /// brings them in, as it does those of other threads.
    pub fn fold_launches(&self) {
        if self.has_unfolded() {
            self.folding.take(self.number, Patience::Short, || self.fold_current());
        }
    }

    /// The segment in which the slot's thread records launches.
    fn current(&self) -> Option<Current<'static>> {
        self.recorder.segment(&self.writers[Lane::Work as usize])
    }

    fn has_unfolded(&self) -> bool {
        // Acquire: partner of the Release in `fold_current`. A thread that finds a launch folded finds its stream's entry as the fold has left it.
        self.current().is_some_and(|now| now.length != now.words[segment::FOLDED].load(Ordering::Acquire))
    }

    /// The same for any thread, and the launch that the slot's thread is in. `by` is the number of the slot of the thread that asks, or 0.
    /// Returns whether what the slot's thread has launched is known now.
    pub(super) fn fold_from_outside(&self, by: u32) -> bool {
        // Most slots have nothing to fold. Acquire: partner of the Release with which a mark is cleared; what the thread has done before is
        // seen, the segment that it took as well.
        if self.mark_word().load(Ordering::Acquire) == 0 && !self.has_unfolded() {
            return true;
        }
        self.folding.take(by, Patience::Short, || self.fold_all()).is_some()
    }

    /// How many complete records of the slot's segment are not folded. Called outside the door, where nothing may panic: no index is.
    pub(super) fn unfolded(&self) -> u64 {
        let Some(now) = self.current() else { return 0 };
        now.length.saturating_sub(now.words.get(segment::FOLDED).map_or(0, |folded| folded.load(Ordering::Acquire)))
    }

    fn fold_all(&self) {
        for _ in 0..LOOKS {
            // The turn keeps the segment in its place.
            let Some(folded) = self.fold_current() else { return };
            // Acquire: partner of the Release with which marks are set and cleared. Records that were complete by then are seen now.
            let mark = self.mark_word().load(Ordering::Acquire);
            if self.current().is_none_or(|now| now.at != folded.at) {
                continue;
            }
            if self.open_lane(mark) != Some(Lane::Work) || (mark >> NUMBER_AT) as u32 != folded.at {
                return;
            }
            let Some(found) = in_progress(folded.words, folded.length) else { return };
            fence(Ordering::Acquire);
            if self.mark_word().load(Ordering::Relaxed) == mark {
                if let Some((entry, idle_until)) = entry_of(self.recorder, &found) {
                    entry.is_submitting(found.operation, idle_until);
                }
                return;
            }
        }
        // The thread goes from launch to launch: whatever is known of it is old by the time it is known.
    }

    /// Folds the complete records of the thread's segment, in the slot's turn; returns which they are.
    pub(super) fn fold_current(&self) -> Option<Current<'static>> {
        let now = self.current()?;
        let begin = now.words[segment::FOLDED].load(Ordering::Relaxed);
        self.fold_records(now.words, begin..now.length);
        if now.length != begin {
            now.words[segment::FOLDED].store(now.length, Ordering::Release);
        }
        Some(now)
    }

    fn fold_records(&self, words: &[AtomicU64], numbers: Range<u64>) {
        let mut rest = records(words, numbers).unwrap_or_default();
        while let Some((first, behind)) = rest.split_first() {
            // Most launches are on the stream of the one before, whose entry need not be read and written for each of them.
            let on_one_stream = match Submission::stream_of(first) {
                Some(stream) => rest.iter().take_while(|record| Submission::stream_of(record) == Some(stream)).count(),
                None => 0,
            };
            let (run, other) = rest.split_at_checked(on_one_stream).unwrap_or_default();
            rest = if fold_run(self.recorder, run) { other } else { behind };
        }
    }
}

/// Folds launches on one stream, in their thread's order. Returns `false`, and folds none, where there are none, or where the first one was
/// made before the stream came.
fn fold_run(recorder: &Recorder<'static>, run: &[[AtomicU64; record::WORDS]]) -> bool {
    let Some(first) = run.first().and_then(Submission::of_record) else { return false };
    let Some((entry, idle_until)) = entry_of(recorder, &first) else { return false };
    let (known, complete_until) = entry.submissions();
    let until = complete_until.max(idle_until);
    let mut learnt = known;
    let mut launches = run.iter();
    for record in launches.by_ref() {
        let Some(launch) = Submission::of_record(record) else { continue };
        learnt.learn(launch.operation, launch.returned, until);
        if launch.operation.at > until {
            break;
        }
    }
    // Launches behind one that is not proven complete are later, and so are not complete either.
    if let Some(last) = launches.as_slice().last() {
        learnt.learn_later(launches.len() as u64, last[record::RETURNED].load(Ordering::Relaxed));
    }
    // An entry keeps only the newest of more operations than it has room for.
    let number = known.count.wrapping_add(run.len() as u64);
    for (record, before) in run.iter().rev().zip(1..=place::RECENT_COUNT as u64) {
        let Some(launch) = Submission::of_record(record) else { continue };
        entry.put_recent(number.wrapping_sub(before), launch.operation);
    }
    entry.put_submissions(&known, &learnt);
    true
}

fn records(segment: &[AtomicU64], numbers: Range<u64>) -> Option<&[[AtomicU64; record::WORDS]]> {
    let (all, _) = segment.get(segment::RECORDS..)?.as_chunks();
    all.get(usize::try_from(numbers.start).ok()?..usize::try_from(numbers.end).ok()?)
}

/// The launch whose record of this segment has this number, and is not complete.
fn in_progress(segment: &[AtomicU64], number: u64) -> Option<Submission> {
    records(segment, number..number.checked_add(1)?)?.first().and_then(Submission::of_record)
}

#[cfg(any(test, loom))]
#[path = "fold_tests.rs"]
mod tests;
