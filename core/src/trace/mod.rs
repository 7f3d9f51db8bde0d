//! The record of a driver call, and the ring in which a thread's records wait for the log writer.
//!
//! Must not: allocate or lock after a ring has been made. What does not fit is dropped and counted.

mod record;
mod ring;

pub use record::{Kind, Record, WORDS};
pub use ring::Ring;
