//! `lazyguard symbols`: the driver symbols that the library stands in front of.

use crate::words::output::{write_line, Output};
use crate::words::Outcome;
use lazyguard_core::api::ENTRY_POINTS;
use std::process::ExitCode;

pub(crate) fn symbols(ids: bool) -> Outcome {
    let mut out = Output::standard();
    for form in ENTRY_POINTS {
        match ids {
            true => write_line!(out, "{} {}", form.id, form.symbol())?,
            false => write_line!(out, "{}", form.symbol())?,
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
