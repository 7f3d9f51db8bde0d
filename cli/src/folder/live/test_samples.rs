//! Processes for the tests of what shows them.

use super::{Life, ProcessNow};

/// It runs, and has done nothing.
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

pub(crate) fn revoked() -> lazyguard_core::report::RevokedSeen {
    use lazyguard_core::report::{GivenUp, RevokedSeen};
    let communicators = vec![GivenUp { number: 1, collective: 14, transfer: 0 }];
    RevokedSeen { at: 1, nanos: 510_000_000, communicators, missing: None }
}
