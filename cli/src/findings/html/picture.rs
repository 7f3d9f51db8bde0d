//! The wait as a picture: the threads above, below them what each waits for, down to what does not end; and the ranks side by side.
//!
//! A picture shows the links of a verdict ([`Link`]), and each has a table that says the same.
//!
//! Must not: find out by itself who waits for whom.

use super::markup::{short, Attribute, Markup, FACT_IN_PICTURE};
use crate::findings::hangs::ranks_in_words;
use crate::findings::process::Process;
use crate::findings::ranks::Ranks;
use lazyguard_core::api::{counted, lasted};
use lazyguard_core::diagnose::{links_of, BlockedCall, Link, OperationSeen, Party, Snapshot, Verdict};
use lazyguard_core::report::HangReport;
use std::collections::BTreeMap;

const WIDTH: i64 = 1000;
const BOX: i64 = 236;
const HIGH: i64 = 66;
const GAP: i64 = 72;
const MOST_IN_ROW: usize = 4;
const MOST_LINKS: usize = 64;
/// Characters of a line in a box, and of one beside an arrow.
const IN_BOX: usize = 29;
const BESIDE: usize = 40;
/// Ranks of one group that have a square of their own.
const MOST_SQUARES: usize = 256;

/// A party as a box: a title and two lines.
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

/// Draws who waits for whom in a verdict. `false` where nothing is known of that.
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
        let from = match rows.iter().find(|(party, _)| *party == link.from) {
            Some((_, row)) => *row,
            None => {
                rows.push((link.from.clone(), 0));
                0
            }
        };
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
        Party::Thread { thread } => {
            let call = snapshot.blocked.iter().find(|call| call.thread == *thread);
            let host = snapshot.host_functions.iter().find(|host| host.thread == *thread);
            let name = call.map(|call| call.thread_name.as_str()).unwrap_or_default();
            let (doing, long) = match (call, host) {
                (Some(call), _) => (in_call(call), format!("for {}", lasted(call.blocked_nanos))),
                (None, Some(host)) => (
                    "in the host function".to_owned(),
                    host.doing.map(|doing| doing.words().to_owned()).unwrap_or_default(),
                ),
                (None, None) => (String::new(), String::new()),
            };
            ([format!("thread {thread} {name}").trim_end().to_owned(), doing, long], "thread")
        }
        Party::Operation { stream, at } => {
            let operation = operation(snapshot, verdict, *stream, *at);
            let name = operation.map_or_else(|| "an operation".to_owned(), OperationSeen::name);
            let ends = verdict.culprits.iter().any(|one| (one.stream.number, one.operation.at) == (*stream, *at));
            let held =
                verdict.held_back.as_ref().is_some_and(|one| (one.stream.number, one.operation.at) == (*stream, *at));
            let (state, class) = match (ends, held) {
                (_, true) => ("cannot start", "operation"),
                (true, _) => ("has not ended", "operation culprit"),
                _ => ("waits", "operation"),
            };
            ([name, format!("on stream {stream}, since {}", seconds(*at)), state.to_owned()], class)
        }
        Party::Stream { stream } => {
            let is_fed = verdict.fed.iter().any(|fed| fed.stream.number == *stream);
            let submitted = snapshot.stream(*stream).map_or(0, |busy| busy.outstanding);
            ([format!("stream {stream}"), of_stream(is_fed, submitted), String::new()], "operation")
        }
        Party::Write { address } => (
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
    let of = call
        .function
        .as_deref()
        .map(|name| format!(" of {}", lazyguard_core::report::demangle(name)))
        .unwrap_or_default();
    match call.queries {
        Some(_) => format!("polls {}", call.call),
        None => format!("in {}{of}", call.call),
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

fn rounded(page: &mut Markup, [x, y, width, height]: [i64; 4]) {
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
        let line = format!(
            "M{} {start}C{} {start} {} {end} {} {end}",
            from.x - BOX / 2,
            left - 90,
            left - 90,
            to.x - BOX / 2 - 2
        );
        (line, left - 76, (start + end) / 2, "end")
    };
    page.empty(r#"path class="arrow""#, &[("d", &line), ("marker-end", &tip)]);
    (x, y, anchor)
}

fn label(page: &mut Markup, (x, y, anchor): (i64, i64, &'static str), how: &str) {
    for (at, words) in (0..).zip(wrapped(how, BESIDE)) {
        page.element(r#"text class="how""#, &[("x", &x), ("y", &(y + at * 16)), ("text-anchor", &anchor)], &words);
    }
}

/// A text in lines of about so many characters.
fn wrapped(text: &str, most: usize) -> Vec<String> {
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

/// The same as a table.
fn table(page: &mut Markup, report: &HangReport, verdict: &Verdict, links: &[Link]) {
    let words = |party: &Party| {
        let ([title, one, two], _) = describe(report, verdict, party);
        [title, one, two].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
    };
    page.open("details", &[]).say("summary", "The picture as a table");
    page.table("Table of the wait", "table", "Who waits for whom", &[&"who", &"waits for", &"how"]);
    for link in links {
        page.row(&[&short(&words(&link.from), 300), &short(&words(&link.to), 300), &link.how]);
    }
    page.close_all(4);
}

// --- ranks ---

struct Group {
    title: String,
    class: &'static str,
    /// The rank's number, or the process's where it has none.
    members: Vec<String>,
    lines: Vec<String>,
    /// Whether the group waits for those that are not where it is.
    waits: bool,
    /// Whether it is one of those.
    is_odd: bool,
}

/// The processes of a job side by side: which wait, and for which. Nothing where there is one process.
pub(super) fn ranks(page: &mut Markup, processes: &[Process], compared: Option<&Ranks>) {
    if processes.len() < 2 {
        return;
    }
    let groups = compared.map_or_else(|| by_state(processes), |ranks| by_role(ranks, processes));
    let (left, right): (Vec<_>, Vec<_>) = groups.into_iter().partition(|group| !group.is_odd);
    let sizes = |groups: &[Group]| groups.iter().map(|group| height(group) + 16).sum::<i64>();
    let high = sizes(&left).max(sizes(&right)) + 8;
    page.picture("Picture of the ranks", "picture", (WIDTH, high), "ranks-title");
    page.say(r#"title id="ranks-title""#, compared.map_or("The processes by their state", |ranks| &ranks.sentence));
    page.tip("ranks-arrow");
    let mut column = |groups: &[Group], x| {
        let mut y = 8;
        groups.iter().for_each(|group| {
            draw_group(page, group, x, y);
            y += height(group) + 16;
        });
    };
    column(&left, 4);
    column(&right, 4 + GROUP + ACROSS);
    let heads = |groups: &[Group]| {
        let tops = groups.iter().scan(32, |top, group| Some(std::mem::replace(top, *top + height(group) + 16)));
        tops.collect::<Vec<i64>>()
    };
    let tails: Vec<_> = heads(&left).into_iter().zip(&left).filter(|(_, group)| group.waits).map(|(y, _)| y).collect();
    let tips = heads(&right);
    for (tail, tip) in tails.iter().flat_map(|tail| tips.iter().map(move |tip| (tail, tip))) {
        let line = format!("M{} {tail}L{} {tip}", 4 + GROUP, 4 + GROUP + ACROSS - 2);
        page.empty(r#"path class="arrow" marker-end="url(#ranks-arrow)""#, &[("d", &line)]);
    }
    if let (Some(tail), Some(tip)) = (tails.first(), tips.first()) {
        let place = (4 + GROUP + ACROSS / 2, (tail + tip) / 2 - 8);
        page.at(r#"text text-anchor="middle" class="how""#, place, "wait for");
    }
    page.close_all(2);
}

/// A group's width, and the room between the columns.
const GROUP: i64 = 450;
const ACROSS: i64 = WIDTH - 2 * GROUP - 8;
/// A rank's square, and how many stand in a row.
const SQUARE: i64 = 26;
const IN_LINE: usize = 16;

fn height(group: &Group) -> i64 {
    let squares = group.members.len().min(MOST_SQUARES).div_ceil(IN_LINE) as i64;
    34 + squares * SQUARE + group.lines.len() as i64 * 18 + 8
}

fn draw_group(page: &mut Markup, group: &Group, x: i64, y: i64) {
    page.open("g", &[("class", &group.class)]);
    rounded(page, [x, y, GROUP, height(group)]);
    page.at(r#"text class="name""#, (x + 12, y + 22), short(&group.title, 62));
    for (at, member) in group.members.iter().take(MOST_SQUARES).enumerate() {
        let (left, top) = (x + 12 + (at % IN_LINE) as i64 * SQUARE, y + 32 + (at / IN_LINE) as i64 * SQUARE);
        let wide = SQUARE - 3;
        let square: [Attribute<'_>; 4] = [("x", &left), ("y", &top), ("width", &wide), ("height", &wide)];
        page.empty(r#"rect class="square" rx="3""#, &square);
        let middle = (left + wide / 2, top + 16);
        page.at(r#"text text-anchor="middle" class="small""#, middle, short(member, 4));
    }
    let below = y + 32 + group.members.len().min(MOST_SQUARES).div_ceil(IN_LINE) as i64 * SQUARE;
    for (at, line) in (0..).zip(&group.lines) {
        page.at(FACT_IN_PICTURE, (x + 12, below + 14 + at * 18), short(line, 66));
    }
    page.close();
}

impl Group {
    /// Of ranks that are not where the others are.
    fn odd(title: String, ranks: &[u64], lines: Vec<String>) -> Self {
        Self { lines, is_odd: true, ..Self::of(title, "operation culprit", ranks) }
    }

    fn of(title: String, class: &'static str, ranks: &[u64]) -> Self {
        let members = ranks.iter().map(u64::to_string).collect();
        Self { title, class, members, lines: Vec::new(), waits: false, is_odd: false }
    }
}

fn by_role(ranks: &Ranks, processes: &[Process]) -> Vec<Group> {
    /// Ranks of one kind that are drawn one by one.
    const MOST_ALONE: usize = 8;
    let what = ranks.collective.as_deref().unwrap_or("the call");
    let number = ranks.number.map(|number| format!(" {number}")).unwrap_or_default();
    let mut groups = Vec::new();
    if !ranks.joined.is_empty() {
        let are = if ranks.joined.len() == 1 { "is" } else { "are" };
        let title = format!("{} {are} in collective{number}", ranks_in_words(ranks.joined.clone()));
        let lines = wrapped(&short(what, 180), 62);
        groups.push(Group { lines, waits: true, ..Group::of(title, "thread", &ranks.joined) });
    }
    for (odd, title) in [(&ranks.behind, "not there yet"), (&ranks.different, "in another call")] {
        for one in odd.iter().take(MOST_ALONE) {
            let mut lines = vec![counted(one.launched, "collective")];
            lines.extend(wrapped(one.doing.as_deref().unwrap_or_default(), 62));
            lines.extend(one.collective.as_deref().map(|its| format!("has {its}")));
            lines.truncate(5);
            groups.push(Group::odd(format!("rank {} is {title}", one.rank), &[one.rank], lines));
        }
        let rest: Vec<_> = odd.iter().skip(MOST_ALONE).map(|one| one.rank).collect();
        if !rest.is_empty() {
            groups.push(Group::odd(format!("{} more are {title}", rest.len()), &rest, Vec::new()));
        }
    }
    for one in ranks.blocked.iter().take(MOST_ALONE) {
        let lines = wrapped(&short(&one.why, 240), 62);
        groups.push(Group::odd(format!("rank {} is blocked by itself", one.rank), &[one.rank], lines));
    }
    if !ranks.not_compared.is_empty() {
        groups.push(Group::of("cannot be compared".to_owned(), "absent", &ranks.not_compared));
    }
    match groups.iter().all(|group| !group.is_odd) && groups.len() < 2 {
        true => by_state(processes),
        false => groups,
    }
}

fn by_state(processes: &[Process]) -> Vec<Group> {
    let mut states: BTreeMap<(u8, &'static str), Vec<&Process>> = BTreeMap::new();
    for process in processes {
        let place = process.stood.as_ref().map_or(4, |stood| stood.place());
        states.entry((place, process.word())).or_default().push(process);
    }
    let group = |((place, word), processes): ((u8, &'static str), Vec<&Process>)| {
        let mut processes = processes;
        processes.sort_by_key(|process| process.number_in_job());
        let named = |process: &&Process| match process.rank.as_str() {
            "" => process.process.to_string(),
            rank => rank.to_owned(),
        };
        let ranks: Option<Vec<u64>> = processes.iter().map(|process| process.rank.parse().ok()).collect();
        let who = ranks.map_or_else(|| counted(processes.len() as u64, "process"), ranks_in_words);
        let class = if place == 0 { "thread" } else { "operation" };
        let members = processes.iter().map(named).collect();
        Group { members, ..Group::of(format!("{who}: {word}"), class, &[]) }
    };
    states.into_iter().map(group).collect()
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
