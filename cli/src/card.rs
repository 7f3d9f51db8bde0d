//! What the card says of itself while a program runs: a stand-in that asks nothing.

use std::path::Path;

/// Asks, until it is stopped.
#[derive(Debug)]
pub(crate) struct Sampler;

impl Sampler {
    /// Begins to ask.
    pub(crate) fn start(_root: &Path) -> Self {
        Self
    }

    /// Writes what was said.
    pub(crate) fn stop(self) {}
}
