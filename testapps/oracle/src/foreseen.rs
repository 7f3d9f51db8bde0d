//! Whether the hazards of a run that passed are true: another order of the program hangs. And whether hangs of other orders were foreseen.
//!
//! The guard observes only, so that it prevents nothing that the orders, which are bare, still have.

use crate::campaign::{Case, Results, Tree};
use crate::generate;
use crate::orders::Orders;
use crate::play::{Mode, Stage};
use crate::program::{Program, Step};
use crate::properties::Found;
use lazyguard_e2e::{hazards_of, Json, Work};
use proptest::strategy::ValueTree;
use std::collections::BTreeSet;
use std::fmt;

/// The orders that are tried before a hazard counts as false.
const ORDERS: u64 = 200;

const TRUE: &str = "a likely hazard, and an order hangs";
const POSSIBLE: &str = "a possible hazard, and an order hangs";
const UNFORESEEN: &str = "no hazard, and an order hangs";
const FALSE: &str = "false hazard";

/// A program, played for its hazards.
#[derive(Clone, Debug)]
pub struct Foreseen(pub Program);

impl fmt::Display for Foreseen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Adds to each thread a wait for the context at its end. Without it, work that is stuck may hang no thread.
pub(crate) fn waiting(mut program: Program) -> Program {
    let threads: BTreeSet<usize> = program.steps.iter().map(|step| step.thread).collect();
    let wait = |thread| Step { thread, what: "synchronize_context", with: Vec::new() };
    program.steps.extend(threads.into_iter().map(wait));
    program
}

/// Programs as another case.
pub(crate) struct Mapped<C>(pub generate::Tree, pub fn(Program) -> C);

impl<C: fmt::Debug> ValueTree for Mapped<C> {
    type Value = C;
    fn current(&self) -> C {
        self.1(self.0.current())
    }
    fn simplify(&mut self) -> bool {
        self.0.simplify()
    }
    fn complicate(&mut self) -> bool {
        self.0.complicate()
    }
}

impl Case for Foreseen {
    const MODES: &[Mode] = &[Mode::Observes];
    fn tree(seed: u64, number: u64) -> Tree<Self> {
        Box::new(Mapped(generate::tree(seed, number), |program| Self(waiting(program))))
    }
    fn check(&self, name: &str, mode: Mode) -> Found {
        check(name, &self.0, mode)
    }
    fn shares(results: &Results<Self>) -> Vec<String> {
        let good = |name: &str| results.good.get(name).copied().unwrap_or_default();
        let false_ones = results.finds.iter().filter(|find| find.property == FALSE).count() as u64;
        let (foreseen, hang) = (good(TRUE) + good(POSSIBLE), good(TRUE) + good(POSSIBLE) + good(UNFORESEEN));
        vec![
            format!("{} of {} programs with a likely hazard hang in an order", good(TRUE), good(TRUE) + false_ones),
            format!("{foreseen} of {hang} programs that hang in an order have a hazard, {} a likely one", good(TRUE)),
        ]
    }
}

/// The ends of a program in other orders.
///
/// # Errors
///
/// One does neither: the oracle is wrong.
pub(crate) fn orders_of(stage: &Stage<'_>) -> Result<Orders, Found> {
    let orders = stage.orders(0, ORDERS, false).filter(|orders| orders.neither == 0);
    orders.ok_or_else(|| Found::Bad("oracle", "an order neither ends nor is stuck".to_owned()))
}

fn check(name: &str, program: &Program, mode: Mode) -> Found {
    let work = Work::new(name);
    let stage = Stage::new(&work, program);
    if stage.bare().completed().is_none() {
        return Found::Good("stuck");
    }
    let played = stage.guarded(mode, |_, _, _| true);
    if played.completed().is_none() {
        return Found::Good("stuck");
    }
    let hazards = hazards_of(&played.out);
    orders_of(&stage).map_or_else(|wrong| wrong, |orders| judge(&orders, hazards.as_array().map_or(&[], Vec::as_slice)))
}

fn judge(orders: &Orders, hazards: &[Json]) -> Found {
    let likely: Vec<_> = hazards.iter().filter(|hazard| hazard["confidence"] != "possible").map(in_short).collect();
    match (likely.is_empty(), hazards.is_empty(), orders.hangs()) {
        (false, _, true) => Found::Good(TRUE),
        (false, _, false) => Found::Bad(FALSE, likely.join("; ")),
        (true, false, true) => Found::Good(POSSIBLE),
        (true, true, true) => Found::Good(UNFORESEEN),
        (true, false, false) => Found::Good("a possible hazard, and no order hangs"),
        (true, true, false) => Found::Good("no hazard, and no order hangs"),
    }
}

fn in_short(hazard: &Json) -> String {
    format!("{} ({}) {}, because {}", hazard["code"], hazard["confidence"], hazard["what"], hazard["because"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_likely_hazard_is_true_if_an_order_hangs() {
        let orders = |in_a_call| Orders { in_a_call, ..Orders::default() };
        let hazard = |confidence| vec![json!({"code": "LG103", "confidence": confidence})];
        assert_eq!(judge(&orders(1), &hazard("likely")), Found::Good(TRUE));
        assert_eq!(judge(&orders(1), &hazard("possible")), Found::Good(POSSIBLE));
        assert_eq!(judge(&orders(1), &[]), Found::Good(UNFORESEEN));
        assert!(matches!(judge(&orders(0), &hazard("likely")), Found::Bad(FALSE, _)));
        assert!(matches!(judge(&orders(0), &hazard("possible")), Found::Good(_)));
    }
}
