//! What has come into a recording since it was last looked at, for the log of the same process.
//!
//! Must not: hold anybody up. What is overtaken before it is looked at is lost to the follower, and counted.

use super::layout;
use super::recorder::{Look, Owner, Recorder};
use super::{Lane, Record};

/// A record, and whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Followed {
    /// The thread.
    pub owner: Owner,
    /// Its record.
    pub record: Record,
}

#[derive(Default)]
struct LaneFollower {
    /// Up to where the hand has been followed.
    hand: u64,
    /// Segments that may still grow, with their use and how many of their records have been read.
    growing: Vec<(usize, u32, u32)>,
    /// Records read so far.
    read: u64,
}

/// Follows some lanes of a recording.
#[derive(Default)]
pub struct Follower {
    lanes: [LaneFollower; layout::LANES],
}

impl Follower {
    /// Hands every record that has become complete in a lane since the last time to `each`; those of one thread in order.
    pub fn follow(&mut self, recorder: &Recorder<'_>, lane: Lane, each: &mut dyn FnMut(Followed)) {
        let follower = &mut self.lanes[lane as usize];
        let (first, count) = recorder.segments_of(lane);
        let hand = recorder.counts(lane).hand;
        if count == 0 {
            return;
        }
        let mut looked_at = std::mem::take(&mut follower.growing);
        // Where the hand has gone round since, each segment is looked at once.
        for ticket in follower.hand.max(hand.saturating_sub(count as u64))..hand {
            let index = first + (ticket % count as u64) as usize;
            if let Some(look) = recorder.look(index) {
                if !looked_at.iter().any(|&(known, taken, _)| known == index && taken == look.taken()) {
                    looked_at.push((index, look.taken(), 0));
                }
            }
        }
        follower.hand = hand;
        for (index, taken, read) in looked_at {
            let Some(look) = recorder.look(index).filter(|look| look.taken() == taken) else { continue };
            let read_until = follower.read_segment(recorder, &look, read, each);
            if look.is_current() {
                follower.growing.push((index, taken, read_until));
            }
        }
    }

    /// How many complete records of a lane were never seen here. Exact when nothing is written meanwhile.
    pub fn lost(&self, recorder: &Recorder<'_>, lane: Lane) -> u64 {
        let follower = &self.lanes[lane as usize];
        let growing: u64 = follower
            .growing
            .iter()
            .filter_map(|&(index, taken, read)| {
                recorder.look(index).filter(|l| l.taken() == taken && l.is_current()).map(|_| u64::from(read))
            })
            .sum();
        recorder.counts(lane).given_up.saturating_sub(follower.read - growing)
    }
}

impl LaneFollower {
    fn read_segment(&mut self, recorder: &Recorder<'_>, look: &Look, from: u32, each: &mut dyn FnMut(Followed)) -> u32 {
        for number in from..look.length {
            let Some(words) = recorder.read(look, number) else { return number };
            self.read += 1;
            if let Some(record) = Record::from_words(&words) {
                each(Followed { owner: look.owner, record });
            }
        }
        look.length.max(from)
    }
}
