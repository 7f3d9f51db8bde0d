//! Reads the records written to a lane since the last look: for the log of the same process, and for a reader of a living process's file.
//!
//! The hand of a lane says which segments may have been taken since; those, and the ones that may still grow, are looked at.
//!
//! Must not: block a writer, or hand out a record twice or in part. A record that is overwritten before it is read is counted.

use super::record::Record;
use super::{layout, Look, Owner, Recorder};
use crate::api::Lane;
use crate::map::HashMap;
use crate::order;
use std::ops::Range;

#[derive(Clone, Copy, Default)]
struct Progress {
    taken: u32,
    read: u32,
    /// Whether the hand has come by since: the next use may begin at any moment.
    awaited: bool,
}

#[derive(Default)]
pub(super) struct LaneFollower {
    hand: u64,
    progress: HashMap<usize, Progress>,
    /// Segments that may still grow or change their owner: the hand moves before a segment is taken.
    watched: Vec<usize>,
    read: u64,
    /// Records read in segments that still grow.
    growing: u64,
}

impl LaneFollower {
    /// Looks at the newest `most` segments past which the hand has come, and at those that may still grow. `read` reads the records of one from a
    /// number on, and returns how many.
    pub fn follow(
        &mut self,
        segments: Range<usize>,
        hand: u64,
        most: u64,
        look: impl Fn(usize) -> Option<Look>,
        mut read: impl FnMut(&Look, u32) -> u32,
    ) {
        let count = segments.len() as u64;
        // A hand that is behind the last one is nonsense, and so is a file that another process has begun anew.
        for ticket in self.hand.min(hand).max(hand.saturating_sub(count.min(most)))..hand {
            let index = segments.start + (ticket % count) as usize;
            self.progress.entry(index).or_default().awaited = true;
            self.watched.push(index);
        }
        self.hand = hand;
        self.watched.sort_unstable();
        self.watched.dedup();
        // In between two owners a segment shows nothing: the next one's records are read next time.
        let mut looks: Vec<_> = self.watched.iter().filter_map(|&index| look(index)).collect();
        order::sort_by_key(&mut looks, |look| (look.owner.number, look.first));
        self.growing = 0;
        let mut settled = Vec::new();
        for look in &looks {
            let progress = self.progress.entry(look.index).or_default();
            if look.taken != progress.taken {
                *progress = Progress { taken: look.taken, ..Progress::default() };
            }
            let count = if progress.read < look.length { read(look, progress.read) } else { 0 };
            progress.read += count;
            self.read += u64::from(count);
            if look.is_current {
                self.growing += u64::from(progress.read);
            } else if !progress.awaited && progress.read >= look.length {
                settled.push(look.index);
            }
        }
        settled.sort_unstable();
        self.watched.retain(|index| settled.binary_search(index).is_err());
    }

    /// Exact when nothing was written since the last look.
    pub fn lost(&self, released: u64) -> u64 {
        released.saturating_sub(self.read.saturating_sub(self.growing))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Followed {
    pub owner: Owner,
    pub record: Record,
}

#[derive(Default)]
pub struct Follower {
    lanes: [LaneFollower; layout::LANES],
}

impl Follower {
    /// Hands out every new complete record of a lane.
    pub fn follow(&mut self, recorder: &Recorder<'_>, lane: Lane, each: &mut dyn FnMut(Followed)) {
        let (first, count) = recorder.segments_of(lane);
        let read = |look: &Look, from: u32| {
            let words = (from..look.length).map_while(|number| recorder.read(look, number));
            let hand_out = |words: [u64; layout::record::WORDS]| {
                Record::from_words(&words).into_iter().for_each(|record| each(Followed { owner: look.owner, record }));
            };
            words.map(hand_out).count() as u32
        };
        let (hand, look) = (recorder.counts(lane).hand, |index| recorder.look(index));
        self.lanes[lane as usize].follow(first..first + count, hand, u64::MAX, look, read);
    }

    pub fn lost(&self, recorder: &Recorder<'_>, lane: Lane) -> u64 {
        self.lanes[lane as usize].lost(recorder.counts(lane).released)
    }
}
