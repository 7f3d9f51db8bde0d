//! The values that the command adds to those of `LAZYGUARD_ON_HANG` and `LAZYGUARD_ON_STALL`.

/// The value of `--on-hang` and `--on-stall` that only `lazyguard run` knows.
pub(crate) const KILL: &str = "kill";

/// The value that the guard acts on by itself; `lazyguard run` ends what does not answer.
pub(crate) const FAIL: &str = "fail";

/// The same, with collectives that are ended instead of the context.
pub(crate) const REVOKE: &str = "revoke";
