//! The steps of a call, in the order in which the slow path (`hooks::call` of the shim) and the fast one ([`super::begin_fast`]) take them.
//!
//! Each path names a step where it has taken it. A build with debug assertions keeps the names, and a unit test of the shim compares both paths.
//!
//! Must not: cost the library that ships an instruction.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallStep {
    /// The thread is inside: from here on, what calls the driver on top of it passes untouched, and leaves the writers as they are.
    Enter,
    /// The record has everything that is known before the call.
    Write,
    /// The mark says that the call is in progress; a thread that sees the mark sees the record.
    Mark,
    /// The gate has let the call through. It is looked at behind the mark: of this thread and the one that closes the gate, one
    /// sees the other.
    Gate,
    /// The operation is counted among those submitted to its stream, before the driver can carry it out.
    Submit,
    /// The real function has been called, exactly once.
    Call,
    /// The record has the result, and is complete.
    Complete,
    /// The stream has the time of the submission, or knows that it was refused.
    Settle,
    /// The mark is gone. It goes behind `Settle`: a thread that finds no mark takes what the call means to be in the state.
    Unmark,
    /// The thread is outside.
    Leave,
}

impl CallStep {
    pub const ALL: [Self; 10] = [
        Self::Enter,
        Self::Write,
        Self::Mark,
        Self::Gate,
        Self::Submit,
        Self::Call,
        Self::Complete,
        Self::Settle,
        Self::Unmark,
        Self::Leave,
    ];

    #[inline(always)]
    pub fn taken(self) {
        #[cfg(debug_assertions)]
        TAKEN.set(TAKEN.get() << STEP_BITS | (self as u64 + 1));
    }

    /// The last sixteen steps that the calling thread has taken since it asked last.
    #[cfg(debug_assertions)]
    pub fn take_all() -> Vec<Self> {
        let taken = TAKEN.take();
        let steps = (0..u64::BITS / STEP_BITS).rev().map(|at| taken >> (at * STEP_BITS) & ((1 << STEP_BITS) - 1));
        steps.filter_map(|step| Self::ALL.get((step as usize).checked_sub(1)?).copied()).collect()
    }
}

#[cfg(debug_assertions)]
const STEP_BITS: u32 = 4;

#[cfg(debug_assertions)]
thread_local! {
    /// Four bits a step, the last one lowest.
    static TAKEN: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}
