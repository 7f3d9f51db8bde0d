//! How long things took, without keeping each of them.

use lazyguard_core::Nanos;
use serde::Serialize;
use std::collections::BTreeMap;

/// Buckets in an octave: values read back are right to about 6 %.
const PARTS: u64 = 8;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Durations {
    /// Counts by octave and part of it, without empty ones: every kernel has a histogram.
    counts: BTreeMap<u16, u64>,
    count: u64,
}

impl Durations {
    pub fn add(&mut self, nanos: Nanos) {
        *self.counts.entry(bucket(nanos)).or_default() += 1;
        self.count += 1;
    }

    pub fn median(&self) -> Option<Nanos> {
        let middle = self.count.checked_sub(1)? / 2;
        let mut before = 0;
        self.counts.iter().find_map(|(&bucket, &count)| {
            before += count;
            (before > middle).then(|| middle_of(bucket))
        })
    }
}

fn bucket(nanos: Nanos) -> u16 {
    if nanos < PARTS {
        return nanos as u16;
    }
    let octave = u64::from(nanos.ilog2());
    let part = (nanos >> (octave - 3)) - PARTS;
    (octave * PARTS + part) as u16
}

fn middle_of(bucket: u16) -> Nanos {
    let (octave, part) = (u64::from(bucket) / PARTS, u64::from(bucket) % PARTS);
    if octave < 3 {
        return u64::from(bucket);
    }
    let width = 1 << (octave - 3);
    (PARTS + part) * width + width / 2
}

/// The upper ends of the classes of [`Decades`], in nanoseconds, and what the classes are called. The last one has no end.
const DECADES: [(Nanos, &str); 8] = [
    (10_000, "< 10 us"),
    (100_000, "10 - 100 us"),
    (1_000_000, "100 us - 1 ms"),
    (10_000_000, "1 - 10 ms"),
    (100_000_000, "10 - 100 ms"),
    (1_000_000_000, "100 ms - 1 s"),
    (10_000_000_000, "1 - 10 s"),
    (Nanos::MAX, ">= 10 s"),
];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decades([u64; DECADES.len()]);

/// One power of ten of a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Decade {
    /// Its name.
    pub label: &'static str,
    /// The least duration.
    pub from_ns: Nanos,
    /// How many.
    pub count: u64,
}

impl Decades {
    pub fn of(nanos: Nanos) -> Self {
        let class = DECADES.iter().position(|(end, _)| nanos < *end).unwrap_or(DECADES.len() - 1);
        Self(std::array::from_fn(|n| u64::from(n == class)))
    }

    pub fn merge(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(own, theirs)| *own += theirs);
    }

    pub fn classes(&self) -> Vec<Decade> {
        let used = || (0..DECADES.len()).filter(|n| self.0[*n] > 0);
        let within = used().next().unwrap_or(0)..used().next_back().map_or(0, |last| last + 1);
        let from = |n: usize| n.checked_sub(1).map_or(0, |before| DECADES[before].0);
        within.map(|n| Decade { label: DECADES[n].1, from_ns: from(n), count: self.0[n] }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_right_to_a_sixteenth_wherever_it_lies() {
        for expect in [0, 1, 7, 8, 9, 15, 16, 100, 999, 5_000, 77_777, 3_000_000, 123_456_789_012, u64::MAX / 3] {
            let mut durations = Durations::default();
            [0, expect, expect, u64::MAX].iter().for_each(|&nanos| durations.add(nanos));
            let got = durations.median().unwrap();
            assert!(got.abs_diff(expect) <= expect / 16, "{got} for {expect}");
        }
        assert_eq!(Durations::default().median(), None);
    }

    #[test]
    fn one_long_one_does_not_move_the_median() {
        let mut durations = Durations::default();
        durations.add(1_000_000_000);
        (0..9).for_each(|_| durations.add(4_096));
        assert_eq!((durations.count, durations.median().map(|m| m / 1000)), (10, Some(4)));
    }

    #[test]
    fn classes_are_powers_of_ten_and_their_counts_add_up() {
        let mut decades = Decades::default();
        for nanos in [100_000, 999_999, 1_000_000, 50_000_000, u64::MAX] {
            decades.merge(&Decades::of(nanos));
        }
        let classes = decades.classes();
        let told: Vec<_> = classes.iter().map(|class| (class.label, class.count)).collect();
        let expect = [
            ("100 us - 1 ms", 2),
            ("1 - 10 ms", 1),
            ("10 - 100 ms", 1),
            ("100 ms - 1 s", 0),
            ("1 - 10 s", 0),
            (">= 10 s", 1),
        ];
        assert_eq!(told, expect);
        let mut twice = decades;
        twice.merge(&decades);
        assert_eq!(twice.classes()[0].count, 4);
        assert_eq!(Decades::default().classes(), []);
    }
}
