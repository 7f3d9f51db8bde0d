//! What did not make sense in a recording: the first of it, and how much.

use std::fmt;

const MOST_KEPT: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defect {
    /// In bytes.
    pub offset: u64,
    pub text: String,
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: {}", self.offset, self.text)
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Defects {
    kept: Vec<Defect>,
    count: u64,
}

impl Defects {
    /// The text is made only if it is kept.
    pub(super) fn note(&mut self, offset: u64, text: impl FnOnce() -> String) {
        self.count += 1;
        if self.kept.len() < MOST_KEPT {
            self.kept.push(Defect { offset, text: text() });
        }
    }

    pub(super) fn kept(&self) -> &[Defect] {
        &self.kept
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }
}
