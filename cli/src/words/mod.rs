//! The parts that every room of the command shares: failures, output, exit codes, and how spans, moments and names are written.

pub(crate) mod exit_code;
mod failure;
pub(crate) mod format;
pub(crate) mod names;
pub(crate) mod on_hang;
pub(crate) mod output;
pub(crate) mod pages;

pub(crate) use failure::{Failure, Outcome};
pub(crate) use format::{first_of, shell_word, size, utc, Format, Took};
pub(crate) use output::{print, printed, said, say, write_line, Output};
