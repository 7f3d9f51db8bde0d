//! The cards at the beginning of a start and in the steady state, joined with the summary by the wall clock.

use crate::judge::timing::ColdStart;
use crate::machine::nvml::{Card, Cards, Sample};
use crate::words::{write_line, Output, Took};
use serde::Serialize;
use std::io;
use std::path::Path;

/// Why the card's state is missing where no run recorded it.
const NOT_SAMPLED: &str = "nobody looked at it while the program ran: `lazyguard run --cold-start` does";

/// The cards at the start and in the steady state.
#[derive(Serialize)]
pub(super) struct CardsOfStart {
    /// Why data is missing.
    why: Option<String>,
    /// The driver's published version.
    driver: Option<String>,
    /// The cards.
    cards: Vec<CardOfStart>,
}

/// A card during a start.
#[derive(Serialize)]
struct CardOfStart {
    /// The card.
    card: Card,
    /// At the start.
    start: Sample,
    /// In the steady state.
    steady: Sample,
    /// When the clock came within a twentieth of the steady state's, after the process's start.
    clock_reached_ns: Option<u64>,
}

fn seen(folder: Option<&Path>) -> Cards {
    let why = |why| Cards { why: Some(why), ..Cards::default() };
    folder.and_then(Cards::of).unwrap_or_else(|| Err(NOT_SAMPLED.to_owned())).unwrap_or_else(why)
}

pub(super) fn of_start(folder: Option<&Path>, summary: &ColdStart) -> CardsOfStart {
    let seen = seen(folder);
    let began = summary.began_unix_ns;
    let steady_at = began.saturating_add(summary.steady.until_ns);
    let of = |card: &Card| {
        Some(CardOfStart {
            card: card.clone(),
            start: seen.at(card.index, began)?.clone(),
            steady: seen.at(card.index, steady_at)?.clone(),
            clock_reached_ns: seen.reached_clock_of(card.index, began, steady_at).map(|at| at - began),
        })
    };
    let cards = seen.cards.iter().filter_map(of).collect();
    CardsOfStart { why: seen.why, driver: seen.driver, cards }
}

impl CardsOfStart {
    pub fn write(&self, summary: &ColdStart, out: &mut Output<'_>) -> io::Result<()> {
        if let Some(why) = &self.why {
            write_line!(out, "the card's state: {why}")?;
        }
        let then = if summary.steady.reached { "when steady" } else { "at the end" };
        for CardOfStart { card, start, steady, clock_reached_ns } in &self.cards {
            let name = card.name.as_deref().unwrap_or("a card without a name");
            write_line!(out, "card {} ({name}):", card.index)?;
            write_line!(out, "  at the start  {}", in_words(start, card))?;
            write_line!(out, "  {then:<12}  {}", in_words(steady, card))?;
            if let Some(reached) = clock_reached_ns {
                write_line!(out, "  its clock was first seen to be about that at +{}", Took(*reached))?;
            }
            if card.persistent == Some(false) {
                write_line!(
                    out,
                    "  persistence mode is off: the driver starts anew for each program that comes alone; this one found it started, by \
                     whoever looked at the card"
                )?;
            }
        }
        Ok(())
    }
}

pub(super) fn write_without_recording(root: &Path, out: &mut Output<'_>) -> io::Result<()> {
    let seen = seen(Some(root));
    if let Some(why) = seen.why.as_ref().filter(|why| *why != NOT_SAMPLED) {
        write_line!(out, "the card's state: {why}")?;
    }
    for card in &seen.cards {
        let Some(first) = seen.at(card.index, 0) else { continue };
        write_line!(out, "card {} before the program: {}", card.index, in_words(first, card))?;
    }
    Ok(())
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
