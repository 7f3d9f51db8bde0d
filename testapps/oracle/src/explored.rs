//! Whether `lazyguard explore` finds the hang of a program that passes, where another order of its steps hangs, and finds none where no order does.

use crate::campaign::{Case, Results, Tree};
use crate::foreseen::{orders_of, waiting, Mapped};
use crate::generate;
use crate::play::{Mode, Stage};
use crate::play_jobs::ENDED_FOR_HANG as HANG;
use crate::program::Program;
use crate::properties::Found;
use lazyguard_e2e::{Outcome, Work};
use std::fmt;

const FOUND: &str = "an order hangs, and explore finds it";
const NOT_FOUND: &str = "an order hangs, and explore does not find it";

/// A program, explored.
#[derive(Clone, Debug)]
pub struct Explored(pub Program);

impl fmt::Display for Explored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Case for Explored {
    const MODES: &[Mode] = &[Mode::Observes];
    fn tree(seed: u64, number: u64) -> Tree<Self> {
        Box::new(Mapped(generate::tree(seed, number), |program| Self(waiting(program))))
    }
    fn check(&self, name: &str, _: Mode) -> Found {
        check(name, &self.0)
    }
    fn shares(results: &Results<Self>) -> Vec<String> {
        let good = |name: &str| results.good.get(name).copied().unwrap_or_default();
        vec![format!("explore finds {} of {} hangs", good(FOUND), good(FOUND) + good(NOT_FOUND))]
    }
}

fn check(name: &str, program: &Program) -> Found {
    let work = Work::new(name);
    let stage = Stage::new(&work, program);
    if stage.bare().completed().is_none() {
        return Found::Good("stuck");
    }
    orders_of(&stage).map_or_else(|wrong| wrong, |orders| judge(orders.hangs(), orders.stuck > 0, &stage.explored()))
}

/// A program that hangs outside the driver may hang in a call, too, where its threads are held.
fn judge(hangs: bool, hangs_outside: bool, explored: &Outcome) -> Found {
    match (explored.code, hangs) {
        (Some(HANG), true) => Found::Good(FOUND),
        (Some(0), true) => Found::Good(NOT_FOUND),
        (Some(HANG), false) if !hangs_outside => Found::Bad("false hang of explore", explored.to_string()),
        (Some(0 | HANG), false) => Found::Good("no order hangs in a call"),
        _ => Found::Bad("explore", explored.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazyguard_e2e::Run;

    #[test]
    fn a_hang_that_no_order_has_is_false() {
        let work = Work::new("oracle-explored");
        let ended = |code: i32| Run::new(&work, "sh").args(["-c".to_owned(), format!("exit {code}")]).finish();
        assert_eq!(judge(true, true, &ended(HANG)), Found::Good(FOUND));
        assert_eq!(judge(true, true, &ended(0)), Found::Good(NOT_FOUND));
        assert!(matches!(judge(false, true, &ended(HANG)), Found::Good(_)));
        assert!(matches!(judge(false, false, &ended(0)), Found::Good(_)));
        assert!(matches!(judge(false, false, &ended(HANG)), Found::Bad(..)));
        assert!(matches!(judge(true, true, &ended(125)), Found::Bad(..)));
    }
}
