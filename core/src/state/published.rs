//! The call that a thread is in, as other threads see it: a driver call, or the call of NCCL around it.

use super::thread::{Caller, ThreadSlot, NUMBER_AT};
use crate::api::{EntryPoint, Lane};
use crate::sync::{fence, Ordering};
use crate::trace::layout::thread as place;
use crate::trace::{place_at, Record};
use crate::Nanos;

/// A call in progress, as another thread sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublishedCall {
    pub thread: u32,
    pub serial: u64,
    /// The address of the stack frame it was entered from.
    pub frame: usize,
    /// The caller's frame pointer register, or 0 where it is not known.
    pub frame_register: usize,
    pub record: Record,
}

/// How often a reader retries while the thread moves to its next call.
const LOOKS: u32 = 4;

impl ThreadSlot {
    /// The owner enters a call of NCCL; `false` if it is in one already, which made this one.
    pub fn enter_outer(&self, entry_point: EntryPoint, communicator: u32, caller: Caller, now: Nanos) -> bool {
        // A call that was left by a jump or an exception is further in than its successor: see `abandoned`.
        if self.get(place::OUTER) != 0 && (caller.stack as u64) < self.get(place::OUTER_STACK) {
            return false;
        }
        self.set(place::OUTER_ENTERED, now);
        self.set(place::OUTER_STACK, caller.stack as u64);
        // Release: partner of the Acquire in `outer`.
        let outer = u64::from(entry_point.id()) | u64::from(communicator) << 32;
        self.entry[place::OUTER].store(outer, Ordering::Release);
        true
    }

    pub fn leave_outer(&self) {
        self.set(place::OUTER, 0);
    }

    /// The call of NCCL that the thread is in: which, its communicator's number, or 0, and when it was entered.
    pub fn in_nccl(&self) -> Option<(EntryPoint, u32, Nanos)> {
        let outer = self.entry[place::OUTER].load(Ordering::Acquire);
        Some((EntryPoint::by_id(outer as u16)?, (outer >> 32) as u32, self.get(place::OUTER_ENTERED)))
    }

    fn outer(&self, thread: u32, serial: u64) -> Option<PublishedCall> {
        let outer = self.entry[place::OUTER].load(Ordering::Acquire);
        let entry_point = EntryPoint::by_id(outer as u16).filter(|_| self.in_use())?;
        let record = Record { entered: self.get(place::OUTER_ENTERED), ..Record::of(entry_point) };
        let call =
            PublishedCall { thread, serial, frame: self.get(place::OUTER_STACK) as usize, frame_register: 0, record };
        fence(Ordering::Acquire);
        (self.get(place::OUTER) == outer).then_some(call)
    }

    pub fn published(&self) -> Option<PublishedCall> {
        for _ in 0..LOOKS {
            // Two calls may have the same mark, one after the other: a call that leaves no record does not use its number up, and
            // each thread begins anew. So the thread and its count of calls must not change either. Acquire: partner of the fences
            // behind the end of a mark; a reader that sees the new number does not see the former mark.
            let who = self.entry[place::WHO].load(Ordering::Acquire);
            let serial = self.entry[place::CALLS].load(Ordering::Acquire);
            let thread = (who >> 32) as u32;
            let call = self.under_mark(thread, serial).or_else(|| self.outer(thread, serial));
            fence(Ordering::Acquire);
            if self.get(place::CALLS) == serial && self.get(place::WHO) == who {
                return call;
            }
        }
        // The thread moves from call to call, so it is not stuck.
        None
    }

    fn under_mark(&self, thread: u32, serial: u64) -> Option<PublishedCall> {
        if !self.in_use() {
            return None;
        }
        let mark = self.entry[place::MARK].load(Ordering::Acquire);
        if mark == 0 {
            return None;
        }
        let words = match self.open_lane(mark) {
            None => self.spare().each_ref().map(|word| word.load(Ordering::Relaxed)),
            Some(lane) => {
                let writer = &self.writers[lane as usize];
                // Acquire: as that of a length. The cursor has passed a call that has returned and whose mark is about to go.
                let cursor = writer.cursor();
                let number = if lane == Lane::Work { cursor.at() as u64 } else { writer.number_at(cursor) };
                let is_open = number as u32 == (mark >> NUMBER_AT) as u32;
                let place = place_at(cursor, self.places).filter(|_| is_open)?;
                place.each_ref().map(|word| word.load(Ordering::Relaxed))
            }
        };
        let call = PublishedCall {
            thread,
            serial,
            frame: self.get(place::STACK) as usize,
            frame_register: self.get(place::FRAME) as usize,
            record: Record::from_words(&words)?,
        };
        // The fence keeps the reads above from moving below the second look.
        fence(Ordering::Acquire);
        (self.get(place::MARK) == mark).then_some(call)
    }
}
