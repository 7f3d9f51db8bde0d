//! The cards at the beginning of a start and in the steady state, joined with the summary by the wall clock.

use super::summary::ColdStart;
use super::table::took;
use crate::nvml::{Card, Cards, Sample};
use crate::output::{write_line, Output};
use serde::Serialize;
use std::io;
use std::path::Path;

/// Why the card's state is missing where no run recorded it.
const NOT_SAMPLED: &str = "nobody looked at it while the program ran: `lazyguard run --cold-start` does";

/// What was seen during the run of a folder.
pub(super) fn of(folder: &Path) -> Option<Result<Cards, String>> {
    Cards::of(folder)
}

/// The cards at the start and in the steady state.
#[derive(Serialize)]
pub(super) struct CardsOfStart<'a> {
    /// Why data is missing.
    why: Option<&'a str>,
    /// The driver's published version.
    driver: Option<&'a str>,
    /// The cards.
    cards: Vec<CardOfStart<'a>>,
}

/// A card during a start.
#[derive(Serialize)]
struct CardOfStart<'a> {
    /// The card.
    card: &'a Card,
    /// At the start.
    start: &'a Sample,
    /// In the steady state.
    steady: &'a Sample,
    /// When the clock came within a twentieth of the steady state's, after the process's start.
    clock_reached_ns: Option<u64>,
}

fn joined<'a>(cards: &'a Cards, summary: &ColdStart) -> Vec<CardOfStart<'a>> {
    let began = summary.began_unix_ns;
    let steady_at = began.saturating_add(summary.steady.until_ns);
    let of = |card: &'a Card| {
        let reached = cards.reached_clock_of(card.index, began, steady_at);
        Some(CardOfStart {
            card,
            start: cards.at(card.index, began)?,
            steady: cards.at(card.index, steady_at)?,
            clock_reached_ns: reached.map(|at| at - began),
        })
    };
    cards.cards.iter().filter_map(of).collect()
}

pub(super) fn of_start<'a>(cards: Option<&'a Result<Cards, String>>, summary: &ColdStart) -> CardsOfStart<'a> {
    let (cards, why) = match cards {
        None => (None, Some(NOT_SAMPLED)),
        Some(Err(why)) => (None, Some(why.as_str())),
        Some(Ok(cards)) => (Some(cards), cards.why.as_deref()),
    };
    CardsOfStart {
        why,
        driver: cards.and_then(|cards| cards.driver.as_deref()),
        cards: cards.map_or_else(Vec::new, |cards| joined(cards, summary)),
    }
}

pub(super) fn write(
    cards: Option<&Result<Cards, String>>,
    summary: &ColdStart,
    out: &mut Output<'_>,
) -> io::Result<()> {
    let cards = match cards {
        None => return write_line!(out, "the card's state: {NOT_SAMPLED}"),
        Some(Err(why)) => return write_line!(out, "the card's state: {why}"),
        Some(Ok(cards)) => cards,
    };
    if let Some(why) = &cards.why {
        write_line!(out, "the card's state: {why}")?;
    }
    let steady = if summary.steady.reached { "when steady" } else { "at the end" };
    for one in joined(cards, summary) {
        let name = one.card.name.as_deref().unwrap_or("a card without a name");
        write_line!(out, "card {} ({name}):", one.card.index)?;
        write_line!(out, "  at the start  {}", in_words(one.start, one.card))?;
        write_line!(out, "  {steady:<12}  {}", in_words(one.steady, one.card))?;
        if let Some(reached) = one.clock_reached_ns {
            write_line!(out, "  its clock was first seen to be about that at +{}", took(reached))?;
        }
        if one.card.persistent == Some(false) {
            write_line!(
                out,
                "  persistence mode is off: the driver starts anew for each program that comes alone; this one found it started, by \
                 whoever looked at the card"
            )?;
        }
    }
    Ok(())
}

/// What was seen where no process left a recording.
pub(super) fn write_without_recording(cards: &Result<Cards, String>, out: &mut Output<'_>) -> io::Result<()> {
    match cards {
        Err(why) => write_line!(out, "the card's state: {why}"),
        Ok(cards) => {
            if let Some(why) = &cards.why {
                write_line!(out, "the card's state: {why}")?;
            }
            for card in &cards.cards {
                let Some(first) = cards.at(card.index, 0) else { continue };
                write_line!(out, "card {} before the program: {}", card.index, in_words(first, card))?;
            }
            Ok(())
        }
    }
}

fn in_words(sample: &Sample, card: &Card) -> String {
    let clock = |name: &str, mhz: Option<u32>, most: Option<u32>| {
        let most = most.map(|most| format!(" of {most}")).unwrap_or_default();
        mhz.map(|mhz| format!("{name} {mhz}{most} MHz"))
    };
    let parts = [
        sample.power_state.map(|state| format!("P{state}")),
        clock("SM", sample.sm_mhz, card.most_sm_mhz),
        clock("memory", sample.memory_mhz, card.most_memory_mhz),
        sample.temperature_c.map(|degrees| format!("{degrees} C")),
        sample.power_mw.map(|milliwatts| format!("{:.0} W", f64::from(milliwatts) / 1e3)),
        (!sample.throttled.is_empty()).then(|| format!("clocks held down by: {}", sample.throttled.join(", "))),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
