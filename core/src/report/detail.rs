//! How much of a report is printed.

use super::short_names::short_names;

/// How much of a report a person reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// Names shortened, Python's frames folded, and native frames only where there are none of Python.
    #[default]
    Short,
    /// Everything.
    Whole,
}

impl Detail {
    /// The lines with their names as long as they are to be.
    pub fn of(self, lines: impl IntoIterator<Item = String>) -> Vec<String> {
        let lines = lines.into_iter();
        match self {
            Self::Short => lines.map(|line| short_names(&line).into_owned()).collect(),
            Self::Whole => lines.collect(),
        }
    }
}
