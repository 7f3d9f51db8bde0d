//! The ranks that are not to blame, by the place in which they wait.
//!
//! Must not: look up the names of more than a few ranks, which takes a tenth of a second each.

use super::doing::{in_flight_report, standing};
use super::odd_ranks::{RankCluster, Ranks};
use crate::judge::process::Process;
use lazyguard_core::order::grouped;
use lazyguard_core::report::{short_names, HangReport};
use std::collections::BTreeMap;

const MOST_NAMED: usize = 4;

/// A rank that waits, its call, and where the call was made.
type Waiting<'a> = (u64, &'a Process, String, Option<String>);
/// The ranks that wait in one call at one place.
type Same<'a> = ((String, Option<String>), Vec<Waiting<'a>>);

pub(super) fn clusters(found: &Ranks, ranks: &BTreeMap<u64, &Process>) -> Vec<RankCluster> {
    let is_odd = |rank: u64| found.odd().any(|odd| odd.rank == rank);
    let waits = ranks.iter().filter(|(rank, _)| !is_odd(**rank)).filter_map(|(rank, process)| {
        let report = in_flight_report(process)?;
        let call = report.first_call()?;
        Some((*rank, *process, call.call.symbol().to_owned(), report.place_of_call(call)))
    });
    let groups = grouped(waits, |(.., call, place)| (call.clone(), place.clone()));
    let cluster = |(at, ((call, place), same)): (usize, Same<'_>)| {
        let named = same.first().filter(|_| at < MOST_NAMED).and_then(|(_, process, ..)| named_place(process));
        let place = named.or(place).map(|place| short_names(&place).into_owned());
        RankCluster { ranks: same.iter().map(|(rank, ..)| *rank).collect(), call, place }
    };
    groups.into_iter().enumerate().map(cluster).collect()
}

/// With the functions and lines that the recording's files give.
fn named_place(process: &Process) -> Option<String> {
    standing(process)?;
    let named: &HangReport = process.names().report.as_ref()?;
    named.place_of_call(named.first_call()?)
}
