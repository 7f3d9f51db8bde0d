//! Many programs or jobs beside each other, and the smallest one that shows what one of them showed.

use crate::generate::drawn;
use crate::job::Job;
use crate::play::Mode;
use crate::program::Program;
use crate::properties::Found;
use crate::{generate, generate_jobs, job_properties, properties};
use proptest::strategy::ValueTree;
use std::collections::BTreeMap;
use std::fmt::{Debug, Display};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How many programs are tried to make one smaller. Each takes seconds.
const SMALLER: usize = 60;

/// What can be played: a program or a job.
pub trait Case: Debug + Display + Sized {
    /// The modes in which it is played.
    const MODES: &[Mode];
    /// The one of this number under a seed.
    fn tree(seed: u64, number: u64) -> Tree<Self>;
    /// Plays it bare and in a mode.
    fn check(&self, name: &str, mode: Mode) -> Found;
    /// Lines about all of them together.
    fn shares(_results: &Results<Self>) -> Vec<String> {
        Vec::new()
    }
}

/// One, and the smaller ones that it can become.
pub type Tree<C> = Box<dyn ValueTree<Value = C>>;

impl Case for Program {
    const MODES: &[Mode] = &Mode::ALL;
    fn tree(seed: u64, number: u64) -> Tree<Self> {
        generate::tree(seed, number)
    }
    fn check(&self, name: &str, mode: Mode) -> Found {
        properties::check(name, self, mode)
    }
}

impl Case for Job {
    /// The run ends a job that hangs, whatever else the guard could do then.
    const MODES: &[Mode] = &[Mode::Default, Mode::Observes, Mode::Resolve, Mode::Eager, Mode::DefersReleases];
    fn tree(seed: u64, number: u64) -> Tree<Self> {
        generate_jobs::tree(seed, number)
    }
    fn check(&self, name: &str, mode: Mode) -> Found {
        job_properties::check(name, self, mode)
    }
}

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
    /// With so many finds no new ones are begun.
    pub finds: usize,
}

/// A program that shows that a property does not hold.
#[derive(Clone, Debug)]
pub struct Find<C> {
    /// Its number under the seed.
    pub number: u64,
    /// The mode that it was played in.
    pub mode: Mode,
    /// The property.
    pub property: &'static str,
    /// The facts.
    pub facts: String,
    /// The program.
    pub program: C,
}

impl<C: Case> Find<C> {
    /// The file that keeps it, with a header that says what it is.
    pub fn file(&self, seed: u64) -> String {
        format!(
            "# Shows: {} ({:?}, seed {seed}, program {})\n# mode: {:?}\n{}",
            self.property, self.mode, self.number, self.mode, self.program
        )
    }
}

/// The results of a plan.
#[derive(Debug)]
pub struct Results<C> {
    /// How many ended how.
    pub good: BTreeMap<&'static str, u64>,
    /// The sizes of the minimal sets of those that are stuck and reported: their sum, and how many.
    pub waits: (usize, usize),
    /// The finds.
    pub finds: Vec<Find<C>>,
    /// What showed once, and not again.
    pub once: Vec<Find<C>>,
}

/// Plays them; `found` is called with each find at once.
///
/// # Panics
///
/// If a thread of its own has.
pub fn play<C: Case + Send>(plan: &Plan, found: impl Fn(&Find<C>) + Sync) -> Results<C> {
    let next = AtomicU64::new(0);
    let results = Mutex::new(Results { good: BTreeMap::new(), waits: (0, 0), finds: Vec::new(), once: Vec::new() });
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..plan.beside {
            scope.spawn(|| loop {
                let count = next.fetch_add(1, Ordering::Relaxed);
                let enough = || results.lock().map_or(true, |all| all.finds.len() >= plan.finds);
                if count >= plan.programs || begun.elapsed() > plan.time || enough() {
                    return;
                }
                let number = plan.first + count;
                let mode = plan.mode.unwrap_or_else(|| C::MODES[drawn(plan.seed, number, C::MODES.len())]);
                let outcome = one(plan, number, mode);
                let Ok(mut all) = results.lock() else { return };
                match outcome {
                    Shown::Good(end, waits) => {
                        *all.good.entry(end).or_default() += 1;
                        if let Some(waits) = waits {
                            all.waits = (all.waits.0 + waits, all.waits.1 + 1);
                        }
                    }
                    Shown::Once(find) => all.once.push(*find),
                    Shown::Again(find) => {
                        found(&find);
                        all.finds.push(*find);
                    }
                }
            });
        }
    });
    results.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner())
}

enum Shown<C> {
    Good(&'static str, Option<usize>),
    Once(Box<Find<C>>),
    Again(Box<Find<C>>),
}

fn one<C: Case>(plan: &Plan, number: u64, mode: Mode) -> Shown<C> {
    let mut tree = C::tree(plan.seed, number);
    let name = format!("oracle-{}-{number}", plan.seed);
    let (property, facts) = match check_whole(&name, &tree.current(), mode) {
        Found::Good(end) => return Shown::Good(end, None),
        Found::Told(end, waits) => return Shown::Good(end, Some(waits)),
        Found::Bad(property, facts) => (property, facts),
    };
    // A find counts if it repeats.
    let repeats = matches!(check_whole(&name, &tree.current(), mode), Found::Bad(again, _) if again == property);
    if !repeats {
        return Shown::Once(Box::new(Find { number, mode, property, facts, program: tree.current() }));
    }
    let facts = if plan.smaller { shrink(&name, &mut tree, mode, property).unwrap_or(facts) } else { facts };
    Shown::Again(Box::new(Find { number, mode, property, facts, program: tree.current() }))
}

/// A check that panics has found something, too.
pub fn check_whole(name: &str, case: &impl Case, mode: Mode) -> Found {
    catch_unwind(AssertUnwindSafe(|| case.check(name, mode))).unwrap_or_else(|panic| {
        let said =
            panic.downcast_ref::<String>().cloned().or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
        Found::Bad("panic", said.unwrap_or_default())
    })
}

/// Leaves the smallest program in the tree that still shows it; the facts of that.
fn shrink<C: Case>(name: &str, tree: &mut Tree<C>, mode: Mode, property: &str) -> Option<String> {
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
