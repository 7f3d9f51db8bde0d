//! Judges the hazards of all processes as one list: which are suppressed, which a baseline knows, and which make the run fail.

use super::explored::Explored;
use super::fail_on::FailOn;
use super::process::Process;
use super::suppress::Suppression;
use crate::stacks::SourceLine;
use lazyguard_core::diagnose::{Code, Confidence};
use lazyguard_core::hazard::{messages, Hazard};
use lazyguard_core::order;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The word of `lazyguard explore` for a hazard of which it made a hang.
pub(crate) const PROVOKED: &str = "provoked";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    New,
    Known,
    /// Each occurrence is suppressed, by these lines: `FILE:LINE: TEXT`.
    Suppressed(Vec<String>),
}

impl Status {
    pub fn word(&self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Known => "known",
            Self::Suppressed(_) => "suppressed",
        }
    }
}

/// A process with a hazard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct MetByProcess {
    /// The name of its folder.
    pub folder: String,
    /// The process id.
    pub process: u32,
    /// The program's file name.
    pub program: String,
    /// The rank in the job, or empty.
    pub rank: String,
    /// The process's occurrences.
    pub count: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub key: String,
    /// The occurrence that came first in all the run, with the counts of all processes.
    pub hazard: Hazard,
    pub line: Option<SourceLine>,
    pub met_by: Vec<MetByProcess>,
    pub status: Status,
    pub fails: bool,
    pub explored: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Rules {
    pub fail_on: FailOn,
    pub suppressions: Vec<Suppression>,
    pub baseline: Option<BTreeSet<String>>,
}

/// All hazards: those that fail the run first, then by code and how often they were met; prevented ones last.
pub(crate) struct Judged {
    pub hazards: Vec<Finding>,
    pub unused: Vec<String>,
    pub absent: Vec<String>,
}

impl Rules {
    pub fn judge(&self, processes: &[Process]) -> Judged {
        let mut used = vec![false; self.suppressions.len()];
        let mut merged: BTreeMap<String, Merged> = BTreeMap::new();
        for process in processes {
            for seen in &process.hazards {
                let matches = |number: &usize| self.suppressions[*number].matches(&seen.hazard, &process.program);
                let matching: Vec<_> = (0..used.len()).filter(matches).collect();
                matching.iter().for_each(|&number| used[number] = true);
                merged.entry(seen.hazard.key()).or_default().add(process, &seen.hazard, seen.line.as_ref(), &matching);
            }
        }
        let absent = self.baseline.iter().flatten().filter(|key| !merged.contains_key(*key)).cloned().collect();
        let mut hazards: Vec<_> = merged.into_iter().filter_map(|(key, merged)| self.finding(key, merged)).collect();
        sort(&mut hazards);
        let unused = self.suppressions.iter().zip(used).filter(|(_, used)| !used);
        let unused = unused.map(|(line, _)| line.text()).collect();
        Judged { hazards, unused, absent }
    }

    fn finding(&self, key: String, merged: Merged) -> Option<Finding> {
        let (mut hazard, line, _) = merged.first?;
        if let Some((confidence, because, waits)) = merged.surest {
            (hazard.confidence, hazard.because, hazard.waits) = (confidence, because, waits);
        }
        hazard.count = merged.met_by.iter().map(|met| met.count).fold(0, u64::saturating_add);
        hazard.at_least = merged.at_least;
        let is_known = self.baseline.as_ref().is_some_and(|keys| keys.contains(&key));
        let lines = || merged.by.iter().map(|&number| self.suppressions[number].text()).collect();
        let status = match merged.unsuppressed {
            true if is_known => Status::Known,
            true => Status::New,
            false => Status::Suppressed(lines()),
        };
        let fails = status == Status::New && self.fail_on.covers(&hazard);
        let mut met_by = merged.met_by;
        met_by.sort_by(|a, b| by_rank(&a.rank, &b.rank).then(a.process.cmp(&b.process)));
        Some(Finding { key, hazard, line, met_by, status, fails, explored: None })
    }
}

fn sort(hazards: &mut [Finding]) {
    hazards.sort_by(|a, b| {
        let order =
            |f: &Finding| (!f.fails, !f.hazard.counts(), f.hazard.prevented, f.hazard.code, u64::MAX - f.hazard.count);
        order(a).cmp(&order(b)).then_with(|| a.key.cmp(&b.key))
    });
}

impl Judged {
    /// Takes in what `lazyguard explore` has found of the hazards: one of which it made a hang is certain.
    pub fn explored(&mut self, explored: &Explored, fail_on: &FailOn) {
        for finding in &mut self.hazards {
            finding.explored = explored.of(&finding.key);
            if finding.explored.as_deref() == Some(PROVOKED) {
                finding.hazard.confidence = Confidence::Certain;
                finding.fails = finding.status == Status::New && fail_on.covers(&finding.hazard);
            }
        }
        sort(&mut self.hazards);
    }

    /// The hazards that a report tells, by their causes: first uses beside the same work in flight are one.
    pub fn by_cause(&self) -> Vec<Vec<&Finding>> {
        let counted = self.hazards.iter().filter(|finding| finding.hazard.counts());
        let cause = |finding: &Finding| {
            let Hazard { code, prevented, confidence, waits, first, .. } = &finding.hazard;
            let beside = waits.as_ref().unwrap_or(&first.other);
            let loads = matches!(code, Code::LG101 | Code::LG102) && !beside.is_empty();
            let own = (!loads).then(|| finding.key.clone());
            (*code, *prevented, *confidence, finding.status.clone(), finding.fails, beside.clone(), own)
        };
        order::grouped(counted, |finding| cause(finding)).into_iter().map(|(_, same)| same).collect()
    }

    /// How often the process used something first, and made another call, beside work of which nothing says that it waits.
    pub fn possible(&self) -> (u64, u64) {
        messages::occurrences(self.hazards.iter().map(|finding| &finding.hazard).filter(|hazard| !hazard.counts()))
    }
}

/// Ranks that are numbers come in their order, and before those that are none.
fn by_rank(a: &str, b: &str) -> std::cmp::Ordering {
    let number = |rank: &str| rank.parse::<u64>().map_or((1, 0), |number| (0, number));
    number(a).cmp(&number(b)).then_with(|| a.cmp(b))
}

#[derive(Default)]
struct Merged {
    first: Option<(Hazard, Option<SourceLine>, u64)>,
    met_by: Vec<MetByProcess>,
    /// The word of the surest of the processes.
    surest: Option<(Confidence, String, Option<String>)>,
    at_least: bool,
    unsuppressed: bool,
    by: BTreeSet<usize>,
}

impl Merged {
    fn add(&mut self, process: &Process, hazard: &Hazard, line: Option<&SourceLine>, matching: &[usize]) {
        self.met_by.push(MetByProcess {
            folder: process.name.clone(),
            process: process.process,
            program: process.program.clone(),
            rank: process.rank.clone(),
            count: hazard.count,
        });
        self.at_least |= hazard.at_least;
        self.unsuppressed |= matching.is_empty();
        self.by.extend(matching);
        if self.surest.as_ref().is_none_or(|(confidence, ..)| *confidence < hazard.confidence) {
            self.surest = Some((hazard.confidence, hazard.because.clone(), hazard.waits.clone()));
        }
        let at = process.armed_unix_nanos.saturating_add(hazard.first.at);
        if self.first.as_ref().is_none_or(|(_, _, first)| at < *first) {
            self.first = Some((hazard.clone(), line.cloned(), at));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::explored::HazardExplored;
    use crate::judge::process::HazardSeen;
    use crate::judge::suppress;
    use crate::judge::test_samples::{hazard, Scratch};

    fn process(program: &str, rank: &str, armed: u64, hazards: Vec<Hazard>) -> Process {
        let hazards = hazards.into_iter().map(|hazard| HazardSeen { hazard, line: None }).collect();
        Process {
            name: format!("rank{rank}-{armed}"),
            process: armed as u32,
            program: program.to_owned(),
            rank: rank.to_owned(),
            armed_unix_nanos: armed,
            hazards,
            ..Process::default()
        }
    }

    fn suppressions(lines: &str) -> Vec<Suppression> {
        let scratch = Scratch::new("judge");
        suppress::read(&[scratch.file("s.txt", lines)]).unwrap()
    }

    fn with(code: Code, kernel: &str, count: u64, at: u64) -> Hazard {
        let mut hazard = hazard(code, Some(kernel));
        (hazard.count, hazard.first.at) = (count, at);
        hazard
    }

    #[test]
    fn the_same_hazard_of_several_processes_is_one_with_the_counts_of_each_and_the_first_occurrence() {
        let mut late = with(Code::LG101, "k", 5, 10);
        late.at_least = true;
        let processes = [
            process("train", "10", 300, vec![late]),
            process("train", "2", 200, vec![with(Code::LG101, "k", 2, 50), with(Code::LG102, "k", 1, 1)]),
        ];
        let judged = Rules::default().judge(&processes);
        assert_eq!(judged.hazards.len(), 2);
        let first = &judged.hazards[0];
        assert_eq!((first.hazard.count, first.hazard.at_least, first.hazard.first.at), (7, true, 50));
        let met: Vec<_> = first.met_by.iter().map(|met| (met.rank.as_str(), met.count)).collect();
        assert_eq!(met, [("2", 2), ("10", 5)]);
        assert!(judged.hazards.iter().all(|finding| finding.status == Status::New && !finding.fails));
    }

    #[test]
    fn a_suppression_of_one_program_leaves_another_programs_occurrence() {
        let rules = Rules { suppressions: suppressions("program:train\nLG107:*\n"), ..Rules::default() };
        let train = process("train", "", 1, vec![with(Code::LG101, "k", 1, 1)]);
        let judged = rules.judge(&[train, process("serve", "", 2, vec![with(Code::LG101, "k", 1, 1)])]);
        assert_eq!(judged.hazards[0].status, Status::New);
        let train = process("train", "", 1, vec![with(Code::LG101, "k", 1, 1)]);
        let alone = rules.judge(&[train]);
        let Status::Suppressed(by) = &alone.hazards[0].status else { panic!("{:?}", alone.hazards[0]) };
        assert!(by.len() == 1 && by[0].ends_with("s.txt:1: program:train"), "{by:?}");
        assert!(alone.unused.len() == 1 && alone.unused[0].ends_with("s.txt:2: LG107:*"), "{:?}", alone.unused);
    }

    #[test]
    fn what_explore_made_a_hang_is_certain_and_fails_the_run() {
        let possible = |kernel: &str| Hazard { confidence: Confidence::Possible, ..with(Code::LG101, kernel, 1, 1) };
        let rules = Rules { fail_on: "hazard".parse().unwrap(), ..Rules::default() };
        let mut judged = rules.judge(&[process("train", "0", 1, vec![possible("a"), possible("b")])]);
        assert!(judged.hazards.iter().all(|finding| !finding.fails) && judged.by_cause().is_empty());
        let explored = |finding: &Finding| HazardExplored {
            key: finding.key.clone(),
            explored: if finding.hazard.kernel.as_deref() == Some("b") { PROVOKED } else { "not provoked" }.to_owned(),
        };
        let hazards = judged.hazards.iter().map(explored).collect();
        judged.explored(&Explored { hazards, ..Explored::default() }, &rules.fail_on);
        let told: Vec<_> = judged.hazards.iter().map(|finding| (finding.hazard.confidence, finding.fails)).collect();
        assert_eq!(told, [(Confidence::Certain, true), (Confidence::Possible, false)]);
        assert_eq!((judged.by_cause().len(), judged.possible()), (1, (1, 0)));
    }

    #[test]
    fn only_what_is_new_fails_and_it_comes_first() {
        let known = with(Code::LG101, "known", 9, 1);
        let prevented = Hazard { prevented: true, ..with(Code::LG101, "guarded", 9, 1) };
        let (new, suppressed) = (with(Code::LG104, "new", 1, 1), with(Code::LG101, "noise", 1, 1));
        let rules = Rules {
            fail_on: "hazard".parse().unwrap(),
            suppressions: suppressions("kernel:noise"),
            baseline: Some([known.key(), "LG109|gone|c|none".to_owned()].into()),
        };
        let judged = rules.judge(&[process("train", "0", 1, vec![prevented, known, suppressed, new])]);
        let told = |finding: &Finding| (finding.hazard.kernel.clone().unwrap(), finding.status.word(), finding.fails);
        let seen: Vec<_> = judged.hazards.iter().map(told).collect();
        let expect = [
            ("new", "new", true),
            ("known", "known", false),
            ("noise", "suppressed", false),
            ("guarded", "new", false),
        ];
        assert_eq!(seen, expect.map(|(kernel, status, fails)| (kernel.to_owned(), status, fails)));
        assert_eq!(judged.absent, ["LG109|gone|c|none"]);
        let all = Rules { fail_on: "prevented".parse().unwrap(), ..rules };
        let judged =
            all.judge(&[process("train", "0", 1, vec![Hazard { prevented: true, ..with(Code::LG101, "g", 1, 1) }])]);
        assert!(judged.hazards[0].fails);
    }
}
