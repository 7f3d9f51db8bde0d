use super::*;

const MS: Nanos = 1_000_000;
const SECOND: Nanos = 1_000 * MS;

/// A process that submits and waits every `pause`, looked at each time, until it has done so `periods` times.
fn regular(periods: u64, pause: Nanos) -> Rhythm {
    let mut rhythm = Rhythm::default();
    for at in (1..=periods + 1).map(|number| number * pause) {
        rhythm.look(at, at + 1, SECOND);
    }
    rhythm
}

#[test]
fn a_process_has_stopped_after_three_thresholds_and_ten_pauses() {
    let rhythm = regular(20, 10 * MS);
    let last = 210 * MS;
    assert!(!rhythm.has_stopped(last + 3 * SECOND - 1, 0, SECOND));
    assert!(rhythm.has_stopped(last + 3 * SECOND, 0, SECOND));
    assert!(!rhythm.has_stopped(last + 3 * SECOND, last + SECOND, SECOND), "it was suspended meanwhile");
    let rhythm = regular(20, 700 * MS);
    let last = 21 * 700 * MS;
    assert!(!rhythm.has_stopped(last + 7 * SECOND - 1, 0, SECOND));
    assert!(rhythm.has_stopped(last + 7 * SECOND, 0, SECOND));
}

#[test]
fn a_process_that_has_only_begun_has_not_stopped() {
    let hours = 36_000 * SECOND;
    assert!(!Rhythm::default().has_stopped(hours, 0, SECOND));
    assert!(!regular(19, 10 * MS).has_stopped(hours, 0, SECOND));
}

#[test]
fn without_waits_a_minute_of_submissions_is_a_rhythm() {
    let submits = |count: u64, pause| {
        let mut rhythm = Rhythm::default();
        (1..=count).for_each(|number| _ = rhythm.look(number * pause, 0, 30 * SECOND));
        rhythm.has_stopped(36_000 * SECOND, 0, 30 * SECOND)
    };
    assert!(submits(61, SECOND) && !submits(60, SECOND));
    assert!(!submits(3, 40 * SECOND), "few submissions a long time apart");
}

#[test]
fn a_long_pause_at_the_start_begins_the_count_anew_and_a_later_one_counts() {
    let mut rhythm = regular(10, 10 * MS);
    // The model has moved to the device; then the data are read.
    let begin = 60 * SECOND;
    for at in (0..=20).map(|number| begin + number * 10 * MS) {
        assert!(!rhythm.has_stopped(at + 3 * SECOND, 0, SECOND));
        rhythm.look(at, at + 1, SECOND);
    }
    let last = begin + 200 * MS;
    assert!(rhythm.has_stopped(last + 3 * SECOND, 0, SECOND));
    // It evaluates on the host, and goes on.
    let again = last + 20 * SECOND;
    assert!(rhythm.look(again, again + 1, SECOND) && !rhythm.look(again, again + 1, SECOND));
    assert!(
        !rhythm.has_stopped(again + 199 * SECOND, 0, SECOND) && rhythm.has_stopped(again + 200 * SECOND, 0, SECOND)
    );
}

fn evidence(class: Class, moves: bool) -> Evidence {
    let (sentence, none) = ("waits".to_owned(), Vec::new());
    Evidence {
        process: 7,
        class,
        moves,
        sentence,
        of_job: false,
        peer: None,
        python: Vec::new(),
        lacks: none.clone(),
        names: none,
    }
}

fn frame(line: u32) -> PythonFrame {
    PythonFrame { file: "data.py".to_owned(), line, function: "collate".to_owned() }
}

#[test]
fn the_class_tells_a_stall_from_rest() {
    use Class as C;
    let never = u64::MAX;
    for (class, moves, first, later) in [
        (C::File, false, Outcome::Stalled, 0),
        (C::File, true, Outcome::Slow, never),
        (C::Child, false, Outcome::Stalled, 0),
        (C::Child, true, Outcome::Slow, 10),
        (C::Lock, false, Outcome::Stalled, 0),
        (C::Peer, false, Outcome::Stalled, 0),
        (C::Peer, true, Outcome::Slow, never),
        (C::Computes, true, Outcome::Slow, 10),
        (C::Compiles, true, Outcome::Slow, 10),
        (C::Collects, true, Outcome::Slow, 10),
        (C::Stopped, false, Outcome::Rests, never),
        (C::Starved, false, Outcome::Stalled, 0),
        (C::Starved, true, Outcome::Slow, never),
        (C::Gone, false, Outcome::Stalled, 0),
        (C::Ends, false, Outcome::Slow, 10),
        (C::Rests, false, Outcome::Rests, never),
        (C::Waits, false, Outcome::Slow, never),
    ] {
        let at_a_line = Evidence { python: vec![frame(88)], ..evidence(class, moves) };
        let of = |lasts, same_from| Outcome::of(&at_a_line, lasts, same_from);
        assert_eq!(of(3 * SECOND, None), first, "{class}");
        let stalled = |times: u64| of(times.saturating_mul(3 * SECOND), Some(3 * SECOND)) == Outcome::Stalled;
        match later {
            0 => assert!(stalled(1), "{class}"),
            10 => assert!(!stalled(9) && stalled(10), "{class}"),
            _ => assert!(!stalled(1000), "{class}"),
        }
    }
    let unknown = Outcome::of(&evidence(Class::Computes, true), 1000 * SECOND, Some(SECOND));
    assert_eq!(unknown, Outcome::Slow, "its line is not known");
}

#[test]
fn two_looks_are_the_same_at_one_line_of_python() {
    let at = |line| Evidence { python: vec![frame(line)], ..evidence(Class::Computes, true) };
    assert!(is_same(&at(88), &at(88)) && !is_same(&at(88), &at(89)));
    assert!(!is_same(&evidence(Class::Computes, true), &evidence(Class::Waits, true)));
}
