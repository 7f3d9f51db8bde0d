//! What is done about a program that stands still.
//!
//! | file | |
//! |---|---|
//! | `watchdog` | sees it, reports it, and again when things change |
//! | `live_report` | the report of this moment, from the process's own recording |
//! | `thread_activity` | what the program's other threads do meanwhile |
//! | `probe` | what the driver says, asked by a thread that may be lost over it |
//!
//! Must not: wait for anything that a stuck thread can hold. Only the probe's own thread calls the driver.

mod live_report;
mod probe;
mod thread_activity;
pub mod watchdog;

pub use self::watchdog::{threads_of, Reported};
pub use live_report::{what_is_known, Witnessed};
