//! Looks at one process, one after the other: each with the one before is evidence.
//!
//! Must not: look at a clock, or sleep: the caller does both.

use super::{Depth, Evidence, Look};
use crate::Nanos;

/// The newest look at a process, and when it was made.
#[derive(Debug, Default)]
pub struct Looks(Option<(Look, Nanos)>);

impl Looks {
    /// The evidence of this look and the one before, with the time between them.
    pub fn add(&mut self, look: Look, at: Nanos) -> Option<(Evidence, Nanos)> {
        let found = self.0.as_ref().map(|(before, then)| {
            let between = at.saturating_sub(*then);
            (Evidence::of(before, &look, between), between)
        });
        self.0 = Some((look, at));
        found
    }

    /// When the newest look was made.
    pub fn newest(&self) -> Option<Nanos> {
        self.0.as_ref().map(|(_, at)| *at)
    }
}

/// Two looks as deep as no lock of the process can delay, and the second one again with its memory: for a thread that may have to be abandoned in that.
/// `take` looks, `now` is a clock, `pause` sleeps between the two. `found` gets the evidence of each depth, down to the deepest.
pub fn in_two_looks(
    take: &dyn Fn(Depth) -> Look,
    now: &dyn Fn() -> Nanos,
    pause: impl FnOnce(),
    deepest: Depth,
    found: &mut dyn FnMut(Depth, Evidence),
) {
    let (before, begun) = (take(Depth::Kernel), now());
    pause();
    let compared = |depth| {
        let look = take(depth);
        Evidence::of(&before, &look, now().saturating_sub(begun))
    };
    let mut first = compared(Depth::Kernel);
    first.lacks.push("its memory could not be read in time".to_owned());
    found(Depth::Kernel, first);
    if deepest == Depth::Memory {
        found(Depth::Memory, compared(Depth::Memory));
    }
}
