//! The result of a diagnosis.

use super::snapshot::{FedStream, OperationSeen, StreamRef};
use crate::api::Code;
use crate::Nanos;
use serde::{Deserialize, Serialize};

/// What does not end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Culprit {
    /// The stream it is on.
    pub stream: StreamRef,
    /// The operation.
    pub operation: OperationSeen,
}

/// How far a verdict can be relied on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// Nothing known contradicts it.
    #[default]
    Possible,
    /// What is known fits this pattern and no other; what a kernel waits for is not known.
    Likely,
    /// It follows from what was submitted: the program can no longer end it.
    Certain,
}

impl Confidence {
    pub fn name(self) -> &'static str {
        match self {
            Self::Possible => "possible",
            Self::Likely => "likely",
            Self::Certain => "certain",
        }
    }

    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Possible => "nothing that is known contradicts it; another cause is not excluded",
            Self::Likely => "what is known fits this pattern and no other; what a kernel waits for cannot be seen",
            Self::Certain => "it follows from what was submitted; nothing that the program can still do ends it",
        }
    }
}

/// A place in the record that a verdict rests on. The record is the one of this thread, or about this stream, whose call was
/// entered at this time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// What it shows.
    pub what: String,
    /// When the call was entered.
    pub at: Nanos,
    /// The thread that made it, where that is known.
    pub thread: Option<u32>,
    /// The number of the stream it was about.
    pub stream: Option<u32>,
}

/// A cause, with its chain and its remedy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The code.
    pub code: Code,
    /// What the code means.
    pub title: String,
    /// How far to rely on it.
    #[serde(default)]
    pub confidence: Confidence,
    /// The wait in one sentence, with its names.
    #[serde(default)]
    pub sentence: String,
    /// The operation that the culprits block, where that is one of another stream.
    pub held_back: Option<Culprit>,
    /// The blocked threads it explains.
    pub threads: Vec<u32>,
    /// The wait-for path, down to what does not end; one fact each.
    pub chain: Vec<String>,
    /// What does not end.
    pub culprits: Vec<Culprit>,
    /// Of a call that waits in vain for its context to be idle: the streams that are submitted to without a pause, the busiest
    /// first. Empty where something in flight does not end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fed: Vec<FedStream>,
    /// Where the record shows it.
    #[serde(default)]
    pub evidence: Vec<Evidence>,
    /// What to change, in the imperative; without a full stop, as one part of a line.
    pub fix: String,
}

/// Whether work stands still: for good, as far as is known, or only for long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Nothing is past the threshold, or nothing is in flight that it could be waiting for.
    #[default]
    Well,
    /// Something is waited for that may still end, or is seen to move.
    Slow,
    /// The standstill will not end by itself.
    Hang,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnosis {
    pub status: Status,
    /// Of a hang the causes, the root first.
    pub verdicts: Vec<Verdict>,
    /// Of something slow why it is not called a hang, and then what is waited for; one sentence each.
    pub slow: Vec<String>,
}
