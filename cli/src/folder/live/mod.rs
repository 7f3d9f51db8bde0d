//! What the processes of a run do now, as their files show it: the one model behind `lazyguard health`, `metrics` and `top`. No process is
//! asked, stopped or slowed.
//!
//! Must not: write into a run folder; read a record twice, but for a stream at rest; or decide whether something is a hang, as the watchdog does.

mod hang;
mod job;
mod life;
mod process;
mod tally;

#[cfg(test)]
pub(crate) use hang::HangNow;
pub(crate) use hang::Replaced;
pub(crate) use job::Job;
pub(crate) use life::Life;
#[cfg(test)]
pub(crate) use process::WaitNow;
pub(crate) use process::{Depth, OutstandingNow, ProcessNow};
pub(crate) use tally::{CAUSES, LOADS};

/// A process that runs and has done nothing, for tests.
#[cfg(test)]
pub(crate) fn sample() -> ProcessNow {
    ProcessNow {
        process: 4242,
        program: "train".to_owned(),
        host: "node-7".to_owned(),
        rank: "3".to_owned(),
        life: Life::Runs,
        looks_for_hangs: true,
        ..ProcessNow::default()
    }
}

/// A revoked communicator, for tests.
#[cfg(test)]
pub(crate) fn revoked() -> lazyguard_core::report::RevokedSeen {
    use lazyguard_core::report::{GivenUp, RevokedSeen};
    let communicators = vec![GivenUp { number: 1, collective: 14, transfer: 0 }];
    RevokedSeen { at: 1, nanos: 510_000_000, communicators, missing: None }
}
