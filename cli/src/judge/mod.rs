//! One judgement of a run: one pass over its folder ([`collect`]) and one judgement ([`judged`]) serve every form.
//!
//! Must not: read anything but the run's folder and the files that the user names, or write.

pub(crate) mod baseline;
mod blamed;
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
mod shared;
pub(crate) mod stood;
pub(crate) mod suppress;
#[cfg(test)]
pub(crate) mod test_samples;
pub(crate) mod timing;
#[cfg(test)]
mod weighed_tests;
mod writers;

pub(crate) use blamed::Watched;
pub(crate) use explored::Explored;
pub(crate) use fail_on::{FailOn, FailedOn};
pub(crate) use hangs::{
    by_cause, gist, hangs, passed, ranks_in_words, sentence, stalled, suspected, HangSeen, SameHang,
};
pub(crate) use judged::{Finding, Judged, MetByProcess, Rules, Status, PROVOKED};
pub(crate) use process::Process;
#[cfg(test)]
pub(crate) use ranks::ComparedBy;
pub(crate) use ranks::{compare, when_they_were_ended, OddRank, Ranks};
pub(crate) use seen::{exit_code, End, Finished, Hung, Seen, Unguarded};
pub(crate) use stood::{asks_to_end, is_by_the_guard, is_of_a_crash, Course, Stood};
