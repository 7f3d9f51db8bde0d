//! The defects of a recording: the first ones, and how many there are; or why nothing can be read.

use crate::settings::MOST_RECORD_BYTES;
use crate::trace::layout::VERSION;
use std::{fmt, io};

const MOST_KEPT: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defect {
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
    pub kept: Vec<Defect>,
    pub count: u64,
}

impl Defects {
    /// The text is made only if it is kept.
    pub(super) fn note(&mut self, offset: u64, text: impl FnOnce() -> String) {
        self.count += 1;
        if self.kept.len() < MOST_KEPT {
            self.kept.push(Defect { offset, text: text() });
        }
    }
}

#[derive(Debug)]
pub enum Unreadable {
    NotARecording,
    /// Empty, or zero but for the first words of a header: nothing was recorded.
    NeverBegun,
    /// The version, and the LazyGuard that wrote it, if the header says so where this build's does.
    Version(u32, String),
    TooLarge(u64),
    Io(io::Error),
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotARecording => f.write_str("this is not a recording"),
            Self::NeverBegun => f.write_str(
                "nothing was recorded: the process was killed before anything was, while this recording was being made, or is making \
                 it just now",
            ),
            Self::Version(version, by) => {
                let by = if by.is_empty() { String::new() } else { format!(", written by LazyGuard {by}") };
                write!(f, "this is a recording of version {version}{by}; this build reads version {VERSION}")
            }
            Self::TooLarge(bytes) => {
                let most = MOST_RECORD_BYTES >> 30;
                write!(f, "this is no recording: it has {bytes} bytes, and a recording has {most} GiB at most")
            }
            Self::Io(error) => write!(f, "the recording cannot be read: {error}"),
        }
    }
}

impl std::error::Error for Unreadable {}
