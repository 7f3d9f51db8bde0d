//! The hangs of a run, with the names and the source positions of each.

use super::process::Process;
use super::stood::Stood;
use crate::stacks::SourceLine;
use crate::words::first_of;
use lazyguard_core::api::counted;
use lazyguard_core::diagnose::{Code, Verdict};
use lazyguard_core::order::grouped;
use lazyguard_core::report::{Detail, HangReport};

pub(crate) struct HangSeen<'a> {
    pub process: &'a Process,
    pub report: &'a HangReport,
}

/// The hangs that did not resolve by themselves, in the order of the processes.
pub(crate) fn hangs(processes: &[Process]) -> Vec<HangSeen<'_>> {
    those(processes, |process, _| process.hang().is_some())
}

pub(crate) fn suspected(processes: &[Process]) -> Vec<HangSeen<'_>> {
    those(processes, |_, stood| matches!(stood, Stood::Suspected(_)))
}

/// Processes that submit no more.
pub(crate) fn stalled(processes: &[Process]) -> Vec<HangSeen<'_>> {
    those(processes, |_, stood| matches!(stood, Stood::Stalled(_)))
}

/// Slow waits, and hangs that are over.
pub(crate) fn passed(processes: &[Process]) -> Vec<HangSeen<'_>> {
    those(processes, |process, stood| process.hang().is_none() && matches!(stood, Stood::Slow(_) | Stood::Over(_)))
}

fn those(processes: &[Process], which: impl Fn(&Process, &Stood) -> bool) -> Vec<HangSeen<'_>> {
    let seen = |process| {
        let process: &Process = process;
        Some(HangSeen { process, report: process.stood.as_ref().filter(|stood| which(process, stood))?.report() })
    };
    processes.iter().filter_map(seen).collect()
}

pub(crate) struct SameHang<'a> {
    pub first: HangSeen<'a>,
    pub others: Vec<HangSeen<'a>>,
}

pub(crate) fn by_cause(hangs: Vec<HangSeen<'_>>) -> Vec<SameHang<'_>> {
    let same = |(_, mut same): (_, Vec<_>)| SameHang { first: same.remove(0), others: same };
    grouped(hangs, HangSeen::key).into_iter().map(same).collect()
}

pub(crate) fn gist(report: &HangReport) -> Option<String> {
    if let Some(stall) = &report.stall {
        return Some(stall.in_words());
    }
    report.verdicts.first().map(|verdict| format!("{}: {}", verdict.code, sentence(verdict)))
}

pub(crate) fn sentence(verdict: &Verdict) -> &str {
    [&verdict.title, &verdict.sentence][usize::from(!verdict.sentence.is_empty())]
}

impl SameHang<'_> {
    pub fn who(&self) -> String {
        who(&std::iter::once(&self.first).chain(&self.others).map(|hang| hang.process).collect::<Vec<_>>())
    }

    pub fn also_in(&self) -> Option<String> {
        (!self.others.is_empty()).then(|| format!("the same in {}", self.who()))
    }
}

/// Names the processes: `ranks 0-7 (8 processes)`, or where they have no ranks, the first ones by their names.
pub(crate) fn who(processes: &[&Process]) -> String {
    const MOST_NAMED: usize = 8;
    if let [only] = processes {
        return only.title();
    }
    let ranks: Option<Vec<u64>> = processes.iter().map(|process| process.rank.parse().ok()).collect();
    match ranks {
        Some(ranks) => format!("{} ({})", ranks_in_words(ranks), counted(processes.len() as u64, "process")),
        None => {
            let named = processes.iter().map(|process| process.title());
            first_of(named, MOST_NAMED, ", ", |more| format!("and {more} more"))
        }
    }
}

pub(crate) fn ranks_in_words(mut ranks: Vec<u64>) -> String {
    ranks.sort_unstable();
    ranks.dedup();
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for rank in ranks {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(rank) => *last = rank,
            _ => ranges.push((rank, rank)),
        }
    }
    let one = |(first, last): &(u64, u64)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    let word = if matches!(ranges[..], [(first, last)] if first == last) { "rank" } else { "ranks" };
    format!("{word} {}", ranges.iter().map(one).collect::<Vec<_>>().join(", "))
}

impl HangSeen<'_> {
    fn verdict(&self) -> Option<&Verdict> {
        self.named().verdicts.first()
    }

    pub fn code(&self) -> Code {
        self.verdict().map_or(Code::LG299, |verdict| verdict.code)
    }

    pub fn lines(&self, detail: Detail) -> Vec<String> {
        self.as_called(self.named().lines(self.process.newest, detail))
    }

    /// Lines of its report; one that is suspected is called that.
    pub fn as_called(&self, lines: Vec<String>) -> Vec<String> {
        self.process.stood.iter().fold(lines, |lines, stood| stood.as_called(lines))
    }

    /// Identifies a hang from run to run: the code, the operation that does not end, and the blocked call.
    pub fn key(&self) -> String {
        self.report.cause()
    }

    pub fn named(&self) -> &HangReport {
        self.process.names().report.as_ref().unwrap_or(self.report)
    }

    pub fn sentence(&self) -> &str {
        self.verdict().map_or(Code::LG299.title(), sentence)
    }

    pub fn steps(&self) -> impl Iterator<Item = String> + '_ {
        self.named().verdicts.iter().flat_map(|verdict| {
            let sentence = Some(verdict.sentence.clone()).filter(|said| !said.is_empty());
            sentence.into_iter().chain(verdict.chain.iter().cloned()).chain([format!("fix: {}", verdict.fix)])
        })
    }

    /// The program's line at which the first of the blocked threads entered the driver.
    pub fn line(&self) -> Option<SourceLine> {
        let threads = self.verdict().map_or(&[][..], |verdict| &verdict.threads);
        let stacks = self.process.names().stacks.iter().filter(|stack| threads.contains(&stack.thread));
        let mut frames = stacks.flat_map(|stack| &stack.frames).filter(|frame| frame.is_of_the_program());
        frames.find_map(|frame| Some(SourceLine { file: frame.file.as_ref()?.into(), line: frame.line? }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_that_follow_each_other_are_a_range() {
        for (ranks, expect) in [
            (vec![3], "rank 3"),
            (vec![7, 0, 1, 2, 3, 4, 5, 6], "ranks 0-7"),
            (vec![0, 1, 9, 4], "ranks 0-1, 4, 9"),
            (vec![u64::MAX], "rank 18446744073709551615"),
        ] {
            assert_eq!(ranks_in_words(ranks), expect);
        }
    }
}
