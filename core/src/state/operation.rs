//! An operation on a stream, and the place that remembers one.

use crate::Nanos;
use std::sync::atomic::{AtomicU64, Ordering};

/// An operation submitted to a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// When the submitting call was entered.
    pub at: Nanos,
    /// The submitting call, as an index into the forms.
    pub form: u16,
    /// The function's number, or 0.
    pub function: u32,
}

/// Remembers one operation; any thread may look at it at any time.
#[derive(Default)]
pub(super) struct OperationCell {
    at: AtomicU64,
    what: AtomicU64,
}

impl OperationCell {
    pub(super) fn store(&self, op: Operation) {
        // A reader that finds the old time with the new call, or the reverse, sees one wrong name in a report.
        self.what.store(u64::from(op.form) | u64::from(op.function) << 32, Ordering::Relaxed);
        self.at.store(op.at, Ordering::Relaxed);
    }

    pub(super) fn load(&self) -> Operation {
        let what = self.what.load(Ordering::Relaxed);
        Operation { at: self.at.load(Ordering::Relaxed), form: what as u16, function: (what >> 32) as u32 }
    }
}
