//! Jumps out of folds, for the tests of the tracker and those under loom.

use super::*;
use crate::state::Tracker;

impl Tracker {
    /// Leaves a fold of the slot `of` as a jump of the thread with the slot `by` does: before its first record, or all but counted.
    pub fn jump_out_of_a_fold(&self, of: u32, by: u32, is_done: bool) {
        let slot = self.thread(of).expect("a slot");
        assert!(slot.folding.is_won(by, Patience::Long));
        if let Some(now) = slot.current().filter(|_| is_done) {
            slot.fold_records(now.words, now.words[segment::FOLDED].load(Ordering::Relaxed)..now.length);
        }
    }
}
