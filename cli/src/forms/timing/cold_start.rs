//! The summary of a start, for a person.

use super::table::{bar, share};
use crate::judge::timing::{ColdStart, FirstUse, Missing, Part, Sum};
use crate::words::{size, write_line, Output, Took};
use lazyguard_core::api::counted;
use std::io;

const MOST_ROWS: usize = 20;
const MOST_STEPS: usize = 8;

pub(super) fn write(summary: &ColdStart, out: &mut Output<'_>) -> io::Result<()> {
    let steady = &summary.steady;
    let from =
        if summary.from_process_start { "its start" } else { "the guard was armed (the recording does not tell more)" };
    let until = Took(steady.until_ns);
    if steady.reached {
        write_line!(out, "cold start: steady {until} after {from}")?;
    } else {
        let after = counted(steady.submissions_after, "submitted operation");
        let ended = match steady.last_of_start_ns {
            Some(at) => format!("the last thing of the start ended at +{}, followed by {after}", Took(at)),
            None => "nothing of the start has ended".to_owned(),
        };
        let rest = format!("{ended}; what follows is all the time there is");
        write_line!(out, "cold start: no steady state in the {until} since {from}: {rest}")?;
    }
    write_line!(out, "  (steady: {})", steady.definition)?;
    for spent in &summary.parts {
        let (share, bar) = (share(spent.ns, steady.until_ns), bar(spent.ns, steady.until_ns));
        write_line!(out, "  {:>10}  {share:>7}  {bar:<30}  {}", Took(spent.ns), spent.part.text())?;
    }
    write_line!(out, "  {until:>10}  in all")?;
    write_loads(summary, out)?;
    write_longest(summary, out)?;
    write_kernels(summary, out)?;
    write_allocations(summary, out)?;
    write_missing(&summary.missing, out)
}

fn write_loads(summary: &ColdStart, out: &mut Output<'_>) -> io::Result<()> {
    write_line!(out, "loads, in the whole recording:")?;
    for loads in &summary.loads {
        let what = match loads.part {
            Part::Compile => "compiled",
            Part::Modules => "modules and libraries",
            _ => "functions, on first use",
        };
        write_line!(out, "  {what}: {}", added_up(&loads.sum))?;
    }
    let ahead = &summary.ahead;
    if ahead.times > 0 {
        let rest = if ahead.not_loaded > 0 { format!(", {} not loaded", ahead.not_loaded) } else { String::new() };
        let (kernels, moments) = (counted(ahead.kernels, "kernel"), counted(ahead.times, "moment"));
        write_line!(out, "  by the guard, ahead of use: {kernels} in {}, at {moments}{rest}", Took(ahead.ns))?;
    }
    if summary.loads.is_empty() && ahead.times == 0 {
        write_line!(out, "  none")?;
    }
    Ok(())
}

fn write_longest(summary: &ColdStart, out: &mut Output<'_>) -> io::Result<()> {
    if summary.longest.is_empty() {
        return Ok(());
    }
    write_line!(out, "what took longest:")?;
    for step in summary.longest.iter().take(MOST_STEPS) {
        let of = step.kernel.as_ref().map(|kernel| format!(" of {kernel}")).unwrap_or_default();
        let goes_on = if step.in_progress { ", in progress" } else { "" };
        let (took, at, part) = (Took(step.took_ns), Took(step.at_ns), step.part.text());
        write_line!(out, "  {took:>10}  at +{at}, thread {}, {}{of}: {part}{goes_on}", step.thread, step.call)?;
    }
    Ok(())
}

fn write_kernels(summary: &ColdStart, out: &mut Output<'_>) -> io::Result<()> {
    if summary.kernels.is_empty() {
        return Ok(());
    }
    write_line!(out, "first launch of each kernel on the host, beside the median of its later ones:")?;
    write_line!(out, "  {:>10}  {:>10}  {:>10}  {:>8}  kernel", "first", "later", "more", "launches")?;
    let column = |nanos: Option<u64>| nanos.map_or_else(|| "-".to_owned(), |nanos| Took(nanos).to_string());
    for one in summary.kernels.iter().take(MOST_ROWS) {
        let FirstUse { kernel, first_ns, steady_ns, difference_ns, launches, loaded, first_is_known, .. } = one;
        let loaded = match loaded {
            Some(Part::Functions) => " (loaded its function)",
            Some(Part::Modules) => " (loaded its module)",
            Some(Part::Compile) => " (was compiled)",
            _ if !first_is_known => " (its first launch has been overwritten)",
            _ => "",
        };
        let (first, later) = (column(first_is_known.then_some(*first_ns)), column(*steady_ns));
        let more = column(difference_ns.filter(|_| *first_is_known));
        write_line!(out, "  {first:>10}  {later:>10}  {more:>10}  {launches:>8}  {kernel}{loaded}")?;
    }
    let more = (summary.kernels.len() as u64).saturating_sub(MOST_ROWS as u64) + summary.kernels_left_out;
    if more > 0 {
        write_line!(out, "  and {more} more (--format json)")?;
    }
    Ok(())
}

fn write_allocations(summary: &ColdStart, out: &mut Output<'_>) -> io::Result<()> {
    if summary.allocations.is_empty() {
        return write_line!(out, "allocations and frees of 100 us or more: none");
    }
    write_line!(out, "allocations and frees of 100 us or more:")?;
    for slow in &summary.allocations {
        let bytes = if slow.bytes > 0 { format!(", {}", size(slow.bytes)) } else { String::new() };
        write_line!(out, "  {}: {}{bytes}", slow.call, added_up(&slow.sum))?;
    }
    Ok(())
}

fn added_up(sum: &Sum) -> String {
    format!("{} in {}, the longest {}", sum.count, Took(sum.ns), Took(sum.max_ns))
}

pub(super) fn write_missing(missing: &Missing, out: &mut Output<'_>) -> io::Result<()> {
    let lost = [
        (missing.work, "launches, copies and other submissions have been overwritten in the recording: what was first is known from the loads \
                        only (LAZYGUARD_RECORD=SIZE keeps more)"),
        (missing.waits, "waits have been overwritten: they count as the program's own time"),
        (missing.rare_events, "loads and other rare calls have been overwritten: the parts are less than it was"),
    ];
    out.lines(lost.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("the first {count} {what}")))
}
