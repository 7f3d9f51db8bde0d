//! Ranks compared by the order of a collective and a grid that fills the device. Each leaves the other no room, so two ranks that have launched
//! them in different orders wait for each other.
//!
//! Must not: compare what is not outstanding on both ranks.

use super::doing::{in_flight, Asked};
use super::odd_ranks::{ComparedBy, OddRank, Ranks};
use crate::judge::process::Process;
use lazyguard_core::diagnose::{BusyStream, OperationSeen, Snapshot};
use std::collections::BTreeMap;

/// A grid that fills the device and a collective, each the first operation of a stream.
struct Both<'a> {
    grid: &'a OperationSeen,
    collective: &'a OperationSeen,
    grid_first: bool,
}

impl<'a> Both<'a> {
    fn of(snapshot: &'a Snapshot) -> Option<Self> {
        let first = |which: fn(&OperationSeen) -> bool| {
            let fronts = snapshot.streams.iter().filter(|stream| !stream.destroyed).map(BusyStream::front);
            fronts.filter(|operation| which(operation)).min_by_key(|operation| operation.at)
        };
        let grid = first(OperationSeen::fills_device)?;
        let collective = first(|operation| operation.waits_for_peers() && !operation.fills_device())?;
        Some(Self { grid, collective, grid_first: grid.at < collective.at })
    }
}

pub(crate) fn compare(ranks: &BTreeMap<u64, &Process>, compared_by: ComparedBy) -> Option<Ranks> {
    let each = || ranks.iter().filter_map(|(rank, process)| Some((*rank, *process, Both::of(in_flight(process)?)?)));
    let (one, _, first) = each().find(|(.., both)| both.grid_first)?;
    let (grid, collective) = (first.grid.name(), first.collective.name());
    let is_other = |both: &Both<'_>| !both.grid_first && both.grid.name() == grid;
    let (other, ..) = each().find(|(.., both)| is_other(both))?;
    let sentence = format!(
        "rank {one} has launched {grid}, which fills the device, before {collective}, and rank {other} the other way round: on rank {one} the \
         collective finds no room, and on rank {other} {grid} does not."
    );
    let asked = Asked::of(ranks);
    let differ = each().filter(|(.., both)| both.grid.name() == grid).map(|(rank, process, _)| {
        let launched = process.collectives.as_ref().map_or(0, |all| all.launches.len() as u64);
        OddRank::of(rank, process, launched, None, &asked)
    });
    Some(Ranks { different: differ.collect(), ..Ranks::new(sentence, compared_by) })
}

#[cfg(test)]
#[path = "orders_tests.rs"]
mod tests;
