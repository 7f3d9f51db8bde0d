//! Waits for values that no submitted write satisfies, as far as the guard knows.
//!
//! A wait that is submitted before the write that satisfies it blocks its stream until a thread submits that write. A wait is kept
//! from its submission until a write that satisfies it is submitted, or its stream is known to have passed it.
//!
//! Must not: grow without bound, or hold on to a wait that may be satisfied. Writes by kernels and copies are not seen here; the
//! caller looks for them.

use super::StreamClass;
use crate::api::{EntryPoint, Stores, ValueWait, ValueWrite};
use std::collections::VecDeque;

const MOST_WAITS: usize = 256;
const MOST_WRITES: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outstanding {
    pub wait: ValueWait,
    pub stream: u32,
    pub context: u32,
    pub class: StreamClass,
    /// The call that submitted it, its thread, and its return address or 0.
    pub entry_point: EntryPoint,
    pub thread: u32,
    pub caller: u64,
}

#[derive(Default)]
pub struct Waits {
    waits: Vec<Outstanding>,
    writes: VecDeque<ValueWrite>,
}

impl Waits {
    pub fn count(&self) -> usize {
        self.waits.len()
    }

    pub fn forget(&mut self, over: impl Fn(&Outstanding) -> bool) {
        self.waits.retain(|wait| !over(wait));
    }

    /// A wait was submitted. It is kept unless an earlier write to its address, or the content of the memory, satisfies it or
    /// may. Of several writes only the newest counts, if it precedes the wait on the wait's own stream or `is_done`; else the
    /// memory may pass through the value of an earlier one. `holds` is the content of the memory, if known; unknown memory
    /// may hold zero, its most likely initial value.
    pub fn submitted(&mut self, wait: Outstanding, holds: Option<u64>, is_done: impl Fn(&ValueWrite) -> bool) {
        let mut stands = None;
        for write in self.writes.iter().rev() {
            stands = match write.stores_for(&wait.wait) {
                Stores::Nothing => continue,
                Stores::Half => Some(false),
                Stores::All(value) if wait.wait.satisfied_by(value) => Some(false),
                Stores::All(_) if write.stream == wait.stream || is_done(write) => Some(true),
                Stores::All(_) => continue,
            };
            break;
        }
        let stands = stands.unwrap_or_else(|| !wait.wait.satisfied_by(holds.unwrap_or(0)));
        if stands && self.waits.len() < MOST_WAITS {
            // Capacity for all at the first: nothing allocates once the program runs.
            self.waits.reserve_exact(MOST_WAITS - self.waits.len());
            self.waits.push(wait);
        }
    }

    /// The waits of other streams that a newly submitted write satisfies.
    pub fn satisfied_by(&self, write: &ValueWrite) -> Vec<Outstanding> {
        let satisfied =
            |wait: &&Outstanding| wait.stream != write.stream && wait.wait.at < write.at && write.ends(&wait.wait);
        self.waits.iter().filter(satisfied).copied().collect()
    }

    /// A write was submitted: drops the waits that it satisfies, or may. A wait of its own stream comes before it.
    pub fn written(&mut self, write: &ValueWrite) {
        self.waits.retain(|wait| {
            wait.stream == write.stream
                || match write.stores_for(&wait.wait) {
                    Stores::Nothing => true,
                    Stores::All(value) => !wait.wait.satisfied_by(value),
                    Stores::Half => false,
                }
        });
        if self.writes.len() == MOST_WRITES {
            self.writes.pop_front();
        }
        self.writes.reserve_exact(MOST_WRITES - self.writes.len());
        self.writes.push_back(*write);
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
    fn submit(waits: &mut Waits, wait: Outstanding) {
        waits.submitted(wait, None, |_| true);
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
            waits.submitted(slot_is_empty, holds, |_| true);
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
            let mut waits = Waits::default();
            waits.written(&write(5, 2, 0x100, 1));
            waits.written(&write(6, newest_of, 0x100, 2));
            waits.submitted(equal(10, 1), None, |_| done);
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
            let mut waits = Waits::default();
            submit(&mut waits, wait(10, 1, 0x100, 1));
            assert_eq!(waits.satisfied_by(&write).len(), expect, "{write:?}");
        }
        let mut waits = Waits::default();
        submit(&mut waits, wait(10, 1, 0x100, 1));
        waits.written(&write(20, 2, 0x100, 1));
        assert!(waits.satisfied_by(&write(30, 2, 0x100, 2)).is_empty() && waits.count() == 0);
    }

    #[test]
    fn a_wait_whose_write_came_first_is_not_kept() {
        let mut waits = Waits::default();
        waits.written(&write(5, 2, 0x100, 3));
        submit(&mut waits, wait(10, 1, 0x100, 3));
        submit(&mut waits, wait(11, 1, 0x100, 4));
        let kept: Vec<_> = waits.of(|_| true).iter().map(|kept| kept.wait.value).collect();
        assert_eq!(kept, [4]);
        waits.written(&write(12, 2, 0x100, 0));
        submit(&mut waits, wait(13, 1, 0x100, 3));
        assert_eq!(waits.of(|_| true).len(), 2, "the newest write decides");
    }

    #[test]
    fn half_of_what_is_compared_decides_nothing() {
        let mut waits = Waits::default();
        let wide = |at| {
            let narrow = wait(at, 1, 0x100, 1);
            Outstanding { wait: ValueWait { wide: true, ..narrow.wait }, ..narrow }
        };
        submit(&mut waits, wide(10));
        assert!(waits.satisfied_by(&write(20, 2, 0x104, 1)).is_empty());
        waits.written(&write(20, 2, 0x104, 1));
        submit(&mut waits, wide(30));
        assert_eq!(waits.count(), 0);
    }

    #[test]
    fn what_is_kept_is_bounded_and_let_go_of() {
        let mut waits = Waits::default();
        for at in 1..5000 {
            submit(&mut waits, wait(at, 1, 0x10_0000 + at * 8, 1));
            waits.written(&write(at, 2, at * 8, 1));
        }
        assert_eq!((waits.waits.len(), waits.writes.len()), (MOST_WAITS, MOST_WRITES));
        waits.forget(|wait| wait.wait.at <= 200);
        assert_eq!(waits.of(|_| true).len(), MOST_WAITS - 200);
    }
}
