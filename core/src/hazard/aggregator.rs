//! Makes hazards of occurrences: equal occurrences are counted, and reported once.
//!
//! The live process records the first, second, fourth, eighth ... occurrence of each hazard, with the count so far: a hazard in a loop
//! overwrites no other record, and the same fold over the records gives lower bounds.
//!
//! Must not: format a name where a thread of the program notes an occurrence; or grow without bound.

use super::event::{Flags, HazardEvent};
use super::{messages, FirstOccurrence, Hazard, StreamClass};
use crate::api::{Code, EntryPoint};
use crate::demangle::demangle;
use crate::map::HashMap;
use crate::order;
use crate::trace::read::{Entry, Recording, Source};
use crate::trace::Lane;
use std::collections::BTreeMap;

pub const MOST_GROUPS: usize = 1024;

/// `None` where not known.
#[derive(Clone, Copy, Debug, Default)]
pub struct Names<'a> {
    pub kernel: Option<&'a str>,
    pub other: Option<&'a str>,
}

/// Occurrences with the same key are one hazard.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Same {
    code: Code,
    prevented: bool,
    call: &'static str,
    class: StreamClass,
    kernel: Option<String>,
}

#[derive(Clone)]
struct Group {
    first: HazardEvent,
    other: Option<String>,
    count: u64,
    /// Whether occurrences are missing from the count.
    at_least: bool,
}

#[derive(Clone, Default)]
pub struct Aggregator {
    groups: HashMap<Same, Group>,
    /// The occurrences by code, prevented ones apart; also those without a group.
    counts: BTreeMap<(bool, Code), u64>,
    pub overflow: u64,
}

impl Aggregator {
    /// Returns how many there are with this one, from 1, where that is to be recorded.
    pub fn note(&mut self, noted: &HazardEvent, names: Names<'_>) -> Option<u32> {
        *self.counts.entry((noted.flags.says(Flags::PREVENTED), noted.code)).or_default() += 1;
        let group = self.group(noted, names)?;
        group.count += 1;
        group.count.is_power_of_two().then(|| u32::try_from(group.count).unwrap_or(u32::MAX))
    }

    fn read(&mut self, noted: &HazardEvent, names: Names<'_>) {
        let Some(group) = self.group(noted, names) else { return };
        let before = group.count;
        group.count = before.max(noted.count.into());
        // The second may be the last, or the third.
        group.at_least |= noted.count > 1;
        if noted.count < group.first.count {
            group.first = *noted;
            group.other = names.other.map(str::to_owned);
        }
        let more = group.count - before;
        *self.counts.entry((noted.flags.says(Flags::PREVENTED), noted.code)).or_default() += more;
    }

    pub fn see<S: Source>(&mut self, recording: &Recording<S>, entry: &Entry) {
        let Some(noted) = HazardEvent::of(&entry.record, entry.thread) else { return };
        let texts = recording.strings();
        let name = |number: u32| texts.function(number, noted.noted).and_then(|function| function.name);
        self.read(&noted, Names { kernel: name(noted.function), other: name(noted.other.operation.function) });
    }

    pub fn hazards_of<S: Source>(&self, recording: &Recording<S>) -> Vec<Hazard> {
        let lane = recording.lanes()[Lane::RareEvents as usize];
        self.hazards(lane.overwritten > 0 || lane.dropped > 0)
    }

    fn group(&mut self, noted: &HazardEvent, names: Names<'_>) -> Option<&mut Group> {
        let same = Same {
            code: noted.code,
            prevented: noted.flags.says(Flags::PREVENTED),
            call: noted.entry_point.info().base(),
            class: noted.class,
            kernel: names.kernel.map(str::to_owned),
        };
        if self.groups.len() >= MOST_GROUPS && !self.groups.contains_key(&same) {
            self.overflow += 1;
            return None;
        }
        Some(self.groups.entry(same).or_insert_with(|| Group {
            first: *noted,
            other: names.other.map(str::to_owned),
            count: 0,
            at_least: false,
        }))
    }

    pub fn counts(&self, prevented: bool) -> Vec<(Code, u64)> {
        self.counts.iter().filter(|((was, _), _)| *was == prevented).map(|((_, code), count)| (*code, *count)).collect()
    }

    /// The hazards in the order in which they arose first. `at_least`: more may have happened.
    pub fn hazards(&self, at_least: bool) -> Vec<Hazard> {
        let mut all: Vec<_> = self.groups.iter().map(|(same, group)| hazard(same, group, at_least)).collect();
        order::sort_by_key(&mut all, |hazard| (hazard.first.at, hazard.code, hazard.key(), hazard.first.thread));
        // Kernels with the same demangled name are one, of which the report shows the earlier.
        let joined = |first: Hazard, later: Hazard| {
            let (count, at_least) = (first.count + later.count, first.at_least || later.at_least);
            Hazard { count, at_least, ..first }
        };
        order::grouped(all, Hazard::key).into_iter().filter_map(|(_, same)| same.into_iter().reduce(joined)).collect()
    }
}

fn hazard(same: &Same, group: &Group, at_least: bool) -> Hazard {
    let noted = &group.first;
    let submitted_by =
        EntryPoint::by_id(noted.other.operation.entry_point).map_or("", |entry_point| entry_point.info().base());
    let mut hazard = Hazard {
        code: same.code,
        title: same.code.title().to_owned(),
        prevented: same.prevented,
        confidence: noted.confidence(),
        because: String::new(),
        waits: None,
        kernel: same.kernel.as_deref().map(demangle),
        call: same.call.to_owned(),
        stream_class: same.class,
        count: group.count,
        at_least: at_least || group.at_least,
        what: String::new(),
        must_meet: Vec::new(),
        evidence: Vec::new(),
        fix: String::new(),
        first: FirstOccurrence {
            at: noted.at,
            thread: noted.thread,
            stream: noted.stream,
            other_stream: noted.other.stream,
            other: group.other.as_deref().map_or_else(|| submitted_by.to_owned(), demangle),
            other_at: noted.other.operation.at,
            held_nanos: noted.held().unwrap_or(0),
            caller: noted.caller,
            path: Some(noted.path).filter(|&path| path != 0),
            place: None,
        },
    };
    messages::put(&mut hazard, noted.flags, group.other.is_some());
    hazard
}

#[cfg(test)]
#[path = "aggregator_tests.rs"]
mod tests;
