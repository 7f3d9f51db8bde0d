//! A copy of a recording in which nothing names the user, the machine, or the program's own code. Users post it, and it is small.
//!
//! `kept` says what of a recording is kept, `pseudonyms` what stands for a name; `written` makes the copy with the library's own writer. `evidence` has rules
//! of its own.
//!
//! The copy holds only what the reader understands. A new kind of text does not compile before this module has a rule for it. Times, ids,
//! numbers, addresses and handles stay. The ids of communicators are hashes, so copies from several machines still fit together.
//!
//! Must not: copy a text that no rule in `pseudonyms` keeps; or change the verdict.

mod evidence;
mod kept;
mod pseudonyms;
mod written;

pub use evidence::evidence;
pub use pseudonyms::Pseudonyms;

use crate::trace::read::{Recording, Source};
use kept::Kept;
use std::io;

#[derive(Debug)]
pub struct Anonymised {
    pub bytes: Vec<u8>,
    pub records: u64,
    /// Older records that were left out; the copy counts them as overwritten.
    pub older: u64,
    /// Records and texts of unknown kinds.
    pub unknown: u64,
    pub passed_over: u64,
}

/// Copies a recording; of each lane at most the last `most` records.
pub fn anonymise<S: Source>(recording: &Recording<S>, most: usize, names: &mut Pseudonyms) -> io::Result<Anonymised> {
    let kept = Kept::of(recording, most)?;
    Ok(Anonymised {
        bytes: written::written(recording, &kept, names),
        records: kept.entries.len() as u64,
        older: kept.older.iter().sum(),
        unknown: recording.unknown_records().saturating_add(recording.strings().unknown),
        passed_over: kept.passed_over,
    })
}
