//! Reads the header of a recording, and nothing else of it.

use crate::machine::files;
use lazyguard_core::trace::layout;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

pub(crate) const RECORDING: &str = "trace.lgt";

pub(crate) fn started_by_header(path: &Path) -> io::Result<u64> {
    header_word(&files::open(path)?, layout::header::PROCESS_START_TICKS)
}

pub(crate) fn process_by_header(path: &Path) -> io::Result<u32> {
    // The driver's version is the other half.
    header_word(&files::open(path)?, layout::header::PROCESS).map(|word| word as u32)
}

pub(crate) fn header_word(file: &File, number: usize) -> io::Result<u64> {
    let mut word = [0; layout::WORD];
    file.read_exact_at(&mut word, (number * layout::WORD) as u64)?;
    Ok(u64::from_le_bytes(word))
}
