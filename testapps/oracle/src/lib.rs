//! The oracle: random programs, what the simulated driver knows of their end, and what the guard says of it.
//!
//! A [`Job`] is a program for each of several ranks, with collectives between them: [`generate_jobs`], [`play_jobs`], [`joined`], [`job_properties`].
//!
//! [`generate`] makes a [`Program`] of a seed. `player.cpp` plays it, bare and under the guard ([`play`]), and writes down whether it has completed or is
//! stuck for ever, and who then waits for whom ([`truth`]). [`orders`] says whether another order of its steps hangs. [`properties`] compares that with the
//! guard's report, of which [`sight`] says what it may claim.
//!
//! Must not: depend on a crate of the guard, nor take anything for the truth that the guard has written.

pub mod campaign;
pub mod explored;
pub mod foreseen;
pub mod generate;
pub mod generate_jobs;
pub mod job;
pub mod job_properties;
pub mod joined;
pub mod orders;
pub mod play;
pub mod play_jobs;
pub mod program;
pub mod properties;
pub mod sight;
pub mod truth;

pub use job::Job;
pub use program::{Program, Step};
