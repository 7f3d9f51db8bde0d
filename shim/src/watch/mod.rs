//! The watch: what is done about a program whose calls block.
//!
//! | file | |
//! |---|---|
//! | [`watchdog`] | sees it, reports it, and again when things change |
//! | [`live_report`] | the report of this moment, from the process's own recording |
//! | `thread_activity` | what the program's other threads do meanwhile |
//! | `probe` | what the driver says, asked by a thread that may be lost over it |
//! | `stacks` | the stacks of threads that are blocked in a driver call or run a host function |
//! | `python` | the stacks of a Python program's threads |
//! | `on_hang` | what the user wants done about a hang |
//! | `command` | a command that runs beside the program |
//!
//! Must not: wait for anything that a stuck thread can hold. Only the probe's own thread calls the driver.

mod command;
pub mod live_report;
mod on_hang;
mod probe;
mod python;
mod stacks;
mod thread_activity;
pub mod watchdog;
