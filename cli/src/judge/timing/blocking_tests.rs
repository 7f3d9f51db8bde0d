use super::*;
use lazyguard_core::api::EntryPoint;
use lazyguard_core::replay::Replay;
use lazyguard_core::trace::layout::{flag, image};
use lazyguard_core::trace::{HazardNumbers, Image, Lane, RawPayload, Record};

const MS: Nanos = 1_000_000;

fn entry(thread_number: u32, call: &str, kind: Kind, at: Nanos, took: Nanos) -> Entry {
    let entry_point = EntryPoint::by_symbol(call.as_bytes()).unwrap();
    let submits = entry_point.class().only_submits() && kind != Kind::Preload && kind != Kind::Hazard;
    let flags = if submits { flag::SUBMITTED } else { 0 };
    let function = u32::from(entry_point.class() == Class::Launch);
    let (stream, context) = (thread_number, 1);
    let record =
        Record { kind, flags, function, stream, context, entered: at, returned: at + took, ..Record::of(entry_point) };
    Entry { thread_number, thread: 4241 + thread_number, lane: Lane::Work, number: 0, record }
}

fn launch(at: Nanos, took: Nanos) -> Entry {
    entry(1, "cuLaunchKernel", Kind::Call, at, took)
}

/// An earlier launch, so that the launch under test is not the kernel's first.
fn warm() -> Entry {
    launch(1, 10)
}

fn other(call: &str, kind: Kind, at: Nanos, took: Nanos) -> Entry {
    entry(2, call, kind, at, took)
}

fn hazard(code: u16, at: Nanos) -> Entry {
    marked_hazard(code, 0, at)
}

fn marked_hazard(code: u16, marks: u16, at: Nanos) -> Entry {
    let noted = entry(1, "cuLaunchKernel", Kind::Hazard, at, 5);
    let raw = RawPayload::hazard(HazardNumbers { code, marks, class: 4, ..HazardNumbers::default() });
    Entry { record: Record { raw, ..noted.record }, ..noted }
}

fn account_of(entries: &[Entry], threshold: Nanos, missing: Missing) -> Blocking {
    let mut all = entries.to_vec();
    all.sort_by_key(|entry| entry.record.entered);
    let threads = [(1, "main".to_owned()), (2, "worker".to_owned())].into();
    let kernels = Kernels::named(&["one", "two"]);
    let mut fold = BlockingFold { kernels, threads, missing, threshold, ..BlockingFold::default() };
    let mut replay = Replay::default();
    all.iter().for_each(|entry| fold.see(&replay.see(entry)));
    let summary = fold.finish();
    assert_eq!(summary.groups.iter().map(|group| group.count).sum::<u64>(), summary.count);
    assert_eq!(summary.groups.iter().map(|group| group.total_ns).sum::<Nanos>(), summary.total_ns);
    assert_eq!(summary.histogram.iter().map(|class| class.count).sum::<u64>(), summary.count);
    summary
}

fn summary(entries: &[Entry]) -> Blocking {
    account_of(entries, THRESHOLD_NANOS, Missing::default())
}

type Told = (&'static str, Reason, bool, Option<(u32, &'static str)>);

fn reasons(entries: &[Entry]) -> Vec<Told> {
    let groups = summary(entries).groups;
    groups.into_iter().map(|g| (g.call, g.reason, g.certain, g.other.map(|o| (o.thread, o.call)))).collect()
}

#[test]
fn each_call_has_the_reason_that_the_record_shows() {
    use Kind::{Call, ColdFunction, ColdModule, Preload};
    let copy = |call: &str| entry(1, call, Call, 10 * MS, MS);
    let with = |entry: Entry, raw| Entry { record: Record { raw, ..entry.record }, ..entry };
    let library =
        |image| with(entry(1, "cuLibraryLoadData", Call, 5, 9), RawPayload::image(Image::of(image)).with_owner(7));
    let cold_module = with(entry(1, "cuLaunchKernel", ColdModule, 10 * MS, MS), RawPayload::about(7));
    for (entries, expect) in [
        (vec![warm(), entry(1, "cuLaunchKernel", ColdFunction, 10 * MS, MS)], (Reason::LoadsFunction, true)),
        (vec![warm(), library(image::MACHINE_CODE), cold_module], (Reason::LoadsModule, true)),
        (vec![warm(), library(image::PTX), cold_module], (Reason::Compiles, true)),
        (vec![warm(), launch(10 * MS, MS), hazard(106, 10 * MS)], (Reason::QueueFull, true)),
        (vec![warm(), launch(10 * MS, MS), hazard(107, 10 * MS)], (Reason::LocalMemory, true)),
        (vec![warm(), launch(10 * MS, MS), hazard(107, 9 * MS)], (Reason::NotKnown, false)),
        (vec![warm(), launch(10 * MS, MS), marked_hazard(107, 1, 10 * MS)], (Reason::NotKnown, false)),
        (vec![warm(), launch(10 * MS, MS), marked_hazard(107, 2, 10 * MS)], (Reason::LocalMemory, true)),
        (vec![copy("cuMemcpyHtoDAsync_v2"), hazard(105, 10 * MS)], (Reason::PageableMemory, true)),
        (vec![copy("cuMemcpyHtoDAsync_v2")], (Reason::PageableMemory, false)),
        (vec![copy("cuMemcpyDtoDAsync_v2")], (Reason::NotKnown, false)),
        (vec![copy("cuMemAllocAsync")], (Reason::PoolGrows, false)),
        (vec![launch(10 * MS, MS)], (Reason::FirstOfContext, false)),
        (vec![warm(), with_function(2, launch(10 * MS, MS))], (Reason::FirstLaunch, false)),
        (vec![warm(), launch(10 * MS, MS)], (Reason::NotKnown, false)),
        (
            vec![warm(), launch(10 * MS, 9 * MS), entry(1, "cuLaunchKernel", Preload, 11 * MS, 6 * MS)],
            (Reason::GuardLoads, true),
        ),
        (
            vec![warm(), launch(10 * MS, 9 * MS), entry(1, "cuLaunchKernel", Preload, 11 * MS, MS)],
            (Reason::NotKnown, false),
        ),
    ] {
        let got = reasons(&entries);
        assert!(
            matches!(got[..], [(_, reason, certain, None)] if (reason, certain) == expect),
            "{got:?} and not {expect:?}"
        );
    }
}

fn with_function(function: u32, entry: Entry) -> Entry {
    Entry { record: Record { function, ..entry.record }, ..entry }
}

#[test]
fn another_threads_call_that_held_the_lock_is_named() {
    use Kind::{Call, ColdModule, Preload};
    let held = launch(10 * MS, 90 * MS);
    let named = |call| Some((4243, call));
    for (by, expect) in [
        (other("cuModuleLoadData", ColdModule, 5 * MS, 95 * MS), (Reason::LockHeld, named("cuModuleLoadData"))),
        (other("cuMemFree_v2", Call, 5 * MS, 95 * MS), (Reason::LockHeld, named("cuMemFree"))),
        (other("cuLaunchKernel", Preload, 5 * MS, 95 * MS), (Reason::GuardLoadsElsewhere, named("cuLaunchKernel"))),
        // It began after the call did, ended after the call had returned, ended too early, or holds no lock.
        (other("cuModuleLoadData", ColdModule, 11 * MS, 89 * MS), (Reason::NotKnown, None)),
        (other("cuModuleLoadData", ColdModule, 5 * MS, 300 * MS), (Reason::NotKnown, None)),
        (other("cuModuleLoadData", ColdModule, 5 * MS, 30 * MS), (Reason::NotKnown, None)),
        (other("cuCtxSynchronize", Call, 5 * MS, 95 * MS), (Reason::NotKnown, None)),
    ] {
        let entries = [warm(), by, held];
        let got = summary(&entries).groups;
        let group = got.iter().find(|group| group.first_thread == 4242).unwrap();
        let told = group.other.as_ref().map(|other| (other.thread, other.call));
        assert_eq!((group.reason, told), expect, "{by:?}");
        if let Some(other) = &group.other {
            assert_eq!((other.thread_name.as_str(), other.max_ns), ("worker", 95 * MS));
            assert!(group.text.contains("thread 4243 \"worker\" in cu"), "{}", group.text);
        }
    }
    let elsewhere = other("cuModuleLoadData", ColdModule, 5 * MS, 95 * MS);
    let elsewhere = Entry { record: Record { context: 2, ..elsewhere.record }, ..elsewhere };
    assert_eq!(reasons(&[warm(), elsewhere, held])[0].1, Reason::NotKnown, "another context has a lock of its own");
}

#[test]
fn of_two_that_load_at_a_time_the_later_one_waits_for_the_earlier() {
    let early = other("cuLaunchKernel", Kind::ColdModule, 5 * MS, 95 * MS);
    let late = entry(1, "cuLaunchKernel", Kind::ColdFunction, 10 * MS, 91 * MS);
    let got = reasons(&[early, late]);
    let expect = [
        ("cuLaunchKernel", Reason::LoadsModule, true, None),
        ("cuLaunchKernel", Reason::LockHeld, true, Some((4243, "cuLaunchKernel"))),
    ];
    assert_eq!(got, expect);
}

#[test]
fn a_queue_is_taken_for_full_by_what_is_outstanding() {
    let fill = |count: u64| (0..count).map(|n| launch(n * 10, 5));
    let at = 20_000;
    let blocked = |count| fill(count).chain([launch(at, MS)]).collect::<Vec<_>>();
    assert_eq!(reasons(&blocked(899))[0].1, Reason::NotKnown);
    assert_eq!(reasons(&blocked(900))[0].1, Reason::QueueFull);
    let synchronized = fill(1500).chain([entry(1, "cuStreamSynchronize", Kind::Call, 19_000, 9), launch(at, MS)]);
    assert_eq!(reasons(&synchronized.collect::<Vec<_>>())[0].1, Reason::NotKnown);
}

#[test]
fn calls_of_one_reason_are_one_group_and_the_dearest_comes_first() {
    let cold = |at, took| entry(1, "cuLaunchKernel", Kind::ColdFunction, at, took);
    let entries = [
        warm(),
        cold(10 * MS, MS),
        cold(20 * MS, 30 * MS),
        launch(60 * MS, 40 * MS),
        launch(200 * MS, 99_999),
        hazard(101, 20 * MS),
    ];
    let summary = summary(&entries);
    let told: Vec<_> =
        summary.groups.iter().map(|g| (g.reason, g.count, g.total_ns, g.max_ns, g.first_at_ns)).collect();
    let expect =
        [(Reason::NotKnown, 1, 40 * MS, 40 * MS, 60 * MS), (Reason::LoadsFunction, 2, 31 * MS, 30 * MS, 10 * MS)];
    assert_eq!(told, expect);
    assert_eq!((summary.asynchronous_calls, summary.count, summary.max_ns), (5, 3, 40 * MS));
    assert_eq!((&summary.groups[1].codes, summary.groups[0].codes.len()), (&[Code::LG101].into(), 0));
    let classes: Vec<_> = summary.histogram.iter().map(|class| class.count).collect();
    assert_eq!(classes, [1, 2], "1 - 10 ms, 10 - 100 ms");
    assert_eq!(account_of(&entries, 50_000, Missing::default()).count, 4, "by another threshold");
}

#[test]
fn a_call_in_progress_has_held_the_host_until_the_end() {
    let hangs = Entry { record: Record { returned: 0, ..launch(10 * MS, 0).record }, ..launch(10 * MS, 0) };
    let summary = summary(&[warm(), hangs, other("cuCtxSynchronize", Kind::Call, 12 * MS, 500 * MS)]);
    let group = &summary.groups[0];
    assert_eq!((group.total_ns, group.in_progress), (502 * MS, 1));
}

#[test]
fn one_call_with_several_records_is_one() {
    let batch = |took| entry(1, "cuStreamBatchMemOp_v2", Kind::Call, 10 * MS, took);
    let summary = summary(&[batch(200_000), batch(MS)]);
    assert_eq!((summary.asynchronous_calls, summary.count, summary.total_ns), (1, 1, MS));
}

#[test]
fn where_launches_are_missing_none_is_taken_for_the_first() {
    let missing = Missing { work: 9, ..Missing::default() };
    let summary = account_of(&[launch(10 * MS, MS)], THRESHOLD_NANOS, missing);
    assert_eq!((summary.groups[0].reason, summary.missing), (Reason::NotKnown, missing));
}

#[test]
fn what_is_noted_now_and_then_holds_for_the_others() {
    let copy = |at| entry(1, "cuMemcpyHtoDAsync_v2", Kind::Call, at, MS);
    let summary = summary(&[
        copy(10 * MS),
        hazard(105, 10 * MS),
        copy(20 * MS),
        warm(),
        launch(30 * MS, MS),
        hazard(107, 30 * MS),
        launch(40 * MS, MS),
    ]);
    let told: Vec<_> = summary.groups.iter().map(|group| (group.reason, group.certain, group.count)).collect();
    assert_eq!(told, [(Reason::PageableMemory, true, 2), (Reason::LocalMemory, true, 2)]);
}
