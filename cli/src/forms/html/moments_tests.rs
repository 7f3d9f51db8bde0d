use super::*;
use crate::judge::test_samples::hanging_in;
use crate::judge::Stood;
use lazyguard_core::api::EntryPoint;
use lazyguard_core::diagnose::Code;
use lazyguard_core::trace::Lane as RecordLane;
use lazyguard_core::trace::Record;

const SECOND: u64 = 1_000_000_000;
const ZERO: u64 = 100 * SECOND;

fn window() -> Window {
    Window { zero: ZERO, zero_is: "", from: ZERO - BEFORE, until: ZERO + 30 * SECOND, all_blocked: ZERO }
}

fn call(symbol: &str, what: What, start: u64, took: Option<u64>) -> Growing {
    let record = Record {
        entered: start,
        returned: start + took.unwrap_or(0),
        ..Record::of(EntryPoint::by_symbol(symbol.as_bytes()).unwrap())
    };
    let entry = Entry { thread_number: 1, thread: 7, lane: RecordLane::Work, number: 0, record };
    Growing { what, start, end: took.map(|took| start + took), entry, took: took.unwrap_or(0), count: 1 }
}

/// Five seconds of training: a launch each tenth of a millisecond, a load each ten milliseconds, and a call that does not return.
fn busy(share: &Share) -> (Thread, usize) {
    let mut thread = Thread::default();
    let mut count = 0;
    for number in 0..50_000 {
        let start = ZERO - BEFORE + number * 100_000;
        thread.push(&window(), share, call("cuLaunchKernel", What::Submission, start, Some(3_000)));
        count += 1;
        if number % 100 == 0 {
            thread.push(&window(), share, call("cuModuleLoadData", What::Load, start + 4_000, Some(5_000)));
            count += 1;
        }
    }
    thread.push(&window(), share, call("cuStreamSynchronize", What::Blocked, ZERO, None));
    (thread, count + 1)
}

#[test]
fn a_busy_thread_is_thinned_and_no_call_is_lost_uncounted() {
    for slices in [30, 250] {
        let share = Share { lanes: 1, slices, names_process: false };
        let (mut thread, calls) = busy(&share);
        thread.thin(slices);
        assert!(
            thread.slices.len() <= slices && thread.slices.len() > slices / 3,
            "{} of {slices}",
            thread.slices.len()
        );
        let kept: usize = thread.slices.iter().map(|slice| slice.count).sum();
        assert_eq!(kept + thread.left_out, calls);
        let last = thread.slices.last().unwrap();
        assert_eq!((last.what, last.end, last.count), (What::Blocked, None, 1));
        assert!(thread.slices.iter().any(|slice| slice.what == What::Load), "loads stay apart");
        let loads = thread.slices.iter().filter(|slice| slice.what == What::Load).map(|slice| slice.count);
        assert!(loads.sum::<usize>() <= 500, "launches are no loads");
        assert!(thread.slices.is_sorted_by_key(|slice| slice.start));
    }
}

#[test]
fn what_is_far_apart_stays_apart() {
    let share = Share { lanes: 1, slices: 250, names_process: false };
    let mut thread = Thread::default();
    for number in 0..100 {
        thread.push(
            &window(),
            &share,
            call("cuLaunchKernel", What::Submission, ZERO - SECOND / 10 + number * 900_000, Some(2_000)),
        );
    }
    // The last ones before the hang are single; those a tenth of a second before are not further apart than their distance allows.
    assert!(thread.slices.iter().rev().take(10).all(|slice| slice.count == 1));
    assert_eq!(thread.slices.iter().map(|slice| slice.count).sum::<usize>(), 100);
}

#[test]
fn time_zero_is_no_blocked_call_where_there_is_none() {
    let process = Process { armed_unix_nanos: ZERO, ..Process::default() };
    let mut hanging = hanging_in(process, Code::LG203, Vec::new());
    let zero_is = |process: &Process| Window::of(std::slice::from_ref(process)).unwrap().zero_is;
    assert_eq!(zero_is(&hanging), "when the first of the blocked calls was entered");
    if let Some(Stood::Hang(report)) = &mut hanging.stood {
        report.snapshot.blocked.clear();
    }
    assert_eq!(zero_is(&hanging), "the last call before all stood still");
    assert_eq!(zero_is(&Process { stood: None, ..hanging }), "the newest moment");
}
