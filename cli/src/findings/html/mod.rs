//! The findings as one page (`--html`): the sentence and the fix, the wait as a picture, the timeline, stacks, hazards, the cold start.
//!
//! The page is a form of the same [`Seen`] as the text and the JSON object, and takes its sentences from where they do. It is one file: no
//! network, no other file, and a policy that allows the page's own style and script and nothing else. Without the script it can be read;
//! the script zooms the timeline.
//!
//! | file | holds |
//! |---|---|
//! | `markup` | tags, and the escape of all foreign text |
//! | `picture` | who waits for whom; ranks side by side |
//! | `moments` | what was done in the last seconds, thinned |
//! | `timeline` | that as a picture and as a table |
//! | `device` | where the device stood, by a GPU core dump |
//! | `start` | the cold start |
//! | `page.css`, `page.js` | style and script |
//!
//! Its size is bounded: of everything that there may be many of, a page holds at most so many, and says how many it leaves out.
//!
//! Must not: judge, or say what the other forms do not.

mod device;
mod markup;
mod moments;
mod picture;
mod start;
mod timeline;

use super::collect::Stood;
use super::hangs::{by_cause, hangs, sentence, suspected, HangSeen, SameHang};
use super::ranks::{compare, Ranks};
use super::{text, Seen};
use lazyguard_core::api::counted;
use lazyguard_core::report::{HangReport, StackSeen};
use markup::{short, Markup};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// What the page may load and run: its own style and its own script, known by their SHA-256.
const POLICY: &str =
    "default-src 'none'; style-src 'sha256-r1MnsYNBPFuWTI3XL2Nopu8kvVLvi0AReyqkzSybYAw='; script-src 'sha256-v1eB4l4CNmzhSw2zD6eBTKPDU3Yz0Hw42o3z1/pIf8E='; base-uri 'none'; form-action 'none'";

/// Hangs, processes and hazards that a page holds.
const MOST_HANGS: usize = 8;
const MOST_PROCESSES: usize = 512;
const MOST_HAZARDS: usize = 128;
/// Verdicts of one hang, threads whose stacks it has, and frames of each.
const MOST_VERDICTS: usize = 3;
const MOST_THREADS: usize = 64;
const MOST_FRAMES: usize = 128;
/// Lines of what Python says, and characters of one line of text.
const MOST_LINES: usize = 400;
const MOST_LETTERS: usize = 2000;
/// Characters of the line that is seen of something folded.
const MOST_SUMMARY: usize = 240;

/// The page.
pub(super) fn text(seen: &Seen<'_>) -> String {
    let ranks = compare(&seen.processes);
    let stood = stood(seen);
    let moments = moments::of(&seen.processes);
    let starts = start::of(&seen.processes);
    let devices = device::of(stood.iter().take(MOST_HANGS).map(|same| same.first.process));
    let mut page = Markup::default();
    page.own("<!DOCTYPE html>\n").open("html", &[("lang", &"en")]).open("head", &[]);
    page.empty("meta", &[("charset", &"utf-8")]);
    page.empty("meta", &[("http-equiv", &"Content-Security-Policy"), ("content", &POLICY)]);
    page.empty("meta", &[("name", &"viewport"), ("content", &"width=device-width, initial-scale=1")]);
    page.empty("meta", &[("name", &"color-scheme"), ("content", &"light dark")]);
    page.element("title", &[], short(&text::result(seen), 200));
    page.open("style", &[]).own(STYLE).close();
    page.close().open("body", &[]);
    page.element("a", &[("class", &"skip"), ("href", &"#main")], "To the findings");
    let mut sections = vec![("verdict", "Finding")];
    sections.extend((!stood.is_empty() || seen.processes.len() > 1).then_some(("picture", "Who waits")));
    sections.extend(moments.is_some().then_some(("timeline", "Timeline")));
    sections.extend((!stood.is_empty()).then_some(("threads", "Threads")));
    sections.extend((!devices.is_empty()).then_some(("device", "Device")));
    sections.extend([("hazards", "Hazards")]);
    sections.extend((!starts.is_empty()).then_some(("start", "Cold start")));
    sections.extend([("processes", "Processes")]);
    head_of_page(&mut page, seen, &sections);
    page.open("main", &[("id", &"main"), ("tabindex", &"-1")]);
    verdict(&mut page, seen, &stood, ranks.as_ref());
    if sections.iter().any(|(id, _)| *id == "picture") {
        section(&mut page, "picture", "Who waits for whom");
        picture::ranks(&mut page, &seen.processes, ranks.as_ref());
        waits(&mut page, &stood);
        page.close();
    }
    if let Some(moments) = &moments {
        section(&mut page, "timeline", "The last seconds");
        timeline::draw(&mut page, moments);
        page.close();
    }
    threads(&mut page, &stood);
    if !devices.is_empty() {
        section(&mut page, "device", "The device");
        device::draw(&mut page, &devices);
        page.close();
    }
    hazards(&mut page, seen);
    if !starts.is_empty() {
        section(&mut page, "start", "Cold start");
        start::draw(&mut page, &starts, seen.processes.len());
        page.close();
    }
    processes(&mut page, seen);
    page.close().open("footer", &[]);
    page.element("p", &[], format!("LazyGuard {}, of {}", env!("CARGO_PKG_VERSION"), seen.root.display()));
    page.close().open("script", &[]).own(SCRIPT);
    page.finish()
}

/// What stood still: hangs, those that are suspected, and what was slow; a cause each.
fn stood<'a>(seen: &'a Seen<'_>) -> Vec<SameHang<'a>> {
    let slow = seen.processes.iter().filter_map(|process| match &process.stood {
        Some(Stood::Slow(report)) => Some(HangSeen { process, report }),
        Some(Stood::Over(report)) if !report.stands() => Some(HangSeen { process, report }),
        _ => None,
    });
    let mut all = by_cause(hangs(&seen.processes));
    all.extend(by_cause(suspected(&seen.processes)));
    all.extend(by_cause(slow.collect()));
    all
}

/// The lines of a hang's report that have to be read; a suspected hang is called one.
fn head_of(same: &SameHang<'_>) -> Vec<String> {
    let mut lines = same.first.named().head(same.first.process.newest);
    if matches!(same.first.process.stood, Some(Stood::Suspected(_))) {
        lines.iter_mut().take(1).for_each(|line| *line = line.replacen("HANG", "SUSPECTED", 1));
    }
    lines
}

fn section(page: &mut Markup, id: &'static str, title: &'static str) {
    let heading = format!("{id}-heading");
    page.open("section", &[("id", &id), ("aria-labelledby", &heading)]);
    page.element("h2", &[("id", &heading)], title);
}

/// A line of text, which may be long.
fn line(page: &mut Markup, class: &'static str, text: &str) {
    page.element("p", &[("class", &class)], short(text, MOST_LETTERS));
}

fn head_of_page(page: &mut Markup, seen: &Seen<'_>, sections: &[(&'static str, &'static str)]) {
    page.open("header", &[]);
    line(page, "result", &text::result(seen));
    if let Some(run) = seen.run {
        line(page, "command", &run.command.join(" "));
    }
    page.open("nav", &[("aria-label", &"Sections")]).open("ul", &[]);
    for (id, title) in sections {
        page.open("li", &[]).element("a", &[("href", &format!("#{id}"))], title).close();
    }
    page.close().close().close();
}

// --- the finding ---

fn verdict(page: &mut Markup, seen: &Seen<'_>, stood: &[SameHang<'_>], ranks: Option<&Ranks>) {
    page.open("section", &[("id", &"verdict"), ("aria-labelledby", &"verdict-heading")]);
    if let Some(ranks) = ranks {
        page.element("h1", &[("id", &"verdict-heading")], short(&ranks.sentence, MOST_LETTERS));
        page.open("ul", &[("class", &"facts")]);
        for said in ranks.lines().iter().skip(1) {
            page.element("li", &[], short(said.trim(), MOST_LETTERS));
        }
        page.close();
    }
    let mut first = ranks.is_none();
    for same in stood.iter().take(MOST_HANGS) {
        let lines = head_of(same);
        let [heading, said @ ..] = &lines[..] else { continue };
        let [sentence, more @ ..] = said else { continue };
        page.open("article", &[("class", &status(same))]);
        line(page, "who", heading);
        match std::mem::take(&mut first) {
            true => page.element("h1", &[("id", &"verdict-heading")], short(sentence, MOST_LETTERS)),
            false => page.element("h2", &[], short(sentence, MOST_LETTERS)),
        };
        for said in more {
            let class = if said.trim().starts_with("fix: ") { "fix" } else { "fact" };
            line(page, class, said.trim());
        }
        for end in same.first.report.ends_in_words().iter().take(1) {
            line(page, "fact", end);
        }
        if !same.others.is_empty() {
            line(page, "fact", &format!("the same in {}", same.who()));
        }
        page.close();
    }
    if first {
        let well = if seen.judged.hazards.is_empty() { "Nothing was found." } else { "No hang; see the hazards." };
        page.element("h1", &[("id", &"verdict-heading")], well);
    }
    left_out(page, stood.len(), MOST_HANGS, "other hang");
    for problem in seen.problems().take(MOST_LINES) {
        line(page, "problem", &format!("cannot be read: {problem}"));
    }
    if let Some(said) = seen.unguarded() {
        line(page, "problem", &said);
    }
    page.close();
}

fn status(same: &SameHang<'_>) -> &'static str {
    match same.first.process.stood.as_ref().map(Stood::place) {
        Some(0) => "finding hang",
        _ => "finding",
    }
}

fn left_out(page: &mut Markup, count: usize, most: usize, noun: &str) {
    if count > most {
        line(page, "fact", &format!("and {}", counted((count - most) as u64, noun)));
    }
}

// --- the picture ---

fn waits(page: &mut Markup, stood: &[SameHang<'_>]) {
    for (number, same) in stood.iter().take(MOST_HANGS).enumerate() {
        let report = same.first.named();
        if stood.len() > 1 || !same.others.is_empty() {
            page.element("h3", &[], short(&same.first.process.title(), MOST_LETTERS));
        }
        for (which, verdict) in report.verdicts.iter().take(MOST_VERDICTS).enumerate() {
            let drawn = picture::waits(page, report, verdict, &format!("waits-{number}-{which}"));
            page.open("details", &[]);
            page.element("summary", &[], if drawn { "The facts, one by one" } else { "The facts" });
            page.open("ul", &[]);
            for fact in verdict.chain.iter().take(MOST_LINES) {
                page.element("li", &[], short(fact, MOST_LETTERS));
            }
            page.close().close();
        }
        if report.verdicts.is_empty() {
            report.slow.iter().for_each(|said| line(page, "fact", said));
        }
    }
}

// --- threads ---

fn threads(page: &mut Markup, stood: &[SameHang<'_>]) {
    if stood.is_empty() {
        return;
    }
    section(page, "threads", "Threads");
    for same in stood.iter().take(MOST_HANGS) {
        let report = same.first.named();
        if stood.len() > 1 || !same.others.is_empty() {
            page.element("h3", &[], short(&same.first.process.title(), MOST_LETTERS));
        }
        for stack in report.stacks.iter().take(MOST_THREADS) {
            stack_of(page, report, stack);
        }
        left_out(page, report.stacks.len(), MOST_THREADS, "more thread");
        if report.stacks.is_empty() {
            line(page, "fact", "No stack was taken.");
        }
        if let Some(python) = &report.python {
            folded(page, "Python's threads", python.lines());
        }
        folded(page, "The whole report as text", report.lines(same.first.process.newest).iter().map(String::as_str));
    }
    page.close();
}

/// Text in lines, folded.
fn folded<'a>(page: &mut Markup, title: &'static str, lines: impl Iterator<Item = &'a str>) {
    page.open("details", &[]).element("summary", &[], title);
    page.open("pre", &[("tabindex", &"0")]);
    for (number, said) in lines.enumerate() {
        if number == MOST_LINES {
            page.text("and more").newline();
            break;
        }
        page.text(short(said, MOST_LETTERS)).newline();
    }
    page.close().close();
}

fn stack_of(page: &mut Markup, report: &HangReport, stack: &StackSeen) {
    let call = report.snapshot.blocked.iter().find(|call| call.thread == stack.thread);
    let name = call.map(|call| call.thread_name.as_str()).filter(|name| !name.is_empty());
    let name = name.map(|name| format!(" \"{name}\"")).unwrap_or_default();
    let doing = call.map(|call| format!(" in {}", call.call)).unwrap_or_default();
    let place = stack.frames.iter().find(|frame| frame.is_of_the_program());
    let place = place.map(|frame| format!(", at {}", frame.short())).unwrap_or_default();
    page.open("details", &[("class", &"stack")]);
    page.element("summary", &[], short(&format!("thread {}{name}{doing}{place}", stack.thread), MOST_SUMMARY));
    page.open("ol", &[]);
    for frame in stack.frames.iter().take(MOST_FRAMES) {
        let class = if frame.is_of_the_program() { "own" } else { "foreign" };
        page.element("li", &[("class", &class)], short(&frame.text(), MOST_LETTERS));
    }
    page.close();
    left_out(page, stack.frames.len(), MOST_FRAMES, "more frame");
    stack.notes.iter().take(MOST_LINES).for_each(|note| line(page, "fact", note));
    page.close();
}

// --- hazards ---

fn hazards(page: &mut Markup, seen: &Seen<'_>) {
    section(page, "hazards", "Hazards");
    if seen.judged.hazards.is_empty() {
        line(page, "fact", "No hazard is known.");
    }
    for (number, finding) in seen.judged.hazards.iter().take(MOST_HAZARDS).enumerate() {
        let lines = text::finding(finding);
        let [first, rest @ ..] = &lines[..] else { continue };
        // The first one fails the run, or was met most often.
        let open: &[markup::Attribute<'_>] = if number == 0 { &[("open", &"")] } else { &[] };
        let summary = short(first, MOST_SUMMARY);
        let is_cut = summary != *first;
        page.open("details", open).element("summary", &[], summary);
        page.open("ul", &[("class", &"facts")]);
        for said in is_cut.then_some(first).into_iter().chain(rest) {
            let said = said.trim();
            let (class, said) = match said.strip_prefix("- ") {
                Some(part) => ("fact part", part),
                None if said.starts_with("fix: ") => ("fix", said),
                None => ("fact", said),
            };
            page.element("li", &[("class", &class)], short(said, MOST_LETTERS));
        }
        page.close().close();
    }
    left_out(page, seen.judged.hazards.len(), MOST_HAZARDS, "more hazard");
    page.close();
}

// --- processes ---

fn processes(page: &mut Markup, seen: &Seen<'_>) {
    section(page, "processes", "Processes");
    page.open(
        "div",
        &[("class", &"scroll"), ("tabindex", &"0"), ("role", &"group"), ("aria-label", &"Table of the processes")],
    );
    page.open("table", &[]);
    page.element("caption", &[], "The processes of the run, the worst first");
    page.head(&[
        "rank",
        "process",
        "program",
        "machine",
        "state",
        "how it ended",
        "cause",
        "launches",
        "hazards",
        "folder",
    ]);
    page.open("tbody", &[]);
    for process in seen.processes.iter().take(MOST_PROCESSES) {
        let cause = process.stood.as_ref().and_then(|stood| stood.report().verdicts.first());
        let cause = cause.map(|verdict| format!("{}: {}", verdict.code, sentence(verdict))).unwrap_or_default();
        let launches = process.summary.as_ref().map(|summary| summary.launches.to_string()).unwrap_or_default();
        page.row(&[
            &short(&process.rank, 40),
            &process.process,
            &short(&process.program, 80),
            &short(&process.host, 80),
            &process.word(),
            &short(&process.ended, 200),
            &cause,
            &launches,
            &process.met(),
            &short(&process.name, 120),
        ]);
    }
    page.close().close().close();
    left_out(page, seen.processes.len(), MOST_PROCESSES, "more process");
    page.close();
}

#[cfg(test)]
#[path = "page_tests.rs"]
mod tests;
