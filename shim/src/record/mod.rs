//! What is kept of a run: the run folder, the recording, the log and the requests of `lazyguard dump`.
//!
//! The private folder is made at `cuInit`, not at the first hang: what was recorded before a kill is evidence. It is in memory
//! (`/dev/shm`) unless the user names another place, since a store into a page of a file on a disk may have to wait for the disk.
//! The log's thread has an empty table of descriptors of its own, and holds no file open, so a program that closes and reopens
//! descriptors never finds one of the guard's. Descriptor 2 is written to only as long as it is the file that it was at start.
//! The mapped files of code are read from `/proc/self/maps`, never from the dynamic linker, whose lock a forked child could find taken.

mod cleanup;
pub mod hazards;
pub mod heartbeat;
pub mod log;
pub mod recording;
pub mod requests;
pub mod run_folder;
