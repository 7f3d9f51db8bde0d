//! Many programs beside each other, and the smallest program that shows what one of them showed.

use crate::generate::{drawn, tree, Tree};
use crate::play::Mode;
use crate::program::Program;
use crate::properties::{check, Found};
use proptest::strategy::ValueTree;
use std::collections::BTreeMap;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How many programs are tried to make one smaller. Each takes seconds.
const SMALLER: usize = 60;

/// The programs to be played.
#[derive(Clone, Debug)]
pub struct Plan {
    /// From which the programs come.
    pub seed: u64,
    /// The first program's number.
    pub first: u64,
    /// How many at most.
    pub programs: u64,
    /// For how long at most new ones are begun.
    pub time: Duration,
    /// How many at a time.
    pub beside: usize,
    /// The mode; none: each draws one.
    pub mode: Option<Mode>,
    /// Whether what is found is made smaller.
    pub smaller: bool,
}

/// A program that shows that a property does not hold.
#[derive(Clone, Debug)]
pub struct Find {
    /// Its number under the seed.
    pub number: u64,
    /// The mode that it was played in.
    pub mode: Mode,
    /// The property.
    pub property: &'static str,
    /// The facts.
    pub facts: String,
    /// The program.
    pub program: Program,
}

impl Find {
    /// The file that keeps it, with a header that says what it is.
    pub fn file(&self, seed: u64) -> String {
        format!(
            "# Shows: {} ({:?}, seed {seed}, program {})\n# mode: {:?}\n{}",
            self.property, self.mode, self.number, self.mode, self.program
        )
    }
}

/// The results of a plan.
#[derive(Debug, Default)]
pub struct Results {
    /// How many ended how.
    pub good: BTreeMap<&'static str, u64>,
    /// The finds.
    pub finds: Vec<Find>,
}

/// Plays them; `found` is called with each find at once.
///
/// # Panics
///
/// If a thread of its own has.
pub fn play(plan: &Plan, found: impl Fn(&Find) + Sync) -> Results {
    let next = AtomicU64::new(0);
    let results = Mutex::new(Results::default());
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..plan.beside {
            scope.spawn(|| loop {
                let count = next.fetch_add(1, Ordering::Relaxed);
                if count >= plan.programs || begun.elapsed() > plan.time {
                    return;
                }
                let number = plan.first + count;
                let mode = plan.mode.unwrap_or_else(|| Mode::ALL[drawn(plan.seed, number, Mode::ALL.len())]);
                let outcome = one(plan, number, mode);
                let Ok(mut all) = results.lock() else { return };
                match outcome {
                    Ok(end) => *all.good.entry(end).or_default() += 1,
                    Err(find) => {
                        found(&find);
                        all.finds.push(*find);
                    }
                }
            });
        }
    });
    results.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn one(plan: &Plan, number: u64, mode: Mode) -> Result<&'static str, Box<Find>> {
    let mut tree = tree(plan.seed, number);
    let name = format!("oracle-{}-{number}", plan.seed);
    let (property, facts) = match check_whole(&name, &tree.current(), mode) {
        Found::Good(end) => return Ok(end),
        Found::Bad(property, facts) => (property, facts),
    };
    // A find counts if it repeats.
    let Found::Bad(again, _) = check_whole(&name, &tree.current(), mode) else { return Ok("bad once") };
    if again != property {
        return Ok("bad once");
    }
    let facts = if plan.smaller { shrink(&name, &mut tree, mode, property).unwrap_or(facts) } else { facts };
    Err(Box::new(Find { number, mode, property, facts, program: tree.current() }))
}

/// A check that panics has found something, too.
pub fn check_whole(name: &str, program: &Program, mode: Mode) -> Found {
    catch_unwind(AssertUnwindSafe(|| check(name, program, mode))).unwrap_or_else(|panic| {
        let said =
            panic.downcast_ref::<String>().cloned().or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
        Found::Bad("panic", said.unwrap_or_default())
    })
}

/// Leaves the smallest program in the tree that still shows it; the facts of that.
fn shrink(name: &str, tree: &mut Tree, mode: Mode, property: &str) -> Option<String> {
    let mut facts = None;
    let mut smaller = tree.simplify();
    for _ in 0..SMALLER {
        if !smaller {
            break;
        }
        smaller = match check_whole(name, &tree.current(), mode) {
            Found::Bad(shown, why) if shown == property => {
                facts = Some(why);
                tree.simplify()
            }
            _ => tree.complicate(),
        };
    }
    // The program tried last may not show it: back to the one that did.
    while !matches!(check_whole(name, &tree.current(), mode), Found::Bad(shown, _) if shown == property)
        && tree.complicate()
    {}
    facts
}
