//! The watch: what the guard does about a program whose calls block.
//!
//! Must not: wait for anything that a stuck thread can hold. Only the probe's own thread calls the driver.

mod command;
mod device;
pub mod driver_environment;
pub mod late;
pub mod live_report;
mod looking;
mod on_hang;
mod others;
mod probe;
mod processor_time;
pub mod python;
pub mod revoke;
pub mod revoke_phase;
pub mod revoked;
mod stacks;
mod stall;
pub mod telling;
mod thread_activity;
pub mod watchdog;
