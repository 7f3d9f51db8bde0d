//! Streams and what is submitted to them, as everything that follows a program names them.

use crate::Nanos;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What kind of stream a handle means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StreamKind {
    /// Created by the program, synchronizing with the legacy default stream.
    #[serde(rename = "blocking")]
    Blocking,
    /// Created by the program with `CU_STREAM_NON_BLOCKING`.
    #[serde(rename = "non-blocking")]
    NonBlocking,
    /// The legacy default stream of a context.
    #[serde(rename = "legacy default")]
    Legacy,
    /// A thread's own default stream.
    #[serde(rename = "per-thread default")]
    PerThread,
    /// A handle whose creation was not seen.
    #[serde(rename = "unknown", other)]
    Unknown,
}

impl StreamKind {
    /// In the order of the numbers that a recording has for them.
    const ALL: [Self; 5] = [Self::Unknown, Self::Blocking, Self::NonBlocking, Self::Legacy, Self::PerThread];

    /// The number that a recording has for it.
    pub fn number(self) -> u64 {
        Self::ALL.iter().position(|&k| k == self).unwrap_or(0) as u64
    }

    /// The kind that a recording has this number for.
    pub fn from_number(number: u64) -> Self {
        usize::try_from(number).ok().and_then(|n| Self::ALL.get(n).copied()).unwrap_or(Self::Unknown)
    }

    /// As a report names it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Blocking => "blocking",
            Self::NonBlocking => "non-blocking",
            Self::Legacy => "legacy default",
            Self::PerThread => "per-thread default",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for StreamKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// An operation submitted to a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// When the submitting call was entered.
    pub at: Nanos,
    /// The id of the submitting call's entry point.
    pub entry_point: u16,
    /// The function's number, or 0.
    pub function: u32,
}

/// Of what was submitted to a stream, the oldest operation that came after `until`; everything before that is complete.
///
/// `first` is the first one since the stream was last known to be idle, `recent` the newest ones in any order. Where part of
/// what was outstanding has completed, it is the oldest of the newest operations that is past that part; where a
/// synchronize overlapped the last submission, nothing is past it, and then the last one is what is outstanding.
pub fn oldest_outstanding(
    first: Operation,
    recent: impl Iterator<Item = Operation> + Clone,
    until: Nanos,
) -> Option<Operation> {
    if first.at > until {
        return Some(first);
    }
    recent.clone().filter(|op| op.at > until).min_by_key(|op| op.at).or_else(|| recent.max_by_key(|op| op.at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_written_as_a_report_names_it() {
        for kind in StreamKind::ALL {
            let json = serde_json::to_value(kind).unwrap();
            assert_eq!(json, kind.name());
            assert_eq!(serde_json::from_value::<StreamKind>(json).unwrap(), kind);
        }
        assert_eq!(serde_json::from_str::<StreamKind>("\"one to come\"").unwrap(), StreamKind::Unknown);
    }
}
