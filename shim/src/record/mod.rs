//! What is kept of a run.

mod cleanup;
pub mod hazards;
pub mod heartbeat;
pub mod log;
pub mod recording;
pub mod requests;
pub mod run_folder;
