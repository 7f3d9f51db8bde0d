//! `lazyguard path` and `symbols`: where the library is, and the driver symbols that it stands in front of.

use crate::machine::library::{find, look_into};
use crate::words::{print, write_line, Failure, Outcome};
use lazyguard_core::api::ENTRY_POINTS;

pub(crate) fn symbols(ids: bool) -> Outcome {
    print(|out| {
        Ok(out.lines(ENTRY_POINTS.iter().map(|form| match ids {
            true => format!("{} {}", form.id, form.symbol()),
            false => form.symbol().to_owned(),
        }))?)
    })
}

pub(crate) fn path() -> Outcome {
    let found = find(None)?;
    look_into(&found).map_err(Failure::Input)?;
    print(|out| Ok(write_line!(out, "{}", found.display())?))
}
