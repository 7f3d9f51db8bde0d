//! The findings as one page (`--html`), without network or other files: its policy allows the page's own style and script alone. The page can
//! be read without the script, which zooms the timeline. Lists are bounded, and the page counts what they leave out.
//!
//! Must not: judge, or say what the other forms do not.

mod device;
mod kinds;
mod markup;
mod moments;
mod picture;
mod ranks;
mod start;
mod timeline;

use super::text;
use crate::judge::{by_cause, compare, gist, hangs, passed, stalled, suspected, Ranks, SameHang, Seen};
use lazyguard_core::report::{Detail, HangReport, StackSeen};
use markup::{short, Markup, FACT, MOST_LETTERS, PROBLEM};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// The page may load and run nothing but its own style and its own script, known by their SHA-256.
const POLICY: &str =
    "default-src 'none'; style-src 'sha256-r1MnsYNBPFuWTI3XL2Nopu8kvVLvi0AReyqkzSybYAw='; script-src 'sha256-v1eB4l4CNmzhSw2zD6eBTKPDU3Yz0Hw42o3z1/pIf8E='; base-uri 'none'; form-action 'none'";

const MOST_HANGS: usize = 8;
const MOST_PROCESSES: usize = 512;
const MOST_HAZARDS: usize = 128;
const MOST_VERDICTS: usize = 3;
const MOST_THREADS: usize = 64;
const MOST_FRAMES: usize = 128;
const MOST_LINES: usize = 400;
const MOST_SUMMARY: usize = 240;

pub(crate) fn text(seen: &Seen<'_>) -> String {
    let compared = compare(&seen.processes);
    let stood = stood(seen);
    let moments = moments::of(&seen.processes);
    let starts = start::of(&seen.processes);
    let devices = device::of(stood.iter().take(MOST_HANGS).map(|same| same.first.process));
    let mut page = begin(seen);
    let sections = [
        (true, "verdict", "Finding", ""),
        (!stood.is_empty() || seen.processes.len() > 1, "picture", "Who waits", "Who waits for whom"),
        (moments.is_some(), "timeline", "Timeline", "The last seconds"),
        (!stood.is_empty(), "threads", "Threads", "Threads"),
        (!devices.is_empty(), "device", "Device", "The device"),
        (true, "hazards", "Hazards", "Hazards"),
        (!starts.is_empty(), "start", "Cold start", "Cold start"),
        (true, "processes", "Processes", "Processes"),
    ];
    let sections: Vec<_> = sections.into_iter().filter(|(is_there, ..)| *is_there).collect();
    head_of_page(&mut page, seen, sections.iter().map(|(_, id, title, _)| (*id, *title)));
    page.open(r#"main id="main" tabindex="-1""#, &[]);
    for (_, id, _, heading) in sections {
        let heading_id = format!("{id}-heading");
        page.open("section", &[("id", &id), ("aria-labelledby", &heading_id)]);
        // The finding is its own heading.
        if !heading.is_empty() {
            page.element("h2", &[("id", &heading_id)], &heading);
        }
        match id {
            "verdict" => verdict(&mut page, seen, &stood, compared.as_ref()),
            "picture" => {
                ranks::draw(&mut page, &seen.processes, compared.as_ref());
                waits(&mut page, &stood);
            }
            "timeline" => moments.iter().for_each(|moments| timeline::draw(&mut page, moments)),
            "threads" => threads(&mut page, &stood),
            "device" => device::draw(&mut page, &devices),
            "hazards" => hazards(&mut page, seen),
            "start" => start::draw(&mut page, &starts, seen.processes.len()),
            _ => processes(&mut page, seen),
        }
        page.close();
    }
    page.close().open("footer", &[]);
    page.say("p", format!("LazyGuard {}, of {}", env!("CARGO_PKG_VERSION"), seen.root.display()));
    page.close().open("script", &[]).own(SCRIPT);
    page.finish()
}

fn begin(seen: &Seen<'_>) -> Markup {
    let mut page = Markup::default();
    page.own("<!DOCTYPE html>\n").open(r#"html lang="en""#, &[]).open("head", &[]);
    page.empty(r#"meta charset="utf-8""#, &[]);
    page.empty(r#"meta http-equiv="Content-Security-Policy""#, &[("content", &POLICY)]);
    page.empty(r#"meta name="viewport" content="width=device-width, initial-scale=1""#, &[]);
    page.empty(r#"meta name="color-scheme" content="light dark""#, &[]);
    page.say("title", short(&text::result(seen), 200));
    page.open("style", &[]).own(STYLE).close_all(2).open("body", &[]);
    page.say(r##"a class="skip" href="#main""##, "To the findings");
    page
}

fn stood<'a>(seen: &'a Seen<'_>) -> Vec<SameHang<'a>> {
    let all = [hangs(&seen.processes), suspected(&seen.processes), stalled(&seen.processes), passed(&seen.processes)];
    all.into_iter().flat_map(by_cause).collect()
}

fn head_of_page(page: &mut Markup, seen: &Seen<'_>, sections: impl Iterator<Item = (&'static str, &'static str)>) {
    page.open("header", &[]).line(r#"p class="result""#, &text::result(seen));
    if let Some(run) = seen.run {
        page.line(r#"p class="command""#, &run.command.join(" "));
    }
    let explored = seen.explored.iter().filter_map(|explored| explored.sentence.as_ref());
    explored.for_each(|sentence| page.line("p", sentence));
    page.open(r#"nav aria-label="Sections""#, &[]).open("ul", &[]);
    for (id, title) in sections {
        page.open("li", &[]).element("a", &[("href", &format!("#{id}"))], &title).close();
    }
    page.close_all(3);
}

fn verdict(page: &mut Markup, seen: &Seen<'_>, stood: &[SameHang<'_>], ranks: Option<&Ranks>) {
    const HEADING: &str = r#"h1 id="verdict-heading""#;
    if let Some(ranks) = ranks {
        page.line(HEADING, &ranks.sentence);
        page.open(r#"ul class="facts""#, &[]);
        ranks.lines(Detail::Whole).iter().skip(1).for_each(|said| page.line("li", said.trim()));
        page.close();
    }
    let mut first = ranks.is_none();
    for same in stood.iter().take(MOST_HANGS) {
        let process = same.first.process;
        let lines = same.first.as_called(same.first.named().head(process.newest));
        let [heading, sentence, more @ ..] = &lines[..] else { continue };
        let class =
            if process.stood.as_ref().is_some_and(|stood| stood.place() == 0) { "finding hang" } else { "finding" };
        page.open("article", &[("class", &class)]).line(r#"p class="who""#, heading);
        page.line(if std::mem::take(&mut first) { HEADING } else { "h2" }, sentence);
        for said in more.iter().map(|said| said.trim()) {
            page.line(if said.starts_with("fix: ") { r#"p class="fix""# } else { FACT }, said);
        }
        same.first.report.revoked.iter().for_each(|revoked| page.line(FACT, &revoked.in_words()));
        same.first.report.ends_in_words().iter().take(1).for_each(|end| page.line(FACT, end));
        same.also_in().iter().for_each(|said| page.line(FACT, said));
        page.close();
    }
    if first {
        let well = if seen.judged.by_cause().is_empty() { "Nothing was found." } else { "No hang; see the hazards." };
        page.line(HEADING, well);
    }
    page.left_out(stood.len(), MOST_HANGS, "other hang");
    seen.problem_lines().take(MOST_LINES).for_each(|problem| page.line(PROBLEM, &problem));
    seen.unguarded().iter().for_each(|said| page.line(PROBLEM, said));
}

fn each_hang(page: &mut Markup, stood: &[SameHang<'_>], mut each: impl FnMut(&mut Markup, usize, &SameHang<'_>)) {
    for (number, same) in stood.iter().take(MOST_HANGS).enumerate() {
        if stood.len() > 1 || !same.others.is_empty() {
            page.line("h3", &same.first.process.title());
        }
        each(page, number, same);
    }
}

fn waits(page: &mut Markup, stood: &[SameHang<'_>]) {
    each_hang(page, stood, |page, number, same| {
        let report = same.first.named();
        for (which, verdict) in report.verdicts.iter().take(MOST_VERDICTS).enumerate() {
            let drawn = picture::waits(page, report, verdict, &format!("waits-{number}-{which}"));
            page.open("details", &[]).say("summary", if drawn { "The facts, one by one" } else { "The facts" });
            page.open("ul", &[]);
            verdict.chain.iter().take(MOST_LINES).for_each(|fact| page.line("li", fact));
            page.close_all(2);
        }
        if report.verdicts.is_empty() {
            report.slow.iter().for_each(|said| page.line(FACT, said));
        }
    });
}

fn threads(page: &mut Markup, stood: &[SameHang<'_>]) {
    each_hang(page, stood, |page, _, same| {
        let report = same.first.named();
        report.stacks.iter().take(MOST_THREADS).for_each(|stack| stack_of(page, report, stack));
        page.left_out(report.stacks.len(), MOST_THREADS, "more thread");
        if report.stacks.is_empty() {
            page.line(FACT, "No stack was taken.");
        }
        if let Some(python) = &report.python {
            folded(page, "Python's threads", python.lines());
        }
        folded(
            page,
            "The whole report as text",
            report.lines(same.first.process.newest, Detail::Whole).iter().map(String::as_str),
        );
    });
}

fn folded<'a>(page: &mut Markup, title: &'static str, lines: impl Iterator<Item = &'a str>) {
    page.open("details", &[]).say("summary", title).open(r#"pre tabindex="0""#, &[]);
    for (number, said) in lines.enumerate() {
        if number == MOST_LINES {
            page.text("and more").newline();
            break;
        }
        page.text(short(said, MOST_LETTERS)).newline();
    }
    page.close_all(2);
}

fn stack_of(page: &mut Markup, report: &HangReport, stack: &StackSeen) {
    let call = report.snapshot.blocked.iter().find(|call| call.thread == stack.thread);
    let name = call.map(|call| call.thread_name.as_str()).filter(|name| !name.is_empty());
    let name = name.map(|name| format!(" \"{name}\"")).unwrap_or_default();
    let doing = call.map(|call| format!(" in {}", call.call)).unwrap_or_default();
    let place = stack.frames.iter().find(|frame| frame.is_of_the_program());
    let place = place.map(|frame| format!(", at {}", frame.short())).unwrap_or_default();
    let summary = short(&format!("thread {}{name}{doing}{place}", stack.thread), MOST_SUMMARY);
    page.open(r#"details class="stack""#, &[]).say("summary", summary).open("ol", &[]);
    for frame in stack.frames.iter().take(MOST_FRAMES) {
        page.line(if frame.is_of_the_program() { r#"li class="own""# } else { r#"li class="foreign""# }, &frame.text());
    }
    page.close().left_out(stack.frames.len(), MOST_FRAMES, "more frame");
    stack.notes.iter().take(MOST_LINES).for_each(|note| page.line(FACT, note));
    page.close();
}

fn hazards(page: &mut Markup, seen: &Seen<'_>) {
    let causes = seen.judged.by_cause();
    if causes.is_empty() {
        page.line(FACT, "No hazard is known.");
    }
    for (number, same) in causes.iter().take(MOST_HAZARDS).enumerate() {
        let lines = text::of_cause(same);
        let [first, rest @ ..] = &lines[..] else { continue };
        let summary = short(first, MOST_SUMMARY);
        let is_cut = summary != *first;
        // The first one fails the run, or was met most often.
        page.open(if number == 0 { r#"details open="""# } else { "details" }, &[]).say("summary", summary);
        page.open(r#"ul class="facts""#, &[]);
        for said in is_cut.then_some(first).into_iter().chain(rest).map(|said| said.trim()) {
            match said.strip_prefix("- ") {
                Some(part) => page.line(r#"li class="fact part""#, part),
                None if said.starts_with("fix: ") => page.line(r#"li class="fix""#, said),
                None => page.line(r#"li class="fact""#, said),
            }
        }
        page.close_all(2);
    }
    page.left_out(causes.len(), MOST_HAZARDS, "more hazard");
    text::possible(&seen.judged).iter().for_each(|line| page.line(FACT, line));
}

fn processes(page: &mut Markup, seen: &Seen<'_>) {
    let columns = "rank, process, program, machine, state, how it ended, cause, launches, hazards, folder";
    let columns: Vec<_> = columns.split(", ").collect();
    page.table("Table of the processes", "table", "The processes of the run, the worst first", &columns);
    for process in seen.processes.iter().take(MOST_PROCESSES) {
        let cause = process.stood.as_ref().and_then(|stood| gist(stood.report())).unwrap_or_default();
        page.row(&[
            &short(&process.rank, 40),
            &process.process,
            &short(&process.program, 80),
            &short(&process.host, 80),
            &process.word(),
            &short(&process.ended, 200),
            &cause,
            &process.summary.as_ref().map(|summary| summary.launches.to_string()).unwrap_or_default(),
            &process.met(),
            &short(&process.name, 120),
        ]);
    }
    page.close_all(3).left_out(seen.processes.len(), MOST_PROCESSES, "more process");
}

#[cfg(test)]
#[path = "page_tests.rs"]
mod tests;
