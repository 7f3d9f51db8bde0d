//! The processes of a run as their files show them now: the one model behind `lazyguard health`, `metrics` and `top`. No process is
//! asked, stopped or slowed.
//!
//! Must not: write into a run folder; read a record twice, but for a stream at rest; or decide whether something is a hang, as the watchdog does.

pub(crate) mod evidence;
mod hang;
mod job;
mod life;
mod process;
mod tally;
#[cfg(test)]
pub(crate) mod test_samples;

pub(crate) use hang::{HangNow, Replaced};
pub(crate) use job::Job;
pub(crate) use life::Life;
pub(crate) use process::{BlamedNow, Depth, OutstandingNow, ProcessNow, WaitNow};
pub(crate) use tally::{CAUSES, LOADS};
