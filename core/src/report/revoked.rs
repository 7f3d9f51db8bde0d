//! Communicators that the guard has revoked: `LAZYGUARD_ON_HANG=revoke`.

use crate::api::counted;
use crate::api::result::error_in_words;
pub use crate::api::result::REVOKED_RESULT;
use crate::Nanos;
use serde::{Deserialize, Serialize};

/// The prefix of PyTorch's threads that ask for the ends of collectives.
pub const WATCHES_COLLECTIVES: &str = "pt_nccl_";

const MOST_NAMED: usize = 4;

/// Communicators of a hang, revoked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevokedSeen {
    /// When all had returned.
    pub at: Nanos,
    /// How long they took.
    pub nanos: u64,
    /// Those revoked.
    pub communicators: Vec<GivenUp>,
    /// Why others were not.
    pub missing: Option<String>,
}

/// A revoked communicator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenUp {
    /// Its number in the process.
    pub number: u32,
    /// Its newest collective.
    pub collective: u32,
    /// Its newest send or receive.
    pub transfer: u32,
}

impl GivenUp {
    fn in_words(&self) -> String {
        let at = [("collective", self.collective), ("send or receive", self.transfer)];
        let at = at.into_iter().find(|(_, number)| *number > 0);
        format!("communicator {}{}", self.number, at.map(|(what, at)| format!(" at {what} {at}")).unwrap_or_default())
    }
}

/// The revokes that a process's summary has, the newest: each has up to 48 communicators.
const MOST_IN_A_SUMMARY: usize = 100;

impl RevokedSeen {
    pub fn add_to(self, all: &mut Vec<Self>) {
        if all.len() == MOST_IN_A_SUMMARY {
            all.remove(0);
        }
        all.push(self);
    }

    pub fn is_done(&self) -> bool {
        !self.communicators.is_empty()
    }

    /// `REVOKED` and how many.
    pub fn in_short(&self) -> String {
        format!("REVOKED {}", counted(self.communicators.len() as u64, "communicator"))
    }

    pub fn in_words(&self) -> String {
        let missing = self.missing.as_deref().unwrap_or_default();
        if !self.is_done() {
            return format!("no communicator is revoked: {missing}");
        }
        let mut named: Vec<_> = self.communicators.iter().take(MOST_NAMED).map(GivenUp::in_words).collect();
        let more = self.communicators.len().saturating_sub(MOST_NAMED);
        named.extend((more > 0).then(|| format!("{more} more")));
        let not = if missing.is_empty() { String::new() } else { format!("; not revoked: {missing}") };
        format!(
            "{} in {:.1} s ({}): blocked calls return error {}, and so does each call that answers for work behind them, until the program ends them{not}",
            self.in_short(),
            self.nanos as f64 / 1e9,
            named.join(", "),
            error_in_words(REVOKED_RESULT)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_what_is_given_up_and_what_is_not() {
        let one = |number, collective, transfer| GivenUp { number, collective, transfer };
        let mut seen = RevokedSeen { at: 1, nanos: 510_000_000, communicators: vec![one(1, 14, 2)], missing: None };
        let rest = "blocked calls return error 909 (CUDA_ERROR_TIMEOUT), and so does each call that answers for work behind them, until the program ends them";
        assert_eq!(
            seen.in_words(),
            format!("REVOKED 1 communicator in 0.5 s (communicator 1 at collective 14): {rest}")
        );
        seen.communicators = vec![one(1, 0, 3), one(2, 0, 0), one(3, 1, 0), one(4, 1, 0), one(5, 1, 0), one(6, 1, 0)];
        seen.missing = Some("communicator 7: ncclCommRevoke returned 3".to_owned());
        let words = seen.in_words();
        let named = "(communicator 1 at send or receive 3, communicator 2, communicator 3 at collective 1, communicator 4 at collective 1, 2 more)";
        assert!(words.starts_with("REVOKED 6 communicators") && words.contains(named), "{words}");
        assert!(words.ends_with("; not revoked: communicator 7: ncclCommRevoke returned 3"), "{words}");
        seen.communicators.clear();
        assert_eq!(seen.in_words(), "no communicator is revoked: communicator 7: ncclCommRevoke returned 3");
    }

    #[test]
    fn a_summary_has_the_newest_revokes_in_less_than_a_mebibyte() {
        let given_up = |number| GivenUp { number, collective: u32::MAX, transfer: u32::MAX };
        let revoked =
            |at| RevokedSeen { at, nanos: at, communicators: (1..=48).map(given_up).collect(), missing: None };
        let mut all = Vec::new();
        (1..=1000).for_each(|at| revoked(at).add_to(&mut all));
        assert_eq!((all.len(), all[0].at, all[99].at), (100, 901, 1000));
        assert!(crate::report::json(&all).len() < 1 << 20, "{}", crate::report::json(&all).len());
    }
}
