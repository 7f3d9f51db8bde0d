//! The asynchronous calls that blocked the host, for a person.

use super::cold_start::write_missing;
use super::table::{bar, share};
use crate::judge::timing::{Blocking, Decade, Group};
use crate::words::{write_line, Output, Took};
use lazyguard_core::api::counted;
use std::io;

const MOST_GROUPS: usize = 20;

pub(super) fn write(summary: &Blocking, out: &mut Output<'_>) -> io::Result<()> {
    let Blocking { threshold_ns, asynchronous_calls, count, total_ns, max_ns, .. } = summary;
    let [least, all, longest] = [threshold_ns, total_ns, max_ns].map(|nanos| Took(*nanos));
    let counts = match count {
        0 => format!("none of {asynchronous_calls}"),
        _ => format!("{count} of {asynchronous_calls}, {all} in all, the longest {longest}"),
    };
    write_line!(out, "asynchronous calls that blocked the host for {least} or more: {counts}")?;
    for Decade { label, count: of, .. } in &summary.histogram {
        let line = format!("  {label:>14}  {of:>8}  {}", bar(*of, *count));
        write_line!(out, "{}", line.trim_end())?;
    }
    for group in summary.groups.iter().take(MOST_GROUPS) {
        write_group(group, *total_ns, out)?;
    }
    let more = (summary.groups.len() as u64).saturating_sub(MOST_GROUPS as u64);
    if more > 0 {
        write_line!(out, "  and {} (--format json)", counted(more, "more group"))?;
    }
    if summary.left_out > 0 {
        write_line!(out, "  and {} beside these groups", counted(summary.left_out, "call"))?;
    }
    write_missing(&summary.missing, out)
}

fn write_group(group: &Group, whole: u64, out: &mut Output<'_>) -> io::Result<()> {
    let of = group.kernel.as_ref().map(|kernel| format!(" of {kernel}")).unwrap_or_default();
    let codes: Vec<_> = group.codes.iter().map(|code| code.name()).collect();
    let codes = if codes.is_empty() { String::new() } else { format!(" [{}]", codes.join(", ")) };
    let Group { call, total_ns, max_ns, first_at_ns, first_thread, .. } = group;
    let (all, share, times) = (Took(*total_ns), share(*total_ns, whole), counted(group.count, "time"));
    let (longest, at) = (Took(*max_ns), *first_at_ns as f64 / 1e9);
    let first = format!("first at +{at:.6} in thread {first_thread}");
    write_line!(out, "  {all} ({share})  {call}{of}: {times}, the longest {longest}, {first}{codes}")?;
    write_line!(out, "      why: {}", group.text)?;
    if group.in_progress > 0 {
        write_line!(out, "      {} had not returned when the recording ended", group.in_progress)?;
    }
    if group.count > 1 {
        let classes = group.histogram.iter().filter(|class| class.count > 0);
        let classes: Vec<_> = classes.map(|class| format!("{} x {}", class.count, class.label)).collect();
        write_line!(out, "      how long: {}", classes.join(", "))?;
    }
    match group.reason.advice() {
        "" => Ok(()),
        advice => write_line!(out, "      fix: {advice}"),
    }
}
