//! Programs and jobs of the oracle: those that are kept because they once showed something, and new ones for some seconds.

use lazyguard_e2e::Work;
use lazyguard_oracle::campaign::{check_whole, play, Case, Plan};
use lazyguard_oracle::play::{Mode, Stage};
use lazyguard_oracle::properties::Found;
use lazyguard_oracle::{Job, Program};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// For a suite of a minute: each program takes a second of a processor, and most of them some seconds of waiting.
const PROGRAMS: u64 = 60;
const BEGUN_WITHIN: Duration = Duration::from_secs(45);
const SEED: u64 = 3;

/// Each takes some seconds of waiting and a second of a processor for each rank.
const JOBS: u64 = 24;
const JOBS_BEGUN_WITHIN: Duration = Duration::from_secs(20);

#[test]
fn every_program_that_once_showed_something_is_well() {
    are_well("programs", Program::parse);
}

#[test]
fn every_job_that_once_showed_something_is_well() {
    are_well("jobs", Job::parse);
}

fn are_well<C: Case>(folder: &str, parse: fn(&str) -> Result<C, String>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut wrong = Vec::new();
    for entry in fs::read_dir(&folder).unwrap().flatten() {
        let text = fs::read_to_string(entry.path()).unwrap();
        let program = parse(&text).unwrap();
        let mode = text.lines().find_map(|line| line.strip_prefix("# mode: ")).and_then(Mode::named).unwrap();
        let name = entry.file_name().to_string_lossy().replace(".txt", "");
        let shown = || match check_whole(&format!("oracle-kept-{name}"), &program, mode) {
            Found::Good(_) | Found::Told(..) => None,
            Found::Bad(property, facts) => Some(format!("{name}: {property}: {facts}")),
        };
        // It counts if it repeats: the machine may be busy.
        wrong.extend(shown().and_then(|_| shown()));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn new_programs_show_nothing() {
    let good = without_a_find::<Program>(PROGRAMS, BEGUN_WITHIN, 8);
    // A generator whose programs all end, or none, shows nothing either.
    let stuck = good.get("stuck").copied().unwrap_or_default();
    let completed = good.get("completed").copied().unwrap_or_default();
    assert!(stuck >= 5 && completed >= 5, "{good:?}");
}

#[test]
fn new_jobs_show_nothing() {
    let good = without_a_find::<Job>(JOBS, JOBS_BEGUN_WITHIN, 4);
    assert!(good.get("stuck").is_some_and(|stuck| *stuck >= 2), "{good:?}");
}

/// Plays new ones, as many at a time; how many ended how.
fn without_a_find<C: Case + Send>(programs: u64, time: Duration, beside: usize) -> BTreeMap<&'static str, u64> {
    let plan = Plan { seed: SEED, first: 0, programs, time, beside, mode: None, smaller: false, finds: usize::MAX };
    let results = play::<C>(&plan, |_| {});
    let finds: Vec<_> = results.finds.iter().map(|find| format!("{}--- {}", find.file(SEED), find.facts)).collect();
    assert!(finds.is_empty(), "{}", finds.join("\n"));
    results.good
}

/// The two threads take two locks in two orders.
const RACE: &str = "0 lock lock=0\n0 lock lock=1\n1 lock lock=1\n1 lock lock=0\n";
/// A kernel may end before the free or behind it, and no order hangs.
const NO_RACE: &str =
    "stream nonblocking\n0 launch stream=0 kernel=0\n0 free allocation=0\n1 write_value stream=0 word=0 value=1\n";

#[test]
fn another_order_hangs_where_one_does_and_a_seed_gives_the_same_order_again() {
    let orders = |text: &str, first: u64, count: u64| {
        let program = Program::parse(text).unwrap();
        let work = Work::new("oracle-orders");
        Stage::new(&work, &program).orders(first, count, true).unwrap()
    };
    let of_race = orders(RACE, 0, 40);
    assert_eq!((of_race.completed + of_race.stuck, of_race.neither), (40, 0), "{of_race:?}");
    assert!(of_race.completed > 0 && of_race.stuck > 0 && !of_race.hangs(), "{of_race:?}");
    let (first, waits) = of_race.first.unwrap();
    assert!(waits.threads.iter().all(|thread| thread.at == "lock") && waits.threads.len() == 2, "{waits:?}");
    assert!((0..5).all(|_| orders(RACE, first, 1).stuck == 1));
    let of_none = orders(NO_RACE, 0, 40);
    assert_eq!((of_none.completed, of_none.stuck, of_none.neither), (40, 0, 0), "{of_none:?}");
}
