//! The files of a run: the recording, the log, the run folder and what lies in it.
//!
//! The guard makes the private folder at `cuInit`: what was recorded before a kill is evidence. It is in memory (`/dev/shm`) unless the user names another
//! place: a store into a page of a disk's file may wait. The log's thread has descriptors of its own, and holds no file open.
//!
//! Must not: wait for a disk, or for another thread, in a thread of the program.

pub mod gpu_dump;
mod gpu_dump_ready;
pub mod guard;
pub mod hazards;
pub mod log;
pub mod mappings;
pub mod marker;
pub mod path;
pub mod profile;
mod profile_folder;
pub mod ready;
pub mod recording;
pub mod reports;
pub mod requests;
pub mod run_folder;
pub mod schedule;
pub mod statements;
mod summary;
pub mod turns;
pub mod upkeep;

pub use self::guard::{guard, Guard};
