//! The cold start as bars: one for each process, from its start to its steady state.
//!
//! Must not: divide the time by itself; `timing` has.

use super::markup::{short, Attribute, Markup, FACT_IN_PICTURE};
use crate::forms::timing::cold_start_of;
use crate::judge::timing::{ColdStart, Part};
use crate::judge::Process;
use crate::machine::parallel;
use crate::words::Took;

const WIDTH: i64 = 1000;
const LEFT: i64 = 190;
const LANE: i64 = 26;
pub(super) const MOST_BARS: usize = 64;
const ROOM: i64 = 20;
const NUMBER: &str = r#"text text-anchor="middle""#;

pub(super) struct Start {
    name: String,
    summary: ColdStart,
}

pub(super) fn of(processes: &[Process]) -> Vec<Start> {
    let mut chosen = Process::recorded(processes);
    chosen.truncate(MOST_BARS);
    let read = parallel::each(&chosen, |process| {
        let opened = process.opened()?;
        let name = match process.rank.as_str() {
            "" if processes.len() == 1 => process.program.clone(),
            "" => process.title(),
            rank => format!("rank {rank}"),
        };
        Some(Start { name, summary: cold_start_of(&opened).ok()? })
    });
    read.into_iter().flatten().filter(|start| start.summary.steady.until_ns > 0).collect()
}

pub(super) fn draw(page: &mut Markup, starts: &[Start], processes: usize) {
    let Some(longest) = starts.iter().map(|start| start.summary.steady.until_ns).max() else { return };
    let more = processes.saturating_sub(starts.len());
    let about = "From the process's start to its steady state, by what the time went into. In full, it is what ";
    page.open("p", &[]).text(about).say("code", "lazyguard report --cold-start").text("prints.");
    if more > 0 {
        page.text(format!(" {more} more processes have no bar here."));
    }
    page.close();
    let spent_by_any = |part: &Part| starts.iter().any(|start| spent(start, *part) > 0);
    let parts: Vec<_> = (1..).zip(Part::all().into_iter().filter(spent_by_any)).collect();
    page.open(r#"ol class="legend parts""#, &[]);
    for (number, part) in &parts {
        page.key(class(*part), (2, 20)).element(NUMBER, &[("x", &12), ("y", &17), ("class", &class(*part))], number);
        page.close().text(part.text()).close();
    }
    page.close();
    page.picture("Bars of the cold start", "start", (WIDTH, starts.len() as i64 * LANE + 4), "start-title");
    let title = "Where the time of the start went; the table below says the same";
    page.say(r#"title id="start-title""#, title);
    let wide = |nanos: u64| {
        let all = u128::from(longest.max(1));
        i64::try_from(u128::from(nanos) * u128::from((WIDTH - LEFT - 90).unsigned_abs()) / all).unwrap_or(0)
    };
    for (at, start) in (0..).zip(starts) {
        let y = at * LANE + 2;
        page.at(r#"text class="lane""#, (4, y + 16), short(&start.name, 27));
        let mut before = 0;
        for (number, part) in &parts {
            let nanos = spent(start, *part);
            let (x, end) = (LEFT + wide(before), LEFT + wide(before.saturating_add(nanos)));
            before = before.saturating_add(nanos);
            if end > x {
                page.rect(class(*part), [&x, &y, &(end - x), &(LANE - 6)]);
            }
            if end - x >= ROOM {
                let place: [Attribute<'_>; 3] = [("x", &((x + end) / 2)), ("y", &(y + 15)), ("class", &class(*part))];
                page.element(NUMBER, &place, number);
            }
        }
        page.at(FACT_IN_PICTURE, (LEFT + wide(before) + 6, y + 16), Took(start.summary.steady.until_ns));
    }
    page.close_all(2);
    table(page, starts, &parts);
}

fn spent(start: &Start, part: Part) -> u64 {
    start.summary.parts.iter().find(|spent| spent.part == part).map_or(0, |spent| spent.ns)
}

const fn class(part: Part) -> &'static str {
    match part {
        Part::Compile | Part::Modules | Part::Functions => "load",
        Part::Preload | Part::Arming => "preload",
        Part::Loader | Part::Program | Part::Host => "other",
        Part::DriverInit | Part::Context | Part::Graphs => "communication",
        Part::FirstLaunches | Part::Submissions => "submission",
        Part::Allocations | Part::Copies => "memory",
        Part::Calls | Part::Waits => "wait",
    }
}

fn table(page: &mut Markup, starts: &[Start], parts: &[(usize, Part)]) {
    page.open("details", &[]).say("summary", "The cold start as a table");
    let parts_in_words: Vec<_> = parts.iter().map(|(number, part)| format!("{number} {}", part.text())).collect();
    let columns = ["process", "steady after"].into_iter().chain(parts_in_words.iter().map(String::as_str));
    let columns: Vec<_> = columns.collect();
    page.table("Table of the cold start", "table", "Time from the process's start to its steady state", &columns);
    for start in starts {
        page.open("tr", &[]).say(r#"th scope="row""#, short(&start.name, 120));
        let steady = &start.summary.steady;
        let reached = if steady.reached { "" } else { " (not reached)" };
        page.say("td", format!("{}{reached}", Took(steady.until_ns)));
        for (_, part) in parts {
            page.say("td", Took(spent(start, *part)));
        }
        page.close();
    }
    page.close_all(4);
}
