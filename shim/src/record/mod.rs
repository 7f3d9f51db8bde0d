//! What is kept of a run: the recording, the log, the run folder and what lies in it.
//!
//! | file | |
//! |---|---|
//! | [`guard`](mod@guard) | the guard: the process, what is preloaded, and everything here |
//! | [`recording`] | the memory or file that the recording lies in |
//! | [`heartbeat`] | its sign of life |
//! | [`mappings`] | which files' code lies where |
//! | [`log`] | the log |
//! | [`upkeep`] | the log's thread |
//! | [`hazards`] | the hazards of the process |
//! | [`reports`] | the report that is open |
//! | [`requests`] | requests for a report |
//! | `summary` | the summary of the run |
//! | [`run_folder`] | the run folder |
//! | `cleanup` | private folders of earlier processes that are left behind |
//!
//! Must not: wait for a disk, or for another thread, in a thread of the program.

mod cleanup;
pub mod guard;
pub mod hazards;
pub mod heartbeat;
pub mod log;
pub mod mappings;
pub mod recording;
pub mod reports;
pub mod requests;
pub mod run_folder;
mod summary;
pub mod upkeep;

pub use self::guard::{guard, Guard};
