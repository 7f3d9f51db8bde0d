//! Programs from a seed, by proptest, so that one that shows something can be made smaller.

use crate::program::{Program, Step};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

const MOST_STEPS: usize = 18;
const KERNELS: u64 = 15;
/// The last one is in device memory.
const WORDS: u64 = 4;
const EVENTS: u64 = 3;

/// A program, and the smaller ones that it can become.
pub type Tree = Box<dyn ValueTree<Value = Program>>;

/// The program of this number under a seed.
///
/// # Panics
///
/// Never: the strategies reject nothing.
pub fn tree(seed: u64, number: u64) -> Tree {
    programs().new_tree(&mut runner(seed, number)).unwrap_or_else(|reason| panic!("no program: {reason}"))
}

pub(crate) fn runner(seed: u64, number: u64) -> TestRunner {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes[8..16].copy_from_slice(&number.to_le_bytes());
    TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

/// A number drawn from a seed, for what is no part of the program.
pub fn drawn(seed: u64, number: u64, below: usize) -> usize {
    let mut bytes = [1; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes[8..16].copy_from_slice(&number.to_le_bytes());
    TestRng::from_seed(RngAlgorithm::ChaCha, &bytes).random_range(0..below)
}

fn programs() -> BoxedStrategy<Program> {
    let streams = vec(prop_oneof![6 => Just("nonblocking"), 3 => Just("blocking"), 1 => Just("legacy")], 1..=4);
    let warm = vec(0..KERNELS, 0..=10);
    let threads = prop_oneof![4 => Just(1usize), 4 => Just(2), 2 => Just(3), 1 => Just(4)];
    (streams, warm, threads, any::<bool>())
        .prop_flat_map(|(streams, warm, threads, waits_at_the_end)| {
            let steps = vec((0..threads, step(streams.len() as u64)), 2..=MOST_STEPS);
            (Just(streams), Just(warm), steps, Just(waits_at_the_end))
        })
        .prop_map(|(streams, mut warm, steps, waits_at_the_end)| {
            warm.sort_unstable();
            warm.dedup();
            let mut steps: Vec<_> =
                steps.into_iter().map(|(thread, (what, with))| Step { thread, what, with }).collect();
            if waits_at_the_end {
                steps.push(Step { thread: 0, what: "synchronize_context", with: Vec::new() });
            }
            Program { streams, warm, steps }
        })
        .boxed()
}

pub(crate) type Made = (&'static str, Vec<(&'static str, u64)>);

/// A step that takes these arguments, each from a range.
pub(crate) fn plain(what: &'static str, arguments: &[(&'static str, u64)]) -> BoxedStrategy<Made> {
    arguments
        .iter()
        .map(|(name, below)| (Just(*name), first_of(name)..first_of(name) + below))
        .collect::<Vec<_>>()
        .prop_map(move |with| (what, with))
        .boxed()
}

/// Words begin at 0, and wait for more.
fn first_of(name: &str) -> u64 {
    u64::from(name == "value" || name == "ms")
}

/// Milliseconds that a kernel lasts: most end soon, a few outlast the threshold.
pub(crate) fn busy() -> BoxedStrategy<Option<u64>> {
    prop_oneof![10 => Just(None), 6 => (1..30u64).prop_map(Some), 1 => (700..2200u64).prop_map(Some)].boxed()
}

fn launch(what: &'static str, streams: u64) -> BoxedStrategy<Made> {
    let until = prop_oneof![3 => Just(None), 2 => (0..WORDS, 1..3u64).prop_map(Some)];
    let raise = prop_oneof![3 => Just(None), 2 => (0..WORDS, 1..4u64).prop_map(Some)];
    (0..streams, 0..KERNELS, until, busy(), raise)
        .prop_map(move |(stream, kernel, until, busy, raise)| {
            let mut with = vec![("stream", stream), ("kernel", kernel)];
            with.extend(until.into_iter().flat_map(|(word, value)| [("until", word), ("reaches", value)]));
            with.extend(busy.map(|busy| ("busy", busy)));
            with.extend(raise.into_iter().flat_map(|(word, value)| [("raise", word), ("to", value)]));
            (what, with)
        })
        .boxed()
}

fn host(streams: u64) -> BoxedStrategy<Made> {
    (0..streams, prop_oneof![Just(None), (0..2u64).prop_map(Some)])
        .prop_map(|(stream, gate)| {
            let mut with = vec![("stream", stream)];
            with.extend(gate.map(|gate| ("gate", gate)));
            ("host", with)
        })
        .boxed()
}

fn step(streams: u64) -> BoxedStrategy<Made> {
    let (stream, word, event) = (("stream", streams), ("word", WORDS), ("event", EVENTS));
    let host_word = ("word", WORDS - 1);
    let waits = prop_oneof![
        6 => plain("synchronize", &[stream]),
        3 => plain("synchronize_context", &[]),
        3 => plain("synchronize_event", &[event]),
        1 => plain("poll_event", &[event]),
        2 => plain("await", &[host_word, ("value", 2)]),
        1 => plain("pass", &[("gate", 2)]),
        2 => plain("lock", &[("lock", 2)]),
        2 => plain("unlock", &[("lock", 2)]),
        2 => plain("sleep", &[("ms", 60)]),
    ];
    let in_streams = prop_oneof![
        8 => plain("record", &[event, stream]),
        8 => plain("wait_event", &[stream, event]),
        6 => plain("wait_value", &[stream, word, ("value", 2)]),
        7 => plain("write_value", &[stream, word, ("value", 3)]),
        3 => host(streams),
        2 => launch("graph", streams),
        2 => plain("copy_async", &[stream]),
        2 => plain("memset", &[stream]),
        1 => plain("pool", &[stream]),
    ];
    let in_contexts = prop_oneof![
        2 => plain("allocate", &[]),
        3 => plain("free", &[("allocation", 4)]),
        3 => plain("load_module", &[]),
        1 => plain("unload_module", &[]),
        1 => plain("copy", &[]),
        1 => plain("copy_back", &[]),
    ];
    let on_host = prop_oneof![4 => plain("store", &[host_word, ("value", 3)]), 2 => plain("open", &[("gate", 2)])];
    prop_oneof![6 => launch("launch", streams), 8 => in_streams, 5 => waits, 2 => in_contexts, 2 => on_host].boxed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::KINDS;
    use std::collections::BTreeSet;

    #[test]
    fn every_kind_of_step_comes_and_is_read_again() {
        let mut seen = BTreeSet::new();
        for number in 0..400 {
            let program = tree(1, number).current();
            assert_eq!(Program::parse(&program.to_string()).as_ref(), Ok(&program));
            seen.extend(program.steps.iter().map(|step| step.what));
        }
        // One that polls a default stream would not be known to wait. The last ones are those of jobs.
        let never = ["poll", "all_reduce", "send", "receive", "exchange"];
        let expected: BTreeSet<_> = KINDS.iter().map(|(what, _)| *what).filter(|what| !never.contains(what)).collect();
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_seed_gives_the_same_program_again() {
        assert_eq!(tree(7, 3).current(), tree(7, 3).current());
        assert_ne!(tree(7, 3).current(), tree(7, 4).current());
    }
}
