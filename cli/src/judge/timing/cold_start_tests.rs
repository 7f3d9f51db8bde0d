use super::*;
use lazyguard_core::api::EntryPoint;
use lazyguard_core::replay::Replay;
use lazyguard_core::trace::layout::flag;
use lazyguard_core::trace::{Preload, RawPayload};

const MS: Nanos = 1_000_000;
const US: Nanos = 1_000;

/// A process that was loaded 10 ms after its start, asked for the driver 20 ms later, got it after 30, and was armed after 5.
fn began() -> Beginning {
    let start = StartFacts {
        loaded: 1_010 * MS,
        init_entered: 1_030 * MS,
        init_returned: 1_060 * MS,
        before_loaded_micros: 10_000,
        arming_micros: 5_000,
    };
    Beginning::of(&start, 1_062 * MS, 1_750_000_000 * 1_000 * MS)
}

fn entry(call: &str, kind: Kind, at: Nanos, took: Nanos) -> Entry {
    let entry_point = EntryPoint::by_symbol(call.as_bytes()).unwrap();
    let record = Record { kind, entered: at, returned: at + took, context: 1, ..Record::of(entry_point) };
    Entry { thread_number: 1, thread: 4242, lane: Lane::Work, number: 0, record }
}

fn launch(function: u32, at: Nanos, took: Nanos) -> Entry {
    of_function(function, entry("cuLaunchKernel", Kind::Call, at, took))
}

fn of_function(function: u32, entry: Entry) -> Entry {
    Entry { record: Record { function, flags: flag::SUBMITTED, ..entry.record }, ..entry }
}

fn by(thread_number: u32, entry: Entry) -> Entry {
    Entry { thread_number, thread: 4241 + thread_number, ..entry }
}

fn summary(entries: &[Entry], missing: Missing, end: Nanos) -> ColdStart {
    let mut all = entries.to_vec();
    all.sort_by_key(|entry| entry.record.entered);
    let mut fold = ColdStartFold::of(Kernels::named(&["one", "two"]), began(), missing, end);
    let mut replay = Replay::default();
    all.iter().for_each(|entry| fold.see(&replay.see(entry)));
    let summary = fold.finish();
    let sum: Nanos = summary.parts.iter().map(|part| part.ns).sum();
    assert_eq!(sum, summary.steady.until_ns, "the parts are the whole: {summary:#?}");
    summary
}

fn of(summary: &ColdStart, part: Part) -> Nanos {
    summary.parts.iter().find(|spent| spent.part == part).map_or(0, |spent| spent.ns)
}

/// A hundred launches of a kernel that take 4 us each, one a millisecond.
fn steady_from(at: Nanos) -> impl Iterator<Item = Entry> {
    (1..=100).map(move |n| launch(1, at + n * MS, 4_096))
}

#[test]
fn each_part_has_its_time_and_what_comes_after_the_start_has_none() {
    let mut entries = vec![
        entry("cuDevicePrimaryCtxRetain", Kind::Call, 10 * MS, 100 * MS),
        entry("cuModuleLoadData", Kind::ColdModule, 120 * MS, 10 * MS),
        entry("cuMemAlloc_v2", Kind::Call, 140 * MS, MS),
        of_function(1, entry("cuLaunchKernel", Kind::ColdFunction, 150 * MS, 2 * MS)),
        entry("cuCtxSynchronize", Kind::Call, 152 * MS, 8 * MS),
        launch(2, 160 * MS, 50 * US),
        entry("cuCtxSynchronize", Kind::Call, 200 * MS, 50 * MS),
    ];
    entries.extend(steady_from(160 * MS));
    let summary = summary(&entries, Missing::default(), 300 * MS);
    let steady = &summary.steady;
    assert!(steady.reached && summary.from_process_start, "{steady:?}");
    assert_eq!((summary.armed_ns, steady.until_ns), (62 * MS, 62 * MS + 160 * MS + 50 * US));
    assert_eq!(summary.began_unix_ns, 1_750_000_000 * 1_000 * MS - 62 * MS);
    for (part, expect) in [
        (Part::Loader, 10 * MS),
        (Part::Program, 20 * MS),
        (Part::DriverInit, 30 * MS),
        (Part::Arming, 5 * MS),
        (Part::Context, 100 * MS),
        (Part::Modules, 10 * MS),
        (Part::Functions, 2 * MS),
        (Part::Allocations, MS),
        (Part::FirstLaunches, 50 * US),
        (Part::Waits, 8 * MS),
        (Part::Host, 160 * MS - 3 * MS - 121 * MS),
    ] {
        assert_eq!(of(&summary, part), expect, "{part:?} of {:#?}", summary.parts);
    }
}

#[test]
fn the_first_launch_stands_beside_the_median_of_the_others() {
    let mut entries = vec![
        of_function(1, entry("cuLaunchKernel", Kind::ColdFunction, 10 * MS, 2 * MS)),
        launch(2, 20 * MS, 500 * US),
        launch(1, 30 * MS, 700 * MS),
    ];
    entries.extend(steady_from(800 * MS));
    let summary = summary(&entries, Missing::default(), 1000 * MS);
    let [one, two] = &summary.kernels[..] else { panic!("{:?}", summary.kernels) };
    assert_eq!(
        (one.kernel.as_str(), one.first_ns, one.launches, one.loaded),
        ("one", 2 * MS, 102, Some(Part::Functions))
    );
    let steady = one.steady_ns.unwrap();
    assert!(steady.abs_diff(4_096) <= 256, "{steady}");
    assert_eq!(one.difference_ns, Some(2 * MS - steady));
    assert_eq!((two.kernel.as_str(), two.first_ns, two.steady_ns, two.launches), ("two", 500 * US, None, 1));
    assert!(one.first_is_known && two.first_is_known);
}

#[test]
fn what_the_guard_loads_in_a_call_counts_once_and_is_not_the_kernels() {
    let preload = entry("cuLaunchKernel", Kind::Preload, 11 * MS, 7 * MS);
    let raw = RawPayload::preload(Preload { loaded: 30, refused: 2, left_out: 1, owner: 0 });
    let preload = Entry { record: Record { raw, ..preload.record }, ..preload };
    let mut entries = vec![launch(1, 10 * MS, 10 * MS), preload];
    entries.extend(steady_from(20 * MS));
    let summary = summary(&entries, Missing::default(), 200 * MS);
    assert_eq!((of(&summary, Part::Preload), of(&summary, Part::FirstLaunches)), (7 * MS, 3 * MS));
    assert_eq!(summary.kernels[0].first_ns, 3 * MS);
    assert_eq!(summary.ahead, Ahead { times: 1, kernels: 30, not_loaded: 3, ns: 7 * MS });
}

#[test]
fn threads_at_the_same_time_are_counted_once() {
    let mut entries = vec![
        entry("cuModuleLoadData", Kind::ColdModule, 10 * MS, 100 * MS),
        by(2, entry("cuModuleLoadData", Kind::ColdModule, 20 * MS, 100 * MS)),
        by(3, entry("cuCtxSynchronize", Kind::Call, 5 * MS, 200 * MS)),
    ];
    entries.extend(steady_from(120 * MS));
    let summary = summary(&entries, Missing::default(), 300 * MS);
    assert_eq!(of(&summary, Part::Modules), 110 * MS);
    assert_eq!(of(&summary, Part::Waits), 5 * MS + MS, "before the loads, and until the first launch");
    let loads = &summary.loads[0];
    assert_eq!((loads.part, loads.sum.count, loads.sum.ns), (Part::Modules, 2, 200 * MS), "each load by itself");
}

#[test]
fn a_run_that_is_too_short_says_so_and_its_parts_are_the_whole_run() {
    let entries = [entry("cuModuleLoadData", Kind::ColdModule, 10 * MS, 10 * MS), launch(1, 30 * MS, 10 * US)];
    let summary = summary(&entries, Missing::default(), 40 * MS);
    let steady = &summary.steady;
    assert_eq!((steady.reached, steady.until_ns), (false, 102 * MS));
    assert_eq!(steady.last_of_start_ns, Some(62 * MS + 30 * MS + 10 * US));
    assert_eq!(steady.submissions_after, 0, "the launch itself is of the start");
}

#[test]
fn a_call_in_progress_lasts_until_the_end() {
    let hangs = entry("cuModuleLoadData", Kind::ColdModule, 10 * MS, 0);
    let hangs = Entry { record: Record { returned: 0, ..hangs.record }, ..hangs };
    let summary = summary(&[hangs], Missing::default(), 510 * MS);
    assert_eq!((summary.steady.reached, of(&summary, Part::Modules)), (false, 500 * MS));
    assert_eq!(summary.steady.last_of_start_ns, None, "it goes on");
    assert!(summary.longest[0].in_progress && summary.longest[0].took_ns == 500 * MS, "{:?}", summary.longest);
}

#[test]
fn where_launches_have_been_overtaken_only_a_load_tells_that_one_is_the_first() {
    let missing = Missing { work: 12, ..Missing::default() };
    let mut entries =
        vec![of_function(2, entry("cuLaunchKernel", Kind::ColdFunction, 10 * MS, MS)), launch(2, 4000 * MS, 4 * US)];
    entries.extend(steady_from(4000 * MS));
    let summary = summary(&entries, missing, 5000 * MS);
    let known: Vec<_> = summary.kernels.iter().map(|k| (k.kernel.as_str(), k.first_is_known)).collect();
    assert_eq!(known, [("two", true), ("one", false)]);
    assert_eq!(summary.steady.until_ns, 62 * MS + 11 * MS, "nothing was loaded for seconds after that");
    assert_eq!(summary.missing, missing);
}

#[test]
fn recordings_that_do_not_tell_the_beginning_begin_where_the_guard_was_armed() {
    for start in [
        StartFacts::default(),
        StartFacts { loaded: 5, init_entered: 4, init_returned: 6, before_loaded_micros: 1, arming_micros: 1 },
        StartFacts {
            loaded: u64::MAX,
            init_entered: 0,
            init_returned: 0,
            before_loaded_micros: u32::MAX,
            arming_micros: 9,
        },
    ] {
        assert_eq!(Beginning::of(&start, 77, 99), Beginning { armed_unix: 99, ..Beginning::default() }, "{start:?}");
    }
}
