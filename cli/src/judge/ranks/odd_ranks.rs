//! The ranks compared: which one is behind or differs, and the words for that.
//!
//! Must not: compare.

use super::doing::{doing, own_verdict, quiet, Asked};
use crate::judge::collectives::OF_A_GRAPH;
use crate::judge::hangs::ranks_in_words;
use crate::judge::process::Process;
use lazyguard_core::api::{counted, lasted, ordinal};
use lazyguard_core::order::grouped;
use lazyguard_core::report::{folded, Detail};
use lazyguard_core::stack::PythonFrame;
use serde::Serialize;

const MOST_DESCRIBED: usize = 8;
const REMARK_OF_PYTHON: &str = "    (python: ";

/// A rank that differs.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct OddRank {
    /// The rank.
    pub rank: u64,
    /// The process id.
    pub process: u32,
    /// Collectives that it launched, or called on the communicator.
    pub launched: u64,
    /// Its own collective of that number.
    pub collective: Option<String>,
    /// Its activity instead.
    pub doing: Option<String>,
    /// How long it had made no driver call when it was asked.
    pub quiet_nanos: Option<u64>,
    /// The main thread's stack outside driver calls, for the first such rank.
    pub stack: Vec<String>,
    /// Its frames of Python, the innermost first, for the first such rank.
    pub python: Vec<PythonFrame>,
}

/// A rank that joined and is blocked elsewhere.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct BlockedRank {
    /// The rank.
    pub rank: u64,
    /// The process id.
    pub process: u32,
    /// The code and sentence of its verdict.
    pub why: String,
}

impl BlockedRank {
    pub(crate) fn of(rank: u64, process: &Process) -> Option<Self> {
        Some(Self { rank, process: process.process, why: own_verdict(process)? })
    }
}

/// By what ranks are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ComparedBy {
    /// The calls of NCCL.
    #[default]
    Communicators,
    /// Kernel names in launch order.
    Kernels,
    /// The values in memory that ranks have in common.
    Memory,
}

/// A communicator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NamedCommunicator {
    /// In the report, from 0.
    pub number: usize,
    /// The program's name for it.
    pub name: Option<String>,
    /// How many ranks it has.
    pub size: Option<u32>,
}

/// Ranks in the same state.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct RankGroup {
    /// The ranks.
    pub ranks: Vec<u64>,
    /// Collectives that each has called.
    pub collectives: u64,
    /// The first call in which each waits.
    pub waits_in: Option<String>,
}

/// Ranks that wait in the same place, and are not to blame.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct RankCluster {
    /// The ranks.
    pub ranks: Vec<u64>,
    /// The call.
    pub call: String,
    /// The program's line, or null.
    pub place: Option<String>,
}

/// The ranks, compared at the collective in which they wait.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Ranks {
    /// The rank to blame.
    pub sentence: String,
    /// By what they are compared.
    pub compared_by: ComparedBy,
    /// Null unless compared by communicators, or if all calls are the same.
    pub communicator: Option<NamedCommunicator>,
    /// The collective's number, from 1.
    pub number: Option<u64>,
    /// Its kernel, or its call with arguments.
    pub collective: Option<String>,
    /// Ranks that have not launched or called it.
    pub behind: Vec<OddRank>,
    /// Ranks with another collective of that number.
    pub different: Vec<OddRank>,
    /// The ranks that have joined.
    pub joined: Vec<u64>,
    /// Ranks blocked for another reason, and not behind.
    pub blocked: Vec<BlockedRank>,
    /// The communicator's ranks by state, those behind first.
    pub groups: Vec<RankGroup>,
    /// The other ranks, by the place in which they wait.
    pub clusters: Vec<RankCluster>,
    /// Ranks without a usable recording.
    pub not_compared: Vec<u64>,
}

impl OddRank {
    pub(crate) fn of(rank: u64, process: &Process, launched: u64, collective: Option<String>, asked: &Asked) -> Self {
        let (doing, quiet_nanos) = (doing(process, asked), quiet(process, asked));
        let (process, stack, python) = (process.process, Vec::new(), Vec::new());
        Self { rank, process, launched, collective, doing, quiet_nanos, stack, python }
    }
}

impl OddRank {
    /// `  rank 1 (process 4242)`, as a line about it begins.
    pub(crate) fn and_process(&self) -> String {
        format!("  rank {} (process {})", self.rank, self.process)
    }

    /// Python's frames, and native ones where there are none of Python.
    fn stack_lines(&self, detail: Detail) -> Vec<String> {
        let frame = |frame: &PythonFrame| format!("at {}:{} in {}", frame.file, frame.line, frame.function);
        let python: Vec<_> = folded(&self.python, frame).into_iter().map(|line| format!("    {line}")).collect();
        // A stack that was seen from outside has Python's frames as remarks.
        let has_python = !python.is_empty() || self.stack.iter().any(|line| line.starts_with(REMARK_OF_PYTHON));
        let is_shown =
            |line: &&String| detail == Detail::Whole || !has_python || python.is_empty() && line.starts_with("    (");
        python.iter().chain(self.stack.iter().filter(is_shown)).cloned().collect()
    }
}

impl RankCluster {
    /// `ranks 0, 2-7 wait in the same place: cuStreamSynchronize at train.py:31`.
    fn in_words(&self) -> String {
        let place = self.place.as_deref().map(|place| format!(" at {place}")).unwrap_or_default();
        let who = ranks_in_words(self.ranks.clone());
        match self.ranks.len() {
            1 => format!("{who} waits in {}{place}", self.call),
            _ => format!("{who} wait in the same place: {}{place}", self.call),
        }
    }
}

/// The one of several things that most ranks have; of as many, the one that comes first.
pub fn most_common<T: PartialEq + Clone>(all: impl Iterator<Item = T>) -> Option<T> {
    grouped(all, T::clone).into_iter().rev().max_by_key(|(_, same)| same.len()).map(|(one, _)| one)
}

pub fn named(odd: &[OddRank]) -> String {
    ranks_in_words(odd.iter().map(|odd| odd.rank).collect())
}

pub fn have(ranks: usize) -> &'static str {
    ["have", "has"][usize::from(ranks == 1)]
}

pub fn wait(ranks: usize) -> &'static str {
    ["wait", "waits"][usize::from(ranks == 1)]
}

pub fn waits_in_it(joined: &[u64]) -> String {
    let words = || format!("; {} {} in it", ranks_in_words(joined.to_vec()), wait(joined.len()));
    (!joined.is_empty()).then(words).unwrap_or_default()
}

/// `rank 1 has not launched collective 14 (K), and was ended by a signal; ranks 0, 2 wait in it.` The end says what the others do.
pub fn behind_sentence(behind: &[OddRank], done: &str, others: &str) -> String {
    let doing = if let [OddRank { doing: Some(doing), .. }] = behind { format!(", {doing}") } else { String::new() };
    format!("{} {} not {done}{doing}{others}.", named(behind), have(behind.len()))
}

impl Ranks {
    pub fn new(sentence: String, compared_by: ComparedBy) -> Self {
        Self { sentence, compared_by, ..Self::default() }
    }

    /// Whether some rank is not where the others are, or is blocked by itself.
    pub const fn names_one(&self) -> bool {
        !self.behind.is_empty() || !self.different.is_empty() || !self.blocked.is_empty()
    }

    /// Whether a graph is among the collectives that they were compared at.
    pub(crate) fn is_of_a_graph(&self) -> bool {
        let its = self.odd().filter_map(|odd| odd.collective.as_ref());
        self.collective.iter().chain(its).any(|name| name.starts_with(OF_A_GRAPH))
    }

    /// The ranks that have a line each.
    fn described(&self) -> impl Iterator<Item = &OddRank> {
        self.odd().take(MOST_DESCRIBED)
    }

    /// A rank and its process, with what the sentence does not say.
    fn line_of(&self, odd: &OddRank) -> String {
        let launched = (self.compared_by != ComparedBy::Memory).then(|| counted(odd.launched, "collective"));
        let of_number = odd.collective.as_deref().zip(self.number);
        let collective = of_number.map(|(its, number)| format!("the {} of them {its}", ordinal(number)));
        let doing = odd.doing.as_deref().filter(|doing| !self.sentence.contains(doing));
        let quiet = odd.quiet_nanos.map(|nanos| format!("no driver call for {}", lasted(nanos)));
        let new: Vec<_> = launched.into_iter().chain(collective).chain(quiet).chain(doing.map(str::to_owned)).collect();
        match new.join(", ").trim_start_matches("and ") {
            "" => odd.and_process(),
            new => format!("{}: {new}", odd.and_process()),
        }
    }

    /// `None` where the sentence and the lines of the ranks say all of it.
    fn line_of_group(&self, group: &RankGroup) -> Option<String> {
        let has_line = |rank: &u64| {
            self.described().any(|odd| odd.rank == *rank && odd.launched == group.collectives)
                && group.waits_in.is_none()
        };
        let joined = group.ranks.iter().all(|rank| self.joined.contains(rank));
        let waits_in = group.waits_in.as_deref().filter(|within| !joined || !self.sentence.contains(within));
        let is_said =
            group.ranks.iter().all(has_line) || waits_in.is_none() && joined && self.number == Some(group.collectives);
        let within = waits_in.map(|within| format!(", waiting in {within}")).unwrap_or_default();
        let (ranks, called) = (ranks_in_words(group.ranks.clone()), counted(group.collectives, "collective"));
        (!is_said).then(|| format!("  {ranks}: {called} called{within}"))
    }

    /// The ranks that are not where the others are.
    pub(crate) fn odd(&self) -> impl Iterator<Item = &OddRank> {
        self.behind.iter().chain(&self.different)
    }

    pub fn lines(&self, detail: Detail) -> Vec<String> {
        let mut lines = vec![self.sentence.clone()];
        for odd in self.described() {
            lines.push(self.line_of(odd));
            lines.extend(odd.stack_lines(detail));
        }
        let more = (self.behind.len() + self.different.len()).saturating_sub(MOST_DESCRIBED);
        lines.extend((more > 0).then(|| format!("  and {}", counted(more as u64, "more rank"))));
        let is_new = |blocked: &&BlockedRank| detail == Detail::Whole || !self.sentence.contains(&blocked.why);
        lines.extend(self.blocked.iter().filter(is_new).take(MOST_DESCRIBED).map(|blocked| {
            let BlockedRank { rank, process, why } = blocked;
            let joined = if self.joined.contains(rank) { "has joined and " } else { "" };
            format!("  rank {rank} (process {process}) {joined}is blocked: {why}")
        }));
        lines.extend(self.groups.iter().take(MOST_DESCRIBED).filter_map(|group| self.line_of_group(group)));
        let more = self.groups.len().saturating_sub(MOST_DESCRIBED);
        lines.extend((more > 0).then(|| format!("  and {} of ranks in other states", counted(more as u64, "group"))));
        lines.extend(self.clusters.iter().take(MOST_DESCRIBED).map(|cluster| format!("  {}", cluster.in_words())));
        if !self.not_compared.is_empty() {
            let (ranks, have) = (ranks_in_words(self.not_compared.clone()), have(self.not_compared.len()));
            let why = "left no recording or lost records, and cannot be compared: a larger LAZYGUARD_RECORD keeps more";
            lines.push(format!("  {ranks} {have} {why}"));
        }
        lines.push(match self.compared_by {
            ComparedBy::Kernels => {
                "  compared by the names of kernels in the order of their launch, which is less than by NCCL's calls: those were not seen, \
                 nor communicators, sizes and graphs"
            }
            ComparedBy::Communicators => "  compared by the calls of NCCL on each communicator",
            ComparedBy::Memory => "  compared by the values that streams wait for and write in memory that ranks have in common",
        }.to_owned());
        detail.of(lines)
    }
}
