//! The files of a run: the recording, the log, the run folder and what lies in it.
//!
//! The guard makes the private folder at `cuInit`: what was recorded before a kill is evidence. It is in memory (`/dev/shm`) unless the
//! user names another place, since a store into a page of a file on a disk may wait for the disk. The log's thread has an empty table of
//! descriptors of its own, and holds no file open, so a program never finds a descriptor of the guard's.
//!
//! Must not: wait for a disk, or for another thread, in a thread of the program.

mod cleanup;
pub mod gpu_dump;
mod gpu_dump_ready;
pub mod guard;
pub mod hazards;
pub mod log;
pub mod mappings;
pub mod marker;
pub mod path;
pub mod profile;
pub mod ready;
pub mod recording;
pub mod reports;
pub mod requests;
pub mod run_folder;
pub mod schedule;
mod summary;
pub mod turns;
pub mod upkeep;

pub use self::guard::{guard, Guard};
