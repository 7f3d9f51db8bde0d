//! A counted hazard: occurrences with the same code, kernel, call and class of stream are one.

use crate::api::{Code, StreamKind};
use crate::diagnose::{Confidence, ShownRecord};
use crate::report::json;
use crate::{order, Nanos};
use serde::{Deserialize, Serialize};

/// The class of a hazard's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StreamClass {
    /// No stream.
    None,
    /// The legacy default stream.
    Legacy,
    /// A thread's default stream.
    PerThread,
    /// Synchronizes with the legacy default stream.
    Blocking,
    /// Created with `CU_STREAM_NON_BLOCKING`.
    NonBlocking,
    /// Its creation was not seen.
    Unknown,
}

impl StreamClass {
    pub fn of(kind: Option<StreamKind>) -> Self {
        match kind {
            None => Self::None,
            Some(StreamKind::Legacy) => Self::Legacy,
            Some(StreamKind::PerThread) => Self::PerThread,
            Some(StreamKind::Blocking) => Self::Blocking,
            Some(StreamKind::NonBlocking) => Self::NonBlocking,
            Some(StreamKind::Unknown) => Self::Unknown,
        }
    }

    /// In the order of the variants: the variant, its number in records, its name, its words in a sentence.
    const TABLE: [(Self, u8, &'static str, &'static str); 6] = [
        (Self::None, 1, "none", "no stream"),
        (Self::Legacy, 5, "legacy", "the legacy default stream"),
        (Self::PerThread, 6, "per-thread", "a thread's own default stream"),
        (Self::Blocking, 3, "blocking", "a blocking stream"),
        (Self::NonBlocking, 4, "non-blocking", "a non-blocking stream"),
        (Self::Unknown, 2, "unknown", "a stream"),
    ];

    /// By the number in records; 0 for none.
    pub(super) fn from_number(number: u8) -> Option<Self> {
        Self::TABLE.iter().find(|row| row.1 == number).map(|row| row.0)
    }

    pub(super) const fn number(self) -> u8 {
        Self::TABLE[self as usize].1
    }

    /// As keys, suppressions and JSON spell it.
    pub const fn name(self) -> &'static str {
        Self::TABLE[self as usize].2
    }

    pub(super) const fn words(self) -> &'static str {
        Self::TABLE[self as usize].3
    }
}

/// A hazard's first occurrence.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirstOccurrence {
    /// When the call was entered.
    pub at: Nanos,
    /// The thread that made it.
    pub thread: u32,
    /// The call's stream number, or 0.
    pub stream: u32,
    /// The number of the stream in flight, or 0.
    pub other_stream: u32,
    /// That stream's kernel or call, or empty.
    pub other: String,
    /// When that was submitted, or 0.
    pub other_at: Nanos,
    /// How long the call blocked the host, if that is the hazard; else 0.
    pub held_nanos: Nanos,
    /// The return address, or 0; with `path` the outermost.
    pub caller: u64,
    /// The number of the recording's path to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<u16>,
    /// The same as a source or object position.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
}

/// All occurrences of one code with one kernel, call and class of stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hazard {
    /// The code.
    pub code: Code,
    /// The code's meaning.
    pub title: String,
    /// Whether the guard prevented it.
    pub prevented: bool,
    /// `possible`: nothing says that the work in flight waits. `likely`: it can wait for what comes later. `certain`: `lazyguard explore` made the
    /// hang. In `hazards.json` as far as the process knew; the reading commands weigh it by the recording.
    #[serde(default = "of_an_older_build")]
    pub confidence: Confidence,
    /// The reason for `likely`, or empty.
    #[serde(default)]
    pub because: String,
    /// The work in flight that can wait, where the records name it: hazards with the same are one cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<String>,
    /// The kernel, demangled.
    pub kernel: Option<String>,
    /// The driver call, without its symbol's version.
    pub call: String,
    /// The class of the call's stream.
    pub stream_class: StreamClass,
    /// How many.
    pub count: u64,
    /// Whether `count` is a lower bound.
    pub at_least: bool,
    /// A sentence about the first occurrence.
    pub what: String,
    /// The operations that must meet to hang.
    pub must_meet: Vec<String>,
    /// The records that show it.
    pub evidence: Vec<ShownRecord>,
    /// The change to make, in the imperative.
    pub fix: String,
    /// The first occurrence.
    pub first: FirstOccurrence,
}

/// Before hazards had a confidence, each failed a run.
fn of_an_older_build() -> Confidence {
    Confidence::Likely
}

impl Hazard {
    /// The same from run to run: `CODE|kernel|call|stream class`, and `|prevented` where it was.
    pub fn key(&self) -> String {
        key(self.code, self.kernel.as_deref(), &self.call, self.stream_class, self.prevented)
    }

    /// Whether a report tells the hazard by itself: one that was prevented, and one that is likely or certain. The others are counted.
    pub fn counts(&self) -> bool {
        self.prevented || self.confidence >= Confidence::Likely
    }
}

/// The key of a hazard with this demangled kernel.
pub(super) fn key(code: Code, kernel: Option<&str>, call: &str, class: StreamClass, prevented: bool) -> String {
    let prevented = if prevented { "|prevented" } else { "" };
    format!("{code}|{}|{call}|{}{prevented}", kernel.unwrap_or("-"), class.name())
}

/// `hazards.json`: the hazards of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HazardFile {
    /// 1; raised when a key changes its meaning or goes away.
    pub schema: u32,
    /// The process id.
    pub process: u32,
    /// The program's file name.
    pub program: String,
    /// The rank in the job, or empty.
    pub rank: String,
    /// By first occurrence.
    pub hazards: Vec<Hazard>,
    /// Occurrences beyond the list's capacity.
    pub overflow: u64,
}

impl HazardFile {
    /// The most bytes of its text.
    pub const MOST_BYTES: usize = 256 << 10;

    /// Its text, without the latest hazards that it has no room for: these are counted.
    pub fn text(mut self) -> String {
        loop {
            let text = json(&self);
            if text.len() <= Self::MOST_BYTES || self.hazards.is_empty() {
                return text;
            }
            let keep = (self.hazards.len() * Self::MOST_BYTES / text.len()).min(self.hazards.len() - 1);
            self.overflow += self.hazards.drain(keep..).map(|hazard| hazard.count).sum::<u64>();
        }
    }
}

/// Each once, with the greater count: a killed process may have recorded more than it had time to write down.
pub fn joined(mut of_file: Vec<Hazard>, of_recording: Vec<Hazard>) -> Vec<Hazard> {
    for hazard in of_recording {
        match of_file.iter_mut().find(|known| known.key() == hazard.key()) {
            Some(known) if known.count >= hazard.count => {}
            Some(known) => *known = hazard,
            None => of_file.push(hazard),
        }
    }
    order::sort_by_key(&mut of_file, |hazard| hazard.first.at);
    of_file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_does_not_depend_on_when_or_how_often() {
        assert_eq!(hazard(1, 5).key(), "LG101|void k<float, 4>(int*)|cuLaunchKernel|non-blocking");
        assert_eq!(hazard(1, 5).key(), hazard(7, 9).key());
        let class = serde_json::to_value(StreamClass::PerThread).unwrap();
        assert_eq!(class, StreamClass::PerThread.name());
    }

    #[test]
    fn a_file_has_room_for_so_many_and_counts_the_others() {
        let name = |n: u64| Some("k".repeat(n as usize));
        let hazards: Vec<_> = (0..1000).map(|n| Hazard { kernel: name(n), ..hazard(2, n) }).collect();
        let whole = HazardFile { hazards: hazards[..100].to_vec(), ..HazardFile::default() };
        assert_eq!(serde_json::from_str::<HazardFile>(&whole.clone().text()).unwrap(), whole);
        let text = HazardFile { hazards: hazards.clone(), overflow: 1, ..HazardFile::default() }.text();
        assert!((HazardFile::MOST_BYTES / 2..=HazardFile::MOST_BYTES).contains(&text.len()), "{}", text.len());
        let read: HazardFile = serde_json::from_str(&text).unwrap();
        assert_eq!(read.hazards, hazards[..read.hazards.len()], "the first ones");
        assert_eq!(read.overflow, 1 + 2 * (1000 - read.hazards.len() as u64));
        let one =
            HazardFile { hazards: vec![Hazard { kernel: name(1 << 20), ..hazard(3, 1) }], ..HazardFile::default() };
        assert_eq!(serde_json::from_str::<HazardFile>(&one.text()).unwrap().overflow, 3);
    }

    fn hazard(count: u64, at: Nanos) -> Hazard {
        Hazard {
            code: Code::LG101,
            title: Code::LG101.title().to_owned(),
            prevented: false,
            confidence: Confidence::Likely,
            because: String::new(),
            waits: None,
            kernel: Some("void k<float, 4>(int*)".to_owned()),
            call: "cuLaunchKernel".to_owned(),
            stream_class: StreamClass::NonBlocking,
            count,
            at_least: false,
            what: String::new(),
            must_meet: Vec::new(),
            evidence: Vec::new(),
            fix: String::new(),
            first: FirstOccurrence { at, ..FirstOccurrence::default() },
        }
    }
}
