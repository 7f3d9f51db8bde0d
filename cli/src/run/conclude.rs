//! The findings of a run that is over: what counts against it, and the files and lines that report it.
//!
//! Must not: write a file that the user did not ask for.

use crate::forms::annotations::{self, Annotations, System};
use crate::forms::{html, json, junit, sarif, text};
use crate::judge::{
    baseline, collect, hangs, ranks, suppress, End, Explored, FailOn, FailedOn, Finished, Hung, Rules, Seen, Status,
};
use crate::machine::files::write;
use crate::words::{said, Failure};
use lazyguard_core::settings::{expand_folder, FolderFacts};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

#[derive(Debug, Default)]
pub(crate) struct Wanted {
    pub fail_on: FailOn,
    /// The files that the run is to write, by their options.
    pub files: BTreeMap<&'static str, PathBuf>,
    pub suppressions: Vec<PathBuf>,
    pub baseline: Option<PathBuf>,
    pub annotations: Annotations,
    pub result: bool,
    pub keeps_folder: bool,
    pub earlier: Vec<Hung>,
    pub explored: Option<PathBuf>,
    /// As they were before the run: a pipe is read once.
    pub rules: Option<Rules>,
}

impl Wanted {
    /// Fills in the fields of the files' names, so that ranks with the same options write different files.
    pub fn fill_in(&mut self, facts: &FolderFacts<'_>) {
        for path in self.files.values_mut().chain(&mut self.baseline) {
            // A name that is not UTF-8 has no fields.
            if let Some(template) = path.to_str() {
                *path = expand_folder(template, facts).into();
            }
        }
    }
}

#[derive(Debug)]
pub(crate) struct Conclusion {
    pub failed: Option<FailedOn>,
    pub keep: bool,
    pub hung: Option<Hung>,
    /// Whether a load stands in one of its hangs, which the guard can make ahead.
    pub is_load: bool,
    pub lines: Vec<String>,
    pub unwritten: Vec<Failure>,
}

/// Reads the suppression files and the baseline.
pub(crate) fn rules(wanted: &Wanted) -> Result<Rules, Failure> {
    let suppressions = suppress::read(&wanted.suppressions)?;
    Ok(Rules { fail_on: wanted.fail_on.clone(), suppressions, baseline: baseline_of(wanted)? })
}

pub(crate) fn conclude(run: &Finished, wanted: &Wanted) -> Result<Conclusion, Failure> {
    let mut rules = wanted.rules.clone().map_or_else(|| rules(wanted), Ok)?;
    if wanted.files.contains_key("--write-baseline") {
        // Other programs may have added to it meanwhile.
        rules.baseline = baseline_of(wanted)?;
    }
    let mut seen =
        Seen { run: Some(run), earlier: &wanted.earlier, ..Seen::of(&run.root, collect::of_run(&run.root), &rules) };
    seen.explored = wanted.explored.as_deref().and_then(Explored::read);
    if let Some(explored) = &seen.explored {
        seen.judged.explored(explored, seen.fail_on);
    }
    let hangs =
        run.end == End::EndedOnHang || wanted.fail_on.has(FailedOn::Hang) && !hangs::hangs(&seen.processes).is_empty();
    let stalls = run.end == End::EndedOnStall
        || wanted.fail_on.has(FailedOn::Stall) && !hangs::stalled(&seen.processes).is_empty();
    let failed = match hangs {
        true => Some(FailedOn::Hang),
        false if stalls => Some(FailedOn::Stall),
        false => seen.judged.hazards.iter().any(|finding| finding.fails).then_some(FailedOn::Hazard),
    };
    let unguarded =
        || seen.unguarded().filter(|_| wanted.fail_on.has(FailedOn::Unguarded)).map(|_| FailedOn::Unguarded);
    let is_healed = wanted.fail_on.has(FailedOn::Retried) && !wanted.earlier.is_empty();
    let failed = failed.or_else(unguarded).or(is_healed.then_some(FailedOn::Retried));
    let has_hung = seen.processes.iter().any(|process| process.stood.is_some());
    let keep = !seen.processes.is_empty() && (failed.is_some() || run.end != End::Exited(0) || has_hung);
    (seen.failed, seen.folder_stays) = (failed, keep || wanted.keeps_folder);
    let hung = hung(&seen);
    let is_load = hangs::hangs(&seen.processes).iter().any(|hang| hang.report.is_of_a_load());
    // A file that cannot be written does not change the findings.
    let mut unwritten = write_files(&seen, wanted, &rules);
    // `--fail-on` also fails where a part of the run is unreadable.
    if wanted.fail_on.is_anything() && seen.problems().next().is_some() {
        let why = "not all of what the run left can be read: what --fail-on is to find may be there";
        unwritten.push(Failure::Input(why.to_owned()));
    }

    let mut lines = text::at_the_end(&seen);
    if wanted.result || wanted.annotations.system() == Some(System::Gitlab) {
        lines.push(text::result(&seen));
    }
    let lines = lines.iter().map(|line| said(line));
    let lines = annotations::lines(&seen, wanted.annotations).into_iter().chain(lines).collect();
    Ok(Conclusion { failed, keep, hung, is_load, lines, unwritten })
}

/// The hang for which the run has ended or fails. A run that passed beside a hang, which `--fail-on` does not name, has none.
fn hung(seen: &Seen<'_>) -> Option<Hung> {
    let has_failed = seen.failed == Some(FailedOn::Hang) || seen.run.is_some_and(|run| run.end != End::Exited(0));
    let first = hangs::hangs(&seen.processes).into_iter().next().filter(|_| has_failed)?;
    let sentence = ranks::compare(&seen.processes).map_or_else(|| first.sentence().to_owned(), |ranks| ranks.sentence);
    Some(Hung { code: first.code().to_string(), sentence, folder: seen.root.to_owned() })
}

fn baseline_of(wanted: &Wanted) -> Result<Option<BTreeSet<String>>, Failure> {
    let Some(path) = &wanted.baseline else { return Ok(None) };
    match baseline::read(path)? {
        Some(keys) => Ok(Some(keys)),
        // The first of several programs that share the file creates it.
        None if wanted.files.get("--write-baseline") == Some(path) => Ok(Some(BTreeSet::new())),
        None => {
            let what = "there is no such file; --write-baseline";
            Err(Failure::Input(format!("baseline {0}: {what} {0} makes one of a run", path.display())))
        }
    }
}

fn write_files(seen: &Seen<'_>, wanted: &Wanted, rules: &Rules) -> Vec<Failure> {
    let baseline = || {
        // Suppressed hazards are not added. Old keys stay, so that programs can share a baseline.
        let unsuppressed = seen.judged.hazards.iter().filter(|f| !matches!(f.status, Status::Suppressed(_)));
        let keys = unsuppressed.map(|finding| finding.key.clone());
        baseline::text(keys.chain(rules.baseline.iter().flatten().cloned()).collect())
    };
    let text = |flag: &str| {
        Some(match flag {
            "--junit" => junit::text(seen),
            "--json" => Ok(json::text(seen)),
            "--sarif" => Ok(sarif::text(seen)),
            "--html" => Ok(html::text(seen)),
            "--write-baseline" => baseline(),
            // The metrics, which were written while the program ran.
            _ => return None,
        })
    };
    let written = wanted.files.iter().filter_map(|(flag, path)| text(flag)?.and_then(|text| write(path, &text)).err());
    written.collect()
}

#[cfg(test)]
#[path = "conclude_tests.rs"]
mod tests;
