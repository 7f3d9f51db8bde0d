//! What was written to a recording since the follower last looked, for the log of the same process.
//!
//! Must not: block a writer. A record that is overwritten before the follower reads it is lost to the follower, and counted.

use super::layout;
use super::record::Record;
use super::{Look, Owner, Recorder};
use crate::api::Lane;
use crate::order;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Followed {
    pub owner: Owner,
    pub record: Record,
}

#[derive(Clone, Copy, Default)]
struct Progress {
    /// How often it had been taken.
    taken: u32,
    read: u32,
    /// Whether it is looked at each time.
    watched: bool,
    /// Whether the hand has come by since that use: the next one may be there any moment, or not until the hand comes again.
    awaited: bool,
}

#[derive(Default)]
struct LaneFollower {
    /// Up to where the hand has been followed.
    hand: u64,
    progress: Vec<Progress>,
    /// Segments that may still grow, or change their owner at any time: the hand moves before a segment is taken, not after.
    watched: Vec<usize>,
    read: u64,
}

#[derive(Default)]
pub struct Follower {
    lanes: [LaneFollower; layout::LANES],
}

impl Follower {
    /// Hands every record that has become complete in a lane since the last time to `each`; of those handed at once,
    /// one thread's in order.
    pub fn follow(&mut self, recorder: &Recorder<'_>, lane: Lane, each: &mut dyn FnMut(Followed)) {
        let follower = &mut self.lanes[lane as usize];
        let (first, count) = recorder.segments_of(lane);
        let hand = recorder.counts(lane).hand;
        follower.progress.resize(count, Progress::default());
        // Where the hand has gone round since, each segment is looked at once.
        for ticket in follower.hand.max(hand.saturating_sub(count as u64))..hand {
            let place = (ticket % count as u64) as usize;
            let progress = &mut follower.progress[place];
            progress.awaited = true;
            if !std::mem::replace(&mut progress.watched, true) {
                follower.watched.push(place);
            }
        }
        follower.hand = hand;
        // In between two owners a segment shows nothing: the next one's records are read next time.
        let mut looks: Vec<_> = follower.watched.iter().filter_map(|&place| recorder.look(first + place)).collect();
        order::sort_by_key(&mut looks, |look| (look.owner.number, look.first));
        looks.iter().for_each(|look| follower.read_on(recorder, look, look.index - first, each));
        let progress = &follower.progress;
        follower.watched.retain(|&place| progress[place].watched);
    }

    /// How many complete records of a lane were never seen here. Exact when nothing is written meanwhile.
    pub fn lost(&self, recorder: &Recorder<'_>, lane: Lane) -> u64 {
        let follower = &self.lanes[lane as usize];
        let (first, _) = recorder.segments_of(lane);
        let growing: u64 = follower
            .watched
            .iter()
            .filter_map(|&place| {
                let progress = follower.progress[place];
                let look = recorder.look(first + place)?;
                (look.taken() == progress.taken && look.is_current()).then_some(u64::from(progress.read))
            })
            .sum();
        recorder.counts(lane).released.saturating_sub(follower.read - growing)
    }
}

impl LaneFollower {
    fn read_on(&mut self, recorder: &Recorder<'_>, look: &Look, place: usize, each: &mut dyn FnMut(Followed)) {
        let mut progress = self.progress[place];
        if look.taken() != progress.taken {
            progress = Progress { taken: look.taken(), ..Progress::default() };
        }
        while progress.read < look.length {
            let Some(words) = recorder.read(look, progress.read) else { break };
            progress.read += 1;
            self.read += 1;
            if let Some(record) = Record::from_words(&words) {
                each(Followed { owner: look.owner, record });
            }
        }
        // What could not be read has been taken again meanwhile.
        progress.watched = progress.awaited || look.is_current() || progress.read < look.length;
        self.progress[place] = progress;
    }
}
