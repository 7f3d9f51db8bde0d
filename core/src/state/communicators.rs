//! The communicators of NCCL that the process is a member of. Their entries lie in the recording's header.
//!
//! Protocol: the thread that makes a communicator takes an entry with one compare-and-swap on the handle before it calls NCCL, and stores
//! the handle last, with Release. NCCL's rule that one thread at a time uses a communicator orders the rest. A communicator for which there is no
//! entry is not followed, which the recording counts.
//!
//! Must not: allocate, lock, or call NCCL.

use crate::sync::{AtomicU64, Ordering};
use crate::trace::layout::communicator as place;
use crate::trace::{rank_of, Recorder};
use crate::Nanos;

type Words = &'static [AtomicU64; place::WORDS];

/// In the word of the other counts: one send or receive; splits are counted in the low half.
const ONE_SEND: u64 = 1 << 32;

#[derive(Clone, Copy)]
pub struct Communicators {
    recorder: &'static Recorder<'static>,
}

#[derive(Clone, Copy)]
pub struct Communicator {
    /// Its number, from 1.
    pub number: u32,
    words: Words,
}

impl Communicators {
    pub(super) const fn of(recorder: &'static Recorder<'static>) -> Self {
        Self { recorder }
    }

    fn all(self) -> impl Iterator<Item = Communicator> {
        let recorder = self.recorder;
        (0..).map_while(move |index| {
            Some(Communicator { number: index as u32 + 1, words: recorder.communicator_entry(index)? })
        })
    }

    /// Whether the process is, or was, a rank of a communicator with others.
    pub fn any_with_peers(self) -> bool {
        let mut used = self.all().take_while(|one| one.get(place::HANDLE) != 0);
        used.any(|one| one.ranks() > 1)
    }

    /// Those that are made, have not ended, and have other ranks.
    pub fn with_peers(self) -> impl Iterator<Item = Communicator> {
        let used = self.all().take_while(|one| one.get(place::HANDLE) != 0);
        let is_made = |one: &Communicator| one.get(place::HANDLE) > place::NO_HANDLE && one.get(place::ENDED) == 0;
        used.filter(move |one| is_made(one) && one.ranks() > 1)
    }

    /// Those that were made with this id, also where they have ended.
    pub fn with_id(self, id: u64) -> impl Iterator<Item = Communicator> {
        let used = self.all().take_while(|one| one.get(place::HANDLE) != 0);
        used.filter(move |one| one.get(place::HANDLE) > place::BEING_TAKEN && one.id() == id)
    }

    /// The rank that the launcher set; else that in the largest communicator, where the process has one rank there.
    pub fn rank(self, given: &str) -> String {
        rank_of(given, self.with_peers().map(|one| one.get(place::RANK)).map(|word| (word as u32, (word >> 32) as u32)))
    }

    /// The communicator with this handle that has not ended.
    #[inline]
    pub fn find(self, handle: u64) -> Option<Communicator> {
        // Entries are taken in their order, so the first free one is behind all others.
        let mut used = self.all().take_while(|one| one.get(place::HANDLE) != 0);
        used.find(|one| one.words[place::HANDLE].load(Ordering::Acquire) == handle && one.get(place::ENDED) == 0)
    }

    /// Takes an entry for a communicator that is about to be made, without a handle and a rank as yet. If no entry is free, the communicator that ended
    /// longest ago loses its own.
    pub fn begin(self, id: u64, now: Nanos) -> Option<Communicator> {
        let Some(one) = self.take() else {
            self.recorder.count_without_entry();
            return None;
        };
        for (word, value) in [
            (place::ID, id),
            (place::RANK, 0),
            (place::BORN, now),
            (place::ENDED, 0),
            (place::COLLECTIVES, 0),
            (place::LAST, 0),
            (place::OTHERS, 0),
        ] {
            one.words[word].store(value, Ordering::Relaxed);
        }
        // Release: a reader that sees the entry taken sees its content.
        one.words[place::HANDLE].store(place::NO_HANDLE, Ordering::Release);
        Some(one)
    }

    pub fn made(self, one: Communicator, handle: u64, now: Nanos) {
        // A handle that is given out again is another communicator's.
        if let Some(former) = self.find(handle) {
            former.end(now);
        }
        // Release: partner of the Acquire in `find`.
        one.words[place::HANDLE].store(handle, Ordering::Release);
    }

    fn take(self) -> Option<Communicator> {
        let claim = |one: &Communicator, found: u64| {
            let word = &one.words[place::HANDLE];
            word.compare_exchange(found, place::BEING_TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
        };
        if let Some(free) = self.all().find(|one| one.get(place::HANDLE) == 0 && claim(one, 0)) {
            return Some(free);
        }
        let ended = self.all().filter(|one| one.get(place::HANDLE) > place::BEING_TAKEN && one.get(place::ENDED) != 0);
        let oldest = ended.min_by_key(|one| one.get(place::ENDED))?;
        claim(&oldest, oldest.get(place::HANDLE)).then_some(oldest)
    }
}

impl Communicator {
    fn get(&self, word: usize) -> u64 {
        self.words[word].load(Ordering::Relaxed)
    }

    /// The same number in all ranks.
    pub fn id(&self) -> u64 {
        self.get(place::ID)
    }

    pub fn handle(&self) -> u64 {
        self.words[place::HANDLE].load(Ordering::Acquire)
    }

    /// How many ranks it has; 0 before that is known.
    pub fn ranks(&self) -> u32 {
        (self.get(place::RANK) >> 32) as u32
    }

    pub fn has_rank(&self) -> bool {
        self.get(place::RANK) != 0
    }

    /// The process's rank in it, and how many ranks it has.
    pub fn set_rank(&self, rank: u32, ranks: u32) {
        self.words[place::RANK].store(u64::from(rank) | u64::from(ranks) << 32, Ordering::Relaxed);
    }

    /// It is destroyed, or aborted.
    pub fn end(&self, now: Nanos) {
        self.words[place::ENDED].store(now, Ordering::Relaxed);
    }

    /// A collective is called: its number among them.
    pub fn count_collective(&self, now: Nanos) -> u32 {
        self.words[place::LAST].store(now, Ordering::Relaxed);
        self.words[place::COLLECTIVES].fetch_add(1, Ordering::Relaxed) as u32 + 1
    }

    /// NCCL has refused the newest collective, so that it counts for nothing.
    pub fn refused_collective(&self) {
        self.words[place::COLLECTIVES].fetch_sub(1, Ordering::Relaxed);
    }

    /// The numbers of the newest collective, and of the newest send or receive.
    pub fn newest(&self) -> (u32, u32) {
        (self.get(place::COLLECTIVES) as u32, (self.get(place::OTHERS) >> 32) as u32)
    }

    /// A send or receive is called: its number among them.
    pub fn count_send(&self) -> u32 {
        (self.words[place::OTHERS].fetch_add(ONE_SEND, Ordering::Relaxed) >> 32) as u32 + 1
    }

    pub fn count_split(&self) -> u32 {
        self.words[place::OTHERS].fetch_add(1, Ordering::Relaxed) as u32 + 1
    }
}

#[cfg(test)]
mod tests {
    use crate::state::Tracker;
    use crate::trace::layout::header::COMMUNICATOR_COUNT;

    #[test]
    fn those_with_peers_are_made_and_have_not_ended() {
        let all = Tracker::default().communicators();
        let begun = |id: u64, ranks: u32| {
            let one = all.begin(id, 1).unwrap();
            one.set_rank(0, ranks);
            one
        };
        let (pair, alone, ended) = (begun(7, 2), begun(8, 1), begun(9, 4));
        begun(10, 2);
        for (one, handle) in [(pair, 0x100), (alone, 0x200), (ended, 0x300)] {
            all.made(one, handle, 2);
        }
        ended.end(3);
        let found: Vec<_> = all.with_peers().map(|one| (one.id(), one.handle())).collect();
        assert_eq!(found, [(7, 0x100)], "not one that is alone, has ended, or is being made");
    }

    #[test]
    fn a_handle_means_its_newest_communicator_and_entries_of_ended_ones_are_used_again() {
        let all = Tracker::default().communicators();
        let made = |handle: u64, id: u64, at: u64| {
            let one = all.begin(id, at)?;
            all.made(one, handle, at);
            Some(one)
        };
        let first = made(0x100, 7, 10).unwrap();
        assert_eq!((first.number, first.count_collective(11), first.count_collective(12)), (1, 1, 2));
        first.refused_collective();
        assert_eq!(
            (first.count_collective(13), first.count_split(), first.count_send(), first.count_send()),
            (2, 1, 1, 2)
        );
        assert_eq!(first.newest(), (2, 2));
        let again = made(0x100, 8, 20).unwrap();
        assert_eq!((again.number, all.find(0x100).unwrap().id(), again.count_collective(21)), (2, 8, 1));
        assert!(!again.has_rank());
        again.set_rank(0, 1);
        assert!(again.has_rank() && !all.any_with_peers());
        again.set_rank(0, 4);
        assert!(all.any_with_peers());
        for other in 2..COMMUNICATOR_COUNT as u64 {
            assert!(made(0x1000 + other, other, 30 + other).is_some());
        }
        // The first one ended at 20; then there is none to be had.
        assert_eq!(made(0x9000, 9, 100).map(|one| one.number), Some(1));
        assert!(made(0x9100, 9, 101).is_none());
        assert!(all.find(0x9100).is_none() && all.find(0).is_none());
    }
}
