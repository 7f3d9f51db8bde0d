use super::*;

#[test]
fn a_turn_that_another_thread_keeps_is_waited_for_once() {
    let turn = Turn::default();
    assert!(turn.is_won(1, Patience::Short));
    assert_eq!(turn.take(1, Patience::Long, || ()), None, "its own, which no wait would end");
    assert_eq!(turn.0.load(Ordering::Relaxed), 1, "and so none has waited");
    assert_eq!(turn.take(2, Patience::Short, || ()), None);
    assert_eq!(turn.0.load(Ordering::Relaxed), 1 | 1 << 32, "others look once from now on");
    assert_eq!(turn.take(0, Patience::Short, || ()), None);
    assert_eq!(turn.take(2, Patience::Long, || ()), None);
    assert_eq!(turn.0.load(Ordering::Relaxed), 1 | 1 << 32 | 1 << 33);
    turn.give_back(2);
    assert_eq!(turn.take(2, Patience::Short, || ()), None, "it was not the second thread's");
    turn.give_back(1);
    assert_eq!(turn.take(2, Patience::Short, || 7), Some(7));
    assert_eq!(turn.take(0, Patience::Short, || 8), Some(8), "given back at its end");
}

#[test]
fn a_turn_is_given_back_by_a_thread_that_panics_in_it() {
    let turn = Turn::default();
    let panics = std::panic::AssertUnwindSafe(|| turn.take(1, Patience::Short, || panic!("on purpose")));
    assert!(std::panic::catch_unwind(panics).is_err());
    assert_eq!(turn.take(2, Patience::Short, || 7), Some(7));
}

#[test]
fn a_turn_that_ends_is_had_by_who_waits() {
    static TURN: Turn = Turn(AtomicU64::new(0));
    static TAKEN: AtomicU64 = AtomicU64::new(0);
    let add = |thread: u32| {
        (0..1000).filter(move |_| {
            let step = || TAKEN.store(TAKEN.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            TURN.take(thread, Patience::Long, step).is_some()
        })
    };
    let threads = [1, 2, 3].map(|thread| std::thread::spawn(move || add(thread).count() as u64));
    let taken: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert_eq!(taken, TAKEN.load(Ordering::Relaxed), "two had it at a time");
}
