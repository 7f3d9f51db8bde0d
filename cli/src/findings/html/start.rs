//! The cold start as bars: one for each process, from its start to its steady state.
//!
//! Must not: divide the time by itself; `timing` has.

use super::markup::{short, Markup};
use crate::findings::collect::Process;
use crate::format::Took;
use crate::parallel;
use crate::timing::{cold_start_of, ColdStart, Part};

const WIDTH: i64 = 1000;
const LEFT: i64 = 190;
const LANE: i64 = 26;
/// Processes that have a bar.
pub(super) const MOST_BARS: usize = 64;
/// Pixels from which on a part has room for its number.
const ROOM: i64 = 20;

/// A start, and whose it is.
pub(super) struct Start {
    name: String,
    summary: ColdStart,
}

/// The starts of these processes, as far as their recordings tell.
pub(super) fn of(processes: &[Process]) -> Vec<Start> {
    let mut chosen: Vec<_> = processes.iter().filter(|process| process.recording.is_some()).collect();
    chosen.sort_by_key(|process| (process.rank.parse().unwrap_or(u64::MAX), process.process));
    chosen.truncate(MOST_BARS);
    let read = parallel::each(&chosen, |process| {
        // What cannot be read has been said.
        let opened = process.run()?.must_open().ok()?;
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
    page.open("p", &[]);
    page.text("From the process's start to its steady state, by what the time went into. In full, it is what ");
    page.element("code", &[], "lazyguard report --cold-start").text("prints.");
    if more > 0 {
        page.text(format!(" {more} more processes have no bar here."));
    }
    page.close();
    let parts: Vec<_> =
        Part::all().into_iter().filter(|part| starts.iter().any(|start| spent(start, *part) > 0)).collect();
    page.open("ol", &[("class", &"legend parts")]);
    for part in &parts {
        page.open("li", &[]).open("svg", &[("viewBox", &"0 0 24 24"), ("aria-hidden", &"true")]);
        page.empty("rect", &[("class", &class(*part)), ("x", &0), ("y", &2), ("width", &24), ("height", &20)]);
        page.element(
            "text",
            &[("x", &12), ("y", &17), ("text-anchor", &"middle"), ("class", &class(*part))],
            number(&parts, *part),
        );
        page.close().text(part.text()).close();
    }
    page.close();
    let height = starts.len() as i64 * LANE + 4;
    page.open(
        "div",
        &[("class", &"scroll"), ("tabindex", &"0"), ("role", &"group"), ("aria-label", &"Bars of the cold start")],
    );
    page.open(
        "svg",
        &[
            ("class", &"start"),
            ("viewBox", &format!("0 0 {WIDTH} {height}")),
            ("role", &"img"),
            ("aria-labelledby", &"start-title"),
        ],
    );
    page.element("title", &[("id", &"start-title")], "Where the time of the start went; the table below says the same");
    let wide = |nanos: u64| {
        let all = u128::from(longest.max(1));
        i64::try_from(u128::from(nanos) * u128::from((WIDTH - LEFT - 90).unsigned_abs()) / all).unwrap_or(0)
    };
    for (at, start) in (0..).zip(starts) {
        let y = at * LANE + 2;
        page.element("text", &[("x", &4), ("y", &(y + 16)), ("class", &"lane")], short(&start.name, 27));
        let mut before = 0;
        for part in &parts {
            let nanos = spent(start, *part);
            let (x, end) = (LEFT + wide(before), LEFT + wide(before.saturating_add(nanos)));
            before = before.saturating_add(nanos);
            if end > x {
                page.empty(
                    "rect",
                    &[("class", &class(*part)), ("x", &x), ("y", &y), ("width", &(end - x)), ("height", &(LANE - 6))],
                );
            }
            if end - x >= ROOM {
                page.element(
                    "text",
                    &[("x", &((x + end) / 2)), ("y", &(y + 15)), ("text-anchor", &"middle"), ("class", &class(*part))],
                    number(&parts, *part),
                );
            }
        }
        let end = LEFT + wide(before) + 6;
        page.element("text", &[("x", &end), ("y", &(y + 16)), ("class", &"fact")], Took(start.summary.steady.until_ns));
    }
    page.close().close();
    table(page, starts, &parts);
}

fn number(parts: &[Part], part: Part) -> usize {
    1 + parts.iter().position(|other| *other == part).unwrap_or(0)
}

fn spent(start: &Start, part: Part) -> u64 {
    start.summary.parts.iter().find(|spent| spent.part == part).map_or(0, |spent| spent.ns)
}

/// The colour: that of the timeline for the same kind of work.
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

fn table(page: &mut Markup, starts: &[Start], parts: &[Part]) {
    page.open("details", &[]);
    page.element("summary", &[], "The cold start as a table");
    page.open(
        "div",
        &[("class", &"scroll"), ("tabindex", &"0"), ("role", &"group"), ("aria-label", &"Table of the cold start")],
    );
    page.open("table", &[]);
    page.element("caption", &[], "Time from the process's start to its steady state");
    page.open("thead", &[]).open("tr", &[]);
    page.element("th", &[("scope", &"col")], "process").element("th", &[("scope", &"col")], "steady after");
    for part in parts {
        page.element("th", &[("scope", &"col")], format!("{} {}", number(parts, *part), part.text()));
    }
    page.close().close().open("tbody", &[]);
    for start in starts {
        page.open("tr", &[]).element("th", &[("scope", &"row")], short(&start.name, 120));
        let steady = &start.summary.steady;
        let reached = if steady.reached { "" } else { " (not reached)" };
        page.element("td", &[], format!("{}{reached}", Took(steady.until_ns)));
        for part in parts {
            page.element("td", &[], Took(spent(start, *part)));
        }
        page.close();
    }
    page.close().close().close().close();
}
