//! The result of a diagnosis.

use super::operation::{FedStream, OperationSeen, StreamRef};
use crate::api::Code;
use crate::Nanos;
use serde::{Deserialize, Serialize};

/// An operation that does not end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Culprit {
    /// Its stream.
    pub stream: StreamRef,
    /// The operation.
    pub operation: OperationSeen,
}

/// How reliable a verdict is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// Nothing known contradicts it.
    #[default]
    Possible,
    /// The facts fit this pattern alone; the reason of a kernel's wait is unknown.
    Likely,
    /// It follows from the submissions: the program cannot end the wait.
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

/// A record behind a verdict, named by time and thread or stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownRecord {
    /// The fact.
    pub what: String,
    /// When the call was entered.
    pub at: Nanos,
    /// The thread that made it.
    pub thread: Option<u32>,
    /// The stream's number.
    pub stream: Option<u32>,
}

impl ShownRecord {
    pub(crate) fn new(what: impl Into<String>, at: Nanos, thread: Option<u32>, stream: Option<u32>) -> Self {
        Self { what: what.into(), at, thread, stream }
    }
}

/// A cause, its wait-for path and its fix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The code.
    pub code: Code,
    /// The code's meaning.
    pub title: String,
    /// How reliable it is.
    pub confidence: Confidence,
    /// The wait in one sentence.
    pub sentence: String,
    /// The operation that the culprits block, on another stream.
    pub held_back: Option<Culprit>,
    /// The blocked threads it explains.
    pub threads: Vec<u32>,
    /// The wait-for path, a fact each.
    pub chain: Vec<String>,
    /// The operations that do not end.
    pub culprits: Vec<Culprit>,
    /// Streams that keep receiving work while a call waits for their context.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fed: Vec<FedStream>,
    /// The records that show it.
    pub evidence: Vec<ShownRecord>,
    /// The change to make, in the imperative.
    pub fix: String,
}

/// Whether work stands still.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// No call is past the threshold.
    #[default]
    Well,
    /// A wait may still end.
    Slow,
    /// The standstill will not end by itself.
    Hang,
    /// Nothing is in flight, and the process submits no more.
    Stalled,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnosis {
    pub status: Status,
    /// The causes of a hang, the root first.
    pub verdicts: Vec<Verdict>,
    /// Why something slow is no hang, and what it waits for; a sentence each.
    pub slow: Vec<String>,
}
