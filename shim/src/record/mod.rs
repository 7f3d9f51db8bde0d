//! What is kept of a run: the recording, the log, the run folder and what lies in it.
//!
//! | file | |
//! |---|---|
//! | [`gpu_dump`] | GPU core dumps: the driver is made ready for one, and asked for it |
//! | [`guard`](mod@guard) | the guard: the process, what is preloaded, and everything here |
//! | [`recording`] | the memory or file that the recording lies in |
//! | [`heartbeat`] | its sign of life |
//! | [`mappings`] | the mapped code files |
//! | [`log`] | the log |
//! | [`path`](mod@path) | the frames between a launch and the program |
//! | [`upkeep`] | the log's thread |
//! | [`hazards`] | the hazards of the process |
//! | [`reports`] | the report that is open |
//! | [`requests`] | requests for a report |
//! | [`profile`] | what this run loads, for the next one |
//! | [`marker`] | the job's marker, by which a hang of one process has the others report |
//! | [`turns`] | which rank of a job writes a report on standard error |
//! | `summary` | the summary of the run |
//! | [`run_folder`] | the run folder |
//! | `cleanup` | private folders of earlier processes that are left behind |
//!
//! The guard makes the private folder at `cuInit`, not at the first hang: what was recorded before a kill is evidence. It is in
//! memory (`/dev/shm`) unless the user names another place, since a store into a page of a file on a disk may have to wait for the
//! disk. The log's thread has an empty table of descriptors of its own, and holds no file open, so a program that closes and
//! reopens descriptors never finds one of the guard's. The guard writes to descriptor 2 only as long as it is the file that it was
//! at start. It reads the mapped files of code from `/proc/self/maps`, never from the dynamic linker, whose lock a forked child
//! could find taken.
//!
//! Must not: wait for a disk, or for another thread, in a thread of the program.

mod cleanup;
pub mod gpu_dump;
pub mod guard;
pub mod hazards;
pub mod heartbeat;
pub mod log;
pub mod mappings;
pub mod marker;
pub mod path;
pub mod profile;
pub mod recording;
pub mod reports;
pub mod requests;
pub mod run_folder;
mod summary;
pub mod turns;
pub mod upkeep;

pub use self::guard::{guard, Guard};
