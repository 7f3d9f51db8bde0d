//! The hazards of a recording are those that the process counted while it ran, up to counts that are lower bounds.

use crate::support::random::Random;
use crate::support::written::{bytes, tracker};
use lazyguard_core::api::{EntryPoint, Operation};
use lazyguard_core::diagnose::Code;
use lazyguard_core::hazard::{joined, Aggregator, Flags, Hazard, HazardEvent, Names, StreamClass};
use lazyguard_core::state::{FunctionKind, InFlight, Tracker};
use lazyguard_core::trace::layout::Shape;
use lazyguard_core::trace::read::Recording;
use lazyguard_core::trace::Lane;

fn shape(rare_events: usize) -> Shape {
    Shape { threads: 8, contexts: 2, streams: 4, text_bytes: 8192, segments: [3, 2, rare_events], records: 16 }
}

const CLASSES: [StreamClass; 3] = [StreamClass::None, StreamClass::NonBlocking, StreamClass::Legacy];
const CALLS: [&str; 4] = ["cuLaunchKernel", "cuLaunchKernel_ptsz", "cuMemFree_v2", "cuStreamWaitValue32_v2"];

/// Kernels, and those that have their numbers later; some read alike.
const NAMED: [&str; 6] = ["_Z1kPi", "_Z1kPf", "other", "late", "later", "_Z1kPd"];

/// One occurrence, at this time.
fn occurrence(random: &mut Random, thread: u32, at: u64, kernels: &[u32]) -> HazardEvent {
    let hazards: Vec<_> = Code::ALL.iter().copied().filter(|code| code.number() < 200).collect();
    let code = hazards[random.below(hazards.len())];
    let about_kernels = !matches!(code, Code::LG103 | Code::LG104 | Code::LG105);
    let class = CLASSES[random.below(3)];
    let earlier = at - random.below(1000) as u64;
    let later = InFlight { stream: 2, operation: Operation { at, entry_point: 96, function: 0 } };
    let before = InFlight {
        stream: random.below(3) as u32,
        operation: Operation { at: earlier, entry_point: 54, function: kernels[0] },
    };
    HazardEvent {
        code,
        flags: if random.below(4) == 0 { Flags::PREVENTED } else { Flags::default() },
        entry_point: EntryPoint::by_symbol(CALLS[random.below(4)].as_bytes()).expect("a symbol of the table"),
        thread,
        at: if code == Code::LG103 { earlier } else { at },
        noted: at + 50 + random.below(15_000) as u64,
        context: 1,
        stream: u32::from(class != StreamClass::None),
        class,
        function: if about_kernels { kernels[random.below(kernels.len())] } else { 0 },
        other: if code == Code::LG103 { later } else { before },
        caller: 0x40_0000 + random.below(3) as u64,
        path: 0,
        count: 0,
    }
}

/// What the shim does with an occurrence.
fn note(tracker: &Tracker, slot: u32, fold: &mut Aggregator, noted: &HazardEvent) {
    let names = Names {
        kernel: tracker.function_name(noted.function),
        other: tracker.function_name(noted.other.operation.function),
    };
    let noted = HazardEvent::of(&noted.record(), noted.thread).expect("a hazard");
    if let Some(count) = fold.note(&noted, names) {
        let slot = tracker.thread(slot).expect("a thread");
        slot.push(&HazardEvent { count, ..noted }.record(), Lane::RareEvents);
    }
}

fn run(seed: u64, occurrences: u64, rare_events: usize) -> (Vec<Hazard>, Vec<Hazard>) {
    let tracker = tracker(shape(rare_events));
    let threads = [101, 102].map(|thread| (thread, tracker.begin_thread(thread, 1).expect("a slot")));
    let mut random = Random::from_seed(seed);
    let mut fold = Aggregator::default();
    let mut kernels = Vec::new();
    for n in 0..occurrences {
        let at = 10_000 + n * 20_000;
        if n == 0 || n == occurrences / 2 {
            // The second time, the numbers mean other kernels.
            tracker.owner_gone(0xb001);
            kernels = (0..3)
                .map(|k| {
                    let number = tracker.function(0xf000 + k + n, FunctionKind::Kernel, 0xb001);
                    tracker.name_function(number, NAMED[(k + 3 * n.min(1)) as usize]);
                    tracker.introduce_function(number, at);
                    number
                })
                .collect();
        }
        let (thread, slot) = threads[random.below(2)];
        note(tracker, slot, &mut fold, &occurrence(&mut random, thread, at, &kernels));
    }
    let recording = Recording::open(bytes(tracker)).expect("a recording");
    assert_eq!(recording.defects(), []);
    let mut gathered = Aggregator::default();
    recording.records().for_each(|entry| gathered.see(&recording, &entry));
    (fold.hazards(false), gathered.hazards_of(&recording))
}

#[test]
fn the_recording_tells_what_the_process_counted() {
    for seed in 1..=20 {
        let (live, read) = run(seed, 600, 40);
        assert!(live.len() > 60, "{}", live.len());
        assert_eq!(live.len(), read.len(), "seed {seed}");
        for (live, read) in live.iter().zip(&read) {
            // Kernels with equal demangled names are counted apart and reported as one: each recorded count is at least half the real one.
            assert!(read.count <= live.count && live.count < 2 * read.count, "seed {seed}: {live:#?} {read:#?}");
            assert!(read.at_least || read.count == live.count, "seed {seed}: {live:#?} {read:#?}");
            let alike = Hazard { count: live.count, at_least: live.at_least, ..read.clone() };
            assert_eq!(&alike, live, "seed {seed}");
        }
        assert_eq!(joined(live.clone(), read), live, "seed {seed}");
    }
}

#[test]
fn where_records_are_gone_every_count_is_a_lower_bound() {
    let (live, read) = run(7, 600, 4);
    assert!(!read.is_empty() && read.len() < live.len());
    assert!(read.iter().all(|hazard| hazard.at_least));
    for read in &read {
        let live = live.iter().find(|live| live.key() == read.key()).expect("it was counted");
        assert!(read.count <= live.count);
    }
    // Beside the file of a process that was killed before it wrote the last of them.
    let all = joined(live[..3].to_vec(), read.clone());
    assert!(read.iter().all(|read| all.iter().any(|one| one.key() == read.key() && one.count >= read.count)));
    assert!(all.windows(2).all(|pair| pair[0].first.at <= pair[1].first.at));
}
