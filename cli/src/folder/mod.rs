//! The folders that runs leave: how they lie in each other, and what each file in them says of its process.
//!
//! Must not: judge.

pub(crate) mod ends;
pub(crate) mod gpu_core;
pub(crate) mod live;
pub(crate) mod old_runs;
mod opened;
pub(crate) mod process;
pub(crate) mod profile;
pub(crate) mod profile_cache;
pub(crate) mod recorded;
pub(crate) mod refused;
pub(crate) mod runs;
pub(crate) mod source;

pub(crate) use ends::{signal_in_words, ProcessEnd};
pub(crate) use process::{
    exists, file_of, header_word, numbers, proc_is_mounted, recording_of, started_by_header, Stat, Status,
};
pub(crate) use recorded::{Recorded, RecordingSeen};
pub(crate) use refused::maps_of;
pub(crate) use runs::{is_nested_in, is_run, newest_in, one_process, process_folders};
pub(crate) use source::{duration, hang_in, is_process_folder, read, Opened, RecordingFile, Run, HAZARDS, RECORDING};
