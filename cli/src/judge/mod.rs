//! One judgement of a run: its processes, their hangs and hazards, which of them count, and where its time went.
//!
//! One pass over the run's folder ([`collect`]) and one judgement ([`judged`]) serve every form, so that the forms cannot differ.
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
mod writers;
