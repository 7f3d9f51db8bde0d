//! The collectives of one process: its launches of kernels that wait for peers, and of graphs with such kernels, in the order of their
//! submission.

use crate::source::Opened;
use crate::Failure;
use lazyguard_core::api::{Class, GraphPart, NodeKind};
use lazyguard_core::diagnose::waits_for_peers;
use lazyguard_core::report::demangle;
use lazyguard_core::trace::{Lane, Payload};
use lazyguard_core::Nanos;
use std::collections::HashMap;

/// The collectives of one process.
pub(super) struct Collectives {
    pub kernels: Vec<String>,
    /// When each was submitted, and which of the kernels it is, in that order.
    pub launches: Vec<(Nanos, u16)>,
    /// Whether every record of them is there.
    pub complete: bool,
}

impl Collectives {
    /// Those in a recording; `None` where it has none.
    pub fn of(opened: &Opened) -> Result<Option<Self>, Failure> {
        let strings = opened.recording.strings();
        let graphs =
            || strings.graphs().flat_map(|(_, at, graph)| graph.of(NodeKind::Kernel).map(move |part| (part, at)));
        let is_in_a_graph = |part: &GraphPart, at| {
            strings.function(part.what as u32, at).and_then(|function| function.name).is_some_and(waits_for_peers)
        };
        // Most programs have none, and their records need not be read again.
        let any = strings.functions().any(|(.., function)| function.name.is_some_and(waits_for_peers));
        if !any && !graphs().any(|(part, at)| is_in_a_graph(part, at)) {
            return Ok(None);
        }
        // Launches are in two lanes: those that load are rare events.
        let of_launches = |lane: Lane| matches!(lane, Lane::Work | Lane::RareEvents);
        let complete =
            opened.recording.lanes().iter().all(|summary| summary.overwritten == 0 || !of_launches(summary.lane));
        let mut found = Self { kernels: Vec::new(), launches: Vec::new(), complete };
        let mut numbers: HashMap<String, u16> = HashMap::new();
        opened.each_record(|entry| {
            let record = &entry.record;
            let succeeded = record.result == 0 && record.returned != 0;
            if !record.submitted() || !succeeded {
                return Ok(());
            }
            let named = |number: u32, at: Nanos| {
                strings.function(number, at).and_then(|function| function.name).filter(|name| waits_for_peers(name))
            };
            let name = match (record.entry_point.class(), record.payload()) {
                (Class::Launch, _) => named(record.function, record.meant_at()).map(demangle),
                (Class::GraphLaunch, Payload::Graph(handle)) => {
                    strings.graph(handle, record.entered).and_then(|graph| {
                        let mut kernels = graph.of(NodeKind::Kernel);
                        let kernel = kernels.find_map(|part| named(part.what as u32, record.entered))?;
                        Some(format!("a graph with {}", demangle(kernel)))
                    })
                }
                _ => None,
            };
            let Some(name) = name else { return Ok(()) };
            let number = match numbers.get(&name) {
                Some(number) => *number,
                None => {
                    let number = u16::try_from(found.kernels.len()).unwrap_or(u16::MAX);
                    found.kernels.push(name.clone());
                    numbers.insert(name, number);
                    number
                }
            };
            found.launches.push((record.entered, number));
            Ok(())
        })?;
        found.launches.sort_unstable();
        Ok(Some(found))
    }

    /// The kernel of one of them.
    pub fn name(&self, index: usize) -> Option<&str> {
        let (_, kernel) = self.launches.get(index)?;
        self.kernels.get(usize::from(*kernel)).map(String::as_str)
    }

    /// The one that was submitted then.
    pub fn index_at(&self, at: Nanos) -> Option<usize> {
        self.launches.binary_search_by_key(&at, |(at, _)| *at).ok()
    }
}
