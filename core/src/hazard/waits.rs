//! Waits for values that no submitted write satisfies, as far as the guard knows.
//!
//! A wait that is submitted before its write blocks its stream until a thread submits that write. A wait is kept until a write that satisfies
//! it is submitted, or its stream has passed it.
//!
//! Must not: grow without bound, or keep a wait that may be satisfied. The caller looks for writes by kernels and copies.

use super::StreamClass;
use crate::api::{EntryPoint, Stores, ValueWait, ValueWrite};
use std::ops::BitXor;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

const MOST_WAITS: usize = 256;
const MOST_WRITES: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outstanding {
    pub wait: ValueWait,
    pub stream: u32,
    pub context: u32,
    pub class: StreamClass,
    pub entry_point: EntryPoint,
    pub thread: u32,
    pub caller: u64,
}

#[derive(Default)]
pub struct Waits {
    waits: Vec<Outstanding>,
}

/// The newest submitted writes. Any thread adds one without a lock: a reader drops a place that holds words of two writes.
pub struct Writes {
    next: AtomicUsize,
    /// Time, address, value, stream and width, and a word that makes their exclusive or 0.
    places: [[AtomicU64; WORDS]; MOST_WRITES],
}

const WORDS: usize = 5;
/// In the word of the stream.
const WIDE: u64 = 1 << 32;

impl Default for Writes {
    fn default() -> Self {
        Self { next: AtomicUsize::new(0), places: [const { [const { AtomicU64::new(0) }; WORDS] }; MOST_WRITES] }
    }
}

impl Writes {
    /// Reserves an empty place for a write that is about to be submitted.
    #[inline]
    pub fn reserve(&self) -> usize {
        let place = self.next.fetch_add(1, Ordering::Relaxed) % MOST_WRITES;
        self.places[place][0].store(0, Ordering::Relaxed);
        place
    }

    #[inline]
    pub fn put(&self, place: usize, write: &ValueWrite) {
        let Some(place) = self.places.get(place) else { return };
        let words = [write.at, write.address, write.value, u64::from(write.stream) | if write.wide { WIDE } else { 0 }];
        let check = words.into_iter().fold(0, BitXor::bitxor);
        place.iter().zip(words.into_iter().chain([check])).for_each(|(to, word)| to.store(word, Ordering::Relaxed));
    }

    fn newest(&self) -> impl Iterator<Item = ValueWrite> + '_ {
        let next = self.next.load(Ordering::Relaxed);
        (1..=next.min(MOST_WRITES)).filter_map(move |back| {
            let words = self.places[(next - back) % MOST_WRITES].each_ref().map(|word| word.load(Ordering::Relaxed));
            let [at, address, value, of_stream, _] = words;
            let is_one = at != 0 && words.into_iter().fold(0, BitXor::bitxor) == 0;
            is_one.then_some(ValueWrite { at, address, value, stream: of_stream as u32, wide: of_stream & WIDE != 0 })
        })
    }
}

impl Waits {
    pub fn count(&self) -> usize {
        self.waits.len()
    }

    pub fn forget(&mut self, over: impl Fn(&Outstanding) -> bool) {
        self.waits.retain(|wait| !over(wait));
    }

    /// Keeps a wait unless an earlier write or the content of the memory satisfies it or may. Only the newest write counts, if it precedes the
    /// wait on the wait's own stream or `is_done`. Unknown memory (`holds`) may hold zero.
    pub fn submitted(
        &mut self,
        wait: Outstanding,
        holds: Option<u64>,
        writes: &Writes,
        is_done: impl Fn(&ValueWrite) -> bool,
    ) {
        let mut stands = None;
        for write in writes.newest() {
            stands = match write.stores_for(&wait.wait) {
                Stores::Nothing => continue,
                Stores::Half => Some(false),
                Stores::All(value) if wait.wait.satisfied_by(value) => Some(false),
                Stores::All(_) if write.stream == wait.stream || is_done(&write) => Some(true),
                Stores::All(_) => continue,
            };
            break;
        }
        if stands.unwrap_or_else(|| !wait.wait.satisfied_by(holds.unwrap_or(0))) && self.waits.len() < MOST_WAITS {
            // Nothing allocates once the program runs.
            self.waits.reserve_exact(MOST_WAITS - self.waits.len());
            self.waits.push(wait);
        }
    }

    /// Waits of other streams.
    pub fn satisfied_by(&self, write: &ValueWrite) -> Vec<Outstanding> {
        let satisfied =
            |wait: &&Outstanding| wait.stream != write.stream && wait.wait.at < write.at && write.ends(&wait.wait);
        self.waits.iter().filter(satisfied).copied().collect()
    }

    /// Drops the waits that a write satisfies, or may. A wait of its own stream comes before it.
    pub fn written(&mut self, write: &ValueWrite) {
        let may_end = |wait: &ValueWait| write.ends(wait) || write.stores_for(wait) == Stores::Half;
        self.waits.retain(|wait| wait.stream == write.stream || !may_end(&wait.wait));
    }

    pub fn of(&self, concerns: impl Fn(&Outstanding) -> bool) -> Vec<Outstanding> {
        self.waits.iter().filter(|wait| concerns(wait)).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(at: u64, stream: u32, address: u64, value: u64) -> Outstanding {
        Outstanding {
            wait: ValueWait { at, address, value, flags: 0, wide: false },
            stream,
            context: 1,
            class: StreamClass::NonBlocking,
            entry_point: EntryPoint::by_symbol(b"cuStreamWaitValue32").unwrap(),
            thread: 7,
            caller: 0,
        }
    }

    fn write(at: u64, stream: u32, address: u64, value: u64) -> ValueWrite {
        ValueWrite { at, address, value, stream, wide: false }
    }

    /// All writes are done by then.
    fn submit((waits, writes): &mut (Waits, Writes), wait: Outstanding) {
        waits.submitted(wait, None, writes, |_| true);
    }

    fn written((waits, writes): &mut (Waits, Writes), write: ValueWrite) {
        waits.written(&write);
        writes.put(writes.reserve(), &write);
    }

    #[test]
    fn a_wait_for_what_memory_holds_already_is_not_kept() {
        // (the value waited for, what the memory is known to hold, whether the wait is unsatisfied)
        for (value, holds, expect) in
            [(0, None, false), (1, None, true), (0, Some(0), false), (0, Some(2), true), (5, Some(5), false)]
        {
            let mut waits = Waits::default();
            let slot_is_empty =
                Outstanding { wait: ValueWait { flags: 1, ..wait(10, 1, 0x100, value).wait }, ..wait(10, 1, 0, 0) };
            waits.submitted(slot_is_empty, holds, &Writes::default(), |_| true);
            assert_eq!(waits.count() == 1, expect, "{value} in {holds:?}");
        }
    }

    #[test]
    fn a_write_that_is_not_done_leaves_what_came_before_it_for_a_while() {
        let equal = |at, value| Outstanding {
            wait: ValueWait { flags: 1, ..wait(at, 1, 0x100, value).wait },
            ..wait(at, 1, 0x100, value)
        };
        for (newest_of, done, expect) in [(2, false, false), (2, true, true), (1, false, true)] {
            let mut both = Default::default();
            written(&mut both, write(5, 2, 0x100, 1));
            written(&mut both, write(6, newest_of, 0x100, 2));
            let (waits, writes) = &mut both;
            waits.submitted(equal(10, 1), None, writes, |_| done);
            assert_eq!(waits.count() == 1, expect, "the newest on stream {newest_of}, done: {done}");
        }
    }

    #[test]
    fn a_wait_is_met_once_by_a_later_write_of_another_stream() {
        for (write, expect) in [
            (write(20, 2, 0x100, 1), 1),
            (write(20, 1, 0x100, 1), 0), // stands behind the wait
            (write(20, 2, 0x104, 1), 0), // goes elsewhere
            (write(20, 2, 0x100, 0), 0), // is not what is waited for
            (write(9, 2, 0x100, 1), 0),  // was submitted before
        ] {
            let mut both = Default::default();
            submit(&mut both, wait(10, 1, 0x100, 1));
            assert_eq!(both.0.satisfied_by(&write).len(), expect, "{write:?}");
        }
        let mut both = Default::default();
        submit(&mut both, wait(10, 1, 0x100, 1));
        written(&mut both, write(20, 2, 0x100, 1));
        assert!(both.0.satisfied_by(&write(30, 2, 0x100, 2)).is_empty() && both.0.count() == 0);
    }

    #[test]
    fn a_wait_whose_write_came_first_is_not_kept() {
        let mut both = Default::default();
        written(&mut both, write(5, 2, 0x100, 3));
        submit(&mut both, wait(10, 1, 0x100, 3));
        submit(&mut both, wait(11, 1, 0x100, 4));
        let kept: Vec<_> = both.0.of(|_| true).iter().map(|kept| kept.wait.value).collect();
        assert_eq!(kept, [4]);
        written(&mut both, write(12, 2, 0x100, 0));
        submit(&mut both, wait(13, 1, 0x100, 3));
        assert_eq!(both.0.of(|_| true).len(), 2, "the newest write decides");
    }

    #[test]
    fn words_of_two_writes_are_none() {
        let (one, other) = (Writes::default(), Writes::default());
        one.put(one.reserve(), &ValueWrite { wide: true, ..write(5, 2, 0x100, u64::MAX) });
        other.put(other.reserve(), &write(6, 3, 0x200, 1));
        assert_eq!(one.newest().collect::<Vec<_>>(), [ValueWrite { wide: true, ..write(5, 2, 0x100, u64::MAX) }]);
        for (word, of_other) in one.places[0].iter().zip(&other.places[0]) {
            let before = word.swap(of_other.load(Ordering::Relaxed), Ordering::Relaxed);
            assert_eq!(one.newest().count(), 0);
            word.store(before, Ordering::Relaxed);
        }
        assert_eq!(one.newest().count(), 1);
        (0..MOST_WRITES).for_each(|_| _ = one.reserve());
        assert_eq!(one.newest().count(), 0, "what is not submitted yet is none, nor is what was there before");
    }

    #[test]
    fn half_of_what_is_compared_decides_nothing() {
        let mut both = Default::default();
        let wide = |at| {
            let narrow = wait(at, 1, 0x100, 1);
            Outstanding { wait: ValueWait { wide: true, ..narrow.wait }, ..narrow }
        };
        submit(&mut both, wide(10));
        assert!(both.0.satisfied_by(&write(20, 2, 0x104, 1)).is_empty());
        written(&mut both, write(20, 2, 0x104, 1));
        submit(&mut both, wide(30));
        assert_eq!(both.0.count(), 0);
    }

    #[test]
    fn what_is_kept_is_bounded_and_let_go_of() {
        let mut both = Default::default();
        for at in 1..5000 {
            submit(&mut both, wait(at, 1, 0x10_0000 + at * 8, 1));
            written(&mut both, write(at, 2, at * 8, 1));
        }
        assert_eq!((both.0.waits.len(), both.1.newest().count()), (MOST_WAITS, MOST_WRITES));
        both.0.forget(|wait| wait.wait.at <= 200);
        assert_eq!(both.0.of(|_| true).len(), MOST_WAITS - 200);
    }
}
