//! Loading functions ahead of their use.

pub mod gate;
pub mod idle;
pub mod loader;
pub mod nudge;
