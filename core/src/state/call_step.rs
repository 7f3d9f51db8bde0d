//! The steps of a call, in the order in which every path takes them.
//!
//! The slow path (`hooks::call` of the shim) takes them for each driver call, the fast path ([`super::ThreadSlot::begin_fast`] and what
//! follows it) for a launch that is like an earlier one. Each path names a step where it has taken it. In a build for tests
//! (feature `call-steps`) the names are kept, and a test compares both paths with this list and what they leave behind with each
//! other; in every other build naming a step is nothing.

/// See the module.
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
    /// All of them, in their order.
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

    /// The calling thread has taken this step.
    #[inline(always)]
    pub fn taken(self) {
        #[cfg(feature = "call-steps")]
        TAKEN.with_borrow_mut(|taken| taken.push(self));
    }

    /// The steps that the calling thread has taken since it asked last.
    #[cfg(feature = "call-steps")]
    pub fn take_all() -> Vec<Self> {
        TAKEN.take()
    }
}

#[cfg(feature = "call-steps")]
thread_local! {
    static TAKEN: std::cell::RefCell<Vec<CallStep>> = const { std::cell::RefCell::new(Vec::new()) };
}
