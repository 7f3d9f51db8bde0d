//! The watch: what the guard does about a program whose calls block.
//!
//! | file | |
//! |---|---|
//! | [`watchdog`] | finds and reports it, and reports changes |
//! | [`live_report`] | the report of this moment, from the process's own recording |
//! | `thread_activity` | the activity of the program's other threads |
//! | `processor_time` | how much threads compute that are in a call which loads code |
//! | `probe` | the driver's answers, queried by a thread that may block for good |
//! | `stacks` | the stacks of threads that are blocked in a driver call or run a host function |
//! | `python` | the stacks of a Python program's threads |
//! | `on_hang` | the user's action on a hang |
//! | [`revoke`] | the end of collectives that wait for good |
//! | `device` | which streams stand still while no thread waits for them |
//! | `driver_environment` | two variables of the driver's, as it was initialised |
//! | `command` | a command that runs beside the program |
//!
//! Must not: wait for anything that a stuck thread can hold. Only the probe's own thread calls the driver.

mod command;
mod device;
pub mod driver_environment;
pub mod live_report;
mod on_hang;
mod probe;
mod processor_time;
pub mod python;
pub mod revoke;
mod stacks;
mod system_call;
mod thread_activity;
pub mod watchdog;
