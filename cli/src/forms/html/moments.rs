//! Calls and operations of a run's processes in the last seconds before the hang, thinned until a page can hold them.
//!
//! A lane is a thread with its calls, or a stream with its outstanding operations. Calls that follow each other closely are one slice; the
//! further from the hang, the more.
//!
//! Must not: keep more than a bounded number of slices; or judge.

use super::kinds::What;
use crate::folder::Opened;
use crate::forms::records::Lines;
use crate::judge::Process;
use crate::machine::parallel;
use crate::words::{Failure, Took};
use lazyguard_core::diagnose::{BlockedCall, BusyStream};
use lazyguard_core::report::HangReport;
use lazyguard_core::trace::read::Entry;
use lazyguard_core::trace::Kind;
use lazyguard_core::Nanos;
use std::collections::BTreeMap;

pub(super) const BEFORE: Nanos = 5_000_000_000;
pub(super) const MOST_SLICES: usize = 3000;
pub(super) const MOST_PROCESSES: usize = 128;
/// Threads and streams of one process that have lanes, by how many processes there are.
const MOST_LANES: [(usize, usize); 4] = [(1, 12), (4, 6), (16, 3), (MOST_PROCESSES, 1)];
const MOST_OPERATIONS: usize = 16;
const MOST_NAME: usize = 300;

pub(super) struct Slice {
    pub what: What,
    pub start: u64,
    pub end: Option<u64>,
    pub label: String,
    pub text: String,
}

pub(super) struct Lane {
    pub name: String,
    pub slices: Vec<Slice>,
}

pub(super) struct Moments {
    pub window: Window,
    pub view: (u64, u64),
    pub lanes: Vec<Lane>,
    pub left_out: Vec<String>,
}

/// The times that the page shows, in nanoseconds since 1970.
#[derive(Clone, Copy)]
pub(super) struct Window {
    /// When the hang began or, without one, the newest moment.
    pub zero: u64,
    pub zero_is: &'static str,
    pub from: u64,
    pub until: u64,
    all_blocked: u64,
}

impl Window {
    fn of(processes: &[Process]) -> Option<Self> {
        let known = || processes.iter().filter(|process| process.armed_unix_nanos != 0);
        let wall = |process: &Process, at: Nanos| process.armed_unix_nanos.saturating_add(at);
        let reports = || known().filter_map(|process| Some((process, process.stood.as_ref()?.report())));
        let began = |(process, report): (&Process, &HangReport)| {
            wall(process, report.waited_in().map(|call| call.entered).min().unwrap_or(report.snapshot.last_activity))
        };
        let blocked =
            reports().flat_map(|(process, report)| report.waited_in().map(|call| wall(process, call.entered)));
        let all_blocked = blocked.max();
        let has_blocked = all_blocked.is_some();
        let last = known().map(|process| wall(process, process.nanos)).max()?;
        let began = reports().map(began).min();
        let zero = began.unwrap_or(last);
        let seen = reports().map(|(process, report)| wall(process, report.snapshot.at)).max();
        let until = seen.unwrap_or(last).max(zero).saturating_add(1);
        let (from, all_blocked) = (zero.saturating_sub(BEFORE), all_blocked.unwrap_or(zero).clamp(zero, until));
        let zero_is = match (began, has_blocked) {
            (None, _) => "the newest moment",
            (Some(_), true) => "when the first of the blocked calls was entered",
            (Some(_), false) => "the last call before all stood still",
        };
        Some(Self { zero, zero_is, from, until, all_blocked })
    }

    fn shows(&self, start: u64, end: Option<u64>) -> bool {
        start <= self.until && end.is_none_or(|end| end >= self.from)
    }
}

pub(super) fn of(processes: &[Process]) -> Option<Moments> {
    let window = Window::of(processes)?;
    let mut chosen = Process::recorded(processes);
    let without = chosen.len().saturating_sub(MOST_PROCESSES);
    chosen.truncate(MOST_PROCESSES);
    let count = chosen.len();
    let lanes = MOST_LANES.iter().find(|(processes, _)| count <= *processes).map_or(1, |(_, lanes)| *lanes);
    let share = Share { lanes, slices: MOST_SLICES / (count * lanes).max(1), names_process: count > 1 };
    let read = parallel::each(&chosen, |process| Collected::read(process, &window, &share).unwrap_or_default());
    let mut all = Collected::default();
    for one in read {
        all.lanes.extend(one.lanes);
        all.not_shown.iter_mut().zip(one.not_shown).for_each(|(sum, count)| *sum += count);
    }
    let slices = || all.lanes.iter().flat_map(|lane| &lane.slices);
    let first = slices().map(|slice| slice.start.max(window.from)).min().filter(|first| *first < window.zero);
    let lead = window.zero - first.unwrap_or(window.from).min(window.zero);
    // The view includes the call that blocked last.
    let blocked = (window.all_blocked - window.zero).saturating_mul(5) / 4;
    let tail = (window.until - window.zero).min((lead / 3).max(2_000_000).max(blocked));
    let view = (window.zero.saturating_sub(lead + lead / 20), window.zero.saturating_add(tail));
    let window = Window { from: window.from.min(view.0), ..window };
    let [threads, calls, bundled] = all.not_shown;
    let sentences = [
        (without, "process has no lane here", "processes have no lane here"),
        (threads, "thread that made calls then has no lane", "threads that made calls then have no lane"),
        (calls, "short call is left out", "short calls are left out"),
        (bundled, "call is drawn together with its neighbours", "calls are drawn together with their neighbours"),
    ];
    let left_out = sentences.into_iter().filter(|(count, ..)| *count > 0);
    let left_out = left_out.map(|(count, one, many)| format!("{count} {}", if count == 1 { one } else { many }));
    Some(Moments { window, view, left_out: left_out.collect(), lanes: all.lanes })
}

struct Share {
    lanes: usize,
    slices: usize,
    names_process: bool,
}

#[derive(Default)]
struct Collected {
    lanes: Vec<Lane>,
    /// Threads without a lane, calls that are left out, and calls that are drawn together.
    not_shown: [usize; 3],
}

struct Growing {
    what: What,
    start: u64,
    end: Option<u64>,
    entry: Entry,
    took: Nanos,
    count: usize,
}

#[derive(Default)]
struct Thread {
    id: u32,
    slices: Vec<Growing>,
    left_out: usize,
}

impl Thread {
    fn push(&mut self, window: &Window, share: &Share, new: Growing) {
        // Twice as far from the hang, twice as coarse.
        let close = window.zero.abs_diff(new.start) / (share.slices as u64).max(1) * 8;
        let fits = |old: &&mut Growing| {
            let short = |slice: &Growing| slice.end.is_some_and(|end| end - slice.start.min(end) <= close);
            old.what.kind() == new.what.kind()
                && !old.what.stays_apart()
                && !new.what.stays_apart()
                && new.start.saturating_sub(old.end.unwrap_or(u64::MAX)) <= close
                && short(old)
                && short(&new)
        };
        match self.slices.iter_mut().rev().take(3).find(fits) {
            Some(old) => {
                old.end = old.end.max(new.end);
                old.count += 1;
                if new.took > old.took {
                    (old.what, old.entry, old.took) = (new.what, new.entry, new.took);
                }
            }
            None => self.slices.push(new),
        }
        if self.slices.len() > share.slices.saturating_mul(4) + 64 {
            self.thin(share.slices.saturating_mul(2) + 32);
        }
    }

    fn thin(&mut self, most: usize) {
        if self.slices.len() <= most {
            return;
        }
        let weight = |slice: &Growing| {
            let apart = slice.what.stays_apart() || slice.end.is_none();
            (apart, slice.what.kind(), slice.end.map_or(u64::MAX, |end| end.saturating_sub(slice.start)))
        };
        let mut weights: Vec<_> = self.slices.iter().enumerate().map(|(at, slice)| (weight(slice), at)).collect();
        weights.sort_unstable_by(|a, b| b.cmp(a));
        let mut keep = vec![false; self.slices.len()];
        weights.iter().take(most).for_each(|(_, at)| keep[*at] = true);
        let mut keep = keep.into_iter();
        let left_out = self.slices.extract_if(.., |_| !keep.next().unwrap_or(true));
        self.left_out += left_out.map(|slice| slice.count).sum::<usize>();
    }
}

impl Collected {
    fn read(process: &Process, window: &Window, share: &Share) -> Result<Self, Failure> {
        let Some(opened) = process.opened() else { return Ok(Self::default()) };
        let report = process.stood.as_ref().map(|stood| stood.report());
        let armed = opened.recording.facts().armed_unix_nanos;
        let mut threads: BTreeMap<u32, Thread> = BTreeMap::new();
        let mut see = |entry: &Entry, in_progress: bool| {
            let record = &entry.record;
            let Some(what) = What::of(record) else { return };
            let is_blocked = |call: &BlockedCall| {
                call.past_threshold && (call.thread, call.entered) == (entry.thread, record.entered)
            };
            let blocked = report.is_some_and(|report| report.snapshot.blocked.iter().any(is_blocked));
            let start = armed.saturating_add(record.entered);
            // The record of a call of NCCL is written at its entry.
            let end = (!in_progress || record.kind == Kind::Communication)
                .then(|| armed.saturating_add(record.returned.max(record.entered)));
            let what = if blocked || in_progress && record.kind.is_call() { What::Blocked } else { what };
            if window.shows(start, end) {
                let thread = threads.entry(entry.thread_number).or_default();
                thread.id = entry.thread;
                let took = end.map_or(0, |end| end.saturating_sub(start));
                thread.push(window, share, Growing { what, start, end, entry: *entry, took, count: 1 });
            }
        };
        opened.visit(|entry| see(entry, false))?;
        opened.calls_in_progress().iter().for_each(|entry| see(entry, true));
        Ok(Self::finish(process, report, &opened, threads, share))
    }

    fn finish(
        process: &Process,
        report: Option<&HangReport>,
        opened: &Opened,
        threads: BTreeMap<u32, Thread>,
        share: &Share,
    ) -> Self {
        let armed = opened.recording.facts().armed_unix_nanos;
        let before = match (share.names_process, process.rank.as_str()) {
            (false, _) => String::new(),
            (true, "") => format!("process {}: ", process.process),
            (true, rank) => format!("rank {rank}: "),
        };
        // Threads that are blocked come first, then those that do most.
        let explained = |thread: &Thread| {
            let mut blocked = report.iter().flat_map(|report| &report.verdicts).flat_map(|verdict| &verdict.threads);
            blocked.position(|blocked| *blocked == thread.id).unwrap_or(usize::MAX)
        };
        let mut order: Vec<_> = threads.into_iter().collect();
        order.sort_by_key(|(number, thread)| {
            let calls: usize = thread.slices.iter().map(|slice| slice.count).sum();
            (explained(thread), usize::MAX - calls - thread.left_out, *number)
        });
        let streams = report.map_or(&[][..], |report| &report.snapshot.streams);
        let for_streams = streams.len().min(share.lanes / 3);
        let for_threads = share.lanes - for_streams;
        let mut all = Self { lanes: Vec::new(), not_shown: [order.len().saturating_sub(for_threads), 0, 0] };
        let mut lines = Lines::new(opened);
        for (number, mut thread) in order.into_iter().take(for_threads) {
            thread.thin(share.slices);
            let known = opened.recording.threads().iter().find(|known| known.number == number);
            let name = known.map_or("", |known| known.name.as_str());
            let name = format!("{before}thread {} {name}", thread.id).trim_end().to_owned();
            all.not_shown[1] += thread.left_out;
            let bundled = thread.slices.iter().filter(|slice| slice.count > 1);
            all.not_shown[2] += bundled.map(|slice| slice.count).sum::<usize>();
            all.lanes.push(Lane { name, slices: thread.slices.iter().map(|slice| slice.finish(&mut lines)).collect() });
        }
        all.lanes.extend(streams.iter().take(for_streams).map(|busy| Lane::of_stream(busy, armed, &before)));
        all
    }
}

impl Lane {
    /// A stream runs its operations one after the other: each is drawn until the next was submitted.
    fn of_stream(busy: &BusyStream, armed: u64, before: &str) -> Self {
        let timed = busy.operations.iter().take(MOST_OPERATIONS);
        let known: Vec<_> = if busy.operations.is_empty() { vec![&busy.oldest] } else { timed.collect() };
        let slices = known.iter().enumerate().map(|(at, operation)| Slice {
            what: What::InFlight,
            start: armed.saturating_add(operation.at),
            end: known.get(at + 1).map(|next| armed.saturating_add(next.at)),
            label: operation.name(),
            text: short(&operation.name())
                + &format!(" ({}) is submitted, and not known to have ended", operation.call),
        });
        Self { name: format!("{before}stream {}", busy.stream.number), slices: slices.collect() }
    }
}

fn short(name: &str) -> String {
    super::markup::short(name, MOST_NAME)
}

impl Growing {
    fn finish(&self, lines: &mut Lines<'_>) -> Slice {
        let kind = self.entry.record.kind;
        let line = lines.of(&self.entry);
        let call = short(&line.in_words(kind));
        let text = match self.count {
            1 => call,
            count => format!("{count} calls; the longest, {}: {call}", Took(self.took)),
        };
        let label = match (self.count, kind) {
            (1, Kind::Hazard) => "!".to_owned(),
            (1, _) => short(line.function.unwrap_or(line.call)),
            (count, _) => format!("{count} calls"),
        };
        Slice { what: self.what, start: self.start, end: self.end, label, text }
    }
}

#[cfg(test)]
#[path = "moments_tests.rs"]
mod tests;
