//! The wait as a picture: the threads above, below them the links ([`Link`]) of a verdict; and the same as a table.
//!
//! Must not: find out by itself who waits for whom.

use super::markup::{short, Markup};
use lazyguard_core::api::{counted, lasted};
use lazyguard_core::diagnose::{
    links_of, BlockedCall, Culprit, Link, OperationSeen, Party, Snapshot, ThreadActivity, Verdict,
};
use lazyguard_core::report::{demangle, HangReport};
use std::collections::BTreeMap;

pub(super) const WIDTH: i64 = 1000;
const BOX: i64 = 236;
const HIGH: i64 = 66;
const GAP: i64 = 72;
const MOST_IN_ROW: usize = 4;
const MOST_LINKS: usize = 64;
const IN_BOX: usize = 29;
const BESIDE: usize = 40;

struct Node {
    party: Party,
    lines: [String; 3],
    class: &'static str,
    row: usize,
    x: i64,
}

impl Node {
    fn top(&self) -> i64 {
        GAP / 2 + self.row as i64 * (HIGH + GAP)
    }
}

pub(super) fn waits(page: &mut Markup, report: &HangReport, verdict: &Verdict, id: &str) -> bool {
    let links: Vec<_> = links_of(&report.snapshot, verdict).into_iter().take(MOST_LINKS).collect();
    if links.is_empty() {
        return false;
    }
    let (nodes, more) = place(report, verdict, &links);
    let rows = nodes.iter().map(|node| node.row).max().unwrap_or(0) as i64 + 1;
    let height = rows * (HIGH + GAP);
    let title = format!("{id}-title");
    page.picture("Picture of the wait", "picture", (WIDTH, height), &title);
    page.element("title", &[("id", &title)], &format!("Who waits for whom: {}", verdict.sentence));
    let arrow = format!("{id}-arrow");
    page.tip(&arrow);
    let mut said: Vec<(usize, &str)> = Vec::new();
    let mut labels = Vec::new();
    for link in &links {
        let find = |party: &Party| nodes.iter().find(|node| node.party == *party);
        let (Some(from), Some(to)) = (find(&link.from), find(&link.to)) else { continue };
        let is_new = !said.contains(&(from.row, link.how)) && !link.how.is_empty();
        labels.push((arrow_between(page, from, to, &arrow), if is_new { link.how } else { "" }));
        said.push((from.row, link.how));
    }
    // Above all arrows, so that none crosses a label.
    labels.iter().for_each(|(place, how)| label(page, *place, how));
    nodes.iter().for_each(|node| draw(page, node));
    for (row, count) in more {
        let y = GAP / 2 - 10 + row as i64 * (HIGH + GAP);
        page.at(r#"text text-anchor="end""#, (WIDTH - 8, y), format!("and {count} more"));
    }
    page.close_all(2);
    table(page, report, verdict, &links);
    true
}

/// The boxes in rows: each below the first that waits for it. Those beyond what fits into a row are counted.
fn place(report: &HangReport, verdict: &Verdict, links: &[Link]) -> (Vec<Node>, Vec<(usize, usize)>) {
    let mut rows: Vec<(Party, usize)> = Vec::new();
    for link in links {
        let known = rows.iter().find(|(party, _)| *party == link.from).map(|(_, row)| *row);
        rows.extend(known.is_none().then(|| (link.from.clone(), 0)));
        let from = known.unwrap_or(0);
        if !rows.iter().any(|(party, _)| *party == link.to) {
            rows.push((link.to.clone(), from + 1));
        }
    }
    let mut in_row: BTreeMap<usize, Vec<Party>> = BTreeMap::new();
    rows.into_iter().for_each(|(party, row)| in_row.entry(row).or_default().push(party));
    let (mut nodes, mut more) = (Vec::new(), Vec::new());
    for (row, parties) in in_row {
        let count = parties.len().min(MOST_IN_ROW);
        more.extend((parties.len() > count).then(|| (row, parties.len() - count)));
        let step = WIDTH / count as i64;
        for (at, party) in (0..).zip(parties.into_iter().take(count)) {
            let (lines, class) = describe(report, verdict, &party);
            nodes.push(Node { party, lines, class, row, x: step / 2 + at * step });
        }
    }
    (nodes, more)
}

fn describe(report: &HangReport, verdict: &Verdict, party: &Party) -> ([String; 3], &'static str) {
    let snapshot = &report.snapshot;
    match party {
        Party::Thread(thread) => {
            let call = snapshot.blocked.iter().find(|call| call.thread == *thread);
            let host = snapshot.host_functions.iter().find(|host| host.thread == *thread);
            let name = call.map(|call| call.thread_name.as_str()).unwrap_or_default();
            let (doing, long) = match (call, host) {
                (Some(call), _) => (in_call(call), format!("for {}", lasted(call.blocked_nanos))),
                (None, Some(host)) => {
                    ("in the host function".to_owned(), host.doing.map_or("", ThreadActivity::words).to_owned())
                }
                (None, None) => (String::new(), String::new()),
            };
            ([format!("thread {thread} {name}").trim_end().to_owned(), doing, long], "thread")
        }
        Party::Operation { stream, at } => {
            let operation = operation(snapshot, verdict, *stream, *at);
            let name = operation.map_or_else(|| "an operation".to_owned(), OperationSeen::name);
            let is_it = |one: &Culprit| (one.stream.number, one.operation.at) == (*stream, *at);
            let (state, class) = match () {
                () if verdict.held_back.as_ref().is_some_and(is_it) => ("cannot start", "operation"),
                () if verdict.culprits.iter().any(is_it) => ("has not ended", "operation culprit"),
                () => ("waits", "operation"),
            };
            ([name, format!("on stream {stream}, since {}", seconds(*at)), state.to_owned()], class)
        }
        Party::Stream(stream) => {
            let is_fed = verdict.fed.iter().any(|fed| fed.stream.number == *stream);
            let submitted = snapshot.stream(*stream).map_or(0, |busy| busy.outstanding);
            ([format!("stream {stream}"), of_stream(is_fed, submitted), String::new()], "operation")
        }
        Party::Write(address) => (
            [
                format!("a write to {address:#x}"),
                "no submitted operation".to_owned(),
                "writes what is waited for".to_owned(),
            ],
            "absent",
        ),
        Party::Unseen => {
            (["a stream or more".to_owned(), "that the guard does".to_owned(), "not follow".to_owned()], "absent")
        }
        Party::Ranks => (["other ranks".to_owned(), "that have not joined".to_owned(), String::new()], "absent"),
    }
}

/// The words of the text for a stream whose operations are not known one by one: some of those that were submitted may have ended.
fn of_stream(is_fed: bool, submitted: u64) -> String {
    match (is_fed, submitted) {
        (true, _) => "submitted to all the time".to_owned(),
        (false, 0) => String::new(),
        (false, submitted) => format!("{} submitted", counted(submitted, "operation")),
    }
}

fn in_call(call: &BlockedCall) -> String {
    match (call.queries, &call.function) {
        (Some(_), _) => format!("polls {}", call.call),
        (None, None) => format!("in {}", call.call),
        (None, Some(name)) => format!("in {} of {}", call.call, demangle(name)),
    }
}

fn operation<'a>(snapshot: &'a Snapshot, verdict: &'a Verdict, stream: u32, at: u64) -> Option<&'a OperationSeen> {
    let busy = snapshot.stream(stream);
    let listed =
        busy.into_iter().flat_map(|busy| busy.operations.iter().chain([&busy.oldest])).find(|one| one.at == at);
    let named = verdict.culprits.iter().chain(&verdict.held_back);
    let named = named.filter(|one| one.stream.number == stream).map(|one| &one.operation);
    listed.or_else(|| named.into_iter().find(|one| one.at == at))
}

fn seconds(at: u64) -> String {
    format!("+{:.3} s", at as f64 / 1e9)
}

fn draw(page: &mut Markup, node: &Node) {
    const NAME: &str = r#"text text-anchor="middle" class="name""#;
    const BELOW: &str = r#"text text-anchor="middle" class="fact""#;
    page.open("g", &[("class", &node.class)]);
    let y = node.top();
    rounded(page, [node.x - BOX / 2, y, BOX, HIGH]);
    for (at, line) in (0..).zip(&node.lines) {
        page.at(if at == 0 { NAME } else { BELOW }, (node.x, y + 20 + at * 18), short(line, IN_BOX));
    }
    page.close();
}

pub(super) fn rounded(page: &mut Markup, [x, y, width, height]: [i64; 4]) {
    page.empty(r#"rect rx="6""#, &[("x", &x), ("y", &y), ("width", &width), ("height", &height)]);
}

/// An arrow down to the next row, or around the boxes back to an earlier one. Returns where its label begins or ends, and which.
fn arrow_between(page: &mut Markup, from: &Node, to: &Node, tip: &str) -> (i64, i64, &'static str) {
    let tip = format!("url(#{tip})");
    let (line, x, y, anchor) = if to.row > from.row {
        let (start, end) = (from.top() + HIGH, to.top() - 2);
        let line = format!("M{} {start}L{} {end}", from.x, to.x);
        // Near the tail, so that arrows that meet do not share a place; and on the side from which the arrow leads away.
        let side = 12 + (to.x - from.x).abs() / 16;
        let (side, anchor) = if to.x > from.x { (-side, "end") } else { (side, "start") };
        (line, (from.x * 2 + to.x) / 3 + side, start + (end - start) / 3 + 6, anchor)
    } else {
        let left = from.x.min(to.x) - BOX / 2;
        let (start, end) = (from.top() + HIGH / 2, to.top() + HIGH / 2);
        let (tail, far, tip) = (from.x - BOX / 2, left - 90, to.x - BOX / 2 - 2);
        (format!("M{tail} {start}C{far} {start} {far} {end} {tip} {end}"), left - 76, (start + end) / 2, "end")
    };
    page.empty(r#"path class="arrow""#, &[("d", &line), ("marker-end", &tip)]);
    (x, y, anchor)
}

fn label(page: &mut Markup, (x, y, anchor): (i64, i64, &'static str), how: &str) {
    for (at, words) in (0..).zip(wrapped(how, BESIDE)) {
        page.element(r#"text class="how""#, &[("x", &x), ("y", &(y + at * 16)), ("text-anchor", &anchor)], &words);
    }
}

pub(super) fn wrapped(text: &str, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        match lines.last_mut().filter(|line| line.len() + word.len() < most) {
            Some(line) => {
                line.push(' ');
                line.push_str(word);
            }
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

fn table(page: &mut Markup, report: &HangReport, verdict: &Verdict, links: &[Link]) {
    let words = |party: &Party| {
        let ([title, one, two], _) = describe(report, verdict, party);
        [title, one, two].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
    };
    page.open("details", &[]).say("summary", "The picture as a table");
    page.table("Table of the wait", "table", "Who waits for whom", &["who", "waits for", "how"]);
    for link in links {
        page.row(&[&short(&words(&link.from), 300), &short(&words(&link.to), 300), &link.how]);
    }
    page.close_all(4);
}

#[cfg(test)]
mod tests {
    use super::of_stream;

    #[test]
    fn a_stream_says_no_more_than_the_text_does() {
        assert_eq!(of_stream(true, 6409), "submitted to all the time");
        assert_eq!((of_stream(false, 6409).as_str(), of_stream(false, 0).as_str()), ("6409 operations submitted", ""));
    }
}
