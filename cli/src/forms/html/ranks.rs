//! The processes of a job side by side, in groups: those that wait, and those that they wait for.
//!
//! Must not: compare them by itself.

use super::markup::{short, Attribute, Markup, FACT_IN_PICTURE};
use super::picture::{rounded, wrapped, WIDTH};
use crate::judge::{ranks_in_words, Process, Ranks};
use lazyguard_core::api::counted;
use std::collections::BTreeMap;

const MOST_SQUARES: usize = 256;

struct Group {
    title: String,
    class: &'static str,
    /// The rank's number, or the process's where it has none.
    members: Vec<String>,
    lines: Vec<String>,
    /// Whether the group waits for those that are not where it is.
    waits: bool,
    is_odd: bool,
}

pub(super) fn draw(page: &mut Markup, processes: &[Process], compared: Option<&Ranks>) {
    if processes.len() < 2 {
        return;
    }
    let groups = compared.map_or_else(|| by_state(processes), |ranks| by_role(ranks, processes));
    let (left, right): (Vec<_>, Vec<_>) = groups.into_iter().partition(|group| !group.is_odd);
    let sizes = |groups: &[Group]| groups.iter().map(|group| height(group) + 16).sum::<i64>();
    page.picture("Picture of the ranks", "picture", (WIDTH, sizes(&left).max(sizes(&right)) + 8), "ranks-title");
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
    let heads = |groups: &[Group]| -> Vec<i64> {
        groups.iter().scan(32, |top, group| Some(std::mem::replace(top, *top + height(group) + 16))).collect()
    };
    let tails: Vec<_> = heads(&left).into_iter().zip(&left).filter(|(_, group)| group.waits).map(|(y, _)| y).collect();
    let tips = heads(&right);
    for (tail, tip) in tails.iter().flat_map(|tail| tips.iter().map(move |tip| (tail, tip))) {
        let line = format!("M{} {tail}L{} {tip}", 4 + GROUP, 4 + GROUP + ACROSS - 2);
        page.empty(r#"path class="arrow" marker-end="url(#ranks-arrow)""#, &[("d", &line)]);
    }
    if let (Some(tail), Some(tip)) = (tails.first(), tips.first()) {
        page.at(r#"text text-anchor="middle" class="how""#, (4 + GROUP + ACROSS / 2, (tail + tip) / 2 - 8), "wait for");
    }
    page.close_all(2);
}

const GROUP: i64 = 450;
const ACROSS: i64 = WIDTH - 2 * GROUP - 8;
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
    fn odd(title: String, ranks: &[u64], lines: Vec<String>) -> Self {
        Self { lines, is_odd: true, ..Self::of(title, "operation culprit", ranks) }
    }

    fn of(title: String, class: &'static str, ranks: &[u64]) -> Self {
        let members = ranks.iter().map(u64::to_string).collect();
        Self { title, class, members, lines: Vec::new(), waits: false, is_odd: false }
    }
}

fn by_role(ranks: &Ranks, processes: &[Process]) -> Vec<Group> {
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
    let group = |((place, word), mut processes): ((u8, &'static str), Vec<&Process>)| {
        processes.sort_by_key(|process| process.number_in_job());
        let named = |one: &&Process| if one.rank.is_empty() { one.process.to_string() } else { one.rank.clone() };
        let ranks: Option<Vec<u64>> = processes.iter().map(|process| process.rank.parse().ok()).collect();
        let who = ranks.map_or_else(|| counted(processes.len() as u64, "process"), ranks_in_words);
        let class = if place == 0 { "thread" } else { "operation" };
        Group { members: processes.iter().map(named).collect(), ..Group::of(format!("{who}: {word}"), class, &[]) }
    };
    states.into_iter().map(group).collect()
}
