//! The findings as text for a person: the lines at a run's end, the summary, and the report of several processes.

use crate::judge::{
    by_cause, compare, gist, hangs, is_of_a_crash, stalled, suspected, when_they_were_ended, Course, End, FailedOn,
    Finding, Judged, MetByProcess, OddRank, Process, Ranks, SameHang, Seen, Status, Stood,
};
use crate::words::{first_of, shell_word};
use lazyguard_core::api::{counted, Code};
use lazyguard_core::diagnose::Status as Hangs;
use lazyguard_core::hazard::{messages, Hazard};
use lazyguard_core::report::{Detail, HangReport};
use std::collections::BTreeSet;
use std::path::Path;

const MOST_TOLD: usize = 8;
const MOST_ENDED_STACKS: usize = 2;
const MOST_LISTED: usize = 64;
const MOST_HANGS: usize = 4;
const MOST_OF_RANKS: usize = 20;
/// The lines of a whole report of two ranks, and of sixteen with the launcher; each further process adds its own.
const MOST_OF_TWO: usize = 40;
const MOST_OF_SIXTEEN: usize = 60;
/// A hang gets as many lines however many processes there are.
const LEAST_OF_A_HANG: usize = 8;
const MOST_OF_ONE_HANG: usize = 4;
const MOST_OF_A_DEVICE: usize = 16;
const MOST_MET_BY: usize = 4;

pub(crate) fn once_these_meet(hazard: &Hazard) -> &'static str {
    match hazard.prevented {
        true => "without the guard it is a hang once these meet:",
        false => "it is a hang once these meet:",
    }
}

pub(crate) fn details(hazard: &Hazard) -> Vec<String> {
    let mut lines = vec![format!("  {}", hazard.what)];
    if !hazard.because.is_empty() {
        lines.push(format!("  {}: {}", hazard.confidence.name(), hazard.because));
    }
    if !hazard.must_meet.is_empty() {
        lines.push(format!("  {}", once_these_meet(hazard)));
        lines.extend(hazard.must_meet.iter().map(|operation| format!("    - {operation}")));
    }
    if let Some(place) = &hazard.first.place {
        lines.push(format!("  first at +{:.3} s, from {place}", hazard.first.at as f64 / 1e9));
    }
    let evidence =
        hazard.evidence.iter().map(|shown| format!("    - {} (+{:.6} s)", shown.what, shown.at as f64 / 1e9));
    let evidence: Vec<_> = evidence.collect();
    if !evidence.is_empty() {
        lines.push("  the record shows:".to_owned());
        lines.extend(evidence);
    }
    lines.push(format!("  fix: {}", hazard.fix));
    lines
}

pub(crate) fn finding(one: &Finding) -> Vec<String> {
    of_cause(&[one])
}

/// The line of hazards with one cause.
pub(super) fn line_of_cause(same: &[&Finding]) -> String {
    let hazards: Vec<_> = same.iter().map(|finding| &finding.hazard).collect();
    messages::line_of_all(&hazards).unwrap_or_default()
}

/// Hazards with one cause: the first one in full, and the keys of all.
pub(crate) fn of_cause(same: &[&Finding]) -> Vec<String> {
    let Some(finding) = same.first() else { return Vec::new() };
    let mut lines = vec![line_of_cause(same)];
    match &finding.status {
        Status::New => {}
        Status::Known => lines.push("  known: the baseline has it".to_owned()),
        Status::Suppressed(by) => lines.push(format!("  suppressed by {}", by.join(", "))),
    }
    lines.extend(finding.explored.iter().map(|explored| format!("  {explored}")));
    lines.extend(details(&finding.hazard));
    if finding.met_by.len() > 1 {
        lines.push(format!("  met by {}", met_by(&finding.met_by)));
    }
    if let [one] = same {
        lines.push(format!("  key: {}", one.key));
        return lines;
    }
    lines.push("  to warm up before that, each by its key:".to_owned());
    let times = |finding: &Finding| counted(finding.hazard.count, "time");
    lines.extend(same.iter().map(|finding| format!("    - {}, {}", finding.key, times(finding))));
    lines
}

/// The hazards that are only possible, in a line.
pub(super) fn possible(judged: &Judged) -> Option<String> {
    messages::possible(judged.possible())
}

fn met_by(all: &[MetByProcess]) -> String {
    let named = all.iter().map(|met| {
        let rank = if met.rank.is_empty() { String::new() } else { format!(", rank {}", met.rank) };
        format!("{} (process {}{rank}, {})", met.program, met.process, counted(met.count, "time"))
    });
    first_of(named, MOST_MET_BY, "; ", |more| counted(more, "more process"))
}

fn none_or_counted(count: usize, noun: &str) -> String {
    match count {
        0 => format!("no {noun}"),
        _ => counted(count as u64, noun),
    }
}

pub(crate) fn program(seen: &Seen<'_>) -> String {
    let path = seen.run.and_then(|run| run.command.first()).cloned().unwrap_or_else(|| seen.root.display().to_string());
    path.trim_end_matches('/').rsplit('/').next().filter(|name| !name.is_empty()).map(str::to_owned).unwrap_or(path)
}

pub(crate) fn result(seen: &Seen<'_>) -> String {
    let count = seen.processes.len() as u64;
    let processes = if count == 0 { "no process was recorded".to_owned() } else { counted(count, "process") };
    let (hung, suspected) = (hangs(&seen.processes).len(), suspected(&seen.processes).len());
    let stalled = stalled(&seen.processes).len();
    let was_ended = |process: &Process| process.course == Course::Killed;
    let is_out_of_time = seen.run.is_some_and(|run| run.end == End::TimedOut) || seen.processes.iter().any(was_ended);
    let mut parts = vec![processes];
    // Those words stand in place of no hang; a run that was ended for its time may have hung.
    let has_none = suspected == 0 && stalled == 0 && !is_out_of_time;
    parts.extend((hung > 0 || has_none).then(|| none_or_counted(hung, "hang")));
    parts.extend((suspected > 0).then(|| counted(suspected as u64, "suspected hang")));
    parts.extend((stalled > 0).then(|| format!("{stalled} stalled")));
    let causes = seen.judged.by_cause();
    let met: Vec<_> = causes.iter().filter_map(|same| same.first()).filter(|first| !first.hazard.prevented).collect();
    let with = |word: &str| met.iter().filter(|finding| finding.status.word() == word).count();
    let all = || seen.judged.hazards.iter();
    let by_status = ["new", "known", "suppressed"].map(|word| (with(word), word));
    let by_status = by_status.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}"));
    let hazards = none_or_counted(met.len(), "hazard");
    parts.push(match with("new") == met.len() {
        true => hazards,
        false => format!("{hazards} ({})", by_status.collect::<Vec<_>>().join(", ")),
    });
    let of = |course| seen.processes.iter().filter(|process| process.word() == course).count();
    let counts = [
        (all().filter(|finding| !finding.hazard.counts()).count(), "possible"),
        (all().filter(|finding| finding.hazard.prevented).count(), "prevented"),
        (of("signalled"), "ended by a signal"),
        (of("killed"), "ended by `lazyguard run`"),
    ];
    parts.extend(counts.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")));
    if let Some(run) = seen.run {
        let how = if run.end == End::Exited(0) { String::new() } else { format!("{} after ", run.end) };
        parts.push(format!("{how}{:.1} s", run.nanos as f64 / 1e9));
    }
    format!("{}: {}", program(seen), parts.join(", "))
}

/// The lines of `run` at the end of a run that failed, and about unreadable files. The lines of several ranks are limited, however many there are.
pub(crate) fn at_the_end(seen: &Seen<'_>) -> Vec<String> {
    let mut lines = all_at_the_end(seen);
    if has_ranks(seen) && lines.len() > MOST_OF_RANKS {
        let left_out = lines.split_off(MOST_OF_RANKS - 1).len() as u64;
        lines.push(format!("and {}: lazyguard report on the folder has them", counted(left_out, "more line")));
    }
    lines
}

fn has_ranks(seen: &Seen<'_>) -> bool {
    let mut ranks = seen.processes.iter().map(|process| &process.rank).filter(|rank| !rank.is_empty());
    ranks.next().is_some_and(|first| ranks.any(|other| other != first))
}

fn crashes(seen: &Seen<'_>) -> Vec<String> {
    let crashed: Vec<_> = seen.processes.iter().filter(|process| process.has_crashed()).collect();
    let lines = crashed.iter().map(|process| format!("{} {}", process.title(), process.ended)).take(MOST_HANGS);
    let ended = seen.run.map(|run| run.end).filter(|_| crashed.is_empty());
    let ended = ended.filter(|end| end.signal().is_some_and(is_of_a_crash));
    lines.chain(more(crashed.len(), MOST_HANGS)).chain(ended.map(|end| format!("{} {end}", program(seen)))).collect()
}

fn all_at_the_end(seen: &Seen<'_>) -> Vec<String> {
    let ended_badly = seen.run.is_some_and(|run| run.end != End::Exited(0));
    let mut lines = Vec::new();
    let mut blamed = None;
    if matches!(seen.failed, Some(FailedOn::Hang | FailedOn::Stall)) || ended_badly {
        lines.extend(crashes(seen));
        blamed = compare(&seen.processes);
        let ranks = &blamed;
        lines.extend(ranks.iter().flat_map(|ranks| ranks.lines(Detail::Short)));
        let mut causes = by_cause(hangs(&seen.processes));
        // Ranks that wait for others are in the comparison, and one of them has reported its wait.
        causes.retain(|same| ranks.is_none() || same.first.code() != Code::LG208);
        let most = if has_ranks(seen) { MOST_OF_ONE_HANG } else { usize::MAX };
        let short = causes.iter().take(MOST_HANGS).flat_map(|same| in_short(same, most));
        lines.extend(short.filter_map(|line| beside(ranks.as_ref(), line)));
        lines.extend(more(causes.len(), MOST_HANGS));
        lines.extend(by_cause(stalled(&seen.processes)).iter().take(MOST_HANGS).flat_map(|same| in_short(same, most)));
    }
    lines.extend(seen.problem_lines());
    if ended_badly {
        let causes = by_cause(suspected(&seen.processes));
        for same in causes.iter().take(MOST_TOLD) {
            let first = &same.first;
            lines.push(format!("SUSPECTED hang in {}: {}: {}", same.who(), first.code(), first.sentence()));
            lines.extend(first.named().head(None).into_iter().skip(2).take(MOST_OF_ONE_HANG));
        }
        lines.extend(more(causes.len(), MOST_TOLD));
    }
    if seen.run.is_some_and(|run| matches!(run.end, End::TimedOut | End::EndedOnHang | End::EndedOnStall)) {
        let is_said = |process: &&Process| blamed.iter().flat_map(Ranks::odd).any(|odd| odd.process == process.process);
        let ended = when_they_were_ended(seen.processes.iter().filter(|process| !is_said(process)));
        let most = if lines.is_empty() { MOST_ENDED_STACKS } else { 0 };
        lines.extend(ended.iter().take(MOST_TOLD).enumerate().flat_map(|(at, (line, stack))| {
            std::iter::once(line).chain(stack.iter().filter(move |_| at < most)).cloned()
        }));
        lines.extend(more(ended.len(), MOST_TOLD));
    }
    if seen.failed == Some(FailedOn::Hazard) {
        let mut failing = seen.judged.by_cause();
        failing.retain(|same| same.iter().any(|finding| finding.fails));
        lines.extend(failing.iter().take(MOST_TOLD).map(|same| line_of_cause(same)));
        lines.extend(more(failing.len(), MOST_TOLD));
        lines.push(match failing.len() {
            1 => format!("this hazard fails the run, as --fail-on {} says", seen.fail_on),
            count => format!("these {count} hazards fail the run, as --fail-on {} says", seen.fail_on),
        });
    }
    lines.extend(healed(seen));
    lines.extend(seen.unguarded().map(|line| match seen.failed {
        Some(FailedOn::Unguarded) => format!("{line}; this fails the run, as --fail-on {} says", seen.fail_on),
        _ => line,
    }));
    lines.extend(seen.judged.unused.iter().map(|line| format!("unused suppression {line}")));
    lines
}

fn healed(seen: &Seen<'_>) -> Option<String> {
    let attempt = seen.earlier.len() + 1;
    let each = (1..).zip(seen.earlier).map(|(at, hung)| format!("attempt {at} hung: {} {}", hung.code, hung.sentence));
    let fails = || format!(" This fails the run, as --fail-on {} says.", seen.fail_on);
    let fails = (seen.failed == Some(FailedOn::Retried)).then(fails).unwrap_or_default();
    let has_passed = attempt > 1 && seen.run.is_some_and(|run| run.end == End::Exited(0));
    has_passed.then(|| format!("completed in attempt {attempt}; {}{fails}", each.collect::<Vec<_>>().join(" ")))
}

fn more(count: usize, told: usize) -> Option<String> {
    (count > told).then(|| format!("and {} more", count - told))
}

/// The report of a root that holds several processes: a line each, the worst first; then their hangs.
pub(crate) fn processes(seen: &Seen<'_>, detail: Detail) -> Vec<String> {
    let mut lines = vec![result(seen), String::new()];
    let ranks = compare(&seen.processes);
    if let Some(ranks) = &ranks {
        lines.extend(ranks.lines(detail));
        lines.push(String::new());
    }
    // Ranks that hang for the same cause are reported once.
    let causes = by_cause(hangs(&seen.processes));
    let mut suspected = by_cause(suspected(&seen.processes));
    suspected.extend(by_cause(stalled(&seen.processes)));
    let told: Vec<_> = causes.iter().chain(&suspected).take(MOST_HANGS).collect();
    let keys: BTreeSet<String> = told.iter().map(|same| same.first.key()).collect();
    lines.extend(seen.processes.iter().take(MOST_LISTED).map(|process| line_of(process, &keys)));
    lines.extend(more(seen.processes.len(), MOST_LISTED).map(|more| format!("  {more}")));
    lines.extend(seen.problem_lines());
    let most = most_of_a_hang(seen, ranks.as_ref(), (lines.len(), told.len())).filter(|_| detail == Detail::Short);
    for same in told {
        let mut own: Vec<_> =
            same.first.lines(detail).into_iter().filter_map(|line| beside(ranks.as_ref(), line)).collect();
        own.extend(same.first.process.gpu_lines());
        if let Some(most) = most.filter(|most| own.len() > *most) {
            let left_out = own.split_off(most - 1).len() as u64;
            own.push(format!("and {}: lazyguard report --verbose has them", counted(left_out, "more line")));
        }
        lines.push(String::new());
        lines.extend(own);
        lines.extend(same.also_in());
    }
    let count = causes.len() + suspected.len();
    lines.extend((count > MOST_HANGS).then(|| {
        let others = counted((count - MOST_HANGS) as u64, "other hang");
        format!("and {others}: lazyguard report on the folder of each prints it")
    }));
    detail.of(lines)
}

/// The lines of a hang in the report of a job, beside those that the report has already and the number of hazards. `None` without ranks.
fn most_of_a_hang(seen: &Seen<'_>, ranks: Option<&Ranks>, (has, hangs): (usize, usize)) -> Option<usize> {
    const TWO: usize = 2;
    const SIXTEEN: usize = 17;
    let named: BTreeSet<_> =
        seen.processes.iter().map(|process| &process.rank).filter(|rank| !rank.is_empty()).collect();
    let processes = seen.processes.len();
    let count = if named.is_empty() && ranks.is_some() { processes } else { named.len() };
    let most = match count {
        0 | 1 => return None,
        TWO => MOST_OF_TWO,
        _ => MOST_OF_SIXTEEN + processes.min(MOST_LISTED).saturating_sub(SIXTEEN),
    };
    // Each has an empty line before it, and one behind it that names the others.
    let beside = 2 * hangs + 2;
    Some((most.saturating_sub(has + beside) / hangs.max(1)).max(LEAST_OF_A_HANG))
}

/// How many hazards there are: a report of a hang has none of them.
pub(crate) fn number_of_hazards(judged: &Judged, what: &Path) -> Option<String> {
    let count = judged.by_cause().len();
    let those = counted(count as u64, "hazard");
    let where_they_are = || format!("{those}: lazyguard report --hazards {}", shell_word(what));
    (count > 0).then(where_they_are)
}

/// A line of a hang's report beside the comparison of the ranks: what that says already, and its command, are left out.
pub(super) fn beside(ranks: Option<&Ranks>, line: String) -> Option<String> {
    const COMMAND: &str = ": `lazyguard report` on the folder of the whole run";
    const STANDS: &str = ", and has stood still for ";
    let Some(ranks) = ranks else { return Some(line) };
    let names_the_rank = |odd: &&OddRank| line.starts_with(&odd.and_process());
    if let Some(odd) = ranks.odd().find(names_the_rank) {
        let whole = &line[odd.and_process().len()..];
        let (sentence, time) = whole.rsplit_once(STANDS).map_or((whole, None), |(said, time)| (said, Some(time)));
        return match time {
            _ if !ranks.sentence.contains(sentence.trim_start()) => Some(line),
            time => time.map(|time| format!("{} has stood still for {time}", odd.and_process())),
        };
    }
    let Some((before, _)) = line.split_once(COMMAND) else { return Some(line) };
    match before.strip_prefix("  fix: ") {
        None => Some(format!("{before}: the ranks are compared above")),
        Some(_) if ranks.odd().next().is_none() => {
            Some("  fix: all ranks have launched it: see above what else the comparison of the ranks says".to_owned())
        }
        // The first line of the comparison names the rank.
        Some(_) => None,
    }
}

fn in_short(same: &SameHang<'_>, most: usize) -> Vec<String> {
    let process = same.first.process;
    // A process that is no rank prints its own report of a hang, which is in its folder as well.
    let is_printed = |report: &&HangReport| report.status == Hangs::Hang && report.folder.is_some();
    let printed = Some(same.first.report).filter(is_printed).filter(|_| process.rank.is_empty());
    let mut lines = same.first.named().at_the_end(process.newest, printed);
    lines.extend(same.first.report.ends_in_words().into_iter().next());
    let gpu = same.first.process.gpu_lines();
    lines.extend(gpu.iter().take(MOST_OF_A_DEVICE).cloned());
    lines.extend(more(gpu.len(), MOST_OF_A_DEVICE));
    lines.truncate(most);
    lines.extend(same.also_in());
    lines
}

/// `told`: the causes of which the report has more.
fn line_of(process: &Process, told: &BTreeSet<String>) -> String {
    let word = if process.word() == "well" && process.met() > 0 { "hazards" } else { process.word() };
    let (cause, end) = match &process.stood {
        Some(Stood::Over(report)) => {
            (gist(report).filter(|_| report.stands()), report.ends_in_words().into_iter().next())
        }
        Some(Stood::Hang(report) | Stood::Suspected(report) | Stood::Stalled(report)) => (gist(report), None),
        Some(Stood::Slow(report)) if process.is_held_up() => (report.slow.first().cloned(), None),
        _ => (None, None),
    };
    let is_new = process.stood.as_ref().is_none_or(|stood| !told.contains(&stood.report().cause()));
    let cause: String = cause.filter(|_| is_new).iter().chain(&end).map(|part| format!("; {part}")).collect();
    let met = process.met() as u64;
    let hazards = if met == 0 { String::new() } else { format!("; {}", counted(met, "hazard")) };
    let calls = process.summary.as_ref().map(|summary| format!(", {}", counted(summary.launches, "launch")));
    let calls = calls.unwrap_or_default();
    let (title, seconds, Process { ended, name, .. }) = (process.title(), process.nanos as f64 / 1e9, process);
    format!("  {word:<9} {title} {ended}, {seconds:.1} s{calls}{cause}{hazards}: {name}")
}

/// The loads that the program is to do before it says that it is ready: on each line a kernel, or a place of its code.
fn to_warm_up(seen: &Seen<'_>) -> Vec<String> {
    let late = seen.judged.hazards.iter().map(|finding| &finding.hazard).filter(|hazard| hazard.code == Code::LG110);
    let what = |hazard: &Hazard| match (&hazard.kernel, &hazard.first.place) {
        (Some(kernel), _) => kernel.clone(),
        (None, Some(place)) => format!("{} from {place}", hazard.call),
        (None, None) => hazard.call.clone(),
    };
    let all: BTreeSet<_> = late.map(what).collect();
    (!all.is_empty()).then(|| "to warm up before the program is ready:".to_owned()).into_iter().chain(all).collect()
}

/// The hazards, each cause once. Those that are only possible are counted, or listed too.
pub(crate) fn judged(judged: &Judged, all: bool) -> Vec<String> {
    let mut causes = judged.by_cause();
    let has_none = causes.is_empty();
    if all {
        causes.extend(judged.hazards.iter().filter(|finding| !finding.hazard.counts()).map(|finding| vec![finding]));
    }
    let mut lines: Vec<_> = causes.iter().flat_map(|same| [of_cause(same), vec![String::new()]].concat()).collect();
    if has_none {
        lines.push("no hazard is known".to_owned());
    }
    let listed = if all { "" } else { ": --all lists them" };
    lines.extend(possible(judged).map(|line| line + listed));
    lines
}

pub(crate) fn hazards(seen: &Seen<'_>, all: bool) -> Vec<String> {
    let mut lines = judged(&seen.judged, all);
    lines.extend(to_warm_up(seen));
    let absent = seen.judged.absent.len() as u64;
    if absent > 0 {
        lines.push(format!("{} of the baseline did not turn up", counted(absent, "hazard")));
    }
    lines.extend(seen.judged.unused.iter().map(|line| format!("unused suppression {line}")));
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::test_samples::{hang_report, recording, seen, Scratch, Told};
    use crate::judge::{collect, ComparedBy, Rules};
    use lazyguard_core::report::{json, FrameSeen, StackSeen};

    fn told(told: &Told, lines: fn(&Seen<'_>) -> Vec<String>) -> Vec<String> {
        let mut all = Vec::new();
        seen(told, |seen| all = lines(seen));
        all
    }

    #[test]
    fn the_same_hang_of_many_ranks_is_told_once_behind_a_line_for_each() {
        let lines = told(&Told { hang: true, processes: 70, no_hazard: true, end: None, ..Told::default() }, |seen| {
            processes(seen, Detail::Short)
        });
        assert_eq!(lines[0], "root: 70 processes, 70 hangs, no hazard");
        let own = lines.iter().filter(|line| line.starts_with("  hang      train (process 4242, rank 3) was killed"));
        assert_eq!(own.count(), MOST_LISTED);
        assert_eq!(lines[2 + MOST_LISTED], "  and 6 more");
        assert_eq!(lines.iter().filter(|line| line.starts_with("HANG ")).count(), 1);
        assert_eq!(lines.last().unwrap(), "the same in rank 3 (70 processes)");
    }

    /// Each rank hangs with many threads, whose stacks are deep.
    fn lines_of_a_job(ranks: u64, detail: Detail) -> Vec<String> {
        let scratch = Scratch::new("job");
        for rank in 0..ranks {
            let job = recording(&rank.to_string(), true);
            let folder = format!("root/rank{rank}-4242");
            let mut report = hang_report(&job, &scratch.path(&folder));
            let frame = |offset: u64| FrameSeen { offset, module: "train".to_owned(), ..FrameSeen::default() };
            let stack = |thread: u32| {
                let frames = (0..14).map(|at| frame(u64::from(thread) * 100 + at)).collect();
                StackSeen { thread, frames, notes: Vec::new() }
            };
            report.stacks = (100..130).map(stack).collect();
            scratch.file(&format!("{folder}/trace.lgt"), job.bytes(60_000_000_000));
            scratch.file(&format!("{folder}/hang.json"), json(&report));
        }
        let root = scratch.path("root");
        let rules = Rules::default();
        processes(&Seen::of(&root, collect::under(&root), &rules), detail)
    }

    #[test]
    fn the_report_of_a_job_has_few_lines_and_says_how_many_it_leaves_out() {
        // The number of hazards is a line more.
        for (ranks, most) in [(2, 39), (16, 59), (64, 107)] {
            let short = lines_of_a_job(ranks, Detail::Short);
            assert!(short.len() <= most, "{} lines of {ranks} ranks: {short:#?}", short.len());
            let left_out = |line: &String| line.ends_with("more lines: lazyguard report --verbose has them");
            assert_eq!(short.iter().filter(|line| left_out(line)).count(), 1, "{short:#?}");
            assert!(short.iter().any(|line| line.starts_with("LG201 (likely): ")), "{short:#?}");
            let whole = lines_of_a_job(ranks, Detail::Whole);
            assert!(whole.len() > most && !whole.iter().any(left_out), "{} lines", whole.len());
        }
    }

    #[test]
    fn a_hang_that_the_report_explains_is_no_part_of_its_processs_line() {
        let lines = lines_of_a_job(2, Detail::Short);
        assert!(lines[2].starts_with("  hang      ") && lines[3].starts_with("  hang      "), "{lines:#?}");
        assert_eq!(lines.iter().filter(|line| line.contains("k2 cannot start: ")).count(), 1, "{lines:#?}");
    }

    /// A rank that is behind, and lines of the hang of another.
    #[test]
    fn a_line_beside_the_comparison_says_only_what_is_new() {
        let doing = "and its main thread opens /data/x";
        let sentence = format!("rank 1 has not called collective 3 of communicator 0, {doing}; rank 0 waits in it.");
        let odd = OddRank {
            rank: 1,
            process: 42,
            launched: 2,
            collective: None,
            doing: Some(doing.to_owned()),
            quiet_nanos: Some(41_000_000_000),
            stack: Vec::new(),
            python: Vec::new(),
        };
        let mut ranks = Ranks { behind: vec![odd], joined: vec![0], ..Ranks::new(sentence, ComparedBy::Communicators) };
        let told = |ranks: &Ranks, line: &str| beside(Some(ranks), line.to_owned());
        let lines = ranks.lines(Detail::Short);
        assert_eq!(
            lines[1..],
            [
                "  rank 1 (process 42): 2 collectives, no driver call for 41 s",
                "  compared by the calls of NCCL on each communicator"
            ]
        );
        for (line, expect) in [
            (
                "  rank 1 (process 42) opens /data/x, and has stood still for 3 s",
                Some("  rank 1 (process 42) has stood still for 3 s"),
            ),
            ("  rank 1 (process 42) opens /data/x", None),
            ("  rank 1 (process 42) opens /data/y", Some("  rank 1 (process 42) opens /data/y")),
            ("  rank 2 (process 43) opens /data/x", Some("  rank 2 (process 43) opens /data/x")),
            ("  fix: find it: `lazyguard report` on the folder of the whole run compares the ranks", None),
            ("blocked calls:", Some("blocked calls:")),
        ] {
            assert_eq!(told(&ranks, line).as_deref(), expect, "{line}");
        }
        ranks.behind.clear();
        let fix = told(&ranks, "  fix: find it: `lazyguard report` on the folder of the whole run compares the ranks");
        assert!(fix.is_some_and(|fix| fix.starts_with("  fix: all ranks have launched it")));
    }

    #[test]
    fn a_hazard_is_told_in_full_with_its_key_and_who_met_it() {
        let lines = told(&Told { processes: 6, known: true, ..Told::default() }, |seen| hazards(seen, false));
        let expect = [
            "hazard LG101: cuLaunchKernel of k2 on a non-blocking stream, beside k1, 18 times: a cold function was loaded while other work was in flight",
            "  known: the baseline has it",
            "  k2 was loaded on its first use while k1 was in flight on stream 1",
            "  it is a hang once these meet:",
            "    - the load of k2",
            "    - k1, if it waits for k2",
            "  fix: Load k2 before kernel k1 is submitted",
        ];
        assert_eq!(lines[..7], expect);
        let met = "  met by train (process 4242, rank 3, 3 times); train (process 4242, rank 3, 3 times)";
        assert!(lines[7].starts_with(met) && lines[7].ends_with("; 2 more processes"), "{lines:?}");
        assert_eq!(lines[8..], ["  key: LG101|k2|cuLaunchKernel|non-blocking"]);
        let none = told(&Told { no_hazard: true, ..Told::default() }, |seen| hazards(seen, false));
        assert_eq!(none, ["no hazard is known"]);
    }
}
