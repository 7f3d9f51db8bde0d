//! The calls of NCCL of one process, by communicator.
//!
//! Must not: compare processes, or keep more than a bounded number of calls.

use crate::folder::Opened;
use lazyguard_core::api::{Class, EntryPoint};
use lazyguard_core::report::{arguments_in_words, collective_name};
use lazyguard_core::trace::read::CommunicatorSeen;
use lazyguard_core::trace::{Communication, Kind, Lane, Payload, Record};
use lazyguard_core::Nanos;
use std::collections::{BTreeMap, VecDeque};

/// The newest collectives of a communicator that are kept. Ranks that are further apart are compared by their counts alone.
const MOST_CALLS: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Called {
    pub at: Nanos,
    pub stream: u32,
    pub entry_point: EntryPoint,
    pub about: Communication,
}

impl Called {
    /// The part of a call that all ranks have in common: the function, and its arguments but for the buffers, which differ by rank.
    pub fn key(&self) -> (&'static str, u64, u16, Option<u16>, Option<u16>) {
        let Communication { count, data_type, operator, root, .. } = self.about;
        (self.name(), count, data_type, operator, root)
    }

    pub fn is_like(&self, other: &Self) -> bool {
        self.key() == other.key()
    }

    fn name(&self) -> &'static str {
        // Two names for one call.
        Some(collective_name(self.entry_point)).filter(|name| *name != "Bcast").unwrap_or("Broadcast")
    }

    pub fn in_words(&self) -> String {
        format!("{} of {}", self.name(), arguments_in_words(self.entry_point, &self.about))
    }
}

/// The other end of a send or receive, and its direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Peer {
    pub rank: u16,
    pub sends: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Member {
    /// The id by which all its ranks know it; 0 where that is not known.
    pub id: u64,
    pub name: Option<String>,
    pub rank: Option<(u32, u32)>,
    pub born: Nanos,
    /// How many collectives were called on it, and how often it was split.
    pub collectives: u64,
    pub splits: u32,
    pub calls: VecDeque<Called>,
    /// Sends and receives: how many, and the newest of them.
    pub exchanges: BTreeMap<Peer, (u64, Called)>,
}

impl Member {
    /// The collective of this number; `None` where it was not called, or its record is gone.
    pub fn call(&self, number: u64) -> Option<&Called> {
        let first = u64::from(self.calls.front()?.about.number);
        let called = self.calls.get(usize::try_from(number.checked_sub(first)?).ok()?)?;
        (u64::from(called.about.number) == number).then_some(called)
    }

    /// A collective that does not count, nor does any after it.
    fn leave_out(&mut self, number: u32) {
        self.collectives = self.collectives.min(u64::from(number).saturating_sub(1));
    }

    fn take_in(&mut self, called: Called) {
        match called.entry_point.class() {
            Class::Collective => {
                // A number that comes again: NCCL had refused the former call. A gap: records are gone.
                let next = self.calls.back().map_or(0, |last| last.about.number + 1);
                if called.about.number < next {
                    self.calls.retain(|earlier| earlier.about.number < called.about.number);
                } else if called.about.number > next {
                    self.calls.clear();
                }
                if self.calls.len() == MOST_CALLS {
                    self.calls.pop_front();
                }
                self.calls.push_back(called);
            }
            _ => {
                let Some(rank) = called.about.root else { return };
                let peer = Peer { rank, sends: called.entry_point.symbol() == "ncclSend" };
                let exchange = self.exchanges.entry(peer).or_insert((0, called));
                *exchange = (exchange.0 + 1, called);
            }
        }
    }
}

/// A call of NCCL in which the process waits for other ranks in NCCL's own code.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meeting {
    pub entry_point: EntryPoint,
    pub since: Nanos,
    pub id: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Communications {
    pub(crate) members: Vec<Member>,
    pub(crate) meeting: Option<Meeting>,
    pub(crate) complete: bool,
}

pub(crate) struct Reader<'o> {
    opened: &'o Opened,
    members: BTreeMap<u32, Member>,
    /// Calls after this time do not count.
    until: Nanos,
}

impl<'o> Reader<'o> {
    pub fn new(opened: &'o Opened, until: Nanos) -> Option<Self> {
        let recording = &opened.recording;
        let member = |one: &CommunicatorSeen| {
            let name = recording.strings().communicators.newest(one.number, one.born).map(|name| name.to_string());
            let CommunicatorSeen { id, rank, born, collectives, splits, .. } = *one;
            (one.number, Member { id, name, rank, born, collectives, splits, ..Member::default() })
        };
        let counts = |one: &&CommunicatorSeen| one.born <= until;
        let members: BTreeMap<_, _> = recording.communicators().iter().filter(counts).map(member).collect();
        (!members.is_empty()).then_some(Self { opened, members, until })
    }

    pub fn take_in(&mut self, record: &Record) {
        let (Kind::Communication, Payload::Communication(about)) = (record.kind, record.payload()) else { return };
        let member = self.members.get_mut(&about.communicator);
        // An entry that is used again has records of the communicator before.
        if let Some(member) = member.filter(|member| about.number != 0 && record.entered >= member.born) {
            let (at, stream, entry_point) = (record.entered, record.stream, record.entry_point);
            match at <= self.until {
                true => member.take_in(Called { at, stream, entry_point, about }),
                false if entry_point.class() == Class::Collective => member.leave_out(about.number),
                false => {}
            }
        }
    }

    pub fn finish(self) -> Communications {
        let Self { opened, members, until } = self;
        let recording = &opened.recording;
        let in_progress = recording.threads().iter().filter_map(|thread| thread.call_in_progress);
        let meeting = in_progress.filter(|record| record.entered <= until).find_map(|record| {
            let Payload::Communication(about) = record.payload() else { return None };
            let id = members.get(&about.communicator).map_or(0, |member| member.id);
            Some(Meeting { entry_point: record.entry_point, since: record.entered, id })
        });
        let complete = recording.lanes().iter().all(|summary| summary.lane != Lane::Work || summary.overwritten == 0);
        Communications { members: members.into_values().collect(), meeting, complete }
    }
}

impl Communications {
    pub(crate) fn member(&self, id: u64) -> Option<&Member> {
        self.members.iter().find(|member| member.id == id && id != 0)
    }

    pub(crate) fn newest_call(&self) -> Option<Nanos> {
        let exchanges = |member: &Member| member.exchanges.values().map(|(_, newest)| newest.at).max();
        let newest = |member: &Member| member.calls.back().map(|called| called.at).max(exchanges(member));
        self.members.iter().filter_map(newest).max()
    }

    pub(crate) fn rank_in_the_largest(&self) -> Option<u64> {
        let ranks = self.members.iter().filter_map(|member| member.rank);
        ranks.max_by_key(|(_, size)| *size).map(|(rank, _)| u64::from(rank))
    }
}

#[cfg(test)]
mod tests {
    use crate::judge::collect;
    use crate::judge::ranks::compare;
    use crate::judge::test_samples::{hang_report, recording, Scratch};
    use lazyguard_core::report::{json, DumpReport};
    use lazyguard_core::Nanos;
    use std::path::Path;

    /// As a program's handler of SIGTERM makes them.
    #[test]
    fn calls_of_a_rank_that_the_run_has_told_to_end_do_not_count() {
        let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testapps/frameworks/recordings/different_collective");
        let (processes, _) = collect::under(&run);
        let ranks = compare(&processes).unwrap();
        let (number, called) = (ranks.number.unwrap(), &ranks.different[1]);
        let odd = processes.iter().find(|process| process.rank == called.rank.to_string()).unwrap();
        let members = &odd.communications.as_ref().unwrap().members;
        let at = members.iter().find_map(|member| member.call(number)).unwrap().at;
        let told = |request: u64, told_at: Nanos| {
            let scratch = Scratch::new("told");
            for process in &processes {
                let trace = std::fs::read(process.folder.join("trace.lgt")).unwrap();
                scratch.file(&format!("{}/trace.lgt", process.name), trace);
            }
            let hang = hang_report(&recording("1", true), Path::new(""));
            let dump = DumpReport { told_at: Some(told_at), ..DumpReport::new(request, 1, (0, 0), hang) };
            scratch.file(&format!("{}/dump.json", odd.name), json(&dump));
            compare(&collect::under(scratch.folder()).0).unwrap().sentence
        };
        const ENDS: u64 = 1;
        assert!(ranks.sentence.starts_with(&format!("as collective {number} of communicator 0, ")));
        let behind = told(ENDS, at - 1);
        assert!(
            behind.starts_with(&format!("rank 1 has not called collective {number} of communicator 0")),
            "{behind}"
        );
        assert_eq!(told(ENDS, at), ranks.sentence, "it was in the call");
        // A request that ends nothing.
        assert_eq!(told(4, at - 1), ranks.sentence);
    }
}
