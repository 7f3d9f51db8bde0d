//! What is kept of a run: the recording, the log, the run folder and what lies in it.
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
