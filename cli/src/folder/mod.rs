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
pub(crate) mod recording_header;
pub(crate) mod runs;
pub(crate) mod source;
