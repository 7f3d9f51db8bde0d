//! Loading functions ahead of their use.
//!
//! | file | |
//! |---|---|
//! | [`loader`] | loads what is pending at a good moment |
//! | [`queue`] | what waits to be loaded, what was spent, what was left out |
//! | [`gate`] | holds other threads' submissions back meanwhile |
//! | [`idle`] | whether anything is in flight in a context |
//! | [`nudge`] | what a CUDA runtime is answered that asks for the loading mode |
//!
//! Must not: know the recording, the watchdog or the hooks.

pub mod gate;
pub mod idle;
pub mod loader;
pub mod nudge;
pub mod queue;
