//! What the command adds to the values of `LAZYGUARD_ON_HANG`.

/// The value of `--on-hang` that only `lazyguard run` knows.
pub(crate) const KILL: &str = "kill";
