//! Waits of warps for each other inside a kernel, as a core shows them: the types, and their sentences.
//!
//! Must not: name a block's warps as missing that are known to have passed.

use super::{GpuFrame, GpuKernel};
use crate::api::counted;
use serde::Serialize;

/// The most sentences of a kernel, and the most parties and lines in one.
const MOST_SENTENCES: usize = 4;
const MOST_PARTIES: usize = 3;
const MOST_LINES: usize = 4;

/// A wait inside a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitFor {
    /// Arrivals or bytes at an mbarrier.
    Mbarrier,
    /// Threads of the block.
    Barrier,
    /// The cluster's blocks.
    Cluster,
    /// They poll shared memory.
    SharedMemory,
    /// They poll other memory.
    #[default]
    Memory,
}

/// Warps that wait inside a kernel, of blocks in equal states.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GpuWait {
    /// The wait.
    pub wait: WaitFor,
    /// No warp can end it.
    pub stuck: bool,
    /// The blocks.
    pub blocks: u64,
    /// One: x, y, z.
    pub first_block: [u32; 3],
    /// Their numbers.
    pub warps: Vec<u32>,
    /// The mbarrier's offset in shared memory, or the polled address.
    pub address: Option<u64>,
    /// The content last read.
    pub value: Option<u64>,
    /// The last recorded write there.
    pub written: Option<String>,
    /// The awaited parity.
    pub phase: Option<u32>,
    /// The missing arrivals.
    pub arrivals_missing: Option<u32>,
    /// The expected arrivals.
    pub arrivals_expected: Option<u32>,
    /// The missing bytes.
    pub bytes_missing: Option<i32>,
    /// The barrier's number.
    pub barrier: Option<u32>,
    /// The threads there.
    pub threads_there: Option<u32>,
    /// The threads expected.
    pub threads_expected: Option<u32>,
    /// The innermost first.
    pub frames: Vec<GpuFrame>,
    /// The code's arrivals or copies.
    pub arrivals: Vec<GpuFrame>,
    /// Whether all are at this mbarrier.
    pub arrivals_certain: bool,
    /// The other warps.
    pub parties: Vec<GpuParty>,
}

/// Other warps of such a block.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GpuParty {
    /// Their numbers.
    pub warps: Vec<u32>,
    /// Whether they are of the cluster's other blocks.
    pub in_other_block: bool,
    /// Null: they have ended.
    pub wait: Option<WaitFor>,
    /// Their mbarrier.
    pub address: Option<u64>,
    /// Whether an arrival is ahead of them.
    pub leads_to_arrival: Option<bool>,
    /// The innermost first.
    pub frames: Vec<GpuFrame>,
}

impl GpuKernel {
    /// A sentence for each state in which blocks wait; at most so many, and a line for the others.
    pub fn wait_lines(&self) -> Vec<String> {
        let shown = if self.waits.len() > MOST_SENTENCES + 1 { MOST_SENTENCES } else { self.waits.len() };
        let mut lines: Vec<_> = self.waits[..shown].iter().map(|wait| self.wait_line(wait)).collect();
        if shown < self.waits.len() {
            lines.push(format!("{}: and {}", self.name, counted((self.waits.len() - shown) as u64, "more wait")));
        }
        lines
    }

    pub(super) fn wait_line(&self, wait: &GpuWait) -> String {
        let circle = match self.waits.iter().any(|other| wait.is_in_circle_with(other)) {
            true => ": a circle, each of the two mbarriers waits for the other",
            false => "",
        };
        format!("{}: {}{circle}", self.name, wait.sentence(self.blocks_resident))
    }

    /// The first wait that nothing in its block can end.
    pub fn stuck(&self) -> Option<&GpuWait> {
        self.waits.iter().find(|wait| wait.stuck)
    }
}

impl GpuWait {
    /// Such as "96 of 132 blocks: warps 4 to 7 wait at the mbarrier at smem+0x400 (kernel.cu:88) for phase 1: 1 of 1 arrivals is missing; kernel.cu:52
    /// arrives there: warp 0 has exited".
    pub fn sentence(&self, resident: u64) -> String {
        let blocks = format!("{} of {}", self.blocks, counted(resident, "block"));
        let verb = match (self.wait, self.warps.len() == 1) {
            (WaitFor::Memory | WaitFor::SharedMemory, true) => "spins",
            (WaitFor::Memory | WaitFor::SharedMemory, false) => "spin",
            (_, true) => "waits",
            (_, false) => "wait",
        };
        let at = place_in_words(self.wait, self.address, self.barrier);
        let line = in_brackets(&self.frames);
        let over = match self.may_be_for_an_ended_phase() {
            true => {
                "; no arrival of that phase is made or ahead: if all were made before, the phase that is meant is over"
            }
            false => "",
        };
        format!("{blocks}: {} {verb} {at}{line}{}{}{over}", warps_in_words(&self.warps), self.missing(), self.who())
    }

    /// Whether each of two mbarriers of a block lacks arrivals that the warps at the other would make.
    fn is_in_circle_with(&self, other: &Self) -> bool {
        let leads = |from: &Self, to: &Self| {
            let is_there = |party: &&GpuParty| party.wait == Some(WaitFor::Mbarrier) && party.address == to.address;
            let ahead = from.parties.iter().filter(|party| party.leads_to_arrival == Some(true));
            // Another warp that would arrive is another way out.
            from.arrivals_certain
                && ahead.clone().count() == 1
                && ahead.clone().all(|party| is_there(&party) && !party.in_other_block)
        };
        let both = [self, other];
        both.iter().all(|wait| wait.stuck && wait.wait == WaitFor::Mbarrier)
            && self.address != other.address
            && self.first_block == other.first_block
            && leads(self, other)
            && leads(other, self)
    }

    /// Whether the open phase of the mbarrier lacks all its arrivals, and no warp of the block is ahead of one.
    fn may_be_for_an_ended_phase(&self) -> bool {
        let leads = |party: &GpuParty| party.leads_to_arrival == Some(true);
        self.stuck
            && self.arrivals_certain
            && self.arrivals_missing.is_some_and(|missing| missing > 0 && Some(missing) == self.arrivals_expected)
            && self.bytes_missing == Some(0)
            && !self.parties.iter().any(leads)
    }

    fn missing(&self) -> String {
        match self.wait {
            WaitFor::Mbarrier => {
                let phase = self.phase.unwrap_or(0);
                format!(" for phase {phase}: {}", self.arrivals_in_words())
            }
            WaitFor::Barrier => match (self.threads_expected, self.threads_there) {
                (Some(expected), Some(there)) => {
                    format!(" for {}: {there} are there", counted(expected, "thread"))
                }
                _ => String::new(),
            },
            WaitFor::Cluster => String::new(),
            WaitFor::SharedMemory | WaitFor::Memory => {
                let read = self.value.map_or_else(String::new, |value| format!(", where it read {}", small(value)));
                read + &self.written.as_ref().map_or_else(String::new, |written| format!("; {written}"))
            }
        }
    }

    fn arrivals_in_words(&self) -> String {
        let (missing, expected) = (self.arrivals_missing.unwrap_or(0), self.arrivals_expected.unwrap_or(0));
        let bytes = self.bytes_missing.unwrap_or(0);
        let arrivals = match missing {
            0 => None,
            _ => Some(format!("{missing} of {expected} arrivals")),
        };
        let of_bytes = (bytes > 0).then(|| counted(bytes.unsigned_abs(), "byte"));
        let early = match bytes {
            ..0 => format!(", and {} have come that nobody has announced", counted(bytes.unsigned_abs(), "byte")),
            _ => String::new(),
        };
        let verb = if missing + bytes.max(0).unsigned_abs() == 1 { "is" } else { "are" };
        let parts: Vec<_> = arrivals.into_iter().chain(of_bytes).collect();
        format!("{} {verb} missing{early}", parts.join(" and "))
    }

    fn who(&self) -> String {
        let mut parties: Vec<_> = self.parties.iter().collect();
        parties.sort_by_key(|party| (party.leads_to_arrival != Some(true), party.wait));
        let shown = parties.iter().take(MOST_PARTIES).map(|party| party.in_words()).collect::<Vec<_>>();
        let parties = match (shown.join(", "), self.wait) {
            (none, WaitFor::Memory | WaitFor::SharedMemory) if none.is_empty() => String::new(),
            (none, _) if none.is_empty() => "every warp of the block waits there".to_owned(),
            (some, _) => some,
        };
        let mut lines: Vec<_> = self.arrivals.iter().filter(|frame| frame.line_in_words().is_some()).collect();
        lines.sort_by_key(|frame| (&frame.file, frame.line));
        let mut lines: Vec<_> = lines.into_iter().filter_map(GpuFrame::line_in_words).collect();
        lines.dedup();
        let more = if lines.len() > MOST_LINES { " and others" } else { "" };
        lines.truncate(MOST_LINES);
        let verb = match (self.arrivals_missing == Some(0), lines.len() == 1 && more.is_empty()) {
            (true, true) => "copies",
            (true, false) => "copy",
            (false, true) => "arrives",
            (false, false) => "arrive",
        };
        let place = if self.arrivals_certain { "there" } else { "at mbarriers of this kernel" };
        match (lines.is_empty(), parties.is_empty()) {
            (true, true) => String::new(),
            (true, false) => format!("; {parties}"),
            (false, _) => format!("; {}{more} {verb} {place}: {parties}", lines.join(" and ")),
        }
    }
}

impl GpuParty {
    fn in_words(&self) -> String {
        let one = self.warps.len() == 1;
        let whose = if self.in_other_block { " of the cluster's other blocks" } else { "" };
        let line = in_brackets(&self.frames);
        let does = match (self.wait, one) {
            (None, true) => " has exited".to_owned(),
            (None, false) => " have exited".to_owned(),
            (Some(WaitFor::Memory | WaitFor::SharedMemory), true) => format!(" spins{line}"),
            (Some(WaitFor::Memory | WaitFor::SharedMemory), false) => format!(" spin{line}"),
            (Some(wait), _) => {
                let behind = if self.leads_to_arrival == Some(false) { ", behind that," } else { "" };
                let verb = if one { "waits" } else { "wait" };
                format!("{behind} {verb} {}{line}", place_in_words(wait, self.address, None))
            }
        };
        format!("{}{whose}{does}", warps_in_words(&self.warps))
    }
}

impl GpuFrame {
    pub(super) fn line_in_words(&self) -> Option<String> {
        let file = self.file.as_deref()?;
        Some(format!("{}:{}", file.rsplit('/').next().unwrap_or(file), self.line?))
    }
}

/// The line of the outermost function that is not a helper's: the kernel's own says most.
fn in_brackets(frames: &[GpuFrame]) -> String {
    frames.last().and_then(GpuFrame::line_in_words).map_or_else(String::new, |line| format!(" ({line})"))
}

fn place_in_words(wait: WaitFor, address: Option<u64>, barrier: Option<u32>) -> String {
    let address = |before: &str| address.map_or_else(String::new, |address| format!(" at {before}{address:#x}"));
    match (wait, barrier) {
        (WaitFor::Mbarrier, _) => format!("at the mbarrier{}", address("smem+")),
        (WaitFor::Barrier, Some(number)) if number > 0 => format!("at barrier {number} of the block"),
        (WaitFor::Barrier, _) => "at the block's barrier".to_owned(),
        (WaitFor::Cluster, _) => "at the cluster's barrier".to_owned(),
        (WaitFor::SharedMemory, _) => format!("on shared memory{}", address("smem+")),
        (WaitFor::Memory, _) => format!("on memory{}", address("")),
    }
}

/// `warp 0`, `warps 4 to 7`, `warps 1, 3 and 5`.
fn warps_in_words(warps: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for &warp in warps {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(warp) => *last = warp,
            _ => runs.push((warp, warp)),
        }
    }
    let words = runs.iter().map(|(first, last)| match last - first {
        0 => first.to_string(),
        1 => format!("{first}, {last}"),
        _ => format!("{first} to {last}"),
    });
    let words = words.collect::<Vec<_>>().join(", ");
    let words = match words.rsplit_once(", ") {
        Some((before, last)) if !last.contains("to") || runs.len() > 1 => format!("{before} and {last}"),
        _ => words,
    };
    format!("{} {words}", if warps.len() == 1 { "warp" } else { "warps" })
}

/// A number as people write small ones, else in hexadecimal.
fn small(value: u64) -> String {
    if value < 1 << 20 {
        value.to_string()
    } else {
        format!("{value:#x}")
    }
}
