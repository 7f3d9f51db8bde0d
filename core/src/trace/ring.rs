//! A ring of records with one producer and one consumer.
//!
//! Protocol: the owning thread alone calls [`Ring::push`]; one reader at a time calls [`Ring::pop`]. `written` and `read`
//! only grow; a record lies at its number modulo the capacity. The producer stores the words, then `written` with
//! Release; the consumer loads `written` with Acquire (its partner), reads the words, then stores `read` with Release;
//! the producer loads `read` with Acquire (its partner) before it writes over a place.

use super::record::{Record, WORDS};
use std::sync::atomic::{AtomicU64, Ordering};

/// See the module's protocol.
pub struct Ring {
    words: Box<[[AtomicU64; WORDS]]>,
    written: AtomicU64,
    read: AtomicU64,
    dropped: AtomicU64,
}

impl Ring {
    /// A ring for `capacity` records, rounded up to a power of two.
    pub fn new(capacity: usize) -> Self {
        let words = (0..capacity.max(2).next_power_of_two()).map(|_| Default::default()).collect();
        Self { words, written: AtomicU64::new(0), read: AtomicU64::new(0), dropped: AtomicU64::new(0) }
    }

    fn place(&self, number: u64) -> &[AtomicU64; WORDS] {
        // The capacity is a power of two, so the mask keeps the index inside.
        &self.words[number as usize & (self.words.len() - 1)]
    }

    /// Adds a record; when the reader is a whole ring behind, drops and counts it instead.
    pub fn push(&self, record: &Record) {
        let number = self.written.load(Ordering::Relaxed);
        if number.wrapping_sub(self.read.load(Ordering::Acquire)) >= self.words.len() as u64 {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        for (to, word) in self.place(number).iter().zip(record.to_words()) {
            to.store(word, Ordering::Relaxed);
        }
        self.written.store(number.wrapping_add(1), Ordering::Release);
    }

    /// Takes the oldest record.
    pub fn pop(&self) -> Option<Record> {
        let number = self.read.load(Ordering::Relaxed);
        if number == self.written.load(Ordering::Acquire) {
            return None;
        }
        let mut words = [0; WORDS];
        for (word, from) in words.iter_mut().zip(self.place(number)) {
            *word = from.load(Ordering::Relaxed);
        }
        self.read.store(number.wrapping_add(1), Ordering::Release);
        Record::from_words(&words)
    }

    /// How many records found no room so far.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Kind;
    use super::*;
    use crate::api::Form;

    fn record(n: u64) -> Record {
        Record {
            entered: n,
            returned: n + 1,
            form: Form::by_symbol(b"cuLaunchKernel").unwrap(),
            kind: Kind::ColdFunction,
            result: -7,
            thread: 77,
            context_id: 0xfeed_0001,
            stream_id: 3,
            function_id: u32::MAX,
            detail: [n, u64::MAX, 0],
        }
    }

    #[test]
    fn records_come_out_as_they_went_in_and_in_order() {
        let ring = Ring::new(8);
        for round in 0..5 {
            for n in 0..8 {
                ring.push(&record(round * 8 + n));
            }
            for n in 0..8 {
                assert_eq!(ring.pop(), Some(record(round * 8 + n)));
            }
            assert_eq!(ring.pop(), None);
        }
        assert_eq!(ring.dropped(), 0);
    }

    #[test]
    fn what_finds_no_room_is_counted_and_what_was_there_stays() {
        let ring = Ring::new(4);
        for n in 0..7 {
            ring.push(&record(n));
        }
        assert_eq!(ring.dropped(), 3);
        assert_eq!((0..5).map_while(|_| ring.pop()).map(|r| r.entered).collect::<Vec<_>>(), [0, 1, 2, 3]);
    }

    #[test]
    fn a_producer_and_a_consumer_on_two_threads_lose_nothing_unaccounted() {
        let ring = Ring::new(64);
        let total = 200_000;
        let taken = std::thread::scope(|scope| {
            let consumer = scope.spawn(|| {
                let (mut taken, mut last) = (0, None);
                loop {
                    match ring.pop() {
                        Some(r) if r.entered == u64::MAX => return taken,
                        Some(r) => {
                            assert!(last < Some(r.entered) && r == record(r.entered));
                            last = Some(r.entered);
                            taken += 1;
                        }
                        None => std::thread::yield_now(),
                    }
                }
            });
            for n in 0..total {
                ring.push(&record(n));
            }
            let mut end = record(0);
            end.entered = u64::MAX;
            let before = ring.dropped();
            loop {
                let dropped = ring.dropped();
                ring.push(&end);
                if ring.dropped() == dropped {
                    break;
                }
                std::thread::yield_now();
            }
            (consumer.join().unwrap(), before)
        });
        assert_eq!(taken.0 + taken.1, total);
    }
}
