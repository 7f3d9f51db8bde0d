//! One judgement of a run: one pass over its folder ([`collect`]) and one judgement ([`judged`]) serve every form.
//!
//! Must not: read anything but the run's folder and the files that the user names, or write.

pub(crate) mod baseline;
pub(crate) mod collect;
mod collectives;
mod communications;
pub(crate) mod explored;
pub(crate) mod fail_on;
pub(crate) mod hangs;
pub(crate) mod judged;
pub(crate) mod process;
pub(crate) mod ranks;
pub(crate) mod seen;
pub(crate) mod stood;
pub(crate) mod suppress;
#[cfg(test)]
pub(crate) mod test_samples;
pub(crate) mod timing;
