//! `lazyguard path` and `symbols`: where the library is, and the driver symbols that it stands in front of.

use crate::machine::library::{find, look_into};
use crate::words::output::{write_line, Output};
use crate::words::{Failure, Outcome};
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

pub(crate) fn path() -> Outcome {
    let found = find(None)?;
    look_into(&found).map_err(Failure::Input)?;
    let mut out = Output::standard();
    write_line!(out, "{}", found.display())?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
