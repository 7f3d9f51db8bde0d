//! The ranks of a job compared by their collectives: which rank is behind, and what it does instead.
//!
//! A rank's collectives are its launches of kernels that wait for peers, in the order of their submission. Where a rank hangs in one of
//! them, the others are asked about the collective of the same number: a rank that has not launched it is behind, one that has launched
//! another kernel as that number differs. The process that hangs is rarely the one to blame.
//!
//! Must not: guess. A rank whose oldest records have been overwritten is not compared, and is named. Communicators, sizes, and collectives
//! in graphs are not seen: a kernel's name and its number are all that is compared.

use super::collect::{Course, Process, Stood};
use super::hangs::ranks_in_words;
use lazyguard_core::api::{counted, ordinal, Call};
use lazyguard_core::diagnose::{Code, Culprit, ThreadActivity};
use lazyguard_core::report::HangReport;
use serde::Serialize;
use std::collections::BTreeMap;

/// The most ranks that are described one by one.
const MOST_DESCRIBED: usize = 8;

/// A rank that is not where the others are.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct OddRank {
    /// The rank.
    rank: u64,
    /// Its process.
    process: u32,
    /// How many collectives it has launched.
    launched: usize,
    /// The kernel that it launched as the collective of this number; null where it has launched none.
    kernel: Option<String>,
    /// What it does instead, as far as is known; null otherwise.
    doing: Option<String>,
}

/// A rank that has joined, and is blocked for a reason of its own: the others may wait for what it would do next.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct BlockedRank {
    /// The rank.
    rank: u64,
    /// Its process.
    process: u32,
    /// The code and the sentence of its verdict.
    why: String,
}

/// The ranks compared at the first collective in which one of them hangs.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Ranks {
    /// Which rank is to blame, in one sentence.
    pub sentence: String,
    /// The number of the collective among those of each rank; the first is 1.
    number: usize,
    /// Its kernel.
    kernel: String,
    /// The ranks that have not launched it.
    behind: Vec<OddRank>,
    /// The ranks that have launched another kernel as that number.
    different: Vec<OddRank>,
    /// The ranks that have launched it.
    joined: Vec<u64>,
    /// Those of them that are blocked for a reason of their own.
    blocked: Vec<BlockedRank>,
    /// The ranks that cannot be compared: without a recording, or with its oldest records overwritten.
    not_compared: Vec<u64>,
}

/// The hang of a process that has not ended by itself.
fn standing(process: &Process) -> Option<&HangReport> {
    match &process.stood {
        Some(Stood::Suspected(report)) => Some(report),
        _ => process.hang(),
    }
}

/// What a process hangs in, if that is a collective.
fn culprit(process: &Process) -> Option<&Culprit> {
    let culprits = standing(process)?.verdicts.iter().flat_map(|verdict| &verdict.culprits);
    culprits.into_iter().find(|culprit| culprit.operation.waits_for_peers())
}

/// Of each rank the process that counts: the newest one with collectives.
fn by_rank(processes: &[Process]) -> BTreeMap<u64, &Process> {
    let place = |process: &Process| (process.collectives.is_some(), process.armed_unix_nanos);
    let mut ranks: BTreeMap<u64, &Process> = BTreeMap::new();
    for process in processes {
        let Ok(rank) = process.rank.parse() else { continue };
        let known = ranks.entry(rank).or_insert(process);
        if place(process) > place(known) {
            *known = process;
        }
    }
    ranks
}

/// Compares the ranks of these processes. `None` where there are no two, or where none hangs in a collective.
pub(super) fn compare(processes: &[Process]) -> Option<Ranks> {
    let ranks = by_rank(processes);
    if ranks.len() < 2 {
        return None;
    }
    let can_be_compared =
        |process: &Process| process.is_read && process.collectives.as_ref().is_none_or(|all| all.complete);
    let complete = || ranks.values().copied().filter(|process| can_be_compared(process));
    let hangs_in = |process: &&Process| process.collectives.as_ref()?.index_at(culprit(process)?.operation.at);
    // Those before have ended. Of the later ones the first that not all ranks have launched is the one.
    let first = complete().filter_map(|process| hangs_in(&process)).min()?;
    let at = |index: usize| complete().map(move |process| process.collectives.as_ref()?.name(index));
    let agree = |index: usize| at(index).all(|its| its.is_some() && its == at(index).next().flatten());
    // Ranks of a pipeline, for one, run different collectives.
    if (0..first).any(|index| !agree(index)) {
        return None;
    }
    let most = complete().filter_map(|process| Some(process.collectives.as_ref()?.launches.len())).max()?;
    let index = (first..most).find(|index| !agree(*index)).unwrap_or(first);
    let kernel = most_common(at(index).flatten())?.to_owned();
    let answered = ranks.values().any(|process| process.course == Course::Killed && process.dump.is_some());
    let (mut behind, mut different, mut joined) = (Vec::new(), Vec::new(), Vec::new());
    let (mut blocked, mut not_compared) = (Vec::new(), Vec::new());
    for (&rank, process) in &ranks {
        let all = process.collectives.as_ref();
        let launched = all.map_or(0, |all| all.launches.len());
        let its = all.and_then(|all| all.name(index)).map(str::to_owned);
        let odd =
            |kernel| OddRank { rank, process: process.process, launched, kernel, doing: doing(process, answered) };
        match its {
            _ if !can_be_compared(process) => not_compared.push(rank),
            None => behind.push(odd(None)),
            Some(its) if its != kernel => different.push(odd(Some(its))),
            Some(_) => {
                joined.push(rank);
                let process_id = process.process;
                blocked.extend(own_verdict(process).map(|why| BlockedRank { rank, process: process_id, why }));
            }
        }
    }
    let sentence = sentence(index + 1, &kernel, &behind, &different, &joined);
    Some(Ranks { sentence, number: index + 1, kernel, behind, different, joined, blocked, not_compared })
}

/// The one that most have; of several the one that comes first.
fn most_common<'a>(names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for name in names {
        match counts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += 1,
            None => counts.push((name, 1)),
        }
    }
    let most = counts.iter().map(|(_, count)| *count).max()?;
    counts.iter().find(|(_, count)| *count == most).map(|(name, _)| *name)
}

fn named(odd: &[OddRank]) -> String {
    ranks_in_words(odd.iter().map(|odd| odd.rank).collect())
}

const fn have(ranks: usize) -> &'static str {
    if ranks == 1 {
        "has"
    } else {
        "have"
    }
}

fn sentence(number: usize, kernel: &str, behind: &[OddRank], different: &[OddRank], joined: &[u64]) -> String {
    let waits = match joined.len() {
        0 => String::new(),
        1 => format!("; {} waits in it", ranks_in_words(joined.to_vec())),
        _ => format!("; {} wait in it", ranks_in_words(joined.to_vec())),
    };
    if !behind.is_empty() {
        let doing = match behind {
            [OddRank { doing: Some(doing), .. }] => format!(", {doing}"),
            _ => String::new(),
        };
        let have = have(behind.len());
        return format!("{} {have} not launched collective {number} ({kernel}){doing}{waits}.", named(behind));
    }
    match different {
        [] => format!(
            "every rank that could be compared has launched the same collectives as far as collective {number} ({kernel}) and beyond, and they have not ended: \
             look at the network and the devices."
        ),
        [first, ..] => {
            let other = first.kernel.as_deref().unwrap_or_default();
            format!("{} {} launched {other} as collective {number}, which is {kernel}{waits}.", named(different), have(different.len()))
        }
    }
}

/// Why a process is blocked, where that is no collective.
fn own_verdict(process: &Process) -> Option<String> {
    let verdict = standing(process)?.verdicts.first().filter(|verdict| verdict.code != Code::LG208)?;
    Some(format!("{}: {}", verdict.code, verdict.sentence.trim_end_matches('.')))
}

/// What a rank does that has not joined.
fn doing(process: &Process, others_answered: bool) -> Option<String> {
    if let Some(why) = own_verdict(process) {
        return Some(format!("and is blocked: {why}"));
    }
    let ended_itself = match process.course {
        Course::Signalled(_) => true,
        Course::Killed => false,
        Course::Well | Course::Unknown => process.has_ended,
    };
    if ended_itself {
        return Some(format!("and {}", process.ended));
    }
    let report = process.stood.as_ref().map(|stood| stood.report());
    // The run has asked all of them right before it ended them. An older answer says nothing of this hang.
    if process.course != Course::Killed {
        return None;
    }
    let asked = process.dump.as_ref().map(|dump| &dump.hang);
    let Some(asked) = asked else {
        return (others_answered && report.is_none())
            .then(|| "and did not answer when it was asked for a report".to_owned());
    };
    if let Some(call) = call_in_progress(asked) {
        return Some(format!("and was in {call}"));
    }
    let python = report.into_iter().chain([asked]).find_map(|report| report.python.as_deref());
    Some(format!("and its main thread {}", main_thread(process, asked, python)))
}

/// The driver call that a process was in; polling is none.
fn call_in_progress(asked: &HangReport) -> Option<&Call> {
    asked.snapshot.blocked.iter().find(|call| call.queries.is_none()).map(|call| &call.call)
}

/// What the main thread of a process did that is in no driver call.
fn main_thread(process: &Process, asked: &HangReport, python: Option<&str>) -> String {
    if let Some(place) = python.and_then(python_place) {
        return format!("was at {place}");
    }
    let main = asked.snapshot.runnable.iter().find(|thread| thread.thread == process.process);
    match main.map(|main| main.doing) {
        Some(ThreadActivity::Running) => "was computing",
        Some(ThreadActivity::Sleeping) => "was sleeping",
        _ => "was waiting, in no driver call",
    }
    .to_owned()
}

/// What a process did that was ended without having been seen to hang, as far as it has answered.
pub(super) fn when_it_was_ended(process: &Process) -> Option<String> {
    let asked = &process.dump.as_ref()?.hang;
    let who = process.title();
    if process.course != Course::Killed || process.hang().is_some() {
        return None;
    }
    Some(match call_in_progress(asked) {
        Some(call) => format!("{who} was in {call} when it was ended"),
        None => format!("{who} had no hang: its main thread {}", main_thread(process, asked, asked.python.as_deref())),
    })
}

/// Parts of the paths of Python files that are not the program's.
const LIBRARIES: [&str; 4] = ["/lib/python", "/site-packages/", "/dist-packages/", "<frozen "];

/// Where the main thread of a Python program is, in the program's own code: `nccl_job.py:7 in main`. The interpreter writes that thread
/// last, innermost frame first.
fn python_place(stacks: &str) -> Option<String> {
    let begin = stacks.lines().rev().position(|line| line.contains("most recent call first"))?;
    let frames: Vec<_> = stacks.lines().rev().take(begin).collect();
    let frames = || frames.iter().rev().filter_map(|line| line.trim().strip_prefix("File \"")?.split_once("\", line "));
    let place = |(file, rest): (&str, &str)| {
        let (line, function) = rest.split_once(" in ")?;
        Some(format!("{}:{line} in {function}", file.rsplit('/').next().unwrap_or(file)))
    };
    let is_own = |(file, _): &(&str, &str)| !LIBRARIES.iter().any(|part| file.contains(part));
    let innermost = place(frames().next()?)?;
    match frames().find(is_own).and_then(place) {
        Some(own) if own != innermost => Some(format!("{own}, which has led to {innermost}")),
        _ => Some(innermost),
    }
}

impl Ranks {
    /// The sentence, and the ranks one by one, those that are odd first.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![self.sentence.clone()];
        for odd in self.behind.iter().chain(&self.different).take(MOST_DESCRIBED) {
            let kernel =
                odd.kernel.as_deref().map(|kernel| format!(", the {} of them {kernel}", ordinal(self.number as u64)));
            let doing = odd.doing.as_deref().map(|doing| format!(", {doing}"));
            lines.push(format!(
                "  rank {} (process {}): {}{}{}",
                odd.rank,
                odd.process,
                counted(odd.launched as u64, "collective"),
                kernel.unwrap_or_default(),
                doing.unwrap_or_default()
            ));
        }
        let more = (self.behind.len() + self.different.len()).saturating_sub(MOST_DESCRIBED);
        lines.extend((more > 0).then(|| format!("  and {}", counted(more as u64, "more rank"))));
        lines.extend(self.blocked.iter().take(MOST_DESCRIBED).map(|blocked| {
            let BlockedRank { rank, process, why } = blocked;
            format!("  rank {rank} (process {process}) has launched it and is blocked since: {why}")
        }));
        if !self.not_compared.is_empty() {
            let (ranks, have) = (ranks_in_words(self.not_compared.clone()), have(self.not_compared.len()));
            lines.push(format!(
                "  {ranks} {have} left no recording or lost records, and cannot be compared: a larger LAZYGUARD_RECORD keeps more"
            ));
        }
        lines.push("  compared by the names of kernels in the order of their launch; communicators, sizes and graphs are not seen".to_owned());
        lines
    }
}

#[cfg(test)]
#[path = "ranks_tests.rs"]
mod tests;
