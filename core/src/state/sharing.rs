//! The memory and the events that other processes may have too, as the recording has them.
//!
//! Must not: be asked on the path of a submission.

use super::Tracker;
use crate::api::SharedMemory;
use crate::sync::lock;
use crate::Nanos;
use std::sync::atomic::Ordering;

/// So many are known at once. The recording counts one more as a text that found no room.
const MOST: usize = 1024;

impl Tracker {
    /// A handle was made for this memory or event, or has opened it.
    pub fn shares(&self, memory: SharedMemory, now: Nanos) {
        let mut known = lock(&self.shared.by_handle);
        if known.contains(&memory) {
            return;
        }
        if known.len() >= MOST {
            self.recorder.count_lost_text();
            return;
        }
        self.shared.has_handles.store(true, Ordering::Relaxed);
        memory.follows(&mut known);
        self.recorder.add_shared(now, &memory);
    }

    /// The memory at this address was released, or the event with this handle destroyed.
    pub fn shares_no_more(&self, address: u64, now: Nanos) {
        if !self.shared.has_handles.load(Ordering::Relaxed) {
            return;
        }
        let mut known = lock(&self.shared.by_handle);
        if let Some(former) = known.iter().find(|one| one.address == address).copied() {
            self.ends(former, &mut known, now);
        }
    }

    /// The shared mappings at this moment. One that has a handle is known by that.
    pub fn has_mapped(&self, mappings: impl Iterator<Item = SharedMemory>, now: Nanos) {
        let mut known = lock(&self.shared.mapped);
        let by_handle = lock(&self.shared.by_handle).clone();
        let has_none = |mapped: &SharedMemory| !by_handle.iter().any(|known| known.overlaps(mapped));
        let now_there: Vec<_> = mappings.filter(has_none).take(MOST).collect();
        for former in known.clone().into_iter().filter(|former| !now_there.contains(former)) {
            self.ends(former, &mut known, now);
        }
        for new in now_there {
            if !known.contains(&new) {
                new.follows(&mut known);
                self.recorder.add_shared(now, &new);
            }
        }
    }

    fn ends(&self, former: SharedMemory, known: &mut Vec<SharedMemory>, now: Nanos) {
        let ended = SharedMemory { identity: 0, ..former };
        ended.follows(known);
        self.recorder.add_shared(now, &ended);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::read::Recording;

    fn memory(address: u64, identity: u64) -> SharedMemory {
        SharedMemory { address, bytes: 0x1000, identity, offset: 0 }
    }

    fn recorded(tracker: &Tracker) -> Vec<SharedMemory> {
        Recording::open(tracker.recorder()).unwrap().strings().shared.clone()
    }

    #[test]
    fn a_recording_has_what_is_shared_and_each_fact_once() {
        let tracker = Tracker::default();
        tracker.shares_no_more(0x1000, 1);
        let all = [memory(0x1000, 7), memory(0x9000, 8)];
        for _ in 0..3 {
            all.iter().for_each(|one| tracker.shares(*one, 2));
            tracker.has_mapped([memory(0x20_0000, 9)].into_iter(), 3);
        }
        assert_eq!(recorded(&tracker), [all[0], all[1], memory(0x20_0000, 9)]);
        let bytes = || Recording::open(tracker.recorder()).unwrap().strings().bytes;
        assert_eq!(bytes(), 3 * 6 * 8);
        tracker.shares_no_more(0x1000, 4);
        tracker.shares_no_more(0x1000, 5);
        tracker.has_mapped([memory(0x30_0000, 9)].into_iter(), 6);
        assert_eq!(recorded(&tracker), [memory(0x9000, 8), memory(0x30_0000, 9)]);
        assert_eq!(bytes(), 6 * 6 * 8);
        tracker.has_mapped([memory(0x30_0000, 9), memory(0x9800, 10)].into_iter(), 7);
        assert_eq!(bytes(), 6 * 6 * 8, "one that has a handle is known by that");
    }

    #[test]
    fn a_program_that_shares_without_end_is_counted_and_leaves_room_for_names() {
        let tracker = Tracker::default();
        (0..2 * MOST as u64).for_each(|n| tracker.shares(memory(0x1000 * (n + 1), n + 1), n));
        let recording = Recording::open(tracker.recorder()).unwrap();
        assert!(recording.strings().shared.len() <= MOST && !recording.strings().shared.is_empty());
        assert_eq!(recording.facts().texts_lost + recording.strings().shared.len() as u64, 2 * MOST as u64);
    }
}
