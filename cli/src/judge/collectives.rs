//! The collectives of one process: its launches of kernels that wait for peers, and of graphs with such kernels, in the order of their
//! submission.

use crate::folder::Opened;
use lazyguard_core::api::{Class, NodeKind};
use lazyguard_core::diagnose::waits_for_peers;
use lazyguard_core::report::demangle;
use lazyguard_core::trace::read::StringTable;
use lazyguard_core::trace::{Lane, Payload, Record};
use lazyguard_core::Nanos;
use std::collections::HashMap;

/// How the name of a collective begins that is a graph's.
pub(crate) const OF_A_GRAPH: &str = "a graph with ";

pub(crate) struct Collectives {
    pub kernels: Vec<String>,
    pub launches: Vec<(Nanos, u16)>,
    pub complete: bool,
}

pub(crate) struct Reader<'o> {
    strings: &'o StringTable,
    /// Numbers of kernels, by the name and whether a graph has it.
    numbers: HashMap<(&'o str, bool), u16>,
    found: Collectives,
}

impl<'o> Reader<'o> {
    pub fn new(opened: &'o Opened) -> Option<Self> {
        let strings = opened.recording.strings();
        let in_graphs = strings.graphs.all().flat_map(|(_, at, graph)| {
            graph.of(NodeKind::Kernel).filter_map(move |part| strings.function(part.what as u32, at))
        });
        // Most programs have none, and their records need not be read.
        let mut all = strings.functions().map(|(.., function)| function).chain(in_graphs);
        if !all.any(|function| function.name.is_some_and(waits_for_peers)) {
            return None;
        }
        // Launches are in two lanes: those that load are rare events.
        let of_launches = |lane: Lane| matches!(lane, Lane::Work | Lane::RareEvents);
        let complete =
            opened.recording.lanes().iter().all(|summary| summary.overwritten == 0 || !of_launches(summary.lane));
        let found = Collectives { kernels: Vec::new(), launches: Vec::new(), complete };
        Some(Self { strings, numbers: HashMap::new(), found })
    }

    pub fn take_in(&mut self, record: &Record) {
        let succeeded = record.result == 0 && record.returned != 0;
        if !record.submitted() || !succeeded {
            return;
        }
        let Some((kernel, in_a_graph)) = self.kernel_of(record) else { return };
        let number = *self.numbers.entry((kernel, in_a_graph)).or_insert_with(|| {
            let number = u16::try_from(self.found.kernels.len()).unwrap_or(u16::MAX);
            let kernel = demangle(kernel);
            self.found.kernels.push(if in_a_graph { format!("{OF_A_GRAPH}{kernel}") } else { kernel });
            number
        });
        self.found.launches.push((record.entered, number));
    }

    fn kernel_of(&self, record: &Record) -> Option<(&'o str, bool)> {
        let named = |number: u32, at: Nanos| {
            self.strings.function(number, at).and_then(|function| function.name).filter(|name| waits_for_peers(name))
        };
        match (record.entry_point.class(), record.payload()) {
            (Class::Launch, _) => Some((named(record.function, record.meant_at())?, false)),
            (Class::GraphLaunch, Payload::Graph(handle)) => {
                let mut kernels = self.strings.graphs.newest(handle, record.entered)?.of(NodeKind::Kernel);
                Some((kernels.find_map(|part| named(part.what as u32, record.entered))?, true))
            }
            _ => None,
        }
    }

    pub fn finish(mut self) -> Collectives {
        self.found.launches.sort_unstable();
        self.found
    }
}

impl Collectives {
    pub fn name(&self, index: usize) -> Option<&str> {
        let (_, kernel) = self.launches.get(index)?;
        self.kernels.get(usize::from(*kernel)).map(String::as_str)
    }

    pub fn index_at(&self, at: Nanos) -> Option<usize> {
        self.launches.binary_search_by_key(&at, |(at, _)| *at).ok()
    }
}
